"""Centers: coefficient regularisation over fixed points (CR (0.4))."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel.core.frame import Frame
from onkel.expansions.base import Expansion
from onkel.kernels import Kernel
from onkel.params import Accept
from onkel.rules.base import Rule, Space
from onkel.saved import Saved

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Centers(Expansion):
    """f as weights over the kernel values at m fixed points: constant memory, O(m d) per example.

    ``f(x) = alpha . K(x)``, K(x) = (k(x, c_1), ..., k(x, c_m))

    It is the linear learner over the features K(x): "k(x, x)" is ||K(x)||^2, ||f|| is ||alpha||.

    Parameters
    ----------
    centers : int or matrix
        m, for the first m distinct examples; or the points themselves, one per row.
    sample : int, optional
        Take the m points as a random sample of the stream's first so many examples instead
        (a reservoir: a point that is replaced loses its weight). More than m.
    seed : int
        Of that sample.

    References
    ----------
    CR (0.4), with kappa = sup ||K(x)||_2 where the paper takes sup sqrt(k(x, x')).

    Examples
    --------
    >>> from onkel import KernelClassifier
    >>> clf = KernelClassifier(expansion=Centers([[0.0], [1.0]]))
    >>> clf.partial_fit([[0.1], [0.9], [0.2]], [0, 1, 0]).n_terms_
    2
    """

    centers: Any = 100
    sample: int | None = None
    seed: int = 0
    primal: ClassVar[bool] = True
    _accepts: ClassVar[Mapping[str, Accept]] = {
        "sample": Accept(low=1, high=10_000_000, whole=True, none=True),
        "seed": Accept(low=0, high=2**63, whole=True),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.given is None:
            count = Accept(low=1, high=2**31, whole=True).check("Centers", "centers", self.centers)
            object.__setattr__(self, "centers", count)
            if self.sample is not None and self.sample <= self.centers:
                raise ValueError(
                    f"Centers: sample must be more than the {self.centers} centres that are drawn "
                    f"from it; got {self.sample!r}."
                )
            return
        if self.sample is not None:
            raise ValueError("Centers: the points were given, so sample must be left out.")
        _check_points(self.given)
        if type(self.centers) is not np.ndarray or self.centers.dtype != np.float64:
            object.__setattr__(self, "centers", self.given)

    @property
    def given(self) -> Array | None:
        """The points, where they were given."""
        if isinstance(self.centers, (int, float, np.integer, np.floating, str, type(None))):
            return None
        try:
            return np.array(self.centers, np.float64)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(
                f"Centers: centers must be a whole number or a matrix of numbers; got "
                f"{self.centers!r}."
            ) from None

    @property
    def count(self) -> int:
        """Number of centres, m."""
        return int(self.centers) if self.given is None else len(self.given)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        mine, theirs = self.get_params(deep=False), other.get_params(deep=False)
        return all(np.array_equal(v, theirs[k]) for k, v in mine.items())

    def __hash__(self) -> int:
        return hash((type(self), self.count, self.sample, self.seed))

    def __repr__(self) -> str:
        if self.given is not None:
            return f"Centers(<{self.count} points>)"
        return f"Centers({self.count}, sample={self.sample!r}, seed={self.seed!r})"

    def check(self, kernel: Kernel, rule: Rule) -> None:
        if kernel.domain != "numbers":
            raise ValueError(
                f"Centers holds kernels on rows of numbers; got {kernel!r}. Use "
                "expansions.Window(terms=...) for texts."
            )

    def space(self, kernel: Kernel, features: int, scale: bool = False) -> Space:
        own = kernel.size(features)
        size = (1.0 + self.count / 10) * own * own
        return Space(size=size, find_reach=lambda: self._reach(kernel, scale))

    def _reach(self, kernel: Kernel, scale: bool) -> float | None:
        """Bound on ||K(x)||_2 over all x: X sqrt(largest eigenvalue of k at the points).

        Since K(x) = Phi' phi(x); before the points are known, that eigenvalue is at most m X^2.
        """
        if kernel.bound is None:
            return None
        if self.given is None or scale:
            return float(self.count) ** 0.5 * kernel.bound
        top = float(np.linalg.eigvalsh(kernel.values(self.given, self.given))[-1])
        return (kernel.bound * top) ** 0.5

    def open(self, kernel: Kernel, frame: Frame | None, limit: int = 0) -> CenterMap:
        """Return the map from rows to features, as far as the points are known."""
        assert frame is not None  # rows of numbers
        width = len(frame.center)
        if self.given is not None:
            if self.given.shape[1] != width:
                raise ValueError(
                    f"Centers: the points have {self.given.shape[1]} features, the rows {width}."
                )
            return CenterMap(kernel, self.given, self.count, 0, np.zeros(0, np.int64))
        last = 2**60 if self.sample is None else int(self.sample)
        draws = np.zeros(0, np.int64)
        if self.sample is not None:
            rng = np.random.default_rng(self.seed)
            draws = rng.integers(0, np.arange(1, last + 1))
        return CenterMap(kernel, np.zeros((0, width)), self.count, last, draws)

    def foresee(self, saved: Saved) -> None:
        """A sample is drawn when the map is opened: as long as the one in the file, no longer."""
        inside = saved.peek("map")
        drawn = inside.get("draws") if isinstance(inside, dict) else None
        if not isinstance(drawn, np.ndarray) or drawn.shape != (int(self.sample or 0),):
            raise saved.refuse(
                "map.draws", f"must hold one number for each of sample={self.sample!r}"
            )


def _check_points(points: Array) -> None:
    if points.ndim != 2 or not points.size:
        raise ValueError(
            f"Centers: centers must be a matrix, one point per row; got shape {points.shape}."
        )
    if not np.all(np.isfinite(points)):
        raise ValueError("Centers: centers hold NaN or infinity.")
    distinct = len(np.unique(points, axis=0))
    if distinct < len(points):
        raise ValueError(
            f"Centers: the {len(points)} points given hold only {distinct} distinct ones. Remove "
            "the repeated rows (numpy.unique(points, axis=0))."
        )


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
    form: ClassVar[str] = "terms"
    """What f is made of to those who explain it."""

    @property
    def count(self) -> int:
        """Number of centres so far."""
        return len(self.points)

    @property
    def missing(self) -> int:
        """Number of centres still to come."""
        return self.most - self.count

    @property
    def nbytes(self) -> int:
        """Memory beside the weights."""
        return self.points.nbytes + self.draws.nbytes

    def features(self, X: Array, frame: Frame) -> Array:
        """Return the features of rows."""
        if not self.count:
            return np.zeros((len(X), 0))
        rows = frame.z(frame.store(X)).astype(frame.dtype)
        points = frame.z(frame.store(self.points)).astype(frame.dtype)
        return np.ascontiguousarray(self.kernel.values(rows, points), np.float64)

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
            return self.count
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
        """Coefficients of centres stay what they are in a new frame."""
        return theta

    def check_complete(self, rows: int) -> None:
        """Refuse if a whole fit on so many rows has not brought all centres."""
        if self.missing:
            raise ValueError(
                f"Centers: the expansion wants {self.most} distinct examples, but the data "
                f"(n_samples={rows}) hold only {self.count}. Ask for fewer centres, or give "
                "the points."
            )

    # -- wider rows, and several learners together -------------------------------------------------

    def widened(self, kernel: Kernel, values: Array) -> CenterMap:
        """Return the map for rows that have become wider: the centres had these values too."""
        points = np.column_stack([self.points, np.tile(values, (self.count, 1))])
        return replace(self, kernel=kernel, points=points)

    def wider(self, theta: Array, values: Array) -> Array:
        """Coefficients of centres stay what they are."""
        return theta

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
        at = {p.tobytes(): i for i, p in enumerate(other.points)}
        return [*(at[p.tobytes()] for p in self.points), -1]

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
        if len(points) > self.most or (self.last == 0 and not np.array_equal(points, self.points)):
            raise saved.refuse("points", f"must be the given ones, or at most {self.most}")
        if np.any(draws > np.arange(len(draws))):
            raise saved.refuse("draws", "must each lie below the number of its trial")
        saved.finish()
        return replace(self, points=points, draws=draws)
