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
from helpers.runs_of import NAMES, ROOT, begin, carry_out, command, json_lines, write_rows  # noqa: E402
from helpers.sizes import size  # noqa: E402

from onkel import (  # noqa: E402
    Classifier,
    Detector,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    NoveltyDetector,
    Regressor,
    expansions,
    losses,
)
from onkel.app.cli import main  # noqa: E402
from onkel.app.errors import CODES  # noqa: E402
from onkel.explain import one_in  # noqa: E402
from onkel.streams.sources import next_cut  # noqa: E402

ROWS = size(1500, 2500)


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


def blocks(kind) -> int:
    """Return how many rows of a few columns are handled at once."""
    return 1024 if kind in (Classifier, Regressor) else 16384


def stretches(y, part):
    """Return the runs of rows with, and without, a label in a block."""
    edges = [i for i in range(part.start + 1, part.stop) if bool(y[i]) != bool(y[i - 1])]
    return [slice(a, b) for a, b in pairwise([part.start, *edges, part.stop])]


@pytest.mark.parametrize("model", [Classifier, KernelClassifier, LinearClassifier])
def test_classify_is_the_library_and_rows_without_a_label_are_not_learned(
    rng, tmp_path, model
) -> None:
    X = rng.normal(size=(ROWS, 2)).astype(np.float32)
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other").astype(object)
    y[1000:1010] = ""
    path = write_rows(tmp_path / "rows.csv", X, label=y)
    words = [] if model is Classifier else ["--model", model.__name__[:6].lower()]
    done = onkel(
        "classify", path, "--target", "label", "-o", tmp_path / "out.jsonl", "--json", *words
    )
    assert done.exit_code == 0, done.output
    clf, other, truth, chances = model(missing="mean"), model(missing="mean"), [], []
    for run in [run for part in cuts(ROWS, blocks(model)) for run in stretches(y, part)]:
        if y[run.start]:
            labels = y[run].astype(str)
            truth += clf.predict_then_learn(X[run], labels).tolist()
            chances += other.predict_then_learn(X[run], labels, output="probability").tolist()
        else:
            truth += clf.predict(X[run]).tolist()
            chances += other.predict_proba(X[run]).tolist()
    found = json_lines(tmp_path / "out.jsonl")
    assert [list(line) for line in found] == [["row", "prediction", "probability", "target"]] * ROWS
    assert [line["prediction"] for line in found] == truth
    late = 1 + next(i for i in range(ROWS) if y[i] != y[0])  # both labels are known from here on
    assert [line["probability"] for line in found[late:]] == [max(c) for c in chances[late:]]
    assert found[0]["probability"] is None and found[1]["probability"] == 1.0
    assert [line["target"] for line in found] == [v or None for v in y]
    summary = json.loads(done.stdout)
    wrong = sum(p != t for p, t in zip(truth, y, strict=True) if t)
    assert summary["mistakes"] == wrong and summary["examples"] == ROWS - 10
    labels = [v for v in y if v]
    same = 1 + sum(a != b for a, b in pairwise(labels))
    assert summary["mistake_rate_no_change"] == same / len(labels)
    assert ("in_words" in summary) == (model is Classifier)


