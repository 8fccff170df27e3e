"""The learner of the self-tuning detector: densities instead of one f.

To the estimators it is a learner with one output: the score of a row is log p, where a row as
unusual comes once in 1/p usual rows, and the limit is the level that alerts lie below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onkel import rules
from onkel.core import answer_values
from onkel.core.answer_files import restored as restored_answers
from onkel.core.answer_values import RareValues
from onkel.core.answers import KINDS, ROOM, STRONGER, Answers, Promise
from onkel.core.density import DensityState, Plan, run, settle
from onkel.core.density_table import FURTHEST, LEAST_SPREAD, Count, Level
from onkel.core.density_table import LARGEST as LARGEST_HELD
from onkel.core.precedents import Precedent, precedent_of
from onkel.core.unlearn import without
from onkel.expansions import Window
from onkel.inputs import LARGEST
from onkel.kernels import Laplacian
from onkel.learner.densities_state import restored_state, widened_state
from onkel.learner.settings import Settings
from onkel.learner.single_row import plain_row
from onkel.losses import Novelty
from onkel.saved import Saved
from onkel.scaling import Moments

Array = NDArray[Any]

FEEDBACK = 100_000.0
"""Rows after which an answer has faded to a third, unless something else is asked for."""
SPARSE = 1024
"""Rows of a sparse matrix that are made dense at once."""


@dataclass(frozen=True)
class Fading:
    """How the past fades, as the estimators ask a rule."""

    memory: float
    duration: float = np.inf
    """Not by the clock."""


@lru_cache(256)
def settings_of(plan: Plan, missing: str, device: str = "cpu") -> Settings:
    """Return what a detector is made of, in the words of other learners."""
    return Settings(
        kernel=Laplacian(1.0), loss=Novelty(nu=plan.nu), rule=rules.Norma(memory=plan.memory),
        expansion=Window(terms=plan.terms), missing=missing, device=device,
    )  # fmt: skip


class Densities:
    """A detector's plan and state.

    Parameters
    ----------
    plan : Plan
        What was asked for.
    features : int
        Of a row.
    dtype : dtype
        In which rows come; all is computed from 64-bit numbers.
    missing : {"error", "mean"}
        What NaN means.
    promise : Promise, optional
        A precision.
    memory : float
        Rows after which an answer has faded to a third.
    kept : int
        Alerts that can be answered: the last ones.
    """

    columns = 1
    on_strings = False
    clock = None
    form = "densities"
    mistakes = None
    device = "cpu"
    """Where blocks of rows are judged."""
    heard: Callable[[int, Densities], None] | None = None
    """Called with each alert's number in its call and the learner just before it learns the row."""

    def __init__(
        self, plan: Plan, features: int, dtype: Any, missing: str, promise: Promise | None = None,
        memory: float = FEEDBACK, kept: int = ROOM,
    ) -> None:  # fmt: skip
        self.plan, self.dtype, self.missing = plan, dtype, missing
        self.state = DensityState.empty(features, plan)
        self.answers = Answers.none(features, memory, promise, kept)
        self.rule = Fading(plan.memory)

    # -- what estimators ask a learner -----------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """What it was made of, in the words of other learners."""
        return settings_of(self.plan, self.missing, self.device)

    @property
    def kernel(self) -> Any:
        """The kernel of all views; each finds its own width."""
        return self.settings.kernel

    @property
    def tied(self) -> float:
        """How far rows are tied to those before: 0 where order does not matter, 1 where it does."""
        _, views = run(self.plan, self.state, self.state.last[None], None, members=True)
        return float(views[0, -1])

    def count(self, which: Count) -> int:
        """Return one of the whole numbers."""
        return int(self.state.whole[which])

    def level(self, which: Level) -> float:
        """Return one of the real numbers."""
        return float(self.state.real[which])

    @property
    def t(self) -> int:
        """Number of examples learned."""
        return self.count(Count.T)

    @property
    def size(self) -> int:
        """Number of terms: of the sample of rows, and of that of late means."""
        return self.count(Count.SIZE) + self.count(Count.LATE_SIZE)

    @property
    def nbytes(self) -> int:
        """Memory of all that is kept."""
        return self.state.nbytes + self.answers.nbytes

    @property
    def features(self) -> int:
        """Of a row."""
        return len(self.state.last)

    @property
    def moments(self) -> Moments:
        """Running moments of the rows that were let in."""
        found = Moments(self.features, self.plan.memory, float(np.finfo(self.dtype).eps))
        found.seen[:] = self.level(Level.SEEN)
        found.mean[:] = self.state.mean[0]
        found.variance[:] = self.variance(0)
        return found

    def variance(self, kind: int) -> Array:
        """Return the running variances of rows (0), steps (1) or late means (2)."""
        cov = self.state.cov[kind]
        found: Array = cov[0] if len(cov) == 1 < self.features else np.diagonal(cov)
        return found

    def copy(self) -> Self:
        """Return an independent copy."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.state, other.answers = self.state.copy(), self.answers.copy()
        return other

    def widened(self, values: Array) -> Densities:
        """Return the learner with more features, which had these `values` in every row so far."""
        other = self.copy()
        known = np.clip(np.asarray(values, np.float64), -LARGEST_HELD, LARGEST_HELD)
        other.state = widened_state(self.state, known)
        other.answers = self.answers.widened(known)
        return other

    def single_row(self) -> OneRow:
        """Return what takes rows one by one."""
        return OneRow(self)

    def check_complete(self, rows: int) -> None:
        """After a whole fit: nothing that settings ask for can be missing."""

    def filled(self, X: Any) -> Any:
        """Return rows with missing values as the means of their features."""
        return np.where(np.isnan(X), self.state.mean[0], X) if self.missing == "mean" else X

    def limits(self) -> Array:
        """Return the level, below which a score is an alert."""
        return np.array([self.answers.level(self.level(Level.LOG_ALPHA))])

    def scores(self, X: Any, first: int = 0) -> Array:
        """Return log p of each row, were it the next one; nothing changes."""
        return self.judged(X)[0][:, :1]

    def outlook(self, X: Any, first: int = 0) -> tuple[Array, Array]:
        """Return scores, and the level beside each."""
        scores = self.scores(X, first)
        return scores, np.broadcast_to(self.limits(), scores.shape)

    def judged(self, X: Any, members: bool = False) -> tuple[Array, Array]:
        """Judge rows, each as the next one: what :func:`onkel.core.density.run` returns."""
        parts = [
            run(self.plan, self.state, np.asarray(X[i : i + SPARSE], np.float64), None, members,
                self.answers)
            for i in range(0, max(len(X), 1), SPARSE)
        ]  # fmt: skip
        out, views = (np.concatenate(column) for column in zip(*parts, strict=True))
        return out, views

    def precedent(self, row: Array) -> Precedent | None:
        """Return the answered alert that decides of a row, were it the next one, if there is one.

        The row has no gaps.
        """
        answers, t = self.answers, self.t
        if not len(answers.born) or t < self.plan.warmup:
            return None
        x = np.clip(np.asarray(row, np.float64), -LARGEST_HELD, LARGEST_HELD)
        pair = [run(self.plan, self.state, x[None], None, answers=a)[0] for a in (None, answers)]
        before, (score, level) = float(pair[0][0, 0]), pair[1][0, :2].tolist()
        return precedent_of(answers, self._seen(x), t, before, score, level, score < level)

    def unanswered(self, row: Array) -> float:
        """Return log p of a row without gaps, were it the next one and nothing answered."""
        x = np.clip(np.asarray(row, np.float64), -LARGEST_HELD, LARGEST_HELD)
        return float(run(self.plan, self.state, x[None], None)[0][0, 0])

    def _seen(self, x: Array) -> Array:
        """Return a bounded row, its step from the one before, and the short mean with it."""
        state, fade = self.state, 1 - 2 / (self.plan.span + 1)
        step = np.zeros(len(x)) if self.t == 0 else x - state.last
        mean = (fade * state.smooth + x) / (fade * self.level(Level.SMOOTH_MASS) + 1)
        return np.stack([x, step, mean])

    def learn(
        self, X: Any, Y: Array, weight: Array, own: Array | None = None, first: int = 0,
        times: Array | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Learn rows in order; return scores and levels as they were before each row.

        Rows have been checked, and no row can fail; but a call that comes in several pieces may
        be interrupted between them, so it changes a copy of the state until it is complete.
        """
        pieces = len(X) > (SPARSE if self.heard is None else 1)
        state = self.state.copy() if pieces else self.state
        answers = self.answers.copy() if pieces else self.answers
        found = [
            run(self.plan, state, np.asarray(X[i : i + SPARSE], np.float64),
                weight[i : i + SPARSE], answers=answers,
                at_alert=self._tell(state, answers, first + i))[0]
            for i in range(0, max(len(X), 1), SPARSE)
        ]  # fmt: skip
        self.state, self.answers = state, answers
        out = np.concatenate(found)
        return out[:, :1], out[:, 1:2]

    def _tell(
        self, state: DensityState, answers: Answers, first: int
    ) -> Callable[[int], None] | None:
        """Return what tells whoever listens of alerts among rows from number `first` on."""
        heard = self.heard
        if heard is None:
            return None
        now = object.__new__(type(self))
        now.__dict__.update(self.__dict__)
        now.state, now.answers, now.heard = state, answers, None
        return lambda i: heard(first + i, now)

    # -- files ---------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold of the state; what was ranked is ranked again."""
        arrays = dict(vars(self.state.packed()))
        del arrays["ranked"]
        answers = {} if self.answers.blank else {"answers": self.answers.dump()}
        return {"dtype": str(np.dtype(self.dtype)), **answers, **arrays}

    @classmethod
    def restored(
        cls, plan: Plan, missing: str, saved: Saved, promise: Promise | None = None,
        memory: float = FEEDBACK, kept: int = ROOM,
    ) -> Self:  # fmt: skip
        """Return the learner that a file holds."""
        dtype = np.dtype(saved.word("dtype", ("float32", "float64")))
        answers = saved.inside("answers") if saved.peek("answers") is not None else None
        learner = cls(plan, 1, dtype, missing)
        learner.state = restored_state(plan, saved)
        learner.answers = Answers.none(learner.features, memory, promise, kept)
        if answers is not None:
            learner.answers = restored_answers(learner.answers, answers, learner.t)
        return learner

    # -- answers -------------------------------------------------------------------------------

    def answer(
        self, number: int, kind: str, frame: Array | None = None, rare: RareValues | None = None
    ) -> None:
        """Take in what somebody says of an alert that is kept, "usual" or "fault".

        `frame`: means and spreads in which it is looked at, where others know them better. `rare`:
        values of a table that made it stand out, whose counters are told of it as well.
        """
        at, least = self.answers.find(number), STRONGER - float(np.log(self.plan.low))
        seen_in = self._frame() if frame is None else frame
        how = at, KINDS.index(kind), self.t, seen_in, least, self._usual_beside(at)
        answers = self.answers
        found = (
            answers.answer(*how) if rare is None else answer_values.answered(answers, *how, rare)
        )
        if kind == "fault":
            state = self.state.copy()
            early = self.answers.is_early(at)
            if without(self.plan, state, self.answers.row_of(at), early):
                settle(self.plan, state)
            self.state = state
        self.answers = found

    def spreads_of(self, number: int, frame: Array | None = None) -> Array:
        """Return how many spreads above their means the values of an alert are."""
        center, spread = (self._frame() if frame is None else frame)[:, 0]
        gap = self.answers.row_of(self.answers.find(number))[0] - center
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            return np.nan_to_num(np.clip(np.where(spread > 0, gap / spread, 0.0), None, FURTHEST))

    def typical(self, features: list[int]) -> Array:
        """Return what some features are mostly, in the rows that were learned as usual."""
        n = self.count(Count.SIZE)
        calm = self.state.raw[0, :n][self.state.marks[:n] == 0]
        return np.median(calm[:, features], axis=0) if len(calm) else np.zeros(len(features))

    def alerts_still(self, number: int, rare: RareValues) -> bool:
        """Whether an alert would be one if it came next, its values no longer rare.

        What has been said of it till now is left out.
        """
        answers = self.answers
        row = answer_values.typical_row(answers.row_of(answers.find(number)), rare)[0]
        others = answer_values.without(answers, np.flatnonzero(answers.of == number))
        out = run(self.plan, self.state, row[None], None, answers=others)[0]
        return bool(out[0, 0] < out[0, 1])

    @property
    def share(self) -> float:
        """What a row counts for in the mean of the last rows."""
        return 2 / (self.plan.span + 1)

    def _usual_beside(self, at: int) -> Array:
        """Return the rows that were learned as usual, and their steps, but for an alert's own.

        That of an early one was learned without a mark.
        """
        n = self.count(Count.SIZE)
        raw, calm = self.state.raw[:, :n], self.state.marks[:n] == 0
        if self.answers.is_early(at):
            calm = calm & (raw[0] != self.answers.row_of(at)[0]).any(axis=1)
        return np.moveaxis(raw, 0, 1)[calm]

    def _frame(self) -> Array:
        """Return means and spreads of rows, steps and late means; 0 where none are known yet."""
        spread = np.sqrt([self.variance(kind) for kind in range(3)])
        known = [self.level(m) > 0 for m in (Level.ROW_MASS, Level.STEP_MASS, Level.LATE_MASS)]
        least = np.maximum(LEAST_SPREAD * self.state.size, 1e-300)
        spread = np.where(np.array(known)[:, None], np.maximum(spread, least), 0.0)
        return np.stack([self.state.mean, spread])


