"""Which file is which: told by its number and how it begins, whatever it is called now."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import stat
from pathlib import Path
from typing import Any

PRINT = 4096
"""So many bytes at the start of a file tell it from others."""
_PACKED = (".gz", ".bz2", ".xz", ".zst")
_TURNED = re.compile(r"[.\-_]?[0-9][0-9T:._-]*(?:\.(?:gz|bz2|xz|zst))?")
"""What rotation adds to a name: a number or a date, and the ending of a packed file."""


def fingerprint(file: Any, size: int = PRINT) -> tuple[int, str]:
    """Return how many bytes a file begins with (up to `size`), and their digest."""
    head = os.pread(file.fileno(), size, 0)
    return len(head), hashlib.sha256(head).hexdigest()[:16]


def digest(path: Path) -> str:
    """Return a digest of a whole file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:32]


def agrees(file: Any, position: dict[str, Any]) -> bool:
    """Whether a file begins as the one that a position belongs to."""
    known = position.get("head", 0), position.get("digest")
    return fingerprint(file, known[0]) == known


def located(path: Path, position: dict[str, Any]) -> Path | None:
    """Return where the file of a position is now, itself or a copy of it that was left."""
    beside = [(other, found) for other, found in _beside(path) if _holds(other, position)]
    same = [other for other, found in beside if found.st_ino == position.get("inode")]
    copies = [other for other, _ in beside if other == path or _added(path, other)]
    return next(iter(same + copies), None)


def copied(path: Path, offset: int, before: bytes) -> Path | None:
    """Return a file that rotation has left and that has these bytes before an offset.

    What a file was copied to before it was cut: the rows behind the offset are there only.
    """
    start = offset - len(before)
    for other, _ in _beside(path):
        with contextlib.suppress(OSError), open(other, "rb") as file:
            if _added(path, other) and os.pread(file.fileno(), len(before), start) == before:
                return other
    return None


def following(path: Path, finished: os.stat_result) -> tuple[Path, list[str]]:
    """Return the file to read after a finished one, and the names of those that cannot be.

    That is the oldest of those that were rotated later, else what has the name now.
    """
    beside = _beside(path)
    if (path, finished.st_ino) in [(other, found.st_ino) for other, found in beside]:
        return path, []  # cut to nothing: what was rotated is a copy
    newer = sorted(
        (found.st_mtime_ns, other) for other, found in beside
        if found.st_mtime_ns > finished.st_mtime_ns and found.st_ino != finished.st_ino
        and _added(path, other)
    )  # fmt: skip
    packed = [other for _, other in newer if other.suffix in _PACKED]
    plain = [other for _, other in newer if other not in packed]
    return next(iter(plain), path), [other.name for other in packed]


def _beside(path: Path) -> list[tuple[Path, os.stat_result]]:
    """Return the file first, and those whose names begin with its name."""
    there = path.parent.iterdir() if path.parent.is_dir() else ()
    found = []
    for other in sorted(o for o in there if o.name.startswith(path.name)):
        with contextlib.suppress(FileNotFoundError):  # renamed while we look
            found.append((other, other.stat()))
    return sorted((e for e in found if stat.S_ISREG(e[1].st_mode)), key=lambda e: e[0] != path)


def _added(path: Path, other: Path) -> re.Match[str] | None:
    return _TURNED.fullmatch(other.name.removeprefix(path.name))


def _holds(path: Path, position: dict[str, Any]) -> bool:
    """Whether a file begins as the known one, and is as long at least."""
    try:
        with open(path, "rb") as file:
            long = os.fstat(file.fileno()).st_size >= position["offset"]
            return long and agrees(file, position)
    except OSError:
        return False
