"""A call is learned whole or refused whole, wherever in it the trouble lies."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from helpers.sizes import size

from onkel import (
    Classifier,
    KernelClassifier,
    KernelRegressor,
    NoveltyDetector,
    Regressor,
    expansions,
    files,
    kernels,
    losses,
    rules,
)
from onkel.learner import Odds, Settings, start_parts


class Trouble(Exception):
    """What a user's own code may raise."""


def gaussian(X, Z):
    return np.exp(-((X[:, None] - Z[None]) ** 2).sum(-1))


class Fragile:
    """A kernel that works until told otherwise."""

    def __init__(self, error=Trouble):
        self.left, self.error = np.inf, error

    def __call__(self, X, Z):
        self.left -= 1
        if self.left < 0:
            raise self.error
        return gaussian(X, Z)


def learner_bits(model):
    """Everything that a learner holds, but the user's kernel."""
    learner, terms = model._learner, model._learner.terms
    parts = {**vars(learner), **vars(terms), **vars(learner.moments), **vars(learner.targets)}
    parts |= {**vars(terms.frame), **vars(learner.targets.moments)}
    return {
        k: v.tobytes() if isinstance(v, np.ndarray) else v
        for k, v in parts.items()
        if isinstance(v, (np.ndarray, int, float)) and k != "weights"  # made from the others
    }


@pytest.mark.parametrize("rows", [2, 10, 200, 600])
def test_a_schedule_that_breaks_behind_a_refresh(rng, rows):
    """Refreshes cut a call into blocks, however short it is."""
    X, y = rng.normal(size=(700, 3)), rng.normal(size=700)
    rate = rules.Norma(learning_rate=lambda t: np.where(t == 63 + rows, -1.0, 0.1))
    model = KernelRegressor(rule=rate).partial_fit(X[:63], y[:63])
    before = learner_bits(model)
    with pytest.raises(ValueError, match=f"trial {63 + rows}"):
        model.partial_fit(X[63 : 63 + rows], y[63 : 63 + rows])
    assert learner_bits(model) == before


@pytest.mark.parametrize("kind", [KernelClassifier, KernelRegressor, NoveltyDetector])
@pytest.mark.parametrize("weights", [False, True])
def test_a_row_whose_kernel_overflows(rng, kind, weights):
    X, y = rng.normal(size=(80, 2)), rng.integers(0, 2, 80)
    model = kind(kernel=kernels.Polynomial(5, gamma=1.0), scale=False).partial_fit(X[:60], y[:60])
    X[71] = 1e100
    before = pickle.dumps(model)
    w = np.where(np.arange(20) % 5 == 1, 0.0, 1.0) if weights else None
    with pytest.raises(ValueError, match=r"Row 11: .* is not finite.*scale=True"):
        model.partial_fit(X[60:], y[60:], sample_weight=w)
    assert pickle.dumps(model) == before


def test_row_numbers_count_from_the_call(rng):
    """New classes cut a call into pieces; the message still names the user's row."""
    X, y = rng.normal(size=(10, 2)), [0, 1, 0, 2, 1, 0, 1, 0, 1, 0]
    X[5] = 1e100
    model = KernelClassifier(kernel=kernels.Polynomial(5, gamma=1.0), scale=False)
    with pytest.raises(ValueError, match="Row 5:"):
        model.partial_fit(X, y)


@pytest.mark.parametrize("track_norm", [False, True])
@pytest.mark.parametrize("error_after", range(9))
def test_a_kernel_that_raises_at_any_of_its_calls(rng, track_norm, error_after):
    X, y = rng.normal(size=(400, 2)), rng.normal(size=400)
    kernel = Fragile()
    rule = rules.Norma(track_norm=track_norm)
    model = KernelRegressor(kernel=kernel, rule=rule).partial_fit(X[:31], y[:31])
    before = learner_bits(model)
    kernel.left = error_after
    for rows in (slice(31, 32), slice(31, 400)):
        try:
            model.partial_fit(X[rows], y[rows])
        except Trouble:
            assert learner_bits(model) == before
        else:
            return


