"""Files of a run: for their owner alone, not reached through planted links, one run for each."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
import stat
import time
from pathlib import Path

import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from helpers.runs_of import begin, onkel, write_rows

from onkel.app.errors import OutputProblem
from onkel.app.run.checkpoint import State
from onkel.app.run.ledger import Checkpoint
from onkel.app.run.outputs import FileSink, lines, unmarked

POSIX = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs modes and links of POSIX")
HOW = ["--warmup", 0, "--nu", 0.2]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def open_to_all():
    old = os.umask(0)
    yield
    os.umask(old)


@POSIX
def test_a_state_is_for_its_owner_alone(rows, tmp_path, open_to_all) -> None:
    with open(rows, "a") as file:
        file.write("broken,row\n")
    words = ["detect", rows, "-o", tmp_path / "out", *HOW]
    assert onkel(*words, "--state", tmp_path / "s").exit_code == 0
    assert mode(tmp_path / "s") == 0o700
    found = {path.name: mode(path) for path in (tmp_path / "s").iterdir()}
    assert {"state.sqlite", "models-1.onkel", "dead_letters.jsonl"} <= found.keys()
    assert set(found.values()) == {0o600}
    assert mode(tmp_path / "out") == 0o666  # results are for whoever the umask says
    more = ["--state", tmp_path / "t", "--dead-letters", tmp_path / "dead"]
    assert onkel("detect", rows, "-o", tmp_path / "out2", *more).exit_code == 0
    assert mode(tmp_path / "dead") == 0o600


@POSIX
def test_the_database_is_private_while_a_run_goes_on(tmp_path, open_to_all) -> None:
    state = State(tmp_path / "s")
    state.store.put("", b"model")
    state.commit(Checkpoint({"row": 1}))
    modes = {path.name: mode(path) for path in (tmp_path / "s").iterdir()}
    assert set(modes.values()) == {0o600} and "state.sqlite-wal" in modes
    state.close()


@POSIX
@pytest.mark.parametrize(
    ("name", "code"),
    [("state.sqlite", 4), ("state.sqlite-wal", 4), ("dead_letters.jsonl", 5),
     ("models-1.onkel", 0)],
)  # fmt: skip
def test_planted_links_are_not_followed(rows, tmp_path, name, code) -> None:
    target = tmp_path / "target"
    target.write_bytes(b"")
    target.chmod(0o644)
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / name).symlink_to(target)
    done = onkel("detect", rows, "--state", tmp_path / "s", "-o", tmp_path / "out", *HOW)
    assert done.exit_code == code, done.output
    assert target.read_bytes() == b"" and mode(target) == 0o644
    assert code == 0 or (name in done.stderr and "symbolic link" in done.stderr)


@POSIX
def test_an_old_model_is_not_read_through_a_link(rows, tmp_path) -> None:
    words = ["detect", rows, "--state", tmp_path / "s", "-o", tmp_path / "out", *HOW]
    assert onkel(*words).exit_code == 0
    (path,) = (tmp_path / "s").glob("models-*.onkel")
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    done = onkel(*words)
    assert done.exit_code == 4 and path.name in done.stderr


@POSIX
def test_an_output_may_be_a_link_of_ones_own_but_not_of_another_user(
    rows, tmp_path, monkeypatch
) -> None:
    from onkel.app import disk

    (tmp_path / "out").symlink_to(tmp_path / "real")
    assert onkel("detect", rows, "-o", tmp_path / "out", *HOW).exit_code == 0
    before = (tmp_path / "real").read_bytes()
    made_by = (tmp_path / "out").lstat().st_uid
    monkeypatch.setattr(disk, "_trusted", lambda owner: owner != made_by)
    done = onkel("detect", rows, "-o", tmp_path / "out", *HOW)
    assert done.exit_code == 5 and "another user" in done.stderr and before
    assert (tmp_path / "real").read_bytes() == before


# -- one run for each --------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["same", "link", "hard link", "empty", "dead letters"])
def test_two_states_do_not_write_one_output(rows, tmp_path, how) -> None:
    nothing = ["--nu", 0.2, "--warmup", 10_000] if how == "empty" else HOW
    first = ["detect", rows, "--state", tmp_path / "a", "-o", tmp_path / "out", *nothing]
    assert onkel(*first).exit_code == 0
    before = (tmp_path / "out").read_bytes()
    assert bool(before) == (how != "empty")
    other = tmp_path / ("out" if how in ("same", "empty") else "other")
    if how == "link":
        other.symlink_to(tmp_path / "out")
    elif how == "hard link":
        os.link(tmp_path / "out", other)
    words = ["detect", rows, "--state", tmp_path / "b", "-o", other, *HOW]
    if how == "dead letters":
        words = [*words, "--dead-letters", tmp_path / "out"]
    done = onkel(*words)
    assert done.exit_code == 5 and "has not begun it" in done.stderr
    assert (tmp_path / "out").read_bytes() == before
    assert onkel(*words).exit_code == 5  # a second attempt is no better
    assert onkel(*first).exit_code == 0


def test_two_runs_at_once_do_not_write_one_output(rows, tmp_path) -> None:
    words = ["detect", "-", "--format", "csv", *HOW]
    process = begin(*words, "-o", tmp_path / "out", stdin=-1)
    assert process.stdin is not None
    process.stdin.write(rows.read_bytes())
    process.stdin.flush()
    until = time.monotonic() + 60
    while not (tmp_path / "out").exists() or not (tmp_path / "out").stat().st_size:
        assert time.monotonic() < until
        time.sleep(0.02)
    before = (tmp_path / "out").read_bytes()
    os.link(tmp_path / "out", tmp_path / "other")
    done = onkel("detect", rows, "-o", tmp_path / "other", *HOW)
    assert done.exit_code == 5 and "is written by" in done.stderr
    if os.path.exists("/proc/locks"):
        assert f"process {process.pid}" in done.stderr
    assert (tmp_path / "out").read_bytes().startswith(before)  # its own run goes on
    process.communicate()
    assert onkel("detect", rows, "-o", tmp_path / "other", *HOW).exit_code == 0


def test_an_output_that_another_has_written_is_not_cut(rows, tmp_path) -> None:
    words = ["detect", rows, "--state", tmp_path / "s", "-o", tmp_path / "out", *HOW]
    assert onkel(*words).exit_code == 0
    other = b"x" * 2 * (tmp_path / "out").stat().st_size
    (tmp_path / "out").write_bytes(other)
    done = onkel(*words)
    assert done.exit_code == 4 and "not what this run has written" in done.stderr
    assert (tmp_path / "out").read_bytes() == other


def test_a_death_before_the_first_checkpoint_leaves_the_output_to_the_state(rows, tmp_path) -> None:
    """A claim is noted, then the file made, then the claim confirmed: death at any of them."""
    words = ["detect", rows, "--state", tmp_path / "s", "-o", tmp_path / "out", *HOW]
    name = str((tmp_path / "out").absolute())
    for note, left in ((False, None), (False, b""), (True, b""), (True, b'{"row": 1')):
        state = State(tmp_path / "s")
        state.note("claims", {name: note})
        state.close()
        if left is not None:
            (tmp_path / "out").write_bytes(left)
        assert onkel(*words).exit_code == 0
        for path in (*(tmp_path / "s").iterdir(), tmp_path / "out"):
            path.unlink()


def test_a_folder_that_was_moved_while_in_use_is_not_written_to(tmp_path) -> None:
    state = State(tmp_path / "s")
    state.commit(Checkpoint({"row": 1}))
    (tmp_path / "s").rename(tmp_path / "moved")
    other = State(tmp_path / "s")
    with pytest.raises(OutputProblem, match="moved, removed or replaced"):
        state.commit(Checkpoint({"row": 2}))
    state.close()
    other.close()


def test_the_lock_holds_when_all_files_are_removed(rows, tmp_path) -> None:
    state = State(tmp_path / "s")
    for path in (tmp_path / "s").iterdir():
        path.unlink()
    done = onkel("detect", rows, "--state", tmp_path / "s", "-o", tmp_path / "out")
    assert done.exit_code == 4 and "in use by" in done.stderr
    state.close()


# -- names and strays --------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--state", "--output", "--dead-letters", "--report"])
def test_an_empty_name_is_a_usage_problem(rows, tmp_path, option, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    done = onkel("detect", rows, option, "")
    assert done.exit_code == 2 and "a name is needed" in done.stderr
    (tmp_path / "c.toml").write_text(f"{option[2:]} = ''\n")
    assert onkel("detect", rows, "--config", tmp_path / "c.toml").exit_code == 2
    assert sorted(p for p in tmp_path.iterdir() if p.name != "c.toml") == before


def test_strays_in_the_folder_are_no_obstacle(rows, tmp_path) -> None:
    words = ["detect", rows, "--state", tmp_path / "s", "-o", tmp_path / "out", "--every", 0, *HOW]
    strays = ["lock", "notes", "models-7.onkel", "models-x.onkel", "state.sqlite.copy"]
    for name in strays:
        (tmp_path / "s" / name).mkdir(parents=True)
    (tmp_path / "s" / "models-old.onkel").write_bytes(b"mine")
    assert onkel(*words).exit_code == 0
    assert onkel(*words).exit_code == 0
    assert all((tmp_path / "s" / name).is_dir() for name in strays)
    assert (tmp_path / "s" / "models-old.onkel").read_bytes() == b"mine"


def test_a_state_that_cannot_be_one_is_named(rows, tmp_path) -> None:
    (tmp_path / "s" / "state.sqlite").mkdir(parents=True)
    done = onkel("detect", rows, "--state", tmp_path / "s", "-o", tmp_path / "out")
    assert done.exit_code == 4 and "state.sqlite" in done.stderr
    (tmp_path / "t" / "models-1.onkel").mkdir(parents=True)
    done = onkel("detect", rows, "--state", tmp_path / "t", "-o", tmp_path / "out2")
    assert done.exit_code == 5 and "models-1.onkel" in done.stderr


# -- spreadsheets ------------------------------------------------------------------------------


def read_back(cell: str) -> str:
    """Return what a cell was, as docs/command_line.md tells."""
    rest = cell.lstrip("'")
    return cell[1:] if cell != rest and rest[:1] in "=+-@\t\r\n＝＋－＠" and rest else cell


@pytest.mark.parametrize(
    "text", ["=1+1", "+1+1", "-1+1", "@sum(a)", "\tx", "\rx", "\n=x", "＝1", "'=1"]
)
def test_a_text_that_looks_like_a_formula_is_made_a_text(text) -> None:
    made = lines({"key": [text]}, "csv").decode()
    ((cell,),) = csv.reader(io.StringIO(made, newline=""), strict=True)
    assert cell == "'" + text and read_back(cell) == text
    assert json.loads(lines({"key": [text]}, "jsonl")) == {"key": text}


@pytest.mark.parametrize(
    ("value", "cell"),
    [(-1, b"-1"), (-0.5, b"-0.5"), (-1e-9, b"-1e-09"), ("-5", b"-5"), ("+1.5e3", b"+1.5e3"),
     ("2024-01-01", b"2024-01-01"), ("it's", b"it's"), ("'a", b"'a"), ("", b""), (True, b"true"),
     (2**60, str(2**60).encode())],
)  # fmt: skip
def test_numbers_and_plain_texts_stay_what_they_are(value, cell) -> None:
    assert lines({"a": [value]}, "csv") == cell + b"\n"


def test_a_mark_is_taken_off_where_one_was_put_and_nowhere_else() -> None:
    for text in map("".join, itertools.product(["'", "=", "-", "5", "a", "\n", ""], repeat=4)):
        made = lines({"key": [text], "more": ["x"]}, "csv").decode()
        ((cell, _),) = csv.reader(io.StringIO(made, newline=""), strict=True)
        assert unmarked(cell) == read_back(cell) == text


def test_keys_labels_and_reasons_of_a_run_are_texts(rng, tmp_path) -> None:
    evil = "=cmd|' /C calc'!A0"
    X = rng.normal(size=(300, 2))
    labels = [evil if a > 0 else "+good" for a in X[:, 0]]
    path = write_rows(tmp_path / "rows.csv", X, y=labels, key=["@k"] * 300)
    words = ["classify", path, "--target", "y", "--key", "key", "-o", tmp_path / "out.csv"]
    assert onkel(*words).exit_code == 0
    with open(tmp_path / "out.csv", newline="") as file:
        found = list(csv.DictReader(file))
    assert {row["key"] for row in found} == {"'@k"}
    assert {row["target"] for row in found} == {"'" + evil, "'+good"}
    assert {row["prediction"] for row in found[50:]} <= {"'" + evil, "'+good"}
    text = path.read_text().replace("a,b,", f'"{evil}",b,', 1)
    path.write_text(text)
    words = ["detect", path, "--ignore", "y,key", "--explain", "none", *HOW]
    assert onkel(*words, "-o", tmp_path / "alerts.csv").exit_code == 0
    with open(tmp_path / "alerts.csv", newline="") as file:
        why = [row["why"] for row in csv.DictReader(file) if row["why"]]
    assert not any(text[0] in "=+-@" for text in why)


def test_an_output_is_known_by_its_last_bytes(tmp_path) -> None:
    sink = FileSink(tmp_path / "out")
    for size in (1, 5000, 10, 0, 3):
        sink.write(os.urandom(size))
    end, length = sink.end(), sink.sync()
    sink.write(b"not committed")
    sink.close()
    again = FileSink(tmp_path / "out", length)
    assert again.end() == end and (tmp_path / "out").stat().st_size == length
    again.close()
