"""Bad input gets a clear error, and a model that refuses is bit for bit the model it was."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from onkel import (
    KernelClassifier,
    KernelRegressor,
    NoveltyDetector,
    expansions,
    kernels,
    losses,
    rules,
    schedules,
)

MODELS = [KernelClassifier, KernelRegressor, NoveltyDetector]


def fitted(kind, rng, **params):
    model = kind(**params)
    X = rng.normal(size=(60, 3))
    return model.partial_fit(X, (X[:, 0] > 0).astype(int))


def refuse(model, match, *args, method="partial_fit", **kwargs):
    """The call raises ValueError, and the model's pickle does not change by a bit."""
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=match):
        getattr(model, method)(*args, **kwargs)
    assert pickle.dumps(model) == before


@pytest.fixture(params=MODELS, ids=lambda kind: kind.__name__)
def model(request, rng):
    return fitted(request.param, rng)


GOOD = np.zeros((2, 3))
LABELS = np.array([0, 1])


@pytest.mark.parametrize("method", ["partial_fit", "predict_then_learn", "fit"])
@pytest.mark.parametrize(
    ("X", "match"),
    [
        ([[0, 0, 0], [np.nan, 0, 0]], "NaN.*row 1, column 0"),
        ([[0, np.inf, 0], [0, 0, 0]], "infinity"),
        ([[0, 0, -np.inf], [0, 0, 0]], "infinity"),
        ([[1j, 0, 0], [0, 0, 0]], "Complex"),
        ([0.0, 0.0], "Expected 2D array"),
        (np.zeros((2, 3, 1)), "Expected 2D array"),
        (np.zeros((2, 0)), "0 feature"),
        (np.array([["2020-01-01"] * 3] * 2, dtype="M8[D]"), "dates"),
    ],
)
def test_rows(model, X, match, method):
    refuse(model, match, X, LABELS, method=method)


def test_texts_where_numbers_were_learned(model):
    texts = [["a", "b", "c"], ["d", "e", "f"]]
    for method in ("partial_fit", "predict_then_learn"):
        refuse(model, "must hold numbers", texts, LABELS, method=method)


def test_rows_that_are_no_rows(model):
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match="has learned rows of numbers alone; got dicts"):
        model.learn_one({"heat": 1.0, "load": 2.0, "flow": 3.0}, 1)
    assert pickle.dumps(model) == before


def test_width(model):
    refuse(model, "X has 2 features, but .* is expecting 3", np.zeros((2, 2)), LABELS)
    refuse(model, "X has 4 features", np.zeros((2, 4)), method="predict")


@pytest.mark.parametrize("kind", [KernelClassifier, KernelRegressor])
def test_targets(kind, rng):
    model = fitted(kind, rng)
    refuse(model, "inconsistent numbers", GOOD, [0, 1, 1])
    refuse(model, "inconsistent numbers", GOOD, [0], method="fit")
    refuse(model, "NaN", GOOD, [0.0, np.nan])
    refuse(model, "NaN", GOOD, [0.0, np.inf])
    refuse(model, "y is None", GOOD, None)


def test_targets_by_task(rng):
    clf, reg = fitted(KernelClassifier, rng), fitted(KernelRegressor, rng)
    refuse(clf, "Unknown label type: continuous", GOOD, [0.5, 1.0])
    refuse(clf, "Row 1: Input y contains NaN or None", GOOD, np.array(["a", None], dtype=object))
    refuse(clf, "1d array", GOOD, np.zeros((2, 2)))
    refuse(clf, "not the same as on last call", GOOD, LABELS, classes=["x", "y"])
    refuse(reg, "y must hold numbers", GOOD, ["a", "b"])
    refuse(reg, "targets per row", GOOD, np.zeros((2, 2)))
    refuse(reg, "within 1e150", GOOD, [0.0, 1e200])
    new = KernelClassifier()
    with pytest.raises(ValueError, match="not in classes"):
        new.partial_fit(GOOD, [5, 6], classes=[0, 1])
    assert not hasattr(new, "_learner")


def test_weights(model):
    for bad in ([1.0], [1.0, -1.0], [1.0, np.nan], [[1.0, 1.0]]):
        refuse(model, "sample_weight", GOOD, LABELS, sample_weight=bad)
    refuse(model, "zero for every row", GOOD, LABELS, method="fit", sample_weight=[0.0, 0.0])
    with pytest.raises(TypeError, match="unexpected"):
        model.fit(GOOD, LABELS, weights=[1, 1])


def test_an_empty_block_changes_nothing(model):
    before = pickle.dumps(model)
    empty = np.zeros((0, 3))
    model.partial_fit(empty, np.zeros(0, int))
    assert len(model.predict_then_learn(empty, np.zeros(0, int))) == 0
    assert len(model.predict(empty)) == 0
    assert pickle.dumps(model) == before
    refuse(model, r"0 sample\(s\)", empty, np.zeros(0, int), method="fit")


