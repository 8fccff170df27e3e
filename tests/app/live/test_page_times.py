"""The axes of the page, where rows have times."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest
from helpers.runs_of import onkel, write_rows
from helpers.serving import served
from helpers.sizes import LONG, WHY_NOT
from helpers.watching import keep, until, watched

if not LONG:
    pytest.skip(WHY_NOT, allow_module_level=True)
pytest.importorskip("bokeh", reason="needs Bokeh: pip install onkel[serve]")

BEGAN = dt.datetime(2026, 9, 28, 22, 17, 31, tzinfo=dt.UTC)
AXES = """Bokeh.documents.map((d) => d.roots()[0].below[0]).map((x) => ({label: x.axis_label,
  at: x.ticker.ticks || null, names: [...x.major_label_overrides.values()]}))"""


def parsed(names):
    """Return the times that ticks tell, the day of those without one being that before them."""
    found, day = [], ""
    for name in names:
        clock, _, told = name.partition("\n")
        day = told or day
        form = "%H:%M" + {1: "", 2: ":%S"}[clock.count(":")] + (".%f" if "." in clock else "")
        when = dt.datetime.strptime(f"2026 {day} {clock}", f"%Y %d %b {form}")
        found.append(when.replace(tzinfo=dt.UTC).timestamp())
    return found


@pytest.fixture
def times(browser, tmp_path):
    """A page in which `Times` is there."""
    page = browser.new_page()
    with served(tmp_path / "service") as one:
        page.goto(one.url)
        yield lambda known: page.evaluate("(known) => Times.ticks(known)", known)
    page.close()


def test_ticks_lie_where_their_times_do(times, rng):
    for span in (0.05, 2.0, 45.0, 600.0, 5e3, 4e4, 2e5):
        at = np.cumsum(rng.integers(1, 500, 300))
        when = BEGAN.timestamp() + span * np.sort(rng.random(300))
        found = times(np.column_stack([at, when]).tolist())
        assert 2 <= len(found) <= 6
        told = parsed([name for _, name in found])
        wanted = np.interp(told, when, at)
        assert [place for place, _ in found] == pytest.approx(wanted.tolist(), abs=at[-1] * 1e-3)
        steps = np.unique(np.round(np.diff(told), 6))
        assert len(steps) <= 1 and when[0] <= told[0] and told[-1] <= when[-1] + 1e-3


def test_days_months_years_and_numbers(times):
    def names(first, last):
        return [name for _, name in times([[1, first], [1001, last]])]

    def at(*day):
        return dt.datetime(*day, tzinfo=dt.UTC).timestamp()

    assert names(at(2026, 2, 26, 5), at(2026, 3, 2, 5)) == ["27 Feb", "28 Feb", "01 Mar", "02 Mar"]
    assert names(at(2026, 11, 20), at(2027, 2, 20)) == ["Dec 2026", "Jan 2027", "Feb 2027"]
    assert names(at(1995, 5, 1), at(2026, 5, 1)) == ["2000", "2010", "2020"]
    assert names(0, 100) == ["0", "20", "40", "60", "80", "100"]
    assert names(-0.004, 0.0045) == ["-0.004", "-0.002", "0", "0.002", "0.004"]
    for known in ([], [[1, 5e9]], [[1, 2e9], [2, 2e9]], [[1, 2e9], [2, 3e9], [3, 2.5e9]]):
        assert times(known) is None


@pytest.mark.parametrize("width", [1280, 390])
def test_a_run_with_times_has_them_on_its_axes(browser, rng, tmp_path, width):
    seconds = np.cumsum(rng.exponential(60.0, 3000))
    when = [str(np.datetime64(BEGAN.replace(tzinfo=None)) + int(s)) for s in 1e6 * seconds]
    path = write_rows(tmp_path / "rows.csv", rng.normal(size=(3000, 2)), at=when)
    words = ["detect", path, "--state", tmp_path / "s", "-o", tmp_path / "out"]
    assert onkel(*words, "--time", "at").exit_code == 0
    with watched(browser, tmp_path / "s", width) as page:
        until(page, "Bokeh.documents.length > 1 && document.querySelector('#alerts li') !== null")
        until(page, f"({AXES})[0].at !== null")
        score, rate = page.evaluate(AXES)[:2]
        keep(page, f"times-{width}")
    assert score["label"] == "time, UTC" and score["at"] == rate["at"]
    told = parsed(score["names"])
    assert len(told) > 2
    rows = np.interp(told, BEGAN.timestamp() + seconds, np.arange(1, 3001))
    assert score["at"] == pytest.approx(rows.tolist(), abs=12)  # the history has stretches of 4


def test_times_that_go_back_leave_the_numbers_of_examples(browser, rng, tmp_path):
    when = np.where(np.arange(2000) < 1500, 1.8e9, 1.7e9) + np.arange(2000)
    path = write_rows(tmp_path / "rows.csv", rng.normal(size=(2000, 2)), at=when)
    words = ["detect", path, "--state", tmp_path / "s", "-o", tmp_path / "out"]
    assert onkel(*words, "--time", "at").exit_code == 0
    with watched(browser, tmp_path / "s", 1280) as page:
        until(page, "Bokeh.documents.length > 1 && document.querySelector('#alerts li') !== null")
        score = page.evaluate(AXES)[0]
    assert score == {"label": "example", "at": None, "names": []}
