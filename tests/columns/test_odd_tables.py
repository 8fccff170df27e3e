"""Tables as they turn up: odd names, bytes, durations, words for nothing, cells that are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from naive import tables as naive

from onkel import Columns, KernelClassifier, LinearClassifier, kernels
from onkel.columns import Encoded, Plan, Raw, Typed, codes, raw_of

pandas = pytest.importorskip("pandas", reason="frames")

N = 60


def encoded(X: Any, **types: str) -> Encoded:
    raw = raw_of(X)
    assert raw is not None
    return Columns(types).plan(raw).encode(raw)


def words(rng: np.random.Generator) -> list[str]:
    return [str(w) for w in rng.choice(["a", "b", "c"], N)]


def test_names_that_are_no_texts_are_places(rng: np.random.Generator) -> None:
    """As a frame has them that was read without a header."""
    cells = words(rng)
    frame = pandas.DataFrame({0: cells, 1: rng.normal(size=N)})
    found = encoded(frame)
    assert found.plan.names == ["x0", "x1"]
    assert found.X[0, 0] == naive.code(cells[0])
    model = LinearClassifier().fit(frame, rng.integers(2, size=N))
    assert model.predict([["a", 1.0], ["b", 2.0]]).shape == (2,)


def test_names_that_come_twice_are_refused(rng: np.random.Generator) -> None:
    frame = pandas.DataFrame([[w, w] for w in words(rng)], columns=["a", "a"])
    with pytest.raises(ValueError, match="the name 'a' twice"):
        raw_of(frame)
    assert raw_of(pandas.DataFrame(np.zeros((2, 2)), columns=["a", "a"])) is None


@pytest.mark.parametrize("kept", ["objects", "array", "records"])
def test_bytes_are_texts(kept: str) -> None:
    table = {
        "objects": pandas.DataFrame({"x0": [b"AA", b"\xff"], "x1": [1.0, 2.0]}),
        "array": np.array([[b"AA", b"1"], [b"\xff", b"2"]]),
        "records": np.array([(b"AA", 1.0), (b"\xff", 2.0)], [("x0", "S2"), ("x1", float)]),
    }[kept]
    found = encoded(table, x0="category", x1="number")
    assert found.X[:, 0].tolist() == [naive.code("AA"), naive.code("\\xff")]
    assert found.X[:, -1].tolist() == [1.0, 2.0]


def test_durations_are_seconds(rng: np.random.Generator) -> None:
    lasted = pandas.to_timedelta([90, None, 30] * 20, unit="s")
    found = encoded(pandas.DataFrame({"lasted": lasted, "who": words(rng)}))
    assert found.X[0, -1] == 90.0
    assert np.isnan(found.X[1, -1])


def test_columns_in_a_dict_are_a_table(rng: np.random.Generator) -> None:
    cells, values = words(rng), rng.normal(size=N)
    found = encoded({"who": cells, "value": values})
    assert found.X.shape[0] == N
    assert found.X[:, -1].tolist() == values.tolist()


def test_words_for_a_missing_number() -> None:
    plan = Plan((Typed("a", "number"),))
    cells = ["1.5", "NA", "?", " ", None, "-"]
    found = plan.encode(Raw(["a"], [cells], 6)).X[:, -1]
    assert np.isnan(found).tolist() == [False, True, True, True, True, True]


@pytest.mark.parametrize(
    "cell", [np.inf, "inf", 1e300, 10**400, [1.0], "1_0", 1j, np.complex128(1)], ids=str
)
def test_what_is_no_number_is_named_by_its_own_column(cell: Any) -> None:
    plan = Plan((Typed("who", "category"), Typed("value", "number")))
    raw = Raw(["who", "value"], [["a", "b"], [1.0, cell]], 2)
    with pytest.raises(ValueError, match=r"Row 1, column 'value'") as caught:
        plan.encode(raw)
    assert caught.value.row == 1  # type: ignore[attr-defined]


def test_an_array_of_numbers_is_looked_through_too() -> None:
    plan = Plan((Typed("value", "number"),))
    with pytest.raises(ValueError, match=r"Row 1, column 'value': inf"):
        plan.encode(Raw(["value"], [np.array([1.0, np.inf])], 2))


def test_a_cell_of_a_category_is_one_value() -> None:
    plan = Plan((Typed("tags", "category"),))
    with pytest.raises(ValueError, match=r"Row 1, column 'tags': \['b'\] is not a single value"):
        plan.encode(Raw(["tags"], [["a", ["b"]]], 2))


@pytest.mark.parametrize("kept", ["series", "list"])
def test_texts_without_a_table_are_told_what_to_do(rng: np.random.Generator, kept: str) -> None:
    cells = words(rng)
    with pytest.raises(ValueError, match="a table with a column of texts"):
        LinearClassifier().fit(pandas.Series(cells) if kept == "series" else cells, [0, 1] * 30)


def test_one_row_is_enough_to_begin() -> None:
    frame = pandas.DataFrame({"who": ["a"], "value": [1.0]})
    model = LinearClassifier().partial_fit(frame, [1], classes=[0, 1])
    assert model.plan_ is not None
    assert [c.kind for c in model.plan_.columns] == ["category", "number"]
    assert model.predict([{"who": "never seen"}, {}]).shape == (2,)


@pytest.mark.parametrize("alike", [True, False])
def test_codes_of_many_cells_are_those_of_each(rng: np.random.Generator, alike: bool) -> None:
    some = ["a", " a ", "", "1"] if alike else ["a", None, 1, True, 1.0, np.nan, "1", b"a", 0.5]
    cells = [some[i] for i in rng.integers(len(some), size=200)]
    found, names = codes.encode(cells)
    assert found == [naive.code(codes.text_of(cell)) for cell in cells]
    assert {c: names[c] for c in set(found)} == {codes.code_of(t): t for t in names.values()}


def test_times_may_later_be_written(rng: np.random.Generator) -> None:
    """As JSON has them, after a frame's own."""
    frame = pandas.DataFrame({"when": pandas.date_range("2024-01-01", periods=3, freq="h")})
    plan = encoded(frame).plan
    found = plan.encode(Raw(["when"], [["2024-01-01T02:00", "", None]], 3)).X
    assert (
        found[0].tolist() == plan.encode(Raw(["when"], [frame["when"].to_numpy()], 3)).X[2].tolist()
    )
    assert np.isnan(found[1:, -1]).all()
    with pytest.raises(ValueError, match="'tomorrow' is not a time"):
        plan.encode(Raw(["when"], [["tomorrow"]], 1))