@pytest.mark.few
@pytest.mark.parametrize("kind", [Regressor, KernelRegressor, LinearRegressor])
@pytest.mark.parametrize("nu", [None, 0.2])
def test_regress_is_the_library(rng, tmp_path, kind, nu) -> None:
    X = rng.normal(size=(ROWS, 2))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=ROWS)
    path = write_rows(tmp_path / "rows.csv", X, y=[repr(float(v)) for v in y])
    words = ["--target", "y", "--precision", "double", "--json", "-o", tmp_path / "out.csv"]
    words += [] if kind is Regressor else ["--model", kind.__name__[:6].lower()]
    done = onkel("regress", path, *words, *([] if nu is None else ["--nu", nu]))
    assert done.exit_code == 0, done.output
    with open(tmp_path / "out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = {n: np.array([float(r[n]) for r in rows]) for n in rows[0]}
    given = {} if nu is None else {"nu": nu} if kind is Regressor else {"loss": losses.Huber(nu=nu)}
    reg, summary = kind(**given, missing="mean"), json.loads(done.stdout)
    rows = blocks(kind)
    truth = np.concatenate([reg.predict_then_learn(X[p], y[p]) for p in cuts(ROWS, rows)])
    assert columns["prediction"].tolist() == truth.tolist()
    assert summary["mean_absolute_error"] == pytest.approx(np.abs(truth - y).mean())
    if nu is None and kind is not Regressor:
        assert [*columns] == ["row", "prediction", "target"]
        return
    assert [*columns] == ["row", "prediction", "low", "high", "target"]
    reg = kind(**given, missing="mean")
    parts = [reg.predict_then_learn(X[p], y[p], output="interval") for p in cuts(ROWS, rows)]
    low, high = np.concatenate(parts, axis=1)
    assert columns["low"].tolist() == low.tolist() and columns["high"].tolist() == high.tolist()
    covered = np.mean((low <= y) & (y <= high))
    assert summary["coverage_promised"] == 1 - (nu or 0.1)
    assert summary["coverage_realised"] == pytest.approx(covered)


def test_an_option_of_one_setting_gives_that_model_and_says_so(rng, tmp_path) -> None:
    X = rng.normal(size=(300, 2)).astype(np.float32)
    path = write_rows(tmp_path / "rows.csv", X, side=(X[:, 0] > 0).astype(int).tolist())
    run = ["classify", path, "--target", "side", "-o"]
    for words in (["--kernel", "gaussian"], ["--model", "kernel", "--kernel", "gaussian"]):
        done = onkel(*run, tmp_path / f"{len(words)}", *words)
        assert done.exit_code == 0
        told = "--kernel: only a model of one setting has it, so that KernelClassifier runs"
        assert (told in done.stderr) == (len(words) == 2)
    assert (tmp_path / "2").read_bytes() == (tmp_path / "4").read_bytes()
    assert not onkel(*run, tmp_path / "2", "--kernel", "gaussian", "--quiet").stderr
    assert "onkel:" not in onkel(*run, tmp_path / "auto").stderr
    for task, words, kind in (
        ("classify", ["--gamma", 1], "KernelClassifier"), ("classify", ["--nu", 0.1], "Kernel"),
        ("classify", ["--rule", "alma"], "KernelClassifier"), ("regress", ["--rate", 1], "Kernel"),
        ("regress", ["--loss", "squared", "--window", 50], "KernelRegressor"),
        ("regress", ["--no-scale"], "KernelRegressor"), ("detect", ["--rate", 1], "NoveltyDet"),
    ):  # fmt: skip
        target = [] if task == "detect" else ["--target", "side"]
        done = onkel(task, path, *target, "--dry-run", *words)
        assert done.exit_code == 0 and kind in done.stderr and "--model kernel" in done.stderr
        assert "would tune itself" in done.stderr
    done = onkel("regress", path, "--target", "side", "--dry-run", "--memory", 500, "--nu", 0.2)
    assert not done.stderr and "Regressor(nu=0.2, memory=500.0" in done.stdout


def test_a_linear_model_refuses_what_it_lacks(rng, tmp_path) -> None:
    X = rng.normal(size=(60, 2))
    path = write_rows(tmp_path / "rows.csv", X, y=X[:, 0])
    for words in (["--kernel", "gaussian"], ["--gamma", 1], ["--window", 50]):
        done = onkel("regress", path, "--target", "y", "--model", "linear", *words)
        assert done.exit_code == 2 and f"{words[0]}: not with --model linear" in done.stderr
    done = onkel("detect", path, "--model", "linear")
    assert done.exit_code == 2 and "--model" in done.stderr
    words = ["--model", "linear", "--loss", "squared", "--rate", 0.1, "--memory", 90, "--dry-run"]
    done = onkel("regress", path, "--target", "y", *words)
    assert "LinearRegressor(loss='squared'" in done.stdout and "kernel:" not in done.stdout


def test_a_dry_run_names_the_settings_that_would_run(rng, tmp_path) -> None:
    X = rng.normal(size=(60, 3))
    path = write_rows(tmp_path / "rows.csv", X, y=X[:, 0])
    done = onkel("regress", path, "--target", "y", "--dry-run")
    model = Regressor().partial_fit(X, X[:, 0])
    names = model.diagnostics_["names"]
    assert f"{len(names)} settings side by side" in done.stdout
    assert [name for name in names if name not in done.stdout] == []
    told = json.loads(onkel("regress", path, "--target", "y", "--dry-run", "--json").stdout)
    assert told["settings"] == names


def test_another_model_needs_another_state(rng, tmp_path) -> None:
    X = rng.normal(size=(200, 2))
    path = write_rows(tmp_path / "rows.csv", X, y=X[:, 0])
    run = ["regress", path, "--target", "y", "--state", tmp_path / "s", "-o", tmp_path / "out"]
    assert onkel(*run).exit_code == 0
    for words, name in ((["--model", "linear"], "model"), (["--memory", 50], "memory")):
        done = onkel(*run, *words)
        assert done.exit_code not in (0, 1) and name in done.stderr
    told = json.loads(onkel("inspect", tmp_path / "s", "--json").stdout)
    assert told["coverage_promised"] == 0.9
    assert told["model"]["in_words"].startswith("Leads now: ")
    assert "Leads now: " in onkel("inspect", tmp_path / "s").stdout


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


def test_what_tunes_itself_forgets_by_the_clock(rng, tmp_path) -> None:
    X = rng.normal(size=(300, 2)).astype(np.float32)
    y, when = X[:, 0].astype(float) * 2, np.arange(300) * 60.0
    path = write_rows(tmp_path / "rows.csv", X, at=when, y=[repr(float(v)) for v in y])
    words = ["--target", "y", "--time", "at", "--memory", "30min", "-o", tmp_path / "out"]
    done = onkel("regress", path, *words)
    assert done.exit_code == 0, done.output
    reg = Regressor(memory="30min")
    parts = [reg.predict_then_learn(X[p], y[p], output="interval", time=when[p]) for p in cuts(300)]
    low, high = np.concatenate(parts, axis=1)
    found = json_lines(tmp_path / "out")
    np.testing.assert_allclose([line["low"] for line in found], low, rtol=1e-9)
    np.testing.assert_allclose([line["high"] for line in found], high, rtol=1e-9)
    assert onkel("regress", path, "--target", "y", "--memory", "30min").exit_code == 2


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


def test_identifiers_are_ignored_with_a_warning(X, tmp_path) -> None:
    path = write_rows(tmp_path / "rows.csv", X, name=[f"x{i}" for i in range(ROWS)])
    done = onkel("detect", path, "-o", tmp_path / "out")
    assert "column 'name' is different in every row and is ignored" in done.stderr
    done = onkel("detect", path, "-o", tmp_path / "out", "--ignore", "name")
    assert "onkel:" not in done.stderr
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
    path = write_rows(tmp_path / "rows.csv", X, name=[f"x{i}" for i in range(ROWS)])
    done = onkel("detect", path, "--dry-run", "--state", tmp_path / "s", "-o", tmp_path / "out")
    assert done.exit_code == 0 and not (tmp_path / "s").exists() and not (tmp_path / "out").exists()
    after = "on about 1 % of usual rows, after 230 rows of warm-up"
    for word in (*NAMES, "ignored (different in every row)", "mean", "spread", after):
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


@pytest.mark.long
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


def test_results_alone_when_quiet(X, tmp_path) -> None:
    path = write_rows(tmp_path / "rows.csv", X)
    done = carry_out("detect", path, "--quiet")
    assert done.returncode == 0 and done.stderr == ""
    assert all(json.loads(line)["alert"] for line in done.stdout.splitlines())


def test_stdin_gives_what_the_file_gives(X, tmp_path) -> None:
    path = write_rows(tmp_path / "rows.csv", X)
    with open(path) as file:
        piped = command("detect", "-", stdin=file)
    assert piped.stdout == carry_out("detect", path).stdout


@pytest.mark.long
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
