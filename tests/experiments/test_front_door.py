"""The front-door study: its measures against plain loops, its streams and peers, a tiny run."""

from __future__ import annotations

import json
import sys
from math import log
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "experiments").is_dir():
    pytest.skip("the experiments are not here", allow_module_level=True)
for module in ("matplotlib", "river.base", "sklearn"):
    pytest.importorskip(module, reason="the study needs it")
sys.path.insert(0, str(ROOT))

from experiments import (  # noqa: E402
    front_door,
    front_door_measures,
    front_door_page,
    front_door_peers,
    front_door_streams,
    front_door_tables,
)
from experiments.front_door_streams import CLASSES, NUMBERS, TEXTS, Stream  # noqa: E402
from onkel import KernelClassifier  # noqa: E402

import bank  # noqa: E402  isort: skip

# -- measures --------------------------------------------------------------------------------------


def naive_ece(p: list[list[float]], y: list[int], bins: int) -> float:
    """Calibration error row by row, bin by bin."""
    total = 0.0
    for b in range(bins):
        inside = []
        for row, label in zip(p, y, strict=True):
            top = max(row)
            if b / bins <= top < (b + 1) / bins or (b == bins - 1 and top == 1):
                inside.append((top, row.index(top) == label))
        if inside:
            total += abs(sum(s - c for s, c in inside))
    return total / len(y)


def test_calibration_error_is_that_of_plain_loops(rng):
    p = rng.dirichlet([1, 1, 1], size=200)
    p[:2] = [[1, 0, 0], [0, 1, 0]]
    y = rng.integers(3, size=200)
    found = front_door_measures.ece(*front_door_measures.confidence(p, y))
    assert found == pytest.approx(naive_ece(p.tolist(), y.tolist(), 15))


def test_measures_of_classes_are_of_the_second_half(rng):
    p = np.array([[1.0, 0.0], [1.0, 0.0], [0.25, 0.75], [0.5, 0.5]])
    y = np.array([1, 0, 1, 1])
    found = front_door_measures.of_classes(p.argmax(axis=1), p, y)
    assert found["error"] == 50 and found["error, after one"] == pytest.approx(100 / 3)
    assert found["log loss"] == pytest.approx(-(log(0.75) + log(0.5)) / 2)
    assert found["ECE"] == pytest.approx((0.25 + 0.5) / 2)
    assert [b["rows"] for b in found["reliability"]] == [1, 1]
    assert "ECE" not in front_door_measures.of_classes(y, None, y)


def test_perfect_probabilities_are_calibrated(rng):
    truth = rng.random(40_000)
    p = np.column_stack([1 - truth, truth])
    y = (rng.random(len(truth)) < truth).astype(int)
    assert front_door_measures.of_classes(p.argmax(axis=1), p, y)["ECE"] < 0.02


def test_a_number_that_is_none_costs_dearly():
    found = front_door_measures.of_numbers(np.array([1.0, np.nan]), np.array([0.0, 0.0]))
    assert found["error"] > 1e9


# -- streams and peers -----------------------------------------------------------------------------


@pytest.mark.long
def test_streams_that_need_no_file_are_there():
    made = {name: front_door_streams.make(name, None) for name in front_door_streams.names()}
    there = {name: stream for name, stream in made.items() if stream is not None}
    assert set(there) == set(front_door_streams.MADE)
    for stream in there.values():
        assert len(stream.X) == len(stream.y) > 500 and np.isfinite(stream.X).all()
    assert set(front_door_streams.CHOSEN_ON) <= set(made)


def test_terrain_has_seven_kinds_and_goes_through_its_regions():
    X, y = front_door_streams.terrain(3000)
    assert X.shape == (3000, 54) and set(y) == set(range(7))
    assert set(np.unique(X[:, 10:])) == {0, 1} and (X[:, 10:14].sum(axis=1) == 1).all()
    region = X[:, 10:14].argmax(axis=1)
    assert np.count_nonzero(np.diff(region)) == 15


