"""The learner in the primal: weights over features, one row after another (SPEC sections 4, 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core import numpy_core
from onkel.core.frame import Frame
from onkel.core.layout import Field
from onkel.expansions.centers import Centers
from onkel.expansions.weights import Weights
from onkel.learner.base import Learner
from onkel.learner.batch import Batch
from onkel.saved import Saved

Array = NDArray[Any]

BLOCK = 1024
LARGEST = 1e250
"""A weight beyond this is refused, well inside the floating range."""


@dataclass
class Step:
    """What a block came to."""

    out: core.PrimalOutput
    map: Any
    done: int

    @property
    def score(self) -> Array:
        """Scores before each row."""
        return self.out.score

    @property
    def mean_score(self) -> Array:
        """The average hypothesis's scores before each row."""
        return self.out.mean_score

    @property
    def limit(self) -> Array:
        """Thresholds before each row."""
        return self.out.limit


class PrimalLearner(Learner):
    """f = w . features(x); see :class:`~onkel.learner.base.Learner`.

    Nothing is changed in place: a block makes new weights.
    """

    def _open(self, frame: Frame) -> None:
        expansion = self.settings.expansion
        assert isinstance(expansion, (Weights, Centers))
        self.p = float(getattr(expansion, "p", 2.0))
        if self.settings.average and self.settings.scale and self.p != 2:
            raise ValueError(
                f"average=True under a p-norm link (p={self.p:g}) needs scale=False: past weights "
                "cannot be re-standardised there."
            )
        self._frame = frame
        self.map: Any = expansion.open(self.kernel, frame)
        self.theta = np.zeros((0, self.map.count + 1))
        self.total = np.zeros((0, self.map.count + 1))

    @property
    def frame(self) -> Frame:
        """The coordinates in which rows are seen."""
        return self._frame

    @property
    def size(self) -> int:
        """Number of weights per output."""
        return int(self.map.count)

    @property
    def nbytes(self) -> int:
        """Memory of weights and centres."""
        return int(self.theta.nbytes + self.total.nbytes + self.map.nbytes)

    def _insert_column(self, old: int) -> None:
        row = np.zeros((1, self.size + 1))
        self.theta = np.concatenate([self.theta, row])
        if self.settings.average:
            self.total = np.concatenate([self.total, row])

    def _remix(self, mixing: Array) -> None:
        self.theta = mixing.T @ self.theta
        if self.settings.average:
            self.total = mixing.T @ self.total

    def check_complete(self, rows: int) -> None:
        expansion = self.settings.expansion
        if isinstance(expansion, Centers) and self.map.missing:
            raise ValueError(
                f"Centers: the expansion wants {expansion.count} distinct examples, but the data "
                f"(n_samples={rows}) hold only {self.map.count}. Ask for fewer centres, or give "
                "the points."
            )

    def fade(self, factors: Array) -> None:
        """Shrink each output's f (not what the average has of it)."""
        self.theta = self.theta * factors[:, None]
        self.state[:, Field.NORM2] *= factors**2

    # -- predicting ----------------------------------------------------------------------------

    def weights(self) -> tuple[Array, Array]:
        """Return w and b of each output, those of the average hypothesis where it is asked for."""
        s = self.state
        if not self.settings.average:
            w = np.array([numpy_core.link(row, self.p) for row in self.theta[:, :-1]])
            return w.reshape(self.columns, self.size), s[:, Field.OFFSET].copy()
        trials = np.maximum(s[:, Field.TRIALS], 1)
        return self.total[:, :-1] / trials[:, None], s[:, Field.OFFSET_SUM] / trials

    def raw_weights(self) -> tuple[Array, Array]:
        """Return w and b for rows and targets as the user gives them (linear features only)."""
        w, b = self.weights()
        frame, targets = self._frame, self.targets
        w = w * (frame.width * frame.unit)
        b = b - w @ (frame.center + frame.shift / frame.unit)
        return w * targets.raw_widths(np.ones(self.columns))[:, None], targets.raw(b)

    def _scores(self, X: Any) -> Array:
        w, b = self.weights()
        return self.map.features(X, self._frame) @ w.T + b

    # -- learning ------------------------------------------------------------------------------

    def _try_block(self, batch: Batch) -> tuple[Step, None]:
        size = self._begin_block(batch, BLOCK)
        quiet = self.map.quiet_rows(batch.X[:size], self.t + 1)
        return self._steps(batch.part(0, max(quiet, 1)), enters=quiet == 0), None

    def _steps(self, batch: Batch, enters: bool) -> Step:
        """Learn rows; if the only one `enters` the centres, it was predicted without that."""
        X = batch.X
        centers, theta, total, state = self.map, self.theta, self.total, self.state
        before = self._scores(X) if enters else None
        if enters:
            centers, slot = self.map.entered(X[0], self.t + 1)
            theta, total = (_with_empty(a, slot, centers.count) for a in (theta, total))
            state = self.state.copy()
            if self.rule.needs_norm:
                state[:, Field.NORM2] = self._norms(theta) ** 2
        features = centers.features(X, self._frame)
        self._refuse_infinite(np.einsum("ij,ij->i", features, features), batch.first)
        out = core.primal(self._task(features, batch, (state, theta, total)))
        if out.bad_row >= 0 or not np.all(np.abs(out.theta) < LARGEST):
            bad = out.bad_row if out.bad_row >= 0 else len(X) - 1
            self._refuse_step(batch.first + bad, out.score[bad])
        if before is not None:
            shown = out.mean_score if self.settings.average else out.score
            shown[:] = before
        return Step(out, centers, len(X))

    def _task(
        self, features: Array, batch: Batch, held: tuple[Array, Array, Array]
    ) -> core.PrimalInput:
        state, theta, total = held
        trials = self.t + 1 + np.arange(len(batch))
        return core.PrimalInput(
            x=features,
            y=np.ascontiguousarray(self.targets.standardised(batch.Y), np.float64),
            weight=np.ascontiguousarray(batch.weight, np.float64),
            eta=self.rule.rates(trials),
            lam=self.rule.lams(trials, batch.gaps(self.clock)),
            loss=self.loss,
            rule=self.rule,
            p=self.p,
            intercept=self.settings.intercept,
            needs_norm=self.rule.needs_norm,
            average=self.settings.average,
            state=state,
            theta=theta,
            total=total,
        )

    def _commit(self, result: Step, context: None, own: Array) -> None:
        self.map = result.map
        self.state, self.theta, self.total = result.out.state, result.out.theta, result.out.total

    # -- standardisation -----------------------------------------------------------------------

    def _reframe(self, frame: Frame) -> None:
        self.theta = self.map.reframed(self.theta, self._frame, frame)
        self.total = self.map.reframed(self.total, self._frame, frame)
        self._frame = frame

    def _settle(self) -> None:
        if not self.rule.needs_norm:
            return
        norms = self._norms(self.theta)
        inward = np.minimum(1.0, self.rule.radius / np.maximum(norms, 1e-300))
        self.theta = self.theta * inward[:, None]
        self.state[:, Field.NORM2] = np.square(np.minimum(norms, self.rule.radius))

    def _norms(self, theta: Array) -> Array:
        return np.array([numpy_core.norm_p(row, self.p) for row in theta[:, :-1]])

    # -- files ---------------------------------------------------------------------------------

    def dump_f(self) -> dict[str, Any]:
        """Return what a file must hold of f."""
        total = {"total": self.total} if self.settings.average else {}
        return {"map": self.map.dump(), "theta": self.theta, **total}

    def restore_f(self, saved: Saved, frame: Frame) -> None:
        """Become the f that a file holds, in its frame; t and the outputs' state are known."""
        self._frame, self.map = frame, self.map.restored(saved.inside("map"))
        shape = (self.columns, self.size + 1)
        self.theta = saved.array("theta", shape, np.float64)
        self.total = np.zeros((0, self.size + 1))
        if self.settings.average:
            self.total = saved.array("total", shape, np.float64)


def _with_empty(weights: Array, slot: int, count: int) -> Array:
    """Return the weights with a 0 at `slot`, which is new or taken over (the last is no weight)."""
    if count > weights.shape[1] - 1:
        return np.insert(weights, slot, 0.0, axis=1)
    weights = weights.copy()
    weights[:, slot] = 0.0
    return weights
