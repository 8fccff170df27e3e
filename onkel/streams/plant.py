"""A plant with six sensors: daily cycle, slow drift, a change of product, faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

NAMES = ("temperature", "pressure", "flow", "vibration", "current", "voltage")
UNITS = ("°C", "Pa", "m³/s", "m/s", "A", "V")
KINDS = ("spike", "stuck", "leak", "decoupled")
"""What may go wrong: see :func:`sensors`."""

DAY = 1440
"""Readings per day, at one a minute."""


@dataclass(frozen=True)
class Fault:
    """Rows ``start <= i < stop`` are faulty, in the columns named."""

    start: int
    stop: int
    kind: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Plant:
    """What :func:`sensors` returns: readings in time order, and the truth about them."""

    X: Array
    """Readings, one row a minute, in the units of `units`."""
    y: Array
    """+1 where the product was within tolerance, -1 where it was not."""
    time: Array
    """Days since the start."""
    faults: tuple[Fault, ...]
    """In time order; they do not overlap."""
    changes: tuple[int, ...]
    """Rows at which the plant (and with it what tolerance means) changed abruptly."""
    names: tuple[str, ...] = NAMES
    units: tuple[str, ...] = UNITS

    @property
    def faulty(self) -> Array:
        """Whether each row lies inside a fault."""
        mask = np.zeros(len(self.X), bool)
        for fault in self.faults:
            mask[fault.start : fault.stop] = True
        return mask


def sensors(n: int = 86_400, seed: int = 0, faults: int = 12) -> Plant:
    """Six sensors of a plant, one reading a minute, with drift and injected faults.

    ``reading = level + gain * load(t) + drift(t) + [product B] * step + noise``

    The load follows the time of day and wanders within limits. Temperature, pressure, flow,
    vibration and current rise with it, each with its own gain and noise, the voltage sags under
    it, and temperature and pressure also follow a second wandering quantity, the heat of the
    process. Fouling and wear grow slowly from the first row to the last. At 60 % of the rows the
    plant changes from product A to product B, which shifts several levels at once.

    A product is within tolerance (`y` = +1) where load and heat lie in a disc of their plane. The
    centre of that disc goes round once in 20 days, and jumps when the supplier changes (at 30 %)
    and when the product does. One label in a hundred is wrong.

    Faults come at random times after the first twentieth of the rows, the kinds in turn:

    - ``spike``: one sensor jumps by 4 to 7 of its spreads, on about half of 20 to 40 rows;
    - ``stuck``: one sensor repeats a reading for 90 to 180 rows;
    - ``leak``: flow and pressure sink steadily, by 4 and 2 spreads, over 120 to 240 rows;
    - ``decoupled``: for 60 to 120 rows one sensor shows readings of other times: each on its own
      is usual, only their agreement with the other sensors is lost.

    Parameters
    ----------
    n : int
        Number of rows; at least 20 per fault. Short streams have shorter faults.
    seed : int
        The same seed gives the same arrays.
    faults : int
        Number of faults.

    Examples
    --------
    >>> plant = sensors(5000, seed=1, faults=4)
    >>> plant.X.shape, [fault.kind for fault in plant.faults]
    ((5000, 6), ['spike', 'stuck', 'leak', 'decoupled'])
    >>> dict(zip(plant.names, plant.X.mean(axis=0).round(4).tolist()))
    {'temperature': 189.3, 'pressure': 227252.2, 'flow': 0.0224, 'vibration': 0.0021,
     'current': 21.7, 'voltage': 397.8}
    """
    _check(n, faults)
    rng = np.random.default_rng(seed)
    changes = (int(0.3 * n), int(0.6 * n))
    t = np.arange(n)
    hidden = _hidden(rng, t, changes[1])
    X = _readings(rng, hidden)
    y = _tolerance(rng, hidden, t, changes)
    placed = _place(rng, n, faults)
    _inject(rng, X, placed, changes[1])
    return Plant(X, y, t / DAY, placed, changes)


def _check(n: int, faults: int) -> None:
    if faults < 0:
        raise ValueError(f"sensors: faults must be 0 or more; got {faults!r}.")
    if n < max(1, 20 * faults):
        raise ValueError(
            f"sensors: n must be at least 20 per fault, here {max(1, 20 * faults)}; got {n!r}. "
            "Ask for more rows or fewer faults."
        )


# -- the plant ---------------------------------------------------------------------------------


def _wander(rng: np.random.Generator, n: int, tau: float) -> Array:
    """Return an AR(1) path with spread 1 that forgets within about `tau` rows."""
    keep = float(np.exp(-1.0 / tau))
    shocks = rng.normal(size=n) * np.sqrt(1.0 - keep**2)
    shocks[0] = rng.normal()  # the path begins as it goes on, not at 0
    path = accumulate(shocks.tolist(), lambda level, shock: keep * level + shock)
    return np.fromiter(path, float, n)


def _hidden(rng: np.random.Generator, t: Array, change: int) -> dict[str, Array]:
    """Return what drives the sensors, before any of them has measured it.

    tanh: controllers keep load and heat within limits, so that only faults leave them.
    """
    n, phase = len(t), 2 * np.pi * t / DAY
    return {
        "load": 0.5 + 0.15 * np.sin(phase) + 0.25 * np.tanh(_wander(rng, n, 40)),
        "heat": np.tanh(_wander(rng, n, 40)),
        "room": np.sin(phase - 0.7),
        "grid": np.tanh(_wander(rng, n, 200)),
        "age": t / n,
        "product": (t >= change).astype(float),
    }


def _readings(rng: np.random.Generator, h: dict[str, Array]) -> Array:
    """Return what the sensors show: levels, gains, drift, and noise of each sensor's own."""
    load, heat, age, product = h["load"], h["heat"], h["age"], h["product"]
    exact = (
        182 + 10 * load + 6 * heat + h["room"] + 2 * age + 4 * product,
        2.1e5 + 4e4 * load + 6e3 * heat - 4e3 * age,
        0.012 + 0.02 * load - 0.001 * age + 0.003 * product,
        0.0011 + 0.003 * load**2 + 0.0003 * age,
        9 + 24 * load + 2 * product,
        402 - 8 * load + 0.5 * h["grid"],
    )
    noise = (0.3, 600.0, 3e-4, 5e-5, 0.4, 0.2)
    return np.column_stack(
        [v + s * rng.normal(size=len(v)) for v, s in zip(exact, noise, strict=True)]
    )


