"""A run hears answers: which it takes in now, which must wait, which are refused, and why."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from onkel.app.run.counters import Counters
from onkel.app.run.fleets import Keyed
from onkel.app.run.inbox import Inbox, Said
from onkel.app.run.series import parted
from onkel.app.run.store import Models
from onkel.core.answers import KINDS

EVERY = 0.1
"""Seconds between two looks for answers."""
SHOWN = ("alerts_answered", "precision_promised", "precision_realised")
"""What a page shows of answers."""
UNKNOWN = "not known yet"
"""What stands for a precision before any answer."""
FIRST = 3
"""So many refused answers are told with the reason."""


def split(id: str, keyed: bool) -> tuple[str, str]:
    """Return key and number of an alert's id.

    Examples
    --------
    >>> split("7", False), split("a:b:7", True)
    (('', '7'), ('a:b', '7'))
    """
    if not keyed:
        return "", id
    key, _, number = id.rpartition(":")
    return key, number


def wrong_with(id: Any, answer: Any, keyed: bool) -> str:
    """Return why an answer cannot be one, whatever the run has seen; nothing if it can.

    Examples
    --------
    >>> wrong_with("7", "usual", False), wrong_with("7", "usual", True)
    ('', "the id of an alert is KEY:NUMBER here, such as 'pump:1234'; got '7'")
    """
    if answer not in KINDS:
        return f"an answer is 'usual' or 'fault'; got {answer!r:.60}"
    number = split(id, keyed)[1] if isinstance(id, str) else ""
    whole = number.isascii() and number.isdecimal() and len(number) < 19
    if not whole or (keyed and ":" not in id):
        form = "KEY:NUMBER here, such as 'pump:1234'" if keyed else "a number, such as '1234'"
        return f"the id of an alert is {form}; got {id!r:.60}"
    return ""


def undecided(inbox: Inbox, counters: Counters) -> list[Said]:
    """Return the answers that no checkpoint knows of."""
    also = set(counters.heard_also)
    return [said for said in inbox.after(counters.heard) if said.number not in also]


def decided(inbox: Inbox, counters: Counters) -> list[Said]:
    """Return the answers that a checkpoint knows of, in the order in which they were taken in."""
    open_ = {said.number for said in undecided(inbox, counters)}
    found = [s for s in inbox.after(0) if s.row is not None and s.number not in open_]
    return sorted(found, key=lambda s: (s.row, s.number))


def said_of(inbox: Inbox, counters: Counters) -> dict[str, dict[str, Any]]:
    """Return by the ids of alerts what was said of them last, and whether it waits for a run.

    Of refused answers the first few are known.
    """
    waiting = {said.number for said in undecided(inbox, counters)}
    found: dict[str, dict[str, Any]] = {}
    for said in inbox.after(0):
        before = {n: v for n, v in found.get(said.id, {}).items() if n == "answer"}
        words = f"{said.id} {said.answer}: "
        why = next((w for w in counters.first_refused if w.startswith(words)), "")
        if why:
            found[said.id] = {**before, "refused": why.removeprefix(words)}
        else:
            found[said.id] = {"answer": said.answer, "waits": said.number in waiting}
    return found


def again(said: Sequence[Said], answered: Answered) -> Hearing:
    """Return what takes answers in at the rows where an earlier run has taken them in."""
    inbox = Inbox(None)
    for one in said:
        assert one.row is not None
        inbox.pin(inbox.put([(one.id, one.answer)]), one.row)
    return Hearing(inbox, Counters(), answered)


def last_heard(counters: Counters) -> int:
    """Return the highest number of an answer that was decided."""
    return max([counters.heard, *counters.heard_also])


def refusal_of(model: Any, number: str, answer: str) -> str:
    """Return the model's own words about an alert that it does not know."""
    try:
        model.feedback(number, answer)
    except ValueError as error:
        return str(error).partition(": ")[2]
    raise AssertionError("an alert that is not listed cannot be answered")


class Answered:
    """The alerts of a run's models, to be answered.

    Parameters
    ----------
    models : Models or Keyed
    keyed : bool
        Whether there are keys.
    """

    def __init__(self, models: Models | Keyed, keyed: bool) -> None:
        self.models, self.keyed = models, keyed

    def model(self, key: str) -> Any | None:
        """Return the estimator of a key, to be looked at; None if it has learned nothing."""
        if isinstance(self.models, Keyed):
            self.models.fetch([key])
            fleet = self.models.fleet
            return fleet[key] if key in fleet else None  # noqa: SIM401 (it is no dict)
        if not self.models.has(key):
            return None
        found = parted(self.models.get(key))[0]
        return found if found.__sklearn_is_fitted__() else None

    def answer(self, key: str, number: str, answer: str) -> None:
        """Answer an alert; raise a ValueError where it cannot be."""
        if isinstance(self.models, Keyed):
            self.models.fleet.feedback(key, number, answer)
        else:
            parted(self.models.get(key))[0].feedback(number, answer)


