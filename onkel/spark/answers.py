"""What a fleet says of the rows of many keys, as the columns that a judge gives of each key's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.fleet import Fleet
from onkel.fleet.judging import FleetDetect
from onkel.judge import UNKNOWN, Columns, Detect, Judge, Rows

Array = NDArray[Any]
Answer = Callable[[], Columns]
"""Rows are learned when it is made; what it returns is only for the reader."""


@dataclass(frozen=True)
class Asked:
    """Rows of several keys.

    Parameters
    ----------
    judge : Judge
        What is asked of each key's model.
    fleet : Fleet
    numbers : array of int
        The key of each row, those of one key side by side.
    rows : Rows
        All with a target, or all without one.
    begun : array of bool
        Whether each row's key had learned anything before this call.
    """

    judge: Judge
    fleet: Fleet
    numbers: Array
    rows: Rows
    begun: Array

    def learn(self) -> Answer:
        """Judge and learn rows, all in one call."""
        if isinstance(self.judge, Detect):
            return self._alerts(self.judge)
        time = self.rows.time if self.judge.by_clock else None
        found = self.fleet.predict_then_learn(
            self.numbers, self.rows.whole(), self.rows.y, time, output=self._output()
        )
        begun = self.begun | (np.diff(self.numbers, prepend=-1) == 0)
        return lambda: self._columns(found, begun, self._targets())

    def look(self) -> Answer:
        """Judge rows that have no target."""
        found = self.fleet.predict(self.numbers, self.rows.whole(), output=self._output())
        return lambda: self._columns(found, self.begun, [None] * len(self.numbers))

    # -- alerts ------------------------------------------------------------------------------------

    def _alerts(self, judge: Detect) -> Answer:
        why = "why" in judge.fields()
        keys = [*dict.fromkeys(self.numbers[self.begun].tolist())] if why else []
        before = dict(zip(keys, self.fleet.records(keys), strict=True))
        asked = FleetDetect(None, judge.rarity, judge.by_clock, reasons=False)
        found = asked(self.fleet, self.numbers, self.rows)

        def columns() -> Columns:
            told = found.columns()
            return {**told, "why": self._why(told, before)} if why else told

        return columns

    def _why(self, told: Columns, before: dict[int, bytes]) -> list[str | None]:
        """Return reasons for alerts: keys that raise any are judged once more, as single models."""
        why: list[str | None] = [None] * len(self.numbers)
        alerts = np.flatnonzero(told["alert"])
        for number in dict.fromkeys(self.numbers[alerts].tolist()):
            at = np.flatnonzero(self.numbers == number)
            model = _model(self.fleet, before.get(number))
            own = self.judge(model, self.rows.part(at)).columns()["why"]
            for i, alert, words in zip(at.tolist(), told["alert"][at].tolist(), own, strict=True):
                why[i] = words or UNKNOWN if alert else None
        return why

    # -- targets -----------------------------------------------------------------------------------

    def _output(self) -> str:
        fields = self.judge.fields()
        if "probability" in fields:
            return "probability"
        return "judgement" if "low" in fields else "prediction"

    def _targets(self) -> list[Any]:
        assert self.rows.y is not None
        found: list[Any] = self.rows.y.tolist()
        return found

    def _columns(self, found: Any, begun: Array, targets: list[Any]) -> Columns:
        """Return one column per field; None or NaN where nothing was known."""
        fields, output = [*self.judge.fields()], self._output()
        columns = [found] if output == "prediction" else [*found]
        if output == "probability":
            columns = self._labels(found, begun)
        return dict(zip(fields, [*columns, targets], strict=True))

    def _labels(self, chances: Array, begun: Array) -> list[Array]:
        """Return the likeliest label of each row, and its probability.

        The columns are the classes of all keys. Where two of them are equally likely, it is the
        key's own classes that decide.
        """
        classes, rows = self.fleet.classes_, np.arange(len(chances))
        if not len(classes):
            return [np.full(len(rows), None)] * 2
        at = chances.argmax(axis=1)
        best = chances[rows, at]
        tied = begun & ((best <= 0) | (np.count_nonzero(chances == best[:, None], axis=1) > 1))
        place = {c: j for j, c in enumerate(classes.tolist())}
        for i in np.flatnonzero(tied).tolist():
            known = self.fleet[int(self.numbers[i])].classes_.tolist()
            own = [place[c] for c in known]
            two = len(own) == 2 and chances[i, own[1]] >= chances[i, own[0]]
            at[i] = own[1] if two else own[int(chances[i, own].argmax())]
        found = [classes[at].astype(object), chances[rows, at].astype(object)]
        for column in found:
            column[~begun] = None
        return found


def _model(fleet: Fleet, record: bytes | None) -> Any:
    """Return the model of a record that a fleet's key had, or what a new key begins with."""
    if record is None:
        return copy.copy(fleet.estimator)
    form = fleet.form()
    assert form is not None
    other = Fleet(fleet.estimator)
    other.open_as(form)
    other.restore([0], [record])
    return other[0]
