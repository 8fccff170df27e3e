"""Models of every kind through a file: labels, names, strings, large rings and trees, settings."""

from __future__ import annotations

import datetime
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from helpers.fingerprint import fingerprint
from helpers.sizes import size

import onkel
from onkel import (
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    NoveltyDetector,
    expansions,
    files,
    kernels,
    losses,
    rules,
    schedules,
)

KINDS = (KernelClassifier, KernelRegressor, LinearClassifier, LinearRegressor, NoveltyDetector)


def again(model, **own):
    """The model from its file, and the same in all its bits."""
    data = files.dumps(model)
    loaded = files.loads(data, **own)
    assert fingerprint(loaded) == fingerprint(model)
    assert files.dumps(loaded) == data
    return loaded


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_that_has_learned_nothing(kind, rng):
    model = again(kind(scale=False, passes=3))
    assert not hasattr(model, "_learner")
    X = rng.normal(size=(50, 2))
    expected = kind(scale=False, passes=3).fit(X, X[:, 0] > 0)
    assert fingerprint(model.fit(X, X[:, 0] > 0)) == fingerprint(expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_first_rows_may_all_have_weight_0(kind, dtype, rng):
    X = rng.normal(size=(5, 2)).astype(dtype)
    model = kind().partial_fit(X, np.arange(5), sample_weight=np.zeros(5))
    loaded = again(model)
    assert loaded.t_ == 0
    model.partial_fit(X, np.arange(5))
    assert fingerprint(loaded.partial_fit(X, np.arange(5))) == fingerprint(model)


@pytest.mark.parametrize(
    "labels",
    [
        [0, 1], [-1, 1], [False, True], [3.0, 7.0], ["no", "yes"], [1, 2, 3], ["a", "b", "c"],
        ["", "\ud800 lone", "\N{SNOWMAN}\0"], [2**63 - 1, -(2**63)],
        [np.int64(4), np.int64(9)], [np.float32(1.0), np.float32(2.0)], [np.str_("x"), "y"],
        [1, "one", 2.5],
    ],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("named", [False, True])
def test_labels_of_any_type(labels, named, rng):
    y = np.empty(60, object)
    y[:] = [labels[i % len(labels)] for i in rng.integers(0, 9, 60)]
    X = rng.normal(size=(60, 2))
    model = KernelClassifier(class_weight={labels[0]: 2.0})
    model.partial_fit(X[:30], y[:30], classes=labels if named else None)
    loaded = again(model)
    assert [type(v) for v in loaded.classes_.tolist()] == [type(v) for v in model.classes_.tolist()]
    assert loaded.class_count_ == model.class_count_
    for m in (model, loaded):
        m.partial_fit(X[30:], y[30:])
    assert fingerprint(loaded) == fingerprint(model)
    assert fingerprint(loaded.predict(X)) == fingerprint(model.predict(X))


@pytest.mark.parametrize("y", [[1], [0], [-1], [True], [0, 0, 7], [1, 7, 0], [5], ["x"]], ids=str)
def test_a_side_that_was_not_seen_stays_unknown(y, rng):
    X = rng.normal(size=(len(y), 2))
    model = KernelClassifier().partial_fit(X, y)
    loaded = again(model)
    for m in (model, loaded):
        m.partial_fit(X[:1], [1 if isinstance(y[0], int) else "z"])
    assert fingerprint(loaded) == fingerprint(model)


def test_a_label_that_no_file_can_hold(rng):
    X, day = rng.normal(size=(4, 2)), datetime.date(2001, 1, 1)
    y = np.array([day, day.replace(year=2002)] * 2, object)
    for labels in (y, y.astype("datetime64[D]"), [(1, 2)] * 4, np.ones(4, complex)):
        with pytest.raises(ValueError, match=r"nknown label type|1d array|Complex data"):
            KernelClassifier().partial_fit(X, labels)
    with pytest.raises(ValueError, match="Unknown label type: date"):
        KernelClassifier().partial_fit(X, [0, 1, 0, 1], classes=[0, 1, day])
    with pytest.raises(ValueError, match="Unknown label type: date"):
        KernelClassifier(class_weight={day: 2.0}).check_params()


def test_names_of_features(rng):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(rng.normal(size=(30, 2)), columns=["pressure", "flow °C"])
    loaded = again(NoveltyDetector().partial_fit(frame))
    assert loaded.feature_names_in_.tolist() == ["pressure", "flow °C"]
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame.rename(columns={"pressure": "other"}))


def test_models_fed_with_sparse_rows(rng):
    sparse = pytest.importorskip("scipy.sparse")
    X = sparse.random(200, 9, density=0.3, random_state=1, format="csr")
    y = rng.integers(0, 3, 200)
    for model in (KernelClassifier(), LinearClassifier(loss="logistic")):
        model.partial_fit(X[:100], y[:100])
        loaded = again(model)
        for m in (model, loaded):
            m.partial_fit(X[100:], y[100:])
        assert fingerprint(loaded) == fingerprint(model)


TEXTS = [
    "the cat sat", "a dog ran off", "ab", "", "aaaaaa", "null \0 in \0 it", "\ud800\udc00 odd",
    "snow ☃ man", "the dog sat", "cat and dog", "xyz" * 5, "fare\N{COMBINING ACUTE ACCENT}d",
]  # fmt: skip


@pytest.mark.few
@pytest.mark.parametrize("expansion", [{"terms": None}, {"terms": 4}, {"age": 5}], ids=str)
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("length", [1, 3])
def test_texts(expansion, average, length, rng):
    texts = [TEXTS[i] for i in rng.integers(0, len(TEXTS), 60)]
    y = [("dog", "cat", "none")[("cat" in t) + 2 * ("dog" not in t and "cat" not in t)]
         for t in texts]  # fmt: skip
    made = {"kernel": kernels.Spectrum(length), "expansion": expansions.Window(**expansion)}
    whole, cut = (
        KernelClassifier(**made, average=average),
        KernelClassifier(**made, average=average),
    )
    for i in range(0, size(32, 60), 4):
        cut = again(cut)
        shown = [m.predict_then_learn(texts[i : i + 4], y[i : i + 4]) for m in (whole, cut)]
        assert fingerprint(shown[0]) == fingerprint(shown[1])
        assert fingerprint(cut) == fingerprint(whole)
    assert cut.predict(["the dog"]) == whole.predict(["the dog"])


@pytest.mark.few
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("window", [{"terms": 300}, {"age": 200}, {"terms": None}], ids=str)
def test_rings_that_have_grown_and_turned(dtype, window, rng):
    """Where a term stands in its ring decides the order of sums, hence the last bit."""
    X = rng.normal(size=(1600, 4)).astype(dtype)
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=1600)
    rule = rules.Norma(memory=150)  # the scale is folded in several times
    made = {"expansion": expansions.Window(**window), "rule": rule, "loss": "absolute"}
    whole, cut = KernelRegressor(**made), KernelRegressor(**made)
    for i in range(0, 1600, 200):
        cut = again(cut)
        for m in (whole, cut):
            m.partial_fit(X[i : i + 150], y[i : i + 150])
            for j in range(i + 150, i + 200):
                m.learn_one(X[j], y[j])
        assert fingerprint(cut) == fingerprint(whole)
        assert fingerprint(cut.predict(X[:99])) == fingerprint(whole.predict(X[:99]))


