"""Explanations against their definitions: kernels called with one feature replaced at a time."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from helpers import cases
from naive import explain as naive
from naive import spectrum

from onkel import (
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    NoveltyDetector,
    expansions,
    kernels,
    losses,
    rules,
)
from onkel.explain.effects import method_of

ROWS = 250
LEFT_OUT = ("gaussian", "laplacian", "matern32", "matern52", "product")
SPLIT = ("linear", "additive")
SLOPES = ("polynomial", "sum", "function")


def stream(rng):
    return rng.normal(size=(ROWS, 3)) * [1.0, 0.5, 2.0] + [0.0, 10.0, -1.0]


def held(model, mix):
    """Terms, base and standardiser of a model, read off its learner by the definitions."""
    learner = model._learner
    frame = learner.frame
    if isinstance(model.expansion, expansions.Centers):
        raw, (a, b) = learner.map.points, learner.weights()
        a = a.T
    else:
        raw, s = learner.terms.raw_rows(), learner.state
        a, b = learner.terms.coefs(0, learner.size) * s[:, 0], s[:, 1]
    a = a @ (mix * learner.targets.raw_widths(np.ones(len(mix))))
    base = float(mix @ learner.targets.raw(b))
    spread = 1.0 / (frame.width * frame.unit)

    def standardise(row):
        return (row - frame.mean) / spread if model.scale else row

    return [(float(c), standardise(z)) for c, z in zip(a, raw, strict=True)], base, standardise, raw


def bits(model):
    parts = {**vars(model._learner), **vars(model._learner.terms), "recent": model.recent_}
    parts = {k: v for k, v in parts.items() if isinstance(v, (np.ndarray, int, float))}
    return pickle.dumps([parts, model.recent_])


def check(model, kernel, x, why, mix=None, tolerance=1e-7):
    """Every number of an explanation against the naive definitions."""
    mix = np.ones(1) if mix is None else mix
    terms, base, standardise, raw = held(model, mix)
    z = standardise(np.asarray(x, float))
    size = max(1.0, abs(why.score))
    assert why.score == pytest.approx(naive.score(kernel, z, terms, base), abs=tolerance * size)
    assert why.base == pytest.approx(base, abs=tolerance * size)
    truth = naive.shares(kernel, z, terms)
    assert [t.share for t in why.terms] == pytest.approx(sorted(truth)[::-1][: len(why.terms)])
    method = method_of(model._learner.kernel)
    assert why.method == method
    middle = sum(abs(a) * row for a, row in terms) / sum(abs(a) for a, _ in terms)
    for feature in why.features:
        j = int(feature.name.split()[1])
        assert feature.value == x[j]
        if method == "leave one out":
            effect = why.score - naive.without(kernel, z, terms, j, base)
        elif method == "split":
            there = z.copy()
            there[j] = middle[j]
            effect = why.score - naive.score(kernel, there, terms, base)
        else:
            effect = naive.slope(kernel, z, terms, j) * (z[j] - middle[j])
        assert feature.effect == pytest.approx(effect, abs=20 * tolerance * size)
        if feature.usual is not None:
            weight = [abs(a) for a, _ in terms]
            if method == "leave one out":
                weight = naive.usual_weights(kernel, z, terms, j)
            ends = [naive.quantile(raw[:, j].tolist(), weight, q) for q in (0.05, 0.95)]
            assert feature.usual == pytest.approx(ends, abs=1e-5 * (1 + np.abs(raw).max()))
    if method == "split":
        total = sum(f.part for f in why.features) + base
        assert total == pytest.approx(why.score, abs=tolerance * size)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("name", [n for n in cases.KERNELS])
def test_a_detectors_explanation(rng, name, scale, dtype):
    kernel, twin = cases.KERNELS[name]
    X = stream(rng).astype(dtype)
    det = NoveltyDetector(kernel=kernel, support=0.5, scale=scale).fit(X)
    assert method_of(det._learner.kernel) == (
        "leave one out" if name in LEFT_OUT else "split" if name in SPLIT else "gradient"
    )
    x = X[7] + np.array([0, 0, 3], dtype)
    before = bits(det)
    why = det.explain(x, top=3)
    assert bits(det) == before  # explaining changes nothing
    assert why.score == det.score_samples([x])[0]
    assert (why.threshold, why.alert) == (det.threshold_, why.score < det.threshold_)
    assert why.rank == det.rank_samples([x])[0]
    check(det, twin, x, why, tolerance=1e-7 if dtype == "float64" else 3e-4)
    effects = [f.effect for f in why.features]
    assert effects == sorted(effects)
    assert why.to_dict()["named"] == [f.name for f in why.features if f.outside and f.effect < 0]
    json.dumps(why.to_dict(), allow_nan=False)
    assert why.to_dict()["sentence"] == str(why) == why.sentence


@pytest.mark.parametrize("name", ["gaussian", "additive", "sum"])
def test_ages_and_values_of_terms(rng, name):
    X = stream(rng)
    det = NoveltyDetector(kernel=cases.KERNELS[name][0], support=0.5).fit(X)
    for term in det.explain(X[3], top=40).terms:
        np.testing.assert_allclose(X[ROWS - term.age - 1], term.values, rtol=1e-12)
        z = det._learner.frame.z(det._learner.frame.store(np.array([X[3], term.values])))
        k = cases.KERNELS[name][1](*z)
        assert term.likeness == pytest.approx(k, rel=1e-9)


def test_the_average_hypothesis(rng):
    X = stream(rng)
    det = NoveltyDetector(average=True, support=0.5).fit(X)
    why = det.explain(X[0] + 1, top=ROWS)
    assert why.score == pytest.approx(why.base + sum(t.part for t in why.terms), rel=1e-9)
    assert why.threshold == det.threshold_
    with_all = why.score - why.features[0].effect
    j = int(why.features[0].name.split()[1])
    a = {t.age: t.part / t.likeness for t in why.terms}
    frame = det._learner.frame
    z = frame.z(frame.store(X[0] + 1))
    gap = {t.age: (frame.z(frame.store(np.array(t.values))) - z) ** 2 for t in why.terms}
    left = sum(a[i] * np.exp(-(gap[i].sum() - gap[i][j]) / 3) for i in a)
    assert with_all == pytest.approx(left, rel=1e-9)


@pytest.mark.parametrize("expansion", ["window", "tree"])
@pytest.mark.parametrize(
    "kernel",
    [
        kernels.Additive([kernels.Exponential(0.7), kernels.Matern(1.5, 1.2), kernels.Laplacian()]),
        kernels.Additive(kernels.Exponential(2.0), weights="mean"),
    ],
)
def test_trees_split_exactly(rng, kernel, expansion):
    X = stream(rng)
    y = X[:, 0] + np.sin(X[:, 2])
    reg = KernelRegressor(kernel=kernel, expansion=expansion).fit(X, y)
    why = reg.explain(X[0])
    assert why.method == "split"
    assert sum(f.part for f in why.features) + why.base == pytest.approx(reg.predict(X[:1])[0])


def test_splines_and_one_feature(rng):
    x = rng.uniform(0, 2, size=(100, 1))
    for kernel in (kernels.Spline(2), kernels.Exponential(), 2.0 * kernels.Spline()):
        reg = KernelRegressor(kernel=kernel, scale=False, loss="squared",
                              rule=rules.Norma(learning_rate=0.05)).fit(x, x[:, 0])  # fmt: skip
        why = reg.explain(x[0])
        assert why.method == "split"
        assert why.features[0].part + why.base == pytest.approx(why.prediction)


def test_centers_have_no_age(rng):
    X = stream(rng)
    reg = KernelRegressor(kernel="gaussian", expansion=expansions.Centers(20)).fit(X, X[:, 0])
    why = reg.explain(X[0])
    check(reg, naive_gaussian(1 / 3), X[0], why)
    assert {t.age for t in why.terms} == {None}
    assert why.terms_stored == 20


def naive_gaussian(gamma):
    return lambda x, z: float(np.exp(-gamma * ((x - z) ** 2).sum()))


def test_classes(rng):
    X = stream(rng)
    pair = np.where(X[:, 0] > 0, "on", "off")
    clf = KernelClassifier(rule=rules.Norma(memory=500)).fit(X, pair)
    for x in X[:5]:
        why, decision = clf.explain(x, top=3), float(clf.decision_function([x])[0])
        assert (why.label, why.second) == (("on", "off") if decision >= 0 else ("off", "on"))
        assert why.margin == pytest.approx(abs(decision))
        check(clf, naive_gaussian(1 / 3), x, why, mix=np.array([np.sign(decision)]))
    many = np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    clf = KernelClassifier().partial_fit(X, many)
    scores = clf.decision_function(X[:4])
    for x, row in zip(X[:4], scores, strict=True):
        why, order = clf.explain(x), np.argsort(-row)
        assert [why.label, why.second] == clf.classes_[order[:2]].tolist()
        assert why.margin == pytest.approx(row[order[0]] - row[order[1]])
        mix = np.zeros(3)
        for k, sign in zip(order[:2], (1.0, -1.0), strict=True):
            mix[clf._classes.labels.index(clf.classes_[k])] = sign
        check(clf, naive_gaussian(1 / 3), x, why, mix=mix)
    late = KernelClassifier().partial_fit(X, pair)  # two classes that appeared on the way
    assert late.explain(X[0]).margin == pytest.approx(abs(late.decision_function(X[:1])[0]))


def test_few_classes(rng):
    X = stream(rng)
    one = KernelClassifier().partial_fit(X[:5], ["a"] * 5)
    assert one.explain(X[0]).second is None
    assert "'a', the only class known" in str(one.explain(X[0]))
    none = KernelClassifier().partial_fit(X[:5], [0] * 5, sample_weight=[0, 0, 0, 0, 0])
    assert none.explain(X[0]).label is None


def test_numbers_with_intervals_and_several_targets(rng):
    X = stream(rng)
    Y = np.column_stack([100 + X[:, 0], -5 * X[:, 2]])
    reg = KernelRegressor(loss=losses.EpsilonInsensitive(nu=0.1)).fit(X, Y)
    low, high = reg.predict_interval(X[:1])
    for target in (0, 1):
        why = reg.explain(X[0], target=target)
        assert why.prediction == reg.predict(X[:1])[0, target]
        assert why.interval == (low[0, target], high[0, target])
        check(reg, lambda x, z: float(np.exp(-2 / 3 * np.abs(x - z).sum())), X[0], why,
              mix=np.eye(2)[target])  # fmt: skip
    with pytest.raises(ValueError, match=r"target must be a whole number in \[0, 1\]; got 2"):
        reg.explain(X[0], target=2)
    assert KernelRegressor().fit(X, Y[:, 0]).explain(X[0]).interval is None


@pytest.mark.parametrize("scale", [True, False])
def test_linear_learners(rng, scale):
    X = rng.normal(size=(400, 3)) + np.array([5.0, 0.0, -2.0])
    y = 3.0 * X[:, 0] - X[:, 1]
    reg = LinearRegressor(scale=scale, loss="huber").fit(X, y)
    why = reg.explain(X[0])
    assert why.method == "split"
    assert why.terms == ()
    parts = {f.name: f.part for f in why.features}
    for j in range(3):
        assert parts[f"feature {j}"] == pytest.approx(reg.coef_[j] * X[0, j])
    assert sum(parts.values()) + why.base == pytest.approx(reg.predict(X[:1])[0])
    middle = X.mean(axis=0) if scale else np.zeros(3)
    for f in why.features:
        j = int(f.name[-1])
        assert f.effect == pytest.approx(reg.coef_[j] * (X[0, j] - middle[j]))
        assert (f.usual is None) != scale
    clf = LinearClassifier(p=3.0, scale=scale).fit(X, np.digitize(y, [12, 18]))
    why = clf.explain(X[0])
    assert sum(f.part for f in why.features) + why.base == pytest.approx(why.margin)


def test_texts(rng):
    texts = ["the pump runs well", "the pump stands still", "the valve is open"] * 30
    det = NoveltyDetector(kernel=kernels.Spectrum(3), support=0.5).fit(texts)
    why, text = det.explain("the qvx is open", top=50), "the qvx is open"
    assert sum(f.part for f in why.features) == pytest.approx(det.score_samples([text])[0])
    new = {f.name for f in why.features if f.part == 0}
    assert new == {
        p for p in (text[i : i + 3] for i in range(13)) if not any(p in t for t in texts)
    }
    assert f"{len(new)} of 13 pieces were never seen" in str(why)
    k = spectrum(3)
    for term in why.terms:
        source = texts[len(texts) - term.age - 1]
        assert term.likeness == pytest.approx(k(text, source))
        assert set(term.pieces) == {p for p in (text[i : i + 3] for i in range(13)) if p in source}
    assert sum(t.part for t in why.terms) == pytest.approx(why.score)
    json.dumps(why.to_dict())
    assert det.explain([text]) == det.explain(text)


def test_names_and_rows_of_a_frame(rng):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(stream(rng), columns=["Flow", "Pressure", "Heat"])
    det = NoveltyDetector(support=0.5).fit(X)
    x = X.iloc[[5]].assign(Pressure=13.0)
    why = det.explain(x)
    assert why.features[0].name == "Pressure"
    assert (
        why
        == det.explain(x.iloc[0])
        == det.explain(x.to_numpy())
        == det.explain(x.iloc[0].tolist())
    )
    low, high = why.features[0].usual
    assert f"Pressure 13.0 where {low:.1f}–{high:.1f} was usual" in str(why)
    scipy = pytest.importorskip("scipy.sparse")
    assert det.explain(scipy.csr_array(x.to_numpy())) == why


def test_far_values_lose_nothing(rng):
    """A feature that is off by 1e12 must not eat the digits of the others."""
    X = stream(rng)
    for kernel in ("gaussian", "laplacian", "matern", kernels.Gaussian() * kernels.Laplacian()):
        det = NoveltyDetector(kernel=kernel, support=0.5).fit(X)
        near, far = X[9].copy(), X[9].copy()
        near[1], far[1] = 14.0, 1e12
        a, b = det.explain(near), det.explain(far)
        assert b.features[0].name == "feature 1"
        assert b.score - b.features[0].effect == pytest.approx(
            a.score - next(f for f in a.features if f.name == "feature 1").effect, rel=1e-9
        )


def test_nothing_stored_yet():
    det = NoveltyDetector().partial_fit([[1.0, 2.0]])
    why = det.explain([1.0, 2.0])
    assert (why.score, why.terms, why.terms_stored) == (0.0, (), 0)
    words = "Alert: score 0 below the threshold 0.05 (100 % of the last 1 were as low)"
    assert str(why) == f"{words}; nothing is stored yet to compare it with."


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (np.zeros((2, 3)), r"explain takes one row; got 2 of them \(shape \(2, 3\)\)"),
        (np.zeros((0, 3)), "got 0 of them"),
        ([1.0, 2.0], "X has 2 features, but NoveltyDetector is expecting 3"),
        (3.0, "explain takes one row, a list of numbers; got 3.0"),
        ([1.0, np.nan, 2.0], "contains NaN"),
        ("text", "a list of numbers; got 'text'"),
    ],
)
def test_bad_rows_are_refused_with_a_reason(rng, x, words):
    det = NoveltyDetector().fit(stream(rng))
    with pytest.raises(ValueError, match=words):
        det.explain(x)


def test_other_bad_calls(rng):
    with pytest.raises(ValueError, match="not fitted"):
        NoveltyDetector().explain([1.0])
    det = NoveltyDetector().fit(stream(rng))
    with pytest.raises(ValueError, match="top must be a whole number"):
        det.explain([1.0, 2.0, 3.0], top=0)
    words = NoveltyDetector(kernel=kernels.Spectrum(2)).fit(["abc", "abd"])
    with pytest.raises(ValueError, match="row 0 is int"):
        words.explain([3])
    with pytest.raises(ValueError, match="a text; got 3"):
        words.explain(3)


# -- ten faults --------------------------------------------------------------------------------


def wander(rng, n, tau):
    keep, level, path = np.exp(-1 / tau), 0.0, np.empty(n)
    for i, shock in enumerate(rng.normal(size=n) * np.sqrt(1 - keep**2)):
        level = path[i] = keep * level + shock
    return path


def test_ten_faults_are_named(rng):
    """Ten correlated sensors that drift; each fails once, by 3 to 8 of its spreads."""
    n, d = 4500, 10
    hidden = np.column_stack([wander(rng, n, tau) for tau in (30, 60, 120)])
    drift = np.linspace(0, 1, n)[:, None] * rng.normal(size=d)
    clean = hidden @ rng.normal(size=(3, d)) + drift + 0.3 * rng.normal(size=(n, d))
    clean *= 10.0 ** rng.uniform(-2, 4, d)
    rows = 3000 + 150 * np.arange(d) + rng.integers(0, 150, d)
    sensors = rng.permutation(d)
    X = clean.copy()
    sizes = np.linspace(3, 8, d) * rng.choice([-1, 1], d)
    X[rows, sensors] += sizes * clean.std(axis=0)[sensors]
    det, start, named = NoveltyDetector(), 0, []
    for row in rows:
        det.partial_fit(X[start:row])
        start = row
        named.append(det.explain(X[row]).features[0].name)
    assert named == [f"feature {j}" for j in sensors]


def test_explaining_a_row_that_only_a_centre_of_no_weight_knows():
    centres = expansions.Centers(np.array([[0.0, 0.0], [100.0, 100.0]]))
    model = NoveltyDetector(scale=False, expansion=centres).partial_fit(np.zeros((30, 2)))
    assert model.explain([100.0, 100.0]).score == pytest.approx(0.0, abs=1e-12)
