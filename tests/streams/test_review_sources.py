"""What a review of the sources found: each fails without its remedy. By the findings' numbers."""

from __future__ import annotations

import gzip
import importlib.util
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from onkel.streams import sources
from onkel.streams.sources import Reading, Roles, Schema, SourceError, Stopped, feed, open_source
from onkel.streams.sources.delimited import Delimited
from onkel.streams.sources.feed import PipeFeed
from onkel.streams.sources.source import TextSource

FAST = [False]
if all(importlib.util.find_spec(name) for name in ("pyarrow", "msgspec")):
    FAST.append(True)


def read(path: Path, **how: object) -> tuple[sources.Source, list[sources.Block]]:
    source = open_source(str(path), Reading(**how))  # type: ignore[arg-type]
    blocks = [block for block in source.blocks() if block is not None]
    source.close()
    return source, blocks


def broken(blocks: list[sources.Block]) -> list[tuple[int, str]]:
    return [(bad.line, bad.reason) for block in blocks for bad in block.bad]


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


# -- files that grow ---------------------------------------------------------------------------


def test_2_a_file_that_was_rotated_twice_meanwhile(tmp_path) -> None:
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


def test_2_a_restart_in_the_midst_of_the_files_between(tmp_path) -> None:
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


def test_2_what_was_packed_meanwhile_is_told(tmp_path) -> None:
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


def test_5_a_packed_file_that_takes_the_followed_name(tmp_path) -> None:
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
def test_6_a_rotated_file_with_its_columns_in_another_order(tmp_path, name, fast) -> None:
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


