"""Mixtures with device="cuda" beside the same on the CPU: scores, state, files, refusals."""

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
    Classifier,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    Regressor,
    expansions,
    files,
    kernels,
    losses,
    rules,
    schedules,
)
from onkel.core.layout import Field
from onkel.gpu import devices, memory
from onkel.gpu.bank import GpuBank
from onkel.gpu.programs import encode, packed
from onkel.learner import relevance, term_learner

Window, Norma = expansions.Window, rules.Norma
WIDE, NARROW, GAUSS = kernels.Laplacian(0.25), kernels.Laplacian(1.0), kernels.Gaussian(0.5)
MIXED = kernels.Gaussian(0.5) * kernels.Laplacian(0.1)
ROWS = size(24, 36 if INTERPRETED else 200)


def classifiers(terms=10_000, **more):
    own = {"expansion": Window(terms), "precision": "float32", **more}
    return [
        KernelClassifier(GAUSS, **own),
        KernelClassifier(WIDE, rule=Norma(0.1), **own),
        KernelClassifier(WIDE, rule="projection", **own),
        LinearClassifier(missing=more.get("missing", "error")),
        KernelClassifier(NARROW, "logistic", Norma(learning_rate=schedules.InverseSqrt(1.0)),
                         **own),
        KernelClassifier(MIXED, rule="perceptron", **own),
    ]  # fmt: skip


def regressors(terms=10_000, **more):
    own = {"expansion": Window(terms), "precision": "float32", **more}
    return [
        KernelRegressor(WIDE, **own),
        KernelRegressor(GAUSS, losses.EpsilonInsensitive(nu=0.2), fit_intercept=True, **own),
        KernelRegressor(NARROW, "squared", Norma(learning_rate=1.0), **own),
        LinearRegressor(missing=more.get("missing", "error")),
    ]


BANKS = {"classification": (Classifier, classifiers), "regression": (Regressor, regressors)}


def stream(rng, task, n=ROWS):
    """Rows far from standardised."""
    X = (rng.normal(size=(n, 3)) * [1, 1, 7] + [0, 0, 50]).astype(np.float32)
    if task == "regression":
        return X, np.sin(X[:, 0]) * 5 + 3 + 0.1 * rng.normal(size=n)
    return X, np.where(X[:, 0] * X[:, 1] > 0, 1, -1)


def both(task, **own):
    """The same mixture on the CPU and on the device."""
    kind, bank = BANKS[task]
    return kind(members=bank(**own)), kind(members=bank(**own), device="cuda")


def near(a, b, tolerance=1e-4):
    """Whether two learned mixtures agree: members' scores, what is counted, weights."""
    assert (a.n_terms_, a.t_) == (b.n_terms_, b.t_)
    np.testing.assert_allclose(a.weights_, b.weights_, atol=tolerance)
    for (one, _), (other, _) in zip(a._learner.parts, b._learner.parts, strict=True):
        for field in Field:
            if field in (Field.SCALE, Field.SCALE_SUM):  # folded elsewhere, perhaps
                continue
            largest = max(np.abs(one.state[:, field]).max(), 1e-3)
            gap = np.abs(one.state[:, field] - other.state[:, field]).max()
            assert gap < tolerance * largest, field


def same_answers(a, b, X, tolerance=1e-4):
    want, got = a._learner.answers(X), b._learner.answers(X)
    assert np.abs(want - got).max() < tolerance * np.abs(want).max()


@pytest.mark.long
@pytest.mark.parametrize("task", BANKS)
def test_as_on_the_cpu(task, rng):
    """Answers before each row, the members' state, answers afterwards; members with terms there."""
    X, y = stream(rng, task)
    a, b = both(task)
    want, got = (m.predict_then_learn(X, y) for m in (a, b))
    assert np.mean(want == got) == 1 if task == "classification" else np.allclose(want, got, 1e-4)
    kinds = [type(part) for part, _ in b._learner.parts]
    assert kinds[-1] is GpuBank and kinds[0].__name__ == "PrimalLearner"
    near(a, b)
    same_answers(a, b, X)


@pytest.mark.long
@pytest.mark.parametrize("cap", [13, 33 if INTERPRETED else 64])
def test_a_full_ring_lets_the_oldest_go(cap, rng):
    """A sixteenth at once, at the row that fills it, however the rows are cut into calls."""
    X, y = stream(rng, "classification", cap + 10 if INTERPRETED else ROWS)
    X = (X - [0, 0, 50]) / [1, 1, 7]
    a, b = both("classification", terms=cap, scale=False)
    for cut in np.split(np.arange(len(X)), [1, 8, 15]):
        for model in (a, b):
            model.partial_fit(X[cut], y[cut])
        assert a.n_terms_ == b.n_terms_ < cap
    near(a, b)
    same_answers(a, b, X)


