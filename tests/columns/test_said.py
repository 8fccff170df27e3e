"""What answers have said of values: rarities in plain loops, any cuts, bounds, sums, files."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from naive import tables as naive

from onkel.columns import Encoded, Plan, Raw, Tally, Typed, added, tally
from onkel.columns.said import CONDEMNED, Said, Saying, until_of
from onkel.core.answers import MOST
from onkel.saved import Saved

PLAN = Plan((Typed("a", "category"), Typed("t", "text"), Typed("when", "time")), places=16)
WORDS = [f"word{chr(97 + i)}" for i in range(20)]
A, TEXT, WHEN = 0, 2, 3


def rows_of(rng: np.random.Generator, n: int) -> tuple[Encoded, list[str], list[str]]:
    cells = [f"v{i}" for i in (rng.random(n) ** 2 * 12).astype(int)]
    texts = [" ".join(rng.choice(WORDS, 3)) for _ in range(n)]
    when = np.datetime64("2024-01-01T00:00:00") + rng.integers(0, 3 * 10**6, n)
    return PLAN.encode(Raw(["a", "t", "when"], [cells, texts, when], n)), cells, texts


def words_of(row: Any) -> list[int]:
    return [int(code) for code in row[3 : 3 + 16] if code]


def answers_of(rng: np.random.Generator, rows: Encoded, count: int) -> list[tuple[int, Saying]]:
    """Before which row somebody says what: of a value, of words, of an hour."""
    found = []
    for i in range(count):
        at, of = int(rng.integers(50, len(rows) - 50)), rows[int(rng.integers(len(rows)))]
        codes: list[tuple[int, ...]] = [()] * 4
        values = Tally(PLAN).values(of)
        for j in (A, TEXT, WHEN):
            if rng.random() < 0.6:
                codes[j] = values[j][: int(rng.integers(1, 3))]
        until = at + int(rng.integers(20, 200))
        level = float(rng.choice([0.0, 0.7]))
        found.append((at, Saying(i, bool(rng.random() < 0.6), until, tuple(codes), (level,) * 4)))
    return sorted(found, key=lambda pair: pair[0])


def told(counted: Tally, one: Saying) -> None:
    faults = [s.of for s in counted.said.sayings if not s.usual]
    counted.said = counted.said.answered(one, faults)


def followed(rows: Encoded, answers: list[tuple[int, Saying]], cut: int) -> tuple[Any, Tally]:
    counted, found = Tally(PLAN), []
    stops = sorted({0, len(rows), *(at for at, _ in answers), *range(0, len(rows), cut)})
    for start, stop in pairwise(stops):
        for at, one in answers:
            if at == start:
                told(counted, one)
        part = rows[start:stop]
        alone = counted.rarity(part[0])
        found.append(counted.followed(part))
        np.testing.assert_array_equal(alone[0], found[-1][0])
        counted.take(part)
    return np.concatenate(found), counted


def test_rarity_is_that_of_plain_loops(rng: np.random.Generator) -> None:
    rows, cells, _ = rows_of(rng, 500)
    answers = answers_of(rng, rows, 12)
    found, _ = followed(rows, answers, 64)
    codes = {
        A: [[naive.code(cell)] for cell in cells],
        TEXT: [words_of(row) or [0] for row in rows.X],
    }
    hushed = 0
    for j in (A, TEXT):
        said = [
            {"first": at, "last": s.until, "values": set(s.codes[j]), "usual": s.usual,
             "level": s.levels[j]} for at, s in answers
        ]  # fmt: skip
        truth = naive.answered_rarities(codes[j], said)
        np.testing.assert_allclose(found[:, j], truth, atol=1e-9)
        plain = np.array(naive.answered_rarities(codes[j], []))
        hushed += int((plain > truth).sum())
        assert CONDEMNED in truth
    assert hushed > 20


def test_hours_are_heard_too(rng: np.random.Generator) -> None:
    rows, _, _ = rows_of(rng, 300)
    plain = Tally(PLAN).followed(rows)
    counted = Tally(PLAN)
    hours = [values[WHEN][0] for values in (counted.values(rows[i]) for i in range(300))]
    codes = ((), (), (), (hours[0],))
    told(counted, Saying(1, True, 150, codes, (0.0,) * 4))
    told(counted, Saying(2, False, 200, ((), (), (), (hours[1],)), (0.0,) * 4))
    found = counted.followed(rows)
    for i, hour in enumerate(hours):
        truth = plain[i, WHEN]
        if hour == hours[0] and i <= 150:
            truth = 0.0
        if hour == hours[1] and i <= 200:
            truth = CONDEMNED
        assert found[i, WHEN] == truth
    np.testing.assert_array_equal(found[:, :WHEN], plain[:, :WHEN])


@pytest.mark.parametrize("cut", [1, 7, 1000])
def test_cuts_do_not_matter(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    for name, value in (("EVERY", 64), ("HORIZON", 256), ("KEPT", 5)):
        monkeypatch.setattr(tally, name, value)
    rows, _, _ = rows_of(rng, 500)
    answers = answers_of(rng, rows, 10)
    whole, other = followed(rows, answers, 200), followed(rows, answers, cut)
    np.testing.assert_array_equal(other[0], whole[0])
    assert other[1].said.sayings == whole[1].said.sayings


def test_looking_changes_nothing(rng: np.random.Generator) -> None:
    rows, _, _ = rows_of(rng, 1500)
    _, counted = followed(rows[:400], answers_of(rng, rows[:400], 5), 100)
    before = counted.said
    learned = rng.random(1500) < 0.5
    found = counted.partly_followed(rows, learned)
    twin = counted.copy()
    for i in range(1500):
        np.testing.assert_array_equal(twin.rarity(rows[i])[0], found[i])
        if learned[i]:
            twin.take(rows[i])
    assert counted.said is before and counted.came == 400
    assert not counted.unsaid().said.sayings and counted.unsaid().counts is counted.counts


def test_of_alerts_there_are_the_values_that_were_rare_then(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "RARE", 0.12)
    monkeypatch.setattr(tally, "SELDOM", 0.06)
    monkeypatch.setattr(tally, "EVERY", 64)
    rows, cells, _ = rows_of(rng, 300)
    at = [0, 1, 70, 71, 127, 128, 129, 290]
    found = Tally(PLAN).values_of_alerts(rows, at)
    counted = Tally(PLAN)
    counted.take(rows[:100])
    later = counted.values_of_alerts(rows[100:], [i - 100 for i in at if i >= 100])
    assert later == found[-len(later) :]
    words = [words_of(row) for row in rows.X]
    values = [[naive.code(cell)] for cell in cells]
    assert any(len(own.rare[TEXT]) > len(own.seldom[TEXT]) for own in found)
    for i, own in zip(at, found, strict=True):
        assert own.rare[A] == (naive.code(cells[i]),)
        assert set(own.seldom[A]) == naive.seldom(values, i, 0.06)
        assert set(own.rare[TEXT]) == naive.seldom(words, i, 0.12)
        assert set(own.seldom[TEXT]) == naive.seldom(words, i, 0.06)


def test_alerts_that_cannot_be_answered_any_more_are_forgotten(rng: np.random.Generator) -> None:
    rows, _, _ = rows_of(rng, 60)
    said, counted = Said(4), Tally(PLAN)
    values = counted.values_of_alerts(rows, list(range(60)))
    for i in range(0, 60, 3):
        said = said.noting(np.arange(i, i + 3), values[i : i + 3], oldest=max(i - 7, 0))
    assert said.numbers.tolist() == list(range(50, 60))
    for i in range(50, 60):
        assert said.alert(i) == values[i]
    assert said.alert(49) is None and said.alert(60) is None
    again = Said.restored(4, Saved(said.dump()))
    assert [again.alert(i) for i in range(50, 60)] == values[50:]


def saying(of: int, usual: bool, until: int, code: int) -> Saying:
    return Saying(of, usual, until, ((code,), (), (), ()), (0.0,) * 4)


def test_another_mind_takes_the_first_back() -> None:
    said = Said(4).answered(saying(1, True, 90, 5), [])
    said = said.answered(saying(2, False, 95, 5), [2])
    assert said.of(A, 5, 10) is False and said.of(A, 5, 96) is None and said.of(A, 6, 10) is None
    said = said.answered(saying(2, True, 99, 6), [])
    assert said.of(A, 5, 10) is True and said.of(A, 6, 10) is True
    assert [s.of for s in said.sayings] == [1, 2]
    none = said.answered(Saying(1, True, 100, ((),) * 4, (0.0,) * 4), [])
    assert none.of(A, 5, 10) is None and len(none.sayings) == 1
    assert said.since(91).of(A, 5, 91) is None and len(said.since(91).sayings) == 1
    values: list[tuple[int, ...]] = [(6,), (0,), (), (0,)]
    found = said.by(values, True, 10)
    assert found is not None and found.of == 2 and said.by(values, False, 10) is None


def test_answers_are_bounded_and_go_with_their_places() -> None:
    said = Said(4)
    for i in range(1, 2 * MOST):
        said = said.answered(saying(i, True, 1000 + i, i), [])
    assert [s.of for s in said.sayings] == list(range(MOST, 2 * MOST))
    bad = Said(4).answered(saying(1, False, 90, 5), [1]).answered(saying(2, False, 95, 6), [2])
    assert [s.of for s in bad.sayings] == [2]


def test_sums_hear_what_all_have_heard(rng: np.random.Generator) -> None:
    rows, _, _ = rows_of(rng, 300)
    start = Tally(PLAN)
    start.take(rows[:100])
    told(start, saying(7, True, 500, 5))
    one, other = start.copy(), start.copy()
    one.take(rows[100:250])
    other.take(rows[250:])
    told(one, saying(120, False, 700, 6))
    told(other, saying(120, True, 800, 9))
    both = added([one, other], start)
    assert both.came == 300 and not len(both.said.numbers)
    assert {(s.of, s.usual, s.codes[A], s.until) for s in both.said.sayings} == {
        (0, True, (5,), 650), (0, False, (6,), 750), (0, True, (9,), 950)
    }  # fmt: skip


def test_files_hold_it(rng: np.random.Generator) -> None:
    rows, _, _ = rows_of(rng, 300)
    _, counted = followed(rows, answers_of(rng, rows, 9), 100)
    counted.said = counted.said.noting(
        np.array([3, 8]), counted.values_of_alerts(rows, [3, 8]), oldest=0
    )
    again = Tally.restored(PLAN, Saved(counted.dump()))
    assert again.said.sayings == counted.said.sayings
    assert [again.said.alert(i) for i in (3, 8)] == [counted.said.alert(i) for i in (3, 8)]
    np.testing.assert_array_equal(again.rarity(rows), counted.rarity(rows))
    assert "said" not in Tally(PLAN).dump()
    held = counted.said.dump()
    wrong = {
        "numbers": held["numbers"][::-1].copy(), "lengths": held["lengths"] + 1,
        "codes": held["codes"][1:], "levels": held["levels"] - 5, "until": held["until"][:-1],
        "said_codes": held["said_codes"][1:], "usual": np.zeros(3, bool),
    }  # fmt: skip
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=r"said\.|numbers"):
            Tally.restored(PLAN, Saved({**counted.dump(), "said": {**held, name: value}}))


def test_an_answer_holds_while_half_of_it_is_left() -> None:
    last = until_of(1000, 300.0)
    left = [np.exp(-max((t - 1000) / 300.0 - 1, 0)) for t in (last, last + 1)]
    assert left[0] >= 0.5 > left[1]
    one = saying(1, True, last, 5)
    assert one.likeness(1000, 300.0) == pytest.approx(1.0, abs=0.01)
    assert one.likeness(last, 300.0) == 0.5
    assert [one.likeness(t, 300.0) for t in (1000, 1200, 1299)] == [1.0, 1.0, 1.0]