def _tolerance(
    rng: np.random.Generator, h: dict[str, Array], t: Array, changes: tuple[int, ...]
) -> Array:
    """Return +1 inside the moving disc, -1 outside; one label in a hundred is wrong."""
    stage = np.searchsorted(np.asarray(changes), t, side="right")
    angle = 2 * np.pi * t / (20 * DAY) + np.array([0.0, 2.2, 4.6])[stage]
    strain = (h["load"] - 0.5) / 0.25
    gap = np.hypot(h["heat"] - 0.5 * np.cos(angle), strain - 0.5 * np.sin(angle))
    wrong = rng.random(len(t)) < 0.01
    return np.where((gap < 0.75) ^ wrong, 1, -1)


# -- its faults --------------------------------------------------------------------------------

LENGTHS = {"spike": (20, 40), "stuck": (90, 180), "leak": (120, 240), "decoupled": (60, 120)}


def _place(rng: np.random.Generator, n: int, count: int) -> tuple[Fault, ...]:
    """Put one fault at a random place in each of `count` equal parts of the stream."""
    edges = np.linspace(n // 20, n, count + 1).astype(int)
    placed = []
    for i, (low, high) in enumerate(pairwise(edges.tolist())):
        kind = KINDS[i % len(KINDS)]
        length = min(int(rng.integers(*LENGTHS[kind])), (high - low) // 3)
        start = int(rng.integers(low, high - length))
        columns = ("flow", "pressure") if kind == "leak" else (str(rng.choice(NAMES)),)
        placed.append(Fault(start, start + length, kind, columns))
    return tuple(placed)


def _inject(rng: np.random.Generator, X: Array, faults: tuple[Fault, ...], change: int) -> None:
    whole = X.copy()
    for fault in faults:
        columns = [NAMES.index(name) for name in fault.columns]
        # The regime that the fault falls into: its spreads, and what `decoupled` borrows from.
        regime = whole[:change] if fault.start < change else whole[change:]
        rows = whole[fault.start : fault.stop, columns]
        X[fault.start : fault.stop, columns] = _BREAK[fault.kind](rng, rows, regime[:, columns])


def _spike(rng: np.random.Generator, rows: Array, regime: Array) -> Array:
    jump = rng.choice([-1.0, 1.0]) * rng.uniform(4, 7, size=rows.shape) * regime.std(axis=0)
    return rows + np.where(rng.random(rows.shape) < 0.5, jump, 0.0)


def _stuck(rng: np.random.Generator, rows: Array, regime: Array) -> Array:
    return np.repeat(rows[:1], len(rows), axis=0)


def _leak(rng: np.random.Generator, rows: Array, regime: Array) -> Array:
    ramp = np.linspace(0.0, 1.0, len(rows))[:, None]
    sunk: Array = rows - ramp * np.array([4.0, 2.0]) * regime.std(axis=0)
    return sunk


def _decoupled(rng: np.random.Generator, rows: Array, regime: Array) -> Array:
    borrowed: Array = rng.choice(regime, size=len(rows))
    return borrowed


_BREAK: dict[str, Callable[[np.random.Generator, Array, Array], Array]] = {
    "spike": _spike,
    "stuck": _stuck,
    "leak": _leak,
    "decoupled": _decoupled,
}