@pytest.mark.long
def test_a_member_that_is_wiped_out_holds_no_other_up(rng):
    """One shrinks to 0 at its first row, one becomes tiny soon: all go on from the same row."""
    X, y = stream(rng, "classification", fewer(60))
    X = (X - [0, 0, 50]) / [1, 1, 7]
    short = [Norma(learning_rate=schedules.InverseSqrt(1.0), regularization=1.0),
             Norma(memory=2), Norma(0.5), Norma(learning_rate=0.5, regularization=1.9)]  # fmt: skip

    def members():
        return [KernelClassifier(GAUSS, rule=r, precision="float32", scale=False) for r in short]

    a, b = Classifier(members=members()), Classifier(members=members(), device="cuda")
    for model in (a, b):
        model.partial_fit(X, y)
    assert isinstance(b._learner.parts[-1][0], GpuBank)
    near(a, b)
    same_answers(a, b, X)


@pytest.mark.long
def test_classes_appear_late(rng):
    """Columns more for every member; weights of 0 are looked at only."""
    X, _ = stream(rng, "classification")
    y = rng.integers(0, 2, len(X))
    y[15:] += rng.integers(0, 2, len(X) - 15)
    weight = np.where(np.arange(len(X)) % 7 == 3, 0.0, 1.0)
    a, b = both("classification", terms=90)
    for cut in (slice(0, 20), slice(20, None)):
        for model in (a, b):
            model.partial_fit(X[cut], y[cut], sample_weight=weight[cut])
    near(a, b)
    same_answers(a, b, X)
    assert a.class_count_ == b.class_count_


@pytest.mark.long
def test_missing_values(rng):
    X, y = stream(rng, "regression")
    X[5::9, 1] = np.nan
    a, b = both("regression", missing="mean")
    for model in (a, b):
        model.partial_fit(X, y)
    near(a, b)
    same_answers(a, b, X)


@pytest.mark.long
def test_tensors_are_used_in_place(rng):
    """The same bits; those who live on the CPU get them there."""
    X, y = stream(rng, "regression")
    a, b = (Regressor(members=regressors(), device="cuda") for _ in range(2))
    want = a.predict_then_learn(X, y)
    put = [torch.from_numpy(v).to(DEVICE) for v in (X, y)]
    assert np.array_equal(want, b.predict_then_learn(*put))
    assert np.array_equal(a.predict(X), b.predict(put[0]))


@pytest.mark.long
def test_files_and_moves(rng, tmp_path):
    """Saved and loaded, the same bits; from the device to the CPU and back, the same model."""
    X, y = stream(rng, "classification", 16)
    model = Classifier(members=classifiers(10), device="cuda").partial_fit(X[:11], y[:11])
    model.save(tmp_path / "model")
    again = onkel.load(tmp_path / "model")
    assert again.device == "cuda" and isinstance(again._learner.parts[-1][0], GpuBank)
    assert again._learner.parts[-1][0].settings.precision == "float32"
    for m in (model, again):
        m.partial_fit(X[11:], y[11:])
    want = model.decision_function(X)
    assert np.array_equal(want, again.decision_function(X))
    answers = model._learner.answers(X)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert np.array_equal(twin.decision_function(X), want)
    moved = again.to("cpu")
    assert moved.device == "cpu" and type(moved._learner.parts[-1][0]).__name__ == "Bank"
    for where in ("cpu", "cuda"):
        assert np.abs(moved.to(where)._learner.answers(X) - answers).max() < 1e-5
        moved.partial_fit(X[:3], y[:3])
        answers = moved._learner.answers(X)


@pytest.mark.long
def test_no_gpu_where_a_file_is_read(rng, monkeypatch):
    """It goes on on the CPU, and says so."""
    X, y = stream(rng, "classification", 12)
    model = Classifier(members=classifiers(), device="cuda").partial_fit(X, y)
    data = files.dumps(model)
    monkeypatch.setattr(devices, "missing", lambda device: "PyTorch finds no CUDA GPU here")
    with pytest.warns(RuntimeWarning, match="goes on on the CPU"):
        again = files.loads(data)
    assert again.device == "cpu"
    assert np.abs(again._learner.answers(X) - model._learner.answers(X)).max() < 1e-5


