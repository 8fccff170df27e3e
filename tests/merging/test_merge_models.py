"""onkel.merge on estimators: what adds, for each task, class and expansion."""

from __future__ import annotations

import pickle

import naive
import numpy as np
import pytest
from helpers.merge_models import fitted, labels, rows, two

from onkel import (
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    NoveltyDetector,
    expansions,
    kernels,
    losses,
    merge,
    rules,
)
from onkel.core.layout import Field

# -- the sum -----------------------------------------------------------------------------------


def test_weights_are_one_nth_each_unless_given(rng):
    models, X = two(rng), rows(rng)
    each = [m.decision_function(X) for m in models]
    assert np.allclose(merge(models).decision_function(X), sum(each) / 2, atol=1e-12)
    whole = merge(models, weights=[2, np.float32(0.5)])
    assert np.allclose(whole.decision_function(X), 2 * each[0] + 0.5 * each[1], atol=1e-12)
    report = whole.merge_report_
    assert report.models == 2 and report.weights == (2.0, 0.5)
    assert report.bound == (0.0,) and report.change is None
    assert report.terms == whole.n_terms_ == report.terms_before == sum(m.n_terms_ for m in models)


def test_inputs_stay_and_the_result_is_independent(rng):
    models, X = two(rng, n=200), rows(rng)
    before = [pickle.dumps(m) for m in models]
    whole = merge(models)
    shown = whole.decision_function(X)
    fitted(whole, rng)
    whole.learn_one(X[0], 1)
    assert [pickle.dumps(m) for m in models] == before
    whole = merge(models)
    for m in models:
        fitted(m, rng)
    assert np.array_equal(whole.decision_function(X), shown)


@pytest.mark.parametrize("make", [
    KernelClassifier, LinearClassifier,
    lambda: KernelClassifier(average=True), lambda: KernelClassifier(rule="alma"),
    lambda: KernelClassifier(
        kernels.Additive(kernels.Exponential()), expansion=expansions.Tree(terms=30)
    ),
])  # fmt: skip
def test_one_model_alone_is_itself(make, rng):
    model = fitted(make(), rng, 150)
    whole, X = merge([model]), rows(rng)
    close = {"rtol": 1e-12, "atol": 1e-12}
    assert np.allclose(whole.decision_function(X), model.decision_function(X), **close)
    assert whole.merge_report_.change is None and whole.merge_report_.bound == (0.0,)
    ours, theirs = whole.diagnostics_, model.diagnostics_
    for name in ("t", "terms", "mistakes", "updates", "loss", "scale", "truncation_promise"):
        assert ours[name] == theirs[name], name
    for name in ("offset", "threshold", "truncation_bound"):
        assert np.isclose(ours[name], theirs[name], rtol=1e-12), name
    Z = rows(rng, 300)
    later = [m.predict_then_learn(Z, labels(Z), output="decision") for m in (whole, model)]
    assert np.allclose(*later, atol=1e-9)


def test_order_does_not_matter_and_brackets_do_not(rng):
    a, b, c = (fitted(KernelClassifier(rule="romma", scale=False), rng, n) for n in (50, 70, 90))
    X = rows(rng)
    ways = [
        merge([a, b, c]),
        merge([c, a, b]),
        merge([merge([a, b]), c], weights=[2 / 3, 1 / 3]),
    ]
    for way in ways:
        assert np.allclose(way.decision_function(X), ways[0].decision_function(X), atol=1e-12)
        assert np.isclose(way.diagnostics_["norm"], ways[0].diagnostics_["norm"], rtol=1e-9)
        assert way.t_ == 210 and way.diagnostics_["mistakes"] == ways[0].diagnostics_["mistakes"]


