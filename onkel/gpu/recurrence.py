"""The scalar steps of a block in one program of the device, and the commit of what they decide.

Rows are taken 32 at a time, one to a lane. One step follows another inside a warp: a row's score
is picked by a shuffle, the rule moves a handful of float64 numbers, and the rows that come later in
the 32 add ``coef * k``. After each 32, all rows of the block that are still to come are brought up
to date with what these have added and dropped (kernel values of
:func:`onkel.gpu.kernels.matrix`), each thread on columns of its own. What only counts (losses,
alerts, mistakes) is computed for 32 rows at once afterwards.

Sums and coefficients are in stored units, actual = scale * stored, so that shrinking costs
nothing here either. The readable form of a step is ``core/numpy_core.py``.
"""

# mypy: ignore-errors
# ruff: noqa: D103

import triton
import triton.language as tl

from onkel.gpu.codes import (
    ABSOLUTE,
    EPSILON_INSENSITIVE,
    EXPONENTIAL,
    HUBER,
    LEAST_SQUARES,
    LOGISTIC,
    NOVELTY,
    SOFT_MARGIN,
    SQUARED,
)


@triton.jit
def sign(x):
    return tl.where(x > 0, 1.0, 0.0).to(tl.float64) - tl.where(x < 0, 1.0, 0.0).to(tl.float64)


@triton.jit
def judge(z, y, threshold, nu, extra, LOSS: tl.constexpr, POWER1: tl.constexpr):
    """Slope -l', outside, value l and direction of the threshold (``core/src/rules.hpp``)."""
    none = z * 0.0
    outside = none
    direction = none
    if LOSS == SOFT_MARGIN:
        gap = threshold - y * z
        outside = tl.where(y * z <= threshold, 1.0, none)
        value = tl.maximum(gap, 0.0)
        slope = tl.where(y * z <= threshold, y, none)
        if not POWER1:
            safe = tl.maximum(value, 1e-300)
            grown = tl.where(value > 0, tl.exp((extra - 1.0) * tl.log(safe)), 0.0)
            slope = slope * extra * grown
            value = value * grown
        value = value - nu * threshold
        direction = nu - outside
    elif LOSS == LOGISTIC:  # its slope needs no more digits than the kernel values have
        m = y * z
        e = tl.exp(-tl.abs(m).to(tl.float32))
        part = tl.where(m > 0, e, 1.0) / (1.0 + e)
        slope = y * part.to(tl.float64)
        outside = tl.where(m <= 0, 1.0, none)
        value = tl.log(1.0 + tl.exp(-tl.abs(m))) + tl.maximum(-m, 0.0)
    elif LOSS == NOVELTY:
        gap = threshold - z
        outside = tl.where(z < threshold, 1.0, none)
        slope = outside
        value = tl.maximum(gap, 0.0) - extra * threshold
        direction = extra - outside
    elif LOSS == SQUARED:
        slope = y - z
        value = 0.5 * slope * slope
    elif LOSS == ABSOLUTE:
        delta = y - z
        slope = sign(delta)
        value = tl.abs(delta)
    elif LOSS == EPSILON_INSENSITIVE:
        delta = y - z
        gap = tl.abs(delta) - threshold
        outside = tl.where(gap > 0, 1.0, none)
        slope = tl.where(gap > 0, sign(delta), none)
        value = tl.maximum(gap, 0.0) + nu * threshold
        direction = outside - nu
    elif LOSS == HUBER:
        delta = y - z
        size = tl.abs(delta)
        outside = tl.where(size > threshold, 1.0, none)
        width = tl.maximum(threshold, 1e-300)
        inner = size < threshold
        slope = tl.where(inner, delta / width, sign(delta))
        value = tl.where(inner, delta * delta / (2.0 * width), size - threshold / 2)
        direction = outside - nu
    elif LOSS == LEAST_SQUARES:  # on margins
        gap = 1.0 - y * z
        slope = 2.0 * y * gap
        outside = tl.where(y * z <= 0, 1.0, none)
        value = gap * gap
    elif LOSS == EXPONENTIAL:
        gap = -y * z
        held = tl.minimum(gap, 30.0)  # then a straight line
        value = tl.exp(held)
        slope = y * value
        value = value * (1.0 + (gap - held))
        outside = tl.where(y * z <= 0, 1.0, none)
    else:
        tl.static_assert(False, "this loss has no formula on the device")
    return slope, outside, value, direction


