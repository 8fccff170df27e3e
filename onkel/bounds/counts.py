"""How many mistakes and margin errors: NORMA and ALMA against moving targets (N04, A02).

Symbols: X `bound`, B `radius`, mu `target_margin`, rho `margin`, K `loss`, T or m `trials`, D and
D1 `path`, D2 `squared_path`. A comparator is a sequence u_1 ... u_{T+1} whose norms are at most B
(in the q-norm, 1/p + 1/q = 1), whose steps sum to at most D1 and their squares to at most D2, and
whose hinge loss max(0, mu - y u(x)) sums to at most K. With p = 2 inputs may be k(x, .).
"""

from __future__ import annotations

import math

from onkel.bounds.guarantee import Guarantee, check, theorem

__all__ = [
    "alma_any_step", "alma_margin_errors", "alma_mistakes", "count_bound", "norma_any_step",
    "norma_margin_errors", "norma_mistakes", "step_size",
]  # fmt: skip


def step_size(gap: float, loss: float, complexity: float) -> float:
    """The z in (0, gap) at which ``K/(gap - z) + C/(z (gap - z))`` is least.

    ``h(x, K, C) = x / (1 + sqrt(1 + K x / C))``

    Parameters
    ----------
    gap : float
        x: mu - rho, or mu.
    loss : float
        K; at 0 the answer is x/2.
    complexity : float
        C > 0.

    References
    ----------
    N04 (30) and Lemma 7, A02 Lemma 2, both of which print *maximised* for *minimised*. The papers'
    form of h cancels for small K; this one does not.

    Examples
    --------
    >>> step_size(gap=1.0, loss=3.0, complexity=1.0)
    0.3333333333333333
    """
    check("step_size", gap=gap, loss=loss, complexity=complexity)
    return _step_size(gap, loss, complexity)


def _step_size(gap: float, loss: float, complexity: float) -> float:
    return gap / (1 + math.sqrt(1 + loss * gap / complexity))


def count_bound(loss: float, complexity: float, gap: float) -> float:
    """The least value of ``K/(gap - z) + C/(z (gap - z))``: what all four count bounds look like.

    ``beta(K, C, g) = K/g + 2 C/g^2 + 2 sqrt((C/g^2) (K/g + C/g^2))``

    References
    ----------
    N04 Lemma 7, A02 Lemma 2.

    Examples
    --------
    >>> count_bound(loss=0.0, complexity=4.0, gap=1.0)
    16.0
    """
    check("count_bound", loss=loss, complexity=complexity, gap=gap)
    return _count_bound(loss, complexity, gap)


def _count_bound(loss: float, complexity: float, gap: float) -> float:
    own, ours = loss / gap, complexity / gap / gap
    return own + 2 * ours + 2 * math.sqrt(ours) * math.sqrt(own + ours)


def _check_gap(owner: str, target_margin: float, margin: float) -> float:
    if not margin < target_margin:
        raise ValueError(
            f"{owner}: margin must be below target_margin (rho < mu); got margin={margin!r}, "
            f"target_margin={target_margin!r}. Lower the one or raise the other."
        )
    return target_margin - margin


def _speed(owner: str, trials: int | None, squared_path: float) -> float:
    """Return sqrt(D2 / T): the root mean square of the comparator's steps."""
    if squared_path == 0:
        return 0.0
    if trials is None:
        raise ValueError(
            f"{owner}: trials must be a whole number where squared_path is above 0 (the tuning "
            f"depends on it); got trials=None, squared_path={squared_path!r}. Give trials."
        )
    return math.sqrt(squared_path / trials)


def _norma_tuning(step: float, decay: float) -> dict[str, float]:
    """Return eta and lambda from eta' and eta' lambda."""
    return {"learning_rate": step / (1 + decay), "regularization": decay / step}


