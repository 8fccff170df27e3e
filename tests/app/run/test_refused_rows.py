"""A row that the model refuses goes to the dead letters; the others are learned without it."""

from __future__ import annotations

import time

import numpy as np
import pytest
from helpers.runs_of import json_lines, onkel, write_rows
from helpers.sizes import size

from onkel.app.run.counters import Counters
from onkel.app.run.counting import COUNTINGS
from onkel.app.run.series import model_of
from onkel.app.run.settings import RunSettings
from onkel.app.run.sifting import sift
from onkel.inputs import RefusedRow
from onkel.streams.sources import Block, Column, Schema


def csv_of(tmp_path, rng, place, value, column, **more):
    """Write rows with and without an absurd one; return both files."""
    X = rng.normal(size=(1500, 3))
    X[:, 2] = X[:, 0] + 0.5 * X[:, 1]
    clean = np.delete(X, place, axis=0)
    X[place, column] = value
    rest = {name: np.delete(values, place) for name, values in more.items()}
    return write_rows(tmp_path / "rows.csv", X, **more), write_rows(
        tmp_path / "clean.csv", clean, **rest
    )


def run_of(path, *words):
    """Run; return the predictions (the first may be empty), the dead letters and the last words."""
    out, dead = path.with_suffix(".out.csv"), path.with_suffix(".dead")
    told = onkel("regress", path, "--target", "c", "-o", out, "--dead-letters", dead, *words)
    assert told.exit_code == 0, told.output
    table = np.genfromtxt(out, delimiter=",", names=True)
    return table, json_lines(dead), told.output


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        (0, 1e20, ["--kernel", "linear"]),
        (0, 1e30, ["--kernel", "polynomial"]),
        (2, 1e150, ["--kernel", "gaussian", "--loss", "squared"]),
        (2, 1e150, []),
        (0, 1e20, []),
        (2, 1e150, ["--key", "k", "--kernel", "gaussian", "--loss", "squared"]),
        (0, 1e20, ["--kernel", "linear", "--lags", "2"]),
    ][:: size(2, 1)],
)
def test_an_outlier_is_a_dead_letter_and_the_run_goes_on(tmp_path, rng, column, value, words):
    more = {"k": np.array(["u", "v"])[np.arange(1500) % 2]} if "--key" in words else {}
    rows, clean = csv_of(tmp_path, rng, 700, value, column, **more)
    table, dead, told = run_of(rows, *words)
    other, nothing, _ = run_of(clean, *words)
    assert [(d["row"], d["line"]) for d in dead] == [(700, 702)] and not nothing
    assert dead[0]["text"].startswith(rows.read_text().splitlines()[701][:40])
    assert not dead[0]["reason"].startswith("Row") and "1 of 1,500 rows was broken" in told
    assert "not finite" in dead[0]["reason"] or "floating range" in dead[0]["reason"]
    assert table["row"].tolist() == [i for i in range(1500) if i != 700]
    np.testing.assert_allclose(table["prediction"], other["prediction"], rtol=1e-3, atol=1e-3)


def test_strict_stops_at_a_refused_row(tmp_path, rng):
    rows, _ = csv_of(tmp_path, rng, 700, 1e20, 0)
    told = onkel("regress", rows, "--target", "c", "--kernel", "linear", "--strict")
    assert told.exit_code == 3 and "line 702: k(x, x) is not finite" in told.output


def test_a_run_that_goes_on_adds_to_its_dead_letters(tmp_path, rng):
    rows, _ = csv_of(tmp_path, rng, 700, 1e20, 0)
    words = ["regress", rows, "--target", "c", "--kernel", "linear", "--state", tmp_path / "s"]
    assert onkel(*words).exit_code == 0
    with open(rows, "a") as file:
        file.write("1e20,0,0\n0,0,0\n")
    assert onkel(*words).exit_code == 0
    dead = json_lines(tmp_path / "s" / "dead_letters.jsonl")
    assert [d["row"] for d in dead] == [700, 1500]
    assert '"broken": 2' in onkel("inspect", tmp_path / "s", "--json").output


def block_of(X, y, known=None):
    n = len(X)
    texts = [b"%d" % i for i in range(n)]
    known = np.ones(n, bool) if known is None else known
    return Block(0, n, np.arange(n), X, {}, y, known, lines=[*range(1, n + 1)], texts=texts)


def counting_of(**words):
    settings = RunSettings("regress", **words)
    schema = Schema((Column("a"), Column("b")))
    return COUNTINGS["regress"](settings, schema, Counters()), model_of(settings, 2)


def test_rows_before_a_stretch_without_targets_count_once(rng):
    X, known = rng.normal(size=(300, 2)), np.ones(300, bool)
    known[50:60], X[200, 0] = False, 1e25
    counting, model = counting_of(kernel="linear", precision="single")
    found = sift(counting, model, block_of(X, X[:, 1], known))
    assert list(found.refused) == [200] and model.t_ == 289
    columns = found.finish()
    assert len(columns["prediction"]) == 299 and columns["target"].count(None) == 10
    without, other = counting_of(kernel="linear", precision="single")
    keep = np.arange(300) != 200
    clean = without(other, block_of(X[keep], X[keep, 1], known[keep]))()
    np.testing.assert_allclose(columns["prediction"], clean["prediction"], rtol=1e-5, atol=1e-6)


class Picky:
    """Stands for what judges: refuses some rows, and counts what it was asked."""

    def __init__(self, bad):
        self.bad, self.asked, self.learned = bad, 0, []

    def __call__(self, model, block):
        rows = block.rows.tolist()
        for i, row in enumerate(rows):
            self.asked += 1
            if row in self.bad:
                raise RefusedRow(f"Row {i}: no", i)
        self.learned += rows
        return lambda: {"row": rows}


@pytest.mark.parametrize("every", [1, 2, 3, 10, 1000, 8191])
def test_refused_rows_cost_no_square_of_the_block(every):
    n = 8192
    bad = {*range(0, n, every)}
    picky = Picky(bad)
    begun = time.process_time()
    found = sift(picky, None, block_of(np.zeros((n, 1)), np.zeros(n)))
    left = [i for i in range(n) if i not in bad]
    assert picky.learned == left and {*found.refused} == bad
    assert found.finish() == ({"row": left} if left else {})
    assert picky.asked <= 4 * n and time.process_time() - begun < 5
