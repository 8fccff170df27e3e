"""Values for the parameters and calls of ``accepted.py``: documented forms, and near misses."""

from __future__ import annotations

import datetime
import math
import random
from typing import Any

import numpy as np

from onkel import Columns

Values = tuple[Any, ...]


def whole(*values: int) -> Values:
    """Whole numbers in every form in which they come."""
    forms = (int, float, np.int64, np.float64, np.uint16, np.float32)
    return tuple(form(v) for v in values for form in forms)


def number(*values: float) -> Values:
    """Numbers in every form in which they come."""
    return tuple(form(v) for v in values for form in (float, np.float64, np.float32))


ODD: Values = (
    True, False, np.True_, 0, -1, 1, 1.5, -0.0, math.nan, math.inf, -math.inf, 1e308, 5e-324,
    1e-150, 2**31, 2**53 + 1, 2**62, 2**63, 10**400, None, "", "x", "auto", "12h", "1e3", b"x", [],
    [1], (), {}, np.zeros(2), np.array(3), np.array([[1.0, 2.0]]), np.float16(2), np.int8(3),
    np.str_("auto"), datetime.timedelta(seconds=30), np.timedelta64(3, "s"), datetime.date.min,
    1 + 2j, object, abs,
)  # fmt: skip
"""What may stand anywhere."""

FLAG: Values = (True, False, np.True_, np.False_)
FIELDS: dict[str, Values] = {
    # estimators
    "nu": (*number(0.05, 0.5), 0.999, 1e-9, 1e-300),
    "precision": (None, None, *number(0.8, 0.5), 1e-300, 0.999999),
    "alerts_kept": (*whole(0, 1, 1000), 3),
    "memory_of_feedback": (*whole(1, 100), *number(1e5), 1e15),
    "support": (None, 0.5, 0.3, np.float32(0.6)),
    "scale": FLAG, "average": FLAG, "learn_alerts": FLAG, "relevance": FLAG,
    "fit_intercept": (*FLAG, "auto", np.str_("auto")),
    "passes": whole(1, 2),
    "columns": (None, None, {}, {"x0": "category"}, Columns({"x1": "number"}), {"x9": "text"}),
    "missing": ("error", "mean", np.str_("mean")),
    "warmup": (*whole(0, 3, 50), None, 2**62),
    "recent": (*whole(1, 10, 1000), 2**31),
    "n_jobs": (None, *whole(1, 2), -1, -1.0, 0),
    "bits": (*whole(0, 3, 14), 20),
    "p": (2, 2.0, *number(3.5), 40, 1e3),
    "class_weight": (None, "balanced", {0: 2.0, 1: 0.5}, {"a": 1e308}, {}, {1: 0}),
    "share": (0, 0.0, *number(0.5), 0.999999, 5e-324),
    "rate": (None, 1, *number(8.0), 1e-300, 1e300),
    "memory": (None, *whole(100, 1000), 2.5, math.inf, 1e15, 1e300, "30s", "12h", "1ms", "3 w",
               datetime.timedelta(seconds=30), np.timedelta64(5, "m")),
    "terms": (*whole(20, 30), None, "auto", 1, 10_000_000, 2**53),
    "seed": (*whole(0, 7), 2**62),
    # kernels
    "gamma": ("auto", *number(0.5), 1, 1e-300, 1e300),
    "length": ("auto", *number(0.5), 1), "matern nu": (0.5, 1.5, 2.5, np.float32(1.5), 1, 3.5),
    "degree": whole(1, 2, 9), "offset": (0, 1, *number(1.0)),
    "factor": (2, *number(2.0), 1e-300, 1e300), "weights": (None, "mean", [1.0, 2.0], (1, 1),
               np.array([0.5, 0.5]), [1.0]),
    "order": (0, 1, 3, 1.0, np.int64(1)), "sigma": number(0.5, 3.0),
    "spectrum length": whole(1, 2, 3), "limit": (None, 1.0, 2),
    # losses
    "margin": (None, 0, 1, *number(1.0), 1e300), "power": (1, 2, *number(1.5), 100.0),
    "epsilon": (None, 0, *number(0.1), 1e300),
    # rules and schedules
    "learning_rate": (None, *number(0.5), 1, 1e-300, 1e10),
    "regularization": (None, 0, *number(0.01), 1e-300, 10),
    "threshold_rate": (*number(1.0), 5, 1e300), "support_rate": (None, *number(0.5)),
    "regularizer": (2, *number(1.0, 3.0), abs), "track_norm": FLAG,
    "radius": (None, *number(0.5), 1, math.inf, 1e-300), "approximation": (None, *number(0.9), 1),
    "aggressive": FLAG, "theta": (0, *number(0.5)), "mu": (1, *number(0.5)),
    "ridge": (*number(1e-6, 1.0), 1, 1e-12, 1e12),
    "bound": (1, *number(2.0)), "trials": whole(1, 100),
    "constant rate": (1, *number(0.5)), "inverse_sqrt rate": (1, *number(0.5)),
    "regularized regularization": (1, *number(0.5)),
    "horizon radius": (1, *number(0.5)),
    # expansions
    "window terms": (*whole(1, 5, 64, 65), None, "auto", 2**62),
    "tree terms": (*whole(1, 5, 64, 65), None, "auto", 2**62),
    "age": (None, *whole(1, 30), 2**62), "tolerance": (None, 0.1, 1e-9),
    "growth": (None, *number(0.25)), "budget": ("oldest", "smallest", "merge", "project"),
    "centers": (*whole(1, 3, 5), np.eye(2), [[0.0, 1.0], [1.0, 0.0]], [[1e100, 0], [0, 1]]),
    "sample": (None, *whole(10, 40)), "linear": FLAG,
    # series
    "lags lags": whole(0, 1, 3), "lags shape": whole(0, 1, 4), "lags differences": FLAG,
    "lags roughness": whole(0, 1, 8), "lags forecast": whole(0, 2),
    "lags season": (None, "auto", "day", "week", "day,week", *whole(4), 2.5, ["day", 7], "24"),
    "lags missing": ("error", "last"),
}  # fmt: skip
WEIGHTS: Values = (1.0, 1, 0.0, 0, 2.5, 1e-300, 5e-324, 1e100, 1e150, 1e300, 1e308)


