"""Sources against the csv and json modules, whichever parser reads; positions; broken rows."""

from __future__ import annotations

import bz2
import csv
import gzip
import importlib.util
import io
import json
import lzma
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from helpers.reading import FAST, read
from hypothesis import given
from hypothesis import strategies as st

from onkel.streams import sources
from onkel.streams.sources import Reading, Roles, Rules, SourceError, next_cut, open_source
from onkel.streams.sources.decoder import Wanted
from onkel.streams.sources.delimited import Delimited
from onkel.streams.sources.lines import unfit

needs_arrow = pytest.mark.skipif(
    importlib.util.find_spec("pyarrow") is None, reason="needs pyarrow: pip install onkel[arrow]"
)


def numbers(blocks: list[sources.Block]) -> np.ndarray:
    return np.concatenate([block.X for block in blocks])


def write_csv(path: Path, X: np.ndarray, names: list[str] | None = None) -> Path:
    names = names or [f"x{j}" for j in range(X.shape[1])]
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([[repr(float(v)) for v in row] for row in X])
    return path


@pytest.mark.parametrize("fast", FAST)
def test_csv_as_the_csv_module_reads_it(rng, tmp_path, fast) -> None:
    X = rng.normal(size=(1000, 3)) * 10.0 ** rng.integers(-8, 8, size=(1000, 3))
    path = write_csv(tmp_path / "rows.csv", X)
    with open(path, newline="") as file:
        truth = [[float(v) for v in row] for row in list(csv.reader(file))[1:]]
    source, blocks = read(path, fast=fast)
    assert source.schema.features == ["x0", "x1", "x2"]
    np.testing.assert_array_equal(numbers(blocks), truth)
    assert [r for b in blocks for r in b.rows] == list(range(1000))


@pytest.mark.parametrize("fast", FAST)
def test_json_lines_as_the_json_module_reads_them(rng, tmp_path, fast) -> None:
    rows = [{"a": float(v), "b": int(k), "c": bool(k % 2)} for v, k in
            zip(rng.normal(size=500), rng.integers(-9, 9, 500), strict=True)]  # fmt: skip
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    _, blocks = read(path, fast=fast)
    truth = [[row["a"], row["b"]] for row in rows]
    np.testing.assert_array_equal(numbers(blocks), truth)
    assert [c for b in blocks for c in b.others["c"]] == [row["c"] for row in rows]


CELLS = st.one_of(
    st.floats(allow_nan=False).map(repr),
    st.integers().map(str),
    st.sampled_from(
        ["", "NA", " NaN ", "nan", "inf", "-Infinity", "1e400", "1_0", "0x10", "+1.5", "1.", ".5",
         "1e", "1d5", "１２", " 2 ", "\t3", "tru", "'1'", "nan(1)", "-nan", "1;2", "-",
         "1\xa0", "٣", "1e+05"]
    ),
    st.text(st.characters(exclude_characters='\r\n",', exclude_categories=["Cs"]), max_size=4),
)  # fmt: skip


@pytest.mark.skipif(len(FAST) < 2, reason="needs pyarrow and msgspec")
@given(st.lists(st.lists(CELLS, min_size=1, max_size=4), min_size=1, max_size=6))
def test_all_csv_parsers_agree(rows) -> None:
    from onkel.streams.sources.decoder import Wanted
    from onkel.streams.sources.delimited import Delimited

    lines = [",".join(row).encode() for row in rows]
    lines = [line for line in lines if line.strip()]
    wanted = Wanted(["a", "b", "c"], [0, 2], {"key": 1})
    found = []
    for arrow in (False, True):
        decoder = Delimited(",", True, arrow, ["a", "b", "c"])
        found.append(decoder.decode(lines, wanted))
        found.append(decoder._one_by_one(lines, wanted))
    for other in found[1:]:
        assert other.good == found[0].good and other.bad == found[0].bad
        np.testing.assert_array_equal(other.X, found[0].X)
        assert other.others == found[0].others


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2), max_leaves=3,
)  # fmt: skip


@pytest.mark.skipif(len(FAST) < 2, reason="needs pyarrow and msgspec")
@given(st.lists(st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4), min_size=1, max_size=5),
       st.sampled_from([b"", b"{", b"[1]", b'{"a": 01}', b"\xff", b'{"a": 1e999}', b"nul",
                        b'{"a": "\\ud800"}', b'{"a":1,"a":2}']))  # fmt: skip
