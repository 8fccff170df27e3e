"""Weights: f as one vector over the features, with a p-norm link (A02 section 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel.core.frame import Apart, Frame, ones
from onkel.core.squares_row import Features
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
        2 or more. Rules other than NORMA, ALMA and the perceptron need 2, and so do rows with
        columns of codes (categories, words).
    bits : int
        Codes share ``2**bits`` weights per output, by a hash of column and code: memory, against
        codes that get the same weight.

    References
    ----------
    A02 section 2.

    Examples
    --------
    >>> Weights(p=4.0)
    Weights(p=4.0, bits=14)
    """

    p: float = 2.0
    bits: int = 14
    primal: ClassVar[bool] = True
    _accepts: ClassVar[Mapping[str, Accept]] = {
        "p": Accept(
            low=2, high_open=True,
            hint="2 is the kernel learner's; max(2, 2 ln d) suits few relevant features of many.",
        ),
        "bits": Accept(low=0, high=20, whole=True),
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

    def counted(self, width: int, apart: Apart) -> float:
        """Return how many features of value 1 a row has: each word of a text is one."""
        return ones(width, apart)

    def space(self, kernel: Kernel, features: float, scale: bool = False) -> Space:
        return Space(size=_typical(max(features, 1), float(self.p)), p=float(self.p))

    @property
    def link_power(self) -> float:
        return float(self.p)

    def open(self, kernel: Kernel, frame: Frame | None, limit: int = 0) -> Coordinates:
        """Return the map from rows to features."""
        assert frame is not None  # rows of numbers
        if frame.apart and self.p != 2:
            raise ValueError(
                f"Weights: p={self.p!r} takes numbers alone, and the rows have {len(frame.apart)} "
                "columns of codes (categories, words). Use p=2, or leave those columns out."
            )
        numbers = len(frame.center) - len(frame.apart)
        return Coordinates(numbers, frame.apart, 2**self.bits if frame.apart else 0)


def _typical(features: float, p: float) -> float:
    """||x||_p^2 for independent standard normal features: (d E|z|^p)^(2/p)."""
    p = min(p, 1e300)
    log_moment = p / 2 * math.log(2) + math.lgamma((p + 1) / 2) - 0.5 * math.log(math.pi)
    return math.exp(2 / p * (math.log(features) + log_moment))


@dataclass(frozen=True)
class Coordinates:
    """Rows as they are (standardised): the features of the linear kernel, behind codes if any."""

    count: int
    """Of the numbers."""
    apart: Apart = ()
    """Of the codes, which are one-hot features of their own."""
    buckets: int = 0
    """Weights that the codes share."""
    form: ClassVar[str] = "weights"
    """What f is made of to those who explain it."""
    numbers: ClassVar[int] = 0
    """There is nothing behind other features."""

    @property
    def nbytes(self) -> int:
        """Memory beside the weights."""
        return 0

    def features(self, X: Array, frame: Frame) -> Array:
        """Return the features of rows."""
        return np.ascontiguousarray(frame.z(frame.store(X)))

    def fill_features(self, X: Array, frame: Frame, out: Array) -> None:
        """Leave the features of rows in the first columns of `out`."""
        out[:, : self.count] = frame.z(frame.store(X))

    def row_features(self, frame: Frame) -> Features:
        """Return what makes features of single rows of numbers in the compiled core."""
        none = frame.prepare(np.zeros((0, self.count)))
        return Features(None, frame, none, frame.center, frame.shift, np.inf)

    def quiet_rows(self, X: Array, t: int) -> int:
        """Return how many of these rows leave the features as they are: all."""
        return len(X)

    def reframed(self, theta: Array, old: Frame, new: Frame) -> Array:
        """Return sum a_i z_i in a new frame, from that sum and the sum of the a_i (the last)."""
        if self.apart:
            old, new = old.of_numbers, new.of_numbers
        ratio = (new.width * new.unit) / (old.width * old.unit)
        gap = (old.center - new.center) + (old.shift / old.unit - new.shift / new.unit)
        kept, shifted = theta[:, :-1] * ratio, gap * new.width * new.unit * theta[:, -1:]
        sums = kept + shifted
        far = (np.abs(old.center) + np.abs(new.center)) * new.width * new.unit
        size = np.abs(kept) + np.abs(shifted) + far * np.abs(theta[:, -1:])
        dust = np.abs(sums) <= 8 * np.finfo(float).eps * size  # what cancelled is 0
        return np.column_stack([np.where(dust, 0.0, sums), theta[:, -1]])

    def way_back(self, old: Frame, new: Frame) -> Array:
        """Return the matrix that makes the features of a frame, and a 1, of those of a new one."""
        old, new = old.of_numbers, new.of_numbers
        factor = (old.width * old.unit) / (new.width * new.unit)
        gap = (new.center - old.center) + (new.shift / new.unit - old.shift / old.unit)
        back = np.diag(np.append(factor, 1.0))
        back[:-1, -1] = gap * old.width * old.unit
        return back

    def nearly_back(self, old: Frame, new: Frame) -> Array | None:
        """There are no features but those of :meth:`way_back`."""
        return None

    def check_complete(self, rows: int) -> None:
        """Nothing is still to come."""

    # -- wider rows, and several learners together -------------------------------------------------

    def widened(self, kernel: Kernel, values: Array) -> Coordinates:
        """Return the map for rows that have become wider."""
        return replace(self, count=self.count + len(values))

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
        way = np.diag(spread)[len(self.apart) :]
        return np.concatenate([mean[None], mean + way, mean - way])

    # -- files -----------------------------------------------------------------------------------

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold beside the weights: nothing."""
        return {}

    def restored(self, saved: Saved) -> Coordinates:
        """Return the map that a file holds."""
        saved.finish()
        return self
