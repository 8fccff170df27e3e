"""How often values came: counts, what is rare, bounds of room, files."""

from __future__ import annotations

import numpy as np
import pytest
from naive import tables as naive

from onkel.columns import Encoded, Plan, Raw, Tally, Typed, added, tally
from onkel.columns.weeks import usual
from onkel.saved import Saved

PLAN = Plan((Typed("a", "category"), Typed("t", "text"), Typed("when", "time")), places=4)


def rows_of(rng: np.random.Generator, n: int, values: int = 20) -> Encoded:
    cells = [f"v{i}" for i in (rng.random(n) ** 2 * values).astype(int)]
    texts = [f"word{i} and more" for i in rng.integers(0, 5, n)]
    when = np.datetime64("2024-01-01T00:00:00") + np.sort(rng.integers(0, 10**6, n))
    return PLAN.encode(Raw(["a", "t", "when"], [cells, texts, when], n))


def same(one: Tally, other: Tally) -> None:
    assert one.counts == other.counts
    assert one.names == other.names
    assert (one.rows, one.came) == (other.rows, other.came)
    np.testing.assert_array_equal(one.weeks["when"], other.weeks["when"])


def test_rarity_is_that_of_plain_loops(rng: np.random.Generator) -> None:
    rows = rows_of(rng, 300)
    found = Tally(PLAN).followed(rows)
    np.testing.assert_allclose(found[:, 0], naive.rarities(rows.X[:, 0].tolist()), atol=1e-12)


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_cuts_do_not_matter(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    for name, value in (("EVERY", 64), ("HORIZON", 256), ("KEPT", 5)):
        monkeypatch.setattr(tally, name, value)
    rows = rows_of(rng, 500)
    whole, parts, found = Tally(PLAN), Tally(PLAN), []
    at_once = whole.followed(rows)
    whole.take(rows)
    for start in range(0, 500, cut):
        part = rows[start : start + cut]
        found.append(parts.followed(part))
        parts.take(part)
    same(whole, parts)
    np.testing.assert_array_equal(np.concatenate(found), at_once)


def test_looking_changes_nothing(rng: np.random.Generator) -> None:
    rows = rows_of(rng, 2000)
    counted = Tally(PLAN)
    counted.take(rows)
    before = counted.copy()
    counted.rarity(rows)
    counted.followed(rows)
    same(counted, before)


def test_room_is_bounded_and_counts_fade(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("EVERY", 64), ("HORIZON", 1024), ("KEPT", 50)):
        monkeypatch.setattr(tally, name, value)
    counted = Tally(PLAN)
    for _ in range(20):
        counted.take(rows_of(rng, 512, values=100_000))
    assert counted.rows <= 1024
    assert counted.came == 20 * 512
    assert len(counted.counts["a"]) <= 2 * 50 + 64
    assert set(counted.names["a"]) <= set(counted.counts["a"])


def test_files_give_the_same_tally(rng: np.random.Generator) -> None:
    counted = Tally(PLAN)
    counted.take(rows_of(rng, 400))
    same(Tally.restored(PLAN, Saved(counted.dump())), counted)
    for name, wrong in (("rows", -1.0), ("weeks", np.zeros((2, 168))), ("came", 1.5)):
        with pytest.raises(ValueError, match=name):
            Tally.restored(PLAN, Saved({**counted.dump(), name: wrong}))


def test_sums_count_the_start_once(rng: np.random.Generator) -> None:
    start, one, other, whole = (Tally(PLAN) for _ in range(4))
    first, second, third = (rows_of(rng, 100) for _ in range(3))
    start.take(first)
    for model in (one, other, whole):
        model.take(first)
    for model, rows in ((one, second), (other, third), (whole, second), (whole, third)):
        model.take(rows)
    joined = added([one, other], start)
    assert joined.rows == whole.rows == 300
    assert joined.counts["a"] == whole.counts["a"]


def test_usual_times_in_words() -> None:
    counts = np.zeros((7, 24))
    assert usual(counts.ravel()) == ""
    assert usual((counts + 1).ravel()) == ""
    counts[5:, 22:] = counts[5:, :3] = 1
    assert usual(counts.ravel()) == "Saturday and Sunday 22:00–03:00"
    counts[:] = 0
    counts[2] = 1
    assert usual(counts.ravel()) == "Wednesday"


def test_a_tally_grows_with_its_plan() -> None:
    plan = Plan(PLAN.columns, places=4, open=True)
    counted = Tally(plan)
    counted.take(plan.encode(Raw(["a"], [["x", "y"]], 2)))
    wider = counted.grown(plan.grown([Typed("b", "number"), Typed("c", "late")]))
    assert wider.counts == counted.counts
    wider.take(wider.plan.one(["x", "some words", np.datetime64("2024-01-01T00:00"), 1.0, "red"]))
    assert (wider.seen("a", "x"), counted.seen("a", "x")) == (2.0, 1.0)
    assert (wider.seen("(others)", "c=red"), wider.weeks["when"][0], counted.came) == (1.0, 1.0, 2)
    again = Tally.restored(wider.plan, Saved(wider.dump()))
    assert again.counts == wider.counts


def test_one_row_is_as_rare_alone_as_among_others(rng: np.random.Generator) -> None:
    counted = Tally(PLAN)
    counted.take(rows_of(rng, 300))
    rows = rows_of(rng, 20)
    rows.X[3] = PLAN.one([None, None, None]).X[0]
    whole = counted.rarity(rows)
    for i in range(20):
        np.testing.assert_array_equal(counted.rarity(rows[i])[0], whole[i])
