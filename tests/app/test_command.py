"""The command against the library called on the same rows; its options, errors and exit codes."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

click = pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from click.testing import CliRunner  # noqa: E402
from helpers.runs_of import NAMES, ROOT, begin, command, json_lines, write_rows  # noqa: E402

from onkel import (  # noqa: E402
    Detector,
    KernelClassifier,
    KernelRegressor,
    NoveltyDetector,
    expansions,
    losses,
)
from onkel.app.cli import main  # noqa: E402
from onkel.app.errors import CODES  # noqa: E402
from onkel.explain import one_in  # noqa: E402
from onkel.streams.sources import next_cut  # noqa: E402

ROWS = 1500


def onkel(*words):
    return CliRunner().invoke(main, [str(w) for w in words])


def cuts(rows: int, size: int = 16384) -> list[slice]:
    edges = [0]
    while edges[-1] < rows:
        edges.append(min(next_cut(edges[-1], size), rows))
    return [slice(a, b) for a, b in pairwise(edges)]


@pytest.fixture
def X(rng):
    found = rng.normal(size=(ROWS, 3))
    found[ROWS // 2 : ROWS // 2 + 5] += 6
    return found


def test_detect_is_the_library_on_the_same_rows(X, tmp_path) -> None:
    path = write_rows(tmp_path / "rows.csv", X)
    done = onkel(
        "detect",
        path,
        "--all",
        "-o",
        tmp_path / "all.jsonl",
        "--nu",
        0.02,
        "--window",
        300,
        "--json",
    )
    assert done.exit_code == 0, done.output
    det = Detector(nu=0.02, terms=300, missing="mean")
    X = X.astype(np.float32)
    truth = np.concatenate(
        [det.predict_then_learn(X[part], output="judgement") for part in cuts(ROWS)]
    ).T
    found = json_lines(tmp_path / "all.jsonl")
    assert [line["row"] for line in found] == list(range(ROWS))
    assert [line["score"] for line in found] == truth[0].tolist()
    assert [line["threshold"] for line in found] == truth[1].tolist()
    assert [line["p"] for line in found] == np.exp(truth[0]).tolist()
    alerts = truth[2] > 0
    assert [line["alert"] for line in found] == alerts.tolist()
    ranks = Detector(nu=0.02, terms=300).predict_then_learn(X, output="rank")
    np.testing.assert_allclose(
        [line["rank"] for line in found if line["alert"]], ranks[alerts], atol=2e-3
    )
    summary = json.loads(done.stdout)
    assert summary["alerts"] == alerts.sum() and summary["examples"] == ROWS
    assert summary["warmup"] == 230 and not alerts[:230].any()
    assert summary["rate_realised"] == alerts.sum() / (ROWS - 230)
    assert summary["rate_promised"] == 0.02 and summary["rate_promised_of"] == "usual rows"


def test_the_papers_detector_is_the_library_on_the_same_rows(X, tmp_path) -> None:
    path = write_rows(tmp_path / "rows.csv", X)
    words = ["--model", "kernel", "--nu", 0.02, "--window", 300, "--json"]
    done = onkel("detect", path, "--all", "-o", tmp_path / "all.jsonl", *words)
    det = NoveltyDetector(nu=0.02, expansion=expansions.Window(terms=300), missing="mean")
    X = X.astype(np.float32)
    truth = np.concatenate(
        [det.predict_then_learn(X[part], output="judgement") for part in cuts(ROWS)]
    )
    found = json_lines(tmp_path / "all.jsonl")
    assert [[line["score"], line["threshold"], line["alert"]] for line in found] == truth.tolist()
    assert not any("p" in line for line in found)
    summary = json.loads(done.stdout)
    assert summary["warmup"] == 0 and summary["rate_realised"] == truth[:, 2].mean()
    assert "rate_promised_of" not in summary


def test_alerts_alone_are_those_among_all_and_say_why(X, tmp_path) -> None:
    path = write_rows(tmp_path / "rows.csv", X)
    for name, more in (("all.jsonl", ["--all"]), ("alerts.jsonl", []), ("alerts.csv", [])):
        onkel("detect", path, "-o", tmp_path / name, "--nu", 0.02, *more)
    everything = [line for line in json_lines(tmp_path / "all.jsonl") if line["alert"]]
    alerts = json_lines(tmp_path / "alerts.jsonl")
    assert alerts == everything
    assert len(alerts) > 5 and min(a["row"] for a in alerts) >= 230
    for alert in alerts:  # the first 200 are explained
        assert f"Alert: {one_in(alert['score'])} is as unusual" in alert["why"]
        assert "was usual" in alert["why"] and any(f"through {n} " in alert["why"] for n in NAMES)
    with open(tmp_path / "alerts.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(r["score"]) for r in rows] == [a["score"] for a in alerts]
    assert [r["why"] or None for r in rows] == [a["why"] for a in alerts]


def test_classify_is_the_library_and_rows_without_a_label_are_not_learned(rng, tmp_path) -> None:
    X = rng.normal(size=(ROWS, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other").astype(object)
    y[1000:1010] = ""
    path = write_rows(tmp_path / "rows.csv", X, label=y)
    done = onkel("classify", path, "--target", "label", "-o", tmp_path / "out.jsonl", "--json")
    assert done.exit_code == 0, done.output
    clf, truth = KernelClassifier(missing="mean"), []
    for part in cuts(ROWS):
        known = [i for i in range(part.start, part.stop) if y[i]]
        if len(known) == part.stop - part.start:
            truth += clf.predict_then_learn(X[part], y[part].astype(str)).tolist()
        else:
            first, last = known.index(999) + 1, known.index(1010)
            truth += clf.predict_then_learn(X[known[:first]], y[known[:first]].astype(str)).tolist()
            truth += clf.predict(X[1000:1010]).tolist()
            truth += clf.predict_then_learn(X[known[last:]], y[known[last:]].astype(str)).tolist()
    found = json_lines(tmp_path / "out.jsonl")
    assert [line["prediction"] for line in found] == truth
    assert [line["target"] for line in found] == [v or None for v in y]
    summary = json.loads(done.stdout)
    wrong = sum(p != t for p, t in zip(truth, y, strict=True) if t)
    assert summary["mistakes"] == wrong and summary["examples"] == ROWS - 10
    labels = [v for v in y if v]
    same = 1 + sum(a != b for a, b in pairwise(labels))
    assert summary["mistake_rate_no_change"] == same / len(labels)


def test_regress_is_the_library(rng, tmp_path) -> None:
    X = rng.normal(size=(ROWS, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=ROWS)
    path = write_rows(tmp_path / "rows.csv", X, y=[repr(float(v)) for v in y])
    run = ["regress", path, "--target", "y", "--precision", "double", "--json"]
    done = onkel(*run, "-o", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    reg = KernelRegressor(missing="mean")
    truth = np.concatenate([reg.predict_then_learn(X[part], y[part]) for part in cuts(ROWS)])
    with open(tmp_path / "out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(r["prediction"]) for r in rows] == truth.tolist()
    error = json.loads(done.stdout)["mean_absolute_error"]
    assert error == pytest.approx(np.abs(truth - y).mean())
    done = onkel(*run, "--nu", 0.2, "-o", tmp_path / "out.jsonl")
    reg = KernelRegressor(loss=losses.Huber(nu=0.2), missing="mean")
    parts = [reg.predict_then_learn(X[p], y[p], output="interval") for p in cuts(ROWS)]
    low, high = np.concatenate(parts, axis=1)
    found = json_lines(tmp_path / "out.jsonl")
    assert [line["low"] for line in found] == low.tolist()
    assert [line["high"] for line in found] == high.tolist()
    covered = np.mean((low <= y) & (y <= high))
    assert json.loads(done.stdout)["coverage_realised"] == pytest.approx(covered)


def test_one_model_for_each_key_with_few_in_memory(rng, tmp_path) -> None:
    X = rng.normal(size=(600, 2)).astype(np.float32)
    keys = [f"k{i}" for i in rng.integers(0, 7, 600)]
    path = write_rows(tmp_path / "rows.csv", X, who=keys)
    base = ["detect", path, "--all", "--key", "who", "--explain", "none", "--block", 64]
    for name, more in (
        ("a", ["--models-in-memory", 2]),
        ("b", []),
        ("c", ["--state", tmp_path / "s", "--every", 0]),
    ):
        done = onkel(*base, "-o", tmp_path / name, *more)
        assert done.exit_code == 0, done.output
    assert (
        (tmp_path / "a").read_bytes()
        == (tmp_path / "b").read_bytes()
        == (tmp_path / "c").read_bytes()
    )
    found = json_lines(tmp_path / "b")
    for key in ("k0", "k3"):
        at = [i for i, k in enumerate(keys) if k == key]
        det, truth = Detector(missing="mean"), []
        for part in cuts(600, 64):
            own = [i for i in at if part.start <= i < part.stop]
            if own:
                truth += det.predict_then_learn(X[own], output="score").tolist()
        assert [line["score"] for line in found if line["key"] == key] == truth
    told = json.loads(onkel("inspect", tmp_path / "s", "--json").stdout)
    assert told["models"] == 7 and told["examples"] == 600


def test_forgetting_by_the_clock(rng, tmp_path) -> None:
    X = rng.normal(size=(300, 2)).astype(np.float32)
    when = np.arange(300) * 60.0
    stamps = [f"1970-01-01T{int(t) // 3600:02d}:{int(t) % 3600 // 60:02d}:00" for t in when]
    path = write_rows(tmp_path / "rows.csv", X, at=stamps)
    done = onkel(
        "detect", path, "--all", "--time", "at", "--memory", "30min", "-o", tmp_path / "out"
    )
    assert done.exit_code == 0, done.output
    det = NoveltyDetector().set_params(rule__memory="30min")
    truth = np.concatenate(
        [det.predict_then_learn(X[p], output="score", time=when[p]) for p in cuts(300)]
    )
    found = json_lines(tmp_path / "out")
    assert [line["score"] for line in found] == truth.tolist() and found[5]["time"] == stamps[5]
    assert onkel("detect", path, "--memory", "30min").exit_code == 2


def test_broken_rows_go_to_a_file_or_stop_the_run(tmp_path) -> None:
    lines = ["a,b", *["1,2"] * 30, "x,1", "1", *["2,3"] * 30]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    done = onkel(
        "detect",
        tmp_path / "rows.csv",
        "--dead-letters",
        tmp_path / "dead",
        "-o",
        tmp_path / "out",
        "--json",
    )
    assert done.exit_code == 0
    dead = json_lines(tmp_path / "dead")
    assert [(d["line"], d["row"], d["text"]) for d in dead] == [(32, 30, "x,1"), (33, 31, "1")]
    assert dead[0]["reason"] == "column 'a': 'x' is no number"
    assert json.loads(done.stdout)["broken"] == 2 and json.loads(done.stdout)["examples"] == 60
    done = onkel("detect", tmp_path / "rows.csv", "--strict")
    assert done.exit_code == 3 and "line 32: column 'a': 'x' is no number" in done.stderr


def test_a_missing_number_is_the_mean_or_a_broken_row(tmp_path) -> None:
    lines = ["a,b", *["1,2", "3,4"] * 20, "1,", *["1,2"] * 20]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    counted = [
        json.loads(
            onkel("detect", tmp_path / "rows.csv", "--json", "-o", tmp_path / "o", *more).stdout
        )
        for more in ([], ["--missing", "skip"])
    ]
    assert [c["examples"] for c in counted] == [61, 60] and [c["broken"] for c in counted] == [0, 1]


def test_text_columns_are_ignored_with_a_warning(X, tmp_path) -> None:
    path = write_rows(tmp_path / "rows.csv", X, name=["x"] * ROWS)
    done = onkel("detect", path, "-o", tmp_path / "out")
    assert "column 'name' holds text and is ignored" in done.stderr
    assert not onkel("detect", path, "-o", tmp_path / "out", "--ignore", "name").stderr
    assert not onkel("detect", path, "-o", tmp_path / "out", "--quiet").stderr


def test_settings_from_a_file_and_flags_before_it(X, tmp_path) -> None:
    path = write_rows(tmp_path / "rows.csv", X)
    (tmp_path / "c.toml").write_text(
        'nu = 0.2\nwindow = 150\nignore = ["c"]\noutput-format = "csv"\n'
    )
    done = onkel(
        "detect", path, "--config", tmp_path / "c.toml", "--nu", 0.1, "--dry-run", "--json"
    )
    told = json.loads(done.stdout)
    assert "nu=0.1" in told["model"] and "terms=150" in told["model"]
    assert [c["role"] for c in told["columns"]] == ["feature", "feature", "ignored"]
    (tmp_path / "c.toml").write_text("nuu = 0.2\n")
    done = onkel("detect", path, "--config", tmp_path / "c.toml")
    assert done.exit_code == 2 and "no setting nuu" in done.stderr


def test_a_dry_run_shows_and_touches_nothing(X, tmp_path) -> None:
    path = write_rows(tmp_path / "rows.csv", X, name=["x"] * ROWS)
    done = onkel("detect", path, "--dry-run", "--state", tmp_path / "s", "-o", tmp_path / "out")
    assert done.exit_code == 0 and not (tmp_path / "s").exists() and not (tmp_path / "out").exists()
    after = "on about 1 % of usual rows, after 230 rows of warm-up"
    for word in (*NAMES, "ignored (text)", "mean", "spread", after):
        assert word in done.stdout
    done = onkel("detect", path, "--model", "kernel", "--dry-run")
    assert "Gaussian" in done.stdout and "gamma 0.3333" in done.stdout
    told = json.loads(onkel("detect", path, "--dry-run", "--json").stdout)
    sample = X[: told["rows_looked_at"]]
    assert told["columns"][1]["mean"] == pytest.approx(sample[:, 1].mean())


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["detect", "none.csv"], 3, "No such file"),
        (["detect", "{path}", "--nu", 2], 2, "nu must be"),
        (["detect", "{path}", "--kernel", "gausian"], 2, "must be one of"),
        (["detect", "{path}", "--kernel", "linear", "--gamma", 1], 2, "gamma"),
        (["detect", "{path}", "--memory", "soon"], 2, "12h"),
        (["detect", "{path}", "--ignore", "q"], 3, "no column 'q'. There are: a, b, c"),
        (["detect", "{path}", "--replay"], 2, "--state"),
        (["detect", "{path}", "-o", "nowhere/out"], 5, "cannot be written"),
        (["classify", "{path}"], 2, "--target"),
        (["regress", "{path}", "--target", "a", "--loss", "squared", "--nu", 0.1], 2, "nu"),
        (["inspect", "{folder}"], 4, "no state"),
        (["detect", "{path}", "-o", "{path}"], 2, "is the source as well"),
        (["detect", "{path}", "-o", "x", "--dead-letters", "./x"], 2, "is --output as well"),
    ],
)  # fmt: skip
def test_errors_name_what_is_wrong(X, tmp_path, monkeypatch, words, code, told) -> None:
    path = write_rows(tmp_path / "rows.csv", X)
    monkeypatch.chdir(tmp_path)
    given = [str(w).format(path=path, folder=tmp_path) for w in words]
    done = onkel(*given)
    assert done.exit_code == code and told in done.stderr, done.output
    assert code in CODES


@pytest.mark.skipif(importlib.util.find_spec("bokeh") is None, reason="needs Bokeh")
def test_the_report_holds_everything_and_loads_nothing(X, rng, tmp_path) -> None:
    path = write_rows(tmp_path / "rows.csv", X, y=np.sign(X[:, 0]).astype(int), v=X[:, 1].round(3))
    runs = [["detect"], ["classify", "--target", "y"], ["regress", "--target", "v", "--nu", 0.1]]
    for (task, *more), word in zip(runs, ["Alert rate", "Mistakes", "Coverage"], strict=True):
        done = onkel(task, path, *more, "--report", tmp_path / "r.html", "-o", tmp_path / "out")
        assert done.exit_code == 0, done.output
        page = (tmp_path / "r.html").read_text()
        assert word in page and "http://" not in page.split("<body>")[0].split("<script")[0]
        assert "default-src 'none'" in page and f"{ROWS:,} rows" in page


# -- as a process ------------------------------------------------------------------------------


def test_help_waits_for_nothing_heavy() -> None:
    code = "import sys; from onkel.app.cli import main; main(['detect', '--help'], 'onkel', "
    code += "standalone_mode=False); assert not {'numpy', 'bokeh', 'starlette'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def test_quiet_when_piped(X, tmp_path) -> None:
    path = write_rows(tmp_path / "rows.csv", X)
    done = command("detect", path)
    assert done.returncode == 0 and done.stderr == ""
    assert all(json.loads(line)["alert"] for line in done.stdout.splitlines())


def test_stdin_gives_what_the_file_gives(X, tmp_path) -> None:
    path = write_rows(tmp_path / "rows.csv", X)
    with open(path) as file:
        piped = command("detect", "-", stdin=file)
    assert piped.stdout == command("detect", path).stdout


def test_a_closed_pipe_ends_the_run_quietly(X, tmp_path) -> None:
    path = write_rows(tmp_path / "rows.csv", np.tile(X, (6, 1)))
    process = begin("detect", path, "--all", stdout=-1, stderr=-1)
    assert process.stdout is not None and process.stderr is not None
    os.read(process.stdout.fileno(), 10)
    process.stdout.close()
    assert process.wait(60) == 5
    assert process.stderr.read().decode().count("\n") <= 1


def test_completion_knows_commands_and_options() -> None:
    done = command("completion", "bash")
    assert done.returncode == 0 and "_ONKEL_COMPLETE=bash_complete" in done.stdout
