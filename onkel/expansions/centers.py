"""Centers: coefficient regularisation over fixed points (CR (0.4))."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel.core.frame import Frame
from onkel.expansions.base import Expansion
from onkel.expansions.center_map import CenterMap
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
    linear : bool
        Whether the row's own numbers stand beside the kernel values: what is linear in them need
        not be made of kernels.

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
    linear: bool = False
    primal: ClassVar[bool] = True
    _accepts: ClassVar[Mapping[str, Accept]] = {
        "sample": Accept(low=1, high=10_000_000, whole=True, none=True),
        "seed": Accept(low=0, high=2**63, whole=True),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.linear, bool):
            raise ValueError(f"Centers: linear must be True or False; got {self.linear!r}.")
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
        return hash((type(self), self.count, self.sample, self.seed, self.linear))

    def __repr__(self) -> str:
        if self.given is not None:
            return f"Centers(<{self.count} points>{', linear=True' if self.linear else ''})"
        return (
            f"Centers({self.count}, sample={self.sample!r}, seed={self.seed!r}, "
            f"linear={self.linear!r})"
        )

    def check(self, kernel: Kernel, rule: Rule) -> None:
        if kernel.domain != "numbers":
            raise ValueError(
                f"Centers holds kernels on rows of numbers; got {kernel!r}. Use "
                "expansions.Window(terms=...) for texts."
            )
        if rule.second_order and self.sample is not None:
            raise ValueError(
                f"Centers: {rule!r} exchanges centres by what they are worth; leave sample out."
            )

    def space(self, kernel: Kernel, features: float, scale: bool = False) -> Space:
        own = kernel.size(features)
        size = (1.0 + self.count / 10) * own * own + (features if self.linear else 0.0)
        return Space(size=size, find_reach=lambda: self._reach(kernel, scale))

    def _reach(self, kernel: Kernel, scale: bool) -> float | None:
        """Bound on ||K(x)||_2 over all x: X sqrt(largest eigenvalue of k at the points).

        Since K(x) = Phi' phi(x); before the points are known, that eigenvalue is at most m X^2.
        """
        if kernel.bound is None or self.linear:
            return None
        if self.given is None or scale:
            return float(self.count) ** 0.5 * kernel.bound
        top = float(np.linalg.eigvalsh(kernel.values(self.given, self.given))[-1])
        return (kernel.bound * top) ** 0.5

    def open(self, kernel: Kernel, frame: Frame | None, limit: int = 0) -> CenterMap:
        """Return the map from rows to features, as far as the points are known."""
        assert frame is not None  # rows of numbers
        width = len(frame.center)
        numbers = width - len(frame.apart) if self.linear else 0
        if self.given is not None:
            if self.given.shape[1] != width:
                raise ValueError(
                    f"Centers: the points have {self.given.shape[1]} features, the rows {width}."
                )
            return CenterMap(kernel, self.given, self.count, 0, np.zeros(0, np.int64), numbers)
        last = 2**60 if self.sample is None else int(self.sample)
        draws = np.zeros(0, np.int64)
        if self.sample is not None:
            rng = np.random.default_rng(self.seed)
            draws = rng.integers(0, np.arange(1, last + 1))
        return CenterMap(kernel, np.zeros((0, width)), self.count, last, draws, numbers)

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
