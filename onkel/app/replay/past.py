"""What a state knows of its run: settings, what was read and how far, what was written.

The state is only looked at: a run may be going on meanwhile, and nothing of it changes.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from onkel.app.errors import SourceProblem, StateProblem, UsageProblem
from onkel.app.replay.written import Written
from onkel.app.run import answering
from onkel.app.run.checkpoint import State
from onkel.app.run.counters import Counters
from onkel.app.run.inbox import Inbox, Said
from onkel.app.run.ledger import Kept
from onkel.app.run.prepare import SOURCE, opened
from onkel.app.run.series import of_table
from onkel.app.run.settings import RunSettings
from onkel.streams.sources import Reading, Rules, Schema, Source, SourceError, open_source

PIPE = "-"


@dataclass(frozen=True)
class Past:
    """A run as its state tells of it, up to the newest checkpoint."""

    folder: Path
    settings: RunSettings
    memo: dict[str, Any]
    """What the source had learned from its first rows."""
    position: dict[str, Any]
    longest: int
    source: dict[str, Any] | None
    """What was read (`name`), and whether it cannot be read again (`flows`); None: not noted."""
    written: Written | None
    """What the run wrote; None where that went to standard output."""
    keys: frozenset[str] = frozenset()
    """Those that the run has models of, where it has such."""
    said: tuple[Said, ...] = ()
    """Answers, and before which rows they were taken in; those that wait, after the last row."""
    files: tuple[str, ...] = ()
    """All that the run writes: output, broken rows, incidents."""

    @property
    def schema(self) -> Schema:
        """The columns of the rows."""
        return Schema.from_dict(self.memo["schema"])

    @property
    def rows(self) -> int:
        """How many rows the run has read."""
        return int(self.position["row"])

    def reading(self, ordered: bool = False, durable: bool = False) -> Reading:
        """Return how the same rows are read: as the run did."""
        rules = Rules(gaps=self.settings.missing == "mean", ordered=ordered)
        return Reading(
            size=self.settings.block, longest=self.longest, roles=self.schema.roles, rules=rules,
            durable=durable,
        )  # fmt: skip


def look(folder: str) -> Past:
    """Return what a state knows of its run; raise where that is no run that can be replayed."""
    state = State(folder, writable=False)
    with contextlib.closing(state):
        noted = state.meta("settings")
        if not noted:
            raise StateProblem(f"{folder} holds no state of a run.")
        if noted["task"] != "detect":
            raise UsageProblem(
                f"{folder} is the state of onkel {noted['task']}; a replay compares alerts, and "
                "only onkel detect has such."
            )
        kept = next(iter(state.kept()), None)
        if kept is None or kept.checkpoint.position is None:
            raise StateProblem(f"{folder} has no row yet: its run has made no checkpoint.")
        return _past(state, noted, kept)


def _past(state: State, noted: dict[str, Any], kept: Kept) -> Past:
    known = {f.name for f in fields(RunSettings)}
    last = kept.checkpoint
    memo, position = state.meta("memo"), last.position
    assert position is not None
    own = RunSettings(**{n: v for n, v in noted.items() if n in known})
    own = of_table(own, Schema.from_dict(memo["schema"]))
    own = own.settled(state.meta("precision") or own.precision)
    return Past(
        state.folder, own, memo, position, noted["longest"], state.meta(SOURCE),
        Written.of(noted, last), frozenset(kept.models()), _said(state, kept),
        tuple(last.outputs),
    )  # fmt: skip


def _said(state: State, kept: Kept) -> tuple[Said, ...]:
    """Return the answers that the run had taken in by its newest checkpoint, and those that wait.

    These are taken in after the last row, as the next run would do.
    """
    last = kept.checkpoint
    counters = Counters.from_dict(last.counters) if last.counters else Counters()
    assert last.position is not None
    rows = int(last.position["row"])
    with contextlib.closing(Inbox(state.folder)) as inbox:
        waiting = [replace(one, row=rows) for one in answering.undecided(inbox, counters)]
        return (*answering.decided(inbox, counters), *waiting)


# -- the same rows again ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Input:
    """What is read again."""

    name: str
    memo: dict[str, Any] | None
    """Of the run, where rows are written as they were then."""
    checked: bool
    """Whether a checksum says that it holds what the run has read."""

    def open(self, past: Past, ordered: bool) -> Source:
        """Return the source, from its first row on."""
        return opened(self.name, past.reading(ordered), self.memo)


def input_of(past: Past, given: str | None) -> Input:
    """Return the rows that the run has read, or raise SourceProblem that says why not."""
    if given is not None:
        return _given(past, given)
    if past.source is None:
        raise SourceProblem(
            f"{past.folder} does not say what its run has read: it was made by an older onkel. "
            f"Name it: {_again(past)}."
        )
    name = past.source["name"]
    if past.source["flows"]:
        raise SourceProblem(
            f"The run has read {'a pipe' if name == PIPE else name}, which cannot be read again. "
            f"Give a file that holds the same rows: {_again(past)}."
        )
    _check_whole(past, name)
    try:
        _compare(past, name)
    except SourceError as error:
        said = str(error).partition(" Give the file")[0].removesuffix(".")
        raise SourceProblem(
            f"{said}. Give a file that holds the rows as they were: {_again(past)}."
        ) from None
    return Input(name, past.memo, checked=True)


def _again(past: Past) -> str:
    return f"onkel replay {past.folder} FILE"


def _check_whole(past: Past, name: str) -> None:
    """Refuse a file that can hold only the last rows: those before it were in others."""
    lines = past.position.get("line")
    if lines is not None and lines < past.rows:
        raise SourceProblem(
            f"The run has read {past.rows:,} rows, of which {name} holds {lines:,} at most: it was "
            f"rotated meanwhile. Give all of them, the oldest first: cat OLD… {name} | onkel "
            f"replay {past.folder} -."
        )


def _compare(past: Past, name: str) -> None:
    """Raise SourceError if a file does not hold what was read: all of it is looked at once."""
    open_source(name, past.reading(durable=True), past.memo, past.position).close()


def _given(past: Past, name: str) -> Input:
    """Return what a user says to hold the same rows; a checksum may tell whether it does."""
    if name == PIPE:
        return Input(name, past.memo, checked=False)
    with contextlib.closing(opened(name, past.reading())) as source:
        same = source.format == past.memo["format"]
        if not same:
            _check_columns(past, source)
    if not same:
        return Input(name, None, checked=False)
    try:
        _compare(past, name)
    except (SourceError, KeyError):  # positions of pipes tell of no bytes
        return Input(name, past.memo, checked=False)
    return Input(name, past.memo, checked="read" in past.position or "whole" in past.position)


def _check_columns(past: Past, source: Source) -> None:
    known = {(c.name, c.role, c.kind) for c in past.schema.columns if c.role != "ignored"}
    found = {(c.name, c.role, c.kind) for c in source.schema.columns if c.role != "ignored"}
    if known != found:
        name, role, kind = min(known ^ found)
        where = "in the run's rows" if (name, role, kind) in known else f"in {source.name}"
        raise SourceProblem(
            f"{source.name} has other columns than the run's rows: {name!r} is a {role} ({kind}) "
            f"only {where}."
        )
