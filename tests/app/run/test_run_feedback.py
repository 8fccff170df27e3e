"""Answers to alerts of a run: while it goes on, between two runs, and around a kill."""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import time
from contextlib import closing

import numpy as np
import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from helpers.dying import POINTS
from helpers.runs_of import begin, command, json_lines, onkel, write_rows
from helpers.sizes import size
from safetensors.numpy import load

from onkel import Detector, files
from onkel.app.errors import StateProblem
from onkel.app.run.checkpoint import State
from onkel.app.run.counters import LATEST
from onkel.app.run.inbox import NAME, Inbox
from onkel.app.run.series import model_of as made_of
from onkel.app.run.settings import RunSettings

HOW = ["--numbers", "double", "--block", 64, "--every", 0]
FLUSHED = [0.0, 12.0, 0.0]


def rows_of(rng, count=3000, first=1000, step=250):
    """Rows in which a valve is flushed now and then."""
    X = rng.normal(size=(count, 3))
    X[first::step] = FLUSHED + 0.3 * rng.normal(size=(len(X[first::step]), 3))
    return X


def lines_of(X):
    return "".join(",".join(map(repr, row)) + "\n" for row in X.tolist())


def run(folder, path, *more, **how):
    words = ["detect", path, "--state", folder / "s", "-o", folder / "out", *HOW, *more]
    return command(*words, **how) if how else onkel(*words)


def alerts(folder):
    return {line["row"]: line["score"] for line in json_lines(folder / "out")}


def truth(X, answers, **how):
    """The library's alerts, rows with their scores, and the model; answers: (row, id, answer)."""
    det, found, at = Detector(missing="mean", **how), {}, 0
    for row, id, answer in [*answers, (len(X), None, None)]:
        if row > at:
            verdict = det.predict_then_learn(X[at:row], output="judgement")
            found |= {at + i: v[0] for i, v in enumerate(verdict.tolist()) if v[2]}
        at = row
        if id is not None:
            det.feedback(id, answer)
    return found, det


def model_of(folder):
    state = State(folder / "s", writable=False)
    with closing(state):
        (place,) = state.kept()[0].models().values()
        return state.model_at(place)


def unlike(a, b):
    """Return which numbers of two models differ."""
    x, y = load(files.dumps(a)), load(files.dumps(b))
    return [n for n in x.keys() | y.keys() if n not in x or x[n].tobytes() != y[n].tobytes()]


def pins(folder):
    """Before which row each answer was taken in, its alert, and what was said."""
    with closing(sqlite3.connect(folder / "s" / NAME)) as db:
        return db.execute("SELECT row, id, answer FROM answers ORDER BY number").fetchall()


def test_an_incident_of_what_is_like_a_fault_says_so(rng, tmp_path):
    """How rare it is by itself; not how rare an answer has made it."""
    X = rng.normal(size=(2600, 3)) * np.where(np.arange(2600) > 1000, 3.0, 1.0)[:, None]
    X[1000::40] = [4.0, -4.0, 4.0] + 0.1 * rng.normal(size=(40, 3))
    X[1801::40, 2] += 60.0  # beside some of them something that is one by itself
    more = ["--incidents", tmp_path / "inc", "--incident-gap", 1, "--warmup", 1000]
    path = write_rows(tmp_path / "rows.csv", X[:1001])
    assert run(tmp_path, path, *more).exit_code == 0
    (alert,) = json_lines(tmp_path / "out")
    assert onkel("feedback", tmp_path / "s", alert["alert_id"], "fault").exit_code == 0
    with open(path, "a") as file:
        file.write(lines_of(X[1001:]))
    assert run(tmp_path, path, *more).exit_code == 0
    found = {line["row"]: line for line in json_lines(tmp_path / "out")}
    closed = [one for one in json_lines(tmp_path / "inc") if one["state"] == "closed"]
    of_themselves, singles, mixed = 0, 0, 0
    for one in closed:
        inside = [found[row] for row in range(one["start_row"], one["end_row"] + 1)]
        alike = [
            a for a in inside if "no alert without that" in a["why"] or "had nothing" in a["why"]
        ]
        assert one.get("by_answer", 0) == len(alike)
        if not alike:
            assert one["peak_p"] == min(a["p"] for a in inside)
            of_themselves += 1
        elif len(inside) == 1:
            assert one["peak_p"] > 2 * inside[0]["p"]
            assert "It is an alert only since one like it was answered as a fault." in one["words"]
            singles += 1
        elif len(alike) == 1 and one["start_row"] % 40 == 0:
            assert one["peak_row"] == one["start_row"] + 1
            assert "One of them is an alert only since one like it" in one["words"]
            mixed += 1
    assert min(of_themselves, singles, mixed) > 3, (of_themselves, singles, mixed)


