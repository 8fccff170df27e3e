"""Files with categories, times and texts: what a run sees of them, tells of them, goes on with."""

from __future__ import annotations

import json
import signal
from types import SimpleNamespace

import numpy as np
import pytest
from helpers.runs_of import carry_out, command, json_lines, onkel

from onkel import Classifier, Columns, Detector
from onkel.columns import raw_of
from onkel.judge.reasons import table_in_brief

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")

ROWS = 420
CARRIERS = ("AA", "UA", "DL", "")
WORDS = ("on time", "late by fog", "late by crew", "gate was changed", "all is well today")


@pytest.fixture
def flights(rng):
    """Return rows of a log: a time, a category, a truth value, a number, a text, a label."""
    rows = []
    for i in range(ROWS):
        minutes = "" if i % 50 == 7 else f"{rng.normal(60, 10):.2f}"
        words = " and ".join(rng.choice(WORDS, 2)) + f" at gate {rng.integers(90)}"
        rows.append({
            "when": f"2024-01-{1 + i // 24:02}T{i % 24:02}:30:00",
            "carrier": str(rng.choice(CARRIERS)), "night": str(rng.choice(["yes", "no"])),
            "minutes": minutes, "note": words, "late": "late" if "late" in words else "fine",
            "who": f"k{rng.integers(2)}",
        })  # fmt: skip
    return rows


