"""Lags against plain loops; blocks against single rows; gaps, refusals, copies, parameters."""

from __future__ import annotations

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from helpers.sizes import size
from hypothesis import given
from hypothesis import strategies as st
from naive import series as naive

from onkel import KernelRegressor, LinearRegressor
from onkel.series import Lags

STEP = 3600.0


def walk(rng, rows, columns=1):
    return rng.normal(size=(rows, columns)).cumsum(axis=0)


def hours(rows, start=1.7e9):
    return start + STEP * np.arange(rows)


def in_pieces(maker, X, at, time=None):
    edges = sorted({0, len(X), *(min(a, len(X)) for a in at)})
    parts = [slice(a, b) for a, b in pairwise(edges)]
    return np.concatenate(
        [maker.transform_then_learn(X[p], time=None if time is None else time[p]) for p in parts]
    )


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("season", [None, "day", "day,week", 7, (2.5, "week")])
def test_as_in_plain_loops(rng, columns, season):
    X, time = walk(rng, 200, columns), hours(200)
    maker = Lags(3, shape=4, differences=True, roughness=5, season=season, forecast=0)
    seasons = {None: [], "day": ["day"], "day,week": ["day", "week"], 7: [7]}.get(
        season, [2.5, "week"]
    )
    truth = naive.wide(X.T.tolist(), 3, 4, True, 5, seasons, time.tolist())
    found = maker.transform_then_learn(X, time=time)
    assert found.shape == (200, len(maker.get_feature_names_out()))
    np.testing.assert_allclose(found, truth, rtol=1e-9, atol=1e-9)


@given(
    st.lists(st.sampled_from([0.0, 1.0, -2.0, 5.0]), min_size=1, max_size=30),
    st.integers(0, 4), st.integers(0, 4), st.booleans(), st.integers(0, 4),
    st.lists(st.integers(0, 30), max_size=4),
)  # fmt: skip
def test_few_values_in_any_pieces(values, lags, shape, differences, roughness, at):
    X = np.array(values)[:, None]
    given = dict(shape=shape, differences=differences, roughness=roughness, season="auto")
    maker = Lags(lags, forecast=0, **given)
    truth = naive.wide([values], lags, shape, differences, roughness, [None])
    whole = maker.transform_then_learn(X)
    np.testing.assert_allclose(whole, truth, rtol=1e-9, atol=1e-9)
    again = in_pieces(Lags(lags, forecast=0, **given), X, at)
    assert np.array_equal(whole, again)


@pytest.mark.few
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("timed", [False, True])
def test_blocks_give_the_bits_of_single_rows(rng, columns, timed):
    """Past the rows at which a period is looked for, and the first halving of the past."""
    rows = size(720, 9000, plain=720)
    X = walk(rng, rows, columns) * 0.05 + np.sin(np.arange(rows) * 2 * np.pi / 24)[:, None]
    time = hours(rows) if timed else None
    kinds = dict(lags=2, shape=3, differences=True, season="auto")
    one, many, cut = Lags(**kinds), Lags(**kinds), Lags(**kinds)
    whole = many.transform_then_learn(X, time=time)
    singly = in_pieces(one, X, range(rows), time)
    assert np.array_equal(whole, singly)
    assert np.array_equal(whole, in_pieces(cut, X, [1, 255, 257, 700, 4095, 4099], time))
    assert one.season_ == many.season_ == ("day" if timed else "24 rows")


def test_the_residual_is_what_our_own_regressor_did_not_foresee(rng):
    X = walk(rng, 300)
    found = Lags(roughness=0, season=6, forecast=2).transform_then_learn(X)
    x = X[:, 0].tolist()
    angle = [2 * np.pi * (i % 6) / 6 for i in range(300)]
    known = [
        [naive.earlier(x, i, 1), naive.earlier(x, i, 2), np.sin(angle[i]), np.cos(angle[i])]
        for i in range(300)
    ]
    model = LinearRegressor(loss="epsilon_insensitive", rule="projection")
    foreseen = [model.predict_then_learn([k], [v])[0] for k, v in zip(known, x, strict=True)]
    left = np.array(x) - foreseen
    left[0] = 0.0
    np.testing.assert_allclose(found[:, 1], left, rtol=1e-9, atol=1e-9)


