"""The period of a series: differences against plain loops; what is found, and what is not."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.sizes import size
from naive import series as naive

from onkel.series import Lags, period
from onkel.series.period import Past


def wave(rng, rows, each, noise=0.3):
    t = np.arange(rows) * 2 * np.pi / each
    return np.sin(t) + 0.5 * np.sin(2 * t + 1) + noise * rng.normal(size=rows)


def test_differences_as_in_plain_loops(rng):
    x = wave(rng, 120, 20)
    found = period.differences(x[:, None])
    truth = [naive.apart(x.tolist(), lag) for lag in range(120)]
    np.testing.assert_allclose(found, truth, atol=1e-9)
    assert period.clearness(found, 20) == pytest.approx(naive.clearness(x.tolist(), 20))
    both = period.differences(np.column_stack([x, 5 + 3 * x, np.ones(120)]))
    np.testing.assert_allclose(both, found, atol=1e-9)


@pytest.mark.parametrize("rows", [100, 4096, 9000, 20001])
def test_the_past_in_any_pieces(rng, rows):
    x = rng.normal(size=rows)
    means, each = naive.past(x.tolist(), period.SIZE)
    whole, parts = Past(1), Past(1)
    whole.add(x[:, None])
    for part in np.split(x[:, None], [1, 2, 777, 4097, 8193]):
        parts.add(part)
    for past in (whole, parts):
        assert (2**past.level, past.count) == (each, len(means))
        assert past.means[: past.count, 0].tolist() == means


def test_when_it_is_looked_for():
    at, found = 0, []
    while at < 5000:
        at = period.due(at)
        found.append(at)
    assert found == [64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144]


@pytest.mark.parametrize("each", [7, 24, 61.5])
def test_a_period_is_found(rng, each):
    found = period.found_period(wave(rng, 1000, each)[:, None])
    assert found == pytest.approx(each, rel=0.01)


def test_what_only_wanders_has_none(rng):
    found, walks = 0, size(100, 1000)
    for k in range(walks):
        rows, steady = (64, 128, 256, 700)[k % 4], (0.0, 0.9, 0.99, 1.0)[k // 4 % 4]
        x, noise = np.zeros(rows), rng.normal(size=rows)
        for i in range(1, rows):
            x[i] = steady * x[i - 1] + noise[i]
        found += period.found_period(x[:, None]) is not None
    assert found <= 0.01 * walks
    assert period.found_period(np.ones((700, 1))) is None


def test_the_day_by_the_clock(rng):
    """Also where a day has far more rows than are kept."""
    for step in (3600.0, 30.0):
        rows = int(7 * 86400 / step)
        time = 1.7e9 + step * np.arange(rows)
        x = wave(rng, rows, 86400 / step)[:, None]
        maker = Lags(forecast=0, roughness=0, season="auto").fit(x, time=time)
        assert maker.season_ == "day"
        points = maker.transform([[0.0]], time=[86400.0 * 20000 + 6 * 3600])[0, 1:]
        np.testing.assert_allclose(points, [1.0, 0.0], atol=1e-9)


def test_a_season_that_was_found_is_kept_when_rows_are_too_coarse_to_tell(rng):
    x = wave(rng, 9000, 12)[:, None]
    maker = Lags(forecast=0, roughness=0, season="auto").fit(x[:600])
    assert maker.season_ == "12 rows"
    assert maker.partial_fit(x[600:]).season_ == "12 rows"


def test_a_season_that_goes_is_forgotten(rng):
    x = np.r_[wave(rng, 400, 40), rng.normal(size=6000)][:, None]
    maker = Lags(forecast=0, roughness=0, season="auto").fit(x[:400])
    assert maker.season_ == "40 rows"
    assert maker.partial_fit(x[400:]).season_ is None


def test_an_unknown_season_spreads_as_a_known_one():
    points = Lags(forecast=0, roughness=0, season="auto").fit_transform(np.zeros((200, 1)))[:, 1:]
    np.testing.assert_allclose(np.square(points).sum(axis=1), 1.0)
    assert np.abs(points.mean(axis=0)).max() < 0.02
    np.testing.assert_allclose(points.std(axis=0), np.sqrt(0.5), atol=0.01)
