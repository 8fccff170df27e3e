"""Incidents against plain loops: without keys, by key, of many keys; in any pieces; saved."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import alerting as naive

from onkel.alerting import Incidents, crowds, episodes, incidents
from onkel.alerting.incident import Incident

flags = st.lists(st.booleans(), max_size=40)
cuts = st.lists(st.integers(0, 200), max_size=4)
steps = st.lists(st.sampled_from([-20.0, -1.0, 0.0, 0.5, 1.0, 7.0]), min_size=40, max_size=40)


def pieces(count, at):
    edges = sorted({0, count, *(min(c, count) for c in at)})
    return [slice(a, b) for a, b in pairwise(edges)] or [slice(0, 0)]


def told(one):
    return (one.number, one.key, one.wide, one.count, one.start, one.end, one.peak, one.peak_at)


def truth(found):
    """What the naive twin says of those that no other has taken in."""
    return [
        (o["number"], o["key"], o["wide"], len(o["rows"]), min(o["rows"]), max(o["rows"]),
         o["peak"], o["peak_at"])
        for o in found if o["into"] is None
    ]  # fmt: skip


def in_pieces(gap, rate, parts, alerts, values, times, keys, most=None):
    """Take rows piece by piece, through JSON in between; return incidents, numbers, events."""
    groups, closed, numbers, events = Incidents(gap, rate, most), [], [], []
    for part in parts:
        saved = json.dumps(groups.dump())
        groups = Incidents(gap, rate, most)
        groups.restore(json.loads(saved))
        assert json.dumps(groups.dump()) == saved
        time, key = (None if c is None else c[part] for c in (times, keys))
        found = groups.update(alerts[part], values[part], time, key)
        numbers += found.numbers.tolist()
        events += found.events
    still = groups.open
    assert groups.close() == [
        o if o.open is False else type(o)(**{**vars(o), "open": False}) for o in still
    ]
    closed = [e.incident for e in events if e.what == "closed"] + still
    return sorted(closed, key=lambda one: one.number), numbers, events


@given(flags, st.lists(st.integers(-3, 3).map(float), min_size=40, max_size=40),
       st.integers(0, 6), cuts)  # fmt: skip
def test_without_keys_they_are_episodes(alerts, values, gap, at):
    values = values[: len(alerts)]
    found = incidents(alerts, values, gap)
    wanted = [(e.start, e.end, e.peak, e.peak_at, e.count) for e in episodes(alerts, values, gap)]
    assert [(o.start, o.end, o.peak, o.peak_at, o.count) for o in found] == wanted
    assert [told(o) for o in found] == truth(naive.incidents(alerts, values, gap))
    cut, numbers, _ = in_pieces(gap, None, pieces(len(alerts), at), alerts, values, None, None)
    assert [told(o) for o in cut] == [told(o) for o in found]
    assert [bool(n) for n in numbers] == [bool(a) for a in alerts]


@given(flags, steps, st.sampled_from([1, 2, 5]), cuts)
def test_by_the_clock(alerts, moves, span, at):
    values, times = [-1.0] * len(alerts), np.cumsum(moves)[: len(alerts)].tolist()
    found = incidents(alerts, values, f"{span}s", times)
    assert [told(o) for o in found] == truth(
        naive.incidents(alerts, values, span=span, times=times)
    )
    cut, _, _ = in_pieces(f"{span}s", None, pieces(len(alerts), at), alerts, values, times, None)
    assert [told(o) for o in cut] == [told(o) for o in found]


def stream(seed, count=160, keys=8):
    """Rows of some keys, round by round but for some; quiet, then most of them in trouble."""
    rng = np.random.default_rng(seed)
    names = [f"k{j}" for j in rng.integers(0, keys, count)]
    rate = np.where((np.arange(count) // 40) % 2 == 1, 0.5, 0.04)
    alerts = rng.random(count) < rate
    times = np.cumsum(rng.choice([0.0, 0.5, 1.0, -0.5], count))
    if seed % 2:  # it begins again in the midst, as where files were put together
        times[count // 2 :] -= times.max()
    times = times.tolist()
    return alerts.tolist(), rng.integers(-4, 0, count).astype(float).tolist(), times, names


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(0, 6), st.sampled_from([None, 0.005, 0.05]), cuts,
       st.integers(1, 12), st.sampled_from([None, 1, 2, 4]))  # fmt: skip
def test_keys_by_rows(seed, gap, rate, at, many, most):
    alerts, values, _, keys = stream(seed, keys=many)
    naively = naive.incidents(alerts, values, gap, keys=keys, rate=rate, most=most)
    found = incidents(alerts, values, gap, keys=keys, rate=rate, most=most)
    assert [told(o) for o in found] == truth(naively)
    cut, numbers, events = in_pieces(gap, rate, pieces(160, at), alerts, values, None, keys, most)
    assert [told(o) for o in cut] == [told(o) for o in found]
    joined = {e.incident.number: e.incident.into for e in events if e.what == "joined"}
    assert joined == {o["number"]: o["into"] for o in naively if o["into"]}
    owner = {row: o["number"] for o in naively[::-1] for row in o["rows"]}  # as it was told first
    assert numbers == [owner.get(i, 0) for i in range(160)]
    opened = [e.incident.number for e in events if e.what == "opened"]
    assert opened == [o["number"] for o in naively]


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 9), st.sampled_from([None, 0.005, 0.05]), cuts,
       st.sampled_from([None, 1, 3]))  # fmt: skip
def test_keys_by_the_clock(seed, span, rate, at, most):
    alerts, values, times, keys = stream(seed)
    naively = naive.incidents(alerts, values, None, span, times, keys, rate, most)
    found = incidents(alerts, values, f"{span}s", times, keys, rate, most=most)
    assert [told(o) for o in found] == truth(naively)
    cut, _, _ = in_pieces(f"{span}s", rate, pieces(160, at), alerts, values, times, keys, most)
    assert [told(o) for o in cut] == [told(o) for o in found]


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([0, 1, 4, "2s", "9s"]), st.sampled_from([None, 3]),
       cuts)  # fmt: skip
def test_events_and_alerts_have_one_order_whatever_the_cuts(seed, gap, most, at):
    """Alerts and events in one line: each alert comes after its own incident's opening."""
    alerts, values, times, keys = stream(seed)

    def line(parts, keys):
        groups, found = Incidents(gap, None if keys is None else 0.005, most), []
        for part in parts:
            own = None if keys is None else keys[part]
            got, done = groups.update(alerts[part], values[part], times[part], own), 0
            at = np.flatnonzero(got.numbers).tolist()
            for before, i in zip(got.before, at, strict=True):
                found += [(e.what, e.incident.number) for e in got.events[done:before]]
                found.append(("alert", int(got.numbers[i])))
                done = before
            found += [(e.what, e.incident.number) for e in got.events[done:]]
        return found

    for own in (None, keys):
        whole = line([slice(0, 160)], own)
        assert line(pieces(160, at), own) == whole
        for i, (what, number) in enumerate(whole):
            if what == "alert":
                assert ("opened", number) in whole[:i] and ("closed", number) not in whole[:i]


