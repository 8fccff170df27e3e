"""Mixtures explained: through their members, each of which is what it is alone."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from helpers.fingerprint import fingerprint
from naive import explain as naive
from naive import kernels as naive_kernels

from onkel import (
    Classifier,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    Regressor,
    expansions,
    kernels,
    losses,
    rules,
)

RULE = rules.Norma(learning_rate=0.3, memory=4000)
WIDE, NARROW, GAUSS = kernels.Laplacian(0.25), kernels.Laplacian(1.0), kernels.Gaussian(0.5)
ADDITIVE = kernels.Additive(kernels.Exponential(0.8), weights="mean")


def stream(rng, n=300):
    X = rng.normal(size=(n, 3)) * [1.0, 0.5, 2.0] + [0.0, 10.0, -1.0]
    return X, np.sin(2 * X[:, 0]) + X[:, 2] / 2 + 0.1 * rng.normal(size=n)


def classifiers(**more):
    return [
        KernelClassifier(NARROW, rule=RULE, **more),
        KernelClassifier(WIDE, "logistic", RULE, **more),
        KernelClassifier(NARROW, rule=rules.Norma(0.1, memory=4000), **more),
        LinearClassifier(rule=RULE),
        KernelClassifier(kernels.Polynomial(2), rule="alma"),
    ]


def regressors(**more):
    return [
        KernelRegressor(GAUSS, "squared", RULE, **more),
        KernelRegressor(WIDE, "absolute", RULE, fit_intercept=True, **more),
        KernelRegressor(ADDITIVE, rule=RULE, **more),
        LinearRegressor(rule=RULE),
    ]


def by_name(why):
    return {f.name: f.effect for f in why.features}


def test_regressors_effects_are_those_of_blending_the_rest(rng):
    X, y = stream(rng)
    Y = np.column_stack([y, 1000 * y + X[:, 1]])
    model = Regressor(regressors()).partial_fit(X, Y)
    alone = [copy.copy(m).partial_fit(X, Y) for m in regressors()]
    for target in (0, 1):
        why = model.explain(X[7], target=target)
        each = [m.explain(X[7], target=target) for m in alone]
        assert why.score == pytest.approx(model.predict(X[7:8])[0, target])
        scores = model._learner.answers(X[7:8])
        for j in range(3):
            rest = scores.copy()
            rest[0, :, target] -= [by_name(e)[f"feature {j}"] for e in each]
            want = why.score - model._learner.blended(rest)[0, target]
            assert by_name(why)[f"feature {j}"] == pytest.approx(want, rel=1e-6, abs=1e-8)
        np.testing.assert_allclose([v.score for v in why.members], [e.score for e in each])
        low, high = (a[0, target] for a in model.predict_interval(X[7:8]))
        assert why.interval == pytest.approx((low, high))
    assert why.method == "several"


def test_points_of_the_ring_add_up(rng):
    """All terms' parts and the base are what the mixture says."""
    X, y = stream(rng)
    model = Regressor(regressors()).partial_fit(X, y)
    why = model.explain(X[3], top=10**6)
    assert why.base + sum(t.part for t in why.terms) == pytest.approx(why.score)
    assert sum(t.share for t in why.terms) == pytest.approx(1.0)
    ring = [t for t in why.terms if t.age == 5]
    assert ring and all(np.allclose(t.values, X[300 - 5 - 1]) for t in ring)
    assert why.terms_stored == model.n_terms_
    assert {f.name for f in why.features if f.usual} == {"feature 0", "feature 1", "feature 2"}


def test_classifiers_effects_are_those_of_blending_the_rest(rng):
    X, y = stream(rng)
    y = np.where(y > 0, 1, -1)  # one output for both
    model = Classifier(members=classifiers()).partial_fit(X, y)
    alone = [copy.copy(m).partial_fit(X, y) for m in classifiers()]
    why = model.explain(X[7])
    decision = model.decision_function(X[7:8])[0]
    side = np.sign(decision)
    assert why.label == model.predict(X[7:8])[0] and why.score == pytest.approx(abs(decision))
    scores, lost = np.empty(5), np.empty((3, 5))
    for i, member in enumerate(alone):
        each = member.explain(X[7])
        own = np.sign(member.decision_function(X[7:8])[0])
        scores[i] = own * each.score
        lost[:, i] = [own * by_name(each)[f"feature {j}"] for j in range(3)]
        assert why.members[i].says == member.predict(X[7:8])[0]
        assert why.members[i].score == pytest.approx(side * scores[i])
        assert why.members[i].weight == model.weights_[i]
    for j in range(3):
        rest = model._learner.blended((scores - lost[j])[None, :, None])[0, 0]
        assert by_name(why)[f"feature {j}"] == pytest.approx(side * (decision - rest), abs=1e-8)