@pytest.mark.few
@pytest.mark.parametrize("terms", [None, 700])
@pytest.mark.parametrize("split", ["compiled", "own"])
def test_trees_of_several_levels(terms, split, rng):
    kernel = kernels.Additive([kernels.Exponential(), kernels.Matern(2.5, 1.0)])
    if split == "own":
        kernel = kernels.Additive(Ramp())
    own = {"kernel": Ramp} if split == "own" else {}
    X, y = rng.uniform(size=(2400, 2)), rng.normal(size=2400)
    made = {"kernel": kernel, "expansion": expansions.Tree(terms=terms), "scale": False}
    whole, cut = KernelRegressor(**made), KernelRegressor(**made)
    for i in range(0, size(1200, 2400), 400):
        cut = again(cut, **(own if split == "own" else {}))
        for m in (whole, cut):
            m.partial_fit(X[i : i + 400], y[i : i + 400])
        assert fingerprint(cut) == fingerprint(whole)
        assert fingerprint(cut.predict(X[:99])) == fingerprint(whole.predict(X[:99]))


class RampSplit(kernels.Split):
    rank = 1

    def lower(self, p, anchor):
        return p[None] + 1.0

    def upper(self, q, anchor):
        return np.ones((1, len(q)))


class Ramp(kernels.Kernel):
    """1 + min(p, q): a kernel of the user's own that splits. No dataclass, no parameters."""

    def get_params(self, deep=True):
        return {}

    def split(self):
        return RampSplit()


@pytest.mark.parametrize("kind", KINDS)
def test_fit_with_several_passes(kind, rng):
    X = rng.normal(size=(80, 3))
    model = kind(passes=3).fit(X, (X[:, 0] > 0).astype(int))
    loaded = again(model)
    for m in (model, loaded):
        m.partial_fit(X[:9], (X[:9, 1] > 0).astype(int))
    assert fingerprint(loaded) == fingerprint(model)


