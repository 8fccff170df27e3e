"""Everything that a model consists of, in a form that can be compared bit for bit.

It walks over all attributes, whatever they are called, so that a field which a file forgets shows
itself. Left out is only what is made from the rest whenever it is wanted.
"""

from __future__ import annotations

import datetime
from collections import deque
from typing import Any

import numpy as np

from onkel.alerting import RecentScores
from onkel.expansions.dense import DenseTerms
from onkel.params import Part
from onkel.scaling import Targets

MADE_ANEW = {"_one", "_lone_classes", "first_score", "undo_log", "lock", "settings"}
"""For single rows; of one block; of one call; `settings` hold threads, and are compared apart."""


def fingerprint(thing: Any) -> Any:
    """Return nested tuples, equal only if every bit is."""
    if isinstance(thing, np.ndarray):
        if thing.dtype == object:
            return "objects", tuple(map(fingerprint, thing.tolist()))
        return thing.dtype.str, thing.shape, thing.tobytes()
    if isinstance(thing, datetime.timedelta):
        return "timedelta", str(thing)
    if isinstance(thing, np.timedelta64):
        return thing.dtype.str, int(thing.astype(np.int64))
    if isinstance(thing, (float, np.generic)):
        return type(thing).__name__, np.asarray(thing).tobytes()
    if thing is None or isinstance(thing, (bool, int, str, bytes, np.dtype)):
        return type(thing).__name__, thing
    if isinstance(thing, dict):
        return tuple((fingerprint(k), fingerprint(v)) for k, v in thing.items())
    if isinstance(thing, (list, tuple, deque)):
        return type(thing).__name__, tuple(map(fingerprint, thing))
    if hasattr(thing, "layout"):  # trees: the terms are compared beside them
        return "trees", thing.count, fingerprint(thing.layout())
    if isinstance(thing, DenseTerms):
        return _terms(thing)
    if isinstance(thing, RecentScores):  # its ring grows as scores come
        return "recent", fingerprint(thing.dump())
    if isinstance(thing, Targets) and not thing.active:
        return "inactive"
    if callable(thing) and not isinstance(thing, Part):
        return "function", id(thing)
    return type(thing).__name__, _fields(thing)


def _fields(thing: Any) -> Any:
    found = {k: v for k, v in vars(thing).items() if k not in MADE_ANEW}
    return tuple((name, fingerprint(found[name])) for name in sorted(found))


def _terms(terms: DenseTerms) -> Any:
    """The ring, less what is left in it of terms that are gone."""
    held = {k: v for k, v in vars(terms).items() if k not in {*MADE_ANEW, "weights"}}
    panel, lane = terms.slots(terms.count, len(terms.births))
    for name in ("panels", "norms", "births"):
        held[name] = held[name].copy()
    held["panels"][panel, :, lane] = held["norms"][panel, lane] = 0
    held["births"].reshape(-1, 64)[panel, lane] = 0
    return type(terms).__name__, tuple((k, fingerprint(held[k])) for k in sorted(held))
