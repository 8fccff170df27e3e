"""Single rows for a mixture: what its parts need is bound once, and driven all or none.

Weights are moved on copies first; then the parts with terms learn, of which each changes nothing
where it refuses, and takes back what it has learned where a later one does (one of second order
only tries); then the weights are taken over, and the answers mixed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from onkel.core import bank as core_bank
from onkel.core import primal_rows
from onkel.learner.bank import Bank
from onkel.learner.engines.bank import let_go_if_full
from onkel.learner.engines.lane import EVERY
from onkel.learner.primal_learner import PrimalLearner
from onkel.learner.second_order import SecondOrderLearner
from onkel.learner.single_row import CHUNK, SingleRow, plain_row, row_moments, target_moments, units
from onkel.learner.squares_row import SquaresRow, squares_row
from onkel.saved import MOST

if TYPE_CHECKING:
    from onkel.learner.mixture import Mixture

Array = NDArray[Any]


class PartRow(Protocol):
    """A part with terms, as single rows drive it; it leaves its scores where it was told to."""

    def holds(self) -> bool:
        """Whether these are still the learner's arrays."""

    def plan(self, trials: Array) -> None:
        """Ask for the rates of the next trials."""

    def learn(self, row: Array, y: Array, t: int) -> bool:
        """Learn one row; False if it is not for here, and nothing has changed."""

    def look(self, row: Array) -> bool:
        """Leave the scores of one row; False if it is not for here."""

    def undo(self) -> None:
        """Take back what the last row has changed."""

    def finish(self) -> None:
        """All parts have learned the row: let points go, where the ring is full."""


class BankRow:
    """Members that share points."""

    def __init__(self, learner: Bank, scores: Array) -> None:
        self.learner, self.terms, self.state = learner, learner.terms, learner.state
        self.seen = learner.moments.seen
        ring = learner.terms.ring_for(learner.window, 0, 0)
        self.bound = core_bank.one(
            learner.native(), learner.terms.bound(), ring, learner.state, units(learner),
            row_moments(learner), target_moments(learner), scores, np.zeros(len(scores)),
        )  # fmt: skip

    def holds(self) -> bool:
        """Whether these are still the learner's arrays."""
        learner = self.learner
        same = self.terms is learner.terms and self.state is learner.state
        return same and self.seen is learner.moments.seen

    def plan(self, trials: Array) -> None:
        """Ask for the rates of the next trials."""
        self.bound.plan(int(trials[0]), *rates(self.learner.rules, trials))

    def learn(self, row: Array, y: Array, t: int) -> bool:
        """Learn one row; False if it is not for here, and nothing has changed."""
        if not t % EVERY and self.terms.following(row) is not self.terms:
            return False  # the data have left the centre behind
        if not self.bound.learn(row, y, t):
            return False
        self.learner.t, self.terms.count = t, self.bound.count
        return True

    def look(self, row: Array) -> bool:
        """Leave the scores of one row; False if it is not for here."""
        return bool(self.bound.look(row))

    def undo(self) -> None:
        """Take back what the last row has changed."""
        self.bound.undo()
        self.learner.t, self.terms.count = self.learner.t - 1, self.bound.count

    def finish(self) -> None:
        """Let points go, where the ring is full."""
        if self.terms.count >= self.learner.window.cap:
            let_go_if_full(self.learner)
            self.bound.moved(self.terms.head, self.terms.count)


class LoneRow:
    """A member with terms of its own."""

    def __init__(self, one: SingleRow, scores: Array) -> None:
        self.one, self.scores = one, scores

    def holds(self) -> bool:
        """Whether these are still the learner's arrays."""
        return self.one.holds(self.one.learner)

    def plan(self, trials: Array) -> None:
        """It asks for its rates itself."""

    def learn(self, row: Array, y: Array, t: int) -> bool:
        """Learn one row; False if it is not for here, and nothing has changed."""
        return self._told(self.one.learn(row, y.item() if len(y) == 1 else y))

    def look(self, row: Array) -> bool:
        """Leave the scores of one row; False if it is not for here."""
        return self._told(self.one.look(row))

    def undo(self) -> None:
        """It is the last one: nobody refuses after it."""

    def finish(self) -> None:
        """Its window moves on by itself."""

    def _told(self, fine: bool) -> bool:
        self.scores[:] = self.one.scores
        return fine


