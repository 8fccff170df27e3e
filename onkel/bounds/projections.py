"""How much a projection may lose: whole runs, the rest of a run, any segment (H01 part 2)."""

from __future__ import annotations

from onkel.bounds.guarantee import Guarantee, check, theorem

__all__ = ["projection_loss", "projection_segment_loss"]

COUNTS = "mistakes, or squared losses beyond epsilon,"


@theorem
def projection_loss(*, distance: float, bound: float) -> Guarantee:
    """Bound on the mistakes, or the epsilon-insensitive square loss, of the projections.

    ``sum of [y f(x) <= 0], or of (abs(y - f(x)) - epsilon)_+^2, <= R^2 ||u - w_s||^2``

    for every u that fits each trial from s on: ``y u(x) >= 1``, or ``abs(u(x) - y) <= epsilon``.
    With s = 1 and w_1 = 0 the distance is ||u||. Mistakes are bounded, updates are not: a row with
    0 < y f(x) < 1 is an update and no mistake. (What the proof bounds is the sum of
    ``(1 - y f(x))_+^2``, where each mistake counts at least 1.)

    Parameters
    ----------
    distance : float
        ||u - w_s||, w_s the hypothesis before trial s; ||u|| for a whole run from 0.
    bound : float
        R, the largest sqrt(k(x, x)) of the trials counted.

    References
    ----------
    H01 Theorems 2 (classification), 3 (regression) and 6 (kernels) for s = 1, (18) for any s; the
    constrained form keeps them where ||u|| is at most its radius. Theorem 6 prints R = max K(x, x);
    it is R^2.

    Examples
    --------
    >>> projection_loss(distance=3.0, bound=2.0).bound
    36.0
    """
    check("projection_loss", distance=distance, bound=bound)
    return Guarantee(COUNTS, (bound * distance) * (bound * distance), {"radius": None}, 1.0)


@theorem
def projection_segment_loss(*, norm: float, radius: float, bound: float) -> Guarantee:
    """The same for the constrained projections, on any segment of trials.

    ``<= R^2 (gamma + ||u||)^2``

    for every u with ``||u|| <= gamma`` that fits the trials of the segment; what came before does
    not matter, so a target that switches costs this much per stretch.

    Parameters
    ----------
    norm : float
        ||u||.
    radius : float
        gamma, the radius of the ball that holds every hypothesis.
    bound : float
        R, the largest sqrt(k(x, x)) of the segment.

    References
    ----------
    H01 Theorems 4 (classification) and 5 (regression).

    Examples
    --------
    >>> projection_segment_loss(norm=1.0, radius=2.0, bound=1.0).bound
    9.0
    """
    owner = "projection_segment_loss"
    check(owner, norm=norm, radius=radius, bound=bound)
    if norm > radius:
        raise ValueError(
            f"{owner}: norm must be at most radius (the comparator lies in the ball); got "
            f"norm={norm!r}, radius={radius!r}. Raise radius."
        )
    far = bound * (radius + norm)
    return Guarantee(f"{COUNTS} of a segment", far * far, {"radius": float(radius)}, 1.0)