@dataclass
class Hearing:
    """Answers as a run takes them in: each once, before a definite row.

    Parameters
    ----------
    inbox : Inbox
    counters : Counters
        They hold which answers were decided, and become part of the checkpoint.
    answered : Answered
    """

    inbox: Inbox
    counters: Counters
    answered: Answered
    decided: list[tuple[Said, str]] = field(default_factory=list)
    """By this run, with the reason of a refusal; for who watches."""
    _looked: float = float("-inf")
    _open: list[Said] = field(default_factory=list)

    def _look(self) -> None:
        self._looked = time.monotonic()
        self._open = undecided(self.inbox, self.counters)

    def put(self, some: Sequence[tuple[str, str]]) -> None:
        """Put answers in, all or none of them; from any thread."""
        self.inbox.put(some, last_heard(self.counters))

    # -- when ----------------------------------------------------------------------------------

    def cuts(self, first: int, end: int) -> list[int]:
        """Return before which rows of some an earlier run has taken answers in."""
        return sorted({s.row for s in self._open if s.row is not None and first < s.row < end})

    def due(self, row: int, look: bool = False) -> list[Said]:
        """Return the answers that are to be taken in before a row, which is the next one.

        New ones are looked for now and then, or if told to.
        """
        ready = []
        if look or time.monotonic() - self._looked >= EVERY:
            self._look()
            ready = [s for s in self._open if s.row is None and self._is_ready(s)]
        pinned = [s for s in self._open if s.row is not None and s.row <= row]
        if ready:
            self.inbox.pin([s.number for s in ready], row)
        return sorted([*pinned, *ready], key=lambda s: (row if s.row is None else s.row, s.number))

    def _is_ready(self, said: Said) -> bool:
        """Whether the row of that number was learned: else it may come, after a kill again."""
        key, number = split(said.id, self.answered.keyed)
        if wrong_with(said.id, said.answer, self.answered.keyed):
            return True  # to be refused
        model = self.answered.model(key)
        return model is not None and int(number) < model.t_

    # -- taking in -----------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many answers have come and wait, for the rows of their alerts."""
        return len(self._open)

    def take(self, some: list[Said]) -> None:
        """Take answers in, or refuse them; either is for good."""
        for said in some:
            why = self._take(said)
            self._count(said, why)
            self.decided.append((said, why))
        numbers = {said.number for said in some}
        self._open = [said for said in self._open if said.number not in numbers]

    def _take(self, said: Said) -> str:
        keyed = self.answered.keyed
        wrong = wrong_with(said.id, said.answer, keyed)
        if wrong:
            return wrong
        key, number = split(said.id, keyed)
        model = self.answered.model(key)
        if model is None:  # of a run that was killed, and that has read other rows since
            return f"there is no key {key!r:.60}" if keyed else "no row was learned"
        known = {a["id"]: a["answer"] for a in model.alerts_}
        if str(int(number)) not in known:
            return refusal_of(model, number, said.answer)
        self.answered.answer(key, number, said.answer)
        before = known[str(int(number))]
        self.counters.answered += before is None
        self.counters.dismissed += (said.answer == KINDS[0]) - (before == KINDS[0])
        return ""

    def _count(self, said: Said, why: str) -> None:
        counters = self.counters
        if why:
            words = f"{said.id} {said.answer}: {why}"
            counters.answers_refused += 1
            counters.first_refused = [*counters.first_refused, words][:FIRST]
        also = {*counters.heard_also, said.number}
        while counters.heard + 1 in also:
            counters.heard += 1
        counters.heard_also = sorted(n for n in also if n > counters.heard)


# -- in words ----------------------------------------------------------------------------------


def told(counters: Counters, promise: float | None) -> dict[str, Any]:
    """Return what came of answers, beside what was promised of them."""
    found: dict[str, Any] = {
        "alerts_answered": counters.answered, "alerts_dismissed": counters.dismissed,
    }  # fmt: skip
    if counters.answers_refused:
        found |= {"answers_refused": counters.answers_refused,
                  "first_answers_refused": counters.first_refused}  # fmt: skip
    if promise is not None:
        found["precision_promised"] = promise
        found["precision_realised"] = None
        if counters.answered:
            found["precision_realised"] = 1.0 - counters.dismissed / counters.answered
    return found


def in_words(summary: dict[str, Any]) -> list[str]:
    """Return the same for a line of text.

    Examples
    --------
    >>> in_words({"alerts_answered": 4, "alerts_dismissed": 1, "precision_promised": 0.8,
    ...           "precision_realised": 0.75})
    ['4 answered, 1 of them usual', 'precision 0.75 (promised 0.8)']
    """
    words, count = [], summary.get("alerts_answered", 0)
    if count:
        words.append(f"{count:,} answered, {summary['alerts_dismissed']:,} of them usual")
    if summary.get("answers_refused"):
        refused = summary["answers_refused"]
        words.append(f"{refused:,} answer{'s' * (refused != 1)} refused")
    promised = summary.get("precision_promised")
    if promised is not None:
        realised = summary["precision_realised"]
        shown = UNKNOWN if realised is None else f"{realised:.3g}"
        words.append(f"precision {shown} (promised {promised:.3g})")
    return words