def first_part(folder, X, end=1001, *more):
    """A run over the first rows, whose last is an alert."""
    path = write_rows(folder / "rows.csv", X[:end])
    done = run(folder, path, *more)
    assert done.exit_code == 0, done.output
    return path


def go_on(path, X, start=1001):
    with open(path, "a") as file:
        file.write(lines_of(X[start:]))


def test_between_two_runs_an_answer_is_what_it_is_in_the_library(rng, tmp_path):
    X = rows_of(rng)
    path = first_part(tmp_path, X)
    told = onkel("feedback", tmp_path / "s", "1000", "usual")
    assert told.exit_code == 0 and "the next run takes it in" in told.output
    found = json.loads(onkel("inspect", tmp_path / "s", "--json").output)
    assert found["answers_to_take_in"] == 1 and found["model"]["alerts_answered"] == 0
    listed = json.loads(onkel("feedback", tmp_path / "s", "--list", "--json").output)
    assert listed["alerts"][0]["id"] == "1000" and listed["alerts"][0]["row"] == 1000
    assert listed["alerts"][0]["answer_to_take_in"] == "usual"
    assert listed["alerts"][0]["why"].startswith("Alert")
    assert [a["row"] for a in listed["alerts"]] == sorted(
        (a["row"] for a in listed["alerts"]), reverse=True
    )
    go_on(path, X)
    done = run(tmp_path, path, "--json")
    summary = json.loads(done.stdout)
    assert summary["alerts_answered"] == summary["alerts_dismissed"] == 1
    expected, det = truth(X, [(1001, "1000", "usual")])
    assert alerts(tmp_path) == expected
    assert not any(row in expected for row in range(1250, 3000, 250))
    assert unlike(model_of(tmp_path), det) == []
    found = json.loads(onkel("inspect", tmp_path / "s", "--json").output)
    assert "answers_to_take_in" not in found and found["model"]["alerts_answered"] == 1
    assert summary["alerts_waiting"] == det.diagnostics_["alerts_waiting"]
    listed = json.loads(onkel("feedback", tmp_path / "s", "--list", "--json").output)
    waiting = [a["id"] for a in det.alerts_ if a["answer"] is None]
    assert [a["id"] for a in listed["alerts"]] == waiting[::-1]
    assert "1 answered, 1 of them usual" in onkel("feedback", tmp_path / "s", "--list").output
    done = onkel("replay", tmp_path / "s", "--nu", 0.001, "--json")
    again = json.loads(done.stdout)  # answers are taken in again, where they were
    assert done.exit_code == 0 and again["output"] == "same", done.output
    own, fewer = again["settings"]
    assert own["alerts"] == len(expected) > fewer["alerts"]
    all_of_one = {"of": 1, "shown": 1, "share": 1.0}
    assert own["answered"]["usual"] == fewer["answered"]["usual"] == all_of_one


def test_an_answer_is_taken_in_even_if_no_row_comes(rng, tmp_path):
    X = rows_of(rng, 1001)
    path = first_part(tmp_path, X)
    onkel("feedback", tmp_path / "s", "1000", "fault")
    assert run(tmp_path, path).exit_code == 0
    found = json.loads(onkel("inspect", tmp_path / "s", "--json").output)
    assert found["model"]["alerts_answered"] == 1 and found["model"]["alerts_dismissed"] == 0
    assert "answers_to_take_in" not in found


