"""The learner: kernel x loss x rule x expansion."""

from __future__ import annotations

from typing import Any

from onkel.learner.bank import Bank
from onkel.learner.base import Learner
from onkel.learner.blends import KINDS
from onkel.learner.grow import with_features
from onkel.learner.merging import Merged, merged
from onkel.learner.mixture import Mixture
from onkel.learner.one import One
from onkel.learner.primal import PrimalLearner
from onkel.learner.settings import Settings
from onkel.learner.terms import TermLearner

__all__ = [
    "KINDS", "Bank", "Learner", "Merged", "Mixture", "One", "PrimalLearner", "Settings",
    "TermLearner", "merged", "start", "with_features",
]  # fmt: skip


def start(settings: Settings, features: int, columns: int, dtype: Any) -> Learner:
    """Return a learner that has seen nothing, of the kind that the expansion asks for."""
    kind = PrimalLearner if settings.expansion.primal else TermLearner
    return kind(settings, features, columns, dtype)
