"""``onkel replay``: from a state and settings to a comparison."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any

from onkel.app.errors import OutputProblem, RunError, SourceProblem, StateProblem, UsageProblem
from onkel.app.replay import lanes, told
from onkel.app.replay.alerts import Mark
from onkel.app.replay.compare import Outcome, described
from onkel.app.replay.heard import Heard
from onkel.app.replay.past import PIPE, Input, Past, input_of, look
from onkel.app.replay.since import Since
from onkel.app.replay.variants import Variant, asked, promise_of, variants
from onkel.app.replay.written import Told, Unread, first_difference
from onkel.app.run.settings import memory_of
from onkel.app.telling import say, tell
from onkel.nearest import did_you_mean


@dataclass(frozen=True)
class Asked:
    """What is to be replayed, and from where on it is compared."""

    changes: Sequence[dict[str, Any]] = ()
    since: Since = field(default_factory=Since)
    keys: frozenset[str] | None = None
    gap: str | None = None
    """Of incidents: as it was in the run, unless told."""


@dataclass(frozen=True)
class Replayed:
    """What came of it."""

    past: Past
    input: Input
    asked: Asked
    outcomes: list[Outcome]
    """The run's own settings first."""
    differs: int | None = None
    """The first row at which those settings gave other alerts than the run's output has."""
    compared: bool = False
    """Whether there was an output to compare with."""
    unread: Unread | None = None
    """Why there was none, though the run has written one."""

    def describe(self) -> dict[str, Any]:
        """Return everything, JSON-ready."""
        output = "same" if self.compared else "unknown"
        keys = self.asked.keys
        return {
            "format": told.FORMAT, "state": str(self.past.folder), "source": self.input.name,
            "rows": self.past.rows, "since": self.asked.since.text,
            "keys": None if keys is None else sorted(keys), "gap": self.past.settings.gap,
            "checksum": self.input.checked,
            "output": output if self.differs is None else "differs",
            "notes": self.notes(),
            "settings": described(self.outcomes, self.past.settings.gap, self._answers()),
        }  # fmt: skip

    def _answers(self) -> dict[Mark, str]:
        """Return the answers to alerts among what is compared."""
        known = {alert.mark for alert in self.outcomes[0].alerts}
        return {mark: answer for mark, answer in self.heard.answers.items() if mark in known}

    @property
    def heard(self) -> Heard:
        """What the run has heard of its alerts, and what waits for its next rows."""
        return self.outcomes[0].heard or Heard({})

    def notes(self) -> list[str]:
        """Return what a reader should know of the numbers, in words."""
        return [*self._of_output(), *self._of_rows(), *self._of_answers()]

    def _of_output(self) -> list[str]:
        """Say why the run's own alerts were not compared with those that it has written."""
        return [] if self.unread is None else [f"{_UNCOMPARED}: {self.unread}."]

    def _of_rows(self) -> list[str]:
        """Say where there is nothing to compare."""
        if not self.outcomes[0].rows:
            return ["No row is compared."]
        quiet = [one.name for one in self.outcomes if one.rows == one.warming]
        if not quiet:
            return []
        which = "All" if len(quiet) == len(self.outcomes) else f"{'; '.join(quiet)}: all"
        return [f"{which} rows that are compared are of the warm-up, in which no alert is shown."]

    def _of_answers(self) -> list[str]:
        early, late, refused = self.heard.early, self.heard.late, self.heard.refused
        found = [left_out(refused)] if refused else []
        if late:
            which = f"{late:,} answer{'s' * (late != 1)} came" if early else "All answers came"
            found.append(f"{which} after the last row: they count here, and no alert follows them.")
        if not early and any(one.heard and one.heard.promised for one in self.outcomes):
            whose = "an alert of this run" if self.asked.keys is None else "an alert of these keys"
            lead = "" if late else f"Nobody has answered {whose} yet. "
            found.append(
                f"{lead}A promised precision follows the answers; before the first of them it "
                "changes nothing but where the level starts."
            )
        return found

    def problem(self) -> RunError | None:
        """Return what is wrong if the output is not what was written, or has other alerts."""
        if self.unread is not None and not self.unread.gone:
            return StateProblem(f"{self.unread}. {_UNCOMPARED}.")
        if self.differs is None:
            return None
        assert self.past.written is not None
        first = (
            "with its own settings the run would have had other alerts than "
            f"{self.past.written.path} has, first at row {self.differs:,}: "
        )
        if self.input.checked:
            return StateProblem(
                f"{first}that file was changed, or it was written by another version of onkel."
            )
        return SourceProblem(f"{first}{self.input.name} does not hold the rows that were read.")


