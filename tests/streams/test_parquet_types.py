"""Parquet columns of every kind: what has no role is not read, what has one is read or told."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pytest
from helpers.reading import broken, read

from onkel.streams.sources import Roles, SourceError, open_source

pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install onkel[arrow]")
from pyarrow import parquet  # noqa: E402

ROWS = 3
FAR = 2**62
ODD = {
    "ns": pyarrow.array([1, FAR, None], pyarrow.timestamp("ns")),
    "zone": pyarrow.array([1, FAR, -FAR], pyarrow.timestamp("ns", "Europe/Vienna")),
    "nowhere": pyarrow.array([1, 2, 3], pyarrow.timestamp("us", "Nowhere/AtAll")),
    "ms": pyarrow.array([1, FAR, 3], pyarrow.timestamp("ms")),
    "day": pyarrow.array([1, 2**31 - 1, 3], pyarrow.date32()),
    "date": pyarrow.array([0, 86400_000 * 10**9, None], pyarrow.date64()),
    "clock": pyarrow.array([1, 10**13 + 1, 3], pyarrow.time64("ns")),
    "span": pyarrow.array([1, FAR, 3], pyarrow.duration("ns")),
    "spans": pyarrow.array([1, FAR, 3], pyarrow.duration("us")),
    "list": pyarrow.array([[1], [], None]),
    "struct": pyarrow.array([{"x": 1}, None, {"x": 2}]),
    "nested": pyarrow.array([[{"x": [1]}], [], None]),
    "bytes": pyarrow.array([b"\xff", b"", None]),
    "words": pyarrow.array(["u", "v", "u"]).dictionary_encode(),
}


def write(path, **columns) -> None:
    table = pyarrow.table({"x": pyarrow.array([1.0, 2.0, 3.0]), **columns})
    parquet.write_table(table, path, version="2.6")


UNKNOWN = ["nowhere", "ms", "day", "date", "clock", "span", "spans", "list", "struct", "nested",
           "bytes"]  # fmt: skip
"""Columns that hold nothing that can be learned from, or times that are out of range."""


def test_columns_of_no_use_are_not_converted(tmp_path) -> None:
    write(tmp_path / "rows.parquet", **ODD)
    source, blocks = read(tmp_path / "rows.parquet")
    assert blocks[0].X[:, 0].tolist() == [1, 2, 3] and broken(blocks) == []
    assert [name for name, _ in source.schema.ignored()] == UNKNOWN
    assert {c.name: c.kind for c in source.schema.others} == {
        "ns": "time", "zone": "time", "words": "category",
    }  # fmt: skip
    assert blocks[0].others["words"] == ["u", "v", "u"]
    np.testing.assert_array_equal(blocks[0].others["ns"], [0.0, FAR // 1000 / 1e6, np.nan])


@pytest.mark.parametrize("role", ["time", "key", "target", "labels"])
@pytest.mark.parametrize("name", ODD)
def test_what_has_a_role_is_read_or_told(tmp_path, name, role) -> None:
    write(tmp_path / "rows.parquet", odd=ODD[name])
    roles = {
        "time": Roles(time="odd"), "key": Roles(key="odd"), "target": Roles("odd"),
        "labels": Roles("odd", labels=True),
    }[role]  # fmt: skip
    _, blocks = read(tmp_path / "rows.parquet", roles=roles)
    told = broken(blocks)
    assert sum(len(b.rows) for b in blocks) + len(told) == ROWS
    assert all(reason.startswith("column 'odd': ") for _, reason in told)


def test_times_without_their_nanoseconds(tmp_path) -> None:
    far = datetime.datetime(2200, 1, 1, tzinfo=datetime.UTC)
    ns = int(far.timestamp()) * 10**9 + 123_456_789
    for kind in (pyarrow.timestamp("ns"), pyarrow.timestamp("ns", "UTC")):
        write(tmp_path / "rows.parquet", t=pyarrow.array([1, 1001, ns], kind))
        _, blocks = read(tmp_path / "rows.parquet", roles=Roles(time="t"))
        assert blocks[0].time.tolist() == [0, 1e-6, far.timestamp() + 0.123456]
        assert blocks[0].stamps[2].startswith("2200-01-01T00:00:00.123456")
    write(tmp_path / "rows.parquet", t=pyarrow.array([1, FAR, 3], pyarrow.timestamp("ms")))
    _, blocks = read(tmp_path / "rows.parquet", roles=Roles(time="t"))
    assert blocks[0].time.tolist() == [1e-3, 3e-3]
    assert "timestamp[ms] that is out of range" in broken(blocks)[0][1]


def test_decimals_and_dictionaries_of_numbers_are_numbers(tmp_path) -> None:
    money = [decimal.Decimal("1.25"), None, decimal.Decimal("-3.00")]
    write(
        tmp_path / "rows.parquet", money=pyarrow.array(money, pyarrow.decimal128(10, 2)),
        large=pyarrow.array(money, pyarrow.decimal256(60, 2)),
        coded=pyarrow.array([7, 8, 7]).dictionary_encode(),
        label=pyarrow.array([1, 0, 1], pyarrow.int8()).cast(pyarrow.decimal128(5, 0)),
    )  # fmt: skip
    source, blocks = read(tmp_path / "rows.parquet", roles=Roles("label", labels=True))
    assert source.schema.features == ["x", "money", "large", "coded"]
    truth = [[1, 1.25, 1.25, 7], [2, np.nan, np.nan, 8], [3, -3, -3, 7]]
    np.testing.assert_array_equal(blocks[0].X, truth)
    assert blocks[0].y.tolist() == [1, 0, 1] and blocks[0].y.dtype == np.int64


def test_labels_keep_all_their_digits(tmp_path) -> None:
    labels = [2**53, 2**53 + 1, -(2**53)]
    write(tmp_path / "rows.parquet", y=pyarrow.array(labels))
    _, blocks = read(tmp_path / "rows.parquet", roles=Roles("y", labels=True))
    assert blocks[0].y.tolist() == labels and broken(blocks) == []


def test_a_label_that_is_no_number_is_none(tmp_path) -> None:
    write(tmp_path / "rows.parquet", y=pyarrow.array([1.0, float("nan"), 0.0]))
    _, blocks = read(tmp_path / "rows.parquet", roles=Roles("y", labels=True))
    assert blocks[0].known.tolist() == [True, False, True] and broken(blocks) == []


def test_a_text_that_is_too_long(tmp_path) -> None:
    write(tmp_path / "rows.parquet", y=pyarrow.array(["u", "v" * (2**20 + 1), "w"]))
    _, blocks = read(tmp_path / "rows.parquet", roles=Roles("y", labels=True))
    assert blocks[0].y.tolist() == ["u", "w"]
    assert "a text of 1048577 characters, more than 1048576," in broken(blocks)[0][1]


def test_names_that_stand_twice_and_files_without_rows(tmp_path) -> None:
    table = pyarrow.table([pyarrow.array([1.0]), pyarrow.array([2.0])], names=["a", "a"])
    parquet.write_table(table, tmp_path / "rows.parquet")
    with pytest.raises(SourceError, match=r"there are several \['a'\]"):
        read(tmp_path / "rows.parquet")
    parquet.write_table(pyarrow.table({"a": pyarrow.array([], "f8")}), tmp_path / "rows.parquet")
    source = open_source(str(tmp_path / "rows.parquet"))
    assert source.trial().X.shape == (0, 1) and list(source.blocks()) == []
