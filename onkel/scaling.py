"""Running standardisation: moments that follow the stream, and when they are taken over."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.saved import Saved

Array = NDArray[Any]

SMALLEST_SPREAD = 1e-290
MOST_MEAN, MOST_VARIANCE = 1.001e152, 4.01e304
"""Of inputs up to 1e152 (and targets, which are less), but for rounding."""


NOTHING = np.zeros(0)


class Moments:
    """Mean and spread of each column, over all rows so far or the last `horizon` of them.

    The t-th row enters with weight ``1/min(t, horizon)``, one row after another, so that the
    result does not depend on how the rows were cut into blocks. By the clock, t is the sum of
    ``exp(-age/duration)`` over the rows so far. With `gaps`, NaN is a value that has not come.

    `steady` ones are not carried away by a single row: a value further from the mean than 10 000
    spreads counts as one that widens the spread by an eighth. Values that stay there are followed
    all the same, an eighth at a time (faster in the first hundred rows).

    The first `codes` columns are no numbers: they stay at 0.
    """

    def __init__(
        self, columns: int, horizon: float, eps: float, gaps: bool = False, steady: bool = False,
        codes: int = 0,
    ) -> None:  # fmt: skip
        self.seen = np.zeros(columns)
        self.mean = np.zeros(columns)
        self.variance = np.zeros(columns)
        self.horizon = max(horizon, 1.0)
        self.eps = eps
        self.gaps = gaps
        self.steady = steady
        self.codes = codes

    def update(self, rows: Array, fade: Array = NOTHING) -> None:
        """Take in rows; before each, the weight of all that came fades by its factor."""
        numbers = rows[:, self.codes :] if self.codes else rows
        core.moments(np.ascontiguousarray(numbers, np.float64), fade, self.running())

    def running(self) -> core.Running:
        """Return the moments of the numbers as the core takes them, arrays and all."""
        horizon = float(self.horizon)
        seen, mean, variance = self.seen, self.mean, self.variance
        if self.codes:
            seen, mean, variance = (a[self.codes :] for a in (seen, mean, variance))
        return core.Running(seen, mean, variance, horizon, not self.gaps, self.steady)

    def spread(self) -> Array:
        """Return the standard deviation; 1 where the column has been constant.

        Where 1 is less than its rounding it is a millionth of its size: what comes after a first
        value that was absurd is then not absurdly far away in its turn.
        """
        spread, size = np.sqrt(self.variance), np.abs(self.mean)
        noise = np.maximum(8 * self.eps * size, SMALLEST_SPREAD)
        return np.where(spread > noise, spread, np.where(size > 2.0**53, 1e-6 * size, 1.0))

    def copy(self) -> Moments:
        """Return an independent copy."""
        other = object.__new__(Moments)
        other.__dict__.update(self.__dict__)
        for name in ("seen", "mean", "variance"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold of these moments."""
        found = {"seen": self.seen, "mean": self.mean, "variance": self.variance}
        return {name: array.copy() for name, array in found.items()}

    def restore(self, saved: Saved, columns: int) -> None:
        """Become what a file holds."""
        self.mean = saved.array("mean", (columns,), np.float64)
        self.variance = saved.array("variance", (columns,), np.float64, low=0.0)
        self.seen = saved.array("seen", (columns,), np.float64, low=0.0)
        if any(a[: self.codes].any() for a in (self.mean, self.variance, self.seen)):
            raise saved.refuse("mean", "variance and seen must be 0 where columns are codes")
        if np.any(np.abs(self.mean) > MOST_MEAN) or np.any(self.variance > MOST_VARIANCE):
            raise saved.refuse("mean", "and variance must be those of numbers that are accepted")
        saved.finish()