class SquaresPart:
    """A member of second order: a row is tried first, and learned when all others have."""

    def __init__(self, one: SquaresRow) -> None:
        self.one = one

    def holds(self) -> bool:
        """Whether these are still the learner's arrays."""
        return self.one.holds(self.one.learner)

    def plan(self, trials: Array) -> None:
        """It has no rates."""

    def learn(self, row: Array, y: Array, t: int) -> bool:
        """Try one row; False if it is not for here."""
        return self.one.attempt(row, y, t)

    def look(self, row: Array) -> bool:
        """Leave the scores of one row; False if it is not for here."""
        return self.one.look(row)

    def undo(self) -> None:
        """A row that was tried has changed nothing."""

    def finish(self) -> None:
        """Learn the row that was tried."""
        self.one.take()


class MixtureRow:
    """A mixture up to the next refresh of one of its frames; thrown away when anything changes.

    Parameters
    ----------
    mixture : Mixture
        What learns; at most one part with terms is a member alone.
    """

    def __init__(self, mixture: Mixture) -> None:
        members, outputs = len(mixture.members), mixture.columns
        self.mixture, self.dtype = mixture, mixture.dtype
        self.found, self.y = np.zeros(members * outputs), np.zeros(outputs)
        self.scores = self.y
        """The mixture's answer to the last row, before it was learned."""
        self.answers = np.zeros((members, outputs))
        due = [p.next_refresh() for p, _ in mixture.parts]
        self.until = min(*due, MOST + 1)
        self.planned = 0
        self.waiting = [p for p, _ in mixture.parts if p.awaits_units]
        """Parts to which a row may bring a unit on which steps depend: that is not for here."""
        parts = sorted(mixture.parts, key=_place)
        held = [i for _, numbers in parts for i in numbers]
        at = np.argsort(held)[:, None] * outputs
        self.places = at + np.arange(outputs)
        self.weights: list[Any] = [p for p, _ in parts if is_linear(p)]
        self.kept = [(p.state, p.theta, p.codes, p.moments.seen) for p in self.weights]
        split = len(self.weights) * outputs
        self.linear = self._bound_weights(self.found[:split]) if self.weights else None
        self.terms: list[PartRow] = []
        for part, numbers in parts[len(self.weights) :]:
            self.terms.append(_term_row(part, self.found[split : split + len(numbers) * outputs]))
            split += len(numbers) * outputs

    def _bound_weights(self, scores: Array) -> Any:
        each = [
            primal_rows.weights(
                p.frame, p.state, p.theta, p.stepper, p.p, units(p), row_moments(p),
                target_moments(p), p.codes if p.hashes else None,
            )
            for p in self.weights
        ]  # fmt: skip
        return primal_rows.together(each, scores)

    def holds(self, learner: Any) -> bool:
        """Whether these are still the mixture's arrays."""
        return (
            self.mixture is learner
            and all(part.holds() for part in self.terms)
            and all(
                p.state is state
                and p.theta is theta
                and p.codes is codes
                and p.moments.seen is seen
                for p, (state, theta, codes, seen) in zip(self.weights, self.kept, strict=True)
            )
        )

    def learn(self, row: Any, y: Any, time: Any = None) -> bool:
        """Learn one row (y: a number, or one per output); False if not for here, unchanged."""
        t = self.mixture.t + 1
        if time is not None or t >= self.until or not self._told(y):
            return False
        if t >= self.planned and not self._plan(t):
            return False
        row = self._plain(row)
        if self.waiting and self._brings_news(row):
            return False
        try:
            if self.linear is not None and not self.linear.attempt(row, self.y, t):
                return False
            for i, part in enumerate(self.terms):
                if not part.learn(row, self.y, t):
                    for earlier in self.terms[:i]:
                        earlier.undo()
                    return False
        except TypeError:
            return False  # not contiguous, or nothing that could be a row
        if self.linear is not None:
            self.linear.commit()
            for learner in self.weights:
                learner.t = t
        for part in self.terms:
            part.finish()
        self.found.take(self.places, out=self.answers, mode="clip")
        self.scores = self.mixture._mix_one(self.answers, self.y)
        return True

    def look(self, row: Any) -> bool:
        """Leave the mixture's answer to one row in `scores`; False if it is not for here."""
        row = self._plain(row)
        try:
            fine = self.linear is None or self.linear.look(row)
            fine = fine and all(part.look(row) for part in self.terms)
        except TypeError:
            return False
        if fine:
            self.found.take(self.places, out=self.answers, mode="clip")
            self.scores = self.mixture._look_one(self.answers)
        return bool(fine)

    def _brings_news(self, row: Any) -> bool:
        if row is None or row.shape != self.mixture.moments.mean.shape:
            return True
        return any(not part.quiet_rows(row[None], 1) for part in self.waiting)

    def _told(self, y: Any) -> bool:
        """Take the targets; False if they are not one for each output."""
        if y.__class__ is float and len(self.y) == 1:
            self.y[0] = y
            return True
        if y.__class__ is not np.ndarray or y.shape != self.y.shape or len(y) == 1:
            return False
        self.y[:] = y
        return True

    def _plain(self, row: Any) -> Any:
        if row.__class__ is not np.ndarray or row.dtype is not self.dtype:
            return plain_row(row, self.dtype)
        return row

    def _plan(self, t: int) -> bool:
        """Ask for the rates of the next trials; False if one of them is refused."""
        trials = t + np.arange(min(CHUNK, self.until - t))
        try:
            if self.linear is not None:
                self.linear.plan(t, *rates([p.rule for p in self.weights], trials))
            for part in self.terms:
                part.plan(trials)
        except Exception:  # a user's schedule: whose turn it is must see it, not who comes before
            return False
        self.planned = t + len(trials)
        return True


