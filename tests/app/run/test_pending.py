"""--pending: rows wait under their ids until a later line brings the target; kills in between."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from helpers.runs_of import carry_out, command, json_lines, onkel
from helpers.sizes import size
from naive.late import NaiveLate

from onkel import KernelClassifier, KernelRegressor
from onkel.app.run.pending import limits_of
from onkel.bounds import ask_budget

ROWS = size(300, 1500)
KIND = ["--model", "kernel", "--precision", "double", "--ignore", "at"]


def lines_of(rng, regress=False, delay=25.0, seconds=1.0):
    """Lines as they come: [at, id, a, b, c, target]; a label has nothing else."""
    found = []
    for i in range(ROWS):
        a, b, kind = *rng.normal(size=2).tolist(), str(rng.choice(["x", "y"]))
        target = repr(a + 0.1 * b) if regress else ("high" if a + (kind == "x") > 0.5 else "low")
        late = i + float(rng.exponential(delay))
        found.append((i * seconds, f"r{i}", repr(a), repr(b), kind, ""))
        if i % 10:  # some never come
            found.append((late * seconds, f"r{i}", "", "", "", target))
        if i % 7 == 0:  # and some rows have theirs at once
            found.append(((i + 0.5) * seconds, f"w{i}", repr(a), repr(b), kind, target))
    return [[repr(t), *rest] for t, *rest in sorted(found)]


def written(path, lines, table=True):
    with open(path, "w", newline="") as file:
        names = ["at", "id", "a", "b", *(["c"] if table else []), "y"]
        rows = lines if table else [[*row[:4], row[5]] for row in lines]
        csv.writer(file).writerows([names, *rows])
    return path


def ran(task, path, out, *more):
    done = onkel(task, path, "--target", "y", "--id", "id", "-o", out, *more)
    assert done.exit_code == 0, done.output
    return json_lines(out), done


def plainly(model, lines, within=np.inf, keep=10**9):
    """The same in a plain loop over lines; return the prediction that each line shows."""

    def look(row):
        return model.predict([row])[0] if model.__sklearn_is_fitted__() else None

    def learn(row, y):
        model.partial_fit([row], [y])

    naive, shown = NaiveLate(look, learn, keep, within), []
    for at, id, a, b, _, target in lines:
        now = float(at)
        if not target:
            shown.append((id, naive.predict(id, [float(a), float(b)], now), None))
            continue
        if any(w[0] == id and now - w[3] <= within for w in naive.waiting):
            naive.learn(id, target, now)
            shown.append((id, naive.answers[-1][1], target))
        elif a:
            shown.append((id, look([float(a), float(b)]), target))
            learn([float(a), float(b)], target)
            naive.expire(now)
    return shown, naive


@pytest.mark.few
@pytest.mark.parametrize("block", [64, 1024])
@pytest.mark.parametrize("pending", ["100000", "20s", "15"])
def test_as_in_a_plain_loop(rng, tmp_path, block, pending):
    lines = lines_of(rng)
    path = written(tmp_path / "in.csv", lines, table=False)
    how = ["--time", "at"] if pending == "20s" else ["--ignore", "at"]
    more = ["--model", "kernel", "--precision", "double", "--pending", pending, "--block", block]
    found, done = ran(
        "classify", path, tmp_path / "out.jsonl", *more, *how, "--json", "--broken-at-most", 1
    )
    limits = {"within": 20.0} if pending == "20s" else {"keep": int(pending)}
    shown, naive = plainly(KernelClassifier(), lines, **limits)
    assert [(f["id"], f["target"]) for f in found] == [(id, target) for id, _, target in shown]
    assert [f["prediction"] for f in found] == [said for _, said, _ in shown]
    told = json.loads(done.stdout.splitlines()[-1])
    counted = {"answered": len(naive.answers), "waiting": len(naive.waiting), "asked": 0}
    assert told["pending"] == {**counted, "expired": naive.expired}
    assert told["mistakes"] == sum(t is not None and p != t for _, p, t in shown)
    assert told["broken"] == len(lines) - len(shown)
    assert (told["broken"] > 0) == (pending != "100000")


def test_numbers_with_intervals(rng, tmp_path):
    lines = lines_of(rng, regress=True)
    path = written(tmp_path / "in.csv", lines, table=False)
    found, done = ran("regress", path, tmp_path / "out.jsonl", "--pending", "9999", *KIND, "--json")
    numbers = [[*line[:5], float(line[5]) if line[5] else ""] for line in lines]
    shown, _ = plainly(KernelRegressor(), [[*n[:5], n[5]] for n in numbers])
    for f, (id, said, target) in zip(found, shown, strict=True):
        assert f["id"] == id and f["target"] == target
        said = 0.0 if said is None and id.startswith("w") else said  # as without --pending
        assert f["prediction"] == (said if said is None else pytest.approx(said, abs=1e-6))
    errors = [abs((p or 0.0) - t) for _, p, t in shown if t is not None]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["mean_absolute_error"] == pytest.approx(np.mean(errors))


def test_intervals_come_with_their_rows(rng, tmp_path):
    path = written(tmp_path / "in.csv", lines_of(rng, regress=True))
    found, done = ran(
        "regress", path, tmp_path / "out.jsonl", "--pending", "30d", "--time", "at", "--json",
        "--ask", 0.1,
    )  # fmt: skip
    rows = {f["id"]: f for f in found if f["target"] is None}
    late = [f for f in found if f["target"] is not None and f["id"].startswith("r")]
    assert len(late) > 100
    for f in late:
        assert {n: f[n] for n in ("prediction", "low", "high")} == {
            n: rows[f["id"]][n] for n in ("prediction", "low", "high")
        }
        assert f["ask"] is None
    told = json.loads(done.stdout.splitlines()[-1])
    inside = [f["low"] is not None and f["low"] <= f["target"] <= f["high"] for f in found
              if f["target"] is not None]  # fmt: skip
    assert told["coverage_realised"] == pytest.approx(np.mean(inside))
    asked = [f["ask"] for f in rows.values()]
    bound = ask_budget(trials=len(asked), ask=0.1, ask_rate=0.05)
    assert bound.details["least"] <= told["pending"]["asked"] == sum(asked) <= bound.bound


# -- kills -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", size(["regress"], ["classify", "regress"]))
def test_a_killed_run_goes_on_byte_for_byte(rng, tmp_path, task):
    """A table, with categories; killed several times, at the worst moments."""
    path = written(tmp_path / "in.csv", lines_of(rng, task == "regress"))
    how = [
        task, path, "--target", "y", "--id", "id", "--pending", "40s", "--time", "at", "--ask",
        0.1, "--block", 64, "--every", 0, "--broken-at-most", 1,
    ]  # fmt: skip
    for name in ("whole", "cut"):
        (tmp_path / name).mkdir()
    whole = carry_out(*how, "--state", tmp_path / "whole" / "s", "-o", tmp_path / "whole" / "out")
    assert whole.returncode == 0, whole.stderr
    again = [*how, "--state", tmp_path / "cut" / "s", "-o", tmp_path / "cut" / "out"]
    for dies in size(("model:2",), ("output:2", "model:2", "before-commit:3",
                                                      "after-commit:2", "cleanup:1")):  # fmt: skip
        assert command(*again, dies=dies).returncode == -9
    done = carry_out(*again)
    assert done.returncode == 0, done.stderr
    for name in ("out", "s/dead_letters.jsonl"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    last = [line for line in done.stderr.splitlines() if "came later" in line]
    assert last == [line for line in whole.stderr.splitlines() if "came later" in line] and last


def test_a_run_goes_on_with_more_labels(rng, tmp_path):
    """The labels of yesterday's rows come with today's file."""
    lines = lines_of(rng)
    first = written(tmp_path / "in.csv", lines[:200])
    how = ["classify", "--target", "y", "--id", "id", "--pending", "9999", "--ignore", "at"]
    state = ["--state", tmp_path / "s", "-o", tmp_path / "out.jsonl", "--follow"]
    done = onkel(*how, first, *state, "--stop-after", 0.1)
    assert done.exit_code == 0, done.output
    written(tmp_path / "in.csv", lines)
    assert onkel(*how, first, *state, "--stop-after", 0.1).exit_code == 0
    whole, _ = ran("classify", first, tmp_path / "whole", "--pending", "9999", "--ignore", "at")
    assert [f["id"] for f in json_lines(tmp_path / "out.jsonl")] == [f["id"] for f in whole]
    told = json.loads(onkel("inspect", tmp_path / "s", "--json").output)
    assert told["model"]["answered"] == told["pending"]["answered"] > 100
    assert told["model"]["waiting"] == told["pending"]["waiting"]


# -- lines that cannot be taken --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        ([["q9", "", "", "low"]], "id 'q9': a target without a row"),
        ([["r3", "", "", "low"], ["r3", "", "", "low"]], "id 'r3': a target without a row"),
        ([["r3", "1", "2", ""]], "id 'r3': a row without a target waits under it already"),
        ([["", "1", "2", ""]], "column 'id': no id"),
        ([["i" * 1001, "1", "2", ""]], "column 'id': an id has up to 1000 characters"),
    ],
)
def test_what_becomes_of_odd_lines(tmp_path, lines, why):
    """They are broken rows, with a reason; all others are as if they had not come."""
    path, usual = tmp_path / "in.csv", [[f"r{i}", str(i), str(-i), ""] for i in range(20)]
    labels = [[f"r{i}", "", "", "low" if i < 9 else "high"] for i in range(20) if i != 3]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([["id", "a", "b", "y"], *usual, *lines, *labels])
    done = onkel(
        "classify", path, "--target", "y", "--id", "id", "--pending", "99", "--json",
        "-o", tmp_path / "out", "--broken-at-most", 1,
    )  # fmt: skip
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["broken"] == 1 and why in told["first_broken"][0]
    assert told["pending"]["answered"] == 19 + (len(lines) == 2)


def test_labels_need_no_numbers_where_rows_do(rng, tmp_path):
    """--missing skip: a row without a number is broken, the label of a row that waits is not."""
    path = tmp_path / "in.csv"
    rows = [
        ["r0", "1", "2", ""],
        ["r1", "1", "", ""],
        ["r0", "", "", "low"],
        ["r2", "", "3", "low"],
    ]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([["id", "a", "b", "y"], *rows])
    done = onkel(
        "classify", path, "--target", "y", "--id", "id", "--pending", "99", "--missing", "skip",
        "--json", "-o", tmp_path / "out", "--broken-at-most", 1,
    )  # fmt: skip
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["pending"]["answered"] == 1 and told["broken"] == 2


def test_a_model_for_each_key(rng, tmp_path):
    lines = [
        [*line[:4], "even" if int(line[1][1:]) % 2 else "odd", line[5]] for line in lines_of(rng)
    ]
    path = written(tmp_path / "in.csv", lines)
    found, done = ran(
        "classify", path, tmp_path / "out", "--pending", "99999", "--key", "c", "--json", *KIND
    )
    told = json.loads(done.stdout.splitlines()[-1])["pending"]
    for key in ("even", "odd"):
        shown, naive = plainly(KernelClassifier(), [line for line in lines if line[4] == key])
        mine = [f for f in found if f["key"] == key]
        assert [f["prediction"] for f in mine] == [said for _, said, _ in shown]
        told = {**told, "answered": told["answered"] - len(naive.answers)}
        told["waiting"] -= len(naive.waiting)
    assert set(told.values()) == {0}


# -- options ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--pending", "30d"], "name the column of their ids, --id COL"),
        (["--id", "a"], "--id goes with --pending"),
        (["--ask", "0.1"], "--ask goes with --pending"),
        (["--pending", "30d", "--id", "a"], "goes by the clock: name its column, --time COL"),
        (["--pending", "soon", "--id", "a"], "--pending is how long a row waits"),
        (["--pending", "0", "--id", "a"], "--pending is how long a row waits"),
        (["--pending", "9", "--id", "a", "--ask", "2"], "ask must be a number in (0, 1)"),
        (["--pending", "9", "--id", "a", "--lags", "3"], "keeps rows as they are"),
        (["--pending", "9", "--id", "nope"], "--id: there is no column 'nope'"),
        (["--pending", "9", "--id", "b"], "one role only"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together(rows, options, words):
    done = onkel("classify", rows, "--target", "b", *options)
    assert done.exit_code in (2, 3) and words in done.output


def test_asking_needs_intervals(rows):
    how = ["--pending", "9", "--id", "a", "--ask", "0.1", "--model", "kernel"]
    done = onkel("regress", rows, "--target", "b", *how)
    assert done.exit_code == 2 and "widest intervals" in done.output


def test_limits():
    assert limits_of("30d, 7") == {"within": "30d", "keep": 7}
