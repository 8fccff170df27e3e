"""At home with scikit-learn: its own checks, and the tools its users combine things with."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from helpers.sizes import size, some

sklearn = pytest.importorskip("sklearn")

from scipy.sparse import csr_array, csr_matrix  # noqa: E402
from sklearn.base import clone, is_classifier, is_outlier_detector, is_regressor  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils import estimator_checks as checks  # noqa: E402

from onkel import (  # noqa: E402
    Classifier,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    NoveltyDetector,
    Regressor,
    expansions,
    kernels,
    rules,
)

ADDITIVE = kernels.Additive(kernels.Exponential(), weights="mean")
ESTIMATORS = [
    KernelClassifier(),
    KernelClassifier(loss="logistic"),
    KernelRegressor(),
    LinearClassifier(),
    LinearRegressor(),
    *(KernelClassifier(rule=name) for name in rules.REGISTRY if name != "norma"),
    KernelRegressor(rule="projection", loss="epsilon_insensitive"),
    LinearClassifier(p=3.0),
    LinearClassifier(rule="rls"),
    LinearRegressor(rule="rls"),
    KernelRegressor(rule="rls", expansion=expansions.Centers(20, linear=True)),
    KernelClassifier(expansion=expansions.Centers(4)),
    KernelRegressor(expansion=expansions.Centers(4)),
    KernelClassifier(kernel=ADDITIVE, expansion="tree"),
    KernelRegressor(kernel=ADDITIVE, expansion="tree"),
    Classifier(),
    Regressor(),
    Classifier(memory=200, missing="mean"),
    Regressor(nu=0.2, memory=200, missing="mean"),
    Classifier(members=[KernelClassifier(loss="logistic"), LinearClassifier(loss="logistic")]),
    NoveltyDetector(),
    NoveltyDetector(kernel=ADDITIVE, expansion="tree"),
]
ONE_PASS = (
    "wants the promised rate on the very rows learned, after one pass over a few hundred of them: "
    "the promise is about each row before it is learned"
)
EXPECTED = {
    NoveltyDetector: {
        "check_outliers_fit_predict": ONE_PASS,
        "check_outliers_train": ONE_PASS,
    }
}
FEW_CENTRES = "wants a good fit, for which four centres are too few; more are too many for its data"


BOTH = (
    "wants a class of great weight to win everywhere: least squares with a small ridge over "
    "hundreds of centres fits the light one too where it stands alone"
)


def expected(estimator):
    if isinstance(estimator, KernelClassifier) and estimator.rule == "rls":
        return {"check_class_weight_classifiers": BOTH}
    if isinstance(getattr(estimator, "expansion", None), expansions.Centers):
        return {"check_classifiers_train": FEW_CENTRES, "check_regressors_train": FEW_CENTRES}
    return EXPECTED.get(type(estimator), {})


@pytest.mark.filterwarnings("ignore:Estimator .* does not inherit:UserWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.EstimatorCheckFailedWarning")
@pytest.mark.parametrize(
    "estimator",
    some(ESTIMATORS, times=1, levels=lambda e: [e.__sklearn_tags__().estimator_type]),
    ids=repr,
)
def test_check_estimator(estimator):
    results = checks.check_estimator(
        estimator, expected_failed_checks=expected(estimator), on_fail=None
    )
    failed = {r["check_name"]: r["exception"] for r in results if r["status"] == "failed"}
    assert not failed
    assert sum(r["status"] == "passed" for r in results) > 40


@pytest.mark.parametrize("estimator", ESTIMATORS[:-2], ids=repr)
@pytest.mark.parametrize(
    "check",
    [
        checks.check_sample_weights_pandas_series,
        checks.check_sample_weights_not_an_array,
        checks.check_sample_weights_list,
        checks.check_sample_weights_shape,
        checks.check_sample_weights_not_overwritten,
    ],
)
def test_weight_checks(estimator, check):
    """fit takes sample_weight though it does not name it (a weight is a step, not a repetition)."""
    check(type(estimator).__name__, estimator)


def test_kinds():
    assert is_classifier(KernelClassifier())
    assert is_regressor(KernelRegressor())
    assert is_outlier_detector(NoveltyDetector())
    assert is_classifier(Classifier())
    assert is_regressor(Regressor())


@pytest.fixture
def data(rng):
    X = rng.normal(size=(300, 4))
    return X, np.where(X[:, 0] + X[:, 1] > 0, "in", "out")


def test_pipeline_grid_search_and_nested_parameters(data):
    X, y = data
    pipe = make_pipeline(StandardScaler(), KernelClassifier(scale=False))
    grid = GridSearchCV(
        pipe, {"kernelclassifier__rule__memory": [1000, 100_000],
               "kernelclassifier__kernel__gamma": [0.1, 1.0]}, cv=3,
    ).fit(X, y)  # fmt: skip
    assert grid.best_score_ > 0.7
    assert grid.best_estimator_[-1].rule.memory in (1000, 100_000)
    assert np.all(cross_val_score(KernelClassifier(), X, y, cv=3) > 0.6)
    assert (
        GridSearchCV(KernelClassifier(), {"rule__memory": [50, 5000]}, cv=2).fit(X, y).best_score_
    )


def test_clone_and_set_params():
    clf = KernelClassifier(
        kernel=kernels.Gaussian(0.5) + kernels.Linear(), rule=rules.Norma(memory=9)
    )
    copy = clone(clf)
    assert copy.kernel == clf.kernel
    assert copy.rule == clf.rule
    copy.set_params(rule__memory=7, kernel__left__gamma=2.0, loss__margin=0.5)
    assert copy.rule.memory == 7
    assert copy.kernel.left.gamma == 2.0
    assert copy.loss.margin == 0.5
    assert clf.rule.memory == 9  # parts never change, they are replaced
    with pytest.raises(ValueError, match="Invalid parameter 'speed'"):
        copy.set_params(speed=3)
    det = NoveltyDetector().set_params(rule__memory=500)
    assert det.rule == rules.Norma(memory=500)  # the paper's, with another memory


def learner_of(model):
    return model._learner


def bits(model):
    """Everything that a learner holds, as bytes."""
    if isinstance(model, (Classifier, Regressor)):
        held = [value for part, _ in learner_of(model).parts for value in vars(part).values()]
        return [value.tobytes() for value in held if isinstance(value, np.ndarray)]
    learner = model._learner
    parts = {**vars(learner), **vars(learner.moments), **vars(learner.frame)}
    parts |= vars(getattr(learner, "terms", learner.moments))
    return {k: v.tobytes() for k, v in parts.items() if isinstance(v, np.ndarray)}


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_pickle_goes_on_with_the_same_bits(estimator, data):
    X, y = data
    y = (y == "in").astype(int)
    model = clone(estimator).partial_fit(X[:150], y[:150])
    twin = pickle.loads(pickle.dumps(model))
    a, b = model.predict_then_learn(X[150:], y[150:]), twin.predict_then_learn(X[150:], y[150:])
    assert np.array_equal(a, b)
    assert bits(model) == bits(twin)


@pytest.mark.parametrize("estimator", ESTIMATORS[:: size(3, 1)], ids=repr)
def test_frames_and_sparse_rows_mean_the_same(estimator, data):
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, y = data
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    y = (y == "in").astype(int)
    names = ["a", "b", "c", "d"]
    want = clone(estimator).fit(X, y)
    same = {
        "pandas": (pd.DataFrame(X, columns=names), pd.Series(y)),
        "polars": (pl.DataFrame(X, schema=names), pl.Series(y)),
        "csr_matrix": (csr_matrix(X), y),
        "csr_array": (csr_array(X), y.tolist()),
    }
    for kind, (rows, labels) in same.items():
        model = clone(estimator).fit(rows, labels)
        assert np.array_equal(model.predict(rows), want.predict(X)), kind
        if kind in ("pandas", "polars"):
            assert list(model.feature_names_in_) == names
    single = clone(estimator).fit(pd.DataFrame(X.astype(np.float32)), y)
    assert learner_of(single).dtype == np.float32


def test_detector_reads_like_an_outlier_detector(rng):
    X = rng.normal(size=(500, 2))
    det = NoveltyDetector(nu=0.1)
    labels = det.fit_predict(X)
    np.testing.assert_allclose(det.decision_function(X), det.score_samples(X) - det.offset_)
    assert np.array_equal(labels, np.where(det.decision_function(X) < 0, -1, 1))