@pytest.mark.parametrize("cells", [["", ""], ["NA", "1.5"], [np.timedelta64(5, "s")] * 2])
def test_written_numbers_alone_are_a_table_too(cells: list[Any]) -> None:
    frame = pandas.DataFrame({"a": cells * 30, "b": np.arange(60.0)})
    model = LinearClassifier().fit(frame, [0, 1] * 30)
    assert model.plan_ is not None
    assert [c.kind for c in model.plan_.columns] == ["number", "number"]


def test_columns_of_any_library_are_a_table(rng: np.random.Generator) -> None:
    cells, values = words(rng), rng.normal(size=N)
    frame = pandas.DataFrame({"who": pandas.Categorical(cells), "value": values})
    expected = encoded(frame)
    found = encoded({name: frame[name] for name in frame})
    assert np.array_equal(found.X, expected.X)
    assert found.plan == expected.plan


def test_a_batch_of_arrow_is_a_table(rng: np.random.Generator) -> None:
    arrow = pytest.importorskip("pyarrow", reason="Arrow's batches")
    columns = {"who": words(rng), "value": rng.normal(size=N)}
    batch = arrow.RecordBatch.from_pydict(columns)
    expected = encoded(columns).X
    assert np.array_equal(encoded(batch).X, expected)
    assert np.array_equal(encoded({name: batch.column(name) for name in columns}).X, expected)


def test_a_cell_that_is_an_array_is_refused_by_name(rng: np.random.Generator) -> None:
    frame = pandas.DataFrame({"who": words(rng), "many": [np.zeros(3)] * N})
    with pytest.raises(ValueError, match=r"Row 0, column 'many': .* is not a single value"):
        encoded(frame)


def test_what_is_said_of_columns_needs_a_table() -> None:
    sparse = pytest.importorskip("scipy.sparse", reason="sparse rows")
    with pytest.raises(ValueError, match="the rows are sparse"):
        LinearClassifier(columns={"x0": "category"}).fit(sparse.eye(4).tocsr(), [0, 1, 0, 1])
    model = KernelClassifier(kernels.Spectrum(3), columns={"x0": "text"})
    with pytest.raises(ValueError, match="the rows are texts"):
        model.fit(["abc", "bcd"], [0, 1])


def test_a_row_to_be_explained_may_come_in_any_form(rng: np.random.Generator) -> None:
    frame = pandas.DataFrame({"who": words(rng), "value": rng.normal(size=N)})
    model = KernelClassifier().fit(frame, [0, 1] * (N // 2))
    records = frame.to_records(index=False)
    expected = str(model.explain(frame[:1]))
    for row in (frame.to_dict("records")[:1], records[:1], records[0]):
        assert str(model.explain(row)) == expected


@pytest.mark.parametrize("kind", ["category", "text"])
def test_of_very_long_values_the_beginning_is_kept(kind: str) -> None:
    long = "x" * 10_000
    rows = [{"what": long + str(i % 3), "value": float(i)} for i in range(N)]
    model = LinearClassifier(columns={"what": kind}).fit(rows, [0, 1] * (N // 2))
    assert model.tally_ is not None
    names = model.tally_.names["what"]
    assert max(map(len, names.values())) == 200
    assert len(names) == (3 if kind == "category" else 1)  # digits of texts are alike
    plan = model.plan_
    assert plan is not None
    many, one = plan.encode(Raw(["what", "value"], [[long], [1.0]], 1)), plan.one([long, 1.0])
    assert np.array_equal(many.X, one.X)
    assert many.names == one.names