def test_all_json_parsers_agree(rows, extra) -> None:
    from onkel.streams.sources.decoder import Wanted
    from onkel.streams.sources.jsonlines import JsonLines

    lines = [json.dumps(row).encode() for row in rows] + ([extra] if extra else [])
    wanted = Wanted(["a", "b", "c"], [0, 2], {"key": 1})
    found = []
    for fast in (False, True):
        decoder = JsonLines(fast, ["a", "b", "c"])
        found += [decoder.decode(lines, wanted), decoder._one_by_one(lines, wanted)]
    for other in found[1:]:
        assert other.good == found[0].good and other.bad == found[0].bad
        np.testing.assert_array_equal(other.X, found[0].X)
        assert repr(other.others) == repr(found[0].others)


def test_libsvm_against_a_dense_table(rng, tmp_path) -> None:
    X = np.where(rng.random((300, 6)) < 0.4, rng.normal(size=(300, 6)), 0.0)
    X[0, 5] = 1.0
    y = rng.integers(0, 2, 300) * 2 - 1
    lines = [
        f"{label:+d} " + " ".join(f"{j + 1}:{v!r}" for j, v in enumerate(row.tolist()) if v)
        for label, row in zip(y.tolist(), X, strict=True)
    ]
    path = tmp_path / "rows.libsvm"
    path.write_text("\n".join(lines) + "\n3 9:1 # too many\n2 a:1\n\n")
    _, blocks = read(path, features=6, roles=Roles("label", labels=True))
    np.testing.assert_array_equal(numbers(blocks), X)
    np.testing.assert_array_equal(np.concatenate([b.y for b in blocks]), y)
    assert [b.reason[:7] for block in blocks for b in block.bad] == ["index 9", "'a:1' i"]


@needs_arrow
def test_parquet_as_it_was_written(rng, tmp_path) -> None:
    import pyarrow
    from pyarrow import parquet

    X = rng.normal(size=(3000, 2))
    table = pyarrow.table({
        "a": X[:, 0], "name": ["n"] * 3000,
        "b": [None if i == 7 else v for i, v in enumerate(X[:, 1])],
    })  # fmt: skip
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=700)
    source, blocks = read(tmp_path / "rows.parquet", size=1024)
    X[7, 1] = np.nan
    np.testing.assert_array_equal(numbers(blocks), X)
    assert [c.name for c in source.schema.others] == ["name"]
    assert [n for b in blocks for n in b.others["name"]] == ["n"] * 3000
    again = open_source(
        str(tmp_path / "rows.parquet"), Reading(size=1024), source.memo(), blocks[2].position
    )
    rest = [b for b in again.blocks() if b is not None]
    np.testing.assert_array_equal(numbers(rest), X[blocks[3].first :])


# -- cuts and positions ------------------------------------------------------------------------


def test_blocks_are_cut_at_fixed_rows(rng, tmp_path) -> None:
    path = write_csv(tmp_path / "rows.csv", rng.normal(size=(5000, 1)))
    _, blocks = read(path, size=1024)
    ends = [b.first + b.count for b in blocks]
    assert ends == [64, 128, 256, 512, 1024, 2048, 3072, 4096, 5000]


