"""One row per call: median latencies at 300 terms and 50 features, float64 rows."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import common
import numpy as np
import workloads
from common import median, ratio

from onkel import Classifier, Regressor

TERMS, FEATURES = 300, 50
CALLS = 200
"""Calls of one kind in a round; their median is the round's number."""

Call = Callable[[Any, float], Any]


def latency(call: Call, rows: list[Any], targets: list[float]) -> float:
    """Return the median time of a call, in microseconds."""
    times = []
    for row, target in zip(rows, targets, strict=True):
        began = time.perf_counter()
        call(row, target)
        times.append(time.perf_counter() - began)
    return median(times) * 1e6


def onkel_calls() -> dict[str, Call]:
    """Return onkel's ways to take one NumPy row."""
    model = workloads.full_regressor(FEATURES, "float64", TERMS)
    detector = workloads.full_detector(FEATURES, "float64", TERMS)
    classifier = workloads.mixture(Classifier, FEATURES, TERMS)
    mixed = workloads.mixture(Regressor, FEATURES, TERMS)
    return {
        "learn_one": model.learn_one,
        "predict_one": lambda x, y: model.predict_one(x),
        "score_one": lambda x, y: detector.score_one(x),
        "partial_fit": lambda x, y: model.partial_fit(x[None], [y]),
        "learn_one, ten classes": _labelled(workloads.full_of_classes(FEATURES, TERMS, "norma")),
        "learn_one, ALMA, ten classes": _labelled(
            workloads.full_of_classes(FEATURES, TERMS, "alma")
        ),
        "learn_one, Classifier()": _anew(classifier, lambda y: 1.0 if y > 0 else -1.0),
        "predict_one, Classifier()": lambda x, y: classifier.predict_one(x),
        "learn_one, Regressor()": _anew(mixed, float),
        "predict_one, Regressor()": lambda x, y: mixed.predict_one(x),
    }


def _labelled(model: Any) -> Call:
    """Return learn_one with words as labels, ten of them."""
    words = np.array([f"class {i}" for i in range(10)])
    return lambda x, y: model.learn_one(x, words[int(1e6 * y) % 10])


def _anew(model: Any, target: Callable[[float], float]) -> Call:
    """Return learn_one of a copy, anew in every round: the window holds more than is there."""
    copies: list[Any] = []

    def learn(x: Any, y: float) -> None:
        copies.append(copy.deepcopy(model) if len(copies) % CALLS == 0 else copies[-1])
        copies[-1].learn_one(x, target(y))

    return learn


def loop_calls() -> dict[str, Call]:
    """Return the same in plain NumPy."""
    loop = workloads.Loop(FEATURES, "float64", TERMS)
    return {"loop learn": loop.learn, "loop predict": lambda x, y: loop.predict(x)}


def river_calls() -> dict[str, Call]:
    """Return River's logistic regression on 100 random features (of each input); {} without it."""
    try:
        from river import feature_extraction, linear_model
    except ImportError:
        return {}
    model = feature_extraction.RBFSampler(n_components=100, seed=0)
    model |= linear_model.LogisticRegression()
    return {
        "River learn": lambda x, y: model.learn_one(x, y > 0),
        "River predict": lambda x, y: model.predict_one(x),
    }


def measure(quick: bool) -> dict[str, Any]:
    """Return every round's latencies."""
    X, y = workloads.regression(FEATURES, "float64", CALLS)
    arrays, targets = list(X), y.tolist()
    dicts = [dict(enumerate(row)) for row in X.tolist()]
    few = 20 if quick else 50  # River's take long
    found: dict[str, common.Job] = {
        name: partial(latency, call, arrays, targets)
        for name, call in (onkel_calls() | loop_calls()).items()
    }
    for name, call in river_calls().items():
        found[name] = partial(latency, call, dicts[:few], targets[:few])
    return {"rounds": common.rounds(found, 5 if quick else 15)}


def tables(report: dict[str, Any]) -> list[tuple[str, list[common.Row]]]:
    """Return one line per call, with ratios to the same of the others: above 1, onkel is faster."""
    r = report["rounds"]
    pairs = {"learn_one": "learn", "partial_fit": "learn", "predict_one": "predict"}
    rows = []
    pairs |= {"score_one": "predict"} | {n: "learn" for n in r if n.startswith("learn_one,")}
    pairs |= {n: "predict" for n in r if n.startswith("predict_one,")}
    for name, kind in pairs.items():
        row: common.Row = {"call": name, "us": median(r[name])}
        row["NumPy loop / onkel"] = ratio(r[f"loop {kind}"], r[name])
        river = r.get(f"River {kind}")
        row["River / onkel"] = ratio(river, r[name]) if river else "not installed"
        rows.append(row)
    title = "microseconds per call, 300 terms, d = 50"
    return [(title, rows), (title + ", the others", _others(r))]


def _others(r: dict[str, list[float]]) -> list[common.Row]:
    names = {"loop": "NumPy loop", "River": "River, RBFSampler(100) | LogisticRegression"}
    return [
        {"method": name, "learn": median(r[f"{key} learn"]), "predict": median(r[f"{key} predict"])}
        for key, name in names.items()
        if f"{key} learn" in r
    ]


def figure(report: dict[str, Any], path: Path) -> None:
    """Draw the latencies as bars."""
    made = common.canvas(1, 1, (6, 2.6))
    if made is None:
        return
    fig, (axis,) = made
    r = {name: median(values) for name, values in report["rounds"].items()}
    at = np.arange(len(r))
    mine = [common.SOFT if name.startswith(("loop", "River")) else common.ACCENT for name in r]
    axis.barh(at, list(r.values()), color=mine)
    axis.set_yticks(at, list(r))
    axis.invert_yaxis()
    axis.set(xscale="log", xlabel="microseconds", title="one row per call, 300 terms, d = 50")
    common.keep(fig, path)
