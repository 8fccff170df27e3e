"""How large the cumulative regularised risk may get: NORMA with falling rates (N04, N01).

The risk of a hypothesis on an example is ``l(f(x), y) + (lam/2) ||f||^2``. Symbols: X `bound`, B
`radius`, c `slope`, m `trials`, eta `learning_rate`, lam `regularization`. `risk` is everywhere the
mean risk of the comparator over the same m examples, so that it counts ``m * risk`` in a sum.
"""

from __future__ import annotations

import math

from onkel.bounds.guarantee import Guarantee, Rate, check, theorem

__all__ = [
    "horizon_risk", "norma_average_risk", "norma_risk", "norma_risk_truncated",
    "regularized_average_risk", "regularized_risk", "soft_margin_risk",
]  # fmt: skip


def _falling(
    owner: str, factor: float, trials: int, learning_rate: float, regularization: float,
    bound: float, slope: float,
) -> tuple[dict[str, float], dict[str, object]]:  # fmt: skip
    """Return U, a and b of N04 Theorems 4 and 6, and the tuning."""
    check(owner, trials=trials, learning_rate=learning_rate, regularization=regularization)
    check(owner, bound=bound, slope=slope)
    decay, reach = learning_rate * regularization, slope * bound / regularization
    if not decay < 1:
        raise ValueError(
            f"{owner}: learning_rate must be below 1/regularization; got "
            f"learning_rate={learning_rate!r}, regularization={regularization!r} (product "
            f"{decay:g}). Lower one of them."
        )
    a = 2 * regularization * reach * reach * (factor * decay + 1 / decay)
    tuning: dict[str, object] = {"learning_rate": Rate(float(learning_rate))}
    tuning["regularization"] = float(regularization)
    return {"U": reach, "a": a, "b": reach * reach / (2 * learning_rate)}, tuning


@theorem
def norma_risk(
    *, risk: float, trials: int, learning_rate: float, regularization: float, bound: float = 1.0,
    slope: float = 1.0,
) -> Guarantee:  # fmt: skip
    """Bound on the cumulative risk of NORMA with the rates ``eta t^(-1/2)``.

    ``sum of R_inst[f_t] <= m R_reg[g] + a sqrt(m) + b``

    with ``a = 2 lam U^2 (2 eta lam + 1/(eta lam))``, ``b = U^2 / (2 eta)``, ``U = c X / lam``; for
    any g and any convex loss with abs(l') <= c.

    Parameters
    ----------
    risk : float
        R_reg[g], the comparator's mean risk on these examples.
    trials : int
        m.
    learning_rate, regularization : float
        eta and lam, eta lam < 1. The tuning holds ``eta t^(-1/2)``, as ``schedules.InverseSqrt``.
    bound, slope : float
        X and c.

    References
    ----------
    N04 Theorem 4.

    Examples
    --------
    >>> norma_risk(risk=0.5, trials=100, learning_rate=1.0, regularization=0.5).bound
    172.0
    """
    check("norma_risk", risk=risk)
    details, tuning = _falling("norma_risk", 2, trials, learning_rate, regularization, bound, slope)
    most = trials * risk + details["a"] * math.sqrt(trials) + details["b"]
    return Guarantee("cumulative risk", most, tuning, details=details)


