"""Theorems as functions: what each paper promises, under which assumptions, with which numbers.

A function takes the quantities that its theorem assumes and returns a :class:`Guarantee`: the
bound, the tuning under which it holds (keyword arguments for the rule), and the margin to give the
loss. All are stated for runs that start from 0, without offset, ``scale=False`` and, where nothing
else is said, without truncation. The papers' printing errors are corrected, and each docstring says
which.

>>> from onkel import bounds
>>> promise = bounds.norma_mistakes(radius=4.0, bound=1.0, target_margin=1.0)
>>> promise
Guarantee(mistakes <= 16, margin=0.5, tuning={learning_rate: 1, regularization: 0})
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from onkel.bounds.truncation import (
    NEVER,
    growth_start,
    growth_window,
    norm_bound,
    truncation_age,
    truncation_error,
)

if TYPE_CHECKING:
    from onkel.bounds.alerts import alert_budget, precision_budget
    from onkel.bounds.asking import ask_budget
    from onkel.bounds.coefficients import (
        coefficient_curvature,
        coefficient_excess,
        coefficient_function_norm,
        coefficient_kappa,
        coefficient_kappa_limit,
        coefficient_norm,
        coefficient_rate,
        coefficient_risk_gap,
        coefficient_strong_convexity,
    )
    from onkel.bounds.counts import (
        alma_any_step,
        alma_margin_errors,
        alma_mistakes,
        count_bound,
        norma_any_step,
        norma_margin_errors,
        norma_mistakes,
        step_size,
    )
    from onkel.bounds.experts import fixed_share, log_loss
    from onkel.bounds.guarantee import Guarantee, Rate
    from onkel.bounds.intervals import interval_misses
    from onkel.bounds.projections import projection_loss, projection_segment_loss
    from onkel.bounds.risk import (
        horizon_risk,
        norma_average_risk,
        norma_risk,
        norma_risk_truncated,
        regularized_average_risk,
        regularized_risk,
        soft_margin_risk,
    )
    from onkel.bounds.surrogates import (
        Exponential,
        HingePower,
        LogisticMargin,
        SquaredMargin,
        Surrogate,
    )

__all__ = [
    "NEVER", "Exponential", "Guarantee", "HingePower", "LogisticMargin", "Rate",
    "SquaredMargin", "Surrogate", "alert_budget", "alma_any_step", "alma_margin_errors",
    "alma_mistakes", "ask_budget", "coefficient_curvature", "coefficient_excess",
    "coefficient_function_norm",
    "coefficient_kappa", "coefficient_kappa_limit", "coefficient_norm", "coefficient_rate",
    "coefficient_risk_gap", "coefficient_strong_convexity", "count_bound", "fixed_share",
    "growth_start", "growth_window", "horizon_risk", "interval_misses", "log_loss", "norm_bound",
    "norma_any_step", "norma_average_risk", "norma_margin_errors", "norma_mistakes", "norma_risk",
    "norma_risk_truncated", "precision_budget", "projection_loss", "projection_segment_loss",
    "regularized_average_risk", "regularized_risk", "soft_margin_risk", "step_size",
    "truncation_age", "truncation_error",
]  # fmt: skip

# Learning needs the truncation only; the theorems are loaded when one is asked for.
_WHERE = {
    "alert_budget": "onkel.bounds.alerts",
    "ask_budget": "onkel.bounds.asking",
    "precision_budget": "onkel.bounds.alerts",
    "coefficient_curvature": "onkel.bounds.coefficients",
    "coefficient_excess": "onkel.bounds.coefficients",
    "coefficient_function_norm": "onkel.bounds.coefficients",
    "coefficient_kappa": "onkel.bounds.coefficients",
    "coefficient_kappa_limit": "onkel.bounds.coefficients",
    "coefficient_norm": "onkel.bounds.coefficients",
    "coefficient_rate": "onkel.bounds.coefficients",
    "coefficient_risk_gap": "onkel.bounds.coefficients",
    "coefficient_strong_convexity": "onkel.bounds.coefficients",
    "alma_any_step": "onkel.bounds.counts",
    "alma_margin_errors": "onkel.bounds.counts",
    "alma_mistakes": "onkel.bounds.counts",
    "count_bound": "onkel.bounds.counts",
    "norma_any_step": "onkel.bounds.counts",
    "norma_margin_errors": "onkel.bounds.counts",
    "norma_mistakes": "onkel.bounds.counts",
    "step_size": "onkel.bounds.counts",
    "fixed_share": "onkel.bounds.experts",
    "log_loss": "onkel.bounds.experts",
    "Guarantee": "onkel.bounds.guarantee",
    "Rate": "onkel.bounds.guarantee",
    "interval_misses": "onkel.bounds.intervals",
    "projection_loss": "onkel.bounds.projections",
    "projection_segment_loss": "onkel.bounds.projections",
    "horizon_risk": "onkel.bounds.risk",
    "norma_average_risk": "onkel.bounds.risk",
    "norma_risk": "onkel.bounds.risk",
    "norma_risk_truncated": "onkel.bounds.risk",
    "regularized_average_risk": "onkel.bounds.risk",
    "regularized_risk": "onkel.bounds.risk",
    "soft_margin_risk": "onkel.bounds.risk",
    "Exponential": "onkel.bounds.surrogates",
    "HingePower": "onkel.bounds.surrogates",
    "LogisticMargin": "onkel.bounds.surrogates",
    "SquaredMargin": "onkel.bounds.surrogates",
    "Surrogate": "onkel.bounds.surrogates",
}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_WHERE[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
