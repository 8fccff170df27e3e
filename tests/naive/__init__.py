"""The naive twins: the algorithms in plain loops over the formulas, the truth that tests need.

f <- c (s f + a k(x, .)): every coefficient is multiplied at every shrink, every kernel value is
one call on two rows, every norm is taken over all pairs. Imports nothing of the product.
Kernels are functions of two single rows. The formulas are the papers': Kivinen, Smola, Williamson
(N04, N01, A02), Herbster (H01), Tian and Sheng (CR); ROMMA is Li and Long's (2002), self-tuning
ALMA Gentile's (2001). Their misprints are corrected; docs/paper_*.md list them.
"""

from .budgets import Budgeted
from .chances import Chances
from .codes import CodedNorma, on_codes, one_hot
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
from .least_squares import LeastSquares, inverse, ridge_solution
from .losses import COMPARING, TINY, judge
from .means import Means
from .merge import interleaved, merged, pooled, total_bound
from .mixture import Bank, best_path, fixed_share
from .primal import Coefficient, Hashed, Primal, bucket, kappa, link, over_centres, p_norm
from .rules import ByClock, Descent, Rule, alma, alma_self_tuning, perceptron, projection, romma
from .windows import Moments, age, growth, growth_t0_by_scan, is_refresh, tolerance_age

__all__ = [
    "COMPARING",
    "TINY",
    "Bank",
    "Budgeted",
    "ByClock",
    "Chances",
    "CodedNorma",
    "Coefficient",
    "Descent",
    "Hashed",
    "Learner",
    "LeastSquares",
    "Means",
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
    "bucket",
    "exponential",
    "filled",
    "fixed_share",
    "gaussian",
    "growth",
    "growth_t0_by_scan",
    "interleaved",
    "intervals",
    "inverse",
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
    "on_codes",
    "one_hot",
    "over_centres",
    "p_norm",
    "perceptron",
    "polynomial",
    "pooled",
    "projection",
    "ridge_solution",
    "romma",
    "scaled",
    "spectrum",
    "spline",
    "tolerance_age",
    "total_bound",
]