@given(st.integers(0, 10**6), st.integers(64, 5000))
def test_a_cut_depends_on_the_row_alone(row, size) -> None:
    cut = next_cut(row, size)
    assert row < cut <= row + size
    assert all(next_cut(r, size) == cut for r in {row, (row + cut - 1) // 2, cut - 1})


@pytest.mark.few
@pytest.mark.parametrize("pack", [None, gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_every_position_continues_exactly(rng, tmp_path, kind, pack) -> None:
    X = rng.normal(size=(400, 2))
    path = write_csv(tmp_path / "rows.csv", X, ["a", "b"])
    text = path.read_bytes().replace(b"\n", b"\r\n")
    text = text.replace(b"\r\n", b"\r\nbroken\r\n\r\n", 50)
    if kind == "jsonl":
        rows = [{"a": a, "b": b} for a, b in X.tolist()]
        text = "".join(
            json.dumps(row) + "\n" + "{\n" * (i % 9 == 1) for i, row in enumerate(rows)
        ).encode()
    path = tmp_path / f"rows.{kind}{'.packed' if pack else ''}"
    path.write_bytes(pack(text) if pack else text)
    how = Reading(format=kind, size=64)
    source = open_source(str(path), how)
    blocks = [b for b in source.blocks() if b is not None]
    np.testing.assert_array_equal(numbers(blocks), X)
    for i, block in enumerate(blocks):
        position = json.loads(json.dumps(block.position))
        rest = [b for b in open_source(str(path), how, source.memo(), position).blocks() if b]
        assert [b.position for b in rest] == [b.position for b in blocks[i + 1 :]]
        assert [b.bad for b in rest] == [b.bad for b in blocks[i + 1 :]]
        if rest:
            np.testing.assert_array_equal(numbers(rest), numbers(blocks[i + 1 :]))


def test_another_file_under_the_same_name_is_noticed(rng, tmp_path) -> None:
    path = write_csv(tmp_path / "rows.csv", rng.normal(size=(100, 2)))
    source, blocks = read(path)
    write_csv(path, rng.normal(size=(100, 2)))
    with pytest.raises(SourceError, match="begins differently"):
        open_source(str(path), Reading(), source.memo(), blocks[0].position)


def test_a_packed_file_that_was_cut_off_is_an_error(tmp_path) -> None:
    packed = gzip.compress(b"a\n" + b"1\n" * 10000)
    (tmp_path / "rows.csv.gz").write_bytes(packed[:-9])
    with pytest.raises(SourceError, match="ends in the middle"):
        read(tmp_path / "rows.csv.gz")


# -- broken rows -------------------------------------------------------------------------------


@pytest.mark.parametrize("fast", FAST)
def test_broken_rows_are_told_with_line_and_reason(tmp_path, fast) -> None:
    lines = [b"a,b,name", b"1,2,x", b"1,zwei,x", b"1,2", b"1,2,x,3", b"", b"1,2,\xff", b"1,1e999,x",
             b"3," + b"4" * 200 + b",x", b'"5","6","a ""b"", c"', b"7,,x",
             *[b"0,0,y"] * 40]  # fmt: skip
    path = tmp_path / "rows.csv"
    path.write_bytes(b"\n".join(lines))
    source, blocks = read(path, longest=150, fast=fast)
    assert source.schema.warnings() == []
    np.testing.assert_array_equal(numbers(blocks)[:-40], [[1, 2], [5, 6], [7, np.nan]])
    told = {bad.line: bad.reason for block in blocks for bad in block.bad}
    assert list(told) == [3, 4, 5, 7, 8, 9]
    assert told[3] == "column 'b': 'zwei' is no number"
    assert told[4] == "2 columns where 3 were expected"
    assert "UTF-8" in told[7] and "finite" in told[8] and "too long" in told[9]
    assert [b.row for block in blocks for b in block.bad] == [1, 2, 3, 4, 5, 6]


def test_quoted_cells_may_hold_line_breaks_and_an_open_quote_costs_one_row(tmp_path) -> None:
    text = 'a,note\n1,"one\ntwo"\n2,"three\n3,x\n4,y\n'
    (tmp_path / "rows.csv").write_text(text)
    _, blocks = read(tmp_path / "rows.csv")
    np.testing.assert_array_equal(numbers(blocks)[:, 0], [1, 3, 4])
    bad = [b for block in blocks for b in block.bad]
    assert [(b.line, b.reason) for b in bad] == [(4, "a quote that is not closed")]


def test_a_line_without_end_is_not_collected(tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b"a\n1\n" + b"9" * 5_000_000 + b"\n2\n" + b"8" * 3_000_000)
    _, blocks = read(path, longest=1000)
    np.testing.assert_array_equal(numbers(blocks)[:, 0], [1, 2])
    bad = [b for block in blocks for b in block.bad]
    assert [b.line for b in bad] == [3, 5] and all(len(b.text) <= 200 for b in bad)
    assert "5000000 bytes" in bad[0].reason and "3000000 bytes" in bad[1].reason


def test_gaps_and_late_rows_are_broken_where_rules_say_so(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text("t,a\n1,1\n3,\n2,5\n4,6\nx,7\n")
    how = {"roles": Roles(time="t"), "rules": Rules(gaps=False, ordered=True)}
    _, blocks = read(tmp_path / "rows.csv", **how)
    assert blocks[0].X[:, 0].tolist() == [1, 5, 6] and blocks[0].time.tolist() == [1, 2, 4]
    (tmp_path / "rows.csv").write_text("t,a\n1,1\n3,9\n2,5\n4,6\nx,7\n")
    _, blocks = read(tmp_path / "rows.csv", **how)
    assert blocks[0].time.tolist() == [1, 3, 4] and blocks[0].position["clock"] == 4
    assert [b.reason[:19] for b in blocks[0].bad] == ["time runs backwards", "column 't': 'x' is "]


# -- columns -----------------------------------------------------------------------------------


def test_roles_of_columns(tmp_path) -> None:
    (tmp_path / "rows.tsv").write_text("k\tx\ty\tz\tw\na\t1\tno\t2\t3\nb\t1\t\t2\t3\n")
    roles = Roles("y", labels=True, key="k", ignore=("z",))
    source, blocks = read(tmp_path / "rows.tsv", roles=roles)
    assert source.schema.features == ["x", "w"] and blocks[0].keys == ["a", "b"]
    assert blocks[0].y.tolist() == ["no", ""] and blocks[0].known.tolist() == [True, False]
    with pytest.raises(SourceError, match=r"there is no column 'q'. There are: k, x, y, z, w"):
        read(tmp_path / "rows.tsv", roles=Roles("q"))


def test_a_header_is_told_from_numbers(tmp_path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"\xef\xbb\xbf1;2\n3;4\n")
    source, blocks = read(tmp_path / "rows.csv")
    assert source.schema.features == ["c1", "c2"]
    np.testing.assert_array_equal(numbers(blocks), [[1, 2], [3, 4]])


@pytest.mark.parametrize("text", ["", "a,b\n", "name\n" + "".join(f"x{i}\n" for i in range(60))])
def test_nothing_to_learn_from(tmp_path, text) -> None:
    (tmp_path / "rows.csv").write_text(text)
    if text == "a,b\n":
        assert read(tmp_path / "rows.csv")[1] == []
    else:
        with pytest.raises(SourceError):
            read(tmp_path / "rows.csv")


def test_a_missing_file_and_a_folder(tmp_path) -> None:
    with pytest.raises(SourceError, match="No such file"):
        read(tmp_path / "none.csv")
    with pytest.raises(SourceError, match="directory"):
        read(tmp_path)


def test_a_pipe_hands_rows_over_before_a_block_is_full() -> None:
    from onkel.streams.sources.delimited import Delimited
    from onkel.streams.sources.feed import PipeFeed
    from onkel.streams.sources.source import TextSource

    out, into = os.pipe()
    os.write(into, b"a,b\n")
    threading.Timer(0.1, os.write, [into, b"1,2\n"]).start()  # the header alone tells no types
    blocks = TextSource(PipeFeed(fd=out), Delimited(), Roles(), patience=0.01)
    rows = blocks.blocks()
    assert next(rows).X.tolist() == [[1, 2]] and next(rows) is None
    os.write(into, b"3,4\n5")
    assert next(rows).X.tolist() == [[3, 4]] and next(rows) is None
    os.write(into, b",6\n")
    os.close(into)
    assert [b.X.tolist() for b in rows if b is not None] == [[[5, 6]]]
    os.close(out)


def test_the_csv_module_and_quotes(rng, tmp_path) -> None:
    words = ["a", 'say "so"', "x, y", "two\nlines", " pad "]
    rows = [[repr(float(v)), words[int(i)]] for v, i in
            zip(rng.normal(size=200), rng.integers(0, 5, 200), strict=True)]  # fmt: skip
    text = io.StringIO()
    csv.writer(text).writerows([["v", "w"], *rows])
    (tmp_path / "rows.csv").write_text(text.getvalue(), newline="")
    _, blocks = read(tmp_path / "rows.csv", roles=Roles("w", labels=True))
    truth = list(csv.reader(io.StringIO(text.getvalue())))[1:]
    assert numbers(blocks)[:, 0].tolist() == [float(row[0]) for row in truth]
    assert [y for b in blocks for y in b.y] == [row[1].strip() for row in truth]


@pytest.mark.few
@pytest.mark.parametrize("share", [0.0005, 0.01, 0.5])
@pytest.mark.parametrize("fast", FAST)
def test_a_block_with_broken_rows_is_what_its_lines_are(rng, fast, share) -> None:
    odd = ["1,2", "x,1,2", "1,NA,3", '"1",2,3', " 1 ,2,3", "1e400,2,3", "1,,", "1,2,3\r", "nan,1,2"]
    odd += ["1,2,3,4", "--1,2,3", "1,2,inf", "+1.5e3,.5,5.", "1_0,2,3", "0x1,2,3", "٣,1,2"]
    lines = [",".join(map(repr, row)) for row in rng.normal(size=(5000, 3)).tolist()]
    for i in np.flatnonzero(rng.random(5000) < share).tolist():
        lines[i] = odd[int(rng.integers(len(odd)))]
    decoder = Delimited(arrow=fast)
    decoder.start([b"a,b,c"])
    wanted = Wanted(["a", "b", "c"], [0, 1], {"target": 2})
    data = [line.encode() for line in lines]
    data[77] = unfit(b"1,2,3", "too long")
    found, truth = decoder.decode(data, wanted), decoder._one_by_one(data, wanted)
    assert found.good == truth.good and found.bad == truth.bad
    np.testing.assert_array_equal(found.X, truth.X)
    assert found.others == truth.others
