"""Detector: one number that means something, and alerts at a promised rate, with nothing to set."""

from __future__ import annotations

import math
from dataclasses import asdict, fields
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel import columns, inputs
from onkel.columns import Encoded, Tally
from onkel.core.answers import Promise
from onkel.core.density import Plan
from onkel.core.density_table import Count
from onkel.core.precedents import Precedent
from onkel.estimators import density_report, feedback, table_answers
from onkel.estimators.detector import BaseDetector
from onkel.estimators.device import JudgesOnDevice
from onkel.estimators.locks import locked
from onkel.gpu.densities import placed
from onkel.learner import Densities, Settings
from onkel.learner.densities import settings_of
from onkel.params import Accept
from onkel.saved import Saved

Array = NDArray[Any]

FLOOR, CEILING = 0.5, 4.0
"""Within which multiples of nu the level stays."""
NU = 0.01
"""Where the level begins that a promised precision alone has."""
OFTEN = 0.25
"""The highest such level."""
MOST_WARMUP = 2000
_ACCEPTS = {
    "nu": Accept(low=0, low_open=True, high=1, high_open=True, none=True),
    "precision": Accept(low=0, low_open=True, high=1, high_open=True, none=True,
                        hint="It is the share of answered alerts that are faults, such as 0.8."),
    "alerts_kept": Accept(low=0, high=feedback.MOST_KEPT, whole=True, hint="For example 1000."),
    "memory_of_feedback": Accept(low=1, high=1e15, hint="It counts rows, for example 100000."),
    "memory": Accept(low=100, high=1e15, hint="It counts rows, for example 10000."),
    "terms": Accept(low=20, high=10_000_000, whole=True, hint="For example 1000."),
    "warmup": Accept(low=0, high=2**62, whole=True, none=True,
                     hint="It counts examples; None takes it from the number of features."),
    "recent": Accept(low=1, high=2**31, whole=True, hint="It counts scores, for example 1000."),
    "seed": Accept(low=0, high=2**62, whole=True),
}  # fmt: skip


