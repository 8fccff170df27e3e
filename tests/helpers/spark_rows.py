"""Rows and models that the tests of partitions and of scoring share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from onkel import (
    Classifier,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    NoveltyDetector,
    expansions,
    files,
    rules,
    schedules,
)

AB = ["a", "b"]
CASES: dict[str, Callable[[], Any]] = {
    "classifier": KernelClassifier,
    "classifier, raw": lambda: KernelClassifier(scale=False),
    "classifier, by age": lambda: KernelClassifier(expansion=expansions.Window(age=90)),
    "classifier, average": lambda: KernelClassifier(scale=False, average=True),
    "regressor": KernelRegressor,
    "regressor, slowing": lambda: KernelRegressor(
        rule=rules.Norma(learning_rate=schedules.InverseSqrt(1.0), memory=50)
    ),
    "linear": LinearRegressor,
    "detector": lambda: NoveltyDetector(warmup=20),
    "mixture": lambda: Classifier(
        members=[KernelClassifier(kernel="laplacian"), KernelClassifier(), LinearClassifier()]
    ),
}


def rows(rng: np.random.Generator, n: int = 240) -> pd.DataFrame:
    X = rng.normal(size=(n, 2)) * [1.0, 3.0] + [0.0, 5.0]
    return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": np.where(X[:, 0] * X[:, 1] > 0, 1, -1)})


def learn_rows(model: Any, frame: pd.DataFrame) -> Any:
    if model.task == "novelty":
        return model.partial_fit(frame[AB].to_numpy())
    return model.partial_fit(frame[AB].to_numpy(), frame["y"].to_numpy())


def scores(model: Any, X: np.ndarray) -> np.ndarray:
    return model.predict(X) if model.task == "regression" else model.decision_function(X)


def same_model(one: Any, other: Any) -> bool:
    return files.dumps(one) == files.dumps(other)
