"""Rows of any types as codes and numbers."""

from __future__ import annotations

import datetime
import math
import pickle
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from naive import tables as naive

from onkel import Columns
from onkel.columns import Encoded, Plan, Raw, Typed, dates, raw_of, table_of, words

START = datetime.datetime(2024, 3, 1, 7, 30)


def records(rng: np.random.Generator, n: int = 60) -> list[dict[str, Any]]:
    """Rows of every kind, with gaps."""
    found = [
        {
            "carrier": str(rng.choice(["AA", "UA", "DL"])),
            "minutes": float(rng.normal(100, 10)),
            "ok": bool(rng.random() < 0.8),
            "when": START + datetime.timedelta(minutes=37 * i),
            "note": "paid by card in shop number " + str(rng.integers(9000)),
        }
        for i in range(n)
    ]
    found[3]["minutes"] = found[4]["carrier"] = found[5]["when"] = None
    return found


def planned(rows: list[dict[str, Any]], **given: Any) -> Encoded:
    raw = raw_of(rows)
    assert raw is not None
    return Columns(**given).plan(raw).encode(raw)


def test_kinds_are_found(rng: np.random.Generator) -> None:
    found = {c.name: c.kind for c in planned(records(rng)).plan.columns}
    assert found == {
        "carrier": "category", "minutes": "number", "ok": "boolean", "when": "time", "note": "text",
    }  # fmt: skip


def test_codes_and_numbers_are_those_of_plain_loops(rng: np.random.Generator) -> None:
    rows = records(rng)
    found = planned(rows, places=8)
    at = {name: j for j, name in enumerate(found.plan.outputs)}
    assert found.plan.apart == (2.0,) * 4 + (0.25,) * 8
    for i, row in enumerate(rows):
        x = found.X[i]
        assert x[at["carrier"]] == naive.code(row["carrier"])
        assert x[at["ok"]] == naive.code(row["ok"])
        assert x[at["when (hour)"]] == (0 if row["when"] is None else 1 + row["when"].hour)
        assert x[at["minutes"]] == row["minutes"] or math.isnan(x[at["minutes"]]) == (i == 3)
        if row["when"] is None:
            assert np.isnan(x[-5:]).all()
        else:
            np.testing.assert_allclose(x[-5:], naive.circles(row["when"]), atol=1e-9)
    gaps = found.X[:, at["gaps"]]
    assert set(np.flatnonzero(gaps != 1)) == {3, 5}
    assert gaps[3] == naive.code("minutes")
    assert gaps[5] == naive.code("when")


def test_who_goes_through_the_rows_comes_to_an_end(rng: np.random.Generator) -> None:
    rows = planned(records(rng)[:5])
    each = [row.X for row, _ in zip(rows, range(50), strict=False)]
    assert len(each) == 5 and np.array_equal(np.vstack(each), rows.X, equal_nan=True)


def test_words_stand_in_the_places_of_plain_loops(rng: np.random.Generator) -> None:
    bag = [f"w{chr(97 + i)}" for i in range(26)]
    texts = [" ".join(rng.choice(bag, 12)) + " 0800 123!" for _ in range(30)]
    for places in (4, 64):
        codes, names = words.encode(texts, places)
        assert codes.tolist() == [naive.places(text, places) for text in texts]
        assert {int(c) for c in codes.ravel()} - {0} <= set(names)
    # Places that differ are about the words that only one of two texts has.
    codes, _ = words.encode(texts, 1024)
    for i, a in enumerate(texts[:8]):
        for j, b in enumerate(texts[:8]):
            alone = naive.words(a) ^ naive.words(b)
            assert len(alone) - 2 <= np.sum(codes[i] != codes[j]) <= len(alone)


