"""A fleet to and from a file: its keys, and the records of their models, one behind another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.files.container import Bytes
from onkel.fleet.groups import Key
from onkel.saved import Saved

Array = NDArray[Any]

AT_ONCE = 4096
"""Models that are read or written together."""
MOST = 2**40


def dumped(keys: list[Key], numbers: Array, store: Any) -> dict[str, Any]:
    """Return the tensors of a file; records are made when they are written."""
    lengths = store.sizes(numbers)

    def parts() -> Iterator[bytes]:
        for start in range(0, len(numbers), AT_ONCE):
            yield store.joined(numbers[start : start + AT_ONCE])

    records = Bytes(int(lengths.sum()), parts)
    return {**_keys(keys), "fleet.lengths": lengths, "fleet.records": records}


def _keys(keys: list[Key]) -> dict[str, Array]:
    """Return keys as tensors: which are texts, the whole numbers, and the texts in UTF-8."""
    texts = [key.encode() for key in keys if isinstance(key, str)]
    return {
        "fleet.texts": np.array([isinstance(key, str) for key in keys], bool),
        "fleet.whole": np.array([key for key in keys if not isinstance(key, str)], np.int64),
        "fleet.ends": np.cumsum([len(text) for text in texts], dtype=np.int64),
        "fleet.letters": np.frombuffer(b"".join(texts), np.uint8),
    }


def keys_in(saved: Saved) -> list[Key]:
    """Return the keys that a file holds."""
    texts = saved.array("fleet.texts", (None,), bool)
    whole = saved.array("fleet.whole", (int(np.sum(~texts)),), np.int64)
    ends = saved.array("fleet.ends", (int(np.sum(texts)),), np.int64)
    letters = saved.array("fleet.letters", (None,), np.uint8).tobytes()
    steps = np.diff(ends, prepend=0)
    if np.any(steps < 0) or (ends[-1] if len(ends) else 0) != len(letters):
        raise saved.refuse("fleet.ends", "must increase, to the end of the letters")
    starts = (ends - steps).tolist()
    found = iter([letters[a:b].decode() for a, b in zip(starts, ends.tolist(), strict=True)])
    numbers = iter(whole.tolist())
    return [next(found) if text else next(numbers) for text in texts.tolist()]


def restore(saved: Saved, numbers: Array, store: Any) -> None:
    """Let models be what a file holds of them."""
    lengths = saved.array("fleet.lengths", (len(numbers),), np.int64, low=0)
    if np.any(lengths > MOST):
        raise saved.refuse("fleet.lengths", f"must be {MOST} at most")
    records = saved.array("fleet.records", (int(lengths.sum()),), np.uint8)
    at = 0
    for start in range(0, len(numbers), AT_ONCE):
        part = slice(start, start + AT_ONCE)
        size = int(lengths[part].sum())
        store.restore_joined(numbers[part], lengths[part], records[at : at + size])
        at += size
