"""Triton kernels that evaluate: rows made ready, the block against the terms, small matrices.

What a program of the device holds of a row is its *operand*: the row as the kernel function sees
it, z, padded with zeros to a multiple of 16 features. In TF32 it is rounded to what the tensor
cores keep, and its squared norm is that of the rounded row: the distance is then that of two points
a little beside the data, and never a difference of two differently rounded numbers. Where three
TF32 products stand for one of float32, the operand is two halves, high part and low part. Of
codes, which are a row's first columns, there are none in it: what no matrix product gives
(``features.py``) is read from rows that lie feature by feature, *turned*.
"""

# Triton reads the source of these functions: annotations are its own, and names in capitals are
# constants of the compiled code.
# mypy: ignore-errors

import triton
import triton.language as tl

from onkel.gpu.features import distance1, no_sums, products
from onkel.gpu.functions import one_of

# MODE: 0 float32, 1 TF32, 2 three TF32 products. The ring's own numbers: see launch.Ring.


@triton.jit
def to_tf32(x):
    """Round to the nearest number with ten bits after the point, as the tensor cores keep."""
    bits = x.to(tl.int32, bitcast=True)
    return ((bits + 0x1000) & -8192).to(tl.float32, bitcast=True)


@triton.jit(do_not_specialize=["n"])
def prepare(
    x, row_stride, column_stride, frame, numbers, apart, v, operand, turned, norms, diag, n, d,
    turned_stride, diag_stride, DP: tl.constexpr, MODE: tl.constexpr, CODES: tl.constexpr,
    INVARIANT: tl.constexpr, RAW: tl.constexpr, DOT: tl.constexpr, L1: tl.constexpr,
    KERNELS: tl.constexpr, PROGRAM: tl.constexpr, DEGREES: tl.constexpr, OPS: tl.constexpr,
    NUMBERS: tl.constexpr, ROWS: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Rows as they are stored, their operands, squared norms and k(x, x) of each kernel.

    ``v = (x - center) unit``, ``z = width (v - shift)``; `frame` holds the four vectors and a
    fifth, the most that v may be. Not `RAW`: x is already v (after a change of the frame). The
    first CODES columns are what they are.
    """
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    here = rows < n
    wide: tl.constexpr = 2 * DP if MODE == 2 else DP
    total = tl.zeros([ROWS], tl.float64)
    for k in range(0, CODES, 16):
        j = k + tl.arange(0, 16)
        both = here[:, None] & (j < CODES)[None, :]
        code = tl.load(
            x + rows[:, None] * row_stride + j[None, :] * column_stride, mask=both, other=0.0
        ).to(tl.float32)
        if RAW:
            tl.store(v + rows[:, None] * d + j[None, :], code, mask=both)
        tl.store(turned + j.to(tl.int64)[None, :] * turned_stride + rows[:, None], code, mask=both)
        u = tl.load(apart + j, mask=j < CODES, other=0.0).to(tl.float64)
        total += tl.sum(0.5 * u, axis=0)
    for k in range(0, DP, BD):
        j = k + tl.arange(0, BD)
        column = CODES + j
        inside = column < d
        both = here[:, None] & inside[None, :]
        raw = tl.load(
            x + rows[:, None] * row_stride + column[None, :] * column_stride, mask=both, other=0.0
        ).to(tl.float64)
        width = tl.load(frame + 2 * d + column, mask=inside, other=0.0)
        shift = tl.load(frame + 3 * d + column, mask=inside, other=0.0)
        if RAW:
            center = tl.load(frame + column, mask=inside, other=0.0)
            unit = tl.load(frame + d + column, mask=inside, other=0.0)
            raw = (raw - center[None, :]) * unit[None, :]
            if INVARIANT:
                most = tl.load(frame + 4 * d + column, mask=inside, other=0.0)
                raw = tl.minimum(tl.maximum(raw, -most[None, :]), most[None, :])
            stored = raw.to(tl.float32)
            tl.store(v + rows[:, None] * d + column[None, :], stored, mask=both)
            raw = stored.to(tl.float64)  # what follows depends on what is stored, and on that alone
        z = tl.where(both, width[None, :] * (raw - shift[None, :]), 0.0).to(tl.float32)
        place = operand + rows[:, None] * wide + j[None, :]
        full = here[:, None] & (j < DP)[None, :]
        if L1:
            far = column.to(tl.int64)[None, :] * turned_stride + rows[:, None]
            tl.store(turned + far, z, mask=both)
        if MODE == 0:
            if DOT:
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
    none = norm * 0.0
    for p in tl.static_range(KERNELS):
        size = one_of(p, norm, none, none, numbers, PROGRAM, DEGREES, OPS, NUMBERS)
        tl.store(diag + p * diag_stride + rows, size, mask=here)


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
def weighted(
    k, weights, slots, w_stride, out, FIRST: tl.constexpr, AT: tl.constexpr, COUNT: tl.constexpr,
    CP: tl.constexpr,
):  # fmt: skip
    """Add the tile's row sums, weighted by columns FIRST ..., to the columns AT ... of `out`."""
    if CP == 1:
        w = tl.load(weights + FIRST * w_stride + slots)
        out += tl.sum(k * w[None, :], axis=1)[:, None]
    else:
        column = tl.arange(0, CP)
        for c in tl.static_range(COUNT):
            w = tl.load(weights + (FIRST + c) * w_stride + slots)
            col = tl.sum(k * w[None, :], axis=1)
            out += tl.where(column[None, :] == AT + c, col[:, None], 0.0)
    return out


@triton.jit
def add_kernels(
    dot, dist2, dist1, numbers, weights, slots, w_stride, out, KERNELS: tl.constexpr,
    PROGRAM: tl.constexpr, DEGREES: tl.constexpr, OPS: tl.constexpr, NUMBERS: tl.constexpr,
    FIRST: tl.constexpr, AT: tl.constexpr, COUNT: tl.constexpr, CP: tl.constexpr,
):  # fmt: skip
    """Each kernel function once on the tile's statistics, weighted for the outputs it serves."""
    for p in tl.static_range(KERNELS):
        k = one_of(p, dot, dist2, dist1, numbers, PROGRAM, DEGREES, OPS, NUMBERS)
        out = weighted(
            k, weights, slots, w_stride, out, (FIRST >> (16 * p)) & 65535,
            (AT >> (16 * p)) & 65535, (COUNT >> (16 * p)) & 65535, CP,
        )  # fmt: skip
    return out


@triton.jit
def ends_before(ring, row):
    """Whether the piece has no such row; 0 rows: nobody has said how many there are."""
    rows = tl.load(ring + 2)
    return (rows > 0) & (row >= rows)


@triton.jit
def in_reach(ring, n):
    """Rows that the next block of a bank takes, n at most: as many as need no term to go."""
    left = tl.minimum(tl.load(ring + 2) - tl.load(ring + 3), tl.load(ring + 7) - tl.load(ring + 1))
    left = tl.maximum(tl.minimum(tl.minimum(left, tl.load(ring + 6)), n), 0)
    return tl.where(tl.load(ring + 4) == 0, left, 0).to(tl.int32)


@triton.jit(do_not_specialize=["row0"])
def sums(
    q, q_norm, t, t_norm, q_ptr, t_ptr, q_turned, t_turned, weights, partial, ring, numbers, apart,
    row0, rows_padded, slots, w_stride, q_stride, d, DP: tl.constexpr, MODE: tl.constexpr,
    CODES: tl.constexpr, C: tl.constexpr, CP: tl.constexpr, KERNELS: tl.constexpr,
    PROGRAM: tl.constexpr, DEGREES: tl.constexpr, OPS: tl.constexpr, NUMBERS: tl.constexpr,
    FIRST: tl.constexpr, AT: tl.constexpr, COUNT: tl.constexpr, DOT: tl.constexpr,
    L1: tl.constexpr, TMA: tl.constexpr, OLDEST: tl.constexpr, CURSOR: tl.constexpr,
    FLAT: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Sum over terms of weight * k(row, term): nothing of size block x terms leaves the registers.

    Program (i, j) takes BM rows and the j-th of as many equal shares of the terms as there are
    programs; its sums go to `partial` [shares][C][rows_padded], to be added in order. OLDEST: the
    rows are the oldest terms. CURSOR: the rows begin where the ring says, and end there too.
    """
    m0 = tl.program_id(0) * BM
    share = tl.program_id(1)
    head = tl.load(ring + 0)
    count = tl.load(ring + 1)
    stopped = tl.load(ring + 4)
    if CURSOR:
        row0 = tl.load(ring + 3).to(tl.int32)
        stopped += tl.where(m0 >= in_reach(ring, rows_padded), 1, 0)
    elif not OLDEST:
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
    if L1:
        none = no_sums(BM, BN)
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
            acc = products(
                acc, q_turned, q_stride, far, t_turned, slots, slot.to(tl.int64), apart, CODES
            )  # fmt: skip
            tn = tl.load(t_norm + slot)
            dist2 = tl.maximum(qn[:, None] + tn[None, :] - 2.0 * acc, 0.0)
            dist1 = dist2
            if L1:
                dist1 = distance1(
                    none, q_turned, q_stride, far, t_turned, slots, slot.to(tl.int64), d, apart,
                    CODES,
                )  # fmt: skip
            out = add_kernels(
                acc, dist2, dist1, numbers, weights, slot, w_stride, out, KERNELS, PROGRAM,
                DEGREES, OPS, NUMBERS, FIRST, AT, COUNT, CP,
            )  # fmt: skip
    else:
        for i in tl.range(lo, hi, flatten=FLAT):
            start = ((first + i) % tiles) * BN
            slot = start + here
            if DOT:
                if TMA:
                    acc = tile_dots_tma(q, row0 + m0, t, start, DP, BK, MODE, BM, BN)
                else:
                    acc = tile_dots(q_ptr, far, t_ptr, slot.to(tl.int64), DP, BK, MODE, BM, BN)
                acc = products(
                    acc, q_turned, q_stride, far, t_turned, slots, slot.to(tl.int64), apart, CODES
                )  # fmt: skip
                tn = tl.load(t_norm + slot)
                dist2 = tl.maximum(qn[:, None] + tn[None, :] - 2.0 * acc, 0.0)
            else:
                acc = none
                dist2 = none
            dist1 = dist2
            if L1:
                dist1 = distance1(
                    none, q_turned, q_stride, far, t_turned, slots, slot.to(tl.int64), d, apart,
                    CODES,
                )  # fmt: skip
            out = add_kernels(
                acc, dist2, dist1, numbers, weights, slot, w_stride, out, KERNELS, PROGRAM,
                DEGREES, OPS, NUMBERS, FIRST, AT, COUNT, CP,
            )  # fmt: skip
    column = tl.arange(0, CP)
    row = m0 + tl.arange(0, BM)
    place = partial + (share * C + column)[None, :] * rows_padded + row[:, None]
    tl.store(place, out, mask=(column < C)[None, :] & (row < rows_padded)[:, None])


@triton.jit(do_not_specialize=["row0", "n", "old"])
def matrix(
    t, t_norm, t_turned, q, q_norm, q_turned, ring, numbers, apart, out, row0, n, slots, q_stride,
    plane, d, old, DP: tl.constexpr, MODE: tl.constexpr, CODES: tl.constexpr,
    KERNELS: tl.constexpr, PROGRAM: tl.constexpr, DEGREES: tl.constexpr, OPS: tl.constexpr,
    NUMBERS: tl.constexpr, WHICH: tl.constexpr, DOT: tl.constexpr, L1: tl.constexpr,
    KIND: tl.constexpr, CURSOR: tl.constexpr, B: tl.constexpr, BM: tl.constexpr,
    BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Kernel values that the scalar steps read, `out` [.][B], a plane for each kernel function.

    KIND 0: row i is the i-th oldest term, column j the block's j-th row; 1: both are rows of the
    block (above the diagonal nothing is read, and so nothing computed); 2: both are old terms.
    """
    i0 = tl.program_id(0) * BM
    j0 = tl.program_id(1) * BN
    head = tl.load(ring + 0)
    count = tl.minimum(tl.load(ring + 1), old).to(tl.int32)
    stopped = tl.load(ring + 4) + tl.where(ends_before(ring, row0), 1, 0)
    if CURSOR:
        row0 = tl.load(ring + 3).to(tl.int32)
        n = in_reach(ring, n)
    i = i0 + tl.arange(0, BM)
    j = j0 + tl.arange(0, BN)
    if KIND == 0:
        wanted = (i0 < count) & (j0 < n)
        i_rows = (head + i) % slots
        j_rows = (row0 + j).to(tl.int64)
        left = t
        left_norm = t_norm
        right = q
        right_norm = q_norm
        left_turned = t_turned
        left_stride = slots
        right_turned = q_turned
        right_stride = q_stride
    elif KIND == 1:
        wanted = (i0 <= j0 + BN) & (j0 < n)
        i_rows = (row0 + i).to(tl.int64)
        j_rows = (row0 + j).to(tl.int64)
        left = q
        left_norm = q_norm
        right = q
        right_norm = q_norm
        left_turned = q_turned
        left_stride = q_stride
        right_turned = q_turned
        right_stride = q_stride
    else:
        wanted = (i0 < count) & (j0 < count)
        i_rows = (head + i) % slots
        j_rows = (head + j) % slots
        left = t
        left_norm = t_norm
        right = t
        right_norm = t_norm
        left_turned = t_turned
        left_stride = slots
        right_turned = t_turned
        right_stride = slots
    if wanted & (stopped == 0):
        if DOT:
            acc = tile_dots(left, i_rows, right, j_rows, DP, BK, MODE, BM, BN)
            acc = products(
                acc, left_turned, left_stride, i_rows, right_turned, right_stride, j_rows, apart,
                CODES,
            )  # fmt: skip
        else:
            acc = tl.zeros([BM, BN], tl.float32)
        a = tl.load(left_norm + i_rows)
        b = tl.load(right_norm + j_rows)
        dist2 = tl.maximum(a[:, None] + b[None, :] - 2.0 * acc, 0.0)
        dist1 = dist2
        if L1:
            none = no_sums(BM, BN)
            dist1 = distance1(
                none, left_turned, left_stride, i_rows, right_turned, right_stride, j_rows, d,
                apart, CODES,
            )  # fmt: skip
        place = out + i.to(tl.int64)[:, None] * B + j[None, :]
        for p in tl.static_range(KERNELS):
            k = one_of(p, acc, dist2, dist1, numbers, PROGRAM, DEGREES, OPS, NUMBERS)
            tl.store(place + ((WHICH >> (16 * p)) & 65535) * plane, k)
