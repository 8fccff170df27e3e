"""Columns that are no numbers, in every format: found or said, and handed over beside them."""

from __future__ import annotations

import contextlib
import csv
import datetime
import json

import numpy as np
import pytest
from helpers.reading import FAST, broken, read

from onkel.streams.sources import Block, Reading, Roles, Schema, SourceError, open_source, types_of

COUNT = 120
CARRIERS = ["AA", "UA", "none", "", "DL"]
WORDS = ["late due to heavy snow", "on time as planned today", "a bird was in the engine"]
START = datetime.datetime(2020, 3, 9, 15, 30)


def table() -> dict[str, list]:
    """Return a table of every kind; gaps are None."""
    return {
        "minutes": [None if i == 5 else round(i * 0.37 % 9, 2) for i in range(COUNT)],
        "carrier": [CARRIERS[i % 5] or None for i in range(COUNT)],
        "ok": [None if i == 7 else i % 3 == 0 for i in range(COUNT)],
        "when": [START + datetime.timedelta(hours=5 * i) for i in range(COUNT)],
        "note": [f"{WORDS[i % 3]} {i}" for i in range(COUNT)],
        "id": [f"flight-{i:x}-{i * 7919}" for i in range(COUNT)],
    }


def texts(row: dict) -> dict[str, str]:
    """Return a row as a CSV file has it."""
    found = {name: "" if v is None else str(v) for name, v in row.items()}
    found["when"] = row["when"].strftime("%d.%m.%Y %H:%M")
    found["ok"] = {True: "Yes", False: "no", None: ""}[row["ok"]]
    return found


def written(path, columns: dict[str, list]):
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    if path.suffix == ".csv":
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, list(columns), lineterminator="\n")
            writer.writeheader()
            writer.writerows(map(texts, rows))
    elif path.suffix == ".jsonl":
        rows = [{**row, "when": row["when"].isoformat()} for row in rows]
        rows = [
            {n: v for n, v in row.items() if v is not None or i % 2} for i, row in enumerate(rows)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        found = pyarrow.table(columns)
        at = found.column_names.index("carrier")
        found = found.set_column(at, "carrier", found["carrier"].dictionary_encode())
        parquet.write_table(found, path)
    return path


def joined(blocks: list[Block], name: str) -> list:
    return [cell for b in blocks for cell in b.others[name]]


@pytest.mark.parametrize("fast", FAST)
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_every_kind_in_every_format(tmp_path, ending, fast) -> None:
    columns = table()
    path = written(tmp_path / f"rows.{ending}", columns)
    source, blocks = read(path, fast=fast)
    assert broken(blocks) == []
    assert {c.name: c.kind for c in source.schema.columns} == {
        "minutes": "number", "carrier": "category", "ok": "boolean", "when": "time",
        "note": "text", "id": "identifier",
    }  # fmt: skip
    assert source.schema.features == ["minutes"]
    assert source.schema.ignored() == [("id", "different in every row")]
    (said,) = source.warnings()
    assert said == (
        "column 'id' is different in every row and is ignored; --types id=category learns from it"
    )
    X = np.concatenate([b.X for b in blocks])
    np.testing.assert_array_equal(X, np.array([columns["minutes"]], float).T)
    assert [cell or None for cell in joined(blocks, "carrier")] == columns["carrier"]
    assert [None if c == "" else c for c in joined(blocks, "ok")] == columns["ok"]
    assert joined(blocks, "note") == columns["note"]
    truth = [w.replace(tzinfo=datetime.UTC).timestamp() for w in columns["when"]]
    assert joined(blocks, "when") == truth
    assert Schema.from_dict(json.loads(json.dumps(source.schema.to_dict()))) == source.schema


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_the_plan_makes_the_same_rows_of_any_format(tmp_path, ending) -> None:
    columns = table()
    source, blocks = read(written(tmp_path / f"rows.{ending}", columns))
    plan = source.schema.plan()
    assert plan.names == ["minutes", "carrier", "ok", "when", "note"]
    found = np.concatenate([plan.encode(b.raw(source.schema.features)).X for b in blocks])
    csv_source, csv_blocks = read(written(tmp_path / "same.csv", columns))
    truth = [csv_source.schema.plan().encode(b.raw(["minutes"])).X for b in csv_blocks]
    np.testing.assert_array_equal(found, np.concatenate(truth))


def test_parts_of_a_block(tmp_path) -> None:
    _, blocks = read(written(tmp_path / "rows.csv", table()))
    block, at = blocks[0], [3, 1]
    part = block.part(at)
    for name, column in block.others.items():
        assert list(part.others[name]) == [column[i] for i in at]


@pytest.mark.parametrize("fast", FAST)
def test_given_types_win(tmp_path, fast) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("zip,ts,flag,x,id\n" + "".join(
        f"0{1000 + i % 3},{1583769390 + i},{i % 2},{i % 5},id{i}\n" for i in range(90)
    ))  # fmt: skip
    roles = Roles(types=types_of(["zip=category,ts=time", "flag=boolean, x=ignore", "id=category"]))
    source, blocks = read(path, fast=fast, roles=roles)
    assert source.schema.features == [] and source.warnings() == []
    assert {c.name: c.kind for c in source.schema.others} == {
        "zip": "category", "ts": "time", "flag": "boolean", "id": "category",
    }  # fmt: skip
    assert joined(blocks, "zip")[:3] == ["01000", "01001", "01002"]
    assert joined(blocks, "ts")[:2] == [1583769390.0, 1583769391.0]
    assert source.schema.ignored() == [("x", "asked for")]
    assert [b.X.shape[1] for b in blocks] == [0] * len(blocks)
    assert sum(len(b.rows) for b in blocks) == 90


@pytest.mark.parametrize("fast", FAST)
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_categories_alone(tmp_path, ending, fast) -> None:
    columns = {"a": ["u", "v"] * 50, "b": ["x", "y", "z", "x"] * 25}
    path = tmp_path / f"rows.{ending}"
    if ending == "csv":
        path.write_text("\n".join(["a,b", *map(",".join, zip(*columns.values(), strict=True))]))
    elif ending == "jsonl":
        rows = zip(*columns.values(), strict=True)
        path.write_text("\n".join(json.dumps({"a": a, "b": b}) for a, b in rows))
    else:
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.table(columns), path)
    source, blocks = read(path, fast=fast)
    assert joined(blocks, "a") == columns["a"] and joined(blocks, "b") == columns["b"]
    assert source.schema.features == [] and broken(blocks) == []
    with contextlib.closing(open_source(str(path), Reading(fast=fast))) as again:
        assert again.trial().X.shape == (100, 0)