def test_a_text_without_words_is_missing() -> None:
    codes, _ = words.encode(["...", None, "a"], 4)
    assert (codes[:2] == 0).all()
    assert np.count_nonzero(codes[2]) == 1


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "records", "lists"])
def test_any_table_gives_the_same_rows(rng: np.random.Generator, library: str) -> None:
    rows = [{k: v for k, v in row.items() if k != "when"} for row in records(rng)]
    expected = planned(rows)
    if library == "records":
        pandas = pytest.importorskip("pandas")
        table = pandas.DataFrame(rows).to_records(index=False)
    elif library == "lists":
        table = [list(row.values()) for row in rows]
    elif library == "pyarrow":
        table = pytest.importorskip("pyarrow").Table.from_pylist(rows)
    else:
        table = pytest.importorskip(library).DataFrame(rows)
    raw = table_of(table)
    assert raw is not None
    names = expected.plan.names
    raw = Raw(names, [raw.columns[i] for i in range(len(names))], raw.rows)
    np.testing.assert_array_equal(expected.plan.encode(raw).X, expected.X)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_a_library_type_of_categories_is_believed(library: str) -> None:
    if library == "pandas":
        pandas = pytest.importorskip("pandas")
        table = pandas.DataFrame({"a": pandas.Categorical([1, 2, 1]), "b": [0.5, 1.0, 2.0]})
    elif library == "polars":
        polars = pytest.importorskip("polars")
        table = polars.DataFrame({"a": ["1", "2", "1"], "b": [0.5, 1.0, 2.0]}).with_columns(
            polars.col("a").cast(polars.Categorical)
        )
    else:
        pa = pytest.importorskip("pyarrow")
        table = pa.table({"a": pa.array(["1", "2", "1"]).dictionary_encode(), "b": [0.5, 1.0, 2.0]})
    raw = raw_of(table)
    assert raw is not None
    plan = Columns().plan(raw)
    assert [c.kind for c in plan.columns] == ["category", "number"]
    assert plan.encode(raw).X[:, 0].tolist() == [naive.code("1"), naive.code("2"), naive.code("1")]


def test_tables_of_numbers_are_left_alone() -> None:
    pandas = pytest.importorskip("pandas")
    assert raw_of(pandas.DataFrame({"a": [1.0], "b": [True]})) is None
    assert raw_of(np.zeros((2, 2))) is None
    assert raw_of([[1.0, 2.0]]) is None


def test_a_plan_survives_as_data(rng: np.random.Generator) -> None:
    plan = planned(records(rng), places=4).plan
    assert Plan.from_dict(plan.to_dict()) == plan
    held = plan.to_dict()
    for wrong in ({}, {**held, "places": 0}, {**held, "columns": [{}]}, [], None):
        with pytest.raises(ValueError, match="plan of columns"):
            Plan.from_dict(wrong)


def test_types_are_checked(rng: np.random.Generator) -> None:
    with pytest.raises(ValueError, match=r"types\['a'\] must be one of"):
        Columns({"a": "colour"})
    with pytest.raises(ValueError, match="no column 'b'"):
        planned(records(rng), types={"b": "text"})
    with pytest.raises(ValueError, match="no column to learn from"):
        Columns({"a": "ignore"}).plan(Raw(["a"], [["x"]], 1))


def test_a_cell_that_does_not_fit_is_named(rng: np.random.Generator) -> None:
    plan = Plan((Typed("a", "number"),))
    with pytest.raises(ValueError, match="Row 1, column 'a': 'x' is not a number") as caught:
        plan.encode(Raw(["a"], [[1.0, "x"]], 2))
    assert caught.value.row == 1  # type: ignore[attr-defined]


def test_whole_numbers_are_one_category_however_kept() -> None:
    plan = Plan((Typed("a", "category"),))
    for column in (["5"], [5], [5.0], np.array([5]), np.array(["5"])):
        assert plan.encode(Raw(["a"], [column], 1)).X[0, 0] == naive.code("5")


