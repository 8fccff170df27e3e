"""NoveltyDetector: alerts at a promised rate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel import diagnostics, inputs, losses
from onkel.alerting import RecentScores
from onkel.core.layout import Field
from onkel.core.precedents import Precedent
from onkel.estimators.base import Estimator
from onkel.estimators.device import OnDevice
from onkel.estimators.locks import locked
from onkel.learner import Learner, Settings
from onkel.params import Accept
from onkel.saved import Saved

if TYPE_CHECKING:
    from onkel.explain import AlertExplanation

Array = NDArray[Any]

_ACCEPTS = {
    "warmup": Accept(low=0, high=2**62, whole=True, hint="It counts examples; 0 is none."),
    "recent": Accept(low=1, high=2**31, whole=True, hint="It counts scores, for example 1000."),
}


class BaseDetector(Estimator):
    """What detectors share: alerts, ranks among recent scores, a warm-up."""

    task: ClassVar[str] = "novelty"
    outputs: ClassVar[tuple[str, ...]] = (
        "prediction", "decision", "score", "rank", "p", "judgement",
    )  # fmt: skip
    nu: Any
    warmup: Any
    recent: int
    recent_: RecentScores
    """The last scores, as they were before their rows were learned."""
    tells_p: ClassVar[bool] = False
    """Whether scores are log p."""
    warm_: Array | None = None
    """At the end of the warm-up: weight and alerts so far, and the threshold."""
    _heard: Any = None
    """Who is told of alerts just before their rows are learned, where the learner can tell."""

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Forget everything, then pass over the rows once (or `passes` times), in order.

        `y` is ignored. ``sample_weight=`` is accepted and scales a row's step.
        """
        return self._fit(X, y, params)

    def _pass(self, X: Any, y: Any, weight: Array, time: Any) -> None:
        self.partial_fit(X, sample_weight=weight, time=time)

    @locked
    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, time: Any = None
    ) -> Self:
        """Learn rows, in order; `y` is ignored."""
        lone = self._lone(X) if sample_weight is None and time is None else None
        if lone is None or not self._learn_lone(lone[0]):
            self._learn(X, sample_weight, time)
        return self

    def _learn_lone(self, row: Any, time: Any = None) -> bool:
        """Learn one row the cheap way; False if that is not possible, and nothing changed."""
        one = self._quick(row, 0.0, time)
        if one is None:
            return False
        self.recent_.add(one.bound.score)
        self._note_warm(self._learner)
        return True

    @locked
    def predict_then_learn(
        self, X: Any, y: Any = None, output: str = "prediction", sample_weight: Any = None,
        time: Any = None,
    ) -> Array:  # fmt: skip
        """Judge each row *before* it is learned: -1 is an alert, +1 is not.

        ``output="decision"`` gives score minus threshold as it stood, ``"score"`` the score,
        ``"rank"`` its rank among the `recent` scores before it: near 0 is unusual.
        ``"p"`` gives how rare a row is: usual rows as unusual come once in 1/p (of a detector
        that has no tail of its own, that is the rank). ``"judgement"`` gives three columns:
        score, threshold, and 1 for an alert.
        """
        self._check_output(output)
        before, known = getattr(self, "t_", 0), getattr(self, "recent_", None)
        known = known.copy() if known is not None and output in ("rank", "p") else None
        scores, limits = self._learn(X, sample_weight, time)
        score, decision = scores[:, 0], scores[:, 0] - limits[:, 0]
        live = inputs.weights_of(sample_weight, len(scores)) > 0
        if output == "rank":
            return ranks_before(known or RecentScores(self.recent_.size), score, live)
        if output == "p":
            return self._p(
                score, lambda: ranks_before(known or RecentScores(self.recent), score, live)
            )
        if output in ("score", "decision"):
            return score if output == "score" else decision
        ready = before + np.cumsum(live) - live >= self.warmup_
        alert = (decision < 0) & ready
        if output == "judgement":
            return np.column_stack([score, limits[:, 0], alert])
        return np.where(alert, -1, 1)

    @locked
    def learn_one(self, row: Any, y: Any = None, time: Any = None) -> Self:
        """Learn one row."""
        if self._learn_lone(row, time):
            return self
        return self.partial_fit([row], time=None if time is None else [time])

    @locked
    def predict_one(self, row: Any) -> int:
        """Judge one row; +1 before anything is known."""
        if not hasattr(self, "_learner") or self.t_ < self.warmup_:
            return 1
        return -1 if self.score_one(row) < self.threshold_ else 1

    @locked
    def score_one(self, row: Any) -> float:
        """Return the score of one row; 0 before anything is known."""
        if not hasattr(self, "_learner"):
            return 0.0
        scores = self._look(row)
        return float(self.score_samples([row])[0]) if scores is None else scores.item()

    def fit_predict(self, X: Any, y: Any = None, **params: Any) -> Array:
        """Fit, then judge the same rows with the model that came out."""
        return self.fit(X, y, **params).predict(X)

    def _learn(self, X: Any, sample_weight: Any, time: Any = None) -> tuple[Array, Array]:
        fresh = not hasattr(self, "_learner")
        settings = self._settings() if fresh else None
        X = self._encoded(X, fresh)
        rows = self._rows(X, settings, learning=self._learned(X, sample_weight))
        weight = inputs.weights_of(sample_weight, len(rows))
        if fresh:
            assert settings is not None
            learner = self._begin(X, settings, rows, 1)
        else:
            learner = self._safe(weight, force=self._warms_within(self._learner.t, weight) > 0)
        times = self._times(time, len(rows), learner)
        recent = RecentScores(self.recent) if fresh else self.recent_
        scores, limits, warm = self._learn_parts(learner, rows, weight, times)
        self._keep(learner, X, weight)
        self.recent_ = recent
        self.recent_.extend(scores[weight > 0, 0])
        self.warm_ = warm
        return scores, limits

    def _learn_parts(
        self, learner: Learner, rows: Any, weight: Array, times: Array | None
    ) -> tuple[Array, Array, Array | None]:
        """Learn rows, cut where the warm-up ends: what rates are counted from is noted there."""
        n, warm, parts = len(rows), self.warm_, []
        cut = self._warms_within(learner.t, weight)
        for start, stop in [(0, cut), (cut, n)] if 0 < cut < n else [(0, n)]:
            part = slice(start, stop)
            Y = np.zeros((stop - start, 1))
            when = None if times is None else times[part]
            parts.append(self._learn_rows(learner, rows[part], Y, weight[part], start, when))
            if stop == cut and cut:
                warm = so_far(learner)
        scores, limits = (np.concatenate(column) for column in zip(*parts, strict=True))
        return scores, limits, warm

    def _warms_within(self, t: int, weight: Array) -> int:
        """Return after how many of these rows the warm-up ends; 0 if not among them."""
        left = int(self.warmup) - t
        if left <= 0:
            return 0
        live = np.cumsum(weight > 0)
        return int(np.searchsorted(live, left)) + 1 if left <= live.max(initial=0) else 0

    def _note_warm(self, learner: Learner) -> None:
        if learner.t == self.warmup:
            self.warm_ = so_far(learner)

    # -- files ---------------------------------------------------------------------------------

    def _dump(self) -> dict[str, Any]:
        warm = {} if self.warm_ is None else {"warm": self.warm_}
        return {**super()._dump(), "recent": self.recent_.dump(), **warm}

    def _resume(self, settings: dict[str, Any], saved: Saved) -> None:
        super()._resume(settings, saved)
        if self._learner.columns != 1:
            raise saved.refuse("learner", "must have one output")
        self.recent_ = RecentScores.restored(saved.inside("recent"))
        self.warm_ = None
        if saved.peek("warm") is not None:
            self.warm_ = saved.array("warm", (3,), np.float64)

    # -- predicting ----------------------------------------------------------------------------

    @property
    @locked
    def threshold_(self) -> float:
        """Rows that score below it are alerts."""
        return float(self._fitted().limits()[0])

    @property
    def offset_(self) -> float:
        """The threshold: ``decision_function = score_samples - offset_``."""
        return self.threshold_

    @locked
    def score_samples(self, X: Any) -> Array:
        """Return the score of each row, f(x) or log p: the higher, the more usual."""
        return self._fitted().scores(self._rows(X))[:, 0]

    @locked
    def rank_samples(self, X: Any) -> Array:
        """Return where each score stands among the recent ones, from 0 (unusual) to 1.

        ``(1 + number of recent scores <= score) / (1 + number of recent scores)``
        """
        scores = self.score_samples(X)
        return self.recent_.ranks(scores)

    def p_samples(self, X: Any) -> Array:
        """Return how rare each row is: here the rank of its score."""
        return self.rank_samples(X)

    def _p(self, score: Array, rank: Any) -> Array:
        """Return p of rows from their scores, or from their ranks (a function)."""
        found: Array = rank()
        return found

    @property
    def warmup_(self) -> int:
        """So many examples are learned before the first alert is shown."""
        return int(self.warmup)

    @locked
    def decision_function(self, X: Any) -> Array:
        """Return score minus threshold: negative means an alert."""
        return self.score_samples(X) - self.threshold_

    @locked
    def predict(self, X: Any) -> Array:
        """Return -1 for alerts, +1 for the rest (and for all during the warm-up)."""
        decision = self.decision_function(X)
        return np.where((decision < 0) & (self.t_ >= self.warmup_), -1, 1)

    @property
    @locked
    def diagnostics_(self) -> dict[str, Any]:
        """What the model promised, and what happened: see the guide for each key."""
        warming = self._fitted().t < self.warmup
        return diagnostics.report(self._learner, None if warming else self._counted_from())

    def _counted_from(self) -> Array:
        """Weight, alerts and threshold at the warm-up's end; as of now, while it lasts."""
        if self.t_ < self.warmup:
            return so_far(self._learner)
        return np.zeros(3) if self.warm_ is None else self.warm_

    def _counts_of_all(self, models: list[Any], start: list[Any]) -> dict[str, Any]:
        """Return no recent scores, since those of parts are none of the sum's; warm-ups add.

        Rates are counted from the warm-ups' ends: of a model that is still warming up, not at all.
        """
        if len(models) == 1:
            return {}
        before = sum(m.t_ for m in start)
        over = sum(m.t_ - before for m in models) + before >= self.warmup
        warm = np.sum([m._counted_from() for m in models], axis=0)
        for m in start:
            warm = warm - (len(models) - 1) * m._counted_from()
        return {"recent_": RecentScores(self.recent), "warm_": warm if over else None}

    @locked
    def explain(self, x: Any, top: int = 5) -> AlertExplanation:
        """Say why one row is, or is not, an alert: see :class:`~onkel.explain.AlertExplanation`.

        A detector whose scores are log p says it as :class:`~onkel.explain.RarityExplanation`.
        `top` is the number of terms, and of features with their usual values, that are shown (and
        all that lie outside of those). No feature is named in words that lies within.
        """
        from onkel.explain import AlertExplanation, RarityExplanation
        from onkel.explain.outcome import shortened

        kind = RarityExplanation if self.tells_p else AlertExplanation
        row, scores = self._one_row(x, top)
        found = self._details(x, row, np.ones(1), top, lowest_first=True)
        found["features"] = shortened(found["features"], int(top))
        score, limit = float(scores[0]), self.threshold_
        warming = self.t_ < self.warmup_
        return kind(
            score=score, threshold=limit, alert=score < limit and not warming, warming=warming,
            rank=float(self.recent_.ranks([score])[0]), recent=self.recent_.count,
            precedent=self._precedent(x, row), **found,
        )  # fmt: skip

    def _precedent(self, x: Any, row: Any) -> Precedent | None:
        """Return the answered alert that decides of a row; None where none can be answered.

        `x`: as it came; `row`: as the learner takes it, without gaps.
        """
        return None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.estimator_type = "outlier_detector"
        return tags


