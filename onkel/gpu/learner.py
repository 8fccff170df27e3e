"""The learner whose f lives on a GPU: exact blocks, the steps of a block in one kernel.

A call is cut into *runs*, up to the next refresh of the frame; a run into *pieces* that are sent to
the device while it works on the one before; a piece into *blocks*. The device is waited for once
a run. A block that cannot go on (f became very small, or was wiped out) stops all that come after
it, and the host sees to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from onkel import bounds
from onkel.core.frame import Frame
from onkel.core.layout import Field
from onkel.gpu import launch, memory
from onkel.gpu.device_terms import DeviceTerms
from onkel.gpu.feeding import kind_of, told_of
from onkel.gpu.launch import Ring, send
from onkel.gpu.moments import take_in
from onkel.gpu.track import BLOCK, PIECE, Track
from onkel.learner.base import Learner
from onkel.learner.batch import Batch
from onkel.learner.settings import Settings
from onkel.learner.term_learner import TermLearner
from onkel.saved import Saved
from onkel.scaling import next_refresh

Array = NDArray[Any]

RUN = 4 * PIECE if launch.INTERPRETED else 32 * PIECE
"""Rows after which the device is waited for, and fewer where they are wide."""
HELD = 2**26
"""Numbers of rows that lie on the device at once."""
FAR, WIPED, STALE, BAD = 1, 2, 4, 8


class GpuLearner(TermLearner):
    """f = sum of terms a_i k(x_i, .) on a GPU; see :class:`~onkel.learner.TermLearner`."""

    def __init__(self, settings: Settings, features: int, columns: int, dtype: Any) -> None:
        device = "cpu" if launch.INTERPRETED else settings.device
        self.device = torch.device(device)
        self.track: Track | None = None
        super().__init__(settings, features, columns, dtype)

    def _open(self, frame: Frame) -> None:
        super()._open(frame)
        self.in_lane = False
        self.terms = self._no_terms(frame)

    def _no_terms(self, frame: Frame) -> DeviceTerms:
        limit = min(self.window.cap, self.window.age)
        return DeviceTerms(
            self.kernel, frame, 0, limit, self.device, self.settings.precision, self.dtype
        )

    def norm2(self) -> Array:
        """Recompute ||f||^2 of each output from its terms, in O(terms^2)."""
        scale = self.state[:, Field.SCALE]
        return np.asarray(self.terms.norm2(self.columns) * scale**2)

    # -- rows ----------------------------------------------------------------------------------

    def on_device(self, X: Any) -> Any:
        """Return rows on the device, in the type they came in; a tensor there is used in place."""
        if isinstance(X, torch.Tensor):
            return X.to(self.device)
        return send(on_host(X), self.device)

    def filled(self, X: Any) -> Any:
        """Return rows with missing values as what they stand for."""
        return super().filled(on_host(X)) if self.moments.gaps else X

    def _take_in(self, X: Any, fade: Array) -> None:
        if isinstance(X, torch.Tensor) and not (self.moments.gaps or len(fade)):
            take_in(self.moments, X.to(self.device))
        else:
            self.moments.update(on_host(X), fade)

    def _refresh(self, X: Any) -> None:
        super()._refresh(on_host(X[-1:]))

    # -- predicting ----------------------------------------------------------------------------

    def scores(self, X: Any, first: int = 0) -> Array:
        """Return f(x) + b for each row and output, in the targets' own units."""
        out = np.empty((len(X), self.columns))
        for start in range(0, len(X), PIECE):
            part = slice(start, start + PIECE)
            out[part] = self._scores(self.filled(X[part]))
        if not np.all(np.isfinite(out)):
            bad = int(np.flatnonzero(~np.isfinite(out).all(axis=1))[0])
            raise ValueError(
                f"Row {first + bad}: the score is not finite; its values are too large for "
                f"{self.kernel!r} in {self.dtype}{self._advice}."
            )
        return self.targets.raw(out)

    def _scores(self, X: Any) -> Array:
        found = self.terms.scores(self.on_device(X))
        return np.asarray(found * self.state[:, Field.SCALE] + self.state[:, Field.OFFSET])

    # -- learning ------------------------------------------------------------------------------

    def learn(
        self, X: Any, Y: Array, weight: Array, own: Array | None = None, first: int = 0,
        times: Array | None = None,
    ) -> tuple[Array, Array]:  # fmt: skip
        """Learn rows in order; return scores and thresholds as they were before each row.

        Refused whole or learned whole; see :meth:`onkel.learner.base.Learner.learn`.
        """
        memory.check_room(self.terms, min(self.size + len(X), self.terms.limit))
        scores, limits = np.empty((2, len(X), self.columns))
        batch = Batch(X, Y, weight, np.zeros(len(X), np.int64), times, first)
        restore, start = self._kept(len(X)), 0
        try:
            while start < len(X):
                came = batch.part(start, start + self._until_refresh(batch, start))
                part, score, limit = self._learn_run(came)
                scores[start : start + len(score)], limits[start : start + len(score)] = (
                    score,
                    limit,
                )
                self._advance(part)
                start += len(score)
        except torch.OutOfMemoryError as error:
            self.__dict__.update(restore().__dict__)
            raise memory.refused(self.terms, str(error)) from None
        except BaseException:
            self.__dict__.update(restore().__dict__)
            raise
        return scores, limits

    def _kept(self, rows: int) -> Callable[[], Learner]:
        """Return a function that gives back the learner as it is now."""
        saved = self.copy(deep=False)
        for name in Learner.shared:
            setattr(saved, name, getattr(self, name).copy())
        undo = self.terms.begin(rows)

        def restore() -> Learner:
            saved.terms = undo()
            return saved

        return restore

    def _until_refresh(self, batch: Batch, start: int) -> int:
        rows = min(len(batch) - start, RUN, max(HELD // len(self.frame.center) // PIECE, 1) * PIECE)
        if not (self.settings.scale or self.moments.gaps or self.targets.active):
            return rows  # nothing is refreshed
        rows = min(rows, next_refresh(self.t, self.rule.memory) - self.t)
        if batch.times is None or self.refreshed is None:
            return rows
        due = self.refreshed + self.rule.duration / 4
        return min(rows, int(np.searchsorted(batch.times[start : start + rows], due)) + 1)

    def _learn_run(self, came: Batch) -> tuple[Batch, Array, Array]:
        """Learn the first rows, as many as go; return them, their scores and limits."""
        batch = replace(came, X=self.filled(came.X))
        size = self._begin_run(batch)
        batch = batch.part(0, size)
        self.terms = self.terms.following(on_host(batch.X[:1])[0].astype(np.float64))
        self.terms.grow(min(self.size + size, self.terms.limit))
        self.terms.tell()
        track, gaps = self._track(), batch.gaps(self.clock)
        track.begin(self.state, size)
        sent = [
            self._launch(
                track, batch.part(at, at + PIECE), None if gaps is None else gaps[at : at + PIECE],
                self.t + 1 + at, at,
            )
            for at in range(0, size, PIECE)
        ]  # fmt: skip
        ring = self.terms.held.ring.cpu().numpy()
        done, why = int(ring[Ring.DONE]), int(ring[Ring.WHY])
        score, limit = (found.T for found in track.results[:2, :, :done].cpu().numpy())
        if why & BAD or not done:
            self._refuse_bad(batch, score, track.results[2, :, :done].cpu().numpy().T)
        self.state = track.state.cpu().numpy()[: self.columns].copy()
        self.terms.head, self.terms.count = int(ring[Ring.HEAD]), int(ring[Ring.COUNT])
        self._see_to(why, int(ring[Ring.LAST]))
        shown = self.targets.raw(score)
        if self.t == 0:
            shown[0] = 0.0  # nothing was known before the very first row
        elif self.first_score is not None:
            shown[0] = self.targets.raw(self.first_score[0])
        kept = came.part(0, done)
        if self.settings.scale and not self.moments.gaps:
            whole = sent[0] if len(sent) == 1 else torch.cat(sent)
            kept = replace(kept, X=whole[:done])
        return kept, shown, self.targets.raw_widths(limit)

    def _begin_run(self, batch: Batch) -> int:
        """Meet the first row, give targets and features their units; return how many rows may come.

        While units are unknown, rows are looked at on the host, a block at a time.
        """
        settled = not (self.rule.divides and self.settings.scale) or bool(self.known.all())
        if self.t and settled and bool(self.targets.known.all()):
            self.first_score = None
            return len(batch)
        few = batch.part(0, min(len(batch), BLOCK))
        return self._begin_block(replace(few, X=on_host(few.X)), len(few))

    def _launch(self, track: Track, batch: Batch, gaps: Array | None, trial: int, at: int) -> Any:
        """Send a piece and start its blocks, nothing is waited for; return its rows there."""
        trials = trial + np.arange(len(batch))
        eta, lam = self.rule.rates(trials), self.rule.lams(trials, gaps)
        Y = np.asarray(self.targets.standardised(batch.Y), np.float64)
        told = told_of(self.rule, eta, lam, batch.weight, self.window.oldest(trials), Y, trial)
        grows = self.window.growth is not None
        kind = kind_of(
            self.loss, self.rule, self.kernel.bound is not None, self.settings.intercept,
            told.steady, grows or self.window.age < bounds.NEVER, 3 if grows else 1,
        )  # fmt: skip
        x = self.on_device(batch.X)
        self.terms.prepare(x, track.rows)
        track.feed.tell(told, kind.aged)
        track.run(self.terms.held, kind, self.window.cap, len(batch), self._block(trials))
        track.keep(at, len(batch))
        return x

    def _block(self, trials: Array) -> int:
        """Return how many rows a block may have: no term may be born and go in the same block."""
        most = min(BLOCK, self.window.cap, int(self.window.ages(trials).min()))
        return max(most // 2 if self.window.growth is not None else most, 1)

    def _track(self) -> Track:
        wanted = self.terms.launcher, self.columns, self.rule.needs_norm
        if self.track is None or self.track.made_for != wanted:
            self.track = Track(*wanted)
        return self.track

    def _refuse_bad(self, batch: Batch, score: Array, added: Array) -> None:
        """Refuse the first row that left the floating range."""
        few = batch.part(0, min(len(score) + BLOCK, len(batch)))
        diag = self.terms.prepare(self.on_device(few.X)).diag[: len(few)].cpu().numpy()
        most = 1e37
        row = int(np.flatnonzero(~(np.abs(diag) < most))[0]) if np.any(~(diag < most)) else -1
        wild = np.flatnonzero(~((np.abs(score) < most) & (np.abs(added) < most)).all(axis=1))
        if row >= 0 and (not len(wild) or row <= wild[0]):
            self._refuse_infinite(np.where(diag < most, diag, np.inf), batch.first)
        at = int(wild[0]) if len(wild) else max(len(score) - 1, 0)
        self._refuse_step(batch.first + at, score[at : at + 1].ravel())

    def _see_to(self, why: int, last: int) -> None:
        """Do what made a block stop, and fold a scale that has become small.

        `last`: the place of the term that the last row became; below 0: none.
        """
        if why & ~(FAR | WIPED | STALE):
            raise RuntimeError(f"onkel.gpu: a block stopped for no known reason ({why}).")
        if why & WIPED:
            wiped = np.flatnonzero(self.state[:, Field.SCALE] == 0).tolist()
            self.state[wiped, Field.SCALE] = 1.0
            self.terms.wipe(wiped, last)
        self._fold_if_far()
        if why & STALE:
            self.state[:, Field.NORM2] = np.maximum(self.norm2(), 0.0)

    # -- copies and files ----------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """What the device works in can be made again."""
        return {**self.__dict__, "track": None}

    def restore_f(self, saved: Saved, frame: Frame) -> None:
        """Become the f that a file holds; rows of double precision become single here."""
        inside = saved.inside("terms")
        self.terms = self._no_terms(frame)
        self.terms.restore(inside, self.columns, self.t)
        inside.finish()


def on_host(X: Any) -> Array:
    """Return rows as an array on the host."""
    if isinstance(X, torch.Tensor):
        return X.detach().cpu().numpy()
    if isinstance(X, np.ndarray):
        return X
    step = getattr(X, "most", 1024)  # sparse rows come out dense in short slices
    return np.concatenate([X[at : at + step] for at in range(0, len(X), step)])
