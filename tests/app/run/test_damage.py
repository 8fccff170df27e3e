"""A damaged state is refused, or goes on to the very result; it never goes astray in silence."""

from __future__ import annotations

import shutil
import sqlite3
import zlib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from helpers.runs_of import onkel, write_rows
from helpers.sizes import size

from onkel.app.run.checkpoint import State

HOW = ["--model", "kernel", "--window", 20, "--warmup", 0, "--nu", 0.2, "--block", 64, "--every", 0]
FILES = ("out", "s/dead_letters.jsonl")


class Half:
    """A run that has done half of its rows, and what it comes to; `again` goes on from a copy."""

    def __init__(self, folder: Path, rng, *more: object) -> None:
        self.folder, self.more = folder, more
        X, keys = rng.normal(size=(300, 2)), [f"k{i % 3}" for i in range(300)]
        path = write_rows(folder / "whole.csv", X, who=keys)
        lines = path.read_text().splitlines(keepends=True)
        lines[70], lines[200] = "broken\n", "broken,too\n"
        self.source, self.whole = folder / "rows.csv", "".join(lines)
        self.source.write_text("".join(lines[:129]))  # a whole number of blocks
        self.work = folder / "work"
        self.work.mkdir()
        assert self.go() == 0
        shutil.copytree(self.work, folder / "half")
        self.source.write_text(self.whole)
        assert self.go() == 0
        self.truth = self.outcome()

    def go(self) -> int:
        """Run; return the exit code."""
        words = ["detect", self.source, "--state", self.work / "s", "-o", self.work / "out"]
        self.done = onkel(*words, *HOW, *self.more, "--json")
        return self.done.exit_code

    def outcome(self) -> tuple[object, ...]:
        """Return what a run has come to: files, counts, and the bits of its models."""
        state = State(self.work / "s", writable=False)
        last = state.kept()[0]
        state.close()
        marks = {k: (p.length, p.checksum) for k, p in last.places.items()}
        files = [(self.work / name).read_bytes() for name in FILES]
        return (*files, last.checkpoint.position, last.checkpoint.counters, marks)

    def again(self, harm) -> int:
        """Do harm to a copy of the half-done state and go on: 4, or 0 and the right outcome."""
        shutil.rmtree(self.work)
        shutil.copytree(self.folder / "half", self.work)
        harm(self.work / "s")
        code = self.go()
        if code == 0:
            assert self.outcome() == self.truth, "another outcome, and not a word about it"
        else:
            assert code == 4, (code, self.done.output, self.done.exception)
            assert "state.sqlite" in self.done.stderr or "models-" in self.done.stderr
        return code


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """One for all: each test goes on from a copy of its own."""
    return Half(tmp_path_factory.mktemp("half"), np.random.default_rng(zlib.crc32(b"damage")))


