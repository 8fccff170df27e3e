"""Triton kernels that evaluate: rows made ready, the block against the terms, small matrices.

What a program of the device holds of a row is its *operand*: the row as the kernel function sees
it, z, padded with zeros to a multiple of 16 features. In TF32 it is rounded to what the tensor
cores keep, and its squared norm is that of the rounded row: the distance is then that of two points
a little beside the data, and never a difference of two differently rounded numbers. Where three
TF32 products stand for one of float32, the operand is two halves, high part and low part.

A kernel function is a postfix program (``core.layout.Op``), coded as one integer, four bits for
each operation: it is a constant when the device code is compiled, its numbers are not.
"""

# Triton reads the source of these functions: annotations are its own, and names in capitals are
# constants of the compiled code.
# mypy: ignore-errors

import triton
import triton.language as tl

from onkel.gpu.codes import (
    GAUSSIAN,
    LAPLACIAN,
    LINEAR,
    MATERN32,
    MATERN52,
    POLYNOMIAL,
    PRODUCT,
    SCALE,
    SUM,
)

# MODE: 0 float32, 1 TF32, 2 three TF32 products. The ring's own numbers: see launch.Ring.


@triton.jit
def to_tf32(x):
    """Round to the nearest number with ten bits after the point, as the tensor cores keep."""
    bits = x.to(tl.int32, bitcast=True)
    return ((bits + 0x1000) & -8192).to(tl.float32, bitcast=True)


@triton.jit
def whole_power(x, DEGREE: tl.constexpr):
    """x^DEGREE by squaring."""
    result = x * 0.0 + 1.0
    square = x
    for bit in tl.static_range(8):
        if (DEGREE >> bit) & 1:
            result = result * square
        if (DEGREE >> bit) > 1:
            square = square * square
    return result


@triton.jit
def leaf(dot, dist2, dist1, a, b, OP: tl.constexpr, DEGREE: tl.constexpr):
    """One kernel of a program; `a` of the exponentials is -gamma log2(e)."""
    if OP == GAUSSIAN:
        value = tl.exp2(a * dist2)
    elif OP == LAPLACIAN:
        value = tl.exp2(a * dist1)
    elif OP == MATERN32:
        s = a * tl.sqrt(dist2)
        value = (1.0 + s) * tl.exp2(-1.4426950408889634 * s)
    elif OP == MATERN52:
        s = a * tl.sqrt(dist2)
        value = (1.0 + s + s * s * 0.3333333333333333) * tl.exp2(-1.4426950408889634 * s)
    elif OP == LINEAR:
        value = dot
    elif OP == POLYNOMIAL:
        value = whole_power(a * dot + b, DEGREE)
    else:
        tl.static_assert(False, "this kernel operation has no formula on the device")
    return value


@triton.jit
def operate(
    s0, s1, s2, s3, dot, dist2, dist1, a, b, OP: tl.constexpr, DEGREE: tl.constexpr
):  # fmt: skip
    """One operation of a program, on a stack of four."""
    if OP == SCALE:
        s0 = a * s0
    elif OP == SUM:
        s0 = s1 + s0
        s1 = s2
        s2 = s3
    elif OP == PRODUCT:
        s0 = s1 * s0
        s1 = s2
        s2 = s3
    else:
        s3 = s2
        s2 = s1
        s1 = s0
        s0 = leaf(dot, dist2, dist1, a, b, OP, DEGREE)
    return s0, s1, s2, s3


@triton.jit
def kernel_value(
    dot, dist2, dist1, numbers, PROGRAM: tl.constexpr, DEGREES: tl.constexpr, OPS: tl.constexpr
):
    """Run a kernel program on a tile of pair statistics."""
    s0 = dist2
    s1 = dist2
    s2 = dist2
    s3 = dist2
    for i in tl.static_range(OPS):
        a = tl.load(numbers + 2 * i)
        b = tl.load(numbers + 2 * i + 1)
        s0, s1, s2, s3 = operate(
            s0, s1, s2, s3, dot, dist2, dist1, a, b, (PROGRAM >> (4 * i)) & 15,
            (DEGREES >> (8 * i)) & 255,
        )  # fmt: skip
    return s0