def test_6_a_rotated_file_with_other_columns(tmp_path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("a,b\n1,2\n")
    source = follow(path)
    assert drain(source) == [[1, 2]]
    path.rename(tmp_path / "log.csv.1")
    path.write_text("a,c\n1,2\n")
    with pytest.raises(SourceError, match="other columns: c instead of b"):
        drain(source)


def test_16_a_file_that_is_gone_or_was_cut_begins_anew(tmp_path) -> None:
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


def test_16_what_was_copied_before_it_was_cut_is_finished(tmp_path) -> None:
    path = tmp_path / "log.csv"
    known = half_read(path, "a\n1\n")
    (tmp_path / "log.csv.1").write_text("a\n1\n2\n")
    path.write_text("a\n3\n")
    source = follow(path, *known)
    assert drain(source) == [[2], [3]] and source.warnings() == []


# -- files and pipes ---------------------------------------------------------------------------


def test_17_a_plain_file_that_was_cut(tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a\n" + "1\n" * 5000)
    source, blocks = read(path)
    os.truncate(path, 9000)
    with pytest.raises(SourceError, match="shorter than what was read"):
        open_source(str(path), Reading(), source.memo(), blocks[-1].position)


def test_20_a_named_pipe_is_read_as_a_pipe(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    text = b"a,b\n" + b"1,2\n" * 3
    threading.Timer(0.2, (tmp_path / "pipe").write_bytes, [text]).start()
    source, blocks = read(tmp_path / "pipe")
    assert source.live and np.concatenate([b.X for b in blocks]).tolist() == [[1, 2]] * 3
    with pytest.raises(SourceError, match="Parquet is read from a file"):
        read(tmp_path / "pipe", format="parquet")
    with pytest.raises(SourceError, match="--follow is for files"):
        read(tmp_path / "pipe", follow=True)


def test_21_standard_input_that_is_closed(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SourceError, match="Standard input is closed"):
        open_source("-")


@pytest.fixture
def pipe():
    out, into = os.pipe()
    yield out, into
    os.close(out)
    os.close(into)


def test_15_first_bytes_without_a_line_end_do_not_block(pipe) -> None:
    out, into = pipe
    schema = Schema.infer(["a", "b"], [["1", "2"]], Roles())
    decoder = Delimited(",", True, names=["a", "b"])
    rows = TextSource(PipeFeed(fd=out), decoder, Roles(), patience=0.01, schema=schema).blocks()
    os.write(into, b"1,2")
    assert next(rows) is None and next(rows) is None
    os.write(into, b"\n")
    assert next(rows).X.tolist() == [[1, 2]]


@pytest.mark.parametrize("text", [b"", b"1,2", b"a,b"])
def test_15_the_first_row_is_not_waited_for_without_end(pipe, monkeypatch, text) -> None:
    out, into = pipe
    os.write(into, text)
    monkeypatch.setattr(feed, "_stdin", lambda: out)
    begun = time.monotonic()
    with pytest.raises(SourceError, match=r"Nothing came for 0\.3 seconds"):
        open_source("-", Reading(idle=0.3, patience=0.01))
    assert 0.3 <= time.monotonic() - begun < 5


def test_15_a_header_alone_is_a_source_without_rows(pipe, monkeypatch) -> None:
    out, into = pipe
    os.write(into, b"a,b\n")
    monkeypatch.setattr(feed, "_stdin", lambda: out)
    source = open_source("-", Reading(idle=0.1, patience=0.01))
    assert source.schema.features == ["a", "b"] and list(source.blocks()) == []


def test_15_waiting_for_the_first_row_can_be_stopped(pipe, monkeypatch) -> None:
    monkeypatch.setattr(feed, "_stdin", lambda: pipe[0])
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(Stopped):
        open_source("-", Reading(stop=stop.is_set, patience=0.01))


# -- rows --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fast", FAST)
def test_8_half_a_character_is_a_broken_row(tmp_path, fast) -> None:
    lines = [rb'{"a": 1, "k": "\ud83d\ude00"}', rb'{"a": 2, "k": "\ud800"}']
    lines += [rb'{"a": 3, "k": "x", "\udc00": 1}', rb'{"a": 4, "k": "\\ud800"}']
    (tmp_path / "rows.jsonl").write_bytes(b"\n".join(lines))
    _, blocks = read(tmp_path / "rows.jsonl", fast=fast, roles=Roles(key="k"))
    assert [line for line, _ in broken(blocks)] == [2, 3]
    assert [key for b in blocks for key in b.keys] == ["\U0001f600", "\\ud800"]
    for b in blocks:
        "".join([*b.keys, *(bad.reason + bad.text for bad in b.bad)]).encode()


def test_9_labels_and_targets_beyond_what_models_take(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text("a,y\n1,2\n2,1e30\n3,9007199254740992\n4,-1e16\n")
    _, blocks = read(tmp_path / "rows.csv", roles=Roles("y", labels=True))
    assert blocks[0].y.tolist() == [2, 2**53]
    assert [line for line, _ in broken(blocks)] == [3, 5]
    (tmp_path / "rows.csv").write_text("a,y\n1,2\n2,1e151\n3,-1e150\n")
    _, blocks = read(tmp_path / "rows.csv", roles=Roles("y"))
    assert blocks[0].y.tolist() == [2, -1e150]
    assert broken(blocks) == [(3, "column 'y': 1e+151 is no target up to 1e+150 in size")]


def test_10_a_stray_quote_costs_no_more_than_its_row(tmp_path) -> None:
    rows = [f"{i},{i},x" for i in range(40_000)]
    text = ["a,b,c", *rows[:1000], '1,"2,x', *rows[1000:]]
    (tmp_path / "rows.csv").write_text("\n".join(text))
    begun = time.process_time()
    _, blocks = read(tmp_path / "rows.csv")
    assert time.process_time() - begun < 3  # the square of the lines took ten seconds
    assert np.concatenate([b.X[:, 0] for b in blocks]).tolist() == list(range(40_000))
    assert broken(blocks) == [(1002, "a quote that is not closed")]
    with open(tmp_path / "rows.csv", "a") as file:
        file.write('\n7,8,"two\nlines"\n')
    _, blocks = read(tmp_path / "rows.csv", longest=1000)
    assert np.concatenate([b.X[:, 0] for b in blocks]).tolist() == [*range(40_000), 7]
    assert broken(blocks) == [(1002, "a quote that is not closed")]


def test_10_rows_in_quotes_that_come_piece_by_piece(pipe) -> None:
    out, into = pipe
    text = b'a,c\n1,"x\ny\nz"\n2,"u\nv"\n3,w\n'
    source = None
    found: list[float] = []
    for i in range(len(text)):
        os.write(into, text[i : i + 1])
        if source is None and i > 13:
            source = TextSource(PipeFeed(fd=out), Delimited(), Roles(), patience=0.0)
            blocks = source.blocks()
        block = next(blocks) if source is not None else None
        found += [] if block is None else block.X[:, 0].tolist()
    assert found == [1, 2, 3]


def test_12_one_large_index_does_not_make_a_thousand_million_columns(tmp_path) -> None:
    path = tmp_path / "rows.libsvm"
    path.write_text(f"1 1:3 999999999:1\n0 1:2\n0 {'9' * 5000}:1\n")
    with pytest.raises(SourceError, match=r"999999999.*--features N"):
        read(path, roles=Roles("label"))
    _, blocks = read(path, roles=Roles("label"), features=2)
    assert blocks[0].X.tolist() == [[2, 0]] and [line for line, _ in broken(blocks)] == [1, 3]


@pytest.mark.parametrize("fast", FAST)
def test_13_bytes_that_are_no_text_make_a_broken_row_in_any_column(tmp_path, fast) -> None:
    rows = [b"%d,x" % i for i in range(100)]
    rows[50] = b"50,\xff"
    rows[60] = "60,\u00e4".encode()
    (tmp_path / "rows.csv").write_bytes(b"\n".join([b"a,note", *rows]))
    _, blocks = read(tmp_path / "rows.csv", fast=fast)
    assert broken(blocks) == [(52, "not UTF-8 at byte 3")]
    assert sum(len(b.rows) for b in blocks) == 99


def test_26_damaged_parquet(rng, tmp_path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install onkel[arrow]")
    from pyarrow import parquet

    table = pyarrow.table({"a": rng.normal(size=5000), "b": rng.normal(size=5000)})
    path = tmp_path / "rows.parquet"
    parquet.write_table(table, path, write_page_checksum=True, use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 64] = bytes(64)
    path.write_bytes(data)
    with pytest.raises(SourceError, match="is damaged"):
        read(path)


@pytest.mark.parametrize("rows", [3, 400_000])
def test_27_lines_that_end_with_cr_alone(tmp_path, rows) -> None:
    (tmp_path / "rows.csv").write_bytes(b"a,b\r" + b"1,2\r" * rows)
    with pytest.raises(SourceError, match=r"CR alone; convert them: tr '\\r' '\\n'"):
        read(tmp_path / "rows.csv")


# -- columns -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        (Roles("a", key="a"), "--target and --key"),
        (Roles(time="a", key="a"), "--time and --key"),
        (Roles("a", ignore=("a",)), "--target and --ignore"),
        (Roles(ignore=("a",), columns=("a", "b")), "--ignore and --columns"),
    ],
)
def test_30_one_column_has_one_role(roles, said) -> None:
    with pytest.raises(SourceError, match=f"'a' is named by {said}"):
        Schema.infer(["a", "b"], [["1", "2"]], roles)


def test_31_a_column_of_nothing_is_told(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text("a,b,c\n" + "1,,NA\n" * 5)
    source, _ = read(tmp_path / "rows.csv", roles=Roles(ignore=("c",)))
    (said,) = source.warnings()
    assert said.startswith("column 'b' held nothing in the first rows")
    assert Schema.from_dict(source.memo()["schema"]).warnings() == [said]


@pytest.mark.parametrize("zeros", [1, 2**20 + 7])
def test_32_gzip_with_zeros_behind_it(tmp_path, zeros) -> None:
    packed = gzip.compress(b"a\n1\n") + bytes(zeros)
    (tmp_path / "rows.csv.gz").write_bytes(packed + gzip.compress(b"2\n") + bytes(zeros))
    _, blocks = read(tmp_path / "rows.csv.gz")
    assert np.concatenate([b.X for b in blocks])[:, 0].tolist() == [1, 2]
    (tmp_path / "rows.csv.gz").write_bytes(packed + b"dirt")
    with pytest.raises(SourceError, match="damaged"):
        read(tmp_path / "rows.csv.gz")


def test_21_closed_standard_input_of_a_process() -> None:
    words = "from onkel.streams.sources import open_source; open_source('-')"
    shell = ["sh", "-c", '"$0" -c "$1" <&-', sys.executable, words]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert "SourceError: Standard input is closed" in done.stderr
