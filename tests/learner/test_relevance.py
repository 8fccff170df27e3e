"""A relevance per column: the naive twin's, the same by blocks and by rows, in files, merged."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.fingerprint import fingerprint as bits
from helpers.sizes import size
from naive import relevance as naive

from onkel import Classifier, Regressor, core, expansions, files, kernels, losses, merge, rules
from onkel.core.layout import APART
from onkel.learner import Settings, opened, with_features
from onkel.learner.relevance import LEAST, WIDEST, Relevance, columns_of, mean_of, next_asking

MODELS = {"classes": Classifier, "numbers": Regressor}
ONCE = pytest.mark.skipif(core.BACKEND == "numpy", reason="long in plain NumPy: compiled alone")
TEXT = (APART, *(APART / 4,) * 4)
"""A category, and a text of four places."""


def stream(rng, rows, features=6):
    """Two columns tell; the last one never changes."""
    X = rng.normal(size=(rows, features))
    X[:, -1] = 3.0
    return X, np.sin(2 * X[:, 0]) + np.tanh(X[:, 2] * X[:, 0])


def target(task, y):
    return np.where(y > 0, "high", "low") if task == "classes" else y


def bank(features=6, apart=(), outputs=1, relevance=True, dtype=np.float64, widths=(0.1, 0.4)):
    each = [
        Settings(
            kernels.Laplacian(width), losses.Squared(), rules.Norma(learning_rate=0.5),
            expansions.Window(terms=300), intercept=False, relevance=relevance,
        )
        for width in widths
    ]  # fmt: skip
    return opened(each, features, outputs, dtype, apart)


def learn(learner, X, Y):
    return learner.learn(X, Y, np.ones(len(X)))[0]


def with_codes(rng, rows):
    X, y = stream(rng, rows)
    codes = rng.integers(1, 4, size=(rows, 1)), rng.integers(1, 9, size=(rows, 4))
    y = y + (codes[0][:, 0] == 2) + 0.5 * (codes[1][:, 1] > 4)
    return np.hstack([*codes, X]), y[:, None]


# -- the twin ------------------------------------------------------------------------------------


def test_times_are_a_matter_of_the_number_of_rows():
    time, known = 256, []
    while time < 200_000:
        known.append(time)
        time = min(int(1.5 * time), time + 8192)
    t, found = 0, []
    while (t := next_asking(t)) < 200_000:
        found.append(t)
    assert found == known
    assert [next_asking(t) for t in range(1, 3000)] == [
        min(k for k in known if k > t) for t in range(1, 3000)
    ]


@pytest.mark.parametrize("apart", [(), TEXT], ids=["numbers", "codes"])
def test_what_a_column_matters_is_the_twins(rng, monkeypatch, apart):
    X, Y = with_codes(rng, 600)
    X, Y = X[:, 5 - len(apart) :], np.hstack([Y, -2 * Y + X[:, -2:-1]])
    places = [[0], [1, 2, 3, 4], *([j] for j in range(5, 11))] if apart else None
    twin = naive.Relevance(8 if apart else 6, places)
    followed, asked = Relevance.followed, []

    def spy(self, scores, rows, sharing):
        def member(m):
            return lambda x: scores(np.array([x])).reshape(sharing, -1)[m].tolist()

        twin.follow([member(m) for m in range(sharing)], rows.tolist())
        found = followed(self, scores, rows, sharing)
        np.testing.assert_allclose(found.part, twin.part, rtol=1e-9, atol=1e-12)
        of = columns_of(len(X[0]), apart)
        np.testing.assert_allclose(found.width, np.array(twin.width)[of], rtol=1e-9)
        asked.append(rows)
        return found

    monkeypatch.setattr(Relevance, "followed", spy)
    learner = bank(X.shape[1], apart, outputs=2)
    learn(learner, X, Y)
    assert len(asked) == 3  # at 256, 384 and 576
    for time, rows in zip((256, 384, 576), asked, strict=True):
        np.testing.assert_allclose(rows, naive.sampled(X[:time], len(twin.part)), atol=1e-12)
    assert learner.frame.apart == pytest.approx(
        [u * w for u, w in zip(apart, learner.relevance.width, strict=False)]
    )


def test_places_of_a_text_are_one_column():
    assert columns_of(4, ()).tolist() == [0, 1, 2, 3]
    assert columns_of(7, TEXT).tolist() == [0, 1, 1, 1, 1, 2, 3]
    words = (APART / 3,) * 6
    assert columns_of(7, words).tolist() == [0, 0, 0, 1, 1, 1, 2]
    assert columns_of(2, (0.5, 3.0)).tolist() == [0, 0]


@ONCE
def test_a_column_that_never_changes_falls_to_the_floor(rng):
    X, y = stream(rng, 6000, 4)
    width = Regressor().partial_fit(X, y).relevance_
    assert width[3] < 0.35 and width.argmin() == 3
    assert width.mean() == pytest.approx(1.0)
    assert width[0] > width[1] and width[2] > width[1]
    floor = Relevance((), np.arange(4), np.array([0.5, 0.5, 0.0, 0.0])).width
    assert floor[2] == pytest.approx(floor[0] * LEAST / 2)


@ONCE
@pytest.mark.parametrize("rows", [size(4000, 10_000)])
def test_one_useful_column_of_thirty_is_found(rng, rows):
    X = rng.uniform(-1, 1, size=(rows, 30))
    y = np.sin(4 * X[:, 7])
    off, on = Regressor(relevance=False), Regressor()
    errors = [np.abs(m.predict_then_learn(X, y) - y)[rows // 2 :].mean() for m in (off, on)]
    assert errors[1] < 0.6 * errors[0]
    assert on.relevance_.argmax() == 7 and on.relevance_[7] > 5
    np.testing.assert_array_equal(off.relevance_, np.ones(30))


# -- blocks, refusals, files -----------------------------------------------------------------------


@pytest.mark.parametrize("task", MODELS)
def test_blocks_are_rows_one_by_one(rng, task):
    X, y = stream(rng, 700)
    y, whole, cut, singly = target(task, y), *(MODELS[task]() for _ in range(3))
    whole.partial_fit(X, y)
    for start, stop in ((0, 1), (1, 250), (250, 256), (256, 400), (400, 700)):
        cut.partial_fit(X[start:stop], y[start:stop])
    for row, label in zip(X, y.tolist(), strict=True):
        singly.learn_one(row, label)
    for other in (cut, singly):
        np.testing.assert_allclose(whole.relevance_, other.relevance_, rtol=1e-6)
        for method in ("predict_proba",) if task == "classes" else ("predict",):
            found, expected = (getattr(m, method)(X[:50]) for m in (other, whole))
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    assert np.ptp(whole.relevance_) > 0.5


def test_until_it_is_asked_nothing_is_otherwise(rng):
    X, y = stream(rng, 300)
    on, off = (Regressor(relevance=r).partial_fit(X[:255], y[:255]) for r in (True, False))
    np.testing.assert_array_equal(on.predict(X), off.predict(X))
    assert np.array_equal(on.relevance_, np.ones(6))
    on.partial_fit(X[255:256], y[255:256])
    assert not np.array_equal(on.relevance_, np.ones(6))


def test_a_refused_call_puts_it_back(rng):
    X, y = stream(rng, 500)
    model = Regressor().partial_fit(X[:200], y[:200])
    before = bits(model)
    with pytest.raises(ValueError, match="Row 250"):
        model.partial_fit(X[200:], np.where(np.arange(300) == 250, 1e100, y[200:]))
    assert bits(model) == before
    model.partial_fit(X[200:], y[200:])
    fresh = Regressor().partial_fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    assert bits(model) == bits(fresh)


@pytest.mark.few
@pytest.mark.parametrize("task", MODELS)
@pytest.mark.parametrize("rows", [100, 300])
def test_a_file_goes_on_with_the_same_bits(rng, task, rows):
    X, y = stream(rng, 600)
    y = target(task, y)
    model = MODELS[task]().partial_fit(X[:rows], y[:rows])
    again = files.loads(files.dumps(model))
    assert bits(again) == bits(model)
    for m in (model, again):
        m.partial_fit(X[rows:], y[rows:])
    assert bits(again) == bits(model)
    assert np.array_equal(model.relevance_, again.relevance_)


def test_a_file_without_it_goes_on_without(rng):
    X, y = stream(rng, 600)
    model = Regressor(relevance=False).partial_fit(X[:300], y[:300])
    _, settings, state = model.dump()
    assert "relevance" not in settings
    assert not any("relevance" in part for part in state["learner"]["parts"].values())
    again = files.loads(files.dumps(model.set_params(relevance=True)))
    again.partial_fit(X[300:], y[300:])
    assert np.array_equal(again.relevance_, np.ones(6))


@pytest.mark.parametrize("part", [np.full(6, 0.5), np.array([2.0, -1, 0, 0, 0, 0]), np.ones(1)])
def test_a_file_with_shares_that_are_none_is_refused(rng, part):
    X, y = stream(rng, 300)
    model = Regressor().partial_fit(X, y)
    main = model._learner.main
    main.relevance = Relevance((), main.relevance.columns, part)
    with pytest.raises(ValueError, match="relevance must"):
        files.loads(files.dumps(model))


# -- codes, more features, merging -----------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_count_by_it(rng, dtype):
    X, Y = with_codes(rng, 900)
    learner = bank(11, TEXT, dtype=dtype)
    learn(learner, X.astype(dtype), Y)
    width = learner.relevance.width
    assert len(set(width[1:5])) == 1
    assert width[0] > 2 * width[-1]
    np.testing.assert_allclose(learner.frame.apart, np.array(TEXT) * width[:5])
    one_hot = explicit(X[:, :5], learner.frame.apart)
    z = np.hstack([one_hot, learner.frame.z(learner.frame.store(X))[:, 5:]])
    n = learner.size
    stored, a = z[-n:], learner.terms.coefs(0, n) * learner.units()
    for m, member in enumerate(learner.members):
        far = np.abs(z[:20, None] - stored).sum(axis=2)
        expected = np.exp(-member.kernel.gamma * far) @ a[:, m]
        tolerance = 2e-5 if dtype == np.float32 else 1e-9
        found = learner.unit_scores(X[:20].astype(dtype))[:, m]
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def explicit(codes, apart):
    """Codes as one-hot features, so far apart under the sum of absolute differences."""
    return np.hstack(
        [(codes[:, j : j + 1] == np.unique(codes[:, j])) * u / 2 for j, u in enumerate(apart)]
    )


def test_more_features_begin_as_the_mean(rng):
    X, y = stream(rng, 600)
    narrow = bank()
    learn(narrow, X, y[:, None])
    wide = with_features(narrow, np.array([0.0, 5.0]), bank(8))
    expected = np.append(narrow.relevance.width, [1.0, 1.0])
    np.testing.assert_allclose(wide.relevance.width, expected, atol=0.15)
    assert wide.relevance.width.mean() == pytest.approx(1.0)
    spread = [m.widths / (m.frame.width * m.frame.unit) for m in (narrow, wide)]
    np.testing.assert_allclose(spread[1], np.append(spread[0], [1.0, 1.0]))
    found = wide.unit_scores(np.hstack([X, np.tile([0.0, 5.0], (600, 1))]))
    assert np.corrcoef(found[:, 0], narrow.unit_scores(X)[:, 0])[0, 1] > 0.99
    learn(wide, np.hstack([X, rng.normal(size=(600, 2))]), y[:, None])


def test_merged_it_is_the_mean_by_rows(rng):
    X, y = stream(rng, 1500)
    models = [Regressor().partial_fit(X[at], y[at]) for at in (slice(1000), slice(1000, None))]
    parts = [m._learner.main.relevance.part for m in models]
    whole = merge(models)
    found = whole._learner.main
    np.testing.assert_allclose(found.relevance.part, (2 * parts[0] + parts[1]) / 3)
    spread = found.widths / (found.frame.width * found.frame.unit)
    np.testing.assert_allclose(spread, found.moments.spread())
    assert np.abs(whole.predict(X) - y).mean() < 0.2
    again = files.loads(files.dumps(whole))
    for m in (whole, again):
        m.partial_fit(X, y)
    assert files.dumps(whole) == files.dumps(again)


def test_the_mean_of_equals_is_what_they_are():
    one = Relevance.begun(7, TEXT)
    assert mean_of([one, Relevance.begun(7, TEXT)], [3, 4]) is one


def test_too_many_columns_count_alike(rng):
    assert Relevance.begun(WIDEST + 1, ()) is None and Relevance.begun(0, ()) is None
    assert Relevance.begun(WIDEST, ()) is not None
    narrow = bank(WIDEST)
    learn(narrow, rng.normal(size=(300, WIDEST)), rng.normal(size=(300, 1)))
    assert np.ptp(narrow.relevance.width) > 0
    wide = with_features(narrow, np.zeros(1), bank(WIDEST + 1))
    assert wide.relevance is None
    numbers = (wide.moments.spread() * wide.frame.width * wide.frame.unit)[:WIDEST]
    assert np.ptp(numbers) < 0.5  # only moments that were not taken over yet


@ONCE
def test_the_compiled_core_and_numpy_agree(rng, monkeypatch):
    X, Y = with_codes(rng, 500)
    found = bank(11, TEXT)
    learn(found, X, Y)
    monkeypatch.setattr(core, "has_lane", lambda: False)
    plain = bank(11, TEXT)
    learn(plain, X, Y)
    np.testing.assert_allclose(plain.relevance.part, found.relevance.part, rtol=1e-6)
