"""Tables with columns of any types, as the estimators take them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import inputs
from onkel.columns import Columns, Encoded, Plan, Raw, Tally, is_dicts, raw_of, table_of
from onkel.columns.raw import of_matrix
from onkel.estimators.locks import locked
from onkel.estimators.saving import Saving
from onkel.learner import Learner, Settings
from onkel.saved import Saved

Array = NDArray[Any]


class TakesTables(Saving):
    """A model whose rows may hold categories, times and texts beside numbers.

    The first call tells what each column is. A table of numbers alone is what it always was.
    """

    columns: Any
    _tally: Tally | None = None
    """What the columns are, and how often each value came; None where all are numbers."""

    # -- rows --------------------------------------------------------------------------------------

    def _encoded(self, X: Any, fresh: bool) -> Any:
        """Return a table that holds more than numbers as codes and numbers; others as they are."""
        if X.__class__ is list and len(X) == 1 and isinstance(X[0], Encoded):
            X = X[0]  # one row, as the methods for one give it
        if isinstance(X, Encoded):
            return X if fresh else self._of_own_plan(X)
        if inputs.is_sparse(X) or self._on_strings(fresh):
            return self._no_table(X, fresh)
        if not fresh:
            return self._plain(X) if self._tally is None else self._plan(X)
        spec = self._spec()
        raw = raw_of(X) if spec is None else _any_table(X)
        if raw is None or not raw.rows:
            return X
        return self.plan_of(raw).encode(raw)

    def _no_table(self, X: Any, fresh: bool) -> Any:
        """Return rows that have no columns to speak of; refuse what was said of them."""
        if fresh and self._spec() is not None:
            what = "sparse" if inputs.is_sparse(X) else "texts, for its kernel"
            raise ValueError(
                f"{type(self).__name__}: columns says what the columns of a table are, but "
                f"the rows are {what}. Leave columns out, or give a frame, dicts or an array."
            )
        return X

    def plan_of(self, raw: Raw, late: bool = False) -> Plan:
        """Return what the columns would be if these were the first rows; more may come `late`."""
        return (self._spec() or Columns()).plan(raw, self.task != "novelty", late)

    def _on_strings(self, fresh: bool) -> bool:
        """Whether rows are texts, of a string kernel."""
        return self._takes()[0] if fresh else self._learner.on_strings

    def _takes(self) -> tuple[bool, bool]:
        """Return whether rows are strings, and whether values may be missing."""
        kernel = self._part("kernel", self.kernel, quiet=True)
        return getattr(kernel, "domain", "numbers") == "strings", self.missing == "mean"

    def check_params(self) -> None:
        self._spec()
        super().check_params()

    def _spec(self) -> Columns | None:
        """Return what the user said of the columns."""
        given = self.columns
        if given is None or isinstance(given, Columns):
            return given
        if isinstance(given, dict):
            return Columns(given)
        raise ValueError(
            f"{type(self).__name__}: columns must be None, a dict of types by name, or "
            f"onkel.Columns(...); got {given!r}."
        )

    def _plain(self, X: Any) -> Any:
        """Return rows for a model that knows numbers alone; dicts have no order."""
        if is_dicts(X):
            raise ValueError(
                f"This {type(self).__name__} has learned rows of numbers alone; "
                "got dicts. Give lists or arrays of numbers, or learn from dicts from the first "
                "call on. The model was not changed."
            )
        return X

    def _plan(self, X: Any) -> Encoded:
        assert self._tally is not None
        plan = self._tally.plan
        if X.__class__ is list and len(X) == 1:
            cells = plan.cells(X[0])
            if cells is not None:
                return plan.one(cells)
        return plan.encode(self._table(X))

    def _of_own_plan(self, X: Encoded) -> Encoded:
        """Return rows that were encoded elsewhere, if the model's plan is theirs."""
        plan = None if self._tally is None else self._tally.plan
        if plan is not X.plan and plan != X.plan:
            raise ValueError(
                f"These rows were encoded by another plan than that of this {type(self).__name__}: "
                "encode them by its own, plan_."
            )
        return X

    def _table(self, X: Any) -> Raw:
        """Return rows for a model that knows what the columns are; refuse other columns."""
        assert self._tally is not None
        names, owner = self._tally.plan.names, type(self).__name__
        raw = _any_table(X)
        if raw is None:
            raise ValueError(f"{owner} takes rows with the columns {names}; got {X!r:.60}.")
        if not raw.named:
            if len(raw.names) != len(names):
                raise ValueError(
                    f"X has {len(raw.names)} features, but {owner} is expecting {len(names)} "
                    f"features as input: {names}."
                )
            return Raw(names, raw.columns, raw.rows)
        strange = [name for name in raw.names if name not in names]
        lacking = [] if raw.loose else [name for name in names if name not in raw.names]
        if strange or lacking:
            raise ValueError(
                "The feature names should match those that were passed during fit. "
                f"Fitted with {names}, got {raw.names}."
            )
        return raw

    @staticmethod
    def _as_rows(x: Any, strings: bool) -> Any:
        """Return a single row as rows."""
        return x if isinstance(x, Encoded) else inputs.as_rows(x, strings)

    def _matrix(self, X: Encoded, learning: Any) -> Array:
        """Return the rows of a table as the learner takes them."""
        return X.X

    @staticmethod
    def _for_tables(X: Any, settings: Settings) -> Settings:
        """Return settings for such rows: a table may have gaps."""
        return replace(settings, missing="mean") if isinstance(X, Encoded) else settings

    @staticmethod
    def _apart(X: Any) -> tuple[float, ...]:
        """Return the weights of the columns of codes of these rows."""
        return X.plan.apart if isinstance(X, Encoded) else ()

    @staticmethod
    def _learned(X: Any, sample_weight: Any) -> Any:
        """Return which rows of a table will be learned: those of weight 0 are only looked at."""
        if not isinstance(X, Encoded):
            return True
        return inputs.weights_of(sample_weight, len(X)) > 0

    def _count(self, X: Any, learned: Any) -> None:
        """Take the rows that were learned into the tally."""
        if isinstance(X, Encoded) and self._tally is not None:
            self._tally.take(X if np.all(learned) else X[learned])

    def _meet(self, X: Any) -> None:
        """Take over what the columns are, with the first rows."""
        if isinstance(X, Encoded) and self._tally is None:
            self.feature_names_in_ = np.array(X.plan.names, dtype=object)
            self._tally = Tally(X.plan)

    @property
    @locked
    def tally_(self) -> Tally | None:
        """How often each value came, as a copy; None where all columns are numbers."""
        return None if self._tally is None else self._tally.copy()

    @property
    def plan_(self) -> Plan | None:
        """What each column is; None where all are numbers."""
        return None if self._tally is None else self._tally.plan

    # -- files -------------------------------------------------------------------------------------

    def _dump(self) -> dict[str, Any]:
        if self._tally is None:
            return super()._dump()
        plan = json.dumps(self._tally.plan.to_dict())
        return {**super()._dump(), "columns": {"plan": plan, "tally": self._tally.dump()}}

    def _resume(self, settings: dict[str, Any], saved: Saved) -> None:
        if saved.peek("columns") is not None:
            self._resume_columns(saved.inside("columns"))
        super()._resume(settings, saved)
        plan = self.plan_
        if plan is not None and self._width_of(plan) != len(self._learner.moments.mean):
            raise saved.refuse("columns.plan", "does not make the features of the learner")

    def _resume_columns(self, saved: Saved) -> None:
        try:
            plan = Plan.from_dict(json.loads(saved.value("plan")))
        except (TypeError, ValueError) as error:
            raise saved.refuse("plan", f"is none: {error}") from None
        self._tally = Tally.restored(plan, saved.inside("tally"))
        saved.finish()

    def _columns_of(self, learner: Learner) -> int:
        return super()._columns_of(learner) if self._tally is None else len(self._tally.plan.names)

    @staticmethod
    def _width_of(plan: Plan) -> int:
        """Return how many features a row of a table has for the learner."""
        return len(plan.outputs)


def _any_table(X: Any) -> Raw | None:
    """Return any rows column by column, those of numbers alone too."""
    raw = table_of(X)
    if raw is not None:
        return raw
    rows = np.asarray(inputs.on_host(X))
    return of_matrix(rows) if rows.ndim == 2 else None