def test_incidents_of_keys_that_are_forgotten_close():
    groups = Incidents(5)
    groups.update([1, 1, 1], [-1.0, -2.0, -3.0], keys=["a", "b", 7])
    events = groups.forget(["b", 7, "nobody", "7", "b"])
    assert [(e.what, e.incident.key, e.incident.open) for e in events] == [
        ("closed", "b", False), ("closed", 7, False),
    ]  # fmt: skip
    assert [one.key for one in groups.open] == ["a"]
    with pytest.raises(ValueError, match="takes a list of keys; got the text 'abc'"):
        groups.forget("abc")  # not its letters
    assert [one.key for one in groups.open] == ["a"]
    assert groups.update([1], [-1.0], keys=["b"]).numbers.tolist() == [4]


def test_those_streams_have_incidents_of_many_keys():
    """So that the comparisons above are about them, too."""
    wide = [incidents(*stream(seed)[:2], 3, keys=stream(seed)[3], rate=0.005) for seed in range(20)]
    assert sum(any(one.wide for one in found) for found in wide) > 10
    assert sum(any(not one.wide for one in found) for found in wide) > 10


def test_many_keys_at_the_promised_rate_are_no_endless_incident(rng):
    """1 000 keys, 1 % alerts: hundreds of rows always have some. Each key has its own incidents."""
    keys = [f"k{i % 1000}" for i in range(50_000)]
    alerts = rng.random(50_000) < 0.01
    found = incidents(alerts, -np.ones(50_000), 20, keys=keys, rate=0.01)
    assert not any(one.wide for one in found) and len(found) > 300
    assert max(one.count for one in found) < 12
    alerts[30_000:31_000] |= rng.random(1000) < 0.3  # then 30 % of them, once
    found = incidents(alerts, -np.ones(50_000), 20, keys=keys, rate=0.01)
    (wide,) = [one for one in found if one.wide]
    assert 29_000 < wide.start < 30_150 and 30_900 < wide.end < 34_000
    assert len(wide.keys) > 250


