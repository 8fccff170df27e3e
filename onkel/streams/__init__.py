"""Streams: seeded generators of data that drifts, switches and breaks."""

from onkel.streams.mixtures import Stream, drifting_classes, switching_classes
from onkel.streams.plant import KINDS, Fault, Plant, sensors

__all__ = [
    "KINDS",
    "Fault",
    "Plant",
    "Stream",
    "drifting_classes",
    "sensors",
    "switching_classes",
]
