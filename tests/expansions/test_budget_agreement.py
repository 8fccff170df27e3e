"""Budgets against their naive twin: every way to leave, every kind of rule, rows cut anyhow."""

from __future__ import annotations

from dataclasses import replace

import naive
import numpy as np
import pytest
from helpers import cases, rule_cases
from helpers.agreement import close
from helpers.sizes import size, some

from onkel import core, expansions, losses, rules
from onkel.core.layout import Field
from onkel.learner import Settings, TermLearner

CAP = 32  # two go at a time
FACTORS = {
    "budget": ("smallest", "merge", "project"),
    "kernel": ("gaussian", "laplacian", "matern32", "polynomial", "sum", "function"),
    "rule": ("norma", "norma_squared", "alma", "projection", "projection_ball", "romma"),
    "scale": (False, True),
    "average": (False, True),
    "outputs": (1, 2),
    "weights": (False, True),
}


def possible(case):
    merges = case.get("budget") != "merge" or case.get("kernel") in (None, "gaussian")
    return merges and (case.get("rule") != "romma" or case.get("kernel") != "polynomial")


CASES = cases.pairwise(FACTORS, possible)


def twins(case):
    """Settings of the product, and the naive learner."""
    kernel, naive_kernel = cases.KERNELS[case["kernel"]]
    if case["rule"].startswith("norma"):
        loss = losses.Squared() if case["rule"] == "norma_squared" else losses.SoftMargin()
        rule = rules.Norma(learning_rate=0.3, memory=200)
        lam = rule.bind(loss).lam
        theirs = naive.Descent(lambda t: 0.3, lam)
    else:
        rule, loss, theirs = rule_cases.RULES[case["rule"]]
    window = expansions.Window(terms=CAP, budget=case["budget"])
    settings = Settings(
        kernel, loss, rule, window, scale=case["scale"], average=case["average"],
        intercept=case["rule"].startswith("norma"),
    )  # fmt: skip
    twin = naive.Budgeted(
        kernel=naive_kernel, budget=case["budget"], cap=CAP, rule=theirs,
        memory=rule.bind(loss).memory, intercept=settings.intercept,
        **{k: v for k, v in rule_cases._state({**case, "dtype": "float64"}, loss).items()
           if k != "intercept"},
    )  # fmt: skip
    return settings, twin


def stream(case, rng, rows=None):
    rows = size(64, 80) if rows is None else rows
    X = rng.normal(size=(rows, 3)) * [1.0, 0.5, 1.5]
    Y = np.stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 1] * X[:, 2]], axis=1)[:, : case["outputs"]]
    if case["rule"] != "norma_squared":
        Y = np.where(Y > 0, 1.0, -1.0)
    weight = rng.uniform(0.2, 1.5, rows) if case["weights"] else np.ones(rows)
    return X, Y, weight


@pytest.mark.parametrize("case", some(CASES, times=1), ids=lambda c: "-".join(map(str, c.values())))
def test_as_the_naive_twin_has_it(case, rng):
    settings, twin = twins(case)
    X, Y, weight = stream(case, rng)
    learner = TermLearner(settings, 3, case["outputs"], np.float64)
    ours, at = [], 0
    while at < len(X):
        n = int(rng.integers(1, 40))
        ours.append(learner.learn(X[at : at + n], Y[at : at + n], weight[at : at + n])[0])
        at += n
    theirs = [
        (twin.mean_score(x) if case["average"] and i else None, twin.learn_one(x, y, w))
        for i, (x, y, w) in enumerate(zip(X, Y.tolist(), weight, strict=True))
    ]
    if case["average"]:
        assert learner.size == len(twin.terms)
    else:
        close(np.concatenate(ours), [score for _, score in theirs], 1e-6, "scores")
    assert len(twin.moments_of_truth) > 3
    close(learner.state[:, Field.DROPPED], twin.lost, 1e-6, "what was lost")
    births = learner.terms.births_from(0, learner.size)
    assert births.tolist() == [birth for birth, _, _ in twin.terms]
    coef = (
        learner.terms.coefs(0, learner.size)[:, : case["outputs"]] * learner.state[:, Field.SCALE]
    )
    close(coef, [a for _, _, a in twin.terms], 1e-6, "coefficients")
    rows = learner.terms.raw_rows()
    close(rows, [x for _, x, _ in twin.terms], 1e-6, "points")
    if learner.rule.needs_norm:
        close(learner.state[:, Field.NORM2], twin.norm2(), 1e-6, "the norm")
    if case["average"]:
        close(learner.state[:, Field.DROPPED_AVERAGE], twin.lost_sums, 1e-6, "of the average")
        shown = [twin.mean_score_kept(x) for x in X[:20]]
        close(learner.scores(X[:20]), shown, 1e-6, "average")


@pytest.mark.parametrize("budget", FACTORS["budget"])
def test_what_is_reported_covers_what_was_lost(budget, rng):
    """Each time the true norm of what was lost, by all pairs, is at most what joins the bound."""
    case = {"budget": budget, "kernel": "gaussian", "rule": "norma_squared", "scale": False,
            "average": False, "outputs": 2, "weights": False}  # fmt: skip
    _, twin = twins(case)
    for x, y, _ in zip(*stream(case, rng), strict=True):
        twin.learn_one(x, y.tolist())
    for true, said in twin.moments_of_truth:
        assert np.all(np.array(true) <= np.array(said) * (1 + 1e-9) + 1e-12)
    assert np.sum([said for _, said in twin.moments_of_truth]) < 2 * np.sum(
        [true for true, _ in twin.moments_of_truth]
    )  # nor is it much more


@pytest.mark.skipif(not core.has_lane(), reason="there is one core here")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("budget", FACTORS["budget"])
def test_the_two_cores_agree(budget, dtype, rng, monkeypatch):
    """The same window, condensed by either core: codes among the columns, a shifted frame."""
    case = {"budget": budget, "kernel": "gaussian", "rule": "norma", "scale": True,
            "average": False, "outputs": 2, "weights": False}  # fmt: skip
    settings, _ = twins(case)
    X, Y, weight = stream(case, rng, 100)
    X[:, 0] = rng.integers(0, 3, 100)
    learner = TermLearner(replace(settings, expansion=expansions.Window(terms=101)), 3, 2, dtype,
                          (0.7,))  # fmt: skip
    learner.learn(X.astype(dtype), Y, weight)
    code, n = settings.expansion.policy.code, learner.size
    learner._fold()
    ours, theirs = learner.terms.copy(), learner.terms.copy()
    lost = ours.condense(code, n - 12, 2)
    monkeypatch.setattr(core, "has_lane", lambda: False)
    beside = theirs.condense(code, n - 12, 2)
    tolerance = 1e-9 if dtype == "float64" else 1e-4
    close(lost, beside, tolerance, "what was lost")
    assert np.array_equal(ours.births_from(0, n - 12), theirs.births_from(0, n - 12))
    close(ours.coefs(0, n - 12), theirs.coefs(0, n - 12), tolerance, "coefficients")
    close(ours.rows(0, n - 12), theirs.rows(0, n - 12), tolerance, "rows")
    close(ours.norms.ravel()[: n - 12], theirs.norms.ravel()[: n - 12], tolerance, "lengths")
    assert np.array_equal(ours.weights, ours.coef.astype(dtype))