@triton.jit(do_not_specialize=["n"])
def prepare(
    x, row_stride, column_stride, frame, numbers, v, operand, norms, diag, n, d,
    DP: tl.constexpr, MODE: tl.constexpr, INVARIANT: tl.constexpr, RAW: tl.constexpr,
    PROGRAM: tl.constexpr, DEGREES: tl.constexpr, OPS: tl.constexpr, ROWS: tl.constexpr,
    BD: tl.constexpr,
):  # fmt: skip
    """Rows as they are stored, their operands, squared norms and k(x, x).

    ``v = (x - center) unit``, ``z = width (v - shift)``; `frame` holds the four vectors and a
    fifth, the most that v may be. Not `RAW`: x is already v (after a change of the frame).
    """
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    here = rows < n
    wide: tl.constexpr = 2 * DP if MODE == 2 else DP
    total = tl.zeros([ROWS], tl.float64)
    for k in range(0, DP, BD):
        j = k + tl.arange(0, BD)
        inside = j < d
        both = here[:, None] & inside[None, :]
        raw = tl.load(
            x + rows[:, None] * row_stride + j[None, :] * column_stride, mask=both, other=0.0
        ).to(tl.float64)
        width = tl.load(frame + 2 * d + j, mask=inside, other=0.0)
        shift = tl.load(frame + 3 * d + j, mask=inside, other=0.0)
        if RAW:
            center = tl.load(frame + j, mask=inside, other=0.0)
            unit = tl.load(frame + d + j, mask=inside, other=0.0)
            raw = (raw - center[None, :]) * unit[None, :]
            if INVARIANT:
                most = tl.load(frame + 4 * d + j, mask=inside, other=0.0)
                raw = tl.minimum(tl.maximum(raw, -most[None, :]), most[None, :])
            stored = raw.to(tl.float32)
            tl.store(v + rows[:, None] * d + j[None, :], stored, mask=both)
            raw = stored.to(tl.float64)  # what follows depends on what is stored, and on that alone
        z = tl.where(both, width[None, :] * (raw - shift[None, :]), 0.0).to(tl.float32)
        place = operand + rows[:, None] * wide + j[None, :]
        full = here[:, None] & (j < DP)[None, :]
        if MODE == 0:
            tl.store(place, z, mask=full)
        else:
            high = to_tf32(z)
            tl.store(place, high, mask=full)
            if MODE == 2:
                tl.store(place + DP, to_tf32(z - high), mask=full)
            else:
                z = high
        wide_z = z.to(tl.float64)
        total += tl.sum(wide_z * wide_z, axis=1)
    norm = total.to(tl.float32)
    tl.store(norms + rows, norm, mask=here)
    tl.store(
        diag + rows, kernel_value(norm, norm * 0.0, norm * 0.0, numbers, PROGRAM, DEGREES, OPS),
        mask=here,
    )  # fmt: skip


@triton.jit
def distance1(q, q_rows, t, t_rows, d, stride, BM: tl.constexpr, BN: tl.constexpr):
    """sum_j abs(z_j - z'_j), feature by feature."""
    total = tl.zeros([BM, BN], tl.float32)
    for j in range(0, d):
        a = tl.load(q + q_rows * stride + j)
        b = tl.load(t + t_rows * stride + j)
        total += tl.abs(a[:, None] - b[None, :])
    return total


@triton.jit
def tile_dots(
    q, q_rows, t, t_rows, DP: tl.constexpr, BK: tl.constexpr, MODE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """Z . z' for a tile, operands by pointers (any rows, in any order)."""
    stride: tl.constexpr = 2 * DP if MODE == 2 else DP
    length: tl.constexpr = 3 * DP if MODE == 2 else DP
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, length, BK):
        part = k // DP
        at = k - part * DP + tl.arange(0, BK)
        left = at + (part == 2).to(tl.int32) * DP
        right = at + (part == 1).to(tl.int32) * DP
        a = tl.load(q + q_rows[:, None] * stride + left[None, :])
        b = tl.load(t + t_rows[:, None] * stride + right[None, :])
        if MODE == 0:
            acc = tl.dot(a, tl.trans(b), acc, input_precision="ieee")
        else:
            acc = tl.dot(a, tl.trans(b), acc, input_precision="tf32")
    return acc


