"""Replay: the run's own output comes out again, and other settings are runs of their own."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from helpers.runs_of import begin, command, environment, json_lines, onkel, write_rows
from helpers.sizes import size

from onkel.alerting import episodes
from onkel.app.errors import SourceProblem
from onkel.app.replay import lanes
from onkel.app.replay.alerts import Alert
from onkel.app.replay.groups import incidents_of
from onkel.app.replay.past import input_of, look
from onkel.app.replay.since import Judged, Since
from onkel.app.replay.variants import asked, set_of, variants
from onkel.app.replay.written import Written
from onkel.app.run.outputs import Sink, header, lines

ROWS = size(1500, 3000)
STEP = 3600
"""Seconds from row to row."""


class Caught(Sink):
    """What a run would have written."""

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data


def rows_of(rng, columns=3, rows=ROWS):
    X = rng.normal(size=(rows, columns))
    X[rows // 2 : rows // 2 + 10] += 5
    X[-20:-15] -= 6
    return X


def written(folder: Path, rng, columns=3, rows=ROWS) -> Path:
    """Write rows with times, keys and words; some are broken."""
    X = rows_of(rng, columns, rows)
    when = [str(np.datetime64("2026-09-01T00:00:00") + STEP * i) for i in range(rows)]
    keys = [f"k{i}" for i in rng.integers(0, 3, rows)]
    words = rng.choice(["red", "green", "blue"], rows, p=[0.6, 0.39, 0.01])
    path = write_rows(folder / "rows.csv", X, at=when, who=keys, word=words)
    text = path.read_text().splitlines()
    for i in range(70, len(text), 501):
        text[i] = "broken," + text[i]
    path.write_text("\n".join(text) + "\n")
    return path


def detect(path: Path, folder: Path, *words, name="out.jsonl"):
    folder.mkdir(exist_ok=True)
    done = onkel("detect", path, "--state", folder / "s", "-o", folder / name, *words)
    assert done.exit_code == 0, done.output
    return folder / "s", folder / name


def lines_of(state: Path, *changes: dict) -> list[bytes]:
    """Return what each setting would have written: the run's own first."""
    past = look(str(state))
    with contextlib.ExitStack() as stack:
        every = variants(past.settings, changes, past.schema)
        source = input_of(past, None).open(past, past.settings.by_clock)
        stack.callback(source.close)
        caught = [Caught() for _ in every]
        each = [
            lanes.Lane(v, source, Since(), stack, len(every), sink=c)
            for v, c in zip(every, caught, strict=True)
        ]
        lanes.run(source, each, past.rows)
        for lane in each:
            lane.outcome(0.0)
        return [c.data for c in caught]


HOW = {
    "numbers": ["--ignore", "who,word", "--time", "at"],
    "table": ["--ignore", "who", "--time", "at"],
    "keys": ["--key", "who", "--ignore", "word", "--time", "at"],
    "keys, models one by one": ["--key", "who", "--ignore", "word,at", "--explain", "all"],
    "shared": ["--key", "who", "--ignore", "word,at", "--share"],
    "clock": ["--ignore", "who,word", "--time", "at", "--memory", "20d", "--nu", "0.05"],
    "series": ["--columns", "a", "--time", "at", "--window", "200"],
    "small blocks": ["--ignore", "who,word,at", "--block", "64", "--nu", "0.03"],
}
OTHER = {
    "clock": ({"nu": 0.02}, ["--nu", "0.02"]),
    "series": ({"lags": "3"}, ["--lags", "3"]),
    "table": ({"model": "kernel"}, ["--model", "kernel"]),
}
"""Another setting of each, as the replay and as a run are told it."""


FEW = ["table", "keys, models one by one", "clock"]


@pytest.mark.parametrize("how", size(FEW, [*HOW]))
def test_own_settings_give_the_output_and_others_that_of_a_run_of_their_own(
    rng, tmp_path, how
) -> None:
    path = written(tmp_path, rng)
    state, out = detect(path, tmp_path / "was", *HOW[how])
    changed, more = OTHER.get(
        how, ({"nu": 0.002, "memory": 900.0}, ["--nu", 0.002, "--memory", 900])
    )
    _, fresh = detect(path, tmp_path / "would", *HOW[how], *more)
    was, would = lines_of(state, changed)
    assert was == out.read_bytes() and was.count(b"\n") > 5
    assert would == fresh.read_bytes() and would != was
    told = told_of(state, "--set", ",".join(f"{n}={v}" for n, v in changed.items()))
    assert told["output"] == "same" and told["checksum"] is True
    assert told["settings"][0]["alerts"] == was.count(b"\n")
    assert told["settings"][1]["alerts"] == would.count(b"\n")