def small(task: str, rng: np.random.Generator, rows: int = 120) -> Stream:
    if task == TEXTS:
        y = rng.integers(2, size=rows)
        return Stream("texts", task, [("win a prize", "see you soon")[v] for v in y], y)
    X = rng.normal(size=(rows, 3))
    y = X[:, 0] if task == NUMBERS else (X[:, 0] > 0).astype(int) + (X[:, 1] > 1)
    return Stream("small", task, X, y)


@pytest.mark.parametrize("task", [CLASSES, NUMBERS, TEXTS])
def test_every_peer_answers_every_row(rng, task):
    stream = small(task, rng)
    for name in front_door_peers.PEERS[task]:
        said = front_door_peers.run(name, stream)
        assert len(said.answers) == len(stream.y), name
        if said.probabilities is not None:
            assert said.probabilities.shape == (len(stream.y), stream.classes), name
            assert said.probabilities.sum(axis=1) == pytest.approx(1), name


def test_peers_predict_before_they_learn(rng):
    stream = small(CLASSES, rng, 60)
    for name in front_door_peers.PEERS[CLASSES]:
        whole = front_door_peers.run(name, stream).answers
        changed = Stream(stream.name, CLASSES, stream.X, np.append(stream.y[:-1], 0))
        assert front_door_peers.run(name, changed).answers.tolist() == whole.tolist(), name


def test_slow_peers_stop_and_say_so(rng, monkeypatch, tmp_path):
    monkeypatch.setattr(front_door_peers, "MOST", 50)
    stream = small(CLASSES, rng)
    found = front_door.keep("River: nearest neighbours", stream, False, tmp_path)
    assert (found["rows"], found["of"]) == (50, 120)
    quick = front_door.keep("River: logistic regression", stream, False, tmp_path)
    assert quick["rows"] == 120 and quick["error, first"] != quick["error"]


# -- a run -----------------------------------------------------------------------------------------


def test_what_is_kept_is_not_measured_again_unless_rows_change(rng, tmp_path, monkeypatch):
    calls: list[str] = []
    plain = front_door.measured
    monkeypatch.setattr(front_door, "measured", lambda n, s: calls.append(n) or plain(n, s))
    stream = small(CLASSES, rng)
    for again in (False, False, True):
        front_door.keep("no change", stream, again, tmp_path)
    front_door.keep("no change", stream.head(100), False, tmp_path)
    assert len(calls) == 3


@pytest.mark.long
def test_a_tiny_run_makes_every_table(tmp_path):
    names = "River: Phishing;River: ChickWeights;terrain"
    args = front_door.options(["--rows", "150", "--streams", names])
    front_door.walk(args, None, tmp_path)
    kept = front_door.all_kept(tmp_path)
    made = front_door.study(json.loads(json.dumps(kept)))
    tables = dict(made.tables)
    lines = tables["Classes: mistakes in per cent, all rows"]
    assert [line["stream"] for line in lines] == ["River: Phishing", "terrain"]
    assert {"Kernel", "Linear", "Classifier", "best peer", "which", "ahead"} <= set(lines[0])
    ours = next(k for k in kept if k["stream"] == "terrain" and k["method"] == "Classifier")
    assert lines[1]["Classifier"] == ours["error"]
    assert tables["River's sets and its published best"][1]["measure"] == "MAE"
    assert len(made.checks) == ("ECE" in ours)


def test_the_best_peer_is_one_that_had_all_rows():
    def kept(method: str, rows: int, error: float) -> dict:
        return {"stream": "s", "method": method, "task": CLASSES, "of": 30_000, "rows": rows,
                "d": 2, "classes": 2, "error": error, "error, first": error + 1}  # fmt: skip

    made = [kept("Classifier", 30_000, 10.0), kept("River: adaptive random forest", 20_000, 5.0),
            kept("River: logistic regression", 30_000, 20.0)]  # fmt: skip
    (line,) = front_door_tables.beside(made, False)
    assert (line["best peer"], line["which"], line["ahead"]) == (20.0, "logistic", "onkel")
    (line,) = front_door_tables.beside(made, False, True)
    assert (line["Classifier"], line["best peer"], line["ahead"]) == (11.0, 6.0, "the peer")
    assert [row["stream"] for row in front_door_tables.behind(made)] == ["s"]
    assert front_door_tables.glance(made)[0]["onkel ahead"] == 1


