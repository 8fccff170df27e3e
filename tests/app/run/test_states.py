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
