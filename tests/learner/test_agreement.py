"""The fast path against the naive twin, over pairs of all choices; blocks of any size agree."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import cases
from helpers.agreement import close, name_of
from helpers.sizes import size, some

from onkel.core.layout import Field

ROWS = size(60, 90)
ALL = some(cases.pairwise(cases.FACTORS))
TOLERANCE = {"float64": 1e-10, "float32": 1e-4}


def learn_by_row(learner, X, Y):
    """Feed rows singly; return scores, and the decision taken at each."""
    scores, decisions = [], []
    for x, y in zip(X, Y, strict=True):
        before = learner.state[:, Field.OUTSIDE].copy()
        score, _ = learner.learn(x[None], y[None], np.ones(1))
        scores.append(score[0])
        decisions.append((learner.state[:, Field.OUTSIDE] - before).astype(int).tolist())
    return np.array(scores), decisions


@pytest.mark.parametrize("case", ALL, ids=name_of)
def test_fast_path_equals_naive_twin(case, rng):
    twins = cases.build(case)
    learner, twin = twins.learner(), twins.twin
    X, Y = cases.stream(case, rng, ROWS)
    tolerance = TOLERANCE[case["dtype"]]
    scores, decisions = learn_by_row(learner, X, Y)
    replay = decisions if case["dtype"] == "float32" else [None] * ROWS
    truth, mean_truth = [], []
    for x, y, d in zip(X, Y, replay, strict=True):
        if case["average"]:
            mean_truth.append(twin.mean_score(x) if twin.t else [0.0] * twins.outputs)
        truth.append(twin.learn_one(x, list(y), decisions=d))
    state = learner.state
    if not case["average"]:
        close(scores, truth, tolerance, "scores")
    close(state[:, Field.THRESHOLD], twin.threshold, tolerance, "threshold")
    close(state[:, Field.OFFSET], twin.b, tolerance, "offset")
    if case["dtype"] == "float64":
        close(state[:, Field.ALERT], twin.alert, tolerance, "alert threshold")
        assert state[:, Field.OUTSIDE].tolist() == list(twin.sum_outside)
    assert learner.terms.births_from(0, learner.terms.count).tolist() == [
        term[0] for term in twin.terms
    ]
    probe = X[:: size(11, 7)]
    if not case["average"]:
        close(learner.scores(probe), [twin.score(x) for x in probe], tolerance, "later scores")
    if case["norm"]:
        close(np.sqrt(state[:, Field.NORM2]), np.sqrt(twin.norm2()), 10 * tolerance, "norm")
    if not case["scale"]:
        true_error = np.array(twin.dropped_part_norm())
        assert np.all(state[:, Field.DROPPED] >= true_error * (1 - 1e-3) - 1e-6)
        close(state[:, Field.LOSS], twin.cumulative_loss, 10 * tolerance, "loss")
        if case["norm"] is True:
            close(state[:, Field.RISK], twin.cumulative_risk, 100 * tolerance, "risk")
    if case["average"]:
        check_average(learner, twin, probe, scores, mean_truth, case, tolerance)


def check_average(learner, twin, probe, scores, mean_truth, case, tolerance):
    """The average hypothesis, up to what left the window, which its bound covers."""
    truth = np.array([twin.mean_score(x) for x in probe])
    ours = learner.scores(probe)
    if case["window"] == "all":
        close(ours, truth, tolerance, "average")
        close(scores, mean_truth, tolerance, "average before each row")
    elif not case["scale"]:
        size = np.sqrt(np.max(learner.kernel.diag(probe)))
        bound = learner.state[:, Field.DROPPED_AVERAGE] / learner.t * size
        assert np.all(np.abs(ours - truth) <= bound + 10 * tolerance * max(1, np.abs(truth).max()))


@pytest.mark.parametrize("case", ALL[:: size(9, 3)], ids=name_of)
def test_blocks_of_any_size_agree(case, rng):
    twins = cases.build(case)
    X, Y = cases.stream(case, rng, 3 * ROWS)
    tolerance = {"float64": 1e-11, "float32": 3e-4}[case["dtype"]]
    single = twins.learner()
    reference, _ = learn_by_row(single, X, Y)
    for rows in (7, 256, len(X)):
        learner = twins.learner()
        parts = [
            learner.learn(X[i : i + rows], Y[i : i + rows], np.ones(len(X[i : i + rows])))[0]
            for i in range(0, len(X), rows)
        ]
        if not np.array_equal(learner.state[:, Field.OUTSIDE], single.state[:, Field.OUTSIDE]):
            pytest.skip("a decision lay within rounding of its threshold")
        close(np.concatenate(parts), reference, tolerance, f"blocks of {rows}")
        close(learner.state[:, Field.THRESHOLD], single.state[:, Field.THRESHOLD], tolerance, "rho")
        assert learner.terms.count == single.terms.count
