"""What is accepted can be saved, what is saved can be loaded and goes on with the same bits.

And what is refused changes nothing, byte for byte. `python experiments/fuzz_models.py` does the
same many thousand times.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from helpers import accepted
from helpers.sizes import size

import onkel
from onkel import (
    Classifier,
    Detector,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    NoveltyDetector,
    Regressor,
    expansions,
    files,
    kernels,
    rules,
)
from onkel.files import container

DETECTORS = (NoveltyDetector, Detector)


def again(model):
    """The model from its own file, which must be the same file once more."""
    data = files.dumps(model)
    loaded = files.loads(data)
    assert files.dumps(loaded) == data
    return loaded


@pytest.mark.parametrize("part", range(size(2, 4)))
def test_any_model_and_any_call(part, record_property):
    """Parameters in every form, rows, labels, weights and times of every kind."""
    found = Counter()
    for i in range(size(30, 400, plain=100)):
        found += accepted.trial(f"{part}-{i}")
    record_property("counts", dict(found))
    assert found["calls accepted"] > found["calls refused"] / 2 > 10, found


@pytest.mark.parametrize("kind", accepted.MODELS)
def test_a_model_of_each_kind_and_none_of_its_rows(kind, rng):
    """Before the first row, after a call without rows, after one row, after two."""
    made, X, y = getattr(onkel, kind)(), rng.normal(size=(9, 2)), np.arange(9) % 2
    again(made)
    for rows in (0, 1, 1, 7):
        made = again(made).partial_fit(X[:rows], y[:rows])
        again(made)


# -- whole numbers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", DETECTORS)
def test_a_whole_float_is_a_whole_number(kind, rng):
    """The first learn used to raise an IndexError, and t had moved."""
    X = rng.normal(size=(40, 2))
    found, plain = (kind(recent=recent, warmup=10).partial_fit(X) for recent in (30.0, 30))
    assert np.array_equal(found.rank_samples(X), plain.rank_samples(X))
    loaded = again(found.learn_one(X[0]))
    assert loaded.t_ == 41 and loaded.recent_.size == 30 and type(loaded.recent_.size) is int
    for recent in (30.5, np.inf, True, "30"):
        with pytest.raises(ValueError, match="recent must be a whole number"):
            kind(recent=recent).partial_fit(X)


def test_the_whole_numbers_of_parts():
    window, centers = expansions.Window(terms=20.0, age=np.int8(9)), expansions.Centers(3.0)
    assert type(window.terms) is type(window.age) is type(centers.centers) is int
    assert window == expansions.Window(terms=20, age=9)
    assert type(kernels.Polynomial(degree=np.float32(2)).degree) is int


def test_a_part_is_no_function_of_another_kind():
    """Kernels can be called, but what they say of a number is nothing."""
    for wrong in ({"regularizer": kernels.Linear()}, {"learning_rate": kernels.Spectrum()}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
            rules.Norma(**wrong)


def test_a_ball_too_small_for_squares(rng):
    """Its radius squared is 0, and so was the scale of f."""
    rule = rules.Alma(radius=1e-300)
    again(KernelClassifier(rule=rule).partial_fit(rng.normal(size=(9, 2)), np.arange(9) % 2))


@pytest.mark.parametrize("kind", DETECTORS)
def test_no_room_is_taken_for_scores_that_have_not_come(kind, rng):
    """2**31 places took 16 GB, at once and in every file."""
    model = kind(recent=2**31).partial_fit(rng.normal(size=(40, 2)))
    assert model.recent_.values.nbytes < 10_000
    assert len(files.dumps(model)) < 100_000
    assert again(model).recent_.count == 40


# -- weights and units -----------------------------------------------------------------------------


@pytest.mark.parametrize("weight", [1e100, 1e150, 1e300, 1e308])
@pytest.mark.parametrize(
    "model",
    [
        NoveltyDetector(), NoveltyDetector(average=True), Detector(),
        *(KernelClassifier(rule=r) for r in ("romma", "norma", "perceptron", "alma")),
        LinearClassifier(rule="romma"), KernelRegressor(average=True), LinearRegressor(),
        Classifier(), Regressor(), KernelClassifier(class_weight={0: 1e300, 1: 1e308}),
    ],
    ids=repr,
)  # fmt: skip
def test_extreme_weights_are_learned_or_refused(model, weight, rng):
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2
    made = type(model)(**model.get_params(deep=False))
    for part in (slice(0, 1), slice(1, 2), slice(2, 20)):
        before = files.dumps(made)
        try:
            made.partial_fit(X[part], y[part], sample_weight=np.full(len(X[part]), weight))
        except ValueError:
            assert files.dumps(made) == before
        made = again(made)
        repr(getattr(made, "diagnostics_", None) if made.__sklearn_is_fitted__() else None)


def test_a_state_that_would_leave_the_floating_range_is_refused(rng):
    model = NoveltyDetector().partial_fit(rng.normal(size=(5, 2)))
    before = files.dumps(model)
    with pytest.raises(ValueError, match="leaves the floating range"):
        model.partial_fit(rng.normal(size=(3, 2)), sample_weight=[1.0, 1e308, 1e308])
    assert files.dumps(model) == before


@pytest.mark.parametrize("rows", [1, 3, 40])
def test_units_that_leave_the_floating_range_are_refused(rows, rng):
    """Features a tiny distance apart, far from zero: the shift in their unit was infinite."""
    X = np.column_stack([1e-280 * rng.normal(size=64), rng.normal(size=64)])
    model = KernelRegressor(kernel="linear", expansion="window")
    refused = 0
    for start in range(0, 64, rows):
        part = X[start : start + rows] + (1e150 if start >= 16 else 0.0)
        before = files.dumps(model)
        try:
            model.partial_fit(part, part[:, 1] / 1e10)
        except ValueError:
            refused += 1
            assert files.dumps(model) == before
        model = again(model)
    assert refused


@pytest.mark.parametrize("model", [KernelClassifier(), Classifier(), LinearRegressor(), Detector()])
def test_no_model_counts_beyond_what_a_file_holds(model, rng):
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 2
    model = type(model)().partial_fit(X, y)
    _, held, tensors = container.unpack(files.dumps(model))
    for name in [n for n in held["state"] if n.endswith(".t")]:
        held["state"][name] = 2**53 - 2
    for name in [n for n in tensors if ".following." in n]:  # the first rows are long gone
        last = (2**53 - 2) % 256 if name.endswith(".rows") else 0
        if not name.endswith(".born"):
            tensors[name] = np.resize(tensors[name], (last, *tensors[name].shape[1:]))
    if "learner.whole" in tensors:
        tensors["learner.whole"] = tensors["learner.whole"].copy()
        tensors["learner.whole"][[0, 4]] += 2**52 - 31  # rows, and those that were let in late
        tensors["learner.due"] = tensors["learner.due"] + 2**52 - 31
    model = files.loads(b"".join(container.pack(held, tensors)))
    for _ in range(4):
        before = files.dumps(model)
        try:
            model.partial_fit(X[:1], y[:1])
        except ValueError:
            assert files.dumps(model) == before
        again(model)
    with pytest.raises(ValueError, match=r"No (model|detector) learns more than"):
        model.partial_fit(X, y)


# -- parameters of a file --------------------------------------------------------------------------

FORGED = [
    ("NoveltyDetector", "warmup", "x"), ("NoveltyDetector", "recent", 0), ("Detector", "seed", -1),
    ("NoveltyDetector", "passes", 0), ("KernelClassifier", "n_jobs", "many"),
    ("KernelClassifier", "class_weight", "some"), ("LinearRegressor", "p", 1.0),
    ("Regressor", "nu", 2), ("Classifier", "share", True), ("Classifier", "members", []),
    ("KernelRegressor", "scale", 1), ("KernelRegressor", "missing", 3),
    ("KernelRegressor", "device", "moon"), ("KernelRegressor", "kernel", None),
]  # fmt: skip


@pytest.mark.parametrize("fitted", [False, True])
@pytest.mark.parametrize(("kind", "name", "value"), FORGED)
def test_parameters_of_a_file_are_checked_before_anything_else(kind, name, value, fitted, rng):
    model = getattr(onkel, kind)()
    if fitted:
        model.partial_fit(rng.normal(size=(9, 2)), np.arange(9) % 2)
    _, held, tensors = container.unpack(files.dumps(model))
    held["parameters"][name] = value
    with pytest.raises(ValueError, match=rf"cannot load.*{name}"):
        files.loads(b"".join(container.pack(held, tensors)))


@pytest.mark.parametrize("fitted", [False, True])
def test_parameters_that_no_file_could_be_loaded_with_are_not_saved(fitted, rng):
    model = NoveltyDetector()
    if fitted:
        model.partial_fit(rng.normal(size=(9, 2)))
    model.set_params(warmup="x")
    with pytest.raises(ValueError, match="warmup must be a whole number"):
        files.dumps(model)


# -- labels ----------------------------------------------------------------------------------------

LABELS = [
    [2**53, 2**53 + 1, 5], [-(2**63), 2**63 - 1], [True, False],
    [1.0, 2.0, 2.0**52], ["a", "b\ud800", "☃"], [b"a", b"b\xff"], [0, 1, 2], ["", "x"],
]  # fmt: skip


@pytest.mark.parametrize("labels", LABELS, ids=repr)
def test_labels_survive_a_file_exactly(labels, rng):
    X, y = rng.normal(size=(12, 2)), np.array((labels * 12)[:12])
    model = KernelClassifier().partial_fit(X, y)
    loaded = again(model)
    assert [*map(repr, loaded._classes.labels)] == [*map(repr, model._classes.labels)]
    assert sorted(map(repr, loaded.class_count_)) == sorted(map(repr, labels))
    assert loaded.predict(X).tolist() == model.predict(X).tolist()


@pytest.mark.parametrize("label", ["a\0", "\0", "a\0\0", np.str_("x\0"), 2**53 + 1, True, 7.0])
def test_a_label_among_objects_survives_a_file_exactly(label, rng):
    """As objects, since arrays of texts drop what is NUL at their end before anyone looks."""
    y = np.empty(8, object)
    y[:] = [label, "other"] * 4
    loaded = again(KernelClassifier().partial_fit(rng.normal(size=(8, 2)), y))
    found = next(v for v in loaded._classes.labels if v != "other")
    assert type(found) is type(label) and str.__str__(str(found)) == str.__str__(str(label))


# -- what a refused call leaves --------------------------------------------------------------------


@pytest.mark.few
@pytest.mark.parametrize("rows", [1, 3, 70, 300])
@pytest.mark.parametrize(
    "model",
    [
        KernelClassifier(expansion=expansions.Window(terms=500)), KernelRegressor(),
        NoveltyDetector(support=0.9), Classifier(), Regressor(), Detector(), LinearClassifier(),
        KernelRegressor(kernels.Additive(), expansion="tree"),
        KernelClassifier(expansion=expansions.Centers(5), rule=rules.Norma(memory="30s")),
    ],
    ids=repr,
)  # fmt: skip
def test_a_refused_call_leaves_the_file_as_it_was(model, rows, rng):
    """A row of the wrong kind at the end of many, for which there was no room in the ring."""
    made = type(model)(**model.get_params(deep=False))
    X, y = rng.normal(size=(60 + rows, 2)), rng.integers(0, 2, 60 + rows)
    how = [{}, {}]
    if model.forgets_by_clock():
        how = [{"time": np.arange(60.0)}, {"time": np.arange(60.0, 60 + rows)}]
    made.partial_fit(X[:60], y[:60], **how[0])
    before = files.dumps(made)
    weight = np.ones(rows)
    weight[-1] = 1e308
    late = X[60:].copy()
    late[-1] *= 1e151
    for given, weights in ((late, weight), (late, None), (X[60:] * np.nan, None)):
        try:
            made.partial_fit(given, y[60:], sample_weight=weights, **how[1])
        except ValueError:
            assert files.dumps(made) == before
        made = files.loads(before)