class Detector(JudgesOnDevice, BaseDetector):
    """Self-tuning novelty detection: p, how rare a row is, and alerts on about nu of usual rows.

    ``p = P(a usual row is at least as unusual)``, alert where p < level

    Every row is learned. A sample of the past that fades exponentially stands for what is usual;
    a row is compared with it by densities (a Laplacian kernel that finds its own width) and by
    its largest value, and after whitening. Where rows follow one another like readings of sensors
    do, which is measured, the whitened row counts, its step from the row before, and the mean of
    the last ten rows, which is let in a thousand rows late, so that a fault cannot excuse itself.
    Each comparison is read as a tail probability among the sample's own rows; their logarithms
    are added, and the sum is ranked among the sums before it. The guide's page on detection has
    all of it.

    The level begins at nu and moves a little against its debt after every row, within half of nu
    and four times nu: usual rows raise about nu alerts, and faults come on top. Rows that raise
    an alert are let in 500 rows late.

    Parameters
    ----------
    nu : float in (0, 1), optional
        The share of usual rows that raise an alert. None: whatever `precision` allows.
    precision : float in (0, 1), optional
        The share of answered alerts that are faults (see `feedback`): a level beside that of nu
        falls with each alert that is called usual, and rises with each that is called a fault.
    memory_of_feedback : float
        Rows for which an answer holds; then it fades, within as many again to about a third.
    alerts_kept : int
        So many alerts, the last ones, can be answered.
    memory : float
        Rows after which the past has faded to about a third.
    terms : int
        Rows of the past that are kept for comparison; time per row grows with it.
    warmup : int, optional
        So many examples are learned before the first alert is shown. None: ``200 + 10`` for each
        feature, at most 2000.
    recent : int
        How many of the last scores are remembered, for ranks.
    missing : {"error", "mean"}
        What NaN in X means: an error, or the feature's running mean.
    columns : dict or Columns, optional
        What columns are that are no numbers ("category", "time", "text", ...), where the types of
        the first rows do not tell; see the guide's page on rows as they are.
    seed : int
        Of the sample.
    device : {"cpu", "auto", "cuda", "cuda:N"}
        Where blocks of rows that are only judged (`predict`, `p_samples`, `score_samples`,
        `decision_function`, `rank_samples`) are judged; a GPU needs the extra ``gpu``, and "auto"
        takes it where there is one. Rows that are learned, `predict_then_learn` too, are learned
        one after another on the CPU, since each may change the sample that the next one meets.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> det = Detector(nu=0.01)
    >>> alerts = det.predict_then_learn(rng.normal(size=(5000, 2))) == -1
    >>> bool(abs(alerts[2000:].mean() - 0.01) < 0.005)
    True
    >>> det.predict([[0.0, 0.0], [6.0, 6.0]])
    array([ 1, -1])
    >>> p = det.p_samples([[0.0, 0.0], [6.0, 6.0]])
    >>> bool(p[0] > 0.3), bool(p[1] < 1e-4)
    (True, True)
    """

    tells_p: ClassVar[bool] = True
    passes = 1
    n_jobs = None
    _learner: Any

    def __init__(
        self,
        nu: float | None = 0.01,
        *,
        precision: float | None = None,
        memory_of_feedback: float = 100_000,
        alerts_kept: int = 1000,
        memory: float = 10_000,
        terms: int = 1000,
        warmup: int | None = None,
        recent: int = 1000,
        missing: str = "error",
        columns: Any = None,
        seed: int = 0,
        device: str = "cpu",
    ) -> None:
        self.nu = nu
        self.precision = precision
        self.memory_of_feedback = memory_of_feedback
        self.alerts_kept = alerts_kept
        self.memory = memory
        self.terms = terms
        self.warmup = warmup
        self.recent = recent
        self.missing = missing
        self.columns = columns
        self.seed = seed
        self.device = device

    # -- parameters ----------------------------------------------------------------------------

    def _asked(self, features: int, table: bool = False) -> Plan:
        nu, terms = self._rate(), int(self.terms)
        return Plan(
            nu=nu, memory=float(self.memory), terms=terms, late_terms=max(3 * terms // 10, 20),
            warmup=self.warmup_of(features, table), seed=int(self.seed), low=FLOOR * nu,
            high=min(CEILING * nu, (1 + nu) / 2),
        )  # fmt: skip

    def _rate(self) -> float:
        """Return nu, or where a level begins that has none."""
        return NU if self.nu is None else float(self.nu)

    def _promise(self) -> Promise | None:
        """Return what is promised of answered alerts."""
        if self.precision is None:
            return None
        nu, alone = self._rate(), self.nu is None
        high = OFTEN if alone else min(CEILING * nu, (1 + nu) / 2)
        return Promise(1.0 - float(self.precision), math.log(nu), math.log(high), alone=alone)

    def warmup_of(self, features: int, table: bool = False) -> int:
        """Return how many examples of so many features come before the first alert.

        Of a table some 5/nu at least: which of its values are rare is not known before.
        """
        if self.warmup is not None:
            return int(self.warmup)
        known = math.ceil(5 / self._rate()) if table else 0
        return min(max(200 + 10 * features, known), MOST_WARMUP)

    def _settings(self) -> Settings:
        for name, accept in _ACCEPTS.items():
            accept.check(type(self).__name__, name, getattr(self, name))
        if self.nu is None and self.precision is None:
            raise ValueError(
                f"{type(self).__name__}: nu=None leaves the alerts to a promised precision: give "
                "precision=0.8, or nu=0.01."
            )
        missing = self._checked_missing()
        return settings_of(self._asked(1), missing, self._chosen(self.device))

    def _takes(self) -> tuple[bool, bool]:
        return False, self.missing == "mean"

    @property
    def warmup_(self) -> int:
        """So many examples are learned before the first alert is shown."""
        learner: Any = self._fitted()
        return int(learner.plan.warmup)

    # -- learning ------------------------------------------------------------------------------

    def _begin(self, X: Any, settings: Settings, rows: Any, columns: int) -> Any:
        settings = self._for_tables(X, settings)
        features, dtype = rows.shape[1], inputs.choose_dtype(X)
        asked = self._asked(features, isinstance(X, Encoded))
        learner = Densities(
            asked, features, dtype, settings.missing, self._promise(),
            float(self.memory_of_feedback), int(self.alerts_kept),
        )  # fmt: skip
        return placed(learner, settings.device)

    def _matrix(self, X: Encoded, learning: Any) -> Array:
        """Return numbers alone: of a category, an hour, a text's words, how rare they are.

        Beside numbers a category's value that comes in nu/2 of the rows or more is usual: were it
        not, the rows that hold it would all be alerts, and the promise could not be kept. Where
        there are none, the rows would be too much alike to be told apart.
        """
        tally = self._tally  # of other columns, where a fit begins anew
        if tally is None or (tally.plan is not X.plan and tally.plan != X.plan):
            tally = Tally(X.plan)
        return self._numbers(X, tally, learning)

    def _numbers(self, X: Encoded, tally: Tally, learning: Any) -> Array:
        """Return the same by other counts than the detector's own."""
        if np.all(learning):
            rarity = tally.followed(X)
        else:
            rarity = tally.partly_followed(X, learning) if np.any(learning) else tally.rarity(X)
        if X.plan.plain:
            values = slice(0, len(X.plan.counted))
            rarity[:, values] = np.maximum(rarity[:, values] - self._usual_rarity(), 0.0)
        return np.hstack([rarity, X.X[:, X.plan.plain]])

    def _count(self, X: Any, learned: Any) -> None:
        if isinstance(X, Encoded) and self._tally is not None:
            X, learned = X if np.all(learned) else X[learned], True
            found = table_answers.alerts_among(self._learner, self._tally, X)
            super()._count(X, learned)
            if found is not None:
                self._tally.said = self._tally.said.noting(*found)

    def _learn_parts(
        self, learner: Any, rows: Any, weight: Array, times: Array | None
    ) -> tuple[Array, Array, Array | None]:
        learner.heard = self._heard
        try:
            return super()._learn_parts(learner, rows, weight, times)
        finally:
            learner.heard = None

    @staticmethod
    def _width_of(plan: columns.Plan) -> int:
        return len(plan.counted) + len(plan.texts) + len(plan.of("time", "number"))

    def _times(self, time: Any, rows: int, learner: Any) -> None:
        if time is not None:
            raise ValueError(
                f"{type(self).__name__}: time= was given, but its memory counts rows. Leave it "
                "out, or use NoveltyDetector with rules.Norma(memory='12h')."
            )

    def _warms_within(self, t: int, weight: Array) -> int:
        return 0  # the core knows when the warm-up ends

    def _note_warm(self, learner: Any) -> None:
        pass

    # -- predicting ----------------------------------------------------------------------------

    @locked
    def p_samples(self, X: Any) -> Array:
        """Return p of each row, were it the next one: usual rows as unusual come once in 1/p."""
        return np.exp(self.score_samples(X))

    def _p(self, score: Array, rank: Any) -> Array:
        return np.exp(score)

    # -- feedback ------------------------------------------------------------------------------

    @locked
    def feedback(self, id: Any, answer: str) -> Self:
        """Say what an alert was: "usual", so that its like come no more, or a "fault".

        Rows like an alert that was *usual* are no alerts for as long as the answer lasts
        (`memory_of_feedback`), and are learned. Rows like a *fault* are alerts whenever they
        return, and none of them is learned; if it had been learned, that is undone. With a
        promised `precision` the level follows the answers. In a table an answer is about the very
        values that were rare: they are so no more, or stay so however often they return.

        Parameters
        ----------
        id : str or int
            Of the alert: how many rows had been learned before it. `alerts_` lists those that can
            be answered, the last `alerts_kept`.
        answer : {"usual", "fault"}
            Another answer to the same alert takes the place of the first; the same one given
            again holds anew, and counts once.
        """
        self._answer(id, answer)
        return self

    def _answer(self, id: Any, answer: str, frame: Any = None) -> None:
        learner: Any = self._fitted()
        name, alerts = type(self).__name__, learner.count(Count.ALERTS)
        number = feedback.number_of(name, id, answer, learner.answers, alerts)
        tally, learner = self._tally, learner.copy()
        if tally is None:
            learner.answer(number, answer, frame)
        else:
            cut = self._cut(tally.plan)
            tally = table_answers.answer(learner, tally, number, answer, cut, frame)
        self._learner, self._tally = learner, tally

    def _cut(self, plan: columns.Plan) -> Array:
        """Return what is taken off of how rare each value is, by column."""
        cut = np.zeros(len(plan.counted) + len(plan.texts) + len(plan.of("time")))
        cut[: len(plan.counted)] = self._usual_rarity() if plan.plain else 0.0
        return cut

    def _usual_rarity(self) -> float:
        """Return how rare a value may be and be usual: by the nu that the model began with."""
        learner = self.__dict__.get("_learner")
        return float(-np.log(self._rate() if learner is None else learner.plan.nu))

    def _precedent(self, x: Any, row: Any) -> Precedent | None:
        learner: Any = self._fitted()
        found: Precedent | None = learner.precedent(row)
        tally = self._tally
        if tally is None or not tally.said.sayings or learner.t < learner.plan.warmup:
            return found
        X = self._encoded(self._as_rows(x, strings=False), fresh=False)
        told = learner.filled(self._numbers(X, tally.unsaid(), False))[0]
        return table_answers.precedent(learner, tally, X, row, told, found)

    @property
    @locked
    def alerts_(self) -> list[dict[str, Any]]:
        """The last alerts, the oldest first: id, score, p, the rows since, and the answer."""
        learner: Any = self._fitted()
        return feedback.listed(learner.answers, learner.t)

    @property
    @locked
    def diagnostics_(self) -> dict[str, Any]:
        """What was promised, and what happened: see the guide for each key."""
        learner: Any = self._fitted()
        found = density_report.report(learner)
        promise = learner.answers.promise
        if promise is not None and promise.alone:
            found.update(rate_promised=None, rate_error_term=None, rate_in_words=None)
        return {**found, **feedback.report(learner.answers)}

    # -- files ---------------------------------------------------------------------------------

    def _dump_settings(self) -> dict[str, Any] | None:
        learner = self.__dict__.get("_learner")
        if learner is None:
            return None
        answered = feedback.terms_of(learner.answers)
        return {"missing": learner.missing, **asdict(learner.plan), **answered}

    def _dump_learner(self) -> dict[str, Any]:
        found: dict[str, Any] = self._learner.dump()
        return found

    def _resumed_learner(self, settings: dict[str, Any], saved: Saved) -> Any:
        held = Saved(settings, "settings.")
        missing = held.word("missing", ("error", "mean"))
        numbers = {f.name: _number(held, f.name, f.type) for f in fields(Plan)}
        promise, memory, kept = feedback.terms_in(held) or (
            self._promise(), float(self.memory_of_feedback), int(self.alerts_kept)
        )  # fmt: skip
        held.finish()
        plan = Plan(**numbers)
        if not plan.possible():
            raise held.refuse("nu", "and the other numbers are not those of a detector")
        return self._go_on(Densities.restored(plan, missing, saved, promise, memory, kept))

    # -- merging -------------------------------------------------------------------------------

    def _counts_of_all(self, models: list[Any], start: list[Any]) -> dict[str, Any]:
        """Return no recent scores: those of parts are none of the whole."""
        return {} if len(models) == 1 else {"recent_": type(self.recent_)(self.recent)}


def _number(held: Saved, name: str, kind: Any) -> Any:
    return held.whole(name, high=2**62) if kind in (int, "int") else held.number(name, low=0.0)