def flip(name: str, at: int, bit: int = 1):
    def harm(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[at] ^= bit
        (folder / name).write_bytes(data)

    return harm


def sql(*orders: str):
    def harm(folder: Path) -> None:
        db = sqlite3.connect(folder / "state.sqlite")
        for order in orders:
            db.execute(order)
        db.commit()
        db.close()

    return harm


def test_an_undamaged_half_goes_on(half) -> None:
    assert half.again(lambda folder: None) == 0


def test_every_flipped_byte_of_the_database_is_harmless_or_noticed(half, rng) -> None:
    data = (half.folder / "half" / "s" / "state.sqlite").read_bytes()
    written = [i for i, byte in enumerate(data) if byte]
    few = rng.choice(written, size(60, min(1500, len(written))), replace=False).tolist()
    bits = rng.choice([1, 2, 4, 128], len(few)).tolist()
    codes = [half.again(flip("state.sqlite", *at)) for at in zip(few, bits, strict=True)]
    assert codes.count(4) > len(codes) // 2


def test_every_flipped_byte_of_a_model_is_harmless_or_noticed(half, rng) -> None:
    (path,) = {p.name for p in (half.folder / "half" / "s").glob("models-2.onkel")}
    length = (half.folder / "half" / "s" / path).stat().st_size
    for at in rng.choice(length, size(5, 100), replace=False).tolist():
        assert half.again(flip(path, at)) == 0  # the generation before takes over


def test_a_flipped_digit_of_the_offset_is_noticed(half) -> None:
    db = sqlite3.connect(half.folder / "half" / "s" / "state.sqlite")
    (text,) = db.execute("SELECT data FROM checkpoints ORDER BY generation DESC").fetchone()
    db.close()
    at = text.index('"offset": ') + len('"offset": ')
    digit = str((int(text[at]) + 1) % 10)
    change = f"replace(data, '{text[:at]}{text[at]}', '{text[:at]}{digit}')"
    assert half.again(sql(f"UPDATE checkpoints SET data = {change}")) == 4
    assert "checkpoint" in half.done.stderr and "Restore the folder" in half.done.stderr


@pytest.mark.parametrize("keyed", [[], ["--key", "who"]], ids=["one", "keys"])
def test_tables_and_rows_that_are_gone_are_noticed(rng, tmp_path, keyed) -> None:
    half = Half(tmp_path, rng, *keyed)
    db = sqlite3.connect(tmp_path / "half" / "s" / "state.sqlite")
    names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    notes = [name for (name,) in db.execute("SELECT name FROM meta")]
    models = db.execute("SELECT hex(key), generation FROM models").fetchall()
    generations = [g for (g,) in db.execute("SELECT generation FROM checkpoints")]
    db.close()
    assert len(names) == 3 and len(notes) >= 4 and len(models) >= 2 and len(generations) == 2
    orders = [[f"DROP TABLE {name}"] for name in names]
    orders += [[f"DELETE FROM {name}"] for name in names]
    orders += [[f"DROP TABLE {name}" for name in names], [f"DELETE FROM {name}" for name in names]]
    orders += [[f"DELETE FROM meta WHERE name = '{name}'"] for name in notes]
    orders += [
        [f"DELETE FROM models WHERE hex(key) = '{k}' AND generation = {g}"] for k, g in models
    ]
    for order in orders:
        assert half.again(sql(*order)) == 4, order
    for generation in generations:
        half.again(sql(f"DELETE FROM checkpoints WHERE generation = {generation}"))


@pytest.mark.parametrize(
    "change",
    ["UPDATE models SET start = start + 1", "UPDATE models SET generation = generation + 5",
     "UPDATE models SET length = 1.5", "UPDATE models SET checksum = x'00'",
     "UPDATE meta SET value = '\"double\"' WHERE name = 'precision'",
     "UPDATE checkpoints SET generation = generation + 5",
     "INSERT INTO models VALUES ('other', 1, 0, 10, 0)", "CREATE TABLE more (a)",
     "CREATE TRIGGER t AFTER INSERT ON models BEGIN DELETE FROM meta; END",
     "PRAGMA user_version = 4", "PRAGMA user_version = 99", "PRAGMA application_id = 5"],
)  # fmt: skip
def test_changed_rows_are_noticed(half, change) -> None:
    assert half.again(sql(change)) == 4


def test_a_value_of_another_type_is_noticed(half) -> None:
    """As a flipped bit may make one of a text or a number."""
    cells = {
        "meta": ["name", "value", "digest"], "checkpoints": ["data", "digest"],
        "models": ["key", "generation", "start", "length", "checksum"],
        "sqlite_master": ["name", "sql", "type", "tbl_name"],
    }  # fmt: skip
    for table, column in ((t, c) for t, columns in cells.items() for c in columns):
        change = f"UPDATE {table} SET {column} = CAST({column} AS BLOB)"
        harm = sql("PRAGMA writable_schema = ON", change)
        noticed = half.again(harm) == 4
        assert noticed or column in ("type", "tbl_name"), (table, column)  # SQLite minds neither


def test_a_database_that_is_gone_or_empty_is_no_new_one(half) -> None:
    def cut(folder: Path) -> None:
        (folder / "state.sqlite").write_bytes(b"")

    for harm in (lambda folder: (folder / "state.sqlite").unlink(), cut):
        assert half.again(harm) == 4
        assert (half.work / "out").read_bytes() == (half.folder / "half" / "out").read_bytes()


def test_a_log_of_the_database_that_is_damaged_or_gone(tmp_path, rng) -> None:
    half = Half(tmp_path, rng)
    """After a kill the newest checkpoints lie in the file beside the database."""
    shutil.rmtree(half.work)
    shutil.copytree(half.folder / "half", half.work)
    state = State(half.work / "s")  # as a run that goes on: what it writes is in the log
    for _ in range(3):
        state.store.put("", state.store.get("") or b"")
        state.commit(state.last)
    shutil.rmtree(half.folder / "half")
    shutil.copytree(half.work, half.folder / "half")
    state.close()
    log = (half.folder / "half" / "s" / "state.sqlite-wal").read_bytes()
    assert half.again(lambda folder: None) == 0
    half.again(lambda folder: (folder / "state.sqlite-wal").unlink())
    for at in rng.choice(len(log), size(10, 300), replace=False).tolist():
        half.again(flip("state.sqlite-wal", at))


def test_a_model_of_another_generation_in_a_files_place_is_noticed(half) -> None:
    def swap(folder: Path) -> None:
        (folder / "models-2.onkel").write_bytes((folder / "models-1.onkel").read_bytes())

    assert half.again(swap) == 0  # the generation before takes over