@pytest.mark.long
@pytest.mark.parametrize("alone", [True, False])
def test_a_refused_call_changes_no_member(alone, rng):
    """A member runs away, in the bank or beside it: all are as they were, bit for bit."""
    X, y = stream(rng, "regression")
    bad = {"loss": "squared", "rule": Norma(1e9, regularization=0.0)}
    last = LinearRegressor(**bad) if alone else KernelRegressor(NARROW, precision="float32", **bad)
    model = Regressor(members=[*regressors(), last], device="cuda")
    model.partial_fit(X[:2], y[:2])
    before = files.dumps(model)
    with pytest.raises(ValueError, match="leaves the floating range"):
        model.partial_fit(X[2:], y[2:])
    assert files.dumps(model) == before


@pytest.mark.long
def test_out_of_memory_is_refused(rng, monkeypatch):
    """With the arithmetic, before anything is changed."""
    X, y = stream(rng, "classification", 30)
    model = Classifier(members=classifiers(), device="cuda").partial_fit(X[:8], y[:8])
    before = files.dumps(model)
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1000)
    many = np.tile(X, (50, 1))
    with pytest.raises(MemoryError, match=r"12 for each output \+ 28 = .* bytes\. Give expansions"):
        model.partial_fit(many, np.tile(y, 50))
    monkeypatch.undo()
    assert files.dumps(model) == before


def test_what_is_refused(rng):
    """Named, with what to do; "auto" stays on the processor where one member must."""
    X, y = stream(rng, "classification", 30)
    romma = [KernelClassifier(), KernelClassifier(rule="romma")]
    with pytest.raises(
        ValueError, match=r"Classifier: device='cuda', but rule .* a GPU knows Norma"
    ):
        Classifier(members=romma, device="cuda").partial_fit(X, y)
    with pytest.raises(ValueError, match="not all the same precision"):
        Classifier(members=[KernelClassifier(), KernelClassifier(precision="tf32")],
                   device="cuda").partial_fit(X, y)  # fmt: skip
    with pytest.raises(ValueError, match="device must be 'cpu', 'auto', 'cuda' or 'cuda:N'"):
        Classifier(device="gpu").partial_fit(X, y)
    with pytest.raises(ValueError, match=r"Leave it out, and give Classifier\(device='cuda'\)"):
        Classifier(members=[KernelClassifier(device="cuda")]).partial_fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        auto = Classifier(members=romma, device="auto").partial_fit(X, y)
    assert {part.settings.device for part, _ in auto._learner.parts} == {"cpu"}


@pytest.mark.long
def test_a_member_that_shares_with_nobody_lives_there_too(rng):
    """One with a norm to keep, one with an age: each by itself, on the device."""
    X, y = stream(rng, "classification", 24)
    members = [
        KernelClassifier(GAUSS, rule="alma", precision="float32"),
        KernelClassifier(WIDE, expansion=Window(age=12), precision="float32"),
        LinearClassifier(),
    ]
    a, b = Classifier(members=members), Classifier(members=members, device="cuda")
    for model in (a, b):
        model.partial_fit(X, y)
    assert sorted(type(part).__name__ for part, _ in b._learner.parts) == [
        "GpuLearner", "GpuLearner", "PrimalLearner"
    ]  # fmt: skip
    near(a, b)
    same_answers(a, b, X)


def test_functions_are_launched_with_those_that_read_the_same():
    """Outputs are cut where there are too many for one launch; each comes once."""
    functions = [encode(k.program(), DEVICE) for k in (GAUSS, WIDE, NARROW, MIXED, GAUSS)]
    found = packed(functions, [3, 70, 2, 1, 4], 32)
    assert [(p.dot, p.l1) for p in found] == [(True, False)] + [(False, True)] * 3 + [(True, True)]
    assert sorted(c for p in found for c in p.columns) == list(range(80))
    assert [p.which for p in found] == [(0, 4), (1,), (1,), (1, 2), (3,)]
    assert max(len(p.columns) for p in found) <= 32
    assert [p.constants["KERNELS"] for p in found] == [2, 1, 1, 2, 1]


@pytest.mark.long
def test_columns_count_as_they_do_on_the_cpu(rng, monkeypatch):
    monkeypatch.setattr(relevance, "EARLY", [16, 24, 36])
    monkeypatch.setattr(term_learner, "FEWEST", 8)
    X = rng.normal(size=(40, 4)).astype("f4")
    y = np.sin(2 * X[:, 1])
    host, far = (Regressor(device=place).partial_fit(X, y) for place in ("cpu", "cuda"))
    assert np.ptp(host.relevance_) > 0.1
    np.testing.assert_allclose(far.relevance_, host.relevance_, rtol=1e-3)
    again = files.loads(files.dumps(far))
    assert np.array_equal(again.relevance_, far.relevance_)
    assert np.array_equal(far.to("cpu").relevance_, again.relevance_)
