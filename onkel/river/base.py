"""What the River estimators share: dicts, texts or data frames in, one model of onkel inside."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import wraps
from inspect import signature
from itertools import pairwise
from threading import RLock
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from river import base

from onkel import inputs
from onkel.columns import Raw
from onkel.estimators import inside
from onkel.estimators.base import Estimator
from onkel.river import frames
from onkel.river.places import Name, Places, number
from onkel.river.tables import Table, is_other, raw_of_dict

Array = NDArray[Any]
T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Any])

ABSENT = ("mean", "zero")
OWN = ("absent", "on")
"""Parameters that the model inside does not have."""


def alone(method: Method) -> Method:
    """Let a method wait until no other call is at the same model: rows and model agree."""

    @wraps(method)
    def call(self: Face, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return call  # type: ignore[return-value]


class Rest(NamedTuple):
    """What comes with rows: targets, and perhaps weights and times."""

    y: list[Any]
    weight: Array | None
    time: list[Any] | None

    def chosen(self, which: Sequence[int]) -> Rest:
        """Return what comes with some of the rows."""
        weight = None if self.weight is None else self.weight[list(which)]
        time = None if self.time is None else [self.time[i] for i in which]
        return Rest([self.y[i] for i in which], weight, time)


class Face(base.Estimator):
    """Base of the River estimators.

    Features come and go: each has a column from the first example on that brings it. What they
    are is told by the first example: numbers alone, or numbers, categories, times and texts.
    """

    absent: str
    columns: Any
    on: str | None
    _wrapped: ClassVar[type[Estimator]]
    _held: tuple[Any, Any]
    """The model and its columns (`Places` of numbers, or a `Table`), replaced together."""

    def _begin(self) -> None:
        """Check the parameters, and start with nothing known."""
        owner = type(self).__name__
        params = {n: getattr(self, n) for n in signature(type(self)).parameters if n not in OWN}
        model = self._wrapped(**params)
        model.check_params()
        self._text = inside.takes_texts(model)
        if self.absent not in ABSENT:
            raise ValueError(f"{owner}: absent must be one of {ABSENT}; got {self.absent!r}.")
        if self.on is not None and not self._text:
            raise ValueError(
                f"{owner}: on={self.on!r} names a text, which {model!r} does not take. Use "
                "kernel=kernels.Spectrum(), or leave out on."
            )
        self._held = model, Places(self.absent)
        self._lock = RLock()

    def __getstate__(self) -> dict[str, Any]:
        """Return model and columns as they fit each other; a copy has a lock of its own."""
        with self._lock:
            state = {k: v for k, v in self.__dict__.items() if k != "_lock"}
            model, columns = self._held
            state["_held"] = (deepcopy(model), columns.copy())
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = RLock()

    @property
    def estimator(self) -> Any:
        """The model of onkel inside: ``estimator.diagnostics_``, ``estimator.n_terms_``, ..."""
        return self._held[0]

    @property
    def features(self) -> dict[Name, int]:
        """The column of each feature seen so far."""
        return dict(self._held[1].place)

    def _more_tags(self) -> set[str]:
        return {base.tags.TEXT_INPUT} if self._text else set()

    # -- predicting ----------------------------------------------------------------------------

    def _ask(self, x: Any, ask: Callable[[Any, Any], T]) -> T:
        """Ask the model about one example; features that it does not know are left out."""
        with self._lock:  # as `alone` does, but it is short of time here
            model, columns = self._held
            if self._text:
                return ask(model, self._text_of(x))
            row = columns.whole(x)
            if row is not None:
                try:
                    return ask(model, row)
                except ValueError:
                    if columns.fine(row):
                        raise
            return ask(model, columns.row(x))

    def explain_one(self, x: Any, top: int = 5) -> Any:
        """Explain one example, as ``explain`` of the estimator inside does for a row."""
        return self._ask(x, lambda model, row: model.explain(row, top))

    def _rows(self, X: Any) -> Any:
        """Return the rows (or texts) of a data frame, for predicting."""
        if self._text:
            return self._texts(X)
        columns = self._held[1]
        if isinstance(columns, Table):
            return columns.encode(frames.raw(X))
        if not self._ready:
            return [None] * len(X)  # whatever they hold: nothing is known yet
        names, found = frames.matrix(X)
        rows = np.tile(columns.fills(), (len(found), 1))
        for name, values in zip(names, found.T, strict=True):
            j = columns.place.get(name)
            if j is not None:
                rows[:, j] = np.where(np.isnan(values), rows[:, j], values)
        return rows

    @property
    def _ready(self) -> bool:
        return self._held[0].__sklearn_is_fitted__()

    # -- texts ---------------------------------------------------------------------------------

    def _text_of(self, x: Any) -> str:
        if isinstance(x, str):
            return x
        if self.on is None or not isinstance(x, Mapping):
            raise ValueError(
                f"{type(self).__name__}: a string kernel takes a text, or a dict and on= the name "
                f"of its text; got {type(x).__name__} and on={self.on!r}."
            )
        return self._clean(x.get(self.on))

    def _texts(self, X: Any) -> list[str]:
        return [self._clean(text) for text in frames.texts(X, self.on)]

    def _clean(self, text: Any) -> str:
        """An absent text is the empty one, which is like nothing else."""
        if isinstance(text, str):
            return text
        if text is None or text != text:
            return ""
        raise ValueError(
            f"{type(self).__name__}: {self.on!r} must be a text (or None); got {text!r:.40} "
            f"({type(text).__name__}). The model was not changed."
        )

    # -- learning ------------------------------------------------------------------------------

    def _learn_one(self, x: Any, y: Any, w: float = 1.0, t: Any = None) -> None:
        """Learn one example: at once if it has the known features, all numbers."""
        with self._lock:
            model, columns = self._held
            row = None if self._text or w != 1.0 else columns.whole(x)
            if row is not None:
                try:
                    model.learn_one(row, y, t)
                except ValueError:
                    if columns.fine(row):
                        raise
                else:
                    columns.note(row)
                    return
            self._learn_odd(x, y, w, t)

    def _learn_odd(self, x: Any, y: Any, w: float, t: Any) -> None:
        """Learn one example of another kind: a text, a weight, features that came or went."""
        weight = None if w == 1.0 else inputs.weights_of(w, 1)
        if weight is not None and weight[0] == 0:
            return
        rest = Rest([y], weight, None if t is None else [t])
        if self._text:
            self._fit_rows(self._held[0], [self._text_of(x)], rest)
            return
        if self._tabled(lambda: any(map(is_other, x.values()))):
            self._learn_table(raw_of_dict(x), rest)
            return
        found = {name: v for name, value in x.items() if (v := number(name, value)) is not None}
        columns = self._held[1]
        if found.keys() <= columns.place.keys() and columns.width:
            self._learn_known(columns, found, rest)
        else:
            self._learn_block(list(found), np.array([list(found.values())]), rest)

    def _learn_known(self, columns: Places, found: dict[Name, float], rest: Rest) -> None:
        """Learn an example that lacks some of the known features."""
        model = self._held[0]
        row, n = columns.fills(), len(found)
        which = np.fromiter(map(columns.place.__getitem__, found), np.intp, n)
        values = np.fromiter(found.values(), np.float64, n)
        row[which] = values
        self._fit_rows(model, row[None], rest)
        columns.note_some(which, values)

    @alone
    def _learn_many(self, X: Any, y: list[Any], w: Any = None, t: Any = None) -> None:
        """Learn a data frame's rows, in order: all of them, or none if one is refused."""
        table = not self._text and self._tabled(lambda: frames.holds_others(X))
        rows: Any = self._texts(X) if self._text else frames.raw(X) if table else None
        names: list[Name] = []
        if rows is None:
            names, rows = frames.matrix(X)
        inputs.same_length(rows, y)
        rest = Rest(y, None, None if t is None else frames.values(t))
        if w is not None:
            weight = inputs.weights_of(w, len(rows))
            keep = np.flatnonzero(weight > 0).tolist()  # a row of weight 0 brings nothing
            rows = _chosen(rows, keep)
            rest = Rest(y, weight, rest.time).chosen(keep)
        if not len(rows):
            return
        if self._text:
            self._fit_rows(self._held[0], rows, rest)
        elif table:
            self._learn_table(rows.held(), rest)
        else:
            self._learn_block(names, rows, rest)

    def _tabled(self, others: Callable[[], bool]) -> bool:
        """Whether rows are a table's: as they were, or as the first ones and columns= tell."""
        if self._ready:
            return isinstance(self._held[1], Table)
        return self.columns is not None or others()

    def _learn_table(self, raw: Raw, rest: Rest) -> None:
        """Learn rows of a table, cut where a feature comes that was not known."""
        model, table = self._held
        if not isinstance(table, Table):
            table = Table(model.plan_of(raw, late=True), self.absent)
        arrivals = table.arrivals(raw)
        if any(arrivals):
            model = copy.deepcopy(model)  # the call may be refused after it has learned some
        for start, stop in pairwise(sorted({0, *arrivals, raw.rows})):
            which, new = range(start, stop), arrivals.get(start, [])
            table = table.grown(new) if new else table
            rows = table.encode(raw.part(which))
            if new:
                model = inside.grown(model, table.plan, table.values(rows, new))
            self._fit_rows(model, rows, rest.chosen(which))
        self._held = model, table

    def _learn_block(self, names: list[Name], found: Array, rest: Rest) -> None:
        """Learn rows with gaps; the rows are cut where a feature comes that was not known."""
        model, columns = self._held
        firsts, rows = _arranged(columns, names, found)
        fresh = not model.__sklearn_is_fitted__()
        cuts = sorted({0, *firsts.values(), *([1] if fresh else []), len(rows)})
        if fresh and 0 not in firsts.values():
            raise ValueError(
                f"{type(self).__name__}: the first example holds no feature at all, so there is "
                "nothing to learn from. Leave it out. The model was not changed."
            )
        columns = columns.copy()
        if fresh or min(firsts.values(), default=0) > 0:
            model = copy.deepcopy(model)  # the call may be refused after it has learned some
        for start, stop in pairwise(cuts):
            new = [name for name, first in firsts.items() if first == start]
            if new:
                columns = columns.grown(new)
                model = self._widened(model, rows[start, columns.width - len(new) : columns.width])
            part = columns.filled(rows[start:stop, : columns.width])
            self._fit_rows(model, part, rest.chosen(range(start, stop)))
            columns.memory = max(float(inside.learner_of(model).rule.memory), 1.0)
        if firsts:  # for reports
            model.feature_names_in_ = np.array([str(name) for name in columns.place], object)
        self._held = model, columns

    def _widened(self, model: Estimator, values: Array) -> Estimator:
        if not model.__sklearn_is_fitted__():
            return model
        return inside.widened(model, values if self.absent == "mean" else np.zeros(len(values)))

    def _fit_rows(self, model: Any, rows: Any, rest: Rest) -> None:
        model.partial_fit(rows, rest.y, sample_weight=rest.weight, time=rest.time)


def _chosen(rows: Any, keep: list[int]) -> Any:
    """Return some of the rows: of texts, of a table, of a matrix."""
    if isinstance(rows, Raw):
        return rows.part(keep)
    return [rows[i] for i in keep] if isinstance(rows, list) else rows[keep]


def _arranged(columns: Places, names: list[Name], found: Array) -> tuple[dict[Name, int], Array]:
    """Return the new features with the row that brings each, and the rows in the columns' order.

    New columns stand behind the known ones, in the order in which they come.
    """
    at = {name: j for j, name in enumerate(names)}
    there = ~np.isnan(found)
    new = [n for n in names if n not in columns.place and there[:, at[n]].any()]
    firsts = {n: int(np.argmax(there[:, at[n]])) for n in new}
    firsts = dict(sorted(firsts.items(), key=lambda item: item[1]))
    rows = np.full((len(found), columns.width + len(new)), np.nan)
    for j, name in enumerate([*columns.place, *firsts]):
        if name in at:
            rows[:, j] = found[:, at[name]]
    return firsts, rows