def test_late_rows_are_broken_where_forgetting_goes_by_the_clock(rng, tmp_path) -> None:
    """Settings then differ in which rows they see: the file is read once for each kind."""
    path = written(tmp_path, rng)
    head, *lines = path.read_text().splitlines(keepends=True)
    for i in range(100, ROWS - 100, 40):
        lines[i], lines[i + 3] = lines[i + 3], lines[i]
    path.write_text("".join([head, *lines]))
    how = ["--ignore", "who,word", "--time", "at"]
    clock = ["--memory", "20d", "--nu", 0.05]
    state, out = detect(path, tmp_path / "was", *how)
    by_clock, other = detect(path, tmp_path / "would", *how, *clock, "--broken-at-most", 1)
    found = told_of(state, *clock, "--set", "nu=0.02")
    own, would, fewer = found["settings"]
    assert found["output"] == "same" and own["rows"] == fewer["rows"] > would["rows"] + 50
    assert own["alerts"] == len(json_lines(out)) and would["alerts"] == len(json_lines(other)) > 50
    _, back = told_of(by_clock, "--set", "memory=default,nu=default")["settings"]
    assert back["alerts"] == own["alerts"] and back["rows"] == own["rows"]


def told_of(state, *words, code=0) -> dict:
    done = onkel("replay", state, *words, "--json")
    assert done.exit_code == code, done.output
    return json.loads(done.stdout)


def test_numbers_are_those_of_two_runs(rng, tmp_path) -> None:
    """Still, gone, new, rates and the first ten, counted from the files of two runs."""
    path = written(tmp_path, rng)
    how = ["--ignore", "who,word", "--time", "at", "--nu", 0.03]
    state, out = detect(path, tmp_path / "was", *how)
    _, fresh = detect(path, tmp_path / "would", *how[:-2], "--nu", 0.03, "--memory", 300)
    was, would = ({a["row"]: a for a in json_lines(f)} for f in (out, fresh))
    own, one = told_of(state, "--nu", 0.03, "--memory", 300)["settings"]
    gone, new = sorted(was.keys() - would), sorted(would.keys() - was)
    assert one["still"] == len(was.keys() & would) and one["still"] > 5
    assert one["gone"] == len(gone) > 1 and one["new"] == len(new) > 1
    assert [a["row"] for a in one["first_gone"]] == gone[:10]
    assert [a["row"] for a in one["first_new"]] == new[:10]
    for alert, whole in [
        *((a, was) for a in one["first_gone"]), *((a, would) for a in one["first_new"])
    ]:  # fmt: skip
        kept = {
            n: whole[alert["row"]][n] for n in ("row", "time", "p", "score", "threshold", "why")
        }
        assert {n: v for n, v in alert.items() if n != "id"} == kept
    broken = ROWS - len(learned_rows(path))
    assert own["rows"] == one["rows"] == ROWS - broken and own["warmup"] == 230
    assert one["rate_realised"] == len(would) / (ROWS - broken - 230)
    rows = {row: i for i, row in enumerate(learned_rows(path))}
    assert [a["id"] for a in one["first_new"]] == [str(rows[r]) for r in new[:10]]
    flags = np.isin(np.arange(ROWS - broken), [rows[r] for r in would])
    assert one["incidents"] == len(episodes(flags, -1.0 * flags, gap=20))


def learned_rows(path: Path) -> list[int]:
    lines = path.read_text().splitlines()[1:]
    return [i for i, line in enumerate(lines) if not line.startswith("broken")]


SINCE = {
    "1200": lambda row: row >= 1200,
    "2026-10-01": lambda row: row * STEP >= 30 * 86400,
    "2026-10-01T12:00:00+02:00": lambda row: row * STEP >= 30 * 86400 + 10 * 3600,
    "30d": lambda row: row >= ROWS - 1 - 30 * 24,
    "90min": lambda row: row >= ROWS - 2,
}


@pytest.mark.parametrize("since", [*SINCE][:: size(2, 1)])
def test_since(rng, tmp_path, since) -> None:
    path = written(tmp_path, rng)
    state, out = detect(
        path, tmp_path / "was", "--ignore", "who,word", "--time", "at", "--nu", 0.05
    )
    found = told_of(state, "--since", since, "--nu", 0.05)
    inside = [a["row"] for a in json_lines(out) if SINCE[since](a["row"])]
    own, same = found["settings"]
    assert own["alerts"] == len(inside) and same["still"] == len(inside)
    assert own["rows"] == sum(map(SINCE[since], learned_rows(path)))
    assert own["warmup"] == 0 and found["since"] == since and found["output"] == "same"


