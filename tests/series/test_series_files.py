"""A series and its estimator as one model, and in one file that goes on bit for bit."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import onkel
from onkel import Detector, KernelRegressor, NoveltyDetector, files, merge, rules
from onkel.series import Lags, Series


def load(rng, rows, columns=1):
    t = np.arange(rows)[:, None]
    return np.sin(t * 2 * np.pi / 24) + 0.1 * rng.normal(size=(rows, columns))


@pytest.mark.few
@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("before", [1, 300, 5000])
def test_a_file_goes_on_bit_for_bit(rng, tmp_path, before, columns):
    X, time = load(rng, before + 300, columns), 1.7e9 + 3600.0 * np.arange(before + 300)
    model = Series(Detector(), Lags(2, shape=3, differences=True, season="auto"))
    model.partial_fit(X[:before], time=time[:before])
    model.save(tmp_path / "series.onkel")
    again = onkel.load(tmp_path / "series.onkel")
    assert type(again) is Series and repr(again) == repr(model)
    told = [
        m.predict_then_learn(X[before:], time=time[before:], output="score") for m in (model, again)
    ]
    assert np.array_equal(*told)
    assert files.dumps(model) == files.dumps(again)


def test_a_file_of_nothing_yet():
    model = Series(NoveltyDetector(nu=0.02), Lags(season=("day", 7), missing="last"))
    again = files.loads(files.dumps(model))
    assert repr(again) == repr(model)
    gone = Series(NoveltyDetector(), Lags(missing="last"))
    gone.lags.partial_fit([[np.nan, 1.0]])
    again = files.loads(files.dumps(gone))
    assert np.isnan(again.lags.partial_fit([[np.nan, 2.0]]).transform([[np.nan, 2.0]])).all()
    assert np.isfinite(again.lags.transform([[3.0, np.nan]])).all()


def test_a_file_with_names(rng):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(load(rng, 100), columns=["load"])
    model = Series(NoveltyDetector(), Lags(season=None)).partial_fit(frame)
    again = files.loads(files.dumps(model))
    assert again.lags.get_feature_names_out().tolist() == [
        "load",
        "load roughness",
        "load residual",
    ]


@pytest.mark.parametrize(
    "at, value",
    [
        ("last", np.zeros(2)), ("before", np.zeros((3, 1))), ("known", np.array([False])),
        ("seasons", {}), ("forecast", {}), ("more", 1),
    ],
)  # fmt: skip
def test_a_file_that_makes_no_sense_is_refused(rng, at, value):
    from onkel.saved import Saved

    maker = Lags(2, season="auto").fit(load(rng, 300))
    state = {**maker.dump(), at: value}
    with pytest.raises((ValueError, TypeError, AttributeError)):
        Lags.restored(maker.get_params(), Saved(state))


def test_both_or_neither(rng):
    X = load(rng, 200)
    model = Series(KernelRegressor(), Lags(2, season="auto")).partial_fit(X[:100], X[1:101, 0])
    before = files.dumps(model)
    with pytest.raises(ValueError):
        model.predict_then_learn(X[100:], [np.nan] * 100)
    assert files.dumps(model) == before


def test_the_estimator_sees_wide_rows(rng):
    X, y = load(rng, 400), rng.normal(size=400)
    model = Series(KernelRegressor(), Lags(2, season=None)).fit(X[:200], y[:200])
    wide = Lags(2, season=None).fit_transform(X)
    plain = KernelRegressor().fit(wide[:200], y[:200])
    twin = copy.copy(model)
    assert np.array_equal(model.predict(X[200:]), plain.predict(wide[200:]))
    assert np.array_equal(
        model.predict_then_learn(X[200:], y[200:]), plain.predict_then_learn(wide[200:], y[200:])
    )
    assert twin.estimator.t_ == 200 and model.diagnostics_ == model.estimator.diagnostics_


def test_forgetting_by_the_clock(rng):
    model = Series(NoveltyDetector(rule=rules.Norma(memory="12h")), Lags(season="day"))
    model.partial_fit(load(rng, 50), time=3600.0 * np.arange(50))
    assert model.estimator.t_ == 50


def test_parameters(rng):
    from sklearn.base import clone

    model = Series(NoveltyDetector(), Lags(3))
    assert model.get_params()["lags__lags"] == 3 and model.get_params()["estimator__nu"] == 0.05
    fresh = clone(model.fit(load(rng, 20)))
    assert not fresh.__sklearn_is_fitted__()
    assert fresh.set_params(lags__season=None, estimator__nu=0.1).estimator.nu == 0.1
    with pytest.raises(ValueError, match="Invalid parameter 'season'"):
        fresh.set_params(season=None)


def test_series_are_not_merged(rng):
    models = [Series(NoveltyDetector()).fit(load(rng, 20)) for _ in range(2)]
    with pytest.raises((ValueError, TypeError), match="Series"):
        merge(models)
