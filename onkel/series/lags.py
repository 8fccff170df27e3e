"""Lags: rows of a series made wider, so that an estimator sees shapes and seasons."""

from __future__ import annotations

import inspect
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onkel import inputs
from onkel.clock import times_of
from onkel.estimators.locks import Locked, locked
from onkel.params import Accept
from onkel.saved import Saved
from onkel.series.maker import Maker, Plan
from onkel.series.season import by_clock, seasons_of
from onkel.series.window import Looks

Array = NDArray[Any]

_COUNT = Accept(low=0, high=1000, whole=True, hint="It counts rows; 0 is none.")
_COUNTS = ("lags", "shape", "roughness", "forecast")
MISSING = ("error", "last")


class Lags(Locked):
    """Wider rows for any estimator: the values, and what a series is known by.

    By default each value has beside it how rough its last steps were and what a forecast had not
    foreseen; with a season, where it stands in it.

    Parameters
    ----------
    lags : int
        So many earlier values, as they are.
    shape : int
        The last so many values, the present one included, around their mean and in units of
        their typical spread: the same shape at any level.
    differences : bool
        Each value less the one before it.
    roughness : int
        ``log(0.03 + s / typical s)``, s the root mean square of the last so many differences: a
        flat line is as unusual as a jagged one.
    season : "auto", "day", "week", float or None
        Places on circles: the time of day, of the week (both need `time`), a number of rows;
        several as ``"day,week"``. "auto" finds the day by the times, or else a period in rows,
        where it is clear; until then its circle is gone round without meaning.
    forecast : int
        Each value less what :class:`onkel.LinearRegressor` foresaw from so many values before it
        and from the seasons; it is learned afterwards.
    missing : {"error", "last"}
        What NaN means: an error, or the last value that its column had. Rows before every column
        has had a value come out as NaN.

    Notes
    -----
    Before the first row there was, so to speak, its like: lags and shapes begin as if the series
    had always had its first value. All is kept in bounded memory, and rows in blocks give the same
    bits as single rows. One series has one `Lags`; several keys have one each.

    Examples
    --------
    >>> import numpy as np
    >>> maker = Lags(lags=1, differences=True, roughness=0, season=4, forecast=0)
    >>> maker.transform_then_learn([[3.0], [5.0], [4.0]]).round(1) + 0.0
    array([[ 3.,  3.,  0.,  0.,  1.],
           [ 5.,  3.,  2.,  1.,  0.],
           [ 4.,  5., -1.,  0., -1.]])
    >>> list(maker.get_feature_names_out())
    ['value', 'value lag 1', 'value difference', '4 rows sin', '4 rows cos']
    """

    def __init__(
        self,
        lags: int = 0,
        *,
        shape: int = 0,
        differences: bool = False,
        roughness: int = 8,
        season: Any = None,
        forecast: int = 24,
        missing: str = "error",
    ) -> None:
        self.lags = lags
        self.shape = shape
        self.differences = differences
        self.roughness = roughness
        self.season = season
        self.forecast = forecast
        self.missing = missing

    # -- parameters ----------------------------------------------------------------------------

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Set parameters; a series that has begun goes on as it was begun."""
        known = self._names()
        for name in params:
            if name not in known:
                raise ValueError(
                    f"Invalid parameter {name!r} for estimator {self!r}. Valid parameters are: "
                    f"{sorted(known)!r}."
                )
        for name, value in params.items():
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        usual = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{n}={v!r}" for n, v in self.get_params().items() if repr(v) != repr(usual[n].default)
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def check_params(self) -> None:
        """Raise the ValueError that the first rows would raise, should a parameter not fit."""
        self._planned()

    def _planned(self) -> Plan:
        """Return what is made of each row, all parameters checked."""
        owner = type(self).__name__
        for name in _COUNTS:
            _COUNT.check(owner, name, getattr(self, name))
        if not isinstance(self.differences, (bool, np.bool_)):
            raise ValueError(
                f"{owner}: differences must be True or False; got {self.differences!r}."
            )
        if self.missing not in MISSING:
            raise ValueError(f"{owner}: missing must be 'error' or 'last'; got {self.missing!r}.")
        lags, shape, roughness, forecast = (int(getattr(self, name)) for name in _COUNTS)
        looks = Looks(lags, shape, bool(self.differences), roughness, forecast)
        return Plan(looks, seasons_of(owner, self.season))

    # -- rows ----------------------------------------------------------------------------------

    def _begun(self) -> Maker:
        if not hasattr(self, "_maker"):
            raise inputs.not_fitted(type(self).__name__)
        return self._maker

    def _checked(self, X: Any, time: Any) -> tuple[Maker, Array, Array | None]:
        """Return the state, a new one for the first rows, with rows and times in seconds."""
        owner, maker = type(self).__name__, getattr(self, "_maker", None)
        width = None if maker is None else maker.columns
        if maker is not None:
            self._check_names(X)
        rows: Any = inputs.numeric_rows(
            inputs.on_host(X), owner, np.float64, width, gaps=self.missing == "last"
        )
        rows = rows.matrix.toarray() if isinstance(rows, inputs.SparseRows) else rows
        made = maker or Maker(self._planned(), rows.shape[1])
        return made, rows, self._times(made, time, len(rows))

    def _check_names(self, X: Any) -> None:
        names, known = inputs.feature_names(X), getattr(self, "feature_names_in_", None)
        if names is not None and known is not None and not np.array_equal(names, known):
            raise ValueError(
                "The feature names should match those that were passed during fit. "
                f"Fitted with {list(known)}, got {list(names)}."
            )

    def _times(self, maker: Maker, time: Any, rows: int) -> Array | None:
        seasons, owner = maker.plan.seasons, type(self).__name__
        told = not np.isnan(maker.seasons.last)
        if time is None and (by_clock(seasons) or told):
            why = (
                "the rows before had times" if told else f"season={self.season!r} goes by the clock"
            )
            raise ValueError(f"{owner}: {why}: give time=, one per row. Nothing was changed.")
        if time is None:
            return None
        if maker.seasons.rows and not told:
            raise ValueError(
                f"{owner}: time= was given, but the rows before had none. Leave it out, or begin "
                "anew with fit. Nothing was changed."
            )
        return times_of(time, rows)

    @locked
    def transform_then_learn(self, X: Any, y: Any = None, time: Any = None) -> Array:
        """Return the next rows of the series, wider, and go on from there.

        Parameters
        ----------
        X : array or data frame
            Rows in the order in which they came.
        y : ignored
        time : array, optional
            One per row: seconds or dates, for the day and the week.
        """
        maker, rows, times = self._checked(X, time)
        wide = maker.take(rows, times)
        if not hasattr(self, "_maker"):
            names = inputs.feature_names(X)
            if names is not None:
                self.feature_names_in_ = names
            self._maker = maker
        return wide

    @locked
    def transform(self, X: Any, time: Any = None) -> Array:
        """Return rows as they would be, were they the next of the series; nothing is changed."""
        self._begun()
        return self.copy().transform_then_learn(X, time=time)

    def partial_fit(self, X: Any, y: Any = None, time: Any = None) -> Self:
        """Go on by some rows."""
        self.transform_then_learn(X, time=time)
        return self

    def fit(self, X: Any, y: Any = None, time: Any = None) -> Self:
        """Forget everything, then take the rows in."""
        self.fit_transform(X, y, time=time)
        return self

    @locked
    def fit_transform(self, X: Any, y: Any = None, time: Any = None) -> Array:
        """Forget everything; return the rows, wider, and go on from there."""
        fresh = type(self)(**self.get_params())
        wide = fresh.transform_then_learn(X, time=time)
        if not len(wide):
            raise ValueError(
                f"Found array with 0 sample(s) (shape={np.shape(X)}) while a minimum of 1 is "
                "required."
            )
        self._forget()
        vars(self).update(vars(fresh))
        return wide

    def _forget(self) -> None:
        for name in ("_maker", "feature_names_in_"):
            vars(self).pop(name, None)

    # -- reporting -----------------------------------------------------------------------------

    @property
    def n_features_in_(self) -> int:
        """Number of columns of a row that comes."""
        if not hasattr(self, "_maker"):
            raise AttributeError(
                f"{type(self).__name__} has no attribute 'n_features_in_' before fit"
            )
        return self._maker.columns

    @property
    @locked
    def season_(self) -> str | None:
        """The season that ``season="auto"`` has found, in words; None while none is clear."""
        return self._begun().seasons.word

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns that come out; of one column without a name: "value".

        Before the first rows the names of what comes in must be given.
        """
        names = (
            getattr(self, "feature_names_in_", None) if input_features is None else input_features
        )
        if names is None:
            count = self._begun().columns
            names = ["value"] if count == 1 else [f"x{j}" for j in range(count)]
        plan = self._maker.plan if hasattr(self, "_maker") else self._planned()
        return np.array(plan.names([str(name) for name in names]), dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the series has begun."""
        return hasattr(self, "_maker")

    def __sklearn_tags__(self) -> Any:
        """Describe this transformer to scikit-learn (which has been imported by whoever asks)."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(preserves_dtype=[]),
            input_tags=InputTags(sparse=True, allow_nan=self.missing == "last"),
        )

    # -- copies and files ----------------------------------------------------------------------

    @locked
    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        if "_maker" in state:
            state["_maker"] = state["_maker"].copy()
        return state

    def copy(self) -> Self:
        """Return an independent copy, which goes on from here."""
        other = type(self)(**self.get_params())
        vars(other).update(self.__getstate__())
        return other

    @locked
    def dump(self) -> dict[str, Any]:
        """Return what a file must hold beside the parameters; nothing before the first row."""
        self.check_params()
        if not hasattr(self, "_maker"):
            return {}
        names = getattr(self, "feature_names_in_", None)
        known = {} if names is None else {"feature_names": [str(name) for name in names]}
        return {**self._maker.dump(), **known}

    @classmethod
    def restored(cls, parameters: dict[str, Any], saved: Saved) -> Self:
        """Return the series that a file holds."""
        made = cls(**parameters)
        made.check_params()
        if saved.peek("last") is None:
            saved.finish()
            return made
        names = (
            saved.items("feature_names", str) if saved.peek("feature_names") is not None else None
        )
        made._maker = Maker.restored(made._planned(), saved)
        if names is not None:
            if len(names) != made._maker.columns:
                raise saved.refuse("feature_names", "must be one per column")
            made.feature_names_in_ = np.array(names, dtype=object)
        return made
