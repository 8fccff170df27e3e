"""Would other settings have fired? What was kept of a model's past, learned by new models.

Rows are read in pieces and handed to all settings, a thread each, so that memory stays bounded. The
model that is asked says how far it is, and lends its parameters; it neither learns nor waits.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.app.http.problems import Problem, busy
from onkel.app.replay.alerts import Mark
from onkel.app.replay.compare import Alert, Outcome, described
from onkel.app.replay.heard import Heard
from onkel.app.replay.since import Since
from onkel.app.service import calls, comparing, feedback, fleets
from onkel.app.service.archive import Archive, Gone
from onkel.app.service.bodies import Entry, Recall
from onkel.app.service.kept import Past, Standing, Watch, moment, settled, since_of
from onkel.app.service.limits import Limits
from onkel.app.service.log import Damaged
from onkel.app.service.recorded import FORGET, Said, Step, said
from onkel.app.service.replay import Unreadable
from onkel.app.service.slots import Slot
from onkel.app.service.specs import REFUSALS
from onkel.fleet import Fleet

Array = NDArray[Any]

AHEAD = 4
"""Pieces that may wait for the slowest setting."""
MOST = 500_000
"""Alerts that are held of all settings together."""


# -- one setting -------------------------------------------------------------------------------


@dataclass(frozen=True)
class View:
    """What is compared, the same for all settings."""

    since: Since
    keys: frozenset[Any] | None
    names: list[str] | None
    before: Mapping[Any, int]
    """Rows that the model had learned before the first one, by key."""
    cut: frozenset[Any]
    """Keys of which that is not known until they were first forgotten."""
    most: int
    """Alerts of one setting."""


class Lane:
    """A new model of one setting, and its alerts."""

    def __init__(self, name: str, changed: dict[str, Any], model: Any, view: View) -> None:
        self.name, self.changed, self.model, self.view = name, changed, model, view
        self.keyed = isinstance(model, Fleet)
        self.by_clock = comparing.by_clock(model)
        self.alerts: list[Alert] = []
        self.rows = self.warming = 0
        self.lives: Counter[Any] = Counter()
        """How often keys were forgotten so far."""
        self.heard: dict[Mark, str] = {}
        """Answers that it took in."""
        self.answered: dict[Any, set[int]] = {}
        """By key and life, alerts that were answered, where it is asked which were passed."""
        self.passed: set[tuple[Any, int, int]] = set()
        """Of these key, life and number."""

    def handle(self, step: Step, X: Any) -> None:
        """Do what the model did."""
        if step.learns:
            self._learn(step, X)
        elif step.entry.op == FORGET:
            fleets.forget(self.model, step.entry.keys or [])
            self.lives.update(step.entry.keys or [])
        else:
            for one in said(step.entry):
                self._hear(one)

    def _hear(self, one: Said) -> None:
        """Take an answer in, where this setting has the alert."""
        if one.key in self.view.cut and not self.lives[one.key]:
            return
        number = one.id - self.view.before.get(one.key, 0)
        entry = Entry(feedback.OP, 0, alerts=[str(number)], answers=[one.answer])
        entry.keys = None if one.key is None else [one.key]
        if number >= 0:
            with suppress(Problem):
                feedback.applied(self.model, entry, 0)
                self.heard[mark_of(one._replace(life=self.lives[one.key]))] = one.answer

    def _learn(self, step: Step, X: Any) -> None:
        entry, names = step.entry, self.view.names
        weight = None if entry.sample_weight is None else np.asarray(entry.sample_weight)
        times = step.times if self.by_clock else None
        try:
            found = comparing.judged(self.model, X, names, entry.keys, times, weight)
        except REFUSALS as error:
            words = f"{self.name}, at rows {step.rows[0]:,} to {step.rows[-1]:,}: {error}"
            raise Problem(422, "refused", words[:2000], "settings") from error
        inside = self.view.since.holds(step.rows, step.times) & self._wanted(entry.keys)
        self.rows += int(np.count_nonzero(inside))
        self.warming += int(np.count_nonzero(inside & found.warming))
        if self.answered:
            self._pass(entry.keys, found.age, inside)
        self.alerts += [
            self._alert(step, found, i) for i in np.flatnonzero(inside & found.alert).tolist()
        ]
        if len(self.alerts) > self.view.most:
            words = (
                f"{self.name}: more than {self.view.most:,} alerts, which are too many to be "
                "compared. Ask for a later since, for fewer settings, or for lower rates."
            )
            raise Problem(422, "too_many_alerts", words, "settings", limit=self.view.most)

    def _wanted(self, keys: Sequence[Any] | None) -> Any:
        if self.view.keys is None or keys is None:
            return True
        return np.array([key in self.view.keys for key in keys], bool)

    def _alert(self, step: Step, found: comparing.Judged, i: int) -> Alert:
        entry, score = step.entry, float(found.score[i])
        key = None if entry.keys is None else entry.keys[i]
        when = float(step.times[i]) if math.isfinite(step.times[i]) else None
        told = None if when is None else moment(when)
        return Alert(
            int(step.rows[i]), int(found.age[i]) + self.view.before.get(key, 0), score,
            float(found.limit[i]), math.exp(score) if found.tells_p else None,
            told if entry.time is None else entry.time[i], when,
            None if key is None else str(key), whose=_whose(key, self.lives[key]),
        )  # fmt: skip

    def _pass(self, keys: Sequence[Any] | None, ages: Array, inside: Any) -> None:
        """Note which alerts that were answered are among the rows that are compared."""
        if keys is None:
            numbers = (ages[inside] + self.view.before.get(None, 0)).tolist()
            known = self.answered[None, 0].intersection(numbers)
            self.passed.update((None, 0, number) for number in known)
            return
        for i in np.flatnonzero(inside).tolist():
            life = self.lives[key := keys[i]]
            number = int(ages[i]) + self.view.before.get(key, 0)
            if number in self.answered.get((key, life), ()):
                self.passed.add((key, life, number))

    def outcome(self) -> Outcome:
        """Return what came of all rows."""
        own = self.model.estimator if self.keyed else self.model
        heard = Heard(self.heard, feedback.promised(own))
        return Outcome(
            self.name, self.changed, own.nu, self.rows, self.warming, self.alerts, heard=heard
        )


# -- all of them -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Lookback:
    """Settings that are to be compared over what was kept of a model."""

    slot: Slot
    asked: Recall
    limits: Limits
    archive: Archive

    def run(self, now: Standing, ended: Callable[[], bool]) -> dict[str, Any]:
        """Return what each setting makes of the rows, or a refusal; `ended`: nobody waits."""
        model, asked = self.slot.estimator, self.asked
        comparing.check(asked.settings, asked.gap)
        since, keys = since_of(asked.since), self._keys()
        every = comparing.models_of(model, asked.settings, self.limits)
        watch = Watch(self.limits.replay_seconds, ended)
        try:
            with self.archive.held():
                past = Past.of(self.archive, self.slot, now, watch)
                return self._compared(past, since, keys, every, watch)
        except Damaged as error:
            raise Problem(409, "archive_damaged", str(error)) from error
        except Unreadable as error:
            words = (
                f"What was kept of this model cannot be read: {error}. Files of archive/ are named "
                "by the records in them: move the one with this record away, with all older ones. "
                "A replay then begins behind it."
            )
            raise Problem(409, "archive_damaged", words) from error
        except Gone as error:
            raise busy("archive_gone", f"{error} Ask again.") from error

    def _keys(self) -> frozenset[Any] | None:
        if self.asked.keys is None:
            return None
        if not fleets.is_fleet(self.slot.estimator):
            raise Problem(422, "bad_field", "This model has no keys: leave keys out.", "keys")
        if not self.asked.keys:
            raise Problem(422, "bad_field", "keys names no key; leave it out for all.", "keys")
        return frozenset(self.asked.keys)

    def _compared(
        self, past: Past, since: Since, keys: frozenset[Any] | None,
        every: Sequence[tuple[str, dict[str, Any], Any]], watch: Watch,
    ) -> dict[str, Any]:  # fmt: skip
        survey, before = past.survey, past.before()
        first, span = sum(before.values()), since.span is not None
        for key in () if keys is None else keys:
            if key not in survey.learned_by_key:
                words = f"No row of the key {key!r:.80} is kept."
                raise Problem(422, "bad_field", words, "keys")
        since = settled(since, first, survey)
        if isinstance(self.asked.gap, str) and math.isinf(survey.begin):
            words = (
                "When some of these rows came is not known: they were learned without --archive. "
                "Give gap as a number of rows."
            )
            raise Problem(422, "bad_field", words, "gap")
        names, known = self.slot.spec.features, survey.known()
        view = View(since, keys, names, before, survey.cut(), MOST // len(every))
        lanes = [Lane(*one, view) for one in every]
        for one in known:
            lanes[0].answered.setdefault((one.key, one.life), set()).add(one.id)
        shared = getattr(self.slot.estimator, "share", False)
        todo = past.steps(first, None if shared else keys)
        self._hand_out(todo, lanes, lambda row: watch.check(row - first, survey.rows))
        outcomes = [lane.outcome() for lane in lanes]
        answers = {
            mark_of(one): one.answer for one in known
            if (one.key, one.life, one.id) in lanes[0].passed
        }  # fmt: skip
        return {
            "rows": survey.rows, "from_row": first,
            "from_time": None if math.isinf(survey.begin) else moment(survey.begin),
            "since": since.text, "keys": self.asked.keys, "gap": self.asked.gap,
            "notes": notes(past, first, since, lanes[0], span),
            "settings": described(outcomes, self.asked.gap, answers),
        }  # fmt: skip

    def _hand_out(
        self, todo: Iterator[Step], lanes: Sequence[Lane], check: Callable[[int], None]
    ) -> None:
        """Let all settings do what the model did; `check` is told the rows that are handed out."""
        pools = [ThreadPoolExecutor(1, f"onkel-replay-{i}") for i in range(len(lanes))]
        waiting: deque[list[Future[None]]] = deque()
        try:
            for step in todo:
                X = self._encoded(step)
                each = zip(pools, lanes, strict=True)
                waiting.append([pool.submit(lane.handle, step, X) for pool, lane in each])
                _wait(waiting, AHEAD)
                if step.learns:
                    check(int(step.rows[-1]) + 1)
            _wait(waiting, 0)
        finally:
            for pool in pools:
                pool.shutdown(cancel_futures=True)

    def _encoded(self, step: Step) -> Any:
        """Return rows as models take them."""
        if not step.learns:
            return None
        return calls.rows_of(self.slot.estimator, step.entry, self.slot.spec.features)


def _wait(waiting: deque[list[Future[None]]], most: int) -> None:
    while len(waiting) > most:
        for future in waiting.popleft():
            future.result()


def _whose(key: Any, life: int) -> Any:
    """Return what tells alerts of keys from others of the same id; None without keys."""
    return None if key is None else (type(key), key, life)


def mark_of(one: Said) -> Mark:
    """Return which alert was answered."""
    id = str(one.id) if one.key is None else f"{one.key}:{one.id}"
    return Mark(id, _whose(one.key, one.life))


def _warmup(own: Lane) -> str:
    """Return what the warm-up of new models costs, in words."""
    if getattr(own.model, "share", False):
        return ""
    if own.keyed:
        return ", and show no alert during the warm-up of each key"
    rows = own.model.warmup_
    return f", and show no alert in their warm-up ({rows:,} rows with the model's own settings)"


def notes(past: Past, first: int, since: Since, own: Lane, span: bool) -> list[str]:
    """Return what there is to be known of the rows, in words."""
    survey, found = past.survey, []
    if first:
        found.append(
            f"The model had learned {first:,} rows before the first one that is kept "
            f"({moment(survey.begin)}). New models begin there: they know nothing of what was "
            f"before{_warmup(own)}. So alerts may differ from those that the model had."
        )
    if span and first and since.time is not None and since.time < survey.begin:
        found.append(
            f"{since.text} before the last row is more than is kept: all of it is compared."
        )
    if since.by_clock and math.isinf(survey.begin):
        found.append("Rows that were learned without --archive are not compared: when they came is "
                     "not known.")  # fmt: skip
    known = survey.known()
    early = sum(one.id < own.view.before.get(one.key, 0) for one in known)
    if early:
        which = "1 answer is to an alert" if early == 1 else f"{early:,} answers are to alerts"
        found.append(f"{which} before that row, which no setting has.")
    if lost := len(survey.answers) - len(known):
        which = "1 answer is" if lost == 1 else f"{lost:,} answers are"
        found.append(
            f"{which} to alerts of keys that were forgotten later, and whose first rows may not be "
            "kept: to which alerts is not known, so no setting hears them, and they are not "
            "counted."
        )
    return found
