"""Numbers beside centres, and least squares over them, explained: by plain loops."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from naive import explain as naive
from naive import kernels as naive_kernels

from onkel import (
    Classifier,
    KernelClassifier,
    KernelRegressor,
    LinearRegressor,
    Regressor,
    expansions,
    kernels,
)

GAUSS, gaussian = kernels.Gaussian(0.5), naive_kernels.gaussian(0.5)
ADDITIVE = kernels.Additive(kernels.Exponential(0.8), weights="mean")


def stream(rng, n=300):
    X = rng.normal(size=(n, 3)) * [1.0, 0.5, 2.0] + [0.0, 10.0, -1.0]
    return X, np.sin(2 * X[:, 0]) + X[:, 2] / 2 + 0.1 * rng.normal(size=n)


def held(model, target=0):
    """Terms, the weights of the numbers and the offset, each in the targets' units; z(x)."""
    learner, frame = model._learner, model._learner.frame
    w, b = learner.weights()
    spread = float(learner.targets.raw_widths(np.ones(len(w)))[target])
    points = learner.map.points
    spreads = 1.0 / (frame.width * frame.unit)

    def seen(row):
        row = np.asarray(row, float)
        return (row - frame.mean) / spreads if model.scale else row

    count = len(points)
    terms = [(spread * a, seen(p)) for a, p in zip(w[target, :count], points, strict=True)]
    own = [spread * v for v in w[target, count:]]
    return terms, own, float(learner.targets.raw(b)[target]), seen


def f(model, x, target=0):
    terms, own, offset, seen = held(model, target)
    z = seen(x)
    beside = sum(v * clipped(c, model) for v, c in zip(own, z, strict=True))
    return naive.score(gaussian, z, terms, offset) + beside


def usual_row(model, X):
    return X.mean(axis=0) if model.scale else np.zeros(X.shape[1])


def clipped(v, model):
    return max(-8.0, min(float(v), 8.0)) if model.scale else float(v)


@pytest.mark.parametrize("scale", [True, False])
def test_numbers_beside_centres(rng, scale):
    X, y = stream(rng)
    model = KernelRegressor(GAUSS, expansion=expansions.Centers(20, linear=True), scale=scale)
    model.fit(X, y)
    why = model.explain(X[7], top=20)
    assert why.method == "leave one out" and why.terms_stored == len(why.terms) == 20
    assert why.score == pytest.approx(f(model, X[7]))
    terms, own, offset, seen = held(model)
    z, there = seen(X[7]), seen(usual_row(model, X))
    beside = [
        v * (clipped(a, model) - clipped(b, model)) for v, a, b in zip(own, z, there, strict=True)
    ]
    rest = sum(v * clipped(b, model) for v, b in zip(own, there, strict=True))
    assert why.base == pytest.approx(offset + rest)
    total = why.base + sum(t.part for t in why.terms) + sum(beside)
    assert total == pytest.approx(why.score)
    kernel_part = naive.score(gaussian, z, terms)
    for feature in why.features:
        j = int(feature.name.split()[1])
        want = kernel_part - naive.without(gaussian, z, terms, j) + beside[j]
        assert feature.effect == pytest.approx(want, abs=1e-9)


@pytest.mark.parametrize("rule", ["norma", "rls"])
def test_parts_of_additive_kernels_add_up(rng, rule):
    X, y = stream(rng)
    expansion = expansions.Centers(20, linear=True)
    why = KernelRegressor(ADDITIVE, rule=rule, expansion=expansion).fit(X, y).explain(X[7])
    assert why.method == "split"
    assert why.base + sum(feature.part for feature in why.features) == pytest.approx(why.score)


@pytest.mark.parametrize("scale", [True, False])
def test_least_squares_is_asked_itself(rng, scale):
    X, y = stream(rng)
    Y = np.column_stack([y, -5 * y])
    expansion = expansions.Centers(20, linear=True)
    model = KernelRegressor(GAUSS, "squared", "rls", expansion, scale=scale).fit(X, Y)
    usual = X.mean(axis=0) if scale else model._learner.map.points.mean(axis=0)
    for target in (0, 1):
        why = model.explain(X[7], top=20, target=target)
        assert why.method == "replaced" and len(why.terms) == 20
        assert why.score == pytest.approx(f(model, X[7], target))
        for feature in why.features:
            j = int(feature.name.split()[1])
            other = X[7].copy()
            other[j] = usual[j]
            assert feature.effect == pytest.approx(why.score - f(model, other, target), abs=1e-6)
    low, high = (v[0, 1] for v in model.predict_interval(X[7:8]))
    assert why.interval == pytest.approx((low, high))
    assert "had it been typical" in str(why)


def test_mixtures_with_least_squares(rng):
    X, y = stream(rng)

    def members():
        centers = expansions.Centers(20, linear=True)
        return [
            KernelRegressor(GAUSS, "squared", "rls", centers),
            KernelRegressor(GAUSS, expansion=centers),
            LinearRegressor("squared", "rls"),
            KernelRegressor(GAUSS),
        ]

    model = Regressor(members()).partial_fit(X, y)
    why = model.explain(X[7])
    alone = [copy.copy(m).partial_fit(X, y).explain(X[7]) for m in members()]
    scores = model._learner.answers(X[7:8])
    for feature in why.features:
        each = [next(f.effect for f in e.features if f.name == feature.name) for e in alone]
        rest = scores.copy()
        rest[0, :, 0] -= each
        want = why.score - model._learner.blended(rest)[0, 0]
        assert feature.effect == pytest.approx(want, rel=1e-5, abs=1e-7)
    assert why.method == "several" and why.terms
    only = Regressor(members()[:1]).partial_fit(X, y).explain(X[7])
    assert only.method == "replaced" and not only.terms


def test_tables_and_classes(rng):
    n = 300
    table = [
        {"kind": str(k), "size": float(s)}
        for k, s in zip(rng.choice(["a", "b", "c"], size=n), rng.normal(size=n), strict=True)
    ]
    value = np.array([3.0 * (row["kind"] == "a") + row["size"] for row in table])
    model = KernelRegressor(GAUSS, "squared", "rls", expansions.Centers(30, linear=True))
    model.fit(table, value)
    row = {"kind": "a", "size": 0.0}
    why = model.explain(row)
    assert why.features[0].name == "kind" and why.features[0].effect == pytest.approx(3.0, abs=0.7)
    assert why.score == pytest.approx(model.predict([row])[0])
    clf = KernelClassifier(GAUSS, rule="rls").fit(table, value > 1)
    assert clf.explain(row).label and clf.explain(row).method == "replaced"
    assert Classifier([clf]).fit(table, value > 1).explain(row).label