def test_bad_cells_of_features_that_are_no_numbers(tmp_path) -> None:
    rows = [{"a": 1, "c": "u", "t": "2020-03-09"} for _ in range(30)]
    rows += [{"a": 1, "c": ["u"], "t": "2020-03-09"}, {"a": 1, "c": "u", "t": "soon"}]
    rows += [{"a": 1, "c": {"u": 1}}, {"a": 1}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    _, blocks = read(tmp_path / "rows.jsonl")
    assert [line for line, _ in broken(blocks)] == [31, 32, 33]
    assert broken(blocks)[0][1] == "column 'c': list where a text was expected"
    assert broken(blocks)[1][1].startswith("column 't': 'soon' is no time (ISO 8601")
    assert joined(blocks, "c")[-1] is None and np.isnan(joined(blocks, "t")[-1])


def test_lists_and_objects_are_ignored_and_told(tmp_path) -> None:
    rows = [{"a": i % 3, "c": ["u"], "d": {"e": 1}} for i in range(20)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    source, _ = read(tmp_path / "rows.jsonl")
    assert source.warnings() == [
        f"column {name!r} holds lists or objects and is ignored" for name in ("c", "d")
    ]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (["b=kind"], "'b' can be one of number, category, boolean, time, text, ignore; got 'kind'"),
        (["z=category"], "--types: there is no column 'z'"),
        (["a=category"], "'a' is named by --target and --types"),
    ],
)
def test_types_that_cannot_be(said, told) -> None:
    with pytest.raises(SourceError, match=told):
        Schema.infer(["a", "b"], [["1", "2"]], Roles("a", types=types_of(said)))


