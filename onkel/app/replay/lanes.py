"""Settings side by side over one source: it is read once, and each setting has a thread.

The core lets other threads run while it learns, so that two settings keep two cores busy.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.app.errors import RunError, SourceProblem
from onkel.app.replay import groups
from onkel.app.replay.alerts import Alert, Mark
from onkel.app.replay.compare import Outcome
from onkel.app.replay.heard import Heard
from onkel.app.replay.since import Judged, Since
from onkel.app.replay.variants import Variant
from onkel.app.run.answering import Answered, Hearing, again, split
from onkel.app.run.fleets import Keyed
from onkel.app.run.inbox import Said
from onkel.app.run.incidents import known_numbers
from onkel.app.run.outputs import Sink
from onkel.app.run.prepare import models_of
from onkel.app.run.session import Session, Sinks
from onkel.streams.sources import Block, Source, SourceError, ahead

Array = NDArray[Any]

AHEAD = 4
"""Blocks that may wait for the slowest setting."""
OFTEN = 10_000
"""After so many alerts those that will not be compared are let go."""
MEMORY, HELD = 2_000_000_000, 1000
"""Bytes of the models of all keys, over all settings; models in memory that are no fleet."""


class Lane:
    """One setting: a run of its own that keeps its alerts, and writes nothing unless told where.

    Parameters
    ----------
    variant : Variant
        The setting.
    source : Source
        What is read; it tells the columns.
    since : Since
        From where on alerts are kept.
    stack : ExitStack
        Closes what is opened.
    lanes : int
        How many settings share the machine.
    keys : set of str, optional
        Alerts of these are kept, of all unless told.
    sink : Sink, optional
        Where the lines go that a run would write.
    said : sequence of Said
        Answers that the run has taken in: they are taken in at the same rows, where the setting
        has the alerts.
    """

    def __init__(
        self, variant: Variant, source: Source, since: Since, stack: contextlib.ExitStack,
        lanes: int = 1, keys: frozenset[str] | None = None, sink: Sink | None = None,
        said: Sequence[Said] = (),
    ) -> None:  # fmt: skip
        cores = os.cpu_count() or 1
        settings = replace(variant.settings, everything=False, threads=max(cores // lanes, 1))
        options = {"key_memory": max(MEMORY // lanes, 1), "models_in_memory": HELD}
        models = models_of(settings, source.schema, None, stack, options)
        self.variant, self._since, self._judged = variant, since, Judged(since)
        self._keys = keys
        self.scores: dict[int, float] = {}
        """Of the run's own settings: of all alerts that its output holds, by rows."""
        self._alerts: list[Alert] = []
        self._due = OFTEN
        self._learned: Counter[str | None] = Counter()
        self._session = Session(settings, source, models, Sinks(sink or Nowhere()))
        numbers = known_numbers(settings, source.schema, isinstance(models, Keyed))
        self._groups = groups.kept(settings, numbers)
        self._session.grouping = self._groups
        if said and settings.hears_answers:
            answered = Answered(models, source.schema.at("key") is not None)
            self._session.hearing = again(said, answered)
        self._session.watchers.append(self._take)
        stack.callback(self._session.close)

    def handle(self, block: Block) -> None:
        """Judge and learn a block."""
        try:
            self._session.hear()
            self._session.handle(block)
        except RunError as error:
            raise type(error)(f"{self.variant.name}: {error}") from None

    def _take(self, session: Session) -> None:
        """Keep what came of a block."""
        assert session.last is not None
        block, columns = session.last
        if not columns:
            return
        shown, alert = (np.asarray(columns[name], bool) for name in ("shown", "alert"))
        wanted = self._wanted(block)
        times = None if block.time is None else block.time[wanted]
        self._judged.add(block.rows[wanted], times, shown[wanted])
        at = np.flatnonzero(alert & wanted).tolist()
        before = self._places(block, at)
        found = [_alert(block, columns, i, n) for i, n in zip(at, before, strict=True)]
        if not self.variant.changed:
            self._note_written(found)
        inside = self._since.holds(block.rows, block.time)
        self._alerts += [a for i, a in zip(at, found, strict=True) if inside[i] or self._since.span]
        if len(self._alerts) > self._due:
            self._prune()

    def _note_written(self, found: list[Alert]) -> None:
        """Note the alerts that the run has written, too."""
        everything = self.variant.settings.everything
        self.scores.update((a.row, a.score) for a in found if everything or not a.held_back)

    def _wanted(self, block: Block) -> Array:
        """Return which rows are of keys that are compared."""
        if self._keys is None or block.keys is None:
            return np.ones(len(block.rows), bool)
        return np.array([key in self._keys for key in block.keys], bool)

    def _places(self, block: Block, at: list[int]) -> list[int]:
        """Return how many rows the model of each alert had learned before it."""
        if block.keys is None:
            before = self._learned[None]
            self._learned[None] += len(block.rows)
            return [before + i for i in at]
        wanted, found = {block.keys[i] for i in at}, {}
        seen = {key: self._learned[key] for key in wanted}
        for i, key in enumerate(block.keys):
            if key in seen:
                found[i] = seen[key]
                seen[key] += 1
        self._learned.update(block.keys)
        return [found[i] for i in at]

    def _prune(self) -> None:
        begins = self._judged.begins
        self._alerts = [a for a in self._alerts if a.seconds is None or a.seconds >= begins]
        self._groups.prune(begins)
        self._due = max(2 * len(self._alerts), OFTEN)

    def outcome(self, end: float) -> Outcome:
        """Return what came of all blocks; `end` is the time of the last row, where rows have it."""
        heard = self._heard()
        self._session.close()
        since = self._since.settled(end)
        rows, warming = self._judged.counts(since)
        alerts = self._alerts
        if since.time is not None:
            alerts = [a for a in alerts if a.seconds is not None and a.seconds >= since.time]
        alerts, incidents = self._groups.of(alerts)
        variant = self.variant
        return Outcome(
            variant.name, variant.changed, variant.settings.promised, rows, warming, alerts,
            incidents, self._groups.first(incidents), heard,
        )  # fmt: skip

    def _heard(self) -> Heard:
        """Return which answers were taken in, of keys that are compared; take in the last ones."""
        promised, hearing = self.variant.settings.promise, self._session.hearing
        if hearing is None:
            return Heard({}, promised)
        early = sum(not why for _, why in self._decided(hearing))
        self._session.hear()  # what came after the last row
        decided = self._decided(hearing)
        taken = [said for said, why in decided if not why]
        refused = [f"{said.id} {said.answer}: {why}" for said, why in decided if why]
        answers = {Mark(_id(said, hearing.answered.keyed)): said.answer for said in taken}
        return Heard(answers, promised, early, len(taken) - early, refused)

    def _decided(self, hearing: Hearing) -> list[tuple[Said, str]]:
        """Return the answers so far that are of keys that are compared."""
        keys, decided = self._keys, hearing.decided
        return [d for d in decided if keys is None or split(d[0].id, True)[0] in keys]


