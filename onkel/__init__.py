"""onkel: online learning with kernels, in bounded memory and time, while the world drifts.

``f <- c * (shrink * f + coef * k(x, .))``: a kernel, a loss, a rule and an expansion.
"""

from onkel import bounds, evaluate, expansions, kernels, losses, rules, schedules, streams
from onkel.estimators import (
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    NoveltyDetector,
)

__version__ = "0.1.0"

__all__ = [
    "KernelClassifier",
    "KernelRegressor",
    "LinearClassifier",
    "LinearRegressor",
    "NoveltyDetector",
    "bounds",
    "evaluate",
    "expansions",
    "kernels",
    "losses",
    "rules",
    "schedules",
    "streams",
]