class Targets:
    """Regression targets in units of their running spread, around their running mean.

    Inactive (classification, novelty, ``scale=False``) it changes nothing. An output's unit is
    unknown until two of its targets differ: their difference is its unit at once, since f is
    still 0 there and a unit of 1 would mean nothing to the data.
    """

    def __init__(self, columns: int, horizon: float, active: bool) -> None:
        self.active = active
        self.moments = Moments(columns, horizon, float(np.finfo(np.float64).eps), steady=True)
        self.center, self.spread = np.zeros(columns), np.ones(columns)
        self.known = np.full(columns, not active)

    def standardised(self, Y: Array) -> Array:
        """Return targets as the learner sees them."""
        return (Y - self.center) / self.spread if self.active else Y

    def raw(self, scores: Array) -> Array:
        """Return scores in the targets' own units."""
        return self.center + self.spread * scores if self.active else scores

    def raw_widths(self, widths: Array) -> Array:
        """Return distances in the targets' own units."""
        return widths * self.spread if self.active else widths

    def met(self, y: Array) -> Targets:
        """Return the targets centred on the very first row."""
        return self._with(center=np.array(y, float)) if self.active else self

    def before_news(self, Y: Array) -> tuple[Targets, int]:
        """Return how many rows come before one that brings an output its unit.

        If it is the first row, the targets returned have that unit.
        """
        if self.known.all():
            return self, len(Y)
        gap = np.abs(Y - self.center)
        new = ~self.known & (gap > 8 * self.moments.eps * np.abs(self.center))
        rows = [*np.flatnonzero(new.any(axis=1)).tolist(), len(Y)]
        if rows[0] > 0:
            return self, rows[0]
        spread = np.where(new[0], gap[0], self.spread)
        return self._with(spread=spread, known=self.known | new[0]), rows[1]

    def refreshed(self) -> Targets:
        """Return the targets in units of the moments so far."""
        spread = np.where(self.known, self.moments.spread(), self.spread)
        return self._with(center=self.moments.mean.copy(), spread=spread)

    def _with(self, **changes: Any) -> Targets:
        other = object.__new__(Targets)
        other.__dict__.update({**self.__dict__, **changes})
        return other

    def copy(self) -> Targets:
        """Return an independent copy."""
        return self._with(moments=self.moments.copy())

    @property
    def sound(self) -> bool:
        """Whether units are as a file must have them: finite, and above 0."""
        if not self.active:
            return True
        finite = np.isfinite(self.center + self.spread).all()
        return bool(finite and self.spread.min(initial=1.0) > 0)

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold of the targets' units."""
        units = {"center": self.center, "spread": self.spread, "known": self.known}
        return {**units, "moments": self.moments.dump()}

    def restore(self, saved: Saved, columns: int) -> None:
        """Become what a file holds, for so many outputs."""
        self.center = saved.array("center", (columns,), np.float64)
        self.spread = saved.array("spread", (columns,), np.float64, low=5e-324)
        self.known = saved.array("known", (columns,), bool)
        self.moments.restore(saved.inside("moments"), columns)
        saved.finish()


def pooled(parts: Sequence[Moments], start: Moments | None = None) -> Moments:
    """Return the moments of all rows that the parts have seen.

    ``mean = sum n_j mean_j / n``, ``variance = sum n_j (variance_j + (mean_j - mean)^2) / n``,
    n_j = min(rows seen, horizon), the rows that count: exact where nothing was forgotten.
    The rows of a `start` that all parts went on from count once: it is a part of negative weight.

    Examples
    --------
    >>> parts = [Moments(1, math.inf, 2e-16) for _ in range(2)]
    >>> parts[0].update(np.array([[1.0], [3.0]]))
    >>> parts[1].update(np.array([[8.0]]))
    >>> float(pooled(parts).mean[0]), round(float(pooled(parts).spread()[0]), 3)
    (4.0, 2.944)
    """
    whole = parts[0].copy()
    seen = np.array([part.seen for part in parts])
    counts = np.minimum(seen, [[part.horizon] for part in parts])
    whole.seen = seen.sum(axis=0)
    if start is not None:
        whole.seen = whole.seen - (len(parts) - 1) * start.seen
        counts = np.concatenate([counts, -_repeated(parts, start)[None]])
        parts = [*parts, start]
    share = counts / np.maximum(counts.sum(axis=0), 1e-300)
    means = np.array([part.mean for part in parts])
    # From the mean of one of them, so that a constant column stays what it is.
    origin = np.take_along_axis(means, counts.argmax(axis=0)[None], axis=0)[0]
    whole.mean = origin + (share * (means - origin)).sum(axis=0)
    within = np.array([part.variance for part in parts])
    whole.variance = (share * (within + (means - whole.mean) ** 2)).sum(axis=0)
    whole.variance = np.maximum(whole.variance, 0.0)  # differences may round below it
    return whole


def _repeated(parts: Sequence[Moments], start: Moments) -> Array:
    """Return how many of the rows that count are those of the start, but for the first time.

    ``(1 - 1/P) sum over j of min(n_0, h) (1 - 1/h)^(rows since then beyond the horizon h)``
    """
    h = start.horizon
    beyond = [np.maximum(part.seen - np.maximum(start.seen, h), 0.0) for part in parts]
    left = np.minimum(start.seen, h) * (1.0 - 1.0 / h) ** np.array(beyond)
    return (1.0 - 1.0 / len(parts)) * left.sum(axis=0)


def next_refresh(t: int, memory: float) -> int:
    """Return the first refresh after trial t: powers of two up to memory/4, then its multiples.

    Examples
    --------
    >>> [next_refresh(t, memory=80) for t in (0, 1, 5, 16, 20, 41)]
    [1, 2, 8, 20, 40, 60]
    """
    power = 1 << t.bit_length()
    if math.isinf(memory) or power <= memory / 4:
        return power
    period = max(int(memory / 4), 1)
    return (t // period + 1) * period
