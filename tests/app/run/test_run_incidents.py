"""Incidents of a run: the file, the alerts' numbers, cool-down, kills; history, marks, labels."""

from __future__ import annotations

import datetime
import json
import signal
from pathlib import Path

import numpy as np
import pytest
from naive import alerting as naive

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from helpers.runs_of import carry_out, command, json_lines, onkel, write_rows
from helpers.sizes import size

from onkel.app.run.counters import BUCKETS, MARKS, AlertMarks, Counters, History, Labels

ROWS = 1500
START = datetime.datetime(2026, 3, 1)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Readings of twelve pumps, a minute apart; a fault of one of them, then one of all."""
    rng = np.random.default_rng(23)
    X = rng.normal(size=(ROWS, 3))
    X[np.arange(ROWS) % 12 == 3, 1] += 8.0 * (np.arange(125) > 110)
    X[1100:1130, 0] -= 9.0
    at = [(START + datetime.timedelta(minutes=i)).isoformat() for i in range(ROWS)]
    pumps = [f"p{i % 12}" for i in range(ROWS)]
    return write_rows(tmp_path_factory.mktemp("rows") / "rows.csv", X, at=at, pump=pumps)


def run(rows, folder, *words):
    done = onkel("detect", rows, "-o", folder / "out", "--incidents", folder / "inc", *words)
    assert done.exit_code == 0, done.output
    return json_lines(folder / "out"), json_lines(folder / "inc")


WORDS = {
    "rows": ["--ignore", "pump", "--time", "at"],
    "clock": ["--ignore", "pump", "--time", "at", "--incident-gap", "45min"],
    "keys": ["--key", "pump", "--time", "at", "--warmup", 40, "--incident-gap", 3],
    "keys by the clock": ["--key", "pump", "--time", "at", "--warmup", 40,
                          "--incident-gap", "90min"],
    "tables by key": ["--key", "pump", "--warmup", 40, "--lags", 2],
}  # fmt: skip


@pytest.mark.parametrize("kind", WORDS)
def test_what_the_file_tells_is_what_the_definition_gives(rows, tmp_path, kind) -> None:
    lines, told = run(rows, tmp_path, "--all", *WORDS[kind])
    alerts, scores = ([line[n] for line in lines] for n in ("alert", "score"))
    keys = [line["key"] for line in lines] if "--key" in WORDS[kind] else None
    gap = WORDS[kind][-1] if "--incident-gap" in WORDS[kind] else 20
    span = None if isinstance(gap, int) else 60.0 * int(gap.removesuffix("min"))
    truth = naive.incidents(
        alerts, scores, None if span else gap, span, [60.0 * i for i in range(ROWS)], keys,
        0.01 if keys else None,
    )  # fmt: skip
    if "keys" in kind:
        assert any(one["wide"] for one in truth) and any(not one["wide"] for one in truth)
    over = [one for one in told if one["state"] in ("closed", "unfinished", "joined")]
    assert sorted(one["incident"] for one in over) == [one["number"] for one in truth]
    opened = [one["incident"] for one in told if one["state"] == "opened"]
    assert opened == [one["number"] for one in truth]
    for one in sorted(over, key=lambda one: one["incident"]):
        wanted = truth[one["incident"] - 1]
        found = wanted["rows"]
        assert one["alerts"] == len(found) and one.get("joined") == wanted["into"]
        assert (one["start_row"], one["end_row"]) == (min(found), max(found))
        assert one["peak_row"] == wanted["peak_at"]
        assert one["peak_p"] == pytest.approx(np.exp(wanted["peak"]))
        assert one.get("key_names") is None or set(one["key_names"]) == {keys[i] for i in found}
        if "--time" in WORDS[kind]:
            assert one["seconds"] == 60 * (max(found) - min(found))
            assert one["start"] == lines[min(found)]["time"]
    first = {row: one["number"] for one in truth[::-1] for row in one["rows"]}
    assert [line["incident"] for line in lines] == [first.get(i) for i in range(ROWS)]


def test_what_drives_an_incident_is_far_from_its_mean(rows, tmp_path) -> None:
    _, told = run(rows, tmp_path, *WORDS["rows"])
    fault = max((one for one in told if one["state"] == "closed"), key=lambda one: one["alerts"])
    assert 1095 <= fault["start_row"] <= 1101 and fault["features"][0]["name"] == "a"
    X = np.loadtxt(rows, delimiter=",", skiprows=1, usecols=(0, 1, 2))
    for one in [one for one in told if one["state"] == "opened"]:
        at = one["start_row"]
        z = (X[at] - X[:at].mean(axis=0)) / X[:at].std(axis=0)
        assert [f["name"] for f in one["features"]] == [
            "abc"[j] for j in np.argsort(-abs(z)) if abs(z[j]) >= 3
        ]
        for f in one["features"]:
            assert f["spreads"] == pytest.approx(z["abc".index(f["name"])], abs=2e-3)


@pytest.mark.parametrize("keyed", [False, True])
def test_a_series_is_told_as_its_alerts_tell_it(tmp_path, keyed) -> None:
    """A jump of a fifth of its range: far for its steps, not for the value by itself."""
    X = np.cumsum(np.random.default_rng(7).normal(size=(ROWS, 1)), axis=0)
    X[1200:] += np.ptp(X) / 5
    words, more = ["--explain", "all"], {}
    if keyed:
        words, more = (
            ["--key", "pump", "--lags", "auto"],
            {"pump": [f"p{i % 2}" for i in range(ROWS)]},
        )
    alerts, told = run(write_rows(tmp_path / "series.csv", X, **more), tmp_path, *words)
    assert len(told) > 2
    for one in told:
        assert keyed != ("features" in one)  # nobody knows of keys that are no fleet
        named = {f["name"] for f in one.get("features", [])}
        assert named <= {"a", "a roughness", "a residual"}
        assert ("No single number" in one["words"]) == (not keyed and not named)
    at_jump = {a["incident"] for a in alerts if 1200 <= a["row"] < 1203}
    (jump,) = [one for one in told if one["incident"] in at_jump and one["state"] != "opened"]
    assert keyed or jump["features"][0]["name"] in ("a roughness", "a residual")


@pytest.mark.parametrize("key", size([True], [False, True]))
def test_a_cool_down_holds_alerts_back_and_tells(rows, tmp_path, key) -> None:
    words = WORDS["keys"] if key else WORDS["rows"]
    lines, _ = run(rows, tmp_path, "--all", *words)
    alerts = np.array([line["alert"] for line in lines])
    shown = np.zeros(ROWS, bool)
    for pump in range(12) if key else [None]:
        own = np.arange(ROWS) if pump is None else np.arange(pump, ROWS, 12)
        shown[own] = naive.cool_down(alerts[own], 9)
    (tmp_path / "2").mkdir()
    few, told = run(rows, tmp_path / "2", "--cool-down", 9, *words)
    assert [line["row"] for line in few] == np.flatnonzero(shown).tolist()
    over = [one for one in told if one["state"] in ("closed", "unfinished")]
    assert sum(one["alerts"] for one in over) == alerts.sum()
    assert sum(one["held_back"] for one in over) == (alerts & ~shown).sum() > 0
    done = onkel("detect", rows, "-o", tmp_path / "o3", "--cool-down", 9, "--json", "--all", *words)
    summary = json.loads(done.stdout)
    assert summary["alerts"] == alerts.sum() and summary["incidents"] == len(over)
    assert summary["held_back"] == (alerts & ~shown).sum()
    both = json_lines(tmp_path / "o3")
    assert [line["held_back"] for line in both] == (alerts & ~shown).tolist()


HOW = ["--block", 64, "--every", 0, "--cool-down", 3]


def results(folder: Path) -> tuple[bytes, bytes]:
    return (folder / "out").read_bytes(), (folder / "inc").read_bytes()


@pytest.mark.parametrize("kind", size(["keys"], ["rows", "keys", "keys by the clock"]))
@pytest.mark.parametrize("death", size(["output:9"], ["output:9", "output:22", "before-commit:5",
                                                       "after-commit:7", "cleanup:3"]))  # fmt: skip
def test_a_kill_changes_nothing(rows, tmp_path, kind, death) -> None:
    words = []
    for name in ("whole", "cut"):
        folder = tmp_path / name
        folder.mkdir()
        words.append(["detect", rows, "-o", folder / "out", "--incidents", folder / "inc",
                      "--state", folder / "s", *HOW, *WORDS[kind]])  # fmt: skip
    done = carry_out(*words[0])
    assert done.returncode == 0, done.stderr
    assert command(*words[1], dies=death).returncode == -signal.SIGKILL
    done = carry_out(*words[1])
    assert done.returncode == 0, done.stderr
    assert results(tmp_path / "cut") == results(tmp_path / "whole")
    assert b'"closed"' in results(tmp_path / "whole")[1]


def test_a_file_that_grows_goes_on_with_its_open_incidents(rows, tmp_path) -> None:
    text = rows.read_text().splitlines(keepends=True)
    for name, ends in (("whole", [ROWS]), ("parts", [1110, ROWS])):  # within the fault of all
        folder = tmp_path / name
        folder.mkdir()
        for end in ends:
            (folder / "in.csv").write_text("".join(text[: end + 1]))
            done = onkel("detect", folder / "in.csv", "--state", folder / "s", "-o", folder / "out",
                         "--incidents", folder / "inc", *WORDS["rows"])  # fmt: skip
            assert done.exit_code == 0, done.output
    told = [json_lines(tmp_path / name / "inc") for name in ("whole", "parts")]
    for lines in told:
        for one in lines:
            one["peak_p"] = round(one["peak_p"], 9)
    assert told[0] == told[1] and {one["state"] for one in told[0]} == {"opened", "closed"}


def test_what_is_asked_wrongly_is_refused(rows, tmp_path) -> None:
    for words, told in (
        (["--incident-gap", "soon"], "--incident-gap is a number of rows, or a time span"),
        (["--incident-gap", "30min"], "name its column, --time COL"),
        (["--incidents", "-"], "--incidents is a file"),
        (["--incidents", rows], "is the source as well"),
        (["--incidents", tmp_path / "out"], "is --output as well"),
        (["--cool-down", "-1"], "--cool-down"),
    ):
        done = onkel("detect", rows, "-o", tmp_path / "out", *words)
        assert done.exit_code == 2 and told in done.output, done.output
    state = [
        "detect",
        rows,
        "--state",
        tmp_path / "s",
        "-o",
        tmp_path / "out",
        "--ignore",
        "pump,at",
    ]
    assert onkel(*state).exit_code == 0
    done = onkel(*state, "--incident-gap", 5)
    assert done.exit_code == 4 and "--incident-gap was 20, is 5" in done.output


# -- what a report draws -----------------------------------------------------------------------


def test_a_short_run_has_a_point_for_every_few_rows(rng) -> None:
    score = rng.normal(size=4312)
    history = History()
    for part in np.split(np.arange(4312), [1, 70, 2000, 4000]):
        history.add(part, {"rows": 1.0, "score": score[part], "low": score[part],
                           "high": score[part]})  # fmt: skip
    width = history.width
    assert BUCKETS / 2 <= len(history) <= BUCKETS and width <= 8
    for i in range(len(history)):
        part = score[i * width : (i + 1) * width]
        assert history.column("rows")[i] == len(part)
        assert history.column("score")[i] == pytest.approx(part.sum())
        assert (history.column("low")[i], history.column("high")[i]) == (part.min(), part.max())


def test_every_alert_is_marked_up_to_some_thousands(rng) -> None:
    rows, marks = np.flatnonzero(rng.random(60_000) < 0.2), AlertMarks()
    for part in np.array_split(rows, 7):
        marks.add(part, -1.0 * part, 60.0 * part)
    assert marks.row == rows[:: marks.every].tolist() and marks.seen == len(rows)
    assert MARKS / 2 < len(marks.row) <= MARKS and marks.time == [60.0 * r for r in marks.row]
    few = AlertMarks()
    few.add(rows[:MARKS], rows[:MARKS], None)
    assert few.every == 1 and few.row == rows[:MARKS].tolist()


def test_labels_are_counted(rng) -> None:
    found, target = rng.choice(list("abc"), (2, 500)).tolist()
    chance = rng.random(500).tolist()
    target[7] = found[9] = None
    labels = Labels()
    labels.add(found, chance, target)
    for y in "abc":
        for p in "abc":
            wanted = sum((a, b) == (p, y) for a, b in zip(found, target, strict=True))
            assert labels.table[y].get(p, 0) == wanted
    assert [n for n, _, _ in labels.chances] == [
        sum(k / 10 <= c < (k + 1) / 10 for i, c in enumerate(chance) if i not in (7, 9))
        for k in range(10)
    ]
    held = Counters.from_dict(json.loads(json.dumps(Counters(labels=labels).to_dict())))
    assert held.labels == labels
    many = Labels()
    many.add(list(range(100)), [0.5] * 100, list(range(100)))
    assert len(many.table) <= 41 and sum(sum(row.values()) for row in many.table.values()) == 100