def test_one_member_is_the_model_alone_against_plain_loops(rng):
    X, y = stream(rng, 60)
    model = Regressor([KernelRegressor(GAUSS, rule=RULE, scale=False)] * 2).partial_fit(X, y)
    bank = model._learner.main
    raw, a = bank.terms.raw_rows(), bank.coefficients()[0][:, 0]
    why, kernel = model.explain(X[2]), naive_kernels.gaussian(0.5)
    terms = list(zip(a, raw, strict=True))
    base = float(bank.coefficients()[1][0])
    assert why.method == "leave one out"
    assert why.score == pytest.approx(naive.score(kernel, X[2], terms, base))
    for j in range(3):
        rest = naive.without(kernel, X[2], terms, j, base)
        assert by_name(why)[f"feature {j}"] == pytest.approx(why.score - rest, abs=1e-9)


def test_several_classes_names_and_gaps(rng):
    pd = pytest.importorskip("pandas")
    X, y = stream(rng)
    labels = np.digitize(y, [-0.7, 0.0, 0.7])
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).mask(rng.random(X.shape) < 0.05)
    model = Classifier(missing="mean").partial_fit(frame, labels)
    row = frame.iloc[0].copy()
    row["b"] = np.nan
    why = model.explain(row)
    assert {f.name for f in why.features} == {"a", "b", "c"}
    scores = model.decision_function(row.to_frame().T.astype(float))[0]
    assert why.label == np.argmax(scores) and why.score == pytest.approx(
        np.diff(np.sort(scores))[-1]
    )
    assert len(why.members) == len(model.weights_)


def test_sentence_dict_and_nothing_changed(rng):
    X, y = stream(rng)
    for model, target in ((Classifier(), y > 0), (Regressor(), y)):
        model.partial_fit(X, target)
        before = fingerprint(vars(model))
        why = model.explain(X[0], top=2)
        assert fingerprint(vars(model)) == before
        assert "; carried by " in str(why) and "mostly through feature" in str(why)
        told = json.loads(json.dumps(why.to_dict()))
        assert len(told["members"]) == len(model.weights_) and told["sentence"] == str(why)
        assert len(why.terms) == 2
    first = max(why.members, key=lambda v: v.weight)
    assert first.in_words() in str(why)
    assert "members" not in KernelRegressor().fit(X, y).explain(X[0]).to_dict()


def test_centres_and_linear_members_alone(rng):
    X, y = stream(rng)
    centres = KernelClassifier(expansion=expansions.Centers(X[:9]), loss="logistic")
    model = Classifier(members=[centres, LinearClassifier()]).partial_fit(X, y > 0)
    why = model.explain(X[0])
    assert {t.age for t in why.terms} == {None} and len(why.features) == 3
    linear = Regressor([LinearRegressor(), LinearRegressor(losses.Squared())]).partial_fit(X, y)
    why = linear.explain(X[0])
    assert why.method == "split" and why.terms == ()
    assert why.base == pytest.approx(why.score)


def test_a_mixture_that_knows_no_class_is_explained_as_its_members_are(rng):
    """Rows of weight 0 bring none."""
    X, y = stream(rng)
    model = Classifier().partial_fit(X, y > 0, sample_weight=np.zeros(len(X)))
    why = model.explain(X[0])
    assert why.label is None and str(why).startswith("No class") and why.terms == ()
    assert {f.effect for f in why.features} == {0.0} and {v.says for v in why.members} == {None}


def test_texts(rng):
    texts = ["abab", "cdcd", "abba", "dcdc", "abcd", "dcba"] * 10
    y = ["ab" if t.startswith("ab") else "cd" for t in texts]
    members = [KernelClassifier(kernels.Spectrum(n)) for n in (1, 2)]
    model = Classifier(members=members).partial_fit(texts, y)
    why = model.explain("abab")
    assert why.label == "ab" and {"a", "b", "ab", "ba"} == {f.name for f in why.features}
    assert why.terms and why.members[1].says == "ab"
    assert "carried by KernelClassifier(kernel=Spectrum" in str(why)


def test_what_is_refused(rng):
    X, y = stream(rng)
    model = Regressor().partial_fit(X, y)
    with pytest.raises(ValueError, match="explain takes one row"):
        model.explain(X[:2])
    with pytest.raises(ValueError, match="target must be"):
        model.explain(X[0], target=1)
    with pytest.raises(ValueError, match="top must be"):
        Classifier().partial_fit(X, y > 0).explain(X[0], top=0)
    with pytest.raises(ValueError, match="not fitted"):
        Classifier().explain(X[0])
