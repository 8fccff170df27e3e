"""Folders on disk that hold a state: whose they are, and when their files are safe."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

KINDS = {
    "a run (onkel detect, classify, regress)": 0x6F6E6B01,
    "a service (onkel serve)": 0x6F6E6B02,
}
RUN, SERVICE = KINDS


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


def sync_folder(folder: Path) -> None:
    """Wait until the disk knows the folder's files by name."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