def test_running_scales_pool_in_any_order(rng):
    a, b, c = (fitted(KernelClassifier(), rng, n) for n in (50, 70, 90))
    X = rows(rng)
    ways = [merge([a, b, c]), merge([c, b, a]), merge([merge([a, b]), c], weights=[2 / 3, 1 / 3])]
    for way in ways:
        assert np.allclose(way.decision_function(X), ways[0].decision_function(X), atol=1e-9)
        assert np.allclose(
            way.diagnostics_["scale"]["means"], ways[0].diagnostics_["scale"]["means"]
        )


def test_a_merged_model_survives_pickling_and_goes_on(rng):
    whole = merge([fitted(KernelClassifier(), rng, n) for n in (100, 130)])
    again = pickle.loads(pickle.dumps(whole))
    assert again.merge_report_ == whole.merge_report_
    X = rows(rng, 50)
    for m in (whole, again):
        m.partial_fit(X, labels(X))
    assert np.array_equal(whole.decision_function(X), again.decision_function(X))
    assert "merge_report_" not in vars(whole.fit(X, labels(X)))


def test_single_rows_and_blocks_agree_after_a_merge(rng):
    models = [fitted(KernelClassifier(), rng, n) for n in (100, 130)]
    one, block, X = merge(models), merge(models), rows(rng, 80)
    for x, y in zip(X, labels(X), strict=True):
        one.learn_one(x, y)
    block.partial_fit(X, labels(X))
    assert np.allclose(one.decision_function(X), block.decision_function(X), atol=1e-9)
    assert one.t_ == block.t_ == 310


def test_a_weight_of_0_leaves_f_out_but_counts(rng):
    models, X = two(rng), rows(rng)
    whole = merge(models, weights=[0.0, 1.0])
    assert np.allclose(whole.decision_function(X), models[1].decision_function(X), atol=1e-12)
    assert whole.n_terms_ == models[1].n_terms_ and whole.t_ == 180


def test_a_model_that_saw_no_row_adds_nothing(rng):
    X = rows(rng)
    empty = KernelClassifier().partial_fit(X[:0], np.zeros(0, int), classes=[-1, 1])
    model = fitted(KernelClassifier(), rng)
    for models in ([empty, model], [model, empty]):
        whole = merge(models, weights=[1, 1])
        assert np.allclose(whole.decision_function(X), model.decision_function(X), atol=1e-12)
        fitted(whole, rng)
    assert merge([empty, empty]).decision_function(X).tolist() == [0.0] * len(X)


# -- tasks -------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [False, True])
def test_intervals_of_a_regressor_are_averaged(scale, rng):
    X = rows(rng, 200)
    loss = losses.EpsilonInsensitive(nu=0.2)
    a = KernelRegressor(loss=loss, scale=scale).partial_fit(X, X[:, 0])
    b = KernelRegressor(loss=loss, scale=scale).partial_fit(X, 3 * X[:, 1] + 2)

    def half(model):
        low, high = model.predict_interval(X[:1])
        return float(high[0] - low[0]) / 2

    mean = 0.25 * a.predict(X) + 0.75 * b.predict(X)
    whole = merge([a, b], weights=[0.25, 0.75])
    assert np.allclose(whole.predict(X), mean, atol=1e-9)
    assert np.isclose(half(whole), 0.25 * half(a) + 0.75 * half(b))
    double = merge([a, b], weights=[0.5, 1.5])
    assert np.allclose(double.predict(X), 2 * mean, atol=1e-9)
    assert np.isclose(half(double), half(whole))


