"""The study of mixed rows: its tables and their truth, its peers, a tiny run, its page."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "experiments").is_dir():
    pytest.skip("the experiments are not here", allow_module_level=True)
for module in ("matplotlib", "pandas", "river.base", "sklearn"):
    pytest.importorskip(module, reason="the study needs it")
sys.path.insert(0, str(ROOT))

from experiments import rows, rows_odd, rows_page, rows_peers, rows_shown, rows_tables  # noqa: E402
from experiments.front_door_streams import CLASSES, NUMBERS  # noqa: E402


@pytest.mark.parametrize("name", rows_tables.MADE)
def test_made_tables_have_words_and_a_truth(name: str) -> None:
    table = rows_tables.make(name, None)
    assert table is not None and table.best is not None and table.best > 0
    assert len(table.X) == len(table.y) == rows_tables.ROWS
    assert any(isinstance(v, str) for v in table.dicts[0].values())
    assert table.chosen == "no"


def test_a_time_is_made_by_hand_for_river() -> None:
    table = rows_tables.trips(rows=50)
    row, when = table.dicts[0], table.X["when"].iloc[0]
    assert (row["when hour"], row["when month"]) == (str(when.hour), str(when.month))
    assert row["when weekday"] == str(when.dayofweek)
    assert row["rain"] in ("True", "False")


def test_what_is_missing_is_left_out_for_river() -> None:
    table = rows_tables.gaps(rows=200)
    gone = table.X["income"].isna().to_numpy()
    assert [("income" not in row) for row in table.dicts] == gone.tolist()


@pytest.mark.long
@pytest.mark.parametrize("name", ["made: gaps", "made: trips"])
def test_every_method_answers(name: str) -> None:
    table = rows_tables.MADE[name]().head(120)
    for method in (*rows.ours_of(table), *rows_peers.peers_of(table)):
        found = rows.measured(method, table)
        assert found["rows"] == 120, method
        assert found["error, second half"] >= 0, method


@pytest.mark.long
def test_kept_once_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    args = rows.options(["--rows", "100", "--tables", "made: gaps;made: trips"])
    rows.walk(args, None, tmp_path)
    monkeypatch.setattr(rows, "measured", None)  # all is there
    rows.walk(args, None, tmp_path)
    kept = rows.all_kept(tmp_path)
    made = dict(rows_shown.every(kept, [{"method": "x"}]))
    assert [row["table"] for row in rows_shown.wide(kept, CLASSES, "error")] == ["made: gaps"]
    assert [row["table"] for row in rows_shown.wide(kept, NUMBERS, "error")] == ["made: trips"]
    assert set(made) <= set(rows_page.SECTIONS.values())
    assert rows_shown.checks(kept) == []


def test_the_log_is_odd_where_it_says_so() -> None:
    X, kind = rows_odd.log(20_000)
    assert (kind[:4000] == 0).all() and 0.003 < (kind > 0).mean() < 0.007
    usual = X[kind == 0]
    assert set(usual["shop"]) == set(rows_odd.SHOPS) and not usual["milliseconds"].isna().any()
    assert usual["when"].dt.dayofweek.max() == 4 and usual["when"].is_monotonic_increasing is False
    sunday = X["when"][kind == 2]
    assert (sunday.dt.dayofweek == 6).all() and (sunday.dt.hour == 3).all()
    assert X["milliseconds"][kind == 4].isna().all()
    assert rows_odd.by_hand(X[:1000]).shape == (1000, 10 + 5 + 64 + 5 + 1)


def test_shares_are_of_each_kind() -> None:
    kind = np.array([0] * 20 + [1, 1, 2, 3, 4, 5, 6])
    found = rows_odd.line("x", kind == 1, kind, 1.0)
    assert (found["a shop never seen"], found["Sunday 03:00"], found["usual rows"]) == (100, 0, 0)


def test_the_page_has_a_place_for_every_part() -> None:
    page = rows_page.PAGE.read_text("utf-8")
    captions = rows_page.SECTIONS.values()
    report = {"tables": [{"caption": c, "rows": [{"here": c}]} for c in captions]}
    written = rows_page.written(page, report, None)
    assert all(f"| {caption} |" in written for caption in captions)
