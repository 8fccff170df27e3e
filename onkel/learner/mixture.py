"""Several settings side by side, mixed by exponential weights with fixed share.

Before each trial the members' answers are averaged with their weights; after it each member's loss,
a number from 0 to 1, moves the weights (Herbster & Warmuth 1998). What the loss is depends on the
task and stands with the two kinds of mixture (``blends.py``). To the estimators a mixture is a
learner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onkel.core.bank import fixed_share
from onkel.inputs import on_host
from onkel.learner.bank import Bank
from onkel.learner.base import Learner
from onkel.learner.resume import Open, dump, opened, resumed_group, width_of
from onkel.learner.settings import Settings
from onkel.learner.transaction import Transaction
from onkel.saved import Saved

Array = NDArray[Any]

Part = tuple[Learner, list[int]]


def grouped(members: Sequence[Settings], features: int) -> list[list[int]]:
    """Return the members' numbers, those together that share points.

    Members that can share points do; the largest such group is the last.
    """
    groups: dict[Any, list[int]] = {}
    for i, settings in enumerate(members):
        key = Bank.key(settings, features)
        groups.setdefault(("alone", i) if key is None else key, []).append(i)
    found = []
    for held in sorted(groups.values(), key=len):
        order = [0] if len(held) == 1 else Bank.in_order([members[i] for i in held], features)
        found.append([held[i] for i in order])
    return sorted(found, key=lambda held: not members[held[0]].expansion.primal)


def start_parts(
    members: Sequence[Settings], features: int, columns: int, dtype: Any, opening: Open = opened
) -> list[Part]:
    """Return learners for the members, with the numbers of the members that each holds."""
    return [
        (opening([members[i] for i in held], features, columns, dtype), held)
        for held in grouped(members, features)
    ]


def resumed_parts(members: Sequence[Settings], saved: Saved, opening: Open = opened) -> list[Part]:
    """Return the learners that a file holds, of members that are grouped as they always are."""
    first = saved.inside("0")
    parts: list[Part] = []
    for i, held in enumerate(grouped(members, width_of(members[0], first))):
        inside = first if i == 0 else saved.inside(str(i))
        if inside.items("held", int) != held:
            raise inside.refuse("held", f"must be {held}: the members that share points")
        parts.append((resumed_group([members[i] for i in held], inside, opening), held))
    if len({(p.t, p.columns // len(h), p.dtype, len(p.known)) for p, h in parts}) > 1:
        raise saved.refuse("0", "and the other parts must have learned the same rows")
    saved.finish()
    return parts


class Mixture:
    """Members, their weights, and what has happened to them.

    Parameters
    ----------
    members : sequence of Settings
        The settings side by side.
    parts : list of (Learner, list of int)
        Learners, with the numbers of the members that each holds; see :func:`start_parts`.
    rate : float
        Of the exponential weights, eta.
    share : float
        What a trial shares out evenly, alpha.
    """

    def __init__(
        self, members: Sequence[Settings], parts: list[Part], rate: float, share: float
    ) -> None:
        self.members = list(members)
        self.names: list[Any] = list(members)
        """What the members are called in reports."""
        self.parts = parts
        self.rate, self.share = rate, share
        count = len(members)
        self.weights = np.full(count, 1.0 / count)
        self.losses = np.zeros(count)
        """Cumulative loss of each member."""
        self.loss_total = 0.0
        """Cumulative loss of the mixture: the weighted mean of the members'."""
        self.gap_total = 0.0
        """What that exceeds the mixed loss by, in all."""
        self.judged = 0
        """Trials that have moved the weights."""
        self.mistakes = 0

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
    def moments(self) -> Any:
        """Running moments of the rows."""
        return self.main.moments

    @property
    def settings(self) -> Settings:
        """Those of a member: what all have in common is read there."""
        return self.main.settings

    @property
    def rule(self) -> Any:
        """A rule of the bank (none forgets by the clock)."""
        return self.main.rule

    @property
    def clock(self) -> float | None:
        """A mixture counts examples."""
        return None

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

    def mirror_column(self) -> None:
        """Turn the single output round, in every member."""
        self._each(lambda part: part.mirror_column())

    def split_column(self) -> None:
        """Give the single output a mirror, in every member."""
        self._each(lambda part: part.split_column())

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
        return other

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
            "weights": self.weights.copy(),
            "losses": self.losses.copy(),
            "loss_total": self.loss_total,
            "gap_total": self.gap_total,
            "judged": self.judged,
            "mistakes": self.mistakes,
            "parts": {str(i): {"held": h, **dump(part)} for i, (part, h) in enumerate(self.parts)},
        }

    def restore(self, saved: Saved) -> None:
        """Become what a file holds; the parts are there already."""
        count = len(self.members)
        self.weights = saved.array("weights", (count,), np.float64, low=0.0)
        if abs(self.weights.sum() - 1.0) > 1e-6:
            raise saved.refuse("weights", "must have a sum of 1")
        self.losses = saved.array("losses", (count,), np.float64, low=0.0)
        self.loss_total = saved.number("loss_total", low=0.0)
        self.gap_total = saved.number("gap_total")
        self.judged = saved.whole("judged", high=self.t)
        self.mistakes = saved.whole("mistakes")

    # -- the members' answers ------------------------------------------------------------------

    def answers(self, X: Any, first: int = 0) -> Array:
        """Return scores [rows][members][outputs]."""
        scores = np.empty((len(X), len(self.members), self.columns))
        host = self._on_host(X)
        for part, held in self.parts:
            rows = X if on_device(part) else host
            scores[:, held] = self._by_member(part.scores(rows, first), held)
        return scores

    def _on_host(self, X: Any) -> Any:
        """Return rows for those who live on the CPU, if any do."""
        return X if all(on_device(part) for part, _ in self.parts) else on_host(X)

    def _by_member(self, values: Array, held: list[int]) -> Array:
        return values.reshape(len(values), len(held), self.columns)

    def _learn_parts(self, X: Any, Y: Array, weight: Array, first: int) -> Array:
        """Let every member learn, all or none; return their scores before each row."""
        scores, last = np.empty((len(Y), len(self.members), self.columns)), self.main
        host, away = self._on_host(X), [on_device(part) for part, _ in self.parts]

        def learn(part: Learner, held: list[int], call: Transaction) -> None:
            rows = X if on_device(part) else host
            told, _ = part.learn_within(call, rows, Y, weight, None, first)
            scores[:, held] = self._by_member(told, held)

        with ExitStack() as calls:
            jobs = []
            for part, held in self.parts:
                call = Transaction(part, len(Y), with_others=part is not last or any(away))
                jobs.append(partial(learn, part, held, calls.enter_context(call)))
            side_by_side(jobs, away)
        return scores

    def single_row(self) -> None:
        """A mixture has no cheap way for single rows."""

    # -- learning and predicting -----------------------------------------------------------------

    def learn(
        self, X: Any, Y: Array, weight: Array, own: Array | None = None, first: int = 0,
        times: Array | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Learn rows in order; return the mixture's scores before each row, and no thresholds."""
        scores = self._learn_parts(X, Y, weight, first)
        return self._mix(scores, Y), np.zeros((len(Y), self.columns))

    def _mix(self, scores: Array, Y: Array) -> Array:
        """Judge the members and return the mixture's answers before each row [rows][outputs]."""
        raise NotImplementedError

    def _judge(self, losses: Array) -> Array:
        """Move the weights by the members' losses; return those that each trial was met with."""
        before, gap = fixed_share(losses, self.rate, self.share, self.weights)
        self.losses = running_sums(self.losses, losses)
        self.loss_total = float(running_sums(self.loss_total, (before * losses).sum(axis=1)))
        self.gap_total = float(running_sums(self.gap_total, gap))
        self.judged += len(losses)
        return before

    def scores(self, X: Any, first: int = 0) -> Array:
        """Return the mixture's score of each row and output."""
        raise NotImplementedError

    def limits(self) -> Array:
        """A mixture has no threshold: 0 for each output."""
        return np.zeros(self.columns)


def on_device(part: Learner) -> bool:
    """Whether a part lives on a GPU."""
    return part.settings.device != "cpu"


def side_by_side(jobs: Sequence[Callable[[], None]], away: Sequence[bool]) -> None:
    """Run jobs in their order; if some wait for a device, those in one thread, others beside it.

    All have ended when this returns, or raises what one of them raised.
    """
    if all(away) or not any(away):
        _in_order(jobs)
        return
    there = [job for job, far in zip(jobs, away, strict=True) if far]
    here = [[job] for job, far in zip(jobs, away, strict=True) if not far]
    with ThreadPoolExecutor(1 + len(here)) as pool:
        started = [pool.submit(_in_order, some) for some in (there, *here)]
    for one in started:
        one.result()


def _in_order(jobs: Sequence[Callable[[], None]]) -> None:
    for job in jobs:
        job()


def running_sums(start: Any, values: Array) -> Any:
    """Add values one after another: the same bits however they were cut into calls."""
    if not len(values):
        return start
    return np.cumsum(np.concatenate([np.asarray(start)[None], values]), axis=0)[-1]