def test_the_figure_is_drawn_where_there_are_probabilities():
    bins = [{"bin": 10, "rows": 5, "said": 0.7, "came": 0.6}]
    kept = [{"stream": name, "method": "Classifier", "ECE": 0.1, "reliability": bins}
            for name in front_door_tables.CALIBRATED]  # fmt: skip
    ((caption, figure),) = front_door_tables.figures(kept)
    assert "second halves" in caption.lower() and len(figure.axes) == 4
    assert [check.ok for check in front_door_tables.checks(kept)] == [False] * 4
    assert front_door_tables.figures([]) == []


def test_the_page_has_a_place_for_every_part():
    page = front_door_page.PAGE.read_text("utf-8")
    captions = {c for part in front_door_page.SECTIONS.values() for c in part}
    report = {"tables": [{"caption": c, "rows": [{"stream": c}]} for c in captions], "figures": []}
    written = front_door_page.written(page, report, None)
    assert all(f"**{caption}**" in written for caption in captions)
    empty = front_door_page.written(page, {"tables": [], "figures": []}, None)
    assert empty.count("*Not measured yet.*") == len(front_door_page.SECTIONS)


def test_captions_of_the_page_are_those_of_the_study(tmp_path):
    bins = [{"bin": 10, "rows": 5, "said": 0.7, "came": 0.6}]
    kept = []
    for task, stream in ((CLASSES, "elec2"), (NUMBERS, "River: ChickWeights"), (TEXTS, "t")):
        for method in front_door.method_names(task):
            kept.append({"stream": stream, "method": method, "task": task, "of": 30_000,
                         "rows": 30_000, "d": 2, "classes": 2, "seconds": 1.0, "error": 1.0,
                         "error, first": 1.0, "error, after one": 1.0, "log loss": 1.0, "ECE": 0.1,
                         "ECE, each class": 0.1, "reliability": bins,
                         "weights": [0.5, 0.5]})  # fmt: skip
    kept[0]["error"] = kept[-1]["error"] = 0.5
    captions = {caption for caption, _ in front_door.study(kept).tables}
    assert {c for part in front_door_page.SECTIONS.values() for c in part} == captions


def test_probabilities_have_a_column_for_each_class(rng):
    X = rng.normal(size=(300, 2))
    y = 2 - (X[:, 0] > 0) - (X[:, 1] > 0)  # the last class may come first
    X[:40], y[:40] = np.abs(X[:40]) * [-1, -1], 2
    stream = Stream("s", CLASSES, X, y)
    p = front_door.probabilities(KernelClassifier(loss="logistic"), stream)
    assert p.shape == (300, 3) and p.sum(axis=1) == pytest.approx(1)
    assert np.mean(p[150:].argmax(axis=1) == y[150:]) > 0.8


def test_weights_are_means_over_the_stream(rng):
    stream = small(CLASSES, rng)
    found = front_door.ours("Classifier", stream).weights
    assert found is not None and sum(found) == pytest.approx(1)
    assert len(found) == len(front_door.members(CLASSES))
    assert front_door.ours("KernelClassifier", stream).weights is None
    rows = front_door_tables.weights(
        [
            {"stream": s, "task": CLASSES, "weights": w}
            for s, w in (("a", [0.9, 0.1]), ("b", [0, 1]))
        ],
        CLASSES,
    )
    assert rows[-1] == {"stream": "the greatest", "1": 0.9, "2": 1}


# -- what a bank costs -----------------------------------------------------------------------------


def test_the_cost_of_a_bank_is_a_median_of_ratios():
    one = {"kind": "2 classes", "d": 4, "rows": 1000, "points": {"one": 5, "bank": 7},
           "rounds": {"one": [1.0, 2.0, 4.0], "bank": [5.0, 8.0, 16.0]}}  # fmt: skip
    ((_, (row,)),) = bank.tables({"streams": [one]})
    assert row["bank / one"] == 4 and row["us/row"] == 2000
    for kind in bank.PAIRS:
        X, y = bank.stream(kind, 3, 200)
        assert X.dtype == np.float32 and len(np.unique(y)) == {
            "2 classes": 2,
            "10 classes": 10,
        }.get(kind, 200)
