"""A followed file that is rotated, packed, cut or replaced while nobody reads it."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from helpers.reading import FAST, broken

from onkel.streams.sources import Reading, Roles, SourceError, open_source


def follow(path: Path, *known):
    return open_source(str(path), Reading(follow=True, patience=0.01), *known)


def drain(source, quiet: int = 2) -> list[list[float]]:
    """Read until nothing came twice."""
    rows: list[list[float]] = []
    for block in source.blocks():
        quiet -= block is None
        rows += [] if block is None else block.X.tolist()
        if not quiet:
            break
    return rows


def half_read(path: Path, text: str):
    """Return memo and position of a run that has read a file and then was ended."""
    path.write_text(text)
    source = follow(path)
    block = next(source.blocks())
    source.close()
    return source.memo(), block.position


def written(path: Path, text: str, second: int) -> None:
    path.write_text(text)
    os.utime(path, (second, second))


def test_a_file_that_was_rotated_twice_meanwhile(tmp_path) -> None:
    path = tmp_path / "log.csv"
    known = half_read(path, "a\n1\n")
    path.rename(tmp_path / "log.csv.3")
    os.utime(tmp_path / "log.csv.3", (1000, 1000))
    written(tmp_path / "log.csv.4", "a\n0\n", 900)  # older: was read
    written(tmp_path / "log.csv.2", "a\n2\n", 1001)
    written(tmp_path / "log.csv.1", "a\n3\n", 1002)
    written(tmp_path / "log.csv.bak", "a\n99\n", 1003)  # nothing that rotation makes
    written(path, "a\n4\n", 1004)
    source = follow(path, *known)
    assert drain(source) == [[2], [3], [4]] and source.warnings() == []


def test_a_restart_in_the_midst_of_the_files_between(tmp_path) -> None:
    path = tmp_path / "log.csv"
    known = half_read(path, "a\n1\n")
    path.rename(tmp_path / "log.csv.2")
    os.utime(tmp_path / "log.csv.2", (1000, 1000))
    written(tmp_path / "log.csv.1", "a\n2\n", 1001)
    written(path, "a\n3\n", 1002)
    source = follow(path, *known)
    block = next(block for block in source.blocks() if block is not None)
    assert block.X.tolist() == [[2]]
    assert drain(follow(path, source.memo(), block.position)) == [[3]]


def test_what_was_packed_meanwhile_is_told(tmp_path) -> None:
    path = tmp_path / "log.csv"
    known = half_read(path, "a\n1\n")
    path.rename(tmp_path / "log.csv.2")
    os.utime(tmp_path / "log.csv.2", (1000, 1000))
    (tmp_path / "log.csv.1.gz").write_bytes(gzip.compress(b"a\n2\n"))
    path.write_text("a\n3\n")
    source = follow(path, *known)
    assert drain(source) == [[3]]
    assert source.warnings() == [
        "log.csv.1.gz was packed before it was read: its rows are left out"
    ]


def test_a_packed_file_that_takes_the_followed_name(tmp_path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("a\n1\n")
    source = follow(path)
    assert drain(source) == [[1]]
    (tmp_path / "new").write_bytes(gzip.compress(b"a\n2\n"))
    (tmp_path / "new").rename(path)
    with pytest.raises(SourceError, match="--follow takes plain files"):
        drain(source)


@pytest.mark.parametrize("fast", FAST)
@pytest.mark.parametrize("name", ["log.csv", "log"])
def test_a_rotated_file_with_its_columns_in_another_order(tmp_path, name, fast) -> None:
    path = tmp_path / name
    path.write_text("a,b,k,y\n1,2,u,3\n")
    roles = Roles("y", key="k")
    how = Reading(follow=True, patience=0.01, roles=roles, fast=fast)
    source = open_source(str(path), how)
    blocks = source.blocks()
    assert next(blocks).X.tolist() == [[1, 2]]
    path.rename(tmp_path / f"{name}.1")
    rows = "".join(f"{i},v,{10 * i},{100 * i}\n" for i in range(1, 100))
    path.write_text("y,k,b,a\n" + rows + "broken,v,1,x\n")
    found = [block for block in (next(blocks) for _ in range(6)) if block is not None]
    assert [x for b in found for x in b.X.tolist()] == [
        [100.0 * i, 10.0 * i] for i in range(1, 100)
    ]
    assert [y for b in found for y in b.y] == list(range(1, 100))
    assert {key for b in found for key in b.keys} == {"v"} and len(broken(found)) == 1
    with open(path, "a") as file:
        file.write("5,v,6,7\n")
    again = open_source(str(path), how, source.memo(), found[-1].position)
    assert drain(again) == [[7, 6]]  # the order is part of the position


def test_a_rotated_file_with_other_columns(tmp_path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("a,b\n1,2\n")
    source = follow(path)
    assert drain(source) == [[1, 2]]
    path.rename(tmp_path / "log.csv.1")
    path.write_text("a,c\n1,2\n")
    with pytest.raises(SourceError, match="other columns: c instead of b"):
        drain(source)


def test_a_file_that_is_gone_or_was_cut_begins_anew(tmp_path) -> None:
    path = tmp_path / "log.csv"
    known = half_read(path, "a\n1\n2\n")
    path.write_text("a\n7\n")  # cut, and shorter than what was read
    source = follow(path, *known)
    block = next(source.blocks())
    assert block.X.tolist() == [[7]] and block.first == 2 and block.position["line"] == 2
    assert ["read from its start" in warning for warning in source.warnings()] == [True]
    path.unlink()
    (tmp_path / "other").write_text("nobody")  # takes the number that became free
    path.write_text("a\n8\n9\n10\n")
    assert drain(follow(path, *known)) == [[8], [9], [10]]


def test_what_was_copied_before_it_was_cut_is_finished(tmp_path) -> None:
    path = tmp_path / "log.csv"
    known = half_read(path, "a\n1\n")
    (tmp_path / "log.csv.1").write_text("a\n1\n2\n")
    path.write_text("a\n3\n")
    source = follow(path, *known)
    assert drain(source) == [[2], [3]] and source.warnings() == []
