"""How the kernels are launched: programs as integers, tiles, buffers of one block."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import torch

from onkel.core.frame import Apart
from onkel.core.layout import LossCode, RuleCode, row_of
from onkel.gpu import kernels as device_code
from onkel.gpu.devices import allow, interpreted
from onkel.gpu.programs import Encoded, Packed, packed, together

MODES = {"float32": 0, "tf32": 1, "tf32x3": 2}
INTERPRETED = interpreted()
TOGETHER = 64 if INTERPRETED else 8
"""Rows that one program makes ready, or stores."""
WIDTH = 64
"""Rows whose shares one program adds."""
EDGE = 64
"""Rows by which a buffer is longer than what is used of it."""
EIGHT = 8
"""Features that are added up together; turned rows are padded to as many."""
FOUR = 4
"""Codes that are compared together, where they are many."""
MOST_OUTPUTS = 64
"""Outputs that one launch sums for."""


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
    MOST = 6
    """Rows that the next block of a bank may take."""
    CAP = 7
    """Terms at which a bank lets some go."""
    GOING = 8
    """How many go then."""
    FROM = 9
    """Where the rows began that a bank has just learned."""
    TOOK = 10
    """How many they were."""


def send(array: Any, device: Any) -> Any:
    """Copy an array to the device; nothing is waited for.

    By way of memory that the device can read on its own: a plain copy would wait for all that was
    launched before it.
    """
    found = torch.from_numpy(np.ascontiguousarray(array))
    if device.type == "cpu":
        return found
    return found.pin_memory().to(device, non_blocking=True)


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


def choose_tiles(dp: int, mode: int, l1: bool, columns: int, codes: int = 0) -> Tiles:
    """Return the tile that was fastest on an H200 for operands of this width.

    To compare codes takes registers: tiles for them are those that leave enough.
    """
    if INTERPRETED:
        return Tiles(64, 64, min(dp, 128) if dp <= 128 else 32, 4, 1)
    if l1:
        return Tiles(64, 64, dp if dp <= 64 else 32, 4, 2, per=3)
    if codes and (dp <= 64 or mode == 0):
        return Tiles(64, 64, dp if mode else min(dp, 32), 4, 2, per=4)
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
    turned: Any
    """[codes and features][slots]: codes, and features where sums over them are wanted."""
    norm: Any
    diag: Any
    """[functions][slots]: k(x, x)."""
    coef: Any
    weights: Any
    births: Any
    ring: Any

    @classmethod
    def empty(cls, slots: int, launcher: Launcher, columns: int) -> Terms:
        """Return a ring without terms."""

        def zeros(*shape: int, dtype: Any = torch.float32) -> Any:
            return torch.zeros(shape, dtype=dtype, device=launcher.device)

        cp = power_of_two(columns)
        return cls(
            zeros(slots, launcher.d), zeros(slots, launcher.wide), zeros(launcher.tall, slots),
            zeros(slots), zeros(len(launcher.functions), slots),
            zeros(cp, slots, dtype=torch.float64), zeros(cp, slots),
            zeros(slots, dtype=torch.int64), zeros(len(Ring), dtype=torch.int64),
        )  # fmt: skip

    @property
    def slots(self) -> int:
        """How many terms there is room for."""
        return int(self.norm.shape[0])


@dataclass
class Rows:
    """Rows of one run, made ready: stored form, operand, turned, squared norm, k(x, x)."""

    v: Any
    operand: Any
    turned: Any
    norm: Any
    diag: Any

    def part(self, at: slice) -> Rows:
        """Return some of them."""
        return Rows(
            self.v[at], self.operand[at], self.turned[:, at], self.norm[at], self.diag[:, at]
        )


def power_of_two(n: int) -> int:
    """Return the least power of two that is not below n."""
    return 1 << (max(n, 1) - 1).bit_length()


@dataclass
class Share:
    """Kernel functions that are launched together, the tile they take, and their outputs."""

    packed: Packed
    tiles: Tiles
    where: Any
    """The outputs' numbers, on the device."""

    @property
    def columns(self) -> int:
        """How many outputs."""
        return int(self.where.shape[0])

    def splits(self, n: int, slots: int, most: int) -> int:
        """Return into how many shares the terms go, so that all multiprocessors have work."""
        across = -(-n // self.tiles.bm)
        return max(1, min(self.tiles.per * most // across, slots // self.tiles.bn))


class Launcher:
    """Launches the kernels for some kernel functions, precision and number of features.

    `counts`: how many outputs each function serves; those of the first stand first. `apart`: the
    first of the d features are codes, as many as there are numbers here.
    """

    def __init__(
        self, functions: Sequence[Encoded], d: int, mode: int, device: Any,
        tiles: Tiles | None = None, counts: Sequence[int] = (1,), apart: Apart = (),
    ) -> None:  # fmt: skip
        self.functions, self.d, self.device = tuple(functions), d, device
        dot, l1 = any(f.dot for f in functions), any(f.l1 for f in functions)
        if all(f.l1 for f in functions):
            mode = 0  # feature by feature there is nothing to gain
        self.mode = mode
        self.codes, self.l1 = len(apart), l1
        self.apart = torch.zeros(self.codes + FOUR, dtype=torch.float32, device=device)
        self.apart[: self.codes] = torch.tensor(apart, dtype=torch.float32)
        self.numbers = d - self.codes
        """Features that are multiplied, or summed over."""
        self.dp = padded(self.numbers)
        self.wide = (2 * self.dp if mode == 2 else self.dp) if dot else 0
        self.tall = self.codes + (-(-self.numbers // EIGHT) * EIGHT if l1 else 0)
        self.params = torch.cat([f.params for f in functions])
        self.most = multiprocessors(device)
        self.all = together(functions)
        self.pairs = packed(functions, [1] * len(functions), len(functions))
        self.shares = [self._share(some, tiles) for some in packed(functions, counts, MOST_OUTPUTS)]
        small = min(self.dp, 32) if mode else 16
        self.small = Tiles(64, 64, small, 4, 3)
        self.few = Tiles(64, 64, small, 4, 2)
        """For rows that lie anywhere in the ring."""

    def _share(self, some: Packed, tiles: Tiles | None) -> Share:
        where = torch.tensor(some.columns, dtype=torch.int32, device=self.device)
        tiles = tiles or choose_tiles(self.dp, self.mode, some.l1, len(some.columns), self.codes)
        return Share(some, tiles, where)

    @property
    def columns(self) -> int:
        """How many outputs there are."""
        return sum(share.columns for share in self.shares)

    def room(self, n: int) -> Rows:
        """Return room for n rows."""
        most = -(-n // 256) * 256 + 256

        def empty(*shape: int) -> Any:
            return torch.zeros(shape, dtype=torch.float32, device=self.device)

        return Rows(
            empty(most, self.d), empty(most, self.wide), empty(self.tall, most), empty(most),
            empty(len(self.functions), most),
        )  # fmt: skip

    def prepare(self, x: Any, frame: Any, invariant: bool, room: Rows | None = None) -> Rows:
        """Make rows ready; `frame` is [5][d]: center, unit, width, shift, most that v may be."""
        rows = self.room(len(x)) if room is None else room
        self.ready(x, frame, invariant, True, rows)
        return rows

    def ready(self, x: Any, frame: Any, invariant: bool, raw: bool, rows: Rows) -> None:
        """The same into given arrays; not `raw`: x is what is stored already."""
        n, d = x.shape
        device_code.prepare[(-(-n // TOGETHER),)](
            x, x.stride(0), x.stride(1), frame, self.params, self.apart, rows.v, rows.operand,
            rows.turned, rows.norm, rows.diag, n, d, rows.turned.stride(0), rows.diag.stride(0),
            DP=self.dp, MODE=self.mode, CODES=self.codes, INVARIANT=invariant, RAW=raw,
            DOT=self.wide > 0, L1=self.l1, ROWS=TOGETHER,
            BD=min(self.dp, 64) if self.dp <= 128 else 32, **self.all.constants,
        )  # fmt: skip

    def sums(
        self, share: Share, rows: Rows, row0: int, n: int, terms: Terms, partial: Any, splits: int,
        room: int, oldest: bool = False, cursor: bool = False,
    ) -> None:  # fmt: skip
        """Sum weight * k over the terms, for n rows from `row0` on (or for the n oldest terms).

        `cursor`: for the next rows of a bank, n at most.
        """
        t, p = self.few if oldest else share.tiles, share.packed
        q = Rows(None, terms.operand, terms.turned, terms.norm, None) if oldest else rows
        tma = t.tma
        q_arg, t_arg = q.operand, terms.operand
        if tma:
            from triton.tools.tensor_descriptor import TensorDescriptor

            q_arg = TensorDescriptor.from_tensor(q.operand, [t.bm, t.bk])
            t_arg = TensorDescriptor.from_tensor(terms.operand, [t.bn, t.bk])
        device_code.sums[(-(-n // t.bm), splits)](
            q_arg, q.norm, t_arg, terms.norm, q.operand, terms.operand, q.turned, terms.turned,
            terms.weights, partial, terms.ring, self.params, self.apart, row0, room, terms.slots,
            terms.slots, q.turned.stride(0), self.numbers, DP=self.dp, MODE=self.mode,
            CODES=self.codes, C=share.columns, CP=power_of_two(share.columns), DOT=p.dot, L1=p.l1,
            TMA=tma, OLDEST=oldest, CURSOR=cursor, FLAT=t.flat, BM=t.bm, BN=t.bn, BK=t.bk,
            **p.constants, **p.served, **t.options,
        )  # fmt: skip

    def matrix(
        self, kind: int, rows: Rows, row0: int, n: int, terms: Terms, old: int, out: Any,
        cursor: bool = False,
    ) -> None:  # fmt: skip
        """Kernel values: 0 old terms against the block, 1 the block, 2 old terms."""
        high, wide = (old, n) if kind == 0 else (n, n) if kind == 1 else (old, old)
        if not (high and wide):
            return
        t, b, plane = self.small, int(out.shape[-1]), out.shape[-2] * out.shape[-1]
        for p in self.pairs:
            device_code.matrix[(-(-high // t.bm), -(-wide // t.bn))](
                terms.operand, terms.norm, terms.turned, rows.operand, rows.norm, rows.turned,
                terms.ring, self.params, self.apart, out, row0, n, terms.slots,
                rows.turned.stride(0), plane, self.numbers, old, DP=self.dp, MODE=self.mode,
                CODES=self.codes, DOT=p.dot, L1=p.l1, KIND=kind, CURSOR=cursor, B=b, BM=t.bm,
                BN=t.bn, BK=t.bk, **p.constants, **p.planes, **t.options,
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

    def numbers(self, cap: int) -> Any:
        """What is not."""
        radius = self.radius if math.isfinite(self.radius) else 0.0
        found = [max(self.nu, 0.0), self.extra, self.threshold_rate, self.support_rate, radius]
        found += [max(self.tuning, 1e-300), self.power, float(cap)]
        return np.array(found)
