"""Learners on rows of codes and numbers: plain loops and one-hot rows are the truth."""

from __future__ import annotations

import copy
from typing import Any

import naive
import numpy as np
import pytest
from helpers import coded
from helpers.agreement import close
from helpers.fingerprint import fingerprint as bits
from helpers.sizes import size

from onkel import core, expansions, kernels, losses, rules
from onkel.core.frame import effective
from onkel.core.layout import APART, CODES
from onkel.inputs import RefusedRow
from onkel.learner import Settings, dump, merged, resumed, start, with_features
from onkel.saved import Saved

ROWS, TERMS = 48, 16
TOLERANCE = {np.float64: 1e-10, np.float32: 2e-4}


def stream(rng: Any, rows: int = ROWS, dtype: Any = np.float64) -> tuple[Any, Any]:
    """Rows whose numbers change their scale halfway, and a target for which both parts matter."""
    X = coded.rows(rng, rows, dtype=dtype)
    y = np.sin(X[:, 3]) + (X[:, 0] == coded.FAR) + 0.1 * rng.normal(size=rows)
    X[rows // 2 :, 3:] *= 20
    return X, y[:, None]


def settings(kernel: kernels.Kernel, **more: Any) -> Settings:
    given: dict[str, Any] = {"expansion": expansions.Window(terms=TERMS), "scale": True, **more}
    rule = given.pop("rule", rules.Norma(0.3, memory=32.0))
    return Settings(kernel, given.pop("loss", losses.Absolute()), rule, **given)


def started(made: Settings, dtype: Any = np.float64, apart: Any = coded.U, width: int = 7) -> Any:
    return start(made, width, 1, dtype, apart)


def learn(learner: Any, X: Any, Y: Any) -> Any:
    return learner.learn(X, Y, np.ones(len(X)))[0]


def by_row(learner: Any, X: Any, Y: Any) -> Any:
    return np.concatenate([learn(learner, X[i : i + 1], Y[i : i + 1]) for i in range(len(X))])


def by_lane(learner: Any, X: Any, Y: Any) -> tuple[Any, int]:
    """Feed rows one by one the cheap way, wherever that is possible; count how often it was."""
    scores, one, cheap = [], None, 0
    for x, y in zip(X, Y, strict=True):
        one = one if one is not None and one.holds(learner) else learner.single_row()
        if one is not None and one.learn(x, float(y[0])):
            scores.append(one.scores.copy())
            cheap += 1
        else:
            scores.append(learn(learner, x[None], y[None])[0])
            one = None
    return np.array(scores), cheap


@pytest.mark.few
@pytest.mark.parametrize(
    ("scale", "dtype"),
    size(
        [(True, np.float64), (False, np.float32)],
        [(s, d) for s in (True, False) for d in (np.float64, np.float32)],
    ),
)
@pytest.mark.parametrize("name", coded.KERNELS)
def test_learner_equals_naive_twin(rng: Any, name: str, scale: bool, dtype: Any) -> None:
    """In one block, and row by row; the numbers are standardised anew, the codes stay."""
    kernel, formula = coded.KERNELS[name]
    X, Y = stream(rng, dtype=dtype)
    if not scale:
        X[:, 3:] /= 10
    twin = naive.CodedNorma(
        codes=3, kernel=naive.on_codes(formula, coded.U), loss="absolute", rate=lambda t: 0.3,
        lam=1 / 9.6, start=0.0, max_terms=TERMS, scale=scale, memory=32.0, targets_scaled=scale,
        moments_eps=float(np.finfo(dtype).eps),
    )  # fmt: skip
    wanted = np.array([twin.learn_one(x, list(y)) for x, y in zip(X, Y, strict=True)])
    for way in (learn, by_row):
        learner = started(settings(kernel, scale=scale), dtype)
        close(way(learner, X, Y), wanted, TOLERANCE[dtype], way.__name__)
        close(learner.scores(X), [twin.score(x) for x in X], TOLERANCE[dtype], "later")
        stored = learner.terms.raw_rows()[:, :3]
        np.testing.assert_array_equal(stored, [x[:3] for _, x, _ in twin.terms])
        assert not learner.moments.mean[:3].any() and not learner.moments.variance[:3].any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", coded.KERNELS)
def test_single_rows_in_the_lane(rng: Any, name: str, dtype: Any) -> None:
    made = settings(coded.KERNELS[name][0])
    X, Y = stream(rng, dtype=dtype)
    one, block = started(made, dtype), started(made, dtype)
    scores, cheap = by_lane(one, X, Y)
    assert cheap > ROWS // 2 if core.has_lane() else not cheap
    close(scores, learn(block, X, Y), TOLERANCE[dtype], "scores")
    close(one.scores(X), block.scores(X), TOLERANCE[dtype], "later")
    np.testing.assert_allclose(one.moments.mean, block.moments.mean, rtol=1e-12)


@pytest.mark.parametrize("name", ["gaussian", "laplacian", "linear"])
@pytest.mark.parametrize("expansion", [expansions.Window(terms=TERMS), expansions.Centers(9)])
@pytest.mark.parametrize("average", [False, True])
def test_one_hot_rows_learn_the_same(rng: Any, name: str, expansion: Any, average: bool) -> None:
    X, Y = stream(rng)
    X[:, 3:] /= 20
    plain = naive.one_hot(X, coded.U, name == "laplacian")
    made = settings(
        coded.KERNELS[name][0], scale=False, expansion=expansion, average=average,
        rule=rules.Norma(0.05, memory=32.0),
    )  # fmt: skip
    one, two = started(made), started(made, apart=(), width=plain.shape[1])
    close(learn(one, X, Y), learn(two, plain, Y), 1e-10, "scores")
    close(one.scores(X), two.scores(plain), 1e-10, "later")


@pytest.mark.parametrize("rule", [rules.Projection(0.1), rules.Alma()], ids=repr)
def test_rules_that_divide_or_keep_a_norm(rng: Any, rule: Any) -> None:
    """They ask for a feature's first difference, and for f at the terms that go."""
    X, Y = stream(rng)
    made = Settings(kernels.Gaussian(0.2), losses.SoftMargin(), rule, expansions.Window(terms=20))
    Y = np.where(Y > np.median(Y), 1.0, -1.0)
    one, two = started(made), started(made)
    assert one.known[:3].all() and not one.known[3:].any()
    close(learn(one, X, Y), by_row(two, X, Y), 1e-9, "scores")
    close(one.scores(X), two.scores(X), 1e-9, "later")


def test_widths_count_codes_by_their_weight() -> None:
    apart = (APART,) * 2 + (APART / 32,) * 32
    learner = started(settings(kernels.Gaussian()), apart=apart, width=38)
    assert learner.kernel.gamma == 1 / effective(38, apart) == pytest.approx(1 / 7)


# -- files, copies, refusals --------------------------------------------------------------------


@pytest.mark.parametrize("expansion", [expansions.Window(terms=TERMS), expansions.Centers(9)])
def test_a_file_goes_on_bit_for_bit(rng: Any, expansion: Any) -> None:
    X, Y = stream(rng)
    made = settings(kernels.Laplacian(), expansion=expansion)
    first = started(made, np.float32)
    learn(first, X[:30].astype(np.float32), Y[:30])
    second = resumed(made, Saved(dump(first)))
    assert second.apart == coded.U and bits(second) == bits(first)
    third = first.copy()
    for learner in (first, second, third):
        learn(learner, X[30:].astype(np.float32), Y[30:])
    assert bits(second) == bits(first) == bits(third)


@pytest.mark.parametrize("apart", [[], 3.0, [1.4, -1.0], [0.0], [float("inf")], [1.0] * 8, [1]])
def test_a_file_with_other_codes_is_refused(rng: Any, apart: Any) -> None:
    made, (X, Y) = settings(kernels.Laplacian()), stream(rng)
    learner = started(made)
    learn(learner, X, Y)
    with pytest.raises(ValueError, match="apart"):
        resumed(made, Saved({**dump(learner), "apart": apart}))


def test_a_file_whose_codes_are_none_is_refused(rng: Any) -> None:
    made, (X, Y) = settings(kernels.Laplacian()), stream(rng)
    learner = started(made)
    learn(learner, X, Y)
    for change in ("known", "frame", "moments", "terms"):
        held = copy.deepcopy(dump(learner))
        if change == "known":
            held["known"][0] = False
        else:
            array = {"frame": "width", "moments": "mean", "terms": "panels"}[change]
            held[change][array][0] += 0.5
        with pytest.raises(ValueError, match="codes"):
            resumed(made, Saved(held))


@pytest.mark.parametrize("bad", [-1.0, 0.5, float(CODES), 1e30])
def test_what_is_no_code_is_refused(rng: Any, bad: float) -> None:
    X, Y = stream(rng)
    learner = started(settings(kernels.Gaussian()))
    learn(learner, X[:24], Y[:24])
    before, wrong = bits(learner), X[24:44].copy()
    wrong[7, 2] = bad
    with pytest.raises(RefusedRow, match="Row 7: its first 3 values must be codes"):
        learn(learner, wrong, Y[24:44])
    with pytest.raises(RefusedRow, match="Row 7"):
        learner.scores(wrong)
    assert bits(learner) == before
    one = learner.single_row()
    if one is not None:
        assert not one.learn(wrong[7], 0.0) and not one.look(wrong[7])
        assert one.look(X[24]) and one.learn(X[24], 0.0)


@pytest.mark.parametrize("rows", [3, 24])
def test_a_refused_call_changes_nothing(rng: Any, rows: int) -> None:
    X, Y = stream(rng)
    small = expansions.Window(terms=12)
    learner = started(settings(kernels.Gaussian(), expansion=small, loss=losses.Squared()))
    learn(learner, X[:24], Y[:24])
    before, wrong = bits(learner), Y[24:].copy()
    wrong[rows - 1] = 1e300
    with pytest.raises(ValueError, match="not changed"):
        learn(learner, X[24 : 24 + rows], wrong[:rows])
    assert bits(learner) == before


@pytest.mark.parametrize("kernel", [
    kernels.Additive(kernels.Exponential()), kernels.Spectrum(3),
    kernels.Gaussian() + kernels.Function(lambda X, Z: X @ Z.T),
], ids=["additive", "spectrum", "function"])  # fmt: skip
def test_kernels_of_numbers_alone_are_refused(kernel: kernels.Kernel) -> None:
    with pytest.raises(ValueError, match=r"3 columns of codes .*leave those columns out"):
        started(settings(kernel, scale=False))


def test_trees_are_refused() -> None:
    made = settings(kernels.Additive(kernels.Exponential()), expansion=expansions.Tree())
    with pytest.raises(ValueError, match=r"Additive.* takes numbers alone"):
        started(made)


@pytest.mark.parametrize("apart", [(0.0,), (-1.0,), (np.inf,), (np.nan,), (1.0,) * 8, (1,)])
def test_weights_that_are_none_are_refused(apart: Any) -> None:
    with pytest.raises(ValueError, match="apart must hold numbers"):
        started(settings(kernels.Gaussian()), apart=apart)


# -- several learners, wider rows ---------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_merged_scores_add(rng: Any, dtype: Any) -> None:
    """Rows that differ in a code alone, by one, stay two terms; equal ones become one."""
    made = settings(
        kernels.Laplacian(0.2),
        scale=False,
        intercept=False,
        expansion=expansions.Window(terms=None),
    )
    X, Y = stream(rng, dtype=dtype)
    X[:, 3:] = 0.0
    parts = [started(made, dtype) for _ in range(2)]
    for learner, half in zip(parts, (slice(0, 24), slice(24, 48)), strict=True):
        learn(learner, X[half], Y[half])
    found = merged(parts, np.array([0.25, 0.75]))
    wanted = 0.25 * parts[0].scores(X) + 0.75 * parts[1].scores(X)
    close(found.learner.scores(X), wanted, TOLERANCE[dtype], "sum")
    distinct = {tuple(row) for part in parts for row in part.terms.raw_rows().tolist()}
    assert found.learner.size == len(distinct) and found.joined > 0
    assert found.learner.apart == coded.U


@pytest.mark.parametrize("refit", [True, False])
def test_merged_windows_keep_their_bound(rng: Any, refit: bool) -> None:
    X, Y = stream(rng)
    parts = [started(settings(kernels.Gaussian())) for _ in range(2)]
    for learner, half in zip(parts, (slice(0, 24), slice(24, 48)), strict=True):
        learn(learner, X[half], Y[half])
    found = merged(parts, np.array([0.5, 0.5]), refit)
    assert found.learner.size <= TERMS and found.dropped > 0
    np.testing.assert_array_equal(found.learner.frame.width[:3], np.sqrt(coded.U))
    learn(found.learner, X[:9], Y[:9])


def test_wider_rows_keep_their_codes(rng: Any) -> None:
    X, Y = stream(rng)
    learner = started(settings(kernels.Gaussian(0.2)))
    learn(learner, X, Y)
    wide = with_features(learner, np.array([2.0]))
    more = np.column_stack([X, np.full(len(X), 2.0)])
    assert wide.apart == coded.U
    close(wide.scores(more), learner.scores(X), 1e-12, "scores")
    learn(wide, more, Y)