def test_names():
    names = Lags(1, shape=1, differences=True, season="day,8,auto").get_feature_names_out(
        ["a", "b"]
    )
    assert names.tolist() == [
        "a", "b", "a lag 1", "b lag 1", "a shape 0", "b shape 0", "a difference", "b difference",
        "a roughness", "b roughness", "a residual", "b residual", "day sin", "day cos",
        "8 rows sin", "8 rows cos", "season sin", "season cos",
    ]  # fmt: skip
    pandas = pytest.importorskip("pandas")
    maker = Lags(season=None).fit(pandas.DataFrame({"load": [1.0, 2.0]}))
    assert maker.get_feature_names_out().tolist() == ["load", "load roughness", "load residual"]
    with pytest.raises(ValueError, match="feature names should match"):
        maker.transform(pandas.DataFrame({"flow": [1.0]}))
    two = Lags(roughness=0, season=None, forecast=0).fit(np.zeros((1, 2)))
    assert two.get_feature_names_out().tolist() == ["x0", "x1"]


def test_levels_do_not_change_shapes(rng):
    X = walk(rng, 300)
    maker = dict(shape=5, roughness=6, season=None, forecast=0)
    low, high = (Lags(**maker).transform_then_learn(Y) for Y in (X, 1000.0 + 7.0 * X))
    np.testing.assert_allclose(low[:, 1:], high[:, 1:], atol=1e-6)


def test_a_flat_line_is_as_unusual_as_a_jagged_one(rng):
    X = rng.normal(size=(400, 1))
    X[200:250], X[300:350:2] = X[200], 5.0
    rough = Lags(season=None, forecast=0).transform_then_learn(X)[:, 1]
    usual = np.r_[rough[20:200], rough[260:300]]
    assert rough[209:250].max() < usual.min() - 1 and rough[310:350].min() > usual.max()


@pytest.mark.parametrize("size_of", [0.0, 1e-300, 1e9, 1e151])
def test_any_size_of_numbers_is_taken(rng, size_of):
    X = size_of * rng.choice([-1.0, 1.0], (600, 1))
    wide = Lags(9, shape=9, differences=True, season="auto").transform_then_learn(X)
    assert np.isfinite(wide).all()


# -- gaps ----------------------------------------------------------------------------------------


def test_gaps_hold_the_last_value(rng):
    X = walk(rng, 60, 2)
    X[rng.random(X.shape) < 0.3] = np.nan
    X[:2, 1] = np.nan
    maker = Lags(2, shape=3, season=None, forecast=0, roughness=4, missing="last")
    whole = maker.transform_then_learn(X)
    columns = [naive.filled(column) for column in X.T.tolist()]
    start = max(column.count(None) for column in columns)
    assert np.isnan(whole[:start]).all()
    truth = naive.wide([c[start:] for c in columns], 2, 3, False, 4, [])
    np.testing.assert_allclose(whole[start:], truth, rtol=1e-9, atol=1e-9)
    again = Lags(**maker.get_params())
    assert np.array_equal(whole, in_pieces(again, X, range(60)), equal_nan=True)


def test_gaps_are_refused_unless_told():
    with pytest.raises(ValueError, match="contains NaN"):
        Lags().transform_then_learn([[np.nan]])


# -- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong, said",
    [
        ({"lags": -1}, "lags must be a whole number"),
        ({"shape": 2.5}, "shape must be a whole number"),
        ({"roughness": "auto"}, "roughness must be"),
        ({"forecast": None}, "forecast must be"),
        ({"differences": 1}, "differences must be True or False"),
        ({"missing": "mean"}, "missing must be 'error' or 'last'"),
        ({"season": "year"}, "season must be 'auto', 'day', 'week'"),
        ({"season": 1}, "season must be"),
        ({"season": "day,day"}, "each season once"),
        ({"season": True}, "season must be"),
    ],
)
def test_parameters_are_checked_with_the_first_rows(wrong, said):
    with pytest.raises(ValueError, match=said):
        Lags(**wrong).transform_then_learn([[1.0]])
    with pytest.raises(ValueError, match=said):
        Lags(**wrong).check_params()


def same(a, b):
    return pickle.dumps(a.dump()) == pickle.dumps(b.dump())


