"""What a learner promised, beside what happened."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import bounds
from onkel.core.layout import Field
from onkel.learner import Learner, SecondOrderLearner, Widths

Array = NDArray[Any]

START = np.zeros(3)
"""Rates are counted from the first trial."""


def report(learner: Learner, since: Array | None = START) -> dict[str, Any]:
    """Return every number that a user may want to see; None where one has no meaning.

    Rates are counted from `since`: the weight, the count outside and the threshold up to then
    (None: not yet).
    """
    s, loss = learner.state, learner.loss
    classifies, has_norm = loss.task == "classification", learner.rule.needs_norm
    found: dict[str, Any] = {
        "t": learner.t,
        "terms": learner.size,
        "mistakes": learner.mistakes if classifies else None,
        "margin_errors": _plain(s[:, Field.MARGIN_ERRORS]) if classifies or loss.adaptive else None,
        "updates": _plain(s[:, Field.UPDATES]),
        "loss": _plain(s[:, Field.LOSS]),
        "risk": _plain(s[:, Field.RISK]) if has_norm else None,
        "offset": _plain(s[:, Field.OFFSET]),
        "threshold": _plain(learner.limits()),
        "truncation_bound": float(s[:, Field.DROPPED].max(initial=0.0)),
        "truncation_promise": _truncation_promise(learner),
        "norm": _plain(np.sqrt(s[:, Field.NORM2])) if has_norm else None,
        "regularization": learner.rule.lam,
        "memory": learner.rule.memory if np.isfinite(learner.rule.memory) else None,
        "bytes": learner.nbytes,
        "kernel": repr(learner.kernel),
        "scale": _scale(learner),
        **_rates(learner, since),
    }
    if isinstance(learner, SecondOrderLearner):
        found |= _second_order(learner)
    if learner.settings.average:
        trials = np.maximum(s[:, Field.TRIALS], 1)
        found["average_bound"] = float((s[:, Field.DROPPED_AVERAGE] / trials).max(initial=0.0))
    return found


def _second_order(learner: SecondOrderLearner) -> dict[str, Any]:
    """Return the offset, the noise, what exchanged centres have cost, the intervals' rates.

    The noise is a standard deviation in the targets' units; the cost a sum of squares, in the
    learner's own units as the loss is.
    """
    following, widths = learner.following, learner.intervals
    if following is not None and not following.most:
        following = None  # no centres are chosen
    return {
        "offset": _plain(learner.weights()[1]),
        "noise": _plain(learner.limits()),
        "centers_exchanged": following.exchanged if following and following.most else None,
        "centers_cost": following.cost if following and following.most else None,
        **(rates_of(widths) if len(widths.state) else {}),
    }


def rates_of(widths: Widths) -> dict[str, Any]:
    """Return the promised share of targets outside the intervals, the realised one, and why.

    ``realised = promised + error term`` exactly: the term is how far the widths have gone.
    """
    names = ("rate_promised", "rate_realised", "rate_error_term", "rate_in_words")
    rows = widths.rows
    if not rows:
        return {**dict.fromkeys(names), "rate_promised": widths.nu}
    realised, error = widths.of("missed") / rows, widths.owed() / rows
    found = " and ".join(f"{100 * v:.3g} %" for v in realised.tolist())
    words = (
        f"Promised {100 * widths.nu:.3g} % of targets outside the intervals, realised {found} of "
        f"{rows} rows."
    )
    return dict(zip(names, (widths.nu, _plain(realised), _plain(error), words), strict=True))


def _plain(values: Array) -> Any:
    """A number for one output, a list for several."""
    return float(values[0]) if len(values) == 1 else [float(v) for v in values]


def _rates(learner: Learner, since: Array | None) -> dict[str, Any]:
    """Return the promised rate, the realised one, and the term that explains the difference.

    With a constant rate, realised = promised + error term exactly: the updates of the adaptive
    number, N04 (19), (20), (22), summed over the trials.
    """
    names = ("rate_promised", "rate_realised", "rate_error_term", "rate_in_words")
    if not learner.loss.adaptive or not learner.t:
        return dict.fromkeys(names)
    nu = float(learner.loss.nu)  # type: ignore[arg-type]
    weight = learner.state[:, Field.WEIGHT] - (0.0 if since is None else since[0])
    if since is None or not np.all(weight > 0):
        return {**dict.fromkeys(names), "rate_promised": nu}
    alerts = learner.loss.alerts
    counted = learner.state[:, Field.ALERTS if alerts else Field.OUTSIDE] - since[1]
    realised, travel = counted / weight, _travel(learner, since)
    error = realised - nu if travel is None else travel / weight
    words = _in_words(learner, nu, realised, error, float(weight.max()), exact=travel is not None)
    return dict(zip(names, (nu, _plain(realised), _plain(error), words), strict=True))


def _travel(learner: Learner, since: Array) -> Array | None:
    """Return how far the threshold has gone, in steps, signed as the rate feels it."""
    rate = getattr(learner.rule, "constant", None)
    if rate is None or learner.targets.active or learner.merged:
        return None  # steps of changing size: the identity has no such form
    alerts = learner.loss.alerts
    start = since[2] if alerts else learner.loss.start
    moved = learner.state[:, Field.ALERT if alerts else Field.THRESHOLD] - start
    sign = 1.0 if learner.loss.task == "regression" else -1.0
    return sign * moved / (learner.rule.threshold_rate * rate)


_COUNTED = {
    "novelty": "alerts",
    "regression": "targets outside the interval",
    "classification": "margin errors",
}


def _in_words(
    learner: Learner, nu: float, realised: Array, error: Array, rows: float, exact: bool
) -> str:
    """Promise, outcome and error term as one sentence."""
    found = " and ".join(f"{100 * r:.3g} %" for r in realised)
    off = " and ".join(f"{100 * e:+.2g}" for e in error)
    is_what = "exactly the travel of the threshold" if exact else "what a finite run leaves"
    return (
        f"Promised {100 * nu:.3g} % {_COUNTED[learner.loss.task]}, realised {found} of "
        f"{rows:.10g} examples; the difference of {off} points is {is_what}."
    )


def _scale(learner: Learner) -> dict[str, Any]:
    """Return what standardisation and "auto" have chosen."""
    report: dict[str, Any] = {"gamma": getattr(learner.kernel, "gamma", None)}
    if learner.settings.scale and not learner.on_strings:
        frame = learner.frame
        report["means"] = frame.mean.tolist()
        report["spreads"] = (learner.widths / (frame.width * frame.unit)).tolist()
    if learner.targets.active:
        report["target_means"] = learner.targets.center.tolist()
        report["target_spreads"] = learner.targets.spread.tolist()
    return report


def _truncation_promise(learner: Learner) -> float | None:
    """Return the bound of N04 Proposition 1 for the window's age, or None if it gives none."""
    age = learner.window_age()
    if age is None or learner.merged:
        return None
    covered = learner.kernel.bound is not None and np.isfinite(learner.loss.lipschitz)
    if not covered or not learner.rule.lam or age >= learner.t:
        return None
    assert learner.kernel.bound is not None
    eta = learner.rule.rates(np.arange(learner.t - age + 1, learner.t + 1))
    return bounds.truncation_error(
        age, eta, learner.rule.lam, learner.loss.lipschitz, learner.kernel.bound
    )
