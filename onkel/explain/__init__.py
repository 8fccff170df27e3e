"""Why this score? What the stored terms and the features did, as data and as a sentence."""

from __future__ import annotations

from onkel.explain.outcome import (
    AlertExplanation,
    ClassExplanation,
    Explanation,
    Feature,
    NumberExplanation,
    RarityExplanation,
    Term,
    one_in,
)
from onkel.explain.source import Details, details

__all__ = [
    "AlertExplanation", "ClassExplanation", "Details", "Explanation", "Feature",
    "NumberExplanation", "RarityExplanation", "Term", "details", "one_in",
]  # fmt: skip