@pytest.mark.few
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("memory", ["90s", datetime.timedelta(minutes=3), np.timedelta64(40, "s")])
def test_forgetting_by_the_clock(kind, memory, rng):
    X, y = rng.normal(size=(120, 2)), rng.integers(0, 2, 120)
    time = np.cumsum(rng.exponential(3.0, size=120))
    whole, cut = (kind(rule=rules.Norma(memory=memory)) for _ in range(2))
    for i in range(0, size(56, 120), 8):
        cut = again(cut)
        for m in (whole, cut):
            m.partial_fit(X[i : i + 6], y[i : i + 6], time=time[i : i + 6])
            for j in (i + 6, i + 7):
                m.learn_one(X[j], y[j], time=float(time[j]))
        assert fingerprint(cut) == fingerprint(whole)
    with pytest.raises(ValueError, match="time runs backwards"):
        cut.partial_fit(X[:1], y[:1], time=[0.0])


@pytest.mark.few
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [False, True])
def test_gaps_that_stand_for_the_mean(kind, scale, rng):
    X, y = rng.normal(size=(90, 3)), rng.integers(0, 2, 90)
    X[rng.uniform(size=X.shape) < 0.2] = np.nan
    X[:5, 2] = np.nan
    whole, cut = (kind(missing="mean", scale=scale) for _ in range(2))
    for i in range(0, 90, 5):
        cut = again(cut)
        for m in (whole, cut):
            m.partial_fit(X[i : i + 4], y[i : i + 4])
            m.learn_one(X[i + 4], y[i + 4])
        assert fingerprint(cut) == fingerprint(whole)
        assert fingerprint(cut.predict(X)) == fingerprint(whole.predict(X))


