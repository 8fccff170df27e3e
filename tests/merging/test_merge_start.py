"""Merging models that went on from one start: what it had counted counts once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from onkel import (
    Detector,
    KernelClassifier,
    KernelRegressor,
    LinearRegressor,
    expansions,
    files,
    merge,
    rules,
)
from onkel.core.density_table import Count

pd = pytest.importorskip("pandas", reason="needs pandas")
from helpers.spark_rows import AB, CASES, learn_rows, rows, scores  # noqa: E402

from onkel.spark.mixing import Reading, learned, mixed_in_turns  # noqa: E402


def parts_of(make: Callable[[], Any], rng: np.random.Generator, count: int = 3) -> tuple:
    """Return a start, models that went on from it, and the rows of each."""
    before, *after = (rows(rng, n) for n in (100, 60, 80, 70, 90)[: count + 1])
    start = learn_rows(make(), before)
    return start, [learn_rows(copy.deepcopy(start), part) for part in after], [before, *after]


@pytest.mark.parametrize("make", CASES.values(), ids=CASES)
def test_what_the_start_had_counted_counts_once(make, rng):
    start, parts, frames = parts_of(make, rng)
    whole = merge(parts, start=start)
    assert whole.t_ == sum(map(len, frames)) == 100 + 60 + 80 + 70
    if start.task == "classification":
        labels = pd.concat(frames)["y"]
        assert whole.class_count_ == {k: int((labels == k).sum()) for k in (-1, 1)}
    for key in ("mistakes", "loss", "margin_errors"):
        if start.diagnostics_.get(key) is not None:
            new = [p.diagnostics_[key] - start.diagnostics_[key] for p in parts]
            total = start.diagnostics_[key] + sum(new)
            assert whole.diagnostics_[key] == pytest.approx(total, rel=1e-6, abs=1e-9)


def test_young_detectors_of_one_start(rng):
    """Their samples hold more rows than they have seen together."""
    X = rng.normal(size=(300, 2))
    start = Detector().partial_fit(X[:200])
    parts = [start, copy.deepcopy(start).partial_fit(X[200:])]
    whole = merge(parts, start=start)
    assert whole.t_ == 300
    assert np.isfinite(whole.partial_fit(X).score_samples(X)).all()


@pytest.mark.parametrize(("before", "after"), [(10, 0), (15, 3), (200, 0), (200, 100)])
def test_young_detectors_of_one_start_hold_no_more_than_came(before, after, rng):
    X = rng.normal(size=(before + 3 * after, 2))
    start = Detector().partial_fit(X[:before])
    rest = [X[before + i * after :][:after] for i in range(3)]
    parts = [learned_by(copy.deepcopy(start), more) for more in rest]
    whole = merge(parts, start=start)
    assert whole.t_ == len(X)
    for kept in (Count.SIZE, Count.LATE_SIZE, Count.HISTORY):
        assert whole._learner.count(kept) <= len(X)
    loaded = files.loads(files.dumps(whole))
    for model in (whole, loaded):
        assert np.isfinite(model.partial_fit(rng.normal(size=(50, 2))).score_samples(X)).all()


def learned_by(model: Any, X: Any) -> Any:
    return model.partial_fit(X) if len(X) else model


@pytest.mark.parametrize("case", sorted({*CASES} - {"classifier, by age", "mixture"}))
def test_models_of_one_start_add_as_others_do(case, rng):
    start, parts, _ = parts_of(lambda: CASES[case]().set_params(scale=False), rng)
    X = rows(rng, 50)[AB].to_numpy()
    mean = np.mean([scores(p, X) for p in parts], axis=0)
    assert np.allclose(scores(merge(parts, start=start), X), mean, atol=1e-9)


def test_moments_are_those_of_all_rows_once(rng):
    make = lambda: KernelClassifier(rule=rules.Norma(memory=1e9))
    start, parts, frames = parts_of(make, rng)
    moments = merge(parts, start=start)._learner.moments
    X = pd.concat(frames)[AB].to_numpy()
    assert np.all(moments.seen == len(X))
    assert np.allclose(moments.mean, X.mean(axis=0), rtol=1e-12)
    assert np.allclose(moments.variance, X.var(axis=0), rtol=1e-12)


def test_moments_that_forget_count_what_is_left_of_the_start_once(rng):
    """Ten rows of memory: of the start nothing is left after hundreds."""
    make = lambda: LinearRegressor(rule=rules.Norma(learning_rate=0.1, memory=10))
    start = learn_rows(make(), rows(rng, 100).assign(a=lambda f: f["a"] + 1000.0))
    parts = [learn_rows(copy.deepcopy(start), rows(rng, 300)) for _ in range(3)]
    apart = np.mean([p._learner.moments.mean for p in parts], axis=0)
    assert np.allclose(merge(parts, start=start)._learner.moments.mean, apart, atol=1e-6)


def test_terms_of_the_start_are_joined_and_keep_their_age(rng):
    make = lambda: KernelClassifier(expansion=expansions.Window(age=400))
    start, parts, _ = parts_of(make, rng)
    whole = merge(parts, start=start)
    assert whole.merge_report_.terms_dropped == 0  # of 310 trials none is older than 400
    new = sum(p.n_terms_ - start.n_terms_ for p in parts)
    assert whole.n_terms_ == start.n_terms_ + new
    births = whole._learner.terms.births_from(0, whole.n_terms_)
    old = start._learner.terms.births_from(0, start.n_terms_)
    assert np.array_equal(births[: len(old)], old)
    assert np.all(np.diff(births) > 0) and births[-1] <= whole.t_
    assert files.loads(files.dumps(whole)).n_terms_ == whole.n_terms_


def test_rows_learned_again_in_many_rounds_stay_one_term(rng):
    """Births must stay distinct, or the model could be saved but not loaded."""
    frame, model = rows(rng, 600), KernelClassifier()
    reading = Reading(features=("a", "b"), target="y")
    for _ in range(4):
        sent = files.dumps(model)
        parts = [learned(j, [frame.iloc[j::20]], sent, reading, "examples") for j in range(20)]
        model = mixed_in_turns(parts, model, {})[1]
    assert model.t_ == 2400
    assert model.n_terms_ < 1.1 * len(frame)


@pytest.mark.parametrize("wrong", ["kind", "ahead", "settings", "fresh"])
def test_a_start_that_cannot_be_one_is_refused(wrong, rng):
    start, parts, frames = parts_of(KernelClassifier, rng)
    given, said = {
        "kind": (KernelRegressor(), "has not learned"),
        "ahead": (learn_rows(copy.deepcopy(start), pd.concat([frames[1]] * 5)), "only 160"),
        "settings": (learn_rows(KernelClassifier(scale=False), frames[0]), "differ in scale"),
        "fresh": (KernelClassifier(), "has not learned"),
    }[wrong]
    with pytest.raises((ValueError, TypeError), match=said):
        merge(parts, start=given)
