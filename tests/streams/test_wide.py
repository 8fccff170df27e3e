"""Many columns: twice as many cost twice as much, and names that nobody shares are no columns."""

from __future__ import annotations

import json
import time

import numpy as np
import pytest
from helpers.reading import FAST, read
from helpers.sizes import size

from onkel.streams.sources import Reading, Roles, Schema, SourceError, open_source
from onkel.streams.sources.block import ROOM
from onkel.streams.sources.jsonlines import WIDEST

WIDE = size(10_000, 100_000)


@pytest.fixture
def in_time():
    """Fail a test that took as long as the square of the columns takes."""
    begun = time.process_time()
    yield
    assert time.process_time() - begun < WIDE / 5000


@pytest.mark.parametrize("fast", FAST)
def test_a_csv_of_many_columns(tmp_path, in_time, fast) -> None:
    names = [f"x{j}" for j in range(WIDE)]
    row = ",".join("1" * WIDE)
    (tmp_path / "rows.csv").write_text(",".join(names) + "\n" + f"{row}\n" * 3)
    source, blocks = read(tmp_path / "rows.csv", fast=fast)
    assert source.schema.features == names and blocks[0].X.tolist() == [[1.0] * WIDE] * 3


def test_columns_in_another_order_and_a_wrong_header(tmp_path, in_time) -> None:
    from onkel.streams.sources.delimited import Delimited

    decoder = Delimited(",", True, names=[f"x{j}" for j in range(WIDE)])
    assert decoder.adopt(",".join(reversed(decoder.names)).encode())
    assert decoder.layout() == {"order": list(reversed(range(WIDE)))}
    other = ",".join(f"y{j}" for j in range(WIDE)).encode()
    with pytest.raises(
        SourceError, match=r"other columns: y0, y1, .*y19, … instead of x0, "
    ) as told:
        decoder.adopt(other)
    assert len(str(told.value)) < 500


def test_roles_of_many_columns(in_time) -> None:
    names = [f"x{j}" for j in range(WIDE)]
    schema = Schema.infer(names, [["1"] * WIDE] * 2, Roles(ignore=tuple(names[1:])))
    assert schema.features == ["x0"]
    with pytest.raises(SourceError, match="of their own; there are several"):
        Schema.infer(names * 2, [], Roles())
    texts = Schema.infer(["n", *names], [["1", *[["a list"]] * WIDE]], Roles()).warnings()
    assert len(texts) == 21 and texts[-1] == f"{WIDE - 20} more columns are like 'x0'"


@pytest.mark.parametrize("fast", FAST)
def test_json_rows_that_share_few_names(tmp_path, in_time, fast) -> None:
    each = WIDE // 2000
    rows = [{f"k{i}-{j}": j for j in range(each)} | {"a": i} for i in range(1000)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source, blocks = read(tmp_path / "rows.jsonl", fast=fast)
    assert len(source.schema.features) == 1000 * each + 1
    X = np.concatenate([b.X for b in blocks])
    assert X[:, each].tolist() == list(range(1000))  # "a" stands behind the first row's own
    assert np.count_nonzero(~np.isnan(X)) == 1000 * (each + 1)
    assert max(b.count for b in blocks) * X.shape[1] <= ROOM


def test_json_rows_whose_names_are_values(tmp_path) -> None:
    rows = [{f"k{i}-{j}": j for j in range(200)} for i in range(1000)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(SourceError, match=f"200000 names, and {WIDEST} columns are the most"):
        open_source(str(tmp_path / "rows.jsonl"))


def test_sparse_rows_of_libsvm(tmp_path, in_time) -> None:
    rows = [f"{i % 2} {i + 1}:1.5 {WIDE}:nan" for i in range(300)]
    (tmp_path / "rows.libsvm").write_text("\n".join(rows) + "\n")
    how = Reading(roles=Roles("label", labels=True))
    schema = open_source(str(tmp_path / "rows.libsvm"), how).schema
    kinds = [column.kind for column in schema.columns]
    assert kinds[0] == "whole" and kinds[1:301] == ["number"] * 300
    assert set(kinds[301:]) == {"whole"}
