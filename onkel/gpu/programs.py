"""Kernel functions as integers: what the device code is compiled for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onkel.core.layout import Op, Program, Reads, operation_of, reads_of
from onkel.gpu.devices import allow

LOG2E = 1.4426950408889634


@dataclass(frozen=True)
class Encoded:
    """A kernel program as the device code takes it."""

    code: int
    degrees: int
    ops: int
    params: Any
    dot: bool
    l1: bool


def encode(program: Program, device: Any) -> Encoded:
    """Return a kernel program for the device; ``devices.unfit`` has seen to its size."""
    code = degrees = 0
    params = []
    for i, (op, a, b, c) in enumerate(program):
        row = operation_of(op)
        allow("kernel operation", row)
        code |= (int(op) + 1) << (4 * i)
        degrees |= (int(c) if op == Op.POLYNOMIAL else 0) << (8 * i)
        params += [-a * LOG2E if row.operation.exponential else a, b]
    reads = reads_of(program)
    numbers = torch.tensor(params, dtype=torch.float32, device=device)
    dot = bool(reads & {Reads.DOT, Reads.DIST2})
    return Encoded(code, degrees, len(program), numbers, dot, Reads.DIST1 in reads)


Span = tuple[int, int]
"""The first of some outputs, and how many there are."""


@dataclass(frozen=True)
class Packed:
    """Several kernel functions over the same pairs, and the outputs that each serves.

    Of each function: its number among all, and the span of its outputs.
    """

    functions: tuple[Encoded, ...]
    which: tuple[int, ...]
    spans: tuple[Span, ...]
    starts: tuple[int, ...]
    """Where each one's numbers begin among those of all functions."""

    @property
    def dot(self) -> bool:
        """Whether any needs inner products."""
        return any(f.dot for f in self.functions)

    @property
    def l1(self) -> bool:
        """Whether any needs sums over features."""
        return any(f.l1 for f in self.functions)

    @property
    def columns(self) -> list[int]:
        """The outputs, in the order in which they come."""
        return [c for first, count in self.spans for c in range(first, first + count)]

    @property
    def constants(self) -> dict[str, int]:
        """What is compiled in, of the functions."""
        f = self.functions
        return {
            "KERNELS": len(f), "PROGRAM": _packed([e.code for e in f], 64),
            "DEGREES": _packed([e.degrees for e in f], 128), "OPS": _packed([e.ops for e in f], 8),
            "NUMBERS": _packed(self.starts, 16),
        }  # fmt: skip

    @property
    def served(self) -> dict[str, int]:
        """What is compiled in, of the outputs: the first of each, where it comes, how many."""
        counts = [count for _, count in self.spans]
        before = [sum(counts[:i]) for i in range(len(counts))]
        return {
            "FIRST": _packed([first for first, _ in self.spans], 16),
            "AT": _packed(before, 16), "COUNT": _packed(counts, 16),
        }  # fmt: skip

    @property
    def planes(self) -> dict[str, int]:
        """What is compiled in, of where matrices of values go."""
        return {"WHICH": _packed(self.which, 16)}


def _packed(numbers: Sequence[int], bits: int) -> int:
    """Return numbers one after another in one integer, so many bits each."""
    found = 0
    for i, number in enumerate(numbers):
        assert 0 <= number < 1 << bits
        found |= number << (bits * i)
    return found


def together(functions: Sequence[Encoded]) -> Packed:
    """Return all functions in one, for no outputs."""
    return Packed(tuple(functions), tuple(range(len(functions))), (), _starts(functions))


def _starts(functions: Sequence[Encoded]) -> tuple[int, ...]:
    return tuple(2 * sum(f.ops for f in functions[:i]) for i in range(len(functions)))


def packed(functions: Sequence[Encoded], counts: Sequence[int], most: int) -> list[Packed]:
    """Return the functions as they are launched: those together that read the same of a pair.

    `counts`: how many outputs each serves, in their order; `most` outputs in one launch.
    """
    starts = _starts(functions)
    groups: dict[tuple[bool, bool], list[tuple[int, Span]]] = {}
    first = 0
    for i, (f, count) in enumerate(zip(functions, counts, strict=True)):
        for at in range(0, count, most):
            span = first + at, min(most, count - at)
            groups.setdefault((f.dot, f.l1), []).append((i, span))
        first += count
    found = []
    for held in groups.values():
        for some in _in_turn(held, most):
            which = tuple(i for i, _ in some)
            spans = tuple(span for _, span in some)
            found.append(Packed(
                tuple(functions[i] for i in which), which, spans, tuple(starts[i] for i in which)
            ))  # fmt: skip
    return found


def _in_turn(held: list[tuple[int, Span]], most: int) -> list[list[tuple[int, Span]]]:
    """Return spans in order, cut where there would be more than `most` outputs."""
    found: list[list[tuple[int, Span]]] = [[]]
    for one in held:
        if found[-1] and sum(count for _, (_, count) in found[-1]) + one[1][1] > most:
            found.append([])
        found[-1].append(one)
    return found