def written(path, rows):
    lines = [",".join(rows[0]), *(",".join(row.values()) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def log(flights, tmp_path):
    """Return the same as a file."""
    return written(tmp_path / "log.csv", flights)


def cells(row, names):
    """Return a row as a person would hand it over."""
    found = {n: row[n] or None for n in names}
    if found.get("minutes"):
        found["minutes"] = float(found["minutes"])
    if "night" in found:
        found["night"] = row["night"] == "yes"
    return found


NAMES = ("when", "carrier", "night", "minutes", "note")
TYPES = {"when": "time", "carrier": "category", "night": "boolean", "minutes": "number",
         "note": "text"}  # fmt: skip


@pytest.mark.parametrize("precision, within", [("double", 1e-9), ("single", 2e-3)])
def test_as_the_library(log, flights, tmp_path, precision, within):
    X = [cells(row, NAMES) for row in flights]
    how = ["--all", "-o", tmp_path / "out", "--precision", precision, "--block", 64]
    assert onkel("detect", log, "--columns", ",".join(NAMES), *how).exit_code == 0
    model, found = Detector(missing="mean", columns=Columns(TYPES)), []
    for start in (0, *range(64, ROWS, 64)):
        stop = min(start + 64, ROWS)
        found += list(model.predict_then_learn(X[start:stop], output="score"))
    told = [line["score"] for line in json_lines(tmp_path / "out")]
    np.testing.assert_allclose(told, found, rtol=within, atol=within)


def test_labels_as_the_library(log, flights, tmp_path):
    X, y = [cells(row, NAMES) for row in flights], [row["late"] for row in flights]
    how = ["--target", "late", "--ignore", "who", "-o", tmp_path / "out", "--block", 64]
    done = onkel("classify", log, *how, "--precision", "double", "--json")
    assert done.exit_code == 0, done.output
    model, found = Classifier(missing="mean", columns=Columns(TYPES)), []
    for start in range(0, ROWS, 64):
        stop = min(start + 64, ROWS)
        found += list(model.predict_then_learn(X[start:stop], y[start:stop]))
    told = [line["prediction"] for line in json_lines(tmp_path / "out")]
    assert told[64:] == [str(label) for label in found[64:]]
    summary = json.loads(done.stdout)
    assert summary["columns"] == {
        "time": ["when"], "category": ["carrier"], "boolean": ["night"], "number": ["minutes"],
        "text": ["note"],
    }  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize(
    "more",
    [["--key", "who", "--models-in-memory", 1], []],
    ids=["keys", "one model"],
)
def test_a_death_changes_nothing(log, tmp_path, more):
    how = ["--all", "--every", 0, "--block", 64, "--ignore", "late", *more]
    outs = []
    moments = ["model:3", "before-commit:2", "output:4"]
    for name, deaths in (("whole", []), ("cut", moments)):
        words = ["detect", log, "--state", tmp_path / name, "-o", tmp_path / f"{name}.out"]
        for death in deaths:
            assert command(*words, *how, dies=death).returncode == -signal.SIGKILL
        assert carry_out(*words, *how).returncode == 0
        outs.append((tmp_path / f"{name}.out").read_bytes())
    assert outs[0] == outs[1] and outs[0].count(b"\n") == ROWS


def test_a_dry_run_tells_what_each_column_is(log):
    done = onkel("classify", log, "--target", "late", "--dry-run")
    for words in ("equal or not", "its words", "hour, weekday, days", "AA", "row:    12 feat",
                  "time:   when, ISO 8601"):  # fmt: skip
        assert words in done.stdout, done.stdout
    told = json.loads(onkel("classify", log, "--target", "late", "--dry-run", "--json").stdout)
    found = {c["name"]: c for c in told["columns"]}
    assert found["carrier"]["learned_as"] == "equal or not" and found["carrier"]["different"] == 3
    assert found["carrier"]["missing"] > 50 and found["minutes"]["missing"] == 9
    assert found["note"]["examples"] and "learned_as" not in found["late"]
    # carrier, night, who, gaps, hour, note; days, two circles; minutes
    assert told["features"] == 6 + 5 + 1 and any("1/d" in words for words in told["settings"])
    told = json.loads(onkel("detect", log, "--dry-run", "--json").stdout)
    assert told["features"] == 8 and told["warmup"] == 500  # one a column, and gaps
    assert "series" not in told
    told = onkel("detect", log, "--columns", "minutes,carrier", "--model", "kernel", "--dry-run")
    assert "gamma 0.3333" in told.stdout
    given = ["--types", "minutes=category,note=ignore", "--dry-run", "--json"]
    told = json.loads(onkel("detect", log, *given).stdout)
    kinds = {c["name"]: (c["kind"], c["role"]) for c in told["columns"]}
    assert kinds["minutes"] == ("category", "feature") and kinds["note"][1] == "ignored"


def test_a_warm_up_is_what_was_told(log, tmp_path):
    told = json.loads(onkel("detect", log, "--nu", "0.05", "--dry-run", "--json").stdout)
    done = onkel("detect", log, "--nu", "0.05", "-o", tmp_path / "out", "--json")
    assert json.loads(done.stdout)["warmup"] == told["warmup"]


def test_a_state_tells_its_columns(log, tmp_path):
    words = ["--state", tmp_path / "s", "-o", tmp_path / "out", "--ignore", "late,who"]
    assert onkel("detect", log, *words).exit_code == 0
    found = json.loads(onkel("inspect", tmp_path / "s", "--json").stdout)
    assert found["columns"]["text"] == ["note"] and found["columns"]["number"] == ["minutes"]
    told = onkel("inspect", tmp_path / "s").stdout
    assert "columns: category" in told and "carrier" in told


def test_tables_without_a_number(log, tmp_path):
    only = ["--columns", "carrier,note,night", "-o", tmp_path / "out"]
    told = onkel("detect", log, *only, "--dry-run")
    assert told.exit_code == 0 and "how rare its words are" in told.stdout
    done = onkel("detect", log, *only, "--all", "--json", "--state", tmp_path / "s")
    assert done.exit_code == 0 and json.loads(done.stdout)["examples"] == ROWS
    assert onkel("inspect", tmp_path / "s").exit_code == 0
    for words in (["--target", "late"], ["--target", "late", "--model", "linear"]):
        done = onkel("classify", log, *words, *only)
        assert done.exit_code == 0, done.output


def test_a_report_tells_the_kinds(log, tmp_path):
    pytest.importorskip("bokeh", reason="needs bokeh: pip install onkel[report]")
    more = ["-o", tmp_path / "out", "--report", tmp_path / "r.html", "--columns", "carrier,note"]
    assert onkel("detect", log, *more).exit_code == 0
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "Learned from categories: carrier; texts: note." in page


def test_the_live_page_watches_numbers_alone(log, tmp_path):
    from onkel.app.live.board import Board
    from onkel.app.live.watch import Live

    for only, drift in (("carrier,minutes,when", ["minutes"]), ("carrier,note", [])):
        board = Board()
        live = Live(board, "log")
        run_watched(log, tmp_path, live, "--columns", only)
        assert [line["feature"] for line in board.changes("log")["drift"]] == drift


def run_watched(log, tmp_path, live, *words):
    """Run the command with one that watches."""
    from onkel.app import conduct

    def watched(stack, *rest):
        session = prepared(stack, *rest)
        session.watchers.append(live)
        return session

    prepared, conduct.prepare = conduct.prepare, watched
    try:
        assert onkel("detect", log, "-o", tmp_path / "out", *words).exit_code == 0
    finally:
        conduct.prepare = prepared


# -- reasons -----------------------------------------------------------------------------------


def test_brief_reasons_name_what_is_rarest(rng):
    """A value of one in a hundred rows, a number that is far away, a number that is missing."""
    rows = [{"kind": "odd" if i % 100 == 5 else "usual", "a": float(v)}
            for i, v in enumerate(rng.normal(size=500))]  # fmt: skip
    rows[333]["a"] = None
    model = Detector(missing="mean").fit(rows)
    usual = SimpleNamespace(mean=np.zeros(3), variance=np.ones(3), eps=1e-16)
    seen = [("odd", 0.5), ("odd", -9.0), ("usual", None), ("usual", 0.1)]
    X = model.plan_.encode(raw_of([{"kind": kind, "a": a} for kind, a in seen]))
    said = [table_in_brief(X[i], usual, model._tally) for i in range(4)]
    begin = ("kind odd, seen", "a -9.00 is 9.0", "a missing", "The row as a whole")
    for found, words in zip(said, begin, strict=True):
        assert found.startswith(words), found


# -- rows that are broken ----------------------------------------------------------------------


def test_missing_numbers_and_times_break_a_row_if_asked(flights, tmp_path):
    """A category that is missing is a value like another."""
    flights[30]["when"] = flights[31]["note"] = ""
    path = written(tmp_path / "log.csv", flights)
    dead = tmp_path / "dead"
    words = ["--missing", "skip", "-o", tmp_path / "out", "--dead-letters", dead, "--json"]
    done = onkel("detect", path, *words)
    gaps = {i for i, row in enumerate(flights) if not row["minutes"]} | {30}
    assert json.loads(done.stdout)["broken"] == len(gaps), done.output
    found = json_lines(dead)
    assert {line["row"] for line in found} == gaps
    assert found[1]["reason"] == "column 'when': no value (--missing skip)"
    assert found[1]["line"] == 32


def test_misfits_are_broken_rows_with_their_lines(flights, tmp_path):
    rows = [{**cells(row, NAMES), "late": row["late"]} for row in flights]
    rows[100]["minutes"], rows[200]["carrier"], rows[300]["when"] = "soon", ["AA"], "soon"
    path, dead = tmp_path / "log.jsonl", tmp_path / "dead"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ["--target", "late", "-o", tmp_path / "out", "--dead-letters", dead]
    done = onkel("classify", path, *words, "--json")
    assert done.exit_code == 0, done.output
    assert [(d["row"], d["line"]) for d in json_lines(dead)] == [(100, 101), (200, 201), (300, 301)]
    assert ["'minutes'" in d["reason"] for d in json_lines(dead)] == [True, False, False]
    rows = [row for i, row in enumerate(rows) if i not in (100, 200, 300)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert json.loads(done.stdout)["examples"] == len(rows)


# -- what is said ------------------------------------------------------------------------------


def test_a_detector_that_learns_labels_says_so(flights, tmp_path):
    for i, row in enumerate(flights):
        row["Anomaly"] = str(int(i % 40 == 3))
    path = written(tmp_path / "log.csv", flights)
    said = onkel("detect", path, "-o", tmp_path / "out").stderr
    assert "leave it out: --ignore Anomaly" in said
    said = onkel("detect", path, "-o", tmp_path / "out", "--ignore", "Anomaly").stderr
    assert "--ignore" not in said
    said = onkel("classify", path, "-o", tmp_path / "out", "--target", "Anomaly").stderr
    assert "--ignore" not in said


def test_a_number_beside_a_time_may_be_a_series(log, tmp_path):
    words = ["detect", log, "-o", tmp_path / "out", "--columns"]
    said = onkel(*words, "when,minutes").stderr
    assert "--time when makes it the time of the rows, and 'minutes' a series" in said
    assert "--time" not in onkel(*words, "when,minutes,carrier").stderr
    assert "--time" not in onkel(*words, "minutes", "--time", "when").stderr


def test_one_row_is_one_row(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n1,x\n")
    done = onkel("detect", tmp_path / "rows.csv", "-o", tmp_path / "out")
    assert done.stderr.splitlines()[-1].startswith("1 row · ")
    assert "1 row of warm-up" in done.stderr
