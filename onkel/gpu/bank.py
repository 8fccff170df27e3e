"""A bank whose common points live on a GPU: several kernels over the same distances.

What :class:`~onkel.learner.Bank` says of members holds here too. The points, the coefficients and
the members' scalar steps are the device's; rows are sent in pieces, as one model's are.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from onkel.core.layout import Program
from onkel.gpu.bank_track import PIECE, BankTrack
from onkel.gpu.engine import BAD, at_once, begin, refuse, see_to
from onkel.gpu.feeding import RowNumbers, kind_of, row_numbers
from onkel.gpu.launch import Ring, StepKind
from onkel.gpu.learner import OnDevice
from onkel.gpu.rows import on_host
from onkel.learner import Bank
from onkel.learner.batch import Batch
from onkel.learner.engine import Learned
from onkel.learner.transaction import Transaction

Array = NDArray[Any]

ANY = 2**40
"""Rows that a block may take, if nothing ends it."""


class DeviceMembers:
    """Runs of rows through all members on the device."""

    def reach(self, learner: GpuBank, batch: Batch) -> int:
        """Return how many rows may lie on the device at once."""
        return at_once(learner, batch)

    def learn(self, learner: GpuBank, batch: Batch, call: Transaction) -> Learned:
        """Learn a run, up to where a block had to stop."""
        call.protect(0)
        batch = batch.part(0, begin(learner, batch))
        _ready(learner, len(batch), on_host(batch.X[:1])[0])
        return _Run(learner, batch).learned()


class GpuBank(OnDevice, Bank):
    """Members that share points on a GPU; see :class:`~onkel.learner.Bank`."""

    engines: ClassVar[tuple[Any, ...]] = (DeviceMembers(),)
    track: BankTrack | None = None

    def functions(self) -> list[Program]:
        """Return the kernel functions of all members."""
        return [m.kernel.program() or [] for m in self.members]


def _ready(learner: GpuBank, rows: int, x: Array) -> None:
    """Have room on the device for so many rows, and tell it what it has."""
    learner.terms = terms = learner.terms.following(x)
    terms.grow(min(learner.size + rows, terms.limit))
    window = learner.window
    terms.tell(MOST=ANY, CAP=window.cap, GOING=window.budget.at_once(window.cap))
    wanted = terms.launcher, learner.outputs
    if learner.track is None or learner.track.made_for != wanted:
        learner.track = BankTrack(wanted[0], [m.kernel for m in learner.steppers], wanted[1])
    learner.track.begin(learner.state)


class _Run:
    """Rows up to the next refresh of the frame, piece by piece."""

    def __init__(self, learner: GpuBank, batch: Batch) -> None:
        self.learner, self.batch, self.terms = learner, batch, learner.terms.held
        assert learner.track is not None
        self.track: BankTrack = learner.track
        self.sent: list[Any] = []
        self.found: list[Array] = []
        """Of each piece: scores, limits, what was added, [3][outputs][rows]."""

    def learned(self) -> Learned:
        """Learn all pieces, or up to where a block had to stop; take over what was done."""
        size, ahead = len(self.batch), self._told(0)
        for at in range(0, size, PIECE):
            ring, ahead = self._piece(at, *ahead)
            if ring[Ring.WHY]:
                break
        return self._received(ring)

    def _piece(self, at: int, kinds: list[StepKind], numbers: list[RowNumbers]) -> tuple[Any, Any]:
        """Learn one piece; look at what the next one needs while the device is at work."""
        learner, track, n = self.learner, self.track, min(PIECE, len(self.batch) - at)
        self.sent.append(learner.on_device(self.batch.X[at : at + n]))
        learner.terms.prepare(self.sent[-1], track.rows)
        track.take(kinds, numbers)
        track.start(self.terms, n)
        ahead = self._told(at + n) if at + n < len(self.batch) else ([], [])
        ring = track.finish(self.terms, n)
        done = track.feed.results[:, :, : int(ring[Ring.DONE])]
        self.found.append(done.cpu().numpy().copy())  # views there, if interpreted
        return ring, ahead

    def _told(self, at: int) -> tuple[list[StepKind], list[RowNumbers]]:
        """Return what the steps need of a piece's rows, for each member."""
        learner, piece = self.learner, self.batch.part(at, at + PIECE)
        first = learner.t + 1 + at
        trials = first + np.arange(len(piece))
        Y = learner.targets.standardised(piece.Y)[:, : learner.outputs]
        numbers = [
            row_numbers(r, r.rates(trials), r.lams(trials), piece.weight, trials, Y, first)
            for r in learner.rules
        ]
        kinds = [
            kind_of(m.loss, m.rule, m.kernel.bound is not None, m.intercept, n.steady, False, 0)
            for m, n in zip(learner.members, numbers, strict=True)
        ]
        return kinds, numbers

    def _received(self, ring: Array) -> Learned:
        """Take over what the device has done."""
        learner, why = self.learner, int(ring[Ring.WHY])
        found = np.concatenate(self.found, axis=2)
        score, limit, added = (np.ascontiguousarray(part.T) for part in found)
        if why & BAD:
            refuse(learner, self.batch, score, added)
        learner.state = self.track.end()
        learner.terms.head, learner.terms.count = int(ring[Ring.HEAD]), int(ring[Ring.COUNT])
        see_to(learner, why, int(ring[Ring.LAST]))
        if not learner.settings.scale or learner.moments.gaps:
            return Learned(score, limit)
        return Learned(score, limit, torch.cat(self.sent)[: len(score)])