@pytest.mark.parametrize("row", size([1030], [1002, 1030, 1065]))
def test_a_killed_run_takes_an_answer_in_at_the_row_where_it_had(rng, tmp_path, row):
    """As after a kill: the inbox says before which row, the checkpoint knows nothing of it."""
    X = rows_of(rng, 2000)
    X[1029] = FLUSHED
    path = first_part(tmp_path, X)
    with closing(Inbox(tmp_path / "s")) as inbox:
        inbox.pin(inbox.put([("1000", "usual")]), row)
    go_on(path, X)
    assert run(tmp_path, path).exit_code == 0
    expected, det = truth(X, [(row, "1000", "usual")])
    assert alerts(tmp_path) == expected and (1029 in expected) == (row > 1029)
    assert unlike(model_of(tmp_path), det) == []


@pytest.mark.parametrize("point", size(("output",), POINTS))
@pytest.mark.parametrize("count", size([1], [1, 3]))
def test_a_death_around_an_answer_changes_nothing(rng, tmp_path, point, count):
    X = rows_of(rng, 2000)
    path = first_part(tmp_path, X)
    onkel("feedback", tmp_path / "s", "1000", "usual")
    go_on(path, X)
    assert run(tmp_path, path, dies=f"{point}:{count}").returncode == -signal.SIGKILL
    onkel("feedback", tmp_path / "s", "1000", "fault")  # another mind, before it goes on
    assert run(tmp_path, path).exit_code == 0
    (row, *_), (later, *_) = pins(tmp_path)
    assert row == 1001 <= later
    given = [(row, "1000", "usual"), (later, "1000", "fault")]
    expected, det = truth(X, given)
    assert alerts(tmp_path) == expected
    assert unlike(model_of(tmp_path), det) == []
    assert det.diagnostics_["alerts_answered"] == 1
    other = tmp_path / "other"  # nobody dies there, and answers come at the same rows
    other.mkdir()
    path = first_part(other, X)
    with closing(Inbox(other / "s")) as inbox:
        for at, id, answer in given:
            inbox.pin(inbox.put([(id, answer)]), at)
    go_on(path, X)
    assert run(other, path).exit_code == 0
    assert (other / "out").read_bytes() == (tmp_path / "out").read_bytes()


def kinds_of(rng, count=2000):
    """Rows with a category, in which some values come seldom, and one of them again and again."""
    kind = rng.choice(list("xyz"), count)
    kind[1000::100], kind[1050::200], kind[1150::200] = "never", "another", "third"
    return [f"{a!r},{k}\n" for a, k in zip(rng.normal(size=count).tolist(), kind, strict=True)]


@pytest.mark.parametrize("answer", size(["usual"], ["usual", "fault"]))
def test_an_answer_is_about_the_value_of_a_category(rng, tmp_path, answer):
    """And a run that is killed goes on byte for byte, with what was said of values."""
    lines, seen = kinds_of(rng), []
    for name, dies in (("whole", ""), ("killed", "output:2")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "rows.csv").write_text("a,kind\n" + "".join(lines[:1001]))
        assert run(folder, folder / "rows.csv").exit_code == 0
        assert alerts(folder).keys() >= {1000}
        assert onkel("feedback", folder / "s", "1000", answer).exit_code == 0
        (folder / "rows.csv").write_text("a,kind\n" + "".join(lines))
        if dies:
            done = run(folder, folder / "rows.csv", dies=dies)
            assert done.returncode == -signal.SIGKILL
        assert run(folder, folder / "rows.csv").exit_code == 0
        seen.append(((folder / "out").read_bytes(), model_of(folder)))
    assert seen[0][0] == seen[1][0] and unlike(seen[0][1], seen[1][1]) == []
    found = {line["row"]: line["why"] for line in json_lines(tmp_path / "whole" / "out")}
    again = set(range(1100, 2000, 100))
    assert len(again & found.keys()) == (0 if answer == "usual" else len(again))
    assert 1050 in found and 1150 in found  # the first of two other values
    told = [row for row, why in found.items() if "ike alert 1000, which was answered" in why]
    assert set(told) == (set() if answer == "usual" else again)


