"""What the estimators share: rows, the online protocol, reporting."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel import diagnostics, inputs
from onkel.clock import check_order, times_of
from onkel.columns import Encoded
from onkel.estimators.locks import locked
from onkel.estimators.typed import TakesTables
from onkel.learner import Learner, Settings, SingleRow
from onkel.params import Accept
from onkel.scaling import Moments

Array = NDArray[Any]

_TOP = Accept(low=1, high=2**31, whole=True, hint="It counts terms and features, for example 5.")


class Estimator(TakesTables):
    """Base of the estimators: scikit-learn's protocol, without importing scikit-learn."""

    outputs: ClassVar[tuple[str, ...]]
    """What ``predict_then_learn(output=...)`` offers."""
    _learner: Learner
    _own: Array | None = None
    """During fit: the trial at which each row's term was stored."""

    # -- rows ----------------------------------------------------------------------------------

    def _rows(self, X: Any, settings: Settings | None = None, learning: Any = False) -> Any:
        """Return checked rows, in the dtype and width that the first call has fixed.

        `learning`: whether they are about to be learned, or which of them.
        """
        X = self._encoded(X, settings is not None)
        owner, dtype, width = type(self).__name__, inputs.choose_dtype(X), None
        if settings is not None:
            kernel, made = settings.kernel, settings
        else:
            learner = self._fitted()
            kernel, made, width = learner.kernel, learner.settings, len(learner.moments.mean)
            dtype = learner.dtype
        if kernel.domain == "strings":
            return inputs.string_rows(X, owner)
        if isinstance(X, Encoded):
            return inputs.numeric_rows(self._matrix(X, learning), owner, dtype, width, gaps=True)
        if settings is None:
            self._check_names(X)
        gaps = made.missing == "mean"
        if made.device != "cpu" and inputs.is_tensor(X) and not gaps:
            from onkel.gpu.tensors import tensor_rows

            return tensor_rows(X, owner, width)
        return inputs.numeric_rows(inputs.on_host(X), owner, dtype, width, gaps=gaps)

    def _check_names(self, X: Any) -> None:
        names = inputs.feature_names(X)
        known = getattr(self, "feature_names_in_", None)
        if names is None or known is None or np.array_equal(names, known):
            return
        raise ValueError(
            "The feature names should match those that were passed during fit. "
            f"Fitted with {list(known)}, got {list(names)}."
        )

    @property
    def n_features_in_(self) -> int:
        """Number of features of a row."""
        if not hasattr(self, "_learner"):
            raise AttributeError(
                f"{type(self).__name__} has no attribute 'n_features_in_' before fit"
            )
        return self._columns_of(self._learner)

    def _fitted(self) -> Learner:
        if not hasattr(self, "_learner"):
            raise inputs.not_fitted(type(self).__name__)
        return self._learner

    def _wider(self, values: Array) -> Any:
        """Return the learner for rows with more features, which had these values until now."""
        return self._fitted().widened(values)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the model has begun to learn."""
        return hasattr(self, "_learner")

    # -- the online protocol -------------------------------------------------------------------

    def _reset(self) -> None:
        own = ("_learner", "_one", "_tally")
        for name in [n for n in vars(self) if n.endswith("_") or n in own]:
            delattr(self, name)

    def _begin(self, X: Any, settings: Settings, rows: Any, columns: int) -> Learner:
        """Make the learner for the first rows; it becomes the model's when they are learned."""
        settings = self._for_tables(X, settings)
        width = 0 if isinstance(rows, list) else rows.shape[1]
        dtype = np.float64 if isinstance(rows, list) else inputs.choose_dtype(X)
        return self._starter(settings)(settings, width, columns, dtype, self._apart(X))

    def _keep(self, learner: Learner, X: Any, weight: Array) -> None:
        """Take over a learner that has learned; the model changes here and nowhere else.

        What the columns are comes first: whoever looks meanwhile, and finds that the model has
        begun, finds them too.
        """
        if not hasattr(self, "_learner") and not isinstance(X, Encoded):
            names = inputs.feature_names(X)
            if names is not None and learner.kernel.domain == "numbers":
                self.feature_names_in_ = names
        self._meet(X)
        self._learner = learner
        self._count(X, weight > 0)
        self.__dict__.pop("_one", None)

    def _single(self) -> SingleRow | None:
        """Return what takes rows one by one, if that is possible here."""
        one: SingleRow | None = self.__dict__.get("_one")
        learner: Any = self.__dict__.get("_learner")
        if one is None or not one.holds(learner):
            one = None if learner is None else learner.single_row()
            if one is not None:
                self._one = one
        return one

    @staticmethod
    def _lone(X: Any, y: Any = None) -> tuple[Any, Any] | None:
        """Return row and target of a call that brings a single one as arrays, else None."""
        if X.__class__ is not np.ndarray or X.ndim != 2 or len(X) != 1:
            return None
        if y is None:
            return X[0], None
        if y.__class__ is list and len(y) == 1:
            return X[0], y[0]
        if y.__class__ is not np.ndarray or y.ndim not in (1, 2) or len(y) != 1:
            return None
        return X[0], y.item() if y.ndim == 1 else y[0]

    def _quick(self, row: Any, y: Any, time: Any = None) -> SingleRow | None:
        """Learn one row the cheap way, if that is possible; else None, and nothing changed."""
        one = self._single()
        if one is None or self._tally is None:
            return one if one is not None and one.learn(row, y, time) else None
        rows = self._encoded([row], fresh=False)
        if not one.learn(self._matrix(rows, learning=True)[0], y, time):
            return None
        self._count(rows, True)
        return one

    def _look(self, row: Any) -> Array | None:
        """Return the scores of one row the cheap way, if that is possible."""
        one = self._single()
        if one is not None and self._tally is not None:
            row = self._matrix(self._encoded([row], fresh=False), learning=False)[0]
        return one.scores if one is not None and one.look(row) else None

    def __getstate__(self) -> dict[str, Any]:
        """Return a copy of all that calls change; what is bound for single rows is bound anew."""
        with self._lock:
            state = {k: v for k, v in self.__dict__.items() if k not in ("_one", "_lone_classes")}
            for name in ("_learner", "_classes", "_link", "class_count_", "recent_", "_tally"):
                if state.get(name) is not None:
                    state[name] = state[name].copy()
        return state

    def _safe(self, weight: Array, force: bool = False) -> Learner:
        """Return the learner, or a copy where the call will come to it in several pieces.

        One piece is refused whole by the learner itself.
        """
        learner = self._fitted()
        return learner.copy() if force or not np.all(weight > 0) else learner

    def _times(self, time: Any, rows: int, learner: Learner) -> Array | None:
        """Return the rows' times in seconds, where forgetting goes by the clock."""
        by_clock = np.isfinite(learner.rule.duration)
        if time is None and not by_clock:
            return None
        owner, memory = type(self).__name__, getattr(learner.settings.rule, "memory", None)
        if time is None:
            raise ValueError(
                f"{owner}: memory={memory!r} goes by the clock: give time=, one per row."
            )
        if not by_clock:
            raise ValueError(
                f"{owner}: time= was given, but this model forgets by examples (memory="
                f"{memory!r}). Give the memory as a duration, such as rules.Norma(memory='12h'), "
                "or leave time out."
            )
        times = times_of(time, rows)
        check_order(times, learner.clock)
        return times

    def _learn_rows(
        self, learner: Learner, rows: Any, Y: Array, weight: Array, first: int = 0,
        times: Array | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Learn rows (row `first` of the call onwards); those of weight 0 are only looked at."""
        scores, limits = np.zeros((2, len(rows), learner.columns))
        edges = np.flatnonzero(np.diff(weight > 0)) + 1
        for start, stop in pairwise([0, *edges.tolist(), len(rows)]):
            part = slice(start, stop)
            if stop > start and weight[start] > 0:
                own = None if self._own is None else self._own[first + start : first + stop]
                when = None if times is None else times[part]
                scores[part], limits[part] = learner.learn(
                    rows[part], Y[part], weight[part], own, first + start, when
                )
            elif stop > start:
                scores[part], limits[part] = learner.outlook(rows[part], first + start)
        return scores, limits

    @locked
    def _fit(self, X: Any, y: Any, params: dict[str, Any]) -> Self:
        """Reset, then pass over the rows in the given order, `passes` times."""
        unknown = set(params) - {"sample_weight", "time"}
        if unknown:
            raise TypeError(f"fit() got unexpected keyword arguments {sorted(unknown)}.")
        settings = self._settings()
        rows = self._rows(X, settings)
        if not len(rows):
            raise ValueError(
                f"Found array with 0 sample(s) (shape={getattr(rows, 'shape', (0,))}) while a "
                "minimum of 1 is required."
            )
        weight = inputs.weights_of(params.get("sample_weight"), len(rows))
        if not np.any(weight > 0):
            raise ValueError("sample_weight is zero for every row: there is nothing to learn from.")
        time = params.get("time")
        if time is not None and self.passes > 1:
            raise ValueError(
                f"{type(self).__name__}: passes={self.passes} would run time backwards; with "
                "time= a fit has one pass."
            )
        fresh = type(self)(**self.get_params(deep=False))
        fresh._own = np.zeros(len(rows), np.int64)
        counted = None
        for _ in range(int(self.passes)):
            fresh._pass(X, y, weight, time)
            counted = counted or fresh.tally_
        if counted is not None:
            fresh._tally = counted  # rows came once, however often they were learned
        fresh._learner.check_complete(len(rows))
        del fresh._own
        self._reset()
        vars(self).update({k: v for k, v in vars(fresh).items() if k not in self._names()})
        return self

    def _pass(self, X: Any, y: Any, weight: Array, time: Any) -> None:
        raise NotImplementedError

    def _check_output(self, output: str) -> None:
        if output not in self.outputs:
            raise ValueError(
                f"predict_then_learn: output must be one of {list(self.outputs)}; got {output!r}."
            )

    # -- merging -------------------------------------------------------------------------------

    def _counts_of_all(self, models: list[Any], start: list[Any]) -> dict[str, Any]:
        """Return what these models (this one is the first) have counted together, beside f."""
        return {}

    # -- explaining ----------------------------------------------------------------------------

    def _details(
        self, x: Any, row: Any, mix: Array, top: int, lowest_first: bool
    ) -> dict[str, Any]:
        """Explain ``mix @ scores`` of a checked row, `x` as it came; what explanations share."""
        from onkel.explain import details, tables  # when asked for: a start does without

        learner = self._fitted()
        if self._tally is None:
            names = getattr(self, "feature_names_in_", None)
            return vars(details(learner, row, mix, names, int(top), lowest_first))
        names, made = (
            tables.names_of(self._tally.plan, len(row)),
            tables.made_of(self._tally, len(row)),
        )
        plain = tables.plain_of(self._tally.plan, len(row))
        found = vars(details(learner, row, mix, names, int(top), lowest_first, made, plain))
        table = self._encoded(self._as_rows(x, strings=False), fresh=False)
        features = tables.told(found["features"], table, self._tally)
        terms = tables.terms_told(found["terms"], self._tally)
        return {**found, "features": features, "terms": terms}

    def _one_row(self, x: Any, top: Any) -> tuple[Any, Array]:
        """Return the single row that is to be explained, and its scores."""
        _TOP.check(type(self).__name__, "top", top)
        learner = self._fitted()
        rows = self._rows(self._as_rows(x, learner.on_strings))
        if len(rows) != 1:
            raise ValueError(
                f"explain takes one row; got {len(rows)} of them (shape {np.shape(x)}). Call it "
                "once for each row that is to be explained."
            )
        return learner.filled(rows[0:1])[0], learner.scores(rows)[0]

    # -- reporting -----------------------------------------------------------------------------

    @property
    @locked
    def t_(self) -> int:
        """Number of examples learned."""
        return self._fitted().t

    @property
    @locked
    def n_terms_(self) -> int:
        """Number of terms stored."""
        return self._fitted().size

    @property
    @locked
    def moments_(self) -> Moments:
        """Running means and spreads of the features, as a copy."""
        return self._fitted().moments.copy()

    @property
    @locked
    def diagnostics_(self) -> dict[str, Any]:
        """What the model promised, and what happened: see the guide for each key."""
        return diagnostics.report(self._fitted())

    # -- scikit-learn --------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        """Describe this estimator to scikit-learn (which has been imported by whoever asks)."""
        from sklearn.utils import InputTags, Tags, TargetTags

        strings, gaps = self._takes()
        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=self.task != "novelty"),
            input_tags=InputTags(sparse=not strings, string=strings, allow_nan=gaps),
        )