@pytest.mark.parametrize("share", size([True], [False, True]))
def test_keys(rng, tmp_path, share) -> None:
    path = written(tmp_path, rng)
    how = [*HOW["shared" if share else "keys"], "--nu", 0.04]
    state, out = detect(path, tmp_path / "was", *how)
    mine = [a["row"] for a in json_lines(out) if a["key"] in ("k0", "k2")]
    found = told_of(state, "--key", "k0", "--key", "k2", "--nu", 0.01)
    own, fewer = found["settings"]
    assert found["output"] == "same" and found["keys"] == ["k0", "k2"]
    assert own["alerts"] == len(mine) > 20 and fewer["still"] + fewer["gone"] == len(mine)
    both, one = (
        onkel("replay", state, *words).stdout.splitlines()[0]
        for words in (["--key", "k2", "--key", "k0"], ["--key", "k2"])
    )
    assert ", of these the keys k0, k2. With" in both and ", of these the key k2. With" in one
    said = refused(state, "--key", "k0", "--key", "k9", code=2)
    assert "--key k9: the run has read no row of it." in said
    everyone = told_of(state, "--nu", 0.01)["settings"]
    assert everyone[0]["rows"] > own["rows"] > ROWS // 3
    lines = [line.split(",") for line in path.read_text().splitlines()[1:]]
    counts: dict[str, int] = {}
    ids = {}
    for row, cells in enumerate(lines):
        if cells[0] != "broken":
            key = cells[-2]
            ids[row] = f"{key}:{counts.get(key, 0)}"
            counts[key] = counts.get(key, 0) + 1
    assert [a["id"] for a in fewer["first_gone"]] == [ids[a["row"]] for a in fewer["first_gone"]]


def test_a_csv_output_by_key_is_compared_too(rng, tmp_path) -> None:
    path = written(tmp_path, rng)
    path.write_text(path.read_text().replace("k0", "=k0").replace("k1", "'k1"))
    state, out = detect(path, tmp_path / "was", *HOW["keys"], name="out.csv")
    assert "'=k0" in out.read_text() and "''k1" not in out.read_text()
    assert told_of(state)["output"] == "same"
    assert told_of(state, "--key", "=k0", "--key", "k2")["output"] == "same"
    found = told_of(state, "--key", "'k1")
    assert found["output"] == "same" and found["settings"][0]["alerts"] > 5


@pytest.mark.parametrize("name", ["out.jsonl", "out.csv"])
def test_an_output_is_read_whatever_ends_of_lines_its_texts_hold(rng, tmp_path, name) -> None:
    path = written(tmp_path, rng)
    ends = "\u2028 \u2029 \x85 \x0b \x0c \x1c \x1d \x1e"
    path.write_text(path.read_text().replace("k0", f"k{ends}0"), "utf-8", newline="\n")
    state, _ = detect(path, tmp_path / "was", *HOW["keys"], "--nu", 0.05, name=name)
    found = told_of(state, "--key", f"k{ends}0")
    assert found["output"] == "same" and found["settings"][0]["alerts"] > 10
    assert told_of(state)["output"] == "same"


@pytest.mark.parametrize("style", ["jsonl", "csv"])
def test_an_output_is_read_however_long_its_texts_are(tmp_path, style) -> None:
    keys = ["a" * 200_000, "b"]  # the csv module takes less unless told
    columns = {"row": [3, 4], "key": keys, "alert": [True, True], "score": [-5.0, -6.0]}
    data = header([*columns], style) + lines(columns, style)
    (tmp_path / "out").write_bytes(data)
    output = Written(tmp_path / "out", len(data), style)
    assert output.alerts(None) == {3: -5.0, 4: -6.0}
    assert output.alerts(frozenset(keys[:1])) == {3: -5.0}


# -- killed, resumed, going on ---------------------------------------------------------------------

KILLED = ["--block", 64, "--every", 0, "--ignore", "who,word", "--time", "at", "--nu", 0.05]


@pytest.mark.long  # others are replayed in quick runs
def test_a_killed_run_is_replayed_as_far_as_it_came_and_a_resumed_one_whole(rng, tmp_path) -> None:
    path = written(tmp_path, rng)
    words = ["detect", path, "--state", tmp_path / "s", "-o", tmp_path / "out.jsonl", *KILLED]
    assert command(*words, dies="before-commit:20").returncode == -signal.SIGKILL
    found = told_of(tmp_path / "s", "--nu", 0.01)
    assert found["output"] == "same" and 0 < found["rows"] < ROWS
    known = look(str(tmp_path / "s")).written
    assert lines_of(tmp_path / "s")[0] == (tmp_path / "out.jsonl").read_bytes()[: known.bytes]
    assert onkel(*words).exit_code == 0
    found = told_of(tmp_path / "s", "--nu", 0.01)
    assert found["output"] == "same" and found["rows"] == ROWS
    assert lines_of(tmp_path / "s")[0] == (tmp_path / "out.jsonl").read_bytes()


