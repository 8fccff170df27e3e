"""Streams drawn from known laws; 3 % of the rows are anomalies.

No number was fitted to them, but `low-rank` was looked at when the whitened view was designed.

The first four have no order, the others do:

- `ring`: two features on a noisy circle; anomalies lie inside it;
- `clusters`: eight features, five clusters of very different width; anomalies lie between them;
- `low-rank`: twenty features that three hidden ones drive; anomalies have usual values each, drawn
  from different rows;
- `flags`: twelve yes-or-no features, four patterns with slips; anomalies are of no pattern;
- `heavy`: six features with Student's t of three degrees, one after another loosely tied; anomalies
  have three of them moved by eight scales;
- `walk`: five features whose level wanders; anomalies, one at a time, jump by five spreads;
- `season`: one value with a day of 96 rows and a week; anomalies are stretches of 24 to 48 rows:
  flat, shifted by half a day, or at twice the height;
- `regimes`: four features in three states that come back; anomalies are stretches of 30 to 60 rows
  of a fourth.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

N, SHARE = 6000, 0.03
Made = tuple[np.ndarray, np.ndarray]


def _marks(rng: np.random.Generator) -> np.ndarray:
    return rng.random(N) < SHARE


def ring(rng: np.random.Generator) -> Made:
    """Return a circle, and its hole."""
    odd, angle = _marks(rng), rng.uniform(0, 2 * np.pi, N)
    radius = np.where(odd, rng.uniform(0, 0.6, N), rng.normal(1, 0.08, N))
    return np.column_stack([radius * np.cos(angle), 3 * radius * np.sin(angle)]), odd


def clusters(rng: np.random.Generator) -> Made:
    """Return narrow and wide clusters, and what lies between them."""
    odd, centres = _marks(rng), rng.normal(0, 4, (5, 8))
    widths, member = np.array([0.05, 0.2, 0.5, 1.0, 2.0]), rng.integers(5, size=N)
    X = centres[member] + widths[member, None] * rng.normal(size=(N, 8))
    pairs = rng.dirichlet(np.ones(5), N) @ centres + 0.3 * rng.normal(size=(N, 8))
    return np.where(odd[:, None], pairs, X), odd


def low_rank(rng: np.random.Generator) -> Made:
    """Return features that agree, and rows in which they do not."""
    odd, mix = _marks(rng), rng.normal(size=(3, 20))
    X = rng.normal(size=(N, 3)) @ mix + 0.3 * rng.normal(size=(N, 20))
    alone = np.column_stack([rng.permutation(column) for column in X.T])
    return np.where(odd[:, None], alone, X) * rng.lognormal(0, 2, 20), odd


def flags(rng: np.random.Generator) -> Made:
    """Return patterns of yes and no, and noise."""
    odd, patterns = _marks(rng), rng.random((4, 12)) < 0.5
    X = patterns[rng.integers(4, size=N)] ^ (rng.random((N, 12)) < 0.05)
    return np.where(odd[:, None], rng.random((N, 12)) < 0.5, X).astype(float), odd


def heavy(rng: np.random.Generator) -> Made:
    """Return heavy tails, and rows moved in three features."""
    odd, X = _marks(rng), rng.standard_t(3, (N, 6))
    X[1:] += 0.5 * X[:-1]
    moved = rng.permuted(np.tile([1, 1, 1, 0, 0, 0], (N, 1)), axis=1) * rng.choice([-8, 8], (N, 6))
    return X + odd[:, None] * moved, odd


def walk(rng: np.random.Generator) -> Made:
    """Return wandering levels, and jumps of a row."""
    odd = _marks(rng)
    X = np.cumsum(0.1 * rng.normal(size=(N, 5)), axis=0) + rng.normal(size=(N, 5))
    at = rng.integers(5, size=N)
    X[np.arange(N), at] += odd * rng.choice([-5, 5], N)
    return X, odd


def season(rng: np.random.Generator) -> Made:
    """Return days and weeks, and stretches that break them."""
    t, odd = np.arange(N), np.zeros(N, bool)
    height = np.where(t // 96 % 7 >= 5, 0.4, 1.0)
    clean = height * np.maximum(np.sin(2 * np.pi * t / 96), -0.3)
    value = clean.copy()
    for number, (first, last) in enumerate(_stretches(rng, 24, 48)):
        rows = slice(first, last)
        odd[rows] = True
        other = (np.full(last - first, clean[first]), -clean[rows], 2 * clean[rows])[number % 3]
        value[rows] = other
    return (value + 0.08 * rng.normal(size=N))[:, None], odd


def regimes(rng: np.random.Generator) -> Made:
    """Return states that come back, and stretches of one that is new."""
    odd, centres = np.zeros(N, bool), rng.normal(0, 3, (4, 4))
    state = np.repeat(rng.integers(3, size=N // 150 + 1), 150)[:N]
    for first, last in _stretches(rng, 30, 60):
        odd[first:last] = True
    state[odd] = 3
    return centres[state] + rng.normal(size=(N, 4)), odd


def _stretches(rng: np.random.Generator, low: int, high: int) -> list[tuple[int, int]]:
    """Return stretches over the last four fifths, apart from each other, SHARE of the rows."""
    count = round(N * SHARE * 2 / (low + high))
    places = np.linspace(N // 5, N - 2 * high, count + 1).astype(int)[:-1]
    room = int(np.diff(places).min()) - high
    starts = places + rng.integers(0, room, count)
    return [(int(s), int(s + rng.integers(low, high + 1))) for s in starts]


KINDS: dict[str, Callable[[np.random.Generator], Made]] = {
    "ring": ring, "clusters": clusters, "low-rank": low_rank, "flags": flags, "heavy": heavy,
    "walk": walk, "season": season, "regimes": regimes,
}  # fmt: skip
