"""KernelRegressor: robust regression, with intervals that hold under drift."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel import inputs, losses
from onkel.estimators.base import Estimator
from onkel.estimators.device import OnDevice
from onkel.estimators.locks import locked
from onkel.params import Accept, Part
from onkel.saved import Saved

if TYPE_CHECKING:
    from onkel.explain import NumberExplanation

Array = NDArray[Any]


class BaseRegressor(Estimator):
    """What regressors share: one or several targets, intervals."""

    task: ClassVar[str] = "regression"
    outputs: ClassVar[tuple[str, ...]] = ("prediction", "interval", "judgement")
    _own_parts: ClassVar[dict[tuple[str, str], Part]] = {("loss", "huber"): losses.Huber(sigma=3.0)}

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, **params: Any) -> Self:
        """Forget everything, then pass over the rows once (or `passes` times), in order.

        ``sample_weight=`` is accepted. It scales a row's step; since order matters online, it
        does not equal repeating rows, and is therefore not a named parameter here.
        """
        return self._fit(X, y, params)

    def _pass(self, X: Any, y: Any, weight: Array, time: Any) -> None:
        self.partial_fit(X, y, sample_weight=weight, time=time)

    @locked
    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None, time: Any = None) -> Self:
        """Learn rows, in order."""
        lone = self._lone(X, y) if sample_weight is None and y is not None else None
        if lone is None or time is not None or not self._learn_lone(*lone):
            self._learn(X, y, sample_weight, time)
        return self

    @locked
    def predict_then_learn(
        self, X: Any, y: Any, output: str = "prediction", sample_weight: Any = None,
        time: Any = None,
    ) -> Any:  # fmt: skip
        """Predict each row *before* it is learned: the online protocol.

        ``output="interval"`` gives (low, high) as they stood before each row, ``"judgement"``
        (prediction, low, high).
        """
        self._check_output(output)
        if output != "prediction":
            self._check_interval()
        scores, limits = self._learn(X, y, sample_weight, time)
        if output == "prediction":
            return self._shaped(scores)
        found = self._judged(scores, limits)
        return found if output == "judgement" else found[1:]

    @locked
    def learn_one(self, row: Any, y: Any, time: Any = None) -> Self:
        """Learn one row."""
        if self._learn_lone(row, y, time):
            return self
        return self.partial_fit([row], [y], time=None if time is None else [time])

    def _learn_lone(self, row: Any, y: Any, time: Any = None) -> bool:
        """Learn one row the cheap way; False if that is not possible, and nothing changed."""
        if isinstance(y, (float, int, np.floating, np.integer)):
            return self._quick(row, float(y), time) is not None
        plain = y.__class__ is np.ndarray and y.ndim == 1 and y.dtype.kind in "fiu"
        return plain and self._quick(row, np.ascontiguousarray(y, np.float64), time) is not None

    @locked
    def predict_one(self, row: Any) -> Any:
        """Predict one row; 0 before anything is known."""
        if not hasattr(self, "_learner"):
            return 0.0
        scores = self._look(row)
        if scores is None:
            return self.predict([row])[0]
        return scores.item() if self._flat else scores.copy()

    def _targets(self, y: Any) -> tuple[Array, bool]:
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        y = inputs.on_host(y)
        if hasattr(y, "to_numpy"):
            y = y.to_numpy()
        try:
            Y = np.asarray(y, np.float64)
        except (ValueError, TypeError) as error:
            raise ValueError(f"y must hold numbers; {error}.") from None
        if Y.ndim not in (1, 2) or (Y.ndim == 2 and Y.shape[1] == 0):
            raise ValueError(
                "y must have one number per row, or one row of numbers per row; "
                f"got shape {Y.shape}."
            )
        if not np.all(np.isfinite(Y)):
            bad = int(np.argwhere(~np.isfinite(Y))[0][0])
            raise inputs.RefusedRow(
                f"Input y contains NaN or infinity, first at row {bad}. The model was not changed.",
                bad,
            )
        if np.any(np.abs(Y) > 1e150):
            bad = int(np.argwhere(np.abs(Y) > 1e150)[0][0])
            raise inputs.RefusedRow(
                f"y must stay within 1e150 in size; row {bad} does not. Rescale the targets.", bad
            )
        return (Y[:, None], True) if Y.ndim == 1 else (Y, False)

    def _learn(self, X: Any, y: Any, sample_weight: Any, time: Any = None) -> tuple[Array, Array]:
        fresh = not hasattr(self, "_learner")
        settings = self._settings() if fresh else None
        X = self._encoded(X, fresh)
        rows = self._rows(X, settings)
        Y, flat = self._targets(y)
        inputs.same_length(rows, Y)
        weight = inputs.weights_of(sample_weight, len(rows))
        if fresh:
            assert settings is not None
            learner = self._begin(X, settings, rows, Y.shape[1])
        else:
            learner = self._safe(weight)
            if Y.shape[1] != learner.columns:
                raise ValueError(
                    f"y has {Y.shape[1]} targets per row, but this model learns {learner.columns}."
                )
        times = self._times(time, len(rows), learner)
        result = self._learn_rows(learner, rows, Y, weight, times=times)
        self._keep(learner, X, weight)
        if fresh:
            self.n_outputs_ = Y.shape[1]
            self._flat = flat
        return result

    # -- files ---------------------------------------------------------------------------------

    def _dump(self) -> dict[str, Any]:
        return {**super()._dump(), "flat": self._flat}

    def _resume(self, settings: dict[str, Any], saved: Saved) -> None:
        super()._resume(settings, saved)
        self.n_outputs_, self._flat = self._learner.columns, saved.flag("flat")
        if self.n_outputs_ < 1 or (self._flat and self.n_outputs_ > 1):
            raise saved.refuse("flat", f"does not fit {self.n_outputs_} targets")

    # -- predicting ----------------------------------------------------------------------------

    def _shaped(self, values: Array) -> Array:
        return values[:, 0] if self._flat else values

    @locked
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the prediction for each row.

        With ``return_std=True`` (``rule="rls"``, and mixtures) a pair: predictions, and the
        standard deviations of the targets around them.
        """
        learner = self._fitted()
        if not return_std:
            return self._shaped(learner.scores(self._rows(X)))
        scores, std = self._belief(X)
        return self._shaped(scores), self._shaped(std)

    @locked
    def predict_interval(self, X: Any, kind: str = "adaptive") -> tuple[Array, Array]:
        """Return (low, high), between which a share 1 - nu of the targets lies.

        ``kind="adaptive"`` assumes nothing: past misses decide how wide, and the share comes out in
        the long run, whatever the stream. ``"gaussian"`` (where there is a standard deviation) is
        the prediction and as many of them as a bell curve needs.
        """
        if kind not in ("adaptive", "gaussian"):
            raise ValueError(
                f"{type(self).__name__}: kind must be 'adaptive' or 'gaussian'; got {kind!r}."
            )
        if kind == "adaptive":
            self._check_interval()
            return self._outlook(X)[1:]
        scores, std = self._belief(X)
        return self._judged(scores, NormalDist().inv_cdf(1.0 - self._nu() / 2.0) * std)[1:]

    def _belief(self, X: Any) -> tuple[Array, Array]:
        """Return predictions and standard deviations, of a model that has them."""
        learner: Any = self._fitted()
        found = learner.belief(self._rows(X))
        if found is None:
            raise ValueError(
                f"{type(self).__name__}: rule {learner.settings.rule!r} knows no standard "
                "deviation. Use rule='rls', or onkel.Regressor, which has one as it comes."
            )
        return found

    def _nu(self) -> float:
        """Return the share of targets that a Gaussian interval leaves outside."""
        rule: Any = self._learner.rule
        return float(rule.nu)

    def _outlook(self, X: Any) -> tuple[Array, Array, Array]:
        """Return predictions and their intervals, at the price of predictions."""
        scores, limits = self._fitted().outlook(self._rows(X))
        return self._judged(scores, limits)

    def _judged(self, scores: Array, limits: Array) -> tuple[Array, Array, Array]:
        width = np.maximum(limits, 0.0)
        return self._shaped(scores), self._shaped(scores - width), self._shaped(scores + width)

    @locked
    def explain(self, x: Any, top: int = 5, target: int = 0) -> NumberExplanation:
        """Say why one row gets its number: see :class:`~onkel.explain.NumberExplanation`.

        `top` is the number of terms, and of features with their usual values, that are shown;
        `target` says which of several targets.
        """
        from onkel.explain import NumberExplanation

        row, scores = self._one_row(x, top)
        Accept(low=0, high=len(scores) - 1, whole=True).check(type(self).__name__, "target", target)
        found = self._details(x, row, np.eye(len(scores))[int(target)], top, lowest_first=False)
        score, interval = float(scores[target]), None
        if self._has_interval():
            rows = [row] if self._learner.on_strings else row[None]
            width = max(float(self._learner.outlook(rows)[1][0, target]), 0.0)
            interval = (score - width, score + width)
        return NumberExplanation(score=score, interval=interval, **found)

    def _has_interval(self) -> bool:
        begun = hasattr(self, "_learner")
        if self._learner.settings.rule.second_order if begun else self.part("rule").second_order:
            return True
        loss = self._learner.loss if begun else self._loss()
        kinds = (losses.EpsilonInsensitive, losses.Huber)
        return isinstance(loss, kinds) and loss.nu is not None

    def _check_interval(self) -> None:
        if not self._has_interval():
            loss = self._learner.loss if hasattr(self, "_learner") else self._loss()
            raise ValueError(
                "Intervals need a loss whose width follows nu, for example "
                "loss=losses.EpsilonInsensitive(nu=0.1), or rule='rls'; this "
                f"{type(self).__name__} has {loss!r}."
            )

    @locked
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R^2, averaged over the targets."""
        learner, rows, (Y, _) = self._fitted(), self._rows(X), self._targets(y)
        inputs.same_length(rows, Y)
        if Y.shape[1] != learner.columns:
            raise ValueError(
                f"y has {Y.shape[1]} targets per row, but this model learns {learner.columns}."
            )
        error = Y - learner.scores(rows)
        w = inputs.weights_of(sample_weight, len(Y))[:, None]
        around = Y - (w * Y).sum(axis=0) / w.sum()
        total = (w * around**2).sum(axis=0)
        left = (w * error**2).sum(axis=0)
        return float(np.mean(1.0 - left / np.where(total > 0, total, 1.0)))

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import RegressorTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "regressor"
        tags.regressor_tags = RegressorTags()
        tags.target_tags.multi_output = True
        return tags


class KernelRegressor(OnDevice, BaseRegressor):
    """Online kernel regression, of one or several targets.

    ``f <- (1 - eta lam) f - eta l'(f(x) + b, y) k(x, .)``

    Parameters
    ----------
    kernel : str, object or function
        From :mod:`onkel.kernels`, or a function of two matrices.
    loss : str or object
        ``"huber"``, ``"squared"``, ``"absolute"``, ``"epsilon_insensitive"``, or an object from
        :mod:`onkel.losses`; with ``nu=`` the last (and Huber) gives prediction intervals. The
        name "huber" means ``Huber(sigma=3)`` here, three spreads of the target.
    rule, expansion : str or object
        From :mod:`onkel.rules` and :mod:`onkel.expansions`; ``rule="rls"`` gives intervals and
        standard deviations, whatever the loss.
    scale : bool
        Standardise inputs and targets by running moments.
    fit_intercept : bool or "auto"
        The offset b; "auto" leaves it out where targets are standardised (they are centred).
    passes : int
        Passes of :meth:`fit` over its rows.
    average : bool
        Predict with the average of all hypotheses so far (N04 Corollary 5).
    missing : {"error", "mean"}
        What NaN in X means: an error, or the feature's running mean (as of the last refresh).
    columns : dict or Columns, optional
        What columns are that are no numbers ("category", "time", "text", ...), where the types of
        the first rows do not tell; see the guide's page on rows as they are.
    n_jobs : int, optional
        Threads; -1 for all cores.
    device : {"cpu", "auto", "cuda", "cuda:N"}
        Where f lives: a GPU needs the extra ``gpu``; "auto" takes it where it can be used.
    precision : {"tf32x3", "float32", "tf32"}
        Of products on a GPU; see the guide.

    Examples
    --------
    >>> import numpy as np
    >>> from onkel import losses
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(2000, 1))
    >>> y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=2000)
    >>> reg = KernelRegressor(loss=losses.EpsilonInsensitive(nu=0.1))
    >>> low, high = reg.predict_then_learn(X, y, output="interval")
    >>> bool(abs(np.mean((low <= y) & (y <= high)) - 0.9) < 0.02)
    True
    """

    def __init__(
        self,
        kernel: Any = "laplacian",
        loss: Any = "huber",
        rule: Any = "norma",
        expansion: Any = "window",
        *,
        scale: bool = True,
        fit_intercept: bool | str = "auto",
        passes: int = 1,
        average: bool = False,
        missing: str = "error",
        columns: Any = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        precision: str = "tf32x3",
    ) -> None:
        self.kernel = kernel
        self.loss = loss
        self.rule = rule
        self.expansion = expansion
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.passes = passes
        self.average = average
        self.missing = missing
        self.columns = columns
        self.n_jobs = n_jobs
        self.device = device
        self.precision = precision
