"""Two classes in the plane, each a mixture of Gaussians that moves: slowly, or all at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

BOX = 3.0
"""Means live in the square [-BOX, BOX]^2, so that drift does not carry them away."""
SPREADS = (0.4, 0.8)


@dataclass(frozen=True)
class Stream:
    """Labelled rows in time order."""

    X: Array
    y: Array
    """+1 or -1."""
    changes: Array
    """Rows at which the mixtures had just changed."""


def drifting_classes(
    n: int = 10_000,
    seed: int = 0,
    *,
    every: int = 10,
    step: float = 0.05,
    components: int = 2,
    gap: float = 1.0,
) -> Stream:
    """Two mixtures of Gaussians that change a little every few rows.

    ``mean <- mean + step * z`` and ``spread <- spread * exp(step * z)``, z standard normal

    Labels are +1 and -1 with equal chance, rows come from that class's mixture. Rows that the
    Bayes rule gets wrong, or that lie near its boundary (log density ratio below `gap`), are
    drawn again, so that the classes can be told apart at every moment. Means are reflected at
    the sides of a square, spreads are kept between 0.4 and 0.8.

    Parameters
    ----------
    n : int
        Number of rows.
    seed : int
        The same seed gives the same arrays.
    every : int
        Rows between changes.
    step : float
        Size of a change; 0 for mixtures that stay.
    components : int
        Gaussians per class, of equal weight.
    gap : float
        How clearly, in log density, a row must belong to its class.

    References
    ----------
    N04 section VI-A and Fig. 2, A02 section 5 and Fig. 1; neither prints its parameters.

    Examples
    --------
    >>> stream = drifting_classes(1000, seed=0)
    >>> stream.X.shape, stream.changes[:3].tolist()
    ((1000, 2), [10, 20, 30])
    """
    _check("drifting_classes", n, every, components, step, gap)

    def drift(rng: np.random.Generator, old: Mixtures) -> Mixtures:
        return old.moved(rng, step)

    return _stream(n, seed, every, components, gap, drift)


def switching_classes(
    n: int = 10_000,
    seed: int = 0,
    *,
    every: int = 1000,
    components: int = 2,
    gap: float = 1.0,
) -> Stream:
    """Two mixtures of Gaussians that are replaced by new ones every `every` rows.

    ``mean ~ uniform on [-3, 3]^2``, ``spread ~ uniform on [0.4, 0.8]``, drawn anew at each switch

    Everything else is as in :func:`drifting_classes`.

    Parameters
    ----------
    n : int
        Number of rows.
    seed : int
        The same seed gives the same arrays.
    every : int
        Rows between switches.
    components : int
        Gaussians per class, of equal weight.
    gap : float
        How clearly, in log density, a row must belong to its class.

    References
    ----------
    N04 section VI-A and Fig. 2, A02 section 5 and Fig. 1; neither prints its parameters.

    Examples
    --------
    >>> switching_classes(3000, seed=0).changes.tolist()
    [1000, 2000]
    """
    _check("switching_classes", n, every, components, 0.0, gap)

    def switch(rng: np.random.Generator, old: Mixtures) -> Mixtures:
        return Mixtures.drawn(rng, components)

    return _stream(n, seed, every, components, gap, switch)


@dataclass(frozen=True)
class Mixtures:
    """Means (class, component, 2) and spreads (class, component); class 1 is y = +1."""

    means: Array
    spreads: Array

    @classmethod
    def drawn(cls, rng: np.random.Generator, components: int) -> Mixtures:
        """Draw both mixtures anew."""
        means = rng.uniform(-BOX, BOX, size=(2, components, 2))
        return cls(means, rng.uniform(*SPREADS, size=(2, components)))

    def moved(self, rng: np.random.Generator, step: float) -> Mixtures:
        """Return the mixtures after a small random change."""
        means = self.means + step * rng.normal(size=self.means.shape)
        spreads = self.spreads * np.exp(step * rng.normal(size=self.spreads.shape))
        return Mixtures(_reflected(means), np.clip(spreads, *SPREADS))

    def sample(self, rng: np.random.Generator, labels: Array) -> Array:
        """Draw a row for each label (0 or 1)."""
        pick = rng.integers(self.means.shape[1], size=len(labels))
        noise = rng.normal(size=(len(labels), 2))
        return self.means[labels, pick] + self.spreads[labels, pick, None] * noise

    def log_ratio(self, X: Array) -> Array:
        """Return log p(x | +1) - log p(x | -1); the Bayes rule is its sign."""
        square = ((X[:, None, None, :] - self.means) ** 2).sum(axis=-1)
        logs = -square / (2 * self.spreads**2) - 2 * np.log(self.spreads)
        density = np.logaddexp.reduce(logs, axis=-1)
        ratio: Array = density[:, 1] - density[:, 0]
        return ratio


def _reflected(means: Array) -> Array:
    folded = np.abs((means + BOX) % (4 * BOX) - 2 * BOX)
    return BOX - folded


def _stream(n: int, seed: int, every: int, components: int, gap: float, change: Any) -> Stream:
    rng = np.random.default_rng(seed)
    mixtures = Mixtures.drawn(rng, components)
    X, y = np.empty((n, 2)), np.empty(n, np.int64)
    for start in range(0, n, every):
        if start:
            mixtures = change(rng, mixtures)
        part = slice(start, min(start + every, n))
        X[part], y[part] = _clear_rows(rng, mixtures, part.stop - start, gap)
    return Stream(X, y, np.arange(every, n, every))


def _clear_rows(
    rng: np.random.Generator, mixtures: Mixtures, count: int, gap: float
) -> tuple[Array, Array]:
    """Draw until `count` rows lie clearly on their own side of the Bayes boundary."""
    rows, signs = np.empty((0, 2)), np.empty(0, np.int64)
    while len(rows) < count:
        labels = rng.integers(2, size=2 * count)
        drawn, sign = mixtures.sample(rng, labels), 2 * labels - 1
        clear = sign * mixtures.log_ratio(drawn) > gap
        rows, signs = np.concatenate([rows, drawn[clear]]), np.concatenate([signs, sign[clear]])
    return rows[:count], signs[:count]


def _check(owner: str, n: int, every: int, components: int, step: float, gap: float) -> None:
    for name, value, least in (("n", n, 0), ("every", every, 1), ("components", components, 1)):
        if value < least:
            raise ValueError(f"{owner}: {name} must be {least} or more; got {value!r}.")
    if not (0 <= step < np.inf):
        raise ValueError(f"{owner}: step must be 0 or more, and finite; got {step!r}.")
    # Beyond this so few rows are clear enough that drawing them would take for ever.
    if not (0 <= gap <= 5):
        raise ValueError(f"{owner}: gap must lie between 0 and 5; got {gap!r}.")
