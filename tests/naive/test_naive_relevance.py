"""The naive relevance of columns against truths found another way."""

from __future__ import annotations

import numpy as np
import pytest

from naive import relevance


def test_effects_of_a_linear_f_are_its_squared_weights_times_differences(rng):
    rows, a = rng.normal(size=(20, 4)), np.array([[3.0, 0.0, -1.0, 0.5], [0.0, 0.0, 2.0, 1.0]])
    found = relevance.effects(lambda x: (a @ np.array(x)).tolist(), rows.tolist())
    gaps = np.square(rows - np.roll(rows, 1, axis=0)).sum(axis=0)
    assert found == pytest.approx(np.square(a).sum(axis=0) * gaps)


def test_an_f_of_one_column_gives_it_the_width_that_the_floor_leaves(rng):
    rows, found = rng.normal(size=(100, 10)).tolist(), relevance.Relevance(10)
    for _ in range(120):
        found.follow([lambda x: [np.sin(x[3])]], rows)
    assert found.width[3] == pytest.approx(10 * 10 / (10 + 9 * relevance.LEAST))
    assert sum(found.width) == pytest.approx(10)
    assert found.part[3] == pytest.approx(1.0)


def test_columns_that_matter_alike_keep_a_width_of_one():
    rows, found = [[1.0, 1.0], [-1.0, -1.0]] * 50, relevance.Relevance(2)
    found.follow([lambda x: [x[0] * x[1]], lambda x: [x[0] - x[1]]], rows)
    assert found.width == pytest.approx([1.0, 1.0])


def test_members_that_say_nothing_are_not_asked(rng):
    rows, found = rng.normal(size=(30, 3)).tolist(), relevance.Relevance(3)
    found.follow([lambda x: [7.0]], rows)
    assert found.width == [1.0] * 3
    alone = relevance.shares([lambda x: [x[1]]], rows)
    assert relevance.shares([lambda x: [7.0], lambda x: [x[1]]], rows) == alone == [0.0, 1.0, 0.0]


@pytest.mark.parametrize(("columns", "asked"), [(1, 32), (8, 32), (16, 16), (1000, 4)])
def test_few_of_the_newest_rows_are_asked_about(columns, asked):
    rows = [[float(i)] for i in range(100)]
    assert relevance.sampled(rows, columns) == rows[-asked:]
