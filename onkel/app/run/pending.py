"""``--pending``: rows without a target wait under their ids, and are learned when it comes.

A line without a target is predicted and kept. A later line with the same id and a target is the
label of the earlier one: the row is learned as it was, and counted against what was said then. A
line with a target whose id does not wait is an ordinary row, learned at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.app.errors import UsageProblem
from onkel.app.run.counting import COUNTINGS, Counting, Finish
from onkel.app.run.settings import RunSettings
from onkel.clock import seconds
from onkel.inputs import RefusedRow
from onkel.judge import Columns, Halted, Judge, Rows, named
from onkel.late import Late
from onkel.streams.sources import Block

Array = NDArray[Any]

KEEP = 100_000
"""So many rows wait at most, unless told."""
COUNTED = ("answered", "waiting", "expired", "asked")
ROW, LABEL, WHOLE = "row", "label", "whole"
"""A line without a target; with that of an earlier one; with its own."""


def limits_of(text: str) -> dict[str, Any]:
    """Return what --pending says: a duration, a number of rows, or both.

    Examples
    --------
    >>> limits_of("30d"), limits_of("500"), limits_of("30d,500")
    ({'keep': 100000, 'within': '30d'}, {'keep': 500}, {'keep': 500, 'within': '30d'})
    """
    found: dict[str, Any] = {"keep": KEEP}
    for part in (p.strip() for p in text.split(",")):
        if seconds(part) is not None:
            found["within"] = part
        elif part.isascii() and part.isdecimal() and int(part):
            found["keep"] = int(part)
        else:
            raise UsageProblem(
                "--pending is how long a row waits for its target (30d, 12h), how many rows wait "
                f"at most (500000), or both with a comma (30d,500000); got {text!r}."
            )
    return found


def by_clock(settings: RunSettings) -> bool:
    """Whether rows expire by the clock, so that times are needed, in order."""
    return settings.pending is not None and "within" in limits_of(settings.pending)


def check(settings: RunSettings, options: dict[str, Any]) -> None:
    """Refuse options that do not go together."""
    if settings.pending is None:
        for name in ("id", "ask"):
            if options.get(name) is not None:
                raise UsageProblem(
                    f"--{name} goes with --pending, which keeps rows until their targets come: "
                    "give it too, such as --pending 30d."
                )
        return
    if options["id"] is None:
        raise UsageProblem(
            "--pending needs to know which target belongs to which row: name the column of their "
            "ids, --id COL."
        )
    if by_clock(settings) and options["time"] is None:
        raise UsageProblem(
            f"--pending {settings.pending} goes by the clock: name its column, --time COL; or give "
            "a number of rows."
        )
    if settings.differences or settings.season or settings.lags not in (None, "0"):
        raise UsageProblem(
            "--pending keeps rows as they are; --lags, --season and --differences see each row "
            "with those before it. Leave one of them out."
        )
    late_of(settings)


def late_of(settings: RunSettings) -> Late:
    """Return a new model whose targets come late."""
    assert settings.pending is not None
    try:
        return Late(settings.estimator(), ask=settings.ask, **limits_of(settings.pending))
    except ValueError as error:
        raise UsageProblem(str(error)) from None


def estimator_of(model: Any) -> Any:
    """Return the estimator of a model whose targets come late; another one as it is."""
    return model.estimator if isinstance(model, Late) else model


@dataclass
class Found:
    """What came of a block, piece by piece."""

    judge: Judge
    parts: list[Columns] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def columns(self) -> Columns:
        """Return one list per field."""
        names = [*self.judge.fields(), "ask"]
        return {name: [v for part in self.parts for v in part[name]] for name in names}


class Pending(Counting):
    """What the command counts where rows wait; beside one of the tasks' own."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns of the output."""
        return (*super().fields, *(("ask",) if self.settings.ask is not None else ()))

    def judged(self, model: Any, rows: Rows, block: Block) -> Any:
        """Predict, keep and learn, line by line as far as they differ."""
        assert block.ids is not None
        found, before, done = Found(self.judge), model.counts(), 0
        try:
            for kind, at in self._pieces(model, block):
                found.parts.append(self._piece(model, kind, rows.part(at), block.ids[at]))
                done = at.stop
                found.counts = _less(model.counts(), before)
        except RefusedRow as error:
            row = error.row - done if isinstance(error, Unplaced) else error.row
            refused = RefusedRow(str(error), row)
            raise (Halted(refused, done, found) if done else refused) from None
        return found

    def _pieces(self, model: Late, block: Block) -> Iterator[tuple[str, slice]]:
        """Yield runs of lines of one kind; each is handled before what follows is looked at."""
        assert block.ids is not None
        bare, known = _bare(block), block.known.tolist()
        times = [None] * len(known) if not self._timed else block.time.tolist()  # type: ignore[union-attr]
        start, kind, seen = 0, "", set[str]()
        for i, (id, there, time) in enumerate(zip(block.ids, known, times, strict=True)):
            now = _kind(model, id, there, time)
            if i > start and (now != kind or id in seen or (now == ROW and id in model)):
                yield kind, slice(start, i)
                now, start, seen = _kind(model, id, there, time), i, set()
            _check_place(model, now, id, time, bool(bare[i]), i)
            kind = now
            seen.add(id)
        if len(known) > start:
            yield kind, slice(start, len(known))

    @property
    def _timed(self) -> bool:
        return self.judge.by_clock or by_clock(self.settings)

    def _piece(self, model: Late, kind: str, rows: Rows, ids: list[str]) -> Columns:
        """Return one column per field of lines of one kind."""
        if kind == WHOLE:
            found = self.judge(model.estimator, rows).columns()
            if self._timed and rows.time is not None:
                model.expire(rows.time[-1])
            return {**found, "ask": [None] * len(ids)}
        how: dict[str, Any] = {"time": rows.time} if self._timed else {}
        if kind == ROW:
            X = named(model, rows.whole(), self.judge.names)
            said = model.predict(X, ids=ids, **how)
            return {**_told(said), "target": [None] * len(ids), "ask": said.ask.tolist()}
        assert rows.y is not None
        answered = model.learn(ids, rows.y, **how)
        return {**_told(answered), "target": rows.y.tolist(), "ask": [None] * len(ids)}

    def finishing(self, model: Any, found: Any, block: Block) -> Finish:
        """Return what counts; how many rows wait is known now."""
        count, moved = super().finishing(model.estimator, found, block), dict(found.counts)

        def finish() -> Columns:
            held = self.counters.pending
            self.counters.pending = {n: held.get(n, 0) + moved.get(n, 0) for n in COUNTED}
            return count()

        return finish