@pytest.mark.few
@pytest.mark.parametrize("recent", [7, 1000, np.int64(30)])
@pytest.mark.parametrize("learn_alerts", [True, False])
def test_detectors_that_warm_up_and_rank(recent, learn_alerts, rng):
    X = rng.normal(size=(90, 2))
    made = {"nu": 0.2, "warmup": 23, "recent": recent, "learn_alerts": learn_alerts}
    whole, cut = NoveltyDetector(**made), NoveltyDetector(**made)
    for i in range(0, 90, 5):
        cut = files.loads(files.dumps(cut))
        shown = [m.predict_then_learn(X[i : i + 4], output="rank") for m in (whole, cut)]
        assert fingerprint(shown[0]) == fingerprint(shown[1])
        for m in (whole, cut):
            m.learn_one(X[i + 4])
        assert fingerprint(cut.rank_samples(X)) == fingerprint(whole.rank_samples(X))
        assert repr(cut.diagnostics_) == repr(whole.diagnostics_)
        assert cut.explain(X[0]) == whole.explain(X[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("scale", [False, True])
def test_merged_models(kind, scale, rng):
    X, y = rng.normal(size=(200, 2)), rng.integers(0, 3, 200)
    y = np.where(y > 1, 1, y) if kind is NoveltyDetector else y
    parts = [kind(scale=scale).partial_fit(X[i : i + 60], y[i : i + 60]) for i in (0, 60)]
    model = onkel.merge(parts)
    del model.merge_report_  # it is about the merge, not about the model
    loaded = again(model)
    assert loaded._learner.merged
    for m in (model, loaded):
        m.partial_fit(X[120:], y[120:])
    assert fingerprint(loaded) == fingerprint(model)


def test_saving_while_another_thread_learns(rng):
    """Each file is the model before or after a call of the other, never in the middle of one."""
    X, y = rng.normal(size=(3000, 3)), rng.integers(0, 2, 3000)
    model = KernelClassifier(expansion=expansions.Window(terms=200)).partial_fit(X[:10], y[:10])
    stop = threading.Event()

    def learn():
        while not stop.is_set():
            model.partial_fit(X, y)

    thread = threading.Thread(target=learn)
    thread.start()
    try:
        found = [files.loads(files.dumps(model)).t_ for _ in range(40)]
    finally:
        stop.set()
        thread.join()
    assert {t % 3000 for t in found} == {10}


def test_parameters_set_after_fit_wait_for_the_next_one(rng):
    """The learner keeps what it was made of; the file keeps both."""
    X, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    model = KernelRegressor(kernel=kernels.Gaussian(0.3)).partial_fit(X[:30], y[:30])
    model.set_params(kernel="linear", rule__memory=7, n_jobs=2)
    loaded = again(model)
    assert loaded.kernel == "linear" and loaded.get_params()["rule__memory"] == 7
    assert loaded._learner.kernel == kernels.Gaussian(0.3)
    for m in (model, loaded):
        m.partial_fit(X[30:], y[30:])
    assert fingerprint(loaded) == fingerprint(model)
    assert fingerprint(loaded.fit(X, y)) == fingerprint(model.fit(X, y))


def test_threads_are_those_of_the_machine_that_reads(rng):
    model = KernelRegressor(n_jobs=-1).partial_fit(rng.normal(size=(9, 2)), np.arange(9))
    assert again(model)._learner.settings.threads == (os.cpu_count() or 1)
    model.set_params(n_jobs=10**6)
    assert again(model)._learner.settings.threads == (os.cpu_count() or 1)
    model.set_params(n_jobs="many")  # what no file could be loaded with, none is written with
    with pytest.raises(ValueError, match="n_jobs must be a whole number"):
        files.dumps(model)


def test_the_theorys_step_is_kept_as_a_number(rng):
    """It came from an eigenvalue, whose last bit belongs to the machine."""
    X, y = rng.normal(size=(90, 2)), rng.integers(0, 2, 90)
    rule = rules.Norma(learning_rate="theory", regularization=0.01)
    centers = expansions.Centers(X[:9])
    model = KernelClassifier(expansion=centers, rule=rule, scale=False).partial_fit(X[:50], y[:50])
    loaded = again(model)
    assert loaded.rule.learning_rate == "theory"
    assert isinstance(loaded._learner.settings.rule.learning_rate, schedules.Power)
    assert np.array_equal(loaded.expansion.centers, X[:9])
    for m in (model, loaded):
        m.partial_fit(X[50:], y[50:])
    assert fingerprint(loaded) == fingerprint(model)


def test_saving_changes_nothing(rng):
    X, y = rng.normal(size=(300, 2)).astype(np.float32), rng.integers(0, 2, 300)
    model = KernelClassifier().partial_fit(X[:200], y[:200])
    model.learn_one(X[200], y[200])
    one, weights = vars(model).get("_one"), model._learner.terms.weights
    before = fingerprint(model), None if weights is None else weights.tobytes()
    files.dumps(model)
    assert vars(model).get("_one") is one and model._learner.terms.weights is weights
    assert (fingerprint(model), None if weights is None else weights.tobytes()) == before


def test_what_was_forgotten_is_not_in_the_file(rng):
    """Rows that have left the window leave the file as well."""
    X = rng.normal(size=(500, 1))
    made = {"scale": False, "kernel": "linear", "loss": losses.Squared()}
    model = KernelRegressor(**made, expansion=expansions.Window(age=3), rule=rules.Norma(memory=9))
    model.partial_fit(X, X[:, 0])
    data = files.dumps(model)
    assert any(x.tobytes() in data for x in X[-3:])
    assert not any(x.tobytes() in data for x in X[1:-3])


def test_equal_models_give_equal_bytes(rng):
    X, y = rng.normal(size=(100, 2)), rng.integers(0, 3, 100)
    first, second = (files.dumps(KernelClassifier().partial_fit(X, y)) for _ in range(2))
    assert first == second


OTHER_CORE = """
import sys, numpy as np, onkel
model = onkel.load(sys.argv[1])
X = np.random.default_rng(5).normal(size=(40, 3))
np.save(sys.argv[2], model.predict(X))
model.partial_fit(X, X[:, 0] > 0)
model.save(sys.argv[1])
"""


@pytest.mark.parametrize("expansion", size(["window"], ["window", "tree", "centers"]))
def test_the_two_cores_read_each_others_files(expansion, rng, tmp_path):
    pure = os.environ.get("ONKEL_PURE", "") not in ("", "0")
    if pure and onkel.core.BACKEND != "numpy":
        pytest.skip("there is one core only")
    X = rng.normal(size=(700, 3))
    kernel = kernels.Additive() if expansion == "tree" else "gaussian"
    model = KernelRegressor(kernel=kernel, expansion=expansion).partial_fit(X, X[:, 0] > 0)
    file, shown = tmp_path / "model", tmp_path / "shown.npy"
    model.save(file)
    env = {
        **os.environ,
        "ONKEL_PURE": "0" if pure else "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    subprocess.run([sys.executable, "-c", OTHER_CORE, file, shown], env=env, check=True)
    Z = np.random.default_rng(5).normal(size=(40, 3))
    assert np.load(shown) == pytest.approx(model.predict(Z), rel=1e-9, abs=1e-9)
    back = onkel.load(file)
    model.partial_fit(Z, Z[:, 0] > 0)
    assert back.t_ == model.t_
    assert back.predict(X[:50]) == pytest.approx(model.predict(X[:50]), rel=1e-9, abs=1e-9)
