"""Mixtures and their memory: set for every member, in examples or by the clock."""

from __future__ import annotations

import copy
import datetime
import pickle
from itertools import pairwise

import naive
import numpy as np
import pytest
from helpers.fingerprint import fingerprint
from helpers.sizes import size

from onkel import (
    Classifier,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    Regressor,
    files,
    kernels,
    losses,
    rules,
    schedules,
)
from onkel.judge import forgets_by_clock
from onkel.learner import Bank

HOUR = 3600.0
ROWS = size(300, 400)
WIDE, NARROW, GAUSS = kernels.Laplacian(0.25), kernels.Laplacian(1.0), kernels.Gaussian(0.5)
MIXTURES = {"classification": Classifier, "regression": Regressor}


def norma(rate, memory="1h"):
    return rules.Norma(learning_rate=rate, memory=memory)


def bank(task, **more):
    if task == "classification":
        return [
            KernelClassifier(NARROW, rule=norma(0.4), **more),
            KernelClassifier(WIDE, rule=norma(0.1), **more),
            KernelClassifier(GAUSS, "logistic", norma(0.4), **more),
            LinearClassifier(rule=norma(0.2), **more),
        ]
    return [
        KernelRegressor(WIDE, "squared", norma(0.4), **more),
        KernelRegressor(NARROW, "absolute", norma(0.2), fit_intercept=True, **more),
        KernelRegressor(WIDE, losses.EpsilonInsensitive(nu=0.2), norma(0.1), **more),
        LinearRegressor(rule=norma(0.1), **more),
    ]