def _norma(
    owner: str, gap: float, radius: float, bound: float, loss: float, trials: int | None,
    path: float, squared_path: float, p: float,
) -> tuple[float, float, dict[str, float], dict[str, float]]:  # fmt: skip
    """Return the bound, z, the tuning and the details that Theorems 2 and 3 of N04 share."""
    check(owner, radius=radius, bound=bound, loss=loss, path=path, squared_path=squared_path, p=p)
    if trials is not None:
        check(owner, trials=trials)
    speed, scale = _speed(owner, trials, squared_path), (p - 1) * bound * bound
    moved = path + (speed * trials if trials else 0.0)
    complexity = scale / 4 * radius * (radius + moved)
    z = _step_size(gap, loss, complexity)
    tuning = _norma_tuning(2 * z / scale, speed / radius)
    return _count_bound(loss, complexity, gap), z, tuning, {"C": complexity, "step": 2 * z / scale}


@theorem
def norma_margin_errors(
    *, radius: float, bound: float, target_margin: float, margin: float = 0.0, loss: float = 0.0,
    trials: int | None = None, path: float = 0.0, squared_path: float = 0.0, p: float = 2.0,
) -> Guarantee:  # fmt: skip
    """Bound on the margin errors (updates) of NORMA, tuned for them.

    ``M_rho <= beta(K, C, mu - rho)``, ``C = (p-1)/4 X^2 (B^2 + B (sqrt(T D2) + D1))``

    with ``eta' = 2 h(mu - rho, K, C) / ((p-1) X^2)``, ``lam = sqrt(D2/T) / (B eta')`` and
    ``eta = eta' / (1 + eta' lam)``.

    Parameters
    ----------
    radius, bound, target_margin, margin : float
        B, X, mu and rho, rho < mu.
    loss : float
        K, the comparator's cumulative hinge loss at mu; 0 where it separates.
    trials : int, optional
        T; needed where the comparator moves.
    path, squared_path : float
        D1 and D2.
    p : float
        2 for kernels; more with a p-norm link.

    References
    ----------
    A02 Theorem 3; N04 Theorem 2 is the case p = 2. In A02's proof the bound of R from below is
    printed with the sign of a bound from above.

    Examples
    --------
    >>> norma_margin_errors(radius=2.0, bound=1.0, target_margin=1.0, margin=0.5).bound
    16.0
    """
    owner = "norma_margin_errors"
    check(owner, target_margin=target_margin, margin=margin)
    gap = _check_gap(owner, target_margin, margin)
    most, _, tuning, details = _norma(
        owner, gap, radius, bound, loss, trials, path, squared_path, p
    )
    return Guarantee("margin errors", most, tuning, float(margin), details=details)


@theorem
def norma_mistakes(
    *, radius: float, bound: float, target_margin: float, loss: float = 0.0,
    trials: int | None = None, path: float = 0.0, squared_path: float = 0.0, p: float = 2.0,
) -> Guarantee:  # fmt: skip
    """Bound on the mistakes of NORMA, tuned for them.

    ``M <= beta(K, C, mu)``, ``C = (p-1)/4 X^2 (B^2 + B (sqrt(T D2) + D1))``

    with ``r = h(mu, K, C)``, ``eta' = 2 r / ((p-1) X^2)``, lam and eta from it as in
    :func:`norma_margin_errors`, and the margin ``rho = mu - r``. The same tuning with margin 0 has
    the same bound.

    Parameters
    ----------
    radius, bound, target_margin : float
        B, X and mu.
    loss : float
        K, the comparator's cumulative hinge loss at mu; 0 where it separates.
    trials : int, optional
        T; needed where the comparator moves.
    path, squared_path : float
        D1 and D2.
    p : float
        2 for kernels; more with a p-norm link.

    References
    ----------
    A02 Theorem 4, which prints ``alpha'/(1 - alpha' lam)`` for ``alpha'/(1 + alpha' lam)``; N04
    Theorem 3 is the case p = 2 (after it, read 4 X^2 B^2 / mu^2).

    Examples
    --------
    >>> norma_mistakes(radius=3.0, bound=1.0, target_margin=1.0).bound
    9.0
    """
    owner = "norma_mistakes"
    check(owner, target_margin=target_margin)
    most, z, tuning, details = _norma(
        owner, target_margin, radius, bound, loss, trials, path, squared_path, p
    )
    return Guarantee("mistakes", most, tuning, target_margin - z, details={**details, "r": z})