def test_several_targets_add(rng):
    X = rows(rng, 80)
    a, b = (KernelRegressor().partial_fit(X, np.stack([X[:, i], -X[:, 1]], axis=1)) for i in (0, 2))
    whole = merge([a, b])
    assert np.allclose(whole.predict(X), (a.predict(X) + b.predict(X)) / 2, atol=1e-9)
    assert len(whole.merge_report_.bound) == 2
    flat = KernelRegressor().partial_fit(X, X[:, 0])
    with pytest.raises(ValueError, match="the number of targets: model 0 has 2, model 1 has 1"):
        merge([a, flat])


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("weights", [None, [2.0, 0.5]])
def test_a_detectors_threshold_adds_as_its_score(weights, average, rng):
    a, b = (
        NoveltyDetector(nu=0.1, scale=False, average=average).partial_fit(rows(rng, n))
        for n in (300, 500)
    )
    w = [0.5, 0.5] if weights is None else weights
    whole, X = merge([a, b], weights), rows(rng)
    assert np.isclose(whole.threshold_, w[0] * a.threshold_ + w[1] * b.threshold_)
    decision = w[0] * a.decision_function(X) + w[1] * b.decision_function(X)
    assert np.allclose(whole.decision_function(X), decision, atol=1e-12)
    alerts = [m.diagnostics_["rate_realised"] * m.t_ for m in (a, b, whole)]
    assert np.isclose(alerts[2], alerts[0] + alerts[1])
    d = whole.diagnostics_
    assert np.isclose(d["rate_realised"], d["rate_promised"] + d["rate_error_term"])


def test_detectors_keep_their_rate_after_a_merge(rng):
    parts = [NoveltyDetector(nu=0.05).partial_fit(rows(rng, 2000)) for _ in range(4)]
    alerts = merge(parts).predict_then_learn(rows(rng, 2000)) == -1
    assert abs(alerts.mean() - 0.05) < 0.005


def test_promises_of_a_single_run_are_not_repeated(rng):
    rule = rules.Norma(learning_rate=0.4, memory=50)
    models = two(rng, rule=rule, expansion=expansions.Window(age=30))
    assert models[0].diagnostics_["truncation_promise"] is not None
    assert merge(models).diagnostics_["truncation_promise"] is None
    assert merge(models[:1]).diagnostics_["truncation_promise"] is not None


def test_self_tuning_goes_on_at_the_sum_of_updates(rng):
    models = two(rng, rule="alma")
    whole = merge(models)
    learner = whole._learner
    updates = sum(m.diagnostics_["updates"] for m in models)
    assert whole.diagnostics_["updates"] == updates
    assert learner.state[0, Field.THRESHOLD] == learner.rule.margin(updates + 1)


# -- classes -----------------------------------------------------------------------------------


def scores_of(model, X):
    """Score of each class, as a dictionary; two classes that share an output are opposites."""
    if model._classes.binary:
        shown = model.decision_function(X)
        return dict(zip(model.classes_.tolist(), (-shown, shown), strict=True))
    scores = model._learner.scores(np.asarray(X)).T
    return dict(zip(model._classes.labels, scores, strict=True))


def learned(rng, names, n=60, **params):
    X = rows(rng, n)
    y = np.array(names, dtype=object)[np.arange(n) % len(names)]
    return KernelClassifier(scale=False).partial_fit(X, y if names else y[:0], **params)


@pytest.mark.parametrize(("first", "second"), [
    (["a", "b", "c"], ["b", "c", "d"]),  # one output per class on both sides
    (["a", "b", "c"], ["c", "a", "b"]),  # the same, seen in another order
    ([0, 1], [0, 1, 2]),                 # one shared output beside one per class
    ([0, 1], [-1, 1]),                   # two binary problems with three classes together
    ([0, 1], ["x", "y"]),
    ([1, 0], [0, 1]),
])  # fmt: skip
def test_classes_are_united(first, second, rng):
    a, b = learned(rng, first), learned(rng, second, n=90)
    whole, X = merge([a, b], weights=[0.3, 0.7]), rows(rng)
    assert set(whole.classes_.tolist()) == {*first, *second}
    expected = {
        label: 0.3 * scores_of(a, X).get(label, 0.0) + 0.7 * scores_of(b, X).get(label, 0.0)
        for label in whole.classes_.tolist()
    }
    for label, score in scores_of(whole, X).items():
        assert np.allclose(score, expected[label], atol=1e-12), label
    counts = {v: a.class_count_.get(v, 0) + b.class_count_.get(v, 0) for v in expected}
    assert whole.class_count_ == counts
    mistakes = [m.diagnostics_["mistakes"] for m in (a, b, whole)]
    assert mistakes[2] == mistakes[0] + mistakes[1]
    whole.partial_fit(X, np.array([*first, "new"], object)[np.arange(len(X)) % (len(first) + 1)])
    assert "new" in whole.classes_.tolist()
    assert len(whole.predict(X)) == len(X)


