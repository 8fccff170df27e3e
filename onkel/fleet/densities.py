"""Self-tuning detectors in cells: no row of theirs is unusual, so that the core learns all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import inputs
from onkel.core.cells import DENSITY_HEAD
from onkel.estimators import inside
from onkel.fleet.calls import Call
from onkel.fleet.cells import NONE, Cells
from onkel.fleet.outputs import Verdicts
from onkel.fleet.precedents import precedents
from onkel.inputs import LARGEST
from onkel.learner.single_row import plain_row

Array = NDArray[Any]

_ANSWERS = DENSITY_HEAD.fields["answers"][1] + np.arange(4)  # type: ignore[index]
"""Where a record says how many answers it has."""


class DensityCells(Cells):
    """Detectors by number."""

    counted = 4

    def __init__(self, packed: Any, threads: int = 1) -> None:
        super().__init__(packed, threads)
        self.answered: set[int] = set()
        """Models some alert of which was answered."""
        self._out, self._usual = np.empty((1, 6)), np.empty((0, 2, packed.features))

    def learn(self, call: Call) -> Any:
        """Judge and learn rows; return what was asked for."""
        if call.how.get("time") is not None:
            raise ValueError(
                "Fleet: time= was given, but the memory of a Detector counts rows. Leave it out, "
                "or use NoveltyDetector with rules.Norma(memory='12h')."
            )
        weight = inputs.weights_of(call.how.get("sample_weight"), len(call))
        X = self.rows(call)
        self._room(call.numbers)
        before = {n: self.core.record(n) for n in self._asked_about(call)}
        found = self._judged(call, X, weight)
        for number, record in before.items():
            at = np.flatnonzero(call.numbers == number)
            if found.alert[at].any():
                model = self.packed.model(record)
                call.precedents |= precedents(model, X[at], weight[at], at)
        return found.answer(call.output, tells_p=True)

    def _asked_about(self, call: Call) -> set[int]:
        """Return the models of a call whose alerts may be like one that was answered."""
        if not (call.tells_usual and self.answered):
            return set()
        return self.answered & set(call.numbers.tolist())

    def restore_joined(self, numbers: Array, lengths: Array, data: Array) -> None:
        """Let models be what records hold, which lie one behind another."""
        super().restore_joined(numbers, lengths, data)
        starts = (np.cumsum(lengths) - lengths)[lengths > 0]
        counts = data[starts[:, None] + _ANSWERS].view(np.int32).ravel() > 0
        self.answered -= set(numbers.tolist())
        self.answered |= set(numbers[lengths > 0][counts].tolist())

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget models."""
        gone = [*numbers]
        super().forget(gone)
        self.answered -= set(gone)

    def answer(self, number: int, id: Any, answer: str, frame: Any = None) -> None:
        """Answer an alert of a model."""
        model = self.model(number)
        inside.answer(model, id, answer, frame)
        self.put({number: model})

    def answered_of(self, numbers: Array) -> list[int]:
        """Return which of these models have answers."""
        return sorted(self.answered & set(numbers.tolist())) if self.answered else []

    def look(self, call: Call) -> Any:
        """Return what is said of rows; nothing changes."""
        X, known = self.rows(call), call.numbers >= 0
        known[known] = [self.has(n) for n in call.numbers[known].tolist()]
        at = np.flatnonzero(known)
        found = self._judged(call, X, NONE, at).spread(at, len(call))
        return found.answer(call.output, tells_p=True)

    def _judged(self, call: Call, X: Array, weight: Array, at: Array | None = None) -> Verdicts:
        numbers = call.numbers if at is None else call.numbers[at]
        rows = np.ascontiguousarray(X if at is None else X[at], np.float64)
        found = np.empty((len(rows), 6))
        call.usual = usual = np.empty((len(rows) * call.tells_usual, 2, rows.shape[1]))
        self.core.learn(
            np.ascontiguousarray(numbers), rows, weight, call.output in ("rank", "verdict"), found,
            usual, self.threads,
        )  # fmt: skip
        score, limit, alert, _, rank, age = found.T
        return Verdicts(score, limit, alert > 0, rank, age)

    def learn_one(self, number: int, row: Any, y: Any, time: Any) -> bool:
        """Learn one row; False, and nothing has changed, if it is not for here."""
        X = self._row(row)
        if X is None or time is not None:
            return False
        self._number[0] = number
        self.core.make_room(number + 1)
        self.core.learn(self._number, X, self._weight, False, self._out, self._usual, 1)
        return True

    def look_one(self, number: int, row: Any) -> int:
        """Return -1 for an alert, else 1."""
        X = self._row(row)
        if X is None:
            return int(self.model(number).predict_one(row))
        self._number[0] = number
        self.core.learn(self._number, X, NONE, False, self._out, self._usual, 1)
        return -1 if self._out[0, 2] else 1

    def _row(self, row: Any) -> Array | None:
        found = plain_row(row, self.packed.dtype)
        if found is None or found.shape != (self.packed.features,):
            return None
        return found.astype(np.float64)[None] if float(np.abs(found).max()) <= LARGEST else None
