"""Cases for the other papers' rules: each once as the product has it, once as the naive twin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import naive
import numpy as np

from helpers import cases
from onkel import expansions, kernels, losses, rules
from onkel.learner import Learner, Settings, start

# rule, its loss, its twin
RULES: dict[str, tuple[rules.Rule, losses.Loss, Any]] = {
    "perceptron": (rules.Perceptron(), losses.SoftMargin(margin=0.0), naive.perceptron()),
    "perceptron_margin": (rules.Perceptron(), losses.SoftMargin(margin=0.4), naive.perceptron()),
    "alma": (
        rules.Alma(learning_rate=0.3, radius=0.8), losses.SoftMargin(margin=0.2),
        naive.alma(0.3, 0.8),
    ),
    "alma_tuning": (
        rules.Alma(approximation=0.6), losses.SoftMargin(), naive.alma_self_tuning(0.6)
    ),
    "projection": (rules.Projection(), losses.SoftMargin(), naive.projection()),
    "projection_ball": (
        rules.Projection(radius=1.1), losses.SoftMargin(margin=0.9), naive.projection(radius=1.1)
    ),
    "projection_regression": (
        rules.Projection(), losses.EpsilonInsensitive(epsilon=0.2),
        naive.projection(regression=True),
    ),
    "projection_regression_ball": (
        rules.Projection(radius=0.9), losses.EpsilonInsensitive(epsilon=0.1),
        naive.projection(radius=0.9, regression=True),
    ),
    "romma": (rules.Romma(), losses.SoftMargin(), naive.romma()),
    "romma_mistakes": (
        rules.Romma(aggressive=False), losses.SoftMargin(), naive.romma(aggressive=False)
    ),
}  # fmt: skip
KERNELS = cases.KERNELS
EXPANSIONS = ("window", "tree", "weights", "centers")
FACTORS: dict[str, tuple[Any, ...]] = {
    "rule": tuple(RULES),
    "kernel": tuple(KERNELS),
    "expansion": ("window", "tree"),
    "window": ("all", "terms", "age", "age_terms"),
    "dtype": ("float64", "float32"),
    "scale": (False, True),
    "average": (False, True),
    "outputs": (1, 3),
    "weights": (False, True),
}


def possible(case: dict[str, Any]) -> bool:
    """A tree holds additive kernels only."""
    return case.get("expansion") != "tree" or case.get("kernel") in (None, "additive")


@dataclass
class Twins:
    """One case, built both ways."""

    settings: Settings
    outputs: int
    dtype: Any
    twin: Any
    apart: tuple[float, ...] = ()

    def learner(self) -> Learner:
        """A fresh learner of the product."""
        return start(self.settings, len(self.apart) + 3, self.outputs, self.dtype, self.apart)


def build(case: dict[str, Any]) -> Twins:
    """Return the product's settings and the naive twin for one case."""
    rule, loss, naive_rule = RULES[case["rule"]]
    kernel, naive_kernel = KERNELS[case["kernel"]]
    window, limits = cases._window(case["window"], None, loss, kernel)
    if case["expansion"] == "tree":
        window = expansions.Tree(**window.get_params())
    twin = naive.Learner(
        kernel=naive_kernel, rule=naive_rule, **_state(case, loss), **limits
    )  # fmt: skip
    settings = Settings(
        kernel, loss, rule, window, scale=case["scale"], intercept=False, average=case["average"]
    )
    return Twins(settings, case["outputs"], np.dtype(case["dtype"]), twin)


def _state(case: dict[str, Any], loss: losses.Loss) -> dict[str, Any]:
    return {
        "loss": cases._naive_name(loss), "start": loss.start, "outputs": case["outputs"],
        "average": case["average"], "scale": case["scale"], "intercept": False,
        "targets_scaled": case["scale"] and loss.task == "regression",
        "moments_eps": float(np.finfo(case["dtype"]).eps),
    }  # fmt: skip


