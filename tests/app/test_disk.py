"""Files of a state: private whatever the umask, no links, whole or not at all; folders locked."""

from __future__ import annotations

import builtins
import importlib.util
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.runs_of import environment

from onkel.app import disk

POSIX = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs modes and links of POSIX")
TARGET = b"what somebody else had written"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture(params=[0o000, 0o022, 0o277])
def umask(request):
    old = os.umask(request.param)
    yield request.param
    os.umask(old)


@POSIX
def test_what_is_made_is_private_whatever_the_umask(tmp_path, umask) -> None:
    disk.private_folder(tmp_path / "s")
    disk.write_private(tmp_path / "s" / "whole", b"1")
    disk.new_private(tmp_path / "s" / "new").close()
    os.close(disk.open_private(tmp_path / "s" / "opened", os.O_WRONLY | os.O_CREAT))
    assert mode(tmp_path / "s") == 0o700
    assert {mode(p) for p in (tmp_path / "s").iterdir()} == {0o600}


@POSIX
def test_a_database_and_what_lies_beside_it_is_private(tmp_path) -> None:
    path = tmp_path / "state.sqlite"
    disk.private_database(path)
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE a (b)")
    assert {p.name: mode(p) for p in tmp_path.iterdir()} == {
        "state.sqlite": 0o600, "state.sqlite-wal": 0o600, "state.sqlite-shm": 0o600,
    }  # fmt: skip
    db.close()


@POSIX
def test_files_that_others_could_read_are_closed_to_them_and_folders_stay(tmp_path) -> None:
    folder, path = tmp_path / "s", tmp_path / "s" / "a"
    folder.mkdir(0o755)
    folder.chmod(0o755)
    path.write_bytes(b"1")
    path.chmod(0o644)
    disk.private_folder(folder)
    assert disk.read_private(path) == b"1"
    assert mode(path) == 0o600 and mode(folder) == 0o755


@POSIX
@pytest.mark.parametrize("kind", ["symlink", "dangling", "pipe", "folder"])
def test_what_was_planted_is_not_opened(tmp_path, kind) -> None:
    target, path = tmp_path / "target", tmp_path / "a"
    if kind != "dangling":
        target.write_bytes(TARGET)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(target)
    for flags in (os.O_RDONLY, os.O_RDWR | os.O_CREAT, os.O_WRONLY | os.O_CREAT | os.O_APPEND):
        with pytest.raises(OSError) as refused:
            disk.open_private(path, flags)
        if "s" in kind[:1] or kind == "dangling":
            assert "symbolic link" in str(refused.value)
    assert not target.exists() if kind == "dangling" else target.read_bytes() == TARGET


@POSIX
@pytest.mark.parametrize("name", ["state.sqlite", "state.sqlite-wal", "state.sqlite-shm"])
def test_a_database_is_not_reached_through_a_link(tmp_path, name) -> None:
    (tmp_path / "target").write_bytes(TARGET)
    (tmp_path / name).symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="symbolic link"):
        disk.private_database(tmp_path / "state.sqlite")
    assert (tmp_path / "target").read_bytes() == TARGET


@POSIX
def test_a_new_file_takes_the_place_of_what_was_planted(tmp_path) -> None:
    (tmp_path / "target").write_bytes(TARGET)
    for name in ("a", "b", "b.new"):
        (tmp_path / name).symlink_to(tmp_path / "target")
    (tmp_path / "c").hardlink_to(tmp_path / "target")
    for name in ("a", "c"):
        with disk.new_private(tmp_path / name) as file:
            file.write(b"mine")
    disk.write_private(tmp_path / "b", b"mine")
    assert {(tmp_path / n).read_bytes() for n in "abc"} == {b"mine"}
    assert not any((tmp_path / n).is_symlink() for n in "abc")
    assert (tmp_path / "target").read_bytes() == TARGET
    assert not (tmp_path / "b.new").exists()


