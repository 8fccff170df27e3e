"""One piece of rows on its way through a bank: each block begins where the last one ended.

How far a block goes is decided on the device: none of a bank's terms goes inside a block, so that a
block ends where the ring is full, and all members have done the same rows. The host launches blocks
until the piece is through; blocks are recorded as graphs, one alone and many together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from onkel.core.layout import Field
from onkel.gpu.feeding import RowNumbers
from onkel.gpu.launch import EDGE, INTERPRETED, Launcher, Ring, StepKind, Terms, power_of_two, send
from onkel.gpu.steps import steps
from onkel.gpu.storing import gather, let_go
from onkel.gpu.track import BLOCK, WARPS, Feed, Room, recorded, store, sum_up

Array = NDArray[Any]

MANY = 64 if INTERPRETED else 1024
"""Terms that are let go together."""
PIECE = 2 * BLOCK if INTERPRETED else 64 * BLOCK
"""Rows that are sent at once: the fewer pieces, the less the host must be there for."""
AT_ONCE = 16
"""Blocks that are started with one call."""


class BankTrack:
    """Room for one piece of a bank, and what its blocks need.

    `kernel_of`: the number of each member's kernel function.
    """

    def __init__(
        self, launcher: Launcher, kernel_of: Sequence[int], outputs: int, block: int = BLOCK,
        piece: int = PIECE,
    ) -> None:  # fmt: skip
        self.made_for = launcher, outputs
        self.launcher, self.outputs, self.members = launcher, outputs, len(kernel_of)
        self.rows, self.room = launcher.room(piece), Room(launcher, block)
        self.own_k = self.room.empty(len(launcher.functions), block + EDGE, block)
        self.padded = power_of_two(outputs)
        self.feed = self._feed(piece)
        self.state, self.fresh = (self._zeros(self._shape) for _ in range(2))
        self.told = self._zeros((self.members, 2), torch.int32)
        self.kernel_of = torch.tensor(kernel_of, dtype=torch.int32, device=launcher.device)
        self.kinds: tuple[StepKind, ...] = ()
        self.groups: list[tuple[dict[str, Any], Any]] = []
        self.numbers: Any = None
        self.beside: list[Any] = []
        self.seen: Any = None
        self.graphs: dict[int, Any] = {}

    @property
    def _shape(self) -> tuple[int, ...]:
        return self.members, self.padded, len(Field)

    def _zeros(self, shape: Sequence[int], dtype: Any = torch.float64) -> Any:
        return torch.zeros(tuple(shape), dtype=dtype, device=self.launcher.device)

    def _feed(self, n: int) -> Feed:
        whole, columns = torch.int64, self.members * self.outputs
        return Feed(
            self._zeros((self.members, 6, n)), self._zeros((n,), whole),
            self._zeros((self.padded, n)), self._zeros((1,), whole), self._zeros((3, columns, n)),
            self._zeros((n,), whole),
        )  # fmt: skip

    # -- what goes in and comes out --------------------------------------------------------------

    def begin(self, state: Array) -> None:
        """Take the members' state before some rows."""
        whole = np.zeros(self._shape)
        whole[:, :, Field.SCALE] = 1.0
        whole[:, : self.outputs] = state.reshape(self.members, self.outputs, -1)
        self.state.copy_(send(whole, self.launcher.device))
        self.fresh.copy_(self.state)

    def end(self) -> Array:
        """Return the members' state."""
        found = self.state[:, : self.outputs].cpu().numpy().copy()
        return found.reshape(-1, len(Field))

    def take(self, kinds: Sequence[StepKind], numbers: Sequence[RowNumbers]) -> None:
        """Take the numbers of the next rows from the host: one for each member."""
        feed, device, n = self.feed, self.launcher.device, numbers[0].y.shape[1]
        widest = max(one.feed.shape[1] for one in numbers)
        both = np.stack([np.broadcast_to(one.feed, (6, widest)) for one in numbers])
        feed.feed[:, :, :n].copy_(send(both, device))
        feed.y[: self.outputs, :n].copy_(send(numbers[0].y, device))
        feed.trial.fill_(numbers[0].trial)
        if self.kinds != tuple(kinds):
            self._sort(tuple(kinds))

    def _sort(self, kinds: tuple[StepKind, ...]) -> None:
        """Members whose steps are compiled alike run together, each in a program of its own."""
        self.kinds, self.seen, device = kinds, None, self.launcher.device
        alike: dict[Any, list[int]] = {}
        for i, kind in enumerate(kinds):
            alike.setdefault(tuple(kind.constants().items()), []).append(i)
        self.groups = [
            (dict(key), torch.tensor(who, dtype=torch.int32, device=device))
            for key, who in alike.items()
        ]
        self.numbers = send(np.stack([kind.numbers(0) for kind in kinds]), device)
        if not INTERPRETED:
            self.beside = [torch.cuda.Stream(device) for _ in self.groups[1:]]

    # -- blocks ----------------------------------------------------------------------------------

    def start(self, terms: Terms, n: int) -> None:
        """Launch as many blocks as n rows would take if none ended early; nothing is waited for."""
        self.feed.slot_of.fill_(-1)
        terms.ring[Ring.ROWS].fill_(n)
        terms.ring[Ring.DONE].fill_(0)
        self._launch(terms, n)

    def finish(self, terms: Terms, n: int) -> Array:
        """Wait, and launch what is still wanted; return the ring's numbers at the end."""
        while True:
            ring: Array = terms.ring.cpu().numpy()
            left = n - int(ring[Ring.DONE])
            if ring[Ring.WHY] or not left:
                return ring
            self._launch(terms, left)

    def _launch(self, terms: Terms, n: int) -> None:
        """Launch blocks for n rows, from graphs if the same was launched before."""
        wanted = tuple(array.data_ptr() for array in vars(terms).values())
        many = -(-n // self.room.block)
        if INTERPRETED or self.seen != wanted:  # the first time something is compiled, perhaps
            self.seen, self.graphs, many = wanted, {}, many - 1
            self.block(terms)
        while many > 0:
            together = AT_ONCE if many >= AT_ONCE and not INTERPRETED else 1
            self._start(terms, together)
            many -= together

    def _start(self, terms: Terms, together: int) -> None:
        """Start some blocks, with one call if they can be recorded."""
        if INTERPRETED:
            self.block(terms)
            return
        if together not in self.graphs:
            self.graphs[together] = recorded(lambda: self._blocks(terms, together))
        self.graphs[together].replay()

    def _blocks(self, terms: Terms, many: int) -> None:
        for _ in range(many):
            self.block(terms)

    def block(self, terms: Terms) -> None:
        """Launch one block: sums, kernel values, steps, what is stored, what goes."""
        launcher, room, b = self.launcher, self.room, self.room.block
        for share in launcher.shares:
            sum_up(launcher, share, self.rows, 0, b, terms, room, room.base, cursor=True)
        launcher.matrix(1, self.rows, 0, b, terms, 0, self.own_k, cursor=True)
        self._side_by_side([lambda g=g: self._steps(terms, *g) for g in self.groups])
        self._store(terms)

    def _side_by_side(self, launches: list[Any]) -> None:
        """Launch what does not wait for one another: the first here, others beside it."""
        here = None if INTERPRETED else torch.cuda.current_stream()
        for stream, launch in zip(self.beside, launches[1:], strict=False):
            stream.wait_stream(here)
            with torch.cuda.stream(stream):
                launch()
        for launch in launches if INTERPRETED else launches[:1]:
            launch()
        for stream in self.beside:
            here.wait_stream(stream)  # type: ignore[union-attr]

    def _steps(self, terms: Terms, constants: dict[str, Any], who: Any) -> None:
        feed, b, k = self.feed, self.room.block, self.own_k
        steps[(len(who),)](
            self.room.base, k, k, k, k, terms.coef, terms.weights, terms.births, terms.diag,
            terms.ring, self.state, feed.feed, feed.oldest, feed.y, self.rows.diag, self.numbers,
            feed.results, feed.slot_of, self.fresh, self.told, who, self.kernel_of, 0, b, feed.n,
            terms.slots, 0, self.members * self.outputs, k.stride(0), self.rows.diag.stride(0),
            C=self.outputs, CP=self.padded, B=b, WIDE=max(b // self.padded, 32), BANK=True,
            num_warps=WARPS, **constants,
        )  # fmt: skip

    def _store(self, terms: Terms) -> None:
        feed, columns, b = self.feed, self.members * self.outputs, self.room.block
        gather[(1,)](
            self.told, feed.results[2], self.state, self.fresh, terms.ring, feed.slot_of, feed.n,
            terms.slots, columns, MEMBERS=self.members, MP=power_of_two(self.members),
            SIZE=self.state.numel(), B=b,
        )  # fmt: skip
        store(self.launcher, self.rows, terms, feed, 0, b, columns, cursor=True)
        let_go[(1,)](
            terms.diag, terms.coef, terms.weights, self.state, terms.ring, self.kernel_of,
            terms.slots, columns, C=self.outputs, CP=self.padded, MANY=MANY,
        )  # fmt: skip
