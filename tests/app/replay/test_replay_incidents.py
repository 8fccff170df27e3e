"""Incidents of a replay: those that a run of its own would have written, whatever the gap."""

from __future__ import annotations

import datetime
import json

import numpy as np
import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from helpers.runs_of import json_lines, onkel, write_rows
from helpers.sizes import size

from onkel.alerting import Incident
from onkel.app.replay.alerts import Alert
from onkel.app.replay.compare import Outcome, described
from onkel.app.replay.groups import Places

ROWS = 1800
PUMPS = 12
START = datetime.datetime(2026, 3, 1)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Readings of twelve pumps, a minute apart; a fault of one of them, then one of all."""
    rng = np.random.default_rng(23)
    X = rng.normal(size=(ROWS, 3))
    X[(np.arange(ROWS) % PUMPS == 3) & (np.arange(ROWS) > 1300), 1] += 8.0
    X[1100:1130, 0] -= 9.0
    at = [(START + datetime.timedelta(minutes=i)).isoformat() for i in range(ROWS)]
    pumps = [f"p{i % PUMPS}" for i in range(ROWS)]
    return write_rows(tmp_path_factory.mktemp("rows") / "rows.csv", X, at=at, pump=pumps)


def detect(rows, folder, *words):
    folder.mkdir()
    done = onkel(
        "detect", rows, "--state", folder / "s", "-o", folder / "out", "--incidents",
        folder / "inc", "--json", "-q", *words,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    return folder / "s", json.loads(done.stdout), json_lines(folder / "inc")


def told_of(state, *words) -> dict:
    done = onkel("replay", state, *words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


KEYS = ["--key", "pump", "--time", "at", "--warmup", 40]
HOW = {
    "rows": ["--ignore", "pump", "--time", "at"],
    "rows, no clock": ["--ignore", "pump,at", "--incident-gap", 3],
    "clock": ["--ignore", "pump", "--time", "at", "--incident-gap", "45min"],
    "keys": [*KEYS, "--incident-gap", 3],
    "keys by the clock": [*KEYS, "--incident-gap", "90min"],
    "tables by key": ["--key", "pump", "--warmup", 40, "--lags", 2, "--ignore", "at"],
    "cool-down": [*KEYS, "--cool-down", 5],
}


FEW = ["rows, no clock", "keys by the clock", "tables by key", "cool-down"]


@pytest.mark.parametrize("kind", size(FEW, [*HOW]))
def test_a_column_has_the_incidents_of_a_run_of_its_own(rows, tmp_path, kind) -> None:
    state, was, told = detect(rows, tmp_path / "was", *HOW[kind])
    _, would, other = detect(rows, tmp_path / "would", *HOW[kind], "--nu", 0.04)
    found = told_of(state, "--nu", 0.04)
    own, more = found["settings"]
    assert found["output"] == "same"
    assert was["incidents"] != would["incidents"]
    for one, summary, lines in ((own, was, told), (more, would, other)):
        assert one["incidents"] == summary["incidents"] > 0
        assert one["alerts"] == summary["alerts"]
        assert one.get("held_back", 0) == summary.get("held_back", 0)
        opened = {line["incident"] for line in lines if line["state"] == "opened"}
        joined = {line["incident"] for line in lines if line["state"] == "joined"}
        assert one["incidents"] == len(opened - joined)
        written = {line["incident"]: line for line in lines if line["state"] == "closed"}
        over = [i for i in one["largest_incidents"] if i["state"] == "closed"]
        assert len(one["largest_incidents"]) == min(10, one["incidents"]) and len(over) >= 2
        for incident in over:
            line = dict(written[incident["incident"]], lasted=incident["lasted"])
            del line["alert_ids"]
            assert incident == line
        counts = [i["alerts"] for i in one["largest_incidents"]]
        assert counts == sorted(counts, reverse=True)
        assert max(line["alerts"] for line in written.values()) <= counts[0]
    if kind in ("keys", "keys by the clock"):
        assert any(i.get("keys", 0) > 5 for i in own["largest_incidents"])
    if kind == "cool-down":
        assert own["held_back"] > 0
        assert "held back" in onkel("replay", state).stdout.splitlines()[2]


@pytest.mark.few
@pytest.mark.parametrize("kind", ["rows", "keys"])
@pytest.mark.parametrize("gap", ["0", "7", "2h"])
def test_another_gap(rows, tmp_path, kind, gap) -> None:
    words = HOW[kind][: HOW[kind].index("--incident-gap")] if kind == "keys" else HOW[kind]
    state, was, _ = detect(rows, tmp_path / "was", *words, "--nu", 0.03)
    _, would, _ = detect(rows, tmp_path / "would", *words, "--nu", 0.03, "--incident-gap", gap)
    found = told_of(state, "--gap", gap)
    assert found["settings"][0]["incidents"] == would["incidents"] != was["incidents"]
    assert found["output"] == "same" and found["gap"] == (gap if gap == "2h" else int(gap))


def test_since_and_keys_count_the_incidents_that_have_alerts_there(rows, tmp_path) -> None:
    state, _, told = detect(rows, tmp_path / "was", *HOW["keys"], "--share", "--nu", 0.03)
    over = [line for line in told if line["state"] == "closed"]
    late = [line for line in over if line["end_row"] >= 1110]
    assert 0 < len(late) < len(over)
    for since in ("1110", "2026-03-01T18:30", f"{ROWS - 1 - 1110}min"):
        own = told_of(state, "--since", since)["settings"][0]
        open_ = own["incidents"] - len(late)  # that are not over yet
        assert 0 <= open_ < 8, since
        rows_ = {i["start_row"] for i in own["largest_incidents"]}
        assert any(row < 1110 for row in rows_)  # told whole
    mine = [line for line in over if "p3" in line["key_names"]]
    own = told_of(state, "--key", "p3")["settings"][0]
    assert 0 <= own["incidents"] - len(mine) < 2 and len(mine) < len(over)


def test_incidents_gone_and_new_are_counted_by_hand(rows, tmp_path) -> None:
    state, _, _ = detect(rows, tmp_path / "was", *HOW["rows"], "--nu", 0.03)
    fresh, _, _ = detect(rows, tmp_path / "would", *HOW["rows"], "--nu", 0.01)
    was, would = (
        [line for line in json_lines(f.parent / "inc") if line["state"] == "closed"]
        for f in (state, fresh)
    )
    before, after = (
        {a["row"] for a in json_lines(f.parent / "out")} for f in (state, fresh)
    )  # fmt: skip
    one = told_of(state, "--nu", 0.01)["settings"][1]

    def alone(incidents, rows_):
        return sum(not rows_ & set(range(i["start_row"], i["end_row"] + 1)) for i in incidents)

    assert 0 <= one["incidents_gone"] - alone(was, after) <= 1  # the last one may still be open
    assert 0 <= one["incidents_new"] - alone(would, before) <= 1
    assert one["incidents_gone"] >= 3


def test_alerts_alone_are_grouped_key_by_key() -> None:
    """As the service hands them over: without the rows between them."""
    alerts = [Alert(row, at, -1.0, 0.0, key=key) for row, at, key in
              [(0, 0, "a"), (3, 1, "a"), (4, 0, "b"), (90, 9, "a")]]  # fmt: skip
    (found,) = described([Outcome("", {}, None, 100, 0, alerts)], 3)
    assert found["incidents"] == 3 and "largest_incidents" not in found
    infinite = [Alert(0, 0, -np.inf, 0.0), Alert(1, 1, np.nan, 0.0)]
    assert described([Outcome("", {}, None, 100, 0, infinite)], 3)[0]["incidents"] == 1


def test_places_are_those_of_the_incidents_keys(rng) -> None:
    rows = np.flatnonzero(rng.random(400) < 0.2).tolist()
    alerts = [Alert(row, row, -1.0, 0.0, key="abc"[row % 3]) for row in rows]
    places = Places(alerts)
    for _ in range(100):
        start, end = sorted(rng.integers(0, 400, 2).tolist())
        keys = [k for k in "abc" if rng.random() < 0.5] or ["a"]
        inside = [row for row in rows if start <= row <= end and "abc"[row % 3] in keys]
        one = Incident(1, start=start, end=end, keys=dict.fromkeys(keys, 1))
        assert places.count(one) == len(inside)
        assert places.within(one) == (inside[0] if inside else None)
