"""Coefficient regularisation over fixed centres: norms, distance to the best, rates (CR).

m centres, features ``K(x) = (k(x, x_1), ..., k(x, x_m))``, ``f(x) = alpha . K(x)``, and
``alpha <- alpha - eta_t (lam alpha + phi'_-(y f(x)) y K(x))`` from 0. Symbols: kappa bounds
||K(x)||, lam `regularization`, T `trials`; ``F(alpha) = E phi(y f(x)) + (lam/2) ||alpha||^2`` is
least at alpha_lam; ``D(lam) = F(alpha_lam) - inf E phi`` is the regularisation error. The paper
takes ``kappa = sup sqrt(k(x, x'))``, with which its Theorem 3 fails; all functions here take
``kappa = sup ||K(x)||_2``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from onkel.bounds.guarantee import Guarantee, Rate, check, theorem
from onkel.bounds.surrogates import Surrogate, surrogate

__all__ = [
    "coefficient_curvature", "coefficient_excess", "coefficient_function_norm",
    "coefficient_kappa", "coefficient_kappa_limit", "coefficient_norm", "coefficient_rate",
    "coefficient_risk_gap", "coefficient_strong_convexity",
]  # fmt: skip


def coefficient_kappa(features: Any) -> float:
    """The kappa of given rows: the largest norm of their features.

    ``kappa = max over rows of ||K(x)||_2``

    Parameters
    ----------
    features : array of shape (rows, centres)
        Kernel values of each row with each centre.

    References
    ----------
    CR Definition 3, corrected: the paper's kappa leaves out the number of centres.

    Examples
    --------
    >>> coefficient_kappa([[3.0, 4.0], [1.0, 0.0]])
    5.0
    """
    rows = np.atleast_2d(np.asarray(features, float))
    if rows.ndim != 2 or not rows.size or not np.isfinite(rows).all():
        raise ValueError(
            "coefficient_kappa: features must be a matrix of finite numbers, a row per example and "
            f"a column per centre; got shape {rows.shape}. Give kernel(X, centres)."
        )
    return float(np.sqrt((rows * rows).sum(axis=1)).max())


@theorem
def coefficient_kappa_limit(*, centers: int, kernel_bound: float = 1.0) -> float:
    """A kappa that serves any rows.

    ``kappa <= sqrt(m) sup abs(k)``

    Examples
    --------
    >>> coefficient_kappa_limit(centers=100)
    10.0
    """
    check("coefficient_kappa_limit", centers=centers, kernel_bound=kernel_bound)
    return math.sqrt(centers) * kernel_bound


def _reach(loss: Surrogate, kappa: float, regularization: float) -> float:
    """Return R: scores stay in [-R, R]."""
    return kappa * kappa * loss.slope_at_zero / regularization


@theorem
def coefficient_curvature(loss: Any, *, kappa: float, regularization: float) -> float:
    """The local Lipschitz constant of phi'_- at the origin.

    ``M = sup abs(phi'_-(u) - phi'(0)) / abs(u)`` over ``abs(u) <= kappa^2 abs(phi'(0)) / lam``

    Parameters
    ----------
    loss : Surrogate or str
        "hinge", "logistic", "squared", "exponential", or an object such as ``HingePower(2)``.
    kappa, regularization : float
        kappa and lam.

    References
    ----------
    CR (2.1). The hinge has M = 1, and 0 where no score can pass its margin.

    Examples
    --------
    >>> coefficient_curvature("hinge", kappa=2.0, regularization=0.1)
    1.0
    """
    check("coefficient_curvature", kappa=kappa, regularization=regularization)
    phi = surrogate(loss)
    return phi.curvature(_reach(phi, kappa, regularization))


@theorem
def coefficient_norm(loss: Any, *, kappa: float, regularization: float) -> Guarantee:
    """Bound on the norm of the coefficients, at every trial.

    ``||alpha_t|| <= kappa abs(phi'(0)) / lam`` while ``eta_t (M kappa^2 + lam) <= 1``

    The tuning holds the largest constant rate; falling rates that start there serve as well.

    Parameters
    ----------
    loss, kappa, regularization
        As in :func:`coefficient_curvature`.

    References
    ----------
    CR Theorem 3, with the corrected kappa.

    Examples
    --------
    >>> coefficient_norm("hinge", kappa=2.0, regularization=0.5).bound
    4.0
    """
    check("coefficient_norm", kappa=kappa, regularization=regularization)
    phi = surrogate(loss)
    m = phi.curvature(_reach(phi, kappa, regularization))
    mu = m * kappa * kappa + regularization
    tuning = {"learning_rate": 1 / mu, "regularization": float(regularization)}
    most = kappa * phi.slope_at_zero / regularization
    return Guarantee(
        "norm of the coefficients", most, tuning, phi.margin, details={"M": m, "mu": mu}
    )


@theorem
def coefficient_function_norm(*, norm: float, centers: int, kernel_bound: float = 1.0) -> Guarantee:
    """Bound on the norm of the function that coefficients of a given norm make.

    ``||f_alpha|| <= sqrt(m) sup sqrt(k(x, x)) ||alpha||``

    Parameters
    ----------
    norm : float
        ||alpha||.
    centers : int
        m.
    kernel_bound : float
        Bound on k(x, x).

    References
    ----------
    CR Corollary 1, which prints sqrt(m k) with k the bound on sqrt(k(x, x')): it is sqrt(m) k.

    Examples
    --------
    >>> coefficient_function_norm(norm=2.0, centers=9, kernel_bound=4.0).bound
    12.0
    """
    check("coefficient_function_norm", norm=norm, centers=centers, kernel_bound=kernel_bound)
    return Guarantee("norm of f", math.sqrt(centers) * math.sqrt(kernel_bound) * norm)


@theorem
def coefficient_strong_convexity(*, excess: float, regularization: float) -> Guarantee:
    """Bound on the distance to the best coefficients, from how much worse the risk is.

    ``||alpha - alpha_lam|| <= sqrt(2 (F(alpha) - F(alpha_lam)) / lam)``

    Parameters
    ----------
    excess : float
        F(alpha) - F(alpha_lam).
    regularization : float
        lam.

    References
    ----------
    CR Theorem 2.

    Examples
    --------
    >>> coefficient_strong_convexity(excess=0.5, regularization=0.25).bound
    2.0
    """
    check("coefficient_strong_convexity", excess=excess, regularization=regularization)
    return Guarantee("distance to the best coefficients", math.sqrt(2 * excess / regularization))


def _error(owner: str, phi: Surrogate, error: float | None) -> float:
    """Return D(lam), or phi(0), which f = 0 keeps it below."""
    check(owner, regularization_error=error)
    return phi.at_zero if error is None else float(error)


@theorem
def coefficient_excess(
    loss: Any, *, kappa: float, regularization: float, trials: int, theta: float = 0.5,
    regularization_error: float | None = None,
) -> Guarantee:  # fmt: skip
    """Bound on the squared distance to the best coefficients, expected over i.i.d. samples.

    ``E ||alpha_{T+1} - alpha_lam||^2 <= (2D/lam + 9 C T^s / (s 2^s mu^2)) exp(-(1 - 2^-s) lam T^s /
    (s mu)) + 19 C / (mu lam T^theta)``, ``s = 1 - theta``; at theta = 1 ``(2D/lam + 9 C / (mu (mu -
    lam))) T^(-lam/mu)``

    with the rates ``t^(-theta)/mu``, ``mu = M kappa^2 + lam`` and ``C = 4 kappa^2 sup phi'_-^2``.

    Parameters
    ----------
    loss, kappa, regularization
        As in :func:`coefficient_curvature`.
    trials : int
        T.
    theta : float
        Exponent of the rates, in (0, 1].
    regularization_error : float, optional
        D(lam); phi(0), which bounds it, if None.

    References
    ----------
    CR Theorem 4, (5.3) and (5.4), with the corrected kappa. Corollary 2 is this with M and C for a
    loss whose slope grows as a power; it lost a square in (5.6), so M and C are computed here.

    Examples
    --------
    >>> g = coefficient_excess("hinge", kappa=1.0, regularization=0.5, trials=10**6)
    >>> round(g.bound, 4)
    0.1013
    """
    owner = "coefficient_excess"
    check(owner, kappa=kappa, regularization=regularization, trials=trials, theta=theta)
    phi = surrogate(loss)
    error, reach = _error(owner, phi, regularization_error), _reach(phi, kappa, regularization)
    mu = phi.curvature(reach) * kappa * kappa + regularization
    most = _distance(phi.steepest(reach), kappa, regularization, mu, trials, theta, error)
    tuning = {"learning_rate": Rate(1 / mu, float(theta)), "regularization": float(regularization)}
    return Guarantee("expected squared distance", most, tuning, phi.margin, details={"mu": mu})


def _distance(
    steepest: float, kappa: float, lam: float, mu: float, trials: int, theta: float, error: float
) -> float:
    """Return the right sides of CR (5.3) and (5.4)."""
    noise, start, s = 4 * (kappa * steepest) * (kappa * steepest), 2 * error / lam, 1 - theta
    if s == 0:
        if mu == lam:
            raise ValueError(
                "coefficient_excess: theta must be below 1 where the loss has no curvature on the "
                f"interval (mu = lambda = {lam:g}); got theta=1. Lower theta."
            )
        return (start + 9 * noise / (mu * (mu - lam))) * trials ** (-lam / mu)
    far = start + 9 * noise * trials**s / (s * 2**s * mu * mu)
    decay = math.exp(-(1 - 2**-s) * lam / (s * mu) * trials**s)
    return far * decay + 19 * noise / (mu * lam * trials**theta)


@theorem
def coefficient_risk_gap(
    loss: Any, *, kappa: float, distance: float, norm: float, regularization: float,
    regularization_error: float | None = None,
) -> Guarantee:  # fmt: skip
    """Bound on how far two risks lie apart, from how far the coefficients do.

    ``abs(E phi(f_alpha) - E phi(f_{alpha_lam})) <= kappa ||alpha - alpha_lam|| max abs(phi'_+-)``

    over ``abs(u) <= kappa max(||alpha||, sqrt(2 D(lam) / lam))``.

    Parameters
    ----------
    distance, norm : float
        ||alpha - alpha_lam|| and ||alpha||.
    loss, kappa, regularization, regularization_error
        As in :func:`coefficient_excess`.

    References
    ----------
    CR Corollary 4, without its sqrt(m), which the corrected kappa already holds.

    Examples
    --------
    >>> coefficient_risk_gap("hinge", kappa=2.0, distance=0.1, norm=1.0, regularization=0.5).bound
    0.2
    """
    owner = "coefficient_risk_gap"
    check(owner, kappa=kappa, distance=distance, norm=norm, regularization=regularization)
    phi = surrogate(loss)
    error = _error(owner, phi, regularization_error)
    reach = kappa * max(norm, math.sqrt(2 * error / regularization))
    return Guarantee("difference of risks", kappa * distance * phi.steepest(reach))


@theorem
def coefficient_rate(
    *, trials: int, kappa: float, beta: float, epsilon: float, constant: float = 1.0
) -> Guarantee:
    """Bound on the excess misclassification with the hinge, expected; lam chosen for T trials.

    ``E R(sgn f_{T+1}) - R(Bayes) <= kappa sqrt(E ||alpha_{T+1} - alpha_lam||^2) + c lam^beta``

    It falls as ``T^(epsilon - beta / (2 (beta + 1)))``, with ``lam = T^-g``, ``g = 1/(2(beta+1)) -
    epsilon/beta``, and the rates ``t^(-theta) / (2 + kappa^2)``, ``theta = (2 beta + 1) g``. The
    exponent is ``details["exponent"]``; the constants are large, and the bound says something only
    for very long runs.

    Parameters
    ----------
    trials : int
        T.
    kappa : float
        Bound on the norm of the features.
    beta, constant : float
        ``D(lam) <= constant * lam^beta``, beta in (0, 1].
    epsilon : float
        In (0, beta / (2 (beta + 1))).

    References
    ----------
    CR Corollary 3 with the constants of Theorem 4 in place of O(.), the corrected kappa, and the
    hinge (1 - x)_+ (the paper prints 1 + x).

    Examples
    --------
    >>> g = coefficient_rate(trials=10**6, kappa=1.0, beta=1.0, epsilon=0.05)
    >>> round(g.details["exponent"], 3), round(g.tuning["regularization"], 4)
    (-0.2, 0.0631)
    """
    owner = "coefficient_rate"
    check(owner, trials=trials, kappa=kappa, beta=beta, constant=constant)
    top = beta / (2 * (beta + 1))
    if not 0 < epsilon < top:
        raise ValueError(
            f"{owner}: epsilon must be a number in (0, beta/(2(beta+1))) = (0, {top:g}); got "
            f"{epsilon!r}. Smaller is a faster rate with larger constants."
        )
    gamma = (top - epsilon) / beta
    lam, theta, mu = trials**-gamma, (2 * beta + 1) * gamma, 2 + kappa * kappa
    error = constant * lam**beta
    most = kappa * math.sqrt(_distance(1.0, kappa, lam, mu, trials, theta, error)) + error
    tuning = {"learning_rate": Rate(1 / mu, theta), "regularization": lam}
    return Guarantee(
        "expected excess misclassification", most, tuning, 1.0, details={"exponent": epsilon - top}
    )
