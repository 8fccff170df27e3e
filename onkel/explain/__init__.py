"""Why this score? What the stored terms and the features did, as data and as a sentence."""

from __future__ import annotations

from onkel.explain.outcome import (
    AlertExplanation,
    ClassExplanation,
    Explanation,
    Feature,
    NumberExplanation,
    Term,
)
from onkel.explain.source import Details, details

__all__ = [
    "AlertExplanation", "ClassExplanation", "Details", "Explanation", "Feature",
    "NumberExplanation", "Term", "details",
]  # fmt: skip
