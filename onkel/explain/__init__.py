"""Why this score? What the stored terms and the features did, as data and as a sentence."""

from __future__ import annotations

from onkel.core.precedents import Precedent
from onkel.explain.outcome import (
    AlertExplanation,
    ClassExplanation,
    Explanation,
    Feature,
    NumberExplanation,
    Pattern,
    RarityExplanation,
    Term,
    Voice,
    one_in,
)
from onkel.explain.shown import Details
from onkel.explain.source import details
from onkel.explain.young import YoungExplanation

__all__ = [
    "AlertExplanation", "ClassExplanation", "Details", "Explanation", "Feature",
    "NumberExplanation", "Pattern", "Precedent", "RarityExplanation", "Term", "Voice",
    "YoungExplanation", "details", "one_in",
]  # fmt: skip
