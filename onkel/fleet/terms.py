"""Kernel models in cells: detectors, classifiers, regressors with windows of terms."""

from __future__ import annotations

from math import exp, expm1, isinf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import inputs
from onkel.clock import check_order, times_of
from onkel.estimators import inside
from onkel.fleet import loose, outputs
from onkel.fleet.calls import Call
from onkel.fleet.cells import NONE, Cells
from onkel.fleet.outputs import Found
from onkel.fleet.went import Targets, Went
from onkel.learner.single_row import plain_row

Array = NDArray[Any]

NO_LABELS = np.zeros(0, np.int32)


class TermCells(Cells):
    """Kernel models by number."""

    counted = 5

    def __init__(self, packed: Any, threads: int = 1) -> None:
        super().__init__(packed, threads)
        self.rule, self.window = packed.blank.rule, packed.blank.window
        self.task: str = packed.task
        self.clocked = not isinf(self.rule.duration)
        if self.task == "classification":
            self.core.set_sides(packed.sides())

    # -- learning --------------------------------------------------------------------------------

    def learn(self, call: Call) -> Any:
        """Judge and learn rows; return what was asked for. Learned whole, or not at all."""
        call.X = self.rows(call)
        if self.task == "regression" and call.output != "prediction":
            inside.check_interval(self.estimator)
        weight = inputs.weights_of(call.how.get("sample_weight"), len(call))
        self._room(call.numbers)
        before, flat = len(self.packed.labels), self.packed.flat
        try:
            targets = self._targets(call)
            went = self._run(call, targets, weight)
            found = self._others(call, went)
        except BaseException:
            self.core.undo()
            self.packed.forget_labels(before)
            self.packed.flat = flat
            raise
        self.core.done()
        return self._answered(call, found, went)

    def _run(self, call: Call, targets: Targets, weight: Array) -> Went:
        """Let the core learn what it can."""
        usual = self._usual(call, weight)
        numbers = np.ascontiguousarray(call.numbers[usual])
        times = self._times(call, usual)
        trials, gaps = np.empty(len(usual), np.int64), np.empty(0 if times is None else len(usual))
        self.core.trials(numbers, NONE if times is None else times, trials, gaps)
        if times is not None and gaps.min(initial=0.0) < 0:
            self._refuse_time(call, usual, times, gaps)
        wide = self._width(numbers, targets, usual)
        went = Went.empty(self.task, usual, wide)
        moments = np.full((len(usual) * call.tells_usual, 2, self.packed.features), np.nan)
        y, labels = targets.part(usual)
        found = self.core.learn(
            numbers, np.ascontiguousarray(call.X[usual]), y, labels,
            np.ascontiguousarray(weight[usual]), self.rule.rates(trials),
            self.rule.lams(trials, None if times is None else gaps),
            NONE if times is None else self.rule.fades(gaps), NONE if times is None else times,
            self.window.oldest(trials), targets.flat, False, _ranked(call.output), went.score,
            went.limit, went.more, went.kind, moments, self.threads,
        )  # fmt: skip
        went.left, went.kinds = found.left, found.kinds
        if call.tells_usual:
            call.usual = np.full((len(call), *moments.shape[1:]), np.nan)
            call.usual[usual] = moments
        return went

    def _usual(self, call: Call, weight: Array) -> Array:
        """Return the rows of keys that have no row of weight 0."""
        odd = np.unique(call.numbers[weight <= 0])
        return np.flatnonzero(~np.isin(call.numbers, odd)) if len(odd) else np.arange(len(call))

    def _others(self, call: Call, went: Went) -> Found:
        """Learn what the core has left, by ordinary estimators."""
        done = np.zeros(len(call), bool)
        done[went.at] = ~np.isin(call.numbers[went.at], went.left)
        left = np.unique(call.numbers[~done])
        if not len(left):
            return []
        found, changed = loose.learned(self.model, call, call.of(left))
        records = [self.packed.record(model) for model in changed.values()]
        self.core.keep(np.array([*changed], np.int64))
        self.restore(changed, records)
        went.only(done[went.at])
        if call.output == "probability":
            return [(key, at, (changed[int(call.numbers[at[0]])].classes_, values))
                    for key, at, values in found]  # fmt: skip
        return found

    def _answered(self, call: Call, found: Found, went: Went) -> Any:
        if call.output == "probability":
            each = [(at, *values) for _, at, values in found]
            each += went.chances(self.packed)
            return outputs.chances(each, self.classes(), len(call))
        usual = went.answers(call, self.packed)
        return outputs.joined(self.task, call.output, [*found, *usual], len(call))

    def restore_joined(self, numbers: Array, lengths: Array, data: Array) -> None:
        """Let models be what records hold, which lie one behind another."""
        if self.task == "classification":  # records made of models may have brought labels
            self.core.set_sides(self.packed.sides())
        super().restore_joined(numbers, lengths, data)

    def put(self, models: dict[int, Any]) -> None:
        """Let models be what these are; a ValueError, and nothing changed, if one does not fit."""
        new = self.task == "regression" and not self.core.nbytes
        super().put(models)
        for model in models.values() if new else ():
            if loose.begun(model):  # the first says it for all
                self.packed.flat = inside.is_flat(model)
                break

    def _width(self, numbers: Array, targets: Targets, usual: Array) -> int:
        if self.task == "classification":
            return int(self.core.widest(numbers)) + targets.distinct + 1
        return 1 if self.task == "novelty" else int(targets.y.shape[1])

    # -- targets and times -----------------------------------------------------------------------

    def _targets(self, call: Call) -> Targets:
        if self.task == "novelty":
            return Targets(np.zeros((0, 1)), NO_LABELS)
        if self.task == "regression":
            Y, flat = inside.targets_of(self.estimator, call.y)
            inputs.same_length(call.X, Y)
            self._check_outputs(call, Y.shape[1])
            if not self.core.nbytes:  # the first rows say it for all
                self.packed.flat = flat
            return Targets(Y, NO_LABELS, flat)
        y = inside.labels_of(self.estimator, call.y)
        inputs.same_length(call.X, y)
        call.y = y
        labels = y.tolist()
        places = self.packed.places_of(labels)
        self.core.set_sides(self.packed.sides())
        return Targets(np.zeros((0, 1)), places, distinct=len({*labels}))

    def _check_outputs(self, call: Call, wanted: int) -> None:
        known = int(self.core.widest(np.ascontiguousarray(call.numbers)))
        if known and known != wanted:
            raise ValueError(
                f"y has {wanted} targets per row, but the models of this fleet learn {known}."
            )

    def _times(self, call: Call, usual: Array) -> Array | None:
        time = call.how.get("time")
        if time is None and not self.clocked:
            return None
        memory = getattr(self.packed.settings.rule, "memory", None)
        if time is None:
            raise ValueError(
                f"Fleet: memory={memory!r} goes by the clock: give time=, one per row."
            )
        if not self.clocked:
            raise ValueError(
                f"Fleet: time= was given, but its models forget by examples (memory={memory!r}). "
                "Give the memory as a duration, such as rules.Norma(memory='12h'), or leave time "
                "out."
            )
        call.how["time"] = times = times_of(time, len(call))
        return np.ascontiguousarray(times[usual])

    def _refuse_time(self, call: Call, usual: Array, times: Array, gaps: Array) -> None:
        row = int(usual[np.flatnonzero(gaps < 0)[0]])
        at = np.flatnonzero(call.numbers == call.numbers[row])
        model = self.model(int(call.numbers[row]))
        last = inside.learner_of(model).clock if loose.begun(model) else None
        with loose.told(call.key(row), at):
            check_order(call.how["time"][at], last)

    # -- predicting ------------------------------------------------------------------------------

    def look(self, call: Call) -> Any:
        """Return what is said of rows; nothing changes."""
        call.X, known = self.rows(call), call.numbers >= 0
        known[known] = [self.has(n) for n in call.numbers[known].tolist()]
        if self.task == "regression" and call.output != "prediction":
            inside.check_interval(self.estimator)
        at = np.flatnonzero(known)
        numbers = np.ascontiguousarray(call.numbers[at])
        went = Went.empty(self.task, at, max(int(self.core.widest(numbers)), 1))
        looked = self.core.look(
            numbers, np.ascontiguousarray(call.X[at]), False, _ranked(call.output), went.score,
            went.limit, went.more, went.kind, self.threads,
        )  # fmt: skip
        went.left, went.kinds = looked.left, looked.kinds
        found: Found = []
        if went.left:  # a score that is not finite: the estimator says which
            found = loose.judged(self.model, call, call.of(went.left))
        if call.output == "probability":
            each = went.chances(self.packed)
            return outputs.chances(each, self.classes(), len(call))
        usual = went.answers(call, self.packed)
        unknown = np.flatnonzero(~known)
        nothing: Found = [("", unknown, None)] if len(unknown) else []
        return outputs.joined(self.task, call.output, [*found, *usual, *nothing], len(call))

    def classes(self) -> Array:
        """Return all classes of all keys, in order."""
        return loose.in_order(self.packed.labels)

    # -- single rows -----------------------------------------------------------------------------

    def learn_one(self, number: int, row: Any, y: Any, time: Any) -> bool:
        """Learn one row; False, and nothing has changed, if it is not for here."""
        x = plain_row(row, self.packed.dtype)
        if x is None or x.shape != (self.packed.features,) or (time is None) == self.clocked:
            return False
        target, label = self._one_target(y)
        if target is None:
            return False
        self.core.make_room(number + 1)
        eta, lam, oldest = self._rates(self.core.t(number) + 1)
        fade = 1.0
        if time is not None:
            clock = self.core.clock(number)
            if time.__class__ not in (float, int) or time < clock:
                return False
            gap = 0.0 if clock != clock else (time - clock) / self.rule.duration
            lam, fade = -expm1(-gap) / eta, exp(-gap)
        fine: bool = self.core.learn_one(
            number, x, target, label, eta, lam, oldest, fade, 0.0 if time is None else float(time)
        )
        return fine

    def _one_target(self, y: Any) -> tuple[float | None, int]:
        if self.task == "novelty":
            return 0.0, -1
        if self.task == "regression":
            plain = isinstance(y, (float, int, np.floating, np.integer))
            return (float(y), -1) if plain else (None, -1)
        place = self.packed.places.get(y.item() if isinstance(y, np.generic) else y)
        return (None, -1) if place is None else (0.0, place)

    def _rates(self, trial: int) -> tuple[float, float, int]:
        constant = getattr(self.rule, "constant", None)
        if constant is not None and self.window.growth is None:
            return constant, self.rule.lam, trial + 1 - self.window.age
        trials = np.array([trial])
        rates, lams = self.rule.rates(trials), self.rule.lams(trials)
        return rates.item(), lams.item(), self.window.oldest(trials).item()

    def look_one(self, number: int, row: Any) -> Any:
        """Return what is said of one row, as ``predict_one`` does."""
        x = plain_row(row, self.packed.dtype)
        if x is None or x.shape != (self.packed.features,) or not self.has(number):
            return self.model(number).predict_one(row)
        self._number[0] = number
        went = Went.empty(self.task, self._number, max(int(self.core.widest(self._number)), 1))
        looked = self.core.look(
            self._number, x[None], True, False, went.score, went.limit, went.more, went.kind, 1
        )
        if looked.left:
            return self.model(number).predict_one(row)
        if self.task == "novelty":
            return -1 if went.more[0, 0] else 1
        if self.task == "regression":
            return went.score.item() if self.packed.flat else went.score[0]
        classes = self.packed.classes(looked.kinds[0])
        return classes.predictions(went.score[:, : classes.outputs])[0]


def _ranked(output: str) -> bool:
    return output in ("rank", "p", "verdict")
