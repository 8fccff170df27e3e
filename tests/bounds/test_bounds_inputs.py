"""Guarantees as objects, and what the functions refuse."""

from __future__ import annotations

import inspect
import math
import re

import numpy as np
import pytest

from onkel import bounds, rules, schedules
from onkel.bounds.guarantee import ACCEPTS

GOOD = {
    "radius": 2.0, "bound": 1.0, "target_margin": 1.0, "margin": 0.2, "loss": 1.0, "trials": 100,
    "path": 1.0, "squared_path": 0.1, "p": 2.0, "step": 0.1, "weight_decay": 0.1, "risk": 0.1,
    "learning_rate": 0.5, "regularization": 0.5, "slope": 1.0, "growth": 0.25, "risk_limit": 5.0,
    "delta": 0.1, "distance": 1.0, "norm": 1.0, "excess": 0.1, "kappa": 1.0, "theta": 0.5,
    "beta": 1.0, "regularization_error": 0.5, "centers": 5, "kernel_bound": 1.0, "constant": 1.0,
    "epsilon": 0.1, "members": 5, "switches": 2, "rate": 0.5, "share": 0.01, "best_loss": 1.0,
    "mix_gap": 0.5, "nu": 0.01, "level_rate": 0.01, "low": 0.002, "high": 0.03, "forgiven": 0.1,
    "unspent": 0.2, "start": 0.02, "end": 0.01, "width_rate": 0.03, "narrowest": 0.001,
    "widest": 1e4, "first": 2.0, "last": 3.0, "ask": 0.02, "ask_rate": 0.01, "ask_start": 0.98,
    "ask_end": 0.985, "answered": 100, "precision": 0.8, "lowest": 1e-9, "waiting": 3,
}  # fmt: skip


def arguments(name):
    parameters = inspect.signature(getattr(bounds, name)).parameters.values()
    return [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]


FUNCTIONS = [
    name for name in bounds.__all__ if inspect.isfunction(getattr(bounds, name)) and arguments(name)
]


