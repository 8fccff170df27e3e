"""The compiled core against its NumPy twin, on every instruction set that this processor has."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from onkel import KernelClassifier, KernelRegressor, core, expansions
from onkel.core import numpy_core
from onkel.core.frame import Frame
from onkel.core.layout import LANES, Field, Op

native = core.compiled
if native is None:
    pytest.skip("no compiled core here", allow_module_level=True)

PROGRAMS = {
    "gaussian": [(Op.GAUSSIAN, 0.3, 0.0, 0)],
    "laplacian": [(Op.LAPLACIAN, 0.2, 0.0, 0)],
    "matern": [(Op.MATERN32, 0.7, 0.0, 0), (Op.MATERN52, 0.5, 0.0, 0), (Op.PRODUCT, 0.0, 0.0, 0)],
    "polynomial": [(Op.POLYNOMIAL, 0.1, 1.0, 3)],
    "mixed": [
        (Op.LINEAR, 0.0, 0.0, 0), (Op.SCALE, 0.5, 0.0, 0), (Op.GAUSSIAN, 0.1, 0.0, 0),
        (Op.LAPLACIAN, 0.1, 0.0, 0), (Op.PRODUCT, 0.0, 0.0, 0), (Op.SUM, 0.0, 0.0, 0),
    ],
}  # fmt: skip


@pytest.fixture(params=native.levels())
def level(request):
    best = native.level()
    native.use_level(request.param)
    yield request.param
    native.use_level(best)


def frame(rng, d, dtype):
    plain = Frame.plain(rng.normal(size=d), dtype, invariant=False)
    return plain.standardised(rng.normal(size=d), rng.uniform(0.1, 5, size=d), rng.normal(size=d))


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("rows", "d"), [(1, 1), (3, 2), (8, 4), (19, 5), (64, 33)])
def test_sums_and_matrix(rng, level, name, dtype, rows, d):
    program = [(int(op), a, b, c) for op, a, b, c in PROGRAMS[name]]
    coords = frame(rng, d, dtype)
    queries = coords.prepare(rng.normal(size=(rows, d)))
    terms = coords.prepare(rng.normal(size=(7 * LANES, d)))
    panels = np.ascontiguousarray(terms.v.reshape(7, LANES, d).transpose(0, 2, 1))
    norms = terms.norm.reshape(7, LANES)
    coef = rng.normal(size=(7, 3, LANES)).astype(dtype)
    tolerance = 1e-12 if dtype == np.float64 else 3e-5
    for first, used in ((0, 7), (5, 4), (3, 0)):
        out = core.sums(program, queries, panels, norms, first, used, coef)
        truth = numpy_core.sums(program, queries, panels, norms, first, used, coef)
        size = max(1.0, np.abs(truth).max(initial=0.0))
        np.testing.assert_allclose(out / size, truth / size, atol=tolerance)
        threaded = core.sums(program, queries, panels, norms, first, used, coef, threads=3)
        assert np.array_equal(out, threaded)  # the same bits, whatever the number of threads
    out = core.matrix(program, queries, terms.v[:100], terms.norm[:100])
    truth = numpy_core.matrix(program, queries, terms.v[:100], terms.norm[:100])
    np.testing.assert_allclose(out, truth, rtol=10 * tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_exponential_over_its_whole_range(level, dtype):
    """exp(-x) from 0 to beyond underflow, through a one-feature Gaussian."""
    x = np.concatenate([np.linspace(0, 30, 2000), np.logspace(-8, 4, 200)])
    top = 80.0 if dtype == np.float32 else 700.0
    coords = Frame.plain(np.zeros(1), dtype, invariant=True)
    rows = coords.prepare(np.sqrt(x)[:, None])
    origin = coords.prepare(np.zeros((1, 1)))
    out = core.matrix([(Op.GAUSSIAN, 1.0, 0.0, 0)], origin, rows.v, rows.norm)
    square = rows.v[:, 0].astype(float) ** 2
    truth = np.exp(-square)
    fair = square < top
    eps = np.finfo(dtype).eps
    relative = np.abs(out[0] - truth)[fair] / truth[fair]
    assert np.max(relative / (1 + square[fair])) < 4 * eps
    assert np.all(out[0][~fair] <= 1e-30)
    assert np.all(out >= 0)


def test_moments(rng):
    rows, fade = rng.normal(size=(300, 4)), rng.random(300)
    holes = np.where(rng.random(rows.shape) < 0.2, np.nan, rows)
    for given, faded, plain in ((rows, fade[:0], True), (rows, fade, True), (holes, fade, False)):
        results = []
        for twin in (core, numpy_core):
            into = core.Running(*np.zeros((3, 4)), 50.0, plain)
            for part in (slice(0, 100), slice(100, 300)):
                twin.moments(given[part], faded[part], into)
            results.append(into[:3])
        np.testing.assert_allclose(results[0], results[1], rtol=1e-12)


@pytest.mark.parametrize("kind", [KernelClassifier, KernelRegressor])
def test_threads_give_the_same_bits(rng, kind):
    X = rng.normal(size=(900, 5)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    window = expansions.Window(terms=300)
    one = kind(expansion=window, n_jobs=1).predict_then_learn(X, y)
    many = kind(expansion=window, n_jobs=4).predict_then_learn(X, y)
    assert np.array_equal(one, many)


@pytest.mark.parametrize("level_name", native.levels())
def test_environment_chooses_the_level(level_name):
    code = "from onkel.core import BACKEND; print(BACKEND)"
    env = {**os.environ, "ONKEL_LEVEL": level_name, "ONKEL_PURE": ""}
    env.pop("LD_PRELOAD", None)
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False
    )
    if "LD_PRELOAD" in os.environ:
        pytest.skip("a sanitized core cannot be loaded by a plain process")
    assert done.stdout.strip() == f"compiled ({level_name})"


def test_wrong_shapes_are_refused_not_read():
    matrix, vector = np.zeros((2, 3)), np.zeros(2)
    with pytest.raises(ValueError, match="query vectors"):
        native.QueriesD(matrix, matrix, np.zeros(1), vector, np.ones(3))
    queries = native.QueriesD(matrix, matrix, vector, vector, np.ones(3))
    linear = native.Program([(4, 0.0, 0.0, 0)])
    with pytest.raises(ValueError, match="rows and norms"):
        native.matrix(linear, queries, np.zeros((4, 2)), np.zeros(4), np.zeros((2, 4)))
    with pytest.raises(ValueError, match="out must be"):
        native.matrix(linear, queries, np.zeros((4, 3)), np.zeros(4), np.zeros((2, 3)))
    panels = native.PanelsD(np.zeros((1, 2, 64)), np.zeros(64), np.zeros((1, 1, 64)), 0, 1)
    with pytest.raises(ValueError, match="differ in features"):
        native.sums(linear, queries, panels, np.zeros((2, 1)), 1)
    with pytest.raises(ValueError, match="outside the ring"):
        native.PanelsD(np.zeros((1, 2, 64)), np.zeros(64), np.zeros((1, 1, 64)), 0, 2)
    with pytest.raises(ValueError, match="no instruction set"):
        native.use_level("v9")


def zeros(*shape, dtype=np.float64):
    return np.zeros(shape, dtype)


WRITTEN = (
    "Moments", "TermsD", "BlockOutput", "StepOutput", "BankOutput", "PrimalOutput", "sums",
    "bank_sums", "matrix", "evaluate", "widths", "follow_widths",
)  # fmt: skip


def arguments():
    """Of each call; lists are what it only reads. Made anew: nothing compiled outlives a test."""
    linear = native.Program([(4, 0.0, 0.0, 0)])
    queries = native.QueriesD(zeros(4, 3), zeros(4, 3), zeros(4), zeros(4), zeros(3))
    panels = native.PanelsD(zeros(1, 3, LANES), zeros(LANES), zeros(1, 2, LANES), 0, 1)
    stepped = [zeros(1, len(Field)), *zeros(4, 4, 1), *zeros(3, 4, dtype=np.uint8)]
    return {
        "Moments": (zeros(3), zeros(3), zeros(3), 10.0, True, False),
        "TermsD": (zeros(2, 3, LANES), zeros(2, LANES), *zeros(2, 2, 1, LANES),
                   zeros(2 * LANES, dtype=np.int64)),
        "BlockOutput": (zeros(4, 2), zeros(4, 2), zeros(4, dtype=np.uint8)),
        "StepOutput": stepped,
        "BankOutput": stepped[:4] + stepped[5:7],
        "PrimalOutput": [zeros(2, len(Field)), *zeros(5, 2, 4)],
        "sums": (linear, queries, panels, zeros(4, 2), 1),
        "bank_sums": (native.Programs([linear], [2]), queries, panels, zeros(4, 2), 1),
        "matrix": (linear, queries, [[0.0] * 3] * 2, [0.0] * 2, zeros(4, 2)),
        "evaluate": (linear, [[0.0] * 2] * 4, [], [], zeros(4, 2)),
        "widths": (*[[[0.0] * 2] * 4] * 2, [1.0] * 10, [[0.0] * 12] * 2, zeros(4, 2)),
        "follow_widths": (
            *[[[0.0] * 2] * 4] * 3, 0.1, 3, [1.0] * 10, zeros(2, 12), zeros(4, 2)
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
def test_what_is_written_to_is_the_array_that_was_given(name):
    """Of another type or layout it would be written to a copy, and lost: that is refused."""
    call, table = getattr(native, name), arguments()[name]
    given = [np.array(a) if isinstance(a, list) else a for a in table]
    call(*given)
    for i, array in enumerate(table):
        if not isinstance(array, np.ndarray):
            continue
        gaps = np.repeat(array, 2, axis=-1)[..., ::2]
        for wrong in (array.astype(np.float32), gaps, array.tolist()):
            with pytest.raises(TypeError, match="incompatible function arguments"):
                call(*given[:i], wrong, *given[i + 1 :])


def test_a_host_that_is_no_candidate_is_refused():
    rows = zeros(1, dtype=np.int64)
    stepper = native.Stepper(native.Loss(3), native.Rule(0), False, False)
    for host in (-3, 1):
        with pytest.raises(ValueError, match="host is none of the candidates"):
            native.StepInput(
                zeros(1, 1), zeros(1, 1), zeros(1, 0), zeros(1), rows[:0], 0, 1, zeros(1, 1),
                zeros(1), zeros(1), zeros(1), rows + 5, rows + host, rows, stepper, 0, False, 1e-9,
            )  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_evaluate_on_pair_statistics(rng, level, name):
    """What explanation asks for: any shape, and None for what is not read."""
    program = [(int(op), a, b, c) for op, a, b, c in PROGRAMS[name]]
    dot, dist2, dist1 = rng.normal(size=(5, 41)), rng.random((5, 41)) * 9, rng.random((5, 41)) * 5
    found = core.evaluate(program, dot, dist2, dist1)
    np.testing.assert_allclose(found, numpy_core.evaluate(program, dot, dist2, dist1), rtol=1e-13)
    read = {"polynomial": (dot, None, None), "gaussian": (None, dist2, None)}
    if name in read:
        assert np.array_equal(core.evaluate(program, *read[name]), found)
    with pytest.raises(ValueError, match="one number per pair"):
        made = core.program_of(program)
        native.evaluate(made, dot[:1], dist2[:2], dist1[:3], np.empty((5, 41)))


def test_backend_is_named():
    assert core.BACKEND == "numpy" or core.BACKEND.startswith("compiled (")
