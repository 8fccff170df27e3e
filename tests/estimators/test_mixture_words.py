"""What a self-tuning model says of its members in words."""

from __future__ import annotations

import numpy as np
import pytest

from onkel import (
    Classifier,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    Regressor,
    kernels,
    losses,
    rules,
)
from onkel.files import dumps, loads


def test_the_leader_is_told_with_its_weight_and_in_units_of_the_features(rng):
    X = rng.normal(size=(400, 8))
    members = [
        KernelClassifier(kernels.Laplacian(0.5), rule="projection"),
        LinearClassifier(loss="logistic"),
        KernelClassifier(kernels.Gaussian(0.3), rule=rules.Norma(learning_rate=0.1)),
    ]
    told = [
        "Laplacian kernel, width 4/d, by projection",
        "linear, logistic loss",
        "Gaussian kernel, width 0.3, rate 0.1",
    ]
    model = Classifier(members).partial_fit(X, X[:, 0] > 0)
    report, weights = model.diagnostics_, model.weights_
    order = np.argsort(-weights)
    want = f"Leads now: {told[order[0]]} (weight {weights[order[0]]:.2f})"
    assert report["in_words"].startswith(want)
    for i in order[1:]:
        assert (told[i] in report["in_words"]) == (weights[i] >= 0.05)
    assert report["in_words"].endswith("d is the number of features, 8.") == (
        "/d" in report["in_words"]
    )
    assert report["names"] == [
        "Laplacian 4/d, projection", "linear, logistic", "Gaussian 0.3, rate 0.1",
    ]  # fmt: skip


@pytest.mark.parametrize("kind", [Classifier, Regressor])
def test_names_of_the_default_bank_are_all_different_and_survive_a_file(rng, kind):
    X = rng.normal(size=(60, 3))
    model = kind().partial_fit(X, (X[:, 0] > 0).astype(int))
    names = model.diagnostics_["names"]
    assert len(set(names)) == len(names) == len(model.members_)
    assert all(len(name) < 40 for name in names)
    again = loads(dumps(model)).diagnostics_
    assert again["names"] == names and again["in_words"] == model.diagnostics_["in_words"]


def test_members_that_sound_alike_are_numbered(rng):
    members = [KernelRegressor(), KernelRegressor(average=True), KernelRegressor(loss="squared")]
    model = Regressor([*members, KernelRegressor(loss=losses.EpsilonInsensitive())])
    model.partial_fit(rng.normal(size=(20, 2)), rng.normal(size=20))
    assert model.diagnostics_["names"] == [
        "Laplacian 2/d", "Laplacian 2/d (2)", "Laplacian 2/d, squared",
        "Laplacian 2/d, epsilon insensitive",
    ]  # fmt: skip


def test_texts_have_no_width_and_before_the_first_trial_nobody_leads():
    texts = [KernelClassifier(kernels.Spectrum(n)) for n in (2, 3)]
    model = Classifier(texts).partial_fit(["ab", "cd"], ["x", "y"])
    assert "Spectrum kernel (weight" in model.diagnostics_["in_words"]
    assert model.diagnostics_["names"] == ["Spectrum", "Spectrum (2)"]
    fresh = Regressor().partial_fit(np.zeros((0, 2)), [])
    assert fresh.diagnostics_["in_words"].startswith("Nothing has been judged yet")
