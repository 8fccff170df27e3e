"""What the three estimators share: parameters, rows, the online protocol, reporting."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel import diagnostics, expansions, inputs, kernels, losses, rules
from onkel import learner as learners
from onkel.clock import check_order, times_of
from onkel.learner import Learner, One, Settings
from onkel.params import Accept, Part, nested_changes

Array = NDArray[Any]

_PARTS: dict[str, Callable[[Any], Any]] = {
    "kernel": kernels.get,
    "loss": losses.get,
    "rule": rules.get,
    "expansion": expansions.get,
}
_COMMON = {
    "passes": Accept(low=1, high_open=True, whole=True),
    "n_jobs": Accept(low=-1, high_open=True, whole=True, none=True, hint="-1 uses every core."),
}


class Estimator:
    """Base of the estimators: scikit-learn's protocol, without importing scikit-learn."""

    task: ClassVar[str]
    outputs: ClassVar[tuple[str, ...]]
    """What ``predict_then_learn(output=...)`` offers."""
    kernel: Any
    loss: Any
    rule: Any
    expansion: Any
    scale: bool
    fit_intercept: bool | str
    passes: int
    average: bool
    missing: str
    n_jobs: int | None
    _learner: Learner
    _own: Array | None = None
    """During fit: the trial at which each row's term was stored."""

    # -- parameters ----------------------------------------------------------------------------

    @classmethod
    def _names(cls) -> list[str]:
        return [n for n in inspect.signature(cls.__init__).parameters if n != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters; those of parts as ``rule__memory``, if `deep`."""
        params: dict[str, Any] = {n: getattr(self, n) for n in self._names()}
        if deep:
            for name, value in list(params.items()):
                part = self._part(name, value, quiet=True)
                if isinstance(part, Part):
                    params.update({f"{name}__{k}": v for k, v in part.get_params().items()})
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``rule__memory=1000`` reaches inside (a name becomes its object)."""
        for name, value in nested_changes(
            self, self.get_params(deep=False), params, lookup=self._part
        ).items():
            setattr(self, name, value)
        return self

    _own_parts: ClassVar[dict[tuple[str, str], Part]] = {}
    """Parts that a name stands for in this estimator, where they differ from the registry's."""

    def _part(self, name: str, value: Any, quiet: bool = False) -> Any:
        """Return the part behind a parameter's value: a name is replaced by its object.

        A loss's name may mean something else beside a rule that says so.
        """
        if name == "loss" and isinstance(value, str):
            rule = self._part("rule", self.rule, quiet=True)
            if isinstance(rule, rules.Rule) and value in rule.named:
                return rule.named[value]
        if isinstance(value, str) and (name, value) in self._own_parts:
            return self._own_parts[name, value]
        if name not in _PARTS:
            return value
        try:
            return _PARTS[name](value)
        except ValueError:
            if quiet:
                return value
            raise

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        params = self.get_params(deep=False)
        changed = [f"{n}={v!r}" for n, v in params.items() if not _same(v, defaults[n].default)]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _settings(self) -> Settings:
        """Check every parameter and put the learner's settings together."""
        owner = type(self).__name__
        for name, accept in _COMMON.items():
            accept.check(owner, name, getattr(self, name))
        for name in ("scale", "average"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ValueError(
                    f"{owner}: {name} must be True or False; got {getattr(self, name)!r}."
                )
        if self.missing not in ("error", "mean"):
            raise ValueError(f"{owner}: missing must be 'error' or 'mean'; got {self.missing!r}.")
        loss = self._loss()
        rule = self._part("rule", self.rule)
        if loss.task != self.task:
            raise ValueError(f"{owner}: loss {loss!r} is for {loss.task}, not for {self.task}.")
        rule.check(loss)
        return Settings(
            kernel=kernels.get(self.kernel),
            loss=loss,
            rule=rule,
            expansion=expansions.get(self.expansion),
            scale=bool(self.scale),
            intercept=self._intercept(rule),
            average=bool(self.average),
            threads=_threads(self.n_jobs),
            missing=self.missing,
        )

    def _loss(self) -> losses.Loss:
        loss: losses.Loss = self._part("loss", self.loss)
        return loss

    def _intercept(self, rule: Any) -> bool:
        wanted = self.fit_intercept
        if not (wanted == "auto" or isinstance(wanted, (bool, np.bool_))):
            raise ValueError(
                f"{type(self).__name__}: fit_intercept must be True, False or 'auto'; "
                f"got {wanted!r}."
            )
        possible = rule.offers_offset and self.task != "novelty"
        if wanted != "auto" and wanted and not possible:
            raise ValueError(
                f"{type(self).__name__}: fit_intercept=True, but "
                + (
                    "novelty detection has no offset (it would halve the alert rate)."
                    if self.task == "novelty"
                    else f"the rule {rule!r} has none."
                )
                + " Use 'auto' or False."
            )
        if wanted != "auto":
            return bool(wanted)
        # Standardised targets are centred already; an offset would only walk about.
        return possible and not (self.task == "regression" and bool(self.scale))

    # -- rows ----------------------------------------------------------------------------------

    def _rows(self, X: Any, settings: Settings | None = None) -> Any:
        """Return checked rows, in the dtype and width that the first call has fixed."""
        owner = type(self).__name__
        if settings is None:
            learner = self._fitted()
            kernel, dtype, width = learner.kernel, learner.dtype, self.n_features_in_
            missing = learner.settings.missing
        else:
            missing = settings.missing
            kernel, dtype, width = settings.kernel, inputs.choose_dtype(X), None
        if kernel.domain == "strings":
            return inputs.string_rows(X, owner)
        if settings is None:
            self._check_names(X)
        return inputs.numeric_rows(X, owner, dtype, width, gaps=missing == "mean")

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
        return len(self._learner.moments.mean)

    def _fitted(self) -> Learner:
        if not hasattr(self, "_learner"):
            raise inputs.not_fitted(type(self).__name__)
        return self._learner

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the model has begun to learn."""
        return hasattr(self, "_learner")

    # -- the online protocol -------------------------------------------------------------------

    def _reset(self) -> None:
        for name in [n for n in vars(self) if n.endswith("_") or n in ("_learner", "_one")]:
            delattr(self, name)

    def _begin(self, X: Any, settings: Settings, rows: Any, columns: int) -> Learner:
        """Make the learner for the first rows; it becomes the model's when they are learned."""
        width = 0 if isinstance(rows, list) else rows.shape[1]
        return learners.start(
            settings,
            width,
            columns,
            np.float64 if isinstance(rows, list) else inputs.choose_dtype(X),
        )

    def _keep(self, learner: Learner, X: Any) -> None:
        """Take over a learner that has learned; the model changes here and nowhere else."""
        if not hasattr(self, "_learner"):
            names = inputs.feature_names(X)
            if names is not None and learner.kernel.domain == "numbers":
                self.feature_names_in_ = names
        self._learner = learner
        self.__dict__.pop("_one", None)

    def _single(self) -> One | None:
        """Return what takes rows one by one, if that is possible here."""
        one: One | None = self.__dict__.get("_one")
        if one is None:
            learner: Any = self.__dict__.get("_learner")
            if not One.fits(learner):
                return None
            one = self._one = One(learner)
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

    def _quick(self, row: Any, y: Any, time: Any = None) -> One | None:
        """Learn one row the cheap way, if that is possible; else None, and nothing changed."""
        one = self._single()
        return one if one is not None and one.learn(row, y, time) else None

    def _look(self, row: Any) -> Array | None:
        """Return the scores of one row the cheap way, if that is possible."""
        one = self._single()
        return one.scores if one is not None and one.look(row) else None

    def __getstate__(self) -> dict[str, Any]:
        """What is bound for single rows is bound anew where it is needed."""
        return {k: v for k, v in self.__dict__.items() if k not in ("_one", "_lone_classes")}

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
                scores[part] = learner.scores(rows[part], first + start)
                limits[part] = learner.limits()
        return scores, limits

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
        for _ in range(int(self.passes)):
            fresh._pass(X, y, weight, time)
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

    # -- reporting -----------------------------------------------------------------------------

    @property
    def t_(self) -> int:
        """Number of examples learned."""
        return self._fitted().t

    @property
    def n_terms_(self) -> int:
        """Number of terms stored."""
        return self._fitted().size

    @property
    def diagnostics_(self) -> dict[str, Any]:
        """What the model promised, and what happened: see the guide for each key."""
        return diagnostics.report(self._fitted())

    # -- scikit-learn --------------------------------------------------------------------------

    def __sklearn_tags__(self) -> Any:
        """Describe this estimator to scikit-learn (which has been imported by whoever asks)."""
        from sklearn.utils import Tags, TargetTags
        from sklearn.utils._tags import InputTags

        kernel = self._part("kernel", self.kernel, quiet=True)
        strings = getattr(kernel, "domain", "numbers") == "strings"
        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=self.task != "novelty"),
            input_tags=InputTags(
                sparse=not strings, string=strings, allow_nan=self.missing == "mean"
            ),
        )


def _same(a: Any, b: Any) -> bool:
    """Whether two parameters are the same (arrays and odd objects count as different)."""
    return a is b or (type(a) is type(b) and isinstance(a, (str, int, float)) and a == b)


def _threads(n_jobs: int | None) -> int:
    if n_jobs is None or n_jobs == 0:
        return 1
    return (os.cpu_count() or 1) if n_jobs < 0 else int(n_jobs)
