"""What a target's cell may hold, in every format: a label, nothing, or a broken row's reason."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.reading import FAST, broken, read

from onkel.streams.sources import Roles
from onkel.streams.sources.schema import SAMPLE

LABELS = Roles("y", labels=True)


def written(path, labels):
    """Write labels beside numbers, as JSON lines or Parquet; return the path."""
    if path.suffix == ".jsonl":
        rows = [json.dumps({"a": i, "y": label}) for i, label in enumerate(labels)]
        path.write_text("\n".join(rows))
        return path
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"a": range(len(labels)), "y": labels}), path)
    return path


@pytest.mark.parametrize("fast", FAST)
@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ({"b": 1}, "dict where a label was expected"),
        (["b"], "list where a label was expected"),
        ("b" * 1001, "a label of 1001 characters; up to 1000 are taken"),
    ],
    ids=["object", "array", "long"],
)
def test_what_is_no_text_label_is_a_broken_row(tmp_path, fast, cell, reason):
    labels = [*["u", "v"] * 50, cell, "u", "b" * 1000]
    _, blocks = read(written(tmp_path / "rows.jsonl", labels), fast=fast, roles=LABELS)
    assert broken(blocks) == [(101, f"column 'y': {reason}")]
    assert np.concatenate([b.y for b in blocks]).tolist() == [*["u", "v"] * 50, "u", "b" * 1000]


@pytest.mark.few
@pytest.mark.parametrize("fast", FAST)
@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ({"b": 1}, "dict where a number was expected"),
        ([1], "list where a number was expected"),
        (2**63, "a whole number of 65 bits, sign and all, is no label; 64 are taken"),
        (10**400, "a whole number of 1330 bits, sign and all, is no label; 64 are taken"),
        (1e100, "1e+100 is no label; with a point they go up to 2**53"),
        (1.5, "1.5 is no label; the others are whole numbers"),
        (
            "x",
            "'x' is no label, the others are whole numbers (--missing-label x: such rows have "
            "none)",
        ),
    ],
    ids=["object", "array", "65 bits", "long", "float", "fraction", "word"],
)
def test_what_is_no_whole_number_is_a_broken_row(tmp_path, fast, cell, reason):
    labels = [*[1, 2] * SAMPLE, cell, True, 2**53, 2**53 + 1, None]
    _, blocks = read(written(tmp_path / "rows.jsonl", labels), fast=fast, roles=LABELS)
    assert broken(blocks) == [(2 * SAMPLE + 1, f"column 'y': {reason}")]
    y, known = (np.concatenate([getattr(b, name) for b in blocks]) for name in ("y", "known"))
    assert y[known].tolist() == [*[1, 2] * SAMPLE, 1, 2**53, 2**53 + 1]


def test_whole_numbers_of_a_csv_file_are_as_they_are_written(tmp_path):
    cells = ["1", "2.0", str(2**53), str(2**53 + 1), str(-(2**63) + 1), str(2**63), "9" * 60, "+3"]
    lines = [f"{i},{cell}" for i, cell in enumerate(cells)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,y", *lines]))
    _, blocks = read(tmp_path / "rows.csv", roles=LABELS)
    assert blocks[0].y.tolist() == [1, 2, 2**53, 2**53 + 1, -(2**63) + 1, 3]
    assert [line for line, _ in broken(blocks)] == [7, 8]


@pytest.mark.parametrize(
    ("labels", "good", "bad"),
    [
        ([True, False, None], [1, 0], []),
        ([1.0, 2.0, float("nan"), 3.0], [1, 2, 3], []),
        ([0.5, 1.5, float("nan")], ["0.5", "1.5"], []),
        ([b"u", b"v"], [], [1, 2]),
        ([[1], [2]], [], [1, 2]),
        ([{"b": 1}, {"b": 2}], [], [1, 2]),
        (["u", "a\0", "a"], ["u", "a\0", "a"], []),
    ],
    ids=["booleans", "NaN", "fractions", "bytes", "lists", "objects", "NUL"],
)
def test_labels_of_a_parquet_file(tmp_path, labels, good, bad):
    _, blocks = read(written(tmp_path / "rows.parquet", labels), roles=LABELS)
    assert blocks[0].y[blocks[0].known].tolist() == good
    assert [line for line, _ in broken(blocks)] == bad


def test_a_long_label_does_not_widen_the_others(tmp_path):
    labels = ["u", "v", "w" * 1000]
    _, blocks = read(written(tmp_path / "rows.jsonl", labels), roles=LABELS)
    assert blocks[0].y.dtype == object and blocks[0].y.tolist() == labels
