"""The step that the theory of coefficient regularisation asks for (CR Theorem 4)."""

from __future__ import annotations

from onkel import bounds, losses
from onkel.losses import Loss
from onkel.rules.base import Space
from onkel.schedules import Power

THETA = 0.5


def theory_rate(loss: Loss, space: Space, lam: float | None) -> Power:
    """Return ``t^(-1/2) / mu``, mu = M kappa^2 + lam, computed from loss, centres and lam."""
    reach = space.reach
    if reach is None:
        raise ValueError(
            "Norma: learning_rate='theory' is the step of coefficient regularisation: it needs "
            "expansion=expansions.Centers(...) and a kernel with bounded k(x, x), such as "
            "Gaussian. Give a number or a schedule instead."
        )
    if not lam:
        raise ValueError(
            "Norma: learning_rate='theory' needs regularization > 0 (and no memory=), for "
            "example regularization=0.01."
        )
    promise = bounds.coefficient_norm(_surrogate(loss), kappa=reach, regularization=float(lam))
    return Power(theta=THETA, mu=promise.details["mu"])


def _surrogate(loss: Loss) -> bounds.Surrogate:
    """Return the loss as the theorems see it."""
    if isinstance(loss, losses.SoftMargin) and not loss.adaptive and loss.start > 0:
        return bounds.HingePower(power=loss.power, margin=loss.start)
    if isinstance(loss, losses.Logistic):
        return bounds.LogisticMargin()
    if isinstance(loss, losses.LeastSquares):
        return bounds.SquaredMargin()
    if isinstance(loss, losses.Exponential):
        return bounds.Exponential()
    raise ValueError(
        "Norma: learning_rate='theory' covers SoftMargin (with a margin above 0, without nu), "
        f"Logistic, LeastSquares and Exponential; got {loss!r}."
    )