def counting_of(settings: RunSettings) -> type[Counting]:
    """Return what counts for a task, and for rows that wait where there are such."""
    task = COUNTINGS[settings.task]
    if settings.pending is None:
        return task
    return type(f"Pending{task.__name__}", (Pending, task), {})


class Unplaced(RefusedRow):
    """A line whose id says that it cannot be taken; `row` counts from the block's first."""


def _kind(model: Late, id: str, target: bool, time: float | None) -> str:
    if not target:
        return ROW
    return LABEL if model.waits(id, time) else WHOLE


def _check_place(
    model: Late, kind: str, id: str, time: float | None, bare: bool, at: int
) -> None:  # fmt: skip
    """Refuse a second row under an id that waits, and a label that belongs to no row."""
    if kind == ROW and model.waits(id, time):
        raise Unplaced(f"id {id[:80]!r}: a row without a target waits under it already", at)
    if kind == WHOLE and bare:
        raise Unplaced(
            f"id {id[:80]!r}: a target without a row; none waits under it: it never came, has its "
            "target already, or has expired (--pending)", at,
        )  # fmt: skip


def _bare(block: Block) -> Array:
    """Return which lines hold nothing but id and target."""
    found: Any = np.isnan(block.X).all(axis=1)
    for cells in block.others.values():
        found = found & np.array([c is None or c == "" or c != c for c in cells], bool)
    return np.asarray(found)


def _told(said: Any) -> Columns:
    """Return what was said as columns; None where nothing was known."""
    found = {"prediction": _plain(said.prediction)}
    if said.probability is not None:
        found["probability"] = _plain(said.probability)
    if said.interval is not None:
        found |= {name: _plain(said.interval[:, j]) for j, name in enumerate(("low", "high"))}
    return found


def _plain(values: Array) -> list[Any]:
    return [None if v != v else v for v in values.tolist()]


def _less(now: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {name: now[name] - before[name] for name in now}
