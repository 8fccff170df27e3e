"""Rows without a label: an empty cell is none, a word is a label unless someone says otherwise."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.reading import FAST, broken, read

from onkel.columns.cells import MISSING
from onkel.streams.sources import Roles, Schema

RAIN = ["rain", "none", "", "none", "NA", "rain", "-", "null"]
WORDS = ["rain", "none", "none", "NA", "rain", "-", "null"]


def labels(blocks) -> list:
    """Return the labels, None where there is none."""
    return [
        label if known else None
        for b in blocks
        for label, known in zip(b.y.tolist(), b.known.tolist(), strict=True)
    ]


def as_csv(path, cells):
    path.write_text("a,y\n" + "".join(f"{i % 7},{cell}\n" for i, cell in enumerate(cells)))
    return path


@pytest.mark.parametrize("fast", FAST)
def test_words_for_a_missing_number_are_labels(tmp_path, fast) -> None:
    path = as_csv(tmp_path / "rows.csv", RAIN * 40)
    source, blocks = read(path, fast=fast, roles=Roles("y", labels=True))
    assert labels(blocks) == [cell or None for cell in RAIN] * 40 and broken(blocks) == []
    assert sum(int((~b.known).sum()) for b in blocks) == 40
    (said,) = source.warnings()
    assert said.startswith("column 'y': 'none', 'NA', '-', 'null' are labels as any other")
    assert "--missing-label none" in said
    assert Schema.from_dict(source.memo()["schema"]).warnings() == [said]


@pytest.mark.parametrize("fast", FAST)
def test_words_that_someone_named_are_no_labels(tmp_path, fast) -> None:
    roles = Roles("y", labels=True, missing_labels=("NA", "-", "null"))
    source, blocks = read(as_csv(tmp_path / "rows.csv", RAIN), fast=fast, roles=roles)
    assert labels(blocks) == ["rain", "none", None, "none", None, "rain", None, None]
    assert Schema.from_dict(source.memo()["schema"]) == source.schema


@pytest.mark.parametrize("fast", FAST)
def test_labels_of_json_lines(tmp_path, fast) -> None:
    rows = [{"a": i % 7, "y": word} for i, word in enumerate(WORDS)]
    rows += [{"a": 1, "y": None}, {"a": 2}, {"a": 3, "y": ""}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    _, blocks = read(tmp_path / "rows.jsonl", fast=fast, roles=Roles("y", labels=True))
    assert labels(blocks) == [*WORDS, None, None, None]


@pytest.mark.parametrize("coded", [False, True])
def test_labels_of_parquet(tmp_path, coded) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    y = pyarrow.array([*WORDS, None, ""])
    y = y.dictionary_encode() if coded else y
    parquet.write_table(pyarrow.table({"a": range(len(y)), "y": y}), tmp_path / "rows.parquet")
    _, blocks = read(tmp_path / "rows.parquet", roles=Roles("y", labels=True))
    assert labels(blocks) == [*WORDS, None, None]


@pytest.mark.parametrize("fast", FAST)
def test_a_word_among_whole_labels_is_a_broken_row_that_names_the_option(tmp_path, fast) -> None:
    cells = ["1", "0"] * 50 + ["NA", "", "x", "1"]
    path = as_csv(tmp_path / "rows.csv", cells)
    _, blocks = read(path, fast=fast, roles=Roles("y", labels=True))
    assert [line for line, _ in broken(blocks)] == [102, 104]
    assert broken(blocks)[0][1] == (
        "column 'y': 'NA' is no label, the others are whole numbers (--missing-label NA: such rows "
        "have none)"
    )
    assert labels(blocks) == [1, 0] * 50 + [None, 1]
    _, blocks = read(path, fast=fast, roles=Roles("y", labels=True, missing_labels=("NA", "x")))
    assert broken(blocks) == [] and labels(blocks) == [1, 0] * 50 + [None, None, None, 1]


def test_many_words_among_whole_labels_make_texts_of_all(tmp_path) -> None:
    path = as_csv(tmp_path / "rows.csv", ["1", "none", "2"] * 10)
    source, blocks = read(path, roles=Roles("y", labels=True))
    assert labels(blocks) == ["1", "none", "2"] * 10
    assert "'none' is a label as any other" in source.warnings()[0]


@pytest.mark.parametrize("cell", [-1, -1.0, "-1"])
def test_a_number_may_stand_for_none(tmp_path, cell) -> None:
    rows = [{"a": i % 7, "y": y} for i, y in enumerate([1, 0, cell, 1])]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for labels_wanted in (True, False):
        roles = Roles("y", labels=labels_wanted, missing_labels=("-1",))
        _, blocks = read(tmp_path / "rows.jsonl", roles=roles)
        assert labels(blocks) == [1, 0, None, 1]


@pytest.mark.parametrize("word", MISSING)
def test_a_missing_number_is_none_to_a_regression(tmp_path, word) -> None:
    path = as_csv(tmp_path / "rows.csv", ["1.5", word, "2"])
    _, blocks = read(path, roles=Roles("y"))
    assert np.concatenate([b.known for b in blocks]).tolist() == [True, False, True]
