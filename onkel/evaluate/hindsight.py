"""Regret: what learning online has cost, against the best fixed hypothesis in hindsight."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import expansions, inputs, kernels, losses, rules
from onkel.evaluate import batch
from onkel.learner import Settings
from onkel.params import POSITIVE, Accept

Array = NDArray[Any]

MOST_ROWS = 8000
"""The comparator needs the whole kernel matrix; beyond this many rows it is refused."""
BLOCK = 512
_COUNT = Accept(low=1, high_open=True, whole=True)


@dataclass(frozen=True)
class Regret:
    """What :func:`regret` measured; one entry per checkpoint."""

    t: Array
    """Rows so far."""
    loss: Array
    """Cumulative loss of the online predictions, each made before its row was learned."""
    online: Array
    """Cumulative instantaneous risk, loss + lam/2 ||f||^2; the loss alone for a rule that does not
    keep ||f||."""
    best: Array
    """The same sum for the best fixed g on those t rows, found by a batch solver."""
    gap: Array
    """The true minimum lies in [best - gap, best]."""
    regularization: float
    """lam."""

    @property
    def regret(self) -> Array:
        """Online minus best; too small by `gap` at most."""
        return self.online - self.best


def regret(
    estimator: Any, X: Any, y: Any, *, checkpoints: Any = 20,
    regularization: float | None = None, tolerance: float = 1e-3,
) -> Regret:  # fmt: skip
    """Compare one pass of predict-then-learn with the best fixed hypothesis in hindsight.

    ``sum_{s<=t} (l(f_s(x_s), y_s) + lam/2 ||f_s||^2) - min_g (sum_{s<=t} l(g(x_s), y_s) + t lam/2
    ||g||^2)``

    Parameters
    ----------
    estimator : a classifier (of two classes) or regressor (of one target)
        With ``scale=False``, else the space of g would change on the way. Its parameters are
        used, not what it has learned: a fresh copy starts from 0, and `estimator` stays as it is.
    X, y : arrays
        The stream, in order; rows after the last checkpoint are not used.
    checkpoints : int or sequence of int
        The values of t, or how many of them, spread geometrically from 10 to the end. The last
        may be 8000 at most, since the kernel matrix of all rows is kept.
    regularization : float, optional
        lam, above 0; that of the estimator's rule if None.
    tolerance : float
        Gap of the comparator to reach, as a fraction of its value.

    Notes
    -----
    g has no offset. An estimator that has one may do better than any g; for the setting of the
    theorem pass ``fit_intercept=False``. The losses covered are soft margin, logistic, squared,
    absolute, epsilon-insensitive and Huber, without nu.

    References
    ----------
    N04 Theorem 4: at most a sqrt(t) + b for the rate eta t^(-1/2).

    Examples
    --------
    >>> from onkel import KernelRegressor
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(400, 1))
    >>> rule = rules.Norma(learning_rate=0.5, regularization=0.01)
    >>> model = KernelRegressor(loss="absolute", rule=rule, scale=False, fit_intercept=False)
    >>> found = regret(model, X, np.sin(3 * X[:, 0]), checkpoints=[100, 400])
    >>> (found.regret / found.t).round(2)
    array([0.25, 0.24])
    """
    settings, lam = _choices(estimator, X, regularization, tolerance)
    rows, target, labels = _stream(estimator, X, y)
    loss = settings.loss
    stops = _stops(checkpoints, len(target))
    rows, target = rows[: stops[-1]], target[: stops[-1]]
    z, norm2 = _online(estimator, rows, np.asarray(y)[: stops[-1]], labels)
    lost = batch.values(loss, z, target)
    best, gap = _best(_kernel(settings), rows, target, loss, lam, stops, tolerance)
    loss_so_far = np.cumsum(lost)[stops - 1]
    online = np.cumsum(lost + lam / 2 * norm2)[stops - 1]
    return Regret(stops, loss_so_far, online, best, gap, lam)


# -- what is asked -------------------------------------------------------------------------------


def _choices(
    estimator: Any, X: Any, regularization: float | None, tolerance: float
) -> tuple[Settings, float]:
    """Return settings and lam, or raise a ValueError that says why there is no regret."""
    POSITIVE.check("regret", "tolerance", tolerance)
    if getattr(estimator, "task", None) not in ("classification", "regression"):
        raise ValueError(
            "regret: estimator must be a classifier or a regressor of onkel; "
            f"got {estimator!r}. (A detector's threshold moves, so no fixed g compares with it.)"
        )
    settings: Settings = estimator.settings()
    lam: Any = regularization
    if lam is None:
        width = np.shape(X)[1] if np.ndim(X) == 2 else 1
        space = settings.expansion.space(settings.kernel, width, settings.scale)
        lam = settings.rule.bind(settings.loss, space).lam
    for wrong, message in _refusals(estimator, settings, lam):
        if wrong:
            raise ValueError(f"regret: {message}")
    return settings, float(lam)


def _refusals(estimator: Any, settings: Settings, lam: Any) -> Iterator[tuple[bool, str]]:
    loss, rule, expansion = settings.loss, settings.rule, settings.expansion
    names = ", ".join(c.__name__ for c in batch.COVERED)
    yield (
        type(loss) not in batch.COVERED or loss.adaptive or getattr(loss, "power", 1) != 1,
        f"the best hypothesis in hindsight is known for {names}, without nu or power; got "
        f"{loss!r}.",
    )
    yield (
        getattr(expansion, "p", 2.0) != 2.0,
        f"needs p=2: under a p-norm link the penalty is another; got {expansion!r}.",
    )
    yield (
        isinstance(expansion, expansions.Centers) and expansion.given is None,
        "needs centres that are given: those collected on the way are no fixed space.",
    )
    yield bool(estimator.scale), "needs scale=False: with it the space of hypotheses would move."
    yield (
        bool(estimator.average),
        "needs average=False: the average predicts, but another hypothesis learns.",
    )
    yield (
        getattr(estimator, "class_weight", None) is not None,
        "needs class_weight=None: the comparator weighs every row the same.",
    )
    yield (
        getattr(rule, "regularizer", 2.0) != 2.0,
        f"needs the penalty lam/2 ||f||^2; got {rule!r}.",
    )
    yield (
        not POSITIVE.fits(lam),
        f"regularization must be {POSITIVE.describe()}; got {lam!r}. Without a penalty the best g "
        "may fit every row, with any norm: give regularization= here or in the rule.",
    )


def _stream(estimator: Any, X: Any, y: Any) -> tuple[Any, Array, Any]:
    """Return rows, targets as the loss sees them, and the labels of a classifier."""
    strings = kernels.get(estimator.kernel).domain == "strings"
    owner = type(estimator).__name__
    rows: Any = (
        inputs.string_rows(X, owner)
        if strings
        else inputs.numeric_rows(X, owner, inputs.choose_dtype(X), None)
    )
    target = inputs.as_vector(y, owner, warn=False)
    inputs.same_length(rows, target)
    if not len(target):
        raise ValueError("regret: there are no rows.")
    if estimator.task == "regression":
        return rows, target.astype(np.float64), None
    labels = np.unique(target)
    if len(labels) != 2:
        raise ValueError(
            f"regret: a classifier's stream must hold two classes; got {len(labels)}: "
            f"{labels[:5].tolist()!r}."
        )
    return rows, np.where(target == labels[1], 1.0, -1.0), labels


def _stops(checkpoints: Any, rows: int) -> Array:
    """Return the values of t, in order."""
    if np.ndim(checkpoints) == 0:
        _COUNT.check("regret", "checkpoints", checkpoints)
        spread = np.geomspace(min(10, rows), rows, int(checkpoints))
        stops = np.unique(np.append(spread.astype(np.int64)[:-1], rows))
    else:
        stops = np.unique(np.asarray(checkpoints))
    whole = stops.dtype.kind in "iu"
    if not (len(stops) and whole and 1 <= stops[0] and stops[-1] <= rows):
        raise ValueError(
            f"regret: checkpoints must be a number of them, or whole numbers in [1, {rows}], the "
            f"rows of X; got {checkpoints!r}."
        )
    if stops[-1] > MOST_ROWS:
        need = 8e-9 * float(stops[-1]) ** 2
        raise ValueError(
            f"regret: the comparator on {stops[-1]} rows needs their kernel matrix, {stops[-1]}^2 "
            f"x 8 bytes = {need:.1f} GB, and its solver up to two copies; the limit is {MOST_ROWS} "
            f"rows. Give checkpoints up to {MOST_ROWS}, or every k-th row of the stream."
        )
    return stops.astype(np.int64)


def _kernel(settings: Settings) -> kernels.Kernel:
    """Return the kernel of the space that f lives in: over centres, that of their features."""
    if not isinstance(settings.expansion, expansions.Centers):
        return settings.kernel
    points, kernel = settings.expansion.given, settings.kernel
    return kernels.Function(lambda X, Z: kernel(X, points) @ kernel(Z, points).T)


# -- both sides ----------------------------------------------------------------------------------


def _online(estimator: Any, rows: Any, y: Array, labels: Any) -> tuple[Array, Array]:
    """Return the score and ||f||^2 that each row met, on a fresh copy of the estimator."""
    params = estimator.get_params(deep=False)
    rule = rules.get(params["rule"])
    if hasattr(rule, "track_norm"):
        params["rule"] = rule.with_params(track_norm=True)
    model = type(estimator)(**params)
    extra = {} if labels is None else {"output": "decision", "classes": labels}
    z, norm2 = np.zeros((2, len(y)))
    for i in range(len(y)):
        if i:
            norm2[i] = (model.diagnostics_["norm"] or 0.0) ** 2
        z[i] = np.ravel(model.predict_then_learn(rows[i : i + 1], y[i : i + 1], **extra))[0]
    return z, norm2


def _best(
    kernel: kernels.Kernel, rows: Any, y: Array, loss: losses.Loss, lam: float, stops: Array,
    tolerance: float,
) -> tuple[Array, Array]:  # fmt: skip
    """Return the comparator's value and gap at each checkpoint, each started from the last."""
    K, dual = kernel_matrix(kernel, rows), None
    best, gap = np.zeros((2, len(stops)))
    for i, t in enumerate(stops.tolist()):
        found = batch.minimize(K[:t, :t], y[:t], loss, lam, dual=dual, tolerance=tolerance)
        best[i], gap[i], dual = found.value, found.gap, found.dual
    if np.any(gap > tolerance * best):
        worst = float(np.max(gap / np.maximum(best, 1e-300)))
        warnings.warn(
            f"regret: the comparator is known to a fraction {worst:.1e} only, not to the tolerance "
            f"{tolerance:g}; see gap. A larger regularization makes it easier.",
            RuntimeWarning,
            stacklevel=3,
        )
    return best, gap


def kernel_matrix(kernel: kernels.Kernel, rows: Any) -> Array:
    """Return k(x, x') of all pairs of rows, block by block."""
    K = np.empty((len(rows), len(rows)))
    for i in range(0, len(rows), BLOCK):
        for j in range(0, i + 1, BLOCK):
            part = kernel(rows[i : i + BLOCK], rows[j : j + BLOCK])
            K[i : i + BLOCK, j : j + BLOCK] = part
            K[j : j + BLOCK, i : i + BLOCK] = part.T
    return K