def numbers(n: int, dice: random.Random, rows: np.random.Generator) -> Any:
    """Return rows of two features, of usual and unusual sizes."""
    found = rows.normal(size=(n, 2)) * dice.choice((1.0,) * 6 + (0.0, 1e-300, 1e20, 1e80, 1e151))
    if n and dice.random() < 0.15:
        found[rows.integers(n), rows.integers(2)] = dice.choice(
            (0.0, -0.0, 1e6, 1e20, 1e152, -1e152, 1e200, math.nan, math.inf, 5e-324)
        )
    kind = dice.random()
    if kind < 0.15:
        return found.astype(np.float32)
    return found.tolist() if kind < 0.3 and n else found


def texts(n: int, dice: random.Random) -> list[str]:
    """Return texts: words, nothing, signs of any kind."""
    words = ("the cat", "sat on", "", "a", "☃ snow", "a\0b", "\ud800x", "ran", "ran " * 9)
    return [" ".join(dice.sample(words, dice.choice((1, 1, 2)))) for _ in range(n)]


LABELS: tuple[Values, ...] = (
    (0, 1), (-1, 1), (True, False), ("a", "b"), ("a", "b", "c", ""), (0, 1, 2, 7), (1.0, 2.0, 3.0),
    (2**53, 2**53 + 1, 5), (-(2**63), 2**63 - 1), (2**63, 2**64 - 1), ("a\0", "a", "b"), ("x",),
    (2**70, 1), ("a", 1), (np.int8(3), np.int8(4)), (b"a", b"b"), ("\ud800", "☃"),
    (datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)), ((1, 2), (3, 4)), (1, 1.5), (None, 1),
)  # fmt: skip


def labels(n: int, dice: random.Random) -> Any:
    """Return labels of one of many kinds; most often a usual one."""
    kind = dice.choice(LABELS[:6] if dice.random() < 0.75 else LABELS)
    found = [dice.choice(kind) for _ in range(n)]
    if dice.random() < 0.3:
        held = np.empty(n, object)
        held[:] = found
        return held
    odd = any(kind is other for other in LABELS[-4:])
    return found if odd or dice.random() < 0.5 else np.array(found)


def times(n: int, dice: random.Random, clock: list[float]) -> list[float]:
    """Return times that go on from the last ones, now and then by very little or very much."""
    found = []
    for _ in range(n):
        clock[0] += dice.choice((0.0, 1.0, 1.0, 60.0, 1e-300, 1e9, 1e300 * (dice.random() < 0.05)))
        found.append(clock[0])
    return found