@pytest.mark.parametrize("rows", [1, 5, 300])
def test_a_loss_that_raises(rng, rows):
    class Picky(losses.Squared):
        code = None
        asked = 0

        def judge(self, z, y, threshold):
            if y > 1e6:
                raise Trouble
            return super().judge(z, y, threshold)

    X, y = rng.normal(size=(400, 2)), rng.normal(size=400)
    model = KernelRegressor(loss=Picky(), scale=False).partial_fit(X[:60], y[:60])
    before = learner_bits(model)
    y[60 + rows - 1] = 1e7
    with pytest.raises(Trouble):
        model.partial_fit(X[60 : 60 + rows], y[60 : 60 + rows])
    assert learner_bits(model) == before


def test_scores_that_leave_the_range_are_refused_not_called_normal(rng):
    X = rng.normal(size=(50, 3)).astype(np.float32)
    det = NoveltyDetector(kernel="linear", scale=False).partial_fit(X)
    with pytest.raises(ValueError, match="Row 0: the score is not finite"):
        det.predict(np.array([[3e38, 3e38, -3e38]], np.float32))


def test_windows_beyond_any_stream(rng):
    from onkel import schedules

    X, y = rng.normal(size=(50, 2)), rng.integers(0, 2, 50)
    for window in (
        expansions.Window(terms=10**19),
        expansions.Window(age=10**19),
        expansions.Window(tolerance=1e-3),
        expansions.Window(growth=0.1),
    ):
        rate = schedules.InverseSqrt(0.4) if window.growth else 0.4
        memory = 1e18 if window.tolerance else None
        rule = rules.Norma(learning_rate=rate, memory=memory)
        clf = KernelClassifier(rule=rule, expansion=window).partial_fit(X, y)
        assert clf.t_ == 50


def test_a_refused_call_whose_first_block_moved_the_centre(rng):
    """The block's terms were new objects over the same arrays: the undo log must see both."""
    X = rng.normal(size=(128, 3)) + 100
    X[:65] -= 100
    later = rng.normal(size=(2000, 3)) + 100
    y, target = X[:, 0] - X[:, 1], later[:, 0] - later[:, 1]
    target[1500] = 9e149
    model = KernelRegressor(
        scale=False, loss="squared", rule=rules.Norma(learning_rate=1.5),
        expansion=expansions.Window(terms=100),
    ).partial_fit(X, y)  # fmt: skip
    before = model.predict(X).tobytes()
    with pytest.raises(ValueError, match="Row 1500"):
        model.partial_fit(later, target)
    assert model.predict(X).tobytes() == before
    assert model.t_ == 128


class Minimum(kernels.Split):
    """min(p, q), which can be told to fail."""

    rank = 1
    left = np.inf

    def _count(self):
        Minimum.left -= 1
        if Minimum.left < 0:
            raise Trouble

    def lower(self, p, anchor):
        self._count()
        return p[None]

    def upper(self, q, anchor):
        self._count()
        return np.ones((1, len(q)))


class Brownian(kernels.Kernel):
    """A kernel that is nothing but its split."""

    def split(self):
        return Minimum()


@pytest.mark.parametrize("scale", [False, True])
def test_a_split_that_raises_changes_nothing(rng, scale):
    Minimum.left = np.inf
    X = np.abs(rng.normal(size=(90, 2)))
    y = np.sin(X[:, 0])
    model = KernelRegressor(
        kernel=kernels.Additive(Brownian()), expansion=expansions.Tree(terms=20), scale=scale,
        rule=rules.Norma(learning_rate=0.01),
    ).partial_fit(X[:60], y[:60])  # fmt: skip
    before, t = model.predict(X).tobytes(), model.t_
    failed = 0
    for calls in range(0, 60, 3):
        Minimum.left = calls
        try:
            model.partial_fit(X[60:70], y[60:70])
        except Trouble:
            failed += 1
            Minimum.left = np.inf
            assert (model.predict(X).tobytes(), model.t_) == (before, t)
        else:
            break
    Minimum.left = np.inf
    assert failed > 3


