"""One piece of rows on its way over the device: where it lies, its blocks, and their graph.

A piece lies at the same place every time, so that its blocks (six kernels each) can be recorded
once and started with one call: to launch them one by one takes longer than to run them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from onkel.core.layout import Field
from onkel.gpu.feeding import RowNumbers
from onkel.gpu.launch import (
    EDGE,
    INTERPRETED,
    TOGETHER,
    WIDTH,
    Launcher,
    Ring,
    Rows,
    Share,
    StepKind,
    Terms,
    power_of_two,
    send,
)
from onkel.gpu.recurrence import add_up
from onkel.gpu.steps import steps
from onkel.gpu.storing import commit

BLOCK = 64 if INTERPRETED else 512
"""Rows of a block, and terms that may go while it is learned."""
PIECE = 2 * BLOCK if INTERPRETED else 8192
"""Rows that are sent at once."""
WARPS = 4
"""Of the scalar steps; all of them bring later rows up to date."""


@dataclass
class Feed:
    """What goes with the rows of a piece, and what comes back of it."""

    feed: Any
    oldest: Any
    y: Any
    trial: Any
    """The number of the first row, on the device."""
    results: Any
    """Of each output and row: score, limit, what was added."""
    slot_of: Any

    @classmethod
    def empty(cls, n: int, columns: int, device: Any) -> Feed:
        """Return room for n rows."""

        def zeros(*shape: int, dtype: Any = torch.float64) -> Any:
            return torch.zeros(shape, dtype=dtype, device=device)

        whole = torch.int64
        return cls(
            zeros(6, n), zeros(n, dtype=whole), zeros(power_of_two(columns), n),
            zeros(1, dtype=whole), zeros(3, columns, n), zeros(n, dtype=whole),
        )  # fmt: skip

    @property
    def n(self) -> int:
        """Rows that there is room for."""
        return int(self.oldest.shape[0])

    def take(self, numbers: RowNumbers, aged: bool) -> None:
        """Take the numbers of the next rows from the host; nothing is waited for."""
        n, device = numbers.y.shape[1], self.y.device
        self.feed[:, :n].copy_(send(numbers.feed, device))
        if aged:
            self.oldest[:n].copy_(send(numbers.oldest, device))
        self.y[: len(numbers.y), :n].copy_(send(numbers.y, device))
        self.trial.fill_(numbers.trial)


class Room:
    """What the sums over the terms need, for `block` rows at most."""

    def __init__(self, launcher: Launcher, block: int) -> None:
        self.device, self.block = launcher.device, block
        self.most_splits = max(4 * launcher.most, 8)
        widest = max(share.columns for share in launcher.shares)
        self.partial = self.empty(self.most_splits * widest * block)
        self.base = self.empty(launcher.columns + 1, block)

    def empty(self, *shape: int) -> Any:
        """Return room for so many numbers."""
        return torch.zeros(shape, dtype=torch.float32, device=self.device)


class Buffers(Room):
    """What one block needs beside the terms: B rows at most, B terms that may go."""

    def __init__(self, launcher: Launcher, block: int, columns: int, norm: bool) -> None:
        super().__init__(launcher, block)
        empty = self.empty
        self.old_base = empty(columns + 1, block)
        tall = block + EDGE  # rows that are read ahead, never used
        self.old_k, self.own_k = empty(tall, block), empty(tall, block)
        self.square_k = empty(tall, block) if norm else self.own_k


def sum_up(
    launcher: Launcher, share: Share, rows: Rows, row0: int, n: int, terms: Terms,
    buffers: Room, out: Any, **how: bool,
) -> None:  # fmt: skip
    """Sum weight * k over the terms, in as many shares as fit, and add those up."""
    block = buffers.block
    splits = min(share.splits(block, terms.slots, launcher.most), buffers.most_splits)
    launcher.sums(share, rows, row0, n, terms, buffers.partial, splits, block, **how)
    add_up[-(-block // WIDTH), share.columns](
        buffers.partial, out, share.where, block, splits, C=share.columns,
        SHARES=power_of_two(splits), WIDTH=WIDTH,
    )  # fmt: skip


class Track:
    """Room for one piece, and what its blocks need."""

    def __init__(
        self, launcher: Launcher, columns: int, norm: bool, block: int = BLOCK, piece: int = PIECE
    ) -> None:
        self.made_for = launcher, columns, norm
        self.launcher, self.columns = launcher, columns
        self.rows = launcher.room(piece)
        self.feed = Feed.empty(piece, columns, launcher.device)
        self.state = torch.zeros(
            (power_of_two(columns), len(Field)), dtype=torch.float64, device=launcher.device
        )
        self.buffers = Buffers(launcher, block, columns, norm)
        self.kind, self.numbers = (StepKind(), -1), None
        self.results: Any = None
        self.seen: Any = None
        self.graph: Any = None

    def begin(self, state: Any, rows: int) -> None:
        """Take the state before some rows, and make room for what the steps will say of them."""
        self.state.zero_()
        self.state[:, Field.SCALE] = 1.0
        self.state[: self.columns].copy_(send(state, self.launcher.device))
        shape = 3, self.columns, rows
        self.results = torch.empty(shape, dtype=torch.float64, device=self.launcher.device)

    def keep(self, at: int, n: int) -> None:
        """Keep what the steps said of a piece, before the next one comes."""
        self.results[:, :, at : at + n].copy_(self.feed.results[:, :, :n])

    def run(self, terms: Terms, kind: StepKind, cap: int, n: int, step: int) -> None:
        """Start the blocks of a piece; nothing is waited for."""
        if self.kind != (kind, cap):
            self.kind, self.seen = (kind, cap), None
            self.numbers = send(kind.numbers(cap), self.launcher.device)
        self.feed.slot_of.fill_(-1)
        terms.ring[Ring.ROWS].fill_(n)
        if 2 * n < self.feed.n or step < self.buffers.block or INTERPRETED:
            self._launch(terms, kind, n, step)
            return
        wanted = tuple(array.data_ptr() for array in vars(terms).values())
        if self.seen != wanted:  # the first time something is compiled, perhaps
            self.seen, self.graph = wanted, None
            self._launch(terms, kind, n, step)
            return
        if self.graph is None:  # for a whole piece: blocks without rows do nothing
            self.graph = recorded(lambda: self._launch(terms, kind, self.feed.n, step))
        self.graph.replay()

    def _launch(self, terms: Terms, kind: StepKind, n: int, step: int) -> None:
        for row0 in range(0, n, step):
            self.block(terms, kind, row0, min(step, n - row0))

    def block(self, terms: Terms, kind: StepKind, row0: int, n: int) -> None:
        """Launch one block: sums, kernel values, steps, commit."""
        launcher, rows, buffers = self.launcher, self.rows, self.buffers
        old = min(buffers.block, terms.slots)
        for share in launcher.shares:
            sum_up(launcher, share, rows, row0, n, terms, buffers, buffers.base)
        launcher.matrix(0, rows, row0, n, terms, old, buffers.old_k)
        launcher.matrix(1, rows, row0, n, terms, old, buffers.own_k)
        if kind.norm:
            for share in launcher.shares:
                sum_up(launcher, share, rows, 0, old, terms, buffers, buffers.old_base, oldest=True)
            launcher.matrix(2, rows, row0, n, terms, old, buffers.square_k)
        self._steps(terms, kind, row0, n, old)
        self._commit(terms, row0, n)

    def _steps(self, terms: Terms, kind: StepKind, row0: int, n: int, old: int) -> None:
        buffers, feed, c = self.buffers, self.feed, self.columns
        wide = max(buffers.block // power_of_two(c), 32)
        steps[(1,)](
            buffers.base, buffers.old_k, buffers.own_k, buffers.square_k, buffers.old_base,
            terms.coef, terms.weights, terms.births, terms.diag, terms.ring, self.state,
            feed.feed, feed.oldest, feed.y, self.rows.diag, self.numbers, feed.results,
            feed.slot_of, self.state, terms.ring, terms.ring, terms.ring, row0, n, feed.n,
            terms.slots, old, c, 0, 0, C=c, CP=power_of_two(c), B=buffers.block, WIDE=wide,
            BANK=False, num_warps=WARPS, **kind.constants(),
        )  # fmt: skip

    def _commit(self, terms: Terms, row0: int, n: int) -> None:
        store(self.launcher, self.rows, terms, self.feed, row0, n, self.columns)


def store(
    launcher: Launcher, rows: Rows, terms: Terms, feed: Feed, row0: int, n: int, columns: int,
    cursor: bool = False,
) -> None:  # fmt: skip
    """Copy rows that became terms into the ring; `cursor`: those of the ring's own last block."""
    commit[(-(-n // TOGETHER),)](
        rows.v, rows.operand, rows.turned, rows.norm, rows.diag, feed.results[2], feed.slot_of,
        feed.trial, terms.rows, terms.operand, terms.turned, terms.norm, terms.diag, terms.coef,
        terms.weights, terms.births, terms.ring, row0, n, feed.n, terms.slots, launcher.d,
        rows.turned.stride(0), rows.diag.stride(0), C=columns, KERNELS=len(launcher.functions),
        WIDE=launcher.wide, TALL=launcher.tall, CURSOR=cursor, ROWS=TOGETHER,
        BD=min(launcher.dp, 64) if launcher.dp <= 128 else 32,
    )  # fmt: skip


def recorded(launch: Any) -> Any:
    """Return what a function launches as a graph, which can be started again and again."""
    graph, here = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
    beside = torch.cuda.Stream()
    beside.wait_stream(here)
    with torch.cuda.stream(beside):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            launch()
        finally:
            graph.capture_end()
    here.wait_stream(beside)
    return graph