def test_rows_behind_the_states_position_are_left_out(rng, tmp_path) -> None:
    path = written(tmp_path, rng)
    state, out = detect(path, tmp_path / "was", *HOW["numbers"])
    before = told_of(state, "--nu", 0.002)
    with open(path, "a") as file:
        file.writelines("9,9,9,2027-01-01T00:00:00,k0,red\n" for _ in range(100))
    assert told_of(state, "--nu", 0.002) == before
    assert lines_of(state)[0] == out.read_bytes()
    assert onkel("detect", path, "--state", state, "-o", out, *HOW["numbers"]).exit_code == 0
    after = told_of(state)
    assert after["rows"] == ROWS + 100 and after["output"] == "same"


def contents(folder: Path) -> dict:
    return {
        p.name: p.read_bytes() for p in folder.iterdir() if not p.name.endswith(("-wal", "-shm"))
    }


def test_the_state_is_not_changed(rng, tmp_path) -> None:
    state, out = detect(written(tmp_path, rng), tmp_path / "was", *HOW["keys"])
    before, file = contents(state), out.read_bytes()
    told_of(state, "--nu", 0.002, "--key", "k1")
    assert contents(state) == before and out.read_bytes() == file


@pytest.mark.long
def test_a_run_that_goes_on_is_not_disturbed(rng, tmp_path) -> None:
    path = written(tmp_path, rng)
    lines = path.read_text().splitlines(keepends=True)
    live, half = tmp_path / "live.csv", 1 + ROWS // 2
    live.write_text("".join(lines[:half]))
    state, out = tmp_path / "s", tmp_path / "out.jsonl"
    how = [*HOW["numbers"], "--every", 0]
    run = begin("detect", live, "--follow", "--stop-after", 3, "--state", state, "-o", out, *how)
    try:
        until = time.monotonic() + 60
        while not (state / "state.sqlite").exists() or rows_in(state) < half - 1:
            assert time.monotonic() < until and run.poll() is None
            time.sleep(0.05)
        found = told_of(state, "--nu", 0.001)
        assert found["rows"] == half - 1 and found["output"] == "same"
        with open(live, "a") as file:
            file.write("".join(lines[half:]))
        assert run.wait(60) == 0
    finally:
        run.kill()
    _, uncut = detect(path, tmp_path / "uncut", *HOW["numbers"])
    one, other = json_lines(out), json_lines(uncut)
    assert [(a["row"], a["score"]) for a in one] == [(a["row"], a["score"]) for a in other]
    assert told_of(state)["rows"] == ROWS


def rows_in(state: Path) -> int:
    with contextlib.suppress(Exception):
        return look(str(state)).rows
    return 0


def test_it_can_be_interrupted(rng, tmp_path, monkeypatch) -> None:
    state, _ = detect(written(tmp_path, rng), tmp_path / "was", *HOW["keys"])

    def interrupt(*all):
        raise KeyboardInterrupt

    monkeypatch.setattr(lanes, "_wait", interrupt)
    done = onkel("replay", state, "--nu", 0.001, "--nu", 0.002)
    assert (done.exit_code, done.output) == (130, "")
    left = [t.name for t in threading.enumerate() if t.name.startswith(("onkel-r", "onkel-w"))]
    assert left == []


# -- other input -----------------------------------------------------------------------------------


def refused(state, *words, code=3) -> str:
    done = onkel("replay", state, *words)
    assert done.exit_code == code, done.output
    assert done.stdout == ""
    return done.stderr