def test_each_may_know_one_side_only(rng):
    X = rows(rng)
    ones = KernelClassifier(scale=False).partial_fit(X, np.ones(len(X), int))
    zeros = KernelClassifier(scale=False).partial_fit(X + 5, np.zeros(len(X), int))
    for models in ([ones, zeros], [zeros, ones]):
        whole = merge(models)
        assert whole.classes_.tolist() == [0, 1] and whole._learner.columns == 1
        assert whole.score(np.concatenate([X, X + 5]), np.repeat([1, 0], len(X))) > 0.8


def test_two_named_classes_beside_two_late_ones(rng):
    X = rows(rng)
    y = np.where(labels(X) > 0, "p", "n")
    named = KernelClassifier(scale=False).fit(X, y)
    late = KernelClassifier(scale=False).partial_fit(X, y)
    assert named._learner.columns == 1 and late._learner.columns == 2
    for models in ([named, late], [late, named]):
        mean = (named.decision_function(X) + late.decision_function(X)) / 2
        assert np.allclose(merge(models).decision_function(X), mean, atol=1e-12)


def test_probabilities_come_from_the_sum(rng):
    models, X = two(rng, loss="logistic"), rows(rng)
    whole = merge(models)
    p = 1 / (1 + np.exp(-(models[0].decision_function(X) + models[1].decision_function(X)) / 2))
    assert np.allclose(whole.predict_proba(X)[:, 1], p)


# -- weights and centres -----------------------------------------------------------------------


def test_linear_weights_add(rng):
    a, b = (fitted(LinearClassifier(scale=False), rng, n) for n in (60, 90))
    whole = merge([a, b], weights=[0.2, 0.8])
    assert np.allclose(whole.coef_, 0.2 * a.coef_ + 0.8 * b.coef_)
    assert np.allclose(whole.intercept_, 0.2 * a.intercept_ + 0.8 * b.intercept_)


def test_under_a_link_theta_adds_and_the_bound_says_what_that_changes(rng):
    a, b = (fitted(LinearClassifier(p=6.0, scale=False), rng, n) for n in (60, 90))
    whole, X = merge([a, b]), rows(rng)
    theta = (a._learner.theta + b._learner.theta) / 2
    assert np.allclose(whole._learner.theta, theta)
    assert np.allclose(whole.coef_[0], naive.link(theta[0, :-1], 6.0))
    gap = np.abs(whole.decision_function(X) - (a.decision_function(X) + b.decision_function(X)) / 2)
    size = np.array([naive.p_norm(x, 6.0) for x in X])
    assert 0 < whole.merge_report_.bound[0] and np.all(gap <= whole.merge_report_.bound[0] * size)


def test_coefficients_of_the_same_centres_add(rng):
    points = rows(rng, 10)
    a = fitted(KernelClassifier(expansion=expansions.Centers(points), scale=False), rng)
    b = fitted(KernelClassifier(expansion=expansions.Centers(points), scale=False), rng)
    whole, X = merge([a, b]), rows(rng)
    mean = (a.decision_function(X) + b.decision_function(X)) / 2
    assert np.allclose(whole.decision_function(X), mean, atol=1e-12)
    assert np.isclose(whole.n_terms_, 10)


