"""Kernel functions on the device: programs that run on the statistics of pairs.

A kernel function is a postfix program (``core.layout.Op``), coded as one integer, four bits for
each operation: it is a constant when the device code is compiled, its numbers are not. Several
kernel functions over the same pairs stand one after another in that integer, 64 bits each, and so
does what goes with them (``programs.Packed``).
"""

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


@triton.jit
def one_of(
    p: tl.constexpr, dot, dist2, dist1, numbers, PROGRAM: tl.constexpr, DEGREES: tl.constexpr,
    OPS: tl.constexpr, NUMBERS: tl.constexpr,
):  # fmt: skip
    """The p-th of several kernel functions."""
    return kernel_value(
        dot, dist2, dist1, numbers + ((NUMBERS >> (16 * p)) & 65535), PROGRAM >> (64 * p),
        DEGREES >> (128 * p), (OPS >> (8 * p)) & 255,
    )  # fmt: skip