def wait_for(condition, seconds=60.0):
    stop = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < stop
        time.sleep(0.02)


def counted(folder, name):
    try:
        found = json.loads(onkel("inspect", folder / "s", "--json").output)
    except ValueError:  # before its first checkpoint
        return -1
    return found.get("model", {}).get(name, found.get(name, 0))


def following(folder, path, *more):
    return begin("detect", path, "--state", folder / "s", "-o", folder / "out", "--follow",
                 *HOW, "--every", 0.05, "-q", *more)  # fmt: skip


@pytest.mark.long
def test_a_run_that_goes_on_hears_an_answer_and_survives_a_kill(rng, tmp_path):
    X = rows_of(rng, 2600)
    X[2000] = [-15.0, 0.0, 0.0]
    path = write_rows(tmp_path / "rows.csv", X[:1001])
    process = following(tmp_path, path)
    wait_for(lambda: counted(tmp_path, "examples") == 1001)
    told = onkel("feedback", tmp_path / "s", "1000", "usual")
    assert "the run that is going on takes it in" in told.output, told.output
    wait_for(lambda: counted(tmp_path, "alerts_answered") == 1)
    ahead = onkel("feedback", tmp_path / "s", "2000", "fault")  # its row is yet to come
    assert ahead.exit_code == 0 and "Not before its row is learned: 2000" in ahead.output
    for start in range(1001, 2600, 123):
        with open(path, "a") as file:
            file.write(lines_of(X[start : start + 123]))
        if start > 2000:
            time.sleep(0.15)
        if start in (1001 + 8 * 123, 1001 + 10 * 123):
            process.kill()
            process.wait()
            process = following(tmp_path, path)
    wait_for(lambda: counted(tmp_path, "examples") == 2600)
    wait_for(lambda: counted(tmp_path, "answers_to_take_in") == 0)
    process.terminate()
    assert process.wait(30) == 130
    given = pins(tmp_path)
    assert [g[1:] for g in given] == [("1000", "usual"), ("2000", "fault")]
    assert given[0][0] == 1001 and given[1][0] > 2000
    expected, det = truth(X, given)
    assert alerts(tmp_path) == expected
    assert unlike(model_of(tmp_path), det) == []


def test_what_cannot_be_answered_is_refused_at_once(rng, tmp_path):
    X = rows_of(rng, 1001)
    first_part(tmp_path, X, 1001, "--alerts-kept", 3)
    state, kept = tmp_path / "s", [a["id"] for a in model_of(tmp_path).alerts_]
    assert len(kept) == 3

    def refused(*words, code=2):
        done = onkel("feedback", *words)
        assert done.exit_code == code, done.output
        return done.stderr

    assert "the last 3 alerts can be answered" in refused(state, "5", "usual")
    assert "no row of that number was an alert" in refused(state, str(int(kept[1]) + 1), "usual")
    assert "the model has learned 1001 rows" in refused(state, "5000", "usual")
    assert "An answer is usual or fault" in refused(state, "1000", "usua")
    assert "the id of an alert is a number" in refused(state, "x:1", "usual")
    assert "None of the 2 answers was taken" in refused(state, "1000", "7", "usual")
    assert "or --list" in refused(state) and "or --list" in refused(state, "--list", "1", "usual")
    assert not (state / NAME).exists(), "a refused call changes nothing"
    (tmp_path / "empty").mkdir()
    assert "holds no state" in refused(tmp_path / "empty", "1", "usual", code=4)


