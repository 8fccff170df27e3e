"""A fleet gives the answers of a dict of single estimators, bit for bit: all agreement cases."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from helpers import cases
from helpers.agreement import name_of
from helpers.fleets import Both
from helpers.sizes import size, some

from onkel import (
    Detector,
    Fleet,
    KernelClassifier,
    KernelRegressor,
    NoveltyDetector,
    core,
    expansions,
    files,
    losses,
    rules,
)

OUTPUTS = {
    "novelty": {"prediction": "predict", "score": "score_samples", "rank": "rank_samples",
                "decision": "decision_function", "p": "p_samples"},
    "classification": {"prediction": "predict", "probability": "predict_proba"},
    "regression": {"prediction": "predict"},
}  # fmt: skip
LEARNED = {
    "novelty": ("prediction", "judgement", "rank", "decision", "score", "p"),
    "classification": ("prediction", "probability"),
    "regression": ("prediction", "interval", "judgement"),
}
LABELS = np.array(["no", "perhaps", "yes"])


def estimator_of(case):
    """The estimator of an agreement case."""
    twins = cases.build(case)
    settings = twins.settings
    common = {
        "kernel": settings.kernel, "rule": settings.rule, "expansion": settings.expansion,
        "scale": settings.scale, "average": settings.average,
    }  # fmt: skip
    loss = settings.loss
    if loss.task == "novelty":
        return NoveltyDetector(
            loss.nu, loss.support, learn_alerts=loss.learn_alerts, warmup=20, recent=30, **common
        )
    kind = KernelClassifier if loss.task == "classification" else KernelRegressor
    return kind(loss=loss, fit_intercept=settings.intercept, **common)


def targets_of(case, Y):
    """Labels of one, two or three classes; one or three numbers; or nothing."""
    task = cases.LOSSES[case["loss"]].task
    if task == "novelty":
        return None
    if task == "regression":
        return Y if case["outputs"] > 1 else Y[:, 0]
    if case["outputs"] == 1:
        return (Y[:, 0] > 0).astype(int)
    return LABELS[(Y > 0).sum(axis=1) % 3]


def run(both, rng, X, y, outputs, **how):
    """Blocks of several sizes, single rows in between."""
    keys = np.array(["a", "b", "c", "d"])[np.minimum(rng.geometric(0.45, len(X)) - 1, 3)]
    keys[:4] = ["a", "b", "c", "d"]  # a key's first row, alone in a list, would be 64 bits wide
    start, turn = 0, 0
    while start < len(X):
        stop = min(start + int(rng.choice([1, 3, 17, 60] if start else [4, 40])), len(X))
        part = slice(start, stop)
        given = {name: v[part] for name, v in how.items()}
        output = outputs[turn % len(outputs)]
        both.learn(keys[part], X[part], None if y is None else y[part], output, **given)
        if stop < len(X) and "sample_weight" not in how:
            one = {name: float(v[stop]) for name, v in how.items()}
            both.learn_one(keys[stop].item(), X[stop], None if y is None else y[stop], **one)
            stop += 1
        start, turn = stop, turn + 1
    return keys


def check(both, X, task):
    outputs = OUTPUTS[task]
    both.check(X[:: max(len(X) // 9, 1)], outputs)


@pytest.mark.parametrize("case", some(cases.pairwise(cases.FACTORS), size(1, 2)), ids=name_of)
def test_every_agreement_case(case, rng):
    estimator = estimator_of(case)
    X, Y = cases.stream(case, rng, size(120, 400))
    y, task = targets_of(case, Y), estimator.task
    both = Both(estimator)
    told = LEARNED[task]
    if task == "regression" and cases.LOSSES[case["loss"]].nu is None:
        told = ("prediction",)
    run(both, rng, X, y, told)
    check(both, X, task)


def test_most_agreement_cases_are_held_in_cells():
    if not core.has_lane():
        pytest.skip("no compiled core")
    from onkel.estimators.packed import packed_of

    found = {}
    for case in cases.pairwise(cases.FACTORS):
        packed = packed_of(estimator_of(case), np.zeros((1, 3)))
        if isinstance(packed, str):
            found.setdefault(packed.split(",")[0][:40], case)
            assert (
                case["average"] or case["norm"] or case["kernel"] in ("function", "additive")
                or (not case["scale"] and case["kernel"] in ("linear", "polynomial", "sum"))
            ), packed  # fmt: skip


KINDS = {
    "Detector": Detector(nu=0.02, terms=40, warmup=50, recent=30),
    "Detector, as it comes": Detector(),
    "Detector, gaps": Detector(nu=0.05, warmup=30, missing="mean"),
    "NoveltyDetector": NoveltyDetector(nu=0.05),
    "NoveltyDetector, 32 terms": NoveltyDetector(
        nu=0.1, expansion=expansions.Window(terms=32), recent=20, warmup=30
    ),
    "NoveltyDetector, gaps": NoveltyDetector(missing="mean", recent=25),
    "NoveltyDetector, fast": NoveltyDetector(rule=rules.Norma(memory=20.0)),
    "KernelClassifier": KernelClassifier(),
    "KernelClassifier, logistic": KernelClassifier(loss="logistic"),
    "KernelClassifier, gaps": KernelClassifier(missing="mean"),
    "KernelRegressor": KernelRegressor(),
    "KernelRegressor, nu": KernelRegressor(loss=losses.EpsilonInsensitive(nu=0.2)),
    "KernelRegressor, gaps": KernelRegressor(missing="mean"),
}


def stream_for(estimator, rng, rows):
    """Rows far from 0, of odd units, one of them constant for a while; targets."""
    X = rng.normal(size=(rows, 4)) * [1e-3, 5.0, 1.0, 2e4] + [7.0, -300.0, 0.0, 1e6]
    X[: rows // 3, 2] = 4.0
    y = {"novelty": None, "classification": LABELS[rng.integers(0, 3, rows)],
         "regression": X[:, 1] * 30 + rng.normal(size=rows)}[estimator.task]  # fmt: skip
    if estimator.missing == "mean":
        X[rng.random(X.shape) < 0.1] = np.nan
    return X, y


@pytest.mark.few
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", KINDS)
def test_every_kind(name, dtype, rng):
    both = Both(KINDS[name])
    X, y = stream_for(both.estimator, rng, size(400, 2500))
    told = LEARNED[both.estimator.task]
    if "nu" not in name and both.estimator.task == "regression":
        told = ("prediction",)
    run(both, rng, X.astype(dtype), y, told)
    check(both, X.astype(dtype), both.estimator.task)


@pytest.mark.parametrize("name", KINDS)
def test_weights(name, rng):
    both = Both(KINDS[name])
    X, y = stream_for(both.estimator, rng, size(200, 900))
    weight = rng.choice([0.0, 0.5, 1.0, 2.0], p=[0.02, 0.3, 0.38, 0.3], size=len(X))
    weight[:20] = 1.0
    run(both, rng, X, y, ("prediction",), sample_weight=weight)
    check(both, X, both.estimator.task)


@pytest.mark.parametrize("name", KINDS)
def test_a_key_may_begin_with_weights_of_0(name, rng):
    """Such a model has begun, and has learned nothing."""
    both = Both(KINDS[name])
    X, y = stream_for(both.estimator, rng, size(120, 400))
    weight = np.where(np.arange(len(X)) < 40, rng.choice([0.0, 1.0], size=len(X)), 1.0)
    weight[:10] = 0.0
    run(both, rng, X, y, ("prediction",), sample_weight=weight)
    check(both, X, both.estimator.task)


@pytest.mark.parametrize("name", KINDS)
def test_models_that_leave_a_fleet_go_on_as_if_they_had_never_been_in_it(name, rng):
    estimator = KINDS[name]
    X, y = stream_for(estimator, rng, size(80, 300))
    fleet, single, at = Fleet(estimator), copy.copy(estimator), 0

    def some(rows):
        return (X[rows],) if y is None else (X[rows], y[rows])

    while at < len(X) - 12:
        rows = slice(at, at + int(rng.integers(1, 9)))
        at = rows.stop
        fleet.partial_fit(["a"] * (rows.stop - rows.start), *some(rows))
        single.partial_fit(*some(rows))
        left, stayed = fleet["a"], copy.copy(single)
        for model in (left, stayed):
            model.partial_fit(*some(slice(at, at + 12)))
        assert files.dumps(left) == files.dumps(stayed)


@pytest.mark.parametrize("kind", [NoveltyDetector, KernelClassifier, KernelRegressor])
def test_by_the_clock(kind, rng):
    both = Both(kind(rule=rules.Norma(memory="40s")))
    X, y = stream_for(both.estimator, rng, size(300, 900))
    run(both, rng, X, y, ("prediction",), time=np.cumsum(rng.exponential(size=len(X))))
    check(both, X, both.estimator.task)


def test_classes_that_come_late(rng):
    """Two classes that share an output, taken apart by a third; many new ones at once."""
    both = Both(KernelClassifier())
    X = rng.normal(size=(size(300, 900), 2))
    y = np.where(np.arange(len(X)) < 150, rng.integers(0, 2, len(X)), rng.integers(0, 30, len(X)))
    run(both, rng, X, y, ("prediction", "probability"))
    check(both, X, "classification")


@pytest.mark.parametrize("loss", ["soft_margin", "logistic"])
def test_rows_that_move_far_away(loss, rng):
    both = Both(KernelClassifier(loss=loss, expansion=expansions.Window(terms=50)))
    X = rng.normal(size=(size(600, 2000), 3)) + np.linspace(0, 1e4, size(600, 2000))[:, None]
    run(both, rng, X, (X[:, 0] > X[:, 1]).astype(int), ("probability",))
    check(both, X, "classification")
