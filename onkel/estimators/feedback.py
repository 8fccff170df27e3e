"""Answers to alerts: which can be given, what waits, and what was promised of them."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np

from onkel.core.answers import KINDS, Answers, Promise
from onkel.nearest import did_you_mean
from onkel.saved import Saved

MOST_KEPT = 10_000_000
"""Alerts that can be answered, at most."""


def number_of(owner: str, id: Any, answer: Any, answers: Answers, alerts: int) -> int:
    """Return the number of the alert that is answered; refuse what cannot be taken.

    `alerts`: how many there were so far.
    """
    if not isinstance(answer, str) or answer not in KINDS:
        meant = did_you_mean(str(answer), KINDS)
        raise ValueError(f"{owner}: an answer is 'usual' or 'fault'; got {answer!r}.{meant}")
    known = isinstance(id, (str, int, np.integer)) and not isinstance(id, bool)
    text = str(id).strip() if known else ""
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise ValueError(
            f"{owner}: the id of an alert is the number of rows that were learned before it, such "
            f"as '1234'; got {id!r:.60}."
        )
    if answers.find(int(text)) < 0:
        raise ValueError(f"{owner}: {_unknown(text, answers, alerts)}")
    return int(text)


def _unknown(text: str, answers: Answers, alerts: int) -> str:
    held = answers.asked_at[answers.kept()]
    if not answers.room:
        return f"alert {text} cannot be answered: alerts_kept=0 keeps none."
    if not len(held) and not alerts:
        return f"there is no alert {text}, and there was none so far."
    if not len(held):
        return (
            f"there is no alert {text} that can be answered: of the {alerts} so far none is kept; "
            "a merged model keeps the alerts that it raises itself."
        )
    why = "no row of that number was an alert"
    if int(text) < held[0] and max(alerts, int(answers.asked_count[0])) > len(held):
        last = "alert" if len(held) == 1 else f"{len(held)} alerts"
        why = f"the last {last} can be answered, and it is older or was none"
    return f"there is no alert {text}: {why}. The oldest is {held[0]}, the newest {held[-1]}."


def listed(answers: Answers, t: int) -> list[dict[str, Any]]:
    """Return the alerts that can be answered, the oldest first."""
    return [
        {
            "id": str(answers.asked_at[at]),
            "score": float(answers.asked[at, -2]),
            "p": math.exp(answers.asked[at, -2]),
            "rows_since": int(t - 1 - answers.asked_at[at]),
            "answer": None if not answers.said[at] else KINDS[answers.said[at] - 1],
        }
        for at in answers.kept().tolist()
    ]


def report(answers: Answers) -> dict[str, Any]:
    """Return what came of the answers; with a promised precision, that beside it, exactly.

    ``dismissed / answered = share - (theta - theta_0 + unspent) / (rate answered)``
    """
    waiting = int((answers.said[answers.kept()] == 0).sum())
    found: dict[str, Any] = {
        "alerts_waiting": waiting,
        "alerts_answered": answers.answered,
        "alerts_dismissed": answers.dismissed,
        "alerts_hushed": int(answers.asked_count[1]),
    }
    promise, count = answers.promise, answers.answered
    if promise is None:
        return found
    realised = term = None
    if count:
        realised = 1.0 - answers.dismissed / count
        travel = answers.theta - promise.start + answers.unspent
        term = travel / (promise.rate * count)
    return {
        **found,
        "precision_promised": 1.0 - promise.share,
        "precision_realised": realised,
        "precision_error_term": term,
        "precision_level": math.exp(answers.theta),
        "precision_in_words": _in_words(1.0 - promise.share, realised, count, waiting),
    }


def _in_words(promised: float, realised: float | None, count: int, waiting: int) -> str:
    waits = f"; {waiting} wait for an answer" if waiting else ""
    if realised is None:
        return (
            f"Promised that {100 * promised:.3g} % of the answered alerts are faults; none was "
            f"answered yet, so that the level stays where it began{waits}."
        )
    return (
        f"Promised that {100 * promised:.3g} % of the answered alerts are faults, realised "
        f"{100 * realised:.3g} % of {count}{waits}."
    )


# -- files -----------------------------------------------------------------------------------------


def terms_of(answers: Answers) -> dict[str, Any]:
    """Return what a model was begun with, whatever its parameters have been set to since."""
    promise = answers.promise
    return {
        "alerts_kept": answers.room, "memory_of_feedback": float(answers.memory),
        "promise": None if promise is None else asdict(promise),
    }  # fmt: skip


def terms_in(saved: Saved) -> tuple[Promise | None, float, int] | None:
    """Return it of a file: promise, memory, alerts that are kept; None of files without."""
    if saved.peek("alerts_kept") is None:
        return None
    kept = saved.whole("alerts_kept", high=MOST_KEPT)
    memory = saved.number("memory_of_feedback", low=1.0)
    if saved.peek("promise") is None:
        saved.value("promise")
        return None, memory, kept
    held = saved.inside("promise")
    share, start, high, rate = (held.number(n) for n in ("share", "start", "high", "rate"))
    promise = Promise(share, start, high, rate, held.flag("alone"))
    held.finish()
    if not (0 < share < 1 and start <= high < 0 < rate <= 1):
        raise saved.refuse("promise", "is none that a detector makes")
    return promise, memory, kept