@theorem
def norma_any_step(
    *, step: float, radius: float, bound: float, target_margin: float, margin: float = 0.0,
    loss: float = 0.0, trials: int | None = None, path: float = 0.0, squared_path: float = 0.0,
    weight_decay: float | None = None, p: float = 2.0,
) -> Guarantee:  # fmt: skip
    """Bound on NORMA's hinge loss plus its weighted margin errors, for whatever step.

    ``L_rho + (mu - rho - eta'(p-1)X^2/2) M_rho <= K + (B^2 + B (sqrt(T D2) + D1)) / (2 eta')``

    The weight is ``details["weight"]``; where it is 0 the hinge loss itself is bounded (N04 (47)),
    and mistakes by ``bound/rho`` (N04 (48)). With a lam of your own, ``B sqrt(T D2)`` becomes
    ``(D2/(eta' lam) + T eta' lam B^2)/2``.

    Parameters
    ----------
    step : float
        eta'; the run uses ``eta = eta'/(1 + eta' lam)``.
    weight_decay : float, optional
        lam; the best one, ``sqrt(D2/T) / (B eta')``, if None.
    radius, bound, target_margin, margin, loss, trials, path, squared_path, p
        As in :func:`norma_margin_errors`.

    References
    ----------
    N04 (45)-(48), A02 (15). N04 (46) prints (mu - rho - eta'X^2)/2; it means mu - rho - eta'X^2/2.

    Examples
    --------
    >>> norma_any_step(step=0.5, radius=2.0, bound=1.0, target_margin=1.0).bound
    4.0
    """
    owner = "norma_any_step"
    check(owner, step=step, radius=radius, bound=bound, target_margin=target_margin, margin=margin)
    check(owner, loss=loss, path=path, squared_path=squared_path, p=p)
    if trials is not None:
        check(owner, trials=trials)
    gap = _check_gap(owner, target_margin, margin)
    decay = _speed(owner, trials, squared_path) / radius
    if weight_decay is not None:
        check(owner, weight_decay=weight_decay)
        decay = step * weight_decay
    shift = _shift_cost(owner, decay, radius, trials, squared_path)
    most = loss + (radius * (radius + path) + shift) / (2 * step)
    weight = gap - step * (p - 1) * bound * bound / 2
    tuning = _norma_tuning(step, decay)
    return Guarantee(
        "hinge loss + weight * margin errors",
        most,
        tuning,
        float(margin),
        details={"weight": weight},
    )


def _shift_cost(
    owner: str, decay: float, radius: float, trials: int | None, squared_path: float
) -> float:
    """Return (D2/z + T z B^2)/2, z = eta' lambda."""
    if decay == 0 and squared_path == 0:
        return 0.0
    if decay == 0 or trials is None:
        raise ValueError(
            f"{owner}: a comparator that moves needs weight_decay above 0, and a decay needs "
            f"trials; got squared_path={squared_path!r}, trials={trials!r} with "
            f"eta' * lambda = {decay:g}. Give trials, and leave weight_decay out for the best one."
        )
    return (squared_path / decay + trials * decay * radius * radius) / 2


def _alma(
    owner: str, gap: float, radius: float, bound: float, loss: float, path: float, p: float
) -> tuple[float, float, dict[str, float], dict[str, float]]:
    """Return the bound, z, the tuning and the details that Theorems 1 and 2 of A02 share."""
    check(owner, radius=radius, bound=bound, loss=loss, path=path, p=p)
    scale = (p - 1) * bound * bound
    complexity = scale / 4 * radius * (radius + 2 * path)
    z = _step_size(gap, loss, complexity)
    tuning = {"learning_rate": 2 * z / scale, "radius": float(radius)}
    return _count_bound(loss, complexity, gap), z, tuning, {"C": complexity}