def left_out(refused: Sequence[str]) -> str:
    """Return a sentence on answers that could not be taken in: the first, each once.

    Examples
    --------
    >>> left_out(["7 fault: there is no alert 7. The newest is 5."] * 2)
    'One answer is left out: 7 fault: there is no alert 7. The newest is 5.'
    >>> left_out(["a: no.", "b: no", "c: no.", "d: no", "e: no"])
    '5 answers are left out: a: no; b: no; c: no; and 2 more.'
    """
    each = [*dict.fromkeys(words.removesuffix(".") for words in refused)]
    count = "One answer is" if len(each) == 1 else f"{len(each):,} answers are"
    more = [f"and {len(each) - LEFT_OUT:,} more"] if len(each) > LEFT_OUT else []
    return f"{count} left out: {'; '.join([*each[:LEFT_OUT], *more])}."


LEFT_OUT = 3
"""So many answers that could not be taken in are told with the reason."""
_UNCOMPARED = "The run's own alerts were not compared with those that it has written"


def run(state: str, source: str | None, options: dict[str, Any]) -> int:
    """Run the command; return its exit code, or raise RunError."""
    wanted = _asked(options)
    past = _with_gap(look(state), wanted.gap)
    _check_report(options["report"], past, source)
    for variant in [] if options["quiet"] else variants(past.settings, wanted.changes, past.schema):
        for note in variant.settings.notes() if variant.changed else []:
            tell(f"onkel: {variant.name}: {note}")
    progress = None if options["quiet"] or not sys.stderr.isatty() else _Progress(past.rows)
    found = replay(past, source, wanted, progress)
    description = found.describe()
    if options["report"]:
        from onkel.app.replay.page import page

        _write(options["report"], page(found, description))
    say(told.as_json(description) if options["as_json"] else told.as_text(description))
    problem = found.problem()
    if problem is not None:
        raise problem
    return 0


def _asked(options: dict[str, Any]) -> Asked:
    given = {
        "model": options["model"], "nu": options["nu"],
        "precision": [promise_of(text) for text in options["precision"]],
        "memory": [memory_of(text) for text in options["memory"]], "window": options["window"],
        "warmup": options["warmup"],
    }  # fmt: skip
    keys = frozenset(options["key"]) or None
    return Asked(
        asked(given, options["settings"]), Since.of(options["since"]), keys, options["gap"]
    )


def _with_gap(past: Past, gap: str | None) -> Past:
    """Return a run as if its incidents had another gap, or refuse that."""
    own = past.settings if gap is None else replace(past.settings, incident_gap=gap)
    try:
        by_clock = isinstance(own.gap, str)
    except UsageProblem as problem:
        raise UsageProblem(str(problem).replace("--incident-gap", "--gap")) from None
    if by_clock and past.schema.at("time") is None:
        raise UsageProblem(
            f"--gap {own.gap} goes by the clock, and the run had no --time: give a number of rows."
        )
    return replace(past, settings=own)


def replay(
    past: Past, source: str | None, wanted: Asked, progress: _Progress | None = None
) -> Replayed:
    """Run settings side by side over the rows that a run has read."""
    every = variants(past.settings, wanted.changes, past.schema)
    _check(past, wanted)
    found = input_of(past, source)
    outcomes, scores = _outcomes(past, found, every, wanted, progress)
    if past.written is None:
        return Replayed(past, found, wanted, outcomes)
    try:
        written = past.written.alerts(wanted.keys)
    except Unread as why:
        return Replayed(past, found, wanted, outcomes, unread=why)
    differs = first_difference(written, scores, past.written.first)
    return Replayed(past, found, wanted, outcomes, differs, compared=True)


