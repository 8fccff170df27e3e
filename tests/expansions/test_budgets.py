"""Which term goes when a window is full: what a budget says, beside what then happens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from onkel import KernelRegressor, core, expansions, kernels, losses, rules
from onkel.core.layout import BudgetCode
from onkel.expansions.budgets import OLDEST
from onkel.learner import Bank, Settings, TermLearner

SETTINGS = Settings(
    kernels.Gaussian(0.5), losses.Squared(), rules.Norma(learning_rate=0.1),
    expansions.Window(terms=20), scale=False,
)  # fmt: skip


class Births:
    """Terms of which nothing is known but when they were born."""

    def __init__(self, births):
        self.births = births

    @property
    def count(self):
        return len(self.births)

    def older_than(self, birth):
        return sum(b < birth for b in self.births)


@pytest.mark.parametrize("seed", range(5))
def test_no_more_go_than_it_says(seed):
    """Rows pushed in one by one, every one of them stored, terms dropped by the window's law."""
    rng = np.random.default_rng(seed)
    for _ in range(50):
        cap, age, rows = (int(n) for n in rng.integers(1, 30, 3))
        t = 60
        births = sorted(rng.choice(np.arange(t - age + 1, t + 1), min(cap, age), replace=False))
        said = OLDEST.may_go(Births(births), rows, cap, t + rows + 1 - age)
        left = list(births)
        for trial in range(t + 1, t + rows + 1):
            left.append(trial)
            left = [b for b in left if b >= trial + 1 - age][-cap:]
        gone = [b for b in births if b not in left]
        assert len(gone) <= said
        assert gone == births[: len(gone)]  # they stand first


def test_the_oldest_goes(rng):
    X, y = rng.normal(size=(90, 2)), rng.normal(size=(90, 1))
    learner = TermLearner(SETTINGS, 2, 1, np.float64)
    learner.learn(X, y, np.ones(90))
    assert learner.terms.births_from(0, 20).tolist() == list(range(71, 91))


def test_a_bank_lets_a_share_go_at_once(rng):
    """The ring is never full after a block, and what is left is the newest."""
    wide = replace(SETTINGS, rule=rules.Norma(learning_rate=0.3))
    bank = Bank([SETTINGS, wide], 2, 1, np.float64)
    X, y = rng.normal(size=(200, 2)), rng.normal(size=(200, 1))
    for i in range(200):
        bank.learn(X[i : i + 1], y[i : i + 1], np.ones(1))
        births = bank.terms.births_from(0, bank.size).tolist()
        assert births == list(range(i + 2 - len(births), i + 2))
        assert len(births) < 20
    assert OLDEST.at_once(20) == 1
    assert OLDEST.at_once(3) == 1
    assert OLDEST.at_once(1600) == 100


def test_what_went_is_bounded(rng):
    """Without forgetting, the bound is the sum of abs(a) sqrt(k(x, x)) of all that went."""
    X, y = rng.normal(size=(80, 2)), rng.normal(size=80)
    rule = rules.Norma(learning_rate=0.1, regularization=0.0)
    common = {"kernel": kernels.Gaussian(50.0), "loss": "squared", "rule": rule, "scale": False}
    whole = KernelRegressor(**common, fit_intercept=False).partial_fit(X, y)
    cut = KernelRegressor(
        **common, fit_intercept=False, expansion=expansions.Window(terms=30)
    ).partial_fit(X, y)
    a = whole._learner.terms.coefs(0, 80)[:, 0]
    assert cut.diagnostics_["truncation_bound"] == pytest.approx(np.abs(a[:50]).sum(), rel=0.05)


def test_every_budget_is_one_of_the_core(rng):
    """The window's budget has a code of the table; one that is not there is refused."""
    assert BudgetCode(expansions.Window().policy.code) is BudgetCode.OLDEST
    learner = TermLearner(replace(SETTINGS, average=True), 2, 1, np.float64)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=(30, 1))

    class Unknown(type(OLDEST)):
        code = 99

    learner.window = replace(learner.window, budget=Unknown())
    before = learner.state.copy()
    with pytest.raises(ValueError, match="budget"):
        learner.learn(X, y, np.ones(30))
    assert np.array_equal(learner.state, before)
    assert learner.t == 0
    if core.has_lane():
        with pytest.raises(ValueError, match="budget"):
            core.ring_of(0, 0, 10, 99)
