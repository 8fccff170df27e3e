"""What was read must still be there: a run that goes on looks, and never reads in mid-line."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
from dataclasses import replace

import numpy as np
import pytest
from helpers.reading import broken

from onkel.streams.sources import Reading, SourceError, feed, open_source, trail
from onkel.streams.sources.trail import Trail

HOW = Reading(durable=True, size=64)
PACK = {
    "csv": bytes, "csv.gz": lambda data: gzip.compress(data, mtime=0),  # else it tells the second
    "csv.bz2": bz2.compress, "csv.xz": lzma.compress,
}  # fmt: skip


def text(rng, rows: int, end: bytes = b"\n") -> bytes:
    return (
        b"a,b\n" + b"\n".join(b"%d,%d" % tuple(r) for r in rng.integers(100, 999, (rows, 2))) + end
    )


def half(path, how: Reading = HOW, blocks: int = 4):
    """Return memo and position of a run that has read some blocks."""
    source = open_source(str(path), how)
    found = [block for block, _ in zip(source.blocks(), range(blocks), strict=False)]
    source.close()
    return source.memo(), json.loads(json.dumps(found[-1].position))


def rest(path, known, how: Reading = HOW) -> np.ndarray:
    source = open_source(str(path), how, *known)
    return np.concatenate([np.zeros((0, 2)), *(b.X for b in source.blocks() if b is not None)])


@pytest.mark.parametrize("kind", PACK)
def test_a_row_that_was_changed_behind_the_first_bytes(rng, tmp_path, kind) -> None:
    path, data = tmp_path / f"rows.{kind}", text(rng, 3000)
    path.write_bytes(PACK[kind](data))
    known = half(path, blocks=20)
    assert known[1]["offset"] > 8000
    at = data.index(b"\n", 6000) + 1
    for new in (b"7", b"1234567,"):  # as long as before, and longer
        path.write_bytes(PACK[kind](data[:at] + new + data[at + 1 :]))
        with pytest.raises(SourceError, match=r"another --state") as told:
            open_source(str(path), HOW, *known)
        packed = kind != "csv" and "it begins differently" in str(told.value)
        assert packed or "was changed since it was read: between its bytes 0 and" in str(told.value)


def test_where_a_file_was_changed_is_told(rng, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(trail, "FIRST", 2**12)
    path, data = tmp_path / "rows.csv", text(rng, 3000)
    path.write_bytes(data)
    known = half(path, blocks=40)
    marks = [at for at, _ in known[1]["marks"]]
    steps = np.diff([0, *marks])
    assert len(marks) >= 3 and min(steps) >= 2**12 and max(steps) < 2**13
    path.write_bytes(data[: marks[1] - 9] + b"x" + data[marks[1] - 8 :])
    with pytest.raises(SourceError, match=f"between its bytes {marks[0]} and {marks[1]} "):
        open_source(str(path), HOW, *known)


def test_marks_become_rarer_and_never_many() -> None:
    found = Trail()
    for i in range(1, 2000):
        found.add(bytes(trail.FIRST // 8))
        found.sum(i * trail.FIRST // 8)
    marks = [at for at, _ in found.upto(1999 * trail.FIRST // 8)["marks"]]
    assert trail.MOST // 2 <= len(marks) < trail.MOST and set(np.diff(marks)) == {8 * trail.FIRST}


@pytest.mark.parametrize("kind", PACK)
def test_what_was_added_and_what_comes_later_may_differ(rng, tmp_path, kind) -> None:
    path, data = tmp_path / f"rows.{kind}", text(rng, 3000)
    path.write_bytes(PACK[kind](data))
    known = half(path, blocks=20)
    end = known[1]["offset"]
    others = text(rng, 500)[4:]
    path.write_bytes(PACK[kind](data[:end] + others))
    if kind == "csv":
        truth = np.array([row.split(b",") for row in others.split()], float)
        np.testing.assert_array_equal(rest(path, known), truth)
    path.write_bytes(PACK[kind](data))
    path.write_bytes(path.read_bytes() + PACK[kind](others))
    assert len(rest(path, known)) == 3000 + 500 - known[1]["row"]


@pytest.mark.parametrize("kind", PACK)
def test_every_position_goes_on_and_knows_the_same(rng, tmp_path, kind) -> None:
    path = tmp_path / f"rows.{kind}"
    data = text(rng, 900).replace(b"\n", b"\n\n\nbroken\n", 90)
    path.write_bytes(PACK[kind](data + b"9" * 30_000 + b"\n1,2\n"))
    how = replace(HOW, longest=1000)
    source = open_source(str(path), how)
    blocks = list(source.blocks())
    for i, block in enumerate(blocks):
        again = list(open_source(str(path), how, source.memo(), block.position).blocks())
        for a, b in zip(again, blocks[i + 1 :], strict=True):
            assert a.position["read"] == b.position["read"] and a.bad == b.bad
            assert a.position["offset"] == b.position["offset"]
            np.testing.assert_array_equal(a.X, b.X)
    assert "too long" in broken(blocks)[-1][1]


def test_a_pipe_that_begins_anew_with_something_else(rng, monkeypatch) -> None:
    def piped(data: bytes, *known):
        out, into = os.pipe()
        os.write(into, data)
        os.close(into)
        monkeypatch.setattr(feed, "_stdin", lambda: out)
        how = Reading(durable=True, replay=True, size=64, patience=0.01)
        source = open_source("-", how, *known)
        return source, [b for b in source.blocks() if b is not None]

    data = text(rng, 200)
    source, blocks = piped(data)
    known = source.memo(), blocks[1].position
    assert [b.first for b in piped(data, *known)[1]] == [b.first for b in blocks[2:]]
    with pytest.raises(SourceError, match="something else than before in its first"):
        piped(data[:50] + b"7" + data[51:], *known)
    with pytest.raises(SourceError, match="less than what was read"):
        piped(data[:50], *known)


def test_a_parquet_file_that_was_changed(rng, tmp_path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install onkel[arrow]")
    from pyarrow import parquet

    path, X = tmp_path / "rows.parquet", rng.normal(size=(5000, 2))
    X[0], X[1] = 9, -9

    def write() -> None:
        table = pyarrow.table({"a": X[:, 0], "b": X[:, 1]})
        parquet.write_table(table, path, use_dictionary=False, compression="none")

    write()
    known = half(path)
    assert len(rest(path, known)) == 5000 - known[1]["row"]
    X[100, 1] = 0.5  # as many bytes, as small and large a number: the footer is the same
    write()
    with pytest.raises(SourceError, match="it was changed since"):
        open_source(str(path), HOW, *known)


def test_a_trail_knows_bytes_wherever_they_were_cut(rng) -> None:
    data = bytes(rng.integers(0, 256, 5000, dtype=np.uint8))
    truth = Trail()
    truth.add(data)
    ends = sorted(rng.integers(0, 5000, 40).tolist())
    known = [truth.sum(end) for end in ends]
    other, at = Trail(), 0
    for end, total in zip(ends, known, strict=True):
        while at < end:  # one piece beyond what is asked for, some of them within a long line
            step = int(rng.integers(1, 300))
            other.add(data[at : at + step])
            at += step
            if at < end and rng.random() < 0.5:
                other.leap()
        assert other.sum(end) == total


# -- the last line -----------------------------------------------------------------------------


def test_a_last_line_without_an_end_is_left_for_the_next_run(tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,2\n3,4\n5,")
    source = open_source(str(path), HOW)
    blocks = list(source.blocks())
    assert blocks[-1].X.tolist() == [[1, 2], [3, 4]] and blocks[-1].bad == []
    assert source.warnings() == [
        "the last line (2 bytes) has no line end: it is left for the next run"
    ]
    known = source.memo(), blocks[-1].position
    assert rest(path, known).tolist() == []
    path.write_text("a,b\n1,2\n3,4\n5,6\n7,8")
    source = open_source(str(path), HOW, *known)
    (block,) = source.blocks()
    assert block.X.tolist() == [[5, 6]] and block.position["line"] == 4
    path.write_text("a,b\n1,2\n3,4\n5,6\n7,89\n")
    assert rest(path, (source.memo(), block.position)).tolist() == [[7, 89]]


def test_whoever_reads_once_reads_the_last_line_too(tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b\n1,2\n3,4")
    source = open_source(str(path))
    assert [b.X.tolist() for b in source.blocks()] == [[[1, 2], [3, 4]]] and not source.warnings()
    path.write_text("a,b\n1,2\n3")
    assert broken(list(open_source(str(path)).blocks())) == [(3, "1 columns where 2 were expected")]


def test_a_header_without_an_end_is_no_header_yet(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text("a,b")
    with pytest.raises(SourceError, match="no line yet that is finished"):
        open_source(str(tmp_path / "rows.csv"), HOW)
