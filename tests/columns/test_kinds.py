"""What cells make of a column, and what commas are in them."""

from __future__ import annotations

import datetime
import math
import uuid

import numpy as np
import pytest

from onkel.columns.decimals import commas_in
from onkel.columns.kinds import PAIRS, kind_of, truth_of


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "2.5", "NA", "", "-3e4"], "number"),
        (["1"] * 9 + ["x"], "number"),
        (["1"] * 8 + ["x"], "category"),
        ([1, 2.5, None, math.nan], "number"),
        ([np.float32(1), np.int8(3)], "number"),
        (["0", "1"], "number"),
        ([1, 0, True], "number"),
        ([], "number"),
        ([None, "NA"], "number"),
        ([True, False, None], "boolean"),
        ([np.bool_(True)], "boolean"),
        (["true", "False", ""], "boolean"),
        (["YES", "no"], "boolean"),
        (["on", "off"], "boolean"),
        (["t", "F"], "boolean"),
        (["y", "n", "NA"], "boolean"),
        (["yes"], "boolean"),
        (["F", "F"], "category"),
        (["yes", "no", "perhaps"], "category"),
        (["yes", "true"], "category"),
        (["2020-03-09", "2020-03-10T12:00"], "time"),
        (["09.03.2020 15:56:30"], "time"),
        ([datetime.date(2020, 3, 9), None], "time"),
        ([np.datetime64("2020-03-09")], "time"),
        (["AA", "UA", "AA"], "category"),
        (["AA", 3, None], "category"),
        (["none", "rain"], "category"),
        (["a long name that comes again"] * 60, "category"),
        (["Call me when you can", "I am on my way home", ""], "text"),
        ([str(uuid.UUID(int=i)) for i in range(50)], "identifier"),
        ([str(uuid.UUID(int=i)) for i in range(49)], "category"),
        ([f"Ann Smith {i}" for i in range(60)], "text"),
        ([f"Ann S{i}" for i in range(60)], "identifier"),
        ([f"user{i % 40}" for i in range(60)], "category"),
    ],
)
def test_what_cells_make(cells, kind) -> None:
    assert kind_of(cells) == kind


def test_words_for_truth() -> None:
    for no, yes in PAIRS:
        assert [truth_of(w) for w in (no, yes, no.upper(), f" {yes.title()} ")] == [0, 1, 0, 1]
    assert [truth_of(v) for v in (True, None, "", "2", 5)] == [True, None, "", "2", 5]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["3,14", "2,718"], "decimal"),
        (["3,14", "2", "-0,5e3", ",5", "1,"], "decimal"),
        (["0,123", "0,456"], "decimal"),
        (["1,234", "0,567"], "decimal"),
        (["1,234", "12,500", "7"], "groups"),
        (["1,234,567", "1,234.5"], "groups"),
        (["1.234.567", "1.234,5"], "groups"),
        (["1 234 567", "12 500"], "groups"),
        (["1'234.50"], "groups"),
        (["3.14"], ""),
        (["3,14", "3.14"], ""),
        (["1", "2"], ""),
        (["a,b"], ""),
        ([3.5, 4], ""),
        ([], ""),
    ],
)
def test_commas(cells, kind) -> None:
    assert commas_in(cells) == kind
    if kind == "decimal":
        assert kind_of(cells) == "category" and kind_of(cells, ",") == "number"
