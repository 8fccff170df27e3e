"""The agreement tests' cases as estimators, and the calls that are made to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from helpers import cases, rule_cases
from helpers.sizes import size
from onkel import (
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    NoveltyDetector,
    expansions,
    kernels,
)
from onkel.learner import Settings

CALLS = size((1, 2, 5, 1, 20, 33), (1, 1, 1, 2, 5, 1, 1, 20, 1, 33, 1, 1, 3))
"""Rows of each call: several sizes, over several refreshes, single rows as arrays in between."""

Case = dict[str, Any]


def estimator(settings: Settings) -> Any:
    """Return an estimator with these settings."""
    common = {"rule": settings.rule, "scale": settings.scale, "average": settings.average}
    common["fit_intercept"] = settings.intercept
    task, loss = settings.loss.task, settings.loss
    if settings.expansion.primal and isinstance(settings.kernel, kernels.Linear):
        kind: Any = LinearClassifier if task == "classification" else LinearRegressor
        return kind(loss=loss, p=settings.expansion.p, **common)
    common |= {"kernel": settings.kernel, "expansion": settings.expansion}
    if task == "novelty":
        return NoveltyDetector(nu=loss.nu, support=loss.support, **common)
    kind = KernelClassifier if task == "classification" else KernelRegressor
    return kind(loss=loss, **common)


def norma_cases() -> list[Case]:
    """Every pair of choices for NORMA, with terms in windows."""
    return cases.pairwise(cases.FACTORS)


def rule_case_list() -> list[Case]:
    """Every pair of choices for the other rules, in windows and trees."""
    return cases.pairwise(rule_cases.FACTORS, rule_cases.possible)


def primal_case_list() -> list[Case]:
    """Every pair of choices with weights."""
    return cases.pairwise(rule_cases.PRIMAL_FACTORS, rule_cases.primal_possible)


def center_cases() -> list[Case]:
    """Weights over fixed points, of each kind."""
    kinds = {
        "first": expansions.Centers(7), "sample": expansions.Centers(6, sample=40, seed=3),
        "given": expansions.Centers(np.random.default_rng(0).normal(size=(8, 3))),
    }  # fmt: skip
    factors = {
        "rule": ("norma", "norma_nu", "norma_huber", "perceptron", "alma", "projection", "romma"),
        "centers": tuple(kinds), "kernel": ("gaussian", "matern32", "function", "additive"),
        "scale": (False, True), "average": (False, True), "outputs": (1, 3),
        "dtype": ("float64", "float32"), "weights": (False,), "p": (2.0,),
    }  # fmt: skip
    found = cases.pairwise(factors, lambda case: True)
    return [{**case, "expansion": kinds[case["centers"]]} for case in found]


def settings_of(case: Case) -> Settings:
    """Return the settings of a case of any of the lists."""
    if "centers" in case:
        made = rule_cases.build_primal(case).settings
        kernel = cases.KERNELS[case["kernel"]][0]
        return Settings(**{**vars(made), "kernel": kernel, "expansion": case["expansion"]})
    if "p" in case:
        return rule_cases.build_primal(case).settings
    return (rule_cases if "rule" in case else cases).build(case).settings


def stream(case: Case, rng: np.random.Generator) -> tuple[Any, Any]:
    """Return rows, and targets or labels, for the calls."""
    rows = sum(CALLS)
    if "rule" in case:
        X, Y, _ = rule_cases.stream(case, rng, rows)
    else:
        X, Y = cases.stream(case, rng, rows)
    task = settings_of(case).loss.task
    if task == "classification":
        late = np.arange(rows) < 9  # the third class comes late
        scores = np.column_stack([Y[:, 0], -Y[:, -1], np.where(late, -2, rng.normal(size=rows))])
        names = np.array(["a", "b", "c"])
        return X, Y[:, 0] if case["outputs"] == 1 else names[scores.argmax(axis=1)]
    return X, Y[:, 0] if case["outputs"] == 1 else Y


def call(model: Any, X: Any, y: Any, first: int, rows: int) -> Any:
    """Make one call, and return all that the model shows afterwards."""
    part = slice(first, first + rows)
    if rows == 1 and first % 2:
        shown: Any = model.learn_one(X[first], y[first]).predict_one(X[first - 1])
    else:
        shown = model.predict_then_learn(X[part], y[part])
    report = {k: v for k, v in model.diagnostics_.items() if k != "bytes"}
    return shown, model.predict(X[:20]), repr(report)
