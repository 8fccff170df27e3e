"""Kernels after the scalar steps: what members decided together, what is stored, what goes."""

# mypy: ignore-errors

import triton
import triton.language as tl

from onkel.gpu.codes import AT_DROPPED, AT_SCALE, FIELDS
from onkel.gpu.kernels import in_reach
from onkel.gpu.recurrence import wrapped


@triton.jit(do_not_specialize=["row0", "n"])
def commit(
    v, operand, turned, norms, diag, added, slot_of, trial, t_rows, t_operand, t_turned, t_norm,
    t_diag, coef, weights, births, ring, row0, n, N, slots, d, turned_stride, diag_stride,
    C: tl.constexpr, KERNELS: tl.constexpr, WIDE: tl.constexpr, TALL: tl.constexpr,
    CURSOR: tl.constexpr, ROWS: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Copy the rows that became terms to their places in the ring; `trial` is that of row 0.

    CURSOR: the rows are those that the ring says a bank has just learned.
    """
    if CURSOR:
        row0 = tl.load(ring + 9).to(tl.int32)
        n = tl.load(ring + 10).to(tl.int32)
    row = row0 + tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    slot = tl.load(slot_of + row, mask=row < row0 + n, other=-1)
    born = slot >= 0
    for k in range(0, d, BD):
        j = k + tl.arange(0, BD)
        mask = born[:, None] & (j < d)[None, :]
        value = tl.load(v + row[:, None] * d + j[None, :], mask=mask)
        tl.store(t_rows + slot[:, None] * d + j[None, :], value, mask=mask)
    for k in range(0, WIDE, BD):
        j = k + tl.arange(0, BD)
        mask = born[:, None] & (j < WIDE)[None, :]
        value = tl.load(operand + row[:, None] * WIDE + j[None, :], mask=mask)
        tl.store(t_operand + slot[:, None] * WIDE + j[None, :], value, mask=mask)
    for k in range(0, TALL, BD):
        j = (k + tl.arange(0, BD)).to(tl.int64)
        mask = born[:, None] & (j < TALL)[None, :]
        value = tl.load(turned + j[None, :] * turned_stride + row[:, None], mask=mask)
        tl.store(t_turned + j[None, :] * slots + slot[:, None], value, mask=mask)
    tl.store(t_norm + slot, tl.load(norms + row, mask=born), mask=born)
    for p in tl.static_range(KERNELS):
        size = tl.load(diag + p * diag_stride + row, mask=born)
        tl.store(t_diag + p * slots + slot, size, mask=born)
    tl.store(births + slot, tl.load(trial) + row, mask=born)
    for c in range(0, C):
        a = tl.load(added + c * N + row, mask=born)
        tl.store(coef + c * slots + slot, a, mask=born)
        tl.store(weights + c * slots + slot, a.to(tl.float32), mask=born)


@triton.jit
def any_bit(why, BIT: tl.constexpr):
    """BIT, if any of these has it."""
    return tl.max((why >> BIT) & 1, axis=0) << BIT


@triton.jit
def gather(
    told, added, state, fresh, ring, slot_of, N, slots, columns, MEMBERS: tl.constexpr,
    MP: tl.constexpr, SIZE: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """Take a block over as the members of a bank have learned it: what one stores is stored.

    A member that had to stop before others holds all of them up: nothing is taken over, and the
    next block takes only the rows that every member has done. SIZE: numbers of the state.
    """
    n = in_reach(ring, B)
    member = tl.arange(0, MP)
    here = member < MEMBERS
    done = tl.load(told + 2 * member, mask=here, other=B + 1)
    why = tl.load(told + 2 * member + 1, mask=here, other=0)
    least = tl.min(done, axis=0)
    most = tl.max(tl.where(here, done, 0), axis=0)
    reason = any_bit(why, 0) + any_bit(why, 1) + any_bit(why, 2) + any_bit(why, 3) + any_bit(why, 4)
    head = tl.load(ring + 0)
    count = tl.load(ring + 1)
    row0 = tl.load(ring + 3)
    before = tl.load(ring + 4)
    tl.debug_barrier()
    tl.store(ring + 9, row0)
    if (n > 0) & (least == most):
        row = tl.arange(0, B)
        there = row < least
        kept = tl.zeros([B], tl.int32)
        for c in range(0, columns):
            a = tl.load(added + c * N + row0 + row, mask=there, other=0.0)
            kept = kept | tl.where(a != 0, 1, 0)
        slot = wrapped(wrapped(head + count, slots) + tl.cumsum(kept, axis=0) - kept, slots)
        slot = tl.where(kept > 0, slot, -1)
        tl.store(slot_of + row0 + row, slot, mask=there)
        for start in range(0, SIZE, 1024):
            at = start + tl.arange(0, 1024)
            tl.store(state + at, tl.load(fresh + at, mask=at < SIZE), mask=at < SIZE)
        last = tl.max(tl.where(row == least - 1, slot, -1), axis=0)
        tl.store(ring + 1, count + tl.sum(kept, axis=0))
        tl.store(ring + 3, row0 + least)
        tl.store(ring + 4, before | reason)
        tl.store(ring + 5, last)
        tl.store(ring + 6, tl.full([], 1, tl.int64) << 40)
        tl.store(ring + 10, least.to(tl.int64))
    else:
        tl.store(ring + 10, tl.zeros([], tl.int64))
        if n > 0:
            tl.store(ring + 6, least.to(tl.int64))


@triton.jit
def let_go(
    t_diag, coef, weights, state, ring, kernel_of, slots, columns, C: tl.constexpr,
    CP: tl.constexpr, MANY: tl.constexpr,
):  # fmt: skip
    """If the ring is full: let its oldest terms go; their size is part of each output's bound."""
    head = tl.load(ring + 0)
    count = tl.load(ring + 1)
    going = tl.load(ring + 8)
    full = count >= tl.load(ring + 7)
    tl.debug_barrier()
    if full:
        for column in range(0, columns):
            member = column // C
            kernel = tl.load(kernel_of + member)
            total = tl.zeros([MANY], tl.float64)
            for start in range(0, going, MANY):
                i = start + tl.arange(0, MANY)
                mask = i < going
                slot = wrapped(head + i, slots)
                a = tl.load(coef + column * slots + slot, mask=mask, other=0.0)
                size = tl.load(t_diag + kernel * slots + slot, mask=mask, other=0.0)
                total += tl.abs(a) * tl.sqrt(tl.maximum(size.to(tl.float64), 0.0))
                none = tl.zeros([MANY], tl.float32)
                tl.store(weights + column * slots + slot, none, mask=mask)
            place = state + (member * CP + column % C) * FIELDS
            lost = tl.load(place + AT_DROPPED)
            lost += tl.abs(tl.load(place + AT_SCALE)) * tl.sum(total, axis=0)
            tl.debug_barrier()
            tl.store(place + AT_DROPPED, lost)
        tl.store(ring + 0, wrapped(head + going, slots))
        tl.store(ring + 1, count - going)
