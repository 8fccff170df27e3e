"""Answers as files hold them: checked before they are believed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from onkel.core.answers import KINDS, MOST, Answers
from onkel.core.density_table import FURTHEST
from onkel.saved import Saved


def restored(blank: Answers, saved: Saved, t: int) -> Answers:
    """Return what a file holds of a model that has learned so many rows."""
    d, f8 = blank.d, np.float64
    born = saved.array("born", (None,), np.int64, low=0)
    n = len(born)
    places = saved.array("places", (n, 5, 3, d), f8, finite=False)
    radius = saved.array("radius", (n, 4), f8, finite=False)
    strength = saved.array("strength", (n,), f8, low=0.0)
    of = saved.array("of", (n,), np.int64, low=0)
    asked_at = saved.array("asked_at", (None,), np.int64, low=0)
    m = len(asked_at)
    asked = saved.array("asked", (m, 3 * d + 2), f8)
    said = saved.array("said", (m,), np.uint8)
    counts = saved.array("counts", (4,), np.int64, low=0).tolist()
    theta, unspent = saved.array("theta", (2,), f8).tolist()
    _check(saved, blank, t, (places, radius, strength, born, of, asked_at, said, counts))
    if (blank.promise is not None and theta > blank.promise.high) or unspent < 0:
        raise saved.refuse("theta", "is above its highest value")
    shift = counts[0] % m if 0 < m == blank.room else 0
    saved.finish()
    return replace(
        blank, places=places, radius=radius, strength=strength, born=born, of=of,
        asked=np.roll(asked, shift, 0), asked_at=np.roll(asked_at, shift),
        said=np.roll(said, shift), asked_count=np.array(counts[:2], np.int64),
        answered=counts[2], dismissed=counts[3], theta=theta, unspent=unspent,
    )  # fmt: skip


def _check(saved: Saved, blank: Answers, t: int, held: tuple[Any, ...]) -> None:
    """Refuse what no run can have left."""
    places, radius, strength, born, of, asked_at, said, counts = held
    center, spread, place, weight, limit = np.moveaxis(places, 1, 0)
    sound = np.isfinite(center).all() and np.isfinite(place).all() and np.isfinite(weight).all()
    if not sound or not (spread > 0).all() or not (limit > 0).all() or (weight < 0).any():
        raise saved.refuse("places", "must have spreads and limits above 0")
    if (
        not (radius > 0).all()
        or (strength > 1e6).any()
        or np.abs(place).max(initial=0.0) > FURTHEST
    ):
        raise saved.refuse("radius", "must be above 0, and strengths at most 10^6")
    bad = int(np.count_nonzero(strength))
    if max(bad, len(strength) - bad) > MOST or (born > t).any() or (of >= t).any():
        raise saved.refuse("born", f"must be of rows that were learned, {MOST} of a kind at most")
    ordered = not np.any(np.diff(asked_at) <= 0) and not (asked_at >= t).any()
    if len(asked_at) != min(counts[0], blank.room) or not ordered or (said > len(KINDS)).any():
        raise saved.refuse("asked_at", "must increase, one for each alert that is kept")
    if not counts[3] <= counts[2] <= counts[0] or counts[1] > t:
        raise saved.refuse("counts", "must be of alerts, answers and dismissals")