def test_many_answers_from_a_file(rng, tmp_path):
    X = rows_of(rng, 1001)
    path = first_part(tmp_path, X, 1001, "--nu", 0.03)
    ids = [a["id"] for a in model_of(tmp_path).alerts_]
    (tmp_path / "a.csv").write_text("id,answer\n" + "".join(f"{i},usual\n" for i in ids[:3]))
    (tmp_path / "b.jsonl").write_text(
        json.dumps({"id": int(ids[3]), "answer": "fault"}) + "\n\n"
        + json.dumps({"alert_id": ids[4], "why": "a\u2028b\x85c", "answer": "usual"},
                     ensure_ascii=False) + "\n", "utf-8",
    )  # fmt: skip
    for name in ("a.csv", "b.jsonl"):
        done = onkel("feedback", tmp_path / "s", "--file", tmp_path / name)
        assert done.exit_code == 0, done.output
    assert run(tmp_path, path, "--nu", 0.03).exit_code == 0
    said = {a["id"]: a["answer"] for a in model_of(tmp_path).alerts_ if a["answer"]}
    assert said == {**dict.fromkeys(ids[:3], "usual"), ids[3]: "fault", ids[4]: "usual"}
    for own in ({"id": int(ids[0])}, {"id": "pump 7"}):  # a run with --id: each line has that, too
        line = {**own, "alert_id": ids[5], "answer": "usual"}
        (tmp_path / "own.jsonl").write_text(json.dumps(line))
        done = onkel("feedback", tmp_path / "s", "--file", tmp_path / "own.jsonl", "--json")
        assert [one["id"] for one in json.loads(done.stdout)["put"]] == [ids[5]], done.output
    for text, why in (("{", "is no JSON"), ('{"id": 7}', "needs id and answer"), ("", "no answer")):
        (tmp_path / "c.jsonl").write_text(text)
        done = onkel("feedback", tmp_path / "s", "--file", tmp_path / "c.jsonl")
        assert done.exit_code == 3 and why in done.stderr, done.output
    done = onkel("feedback", tmp_path / "s", "--file", tmp_path / "none.csv")
    assert done.exit_code == 3 and "No such file" in done.stderr


@pytest.mark.parametrize("keyed", size([True], [False, True]))
def test_those_that_a_cool_down_held_back_are_listed_in_their_place(rng, tmp_path, keyed):
    X = rows_of(rng, 2400, 800, 300)
    X[900:912] += 8.0
    X[2100:2400:7] += 9.0
    more = ["--key", "who"] if keyed else ["--ignore", "who"]
    path = write_rows(tmp_path / "rows.csv", X, who=["a:b", "c"] * 1200)
    assert run(tmp_path, path, *more, "--cool-down", 20).exit_code == 0
    shown = {line["alert_id"] for line in json_lines(tmp_path / "out")}
    (tmp_path / "all").mkdir()
    assert run(tmp_path / "all", path, *more).exit_code == 0
    every = [line["alert_id"] for line in json_lines(tmp_path / "all" / "out")]
    listed = json.loads(onkel("feedback", tmp_path / "s", "--list", "--json").output)["alerts"]
    assert [alert["id"] for alert in listed] == every[::-1] and 10 < len(shown) < len(every) - 10
    words = onkel("feedback", tmp_path / "s", "--list").output.splitlines()
    for alert, line in zip(listed, words, strict=False):
        held = alert["id"] not in shown
        assert alert.get("held_back", False) == held == ("row" not in alert)
        assert line.startswith(alert["id"]) and line.endswith("by the cool-down") == held
        assert (" of its key ago" in line) == keyed


@pytest.mark.long
def test_those_that_a_run_remembers_no_more_are_listed_last(rng, tmp_path):
    X = rng.normal(size=(6000, 3))
    path = write_rows(tmp_path / "rows.csv", X)
    assert run(tmp_path, path, "--nu", 0.06).exit_code == 0
    every = [line["alert_id"] for line in json_lines(tmp_path / "out")]
    assert len(every) > LATEST + 20
    listed = json.loads(onkel("feedback", tmp_path / "s", "--list", "--json").output)["alerts"]
    assert [alert["id"] for alert in listed] == every[::-1]
    assert [("row" in alert) for alert in listed] == [i < LATEST for i in range(len(every))]
    assert not any("held_back" in alert for alert in listed)
    last = onkel("feedback", tmp_path / "s", "--list").output.splitlines()[len(every) - 1]
    assert last.startswith(every[0]) and last.endswith("time and reason are not kept")