@theorem
def norma_risk_truncated(
    *, risk: float, trials: int, learning_rate: float, regularization: float, growth: float,
    bound: float = 1.0, slope: float = 1.0,
) -> Guarantee:  # fmt: skip
    """Bound on the cumulative risk of NORMA whose window grows as ``t^(1/2 + growth)``.

    ``sum of R_inst[f_t] <= m R_reg[g] + a sqrt(m) + b``

    with ``a = 2 lam U^2 (10 eta lam + 1/(eta lam))``; b and U as in :func:`norma_risk`. Run
    ``rules.Norma(**g.tuning)`` with ``expansions.Window(**g.window)``.

    Parameters
    ----------
    growth : float
        epsilon in (0, 1/2); :func:`growth_start` tells the trial t0 up to which nothing is dropped.
    risk, trials, learning_rate, regularization, bound, slope
        As in :func:`norma_risk`.

    References
    ----------
    N04 Theorem 6. Its proof bounds norms by 3U and gradients by 2cX, which do not fit together.
    It stands all the same: dropping terms leaves sums of coefficients that are no larger, so norms
    stay below U and gradients below 2cX; a window that drops two terms per trial, as it must just
    after t0, then costs ``(4 + 16) eta_t^2 c^2 X^2``, the paper's 20.

    Examples
    --------
    >>> norma_risk_truncated(
    ...     risk=0.5, trials=100, learning_rate=1.0, regularization=0.5, growth=0.25
    ... ).bound
    332.0
    """
    owner = "norma_risk_truncated"
    check(owner, risk=risk, growth=growth)
    details, tuning = _falling(owner, 10, trials, learning_rate, regularization, bound, slope)
    most = trials * risk + details["a"] * math.sqrt(trials) + details["b"]
    return Guarantee(
        "cumulative risk", most, tuning, window={"growth": float(growth)}, details=details
    )


@theorem
def soft_margin_risk(*, regularization: float, bound: float = 1.0) -> float:
    """Bound L on the instantaneous risk of NORMA with the soft margin, ``rho <= X^2/lam``.

    ``L = 5 X^2 / (2 lam)``

    References
    ----------
    N04, before Corollary 5.

    Examples
    --------
    >>> soft_margin_risk(regularization=0.5)
    5.0
    """
    check("soft_margin_risk", regularization=regularization, bound=bound)
    return 2.5 * bound * bound / regularization


@theorem
def norma_average_risk(
    *, risk: float, trials: int, learning_rate: float, regularization: float, risk_limit: float,
    delta: float, bound: float = 1.0, slope: float = 1.0,
) -> Guarantee:  # fmt: skip
    """Bound on the expected risk of NORMA's average hypothesis, on i.i.d. examples.

    ``E R[(f_1 + ... + f_m)/m] <= R_reg[g] + (a + L sqrt(2 ln(1/delta))) / sqrt(m) + b/m``

    with probability at least 1 - delta; a and b as in :func:`norma_risk`. R_reg[g] is the
    comparator's risk on the sample, the left side an expectation over a new example. The learner
    keeps the average with ``average=True``.

    Parameters
    ----------
    risk_limit : float
        L, above every instantaneous risk; :func:`soft_margin_risk` for the soft margin.
    delta : float
        Probability that the bound fails.
    risk, trials, learning_rate, regularization, bound, slope
        As in :func:`norma_risk`.

    References
    ----------
    N04 Corollary 5, whose average runs to m, not to m - 1.

    Examples
    --------
    >>> g = norma_average_risk(
    ...     risk=0.5, trials=10_000, learning_rate=1.0, regularization=0.5, risk_limit=5.0,
    ...     delta=0.05,
    ... )
    >>> round(g.bound, 3)
    0.743
    """
    owner = "norma_average_risk"
    check(owner, risk=risk, risk_limit=risk_limit, delta=delta)
    details, tuning = _falling(owner, 2, trials, learning_rate, regularization, bound, slope)
    chance = risk_limit * math.sqrt(2 * math.log(1 / delta))
    most = risk + (details["a"] + chance) / math.sqrt(trials) + details["b"] / trials
    return Guarantee("risk of the average", most, tuning, details=details)


