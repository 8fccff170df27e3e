"""Weights: f as one vector over the features, with a p-norm link (A02 section 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel.core.frame import Frame
from onkel.expansions.base import Expansion
from onkel.kernels import Kernel, Linear
from onkel.params import Accept
from onkel.rules.base import Rule, Space
from onkel.saved import Saved

Array = NDArray[Any]


@dataclass(frozen=True)
class Weights(Expansion):
    """The primal form of the linear kernel: O(features) per example, whatever the stream.

    ``theta = sum of a_i x_i``, ``w_i = sign(theta_i) abs(theta_i)^(p-1) / ||theta||_p^(p-2)``

    At p = 2 w = theta, and the learner is the kernel learner with the linear kernel. Towards
    p = 2 ln(features) it behaves like Winnow: few of many features matter.

    Parameters
    ----------
    p : float
        2 or more. Rules other than NORMA, ALMA and the perceptron need 2.

    References
    ----------
    A02 section 2.

    Examples
    --------
    >>> Weights(p=4.0)
    Weights(p=4.0)
    """

    p: float = 2.0
    primal: ClassVar[bool] = True
    _accepts: ClassVar[Mapping[str, Accept]] = {
        "p": Accept(
            low=2, high_open=True,
            hint="2 is the kernel learner's; max(2, 2 ln d) suits few relevant features of many.",
        )
    }  # fmt: skip

    def check(self, kernel: Kernel, rule: Rule) -> None:
        if not isinstance(kernel, Linear):
            raise ValueError(
                f"Weights holds the linear kernel only; got {kernel!r}. Use expansions.Window(), "
                "or expansions.Centers(m) for weights over any kernel."
            )
        if self.p != 2 and not rule.has_link:
            raise ValueError(
                f"Weights: p={self.p!r} goes with NORMA, ALMA and the perceptron; {rule!r} needs "
                "p=2."
            )

    def space(self, kernel: Kernel, features: int, scale: bool = False) -> Space:
        return Space(size=_typical(max(features, 1), float(self.p)), p=float(self.p))

    @property
    def link_power(self) -> float:
        return float(self.p)

    def open(self, kernel: Kernel, frame: Frame | None, limit: int = 0) -> Coordinates:
        """Return the map from rows to features."""
        assert frame is not None  # rows of numbers
        return Coordinates(len(frame.center))


def _typical(features: int, p: float) -> float:
    """||x||_p^2 for independent standard normal features: (d E|z|^p)^(2/p)."""
    p = min(p, 1e300)
    log_moment = p / 2 * math.log(2) + math.lgamma((p + 1) / 2) - 0.5 * math.log(math.pi)
    return math.exp(2 / p * (math.log(features) + log_moment))


@dataclass(frozen=True)
class Coordinates:
    """Rows as they are (standardised): the features of the linear kernel."""

    count: int
    form: ClassVar[str] = "weights"
    """What f is made of to those who explain it."""

    @property
    def nbytes(self) -> int:
        """Memory beside the weights."""
        return 0

    def features(self, X: Array, frame: Frame) -> Array:
        """Return the features of rows."""
        return np.ascontiguousarray(frame.z(frame.store(X)))

    def quiet_rows(self, X: Array, t: int) -> int:
        """Return how many of these rows leave the features as they are: all."""
        return len(X)

    def reframed(self, theta: Array, old: Frame, new: Frame) -> Array:
        """Return sum a_i z_i in a new frame, from that sum and the sum of the a_i (the last)."""
        ratio = (new.width * new.unit) / (old.width * old.unit)
        gap = (old.center - new.center) + (old.shift / old.unit - new.shift / new.unit)
        kept, shifted = theta[:, :-1] * ratio, gap * new.width * new.unit * theta[:, -1:]
        sums = kept + shifted
        far = (np.abs(old.center) + np.abs(new.center)) * new.width * new.unit
        size = np.abs(kept) + np.abs(shifted) + far * np.abs(theta[:, -1:])
        dust = np.abs(sums) <= 8 * np.finfo(float).eps * size  # what cancelled is 0
        return np.column_stack([np.where(dust, 0.0, sums), theta[:, -1]])

    def check_complete(self, rows: int) -> None:
        """Nothing is still to come."""

    # -- wider rows, and several learners together -------------------------------------------------

    def widened(self, kernel: Kernel, values: Array) -> Coordinates:
        """Return the map for rows that have become wider."""
        return Coordinates(self.count + len(values))

    def wider(self, theta: Array, values: Array) -> Array:
        """Return the weights for such rows: that of a constant feature is v times the sum of a_i.

        That sum stands last.
        """
        return np.insert(theta, [self.count] * len(values), theta[:, -1:] * values, axis=1)

    def common(self, maps: list[Coordinates]) -> Coordinates:
        """Return the map that all of these are."""
        return self

    def places(self, other: Coordinates) -> Any:
        """Return where this map's features stand in another one."""
        return slice(None)

    def probes(self, mean: Array, spread: Array) -> Array:
        """Return rows at which a change of the frame shows: the mean, and one spread either way."""
        way = np.diag(spread)
        return np.concatenate([mean[None], mean + way, mean - way])

    # -- files -----------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold beside the weights: nothing."""
        return {}

    def restored(self, saved: Saved) -> Coordinates:
        """Return the map that a file holds."""
        saved.finish()
        return self