@triton.jit
def tile_dots_tma(
    q, q_row, t, t_row, DP: tl.constexpr, BK: tl.constexpr, MODE: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    """The same for consecutive rows, operands by tensor descriptors (Hopper's copy engine)."""
    length: tl.constexpr = 3 * DP if MODE == 2 else DP
    acc = tl.zeros([BM, BN], tl.float32)
    for k in range(0, length, BK):
        part = k // DP
        at = k - part * DP
        a = q.load([q_row, at + (part == 2).to(tl.int32) * DP])
        b = t.load([t_row, at + (part == 1).to(tl.int32) * DP])
        acc = tl.dot(a, tl.trans(b), acc, input_precision="tf32")
    return acc


@triton.jit
def weighted(k, weights, slots, w_stride, out, C: tl.constexpr, CP: tl.constexpr):
    """Add the tile's weighted row sums to `out`, one column for each output."""
    if CP == 1:
        w = tl.load(weights + slots)
        out += tl.sum(k * w[None, :], axis=1)[:, None]
    else:
        column = tl.arange(0, CP)
        for c in tl.static_range(C):
            w = tl.load(weights + c * w_stride + slots)
            col = tl.sum(k * w[None, :], axis=1)
            out += tl.where(column[None, :] == c, col[:, None], 0.0)
    return out


@triton.jit
def ends_before(ring, row):
    """Whether the piece has no such row; 0 rows: nobody has said how many there are."""
    rows = tl.load(ring + 2)
    return (rows > 0) & (row >= rows)


@triton.jit(do_not_specialize=["row0"])
def sums(
    q, q_norm, t, t_norm, q_ptr, t_ptr, weights, partial, ring, numbers, row0, rows_padded, slots,
    w_stride, d, DP: tl.constexpr, MODE: tl.constexpr, C: tl.constexpr, CP: tl.constexpr,
    PROGRAM: tl.constexpr, DEGREES: tl.constexpr, OPS: tl.constexpr, DOT: tl.constexpr,
    L1: tl.constexpr, TMA: tl.constexpr, OLDEST: tl.constexpr, FLAT: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Sum over terms of weight * k(row, term): nothing of size block x terms leaves the registers.

    Program (i, j) takes BM rows and the j-th of as many equal shares of the terms as there are
    programs; its sums go to `partial` [shares][C][rows_padded], to be added in order. OLDEST: the
    rows are the oldest terms.
    """
    m0 = tl.program_id(0) * BM
    share = tl.program_id(1)
    head = tl.load(ring + 0)
    count = tl.load(ring + 1)
    stopped = tl.load(ring + 4)
    if not OLDEST:
        stopped += tl.where(ends_before(ring, row0 + m0), 1, 0)
    tiles = slots // BN
    first = (head // BN).to(tl.int32)
    used = tl.minimum((head % BN + count + BN - 1) // BN, tiles).to(tl.int32)
    used = tl.where(stopped == 0, used, 0)
    shares = tl.num_programs(1)
    lo = used * share // shares
    hi = used * (share + 1) // shares
    far = (row0 + m0 + tl.arange(0, BM)).to(tl.int64)
    if OLDEST:
        far = (head + far) % slots
    here = tl.arange(0, BN)
    qn = tl.load(q_norm + far)
    out = tl.zeros([BM, CP], tl.float32)
    stride: tl.constexpr = 2 * DP if MODE == 2 else DP
    if DOT and DP == BK and not TMA:  # the rows stay where they are
        at = tl.arange(0, BK)
        a = tl.load(q_ptr + far[:, None] * stride + at[None, :])
        if MODE == 2:
            a_low = tl.load(q_ptr + far[:, None] * stride + DP + at[None, :])
        for i in range(lo, hi):
            slot = ((first + i) % tiles) * BN + here
            place = t_ptr + slot.to(tl.int64)[:, None] * stride + at[None, :]
            b = tl.load(place)
            if MODE == 0:
                acc = tl.dot(a, tl.trans(b), input_precision="ieee")
            else:
                acc = tl.dot(a, tl.trans(b), input_precision="tf32")
            if MODE == 2:
                b_low = tl.load(place + DP)
                acc = tl.dot(a, tl.trans(b_low), acc, input_precision="tf32")
                acc = tl.dot(a_low, tl.trans(b), acc, input_precision="tf32")
            tn = tl.load(t_norm + slot)
            dist2 = tl.maximum(qn[:, None] + tn[None, :] - 2.0 * acc, 0.0)
            dist1 = dist2
            if L1:
                dist1 = distance1(q_ptr, far, t_ptr, slot.to(tl.int64), d, stride, BM, BN)
            k = kernel_value(acc, dist2, dist1, numbers, PROGRAM, DEGREES, OPS)
            out = weighted(k, weights, slot, w_stride, out, C, CP)
    else:
        for i in tl.range(lo, hi, flatten=FLAT):
            start = ((first + i) % tiles) * BN
            slot = start + here
            if DOT:
                if TMA:
                    acc = tile_dots_tma(q, row0 + m0, t, start, DP, BK, MODE, BM, BN)
                else:
                    acc = tile_dots(q_ptr, far, t_ptr, slot.to(tl.int64), DP, BK, MODE, BM, BN)
            else:
                acc = tl.zeros([BM, BN], tl.float32)
            tn = tl.load(t_norm + slot)
            dist2 = tl.maximum(qn[:, None] + tn[None, :] - 2.0 * acc, 0.0)
            dist1 = dist2
            if L1:
                dist1 = distance1(q_ptr, far, t_ptr, slot.to(tl.int64), d, stride, BM, BN)
            k = kernel_value(acc, dist2, dist1, numbers, PROGRAM, DEGREES, OPS)
            out = weighted(k, weights, slot, w_stride, out, C, CP)
    column = tl.arange(0, CP)
    row = m0 + tl.arange(0, BM)
    place = partial + (share * C + column)[None, :] * rows_padded + row[:, None]
    tl.store(place, out, mask=(column < C)[None, :] & (row < rows_padded)[:, None])


@triton.jit(do_not_specialize=["row0", "n", "old"])
def matrix(
    t, t_norm, q, q_norm, ring, numbers, out, row0, n, slots, d, old,
    DP: tl.constexpr, MODE: tl.constexpr, PROGRAM: tl.constexpr, DEGREES: tl.constexpr,
    OPS: tl.constexpr, DOT: tl.constexpr, L1: tl.constexpr, KIND: tl.constexpr, B: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Kernel values that the scalar steps read, `out` [.][B].

    KIND 0: row i is the i-th oldest term, column j the block's j-th row; 1: both are rows of the
    block (above the diagonal nothing is read, and so nothing computed); 2: both are old terms.
    """
    i0 = tl.program_id(0) * BM
    j0 = tl.program_id(1) * BN
    head = tl.load(ring + 0)
    count = tl.minimum(tl.load(ring + 1), old).to(tl.int32)
    stopped = tl.load(ring + 4) + tl.where(ends_before(ring, row0), 1, 0)
    i = i0 + tl.arange(0, BM)
    j = j0 + tl.arange(0, BN)
    stride: tl.constexpr = 2 * DP if MODE == 2 else DP
    if KIND == 0:
        wanted = (i0 < count) & (j0 < n)
        i_rows = (head + i) % slots
        j_rows = (row0 + j).to(tl.int64)
        left = t
        left_norm = t_norm
        right = q
        right_norm = q_norm
    elif KIND == 1:
        wanted = (i0 <= j0 + BN) & (j0 < n)
        i_rows = (row0 + i).to(tl.int64)
        j_rows = (row0 + j).to(tl.int64)
        left = q
        left_norm = q_norm
        right = q
        right_norm = q_norm
    else:
        wanted = (i0 < count) & (j0 < count)
        i_rows = (head + i) % slots
        j_rows = (head + j) % slots
        left = t
        left_norm = t_norm
        right = t
        right_norm = t_norm
    if wanted & (stopped == 0):
        if DOT:
            acc = tile_dots(left, i_rows, right, j_rows, DP, BK, MODE, BM, BN)
        else:
            acc = tl.zeros([BM, BN], tl.float32)
        a = tl.load(left_norm + i_rows)
        b = tl.load(right_norm + j_rows)
        dist2 = tl.maximum(a[:, None] + b[None, :] - 2.0 * acc, 0.0)
        dist1 = dist2
        if L1:
            dist1 = distance1(left, i_rows, right, j_rows, d, stride, BM, BN)
        k = kernel_value(acc, dist2, dist1, numbers, PROGRAM, DEGREES, OPS)
        tl.store(out + i.to(tl.int64)[:, None] * B + j[None, :], k)