def test_lines_of_an_output_are_answers_with_one_beside(rng, tmp_path):
    """Of keys, too, that got an apostrophe before them in CSV, or have one of their own."""
    X = rows_of(rng, 1500)
    X[900:1500:50] += 12.0
    path = write_rows(tmp_path / "rows.csv", X, who=["=a", "'b", "c"] * 500)
    words = ["detect", path, "--key", "who", "--state", tmp_path / "s", "-o", tmp_path / "out.csv"]
    assert onkel(*words).exit_code == 0
    head, *lines = (tmp_path / "out.csv").read_text().splitlines()
    (tmp_path / "said.csv").write_text(
        "\n".join([f"{head},answer", *(f"{x},usual" for x in lines)])
    )
    done = onkel("feedback", tmp_path / "s", "--file", tmp_path / "said.csv", "--json")
    assert done.exit_code == 0, done.output
    put = {one["id"] for one in json.loads(done.stdout)["put"]}
    listed = json.loads(onkel("feedback", tmp_path / "s", "--list", "--json").output)["alerts"]
    assert put == {alert["id"] for alert in listed}
    assert {alert["key"] for alert in listed} == {"=a", "'b", "c"}


@pytest.mark.parametrize("more", size([[]], [[], ["--lags", "2"]]))
def test_keys_have_answers_of_their_own(rng, tmp_path, more):
    """A fleet, and (with lags) a model for each key; the names of keys may hold a colon."""
    X = rows_of(rng, 4000, 1200, 200)
    keys = np.array(["a", "b:c"])[np.arange(4000) % 2]
    keys[1200::200] = np.array(["a", "b:c"])[np.arange(len(keys[1200::200])) % 2]
    path = write_rows(tmp_path / "rows.csv", X[:1401], who=keys[:1401])
    more = ["--key", "who", *more]
    assert run(tmp_path, path, *more).exit_code == 0
    last = {line["key"]: line for line in json_lines(tmp_path / "out") if line["row"] % 200 == 0}
    assert last["a"]["row"] == 1200 and last["b:c"]["row"] == 1400
    assert last["b:c"]["alert_id"].startswith("b:c:")
    done = onkel("feedback", tmp_path / "s", last["b:c"]["alert_id"], "usual", "--json")
    assert done.exit_code == 0, done.output
    for id, why in (("7", "KEY:NUMBER"), ("z:7", "no row of a key 'z' was learned"),
                    ("b:d:7", "a key 'b:d' was learned as of the last checkpoint (did"),
                    ("b:c:1", "there is no alert 1")):  # fmt: skip
        done = onkel("feedback", tmp_path / "s", id, "usual")
        assert done.exit_code == 2 and why in done.stderr, done.output
    listed = json.loads(onkel("feedback", tmp_path / "s", "--list", "--json").output)
    assert listed["alerts"][0]["id"] == last["b:c"]["alert_id"]
    assert {a["key"] for a in listed["alerts"]} == {"a", "b:c"}
    with open(path, "a") as file:
        for row, key in zip(X[1401:].tolist(), keys[1401:], strict=True):
            file.write(",".join(map(repr, row)) + f",{key}\n")
    done = run(tmp_path, path, *more, "--json")
    assert json.loads(done.stdout)["alerts_answered"] == 1
    shown = [line for line in json_lines(tmp_path / "out") if line["row"] in range(1600, 4000, 200)]
    assert [line["key"] for line in shown].count("a") >= 5
    if "--lags" not in more:
        assert not [line for line in shown if line["key"] == "b:c"]


