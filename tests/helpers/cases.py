"""Cases for the agreement tests: every choice once as the product has it, once as the naive twin.

``pairwise`` covers every pair of levels of any two factors with few cases.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import naive
import numpy as np

from onkel import expansions, kernels, losses, rules, schedules
from onkel.learner import Settings, TermLearner

LOSSES = {
    "soft_margin": losses.SoftMargin(margin=0.7),
    "soft_margin_nu": losses.SoftMargin(nu=0.3),
    "soft_margin_zero": losses.SoftMargin(margin=0.0),
    "soft_margin_power": losses.SoftMargin(margin=0.8, power=1.5),
    "logistic": losses.Logistic(),
    "least_squares": losses.LeastSquares(),
    "exponential": losses.Exponential(),
    "novelty": losses.Novelty(nu=0.15),
    "novelty_support": losses.Novelty(nu=0.1, support=0.3),
    "novelty_unlearned": losses.Novelty(nu=0.1, support=0.3, learn_alerts=False),
    "squared": losses.Squared(),
    "absolute": losses.Absolute(),
    "epsilon_insensitive": losses.EpsilonInsensitive(epsilon=0.2),
    "epsilon_insensitive_nu": losses.EpsilonInsensitive(nu=0.2),
    "huber": losses.Huber(sigma=0.5),
    "huber_nu": losses.Huber(nu=0.2),
}
KERNELS: dict[str, tuple[kernels.Kernel, Any]] = {
    "gaussian": (kernels.Gaussian(0.4), naive.gaussian(0.4)),
    "laplacian": (kernels.Laplacian(0.3), naive.laplacian(0.3)),
    "matern32": (kernels.Matern(1.5, 1.3), naive.matern(1.5, 1.3)),
    "matern52": (kernels.Matern(2.5, 1.7), naive.matern(2.5, 1.7)),
    "linear": (0.2 * kernels.Linear(), naive.scaled(0.2, naive.linear())),
    "polynomial": (
        0.1 * kernels.Polynomial(2, 0.3, 1.0), naive.scaled(0.1, naive.polynomial(2, 0.3, 1.0))
    ),
    "sum": (
        kernels.Gaussian(0.4) + 0.1 * kernels.Linear(),
        naive.add(naive.gaussian(0.4), naive.scaled(0.1, naive.linear())),
    ),
    "product": (
        kernels.Matern(1.5, 2.0) * kernels.Laplacian(0.2),
        naive.multiply(naive.matern(1.5, 2.0), naive.laplacian(0.2)),
    ),
    "additive": (
        kernels.Additive(
            [kernels.Exponential(0.7), kernels.Matern(1.5, 1.2), kernels.Matern(2.5, 0.8)],
            weights=[0.3, 0.5, 0.2],
        ),
        naive.additive(
            [naive.exponential(0.7), naive.matern_1d(1.5, 3**0.5 / 1.2),
             naive.matern_1d(2.5, 5**0.5 / 0.8)], [0.3, 0.5, 0.2],
        ),
    ),
    "function": (
        kernels.Function(lambda X, Z: 1.0 / (1.0 + ((X[:, None] - Z[None]) ** 2).sum(-1)), 1.0),
        lambda x, z: 1.0 / (1.0 + float(((x - z) ** 2).sum())),
    ),
}  # fmt: skip
SCHEDULES: dict[str, tuple[Any, Any, dict[str, float]]] = {
    # learning_rate, the same as a function of t, memory or regularization
    "constant": (0.3, lambda t: 0.3, {"memory": 50.0}),
    "no_forgetting": (0.3, lambda t: 0.3, {"regularization": 0.0}),
    "inverse_sqrt": (
        schedules.InverseSqrt(0.8), lambda t: 0.8 / math.sqrt(t), {"regularization": 0.5}
    ),
    "regularized": (
        schedules.Regularized(0.5), lambda t: 1 / (3 * 0.5 * math.sqrt(t)), {"regularization": 0.5}
    ),
    "horizon": (
        schedules.Horizon(3.0, 1.0, 100), lambda t: 3.0 / 10.0, {"regularization": 0.1}
    ),
    "power": (schedules.Power(0.6, 1.5), lambda t: t**-0.6 / 1.5, {"regularization": 0.2}),
    "function": (
        lambda t: 0.2 + 0.1 * np.cos(t), lambda t: 0.2 + 0.1 * math.cos(t), {"regularization": 0.3}
    ),
    "wipe": (schedules.InverseSqrt(1.0), lambda t: 1.0 / math.sqrt(t), {"regularization": 1.0}),
    "growth": (schedules.InverseSqrt(0.9), lambda t: 0.9 / math.sqrt(t), {"regularization": 1.0}),
}  # fmt: skip
UNBOUNDED = ("squared", "soft_margin_power", "least_squares", "exponential")
WINDOWS = ("all", "terms", "age", "age_terms", "tolerance", "growth")
FACTORS: dict[str, tuple[Any, ...]] = {
    "loss": tuple(LOSSES),
    "kernel": tuple(KERNELS),
    "schedule": tuple(SCHEDULES),
    "window": WINDOWS,
    "dtype": ("float64", "float32"),
    "scale": (False, True),
    "average": (False, True),
    "norm": (False, True, "p=1.5"),
    "outputs": (1, 3),
    "threshold_rate": (1.0, 3.0, "3 and 0.2"),
    "intercept": (True, False),
}


def possible(case: dict[str, Any]) -> bool:
    """Whether the theory allows this combination (the product refuses the others)."""
    window, schedule = case.get("window"), case.get("schedule")
    if window == "tolerance":
        if schedule not in (None, "constant", "horizon"):
            return False
        if case.get("loss") in UNBOUNDED:
            return False
        if case.get("kernel") in ("linear", "polynomial", "sum"):
            return False
    if case.get("loss") == "exponential" and case.get("kernel") in ("linear", "polynomial", "sum"):
        return False  # its slope grows with the score, the score with the row: both overflow
    if window == "growth" and schedule not in (None, "growth", "inverse_sqrt"):
        return False
    if str(case.get("loss")).startswith("novelty"):
        return case.get("outputs") in (None, 1) and case.get("intercept") in (None, False)
    return True


def pairwise(
    factors: dict[str, tuple[Any, ...]], possible: Callable[[dict[str, Any]], bool] = possible
) -> list[dict[str, Any]]:
    """Return few cases in which every possible pair of levels occurs."""
    known = repr(factors), possible
    if known not in _FOUND:
        _FOUND[known] = _pairwise(factors, possible)
    return _FOUND[known].copy()


_FOUND: dict[Any, list[dict[str, Any]]] = {}


def _pairwise(
    factors: dict[str, tuple[Any, ...]], possible: Callable[[dict[str, Any]], bool]
) -> list[dict[str, Any]]:
    names = list(factors)
    missing = {
        ((a, x), (b, y))
        for a, b in itertools.combinations(names, 2)
        for x in factors[a]
        for y in factors[b]
        if possible({a: x, b: y})
    }
    cases = []
    while missing:
        first = min(missing, key=repr)
        case = dict(first)
        for name in names:
            if name not in case:
                options = [v for v in factors[name] if possible({**case, name: v})]
                case[name] = max(options, key=lambda v: _gain(names, case, name, v, missing))
        covered = {pair for pair in missing if all(case[name] == level for name, level in pair)}
        if not covered:
            missing.discard(first)
            continue
        missing -= covered
        cases.append({name: case[name] for name in names})
    return cases


def _gain(order: list[str], case: dict[str, Any], name: str, value: Any, missing: set[Any]) -> int:
    gain = 0
    for other, level in case.items():
        pair = sorted([(name, value), (other, level)], key=lambda p: order.index(p[0]))
        gain += tuple(pair) in missing
    return gain


@dataclass
class Twins:
    """One case, built both ways."""

    settings: Settings
    features: int
    outputs: int
    dtype: Any
    twin: naive.Norma

    def learner(self) -> TermLearner:
        """A fresh learner of the product."""
        return TermLearner(self.settings, self.features, self.outputs, self.dtype)


def build(case: dict[str, Any], features: int = 3) -> Twins:
    """Return the product's settings and the naive twin for one case."""
    loss = LOSSES[case["loss"]]
    kernel, naive_kernel = KERNELS[case["kernel"]]
    rate, naive_rate, forgetting = SCHEDULES[case["schedule"]]
    power = 1.5 if case["norm"] == "p=1.5" else 2.0
    apart = case["threshold_rate"] == "3 and 0.2"
    outer, inner = (3.0, 0.2) if apart else (case["threshold_rate"], None)
    rule = rules.Norma(
        learning_rate=rate, threshold_rate=outer, support_rate=inner, regularizer=power,
        track_norm=bool(case["norm"]), **forgetting,
    )  # fmt: skip
    bound = rule.bind(loss)
    window, limits = _window(case["window"], bound, loss, kernel)
    regression = loss.task == "regression"
    twin = naive.Norma(
        kernel=naive_kernel, loss=_naive_name(loss), outputs=case["outputs"],
        rate=naive_rate, lam=bound.lam, start=loss.start, nu=loss.nu,
        power=getattr(loss, "power", 1.0),
        support=getattr(loss, "support", None), threshold_rate=outer, support_rate=inner,
        learn_alerts=getattr(loss, "learn_alerts", True),
        intercept=case["intercept"], average=case["average"],
        omega_prime=None if power == 2.0 else (lambda r: r**0.5),
        scale=case["scale"], memory=bound.memory, targets_scaled=case["scale"] and regression,
        moments_eps=float(np.finfo(case["dtype"]).eps), **limits,
    )  # fmt: skip
    settings = Settings(
        kernel, loss, rule, window, scale=case["scale"],
        intercept=case["intercept"] and loss.task != "novelty", average=case["average"],
    )  # fmt: skip
    return Twins(settings, features, case["outputs"], np.dtype(case["dtype"]), twin)