def test_centres_may_have_come_in_another_order(rng):
    points, X = rows(rng, 6), rows(rng)
    a, b = (
        KernelClassifier(expansion=expansions.Centers(6), scale=False)
        .partial_fit(start, labels(start)).partial_fit(X, labels(X))
        for start in (points, points[::-1])
    )  # fmt: skip
    mean = (a.decision_function(X) + b.decision_function(X)) / 2
    assert np.allclose(merge([a, b]).decision_function(X), mean, atol=1e-12)


def test_other_centres_are_refused(rng):
    a, b = (fitted(KernelClassifier(expansion=expansions.Centers(5)), rng) for _ in range(2))
    with pytest.raises(ValueError, match=r"other centres than model 0 \(0 of 5 are the same\)"):
        merge([a, b])


def test_centres_still_to_come_may_come_later(rng):
    X = rows(rng, 8)
    few = KernelClassifier(expansion=expansions.Centers(20), scale=False)
    parts = [few.partial_fit(X, labels(X)), pickle.loads(pickle.dumps(few))]
    whole = fitted(merge(parts), rng)
    assert whole.n_terms_ == 20


def test_a_merged_detector_ranks_by_its_own_scores(rng):
    X = rng.normal(size=(600, 2))
    parts = [NoveltyDetector(warmup=50).fit(X[:300]), NoveltyDetector(warmup=50).fit(X[300:])]
    whole = merge(parts)
    assert whole.recent_.count == 0
    assert whole.diagnostics_["rate_realised"] == pytest.approx(
        np.mean([part.diagnostics_["rate_realised"] for part in parts])
    )
    whole.partial_fit(X[:100])
    assert whole.recent_.count == 100


def test_of_a_model_that_is_warming_up_nothing_is_counted(rng):
    a, b = (NoveltyDetector(nu=0.1, warmup=100).partial_fit(rows(rng, n)) for n in (300, 80))
    rates = [m.diagnostics_["rate_realised"] for m in (a, merge([a, b]))]
    assert rates[0] == pytest.approx(rates[1])
    assert merge([b, b]).t_ == 160 and merge([b]).predict(rows(rng, 1) + 50)[0] == 1


def test_models_by_the_clock_go_on_from_the_latest(rng):
    X, hour = rng.normal(size=(200, 2)), 3600.0
    rule = rules.Norma(memory="1h")
    times = np.sort(rng.uniform(0, 9 * hour, 200))
    a = KernelClassifier(rule=rule, scale=False).fit(X[:80], X[:80, 0] > 0, time=times[:80])
    b = KernelClassifier(rule=rule, scale=False).fit(X[80:], X[80:, 0] > 0, time=times[80:])
    whole = merge([a, b])
    left = np.exp(-(times[-1] - times[79]) / hour)  # of a, when b saw its last row
    offset = a.diagnostics_["offset"]
    mean = (left * (a.decision_function(X) - offset) + offset + b.decision_function(X)) / 2
    np.testing.assert_allclose(whole.decision_function(X), mean, atol=1e-12)
    with pytest.raises(ValueError, match="backwards"):
        whole.learn_one(X[0], True, time=float(times[80]))
    whole.learn_one(X[0], True, time=float(times[-1]))


def test_missing_values_stand_for_the_pooled_mean(rng):
    X = rng.normal(loc=[3.0, 0.0], size=(200, 2))
    parts = [KernelClassifier(missing="mean").fit(X[i::2], X[i::2, 1] > 0) for i in range(2)]
    whole = merge(parts)
    np.testing.assert_allclose(whole._learner.means, X.mean(axis=0))
    assert np.isfinite(whole.decision_function([[np.nan, 1.0]])).all()


def test_models_without_terms_can_be_merged(rng):
    X = rng.normal(size=(6, 3))
    parts = [KernelRegressor().partial_fit(X[i : i + 3], [5.0] * 3) for i in (0, 3)]
    assert merge(parts).predict(X).tolist() == [5.0] * 6