@pytest.mark.long  # in quick runs the service has them
def test_keys_that_are_young_have_answers_too(rng, tmp_path):
    """With --share a key alerts before its own detector can; reasons name the answer."""
    keys = np.arange(6000) // 50 + rng.integers(0, 12, 6000)
    X = rng.normal(size=(6000, 3)) + 5 * rng.normal(size=(140, 3))[keys]
    new = rng.normal(size=(120, 3)) + 3.0
    new[20::10, 1] += 25.0
    X, keys = np.concatenate([X, new]), np.concatenate([keys.astype(str), ["new"] * 120])
    path, words = write_rows(tmp_path / "rows.csv", X[:6021], who=keys[:6021]), ("--key", "who")
    assert run(tmp_path, path, *words, "--share").exit_code == 0
    last = json_lines(tmp_path / "out")[-1]
    assert (last["row"], last["alert_id"]) == (6020, "new:20")
    listed = json.loads(onkel("feedback", tmp_path / "s", "--list", "--json").output)
    assert listed["alerts"][0]["id"] == "new:20"
    assert {line["alert_id"] for line in json_lines(tmp_path / "out")} == {
        alert["id"] for alert in listed["alerts"]
    }
    done = onkel("feedback", tmp_path / "s", "new:20", "fault")
    assert done.exit_code == 0, done.output
    with open(path, "a") as file:
        for row in X[6021:].tolist():
            file.write(",".join(map(repr, row)) + ",new\n")
    done = run(tmp_path, path, *words, "--share", "--json")
    assert json.loads(done.stdout)["alerts_answered"] == 1
    told = {line["row"]: line["why"] for line in json_lines(tmp_path / "out")}
    for row in range(6030, 6120, 10):
        assert "ike alert 20, which was answered as a fault" in told[row]


@pytest.mark.long
def test_a_series_answers_by_its_own_rows(rng, tmp_path):
    X = rows_of(rng, 2000)
    path = first_part(tmp_path, X, 1001, "--lags", "3")
    id = json_lines(tmp_path / "out")[-1]["alert_id"]
    assert onkel("feedback", tmp_path / "s", id, "usual").exit_code == 0
    go_on(path, X)
    assert run(tmp_path, path, "--lags", "3").exit_code == 0
    expected = made_of(RunSettings("detect", lags="3"), 3)
    found = expected.predict_then_learn(X[:1001]) == -1
    assert id == "1000" and found[-1]
    expected.estimator.feedback(id, "usual")
    found = np.append(found, expected.predict_then_learn(X[1001:]) == -1)
    assert list(alerts(tmp_path)) == np.flatnonzero(found).tolist()
    assert unlike(model_of(tmp_path), expected) == []


def test_a_promised_precision(rng, tmp_path):
    X = rows_of(rng)
    how = ["--precision", 0.7, "--nu", "none", "--memory-of-feedback", 5000, "--alerts-kept", 50]
    path = first_part(tmp_path, X, 1001, *how)
    ids = [a["id"] for a in model_of(tmp_path).alerts_]
    assert onkel("feedback", tmp_path / "s", *ids[:-1], "usual").exit_code == 0
    assert onkel("feedback", tmp_path / "s", ids[-1], "fault").exit_code == 0
    go_on(path, X)
    done = run(tmp_path, path, *how)
    assert f"{len(ids)} answered, {len(ids) - 1} of them usual" in done.stderr
    assert "(promised 0.7)" in done.stderr and "promised 0.01" not in done.stderr
    model, found = model_of(tmp_path), json.loads(run(tmp_path, path, *how, "--json").stdout)
    expected, det = truth(
        X, [*((1001, id, "usual") for id in ids[:-1]), (1001, ids[-1], "fault")],
        nu=None, precision=0.7, memory_of_feedback=5000.0, alerts_kept=50,
    )  # fmt: skip
    assert alerts(tmp_path) == expected and unlike(model, det) == []
    told = det.diagnostics_
    assert found["precision_promised"] == pytest.approx(told["precision_promised"])
    assert found["precision_realised"] == told["precision_realised"]
    assert found["rate_promised"] is None
    shown = json.loads(onkel("inspect", tmp_path / "s", "--json").output)
    assert shown["model"]["precision_realised"] == found["precision_realised"]
    trial = onkel("detect", path, *how, "--dry-run").output
    assert "as many as --precision allows" in trial and "70 %" in trial


