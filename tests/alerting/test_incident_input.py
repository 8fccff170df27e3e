"""What incidents are given: by position whatever holds it, checked before anything changes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from onkel.alerting import Incidents, cool_down, incidents
from onkel.alerting.incident import Alert, Incident

COUNT = 60


def given(rng):
    """Return one value per row of everything, as plain lists."""
    alerts = (rng.random(COUNT) < 0.4).tolist()
    names = ["a", "b", "c"]
    return {
        "alerts": alerts, "values": rng.normal(size=COUNT).tolist(),
        "time": (1000.0 + np.cumsum(rng.random(COUNT))).tolist(),
        "keys": [names[k] for k in rng.integers(0, 3, COUNT)],
        "far": (4 * rng.normal(size=(COUNT, 2))).tolist(),
        "shown": (rng.random(COUNT) < 0.7).tolist(), "rows": (1000 + 3 * np.arange(COUNT)).tolist(),
        "stamps": [f"at {i}" for i in range(COUNT)], "ids": [f"id {i}" for i in range(COUNT)],
        "by_answer": (rng.random(COUNT) < 0.2).tolist(),
    }  # fmt: skip


def told(given, keyed, pieces=2):
    groups, found = Incidents(3, rate=0.01), []
    for at in range(0, COUNT, COUNT // pieces):
        part = {name: _part(held, slice(at, at + COUNT // pieces)) for name, held in given.items()}
        if not keyed:
            del part["keys"]
        alerts, values = part.pop("alerts"), part.pop("values")
        found.append(groups.update(alerts, values, **part))
    numbers = [n for f in found for n in f.numbers.tolist()]
    closed = [e.incident.dump() for f in found for e in f.events if e.what == "closed"]
    return numbers, json.dumps([closed, [one.dump() for one in groups.close()], groups.dump()])


def _part(held, at):
    return held.iloc[at] if hasattr(held, "iloc") else held[at]


def as_series(pandas, held, index):
    if isinstance(held[0], list):
        return pandas.DataFrame(held, index=index, columns=["y", "x"])
    return pandas.Series(held, index=index)


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("index", ["turned", "texts", "dates", "alike"])
def test_frames_and_series_go_by_position(index, keyed, rng):
    """The truth are the plain lists: `loc` would find other rows, or none."""
    pandas = pytest.importorskip("pandas")
    labels = {
        "turned": range(COUNT)[::-1], "texts": [f"row {i}" for i in range(COUNT)],
        "dates": pandas.date_range("2026-01-01", periods=COUNT, freq="h"), "alike": [7] * COUNT,
    }[index]  # fmt: skip
    plain = given(rng)
    series = {name: as_series(pandas, held, labels) for name, held in plain.items()}
    assert told(series, keyed) == told(plain, keyed)
    for name in plain:  # one at a time, beside lists
        assert told({**plain, name: series[name]}, keyed) == told(plain, keyed)
    names = ("alerts", "values", "time", "keys", "far")
    found = incidents(gap=3, rate=0.01, **{name: series[name] for name in names})
    assert found == incidents(gap=3, rate=0.01, **{name: plain[name] for name in names})


@pytest.mark.parametrize("kind", ["polars", "arrays", "tuples"])
def test_other_holders_are_read_alike(kind, rng):
    plain = given(rng)
    if kind == "polars":
        polars = pytest.importorskip("polars")
        held = {n: polars.DataFrame(v, orient="row") if n == "far" else polars.Series(v)
                for n, v in plain.items()}  # fmt: skip
    else:
        held = {name: (np.array if kind == "arrays" else tuple)(v) for name, v in plain.items()}
    for keyed in (True, False):
        assert told(held, keyed) == told(plain, keyed)


def test_single_rows_of_far_may_be_anything(rng):
    pandas = pytest.importorskip("pandas")
    rows = [None, pandas.Series([0.0, 4.0], index=["y", "x"]), np.array([9.0, 0.0]), [0.0, -5.0]]
    (one,) = incidents([1, 1, 1, 1], [0.0] * 4, 3, far=rows)
    assert one.drivers() == [(1, 2, -5.0), (0, 1, 9.0)]


class Unhashable(list):
    pass


REFUSED = {
    "keys": ([None, "b"], [Unhashable(), "b"], [np.nan, "b"], [1.5, 2.5], [True, False], ["a"],
             "ab", [b"a", b"b"], np.array([["a", "b"]]), 7),
    "far": ([["high"], ["low"]], ["high", "low"], [[1.0]], [1.0, 2.0], [[[1.0]], [[2.0]]],
            {"x": [1.0], "y": [2.0]}, 4.0),
    "rows": (["one", "two"], [1.5, 2.0], [None, 2], [np.nan, 1.0], [1], [True, False], 5),
    "stamps": (["now"], 4, "ab"), "ids": (["1"], 4, "ab"),
    "shown": (["yes", "no"], [True], [2, 0], [None, True], True),
    "by_answer": (["yes", "no"], [True], [np.nan, 0.0]),
    "values": (["low", "high"], [1.0], [np.nan, 1.0], [None, 1.0], [[1.0], [1.0, 2.0]], 3.0),
    "alerts": (["yes", "no"], [True], [-1, 1], [None, True], [[True], [True, False]], True),
    "time": (["soon", "later"], [1.0], [np.nan, 1.0]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"), [(n, v) for n, values in REFUSED.items() for v in values], ids=str
)
def test_a_refused_call_names_the_argument_and_changes_nothing(name, value):
    """Row 0 is an alert, and row 1 none: rows, ids and far of that are not looked at."""
    groups = Incidents(3, rate=0.01)
    groups.update([True, True], [-1.0, -2.0], [5.0, 6.0], ["a", "b"])
    before, opened = json.dumps(groups.dump()), groups.open
    how = {"alerts": [True, False], "values": [-1.0, 0.0], "time": [7.0, 8.0], "keys": ["a", "b"]}
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        groups.update(**{**how, name: value})
    assert json.dumps(groups.dump()) == before and groups.open == opened
    groups.update(**how)
    other = Incidents(3, rate=0.01)
    other.update([True, True], [-1.0, -2.0], [5.0, 6.0], ["a", "b"])
    other.update(**how)
    assert json.dumps(groups.dump()) == json.dumps(other.dump())


def test_the_first_call_can_be_refused_too():
    groups = Incidents(3)
    before = json.dumps(groups.dump())
    with pytest.raises(ValueError, match=r"keys must be texts or whole numbers.*row 1 has None"):
        groups.update([True, True], [0.0, 0.0], keys=["a", None])
    assert json.dumps(groups.dump()) == before
    groups.update([True], [0.0])  # and it may go on without keys


@pytest.mark.parametrize("rate", ["x", True, [0.1], np.nan, 0, 1, -0.1])
def test_a_rate_that_is_none_is_refused(rate):
    with pytest.raises(ValueError, match="rate must lie between 0 and 1"):
        Incidents(3, rate=rate)


def test_keys_of_numpy_are_those_of_python():
    for keys in (np.array(["a", "b"]), [np.str_("a"), np.str_("b")], np.array(["a", "b"], object)):
        groups = Incidents(3)
        groups.update([True, True], [0.0, 0.0], keys=keys)
        assert [one.key for one in groups.open] == ["a", "b"]
        assert json.loads(json.dumps(groups.dump()))["opened"] == 2
    groups = Incidents(3)
    groups.update([True, True], [0.0, 0.0], keys=[np.int64(1), np.uint8(2)])
    assert [type(one.key) for one in groups.open] == [int, int]


def test_a_cool_down_refuses_what_is_no_alert():
    with pytest.raises(ValueError, match="alerts must be a list of True and False"):
        cool_down([[True], [True, False]], 3)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("gap", ["1h", "3s", 4])
def test_an_incident_never_lasts_less_than_no_time(gap, keyed, rng):
    """Times run backwards; it begins with its first alert and ends with the latest time of one."""
    for _ in range(20):
        times = rng.integers(0, 50, 40).astype(float)
        alerts = rng.random(40) < 0.5
        keys = [f"k{k}" for k in rng.integers(0, 4, 40)] if keyed else None
        for one in incidents(alerts, -np.ones(40), gap, times, keys, rate=0.05):
            assert one.began == times[one.start]
            assert times[one.end] <= one.ended <= max(times[one.start : one.end + 1])
            assert one.duration == one.ended - one.began >= 0


def test_keys_that_come_one_after_another_have_incidents_of_their_own():
    """As in a file that is sorted by its keys: each begins at the same hour as the one before."""
    times = [0.0, 10.0, 500.0, 510.0] * 2
    one, other, third, fourth = incidents(np.ones(8), -np.ones(8), "1min", times, [*"aaaabbbb"])
    assert [o.key for o in (one, other, third, fourth)] == [*"aabb"]
    assert [o.duration for o in (one, other, third, fourth)] == [10.0] * 4
    assert [(o.start, o.end) for o in (third, fourth)] == [(4, 5), (6, 7)]
    assert [o.duration for o in incidents(np.ones(8), -np.ones(8), 2, times, [*"aaaabbbb"])] == (
        [510.0, 510.0]
    )


def test_a_duration_by_hand():
    (one,) = incidents([1, 0, 1], [-1, 0, -2], "1h", time=[100.0, 50.0, 30.0])
    assert (one.began, one.ended, one.duration) == (100.0, 100.0, 0.0)


def test_times_of_quiet_rows_count_where_a_file_begins_again():
    """Two files, one behind the other: between two alerts of the second an hour goes by quietly."""
    times, alerts = [9000.0, 0.0, 3600.0, 3601.0, 3602.0], [0, 1, 0, 1, 0]
    found = incidents(alerts, -np.ones(5), "1min", times)
    assert [(one.start, one.end, one.duration) for one in found] == [(1, 1, 0.0), (3, 3, 0.0)]
    back = incidents([0, 1, 0, 1], -np.ones(4), "1min", [9000.0, 0.0, 3600.0, 1.0])
    assert [(one.start, one.end) for one in back] == [(1, 1), (3, 3)]
    groups = Incidents("1min")
    told = [
        groups.update([alert], [-1.0], [time]).events
        for alert, time in zip(alerts, times, strict=True)
    ]
    assert [[event.what for event in events] for events in told[:4]] == [
        [], ["opened"], ["closed"], ["opened"],
    ]  # fmt: skip


def test_what_an_incident_takes_in_never_shortens_it():
    whole, early, late = (Incident(number, "k") for number in (1, 2, 3))
    for one, row, time in ((late, 1, 50.0), (early, 2, 10.0)):
        one.add(Alert(row, -1.0, time, "k", True, [], None, None, False))
        whole.take_in(one)
    assert (whole.start, whole.end, whole.began, whole.ended, whole.duration) == (1, 2, 50, 50, 0)
