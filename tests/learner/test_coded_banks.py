"""Banks and mixtures on rows of codes and numbers: what lone learners make of them is the truth."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from helpers import coded
from helpers.agreement import close
from helpers.fingerprint import fingerprint as bits

from onkel import core, expansions, kernels, losses, rules
from onkel.inputs import RefusedRow
from onkel.learner import (
    Bank,
    Odds,
    Settings,
    dump,
    merged,
    opened,
    resumed_mixture,
    start,
    start_parts,
)
from onkel.learner.mixture_row import BankRow
from onkel.learner.resume import resumed_group
from onkel.saved import Saved

ROWS = 120
TOLERANCE = {np.float64: 1e-9, np.float32: 5e-4}
KERNELS = [
    kernels.Gaussian(0.05), kernels.Gaussian(0.2), kernels.Laplacian(0.1), kernels.Laplacian(0.4),
]  # fmt: skip
"""Widths that are powers of two apart share exponentials."""
PRODUCTS = [0.1 * kernels.Linear(), 0.05 * kernels.Polynomial(2, 0.1, 1.0)]
"""Of a ring of their own: they are no kernels of differences."""


def member(kernel: kernels.Kernel, terms: int = 500, **more: Any) -> Settings:
    rule = more.pop("rule", rules.Norma(0.2, memory=100.0))
    window = expansions.Window(terms=terms)
    return Settings(kernel, losses.Logistic(), rule, window, **more)


def stream(rng: Any, dtype: Any = np.float64, rows: int = ROWS) -> tuple[Any, Any]:
    X = coded.rows(rng, rows, numbers=6, dtype=dtype)
    y = np.sin(X[:, 3]) + 2 * (X[:, 0] == coded.FAR) - 1 + 0.3 * rng.normal(size=rows)
    X[rows // 2 :, 3:] *= 20
    return X, np.where(y > 0, 1.0, -1.0)[:, None]


def mixture(members: list[Settings], dtype: Any = np.float64) -> Any:
    return Odds(members, start_parts(members, 9, 1, dtype, opened, coded.U), share=0.001)


def learn(learner: Any, X: Any, Y: Any) -> Any:
    return learner.learn(X, Y, np.ones(len(X)))[0]


def by_lane(model: Any, X: Any, Y: Any) -> tuple[Any, int]:
    """Feed rows one by one the cheap way, wherever that is possible; count how often it was."""
    scores, one, cheap = [], None, 0
    for x, y in zip(X, Y, strict=True):
        one = one if one is not None and one.holds(model) else model.single_row()
        if one is not None and one.learn(x, float(y[0])):
            scores.append(one.scores.copy())
            cheap += 1
        else:
            scores.append(learn(model, x[None], y[None])[0])
            one = None
    return np.array(scores), cheap


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("which", [KERNELS, PRODUCTS], ids=["distances", "products"])
def test_a_bank_is_its_members(rng: Any, which: Any, scale: bool, dtype: Any) -> None:
    members = [member(kernel, scale=scale) for kernel in sorted(which, key=_program)]
    X, Y = stream(rng, dtype)
    if not scale:
        X[:, 3:] /= 10
    bank, again = (Bank(members, 9, 1, dtype, coded.U) for _ in range(2))
    alone = [start(made, 9, 1, dtype, coded.U) for made in members]
    wanted = np.hstack([learn(learner, X, Y) for learner in alone])
    close(learn(bank, X, Y), wanted, TOLERANCE[dtype], "in a block")
    rows = [learn(again, X[i : i + 1], Y[i : i + 1]) for i in range(ROWS)]
    close(np.concatenate(rows), wanted, TOLERANCE[dtype], "row by row")
    close(bank.scores(X), np.hstack([a.scores(X) for a in alone]), TOLERANCE[dtype], "later")


def _program(kernel: kernels.Kernel) -> Any:
    return kernel.program()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("terms", [40, 500])
def test_single_rows_of_a_mixture(rng: Any, terms: int, dtype: Any) -> None:
    """A ring, and a member with terms of its own; small rings let points go."""
    lone = member(
        kernels.Gaussian(0.1), terms, rule=rules.Norma(0.2, memory=100.0, track_norm=True)
    )
    members = [*(member(kernel, terms) for kernel in [*KERNELS, *PRODUCTS]), lone]
    X, Y = stream(rng, dtype)
    one, block = mixture(members, dtype), mixture(members, dtype)
    scores, cheap = by_lane(one, X, Y)
    assert cheap > ROWS // 2 if core.has_lane() else not cheap
    close(scores, learn(block, X, Y), 100 * TOLERANCE[dtype], "scores")
    close(one.scores(X), block.scores(X), 100 * TOLERANCE[dtype], "later")
    for part, _ in one.parts:
        assert part.apart == coded.U and not part.moments.mean[:3].any()


def test_a_single_row_can_be_taken_back(rng: Any) -> None:
    if not core.has_lane():
        pytest.skip("single rows go in blocks without the compiled core")
    X, Y = stream(rng)
    bank = Bank(
        [member(kernel) for kernel in sorted(KERNELS, key=_program)], 9, 1, np.float64, coded.U
    )
    learn(bank, X[:100], Y[:100])
    row = BankRow(bank, np.zeros(len(KERNELS)))
    row.plan(bank.t + 1 + np.arange(5))
    before = bits(bank)
    assert row.learn(X[100], Y[100], 101) and bits(bank) != before
    row.undo()
    assert bits(bank) == before
    wrong = X[100].copy()
    wrong[1] = 0.5
    assert not row.learn(wrong, Y[100], 101) and not row.look(wrong)
    assert bits(bank) == before


def test_a_refused_call_changes_nothing(rng: Any) -> None:
    X, Y = stream(rng)
    model = mixture([member(kernel) for kernel in KERNELS])
    learn(model, X[:60], Y[:60])
    before, wrong = bits(model), X[60:].copy()
    wrong[40, 0] = -3.0
    with pytest.raises(RefusedRow, match="Row 40: its first 3 values must be codes"):
        learn(model, wrong, Y[60:])
    assert bits(model) == before


def test_files_go_on_bit_for_bit(rng: Any) -> None:
    members = [member(kernel) for kernel in KERNELS]
    X, Y = stream(rng)
    first = mixture(members)
    learn(first, X[:60], Y[:60])
    second = resumed_mixture(Odds, members, first.numbers(), Saved(first.dump()), opened)
    assert second.apart == coded.U and bits(second) == bits(first)
    for model in (first, second):
        learn(model, X[60:], Y[60:])
    assert bits(second) == bits(first)


def test_parts_must_have_the_same_codes(rng: Any) -> None:
    members = [member(kernels.Gaussian(0.1)), member(kernels.Gaussian(0.1), 100)]
    X, Y = stream(rng)
    model = mixture(members)
    learn(model, X, Y)
    held = copy.deepcopy(model.dump())
    held["parts"]["1"]["apart"] = [1.4, 0.3, 2.1]
    held["parts"]["1"]["frame"]["width"][2] = np.sqrt(2.1)
    with pytest.raises(ValueError, match="must have learned the same rows"):
        resumed_mixture(Odds, members, model.numbers(), Saved(held), opened)
    alone = resumed_group([members[1]], Saved(dump(model.parts[1][0])))
    assert alone.apart == coded.U


def test_merged_banks_add(rng: Any) -> None:
    members = [member(kernel, scale=False) for kernel in KERNELS]
    X, Y = stream(rng)
    X[:, 3:] /= 10
    models = [mixture(members) for _ in range(2)]
    for model, half in zip(models, (slice(0, 60), slice(60, 120)), strict=True):
        learn(model, X[half], Y[half])
    found = merged(models, np.array([0.5, 0.5])).learner
    wanted = 0.5 * (models[0].answers(X) + models[1].answers(X))
    close(found.answers(X), wanted, 1e-9, "members")
    assert found.apart == coded.U
    learn(found, X[:20], Y[:20])


def test_wider_mixtures_keep_their_codes(rng: Any) -> None:
    X, Y = stream(rng)
    model = mixture([member(kernel) for kernel in KERNELS])
    learn(model, X, Y)
    wide = model.widened(np.array([4.0]))
    more = np.column_stack([X, np.full(ROWS, 4.0)])
    assert wide.apart == coded.U
    close(wide.scores(more), model.scores(X), 1e-10, "scores")
    learn(wide, more, Y)