class NoveltyDetector(OnDevice, BaseDetector):
    """Online novelty detection as published: alerts on a fraction nu of the stream.

    ``f <- (1 - eta lam) f + eta sigma k(x, .)``, ``rho <- rho + eta (nu - sigma)``,
    sigma = [f(x) < rho]

    The promise is an identity, for any stream: after T examples the realised rate is
    ``nu - (rho_end - rho_start) / (eta T)``, and ``diagnostics_`` has all of its numbers.

    Parameters
    ----------
    nu : float in (0, 1)
        The promised alert rate.
    support : float in (0, 1), optional
        Fraction of the stream that f learns from. None means nu, as in the paper (twice nu where
        alerts are not learned, which the paper does not know). More gives a small nu more terms
        to score by; narrow kernels gain from up to 0.5.
    kernel : str, object or function
        From :mod:`onkel.kernels`, or a function of two matrices.
    rule, expansion : str or object
        From :mod:`onkel.rules` and :mod:`onkel.expansions`. The default rule is the paper's,
        ``rules.Norma()``; its `threshold_rate` and `support_rate` set the pace at which alerts
        follow nu and f its `support`.
    scale : bool
        Standardise inputs by running moments.
    fit_intercept : bool or "auto"
        A detector has no offset; True is an error.
    passes : int
        Passes of :meth:`fit` over its rows.
    average : bool
        Score with the average of all hypotheses so far (N04 Corollary 5).
    missing : {"error", "mean"}
        What NaN in X means: an error, or the feature's running mean (as of the last refresh).
    columns : dict or Columns, optional
        What columns are that are no numbers ("category", "time", "text", ...), where the types of
        the first rows do not tell; see the guide's page on rows as they are.
    learn_alerts : bool
        Whether f learns rows that raise an alert. If not, they still move the threshold, which
        follows a level shift all the same, but are not stored: `support` must be more than `nu`.
    warmup : int
        So many examples are learned before the first alert is shown; rates are counted after it.
    recent : int
        How many of the last scores are remembered, for ranks.
    n_jobs : int, optional
        Threads; -1 for all cores.
    device : {"cpu", "auto", "cuda", "cuda:N"}
        Where f lives: a GPU needs the extra ``gpu``; "auto" takes it where it can be used.
    precision : {"tf32x3", "float32", "tf32"}
        Of products on a GPU; see the guide.

    References
    ----------
    N04 (20), with the sign of rho corrected; N01 (16).

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> det = NoveltyDetector(nu=0.05)
    >>> alerts = det.predict_then_learn(rng.normal(size=(5000, 2))) == -1
    >>> d = det.diagnostics_
    >>> bool(np.isclose(alerts.mean(), d["rate_promised"] + d["rate_error_term"]))
    True
    >>> round(d["rate_realised"], 4), round(d["rate_error_term"], 4)
    (0.0444, -0.0056)
    >>> det.predict([[0.0, 0.0], [6.0, 6.0]])
    array([ 1, -1])
    """

    def __init__(
        self,
        nu: float = 0.05,
        support: float | None = None,
        kernel: Any = "gaussian",
        rule: Any = "norma",
        expansion: Any = "window",
        *,
        scale: bool = True,
        fit_intercept: bool | str = "auto",
        passes: int = 1,
        average: bool = False,
        missing: str = "error",
        columns: Any = None,
        learn_alerts: bool = True,
        warmup: int = 0,
        recent: int = 1000,
        n_jobs: int | None = None,
        device: str = "cpu",
        precision: str = "tf32x3",
    ) -> None:
        self.nu = nu
        self.support = support
        self.kernel = kernel
        self.rule = rule
        self.expansion = expansion
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.passes = passes
        self.average = average
        self.missing = missing
        self.columns = columns
        self.learn_alerts = learn_alerts
        self.warmup = warmup
        self.recent = recent
        self.n_jobs = n_jobs
        self.device = device
        self.precision = precision

    def _loss(self) -> losses.Loss:
        support = self.support
        losses.Novelty(nu=self.nu, support=support)  # checked as they were given
        if support is None and not self.learn_alerts:  # f would learn from alerts alone: nothing
            support = min(2 * self.nu, (1 + self.nu) / 2)
        return losses.Novelty(nu=self.nu, support=support, learn_alerts=self.learn_alerts)

    def _settings(self) -> Settings:
        for name, accept in _ACCEPTS.items():
            accept.check(type(self).__name__, name, getattr(self, name))
        return super()._settings()


def so_far(learner: Learner) -> Array:
    """Weight and alerts so far, and the threshold."""
    return learner.state[0, [Field.WEIGHT, Field.ALERTS, Field.ALERT]].copy()


def ranks_before(recent: RecentScores, scores: Array, live: Array) -> Array:
    """Return ranks before each row; rows of weight 0 are looked at, not remembered."""
    if live.all():
        return recent.update(scores)
    found = np.empty(len(scores))
    for i, score in enumerate(scores):
        found[i] = recent.update([score])[0] if live[i] else recent.ranks([score])[0]
    return found
