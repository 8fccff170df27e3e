"""How many keys there are, and whether more of them are in trouble at once than chance explains."""

from __future__ import annotations

import base64
import hashlib
import math
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Key = str | int

PLACES = 2**16
LEAST_KEYS = 3
"""Fewer keys are no crowd, however rare their alerts."""
LEAST_ROWS = 20
"""At once is: within one row of each key, and within so many rows at least."""
HEADROOM = 2.0
"""So many times the promised rate counts as usual: what is realised may lie above the promise."""
CHANCE = 1e-4


class KnownKeys:
    """About how many keys have come, in a few kilobytes however many there are.

    Each key marks one of 65 536 places; the share of those that are free tells the number
    (linear counting). It is exact to a few per cent up to 500 000 keys, and stops at 700 000.

    Examples
    --------
    >>> known = KnownKeys()
    >>> [known.add(key) for key in ("a", "b", "a")]
    [1, 2, 2]
    """

    def __init__(self, marked: Array | None = None) -> None:
        self._marked = np.zeros(PLACES, bool) if marked is None else marked
        self._taken = int(np.count_nonzero(self._marked))
        self._lately: set[Key] = set()
        """Keys that are marked already; may be forgotten at any time."""
        self.count = self._number()

    def _number(self) -> int:
        free = max(PLACES - self._taken, 1)
        return round(PLACES * math.log(PLACES / free))

    def add(self, key: Key) -> int:
        """Take a key in; return how many there are."""
        if key in self._lately:
            return self.count
        if len(self._lately) >= PLACES:
            self._lately.clear()
        self._lately.add(key)
        place = _place(key)
        if not self._marked[place]:
            self._marked[place] = True
            self._taken += 1
            self.count = self._number()
        return self.count

    def dump(self) -> str:
        """Return all of it as text."""
        packed = zlib.compress(np.packbits(self._marked).tobytes(), 1)
        return base64.b64encode(packed).decode("ascii")

    @classmethod
    def restored(cls, saved: str) -> KnownKeys:
        """Return what `dump` has described."""
        bits = np.frombuffer(zlib.decompress(base64.b64decode(saved)), np.uint8)
        if len(bits) * 8 != PLACES:
            raise ValueError(f"{len(bits)} bytes of keys, where {PLACES // 8} belong")
        return cls(np.unpackbits(bits).astype(bool))


def _place(key: Key) -> int:
    text = str(key).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(text, digest_size=2).digest(), "little")


def is_crowd(keys: int, rows: int, rate: float) -> bool:
    """Whether alerts of so many keys within so many rows are more than the promised rate explains.

    If rows alert independently, each with a chance of at most twice the promised rate, then so
    many alerts, k where m are expected, have a chance of at most ``exp(k - m - k log(k/m))``
    (Chernoff). It is a crowd if that is less than 1e-4, and there are three keys at least.

    Examples
    --------
    >>> is_crowd(4, rows=20, rate=0.01), is_crowd(6, rows=20, rate=0.01)
    (False, True)
    >>> is_crowd(2100, rows=100_000, rate=0.01), is_crowd(2200, rows=100_000, rate=0.01)
    (False, True)
    """
    mean = HEADROOM * rate * rows
    if keys < LEAST_KEYS or keys <= mean:
        return False
    return keys * math.log(keys / mean) - keys + mean >= -math.log(CHANCE)
