"""What was kept of a model, how far that goes back, and from where on it is to be compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple

from onkel.app.errors import UsageProblem
from onkel.app.http.problems import Problem, busy
from onkel.app.notify.messages import iso
from onkel.app.replay.since import ACCEPTED, Since
from onkel.app.service import fleets
from onkel.app.service.archive import Archive, Piece
from onkel.app.service.log import Record
from onkel.app.service.recorded import Step, Survey, steps
from onkel.app.service.replay import time_of
from onkel.app.service.slots import Slot

OFTEN = 1000
"""Records between two looks at the clock."""


# -- where the model stands --------------------------------------------------------------------


class Standing(NamedTuple):
    """How far a model is: what it has learned is what its records say up to here."""

    position: int
    refused: frozenset[int]
    """Records of which the log does not say yet that they were refused."""
    rows: Mapping[Any, int]
    """That it has learned, by key; of a model without keys by None."""


def standing(slot: Slot) -> Standing:
    """Return how far a model is; called while nothing else is at it."""
    model = slot.estimator
    rows = model.rows_by_key() if fleets.is_fleet(model) else {None: time_of(model)}
    return Standing(slot.position, frozenset(slot.refused), rows)


@dataclass(frozen=True)
class Past:
    """What was kept of a model, and what it had learned before that."""

    archive: Archive
    pieces: list[Piece]
    owner: int
    standing: Standing
    survey: Survey

    @classmethod
    def of(cls, archive: Archive, slot: Slot, now: Standing, watch: Watch) -> Past:
        """Read what there is once, or say that there is nothing."""
        pieces, owner = archive.pieces(), slot.spec.id
        known = pieces[-1].end - 1  # what is behind the position tells what was refused before it
        records = watch.over(archive.records(pieces, owner, known))
        survey = Survey.of(records, now.refused, fleets.is_fleet(slot.estimator), now.position)
        if not survey.rows:
            raise Problem(
                409, "no_rows", "No row of this model is kept: it has learned none, or they are "
                "older or more than --archive asks for.",
            )  # fmt: skip
        found = cls(archive, pieces, owner, now, survey)
        found.check()
        return found

    def before(self) -> dict[Any, int]:
        """Return how many rows were learned before those that are kept, by key."""
        survey = self.survey
        if not survey.by_key:
            return {None: self.standing.rows[None] - survey.learned}
        each = self.standing.rows.items()
        found = {key: rows - survey.learned_by_key[key] for key, rows in each}
        return {key: rows for key, rows in found.items() if rows}

    def check(self) -> None:
        """Refuse records that say of more rows than the model has learned."""
        if min(self.before().values(), default=0) < 0:
            raise Problem(
                500, "fault", "The records that are kept tell of more rows than this model has "
                "learned, so that a replay would not be what it did. This is a fault of onkel.",
            )  # fmt: skip

    def steps(self, first: int, keys: frozenset[Any] | None) -> Iterator[Step]:
        """Return what the model did, in order."""
        records = self.archive.records(self.pieces, self.owner, self.standing.position)
        return steps(records, self.survey.refused, first, keys)


class Watch:
    """Ends what takes too long, or what nobody waits for."""

    def __init__(self, seconds: float, ended: Callable[[], bool]) -> None:
        self.seconds, self._ended, self._begun = seconds, ended, monotonic()

    def over(self, records: Iterator[Record]) -> Iterator[Record]:
        """Yield records, and look now and then."""
        for i, record in enumerate(records):
            if i % OFTEN == 0:
                self.check(0, 0)
            yield record

    def check(self, done: int, rows: int) -> None:
        """Raise a Problem that says how far it is."""
        if self._ended():
            raise busy("ended", "The service ends, or nobody waits for this.")
        taken = monotonic() - self._begun
        if taken > self.seconds:
            far = (
                f"{done:,} of {rows:,} rows are replayed" if rows else "the rows are being counted"
            )
            whole = ""
            if done:
                whole = f"; all of them would take about {_seconds(taken * rows / done)}"
            words = (
                f"After {self.seconds:g} seconds {far}{whole}. Ask for fewer settings or keys, or "
                "start onkel serve with a larger --replay-seconds."
            )
            raise Problem(503, "timeout", words, limit=self.seconds, done=done, rows=rows)


def _seconds(count: float) -> str:
    """Return so many seconds, rounded up.

    Examples
    --------
    >>> _seconds(0.2), _seconds(1800.5)
    ('1 second', '1,801 seconds')
    """
    whole = max(math.ceil(count), 1)
    return f"{whole:,} second{'s' * (whole != 1)}"


# -- from where on -----------------------------------------------------------------------------


def since_of(asked: int | str | None) -> Since:
    """Return from where on alerts are compared, or refuse it."""
    try:
        return Since.of(None if asked is None else str(asked))
    except UsageProblem:
        words = f"since is {ACCEPTED}; got {str(asked)[:80]!r}."
        raise Problem(422, "bad_field", words, "since") from None


def settled(since: Since, first: int, survey: Survey) -> Since:
    """Return the same with the last row known; refuse what lies before or behind the rows."""
    last = first + survey.rows - 1
    if since.by_clock:
        return _by_clock(since, first, survey)
    if since.row > last:
        raise _nothing(since, f"the last row is row {last:,}")
    if since.text is not None and since.row < first:
        raise _gone(since, f"row {first:,}")
    return since


def _by_clock(since: Since, first: int, survey: Survey) -> Since:
    if math.isinf(survey.end):
        words = (
            "When these rows came is not known: they were learned without --archive. Give the "
            "number of a row."
        )
        raise Problem(422, "bad_field", words, "since")
    if since.time is not None and since.time > survey.end:
        raise _nothing(since, f"the last row is of {moment(survey.end)}")
    if since.time is not None and first and since.time < survey.begin:
        raise _gone(since, moment(survey.begin))
    return since.settled(survey.end)


def _nothing(since: Since, words: str) -> Problem:
    return Problem(422, "bad_field", f"There is no row since {since.text}: {words}.", "since")


def _gone(since: Since, begins: str) -> Problem:
    words = (
        f"since {since.text}: what is kept of this model begins with {begins}. Ask since then, or "
        "leave since out for all that is kept."
    )
    return Problem(422, "bad_field", words, "since")


def moment(seconds: float) -> str:
    """Return a time as people read it; seconds that no calendar has as they are.

    Examples
    --------
    >>> moment(1700000000.5), moment(-float("inf"))
    ('2023-11-14T22:13:20.500Z', 'a time that is not known')
    """
    if math.isinf(seconds):
        return "a time that is not known"
    with suppress(OverflowError, ValueError, OSError):
        return iso(seconds)
    return f"{seconds:.17g}"
