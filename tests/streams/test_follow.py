"""A file that grows: appended to, rotated, cut to nothing, and found again after a restart."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from onkel.streams.sources import Reading, Roles, SourceError, open_source


def drain(blocks, most: int = 20) -> list[float]:
    """Read until nothing came twice."""
    found: list[float] = []
    quiet = 0
    while quiet < 2 and most:
        block = next(blocks)
        most -= 1
        quiet = 0 if block is not None else quiet + 1
        found += [] if block is None else block.X[:, 0].tolist()
    return found


def follow(path: Path, *known):
    return open_source(str(path), Reading(follow=True, patience=0.01, roles=Roles()), *known)


def test_appended_rows_come_when_their_line_is_whole(tmp_path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("a\n1\n")
    blocks = follow(path).blocks()
    assert drain(blocks) == [1]
    with open(path, "a") as file:
        file.write("2\n3")
        file.flush()
        assert drain(blocks) == [2]
        file.write("3\n")
        file.flush()
        assert drain(blocks) == [33]


def test_rotation_by_renaming_loses_nothing(tmp_path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("a\n1\n")
    blocks = follow(path).blocks()
    assert drain(blocks) == [1]
    with open(path, "a") as file:
        file.write("2\n")
    os.rename(path, tmp_path / "log.csv.1")
    with open(tmp_path / "log.csv.1", "a") as file:
        file.write("3\n")
    assert drain(blocks) == [2, 3]
    path.write_text("a\n4\n5\n")  # with a header again
    assert drain(blocks) == [4, 5]
    os.rename(path, tmp_path / "log.csv.2")
    path.write_text("6\n")  # without one
    assert drain(blocks) == [6]


def test_rotation_by_cutting(tmp_path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("a\n1\n22222\n")
    blocks = follow(path).blocks()
    assert drain(blocks) == [1, 22222]
    path.write_text("a\n3\n")
    assert drain(blocks) == [3]


def test_a_restart_finds_the_file_that_was_rotated_meanwhile(tmp_path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("a\n1\n")
    source = follow(path)
    block = next(source.blocks())
    with open(path, "a") as file:
        file.write("2\n")
    os.rename(path, tmp_path / "log.csv.1")
    path.write_text("a\n3\n")
    again = follow(path, source.memo(), block.position).blocks()
    assert drain(again) == [2, 3]


def test_a_file_that_was_cut_and_has_grown_again_between_two_looks(tmp_path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("a\n1\n2\n")
    source = follow(path)
    blocks = source.blocks()
    assert drain(blocks) == [1, 2]
    path.write_text("a\n3\n4\n5\n6\n")  # longer than before: only its bytes tell
    assert drain(blocks) == [3, 4, 5, 6]
    assert ["was cut" in warning for warning in source.warnings()] == [True]


def test_what_was_copied_before_the_cut_is_read_to_its_end(tmp_path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("a\n1\n2\n3")
    source = follow(path)
    blocks = source.blocks()
    assert drain(blocks) == [1, 2]  # the last line is in the midst
    (tmp_path / "log.csv.1").write_text("a\n1\n2\n33\n4\n")
    path.write_text("a\n5\n6\n7\n8\n9\n")
    assert drain(blocks) == [33, 4, 5, 6, 7, 8, 9] and source.warnings() == []


def test_a_followed_file_that_becomes_something_else(tmp_path) -> None:
    for name, make in (("fifo", os.mkfifo), ("directory", os.mkdir)):
        path = tmp_path / f"{name}.csv"
        path.write_text("a\n1\n")
        blocks = follow(path).blocks()
        assert drain(blocks) == [1]
        path.unlink()
        make(path)
        with pytest.raises(SourceError, match=r"is a (named pipe|directory), where a file"):
            drain(blocks)
