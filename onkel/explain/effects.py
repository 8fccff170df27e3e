"""What each feature did to ``s(x) = base + sum_i a_i k(x, z_i)``: numbers only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core.layout import Node, Op, Program, Reads, operation_of, reads_of
from onkel.kernels import Kernel

Array = NDArray[Any]

AT_ONCE = 2**17
"""Numbers that are held at once: a megabyte stays in the processor's cache."""
BEYOND = 800.0
"""exp(-800) is 0: distances are cut where every kernel of them has vanished."""
STEP = 1e-6
"""By which slopes are taken, where no formula says them."""


@dataclass(frozen=True)
class Effects:
    """What came out, for terms and features."""

    method: str
    """"leave one out", "split", "gradient" or "replaced"."""
    likeness: Array
    """k(x, z_i)."""
    effect: Array
    """How much each feature moved s(x), against what it would be without it."""
    part: Array | None = None
    """What each feature adds, if s(x) - base is their sum."""

    def with_more(self, more: Array) -> Effects:
        """Return the effects of a sum of which each feature adds so much more by itself."""
        part = None if self.part is None else self.part + more
        return replace(self, effect=self.effect + more, part=part)


def method_of(kernel: Kernel) -> str:
    """Return how the features' effects are found."""
    if kernel.additive:
        return "split"
    program = kernel.program()
    if program is not None and Reads.DOT not in reads_of(program):
        return "leave one out"
    return "gradient"


@dataclass(frozen=True)
class Pairs:
    """A row and the stored ones as numbers whose differences or products are what a kernel sees.

    A code is 0 where it is the row's own and 1 where it is not, for a kernel of distances, which
    counts it `apart`; for one of products it is sqrt(apart / 2) in both rows or in one.
    """

    x: Array
    Z: Array
    apart: Array
    """Of each feature: what its distances are multiplied by."""
    owners: Array | None = None
    """Of each feature: the number of the column that it was made of."""

    def part(self, which: slice) -> Pairs:
        """Return the same for some of the stored rows."""
        return replace(self, Z=self.Z[which])


def joined(values: Array, owners: Array | None) -> Array:
    """Return for each feature [..][features] the sum over all that one column was made into.

    Examples
    --------
    >>> joined(np.array([1.0, 2.0, 3.0]), np.array([0, 1, 0]))
    array([4., 2., 4.])
    """
    if owners is None:
        return values
    found: Array = (values @ (owners[:, None] == np.arange(owners.max() + 1)))[..., owners]
    return found


def pairs_of(
    kernel: Kernel, x: Array, Z: Array, apart: Sequence[float], owners: Array | None = None
) -> Pairs:
    """Return rows as the kernel sees them, the first of whose columns are codes."""
    weight = np.ones(len(x))
    if not apart:
        return Pairs(x, Z, weight, owners)
    codes = len(apart)
    same, x, Z = Z[:, :codes] == x[:codes], x.copy(), Z.copy()
    if method_of(kernel) == "leave one out":
        weight[:codes], x[:codes], Z[:, :codes] = apart, 0.0, ~same
    else:
        x[:codes] = np.sqrt(np.array(apart) / 2)
        Z[:, :codes] = same * x[:codes]
    return Pairs(x, Z, weight, owners)


def effects(
    kernel: Kernel, x: Array, Z: Array, a: Array, apart: Sequence[float] = (),
    owners: Array | None = None,
) -> Effects:  # fmt: skip
    """Return the effects of features and the likeness of terms, by what suits the kernel.

    `x` and the rows of `Z` are as the kernel sees them; the first columns are codes. Features of
    one owner have one effect: that of all of them together.
    """
    method, pairs = method_of(kernel), pairs_of(kernel, x, Z, apart, owners)
    if method == "leave one out":
        return _by_leaving_out(kernel, pairs, a)
    found = (_by_split if method == "split" else _by_gradient)(kernel, pairs.x, pairs.Z, a)
    return of_columns(found, owners)


def of_columns(found: Effects, owners: Array | None) -> Effects:
    """Return effects that add up, of whole columns."""
    part = None if found.part is None else joined(found.part, owners)
    return replace(found, effect=joined(found.effect, owners), part=part)


