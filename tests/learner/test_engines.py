"""The one loop: engines are asked in their order, and a call is learned whole or refused whole."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from helpers.fingerprint import fingerprint

from onkel import expansions, kernels, losses, rules
from onkel.learner import Bank, Odds, PrimalLearner, Settings, TermLearner
from onkel.learner.engines.block import BLOCK
from onkel.learner.parts import start_parts

GAUSSIAN = kernels.Gaussian(0.4)
NORMA = rules.Norma(learning_rate=0.2)


def settings(kernel=GAUSSIAN, rule=NORMA, expansion=None, **own):
    window = expansions.Window(terms=40) if expansion is None else expansion
    return Settings(kernel, losses.SoftMargin(margin=1.0), rule, window, **own)


ADDITIVE = kernels.Additive(kernels.Laplacian())
KINDS = {
    "window": lambda: TermLearner(settings(), 3, 1, np.float64),
    "average": lambda: TermLearner(settings(average=True), 3, 1, np.float64),
    "projection": lambda: TermLearner(
        settings(rule=rules.Projection(), intercept=False), 3, 1, np.float64
    ),
    "tree": lambda: TermLearner(
        settings(ADDITIVE, expansion=expansions.Tree(terms=40)), 3, 1, np.float64
    ),
    "weights": lambda: PrimalLearner(
        settings(kernels.Linear(), expansion=expansions.Weights()), 3, 1, np.float64
    ),
    "centers": lambda: PrimalLearner(
        settings(expansion=expansions.Centers(9, sample=300)), 3, 1, np.float64
    ),
    "bank": lambda: Bank([settings(), settings(kernels.Gaussian(2.0))], 3, 1, np.float64),
}


def stream(rng, rows):
    X = rng.normal(size=(rows, 3)) * [1.0, 20.0, 0.1]
    return X, np.where(X[:, :1] * X[:, 1:2] > 0, 1.0, -1.0), np.ones(rows)


class Shy:
    """Would take every row, and then does not."""

    asked = 0

    def reach(self, learner, batch):
        return len(batch)

    def learn(self, learner, batch, call):
        self.asked += 1


class Weak:
    """Never takes a row."""

    def reach(self, learner, batch):
        return 0

    def learn(self, learner, batch, call):
        raise AssertionError("was asked for rows that it does not take")


class Halting:
    """Another engine, up to its so-many-th turn."""

    def __init__(self, engine, turns):
        self.engine, self.turns = engine, turns

    def reach(self, learner, batch):
        return min(self.engine.reach(learner, batch), 7)

    def learn(self, learner, batch, call):
        self.turns -= 1
        found = self.engine.learn(learner, batch, call)
        if self.turns < 0:
            raise ArithmeticError("after a change in place")
        return found


def test_engines_are_asked_in_their_order(rng):
    X, Y, weight = stream(rng, 200)
    shy = Shy()

    class Asking(TermLearner):
        engines: ClassVar = (Weak(), shy, BLOCK)

    class Plain(TermLearner):
        engines: ClassVar = (BLOCK,)

    asking, plain = (kind(settings(), 3, 1, np.float64) for kind in (Asking, Plain))
    found = [learner.learn(X, Y, weight) for learner in (asking, plain)]
    assert np.array_equal(found[0], found[1])
    assert fingerprint(asking.terms) == fingerprint(plain.terms)
    assert shy.asked > 1


def test_a_loop_without_an_engine_that_can_says_so(rng):
    class Idle(TermLearner):
        engines: ClassVar = (Weak(),)

    with pytest.raises(RuntimeError, match="no engine has learned row 5"):
        Idle(settings(), 3, 1, np.float64).learn(*stream(rng, 3), None, 5)


@pytest.mark.parametrize("turns", [0, 1, 2, 11])
@pytest.mark.parametrize("name", KINDS)
def test_a_failure_after_any_turn_changes_nothing(rng, name, turns):
    """Also where terms were changed in place before, in the same turn or an earlier one."""
    X, Y, weight = stream(rng, 300)
    learner = KINDS[name]()
    learner.learn(X[:70], Y[:70], weight[:70])
    last = learner.engines[-1]
    learner.engines = (Halting(last, turns),)
    before = fingerprint({k: v for k, v in vars(learner).items() if k != "engines"})
    with pytest.raises(ArithmeticError):
        learner.learn(X[70:], Y[70:], weight[70:])
    assert fingerprint({k: v for k, v in vars(learner).items() if k != "engines"}) == before
    learner.engines = (last,)
    learner.learn(X[70:], Y[70:], weight[70:])
    assert learner.t == 300


@pytest.mark.parametrize("name", KINDS)
def test_a_learner_goes_on_after_a_failure_as_if_there_had_been_none(rng, name):
    X, Y, weight = stream(rng, 300)
    one, other = KINDS[name](), KINDS[name]()
    for learner in (one, other):
        learner.learn(X[:70], Y[:70], weight[:70])
    kind = one.engines
    one.engines = (Halting(kind[-1], 3),)
    with pytest.raises(ArithmeticError):
        one.learn(X[70:], Y[70:], weight[70:])
    del one.engines
    found = [learner.learn(X[70:], Y[70:], weight[70:]) for learner in (one, other)]
    assert np.array_equal(found[0], found[1])
    assert fingerprint(one) == fingerprint(other)


def test_a_mixture_is_refused_whole(rng):
    """The last part refuses a row: those before it, which have learned it, are put back."""
    members = [
        settings(kernels.Linear(), expansion=expansions.Weights(), scale=False),
        settings(ADDITIVE, expansion=expansions.Tree(terms=40), scale=False),
        settings(expansion=expansions.Window(age=50), scale=False),
        settings(0.01 * kernels.Polynomial(5), scale=False),
        settings(0.02 * kernels.Polynomial(5), scale=False),
    ]
    X, Y, weight = stream(rng, 160)
    mixture = Odds(members, start_parts(members, 3, 1, np.float64), 0.01)
    mixture.learn(X[:100], Y[:100], weight[:100])
    parts, before = [part for part, _ in mixture.parts], fingerprint(mixture)
    X[140] = 1e80
    with pytest.raises(ValueError, match="Row 40"):
        mixture.learn(X[100:], Y[100:], weight[100:])
    assert fingerprint(mixture) == before
    assert [part for part, _ in mixture.parts] == parts
    mixture.learn(X[100:140], Y[100:140], weight[100:140])
    assert {part.t for part, _ in mixture.parts} == {140}


def test_short_calls_note_nothing(rng):
    """Rows that are learned at once need no way back: none is made."""

    class Unguarded(TermLearner):
        guarded = 0

        def guard(self, before, rows):
            self.guarded += 1
            return super().guard(before, rows)

    X, Y, weight = stream(rng, 80)
    learner = Unguarded(settings(), 3, 1, np.float64)
    learner.learn(X[:65], Y[:65], weight[:65])
    assert learner.guarded > 0
    learner.guarded = 0
    for i in range(65, 80):
        learner.learn(X[i : i + 1], Y[i : i + 1], weight[i : i + 1])
    assert learner.guarded == 0
