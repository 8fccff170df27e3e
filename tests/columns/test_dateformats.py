"""Dates found and read, against `datetime` and its `strptime`."""

from __future__ import annotations

import datetime
import json
import math

import pytest
from helpers.sizes import size

from onkel.columns.dateformats import DateFormat, find_format

UTC = datetime.UTC


def written(rng, count: int, pattern: str, **between: int) -> list[tuple[str, float]]:
    """Return random times as a pattern writes them, with the seconds that they stand for."""
    found = []
    for when in rng.integers(between.get("low", 0), between.get("high", 4 * 10**9), count):
        text = datetime.datetime.fromtimestamp(int(when), UTC).strftime(pattern)
        read = datetime.datetime.strptime(text, pattern)
        read = read.replace(tzinfo=UTC) if read.tzinfo is None else read
        found.append((text, read.timestamp()))
    return found


@pytest.mark.parametrize(
    ("pattern", "form"),
    [
        ("%d.%m.%Y %H:%M:%S", "dmy"),
        ("%d.%m.%Y", "dmy"),
        ("%d.%m.%y %H:%M", "dmy"),
        ("%d-%m-%Y %H:%M", "dmy"),
        ("%d/%m/%Y", "dmy"),
        ("%m/%d/%Y %I:%M %p", "mdy"),
        ("%m/%d/%Y %I:%M:%S %p", "mdy"),
        ("%m/%d/%y", "mdy"),
        ("%m-%d-%Y", "mdy"),
        ("%Y/%m/%d", "ymd"),
        ("%Y.%m.%d %H:%M:%S", "ymd"),
        ("%Y-%m-%d", "iso"),
        ("%Y-%m-%d %H:%M:%S", "iso"),
        ("%Y-%m-%dT%H:%M:%S.%f", "iso"),
        ("%Y-%m-%dT%H:%M:%S%z", "iso"),
        ("%Y-%m-%d %H:%M:%S UTC", "ymd"),
        ("%d %b %Y %H:%M", "dby"),
        ("%d-%B-%Y", "dby"),
        ("%d/%b/%Y:%H:%M:%S %z", "dby"),
        ("%a, %d %b %Y %H:%M:%S GMT", "dby"),
        ("%b %d, %Y", "bdy"),
        ("%B %d, %Y %I:%M %p", "bdy"),
        ("%Y%m%d", "digits"),
        ("%Y%m%d%H%M", "digits"),
        ("%Y%m%d%H%M%S", "digits"),
    ],
)
def test_what_strftime_writes_is_found_and_read(rng, pattern, form) -> None:
    high = 3_100_000_000  # 2068: later years of two digits are the last century's
    rows = written(rng, size(60, 2000), pattern, high=high)
    found = find_format([text for text, _ in rows])
    assert found is not None and found.form == form and not found.unsure
    assert [found.seconds(text) for text, _ in rows] == [truth for _, truth in rows]
    assert DateFormat.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert repr(rows[0][0]) in found.words


@pytest.mark.parametrize(
    "pattern",
    ["%d.%m.%Y %H:%M:%S", "%H:%M %d/%m/%y", "%I %p, %B %d %Y", "%Y%m%d-%H%M%S.%f",
     "[%d/%b/%Y:%H:%M:%S %z]", "100%% %Y %m %d"],
)  # fmt: skip
def test_a_pattern_reads_what_strptime_reads(rng, pattern) -> None:
    given = DateFormat.given(pattern)
    for text, truth in written(rng, size(60, 2000), pattern, high=3_100_000_000):
        assert given.seconds(text) == truth
    for odd in ("", "x", "99.99.2020 00:00:00", text + "x", "0" + text + " "):
        with pytest.raises(ValueError, match=r"."):
            given.seconds(odd)


