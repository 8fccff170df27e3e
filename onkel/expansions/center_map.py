"""From rows to the kernel values at centres, and the rows' own numbers beside them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core import covariance
from onkel.core.frame import Apart, Frame
from onkel.core.squares_row import Features
from onkel.expansions.weights import Coordinates
from onkel.kernels import Kernel
from onkel.saved import Saved

Array = NDArray[Any]


FARTHEST = 8.0
"""A number beside kernel values counts for no more spreads than this."""


@dataclass(frozen=True)
class CenterMap:
    """From rows to kernel values at the centres known so far; never changed in place."""

    kernel: Kernel
    points: Array
    """Raw rows, one per centre."""
    most: int
    last: int
    """The points may change up to this trial."""
    draws: Array
    """For each trial of the sample, a number below it: the centre that it replaces, if any."""
    numbers: int = 0
    """How many of the row's own numbers stand behind the kernel values."""
    units: bool = True
    """Whether these are standardised (and count for so many spreads at most), or as they came."""
    form: ClassVar[str] = "terms"
    """What f is made of to those who explain it."""
    apart: ClassVar[Apart] = ()
    buckets: ClassVar[int] = 0
    """Codes have no weights of their own: kernels see them."""

    @property
    def count(self) -> int:
        """Number of features so far: of the centres, and of the numbers behind them."""
        return len(self.points) + self.numbers

    @property
    def given(self) -> bool:
        """Whether the points were given, and stay."""
        return self.last == 0

    @property
    def missing(self) -> int:
        """Number of centres still to come."""
        return self.most - len(self.points)

    @property
    def nbytes(self) -> int:
        """Memory beside the weights."""
        return self.points.nbytes + self.draws.nbytes

    def features(self, X: Array, frame: Frame) -> Array:
        """Return the features of rows."""
        found = np.empty((len(X), self.count))
        self.fill_features(X, frame, found)
        return found

    def fill_features(self, X: Array, frame: Frame, out: Array) -> None:
        """Leave the features of rows in the first columns of `out`."""
        out[:, : len(self.points)] = self._at_centers(X, frame)
        if self.numbers:
            out[:, len(self.points) : self.count] = self.beside(X, frame)

    def row_features(self, frame: Frame) -> Features | None:
        """Return what makes features of single rows in the compiled core, if that can be."""
        program, own = self.kernel.program(), _of_means(frame)
        if program is None:
            return None
        center, shift, farthest = own.center, own.shift, FARTHEST
        if not self.numbers:
            center, shift = center[:0], shift[:0]
        elif not self.units:  # as they came
            if np.any(own.unit * own.width != 1.0):
                return None
            center, farthest = np.zeros(len(center)), np.inf
        return Features(program, frame, frame.prepare(self.points), center, shift, farthest)

    def beside(self, X: Array, frame: Frame) -> Array:
        """Return the rows' own numbers as they stand behind the kernel values."""
        numbers = np.asarray(X, np.float64)[:, len(frame.apart) :]
        if not self.units:
            return numbers
        own = _of_means(frame)
        return np.clip(own.z(own.store(numbers)), -FARTHEST, FARTHEST)

    def _at_centers(self, X: Array, frame: Frame) -> Array:
        """Return the kernel values of rows at the centres."""
        return self.at(X, self.points, frame)

    def at(self, X: Array, points: Array, frame: Frame) -> Array:
        """Return the kernel values of raw rows at raw points."""
        if not len(points):
            return np.zeros((len(X), 0))
        program = self.kernel.program()
        if program is not None:
            held = frame.prepare(points)
            return core.matrix(program, frame.prepare(X), held.v, held.norm)
        assert not frame.apart  # or such rows are refused: the kernel would take codes for numbers
        rows = frame.z(frame.store(X)).astype(frame.dtype)
        return np.ascontiguousarray(
            self.kernel.values(rows, frame.z(frame.store(points)).astype(frame.dtype)), np.float64
        )

    def quiet_rows(self, X: Array, t: int) -> int:
        """Return how many of these rows, from trial `t` on, leave the points as they are."""
        if t > self.last or (not len(self.draws) and not self.missing):
            return len(X)
        known = {p.tobytes() for p in self.points}
        for i, x in enumerate(np.asarray(X, np.float64) + 0.0):
            if t + i > self.last:
                return len(X)
            slot = self._slot(t + i)
            if slot is not None and x.tobytes() not in known:
                return i
        return len(X)

    def _slot(self, t: int) -> int | None:
        """Return where the example of trial t would go: a new place, a taken one, or nowhere."""
        if self.missing:
            return len(self.points)
        if t > len(self.draws):
            return None
        return int(self.draws[t - 1]) if self.draws[t - 1] < self.most else None

    def entered(self, x: Array, t: int) -> tuple[CenterMap, int]:
        """Return the map with trial t's example among its points, and its place."""
        slot = self._slot(t)
        assert slot is not None
        x = np.asarray(x, np.float64) + 0.0  # no -0.0, so that equal points have equal bytes
        points = np.concatenate([self.points, x[None]]) if self.missing else self.points.copy()
        points[slot] = x
        return replace(self, points=points), slot

    def reframed(self, theta: Array, old: Frame, new: Frame) -> Array:
        """Coefficients of centres stay what they are in a new frame; the numbers' follow it."""
        if not (self.numbers and self.units):
            return theta
        at = len(self.points)
        own = Coordinates(self.numbers).reframed(theta[:, at:], _of_means(old), _of_means(new))
        return np.hstack([theta[:, :at], own])

    def way_back(self, old: Frame, new: Frame) -> Array:
        """Return the matrix that makes the features of a frame, and a 1, of those of a new one."""
        back = np.eye(self.count + 1)
        if self.numbers and self.units:
            own = Coordinates(self.numbers).way_back(_of_means(old), _of_means(new))
            back[len(self.points) :, len(self.points) :] = own
        return back

    def nearly_back(self, old: Frame, new: Frame) -> Array | None:
        """Return the matrix that makes kernel values of a frame, as nearly as can be, of others.

        None where they are the same.
        """
        then, now = (self.at(self.points, self.points, frame) for frame in (old, new))
        near = 100 * np.finfo(old.dtype).eps * np.abs(then).max(initial=0.0)
        if np.allclose(then, now, rtol=0, atol=near):
            return None
        back = np.eye(self.count + 1)
        back[: len(then), : len(then)] = covariance.solved(now, then).T
        return back

    def check_complete(self, rows: int) -> None:
        """Refuse if a whole fit on so many rows has not brought all centres."""
        if self.missing:
            raise ValueError(
                f"Centers: the expansion wants {self.most} distinct examples, but the data "
                f"(n_samples={rows}) hold only {len(self.points)}. Ask for fewer centres, or give "
                "the points."
            )

    # -- wider rows, and several learners together -------------------------------------------------

    def widened(self, kernel: Kernel, values: Array) -> CenterMap:
        """Return the map for rows that have become wider: the centres had these values too."""
        points = np.column_stack([self.points, np.tile(values, (len(self.points), 1))])
        numbers = self.numbers + len(values) if self.numbers else 0
        return replace(self, kernel=kernel, points=points, numbers=numbers)

    def wider(self, theta: Array, values: Array) -> Array:
        """Coefficients of centres stay what they are; a number's are those of a constant one."""
        if not self.numbers:
            return theta
        return np.insert(theta, [self.count] * len(values), theta[:, -1:] * values, axis=1)

    def common(self, maps: list[CenterMap]) -> CenterMap:
        """Return the centres of all of these; coefficients of different points cannot be added."""
        points = [{p.tobytes() for p in m.points} for m in maps]
        for j, other in enumerate(points):
            if other != points[0]:
                raise ValueError(
                    f"merge: model {j} has other centres than model 0 "
                    f"({len(other & points[0])} of {len(points[0])} are the same), so that their "
                    "coefficients cannot be added. Give all of them the same points beforehand: "
                    "expansions.Centers(points)."
                )
        return maps[0] if maps else self

    def places(self, other: CenterMap) -> Any:
        """Return where this map's centres stand in another one, and the sum behind them."""
        at, behind = {p.tobytes(): i for i, p in enumerate(other.points)}, len(other.points)
        own = range(behind, behind + self.numbers)
        return [*(at[p.tobytes()] for p in self.points), *own, -1]

    def probes(self, mean: Array, spread: Array) -> Array:
        """Return rows at which a change of the frame shows: the centres."""
        return self.points

    # -- files -----------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold of the points, and the draws that are still to come."""
        return {"points": self.points, "draws": self.draws}

    def restored(self, saved: Saved) -> CenterMap:
        """Return the map that a file holds; the generator itself may change with NumPy."""
        points = saved.array("points", (None, self.points.shape[1]), np.float64)
        draws = saved.array("draws", self.draws.shape, np.int64, low=0)
        if len(points) > self.most or (self.given and not np.array_equal(points, self.points)):
            raise saved.refuse("points", f"must be the given ones, or at most {self.most}")
        if np.any(draws > np.arange(len(draws))):
            raise saved.refuse("draws", "must each lie below the number of its trial")
        saved.finish()
        return replace(self, points=points, draws=draws)


def _of_means(frame: Frame) -> Frame:
    """Return the coordinates of a row's own numbers: around their means, whatever the kernel sees.

    Kernels of differences alone need no centre that follows the data; numbers do.
    """
    numbers = frame.of_numbers
    return replace(numbers, center=numbers.mean, shift=np.zeros(len(numbers.mean)))
