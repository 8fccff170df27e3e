"""How the kernels are launched: programs as integers, tiles, buffers of one block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import torch

from onkel.core.layout import LossCode, Op, Program, Reads, RuleCode, operation_of, reads_of, row_of
from onkel.gpu import kernels as device_code
from onkel.gpu.devices import allow, interpreted

MODES = {"float32": 0, "tf32": 1, "tf32x3": 2}
INTERPRETED = interpreted()
LOG2E = 1.4426950408889634
TOGETHER = 64 if INTERPRETED else 8
"""Rows that one program makes ready, or stores."""
WIDTH = 64
"""Rows whose shares one program adds."""
EDGE = 64
"""Rows by which a buffer is longer than what is used of it."""


class Ring(IntEnum):
    """Places in the ring's own numbers on the device, which the kernels know by number."""

    HEAD = 0
    """Where the oldest term lies."""
    COUNT = 1
    """Terms held."""
    ROWS = 2
    """Rows of the piece; 0: nobody has said."""
    DONE = 3
    """Rows learned since the ring was told where it is."""
    WHY = 4
    """Why a block stopped; those behind it do nothing."""
    LAST = 5
    """Where the last row became a term; below 0: it did not."""


def send(array: Any, device: Any) -> Any:
    """Copy an array to the device; nothing is waited for.

    By way of memory that the device can read on its own: a plain copy would wait for all that was
    launched before it.
    """
    found = torch.from_numpy(np.ascontiguousarray(array))
    if device.type == "cpu":
        return found
    return found.pin_memory().to(device, non_blocking=True)


@dataclass(frozen=True)
class Encoded:
    """A kernel program as the device code takes it."""

    code: int
    degrees: int
    ops: int
    params: Any
    dot: bool
    l1: bool

    @property
    def constants(self) -> dict[str, int]:
        """What is compiled in."""
        return {"PROGRAM": self.code, "DEGREES": self.degrees, "OPS": self.ops}


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


