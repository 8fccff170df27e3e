"""The detector on tables of events: it keeps its promise, and notices what is odd in any column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.sizes import size

from onkel import Detector
from onkel.columns import Plan, Raw, Tally, Typed

pandas = pytest.importorskip("pandas", reason="frames")

SHOPS = ["bakery", "books", "coffee", "fuel"]


def log(rng: np.random.Generator, rows: int) -> Any:
    """Usual payments: in office hours of working days, in order; nothing is missing."""
    week, day = np.divmod(np.sort(rng.integers(rows // 100, size=rows)), 5)
    seconds = ((7 * week + day) * 86_400 + rng.uniform(8, 18, rows) * 3600).astype(np.int64)
    start = np.datetime64("2024-01-01T00:00:00")
    return pandas.DataFrame({
        "when": start + seconds.astype("timedelta64[s]"),
        "shop": rng.choice(SHOPS, rows, p=[0.4, 0.3, 0.2, 0.1]), "country": ["DE"] * rows,
        "amount": rng.normal(50, 10, rows),
        "note": [f"paid by {how} at till {n}" for how, n in zip(
            rng.choice(["card", "phone"], rows), rng.integers(1000, 9999, rows), strict=True)],
    })  # fmt: skip


def odd(frame: Any, column: str, row: int) -> Any:
    """Make one row odd."""
    frame = frame.copy()
    monday = frame["when"].iloc[row].normalize()
    frame.loc[row, column] = {
        "when": monday + pandas.Timedelta(days=6 - monday.dayofweek, hours=3),
        "shop": "casino", "country": "XX", "amount": np.nan,
        "note": "urgent wire transfer, keep secret",
    }[column]  # fmt: skip
    return frame


@pytest.mark.parametrize("column", ["when", "shop", "country", "amount", "note"][:: size(2, 1)])
def test_one_odd_value_alerts_and_those_after_it_do_not(
    rng: np.random.Generator, column: str
) -> None:
    rows = size(2500, 20_000, plain=2500)
    at = rows * 4 // 5
    alerts = Detector(nu=0.01).predict_then_learn(odd(log(rng, rows), column, at)) == -1
    assert alerts[at]
    assert alerts[at + 1 : at + 101].mean() < 0.1
    assert alerts.mean() < 0.03


def test_what_is_usual_is_not_rare_at_all() -> None:
    plan = Plan((Typed("a", "category"),))
    tally = Tally(plan)
    rows = plan.encode(Raw(["a"], [["x"] * 100 + ["y"]], 101))
    tally.take(rows)
    found = tally.rarity(plan.encode(Raw(["a"], [["x", "y", "z"]], 3)))[:, 0]
    assert found[0] == 0.0
    assert found[2] > found[1] > 3.0


@pytest.mark.parametrize("name", ["numbers", "words alone", "hours", "many values"])
def test_the_promised_rate_is_kept_on_tables(rng: np.random.Generator, name: str) -> None:
    n = size(8000, 40_000, plain=8000)
    value = rng.choice(list("abcd"), n, p=[0.6, 0.3, 0.09, 0.01])
    share = 1 / np.arange(1, 201) ** 1.2
    rank = rng.choice(200, n, p=share / share.sum())
    minutes = np.sort(rng.integers(0, n * 10, n))
    rows = {
        "numbers": {"c": value, "x": rng.normal(size=n), "y": rng.normal(size=n)},
        "words alone": {"c": value, "flag": rng.random(n) < 0.3},
        "hours": {"c": value, "when": np.datetime64("2024-01-01T00:00") + minutes},
        "many values": {"c": [f"k{i}" for i in rank], "x": rng.normal(size=n)},
    }[name]
    det = Detector()
    alert = det.predict_then_learn(rows) == -1
    assert det.warmup_ >= 500
    assert 0.002 < alert[det.warmup_ :].mean() < 0.02


def test_a_value_that_comes_in_one_of_a_hundred_rows_is_usual(rng: np.random.Generator) -> None:
    n = 6000
    value = rng.choice(list("abcd"), n, p=[0.6, 0.3, 0.09, 0.01])
    rows = {"c": value, "x": rng.normal(size=n), "y": rng.normal(size=n)}
    p = Detector().predict_then_learn(rows, output="p")
    seldom = p[3000:][value[3000:] == "d"]
    assert len(seldom) > 15
    assert np.median(seldom) > 0.2
    det = Detector().partial_fit(rows)
    never = {"c": "z", "x": 0.0, "y": 0.0}
    assert det.p_samples([never])[0] < 1e-3
