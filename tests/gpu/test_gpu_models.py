"""Estimators with device="cuda" beside the same on the CPU: scores, state, files, refusals."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest
from helpers.on_gpu import DEVICE, INTERPRETED, fewer, torch
from helpers.sizes import size

import onkel
from onkel import (
    KernelClassifier,
    KernelRegressor,
    NoveltyDetector,
    expansions,
    files,
    kernels,
    losses,
    merge,
    rules,
    schedules,
)
from onkel.core.layout import Field
from onkel.gpu import devices, memory
from onkel.gpu.device_terms import DeviceTerms

ROWS = size(16, 60 if INTERPRETED else 90)
Window, Norma = expansions.Window, rules.Norma
BY_T = schedules.InverseSqrt
MODELS = {
    "default": (KernelClassifier, {}),
    "wiped": (KernelClassifier, {"rule": Norma(learning_rate=BY_T(1.0), regularization=1.0)}),
    "short_memory": (KernelClassifier, {"rule": Norma(memory=2), "scale": False}),
    "growth": (
        KernelClassifier,
        {"rule": Norma(learning_rate=BY_T(0.9), regularization=1.0),
         "expansion": Window(growth=0.4), "scale": False},
    ),
    "five_terms": (KernelClassifier, {"expansion": Window(5)}),
    "age": (KernelClassifier, {"expansion": Window(size(6, 20), age=size(8, 30))}),
    "projection": (
        KernelClassifier, {"rule": "projection", "kernel": kernels.Polynomial(degree=2)}
    ),
    "ball": (KernelClassifier, {"rule": rules.Projection(radius=1.5), "expansion": Window(30)}),
    "alma": (KernelClassifier, {"rule": "alma", "expansion": Window(30)}),
    "perceptron": (KernelClassifier, {"rule": "perceptron"}),
    "regressor": (KernelRegressor, {"expansion": Window(40)}),
    "interval": (KernelRegressor, {"loss": losses.EpsilonInsensitive(nu=0.2),
                                   "kernel": kernels.Matern(nu=1.5)}),
    "detector": (NoveltyDetector, {"nu": 0.1, "support": 0.3, "learn_alerts": False}),
    "gaps": (KernelClassifier, {"missing": "mean"}),
}  # fmt: skip
SLOW = ("wiped", "short_memory", "growth")
"""Blocks of very few rows, which an interpreter takes its time for."""
QUICK = ("age",)
OUTPUT = {KernelClassifier: "decision", KernelRegressor: "prediction", NoveltyDetector: "score"}


def rows_of(rng, kind, gaps=False):
    """Rows far from standardised, with what goes with them."""
    X = rng.normal(size=(ROWS, 3)).astype(np.float32) * [1, 1, 7] + [0, 0, 50]
    X = X.astype(np.float32)
    if gaps:
        X[5::9, 1] = np.nan
    y = np.where(X[:, 0] * np.nan_to_num(X[:, 1]) > 0, 1, -1)
    if kind is KernelRegressor:
        return X, np.sin(X[:, 0]) * 5 + 3
    return (X, y) if kind is KernelClassifier else (X,)


def on_both(kind, own, args, **more):
    """The same model on the CPU and on the device, and what each said."""
    models = kind(**own), kind(**own, device="cuda", precision="float32")
    said = [m.predict_then_learn(*args, output=OUTPUT[kind], **more) for m in models]
    return models, said


def same_state(a, b):
    """Whether all that is counted and adapted agrees; the scale may have been folded elsewhere."""
    for field in Field:
        if field in (Field.SCALE, Field.SCALE_SUM):
            continue
        size = max(np.abs(a.state[:, field]).max(), 1e-3)
        assert np.abs(a.state[:, field] - b.state[:, field]).max() < 1e-4 * size, field


@pytest.mark.parametrize("name", size(QUICK, tuple(MODELS)))
def test_as_on_the_cpu(name, rng):
    """Scores before each row, the state, predictions afterwards."""
    kind, own = MODELS[name]
    args = rows_of(rng, kind, gaps=name == "gaps")
    few = fewer(36 if name in SLOW else ROWS)
    args = tuple(a[:few] for a in args)
    (a, b), (want, got) = on_both(kind, own, args)
    assert np.abs(want - got).max() < 1e-4 * np.abs(want).max()
    assert (a.n_terms_, a.t_) == (b.n_terms_, b.t_)
    same_state(a._learner, b._learner)
    ask = "score_samples" if kind is NoveltyDetector else "predict"
    ask = "decision_function" if kind is KernelClassifier else ask
    X = args[0]
    after = getattr(a, ask)(X), getattr(b, ask)(X)
    assert np.abs(after[0] - after[1]).max() < 1e-4 * np.abs(after[0]).max()


@pytest.mark.long
def test_classes_appear_late(rng):
    """One column more for each, over the same terms; weights of 0 are looked at only."""
    X, _ = rows_of(rng, KernelClassifier)
    y = rng.integers(0, 2, ROWS)
    y[40:] += rng.integers(0, 2, ROWS - 40)
    weight = np.where(np.arange(ROWS) % 7 == 3, 0.0, 1.0)
    (a, b), (want, got) = on_both(KernelClassifier, {}, (X, y), sample_weight=weight)
    assert np.abs(want - got).max() < 1e-4 * np.abs(want).max()
    assert a.diagnostics_["mistakes"] == b.diagnostics_["mistakes"]
    assert a.class_count_ == b.class_count_


@pytest.mark.long
def test_growth_of_many_classes(rng):
    """A group of rows may end anywhere; all later rows of the block are brought up to date."""
    X, _ = rows_of(rng, KernelClassifier)
    own = {"rule": Norma(learning_rate=BY_T(0.9), regularization=1.0), "scale": False,
           "expansion": Window(growth=0.4)}  # fmt: skip
    few = fewer(ROWS)
    _, (want, got) = on_both(KernelClassifier, own, (X[:few], rng.integers(0, 4, few)))
    assert np.abs(want - got).max() < 1e-4 * np.abs(want).max()


@pytest.mark.long
def test_by_the_clock(rng):
    """Forgetting goes by the time between rows."""
    X, y = rows_of(rng, KernelClassifier)
    time = np.cumsum(rng.exponential(60.0, ROWS))
    own = {"rule": Norma(memory="30min")}
    _, (want, got) = on_both(KernelClassifier, own, (X, y), time=time)
    assert np.abs(want - got).max() < 1e-4 * np.abs(want).max()


@pytest.mark.long
def test_blocks_of_any_size(rng):
    """Other calls, the same results to rounding; double precision input keeps its offset."""
    X, y = rows_of(rng, KernelClassifier)
    X = X.astype(np.float64) + np.array([0.0, 0.0, 1e7])
    a, b = (KernelClassifier(device="cuda") for _ in range(2))
    want = a.predict_then_learn(X, y, output="decision")
    cuts = np.split(np.arange(ROWS), [1, 3, ROWS // 2, ROWS // 2 + 1, ROWS - 15])
    got = np.concatenate([b.predict_then_learn(X[i], y[i], output="decision") for i in cuts])
    assert np.abs(want - got).max() < 1e-4 * np.abs(want).max()
    plain = KernelClassifier().predict_then_learn(X, y, output="decision")
    assert np.abs(want - plain).max() < 1e-3 * np.abs(want).max()


@pytest.mark.long
def test_tensors_are_used_in_place(rng):
    """Rows, targets and weights on the device give the same bits."""
    X, y = rows_of(rng, KernelRegressor)
    a, b = (KernelRegressor(device="cuda", kernel="gaussian") for _ in range(2))
    want = a.predict_then_learn(X, y)
    put = [torch.from_numpy(v).to(DEVICE) for v in (X, y, np.ones(ROWS))]
    got = b.predict_then_learn(put[0], put[1], sample_weight=put[2])
    assert np.array_equal(want, got)
    assert np.array_equal(a.predict(X), b.predict(put[0]))


@pytest.mark.long
def test_files_and_moves(rng, tmp_path):
    """Saved and loaded, the same bits; from the device to the CPU and back, the same model."""
    X, y = rows_of(rng, KernelClassifier)
    model = KernelClassifier(device="cuda", expansion=Window(size(20, 50)))
    half = 2 * ROWS // 3
    model.partial_fit(X[:half], y[:half])
    model.save(tmp_path / "model")
    again = onkel.load(tmp_path / "model")
    assert type(again._learner) is type(model._learner) and again.device == "cuda"
    for m in (model, again):
        m.partial_fit(X[half:], y[half:])
    assert np.array_equal(model.decision_function(X), again.decision_function(X))
    want = model.decision_function(X)
    moved = again.to("cpu")
    assert moved.device == "cpu" and type(moved._learner).__name__ == "TermLearner"
    assert np.abs(moved.decision_function(X) - want).max() < 1e-5
    assert np.abs(moved.to("cuda").decision_function(X) - want).max() < 1e-5
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(twin.decision_function(X), want)


def test_a_model_of_the_cpu_moves_to_the_device(rng):
    """In double precision, in a ring that has turned, with a late class."""
    X, y = rows_of(rng, KernelClassifier)
    model = KernelClassifier(expansion=Window(size(20, 40))).partial_fit(X.astype(float), y)
    want = model.decision_function(X)
    model.to("cuda")
    assert np.abs(model.decision_function(X) - want).max() < 1e-4 * np.abs(want).max()
    model.partial_fit(X[:5], np.full(5, 7))
    assert list(model.classes_) == [-1, 1, 7]


@pytest.mark.long
def test_no_gpu_where_a_file_is_read(rng, monkeypatch):
    """It goes on on the CPU, and says so."""
    X, y = rows_of(rng, KernelClassifier)
    model = KernelClassifier(device="cuda").partial_fit(X, y)
    data = files.dumps(model)
    monkeypatch.setattr(devices, "missing", lambda device: "PyTorch finds no CUDA GPU here")
    with pytest.warns(RuntimeWarning, match="goes on on the CPU"):
        again = files.loads(data)
    assert again.device == "cpu"
    assert np.abs(again.decision_function(X) - model.decision_function(X)).max() < 1e-5


@pytest.mark.long
def test_a_refused_row_changes_nothing(rng):
    """The model is the one it was, bit for bit, and goes on as if nothing had been asked."""
    X, y = rows_of(rng, KernelRegressor)
    own = {"kernel": kernels.Polynomial(degree=3), "loss": "squared", "scale": False}
    own |= {"rule": Norma(learning_rate=1e-12), "expansion": Window(30), "device": "cuda"}
    model, twin = (KernelRegressor(**own).partial_fit(X[:35], y[:35]) for _ in range(2))
    bad = X[35:60].copy()
    bad[20] *= 1e14
    before = files.dumps(model)
    with pytest.raises(ValueError, match=r"Row 20: k\(x, x\) is not finite"):
        model.partial_fit(bad, y[35:60])
    assert files.dumps(model) == before
    for m in (model, twin):
        m.partial_fit(X[35:], y[35:])
    assert np.array_equal(model.predict(X), twin.predict(X))


def test_a_step_that_runs_away_is_refused(rng):
    """A learning rate that is too large: the row is named, the model kept."""
    X, y = rows_of(rng, KernelRegressor)
    model = KernelRegressor(kernel=kernels.Linear(), loss="squared", scale=False, device="cuda",
                            rule=Norma(learning_rate=50.0, memory=1e9))  # fmt: skip
    model.partial_fit(X[:2], y[:2])
    before = files.dumps(model)
    with pytest.raises(ValueError, match="the step leaves the floating range"):
        model.partial_fit(X, y)
    assert files.dumps(model) == before


@pytest.mark.long
def test_out_of_memory_is_refused(rng, monkeypatch):
    """With the arithmetic, before anything is changed."""
    X, y = rows_of(rng, KernelClassifier)
    model = KernelClassifier(device="cuda").partial_fit(X[:20], y[:20])
    before = files.dumps(model)
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1000)
    model._learner.terms.limit = 10**6
    with pytest.raises(MemoryError, match=r"bytes\. Give expansions.Window fewer terms"):
        model._learner.learn(np.zeros((5000, 3)), np.zeros((5000, 1)), np.ones(5000))
    monkeypatch.undo()
    assert files.dumps(model) == before


@pytest.mark.long
def test_out_of_memory_at_a_refresh_is_refused(rng, monkeypatch):
    """The rows were learned already: the same words, and the model as it was."""
    X, y = rows_of(rng, KernelClassifier)
    model = KernelClassifier(device="cuda").partial_fit(X[:20], y[:20])
    before = files.dumps(model)

    def no_room(*_):
        raise torch.OutOfMemoryError("no room for a new frame")

    monkeypatch.setattr(DeviceTerms, "reframed", no_room)
    with pytest.raises(MemoryError, match=r"no room for a new frame\. A term takes 4 x 3"):
        model.partial_fit(X[20:40], y[20:40])
    monkeypatch.undo()
    assert files.dumps(model) == before


@pytest.mark.long
def test_explain_and_diagnostics(rng):
    """As on the CPU."""
    X, y = rows_of(rng, KernelClassifier)
    (a, b), _ = on_both(KernelClassifier, {}, (X, y))
    one, other = a.explain(X[0]), b.explain(X[0])
    assert abs(one.score - other.score) < 1e-4
    assert [f.name for f in one.features] == [f.name for f in other.features]
    assert abs(one.terms[0].part - other.terms[0].part) < 1e-4
    want, got = a.diagnostics_, b.diagnostics_
    assert want.keys() == got.keys()
    assert want["scale"]["gamma"] == got["scale"]["gamma"]


def test_what_is_refused(rng):
    """Named, with what to do."""
    X, y = rows_of(rng, KernelClassifier)
    with pytest.raises(ValueError, match="passes=1"):
        KernelClassifier(device="cuda", passes=2).fit(X, y)
    with pytest.raises(ValueError, match="precision must be 'float32', 'tf32x3' or 'tf32'"):
        KernelClassifier(precision="half").fit(X, y)
    with pytest.raises(ValueError, match="a GPU knows Norma"):
        KernelClassifier(device="cuda", rule="romma").fit(X, y)
    model = KernelClassifier(device="cuda").partial_fit(X, y)
    with pytest.raises(ValueError, match="to\\('cpu'\\)"):
        merge([model, model])
    with pytest.raises(ValueError, match=r"members that share points live together"):
        onkel.Classifier(members=[KernelClassifier(device="cuda")]).partial_fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        auto = KernelClassifier(device="auto", rule="romma").partial_fit(X, y)
    assert type(auto._learner).__name__ == "TermLearner"
