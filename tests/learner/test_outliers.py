"""One absurd row among ordinary ones: refused, or learned; what follows is as good."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from helpers.sizes import size, some

from onkel import (
    Classifier,
    Detector,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    NoveltyDetector,
    Regressor,
    core,
    expansions,
    files,
    kernels,
    losses,
)
from onkel.inputs import RefusedRow
from onkel.scaling import Moments

PLAIN = not core.has_lane()
"""Rules and losses are the same code in plain NumPy: a third of the cases, quickly."""
BEFORE, AFTER = size(150, 200, plain=150), size(200, 800, plain=200)

BOUNDED = ("gaussian", "laplacian", kernels.Additive(kernels.Laplacian()))
UNBOUNDED = ("linear", "polynomial")
MARGINS = ("soft_margin", "logistic", losses.SoftMargin(nu=0.1))
STEEP = ("least_squares", "exponential", losses.SoftMargin(power=2))
RULES = ("perceptron", "alma", "romma", "projection")
ERRORS = ("huber", "absolute", "epsilon_insensitive", losses.Huber(nu=0.1))


def cases():
    """Return estimators with their task, and whether kernel and loss are bounded."""
    for kernel in (*BOUNDED, *UNBOUNDED):
        for scale in (True, False):
            how, bounded = {"kernel": kernel, "scale": scale}, kernel in BOUNDED
            for loss in (*MARGINS, *STEEP):
                yield KernelClassifier(loss=loss, **how), bounded and loss in MARGINS
            for rule in RULES:
                yield KernelClassifier(rule=rule, **how), bounded
            for loss in (*ERRORS, "squared"):
                yield KernelRegressor(loss=loss, **how), bounded and loss in ERRORS
            yield NoveltyDetector(**how), bounded
    for scale in (True, False):
        yield LinearClassifier(scale=scale), False
        yield LinearRegressor(scale=scale), False
        yield KernelClassifier(expansion=expansions.Centers(30), scale=scale), True
        yield KernelRegressor(kernel=BOUNDED[2], expansion="tree", scale=scale), True
    yield from ((Classifier(), True), (Regressor(), True), (Detector(), True))


CASES = some(
    [{"made": made, "bounded": bounded} for made, bounded in cases()],
    times=1,
    levels=lambda case: [
        (type(case["made"]), name, repr(value)) for name, value in case["made"].get_params().items()
    ],
)
VALUES = size([1e6, 1e30], [1e6, 1e10, 1e15, 1e20, 1e30, 1e37], plain=[1e6, 1e30])
TARGETS = size([1e6, 1e150], [1e6, 1e10, 1e20, 1e75, 1e150], plain=[1e6, 1e150])
if PLAIN:
    CASES = CASES[::3]


def stream(rng, task):
    X = rng.normal(size=(BEFORE + AFTER + 200, 2))
    z = X[:, 0] + 0.5 * X[:, 1]
    y = np.where(z > 0, 1, -1) if task == "classification" else z
    return X, None if task == "novelty" else y


def learn(model, X, y, at):
    """Learn some rows in blocks; return the refusals."""
    refused = []
    for start in range(at.start, at.stop, 50):
        part = slice(start, min(start + 50, at.stop))
        try:
            model.partial_fit(X[part]) if y is None else model.partial_fit(X[part], y[part])
        except ValueError as error:
            refused.append(error)
    return refused


def error_of(model, X, y):
    """Return a share of mistakes, of alerts, or an error in spreads of the target."""
    told = model.predict(X)
    if y is None:
        return float(np.mean(told < 0))
    if model.task == "classification":
        return float(np.mean(told != y))
    return float(np.median(np.abs(told - y)))


def late_errors(model, X, y):
    """Learn what comes after; return the refusals, and the errors from time to time.

    Steps of one size leave an error that goes up and down; that of a ruined model stays up.
    """
    refused, errors, test = [], [], slice(BEFORE + AFTER, None)
    for start in range(BEFORE, BEFORE + AFTER, 50):
        refused += learn(model, X, y, slice(start, start + 50))
        errors.append(error_of(model, X[test], None if y is None else y[test]))
    return refused, errors[-10:]


def one_outlier(made, X, y, x, target):
    """Return a model after ordinary rows, one outlier and ordinary rows; whether it was refused."""
    model = type(made)(**made.get_params(deep=False))
    assert not learn(model, X, y, slice(0, BEFORE))
    known = files.dumps(model)
    try:
        model.partial_fit([x]) if y is None else model.partial_fit([x], [target])
    except RefusedRow as error:
        assert error.row == 0
        assert files.dumps(model) == known
        return model, True
    return model, False


@pytest.mark.few
@pytest.mark.parametrize("dtype", size([None], [np.float32, np.float64], plain=[None]))
@pytest.mark.parametrize(
    "case", CASES[:: size(2, 1, plain=2)], ids=lambda case: repr(case["made"])[:90]
)
def test_rows_after_an_outlier_are_learned_as_before(rng, case, dtype):
    if dtype is None:  # one of both
        dtype = [np.float32, np.float64][CASES.index(case) % 2]
    made, bounded = case["made"], case["bounded"]
    X, y = stream(rng, made.task)
    X = X.astype(dtype)
    twin = type(made)(**made.get_params(deep=False))
    learn(twin, X, y, slice(0, BEFORE))
    best = max(late_errors(twin, X, y)[1])
    if not bounded and best > 1e3:
        pytest.skip("it diverges without an outlier, too")
    outliers = [([v, 0.0], None if y is None else y[0]) for v in VALUES]
    outliers += [(X[0], v) for v in TARGETS] if made.task == "regression" else []
    for x, target in outliers:
        x = np.asarray(x, dtype)
        model, refused = one_outlier(made, X, y, x, target)
        refusals, errors = late_errors(model, X, y)
        assert not refusals, (x, target)
        found = min(errors)
        assert np.isfinite(found)
        if bounded or refused:
            assert found < best + 0.12, (x, target, found, best, refused)


@pytest.mark.few
@pytest.mark.parametrize("made", [LinearClassifier(), LinearRegressor(), KernelClassifier("linear"),
                                  KernelRegressor("polynomial"), Classifier(), Regressor()],
                         ids=repr)  # fmt: skip
@pytest.mark.parametrize("value", [-(2.0**63), 1e20, 1e100])
def test_after_an_absurd_first_row_no_other_is_refused(rng, made, value):
    """A column that has been constant has no unit yet: not one far below its own size."""
    X, y = stream(rng, made.task)
    X[0, 0] = value
    assert not learn(type(made)(**made.get_params(deep=False)), X, y, slice(0, 1))
    assert not learn(type(made)(**made.get_params(deep=False)), X, y, slice(0, BEFORE))
    model = type(made)(**made.get_params(deep=False))
    assert not [error for i in range(60) for error in learn(model, X, y, slice(i, i + 1))]


def test_a_refusal_names_its_row_in_a_block_of_many(rng):
    X, y = rng.normal(size=(3000, 2)), rng.normal(size=3000)
    y[1234] = 1e150
    for model in (KernelRegressor(loss="squared"), Regressor(), LinearRegressor(loss="squared")):
        model.partial_fit(X[:500], y[:500])
        with pytest.raises(RefusedRow, match="Row 734: the step leaves the floating") as refused:
            model.partial_fit(X[500:], y[500:])
        assert refused.value.row == 734
        again = pickle.loads(pickle.dumps(refused.value))
        assert (again.row, str(again)) == (734, str(refused.value))


@pytest.mark.parametrize("gaps", [False, True])
def test_moments_follow_values_that_stay_but_no_single_one(rng, gaps):
    x = rng.normal(3.0, 2.0, size=(1000, 1))
    steady, plain = (Moments(1, 500.0, 1e-16, gaps, steady=s) for s in (True, False))
    for moments in (steady, plain):
        moments.update(x)
    assert steady.spread() == plain.spread()  # ordinary values: the same bits
    before = float(steady.spread()[0])
    steady.update(np.array([[1e20]]))
    assert float(steady.spread()[0]) == pytest.approx(1.25**0.5 * before, rel=2e-2)
    assert abs(float(steady.mean[0]) - 3.0) < 1.0
    steady.update(np.full((3000, 1), 1e20) + rng.normal(size=(3000, 1)) * 1e19)
    assert float(steady.mean[0]) == pytest.approx(1e20, rel=0.05)
    assert float(steady.spread()[0]) == pytest.approx(1e19, rel=0.2)


def test_a_column_of_rounding_errors_takes_its_unit_at_once(rng):
    x = 0.3 + 5e-17 * rng.integers(-1, 2, size=(500, 1))
    moments = Moments(1, 1000.0, 2.2e-16, steady=True)
    moments.update(x)
    moments.update(np.array([[5.0]]))
    assert float(moments.spread()[0]) == pytest.approx(4.7 * 501**-0.5, rel=1e-2)


def test_the_exponential_loss_goes_on_as_a_straight_line():
    loss = losses.Exponential()
    far, near = (loss.judge(z, 1, 0.0) for z in (-1000.0, -30.0))
    assert far.slope == near.slope == np.exp(30.0)
    assert far.value == pytest.approx(near.value * 971.0)
