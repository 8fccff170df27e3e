"""The learner in the primal: f as weights over features, the inputs' own or fixed centres'."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core import numpy_primal
from onkel.core.frame import Frame
from onkel.core.layout import Field
from onkel.expansions.weights import Coordinates
from onkel.learner.base import Learner
from onkel.learner.engines.primal import LARGEST, PRIMAL
from onkel.learner.merging.adding_weights import AddingWeights
from onkel.learner.stored import Stored
from onkel.saved import Saved

Array = NDArray[Any]


class PrimalLearner(Learner):
    """f = w . features(x); see :class:`~onkel.learner.base.Learner`.

    A block makes new weights; only single rows, as part of a mixture, change them in place.
    """

    engines: ClassVar[tuple[Any, ...]] = (PRIMAL,)
    adding: ClassVar[Any] = AddingWeights
    shared: ClassVar[tuple[str, ...]] = (*Learner.shared, "theta", "total")

    def open(self, frame: Frame) -> None:
        """Make what f is stored in."""
        self.p = self.settings.expansion.link_power
        if self.settings.average and self.settings.scale and self.p != 2:
            raise ValueError(
                f"average=True under a p-norm link (p={self.p:g}) needs scale=False: past weights "
                "cannot be re-standardised there."
            )
        self._frame = frame
        self.map: Any = self.settings.expansion.open(self.kernel, frame)
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

    @property
    def stepper(self) -> core.Stepper:
        """What decides a step."""
        return core.Stepper(self.loss, self.rule, self.settings.intercept)

    @property
    def in_rows(self) -> bool:
        """Whether single rows can move these weights as part of a mixture."""
        plain = isinstance(self.map, Coordinates) and not self.settings.average
        return plain and self.stepper.native() is not None

    def insert_columns(self, old: int, count: int) -> None:
        """Make room for more outputs, starting at 0."""
        rows = np.zeros((count, self.size + 1))
        self.theta = np.concatenate([self.theta, rows])
        if self.settings.average:
            self.total = np.concatenate([self.total, rows])

    def remix(self, mixing: Array) -> None:
        """Replace the outputs' f by linear combinations of them, and of the average likewise."""
        self.theta = mixing.T @ self.theta
        if self.settings.average:
            self.total = mixing.T @ self.total

    def check_complete(self, rows: int) -> None:
        """After a whole fit on so many rows: refuse if centres are still to come."""
        self.map.check_complete(rows)

    def fade(self, factors: Array) -> None:
        """Shrink each output's f (not what the average has of it)."""
        self.theta = self.theta * factors[:, None]
        self.state[:, Field.NORM2] *= factors**2

    # -- predicting ----------------------------------------------------------------------------

    def weights(self) -> tuple[Array, Array]:
        """Return w and b of each output, those of the average hypothesis where it is asked for."""
        s = self.state
        if not self.settings.average:
            w = self.theta[:, :-1].copy()
            if self.p != 2:
                w = np.array([numpy_primal.link(row, self.p) for row in w])
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

    def unit_scores(self, X: Any) -> Array:
        """Return f(x) + b, in the learner's own units of targets."""
        w, b = self.weights()
        return self.map.features(X, self._frame) @ w.T + b

    # -- standardisation -----------------------------------------------------------------------

    def reframe(self, frame: Frame) -> None:
        """See rows in new coordinates from now on."""
        self.theta = self.map.reframed(self.theta, self._frame, frame)
        self.total = self.map.reframed(self.total, self._frame, frame)
        self._frame = frame

    def settle(self) -> None:
        """In a new frame: take the norm anew, where it is kept, and keep f in its ball."""
        if not self.rule.needs_norm:
            return
        norms = self.norms(self.theta)
        inward = np.minimum(1.0, self.rule.radius / np.maximum(norms, 1e-300))
        self.theta = self.theta * inward[:, None]
        self.state[:, Field.NORM2] = np.square(np.minimum(norms, self.rule.radius))

    def sound_f(self) -> bool:
        """Whether all weights are inside the floating range."""
        return bool(np.all(np.abs(self.theta) < LARGEST) and np.all(np.isfinite(self.total)))

    def norms(self, theta: Array) -> Array:
        """Return the length of each output's weights."""
        return np.array([numpy_primal.norm_p(row, self.p) for row in theta[:, :-1]])

    # -- for those who explain it, and for wider rows --------------------------------------------

    @property
    def form(self) -> str:
        """What f is made of: "weights" of the inputs, or "terms" at the centres."""
        form: str = self.map.form
        return form

    def coefficients(self) -> tuple[Array, Array]:
        """Return what multiplies the features, one column per output, and the offsets."""
        w, b = self.weights()
        return self.targets.raw_widths(w.T), self.targets.raw(b)

    def stored(self) -> Stored:
        """Return the centres."""
        points: Array = self.map.points
        return Stored(self.frame.z(self.frame.store(points)), lambda i, j: points[i, j], None)

    def take_f(self, narrow: Self, frame: Frame, values: Array) -> None:
        """Take over the f of a learner with fewer features, which had these `values` besides.

        Under a p-norm link the average holds past weights, not sums: past hypotheses had no
        weight there.
        """
        stored = values - frame.center[len(narrow.frame.center) :]
        past = stored if self.p == 2 else np.zeros(len(stored))
        self._frame, self.map = frame, narrow.map.widened(self.kernel, values)
        self.theta = narrow.map.wider(narrow.theta, stored)
        self.total = narrow.map.wider(narrow.total, past)

    def take_sum(self, frame: Frame, theta: Array, total: Array) -> None:
        """Become these weights, in their frame; `total` has no rows where none is kept."""
        self._frame, self.theta, self.total = frame, theta, total

    # -- files ---------------------------------------------------------------------------------

    def dump_f(self) -> dict[str, Any]:
        """Return what a file must hold of f."""
        total = {"total": self.total.copy()} if self.settings.average else {}
        return {"map": self.map.dump(), "theta": self.theta.copy(), **total}

    def restore_f(self, saved: Saved, frame: Frame) -> None:
        """Become the f that a file holds, in its frame; t and the outputs' state are known."""
        self._frame, self.map = frame, self.map.restored(saved.inside("map"))
        shape = (self.columns, self.size + 1)
        self.theta = saved.array("theta", shape, np.float64)
        self.total = np.zeros((0, self.size + 1))
        if self.settings.average:
            self.total = saved.array("total", shape, np.float64)
