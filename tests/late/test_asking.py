"""Asking at a promised share: an identity on any stream, and the bounds that it gives."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.sizes import size
from hypothesis import given
from hypothesis import strategies as st
from naive.late import NaiveAsking

from onkel import Classifier, KernelRegressor, Late, bounds, losses
from onkel.late import asking
from onkel.late.asking import Asking


def check(found: Asking, flags):
    """The identity, and both bounds, after any stream."""
    known = {"trials": len(flags), "ask": found.share, "ask_rate": found.rate}
    told = bounds.ask_budget(**known, ask_start=found.start, ask_end=found.level)
    assert told.bound == pytest.approx(sum(flags), abs=1e-6)
    bound = bounds.ask_budget(**known)
    assert bound.details["least"] - 1e-6 <= sum(flags) <= bound.bound + 1e-6
    for i in range(len(flags)):  # at any time, not at the end alone
        assert sum(flags[: i + 1]) <= found.share * (i + 1) + bound.details["surplus"] + 1e-6


@given(st.lists(st.floats(0, 1), min_size=1, max_size=200), st.floats(0.005, 0.9))
def test_the_identity_holds_for_any_doubt(doubt, share):
    found = Asking(share)
    flags = found.update(np.array(doubt), np.ones(len(doubt), bool)).tolist()
    check(found, flags)


@pytest.mark.few
@pytest.mark.parametrize("share", [0.01, 0.2])
@pytest.mark.parametrize("stream", ["same", "rising", "falling", "bursts", "enemy", "unknown"])
def test_streams_that_want_to_break_it(rng, share, stream):
    rows, found, flags = size(1500, 20_000), Asking(share), []
    for i in range(rows):
        doubt = {
            "same": 0.5, "rising": i / rows, "falling": 1 - i / rows, "unknown": 0.0,
            "bursts": float(i // 200 % 2), "enemy": float(found.level < 1 - share),
        }[stream]  # fmt: skip
        flags += found.update(np.array([doubt]), np.array([stream != "unknown"])).tolist()
    check(found, flags)
    assert abs(np.mean(flags) - share) <= (1 / asking.STEP / share + 1) / rows + 2 / rows


def test_as_in_a_plain_loop_however_the_rows_are_cut(rng):
    doubt = np.round(rng.uniform(size=800), 2)
    known = rng.uniform(size=800) > 0.1
    whole, pieces = Asking(0.05), Asking(0.05)
    flags = whole.update(doubt, known)
    parts = np.split(np.arange(800), np.sort(rng.integers(0, 800, 30)))
    cut = np.concatenate([pieces.update(doubt[p], known[p]) for p in parts])
    assert cut.tolist() == flags.tolist() and pieces.dump()["asked"] == whole.asked
    naive = NaiveAsking(0.05, asking.STEP * 0.05)
    for i in range(800):
        chance = asking.drawn(i)
        by_lot = chance / asking.LOT if chance < asking.LOT else None
        naive.row(doubt[i] if known[i] else None, by_lot)
    assert naive.flags == flags.tolist()


def test_lots_are_drawn_evenly():
    drawn = np.array([asking.drawn(i) for i in range(20_000)])
    assert abs(drawn.mean() - 0.5) < 0.01 and abs((drawn < 0.2).mean() - 0.2) < 0.01
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.03


def test_a_classifier_asks_where_it_is_in_doubt(rng):
    X = rng.uniform(-1, 1, size=(3000, 1))
    late = Late(Classifier(), ask=0.1)
    said = late.predict(X[:200])
    late.learn(said.ids, X[:200, 0] > 0)
    said = late.predict(X[200:])
    near = np.abs(X[200:, 0])
    assert near[said.ask].mean() < 0.7 * near.mean()
    told = late.diagnostics_
    assert told["ask_promised"] == 0.1 and told["asked"] == int(said.ask.sum()) + _early(late, said)
    assert told["ask_realised"] == pytest.approx(0.1 + told["ask_term"])
    assert "Promised to ask for 10 %" in told["ask_in_words"]


def _early(late, said):
    return late.diagnostics_["asked"] - int(said.ask.sum())


def test_a_regressor_asks_where_its_intervals_are_wide(rng):
    late = Late(KernelRegressor(loss=losses.Huber(nu=0.1)), ask=0.1)
    X = rng.normal(size=(400, 1))
    late.learn(late.predict(X[:200]).ids, X[:200, 0])
    assert late.predict(X[200:]).ask.mean() == pytest.approx(0.1, abs=0.03)


def test_answers_that_were_asked_for_are_counted(rng):
    X = rng.normal(size=(100, 1))
    late = Late(Classifier(), ask=0.1)
    said = late.predict(X)
    asked = [id for id, ask in zip(said.ids, said.ask, strict=True) if ask]
    late.learn(asked, ["a"] * len(asked))
    late.learn([id for id in said.ids if id not in asked][:5], ["b"] * 5)
    assert late.diagnostics_["asked_answered"] == len(asked) == late.diagnostics_["asked"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ask": 0.0, "ask_rate": 0.1}, "ask must be"),
        ({"ask": 0.1, "ask_rate": 0.0}, "ask_rate must be"),
        ({"ask": 0.1, "ask_rate": 0.1, "ask_start": 2.0}, "ask_start must be"),
        ({"ask": 0.1, "ask_rate": 0.1, "ask_end": 2.0}, "ask_end must lie within"),
    ],
)
def test_quantities_that_cannot_be(given, words):
    with pytest.raises(ValueError, match=words):
        bounds.ask_budget(trials=10, **given)