def test_a_key_with_an_old_trouble_keeps_its_own(rng):
    keys = [f"k{i % 10}" for i in range(400)]
    alerts = np.array([key == "k3" for key in keys])
    alerts[200:220] = True
    found = incidents(alerts, -np.ones(400), 5, keys=keys, rate=0.001)
    assert [(o.key, o.wide, sorted(o.keys)) for o in found] == [
        ("k3", False, ["k3"]), (None, True, [f"k{j}" for j in range(10) if j != 3]),
    ]  # fmt: skip
    assert found[0].count == 40 and found[1].count == 18 and found[1].rows == 20


def test_what_drives_it():
    far = np.zeros((6, 3))
    far[1], far[3], far[4] = [0.0, -4.0, 3.5], [1.0, -9.0, np.nan], [2.9, 0.0, np.inf]
    (one,) = incidents([0, 1, 0, 1, 1, 0], -np.ones(6), 3, far=far)
    assert one.drivers() == [(2, 2, 1e9), (1, 2, -9.0)]
    (none,) = incidents([0, 1, 0], -np.ones(3), 3, far=np.full((3, 2), 2.9))
    assert none.drivers() == []


def test_how_many_keys_there_are():
    for many in (1, 10, 1000, 20_000, 200_000):
        known = crowds.KnownKeys()
        for i in range(many):
            known.add(i)
        assert abs(known.count - many) <= max(0.02 * many, 2)
        assert crowds.KnownKeys.restored(known.dump()).count == known.count
    assert naive.known_keys(range(1000)) in range(980, 1021)


def test_a_crowd_is_rare_by_chance(rng):
    """Poisson counts at twice the promised rate pass for a crowd at most once in 10 000 times."""
    for rows, rate in ((20, 0.01), (100, 0.01), (1000, 0.02), (100_000, 0.001)):
        counts = rng.poisson(2 * rate * rows, 100_000)
        assert sum(crowds.is_crowd(int(c), rows, rate) for c in counts) < 20
        least = next(k for k in range(10**6) if crowds.is_crowd(k, rows, rate))
        assert least == next(k for k in range(1, 10**6) if naive.is_crowd(k, rows, rate))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: Incidents(-1), "gap must be a whole number of rows"),
        (lambda: Incidents("soon"), "gap must be .*got 'soon'"),
        (lambda: Incidents(True), "gap must be"),
        (lambda: Incidents(3, rate=2.0), "rate must lie between 0 and 1"),
        (lambda: Incidents(3, most=0), "most"),
        (lambda: incidents([True], [1.0, 2.0], 1), "values must be as many; got 1 and 2"),
        (lambda: incidents([True], [1.0], 1, keys=["a", "b"]), "keys must be as many; got 1 and 2"),
        (lambda: incidents([True], [1.0], "5min"), "needs time"),
        (lambda: incidents([-1], [1.0], 1), "predictions == -1"),
        (lambda: Incidents(3).restore({"seen": 4}), "not what dump.. returns"),
    ],
)
def test_bad_input_is_refused_with_a_reason(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_refused_call_changes_nothing():
    groups = Incidents(3)
    groups.update([True], [1.0])
    before = json.dumps(groups.dump())
    for how in ({"keys": ["a"]}, {"time": [np.nan]}, {"shown": [True, False]}):
        with pytest.raises(ValueError):
            groups.update([True], [1.0], **how)
        assert json.dumps(groups.dump()) == before


def test_an_incident_that_takes_another_in_counts_both():
    one = Incident(1, start=10, end=20, count=3, held_back=1, ids=["a"])
    one.take_in(Incident(2, start=5, end=20, count=2, held_back=2, ids=["b"]))
    assert (one.start, one.end, one.count, one.held_back) == (5, 20, 5, 3)
    assert one.ids == ["a", "b"]
