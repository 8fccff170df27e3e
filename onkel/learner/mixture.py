"""Several settings side by side, mixed by exponential weights with fixed share.

Before each trial the members' answers are averaged with their weights; after it each member's loss
moves the weights (Herbster & Warmuth 1998). What the loss is depends on the task and stands with
the two kinds of mixture (``odds.py``, ``means.py``). To the estimators a mixture is a learner.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onkel.clock import is_duration
from onkel.core.frame import Apart, effective
from onkel.inputs import on_host
from onkel.learner.bank import Bank
from onkel.learner.base import Learner
from onkel.learner.beside_device import learn_beside_device, on_device
from onkel.learner.grow import with_features
from onkel.learner.mixture_row import MixtureRow, mixture_row
from onkel.learner.parts import Part, grouped, resumed_parts
from onkel.learner.resume import Open, dump, opened
from onkel.learner.settings import Settings
from onkel.learner.transaction import Transaction
from onkel.saved import Saved

Array = NDArray[Any]


class Mixture:
    """Members, their weights, and what has happened to them.

    Parameters
    ----------
    members : sequence of Settings
        The settings side by side.
    parts : list of (Learner, list of int)
        Learners, with the numbers of the members that each holds; see ``parts.py``.
    share : float
        What a trial shares out evenly, alpha.
    """

    def __init__(self, members: Sequence[Settings], parts: list[Part], share: float) -> None:
        self.members = list(members)
        self.names: list[Any] = list(members)
        """What the members are called in reports."""
        self.parts = parts
        self.share = share
        self.blend: Any
        """How scores become answers: :class:`Chances` or :class:`Standing`."""
        self.judged = 0
        """Trials that have moved the weights."""
        self.mistakes = 0

    def _restored_blend(self, saved: Saved) -> Any:
        """Return what a file holds of the blend."""
        raise NotImplementedError

    def numbers(self) -> dict[str, float]:
        """Return what it was made with, beside its members."""
        return {"share": self.share}

    # -- what reports ask ------------------------------------------------------------------------

    @property
    def influence(self) -> Array:
        """What each member counts for now: its own part, and what it has of the joint experts'.

        The numbers add up to 1.
        """
        found: Array = self.blend.influence
        return found

    @property
    def losses(self) -> Array:
        """Cumulative loss of each expert: of the members, then of those made of them."""
        raise NotImplementedError

    @property
    def loss_total(self) -> float:
        """Cumulative loss of the mixture."""
        raise NotImplementedError

    def regret_bounds(self) -> tuple[float, float]:
        """Return bounds on the loss beyond that of the best fixed expert: measured, promised."""
        raise NotImplementedError

    # -- what estimators ask a learner -----------------------------------------------------------

    @property
    def main(self) -> Learner:
        """The last part; what all parts have in common is read there."""
        return self.parts[-1][0]

    @property
    def t(self) -> int:
        """Number of examples learned."""
        return self.main.t

    @property
    def kernel(self) -> Any:
        """A kernel of the bank (all take rows of the same kind)."""
        return self.main.kernel

    @property
    def dtype(self) -> Any:
        """Of the rows."""
        return self.main.dtype

    @property
    def apart(self) -> Apart:
        """What the codes among the rows' columns are apart."""
        return self.main.apart

    @property
    def moments(self) -> Any:
        """Running moments of the rows."""
        return self.main.moments

    @property
    def relevance(self) -> Array | None:
        """What differences of each feature count, the mean over the parts; None: not learned."""
        found = [p.relevance.width for p, _ in self.parts if p.relevance is not None]
        return np.mean(found, axis=0) if found else None

    @property
    def settings(self) -> Settings:
        """Those of a member: what all have in common is read there."""
        return self.main.settings

    @property
    def rule(self) -> Any:
        """A rule of the bank."""
        return self.main.rule

    @property
    def clock(self) -> float | None:
        """Time of the last row learned, where a member forgets by it."""
        return max((p.clock for p, _ in self.parts if p.clock is not None), default=None)

    def durations(self) -> list[Any]:
        """Return the memories that go by the clock, as they were given."""
        return [
            m for m in (getattr(s.rule, "memory", None) for s in self.members) if is_duration(m)
        ]

    @property
    def form(self) -> str:
        """What it is made of to those who explain it."""
        return "mixture"

    @property
    def on_strings(self) -> bool:
        """Whether rows are texts."""
        return self.main.on_strings

    def filled(self, X: Any) -> Any:
        """Return rows with missing values as what they stand for."""
        return self.main.filled(X)

    @property
    def size(self) -> int:
        """Stored points, or weights where there are none."""
        stored = [p.size for p, _ in self.parts if not p.settings.expansion.primal]
        return sum(stored) if stored else sum(p.size for p, _ in self.parts)

    @property
    def nbytes(self) -> int:
        """Memory of what is stored."""
        return sum(p.nbytes for p, _ in self.parts)

    @property
    def columns(self) -> int:
        """Number of outputs."""
        learner, held = self.parts[-1]
        return learner.columns // len(held)

    def add_column(self) -> None:
        """Add an output that starts at 0, to every member."""
        self._each(lambda part: part.add_column())

    def add_outputs(self, count: int) -> None:
        """Add outputs that start at 0, to every member; the blend is not told."""
        self._each(lambda part: part.add_outputs(count))

    def mirror_column(self) -> None:
        """Turn the single output round, in every member."""
        self._each(lambda part: part.mirror_column())

    def split_column(self) -> None:
        """Give the single output a mirror, in every member."""
        self._each(lambda part: part.split_column())

    def arrange(self, order: list[int]) -> None:
        """Put the outputs into another order, in every member."""
        self._each(lambda part: part.arrange(order))

    def _each(self, change: Callable[[Learner], None]) -> None:
        for part, _ in self.parts:
            change(part)

    def check_complete(self, rows: int) -> None:
        """After a whole fit on so many rows: refuse if what the settings ask for never came."""
        self._each(lambda part: part.check_complete(rows))

    def copy(self) -> Self:
        """Return an independent copy."""
        other = object.__new__(type(self))
        other.__dict__.update(
            {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in vars(self).items()}
        )
        other.parts = [(part.copy(), held) for part, held in self.parts]
        other.blend = self.blend.copy()
        return other

    def widened(self, values: Array, members: Sequence[Settings] | None = None) -> Self:
        """Return the mixture with more features, which had these `values` in every row so far.

        `members` are the same settings for that many features, where they follow from it.
        """
        other = self.copy()
        other.members = list(self.members if members is None else members)
        features = effective(len(self.moments.mean) + len(values), self.apart)
        orders = {frozenset(held): held for held in grouped(other.members, features)}
        other.parts = [
            other._part_widened(part, held, orders[frozenset(held)], values)
            for part, held in self.parts
        ]
        return other

    def _part_widened(
        self, part: Learner, held: list[int], order: list[int], values: Array
    ) -> Part:
        """Return a part with more features; widths may have changed places."""
        features, group = len(part.moments.mean) + len(values), [self.members[i] for i in order]
        shape = (features, self.columns, part.dtype, part.apart)
        wide = with_features(part, values, opened(group, *shape))
        if isinstance(wide, Bank):
            wide.reorder([held.index(i) for i in order])
        return wide, order

    @property
    def merged(self) -> bool:
        """Whether it was added from several."""
        return self.main.merged

    def take_sum(self, mixtures: Sequence[Self], shares: Array, start: Self | None) -> None:
        """Become what these have counted together; the parts are there already.

        Counts add, those of a start once.
        """
        begun = None if start is None else start.blend
        self.blend.take_sum([m.blend for m in mixtures], shares, begun)
        for name in ("judged", "mistakes"):
            whole = sum(getattr(m, name) for m in mixtures)
            if start is not None:
                whole = whole - (len(mixtures) - 1) * getattr(start, name)
            setattr(self, name, whole)

    # -- files ---------------------------------------------------------------------------------

    def settled(self) -> list[Settings]:
        """Return the members' settings with what was computed for them as numbers."""
        found = list(self.members)
        for part, held in self.parts:
            for i, rule in zip(held, part.rules, strict=True):
                found[i] = replace(found[i], rule=found[i].rule.settled(rule))
        return found

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold of a mixture, beside its members' settings."""
        return {
            "blend": self.blend.dump(),
            "judged": self.judged,
            "mistakes": self.mistakes,
            "parts": {str(i): {"held": h, **dump(part)} for i, (part, h) in enumerate(self.parts)},
        }

    def restore(self, saved: Saved) -> None:
        """Become what a file holds; the parts are there already."""
        self.blend = self._restored_blend(saved.inside("blend"))
        self.judged = saved.whole("judged", high=self.t)
        self.mistakes = saved.whole("mistakes", high=self.t)

    # -- the members' answers ------------------------------------------------------------------

    def answers(self, X: Any, first: int = 0) -> Array:
        """Return scores [rows][members][outputs]."""
        scores = np.empty((len(X), len(self.members), self.columns))
        host = self.rows_on_host(X)
        for part, held in self.parts:
            rows = X if on_device(part) else host
            scores[:, held] = self.by_member(part.scores(rows, first), held)
        return scores

    def rows_on_host(self, X: Any) -> Any:
        """Return rows for those who live on the CPU, if any do."""
        return X if all(on_device(part) for part, _ in self.parts) else on_host(X)

    def by_member(self, values: Array, held: list[int]) -> Array:
        return values.reshape(len(values), len(held), self.columns)

    def member_scores(
        self, X: Any, Y: Array, weight: Array, first: int, times: Array | None
    ) -> Array:
        """Let every member learn, all or none; return scores [rows][members][outputs] before.

        In Y an output that is not there yet has NaN. What is made of the scores is not learned.
        """
        scores = np.empty((len(Y), len(self.members), self.columns))
        with ExitStack() as calls:
            for part, held in self.parts:
                call = Transaction(part, len(Y), with_others=part is not self.main)
                calls.push(call)
                when = times if np.isfinite(part.rule.duration) else None
                told, _ = part.learn_within(call, X, Y, weight, None, first, when)
                scores[:, held] = self.by_member(told, held)
        return scores

    def copy_of_mixing(self) -> Self:
        """Return a mixture of the same parts, whose mixing goes its own way."""
        other = copy.copy(self)
        other.blend = self.blend.copy()
        return other

    def take_mixing(self, other: Self) -> None:
        """Take over what has become of such a copy."""
        self.blend, self.judged = other.blend, other.judged

    def single_row(self) -> MixtureRow | None:
        """Return what learns rows one by one the cheap way, if that is possible now."""
        return mixture_row(self)

    # -- learning and predicting -----------------------------------------------------------------

    def learn(
        self, X: Any, Y: Array, weight: Array, own: Array | None = None, first: int = 0,
        times: Array | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Learn rows in order; return the mixture's scores and widths before each row."""
        if any(on_device(part) for part, _ in self.parts):
            return learn_beside_device(self, X, Y, weight, first, times)
        return self.mixed(self.member_scores(X, Y, weight, first, times), Y)

    def mixed(self, scores: Array, Y: Array) -> tuple[Array, Array]:
        """Judge the members; return the mixture's answers and widths before each row."""
        self.judged += len(Y)
        answers: Array = self.blend.learn(scores, Y)
        return answers, self._widths(scores, answers, Y)

    def _mix_one(self, scores: Array, y: Array) -> Array:
        """Judge the members by one row: [members][outputs], [outputs]; return the answer before."""
        self.judged += 1
        answer = self.blend.learn_one(scores, y)
        self._widths(scores[None], answer[None], y[None])
        return answer

    def _look_one(self, scores: Array) -> Array:
        """The same as :meth:`blended` for one row."""
        return self.blend.look_one(scores)

    def scores(self, X: Any, first: int = 0) -> Array:
        """Return the mixture's score of each row and output."""
        return self.blended(self.answers(X, first))

    def blended(self, scores: Array) -> Array:
        """Return what the mixture makes of scores [rows][members][outputs] now, for each output."""
        found: Array = self.blend.look(scores)
        return found

    def _widths(self, scores: Array, answers: Array, Y: Array) -> Array:
        """Return the half-widths of intervals before each row; 0 where there are none."""
        return np.zeros(answers.shape)

    def outlook(self, X: Any, first: int = 0) -> tuple[Array, Array]:
        """Return the mixture's score of each row and output, and no thresholds."""
        scores = self.scores(X, first)
        return scores, np.zeros(scores.shape)


def resumed_mixture(
    kind: type[Mixture], members: Sequence[Settings], numbers: dict[str, float], saved: Saved,
    opening: Open = opened,
) -> Mixture:  # fmt: skip
    """Return the mixture that a file holds."""
    mixture = kind(members, resumed_parts(members, saved.inside("parts"), opening), **numbers)
    mixture.restore(saved)
    saved.finish()
    return mixture
