"""The naive twins: the algorithms in plain loops over the formulas, the truth that tests need.

f <- c (s f + a k(x, .)): every coefficient is multiplied at every shrink, every kernel value is
one call on two rows, every norm is taken over all pairs. Imports nothing of the product.
Kernels are functions of two single rows. The formulas are the papers': Kivinen, Smola, Williamson
(N04, N01, A02), Herbster (H01), Tian and Sheng (CR); ROMMA is Li and Long's (2002), self-tuning
ALMA Gentile's (2001). Their misprints are corrected; docs/paper_*.md list them.
"""

from .features import filled, known_before
from .intervals import intervals
from .kernels import (
    add,
    additive,
    exponential,
    gaussian,
    laplacian,
    linear,
    matern,
    matern_1d,
    multiply,
    polynomial,
    scaled,
    spectrum,
    spline,
)
from .learner import Learner, Norma
from .losses import COMPARING, TINY, judge
from .merge import interleaved, merged, pooled, total_bound
from .mixture import Bank, best_path, fixed_share
from .primal import Coefficient, Primal, kappa, link, over_centres, p_norm
from .rules import ByClock, Descent, Rule, alma, alma_self_tuning, perceptron, projection, romma
from .windows import Moments, age, growth, growth_t0_by_scan, is_refresh, tolerance_age

__all__ = [
    "COMPARING",
    "TINY",
    "Bank",
    "ByClock",
    "Coefficient",
    "Descent",
    "Learner",
    "Moments",
    "Norma",
    "Primal",
    "Rule",
    "add",
    "additive",
    "age",
    "alma",
    "alma_self_tuning",
    "best_path",
    "exponential",
    "filled",
    "fixed_share",
    "gaussian",
    "growth",
    "growth_t0_by_scan",
    "interleaved",
    "intervals",
    "is_refresh",
    "judge",
    "kappa",
    "known_before",
    "laplacian",
    "linear",
    "link",
    "matern",
    "matern_1d",
    "merged",
    "multiply",
    "over_centres",
    "p_norm",
    "perceptron",
    "polynomial",
    "pooled",
    "projection",
    "romma",
    "scaled",
    "spectrum",
    "spline",
    "tolerance_age",
    "total_bound",
]
