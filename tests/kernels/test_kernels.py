"""Kernels against their formulas, pair by pair; the algebra; the declared bounds."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from helpers import cases
from helpers.sizes import size

from onkel import KernelClassifier, KernelRegressor, kernels


@pytest.mark.parametrize("name", cases.KERNELS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("features", size([1, 4, 70], [1, 3, 4, 5, 70]))
def test_matrix_equals_formula(rng, name, dtype, features):
    kernel, truth = cases.KERNELS[name]
    if name == "additive" and features != 3:
        pytest.skip("this one has three parts")
    X = rng.normal(size=(37, features)).astype(dtype)
    Z = (rng.normal(size=(70, features)) + 1).astype(dtype)
    exact = np.array([[truth(x.astype(float), z.astype(float)) for z in Z] for x in X])
    tolerance = 1e-13 if dtype == np.float64 else 2e-5
    np.testing.assert_allclose(kernel(X, Z), exact, rtol=tolerance, atol=tolerance * 0.1)
    assert kernel(X, Z).dtype == (np.float64 if name in ("additive", "function") else dtype)
    np.testing.assert_allclose(
        kernel.diag(X), [truth(x.astype(float), x.astype(float)) for x in X], rtol=tolerance
    )


@pytest.mark.parametrize("name", cases.KERNELS)
def test_bound_holds(rng, name):
    kernel = cases.KERNELS[name][0].resolve(3)
    X = 100 * rng.normal(size=(50, 3))
    if kernel.bound is None:
        assert np.max(kernel.diag(X)) > 100
    else:
        assert np.max(kernel.diag(X)) <= kernel.bound + 1e-12


@pytest.mark.parametrize("name", cases.KERNELS)
def test_positive_definite(rng, name):
    X = rng.normal(size=(40, 3))
    assert np.linalg.eigvalsh(cases.KERNELS[name][0](X)).min() > -1e-9


def test_auto_follows_the_number_of_features(rng):
    X = rng.normal(size=(20, 8))
    np.testing.assert_allclose(kernels.Gaussian()(X), kernels.Gaussian(1 / 8)(X))
    np.testing.assert_allclose(kernels.Matern(2.5)(X), kernels.Matern(2.5, 8**0.5)(X))
    both = (kernels.Gaussian() * kernels.Polynomial()).resolve(8)
    assert (both.left.gamma, both.right.gamma) == (1 / 8, 1 / 8)
    assert KernelRegressor().fit(X, X[:, 0]).diagnostics_["scale"]["gamma"] == 2 / 8


def test_nested_expression(rng):
    k = 0.5 * (kernels.Gaussian(0.3) + kernels.Linear()) * (2.0 * kernels.Laplacian(0.1))
    X = rng.normal(size=(15, 3))
    k1, k2, k3 = naive.gaussian(0.3), naive.linear(), naive.laplacian(0.1)
    truth = [[(k1(a, b) + k2(a, b)) * k3(a, b) for b in X] for a in X]
    np.testing.assert_allclose(k(X), truth, rtol=1e-12)
    mixed = kernels.Gaussian(0.3) * kernels.Function(lambda A, B: (A @ B.T) ** 2)
    truth = [[k1(a, b) * k2(a, b) ** 2 for b in X] for a in X]
    np.testing.assert_allclose(mixed(X), truth, rtol=1e-12)
    np.testing.assert_allclose(mixed.diag(X), np.diag(mixed(X)), rtol=1e-12)


def test_long_chains_either_way(rng):
    """The deeper side is evaluated first, so that a chain needs a stack of two."""
    X = rng.normal(size=(6, 2))
    right = left = kernels.Linear()
    for _ in range(40):
        right, left = kernels.Linear() + right, left + kernels.Linear()
    for k in (right, left, sum([kernels.Linear()] * 41)):
        np.testing.assert_allclose(k(X), 41 * kernels.Linear()(X))


def test_shapes_are_checked():
    with pytest.raises(ValueError, match="they must agree"):
        kernels.Linear()([[1.0]], [[1.0, 2.0]])
    with pytest.raises(ValueError, match="takes matrices"):
        kernels.Linear()([1.0, 2.0])


@pytest.mark.parametrize(
    "kernel",
    [
        kernels.Additive(kernels.Spline()) + kernels.Gaussian(),
        kernels.Gaussian() * kernels.Additive(kernels.Spline()),
        2.0 * kernels.Additive(kernels.Spline()),
    ],
    ids=repr,
)
def test_domains_reach_through_sums_products_and_multiples(rng, kernel):
    X = rng.normal(size=(20, 2))
    with pytest.raises(ValueError, match="Use scale=False"):
        KernelClassifier(kernel=kernel).partial_fit(np.abs(X), X[:, 0] > 0)
    with pytest.raises(ValueError, match="at least 0"):
        KernelClassifier(kernel=kernel, scale=False).partial_fit(X, X[:, 0] > 0)
    with pytest.raises(ValueError, match="at least 0"):
        kernel(X)


def test_weights_of_an_additive_kernel_may_be_an_array(rng):
    X = rng.normal(size=(5, 3))
    parts = [kernels.Additive(weights=w)(X) for w in (np.array([1.0, 2, 3]), [1.0, 2, 3])]
    assert np.array_equal(*parts)
    with pytest.raises(ValueError, match="'mean'"):
        kernels.Additive(weights="max")