def rates(rules: list[Any], trials: Array) -> tuple[Array, Array]:
    """Return eta and the regularisation of the next trials, [rules][trials]."""
    eta = np.array([rule.rates(trials) for rule in rules], np.float64)
    return eta, np.array([rule.lams(trials) for rule in rules], np.float64)


def is_linear(part: Any) -> bool:
    """Whether a part is weights that single rows can move."""
    return isinstance(part, PrimalLearner) and part.in_rows


def _place(part: tuple[Any, list[int]]) -> int:
    """Weights first; then what can take back what it learned; then a member alone."""
    return 0 if is_linear(part[0]) else 1 if isinstance(part[0], (Bank, SecondOrderLearner)) else 2


def _term_row(part: Any, scores: Array) -> PartRow:
    if isinstance(part, Bank):
        return BankRow(part, scores)
    if isinstance(part, SecondOrderLearner):
        squares = squares_row(part, scores)
        assert squares is not None
        return SquaresPart(squares)
    one = part.single_row()
    assert one is not None
    return LoneRow(one, scores)


def mixture_row(mixture: Mixture) -> MixtureRow | None:
    """Return what learns rows one by one the cheap way, if that is possible now."""
    others = [p for p, _ in mixture.parts if not is_linear(p)]
    if (
        sum(not isinstance(p, (Bank, SecondOrderLearner)) for p in others) > 1
        or not mixture.columns
    ):
        return None
    if not all(np.isinf(p.rule.duration) and p.targets.known.all() for p, _ in mixture.parts):
        return None
    ready = mixture.t > 0 and all(
        p.in_lane if isinstance(p, Bank) else p.single_row() is not None for p in others
    )
    return MixtureRow(mixture) if ready else None