def _naive_name(loss: losses.Loss) -> str:
    return next(name for name, kind in losses.REGISTRY.items() if kind is type(loss))


def _window(name: str, rule: Any, loss: Any, kernel: Any) -> tuple[Any, dict[str, Any]]:
    if name == "all":
        return expansions.Window(terms=None), {}
    if name == "terms":
        return expansions.Window(terms=12), {"max_terms": 12}
    if name == "age":
        return expansions.Window(age=20), {"age": naive.age(20)}
    if name == "age_terms":
        return expansions.Window(age=30, terms=9), {"age": naive.age(30), "max_terms": 9}
    if name == "tolerance":
        bound = kernel.resolve(3).bound
        age = naive.tolerance_age(0.5, rule.constant, rule.lam, 1.0, bound)
        return expansions.Window(tolerance=0.5), {"age": naive.age(age)}
    return expansions.Window(growth=0.4), {"age": naive.growth(rule.schedule.rate * rule.lam, 0.4)}


def stream(case: dict[str, Any], rng: np.random.Generator, rows: int) -> tuple[Any, Any]:
    """Return rows and targets: a drifting cloud, noisy targets of the right kind."""
    X = rng.normal(size=(rows, 3)) * [1.0, 0.5, 2.0] + np.linspace(0, 1, rows)[:, None]
    f = np.sin(X[:, 0]) + 0.3 * X[:, 1]
    Y = np.stack([f * s + 0.2 * rng.normal(size=rows) for s in (1.0, -0.5, 2.0)], axis=1)
    Y = Y[:, : case["outputs"]]
    task = LOSSES[case["loss"]].task
    if task == "classification":
        Y = np.where(Y > 0, 1.0, -1.0)
    elif task == "novelty":
        Y = np.zeros((rows, 1))
    return X.astype(case["dtype"]), Y
