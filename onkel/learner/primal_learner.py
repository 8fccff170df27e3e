"""The learner in the primal: f as weights over features, the inputs' own or fixed centres'."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core import numpy_primal
from onkel.core.frame import Frame
from onkel.core.layout import LARGEST, Field
from onkel.expansions.center_map import CenterMap
from onkel.expansions.weights import Coordinates
from onkel.learner.base import Learner
from onkel.learner.engines.primal import PRIMAL
from onkel.learner.merging.adding_weights import AddingWeights
from onkel.learner.stored import Stored
from onkel.saved import Saved

Array = NDArray[Any]


class PrimalLearner(Learner):
    """f = w . features(x); see :class:`~onkel.learner.base.Learner`.

    A block makes new weights; only single rows, as part of a mixture, change them in place. Codes
    have weights of their own (:class:`~onkel.core.CodeTable`), which always change in place.
    """

    engines: ClassVar[tuple[Any, ...]] = (PRIMAL,)
    adding: ClassVar[Any] = AddingWeights
    shared: ClassVar[tuple[str, ...]] = (*Learner.shared, "theta", "total", "codes")

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
        if isinstance(self.map, CenterMap) and not self.settings.scale:
            self.map = replace(self.map, units=False)
        self.theta = np.zeros((0, self.map.count + 1))
        self.total = np.zeros((0, self.map.count + 1))
        self.codes = core.CodeTable.opened(len(self.map.apart), self.map.buckets)

    @property
    def frame(self) -> Frame:
        """The coordinates in which rows are seen."""
        return self._frame

    @property
    def size(self) -> int:
        """Number of weights per output, of codes those in use."""
        return int(self.map.count) + (self.codes.used if self.hashes else 0)

    @property
    def hashes(self) -> bool:
        """Whether rows have codes, with weights of their own."""
        return bool(self.map.apart)

    @property
    def nbytes(self) -> int:
        """Memory of weights and centres."""
        return int(self.theta.nbytes + self.total.nbytes + self.map.nbytes + self.codes.nbytes)

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
        rows = np.zeros((count, self.map.count + 1))
        self.theta = np.concatenate([self.theta, rows])
        if self.settings.average:
            self.total = np.concatenate([self.total, rows])
        self.codes = self.codes.with_outputs(count, self.settings.average)

    def remix(self, mixing: Array) -> None:
        """Replace the outputs' f by linear combinations of them, and of the average likewise."""
        self.theta = mixing.T @ self.theta
        if self.settings.average:
            self.total = mixing.T @ self.total
        if not self.hashes:
            return
        factors, codes, s = np.diagonal(mixing), self.codes, self.state
        if not self.settings.average and np.array_equal(mixing, np.diag(factors)):
            s[:, Field.SCALE] *= factors  # however large the tables
        else:
            past = codes.summed(s)
            past = mixing.T @ past if self.settings.average else past
            self.take_codes(mixing.T @ codes.actual(s), past)

    def take_codes(self, weights: Array, past: Array) -> None:
        """Give the codes these actual weights, and sums of past ones (no rows: none are kept)."""
        self.codes = self.codes.holding(weights, past)
        self.state[:, Field.SCALE], self.state[:, Field.SCALE_SUM] = 1.0, 0.0

    def check_complete(self, rows: int) -> None:
        """After a whole fit on so many rows: refuse if centres are still to come."""
        self.map.check_complete(rows)

    def fade(self, factors: Array) -> None:
        """Shrink each output's f (not what the average has of it)."""
        self.theta = self.theta * factors[:, None]
        self.state[:, Field.NORM2] *= factors**2
        if self.hashes:
            faded = factors[:, None] * self.codes.actual(self.state)
            self.take_codes(faded, self.codes.summed(self.state))

    def guard(self, before: Any, rows: int) -> Callable[[], Learner]:
        """Return a function that gives back the learner as it was `before`."""
        names = (*Learner.shared, "codes") if self.hashes else Learner.shared
        saved: Learner = before.copied(names)
        return lambda: saved

    # -- predicting ----------------------------------------------------------------------------

    def weights(self) -> tuple[Array, Array]:
        """Return w (of the numbers) and b of each output, or those of the average hypothesis."""
        s = self.state
        if not self.settings.average:
            w = self.theta[:, :-1].copy()
            if self.p != 2:
                w = np.array([numpy_primal.link(row, self.p) for row in w])
            return w.reshape(self.columns, self.map.count), s[:, Field.OFFSET].copy()
        trials = np.maximum(s[:, Field.TRIALS], 1)
        return self.total[:, :-1] / trials[:, None], s[:, Field.OFFSET_SUM] / trials

    def raw_weights(self) -> tuple[Array, Array]:
        """Return w and b for numbers and targets as the user gives them (linear features only)."""
        w, b = self.weights()
        frame, targets = self._frame.of_numbers, self.targets
        w = w * (frame.width * frame.unit)
        b = b - w @ (frame.center + frame.shift / frame.unit)
        return w * targets.raw_widths(np.ones(self.columns))[:, None], targets.raw(b)

    def unit_scores(self, X: Any) -> Array:
        """Return f(x) + b, in the learner's own units of targets."""
        w, b = self.weights()
        features = self.map.features(X, self._frame)
        if not self.hashes:
            return features @ w.T + b
        found = features[:, len(self.apart) :] @ w.T + b
        core.add_code_scores(features, self.codes, self.state, found)
        return found

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
        if self.hashes:
            self.state[:, Field.SCALE] *= inward
        self.state[:, Field.NORM2] = np.square(np.minimum(norms, self.rule.radius))

    def sound_f(self) -> bool:
        """Whether all weights are inside the floating range."""
        fine = np.all(np.abs(self.theta) < LARGEST) and np.all(np.isfinite(self.total))
        return bool(fine and np.all(self.codes.norms(self.state) < LARGEST))

    def norms(self, theta: Array) -> Array:
        """Return the length of each output's weights, codes and these."""
        found = np.array([numpy_primal.norm_p(row, self.p) for row in theta[:, :-1]])
        return np.hypot(found, self.codes.norms(self.state)) if self.hashes else found

    # -- for those who explain it, and for wider rows --------------------------------------------

    @property
    def form(self) -> str:
        """What f is made of: "weights" of the inputs, or "terms" at the centres."""
        form: str = self.map.form
        return form

    def effects(self, row: Array, usual: Any = None) -> tuple[Array, Array, Array]:
        """Return what each input adds to the scores, as much beyond its mean, and the offsets.

        [outputs][inputs] twice, and [outputs]. A number that is not standardised has no mean; nor
        have codes, unless `usual` tells which are frequent (its `codes`) and how much (`shares`).
        """
        w, b = self.raw_weights()
        codes, known = len(self.apart), self.settings.scale and self.t > 0
        part = w * row[codes:]
        effect = part - w * (self.moments.mean[codes:] if known else 0.0)
        if codes:
            hot, mean = self._of_codes(row[None, :codes])[0], 0.0
            if usual is not None:
                mean = np.einsum("vc,vco->co", usual.shares, self._of_codes(usual.codes))
            part, effect = np.hstack([hot.T, part]), np.hstack([(hot - mean).T, effect])
        return part, effect, b

    def _of_codes(self, codes: Array) -> Array:
        """Return what codes [rows][columns] add to the scores, [rows][columns][outputs]."""
        at = core.buckets(codes, self.codes.buckets)
        found = self.codes.shares(at.ravel(), self.state).reshape(*at.shape, -1)
        return self.targets.raw_widths(found)

    def coefficients(self) -> tuple[Array, Array]:
        """Return what multiplies the kernel values, one column per output, and the rest.

        The offsets, and what numbers beside the kernel values add where they are usual.
        """
        w, b = self.weights()
        at = w.shape[1] - self.map.numbers
        if self.map.numbers:
            b = b + w[:, at:] @ self._usual_numbers()
        return self.targets.raw_widths(w[:, :at].T), self.targets.raw(b)

    def beside_terms(self, row: Array) -> Array:
        """Return what each of a row's inputs adds by itself, beyond its mean: [outputs][inputs]."""
        found = super().beside_terms(row)
        if self.map.numbers:
            own = self.map.beside(row[None], self._frame)[0] - self._usual_numbers()
            w = self.weights()[0][:, -self.map.numbers :]
            found[:, len(self.apart) :] = self.targets.raw_widths((w * own).T).T
        return found

    def _usual_numbers(self) -> Array:
        """Return numbers beside kernel values as they are in the mean; 0, not standardised."""
        known = self.settings.scale and self.t > 0
        usual = self.moments.mean if known else np.zeros(len(self.moments.mean))
        found: Array = self.map.beside(usual[None], self._frame)[0]
        return found

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
        self.codes = narrow.codes.copy()

    def take_sum(self, frame: Frame, theta: Array, total: Array) -> None:
        """Become these weights, in their frame; `total` has no rows where none is kept."""
        self._frame, self.theta, self.total = frame, theta, total

    # -- files ---------------------------------------------------------------------------------

    def dump_f(self) -> dict[str, Any]:
        """Return what a file must hold of f."""
        total = {"total": self.total.copy()} if self.settings.average else {}
        codes = {"codes": self.codes.dump()} if self.hashes else {}
        return {"map": self.map.dump(), "theta": self.theta.copy(), **total, **codes}

    def restore_f(self, saved: Saved, frame: Frame) -> None:
        """Become the f that a file holds, in its frame; t and the outputs' state are known."""
        self._frame, self.map = frame, self.map.restored(saved.inside("map"))
        shape, average = (self.columns, self.map.count + 1), self.settings.average
        self.theta = saved.array("theta", shape, np.float64)
        self.total = np.zeros((0, self.map.count + 1))
        if average:
            self.total = saved.array("total", shape, np.float64)
        if self.hashes:
            self.codes = self.codes.restored(saved.inside("codes"), self.columns, average)
        else:
            self.codes = self.codes.with_outputs(self.columns, average)
