"""The settings that run where no members are given; experiments/self_tuning.py has the study.

Widths are in units of 1/d, for d features, and powers of two apart, so that they share
exponentials too.
"""

from __future__ import annotations

from onkel import losses, rules
from onkel.estimators.base import Estimator
from onkel.estimators.classifier import KernelClassifier
from onkel.estimators.linear import LinearClassifier, LinearRegressor
from onkel.estimators.regressor import KernelRegressor
from onkel.expansions import Centers, Window
from onkel.kernels import Gaussian, Laplacian

CENTRES = 200
"""Of each second-order member with numbers to predict; time per row goes with its square."""
RECENT = 1000
"""Points of the ring that holds what came last."""


def classifiers(d: float) -> list[Estimator]:
    """Two widths of the Laplacian over the long past; three kernels over the last rows; linear.

    And least squares over a few centres.

    Examples
    --------
    >>> len(classifiers(8))
    10
    """
    narrow, wide = Laplacian(4.0 / d), Laplacian(1.0 / d)
    last = Window(terms=RECENT)
    return [
        KernelClassifier(wide, rule="projection"),
        KernelClassifier(narrow),
        KernelClassifier(narrow, rule="projection"),
        KernelClassifier(Gaussian(1.0 / d), "logistic", expansion=last),
        KernelClassifier(Gaussian(4.0 / d), rule="projection", expansion=last),
        KernelClassifier(Laplacian(16.0 / d), rule="projection", expansion=last),
        LinearClassifier("logistic"),
        LinearClassifier("logistic", rules.Norma(memory=1000)),
        LinearClassifier(rule="projection"),
        KernelClassifier(
            wide, "least_squares", rules.RecursiveLeastSquares(ridge=0.01),
            Centers(CENTRES // 2, linear=True),
        ),
    ]  # fmt: skip


def regressors(d: float) -> list[Estimator]:
    """Four widths of the Laplacian, a Gaussian, two linear ones; two rates. Two of second order."""
    centers, best = Centers(CENTRES, linear=True), rules.RecursiveLeastSquares()
    quick = rules.Norma(learning_rate=1.0)
    squared = losses.Squared()
    return [
        KernelRegressor(Laplacian(0.125 / d), squared, quick),
        KernelRegressor(Laplacian(0.5 / d)),
        KernelRegressor(Laplacian(0.5 / d), squared, quick),
        KernelRegressor(Laplacian(2.0 / d)),
        KernelRegressor(Laplacian(2.0 / d), squared, quick),
        KernelRegressor(Laplacian(8.0 / d)),
        KernelRegressor(Gaussian(1.0 / d)),
        LinearRegressor(),
        LinearRegressor(losses.EpsilonInsensitive(epsilon=0.05), "projection"),
        KernelRegressor(Gaussian(1.0 / d), rule=best, expansion=centers),
        KernelRegressor(Laplacian(0.5 / d), rule=best, expansion=centers),
    ]