@POSIX
def test_a_folder_may_be_a_link_of_ones_own_but_not_of_another_user(tmp_path, monkeypatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    disk.private_folder(tmp_path / "link")
    made_by = (tmp_path / "link").lstat().st_uid
    monkeypatch.setattr(disk, "_trusted", lambda owner: owner != made_by)
    with pytest.raises(OSError, match="another user made"):
        disk.private_folder(tmp_path / "link")


@pytest.mark.parametrize("what", ["a file", "a dangling link"])
def test_what_is_no_folder_is_refused(tmp_path, what) -> None:
    if what == "a file":
        (tmp_path / "s").write_bytes(b"")
    else:
        (tmp_path / "s").symlink_to(tmp_path / "nothing")
    with pytest.raises(OSError, match="no folder"):
        disk.private_folder(tmp_path / "s")


def test_a_file_is_whole_or_the_old_one(tmp_path, monkeypatch) -> None:
    path = tmp_path / "a"
    disk.write_private(path, b"old")

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            disk.write_private(path, b"new")
    assert path.read_bytes() == b"old"
    disk.write_private(path, b"new")
    assert path.read_bytes() == b"new" and [p.name for p in tmp_path.iterdir()] == ["a"]


# -- locks -------------------------------------------------------------------------------------

_HOLD = """
import sys
from pathlib import Path
from onkel.app.disk import lock_folder
handle = lock_folder(Path(sys.argv[1]))
print("locked", flush=True)
sys.stdin.read()
"""


def test_a_lock_names_its_holder_and_survives_the_removal_of_every_file(tmp_path) -> None:
    full = [sys.executable, "-c", _HOLD, str(tmp_path)]
    other = subprocess.Popen(full, stdin=-1, stdout=-1, env=environment())
    assert other.stdin is not None and other.stdout is not None
    try:
        assert other.stdout.readline().strip() == b"locked"
        for path in tmp_path.iterdir():
            path.unlink()
        with pytest.raises(disk.InUse) as refused:
            disk.lock_folder(tmp_path)
    finally:
        other.communicate()
    known = os.path.exists("/proc/locks")
    assert f"process {other.pid}" in str(refused.value) or not known
    os.close(disk.lock_folder(tmp_path))  # it ended with the process


def test_a_folder_that_was_moved_away_is_no_longer_held(tmp_path) -> None:
    folder = tmp_path / "s"
    folder.mkdir()
    handle = disk.lock_folder(folder)
    assert disk.holds(handle, folder)
    folder.rename(tmp_path / "moved")
    assert not disk.holds(handle, folder)
    folder.mkdir()
    assert not disk.holds(handle, folder)
    os.close(handle)


@POSIX
def test_where_a_folder_cannot_be_locked_a_file_in_it_is(tmp_path, monkeypatch) -> None:
    real = disk.try_lock

    def on_nfs(handle: int) -> bool:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(9, "Bad file descriptor")
        return real(handle)

    monkeypatch.setattr(disk, "try_lock", on_nfs)
    handle = disk.lock_folder(tmp_path)
    assert mode(tmp_path / "lock") == 0o600 and disk.holds(handle, tmp_path)
    with pytest.raises(disk.InUse):
        disk.lock_folder(tmp_path)
    os.close(handle)


def test_it_can_be_imported_on_windows(monkeypatch) -> None:
    """Without fcntl, O_NOFOLLOW, O_DIRECTORY and geteuid; msvcrt stands in for a lock."""
    real = builtins.__import__

    def without(name, *rest):
        if name == "fcntl":
            raise ImportError(name)
        return real(name, *rest)

    for name in ("O_NOFOLLOW", "O_DIRECTORY", "O_NONBLOCK", "O_CLOEXEC", "geteuid", "fchmod"):
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setitem(sys.modules, "msvcrt", type(sys)("msvcrt"))
    monkeypatch.setattr(builtins, "__import__", without)
    found = importlib.util.spec_from_file_location("disk_on_windows", disk.__file__)
    assert found is not None and found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    module.sync_folder(Path("nowhere"))
