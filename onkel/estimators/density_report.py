"""What the self-tuning detector promised, beside what happened."""

from __future__ import annotations

from math import exp
from typing import Any

from onkel.core.density_table import Count, Level
from onkel.learner import Densities


def report(learner: Densities) -> dict[str, Any]:
    """Return every number that a user may want to see; None where one has no meaning yet."""
    plan, judged = learner.plan, learner.count(Count.JUDGED)
    return {
        "t": learner.t,
        "terms": learner.size,
        "bytes": learner.nbytes,
        "mistakes": None,
        "threshold": learner.level(Level.LOG_ALPHA),
        "level": exp(learner.level(Level.LOG_ALPHA)),
        "level_lowest": plan.low,
        "level_highest": plan.high,
        "tied": learner.tied,
        "warmup": plan.warmup,
        "memory": plan.memory,
        "held": learner.count(Count.HELD),
        "widths": widths(learner),
        **_rates(learner, judged),
    }


def widths(learner: Densities) -> dict[str, float | None]:
    """Return the distance over which likeness falls to a third, by view, in spreads."""
    found = learner.state.real[Level.WIDTH : Level.WIDTH + 4].tolist()
    names = ("rows", "whitened rows", "steps", "late means")
    return {name: 1.0 / c if c > 0 else None for name, c in zip(names, found, strict=True)}


def _rates(learner: Densities, judged: int) -> dict[str, Any]:
    """Return promise, outcome, and the terms that explain the difference, exactly.

    ``alerts + hushed = nu T + (log a_0 - log a_T + forgiven - unspent) / rate``,

    where `hushed` rows are no alerts for an answer's sake.
    """
    plan = learner.plan
    names = ("rate_realised", "rate_recent", "rate_error_term", "alerts", "alerts_forgiven",
             "alerts_unspent", "rate_in_words")  # fmt: skip
    if not judged:
        return {"rate_promised": plan.nu, **dict.fromkeys(names)}
    alerts = learner.count(Count.ALERTS)
    travel = (learner.level(Level.START) - learner.level(Level.LOG_ALPHA)) / plan.rate
    forgiven, unspent = (learner.level(v) / plan.rate for v in (Level.FORGIVEN, Level.UNSPENT))
    realised, recent = alerts / judged, learner.level(Level.RECENT)
    hushed = int(learner.answers.asked_count[1])
    term = (travel + forgiven - unspent - hushed) / judged
    values = (realised, recent, term, alerts, forgiven, unspent,
              _in_words(plan.nu, realised, recent, judged, forgiven))  # fmt: skip
    return {"rate_promised": plan.nu, **dict(zip(names, values, strict=True))}


def _in_words(nu: float, realised: float, recent: float, judged: int, forgiven: float) -> str:
    """Promise and outcome as one sentence."""
    words = (
        f"Promised {100 * nu:.3g} % alerts among usual rows, realised {100 * realised:.3g} % of "
        f"{judged} examples, {100 * recent:.3g} % of the last thousand or so"
    )
    more = round(forgiven)
    debt = f"; about {more} alerts were more than the level can owe, and were forgiven"
    return f"{words}{debt}." if more else f"{words}."