def test_a_refused_call_changes_nothing(rng):
    X = walk(rng, 300)
    maker = Lags(season="auto").fit(X, time=hours(300))
    before = maker.copy()
    for wrong, how in [
        ([[np.nan]], {"time": [2e9]}), ([[1.0, 2.0]], {"time": [2e9]}), ([[1.0]], {}),
        ([[1.0]], {"time": ["soon"]}), ([[1e200]], {"time": [2e9]}), ([[1.0]], {"time": [1, 2]}),
    ]:  # fmt: skip
        with pytest.raises(ValueError):
            maker.transform_then_learn(wrong, **how)
        assert same(maker, before)
    with pytest.raises(ValueError, match="the rows before had none"):
        Lags().fit(X).transform_then_learn(X, time=hours(300))
    with pytest.raises(ValueError, match="season='day' goes by the clock: give time="):
        Lags(season="day").fit(X)


def test_a_later_piece_that_is_refused_takes_the_earlier_with_it(rng, monkeypatch):
    maker, X = Lags(season="auto").fit(walk(rng, 200)), walk(rng, 400)
    before, called = maker.copy(), []
    real = LinearRegressor.predict_then_learn

    def refuses(self, *args):
        called.append(1)
        if len(called) == 2:
            raise ValueError("no")
        return real(self, *args)

    monkeypatch.setattr(LinearRegressor, "predict_then_learn", refuses)
    with pytest.raises(ValueError, match="no"):
        maker.transform_then_learn(X)
    assert same(maker, before)


# -- protocols -----------------------------------------------------------------------------------


def test_transform_looks_ahead_and_changes_nothing(rng):
    X = walk(rng, 500)
    maker = Lags(2, season="auto").fit(X[:300])
    before = maker.copy()
    ahead = maker.transform(X[300:])
    assert same(maker, before)
    assert np.array_equal(ahead, maker.transform_then_learn(X[300:]))
    with pytest.raises(ValueError, match="not fitted"):
        Lags().transform(X)


def test_copies_go_on_alike_and_apart(rng):
    X = walk(rng, 900)
    maker = Lags(1, season="auto").fit(X[:400])
    others = [
        maker.copy(),
        copy.copy(maker),
        copy.deepcopy(maker),
        pickle.loads(pickle.dumps(maker)),
    ]
    ahead = maker.transform_then_learn(X[400:])
    for other in others:
        assert np.array_equal(other.transform_then_learn(X[400:]), ahead)


def test_fit_begins_anew(rng):
    X = walk(rng, 50)
    maker = Lags(season="auto").fit(X, time=hours(50))
    assert np.array_equal(maker.fit_transform(X), Lags(season="auto").fit_transform(X))


ROWS_HANG_TOGETHER = dict.fromkeys(
    [
        "check_transformer_data_not_an_array", "check_transformer_general",
        "check_methods_sample_order_invariance", "check_methods_subset_invariance",
    ],
    "what comes of a row depends on those before it",
)  # fmt: skip


def test_the_checks_of_scikit_learn():
    from sklearn.utils.estimator_checks import check_estimator

    found = check_estimator(Lags(), expected_failed_checks=ROWS_HANG_TOGETHER, on_skip=None)
    assert {r["check_name"] for r in found if r["status"] == "xfail"} == set(ROWS_HANG_TOGETHER)


def test_in_a_pipeline_of_scikit_learn(rng):
    from sklearn.base import clone
    from sklearn.pipeline import make_pipeline

    X = walk(rng, 300)
    y = np.r_[X[1:, 0], 0.0]
    pipe = make_pipeline(Lags(2), KernelRegressor())
    pipe.fit(X[:200], y[:200])
    wide = Lags(2).fit_transform(X)
    plain = KernelRegressor().fit(wide[:200], y[:200])
    assert np.array_equal(pipe.predict(X[200:]), plain.predict(wide[200:]))
    fresh = clone(pipe.named_steps["lags"])
    assert fresh.get_params() == {**Lags().get_params(), "lags": 2}
    assert repr(fresh) == "Lags(lags=2)"
    assert fresh.set_params(season="day").season == "day"
    with pytest.raises(ValueError, match="Invalid parameter 'window'"):
        fresh.set_params(window=3)