@triton.jit
def pick(x, i, ROWS: tl.constexpr):
    """Lane i of x [ROWS][32], by one shuffle: a number, or [ROWS][1] for several outputs."""
    found = tl.gather(x, tl.zeros([ROWS, 1], tl.int32) + i, 1)
    if ROWS == 1:
        found = tl.sum(tl.sum(found, axis=1), axis=0)
    return found


@triton.jit
def wrapped(i, slots):
    """I modulo slots, for i below 2 slots."""
    return tl.where(i >= slots, i - slots, i)


@triton.jit
def lanes_sum(values, CP: tl.constexpr):
    """Sum over the lanes, for each output."""
    if CP == 1:
        found = tl.sum(tl.sum(values, axis=1), axis=0)
    else:
        found = tl.sum(values, axis=1, keep_dims=True)
    return found


@triton.jit
def bring_up(
    s, matrix, coef, c_stride, offset, slots, upto, factor, columns, B: tl.constexpr,
    C: tl.constexpr, CP: tl.constexpr, CHUNK: tl.constexpr, TURNED: tl.constexpr,
):  # fmt: skip
    """S + factor * sum_{i < upto} coef_i K[i, columns]; coefficients from `offset` on, in a ring.

    TURNED: K[columns, i] instead.
    """
    i = tl.arange(0, CHUNK)
    output = tl.arange(0, CP)
    if CP == 1:
        total = tl.zeros([CHUNK, 32], tl.float32)
    for start in range(0, upto, CHUNK):
        at = start + i
        held = at < upto
        if TURNED:
            place = columns * B + at[:, None]
        else:
            place = at[:, None] * B + columns
        k = tl.load(matrix + place, mask=held[:, None], other=0.0)
        slot = wrapped(offset + at, slots)
        if CP == 1:
            a = tl.load(coef + slot, mask=held, other=0.0).to(tl.float32)
            total += a[:, None] * k
        else:
            for c in tl.static_range(C):
                a = tl.load(coef + c * c_stride + slot, mask=held, other=0.0).to(tl.float32)
                part = tl.sum(a[:, None] * k, axis=0)
                s += factor * tl.where(output[:, None] == c, part[None, :], 0.0)
    if CP == 1:
        s += factor * tl.sum(total, axis=0)[None, :]
    return s


@triton.jit
def carry(
    base, own_k, old_k, gained, lost, t0, r, w0, gone, n, B: tl.constexpr, C: tl.constexpr,
    CP: tl.constexpr, WIDE: tl.constexpr, DROPS: tl.constexpr = 1,
):  # fmt: skip
    """Add to the sums of all rows still to come what r rows from t0 on have changed.

    `gained`: what they added, a lane each; `lost`: the coefficients of the terms from w0 on, of
    which the first `gone` were dropped (DROPS 0: none). A thread has columns of its own: nothing
    is waited for.
    """
    output = tl.arange(0, CP)[:, None]
    for start in range((t0 + r) // 32 * 32, n, WIDE):
        column = start // 32 * 32 + tl.arange(0, WIDE)[None, :]
        later = (column >= t0 + r) & (column < n)
        none = column * 0
        total = tl.zeros([CP, WIDE], tl.float32)
        for some in range(0, 32, 16):
            for one in tl.static_range(16):
                i = some + one
                mine = later & (none + i < r)
                k = tl.load(own_k + (t0 + i) * B + column, mask=mine, other=0.0)
                total += pick(gained, i, CP) * k
                if DROPS > 0:
                    theirs = later & (none + i < gone)
                    k = tl.load(old_k + (w0 + i) * B + column, mask=theirs, other=0.0)
                    total -= pick(lost, i, CP) * k
        place = base + output * B + column
        mask = later & (output < C)
        tl.store(place, tl.load(place, mask=mask, other=0.0) + total, mask=mask)


@triton.jit(do_not_specialize=["shares"])
def add_up(
    partial, out, where, rows, shares, C: tl.constexpr, SHARES: tl.constexpr, WIDTH: tl.constexpr
):  # fmt: skip
    """Add the shares of the terms, always in the same order; double precision costs nothing.

    `where`: which outputs these are.
    """
    at = tl.program_id(0) * WIDTH + tl.arange(0, WIDTH)
    c = tl.program_id(1)
    share = tl.arange(0, SHARES)
    place = partial + (share * C + c)[:, None] * rows + at[None, :]
    values = tl.load(place, mask=(share < shares)[:, None] & (at < rows)[None, :], other=0.0)
    total = tl.sum(values.to(tl.float64), axis=0)
    tl.store(out + tl.load(where + c) * rows + at, total.to(tl.float32), mask=at < rows)
