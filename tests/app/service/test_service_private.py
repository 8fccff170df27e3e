"""The state is its owner's alone: private modes, no links followed, one process."""

from __future__ import annotations

import os
import stat

import pytest
from helpers.states import learn, two_models

from onkel.app.disk import InUse
from onkel.app.service.engine import Engine


@pytest.fixture
def engine(tmp_path):
    with two_models(tmp_path / "state") as opened:
        yield opened


@pytest.mark.skipif(os.name == "nt", reason="modes are POSIX's")
def test_all_is_private(engine):
    old = os.umask(0)
    try:
        learn(engine, "bad", 2)
        engine.snapshot()
    finally:
        os.umask(old)
    folder = engine.state.folder
    for path in (folder, *folder.rglob("*")):
        wanted = 0o700 if path.is_dir() else 0o600
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


@pytest.mark.parametrize("where", ["models", "log", "state.sqlite"])
def test_planted_links_are_not_followed(tmp_path, where):
    state, elsewhere = tmp_path / "state", tmp_path / "elsewhere"
    state.mkdir()
    elsewhere.mkdir()
    target = elsewhere if where != "state.sqlite" else elsewhere / "file"
    (state / where).symlink_to(target)
    with pytest.raises(OSError, match="symbolic link"):
        Engine(state)
    assert [*elsewhere.iterdir()] == []


def test_a_link_in_the_place_of_a_file_to_be_written(engine, tmp_path):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    learn(engine, "bad", 2)
    position = engine.slot("bad").position
    for name in (f"2-{position}.model", f"2-{position}.model.new"):
        (engine.state.folder / "models" / name).symlink_to(victim)
    engine.snapshot()
    assert victim.read_text() == "mine" and engine.troubles() == []


def test_the_lock_is_on_the_folder(engine):
    for path in engine.state.folder.glob("*lock*"):
        path.unlink()
    with pytest.raises(InUse, match="one process per state"):
        Engine(engine.state.folder)
