"""What no matrix product gives of a pair of rows: sums over features, and codes.

Rows lie feature by feature here, *turned*: first their codes, which are equal or not, then their
numbers, where sums over them are wanted.
"""

# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def add_code(
    total, q, q_stride, q_rows, t, t_stride, t_rows, u, j, AGREE: tl.constexpr
):  # fmt: skip
    """What the code j adds to a tile: to products where it agrees, to distances where it differs.

    Products get half of what two different ones are apart, u, as of one-hot rows.
    """
    far = tl.cast(j, tl.int64)
    a = tl.load(q + far * q_stride + q_rows)
    b = tl.load(t + far * t_stride + t_rows)
    same = a[:, None] == b[None, :]
    if AGREE:
        total += tl.where(same, 0.5 * u, 0.0)
    else:
        total += tl.where(same, 0.0, u)
    return total


@triton.jit
def add_codes(
    total, q, q_stride, q_rows, t, t_stride, t_rows, apart, CODES: tl.constexpr,
    AGREE: tl.constexpr,
):  # fmt: skip
    """What all codes add: up to eight are written out, so that the loop over tiles has none inside.

    More go by fours (launch.FOUR), for which there are enough registers; behind the last one
    `apart` is 0.
    """
    if CODES <= 8:
        for j in tl.static_range(CODES):
            u = tl.load(apart + j)
            total = add_code(total, q, q_stride, q_rows, t, t_stride, t_rows, u, j, AGREE)
    else:
        for k in range(0, CODES, 4):
            for j in tl.static_range(4):
                u = tl.load(apart + k + j)
                at = tl.minimum(k + j, CODES - 1)
                total = add_code(total, q, q_stride, q_rows, t, t_stride, t_rows, u, at, AGREE)
    return total


@triton.jit
def products(
    dot, q, q_stride, q_rows, t, t_stride, t_rows, apart, CODES: tl.constexpr
):  # fmt: skip
    """Add what codes are to the products of numbers."""
    if CODES > 0:
        dot = add_codes(dot, q, q_stride, q_rows, t, t_stride, t_rows, apart, CODES, True)
    return dot


@triton.jit
def distance1(
    total, q, q_stride, q_rows, t, t_stride, t_rows, d, apart, CODES: tl.constexpr
):  # fmt: skip
    """Add to zeros what codes are apart and sum_j abs(z_j - z'_j) of d numbers.

    Numbers go eight at a time (launch.EIGHT).
    """
    if CODES > 0:
        total = add_codes(total, q, q_stride, q_rows, t, t_stride, t_rows, apart, CODES, False)
    for k in range(0, d, 8):
        q_at = q + tl.cast(CODES + k, tl.int64) * q_stride
        t_at = t + tl.cast(CODES + k, tl.int64) * t_stride
        for j in tl.static_range(8):
            a = tl.load(q_at + j * q_stride + q_rows)
            b = tl.load(t_at + j * t_stride + t_rows)
            total += tl.abs(a[:, None] - b[None, :])
    return total


@triton.jit
def no_sums(BM: tl.constexpr, BN: tl.constexpr):
    """Zeros, spread over the threads as for a plain matrix product: squares of pairs to each.

    So a row or a term that is loaded serves several pairs; as a tile is spread otherwise, it would
    serve one.
    """
    left = tl.zeros([BM, 16], tl.float32)
    right = tl.zeros([16, BN], tl.float32)
    return tl.dot(left, right, input_precision="ieee")