@pytest.mark.parametrize("kind", MODELS)
def test_one_row(kind):
    model = kind().fit([[1.0, 2.0]], [1])
    assert model.t_ == 1
    assert len(model.predict([[1.0, 2.0], [3.0, 4.0]])) == 2


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: rules.Norma(memory=0.5), "memory must be a number in .*got 0.5.*above 1"),
        (lambda: rules.Norma(memory=10, regularization=0.1), "Give one"),
        (lambda: rules.Norma(learning_rate=-1), "learning_rate must be"),
        (lambda: rules.Norma(learning_rate=True), "learning_rate must be"),
        (lambda: rules.Norma(regularization=-0.1), "regularization must be"),
        (lambda: rules.Norma(track_norm="yes"), "track_norm must be True or False"),
        (lambda: losses.SoftMargin(nu=0.0), r"nu must be a number in \(0, 1\)"),
        (lambda: losses.SoftMargin(nu=1.0), r"nu must be a number in \(0, 1\)"),
        (lambda: losses.Novelty(nu=1.5), "promised alert rate"),
        (lambda: losses.Novelty(nu=None), "nu must be"),
        (lambda: losses.Huber(sigma=0.0), "sigma must be"),
        (lambda: losses.EpsilonInsensitive(epsilon=-1), "epsilon must be"),
        (lambda: expansions.Window(terms=0), "terms must be a whole number in \\[1"),
        (lambda: expansions.Window(age=0), "age must be a whole number"),
        (lambda: expansions.Window(age=2.5), "age must be a whole number"),
        (lambda: expansions.Window(age=5, growth=0.1), "give one of them"),
        (lambda: expansions.Window(growth=0.5), "growth must be"),
        (lambda: expansions.Window(tolerance=0.0), "tolerance must be"),
        (lambda: kernels.Gaussian(gamma=0.0), "gamma must be .* or 'auto'"),
        (lambda: kernels.Gaussian(gamma="best"), "gamma must be"),
        (lambda: kernels.Matern(nu=1.0), "1.5 or 2.5"),
        (lambda: kernels.Polynomial(degree=0), "degree must be"),
        (lambda: kernels.Polynomial(offset=-1.0), "offset must be"),
        (lambda: -1.0 * kernels.Linear(), "scaled by a number"),
        (lambda: kernels.Linear() + kernels.Spectrum(3), "cannot be combined"),
        (lambda: kernels.Spectrum(length=0), "length must be"),
        (lambda: schedules.Constant(0.0), "rate must be"),
        (lambda: schedules.Horizon(1.0, 1.0, 0), "trials must be"),
        (lambda: kernels.get("rbf"), "kernel must be one of"),
        (lambda: losses.get("hinge"), "loss must be one of"),
        (lambda: rules.get("sgd"), "rule must be one of"),
        (lambda: expansions.get("forest"), "expansion must be one of"),
    ],
)
def test_parameters_of_parts(make, match):
    with pytest.raises(ValueError, match=match):
        make()


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (
            lambda: KernelClassifier(rule=rules.Norma(learning_rate=2.0, regularization=0.6)),
            "at most 1",
        ),
        (lambda: KernelClassifier(loss="huber"), "is for regression, not for classification"),
        (lambda: KernelRegressor(loss="novelty"), "is for novelty"),
        (lambda: NoveltyDetector(nu=0.0), "nu must be"),
        (lambda: NoveltyDetector(nu=0.1, support=1.0), "support must be"),
        (lambda: NoveltyDetector(fit_intercept=True), "novelty detection has no offset"),
        (lambda: NoveltyDetector(fit_intercept=np.True_), "novelty detection has no offset"),
        (lambda: KernelClassifier(fit_intercept="yes"), "fit_intercept must be"),
        (lambda: KernelClassifier(passes=0), "passes must be"),
        (lambda: KernelClassifier(n_jobs="two"), "n_jobs must be"),
        (lambda: KernelClassifier(scale="minmax"), "scale must be True or False"),
        (lambda: KernelClassifier(average=1.5), "average must be True or False"),
        (lambda: KernelClassifier(class_weight="even"), "class_weight must be"),
        (lambda: KernelClassifier(kernel=3), "kernel must be one of"),
        (
            lambda: KernelClassifier(rule=rules.Norma(learning_rate=lambda t: 0.0 * t)),
            "positive and finite; trial 1",
        ),
        (
            lambda: KernelClassifier(rule=rules.Norma(learning_rate=lambda t: 0.1)),
            "must map an array",
        ),
        (
            lambda: KernelClassifier(
                rule=rules.Norma(learning_rate=schedules.Regularized(0.1), memory=5)
            ),
            "leave memory",
        ),
        (lambda: KernelClassifier(kernel=lambda X, Z: np.ones(3)), "must return a matrix of shape"),
        (
            lambda: KernelClassifier(kernel=lambda X, Z: np.full((len(X), len(Z)), np.nan)),
            "returned NaN",
        ),
    ],
)  # fmt: skip
def test_parameters_at_fit(make, match):
    model = make()
    with pytest.raises(ValueError, match=match):
        model.fit([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    assert not hasattr(model, "_learner")


def test_a_rate_that_breaks_late_is_refused_whole(rng):
    """The schedule leaves its range in a later block: nothing of the call stays."""
    late = rules.Norma(learning_rate=lambda t: np.where(t > 700, -1.0, 0.1))
    X, y = rng.normal(size=(1000, 2)), rng.integers(0, 2, 1000)
    model = KernelClassifier(rule=late).partial_fit(X[:100], y[:100])
    before = model.decision_function(X).tobytes()
    with pytest.raises(ValueError, match="trial 701"):
        model.partial_fit(X, y)
    assert model.t_ == 100
    assert model.decision_function(X).tobytes() == before


def test_divergence_is_refused_whole(rng):
    """Squared loss with a rate beyond 2/k(x,x) explodes; the model before the call survives."""
    X, y = rng.normal(size=(4000, 1)), rng.normal(size=4000)
    reg = KernelRegressor(
        kernel="linear", loss="squared", scale=False, rule=rules.Norma(learning_rate=40.0)
    ).partial_fit(X[:1], y[:1])
    before = reg.predict(X[:5]).tobytes()
    with pytest.raises(ValueError, match="leaves the floating range"):
        reg.partial_fit(X, y)
    assert reg.t_ == 1
    assert reg.predict(X[:5]).tobytes() == before


def test_strings(rng):
    clf = KernelClassifier(kernel=kernels.Spectrum(2)).partial_fit(["ab", "cd"], [0, 1])
    refuse(clf, "row 1 is float", ["ab", 1.5], [0, 1])
    refuse(clf, "got one string", "ab", [0, 1])
    refuse(clf, "inconsistent numbers", ["ab"], [0, 1])
    number_model = fitted(KernelClassifier, rng)
    refuse(number_model, "Expected 2D|must hold numbers", ["ab", "cd"], [0, 1])


@pytest.mark.parametrize("kind", MODELS)
def test_asking_before_learning(kind):
    with pytest.raises((ValueError, AttributeError), match="not fitted yet"):
        kind().predict([[0.0]])
    assert not hasattr(kind(), "n_features_in_")


@pytest.mark.parametrize("kind", MODELS)
def test_kinds_of_arrays(kind, rng):
    """float16, integers, lists, read-only, Fortran and strided arrays all mean their numbers."""
    X = np.round(rng.normal(size=(50, 3)) * 4) / 4
    y = (X[:, 0] > 0).astype(int)
    want = kind().fit(X, y).predict(X).tolist()
    frozen = X.copy()
    frozen.setflags(write=False)
    wide = np.zeros((50, 6))
    wide[:, ::2] = X
    for same in (X.astype(np.float16), X.tolist(), frozen, np.asfortranarray(X), wide[:, ::2]):
        model = kind().fit(same, y)
        assert model.predict(same).tolist() == want
        assert model._learner.dtype == np.float64
    assert kind().fit((X * 4).astype(np.int8), y)._learner.dtype == np.float64
    small = kind().fit(X.astype(np.float32), y)
    assert small._learner.dtype == np.float32
    small.partial_fit(X, y)  # later input is cast
    assert small._learner.dtype == np.float32


def test_float32_model_refuses_what_float32_cannot_hold(rng):
    model = NoveltyDetector().partial_fit(rng.normal(size=(20, 2)).astype(np.float32))
    refuse(model, "too large for float32", np.array([[1e200, 0.0]]))


def test_probabilities_whatever_the_loss(rng):
    for loss in ("soft_margin", "logistic", "least_squares"):
        p = fitted(KernelClassifier, rng, loss=loss).predict_proba(GOOD)
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
    model = fitted(KernelClassifier, rng)
    assert model.predict_then_learn(GOOD, LABELS, output="probability").shape == (len(GOOD), 2)
    refuse(model, "output must be one of", GOOD, LABELS, method="predict_then_learn", output="x")
    reg = fitted(KernelRegressor, rng)
    refuse(reg, "Intervals need a loss", GOOD, method="predict_interval")


def test_data_frame_names(rng):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(rng.normal(size=(30, 2)), columns=["heat", "load"])
    det = NoveltyDetector().partial_fit(frame)
    assert list(det.feature_names_in_) == ["heat", "load"]
    refuse(det, "feature names should match", frame.rename(columns={"heat": "cold"}))
    refuse(det, "feature names should match", frame[["load", "heat"]], method="predict")


@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_whole_numbers_beyond_any_float(value):
    for make in (kernels.Gaussian, schedules.Constant, losses.Huber):
        with pytest.raises(ValueError, match="must be"):
            make(value)
    with pytest.raises(ValueError, match="passes must be a whole number"):
        KernelRegressor(passes=value).fit([[0.0]], [0.0])


def test_complex_targets_are_refused_and_a_frames_missing_values_are_taken(rng):
    pd = pytest.importorskip("pandas")
    model = KernelRegressor().partial_fit(rng.normal(size=(9, 1)), np.arange(9.0))
    with pytest.raises(ValueError, match="y must hold numbers"):
        model.learn_one([0.5], 1j)
    frame = pd.DataFrame({"a": pd.array([1.0, None, 3.0], dtype="Float64"), "b": [1.0, 2.0, 3.0]})
    patient = KernelRegressor(missing="mean").partial_fit(frame, [1.0, 2.0, 3.0])
    assert patient.t_ == 3