def padded(d: int) -> int:
    """Return the width of an operand: a power of two up to 128, then a multiple of 32.

    Examples
    --------
    >>> padded(3), padded(50), padded(784)
    (16, 64, 800)
    """
    if d <= 128:
        return max(16, 1 << (d - 1).bit_length())
    return -(-d // 32) * 32


@dataclass(frozen=True)
class Tiles:
    """Shape of a tile of rows x terms, features at a time, and how it is run."""

    bm: int
    bn: int
    bk: int
    warps: int
    stages: int
    tma: bool = False
    """Operands by Hopper's copy engine."""
    flat: bool = False
    """One loop over tiles and features: the next tile is on its way while this one is summed."""
    per: int = 1
    """Programs for each multiprocessor: one sums while another multiplies."""

    @property
    def options(self) -> dict[str, int]:
        """What the compiler of the device takes."""
        return {"num_warps": self.warps, "num_stages": self.stages}


def choose_tiles(dp: int, mode: int, l1: bool, columns: int) -> Tiles:
    """Return the tile that was fastest on an H200 for operands of this width."""
    if INTERPRETED:
        return Tiles(64, 64, min(dp, 128) if dp <= 128 else 32, 4, 1)
    if l1:
        return Tiles(64, 64, dp if dp <= 128 else 32, 4, 2, per=2)
    if mode == 0:
        return Tiles(128, 64, 16, 4, 2, per=4) if dp <= 16 else Tiles(128, 64, 32, 4, 2, per=2)
    if dp <= 16:
        return Tiles(128, 128, 16, 4, 4 - mode, per=2)
    if dp <= 64:
        return Tiles(128, 128, dp, 8, 3 if dp * mode <= 64 else 2, per=2 if dp * mode <= 32 else 1)
    if dp <= 128 and mode == 1:
        return Tiles(128, 128, dp, 8, 2)
    return Tiles(128, 256, 32, 8, 3, True, True) if columns == 1 else Tiles(128, 128, 32, 8, 3)


def multiprocessors(device: Any) -> int:
    """Return how many programs can run at once without sharing."""
    if INTERPRETED:
        return 8
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


@dataclass
class Terms:
    """The ring of terms on the device; `ring` holds the numbers of :class:`Ring`."""

    rows: Any
    operand: Any
    norm: Any
    diag: Any
    coef: Any
    weights: Any
    births: Any
    ring: Any

    @classmethod
    def empty(cls, slots: int, d: int, wide: int, columns: int, device: Any) -> Terms:
        """Return a ring without terms."""

        def zeros(shape: Any, dtype: Any = torch.float32) -> Any:
            return torch.zeros(shape, dtype=dtype, device=device)

        cp = power_of_two(columns)
        return cls(
            zeros((slots, d)), zeros((slots, wide)), zeros(slots), zeros(slots),
            zeros((cp, slots), torch.float64), zeros((cp, slots)), zeros(slots, torch.int64),
            zeros(len(Ring), torch.int64),
        )  # fmt: skip

    @property
    def slots(self) -> int:
        """How many terms there is room for."""
        return int(self.norm.shape[0])


@dataclass
class Rows:
    """Rows of one run, made ready: stored form, operand, squared norm, k(x, x)."""

    v: Any
    operand: Any
    norm: Any
    diag: Any


def power_of_two(n: int) -> int:
    """Return the least power of two that is not below n."""
    return 1 << (max(n, 1) - 1).bit_length()


class Launcher:
    """Launches the kernels for one kernel function, precision and number of features."""

    def __init__(
        self, program: Encoded, d: int, mode: int, device: Any, tiles: Tiles | None = None,
        columns: int = 1,
    ) -> None:  # fmt: skip
        self.program, self.d, self.device = program, d, device
        if program.l1:
            mode = 0  # feature by feature there is nothing to gain
        self.mode = mode
        self.dp = padded(d)
        self.wide = 2 * self.dp if mode == 2 else self.dp
        self.tiles = tiles or choose_tiles(self.dp, mode, program.l1, columns)
        self.most = multiprocessors(device)
        small = min(self.dp, 32) if mode else 16
        self.small = Tiles(64, 64, small, 4, 3)
        self.few = Tiles(64, 64, small, 4, 2)
        """For rows that lie anywhere in the ring."""

    def room(self, n: int) -> Rows:
        """Return room for n rows."""
        most = -(-n // 256) * 256 + 256

        def empty(*shape: int) -> Any:
            return torch.zeros(shape, dtype=torch.float32, device=self.device)

        return Rows(empty(most, self.d), empty(most, self.wide), empty(most), empty(most))

    def prepare(self, x: Any, frame: Any, invariant: bool, room: Rows | None = None) -> Rows:
        """Make rows ready; `frame` is [5][d]: center, unit, width, shift, most that v may be."""
        rows = self.room(len(x)) if room is None else room
        self.ready(x, frame, invariant, True, rows.v, rows.operand, rows.norm, rows.diag)
        return rows

    def ready(
        self, x: Any, frame: Any, invariant: bool, raw: bool, v: Any, operand: Any, norm: Any,
        diag: Any,
    ) -> None:  # fmt: skip
        """The same into given arrays."""
        n, d = x.shape
        device_code.prepare[(-(-n // TOGETHER),)](
            x, x.stride(0), x.stride(1), frame, self.program.params, v, operand, norm, diag, n, d,
            DP=self.dp, MODE=self.mode, INVARIANT=invariant, RAW=raw, ROWS=TOGETHER,
            BD=min(self.dp, 64) if self.dp <= 128 else 32, **self.program.constants,
        )  # fmt: skip

    def splits(self, n: int, slots: int) -> int:
        """Return into how many shares the terms go, so that all multiprocessors have work."""
        across = -(-n // self.tiles.bm)
        return max(1, min(self.tiles.per * self.most // across, slots // self.tiles.bn))

    def sums(
        self, rows: Rows, row0: int, n: int, terms: Terms, columns: int, partial: Any, splits: int,
        room: int, oldest: bool = False,
    ) -> None:  # fmt: skip
        """Sum weight * k over the terms, for n rows from `row0` on (or for the n oldest terms)."""
        t, p = self.few if oldest else self.tiles, self.program
        q, q_norm = (terms.operand, terms.norm) if oldest else (rows.operand, rows.norm)
        tma = t.tma
        q_arg, t_arg = q, terms.operand
        if tma:
            from triton.tools.tensor_descriptor import TensorDescriptor

            q_arg = TensorDescriptor.from_tensor(q, [t.bm, t.bk])
            t_arg = TensorDescriptor.from_tensor(terms.operand, [t.bn, t.bk])
        device_code.sums[(-(-n // t.bm), splits)](
            q_arg, q_norm, t_arg, terms.norm, q, terms.operand, terms.weights, partial, terms.ring,
            p.params, row0, room, terms.slots, terms.slots, self.d, DP=self.dp, MODE=self.mode,
            C=columns, CP=power_of_two(columns), DOT=p.dot, L1=p.l1, TMA=tma, OLDEST=oldest,
            FLAT=t.flat, BM=t.bm, BN=t.bn, BK=t.bk, **p.constants, **t.options,
        )  # fmt: skip

    def matrix(
        self, kind: int, rows: Rows, row0: int, n: int, terms: Terms, old: int, out: Any
    ) -> None:
        """Kernel values: 0 old terms against the block, 1 the block, 2 old terms."""
        t, p, b = self.small, self.program, int(out.shape[1])
        high, wide = (old, n) if kind == 0 else (n, n) if kind == 1 else (old, old)
        if not (high and wide):
            return
        device_code.matrix[(-(-high // t.bm), -(-wide // t.bn))](
            terms.operand, terms.norm, rows.operand, rows.norm, terms.ring, p.params, out, row0, n,
            terms.slots, self.d, old, DP=self.dp, MODE=self.mode, DOT=p.dot, L1=p.l1, KIND=kind,
            B=b, BM=t.bm, BN=t.bn, BK=t.bk, **p.constants, **t.options,
        )  # fmt: skip


@dataclass(frozen=True)
class StepKind:
    """Rule, loss and what else is compiled into the steps."""

    rule: int = 0
    loss: int = 0
    nu: float = -1.0
    extra: float = 1.0
    learn_alerts: bool = True
    intercept: bool = False
    norm: bool = False
    radius: float = math.inf
    power: float = 2.0
    tuning: float = 0.0
    threshold_rate: float = 1.0
    support_rate: float = 1.0
    bounded: bool = True
    drops: int = 1
    steady: bool = False
    aged: bool = True

    def constants(self) -> dict[str, Any]:
        """What is compiled in; what the table does not allow is refused before it is launched."""
        rule, loss = row_of(RuleCode, "rule", self.rule), row_of(LossCode, "loss", self.loss)
        allow("rule", rule)
        allow("loss", loss)
        divides = rule == RuleCode.PROJECTION or self.tuning > 0
        return {
            "RULE": self.rule, "LOSS": self.loss, "NU": self.nu >= 0, "POWER1": self.extra == 1,
            "LEARN_ALERTS": self.learn_alerts, "INTERCEPT": self.intercept, "NORM": self.norm,
            "BALL": math.isfinite(self.radius), "POWER2": self.power == 2,
            "TUNING": self.tuning > 0, "KXX": self.norm or divides or not self.bounded,
            "DROPS": self.drops, "STEADY": self.steady, "AGED": self.aged,
        }  # fmt: skip

    def numbers(self, cap: int, device: Any) -> Any:
        """What is not."""
        radius = self.radius if math.isfinite(self.radius) else 0.0
        found = [max(self.nu, 0.0), self.extra, self.threshold_rate, self.support_rate, radius]
        found += [max(self.tuning, 1e-300), self.power, float(cap)]
        return send(np.array(found), device)
