"""Answers to alerts of a table: which of its values they are about, and what they make of rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.columns import Encoded, Tally
from onkel.columns.said import CONDEMNED, Codes, Saying, Values, until_of
from onkel.core.answer_places import STANDS_OUT
from onkel.core.answer_values import RareValues
from onkel.core.answers import KINDS, SEEN
from onkel.core.precedents import Precedent

Array = NDArray[Any]


def alerts_among(
    learner: Any, tally: Tally, rows: Encoded
) -> tuple[Array, list[Values], int] | None:
    """Return which of the rows that were just learned can be answered, and their values.

    Parameters
    ----------
    learner : Densities
        It has learned them.
    tally : Tally
        It has not yet counted them.
    rows : Encoded

    Returns
    -------
    numbers, values, oldest
        Of these alerts, and the number of the oldest that can be answered; None if none of the
        rows is one.
    """
    answers, first = learner.answers, learner.t - len(rows)
    count, room = int(answers.asked_count[0]), len(answers.asked_at)
    if not count or not room or answers.asked_at[(count - 1) % room] < first:
        return None
    numbers = answers.asked_at[answers.kept()]
    new = numbers[numbers >= first]
    return new, tally.values_of_alerts(rows, (new - first).tolist()), int(numbers[0])


def answer(
    learner: Any, tally: Tally, number: int, kind: str, cut: Array, frame: Array | None = None
) -> Tally:
    """Let a learner take in an answer; return a tally that has heard it.

    Values are looked at in the units of now, as rare as they were then. Of what was *usual* those
    are rare no more that were two spreads beyond the mean or more; of a *fault* those stay rare
    that stood out, three spreads, and had come in one of a thousand rows at most, so that hardly
    any usual row becomes an alert; or the one that stood out most of the row.

    Parameters
    ----------
    learner : Densities
        It changes.
    tally : Tally
        It stays as it is.
    number : int
        Of the alert.
    kind : {"usual", "fault"}
    cut : array
        What is taken off of how rare each value is, for the learner.
    frame : array, optional
        Means and spreads in which the alert is looked at, where others know them better.
    """
    usual, d = kind == KINDS[0], len(cut)
    z = learner.spreads_of(number, frame)
    out = np.flatnonzero(z[:d] >= (STANDS_OUT - SEEN if usual else STANDS_OUT)).tolist()
    values = tally.said.alert(number)
    codes: list[Codes] = [()] * d
    if values is not None:
        held = values.rare if usual else _blamed(values, out, z, tally)
        codes = [held[j] if j in out else () for j in range(d)]
    at = _without_others(values, codes, out, z, usual)
    stay = [j for j in at if codes[j]]
    typical = learner.typical(at)
    rare = RareValues(at, typical, stay, np.maximum(CONDEMNED - cut[stay], 0.0), learner.share)
    if at and usual:
        rare = replace(rare, whole=learner.alerts_still(number, rare))
    learner.answer(number, kind, frame, rare if at else None)
    levels = np.zeros(d)
    levels[at] = np.where(typical > 0, typical + cut[at], 0.0)
    until = until_of(learner.t, learner.answers.memory)
    own = Saying(number, usual, until, tuple(codes), tuple(levels.tolist()))
    heard, places = tally.copy(), learner.answers
    heard.said = tally.said.answered(own, places.of[places.strength > 0].tolist())
    return heard


def _without_others(
    values: Values | None, codes: list[Codes], out: list[int], z: Array, usual: bool
) -> list[int]:
    """Return the columns in which an alert's place is to stand for no value as rare as its own.

    Where it cannot be said which of its values it is about, as of a text of words that are all
    usual, it stands for texts as unusual. Files of earlier versions do not know the values: there
    the answer is about the rest of the row.
    """
    if values is None or any(codes):
        return out if values is None or not usual else [j for j in out if codes[j]]
    return [] if usual else [j for j in out if j != int(np.argmax(np.abs(z)))]


def _blamed(values: Values, out: list[int], z: Array, tally: Tally) -> list[Codes]:
    """Return the values that are called a fault, of each column; `out`: of those that stand out.

    What had come more often than in one of a thousand rows is so only where nothing stands out
    further; of words the rarest one then.
    """
    if any(values.seldom[j] for j in out):
        return values.seldom
    found: list[Codes] = [()] * len(values.rare)
    first = int(np.argmax(np.abs(z)))
    if first in out and values.rare[first]:
        counts = tally.counts.get(tally.rare_columns[first], {})
        found[first] = (min(values.rare[first], key=lambda code: (counts.get(code, 0.0), code)),)
    return found


def precedent(
    learner: Any, tally: Tally, X: Encoded, row: Array, told: Array, found: Precedent | None
) -> Precedent | None:
    """Return the answered alert that a row must be told with, by its values too.

    Parameters
    ----------
    learner : Densities
    tally : Tally
    X : Encoded
        The row of the table.
    row, told : array
        As the learner takes it; and had nothing been said of values.
    found : Precedent, optional
        By places alone.
    """
    values, came = tally.values(X), learner.t
    sayings = [tally.said.by(values, usual, came) for usual in (True, False)]
    if sayings == [None, None]:
        return found
    before, score = learner.unanswered(told), float(learner.scores(row[None])[0, 0])
    level = float(learner.limits()[0])
    alert, was = score < level, before < level
    decided, one = alert != was, sayings[alert]
    if one is None:
        same = found is not None and (found.answer == KINDS[1]) == alert
        kept = found is not None and same and (decided or alert)
        return replace(found, score=before, decided=decided) if found and kept else None
    if not decided and not alert:
        return None
    like = one.likeness(came, learner.answers.memory)
    return Precedent(str(one.of) if one.of else None, KINDS[alert], like, before, decided)