def test_a_changed_input_is_refused(rng, tmp_path) -> None:
    path = written(tmp_path, rng)
    state, _ = detect(path, tmp_path / "was", *HOW["numbers"])
    good = path.read_bytes()
    at = len(good) // 2
    digit = b"1" if good[at : at + 1] != b"1" else b"2"
    path.write_bytes(good[:at] + digit + good[at + 1 :])
    said = refused(state, "--nu", 0.001)
    assert "was changed since it was read" in said and f"onkel replay {state} FILE" in said
    assert "--state" not in said
    path.write_bytes(good[: at // 2])
    assert "is shorter than what was read of it before" in refused(state)
    path.write_bytes(b"x" + good)
    assert "begins differently" in refused(state)
    path.unlink()
    assert "No such file" in refused(state)
    path.write_bytes(good)
    assert told_of(state)["output"] == "same"


def test_a_changed_parquet_file_is_refused(rng, tmp_path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    X, path = rows_of(rng), tmp_path / "rows.parquet"
    parquet.write_table(pyarrow.table({f"x{j}": X[:, j] for j in range(3)}), path)
    state, out = detect(path, tmp_path / "was")
    assert told_of(state)["output"] == "same" and lines_of(state)[0] == out.read_bytes()
    X[-1] += 1
    parquet.write_table(pyarrow.table({f"x{j}": X[:, j] for j in range(3)}), path)
    assert "it was changed since" in refused(state)


def test_a_pipe_needs_a_file_and_the_output_tells_whether_it_is_the_right_one(
    rng, tmp_path
) -> None:
    path = written(tmp_path, rng)
    state, out = tmp_path / "s", tmp_path / "out.jsonl"
    words = ["detect", "-", "--state", state, "-o", out, *HOW["numbers"]]
    full = [sys.executable, "-W", "ignore", "-m", "onkel.app", *map(str, words)]
    subprocess.run(full, input=path.read_bytes(), env=environment(), check=True)
    said = refused(state, "--nu", 0.001)
    assert "a pipe, which cannot be read again" in said and f"onkel replay {state} FILE" in said
    found = told_of(state, path)
    assert found["output"] == "same" and found["checksum"] is False
    objects = tmp_path / "rows.jsonl"
    as_objects(path, objects)
    assert told_of(state, objects)["output"] == "same"
    lines = path.read_text().splitlines(keepends=True)
    other = tmp_path / "other.csv"
    other.write_text("".join([lines[0], *lines[2:], lines[1]]))
    done = onkel("replay", state, other, "--json")
    assert done.exit_code == 3 and json.loads(done.stdout)["output"] == "differs"
    assert "does not hold the rows that were read" in done.stderr
    other.write_text("".join(lines[:-5]))
    assert f"holds {ROWS - 5:,} rows, and the run has read {ROWS:,}" in refused(state, other)
    full = [sys.executable, "-W", "ignore", "-m", "onkel.app", "replay", str(state), "-", "--json"]
    done = subprocess.run(
        full, input=path.read_bytes(), env=environment(), check=True, capture_output=True
    )
    assert json.loads(done.stdout)["output"] == "same"


def as_objects(path: Path, to: Path) -> None:
    names, *lines = (line.split(",") for line in path.read_text().splitlines())
    with open(to, "w") as file:
        for cells in lines:
            if cells[0] == "broken":
                file.write("broken\n")
                continue
            numbers = [float(c) for c in cells[:3]]
            file.write(json.dumps(dict(zip(names, [*numbers, *cells[3:]], strict=True))) + "\n")


def test_another_format_must_have_the_same_columns(rng, tmp_path) -> None:
    path = written(tmp_path, rng)
    state, _ = detect(path, tmp_path / "was", *HOW["numbers"])
    objects = tmp_path / "rows.jsonl"
    as_objects(path, objects)
    objects.write_text(objects.read_text().replace('"b"', '"bb"'))
    assert "has other columns than the run's rows: 'b'" in refused(state, objects)


@pytest.mark.long
def test_a_rotated_input_says_how_to_give_all_of_it(rng, tmp_path) -> None:
    path = written(tmp_path, rng)
    lines = path.read_text().splitlines(keepends=True)
    live, state, out = tmp_path / "live.csv", tmp_path / "s", tmp_path / "out.jsonl"
    live.write_text("".join(lines[: ROWS // 2 + 1]))
    how = ["--follow", "--stop-after", 2, "--state", state, "-o", out, *HOW["numbers"]]
    run = begin("detect", live, *how, "--every", 0)
    try:
        until = time.monotonic() + 60
        while rows_in(state) < ROWS // 2:
            assert time.monotonic() < until and run.poll() is None
            time.sleep(0.05)
        live.rename(tmp_path / "live.csv.1")
        live.write_text("".join(lines[ROWS // 2 + 1 :]))
        assert run.wait(60) == 0
    finally:
        run.kill()
    assert rows_in(state) == ROWS
    assert "it was rotated meanwhile" in refused(state) and "| onkel replay" in refused(state)
    assert told_of(state, path)["output"] == "same"


def test_a_state_that_does_not_say_what_was_read(rng, tmp_path, monkeypatch) -> None:
    path = written(tmp_path, rng)
    with monkeypatch.context() as patched:
        patched.setattr("onkel.app.run.prepare._note_source", lambda *all: None)
        state, _ = detect(path, tmp_path / "was", *HOW["numbers"])
    assert "was made by an older onkel" in refused(state)
    assert told_of(state, path)["checksum"] is True


def test_a_moved_input_is_found_where_the_run_went_on(rng, tmp_path) -> None:
    path = written(tmp_path, rng)
    state, out = detect(path, tmp_path / "was", *HOW["numbers"])
    moved = path.rename(tmp_path / "moved.csv")
    assert "cannot be read" in refused(state)
    assert told_of(state, moved)["checksum"] is True
    assert onkel("detect", moved, "--state", state, "-o", out, *HOW["numbers"]).exit_code == 0
    assert told_of(state)["source"] == str(moved)


def test_an_output_that_was_changed_is_told(rng, tmp_path) -> None:
    state, out = detect(written(tmp_path, rng), tmp_path / "was", *HOW["numbers"])
    text, first = out.read_text(), json_lines(out)[3]
    known = f'"score": {first["score"]!r}'
    digit = known[len('"score": -')]
    out.write_text(text.replace(known, known.replace(f"-{digit}", f"-{(int(digit) + 1) % 10}")))
    done = onkel("replay", state, "--json")
    assert done.exit_code == 4 and f"first at row {first['row']:,}" in done.stderr


@pytest.mark.parametrize("name", size(["out.csv"], ["out.jsonl", "out.csv"]))
def test_an_output_that_does_not_hold_what_was_written_is_told(rng, tmp_path, name) -> None:
    """Another, or cut: the code is 4; where there is none, a checksum says all the same."""
    state, out = detect(written(tmp_path, rng), tmp_path / "was", *HOW["numbers"], name=name)
    data = out.read_bytes()
    line = data.index(b"\n", len(data) // 2) + 1
    swapped = data[:line] + b"{]" + data[line + 2 :] if name == "out.jsonl" else b"x" + data[1:]
    for other, said in (
        (data[:line], f"was cut: it has {line:,} bytes, and the run has written {len(data):,}"),
        (swapped, "holds something else than the run has written"),
        (b"\xff" * len(data), "holds something else"),
    ):
        out.write_bytes(other)
        done = onkel("replay", state, "--json")
        assert done.exit_code == 4 and f"onkel: {out} {said}" in done.stderr, done.output
        found = json.loads(done.stdout)
        assert found["output"] == "unknown" and said in found["notes"][0]
    for change, said in ((lambda: out.write_bytes(b""), "empty"), (out.unlink, "not there")):
        change()
        found = told_of(state)
        assert (found["output"], found["checksum"]) == ("unknown", True)
        assert f"{out} is {said}" in found["notes"][0]
        assert " ".join(onkel("replay", state).stdout.split()).count(found["notes"][0]) == 1
    out.mkdir()
    assert "Is a directory" in told_of(state)["notes"][0]
    out.rmdir()
    out.write_bytes(data + b"more")  # what a run has written since
    assert told_of(state)["output"] == "same" and not told_of(state)["notes"]


# -- words -----------------------------------------------------------------------------------------

FIELDS = {
    "": ["format", "state", "source", "rows", "since", "keys", "gap", "checksum", "output",
         "notes", "settings"],
    "own": ["name", "changed", "rows", "warmup", "alerts", "rate_promised", "rate_realised",
            "incidents", "largest_incidents"],
    "more": ["still", "gone", "new", "incidents_gone", "incidents_new", "first_gone", "first_new"],
    "alert": ["row", "id", "time", "p", "score", "threshold", "why"],
}  # fmt: skip


def test_the_json_is_what_others_rely_on(rng, tmp_path) -> None:
    state, _ = detect(written(tmp_path, rng), tmp_path / "was", *HOW["numbers"], "--nu", 0.05)
    found = told_of(state, "--nu", 0.001)
    own, one = found["settings"]
    assert [*found] == FIELDS[""] and found["format"] == 1
    assert [*own] == FIELDS["own"] and [*one] == [*FIELDS["own"], *FIELDS["more"]]
    assert [*one["first_gone"][0]] == FIELDS["alert"]
    assert own["name"] == "as it was" and own["changed"] == {}
    assert one["name"] == "nu 0.001" and one["changed"] == {"nu": 0.001}


def test_the_table(rng, tmp_path) -> None:
    state, _ = detect(written(tmp_path, rng), tmp_path / "was", *HOW["numbers"], "--nu", 0.05)
    told = told_of(state, "--nu", 0.001, "--set", "memory=500,window=100")["settings"]
    done = onkel("replay", state, "--nu", 0.001, "--set", "memory=500,window=100")
    lines = done.stdout.splitlines()
    assert lines[0].endswith("With its own settings the run's alerts came out again.")
    assert lines[2].split() == [
        "setting",
        "rows",
        "alerts",
        "rate",
        "incidents",
        "still",
        "gone",
        "new",
    ]
    for line, one in zip(lines[3:6], told, strict=True):
        assert line.startswith(one["name"]) and f" {one['alerts']:,} " in line
        assert ("still" in one) == bool(
            re.search(f" {one.get('gone', '-')} +{one.get('new')}$", line)
        )
    assert f"nu 0.001: gone, the first 10 of {told[1]['gone']}" in done.stdout
    assert max(map(len, lines[6:])) <= 100
    since = onkel("replay", state, "--since", 70).stdout
    assert "; compared since row 70. " in since


def test_a_reason_that_is_cut_still_names_something(rng, tmp_path) -> None:
    """How rare a row is stands beside it; where a long key takes the line, it has its own."""
    X = rng.normal(size=(1200, 3))
    X[-9:, 1] += 9.0
    rows = write_rows(tmp_path / "rows.csv", X, key=["k" * 80] * 1200)
    for words in ((), ("--key", "key")):
        state = tmp_path / f"state{len(words)}"
        onkel("detect", rows, "--ignore" if not words else "--key", "key", "--state", state,
              "-o", tmp_path / f"out{len(words)}", "--explain", "all")  # fmt: skip
        lines = onkel("replay", state, "--nu", 1e-6).stdout.splitlines()
        gone = lines[1 + lines.index(next(x for x in lines if ": gone, " in x)) :]
        named = [line for line in gone if " through " in line]
        assert len(named) >= 5 and not [line for line in gone if "as unusual" in line]
        assert max(map(len, named)) <= 100


def test_settings_hold_together_and_a_set_is_a_column_of_its_own(rng, tmp_path) -> None:
    assert asked({"nu": [0.1, 0.2], "memory": [5.0, 6.0], "window": []}, ["nu=0.3", "nu=0.3"]) == [
        {"nu": 0.1, "memory": 5.0}, {"nu": 0.1, "memory": 6.0}, {"nu": 0.2, "memory": 5.0},
        {"nu": 0.2, "memory": 6.0}, {"nu": 0.3},
    ]  # fmt: skip
    assert asked({"nu": []}, []) == []
    assert set_of("nu=default, lags=0") == {"nu": None, "lags": "0"}
    state, _ = detect(written(tmp_path, rng), tmp_path / "was", *HOW["numbers"], "--nu", 0.05)
    found = told_of(state, "--set", "nu=default")["settings"][1]
    assert found["rate_promised"] == 0.01 and found["name"] == "nu default"


@pytest.fixture(scope="module")
def one_state(tmp_path_factory):
    """A state that is only asked for what is refused."""
    folder, rng = tmp_path_factory.mktemp("one"), np.random.default_rng(3)
    return detect(write_rows(folder / "r.csv", rows_of(rng, rows=400)), folder / "was")[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--set", "nue=0.1"], "'nue' is none of nu, precision, memory"),
        (["--set", "nu"], "--set is written nu=0.001,memory=20000; got 'nu'"),
        (["--set", "nu=0.1,nu=0.2"], "nu is there twice"),
        (["--set", "window=many"], "window is a whole number; got 'many'"),
        (["--set", "share=perhaps"], "share is yes or no"),
        (["--nu", "2"], "nu 2: Detector: nu must be"),
        (["--nu", "nan"], "nu nan: Detector: nu must be"),
        (["--nu", "few"], "a number such as 0.01 is needed, or none; got 'few'"),
        (["--nu", "none"], "--nu none leaves the alerts to a promised precision"),
        (["--precision", "single"], "In which numbers rows are held (--numbers of onkel detect)"),
        (["--set", "precision=double"], "is as it was in the run"),
        (["--precision", "80"], "between 0 and 1, such as 0.8; got '80'"),
        (["--precision", "1"], "between 0 and 1"),
        (["--precision", "nan"], "between 0 and 1"),
        (["--precision", "80 %"], "between 0 and 1"),
        (["--precision", "0.8", "--model", "kernel"], "--precision: only alerts of the detector"),
        (["--set", "memory-of-feedback=0"], "memory_of_feedback must be"),
        (["--set", "memory-of-feedback=12h"], "memory-of-feedback is a number of rows"),
        (["--set", "nu=none"], "give --precision 0.8"),
        (["--gap", "-1"], "--gap is a number of rows, or a time span"),
        (["--gap", "soon"], "--gap is a number of rows, or a time span such as 30min"),
        (["--gap", "30min"], "--gap 30min goes by the clock, and the run had no --time"),
        (["--memory", "soon"], "--memory is a number of examples"),
        (["--memory", "12h"], "memory 12h: memory 12h goes by the clock: the run had no --time"),
        (["--set", "season=day"], "season=day"),
        (["--set", "share=yes"], "--share"),
        (["--since", "yesterday"], "--since is a time span before the last row"),
        (["--since", "30d"], "--since 30d goes by the clock, and the run had no --time"),
        (["--key", "k"], "--key: the run had one model for all rows"),
        ([f"--nu={0.01 + i / 100:.2f}" for i in range(17)], "These are 17 settings"),
    ],
)
def test_what_cannot_be_is_refused(one_state, words, said) -> None:
    told = refused(one_state, *words, code=2)
    assert said.replace("season=day", "goes by the clock") in told


def test_states_that_cannot_be_replayed(rng, tmp_path) -> None:
    X = rows_of(rng, rows=400)
    path = write_rows(tmp_path / "r.csv", X, y=X[:, 0])
    done = onkel("regress", path, "--target", "y", "--state", tmp_path / "s", "-o", tmp_path / "o")
    assert done.exit_code == 0
    assert "only onkel detect has such" in refused(tmp_path / "s", code=2)
    (tmp_path / "empty").mkdir()
    assert "holds no state" in refused(tmp_path / "empty", code=4)


def test_a_report_is_refused_before_anything_is_learned(rng, tmp_path) -> None:
    pytest.importorskip("bokeh", reason="needs bokeh: pip install onkel[report]")
    path = write_rows(tmp_path / "r.csv", rows_of(rng, rows=400))
    more = [tmp_path / "incidents", tmp_path / "dead"]
    state, out = detect(path, tmp_path / "was", "--incidents", more[0], "--dead-letters", more[1])
    for name in (path, out, *more, state / "r.html", tmp_path / "no" / "r.html"):
        before = name.read_bytes() if name.exists() else None
        assert "--report" in refused(state, "--report", name, code=2)
        assert (name.read_bytes() if name.exists() else None) == before


# -- parts -----------------------------------------------------------------------------------------


def test_incidents_are_the_episodes_of_the_rows_that_were_learned(rng) -> None:
    for gap in (0, 1, 5, 30):
        flags = rng.random(size(500, 5000)) < 0.1
        scores = rng.normal(size=len(flags))
        alerts = [Alert(i, i, float(scores[i]), 0.0) for i in np.flatnonzero(flags).tolist()]
        found = [(e.start, e.end, e.count, e.peak) for e in incidents_of(alerts, gap)]
        assert found == [(e.start, e.end, e.count, e.peak) for e in episodes(flags, scores, gap)]
        two = sorted([*alerts, *(a._replace(key="k") for a in alerts)], key=lambda a: a.row)
        assert len(incidents_of(two, gap)) == 2 * len(episodes(flags, scores, gap))


def test_rows_of_a_span_are_counted_however_they_come(rng) -> None:
    times = np.cumsum(rng.exponential(1.0, 1000)) + rng.normal(0, 20, 1000)
    shown = rng.random(1000) < 0.8
    since = Since.of("150s")
    inside = times >= times.max() - 150
    for cuts in ([500], range(10, 1000, 10), [1, 2, 999]):
        judged = Judged(since)
        for part in np.split(np.arange(1000), list(cuts)):
            judged.add(part, times[part], shown[part])
        found = judged.counts(since.settled(float(times.max())))
        assert found == (inside.sum(), (inside & ~shown).sum())


def test_a_setting_that_fails_is_named(rng, tmp_path, monkeypatch) -> None:
    state, _ = detect(write_rows(tmp_path / "r.csv", rows_of(rng, rows=400)), tmp_path / "was")

    def fail(self, block):
        raise SourceProblem("no")

    monkeypatch.setattr("onkel.app.run.session.Session.handle", fail)
    assert "as it was: no" in refused(state, "--nu", 0.5)


def test_where_nothing_is_compared_it_says_so(rng, tmp_path) -> None:
    path = written(tmp_path, rng, rows=600)
    state, _ = detect(path, tmp_path / "was", "--ignore", "who,word", "--time", "at")
    assert f"the run has read {600:,} rows" in refused(state, "--since", "600", code=2)
    last = np.datetime64("2026-09-01T00:00:00") + STEP * 599
    said = refused(state, "--since", str(last + 1), "--nu", 0.1, code=2)
    assert (
        said
        == f"onkel: --since {last + 1}: the last row that the run has read is of {last}+00:00.\n"
    )
    assert told_of(state, "--since", str(last))["settings"][0]["rows"] == 1
    assert told_of(state, "--since", "599")["settings"][0]["rows"] == 1
    found = told_of(state, "--set", "warmup=600", "--set", "warmup=10")
    (note,) = found["notes"]
    assert note.startswith("warmup 600: all rows that are compared are of the warm-up")
    assert note in " ".join(onkel("replay", state, "--warmup", 600).stdout.split())
    who = ["early"] * 300 + ["late"] * 300
    keyed = write_rows(tmp_path / "keyed.csv", rng.normal(size=(600, 2)), who=who)
    state, _ = detect(keyed, tmp_path / "keyed", "--key", "who")
    found = told_of(state, "--key", "early", "--since", 400, "--nu", 0.1)
    assert found["notes"] == ["No row is compared."] and found["settings"][1]["alerts"] == 0
    few = write_rows(tmp_path / "few.csv", rng.normal(size=(50, 2)))
    alone, _ = detect(few, tmp_path / "few")
    assert told_of(alone)["notes"][0].startswith("All rows that are compared")
