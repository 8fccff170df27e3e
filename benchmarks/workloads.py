"""The frozen workloads of limit, one and growth. A new one gets a new name; none is changed."""

from __future__ import annotations

from typing import Any

import common  # first: it sets the number of BLAS threads
import numpy as np

from onkel import Classifier, KernelClassifier, KernelRegressor, NoveltyDetector, Regressor
from onkel.expansions import Window
from onkel.rules import Norma

TERMS = 1000
RATE = 0.1
SHRINK = 1 - 1e-5
clock = common.clock


def regression(d: int, dtype: str, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a seeded regression stream."""
    rng = np.random.default_rng(d)
    X = rng.normal(size=(rows, d)).astype(dtype)
    return X, np.sin(X.sum(axis=1, dtype=float) / np.sqrt(d)) + 0.1 * rng.normal(size=rows)


def regressor(terms: int, n_jobs: int = 1) -> KernelRegressor:
    """Return a regressor that knows nothing yet; squared loss stores every example."""
    return KernelRegressor(
        loss="squared",
        rule=Norma(learning_rate=RATE),
        expansion=Window(terms=terms),
        kernel="gaussian",
        scale=False,
        fit_intercept=False,
        n_jobs=n_jobs,
    )


def full_regressor(d: int, dtype: str, terms: int = TERMS, n_jobs: int = 1) -> KernelRegressor:
    """Return a regressor whose window is full."""
    return regressor(terms, n_jobs).partial_fit(*regression(d, dtype, terms))


def full_classifier(
    d: int, classes: int, dtype: str = "float32"
) -> tuple[KernelClassifier, np.ndarray, np.ndarray]:
    """Return a classifier whose window is full, and rows; least squares stores every example."""
    model = KernelClassifier(
        loss="least_squares",
        rule=Norma(learning_rate=RATE),
        expansion=Window(terms=TERMS),
        scale=False,
        fit_intercept=False,
    )
    X, _ = regression(d, dtype, 2 * TERMS)
    y = np.random.default_rng(classes).integers(classes, size=len(X))
    model.partial_fit(X, y, classes=range(classes))
    return model, X, y


def full_of_classes(d: int, terms: int, rule: str) -> KernelClassifier:
    """Return a classifier of ten words whose window is full."""
    X, y = regression(d, "float64", 4 * terms)
    words = np.array([f"class {i}" for i in range(10)])
    model = KernelClassifier(rule=rule, expansion=Window(terms=terms), scale=False)
    return model.partial_fit(X, words[(1e6 * y).astype(int) % 10])


def full_detector(d: int, dtype: str, terms: int) -> NoveltyDetector:
    """Return a detector whose window is full; half of the rows are stored."""
    model = NoveltyDetector(support=0.5, expansion=Window(terms=terms), scale=False)
    return model.partial_fit(regression(d, dtype, 4 * terms)[0])


def mixture(kind: type[Classifier | Regressor], d: int, terms: int) -> Any:
    """Return a default mixture that has stored so many points; labels are a target's signs."""
    X, y = regression(d, "float64", 4 * terms)
    model, targets = kind(), np.sign(y) if kind is Classifier else y
    for row, target in zip(X, targets, strict=True):
        model.partial_fit(row[None], [target])
        if model.n_terms_ >= terms:
            break
    return model


class Loop:
    """NORMA for regression as a plain NumPy loop over a ring of terms."""

    def __init__(self, d: int, dtype: str, terms: int = TERMS) -> None:
        self.Z, targets = regression(d, dtype, terms)
        self.coef = (RATE * targets).astype(dtype)
        self.norms = np.einsum("ij,ij->i", self.Z, self.Z)
        self.gamma, self.shrink = self.Z.dtype.type(1 / d), self.Z.dtype.type(SHRINK)
        self.at = 0

    def predict(self, x: np.ndarray) -> tuple[Any, Any]:
        """Return the score of a row, and its square."""
        xx = x @ x
        return self.coef @ np.exp(-self.gamma * (self.norms - 2 * (self.Z @ x) + xx)), xx

    def learn(self, x: np.ndarray, y: float) -> None:
        """Predict a row, and store it."""
        score, xx = self.predict(x)
        self.coef *= self.shrink
        i = self.at
        self.Z[i], self.norms[i], self.coef[i] = x, xx, RATE * (y - score)
        self.at = (i + 1) % len(self.Z)


def onkel_ns(d: int, dtype: str, rows: int, model: KernelRegressor | None = None) -> float:
    """Return ns per example and term of predict_then_learn."""
    model = model or full_regressor(d, dtype)
    X, y = regression(d, dtype, rows)
    began = clock()
    model.predict_then_learn(X, y)
    return (clock() - began) / (rows * model.n_terms_) * 1e9


def loop_ns(d: int, dtype: str, rows: int = 1000) -> float:
    """Return ns per example and term of the plain NumPy loop."""
    loop = Loop(d, dtype)
    X, y = regression(d, dtype, rows)
    began = clock()
    for row, target in zip(X, y, strict=True):
        loop.learn(row, target)
    return (clock() - began) / (rows * TERMS) * 1e9