@theorem
def alma_margin_errors(
    *, radius: float, bound: float, target_margin: float, margin: float = 0.0, loss: float = 0.0,
    path: float = 0.0, p: float = 2.0,
) -> Guarantee:  # fmt: skip
    """Bound on the margin errors (updates) of ALMA, tuned for them.

    ``ME_rho <= beta(K, C, mu - rho)``, ``C = (p-1)/4 X^2 (B^2 + 2 B D)``

    with ``alpha = 2 h(mu - rho, K, C) / ((p-1) X^2)`` and the ball of radius B.

    Parameters
    ----------
    radius, bound, target_margin, margin : float
        B, X, mu and rho, rho < mu.
    loss : float
        K, the comparator's cumulative hinge loss at mu; 0 where it separates.
    path : float
        D, the length of the comparator's path.
    p : float
        2 for kernels; more with a p-norm link.

    References
    ----------
    A02 Theorem 1.

    Examples
    --------
    >>> alma_margin_errors(radius=2.0, bound=1.0, target_margin=1.0, margin=0.5).bound
    16.0
    """
    owner = "alma_margin_errors"
    check(owner, target_margin=target_margin, margin=margin)
    gap = _check_gap(owner, target_margin, margin)
    most, _, tuning, details = _alma(owner, gap, radius, bound, loss, path, p)
    return Guarantee("margin errors", most, tuning, float(margin), details=details)


@theorem
def alma_mistakes(
    *, radius: float, bound: float, target_margin: float, loss: float = 0.0, path: float = 0.0,
    p: float = 2.0,
) -> Guarantee:  # fmt: skip
    """Bound on the mistakes of ALMA, tuned for them.

    ``M <= beta(K, C, mu)``, ``C = (p-1)/4 X^2 (B^2 + 2 B D)``

    with ``r = h(mu, K, C)``, ``alpha = 2 r / ((p-1) X^2)``, the ball of radius B and the margin
    ``rho = mu - r``. The same tuning with margin 0 has the same bound.

    Parameters
    ----------
    radius, bound, target_margin, loss, path, p : float
        B, X, mu, K, D and p, as in :func:`alma_margin_errors`.

    References
    ----------
    A02 Theorem 2.

    Examples
    --------
    >>> alma_mistakes(radius=1.0, bound=1.0, target_margin=0.5, path=2.0).bound
    20.0
    """
    owner = "alma_mistakes"
    check(owner, target_margin=target_margin)
    most, z, tuning, details = _alma(owner, target_margin, radius, bound, loss, path, p)
    return Guarantee("mistakes", most, tuning, target_margin - z, details={**details, "r": z})


@theorem
def alma_any_step(
    *, step: float, radius: float, bound: float, target_margin: float, margin: float = 0.0,
    loss: float = 0.0, path: float = 0.0, p: float = 2.0,
) -> Guarantee:  # fmt: skip
    """Bound on ALMA's hinge loss plus its weighted margin errors, for whatever step.

    ``L_rho + (mu - rho - alpha(p-1)X^2/2) ME_rho <= K + (B D + B^2/2) / alpha``

    The weight is ``details["weight"]``; where it is 0 the hinge loss itself is bounded, and
    mistakes by ``bound/rho``.

    Parameters
    ----------
    step : float
        alpha, the learning rate of the run.
    radius, bound, target_margin, margin, loss, path, p
        As in :func:`alma_margin_errors`.

    References
    ----------
    A02 (6).

    Examples
    --------
    >>> alma_any_step(step=0.5, radius=2.0, bound=1.0, target_margin=1.0).bound
    4.0
    """
    owner = "alma_any_step"
    check(owner, step=step, radius=radius, bound=bound, target_margin=target_margin, margin=margin)
    check(owner, loss=loss, path=path, p=p)
    gap = _check_gap(owner, target_margin, margin)
    most = loss + radius * (path + radius / 2) / step
    tuning = {"learning_rate": float(step), "radius": float(radius)}
    details = {"weight": gap - step * (p - 1) * bound * bound / 2}
    return Guarantee(
        "hinge loss + weight * margin errors", most, tuning, float(margin), details=details
    )
