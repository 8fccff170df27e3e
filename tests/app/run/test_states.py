"""State folders: moved, damaged, of another kind."""

from __future__ import annotations

import json
import os

import pytest
from helpers.runs_of import onkel

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")


def test_a_state_that_moved_goes_on(rows, tmp_path) -> None:
    words = ["detect", rows, "-o", tmp_path / "out"]
    assert onkel(*words, "--state", tmp_path / "a").exit_code == 0
    os.rename(tmp_path / "a", tmp_path / "b")
    (tmp_path / "b" / "dead_letters.jsonl").unlink()  # nothing was in it
    with open(rows, "a") as file:
        file.write("0.5,0.5\n")
    done = onkel(*words, "--state", tmp_path / "b", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["rows"] == 601


def test_a_damaged_database_is_said_to_be(rows, tmp_path) -> None:
    words = ["detect", rows, "-o", tmp_path / "out", "--state", tmp_path / "s"]
    assert onkel(*words).exit_code == 0
    path = tmp_path / "s" / "state.sqlite"
    data = bytearray(path.read_bytes())
    data[4096:] = bytes(b ^ 0x5A for b in data[4096:])
    path.write_bytes(bytes(data))
    for name in ("state.sqlite-wal", "state.sqlite-shm"):
        (tmp_path / "s" / name).unlink(missing_ok=True)
    for done in (onkel(*words), onkel("inspect", tmp_path / "s")):
        assert done.exit_code == 4 and "sqlite" not in str(done.exception), done.output


def test_a_run_and_a_service_do_not_share_a_folder(rows, tmp_path) -> None:
    pytest.importorskip("starlette", reason="needs starlette: pip install onkel[serve]")
    from onkel.app.service.snapshots import Folder

    words = ["detect", rows, "-o", tmp_path / "out", "--state"]
    assert onkel(*words, tmp_path / "run").exit_code == 0
    done = onkel("serve", "--state", tmp_path / "run", "--port", 0)
    assert done.exit_code == 4 and "state of a run" in done.stderr
    Folder(tmp_path / "service").close()
    done = onkel(*words, tmp_path / "service")
    assert done.exit_code == 4 and "state of a service" in done.stderr
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "state.sqlite").write_bytes(b"garbage" * 1000)
    assert onkel(*words, tmp_path / "x").exit_code == 4
    assert onkel("serve", "--state", tmp_path / "x", "--port", 0).exit_code == 4


def test_a_look_at_a_damaged_state_ends_as_a_run_does(rows, tmp_path) -> None:
    state, out = tmp_path / "s", tmp_path / "out"
    words = ["detect", rows, "-o", out, "--state", state, "--every", 0, "--block", 64]
    assert onkel(*words).exit_code == onkel("inspect", state).exit_code == 0
    newest, before = sorted(state.glob("models-*"), key=lambda p: -int(p.stem.split("-")[1]))
    whole = newest.read_bytes()
    newest.write_bytes(whole[: len(whole) // 2])
    done = onkel("inspect", state, "--json")  # a run goes on from the one before
    told = json.loads(done.stdout)
    assert done.exit_code == 0 and newest.name in told["damaged"], done.output
    assert told["generation"] == int(before.stem.split("-")[1]) and "terms" in told["model"]
    before.write_bytes(b"nothing")
    done = onkel("inspect", state)
    assert done.exit_code == onkel(*words).exit_code == 4
    assert f"{newest} is damaged" in done.stderr and "rows" in done.stdout
    newest.write_bytes(whole)
    assert onkel("inspect", state).exit_code == 0
    out.unlink()
    done = onkel("inspect", state)
    assert done.exit_code == onkel(*words).exit_code == 4 and "--output-lost" in done.stderr