@pytest.mark.parametrize(
    "words, why",
    [
        (["detect", "--model", "kernel", "--precision", 0.8], "NoveltyDetector runs"),
        (["detect", "--gamma", 1, "--alerts-kept", 9], "NoveltyDetector runs (--gamma)"),
        (["detect", "--nu", "none"], "--precision 0.8, or --nu 0.01"),
        (["detect", "--precision", 1.5], "between 0 and 1"),
        (["detect", "--nu", "often"], "or none; got 'often'"),
        (["classify", "--target", "c", "--precision", 0.8], "is not one of"),
        (["detect", "--key", "a", "--share", "--nu", "none", "--precision", 0.8], "--nu 0.01"),
        (["detect", "--precision", "single", "--gamma", "x"], "'x' is not a valid float"),
    ],
)
def test_options_that_do_not_fit_are_refused(rng, tmp_path, words, why):
    path = write_rows(tmp_path / "rows.csv", rng.normal(size=(50, 3)))
    done = onkel(words[0], path, *words[1:])
    assert done.exit_code == 2 and why in done.output, done.output


def test_alerts_of_other_models_cannot_be_answered(rng, tmp_path):
    path = write_rows(tmp_path / "rows.csv", rng.normal(size=(500, 3)))
    run(tmp_path, path, "--model", "kernel")
    done = onkel("feedback", tmp_path / "s", "7", "usual")
    assert done.exit_code == 2 and "--model auto can be answered" in done.stderr
    shutil.rmtree(tmp_path / "s")
    onkel("regress", path, "--target", "c", "--state", tmp_path / "s", "-o", tmp_path / "o")
    assert onkel("feedback", tmp_path / "s", "--list").exit_code == 2


@pytest.mark.parametrize("task", ["classify", "regress"])
def test_what_has_no_alerts_says_so(rng, tmp_path, task):
    X = rng.normal(size=(100, 2))
    path = write_rows(tmp_path / "rows.csv", X, y=(X[:, 0] > 0).astype(int))
    words = [task, path, "--target", "y", "--state", tmp_path / "s", "-o", tmp_path / "out"]
    assert onkel(*words).exit_code == 0
    for more in (["--list"], ["1", "usual"]):
        done = onkel("feedback", tmp_path / "s", *more)
        assert done.exit_code == 2 and done.stderr == (
            f"onkel: {tmp_path / 's'} is the state of onkel {task}, which has no alerts that could "
            "be answered: only onkel detect has.\n"
        )


def test_an_inbox_that_is_damaged_is_told(rng, tmp_path):
    X = rows_of(rng, 1001)
    path = first_part(tmp_path, X)
    (tmp_path / "s" / NAME).write_bytes(b"no database" * 100)
    done = run(tmp_path, path)
    assert done.exit_code == 4 and NAME in done.stderr and "Move it away" in done.stderr
    assert onkel("feedback", tmp_path / "s", "1000", "usual").exit_code == 4
    (tmp_path / "s" / NAME).unlink()
    assert run(tmp_path, path).exit_code == 0


def test_answers_are_numbered_on_where_an_inbox_was_lost(tmp_path):
    inbox = Inbox(tmp_path)
    assert inbox.put([("1", "usual"), ("2", "fault")], least=40) == [41, 42]
    assert inbox.put([("3", "usual")]) == [43]
    inbox.close()
    with closing(sqlite3.connect(tmp_path / NAME)) as db:
        db.execute("PRAGMA application_id = 7")
    with pytest.raises(StateProblem, match="no database of onkel"):
        Inbox(tmp_path).after(0)