def test_how_types_are_written() -> None:
    assert types_of(["a=b=category,", " c = time "]) == (("a=b", "category"), ("c", "time"))
    for said in ("carrier", "=time"):
        with pytest.raises(SourceError, match="carrier=category,when=time; got"):
            types_of([said])


# -- numbers that are more ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([1583769390 + 7 * i // 2 for i in range(50)], "looks like a time since 1970: --time x"),
        ([1583769390000 + 3 * i for i in range(50)], "looks like a time since 1970"),
        ([20200301 + i for i in range(30)], "looks like a time since 1970"),
        ([1583769390 - i for i in range(50)], ""),
        ([1583769390.5 + i for i in range(50)], ""),
        ([i + 4 for i in range(50)], "counts the rows: --ignore x"),
        ([2 * i for i in range(50)], ""),
        ([1, 2, 3], ""),
    ],
)
def test_hints_at_times_and_counters(tmp_path, cells, said) -> None:
    (tmp_path / "rows.csv").write_text("x,y\n" + "".join(f"{c},{c % 7}\n" for c in cells))
    source, _ = read(tmp_path / "rows.csv", roles=Roles("y"))
    assert source.schema.features == ["x"]
    assert [said in w for w in source.warnings()] == ([True] if said else [])


# -- decimal commas -------------------------------------------------------------------------------


@pytest.mark.parametrize("fast", FAST)
@pytest.mark.parametrize("quoted", [False, True])
def test_decimal_commas_are_found(tmp_path, fast, quoted, rng) -> None:
    values = [f"{v:.2f}".replace(".", ",") for v in rng.normal(size=100)]
    mark, quote = (",", '"') if quoted else (";", "")
    lines = [f"{quote}{v}{quote}{mark}{i % 4}{mark}09.03.2020" for i, v in enumerate(values)]
    path = tmp_path / "rows.csv"
    path.write_text("\n".join([mark.join("abc"), *lines, mark.join(("3.5", "1", "09.03.2020"))]))
    source, blocks = read(path, fast=fast)
    assert source.schema.decimal == "," and source.schema.features == ["a", "b"]
    truth = [[float(v.replace(",", ".")), i % 4] for i, v in enumerate(values)]
    np.testing.assert_array_equal(np.concatenate([b.X for b in blocks]), truth)
    why = "column 'a': '3.5' is no number (decimals stand behind a comma)"
    assert broken(blocks) == [(102, why)]
    memo = json.loads(json.dumps(source.memo()))
    with contextlib.closing(open_source(str(path), Reading(fast=fast), memo)) as again:
        np.testing.assert_array_equal(np.concatenate([b.X for b in again.blocks()]), truth)


@pytest.mark.parametrize("fast", FAST)
def test_decimal_commas_of_targets_and_of_json(tmp_path, fast) -> None:
    rows = [{"a": "3,5", "b": 0.5, "y": "1,25"}, {"a": "4", "b": 1, "y": None}] * 20
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    _, blocks = read(tmp_path / "rows.jsonl", fast=fast, roles=Roles("y"))
    X, y = (np.concatenate([getattr(b, n) for b in blocks]) for n in ("X", "y"))
    assert X.tolist() == [[3.5, 0.5], [4, 1]] * 20 and y.tolist() == [1.25, 0] * 20


def test_separators_of_thousands_are_told(tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a;b\n" + "1,250;1\n12,500;2\n7,125;4\n" * 5)
    source, _ = read(path)
    (said,) = source.warnings()
    assert "'1,250' may have a separator of thousands" in said and "--decimal ," in said
    source, blocks = read(path, roles=Roles(decimal=","))
    assert source.warnings() == [] and blocks[0].X[0].tolist() == [1.25, 1]
    source, _ = read(path, roles=Roles(decimal="."))
    assert source.schema.features == ["b"]
    with pytest.raises(SourceError, match="--decimal is a point or a comma; got ';'"):
        read(path, roles=Roles(decimal=";"))


def test_points_beside_commas_leave_points(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text("a;b\n" + "1,25;1.5\n2,5;2.5\n" * 5)
    source, _ = read(tmp_path / "rows.csv")
    assert source.schema.decimal == "." and source.schema.features == ["b"]