@dataclass
class _Bound:
    """What a single row left."""

    score: float = 0.0


class OneRow:
    """Single rows, with as little around the core as can be."""

    def __init__(self, learner: Densities) -> None:
        self.learner, self.state = learner, learner.state
        self.scores = np.zeros(1)
        self.bound = _Bound()
        self._weight = np.ones(1)

    def holds(self, learner: Any) -> bool:
        """Whether this is still the learner's state."""
        return self.learner is learner and self.state is learner.state

    def learn(self, row: Any, y: Any, time: Any = None) -> bool:
        """Learn one row; False if it is not for here, and nothing changed."""
        X = self._row(row)
        if X is None or time is not None:
            return False
        out, _ = run(self.learner.plan, self.state, X, self._weight, answers=self.learner.answers)
        self.bound.score = out.item(0)
        return True

    def look(self, row: Any) -> bool:
        """Leave the score of one row in `scores`; False if it is not for here."""
        X = self._row(row)
        if X is None:
            return False
        plan, answers = self.learner.plan, self.learner.answers
        self.scores[0] = run(plan, self.state, X, None, answers=answers)[0][0, 0]
        return True

    def _row(self, row: Any) -> Array | None:
        """Return the row as a matrix of plain numbers, None for anything else."""
        found = plain_row(row, self.learner.dtype)
        if found is None or found.shape != self.state.last.shape:
            return None
        return found.astype(np.float64)[None] if float(np.abs(found).max()) <= LARGEST else None
