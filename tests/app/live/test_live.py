"""A running command on the live page."""

from __future__ import annotations

import json
import time
import urllib.request
from contextlib import closing

import numpy as np
import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from click.testing import CliRunner
from helpers.runs_of import begin, json_lines, write_rows

from onkel.app import conduct
from onkel.app.cli import main
from onkel.app.errors import UsageProblem
from onkel.app.live.board import Board
from onkel.app.live.watch import Live, address_of, marks
from onkel.app.run.session import _scattered
from onkel.app.run.sifting import Sifted


def watched(monkeypatch, *words):
    """Run a command; return what its page was told."""
    board = Board(clock=iter(range(1000000)).__next__)
    prepare = conduct.prepare

    def with_board(*args):
        session = prepare(*args)
        session.watchers.append(Live(board, "run"))
        return session

    monkeypatch.setattr(conduct, "prepare", with_board)
    done = CliRunner().invoke(main, [str(w) for w in words])
    assert done.exit_code == 0, done.output
    found = board.changes("run")
    assert found is not None
    return found


def test_a_detector(rng, tmp_path, monkeypatch):
    path = write_rows(tmp_path / "rows.csv", rng.normal(size=(2000, 3)))
    found = watched(monkeypatch, "detect", path, "--all", "-o", tmp_path / "out")
    lines = json_lines(tmp_path / "out")
    alerts = [line for line in lines if line["alert"]]
    assert found["task"] == "novelty" and found["t"] == found["rows"] == 2000
    assert found["marks"] == len(alerts) == sum(b["marks"] for b in found["buckets"])
    assert min(b["low"] for b in found["buckets"]) == min(line["score"] for line in lines)
    assert found["numbers"]["realised"] == len(alerts) / (2000 - 230)
    assert found["numbers"]["promised"] == 0.01 and found["numbers"]["terms"] > 0
    assert found["numbers"]["rarity"] and found["numbers"]["warmup"] == 230
    known = {line["row"] + 1: line["why"] for line in alerts}
    assert [a["t"] - 1 for a in found["alerts"]] == [line["row"] for line in alerts][-50:]
    assert all(known[a["t"]] == a["sentence"] for a in found["alerts"])
    told = {one["incident"] for one in found["incidents"]}
    assert told == {line["incident"] for line in alerts} and found["numbers"]["incidents"] == len(
        told
    )
    assert {line["feature"] for line in found["drift"]} == {"a", "b", "c"}


def test_what_tunes_itself_shows_its_weights(rng, tmp_path, monkeypatch):
    X = rng.normal(size=(2000, 2))
    path = write_rows(tmp_path / "rows.csv", X, y=np.where(X[:, 0] > 0, "a", "b"))
    found = watched(monkeypatch, "classify", path, "--target", "y", "-o", tmp_path / "out")
    names, numbers = found["numbers"]["members"], found["numbers"]
    assert len(names) == len(numbers["weights"]) == len(found["buckets"][0]["weights"])
    assert sum(numbers["weights"]) == pytest.approx(1.0, abs=0.01)
    assert numbers["leads"].startswith("Leads now: ") and not numbers["rarity"]
    found = watched(monkeypatch, "regress", path, "--target", "b", "-o", tmp_path / "out")
    assert found["numbers"]["promised"] == 0.1
    words = ["--target", "b", "--model", "linear"]
    found = watched(monkeypatch, "regress", path, *words, "-o", tmp_path / "out")
    assert "members" not in found["numbers"] and "weights" not in found["buckets"][0]


def test_the_papers_detector_has_scores(rng, tmp_path, monkeypatch):
    path = write_rows(tmp_path / "rows.csv", rng.normal(size=(500, 3)))
    found = watched(monkeypatch, "detect", path, "--model", "kernel", "-o", tmp_path / "out")
    assert found["numbers"]["promised"] == 0.05 and found["numbers"]["rarity"] is False


def test_a_classifier_and_a_regressor(rng, tmp_path, monkeypatch):
    X = rng.normal(size=(800, 2))
    y = np.sin(X[:, 0])
    label = ["" if i % 5 == 0 else "up" if v > 0 else "down" for i, v in enumerate(y)]
    path = write_rows(tmp_path / "rows.csv", X, y=[repr(float(v)) for v in y], label=label)
    out = tmp_path / "out"
    words = ["classify", path, "--target", "label", "--ignore", "y", "-o", out]
    found = watched(monkeypatch, *words)
    lines = [line for line in json_lines(out) if line["target"] is not None]
    wrong = sum(line["prediction"] != line["target"] for line in lines)
    assert found["marks"] == wrong and found["numbers"]["mistakes"] == wrong
    assert found["numbers"]["realised"] == wrong / len(lines)
    words = ["regress", path, "--target", "y", "--ignore", "label", "--nu", "0.1", "-o", out]
    found = watched(monkeypatch, *words)
    lines = json_lines(out)
    outside = sum(not line["low"] <= line["target"] <= line["high"] for line in lines)
    assert found["marks"] == outside and found["numbers"]["promised"] == 0.1
    assert found["numbers"]["realised"] == pytest.approx(outside / 800)
    watched(monkeypatch, *words[:6], "-o", out)


def test_the_option(rng, tmp_path):
    pytest.importorskip("starlette", reason="needs starlette: pip install onkel[serve]")
    path = write_rows(tmp_path / "rows.csv", rng.normal(size=(500, 3)))
    words = ["detect", path, "--follow", "-o", tmp_path / "out", "--dashboard", "0"]
    process = begin(*words, stderr=-1)
    try:
        assert process.stderr is not None
        url = process.stderr.readline().decode().split()[-1]
        deadline = 100
        while deadline:
            with closing(urllib.request.urlopen(f"{url}/live", timeout=10)) as answer:
                told = json.load(answer)
            if told["models"] and told["models"][0]["t"] == 500:
                break
            deadline -= 1
            time.sleep(0.1)
            process.poll()
            assert process.returncode is None
        assert told["service"] is False and told["models"][0]["t"] == 500
        assert told["models"][0] == {**told["models"][0], "name": "rows.csv", "task": "novelty"}
        with closing(urllib.request.urlopen(url, timeout=10)) as answer:
            assert b"<title>" in answer.read()
    finally:
        process.terminate()
        assert process.wait(60) == 130


def test_addresses():
    assert address_of("127.0.0.1:80") == ("127.0.0.1", 80)
    assert address_of("[::1]:80") == ("[::1]", 80)
    for text in ("", "x", "localhost:", "1:70000", "-1"):
        with pytest.raises(UsageProblem, match="PORT"):
            address_of(text)


def test_a_regression_by_key_is_drawn_in_the_order_of_its_rows() -> None:
    def part(*at):
        targets = [float(i) for i in at]
        columns = {
            "prediction": [t - t / 10 for t in targets],
            "low": [t - 1 - t / 10 for t in targets],
        }
        columns["high"] = [t + 1 + t / 10 for t in targets]
        return np.array(at), Sifted([lambda: {**columns, "target": targets}])

    drawn = marks("regression", _scattered([part(0, 2), part(1, 3)], 4))
    error, half, mark = drawn.value, drawn.limit, drawn.mark
    np.testing.assert_allclose(error, [0.0, 0.1, 0.2, 0.3])
    np.testing.assert_allclose(half, [1.0, 1.1, 1.2, 1.3])
    assert not mark.any()