@theorem
def horizon_risk(
    *, risk: float, trials: int, radius: float, regularization: float, bound: float = 1.0
) -> Guarantee:
    """Bound on the cumulative risk of NORMA with a constant rate made for m trials.

    ``sum of R[f_t] <= m R[g] + B X sqrt(m) + (lam B^2 / 2) q/(1 - q)``, ``q = lam B / (X sqrt(m))``

    with the rate ``B / (X sqrt(m))``; for any g with ||g|| <= B and any convex loss with
    abs(l') <= 1.

    Parameters
    ----------
    risk : float
        R[g], the comparator's mean risk on these examples.
    trials : int
        m, with q < 1.
    radius, regularization, bound : float
        B, lam and X.

    References
    ----------
    N01 Theorem 1. The paper writes O(1) for the last term; without it the bound fails.

    Examples
    --------
    >>> horizon_risk(risk=0.0, trials=100, radius=2.0, regularization=1.0).bound
    20.5
    """
    owner = "horizon_risk"
    check(owner, risk=risk, trials=trials, radius=radius, bound=bound)
    check(owner, regularization=regularization)
    rate = radius / (bound * math.sqrt(trials))
    q = regularization * rate
    if not q < 1:
        raise ValueError(
            f"{owner}: trials must be above (regularization * radius / bound)^2 = "
            f"{(regularization * radius / bound) ** 2:g}; got {trials!r}. Lower regularization or "
            "radius."
        )
    rest = regularization * radius * radius / 2 * q / (1 - q)
    most = trials * risk + radius * bound * math.sqrt(trials) + rest
    tuning = {"learning_rate": rate, "regularization": float(regularization)}
    return Guarantee("cumulative risk", most, tuning, details={"q": q})


def _regularized(
    owner: str, risk: float, trials: int, radius: float, regularization: float, bound: float
) -> tuple[float, dict[str, object]]:
    """Return 2 lam (B + X/lam)^2 and the tuning of N01 Theorems 2 and 3."""
    check(owner, risk=risk, trials=trials, radius=radius)
    check(owner, regularization=regularization, bound=bound)
    reach = radius + bound / regularization
    tuning: dict[str, object] = {"learning_rate": Rate(1 / (3 * regularization))}
    tuning["regularization"] = float(regularization)
    return 2 * regularization * reach * reach, tuning


@theorem
def regularized_risk(
    *, risk: float, trials: int, radius: float, regularization: float, bound: float = 1.0
) -> Guarantee:
    """Bound on the cumulative risk of NORMA with the rates ``1/(3 lam t^(1/2))``.

    ``sum of R[f_t] <= m R[g] + 2 lam (B + X/lam)^2 sqrt(m)``

    for any g with ||g|| <= B and any convex loss with abs(l') <= 1; the rates are those of
    ``schedules.Regularized(lam)``.

    Parameters
    ----------
    risk, trials, radius, regularization, bound
        As in :func:`horizon_risk`; no number of trials is too small.

    References
    ----------
    N01 Theorem 2. The paper adds O(1); the leading term is large enough without it.

    Examples
    --------
    >>> regularized_risk(risk=0.0, trials=100, radius=1.0, regularization=1.0).bound
    80.0
    """
    lead, tuning = _regularized("regularized_risk", risk, trials, radius, regularization, bound)
    return Guarantee("cumulative risk", trials * risk + lead * math.sqrt(trials), tuning)


@theorem
def regularized_average_risk(
    *, risk: float, trials: int, radius: float, regularization: float, bound: float = 1.0
) -> Guarantee:
    """Bound on the risk of the average hypothesis on i.i.d. examples, expected over samples.

    ``E R_P[(f_1 + ... + f_m)/m] <= R_P[g] + 2 lam (B + X/lam)^2 / sqrt(m)``

    with the rates of :func:`regularized_risk`; the learner keeps the average with ``average=True``.

    Parameters
    ----------
    risk : float
        R_P[g], the comparator's expected risk.
    trials, radius, regularization, bound
        As in :func:`regularized_risk`.

    References
    ----------
    N01 Theorem 3, again without its O(1/m).

    Examples
    --------
    >>> regularized_average_risk(risk=0.5, trials=100, radius=1.0, regularization=1.0).bound
    1.3
    """
    owner = "regularized_average_risk"
    lead, tuning = _regularized(owner, risk, trials, radius, regularization, bound)
    return Guarantee("risk of the average", risk + lead / math.sqrt(trials), tuning)
