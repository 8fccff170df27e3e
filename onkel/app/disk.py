"""Folders on disk that hold a state: whose they are, who may read them, when files are safe.

One rule about links: what lies *inside* a state's folder is never reached through a symbolic link.
The folder itself, and whatever else a user names, may be one if that user or root has made it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import stat
import sys
from pathlib import Path
from typing import BinaryIO

KINDS = {
    "a run (onkel detect, classify, regress)": 0x6F6E6B01,
    "a service (onkel serve)": 0x6F6E6B02,
    "answers to a run's alerts": 0x6F6E6B03,
}
RUN, SERVICE, ANSWERS = KINDS
FOLDER, FILE = 0o700, 0o600
"""Modes of what is made here, whatever the umask."""

# What Windows does not know is left out there.
_NEVER_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_ALWAYS = (
    _NEVER_FOLLOW | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    | getattr(os, "O_NONBLOCK", 0)
)  # fmt: skip


class InUse(RuntimeError):
    """Another process works on this folder."""


def claim(db: sqlite3.Connection, kind: str) -> str:
    """Mark a new database as one of a kind; return what is wrong with an old one, if something is.

    Examples
    --------
    >>> db = sqlite3.connect(":memory:")
    >>> claim(db, RUN), claim(db, SERVICE)
    ('', 'it is the state of a run (onkel detect, classify, regress)')
    """
    (found,) = db.execute("PRAGMA application_id").fetchone()
    (tables,) = db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    if found == 0 and tables == 0:
        db.execute(f"PRAGMA application_id = {KINDS[kind]}")
        return ""
    whose = {number: name for name, number in KINDS.items()}.get(found)
    if whose == kind:
        return ""
    return f"it is the state of {whose}" if whose else "it is no database of onkel"


# -- folders -----------------------------------------------------------------------------------


def private_folder(folder: Path) -> None:
    """Make a folder that only its owner may enter, with all above it; one that is there stays.

    A folder that was there before keeps the mode that somebody gave it; files in it are private
    all the same.
    """
    check_link(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        folder.mkdir(FOLDER)
    except FileExistsError:
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "is no folder", str(folder)) from None
    else:
        folder.chmod(FOLDER)  # the umask may have taken from it


def check_link(path: Path) -> None:
    """Raise OSError if a path's last part is a symbolic link that another user has made."""
    try:
        found = path.lstat()
    except OSError:  # whoever opens it will say what is wrong
        return
    if stat.S_ISLNK(found.st_mode) and not _trusted(found.st_uid):
        raise OSError(
            errno.ELOOP, "is a symbolic link that another user made, and not followed", str(path)
        )


def _trusted(owner: int) -> bool:
    return not hasattr(os, "geteuid") or owner in (0, os.geteuid())


def sync_folder(folder: Path) -> None:
    """Wait until the disk knows the folder's files by name."""
    if sys.platform == "win32":  # a folder cannot be opened there; its journal keeps the order
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


# -- locks -------------------------------------------------------------------------------------


def lock_folder(folder: Path) -> int:
    """Lock a folder until the returned descriptor is closed, or raise InUse with who holds it.

    The lock is on the folder itself: there is no file of its own that somebody might remove. Where
    folders cannot be locked (Windows, NFS) a file in it, ``lock``, stands for it.
    """
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return _taken(handle, folder)
        except OSError:
            os.close(handle)
    return _taken(open_private(folder / "lock", os.O_RDWR | os.O_CREAT), folder)


def is_locked(folder: Path) -> bool | None:
    """Whether a process holds a folder's lock, which is not touched; None where nobody tells."""
    if not Path("/proc/locks").exists():
        return None
    return any(_held(path) for path in (folder, folder / "lock") if path.exists())


def _held(path: Path) -> bool:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return holder(handle) != _SOMEBODY
    finally:
        os.close(handle)


def _taken(handle: int, folder: Path) -> int:
    if try_lock(handle):
        return handle
    who = holder(handle)
    os.close(handle)
    raise InUse(f"{folder} is in use by {who}")


def holds(handle: int, folder: Path) -> bool:
    """Whether the folder with this name is still the one that was locked."""
    locked = os.fstat(handle)
    if not stat.S_ISDIR(locked.st_mode):
        folder = folder / "lock"
    try:
        return os.path.samestat(locked, folder.stat())
    except OSError:
        return False


if sys.platform == "win32":
    import msvcrt

    def try_lock(handle: int) -> bool:
        """Lock what is open until it is closed; return False if another process has it."""
        at = os.lseek(handle, 0, os.SEEK_CUR)
        os.lseek(handle, 1 << 40, os.SEEK_SET)  # behind all bytes: others may read those
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(handle, at, os.SEEK_SET)
        return True

else:
    import fcntl

    def try_lock(handle: int) -> bool:
        """Lock what is open until it is closed; return False if another process has it."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


_SOMEBODY = "another process"


def holder(handle: int) -> str:
    """Return who has locked what is open, as far as it is known."""
    found = os.fstat(handle)
    with contextlib.suppress(OSError, AttributeError):  # only Linux tells, and not everywhere
        device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        for line in Path("/proc/locks").read_text("ascii").splitlines():
            _, kind, _, _, process, place, *_ = line.split()
            if kind == "FLOCK" and place == device and int(process) > 0:
                return f"process {process}"
    return _SOMEBODY


# -- files -------------------------------------------------------------------------------------


def open_private(path: Path, flags: int) -> int:
    """Open a file of a state as ``os.open`` does: for its owner alone, a link is not followed.

    One that others could read is closed to them. What is no plain file (a link, a pipe, a folder)
    raises OSError.
    """
    try:
        handle = os.open(path, flags | _ALWAYS, FILE)
    except OSError as error:
        if path.is_symlink():
            raise OSError(
                errno.ELOOP, "is a symbolic link, which is not followed", str(path)
            ) from None
        raise error
    try:
        _make_private(handle, path)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _make_private(handle: int, path: Path) -> None:
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode) or (not _NEVER_FOLLOW and path.is_symlink()):
        raise OSError(errno.EINVAL, "is no plain file", str(path))
    if stat.S_IMODE(mode) != FILE and sys.platform != "win32":
        with contextlib.suppress(PermissionError):  # another's file, lent to us: it stays as it is
            os.fchmod(handle, FILE)


def new_private(path: Path) -> BinaryIO:
    """Return a new private file, open to write and read; what had its name is gone, unopened."""
    path.unlink(missing_ok=True)
    handle = open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    return os.fdopen(handle, "w+b")


def read_private(path: Path) -> bytes:
    """Return what a file of a state holds; a link is not followed."""
    with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
        return file.read()


def write_private(path: Path, data: bytes) -> None:
    """Write a private file: under its name lies the old one or the new one, whole, at any time."""
    draft = path.with_name(path.name + ".new")
    with new_private(draft) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def private_database(path: Path, new: bool = True) -> None:
    """Check a database's files, before SQLite opens them: private, no links; or make a new one.

    SQLite gives the files beside a database the database's own mode.
    """
    os.close(open_private(path, os.O_RDONLY | (os.O_CREAT if new else 0)))
    for end in ("-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.close(open_private(path.with_name(path.name + end), os.O_RDONLY))
