"""A run: source, then models, then outputs, and checkpoints in between.

Three things go on at once: the next block is read, the present one is learned, what came of the
last one is written. Before a checkpoint all that was learned is written.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onkel.app.errors import RunError, SourceProblem
from onkel.app.run import answering, incidents
from onkel.app.run.answering import Hearing
from onkel.app.run.checkpoint import State
from onkel.app.run.counters import FIRST, LATEST, Counters
from onkel.app.run.counting import Counting, Finish
from onkel.app.run.fleets import NOTE, FleetAlerts, Keyed
from onkel.app.run.ledger import Checkpoint
from onkel.app.run.notices import Notices
from onkel.app.run.outputs import FileSink, Sink, header, lines
from onkel.app.run.pending import counting_of, estimator_of
from onkel.app.run.series import parted
from onkel.app.run.settings import RunSettings
from onkel.app.run.sifting import Sifted, sift
from onkel.app.run.store import OWN_KEY, Models, is_own, parts_of, ranked
from onkel.app.run.tables import by_kind
from onkel.fleet.ranking import Ranking
from onkel.streams.sources import Block, Source, SourceError, ahead, without

LONG, SHARE = 0.25, 4.0
"""A checkpoint that took more seconds than this is followed by so many times as long without."""


@dataclass
class Sinks:
    """Where results and broken rows go."""

    output: Sink
    dead: Sink | None = None
    incidents: Sink | None = None

    def files(self) -> list[FileSink]:
        """Return those that keep what is written."""
        every = (self.output, self.dead, self.incidents)
        sinks = [sink for sink in every if isinstance(sink, FileSink)]
        return [sink for sink in sinks if sink.regular]


@dataclass
class Session:
    """Everything that one run needs; `run` runs it.

    Parameters
    ----------
    settings, source, models, sinks
        What is learned, from where, by which models, and where results go.
    state : State, optional
        Makes it durable.
    counters : Counters
        Of an earlier run, or new ones.
    strict : bool
        Whether the first broken row ends the run.
    every : float
        Seconds between checkpoints.
    idle : float, optional
        A live source that brings nothing for so many seconds ends the run.
    watchers : list of functions
        Called with the session after each block, and when nothing came for a moment.
    hints : list of str
        What a person should be told of the first rows.
    hearing : Hearing, optional
        Takes in answers to alerts.
    notices : Notices, optional
        Brings alerts to where they are wanted.
    """

    settings: RunSettings
    source: Source
    models: Models | Keyed
    sinks: Sinks
    state: State | None = None
    counters: Counters = field(default_factory=Counters)
    strict: bool = False
    every: float = 1.0
    idle: float | None = None
    watchers: list[Callable[[Session], None]] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    hearing: Hearing | None = None
    notices: Notices | None = None
    stopping: bool = False
    last: tuple[Block, dict[str, Any]] | None = None
    """The latest block and what came of it, for who watches."""

    def __post_init__(self) -> None:
        schema = self.source.schema
        keyed = isinstance(self.models, Keyed)
        counting = FleetAlerts if keyed else counting_of(self.settings)
        self.counting: Counting = counting(self.settings, schema, self.counters)
        self.grouping: incidents.Grouping | None = None
        """Of a detector: its incidents."""
        if self.settings.task == "detect":
            numbers = incidents.known_numbers(self.settings, schema, keyed)
            self.grouping = incidents.Grouping(self.settings, numbers)
            if self.counters.grouping:
                self.grouping.restore(self.counters.grouping)
        if self.state is not None:
            store = self.state.store
            self.ranking.restore(filter(None, map(store.get, parts_of(store.places))))
        self._position = self.state.last.position if self.state else None
        self._saved, self._heard, self._dirty = time.monotonic(), time.monotonic(), False
        self._writer = ThreadPoolExecutor(1, "onkel-writer")
        self._written: Future[None] | None = None
        self._pause = 0.0
        self._next = self.counters.rows
        """The number of the next row."""

    @property
    def fields(self) -> list[str]:
        """The columns of the output."""
        schema = self.source.schema
        named = self.source.format == "kafka" or schema.at("id") is not None
        first = ["row"] + ["id"] * named
        first += [role for role in ("time", "key") if schema.at(role) is not None]
        return [*first, *self.counting.fields]

    @property
    def ranking(self) -> Ranking:
        """How the keys are doing."""
        return self.counting.ranking

    # -- running -------------------------------------------------------------------------------

    def run(self) -> None:
        """Read everything there is; commit at the end, and on the way."""
        begins = self.counters.rows == 0 or self.sinks.output in self.sinks.files()
        if self.sinks.output.position == 0 and begins:
            self.sinks.output.write(header(self.fields, self.settings.output_format))
        try:
            if isinstance(self.models, Models):
                self.models.wake()
            self._catch_up()
            self.hear()
            with contextlib.closing(self._blocks()) as blocks:
                for block in blocks:
                    self.hear()
                    self._step(block)
                    if self.stopping:
                        break
            self.hear(look=True)
        except SourceError as error:
            self._end()
            raise SourceProblem(str(error)) from None
        finally:
            self._writer.shutdown()
        self._end()

    def _end(self) -> None:
        """Make a last checkpoint; without a state, tell of incidents that nobody goes on with."""
        self.save()
        if self.state is None and self.grouping is not None:
            self._tell(self.grouping.unfinished())

    def _catch_up(self) -> None:
        """Tell of incidents that are open already to those who were not told before."""
        if self.notices is not None and self.grouping is not None:
            self._dirty |= self.notices.tell(self.grouping.going_on())

    def _blocks(self) -> Any:
        """Return the source's blocks; those of a file are read while others are learned."""
        blocks = self.source.blocks()
        return blocks if self.source.live else ahead(blocks)

    def _step(self, block: Block | None) -> None:
        now = time.monotonic()
        if block is not None:
            self.handle(block)
            self._heard, self._dirty = now, True
        elif self.idle is not None and now - self._heard >= self.idle:
            self.stopping = True
        if block is None:
            self._settle()
            self._watch()
        due = max(self.every, self._pause)
        if self.state is not None and self._dirty and now - self._saved >= due:
            self.save()

    def hear(self, look: bool = False) -> None:
        """Take in the answers that have come, between two blocks."""
        some = self.hearing.due(self._next, look) if self.hearing is not None else []
        if self.hearing is not None and some:
            self._settle()
            self.hearing.take(some)
            self._dirty = True

    def _watch(self) -> None:
        for watch in self.watchers:
            watch(self)

    def _settle(self) -> None:
        """Wait until all that was learned is written."""
        if self._written is not None:
            self._written.result()
            self._written = None

    def close(self) -> None:
        """Write what is left: for who hands over blocks one by one (`handle`), instead of `run`."""
        try:
            self._settle()
        finally:
            self._writer.shutdown()

    def stop(self) -> None:
        """End the run after the present block."""
        self.stopping = True

    def save(self) -> None:
        """Make a checkpoint."""
        self._settle()
        if self.state is None or not self._dirty:
            return
        begun = time.monotonic()
        self.models.flush()
        for part in self.ranking.heard():
            self.state.store.put(ranked(part), self.ranking.dump(part))
        self.models.compact()
        if isinstance(self.models, Keyed) and self.state.meta(NOTE) != self.models.note():
            self.state.note(NOTE, self.models.note())
        if self.grouping is not None:
            self.counters.grouping = self.grouping.dump()
        files = self.sinks.files()
        lengths, ends = {f.name: f.sync() for f in files}, {f.name: f.end() for f in files}
        checkpoint = Checkpoint(self._position, self.counters.to_dict(), lengths, ends)
        if self.notices is None:
            self.state.commit(checkpoint)
        else:
            self.notices.commit(checkpoint)
        now = time.monotonic()
        self._pause = SHARE * (now - begun) if now - begun > LONG else 0.0
        self._saved, self._dirty = now, False

    # -- one block -----------------------------------------------------------------------------

    def handle(self, block: Block) -> None:
        """Judge and learn a block; what came of it is written while the next one is learned."""
        self._check_broken(block)
        try:
            block, finish = self._judged(block)
        except ValueError as error:
            last = block.first + block.count - 1
            raise RunError(f"rows {block.first} to {last} cannot be learned: {error}") from None
        self._check_broken(block)
        self._keep_broken(block)
        self._settle()
        self._position, self._next = block.position, block.first + block.count
        self._written = self._writer.submit(self._finish, block, finish)

    def _finish(self, block: Block, finish: Finish) -> None:
        """Count and write what came of a block, and show it."""
        columns = finish() if len(block.rows) else {}
        self.counters.rows += block.count
        self.counters.broken += len(block.bad)
        self.counters.predicted += len(block.rows)
        self.counters.examples += int(block.known.sum())
        if columns:
            happened = None
            if self.grouping is not None:
                happened = self._grouped(self.grouping, block, columns)
                columns = {**columns, **happened.columns}
            self._write(block, columns)
            if block.keys is not None:
                self.counting.rank(block.keys, columns)
            if self.notices is not None:
                self.notices.add(block, columns, self.source.schema.features, happened)
            times = {} if block.time is None else {"time": block.time}
            self.counters.history.add(block.rows, {**self.counting.sums(columns), **times})
            last = block.first + block.count - 1  # the weights are those after the block
            self.counters.history.add(np.array([last]), self.counting.weights())
        self.last = block, columns
        self._watch()

    def _grouped(
        self, grouping: incidents.Grouping, block: Block, columns: dict[str, Any]
    ) -> incidents.Happened:
        """Group the alerts of a block, and write what became of incidents."""
        found = grouping(block, columns)
        if found.events and self.sinks.incidents is not None:
            self.sinks.incidents.write(incidents.lines(found.told()))
        alert, counters = np.asarray(columns["alert"], bool), self.counters
        scores = np.asarray(columns["score"], float)[alert]
        times = None if block.time is None else block.time[alert]
        counters.marks.add(block.rows[alert], scores, times)
        counters.held_back += int(np.count_nonzero(found.columns["held_back"]))
        counters.incidents = grouping.groups.count
        counters.incidents_open = len(grouping.groups)
        return found

    def _tell(self, told: list[dict[str, Any]]) -> None:
        """Write what became of incidents, and have it sent."""
        if self.sinks.incidents is not None:
            self.sinks.incidents.write(incidents.lines(told))
        if self.notices is not None:
            self.notices.tell(told)

    def _check_broken(self, block: Block) -> None:
        """With --strict stop at the first broken row, or refused one."""
        if block.bad and self.strict:
            bad = block.bad[0]
            raise SourceProblem(f"line {bad.line}: {bad.reason} (--strict): {bad.text[:80]!r}")

    def _keep_broken(self, block: Block) -> None:
        """Write broken rows to where they can be looked at."""
        first = block.bad[:FIRST]
        self.counters.note_broken([f"line {b.line}: {b.reason}" for b in first])
        if block.bad and self.sinks.dead is not None:
            columns = {n: [getattr(b, n) for b in block.bad] for n in _BAD}
            self.sinks.dead.write(lines(columns, "jsonl"))

    def _judged(self, block: Block) -> tuple[Block, Finish]:
        """Judge and learn a block; return it without the rows that were refused, and what counts.

        Those have joined its broken rows, with the reason.
        """
        if not len(block.rows):
            return block, dict
        end, cuts = block.first + block.count, []
        if self.hearing is not None:
            cuts = self.hearing.cuts(block.first, end)
        found = self._judge(block) if not cuts else self._judge_in_parts(block, [*cuts, end])
        return without(block, found.refused), found.finish

    def _judge(self, block: Block) -> Sifted:
        if isinstance(self.models, Keyed):
            self.models.fetch(block.keys or [])
            return sift(self.counting, self.models, block)
        if block.keys is None:
            return sift(self.counting, self.models.get(""), block)
        parts = [(which, block.part(which)) for which in _by_key(block.keys)]
        each = [(w, self._sifted(self.models, p)) for w, p in parts]
        refused = {int(w[i]): why for w, found in each for i, why in found.refused.items()}
        return Sifted([lambda: _scattered(each, len(block.rows))], refused)

    def _sifted(self, models: Models, part: Block) -> Sifted:
        """Judge and learn the rows of one key."""
        key = _first(part.keys)
        if is_own(key):
            return Sifted(refused=dict.fromkeys(range(len(part.rows)), f"{OWN_KEY}."))
        return sift(self.counting, models.get(key), part)

    def _judge_in_parts(self, block: Block, ends: list[int]) -> Sifted:
        """Judge a block up to rows before which a run that was killed had taken answers in."""
        assert self.hearing is not None
        whole, first, start = Sifted(), block.first, 0
        for end in ends:
            stop = int(np.searchsorted(block.rows, end))
            if stop > start:
                part = block.part(slice(start, stop))
                part.first, part.count = first, end - first
                found = self._judge(part)
                whole.pieces += found.pieces
                whole.refused |= {start + i: why for i, why in found.refused.items()}
            first, start = end, stop
            if end < ends[-1]:
                self._settle()
                self.hearing.take(self.hearing.due(end))
        return whole

    def _write(self, block: Block, columns: dict[str, Any]) -> None:
        shown = np.flatnonzero(self.counting.shown(columns)).tolist()
        if not shown:
            return
        given = {"row": block.rows, "id": block.ids, "time": block.stamps, "key": block.keys}
        all_columns = {**given, **columns}
        chosen = {name: _picked(all_columns[name], shown) for name in self.fields}
        self.sinks.output.write(lines(chosen, self.settings.output_format))
        if self.settings.task == "detect":
            self._note(chosen)

    def _note(self, chosen: dict[str, list[Any]]) -> None:
        alerts = [i for i, alert in enumerate(chosen["alert"]) if alert][-LATEST:]
        self.counters.note([{n: _plain(c[i]) for n, c in chosen.items()} for i in alerts])

    def summary(self) -> dict[str, Any]:
        """Return the numbers that the run is judged by."""
        found = self.counters.summary(self.settings.task, self.settings.promised)
        if self.settings.tells_p:
            found["rate_promised_of"] = "usual rows"
        if self.settings.hears_answers:
            found |= answering.told(self.counters, self.settings.promise)
        deliveries = {} if self.notices is None else self.notices.summary()
        if self.notices is not None and deliveries:
            found |= {"deliveries": deliveries, "messages": dict(self.notices.made)}
        return found

    def closing(self) -> dict[str, Any]:
        """Return the summary with which a run ends: which setting leads is told, too."""
        words = self.in_words()
        model = self.models.newest() if len(self.models) == 1 else None
        estimator = None if model is None else parted(model)[0]
        waiting = {}
        if self.settings.hears_answers and estimator and estimator.__sklearn_is_fitted__():
            waiting["alerts_waiting"] = estimator.diagnostics_["alerts_waiting"]
        if self.hearing is not None and self.hearing.waiting:
            waiting["answers_to_take_in"] = self.hearing.waiting
        columns = {"columns": by_kind(self.source.schema.columns)}
        return {
            **self.summary(),
            **waiting,
            **columns,
            **({} if words is None else {"in_words": words}),
        }

    def in_words(self) -> str | None:
        """Return which setting leads, as a sentence; None of what has only one, or of keys."""
        model = self.models.newest() if len(self.models) == 1 else None
        if not self.counters.members or model is None:
            return None
        words: str = parted(estimator_of(model))[0].diagnostics_["in_words"]
        return words


_BAD = ("row", "line", "reason", "text")


def _first(keys: list[str] | None) -> str:
    assert keys
    return keys[0]


def _by_key(keys: list[str]) -> list[np.ndarray[Any, Any]]:
    """Return the places of each key, keys in the order of their appearance."""
    places: dict[str, list[int]] = {}
    for i, key in enumerate(keys):
        places.setdefault(key, []).append(i)
    return [np.array(at) for at in places.values()]


def _scattered(each: list[tuple[Any, Sifted]], count: int) -> dict[str, Any]:
    """Return the columns of several models in the order of the rows that were not refused."""
    columns: dict[str, Any] = {}
    kept = np.ones(count, bool)
    for which, found in each:
        kept[which[list(found.refused)]] = False
        learned = which[kept[which]].tolist()
        for name, values in found.finish().items():
            whole = columns.setdefault(name, np.empty(count, object))
            for i, value in zip(learned, _listed(values), strict=True):
                whole[i] = value
    return {name: whole[kept] for name, whole in columns.items()}


def _listed(values: Any) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)


def _picked(values: Any, at: list[int]) -> list[Any]:
    return values[at].tolist() if isinstance(values, np.ndarray) else [values[i] for i in at]


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and value != value else value