def test_many_gaps_are_told_apart_in_few_words():
    """However many numbers a table has: what a row lacks is kept, and has an end."""
    names = [f"reading {'x' * 100} {j}" for j in range(2000)]
    cells = np.random.default_rng(0).normal(size=(4, len(names)))
    cells[1, 5:] = cells[2, 6:] = np.nan
    cells[3, 5:] = np.nan
    raw = Raw(names, [*cells.T], 4)
    began = time.process_time()
    found = Columns().plan(raw).encode(raw)
    assert time.process_time() - began < 2.0
    code = found.codes[:, found.plan.categories.index("gaps")]
    assert code[1] == code[3] and len(set(code)) == 3
    assert max(map(len, found.names["gaps"].values())) < 3000


@pytest.mark.parametrize("name", ["gaps", "when (weekday cos)", "note [0]"])
def test_names_that_are_needed(name):
    """A column that is called like what is made of others would be taken for it."""
    row = {"when": "2024-01-01T00:00", "note": "all of this is well", name: 1.0}
    raw = Raw([*row], [[cell] for cell in row.values()], 1)
    with pytest.raises(ValueError, match="is needed as a name"):
        Columns({"when": "time", "note": "text"}).plan(raw)


def test_one_record_is_a_table_of_one(rng: np.random.Generator) -> None:
    rows = records(rng)
    rows[7] |= {"ok": None, "note": None, "minutes": "12"}
    rows[8] |= {"carrier": 5, "ok": "perhaps", "minutes": True}
    rows[9] |= {"carrier": np.float64(5.0), "minutes": np.float32(0.1), "note": 3}
    rows[10] |= {
        "carrier": float("nan"),
        "minutes": float("nan"),
        "when": datetime.date(2024, 1, 1),
    }
    first = planned(records(rng), places=4).plan
    for plan in (first, replace(first, open=True), replace(first, time=dates.Parts(False, True))):
        for row in rows:
            one = plan.one([row[n] for n in plan.names])
            table = plan.encode(Raw(plan.names, [[row[n]] for n in plan.names], 1))
            np.testing.assert_array_equal(one.X, table.X)
            assert all(one.names[n].items() <= table.names[n].items() for n in table.names)
    with pytest.raises(ValueError, match="Row 0, column 'minutes': 'x' is not a number"):
        first.one([{**rows[0], "minutes": "x"}[n] for n in first.names])


def test_an_open_plan_grows_at_its_end(rng: np.random.Generator) -> None:
    rows = records(rng)
    raw = raw_of(rows)
    assert raw is not None
    first = Columns({"gate": "category"}, places=4).plan(raw, late=True)
    assert [c.name for c in first.columns][-1] == "gate"
    plan = first.grown([Typed("size", "late"), Typed("due", "late"), Typed("z", "number")])
    assert plan.apart == first.apart
    assert plan.outputs == [*first.outputs, "z"]
    assert plan.plain == [plan.outputs.index("minutes"), len(plan.outputs) - 1]
    assert Plan.from_dict(plan.to_dict()) == plan == pickle.loads(pickle.dumps(plan))
    days = [None, datetime.datetime(2024, 1, 1, 14, 30), *[datetime.date(1970, 1, 1)] * 58]
    more = [{**row, "size": "L", "due": day} for row, day in zip(rows, days, strict=True)]
    found = plan.encode(Raw(list(more[1]), [[r[n] for r in more] for n in more[1]], len(rows)))
    others = found.X[:, plan.outputs.index("(others)")]
    assert others[0] == naive.code("size=L")
    assert others[1] == naive.code("due=Monday 14:00, size=L")
    assert others[2] == naive.code("due=Thursday 00:00, size=L")
    assert found.X[3, plan.outputs.index("gaps")] == naive.code("minutes, z")
    for row, x in zip(more, found.X, strict=True):
        np.testing.assert_array_equal(plan.one([row.get(n) for n in plan.names]).X[0], x)
    with pytest.raises(ValueError, match="cannot come late"):
        plan.grown([Typed("new", "category")])
    for name in ("gaps", "z", "minutes"):
        with pytest.raises(ValueError, match=f"'{name}' is needed as a name"):
            plan.grown([Typed(name, "number")])
    with pytest.raises(ValueError, match="cannot come late"):
        Plan((Typed("a", "number"),)).grown([Typed("b", "number")])