def call(name, **changes):
    function = getattr(bounds, name)
    parameters = inspect.signature(function).parameters.values()
    named = {p.name: GOOD[p.name] for p in parameters if p.kind is p.KEYWORD_ONLY}
    first = ["hinge"] if any(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters) else []
    return function(*first, **{**named, **changes})


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_is_checked(name):
    """NaN, infinity, a word and a list are refused by name, with what is accepted."""
    found = call(name)
    bound = found.bound if isinstance(found, bounds.Guarantee) else found
    assert math.isfinite(bound) and bound > 0
    for argument in arguments(name):
        for wrong in (math.nan, math.inf, -math.inf, "one", [1.0], True):
            with pytest.raises((ValueError, TypeError)) as caught:
                call(name, **{argument: wrong})
            if argument in ACCEPTS:
                assert isinstance(caught.value, ValueError)
                assert name in str(caught.value) and argument in str(caught.value)
                assert repr(wrong) in str(caught.value)


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("norma_margin_errors", {"margin": 1.0}, "margin must be below target_margin"),
        ("alma_any_step", {"margin": 3.0}, "margin must be below target_margin"),
        ("norma_mistakes", {"trials": None}, "Give trials"),
        ("norma_mistakes", {"trials": 1.5}, "whole number"),
        ("norma_any_step", {"weight_decay": 0.0}, "leave weight_decay out"),
        ("norma_mistakes", {"p": 1.5}, "Kernels have p = 2"),
        ("norma_risk", {"learning_rate": 2.0}, "below 1/regularization"),
        ("norma_risk_truncated", {"growth": 0.5}, "(0, 0.5)"),
        ("norma_average_risk", {"delta": 0.0}, "0.05 is usual"),
        ("horizon_risk", {"trials": 1, "regularization": 1.0}, "trials must be above"),
        ("projection_segment_loss", {"radius": 0.5}, "Raise radius"),
        ("coefficient_rate", {"epsilon": 0.25}, "(0, 0.25)"),
        ("coefficient_excess", {"theta": 0.0}, "(0, 1]"),
        ("alert_budget", {"start": 0.05}, "start must lie within [low, high]"),
        ("alert_budget", {"low": 0.02, "start": 0.025}, "end must lie within [low, high]"),
        ("alert_budget", {"nu": 1.0}, "(0, 1)"),
        ("precision_budget", {"lowest": 0.5}, "start must be a level of at least lowest"),
        ("precision_budget", {"start": None}, "start must be a level"),
        ("interval_misses", {"first": 1e-4}, "first must lie within [narrowest, widest]"),
        ("interval_misses", {"last": 1e5}, "last must lie within [narrowest, widest]"),
        ("norma_mistakes", {"bound": 1e200}, "floating point"),
        ("alma_mistakes", {"radius": 1e-200, "path": 0.0}, "floating point"),
        ("alma_mistakes", {"bound": 1e170, "radius": 1e-170}, "floating point"),
        ("coefficient_norm", {"kappa": 1e200}, "floating point"),
    ],
)
def test_what_does_not_fit_together(name, changes, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        call(name, **changes)


def test_losses_by_name_and_their_limits():
    with pytest.raises(ValueError, match="'exponential', 'hinge', 'logistic', 'squared'"):
        bounds.coefficient_norm("huber", kappa=1.0, regularization=1.0)
    with pytest.raises(ValueError, match="1 is the hinge"):
        bounds.HingePower(power=0.5)
    with pytest.raises(ValueError, match="Raise regularization"):
        bounds.coefficient_norm("exponential", kappa=10.0, regularization=0.1)
    with pytest.raises(ValueError, match="Lower theta"):  # no score can pass the margin: M = 0
        bounds.coefficient_excess("hinge", kappa=1.0, regularization=2.0, trials=9, theta=1.0)
    with pytest.raises(ValueError, match="a column per centre"):
        bounds.coefficient_kappa([[np.nan]])
    assert bounds.coefficient_curvature("hinge", kappa=1.0, regularization=2.0) == 0
    assert (
        bounds.coefficient_norm(bounds.HingePower(margin=0.5), kappa=1.0, regularization=1.0).margin
        == 0.5
    )


def test_guarantees_read_well():
    told = call("norma_mistakes", loss=0.0, squared_path=0.0, path=0.0)
    assert (
        repr(told)
        == "Guarantee(mistakes <= 4, margin=0.5, tuning={learning_rate: 1, regularization: 0})"
    )
    text = repr(call("norma_risk_truncated"))
    assert "0.5 t^-0.5" in text and "window={growth: 0.25}" in text
    with pytest.raises(AttributeError):
        told.bound = 3.0


def test_rates_are_those_of_the_schedules():
    t = np.arange(1, 50)
    rate = call("norma_risk").tuning["learning_rate"]
    assert np.allclose(rate(t), schedules.InverseSqrt(rate.rate)(t))
    rate = call("regularized_risk").tuning["learning_rate"]
    assert np.allclose(rate(t), schedules.Regularized(GOOD["regularization"])(t))
    told = call("coefficient_excess", theta=0.7)
    assert np.allclose(
        told.tuning["learning_rate"](t), schedules.Power(theta=0.7, mu=told.details["mu"])(t)
    )
    rate = call("horizon_risk").tuning["learning_rate"]
    assert rate == schedules.Horizon(radius=2.0, bound=1.0, trials=100).constant
    for name in ("norma_risk", "regularized_risk", "coefficient_excess", "horizon_risk"):
        rules.Norma(**call(name).tuning)  # each tuning is one that the rule accepts


def test_bounds_refuse_nonsense_at_once():
    assert bounds.growth_start(1e-308, 0.25) == bounds.NEVER
    assert bounds.growth_start(0.5, 1e-308) == bounds.NEVER
    for call in (
        lambda: bounds.count_bound(-1.0, 1.0, 1.0),
        lambda: bounds.step_size(0.0, 1.0, 1.0),
        lambda: bounds.growth_start(np.nan, 0.2),
    ):
        with pytest.raises(ValueError):
            call()
