"""Rows that leave a rule nothing to do, or nothing to divide by: repeated, empty, parallel."""

from __future__ import annotations

import numpy as np

from onkel import KernelClassifier, LinearClassifier, kernels


def test_repeated_rows_are_right_already(rng):
    """y f(x) = 1 but for rounding stores nothing."""
    X = np.repeat(rng.normal(size=(30, 2)), 4, axis=0)
    y = np.repeat(rng.choice([-1, 1], size=30), 4)
    for rule in ("projection", "romma"):
        model = KernelClassifier(rule=rule, kernel=kernels.Gaussian(3.0), scale=False)
        model.partial_fit(X, y)
        coef = model._learner.terms.coefs(0, model.n_terms_)
        assert np.abs(coef).min() > 1e-9, rule


def test_rows_without_length_count_as_margin_errors_of_alma():
    model = LinearClassifier(rule="alma", scale=False).partial_fit(np.zeros((4, 2)), [1, 0, 1, 0])
    assert model.diagnostics_["margin_errors"] == 4
    assert model.diagnostics_["updates"] == 0


def test_parallel_examples_restart_romma():
    """The same x with the other label, up to rounding: D is nearly 0."""
    model = LinearClassifier(rule="romma", scale=False)
    model.partial_fit([[1.0, 0.5], [1.0, 0.5 + 1e-9]], [1, 0])
    np.testing.assert_allclose(model.coef_[0], -np.array([1.0, 0.5]) / 1.25, rtol=1e-6)
