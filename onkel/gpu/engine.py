"""The device's engine: exact blocks, the steps of a block in one kernel.

Rows up to the next refresh of the frame are cut into *runs*; a run into *pieces* that are sent to
the device while it works on the one before; a piece into *blocks*. The device is waited for once
a run. A block that cannot go on (f became very small, or was wiped out) stops all that come after
it, and the host sees to it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from onkel import bounds
from onkel.core.layout import Field
from onkel.gpu import launch
from onkel.gpu.feeding import kind_of, row_numbers
from onkel.gpu.launch import Ring
from onkel.gpu.rows import on_host
from onkel.gpu.track import BLOCK, PIECE, Track
from onkel.learner.batch import Batch
from onkel.learner.engine import Learned
from onkel.learner.transaction import Transaction

if TYPE_CHECKING:
    from onkel.gpu.learner import GpuLearner, OnDevice

Array = NDArray[Any]

RUN = 4 * PIECE if launch.INTERPRETED else 32 * PIECE
"""Rows after which the device is waited for, and fewer where they are wide."""
HELD = 2**26
"""Numbers of rows that lie on the device at once."""
FAR, WIPED, STALE, BAD = 1, 2, 4, 8
MOST = 1e37
"""What is larger has left the range of float32."""


def at_once(learner: OnDevice, batch: Batch) -> int:
    """Return how many rows may lie on the device at once."""
    pieces = max(HELD // len(learner.frame.center) // PIECE, 1)
    return min(len(batch), RUN, pieces * PIECE)


class Device:
    """Runs of rows on the device, which changes terms before anyone knows whether all is well."""

    def reach(self, learner: GpuLearner, batch: Batch) -> int:
        """Return how many rows may lie on the device at once."""
        return at_once(learner, batch)

    def learn(self, learner: GpuLearner, batch: Batch, call: Transaction) -> Learned:
        """Learn a run, up to where a block had to stop."""
        call.protect(0)
        batch = batch.part(0, begin(learner, batch))
        track, sent = _send(learner, batch)
        return _received(learner, batch, track, sent)


DEVICE = Device()


def begin(learner: OnDevice, batch: Batch) -> int:
    """Meet the first row, give targets and features their units; return how many rows may come.

    While units are unknown, rows are looked at on the host, a block at a time.
    """
    if learner.units_known:
        return len(batch)
    few = batch.part(0, min(len(batch), BLOCK))
    return learner.begin_block(replace(few, X=on_host(few.X)))


def _send(learner: GpuLearner, batch: Batch) -> tuple[Track, list[Any]]:
    """Send all pieces and start their blocks, nothing is waited for; return their rows there."""
    size = len(batch)
    learner.terms = terms = learner.terms.following(on_host(batch.X[:1])[0])
    terms.grow(min(learner.size + size, terms.limit))
    terms.tell()
    track, gaps = _track(learner), batch.gaps(learner.clock)
    track.begin(learner.state, size)
    sent = [
        _launch(learner, track, batch.part(at, at + PIECE), gaps, at)
        for at in range(0, size, PIECE)
    ]
    return track, sent


def _launch(learner: GpuLearner, track: Track, piece: Batch, gaps: Array | None, at: int) -> Any:
    """Send a piece of a run, which begins at row `at`, and start its blocks."""
    window, rule, first = learner.window, learner.rule, learner.t + 1 + at
    trials = first + np.arange(len(piece))
    gaps = None if gaps is None else gaps[at : at + PIECE]
    Y = np.asarray(learner.targets.standardised(piece.Y), np.float64)
    eta, lam = rule.rates(trials), rule.lams(trials, gaps)
    numbers = row_numbers(rule, eta, lam, piece.weight, window.oldest(trials), Y, first)
    grows = window.growth is not None
    kind = kind_of(
        learner.loss, rule, learner.kernel.bound is not None, learner.settings.intercept,
        numbers.steady, grows or window.age < bounds.NEVER, 3 if grows else 1,
    )  # fmt: skip
    x = learner.on_device(piece.X)
    learner.terms.prepare(x, track.rows)
    track.feed.take(numbers, kind.aged)
    track.run(learner.terms.held, kind, window.cap, len(piece), _block(learner, trials))
    track.keep(at, len(piece))
    return x


def _block(learner: GpuLearner, trials: Array) -> int:
    """Return how many rows a block may have: no term may be born and go in the same block."""
    window = learner.window
    most = min(BLOCK, window.cap, int(window.ages(trials).min()))
    return max(most // 2 if window.growth is not None else most, 1)


def _track(learner: GpuLearner) -> Track:
    wanted = learner.terms.launcher, learner.columns, learner.rule.needs_norm
    if learner.track is None or learner.track.made_for != wanted:
        learner.track = Track(*wanted)
    return learner.track


def _received(learner: GpuLearner, batch: Batch, track: Track, sent: list[Any]) -> Learned:
    """Wait for the device, and take over what it has done."""
    ring = learner.terms.held.ring.cpu().numpy()
    done, why = int(ring[Ring.DONE]), int(ring[Ring.WHY])
    score, limit = (found.T for found in track.results[:2, :, :done].cpu().numpy())
    if why & BAD or not done:
        refuse(learner, batch, score, track.results[2, :, :done].cpu().numpy().T)
    learner.state = track.state.cpu().numpy()[: learner.columns].copy()
    learner.terms.head, learner.terms.count = int(ring[Ring.HEAD]), int(ring[Ring.COUNT])
    see_to(learner, why, int(ring[Ring.LAST]))
    if not learner.settings.scale or learner.moments.gaps:
        return Learned(score, limit)
    whole = sent[0] if len(sent) == 1 else torch.cat(sent)
    return Learned(score, limit, whole[:done])


def refuse(learner: OnDevice, batch: Batch, score: Array, added: Array) -> None:
    """Refuse the first row that left the floating range."""
    few = batch.part(0, min(len(score) + BLOCK, len(batch)))
    prepared = learner.terms.prepare(learner.on_device(few.X))
    diag = np.abs(prepared.diag[:, : len(few)].cpu().numpy()).max(axis=0)  # NaN stays
    row = int(np.flatnonzero(~(np.abs(diag) < MOST))[0]) if np.any(~(diag < MOST)) else -1
    wild = np.flatnonzero(~((np.abs(score) < MOST) & (np.abs(added) < MOST)).all(axis=1))
    if row >= 0 and (not len(wild) or row <= wild[0]):
        learner.refuse_infinite(np.where(diag < MOST, diag, np.inf), batch.first)
    at = int(wild[0]) if len(wild) else max(len(score) - 1, 0)
    learner.refuse_step(batch.first + at, score[at : at + 1].ravel())


def see_to(learner: OnDevice, why: int, last: int) -> None:
    """Do what made a block stop, and fold a scale that has become small.

    `last`: the place of the term that the last row became; below 0: none.
    """
    if why & ~(FAR | WIPED | STALE):
        raise RuntimeError(f"onkel.gpu: a block stopped for no known reason ({why}).")
    if why & WIPED:
        wiped = np.flatnonzero(learner.state[:, Field.SCALE] == 0).tolist()
        learner.state[wiped, Field.SCALE] = 1.0
        learner.terms.wipe(wiped, last)
        if learner.sharing == 1:
            learner.terms.drop_empty()
    learner.fold_if_far()
    if why & STALE:
        learner.state[:, Field.NORM2] = np.maximum(learner.norm2(), 0.0)
