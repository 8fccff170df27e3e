"""Merged mixtures: members add as single models do, weights by their logarithms, counts add."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers.fingerprint import fingerprint

from onkel import (
    Classifier,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    Regressor,
    expansions,
    files,
    kernels,
    losses,
    merge,
    rules,
)
from onkel.learner import Bank
from onkel.spark import mixing

WIDE, NARROW, GAUSS = kernels.Laplacian(0.25), kernels.Laplacian(1.0), kernels.Gaussian(0.5)
MIXTURES = {"classification": Classifier, "regression": Regressor}
SHARES = np.array([0.5, 0.2, 0.3])


def bank(task, memory=4000, **more):
    rule = rules.Norma(learning_rate=0.3, memory=memory)
    if task == "classification":
        return [
            KernelClassifier(NARROW, rule=rule, **more),
            KernelClassifier(WIDE, rule="projection", **more),
            KernelClassifier(GAUSS, losses.SoftMargin(nu=0.1), rule, **more),
            LinearClassifier(rule=rule, scale=more.get("scale", True)),
            KernelClassifier(rule="alma", scale=more.get("scale", True)),
        ]
    return [
        KernelRegressor(WIDE, "squared", rule, **more),
        KernelRegressor(NARROW, losses.Huber(nu=0.2), rule, fit_intercept=True, **more),
        LinearRegressor(rule=rule, scale=more.get("scale", True)),
    ]


def stream(rng, task, n):
    X = rng.normal(size=(n, 3)) * [1.0, 2.0, 0.5]
    z = np.sin(2 * X[:, 0]) + X[:, 1] / 3 + 0.1 * rng.normal(size=n)
    return X, z if task == "regression" else (z > 0).astype(int)


def learned(rng, task, make, rows=(200, 300, 120), **how):
    return [make().partial_fit(*stream(rng, task, n), **how) for n in rows]


@pytest.mark.few
@pytest.mark.parametrize("task", MIXTURES)
@pytest.mark.parametrize("scale", [True, False])
def test_members_add_as_they_do_alone(rng, task, scale):
    """Every member of the merged mixture is the merge of that member by itself."""
    streams = [stream(rng, task, n) for n in (200, 300, 120)]
    parts = [MIXTURES[task](members=bank(task, scale=scale)).partial_fit(*s) for s in streams]
    before = [fingerprint(vars(p)) for p in parts]
    whole = merge(parts, SHARES)
    assert [fingerprint(vars(p)) for p in parts] == before
    assert any(isinstance(p, Bank) for p, _ in whole._learner.parts)
    rows = stream(rng, task, 40)[0]
    scores = whole._learner.answers(rows)
    for i, member in enumerate(bank(task, scale=scale)):
        alone = merge([copy.copy(member).partial_fit(*s) for s in streams], SHARES)
        np.testing.assert_allclose(scores[:, i], alone._learner.scores(rows), atol=1e-8)
        told = whole._learner.parts
        limits = {}
        for part, held in told:
            limits |= dict(zip(held, part.limits().reshape(len(held), -1), strict=True))
        np.testing.assert_allclose(limits[i], alone._learner.limits(), atol=1e-8)
    if not scale:
        asked = np.einsum("j,jtmc->tmc", SHARES, [p._learner.answers(rows) for p in parts])
        np.testing.assert_allclose(scores, asked, atol=1e-9)


def experts(model):
    """The weights that move: of members, and of experts made of them."""
    return model._learner.blend.weights


@pytest.mark.parametrize("task", MIXTURES)
def test_weights_counts_and_report(rng, task):
    parts = learned(rng, task, MIXTURES[task])
    whole = merge(parts, SHARES)
    found, *own = (experts(m) for m in (whole, *parts))
    logs = SHARES @ np.log(own)
    np.testing.assert_allclose(found, np.exp(logs) / np.exp(logs).sum(), rtol=1e-9)
    told = [p.diagnostics_ for p in parts]
    d = whole.diagnostics_
    assert whole.t_ == d["trials"] == 620
    np.testing.assert_allclose(d["losses"], np.sum([t["losses"] for t in told], axis=0))
    assert d["loss"] == pytest.approx(sum(t["loss"] for t in told))
    assert d["regret_bound"] is None and d["regret_promise"] is None
    report = whole.merge_report_
    assert report.models == 3 and report.terms == whole.n_terms_
    assert report.terms_before - report.terms_joined - report.terms_dropped == report.terms
    assert report.bound == (0.0,) * len(report.bound)
    if task == "classification":
        assert d["mistakes"] == sum(t["mistakes"] for t in told)
        counts = [p.class_count_ for p in parts]
        assert whole.class_count_ == {k: sum(c[k] for c in counts) for k in (0, 1)}
    else:
        missed = sum(t["rate_realised"] * t["trials"] for t in told)
        assert d["rate_realised"] * 620 == pytest.approx(missed)
        assert d["rate_error_term"] == pytest.approx(d["rate_realised"] - 0.1)
    assert merge([parts[0]]).weights_ == pytest.approx(parts[0].weights_)
    np.testing.assert_allclose(
        merge([parts[0]])._learner.scores(np.zeros((1, 3))),
        parts[0]._learner.scores(np.zeros((1, 3))), atol=1e-9,
    )  # fmt: skip


@pytest.mark.parametrize("task", MIXTURES)
def test_merged_mixtures_go_on_and_are_saved(rng, task):
    whole = merge(learned(rng, task, MIXTURES[task]))
    again = files.loads(files.dumps(whole))
    X, y = stream(rng, task, 400)
    found = [m.predict_then_learn(X, y) for m in (whole, again)]
    assert np.array_equal(*found)
    assert whole.t_ == 1020
    good = np.mean(found[0] == y) if task == "classification" else whole.score(X, y)
    assert good > 0.8
    if task == "regression":
        d = whole.diagnostics_
        assert d["rate_error_term"] == pytest.approx(d["rate_realised"] - 0.1)


@pytest.mark.parametrize("task", MIXTURES)
def test_a_common_start_counts_once(rng, task):
    before = MIXTURES[task]().partial_fit(*stream(rng, task, 150))
    parts = [copy.copy(before).partial_fit(*stream(rng, task, 100)) for _ in range(3)]
    whole = merge(parts, start=before)
    assert whole.t_ == whole.diagnostics_["trials"] == 450
    losses = np.sum([p.diagnostics_["losses"] for p in parts], axis=0)
    want = losses - 2 * np.array(before.diagnostics_["losses"])
    np.testing.assert_allclose(whole.diagnostics_["losses"], want)
    same = merge([copy.copy(before) for _ in range(3)], start=before)
    rows = stream(rng, task, 20)[0]
    np.testing.assert_allclose(same._learner.scores(rows), before._learner.scores(rows), atol=1e-8)
    np.testing.assert_allclose(same.weights_, before.weights_)
    assert same.t_ == before.t_ and same.n_terms_ == before.n_terms_
    if task == "regression":
        d = whole.diagnostics_
        assert d["rate_error_term"] == pytest.approx(d["rate_realised"] - 0.1)
        assert same.diagnostics_["rate_realised"] == before.diagnostics_["rate_realised"]


def test_late_classes_are_united(rng):
    X, _ = stream(rng, "classification", 300)
    first = Classifier(bank("classification")).partial_fit(
        X[:150], np.where(X[:150, 0] > 0, "a", "b")
    )
    other = Classifier(bank("classification")).partial_fit(
        X[150:], np.array(["c", "a", "b"])[np.digitize(X[150:, 0], [-0.5, 0.5])]
    )
    whole = merge([first, other])
    assert whole.classes_.tolist() == ["a", "b", "c"]
    for i, member in enumerate(bank("classification")):
        alone = merge([
            copy.copy(member).partial_fit(X[:150], np.where(X[:150, 0] > 0, "a", "b")),
            copy.copy(member).partial_fit(
                X[150:], np.array(["c", "a", "b"])[np.digitize(X[150:, 0], [-0.5, 0.5])]
            ),
        ])  # fmt: skip
        scores = whole._learner.answers(X[:20])[:, i]
        np.testing.assert_allclose(scores, alone._learner.scores(X[:20]), atol=1e-8)
    whole.partial_fit(X[:5], ["d"] * 5)
    assert whole.classes_.tolist() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("task", MIXTURES)
def test_a_full_ring(rng, task):
    """What the ring cannot hold is handed over; the bound is that of the member worst off."""
    window = expansions.Window(terms=60)
    members = [m for m in bank(task, scale=False) if hasattr(m, "expansion")][:2]
    members = [type(m)(**{**m.get_params(deep=False), "expansion": window}) for m in members]
    parts = learned(rng, task, lambda: MIXTURES[task](members=members))
    rows = stream(rng, task, 60)[0]
    asked = np.mean([p._learner.answers(rows) for p in parts], axis=0)
    bounds = []
    for refit in (True, False):
        whole = merge(parts, refit=refit)
        assert whole.n_terms_ < 60 and whole.merge_report_.terms_dropped > 0
        bounds.append(whole.merge_report_.bound[0])
        gap = np.abs(whole._learner.answers(rows) - asked)
        assert gap.max() <= bounds[-1] * (1 + 1e-6) + 1e-9
        files.loads(files.dumps(whole)).partial_fit(*stream(rng, task, 100))
    assert 0 < bounds[0] <= bounds[1]


@pytest.mark.parametrize("task", MIXTURES)
def test_by_the_clock_all_are_brought_to_the_latest_time(rng, task):
    members = [m for m in bank(task, memory="1h") if getattr(m, "rule", "") != "alma"]
    streams = [stream(rng, task, 100) for _ in range(2)]
    times = [np.arange(100) * 60.0, 5000 + np.arange(100) * 60.0]
    parts = [
        MIXTURES[task](members=members).partial_fit(*s, time=t)
        for s, t in zip(streams, times, strict=True)
    ]
    whole = merge(parts)
    assert whole._learner.clock == times[1][-1]
    rows = stream(rng, task, 20)[0]
    scores = whole._learner.answers(rows)
    for i, member in enumerate(members):
        how = [{"time": t} for t in times] if member.forgets_by_clock() else [{}, {}]
        alone = merge([
            copy.copy(member).partial_fit(*s, **h) for s, h in zip(streams, how, strict=True)
        ])  # fmt: skip
        if member.forgets_by_clock():  # others see the ring's frame, which goes by the clock
            np.testing.assert_allclose(scores[:, i], alone._learner.scores(rows), atol=1e-8)
    whole.partial_fit(*stream(rng, task, 10), time=times[1][-1] + np.arange(10))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Classifier(share=0.1), "differ in share: model 0 has 0.001, model 1 has 0.1"),
        (lambda: Classifier([KernelClassifier()]), "differ in the number of members"),
        (lambda: Classifier(memory=500), r"differ in members\[1\].rule__memory"),
        (lambda: Classifier(missing="mean"), r"differ in members\[0\].missing"),
        (lambda: KernelClassifier(), "must be of one class"),
    ],
)
def test_what_cannot_be_merged(rng, make, words):
    X, y = stream(rng, "classification", 50)
    first, other = Classifier().partial_fit(X, y), make().partial_fit(X, y)
    before = fingerprint(vars(first))
    with pytest.raises((ValueError, TypeError), match=words):
        merge([first, other])
    assert fingerprint(vars(first)) == before
    regressors = [Regressor(nu=nu).partial_fit(X, X[:, 0]) for nu in (0.1, 0.2)]
    with pytest.raises(ValueError, match=r"differ in nu: model 0 has 0\.1, model 1 has 0\.2"):
        merge(regressors)


@pytest.mark.parametrize("task", MIXTURES)
def test_parts_of_partitions_become_one(rng, task):
    """As Spark merges them: a tree of parts, from a start."""
    pd = pytest.importorskip("pandas")
    reading = mixing.Reading(features=("a", "b", "c"), target="y")
    start = MIXTURES[task](members=bank(task))
    for _ in range(2):
        parts = []
        for j in range(11):
            X, y = stream(rng, task, 60)
            frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y)
            parts.append(mixing.learned(j, [frame], files.dumps(start), reading, "examples"))
        told, whole = mixing.mixed_in_turns(parts, start, {})
        assert told.examples == 660
        start = whole
    assert whole.t_ == 1320
    X, y = stream(rng, task, 300)
    assert whole.score(X, y) > 0.7
