"""The spectrum kernel: agrees with its definition, and costs what the text costs."""

from __future__ import annotations

import naive
import numpy as np
import pytest

from onkel import (
    KernelClassifier,
    KernelRegressor,
    NoveltyDetector,
    expansions,
    kernels,
    losses,
    rules,
)


def texts(rng, n, length=12):
    return ["".join(rng.choice(list("abc"), size=rng.integers(0, length))) for _ in range(n)]


def test_values(rng):
    words = [*texts(rng, 20), "", "ab"]
    K = kernels.Spectrum(3)(words, words[:7])
    truth = [[naive.spectrum(3)(a, b) for b in words[:7]] for a in words]
    np.testing.assert_allclose(K, truth, atol=1e-14)
    np.testing.assert_allclose(kernels.Spectrum(3).diag(words), np.diag(kernels.Spectrum(3)(words)))


@pytest.mark.parametrize(
    ("loss", "window"),
    [
        (losses.SoftMargin(), {"terms": 8}),
        (losses.SoftMargin(nu=0.2), {"age": 15}),
        (losses.Huber(sigma=0.5), {"terms": None}),
        (losses.Squared(), {"terms": 5}),
    ],
)
def test_learning_equals_naive_twin(rng, loss, window):
    words = texts(rng, 90)
    y = np.array([1.0 if w.count("a") > w.count("b") else -1.0 for w in words])
    kind = KernelClassifier if loss.task == "classification" else KernelRegressor
    rule = rules.Norma(learning_rate=0.3, memory=6.0, track_norm=True)
    model = kind(
        kernel=kernels.Spectrum(2), loss=loss, rule=rule, scale=False,
        expansion=expansions.Window(**window),
    )  # fmt: skip
    limits = {"max_terms": window.get("terms")}
    if "age" in window:
        limits = {"age": naive.age(window["age"])}
    name = next(k for k, v in losses.REGISTRY.items() if v is type(loss))
    twin = naive.Norma(
        kernel=naive.spectrum(2), loss=name, rate=lambda t: 0.3, lam=1 / (0.3 * 6), nu=loss.nu,
        start=loss.start, **limits,
    )  # fmt: skip
    how = {"output": "decision"} if kind is KernelClassifier else {}
    ours = model.predict_then_learn(words, y if kind is KernelRegressor else y.astype(int), **how)
    truth = [twin.learn_one(w, [t])[0] for w, t in zip(words, y, strict=True)]
    np.testing.assert_allclose(ours, truth, rtol=1e-10, atol=1e-12)
    assert abs(model.diagnostics_["norm"] - twin.norm2()[0] ** 0.5) < 1e-9


def test_cost_follows_substrings_not_texts(rng):
    """Many stored texts over few substrings: the weights stay few, and no dust stays behind."""
    words = texts(rng, 3000)
    det = NoveltyDetector(
        nu=0.5, kernel=kernels.Spectrum(2), expansion=expansions.Window(terms=500)
    )
    det.partial_fit(words)
    terms = det._learner.terms
    assert det.n_terms_ == 500
    assert len(terms.weights) <= 9  # two letters out of three
    held = {piece for features, _, _ in terms.terms for piece in features}
    assert set(terms.weights) == held
    direct = terms.kernel(words[:20], words) @ _coefficients(det, len(words))
    np.testing.assert_allclose(det.score_samples(words[:20]), direct, rtol=1e-9)


def _coefficients(det, n):
    """Actual coefficients by row of the stream."""
    terms, scale = det._learner.terms, det._learner.state[0, 0]
    out = np.zeros(n)
    for _, coef, birth in terms.terms:
        out[birth - 1] = scale * coef[0]
    return out


def test_classes_and_passes_on_strings(rng):
    words = [c * 3 + w for c, w in zip("xyz" * 40, texts(rng, 120), strict=True)]
    y = np.array(list("xyz" * 40))
    clf = KernelClassifier(kernel=kernels.Spectrum(3), passes=2).fit(words, y)
    assert np.mean(clf.predict(words) == y) > 0.95
    assert clf.n_terms_ <= 120
    live = KernelClassifier(kernel="spectrum").predict_then_learn(words, y)
    assert live[0] is None