def _check(past: Past, wanted: Asked) -> None:
    if wanted.since.by_clock and past.schema.at("time") is None:
        raise UsageProblem(
            f"--since {wanted.since.text} goes by the clock, and the run had no --time: give the "
            "number of a row."
        )
    if wanted.since.row >= past.rows > 0:
        raise UsageProblem(
            f"--since {wanted.since.text}: the run has read {past.rows:,} rows, counted from 0."
        )
    if wanted.keys is not None and past.schema.at("key") is None:
        raise UsageProblem("--key: the run had one model for all rows, without --key.")
    for key in sorted((wanted.keys or frozenset()) - past.keys):
        meant = did_you_mean(key, past.keys, "key")
        raise UsageProblem(f"--key {key}: the run has read no row of it.{meant}")


def _outcomes(
    past: Past, found: Input, every: list[Variant], wanted: Asked, progress: _Progress | None
) -> tuple[list[Outcome], Told]:
    """Return what came of each setting, and all scores of the run's own alerts.

    Which rows are broken may depend on a setting: where forgetting goes by the clock, time must
    not run backwards. Settings that read alike share one reading.
    """
    alike = [(o, list(some)) for o, some in groupby(every, lambda v: v.settings.by_clock)]
    if len(alike) > 1 and found.name == PIPE:
        raise UsageProblem(
            "memory as a time span and as a number of rows read the rows differently, and a pipe "
            "is read once: give a file, or one of them at a time."
        )
    came = [_together(past, found, some, wanted, o, progress) for o, some in alike]
    return [one for outcomes, _ in came for one in outcomes], came[0][1]


def _together(
    past: Past, found: Input, some: list[Variant], wanted: Asked, ordered: bool,
    progress: _Progress | None,
) -> tuple[list[Outcome], Told]:  # fmt: skip
    keys = wanted.keys
    with contextlib.ExitStack() as stack:
        source = found.open(past, ordered)
        stack.callback(source.close)
        each = [
            lanes.Lane(variant, source, wanted.since, stack, len(some), keys, said=past.said)
            for variant in some
        ]
        if any(variant.settings.share for variant in some):
            keys = None  # what is usual among all keys is learned from all of them
        watch = progress or (lambda row: None)
        try:
            end = lanes.run(source, each, past.rows, keys, watch)
        finally:
            if progress is not None:
                progress.close()
        wanted.since.check(end)
        return [lane.outcome(end) for lane in each], each[0].scores


# -- the page, and the terminal --------------------------------------------------------------------


def _check_report(report: str | None, past: Past, source: str | None) -> None:
    """Refuse a page before anything is learned, where it could not be written or must not be."""
    if report is None:
        return
    if find_spec("bokeh") is None:
        raise UsageProblem("--report needs Bokeh: pip install 'onkel[report]'.")
    path = Path(report)
    if not path.absolute().parent.is_dir():
        raise UsageProblem(f"--report: there is no folder {path.parent}.")
    used = [("the source", source), ("the run's source", (past.source or {}).get("name"))]
    used += [("the run's output", name) for name in past.files]
    for what, name in used:
        if name and path.exists() and os.path.exists(name) and os.path.samefile(path, name):
            raise UsageProblem(f"--report {report} is {what} as well: give it another name.")
    if os.path.realpath(path.absolute().parent) == os.path.realpath(past.folder):
        raise UsageProblem(f"--report {report} lies in the state's folder: write it elsewhere.")


def _write(path: str, html: str) -> None:
    try:
        Path(path).write_text(html, encoding="utf-8")
    except OSError as error:
        raise OutputProblem(f"--report {path}: {error.strerror}.") from None


class _Progress:
    """One line on the terminal that says how far it is."""

    def __init__(self, rows: int) -> None:
        self._rows, self._begun, self._shown = rows, time.monotonic(), -math.inf

    def __call__(self, row: int) -> None:
        now = time.monotonic()
        if now - self._shown < 0.2:
            return
        self._shown = now
        rate = row / max(now - self._begun, 1e-9)
        words = f"{row:,} of {self._rows:,} rows · {rate:,.0f} rows/s"
        with contextlib.suppress(OSError):
            sys.stderr.write(f"\r\x1b[2K{words}")
            sys.stderr.flush()

    def close(self) -> None:
        """Leave an empty line for what follows."""
        with contextlib.suppress(OSError):
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()
