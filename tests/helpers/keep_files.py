"""Write the files that ``tests/files/test_old_versions.py`` loads for ever: once a format version.

``python tests/helpers/keep_files.py`` after the version has been raised, or an estimator has come;
a file that is there stays.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from onkel import (
    Classifier,
    Detector,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    NoveltyDetector,
    Regressor,
    expansions,
    files,
    kernels,
    losses,
    rules,
)

DATA = Path(__file__).resolve().parents[1] / "data"


def stream() -> tuple[Any, Any, Any, Any]:
    """Return rows, a measurement, a label and a text for each of 48 examples."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(48, 2)).round(3)
    y = (np.sin(2 * X[:, 0]) + X[:, 1]).round(3)
    labels = np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.5])]
    words = ("the cat", "sat on", "a mat", "no dog", "ran")
    texts = [f"{words[i]} {words[j]}" for i, j in rng.integers(0, 5, size=(48, 2))]
    return X, y, labels, texts


def models() -> dict[str, tuple[Any, Any, Any]]:
    """Return a small model of each kind, with rows and targets that it takes."""
    X, y, labels, texts = stream()
    additive = kernels.Additive(kernels.Exponential(0.8), weights="mean")
    window = expansions.Window(terms=20)
    return {
        "classifier": (KernelClassifier(expansion=window), X, labels),
        "classifier_romma": (KernelClassifier(kernel="polynomial", rule="romma"), X, y > 0),
        "classifier_texts": (KernelClassifier(kernel=kernels.Spectrum(2)), texts, labels),
        "classifier_centers": (
            KernelClassifier(expansion=expansions.Centers(5, sample=90), loss="logistic"), X, labels
        ),
        "regressor": (KernelRegressor(loss=losses.Huber(nu=0.1), average=True), X, y),
        "regressor_float32": (
            KernelRegressor(kernels.Gaussian(0.7), rule=rules.Norma(track_norm=True)),
            X.astype("f4"), np.column_stack([y, -y]),
        ),
        "regressor_squares": (
            KernelRegressor(rule="rls", expansion=expansions.Centers(10, linear=True)), X, y
        ),
        "regressor_tree": (KernelRegressor(additive, expansion=expansions.Tree(age=30)), X, y),
        "density_detector": (Detector(nu=0.1, terms=20, warmup=30, recent=20), X[:, :1], y),
        "detector": (NoveltyDetector(nu=0.1, warmup=10, recent=20), X, y),
        "linear_classifier": (LinearClassifier(rule=rules.Alma(), p=3.0), X, labels),
        "linear_regressor": (LinearRegressor(), X, y),
        "mixture_classifier": (Classifier(members=_members(window)), X, labels),
        "mixture_regressor": (Regressor(), X, y),
        "new": (KernelRegressor(kernel=kernels.Matern() + 2.0 * kernels.Linear()), X, y),
    }  # fmt: skip


def _members(window: Any) -> list[Any]:
    """Return settings for a mixture: two that share a ring, two that stand alone."""
    return [
        KernelClassifier(kernels.Gaussian(0.5), expansion=window),
        LinearClassifier(loss="logistic"),
        KernelClassifier(kernels.Laplacian(0.5), rule="projection", expansion=window),
        KernelClassifier(rule="romma"),
    ]


def shown(model: Any, rows: Any) -> list[Any]:
    """Return what a model predicts, as JSON has it."""
    name = "score_samples" if hasattr(model, "score_samples") else "predict"
    return getattr(model, name)(rows).tolist() if model.__sklearn_is_fitted__() else []


def main() -> None:
    """Write each model after half of its stream, and what it predicts then and at the end."""
    folder = DATA / f"format-{files.FORMAT}"
    folder.mkdir(parents=True, exist_ok=True)
    for name, (model, rows, y) in models().items():
        if (folder / f"{name}.json").exists():
            continue
        if name != "new":
            model.partial_fit(rows[:24], y[:24])
        model.save(folder / f"{name}.safetensors")
        held = {"rows": rows if isinstance(rows, list) else rows.tolist(), "y": y.tolist()}
        held["then"] = shown(model, rows)
        held["after_the_rest"] = shown(model.partial_fit(rows[24:], y[24:]), rows)
        (folder / f"{name}.json").write_text(json.dumps(held) + "\n")


if __name__ == "__main__":
    main()
