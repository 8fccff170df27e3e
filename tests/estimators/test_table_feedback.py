"""Answers to alerts of tables are about the very values: a category, an hour, words, a gap."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from helpers.sizes import size

from onkel import Detector, Fleet, files, merge
from onkel.columns.said import CONDEMNED, Said
from onkel.core.answers import ALIKE

pandas = pytest.importorskip("pandas", reason="frames")

ROWS = size(1500, 4000, plain=1200)
CASES = {
    "a category": ({"kind": "never"}, {"kind": "another"}),
    "a category with no spread": ({"kind": "never"}, {"kind": "another"}),
    "an hour": ({"when": pandas.Timestamp("2025-08-03T03:10")},
                {"when": pandas.Timestamp("2025-08-02T23:10")}),
    "words": ({"note": "urgent wire transfer, keep secret"}, {"note": "something else came here"}),
    "a gap": ({"b": np.nan}, {"a": np.nan}),
}  # fmt: skip


def table(rng: np.random.Generator, name: str, rows: int = ROWS) -> Any:
    found: dict[str, Any] = {"a": rng.normal(size=rows), "b": rng.normal(size=rows)}
    if name == "a category":
        p = np.array([0.5, 0.3, 0.18] + 10 * [0.002])
        found["kind"] = rng.choice(list("xyzabcdefghij"), rows, p=p)
    if name in ("a category with no spread", "a gap"):
        found["kind"] = rng.choice(list("xyz"), rows)
    if name == "an hour":
        day = np.sort(rng.integers(0, 60, rows))
        seconds = (7 * (day // 5) + day % 5) * 86_400 + rng.uniform(8, 18, rows) * 3600
        start = np.datetime64("2025-01-06T00:00:00")
        found["when"] = start + seconds.astype(np.int64).astype("timedelta64[s]")
    if name == "words":
        how, till = rng.choice(["card", "phone"], rows), rng.integers(1000, 9999, rows)
        found["note"] = [f"paid by {h} at till {n}" for h, n in zip(how, till, strict=True)]
    return pandas.DataFrame(found)


def odd(frame: Any, values: dict[str, Any], **more: Any) -> Any:
    """A row with usual numbers and some odd value."""
    row = frame.iloc[[5]].assign(a=0.1, b=-0.1).reset_index(drop=True)
    return row.assign(**values, **more)


def watched(rng: np.random.Generator, name: str, **more: Any) -> tuple[Any, Any, Any, Any]:
    """A detector that has just raised an alert, its rows, the odd one and another."""
    frame = table(rng, name)
    types = {"note": "text"} if name == "words" else None
    det = Detector(missing="mean", columns=types, **more).partial_fit(frame)
    one, other = (odd(frame, values) for values in CASES[name])
    assert det.predict_then_learn(one).tolist() == [-1]
    assert det.alerts_[-1]["id"] == str(len(frame))
    return det, frame, one, other


def bits(model: Any) -> bytes:
    return files.dumps(model)


def returning(rng: np.random.Generator, name: str, one: Any, each: int = 25) -> tuple[Any, Any]:
    """Usual rows, some of which have the odd value again; and which."""
    frame = table(rng, name, size(800, 3000, plain=500))
    hit = np.arange(len(frame)) % each == 0
    for column in one.columns.difference(["a", "b"] if name != "a gap" else ["a"]):
        if name != "a gap" or column == "b":
            frame.loc[hit, column] = one[column].iloc[0]
    return frame, hit


@pytest.mark.parametrize("name", CASES)
def test_what_was_usual_is_rare_no_more_and_nothing_else(
    rng: np.random.Generator, name: str
) -> None:
    det, _, one, other = watched(rng, name)
    det.feedback(det.alerts_[-1]["id"], "usual")
    assert (det.predict(one)[0], det.predict(other)[0]) == (1, -1)
    assert det.explain(other).precedent is None and "answered" not in det.explain(other).sentence
    why = det.explain(one)
    assert why.precedent is not None and why.precedent.id == str(ROWS) and why.precedent.decided
    assert f"like alert {ROWS}, which was answered as usual" in why.sentence
    rows, hit = returning(rng, name, one)
    alerts = det.predict_then_learn(rows) == -1
    assert alerts[hit].mean() < 0.1 and alerts[~hit].mean() < 0.06
    assert (det.predict(one)[0], det.predict(other)[0]) == (1, -1)


@pytest.mark.parametrize("name", CASES)
def test_a_fault_stays_rare_however_often_it_returns(rng: np.random.Generator, name: str) -> None:
    det, _, one, other = watched(rng, name)
    det.feedback(det.alerts_[-1]["id"], "fault")
    rows, hit = returning(rng, name, one)
    alerts = det.predict_then_learn(rows) == -1
    assert alerts[hit].all() and alerts[~hit].mean() < 0.06
    assert det.predict(pandas.concat([one, other])).tolist() == [-1, -1]
    why = det.explain(one)
    assert f"like alert {ROWS}, which was answered as a fault" in why.sentence
    assert det.explain(other).precedent is None and "answered" not in det.explain(other).sentence
    if name.startswith("a category"):  # counts are what they are
        times, count = int(hit.sum()) + 1, f"{ROWS + 1 + len(rows):,}".replace(",", " ")
        assert f"kind never, seen {times} times in {count} rows" in why.sentence
    det.feedback(str(ROWS), "usual")
    assert (det.predict(one)[0], det.predict(other)[0]) == (1, -1)


@pytest.mark.parametrize("answers", [("usual", "fault"), ("fault", "usual"), ("fault", "fault")])
def test_another_mind_takes_the_first_back(rng: np.random.Generator, answers: Any) -> None:
    det, _, one, other = watched(rng, "a category", precision=0.8)
    whole = copy.copy(det).feedback(str(ROWS), answers[1])
    for answer in answers:
        det.feedback(str(ROWS), answer)
    assert det.tally_.said.sayings == whole.tally_.said.sayings
    both = pandas.concat([one, other])
    np.testing.assert_array_equal(det.score_samples(both), whole.score_samples(both))
    told = det.diagnostics_
    assert told["alerts_answered"] == 1
    assert told["alerts_dismissed"] == (answers[-1] == "usual")


def test_a_promised_precision_counts_each_answer_once(rng: np.random.Generator) -> None:
    frame = table(rng, "a category", 1000)
    det = Detector(precision=0.8, nu=0.02, warmup=200, missing="mean")
    for start in range(0, 1000, 100):
        det.partial_fit(frame[start : start + 100])
        odd_one = odd(frame, {"kind": f"new{start}"}, a=9.0 if start % 200 else 0.1)
        det.partial_fit(odd_one)
        for alert in [a for a in det.alerts_ if a["answer"] is None]:
            det.feedback(alert["id"], "fault" if rng.random() < 0.4 else "usual")
    told = det.diagnostics_
    share = told["alerts_dismissed"] / told["alerts_answered"]
    assert told["alerts_answered"] > 8
    assert 1 - share == pytest.approx(told["precision_promised"] + told["precision_error_term"])


def test_what_is_refused_changes_nothing_and_who_looks_does_not(rng: np.random.Generator) -> None:
    det, frame, one, _ = watched(rng, "a category")
    before = bits(det)
    for id, answer in ((ROWS + 5, "usual"), (ROWS, "usal")):
        with pytest.raises(ValueError, match="Detector"):
            det.feedback(id, answer)
    assert bits(det) == before
    det.feedback(ROWS, "usual").partial_fit(frame[:50])
    after = bits(det)
    assert after != before
    det.predict(one)
    det.explain(one)
    assert bits(det) == after


@pytest.mark.parametrize("answer", ["usual", "fault"])
def test_of_alerts_in_earlier_files_nothing_false_is_said(
    rng: np.random.Generator, answer: str
) -> None:
    """They do not hold which values it were: the answer counts, and is about the rest."""
    det, _, one, other = watched(rng, "a category", precision=0.8)
    det._tally.said = Said(det._tally.said.columns)
    again = files.loads(bits(det)).feedback(ROWS, answer)
    assert again.diagnostics_["alerts_answered"] == 1
    assert again.predict(pandas.concat([one, other])).tolist() == [-1, -1]
    for row in (one, other):
        assert again.explain(row).precedent is None


def script(rng: np.random.Generator) -> tuple[Any, dict[int, str]]:
    """Rows of which some have odd values, old and new; and before which row somebody answers."""
    rows = table(rng, "a category", size(400, 1500, plain=250))
    rows.loc[::9, "kind"] = rng.choice(["p", "q", "r", "s"], len(rows[::9]))
    rows.loc[::40, "a"] = 8.0
    return rows, {i: ("usual", "fault")[i // 30 % 2] for i in range(30, len(rows), 30)}


def learned(det: Any, rows: Any, said: dict[int, str], cut: int, lone: bool = False) -> Any:
    found = []
    stops = sorted({0, len(rows), *said, *range(0, len(rows), cut)})
    for start, stop in pairwise(stops):
        if start in said:
            waiting = [a["id"] for a in det.alerts_ if a["answer"] is None]
            if waiting:
                det.feedback(waiting[-1], said[start])
        part = rows[start:stop]
        if lone:
            for row in part.to_dict("records"):
                found.append((det.score_one(row), det.predict_one(row)))
                det.learn_one(row)
        else:
            score = det.predict_then_learn(part, output="judgement")
            found += [(s, -1 if a else 1) for s, _, a in score.tolist()]
    return np.array(found)


def in_parts(
    form: str, det: Detector, rows: Any, said: dict[int, str], every: int
) -> tuple[Detector, Any]:
    """Return a detector that has learned rows in another form, and what it said."""
    if form != "with a file between":
        return det, learned(det, rows, said, 7, lone=form == "rows one by one")
    half = len(rows) // 2 // every * every
    first = learned(det, rows[:half], {i: a for i, a in said.items() if i < half}, 64)
    det = files.loads(bits(det))
    second = {i - half: a for i, a in said.items() if i >= half}
    return det, np.concatenate([first, learned(det, rows[half:], second, 64)])


@pytest.mark.parametrize("form", ["blocks", "rows one by one", "with a file between"])
def test_cuts_do_not_matter(rng: np.random.Generator, form: str) -> None:
    det, _, _, _ = watched(rng, "a category", memory_of_feedback=300)
    rows, said = script(rng)
    other = copy.copy(det)
    truth = learned(det, rows, said, 10**9)
    kinds = {s.usual for s in det.tally_.said.sayings}
    assert kinds == {True, False}
    other, found = in_parts(form, other, rows, said, 30)
    np.testing.assert_array_equal(found, truth)
    assert bits(other) == bits(det)
    assert bits(files.loads(bits(det))) == bits(det)


def of_all_kinds(rng: np.random.Generator, rows: int, odd: float) -> Any:
    """A category, hours, words, gaps and numbers, each odd in some of the rows."""
    parts = [table(rng, name, rows) for name in ("a category with no spread", "an hour", "words")]
    found = pandas.concat([parts[0], parts[1]["when"], parts[2]["note"]], axis=1)
    kinds, words = ["p", "q", "r"], ["wire", "urgent", "secret"]
    for column in ("kind", "when", "note", "a", "b"):
        hit = rng.random(rows) < odd
        some = found.loc[hit, column]
        found.loc[hit, column] = {
            "kind": lambda s: rng.choice(kinds, len(s)), "a": lambda s: 9.0, "b": lambda s: np.nan,
            "when": lambda s: s - pandas.Timedelta(hours=7),
            "note": lambda s: s + " " + rng.choice(words, len(s)),
        }[column](some)  # fmt: skip
    return found


@pytest.mark.parametrize("form", ["blocks", "rows one by one", "with a file between"])
def test_cuts_do_not_matter_for_any_kind_of_value(rng: np.random.Generator, form: str) -> None:
    det = Detector(
        nu=0.03, missing="mean", columns={"note": "text"}, memory_of_feedback=1000, warmup=300
    )
    det.partial_fit(of_all_kinds(rng, 900, 0.0))
    rows = of_all_kinds(rng, size(300, 900, plain=200), 0.02)
    said = {i: ("usual", "fault")[i // 10 % 2] for i in range(10, len(rows), 10)}
    other = copy.copy(det)
    truth = learned(det, rows, said, 10**9)
    columns = {j for s in det.tally_.said.sayings for j, codes in enumerate(s.codes) if codes}
    assert columns
    other, found = in_parts(form, other, rows, said, 10)
    np.testing.assert_array_equal(found, truth)
    assert bits(other) == bits(det)


def test_answers_fade(rng: np.random.Generator) -> None:
    det, frame, one, other = watched(rng, "a category", memory_of_feedback=200)
    det.feedback(ROWS, "usual")
    last = int(200 * (1 - np.log(ALIKE)))
    for _ in range(3):  # given again it holds anew, and counts once
        det.partial_fit(frame[:last])
        assert det.predict(one)[0] == 1
        det.partial_fit(frame[:1])
        assert det.predict(one)[0] == det.predict(other)[0] == -1
        assert "answered" not in det.explain(one).sentence
        det.feedback(ROWS, "usual")
        assert det.diagnostics_["alerts_answered"] == det.diagnostics_["alerts_dismissed"] == 1


def test_merged_models_hear_what_each_has_heard(rng: np.random.Generator) -> None:
    start = Detector(columns={"kind": "category"}).partial_fit(table(rng, "a category"))
    frame = table(rng, "a category", 300)
    parts = []
    for value, answer in (("never", "usual"), ("bad", "fault")):
        det = copy.copy(start).partial_fit(frame)
        row = odd(frame, {"kind": value})
        det.partial_fit(row).feedback(det.alerts_[-1]["id"], answer)
        parts.append(det)
    both = merge(parts, start=start)
    rows = [odd(frame, {"kind": value}) for value in ("never", "bad", "another")]
    assert both.predict(pandas.concat(rows)).tolist() == [1, -1, -1]
    said = [both.explain(row).sentence for row in rows]
    assert "like an alert that was answered as usual" in said[0]
    assert "like an alert that was answered as a fault" in said[1] and "answered" not in said[2]
    assert bits(files.loads(bits(both))) == bits(both)


def test_a_number_beside_a_rare_value_is_known_by_itself(rng: np.random.Generator) -> None:
    frame = table(rng, "a category with no spread")
    row = odd(frame, {"kind": "never"}, a=9.0)
    for answer, words in (("usual", None), ("fault", "answered as a fault")):
        det = Detector().partial_fit(frame).partial_fit(row)
        det.feedback(ROWS, answer)
        rows = [row, odd(frame, {"kind": "x"}, a=9.0), odd(frame, {"kind": "never"}),
                odd(frame, {"kind": "another"}, a=9.0), odd(frame, {"kind": "x"})]  # fmt: skip
        mark = {"usual": [1, 1, 1, -1, 1], "fault": [-1, -1, -1, -1, 1]}[answer]
        assert det.predict(pandas.concat(rows)).tolist() == mark
        like = [det.explain(r).precedent is not None for r in rows]
        assert like == [True, True, True, False, False]
        assert words is None or all(words in det.explain(r).sentence for r in rows[:3])


def test_a_value_that_comes_often_is_not_called_a_fault_beside_one_that_does_not(
    rng: np.random.Generator,
) -> None:
    """Where a number stood out further, the category that comes in one of 500 rows stays usual."""
    frame = table(rng, "a category")
    often = frame["kind"].value_counts().index[3]
    det = Detector().partial_fit(frame).partial_fit(odd(frame, {"kind": often}, a=60.0))
    before = det.score_samples(odd(frame, {"kind": often}))
    det.feedback(ROWS, "fault")
    assert not any(s.codes[0] for s in det.tally_.said.sayings)
    np.testing.assert_allclose(det.score_samples(odd(frame, {"kind": often})), before)
    assert det.explain(odd(frame, {"kind": "x"}, a=60.0)).precedent is not None


def test_condemned_values_lie_beyond_all_others(rng: np.random.Generator) -> None:
    det, _, one, other = watched(rng, "a category")
    det.feedback(ROWS, "fault")
    tally, plan = det.tally_, det.plan_
    rows = plan.encode(det._table(pandas.concat([one, other])))
    rarity = tally.rarity(rows)[:, 0]
    assert rarity[0] == CONDEMNED > rarity[1] + 4
    assert tally.seen("kind", "never") == 1.0


@pytest.mark.parametrize("form", ["frames", "dicts"])
def test_keys_of_a_fleet_have_answers_of_their_own(rng: np.random.Generator, form: str) -> None:
    frame = table(rng, "a category")
    one, other = (odd(frame, values) for values in CASES["a category"])
    said = (lambda t: t) if form == "frames" else (lambda t: t.to_dict("records"))
    fleet = Fleet(Detector())
    for key in ("p", "q"):
        fleet.partial_fit([key] * (ROWS + 1), said(pandas.concat([frame, one])))
    fleet.feedback("p", str(ROWS), "usual")
    both = said(pandas.concat([one, other]))
    assert fleet.predict(["p", "p"], both).tolist() == [1, -1]
    single = Detector().partial_fit(frame).partial_fit(one).feedback(ROWS, "usual")
    np.testing.assert_array_equal(
        fleet["p"].score_samples(both), single.score_samples(pandas.concat([one, other]))
    )
    again = files.loads(files.dumps(fleet))
    assert again.predict(["p", "p"], both).tolist() == [1, -1]
    assert again.predict(["q", "q"], both).tolist() == fleet.predict(["q", "q"], both).tolist()
    assert fleet["q"].tally_.said.sayings == ()