def effects_each(
    kernel: Kernel, x: Array, Z: Array, A: Array, apart: Sequence[float] = (),
    owners: Array | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Return k(x, z_i), and the effects of features [columns of `A`][features].

    The same as :func:`effects` for each column; what they share is computed once.
    """
    if method_of(kernel) == "leave one out":
        likeness, left = _left_out(kernel, pairs_of(kernel, x, Z, apart, owners), A)
        return likeness, (likeness @ A)[:, None] - left
    found = [effects(kernel, x, Z, a, apart, owners) for a in A.T]
    return found[0].likeness, np.array([each.effect for each in found])


def _chunks(rows: int, width: int) -> Iterator[slice]:
    step = max(AT_ONCE // max(width, 1), 1)
    for start in range(0, rows, step):
        yield slice(start, start + step)


def typical(Z: Array, a: Array) -> Array:
    """Return the mean of the stored rows, weighted by abs(a); 0 if there are none."""
    weight = np.abs(a)
    total = float(weight.sum())
    return weight @ Z / total if total > 0 else np.zeros(Z.shape[1])


# -- leaving one feature out -------------------------------------------------------------------


def without(program: Program, pairs: Pairs, which: Any = slice(None)) -> tuple[Array, Array]:
    """Return k(x, z), and k without each of these features: as if x agreed with z in that one.

    A kernel of distances sees the other features' distance alone. For products over features
    (Gaussian, Laplacian and their products) this is k without that feature's factor.
    """
    reads, gap = reads_of(program), pairs.Z - pairs.x
    whole: dict[str, Any] = {"dist2": None, "dist1": None}
    less: dict[str, Any] = {"dist2": None, "dist1": None}
    sizes = [("dist1", Reads.DIST1, np.abs), ("dist2", Reads.DIST2, np.square)]
    for name, read, measure in sizes:
        if read in reads:
            size = np.minimum(measure(gap) * pairs.apart, _farthest(program, read))
            total = size.sum(axis=1)
            left = total[:, None] - joined(size, pairs.owners)[:, which]
            whole[name], less[name] = total, np.maximum(left, 0.0, out=left)
    return core.evaluate(program, None, **whole), core.evaluate(program, None, **less)


def _farthest(program: Program, read: Reads) -> float:
    """Return the distance beyond which every kernel of it vanishes, infinity if one does not.

    What is farther is cut there: of 1e20 + 1 - 1e20 nothing would be left.
    """
    reach = [0.0]
    for code, a, *_ in program:
        row = operation_of(code).operation
        if row.reads == read:
            most = BEYOND / a if row.vanishes and a > 0 else np.inf
            reach.append(most**2 if row.rooted else most)
    return max(reach)


def alike(kernel: Kernel, x: Array, Z: Array, which: Any, apart: Sequence[float] = ()) -> Array:
    """Return k without each of these features, one row per z."""
    program = kernel.program()
    assert program is not None
    found, pairs = np.empty((len(Z), len(which))), pairs_of(kernel, x, Z, apart)
    for part in _chunks(len(Z), len(x)):
        found[part] = without(program, pairs.part(part), which)[1]
    return found


def _by_leaving_out(kernel: Kernel, pairs: Pairs, a: Array) -> Effects:
    likeness, left = _left_out(kernel, pairs, a[:, None])
    return Effects("leave one out", likeness, float(a @ likeness) - left[0])


def _left_out(kernel: Kernel, pairs: Pairs, A: Array) -> tuple[Array, Array]:
    """Return k(x, z_i), and the sums without each feature [columns of `A`][features]."""
    program = kernel.program()
    assert program is not None
    rows, width = pairs.Z.shape
    likeness, left = np.zeros(rows), np.zeros((A.shape[1], width))
    for part in _chunks(rows, width):
        likeness[part], less = without(program, pairs.part(part))
        left += A[part].T @ less
    return likeness, left


# -- the exact split ---------------------------------------------------------------------------


def _by_split(kernel: Kernel, x: Array, Z: Array, a: Array) -> Effects:
    likeness, own, usual = np.zeros(len(Z)), np.zeros(len(x)), np.zeros(len(x))
    middle = typical(Z, a)
    for part in _chunks(len(Z), len(x)):
        of_features = kernel.parts(x, Z[part])
        likeness[part] = of_features.sum(axis=1)
        own += a[part] @ of_features
        usual += a[part] @ kernel.parts(middle, Z[part])
    return Effects("split", likeness, own - usual, own)


# -- the gradient ------------------------------------------------------------------------------


def gradient(kernel: Kernel, x: Array, Z: Array, a: Array) -> Array:
    """Return ds/dx: exactly where the kernel is a program, else by central differences."""
    program = kernel.program()
    total = np.zeros(len(x))
    for part in _chunks(len(Z), 2 * len(x)):
        own = _differences(kernel, x, Z[part], a[part]) if program is None else _chain(
            program, x, Z[part], a[part]
        )  # fmt: skip
        total += own
    return total


def _chain(program: Program, x: Array, Z: Array, a: Array) -> Array:
    """The chain rule: k is a function of x . z, |x - z|^2 and |x - z|_1, each of x."""
    gap = x - Z
    dot, far2, far1 = Z @ x, np.einsum("ij,ij->i", gap, gap), np.abs(gap).sum(axis=1)
    by_dot, by_far2, by_far1 = _slopes(program, dot, far2, far1)
    found = (a * by_dot) @ Z + 2.0 * (a * by_far2) @ gap
    if np.any(by_far1):
        found = found + (a * by_far1) @ np.sign(gap)
    return found


def _slopes(program: Program, dot: Array, far2: Array, far1: Array) -> Array:
    """Return dk/d(dot), dk/d(far2), dk/d(far1), by running values and slopes side by side."""
    stack: list[tuple[Array, Array]] = []
    for node in program:
        op = operation_of(node[0])
        if op == Op.SUM:
            (v, dv), (w, dw) = stack.pop(), stack.pop()
            stack.append((v + w, dv + dw))
        elif op == Op.PRODUCT:
            (v, dv), (w, dw) = stack.pop(), stack.pop()
            stack.append((v * w, v * dw + w * dv))
        elif op == Op.SCALE:
            v, dv = stack.pop()
            stack.append((node[1] * v, node[1] * dv))
        elif op.operation.pops == 0:
            read = {Reads.DOT: dot, Reads.DIST2: far2, Reads.DIST1: far1}
            value, own = _leaf(node, read)
            slope = np.zeros((3, len(dot)))
            slope[list(read).index(op.operation.reads)] = own
            stack.append((value, slope))
        else:
            raise NotImplementedError(
                f"kernel operation {op.name} joins values, but onkel/explain/effects.py has no "
                "slope for it. Write it beside those of SUM and PRODUCT."
            )
    return stack[0][1]


def _leaf(node: Node, read: dict[Reads, Array]) -> tuple[Array, Any]:
    """Return a kernel of one operation, and its slope by what it reads."""
    op, a, b, c = operation_of(node[0]), *node[1:]
    x = read[op.operation.reads]

    def value(at: Array) -> Array:
        given = [at if r == op.operation.reads else None for r in read]
        return core.evaluate([node], *given)

    if op == Op.LINEAR:
        return value(x), 1.0
    if op == Op.POLYNOMIAL:
        return value(x), c * a * (a * x + b) ** (c - 1)
    if op.operation.exponential:
        found = value(x)
        return found, -a * found
    if op in (Op.MATERN32, Op.MATERN52):
        s = a * np.sqrt(x)  # (1 + s) e^-s and (1 + s + s^2/3) e^-s, by s^2 / a^2
        inner = 1.0 if op == Op.MATERN32 else (1.0 + s) / 3.0
        return value(x), -0.5 * a * a * inner * np.exp(-s)
    step = STEP * np.maximum(np.abs(x), 1.0)  # no formula here: by differences, never below 0
    low = x - step if op.operation.reads == Reads.DOT else np.maximum(x - step, 0.0)
    return value(x), (value(x + step) - value(low)) / (x + step - low)


def _differences(kernel: Kernel, x: Array, Z: Array, a: Array) -> Array:
    """Central differences, a step of 1e-5 of the rows' spread each way."""
    d, spread = len(x), Z.std(axis=0)
    step = 1e-5 * np.where(spread > 0, spread, np.maximum(np.abs(x), 1.0))
    both = np.concatenate([x + np.diag(step), x - np.diag(step)])
    found = kernel.values(both, Z) @ a
    return (found[:d] - found[d:]) / (2 * step)


def _by_gradient(kernel: Kernel, x: Array, Z: Array, a: Array) -> Effects:
    likeness = np.zeros(len(Z))
    for part in _chunks(len(Z), len(x)):
        likeness[part] = kernel.values(x[None], Z[part])[0]
    effect = gradient(kernel, x, Z, a) * (x - typical(Z, a))
    return Effects("gradient", likeness, effect)


# -- what is usual -----------------------------------------------------------------------------


def sharpened(likeness: Array, weight: Array, least: float = 10.0) -> Array:
    """Return weight times the highest power (1, 2, 4, ...) of likeness that leaves enough terms.

    How many terms weights are worth is ``(sum w)^2 / sum w^2``; `least` of them should be left.
    """
    most = float(likeness[weight > 0].max(initial=0.0))
    if not most > 0:
        return weight
    power = likeness / most
    best = weight * power
    for _ in range(10):
        power = power * power
        w = weight * power
        if float(w.sum()) ** 2 < least * float(w @ w):
            break
        best = w
    return best


def quantiles(values: Array, weight: Array, fractions: tuple[float, ...]) -> list[float]:
    """Return weighted quantiles: the least value with at least that fraction of the weight.

    What weighs less than a billionth of the heaviest is left out, to have less to sort.

    Examples
    --------
    >>> quantiles(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]), (0.25, 0.5, 0.9))
    [1.0, 2.0, 3.0]
    """
    heavy = weight > 1e-9 * weight.max()
    values, weight = values[heavy], weight[heavy]
    order = np.argsort(values)
    total = np.cumsum(weight[order])
    at = np.searchsorted(total, np.array(fractions) * total[-1] * (1 - 1e-12))
    return [float(values[order[min(i, len(order) - 1)]]) for i in at]