def stream(rng, task, n=ROWS):
    """Rows at odd moments: bursts, pauses, several at once, one very long gap."""
    gaps = rng.exponential(600.0, n) * (rng.random(n) < 0.8)
    gaps[n // 2] = 5 * HOUR
    X = rng.normal(size=(n, 3)) * [1.0, 5.0, 0.2] + 3
    z = np.sin(2 * X[:, 0]) + (X[:, 1] - 3) / 5
    y = z + 0.1 * rng.normal(size=n) if task == "regression" else (z > 0).astype(int)
    return X, y, 1.7e9 + np.cumsum(gaps)


@pytest.mark.few
@pytest.mark.parametrize("task", MIXTURES)
@pytest.mark.parametrize("scale", [True, False])
def test_members_forget_by_the_clock_as_they_do_alone(rng, task, scale):
    X, y, times = stream(rng, task)
    model = MIXTURES[task](members=bank(task, scale=scale)).partial_fit(X, y, time=times)
    assert any(isinstance(part, Bank) for part, _ in model._learner.parts)
    scores = model._learner.answers(X[:50])
    for i, member in enumerate(bank(task, scale=scale)):
        member.partial_fit(X, y, time=times)
        np.testing.assert_allclose(scores[:, i], member._learner.scores(X[:50]), atol=1e-9)
        assert member._learner.clock == model._learner.clock == times[-1]


def test_a_bank_by_the_clock_is_the_plain_loop(rng):
    """One member by the clock, one by examples, one that never forgets: each its own loop."""
    X, y, times = stream(rng, "classification", n=size(60, 120))
    y = 2 * y - 1
    plain = {"scale": False, "fit_intercept": False}
    model = Classifier(members=[
        KernelClassifier(GAUSS, rule=norma(0.3), **plain),
        KernelClassifier(GAUSS, rule=norma(0.3, memory=50), **plain),
        KernelClassifier(WIDE, rule="projection", **plain),
    ])  # fmt: skip
    twins = [
        naive.Learner(loss="soft_margin", rule=rule, start=1.0, kernel=kernel, intercept=False)
        for kernel, rule in (
            (naive.gaussian(0.5),
             naive.ByClock(lambda t: 0.3, 0.0, None, times=times, duration=HOUR)),
            (naive.gaussian(0.5), naive.Descent(lambda t: 0.3, 1 / (0.3 * 50), None)),
            (naive.laplacian(0.25), naive.projection()),
        )
    ]  # fmt: skip
    for i, x in enumerate(X):
        if i:
            told = model._learner.answers(X[i : i + 1])[0, :, 0]
        model.partial_fit(X[i : i + 1], y[i : i + 1], time=times[i : i + 1])
        want = [float(np.ravel(twin.learn_one(x, [y[i]]))[0]) for twin in twins]
        if i:
            np.testing.assert_allclose(told, want, rtol=1e-9, atol=1e-10)


@pytest.mark.few
@pytest.mark.parametrize("task", MIXTURES)
@pytest.mark.parametrize("memory", ["1h", *size([], [datetime.timedelta(hours=1)]), 300])
def test_the_mixtures_memory_is_every_members(rng, task, memory):
    X, y, times = stream(rng, task)
    how = {} if memory == 300 else {"time": times}
    model = MIXTURES[task](memory=memory, relevance=False)
    assert forgets_by_clock(model) == (memory != 300)
    found = model.predict_then_learn(X, y, **how)
    held = [m.rule.memory for m in model.members_ if isinstance(m.rule, rules.Norma)]
    assert len(held) >= 4 and set(held) == {memory}
    same = MIXTURES[task](members=model.members_)
    assert forgets_by_clock(same) == (memory != 300)
    np.testing.assert_array_equal(same.predict_then_learn(X, y, **how), found)
    own = MIXTURES[task](members=bank(task), memory=memory).partial_fit(X, y, **how)
    assert {m.rule.memory for m in own.members_} == {memory}
    assert {m.rule.memory for m in own.members} == {"1h"}  # the user's own stay as they are


@pytest.mark.parametrize("task", MIXTURES)
def test_blocks_single_rows_copies_and_files(rng, task):
    X, y, times = stream(rng, task)
    whole = MIXTURES[task](memory="1h")
    want = whole.predict_then_learn(X, y, time=times)
    parts, found = MIXTURES[task](memory="1h"), []
    for start, stop in pairwise([0, 1, 2, 60, 63, 200, 201, 202, len(X)]):
        part = slice(start, stop)
        if stop - start == 1:
            found.append(parts.predict([X[start]]) if start else want[:1])
            parts.learn_one(X[start], y[start], time=float(times[start]))
        else:
            found.append(parts.predict_then_learn(X[part], y[part], time=times[part]))
        parts = copy.copy(parts) if start % 2 else pickle.loads(pickle.dumps(parts))
        data = files.dumps(parts)
        parts = files.loads(data)
        assert files.dumps(parts) == data
    if task == "regression":
        np.testing.assert_allclose(np.concatenate(found), want, atol=1e-8)
    else:
        assert np.array_equal(np.concatenate(found), want)
    np.testing.assert_allclose(parts._learner.scores(X), whole._learner.scores(X), atol=1e-8)
    assert parts._learner.clock == times[-1]
    fit = MIXTURES[task](memory="1h").fit(X, y, time=times)
    np.testing.assert_allclose(fit._learner.scores(X), whole._learner.scores(X), atol=1e-8)


def test_a_gap_of_years_empties_the_ring(rng):
    X, y, times = stream(rng, "classification")
    members = [KernelClassifier(k, rule=norma(0.3), fit_intercept=False) for k in (WIDE, NARROW)]
    model = Classifier(members=members).partial_fit(X, y, time=times)
    assert model.n_terms_ > 10
    model.learn_one(X[0], 1, time=times[-1] + 1e9)
    assert model.n_terms_ == 1
    np.testing.assert_allclose(model._learner.answers(X[:1]), 0.3)


def test_late_classes_and_missing_values_by_the_clock(rng):
    X, y, times = stream(rng, "classification")
    y = np.where(np.arange(len(y)) > 200, y + (X[:, 1] > 6), y)
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    members = bank("classification", missing="mean")
    model = Classifier(members=members).partial_fit(X, y, time=times)
    scores = model._learner.answers(X[:40])
    for i, member in enumerate(members):
        member = copy.copy(member).partial_fit(X, y, time=times)
        np.testing.assert_allclose(scores[:, i], member._learner.scores(X[:40]), atol=1e-8)


@pytest.mark.parametrize("task", MIXTURES)
def test_what_is_refused_changes_nothing(rng, task):
    X, y, times = stream(rng, task)
    kind, owner = MIXTURES[task], MIXTURES[task].__name__
    model = kind(memory="1h").partial_fit(X[:99], y[:99], time=times[:99])
    before = fingerprint(vars(model))
    late = times[99:].copy()
    late[7] = times[0]
    wrong = {
        "backwards at row 7": late,
        "must be finite": np.full(len(late), np.nan),
        rf"{owner}: memory='1h' goes by the clock: give time=": None,
    }
    for words, time in wrong.items():
        with pytest.raises(ValueError, match=words):
            model.partial_fit(X[99:], y[99:], time=time)
        assert fingerprint(vars(model)) == before
    counting = kind().partial_fit(X, y)
    before = pickle.dumps(counting)
    with pytest.raises(ValueError, match=rf"forget by examples. .*{owner}\(memory='12h'\)"):
        counting.partial_fit(X, y, time=times)
    with pytest.raises(ValueError, match="forget by examples"):
        counting.learn_one(X[0], y[0], time=0.0)
    assert pickle.dumps(counting) == before


@pytest.mark.parametrize(
    ("member", "memory", "words"),
    [
        (KernelClassifier(), 0.5, "memory must be a number in"),
        (KernelClassifier(), "soon", "memory must be .*duration"),
        (
            KernelClassifier(rule=rules.Norma(regularization=0.1)),
            500,
            r"memory=500 cannot be set for members\[0\]: .*were both given",
        ),
        (
            KernelClassifier(rule=rules.Norma(schedules.Regularized(0.1))),
            500,
            "sets regularization=0.1; leave memory unset",
        ),
    ],
)
def test_memories_that_cannot_be(member, memory, words):
    with pytest.raises(ValueError, match=words):
        Classifier(members=[member], memory=memory).partial_fit([[1.0], [2.0]], [0, 1])