@pytest.mark.parametrize(
    ("cells", "form", "unsure"),
    [
        (["03.09.2020", "04.09.2020"], "dmy", True),
        (["03/09/2020", "04/09/2020"], "mdy", True),
        (["03-09-2020"], "dmy", True),
        (["03/09/2020", "13/09/2020"], "dmy", False),
        (["03.09.2020", "03.13.2020"], "mdy", False),
        (["1583769390"], "s", False),
        (["0", "1.5"], "s", False),
        ([1583769390123], "ms", False),
        (["1583769390123456"], "us", False),
        ([1583769390123456789], "ns", False),
        ([20200309, 20200310], "digits", False),
        ([20200309, 20201399], "s", False),
        (["2020-03-09", "NA", None, ""], "iso", False),
        ([datetime.date(2020, 3, 9), datetime.datetime(2020, 3, 9, 1)], "iso", False),
    ],
)
def test_what_cells_tell(cells, form, unsure) -> None:
    found = find_format(cells)
    assert found is not None and (found.form, found.unsure) == (form, unsure)


@pytest.mark.parametrize(
    "cells",
    [[], [None, "NA"], ["blue"], ["1.2.10", "1.3.11"], ["10.0.0.1"], ["15:56:30"], ["2020-W"],
     ["32.01.2020"], ["13/13/2020", "14/14/2020"], [["x"]], ["2020-03-09", "blue"]],
)  # fmt: skip
def test_what_is_no_date(cells) -> None:
    assert find_format(cells) is None


def test_one_of_ten_may_be_something_else() -> None:
    assert find_format(["09.03.2020"] * 9 + ["?!"]).form == "dmy"
    assert find_format(["09.03.2020"] * 8 + ["?!"]) is None


@pytest.mark.parametrize(
    ("form", "cell", "truth"),
    [
        ("s", " 12.5 ", 12.5),
        ("ns", 1_500_000_000, 1.5),
        ("mdy", "1/2/1970 12:00 AM", 86400.0),
        ("mdy", "1/2/1970 12:30 p.m.", 1.5 * 86400 + 1800),
        ("dmy", "2.1.1970 00:00:00,25", 86400.25),
        ("dmy", "2.1.1970 01:00+01:00", 86400.0),
        ("dmy", "2. 1. 1970", 86400.0),
        ("dmy", "31.12.1969 23:59:60", 0.0),
        ("bdy", "Jan 2nd, 1970", 86400.0),
        ("iso", datetime.datetime(1970, 1, 2, tzinfo=UTC), 86400.0),
        ("iso", datetime.date(1970, 1, 2), 86400.0),
    ],
)
def test_single_cells(form, cell, truth) -> None:
    assert DateFormat.given(form).seconds(cell) == truth


@pytest.mark.parametrize(
    ("form", "cell"),
    [("dmy", "30.02.2020"), ("dmy", "01.13.2020"), ("dmy", "2020-03-09"), ("dmy", 5),
     ("mdy", "1/2/1970 13:00 PM"), ("mdy", "1/2/1970 24:00"), ("iso", "12.5"), ("iso", None),
     ("s", "inf"), ("s", "1_0"), ("s", math.nan), ("s", "1e999"), ("s", "2020-03-09"),
     ("digits", 20201399), ("dmy", "1.1.2020 10:00 +99:00"), ("dmy", "١.١.2020")],
)  # fmt: skip
def test_what_is_refused(form, cell) -> None:
    with pytest.raises(ValueError, match=r"."):
        DateFormat(form).seconds(cell)


@pytest.mark.parametrize("form", ["", "dym", "%d.%m", "%d.%m.%Y %q", "%Y%Y%m%d", "%d.%m.%Y %"])
def test_formats_that_nobody_can_read(form) -> None:
    with pytest.raises(ValueError, match=r"of times"):
        DateFormat.given(form)


def test_many_days_are_not_all_kept(rng) -> None:
    found = DateFormat("ymd")
    for text, truth in written(rng, 6000, "%Y/%m/%d"):
        assert found.seconds(text) == truth
    kept = found.seconds.__self__._read.__self__._days  # type: ignore[attr-defined]
    assert len(kept) <= 4096