def _id(said: Said, keyed: bool) -> str:
    """Return the id of an answered alert as outputs have it: 0012 is 12."""
    key, number = split(said.id, keyed)
    return f"{key}:{int(number)}" if keyed else str(int(number))


class Nowhere(Sink):
    """Where the lines of a replay go: they are told as alerts."""

    def write(self, data: bytes) -> None:
        """Count what was given."""
        self.position += len(data)


def _alert(block: Block, columns: dict[str, Any], i: int, learned: int) -> Alert:
    p = columns.get("p")
    return Alert(
        int(block.rows[i]), learned, float(columns["score"][i]), float(columns["threshold"][i]),
        None if p is None else float(p[i]), None if block.stamps is None else block.stamps[i],
        None if block.time is None else float(block.time[i]),
        None if block.keys is None else block.keys[i], columns["why"][i],
        columns["incident"][i], bool(columns["held_back"][i]),
    )  # fmt: skip


def run(
    source: Source, lanes: Sequence[Lane], rows: int, keys: frozenset[str] | None = None,
    watch: Callable[[int], None] = lambda row: None,
) -> float:  # fmt: skip
    """Hand the first `rows` rows to all lanes; return the latest time among them.

    With `keys` only rows of these are handed over. `watch` is called with the rows that are done.
    """
    pools = [ThreadPoolExecutor(1, f"onkel-replay-{i}") for i in range(len(lanes))]
    waiting: deque[tuple[int, list[Future[None]]]] = deque()
    end, read = -math.inf, 0
    try:
        with contextlib.closing(_blocks(source)) as blocks:
            while read < rows:
                block = next(blocks, None)
                if block is None:
                    break
                block = _upto(block, rows)
                read = block.first + block.count
                if block.time is not None:
                    end = max(end, float(block.time.max(initial=-math.inf)))
                given = block if keys is None else _of_keys(block, keys)
                each = zip(pools, lanes, strict=True)
                waiting.append((read, [pool.submit(lane.handle, given) for pool, lane in each]))
                _wait(waiting, AHEAD, watch)
            _wait(waiting, 0, watch)
    except SourceError as error:
        raise SourceProblem(str(error)) from None
    finally:
        for pool in pools:
            pool.shutdown(cancel_futures=True)
    if read < rows:
        raise SourceProblem(
            f"{source.name} holds {read:,} rows, and the run has read {rows:,}: these are not the "
            "same rows."
        )
    return end


def _blocks(source: Source) -> Any:
    """Return a source's blocks, read ahead where nobody waits for them."""
    blocks = (block for block in source.blocks() if block is not None)
    return blocks if source.live else ahead(blocks)


def _wait(
    waiting: deque[tuple[int, list[Future[None]]]], most: int, watch: Callable[[int], None]
) -> None:
    while len(waiting) > most:
        row, futures = waiting.popleft()
        for future in futures:
            future.result()
        watch(row)


def _upto(block: Block, rows: int) -> Block:
    """Return a block without what comes after so many rows: that was not read yet."""
    if block.first + block.count <= rows:
        return block
    count = rows - block.first
    return replace(
        block.part(block.rows < rows), count=count, bad=[b for b in block.bad if b.row < rows],
        lines=block.lines[:count], texts=block.texts[:count],
    )  # fmt: skip


def _of_keys(block: Block, keys: frozenset[str]) -> Block:
    """Return the rows of some keys."""
    assert block.keys is not None
    part = block.part([i for i, key in enumerate(block.keys) if key in keys])
    return replace(part, lines=block.lines, texts=block.texts)