PRIMAL_FACTORS: dict[str, tuple[Any, ...]] = {
    "rule": ("norma", "norma_nu", "norma_huber", *RULES),
    "p": (2.0, 3.0, 30.0),
    "dtype": ("float64",),
    "scale": (False, True),
    "average": (False, True),
    "outputs": (1, 3),
    "weights": (False, True),
}
DESCENTS = {
    "norma": (losses.Logistic(), None),
    "norma_nu": (losses.SoftMargin(nu=0.3), 0.3),
    "norma_huber": (losses.Huber(sigma=0.5), None),
}


def primal_possible(case: dict[str, Any]) -> bool:
    """The link is for NORMA, ALMA and the perceptron; past weights cannot be re-standardised."""
    p = case.get("p")
    if p in (None, 2.0):
        return True
    if case.get("scale") and case.get("average"):
        return False
    return case.get("rule") not in RULES or RULES[case["rule"]][0].has_link


def build_primal(case: dict[str, Any]) -> Twins:
    """Return the linear learner and its twin."""
    rule, loss, naive_rule = _primal_rule(case)
    twin = naive.Primal(
        rule=naive_rule, p=case["p"], memory=rule.bind(loss).memory,
        **{**_state(case, loss), "intercept": case["rule"] in DESCENTS},
    )  # fmt: skip
    settings = Settings(
        kernels.Linear(), loss, rule, expansions.Weights(p=case["p"]), scale=case["scale"],
        intercept=case["rule"] in DESCENTS, average=case["average"],
    )  # fmt: skip
    return Twins(settings, case["outputs"], np.dtype(case["dtype"]), twin)


APART = (1.4, 0.3, 2.0)
"""Of the codes in front of the numbers."""


def build_hashed(case: dict[str, Any], bits: int = 4) -> Twins:
    """Return the linear learner on codes and numbers, and its twin."""
    rule, loss, naive_rule = _primal_rule({**case, "p": 2.0})
    twin = naive.Hashed(
        rule=naive_rule, memory=rule.bind(loss).memory, apart=APART, buckets=2**bits,
        **{**_state(case, loss), "intercept": case["rule"] in DESCENTS},
    )  # fmt: skip
    settings = Settings(
        kernels.Linear(), loss, rule, expansions.Weights(bits=bits), scale=case["scale"],
        intercept=case["rule"] in DESCENTS, average=case["average"],
    )  # fmt: skip
    return Twins(settings, case["outputs"], np.dtype(case["dtype"]), twin, APART)


def with_codes(X: Any, rng: np.random.Generator) -> Any:
    """Return rows with codes in front: few values, many, and one that tells of a number."""
    codes = [rng.integers(0, 4, len(X)), rng.integers(0, 2**24, len(X)), X[:, 0] > 0]
    return np.column_stack([*codes, X])


def _primal_rule(case: dict[str, Any]) -> tuple[Any, Any, Any]:
    if case["rule"] in DESCENTS:
        loss, nu = DESCENTS[case["rule"]]
        rule = rules.Norma(learning_rate=0.1, memory=40.0)
        return rule, loss, naive.Descent(lambda t: 0.1, 1 / 4.0, nu=nu)
    rule, loss, twin = RULES[case["rule"]]
    if case["rule"] == "alma_tuning":
        twin = naive.alma_self_tuning(0.6, p=case["p"])
    return rule, loss, twin


def stream(case: dict[str, Any], rng: np.random.Generator, rows: int) -> tuple[Any, Any, Any]:
    """Return rows, targets and weights."""
    loss = DESCENTS[case["rule"]][0] if case["rule"] in DESCENTS else RULES[case["rule"]][1]
    name = next(k for k, v in cases.LOSSES.items() if v.task == loss.task)
    X, Y = cases.stream({**case, "loss": name}, rng, rows)
    weight = rng.uniform(0.2, 1.3, size=rows) if case["weights"] else np.ones(rows)
    return X, Y, weight
