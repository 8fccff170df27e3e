"""Codes in kernels: plain loops and explicit one-hot rows are the truth, for both cores."""

from __future__ import annotations

from typing import Any

import naive
import numpy as np
import pytest
from helpers import coded
from helpers.agreement import close

from onkel import core, kernels
from onkel.core import bank, numpy_core
from onkel.core.frame import Frame
from onkel.core.layout import LANES

TOLERANCE = {np.float64: 1e-12, np.float32: 3e-6}
SHAPES = [(3, 4), (3, 9), (1, 1), (3, 0)]
"""Codes and numbers: distances by differences, by products, one of each, codes alone."""


def made_ready(kernel: kernels.Kernel, X: Any, codes: int) -> tuple[Frame, Any]:
    frame = Frame.plain(X[0], X.dtype, kernel.translation_invariant, coded.U[:codes])
    mean, spread = np.full(X.shape[1], 0.4), np.full(X.shape[1], 1.7)
    return frame.standardised(mean, spread, X[1]), X


def truth(name: str, frame: Frame, X: Any, Z: Any) -> Any:
    k = naive.on_codes(coded.KERNELS[name][1], frame.apart)
    left, right = (frame.z(frame.store(rows)) for rows in (X, Z))
    return np.array([[k(x, z) for z in right] for x in left])


def panels_of(frame: Frame, rows: Any) -> tuple[Any, Any]:
    """Return rows as panels of terms, and their norms."""
    ready, count = frame.prepare(rows), -(-len(rows) // LANES)
    panels, norms = np.zeros((count, rows.shape[1], LANES), frame.dtype), np.zeros((count, LANES))
    for i, (v, norm) in enumerate(zip(ready.v, ready.norm, strict=True)):
        panels[i // LANES, :, i % LANES], norms[i // LANES, i % LANES] = v, norm
    return panels, norms.astype(frame.dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", coded.KERNELS)
def test_matrix_equals_plain_loops(rng: Any, name: str, shape: Any, dtype: Any) -> None:
    kernel = coded.KERNELS[name][0]
    frame, X = made_ready(kernel, coded.rows(rng, 21, *shape, dtype), shape[0])
    Z, program = coded.rows(rng, 13, *shape, dtype), kernel.program()
    wanted, terms = truth(name, frame, X, Z), frame.prepare(Z)
    for found in (core, numpy_core):
        values = found.matrix(program, frame.prepare(X), terms.v, terms.norm)
        close(values, wanted, TOLERANCE[dtype], f"{name} by {found.__name__}")
    np.testing.assert_array_equal(frame.prepare(X).v[:, : shape[0]], X[:, : shape[0]])


@pytest.mark.few
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_of_all_kernels_equal_plain_loops(rng: Any, shape: Any, dtype: Any) -> None:
    """One kernel at a time, and all of them as a bank; tiles of rows, and single ones."""
    X = coded.rows(rng, 90, *shape, dtype)
    programs = [kernel.program() for kernel, _ in coded.KERNELS.values()]
    frame, _ = made_ready(kernels.Linear(), X, shape[0])
    panels, norms = panels_of(frame, X)
    coef = rng.normal(size=(len(panels), len(programs), LANES)).astype(dtype)
    weights = coef.transpose(0, 2, 1).reshape(-1, len(programs))[: len(X)]
    coef[-1, :, len(X) % LANES :] = 0
    for rows in (1, 3, 19):
        Z = coded.rows(rng, rows, *shape, dtype)
        wanted = np.column_stack([
            truth(name, frame, Z, X) @ weights[:, i] for i, name in enumerate(coded.KERNELS)
        ])  # fmt: skip
        queries, ends = frame.prepare(Z), [*range(1, len(programs) + 1)]
        found = bank.sums(programs, ends, queries, bank.Panels(panels, norms, 0, len(panels), coef))
        close(found, wanted, 20 * TOLERANCE[dtype], "as a bank")
        for i, program in enumerate(programs):
            own = np.ascontiguousarray(coef[:, i : i + 1])
            single = core.sums(program, queries, panels, norms, 0, len(panels), own)
            close(single[:, 0], wanted[:, i], 20 * TOLERANCE[dtype], "alone")


@pytest.mark.parametrize("name", coded.KERNELS)
def test_codes_are_one_hot_rows(rng: Any, name: str) -> None:
    kernel, _ = coded.KERNELS[name]
    if name in ("sum", "product"):
        pytest.skip("they read two distances, which need one-hot entries of two sizes")
    X = coded.rows(rng, 40)
    frame = Frame.plain(np.zeros(7), np.float64, kernel.translation_invariant, coded.U)
    ready, program = frame.prepare(X), kernel.program()
    assert program is not None
    values = core.matrix(program, ready, ready.v, ready.norm)
    close(values, kernel(naive.one_hot(X, coded.U, name == "laplacian")), 1e-12, name)


def test_equal_rows_are_at_no_distance(rng: Any) -> None:
    """Many codes of odd weights: what is summed one way must not be left over the other way."""
    apart = tuple(rng.uniform(0.01, 3.0, 33).tolist())
    X = np.hstack([rng.integers(0, 2**24, (9, 33)), rng.normal(size=(9, 8))]).astype(np.float32)
    kernel = kernels.Laplacian(50.0) + kernels.Linear()
    frame = Frame.plain(X[0], np.float32, False, apart)
    ready = frame.prepare(X)
    values = core.matrix(kernels.Laplacian(50.0).program(), ready, ready.v, ready.norm)
    np.testing.assert_array_equal(np.diag(values), 1.0)
    program = kernel.program()
    assert program is not None
    both = core.matrix(program, ready, ready.v, ready.norm)
    close(np.diag(both), 1.0 + ready.norm, 1e-6, "beside products")


def test_more_codes_than_columns_are_refused() -> None:
    if not core.has_lane():
        pytest.skip("the compiled core checks what it is handed")
    zeros = np.zeros
    with pytest.raises(ValueError, match="more codes than columns"):
        core.compiled.QueriesD(zeros((2, 3)), zeros((2, 3)), zeros(2), zeros(2), zeros(3), 4)
    with pytest.raises(ValueError, match="more codes than columns"):
        core.compiled.FrameD(*zeros((4, 3)), zeros(4), True, 1.0)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_a_code(dtype: Any) -> None:
    fine, bad = [0.0, 1.0, 2.0**24 - 1], [-1.0, 0.5, 2.0**24, 2.0**32 + 5, -1e30, np.nan, np.inf]
    for value in (*fine, *bad):
        rows = np.full((3, 5), 7.0, dtype)
        rows[1, 2] = value
        assert core.has_codes(rows, 3) == (value in fine) == numpy_core.are_codes(rows).all()
        assert core.has_codes(rows, 2) and core.has_codes(rows[::2], 3)
