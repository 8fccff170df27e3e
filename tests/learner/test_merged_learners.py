"""Merged learners are weighted sums, shrunk to the window; they go on as their naive twins do."""

from __future__ import annotations

import naive
import numpy as np
import pytest
from helpers import cases, rule_cases
from helpers.agreement import close, name_of
from helpers.sizes import size, some

from onkel.core.layout import Field
from onkel.learner import merged

ROWS = (30, 40, 15)
WEIGHTS = np.array([0.5, 0.2, 0.3])
KERNEL_CASES = some(cases.pairwise(cases.FACTORS))
RULE_CASES = some(cases.pairwise(rule_cases.FACTORS, rule_cases.possible))
PRIMAL_CASES = cases.pairwise(rule_cases.PRIMAL_FACTORS, rule_cases.primal_possible)
ALL = (
    # The exponential loss at large steps: some streams carry it out of the floating range.
    [
        ("kernel", case)
        for case in KERNEL_CASES
        if case["loss"] != "exponential"
        or case["schedule"] not in ("wipe", "growth", "inverse_sqrt")
    ]
    + [("rule", case) for case in RULE_CASES]
    + [("primal", case) for case in PRIMAL_CASES]
)
BUILD = {"kernel": cases.build, "rule": rule_cases.build, "primal": rule_cases.build_primal}
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}


def id_of(value):
    return value if isinstance(value, str) else name_of(value)


def streams(kind, case, rng, rows):
    """Rows, targets and weights of one part."""
    if kind == "kernel":
        X, Y = cases.stream(case, rng, rows)
        return X, Y, np.ones(rows)
    return rule_cases.stream(case, rng, rows)


def parts_of(kind, case, rng):
    """Learners that learned apart, one of them longer than the others, and fresh rows."""
    learners = []
    for rows in ROWS:
        learner = BUILD[kind](case).learner()
        learner.learn(*streams(kind, case, rng, rows))
        learners.append(learner)
    return learners, streams(kind, case, rng, 25)


def weighted(learners, X, weights=WEIGHTS):
    return np.sum([w * a.scores(X) for w, a in zip(weights, learners, strict=True)], axis=0)


def lengths(learner, X):
    """The square root of k(x, x), or the length of the features, of each row."""
    if hasattr(learner, "terms"):
        sizes = learner.terms.diag(learner.terms.prepare(X))
        return np.sqrt(np.maximum(sizes, 0.0))
    features = learner.map.features(X, learner.frame)
    return np.array([naive.p_norm(row, learner.p) for row in features])


@pytest.mark.parametrize(("kind", "case"), ALL[:: size(2, 1)], ids=id_of)
def test_the_sum_is_the_weighted_sum_up_to_its_bound(kind, case, rng):
    learners, (X, _, _) = parts_of(kind, case, rng)
    found = [merged(learners, WEIGHTS, refit) for refit in (True, False)]
    for each in found:
        check_the_sum(case, learners, X, each)
    assert np.all(found[0].bound <= found[1].bound * (1 + 1e-6) + 1e-6)


def check_the_sum(case, learners, X, found):
    whole = found.learner
    gap = np.abs(whole.scores(X) - weighted(learners, X))
    if case["scale"]:
        spreads = [1 / (a.frame.width * a.frame.unit) for a in learners]
        assert found.change is not None or np.array_equal(spreads[0], spreads[1])
    else:
        assert found.change is None
        dust = TOLERANCE[case["dtype"]] * max(1.0, float(np.abs(weighted(learners, X)).max()))
        assert np.all(gap <= found.bound * lengths(whole, X)[:, None] + dust)
    if case.get("window", "all") == "all" and whole.rule.radius == np.inf and case.get("p", 2) == 2:
        assert not found.bound.any() and not found.dropped
    assert whole.t == sum(ROWS)
    counted = np.sum([a.state[:, Field.UPDATES] for a in learners], axis=0)
    assert np.array_equal(whole.state[:, Field.UPDATES], counted)


def both_ways(kind, case, rng):
    """The merged learner and the merged twin, of parts that agreed, and fresh rows."""
    learners, twins = [], []
    for rows in ROWS:
        built = BUILD[kind](case)
        learner, twin = built.learner(), built.twin
        X, Y, weight = streams(kind, case, rng, rows)
        for x, y, w in zip(X, Y, weight, strict=True):
            before = learner.state[:, [Field.UPDATES, Field.OUTSIDE]].copy()
            learner.learn(x[None], y[None], np.array([w]))
            moved = learner.state[:, [Field.UPDATES, Field.OUTSIDE]] > before
            column = 0 if kind != "kernel" and case["rule"] in rule_cases.RULES else 1
            twin.learn_one(x, list(y), weight=w, decisions=moved[:, column].tolist())
        learners.append(learner)
        twins.append(twin)
    return merged(learners, WEIGHTS, refit=False), naive.merged(twins, WEIGHTS.tolist()), column


GOING_ON = [
    (kind, case)
    for kind, case in ALL
    if case["dtype"] == "float64"
    and not (kind == "primal" and case["scale"] and case["average"] and case["p"] != 2)
]


@pytest.mark.parametrize(("kind", "case"), GOING_ON[:: size(12, 4)], ids=id_of)
def test_learning_goes_on_as_the_naive_twin(kind, case, rng):
    found, twin, column = both_ways(kind, case, rng)
    whole, tolerance = found.learner, 1e-8
    X, Y, weight = streams(kind, case, rng, 40)
    same_average = kind == "primal" or case["window"] == "all"

    def compare(when):
        if not case["average"] or same_average:
            truth = [twin.mean_score(x) if case["average"] else twin.score(x) for x in X[::5]]
            close(whole.scores(X[::5]), truth, tolerance, f"scores {when}")
        close(whole.state[:, Field.OFFSET], twin.b, tolerance, f"offset {when}")
        if case.get("rule") != "alma_tuning":
            close(whole.state[:, Field.THRESHOLD], twin.threshold, tolerance, f"threshold {when}")
        if whole.loss.alerts:
            close(whole.state[:, Field.ALERT], twin.alert, tolerance, f"alerts {when}")
        if whole.rule.needs_norm:
            norms = np.sqrt(whole.state[:, Field.NORM2]), np.sqrt(twin.norm2())
            close(*norms, tolerance, f"norm {when}")
        if kind != "primal":
            births = whole.terms.births_from(0, whole.terms.count).tolist()
            assert births == [term[0] for term in twin.terms], when
        if kind != "primal" and not case["scale"]:
            true_error = np.array(twin.dropped_part_norm())
            assert np.all(whole.state[:, Field.DROPPED] >= true_error * (1 - 1e-3) - 1e-6)

    compare("after the merge")
    for x, y, w in zip(X, Y, weight, strict=True):
        before = whole.state[:, [Field.UPDATES, Field.OUTSIDE]].copy()
        whole.learn(x[None], y[None], np.array([w]))
        moved = whole.state[:, [Field.UPDATES, Field.OUTSIDE]] > before
        twin.learn_one(x, list(y), weight=w, decisions=moved[:, column].tolist())
    compare("later")
    assert whole.t == twin.t