@pytest.mark.parametrize("rows", [3, 30])
def test_single_rows_after_a_refused_call_go_into_the_model(rng, rows):
    """A refused call puts other arrays in; what was bound for single rows held the old ones."""
    X = rng.normal(size=(300, 3))
    y = X[:, 0]
    cubic = kernels.Polynomial(degree=3, gamma=1.0, offset=1.0)
    parts = {"kernel": cubic, "scale": False, "rule": rules.Norma(learning_rate=1e-3)}
    model, twin = KernelRegressor(**parts), KernelRegressor(**parts)
    for one in (model, twin):
        one.partial_fit(X[:70], y[:70])
        one.learn_one(X[70], y[70])
    bad = X[200 : 200 + rows].copy()
    bad[-1] = 1e120
    with pytest.raises(ValueError):
        model.partial_fit(bad, y[200 : 200 + rows])
    for i in range(71, 120):
        model.learn_one(X[i], y[i])
        twin.learn_one(X[i], y[i])
    assert (model.t_, model.n_terms_) == (twin.t_, twin.n_terms_)
    assert model.predict(X).tobytes() == twin.predict(X).tobytes()
    assert model.predict_one(X[5]) == pytest.approx(model.predict(X[5:6])[0])


def test_a_mixture_that_refuses_a_call_is_what_it_was(rng):
    X = rng.normal(size=(600, 3))
    rule = rules.Norma(learning_rate=0.1)
    members = [KernelRegressor(kernels.Polynomial(degree=q, gamma=1.0, offset=1.0), rule=rule,
                               scale=False) for q in (2, 3)]  # fmt: skip
    model = Regressor(members).partial_fit(X[:300], X[:300, 0])
    before, bad = pickle.dumps(model), X[300:].copy()
    bad[280] = 1e120
    with pytest.raises(ValueError):
        model.partial_fit(bad, X[300:, 0])
    assert pickle.dumps(model) == before


def bits(saved):
    """What a file would hold, nested, as something that can be compared."""
    if isinstance(saved, dict):
        return {name: bits(value) for name, value in saved.items()}
    return saved.tobytes() if isinstance(saved, np.ndarray) else saved


def members(kernel):
    """One setting for each way to learn, and last (so that it learns last) a user's kernel."""
    rule, loss, Window = rules.Norma(learning_rate=0.3), losses.SoftMargin(1.0), expansions.Window
    wide = kernels.Gaussian(0.5)
    kinds = [
        (kernels.Linear(), expansions.Weights()), (wide, expansions.Centers(10)),
        (kernels.Additive(), expansions.Tree(terms=30)), (wide, Window(age=40)),
        (kernels.Function(kernel), Window(terms=40)),
    ]  # fmt: skip
    found = [Settings(k, loss, rule, e) for k, e in kinds]
    return [*found[:3], replace(found[3], average=True), *found[3:]]


@pytest.mark.few
@pytest.mark.parametrize("rows", [1, 3, 90])
@pytest.mark.parametrize("calls", [0, 4])
def test_members_that_learned_before_one_failed_are_put_back(rng, rows, calls):
    """By an error or by Ctrl-C alike; and they go on as if the call had not been."""
    X, Y = rng.normal(size=(400, 3)), np.sign(rng.normal(size=(400, 1)))
    kernel = Fragile(KeyboardInterrupt if calls else Trouble)
    settings = members(kernel)
    mixture = Odds(settings, start_parts(settings, 3, 1, np.float64), 0.01)
    assert [held for _, held in mixture.parts][-1] == [5]
    mixture.learn(X[:200], Y[:200], np.ones(200))
    twin, part, kernel.left = mixture.copy(), slice(200, 200 + rows), calls
    with pytest.raises(kernel.error):
        mixture.learn(X[part], Y[part], np.ones(rows))
    kernel.left = np.inf
    assert bits(mixture.dump()) == bits(twin.dump())
    for model in (mixture, twin):
        model.learn(X[300:], Y[300:], np.ones(100))
    assert bits(mixture.dump()) == bits(twin.dump())


@pytest.mark.few
@pytest.mark.parametrize("members", [0, 1, 2])
@pytest.mark.parametrize("rows", [1, 2])
def test_a_refused_call_leaves_no_more_room_than_there_was(rng, members, rows):
    """Arrays that are full grow before rows are looked at: not those of the model itself."""
    many = size(100, 200)
    X, y = rng.normal(size=(many, 3)), rng.integers(0, 2, many)
    bank = [
        KernelClassifier(kernels.Polynomial(3), rule=rules.Norma(memory=m)) for m in (100, 1000)
    ]
    model = Classifier(bank[:members]) if members else bank[0]
    for i in range(len(X)):
        model.learn_one(X[i], y[i])
        before, bad = files.dumps(model), X[:rows].copy()
        bad[-1, 0] = 1e110
        with pytest.raises(ValueError, match="not finite"):
            model.partial_fit(bad, y[:rows])
        assert files.dumps(model) == before
