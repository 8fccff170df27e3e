"""Models in Spark's state store: a small head that is written each time, a base that seldom is.

The base is a key's model file as it once was; the head holds the pages that differ from it now, so
that a batch writes what changed. A small file stands in the head whole. A worker also keeps the
models that it used last: a head says by its digest whether such a model is the present one, so that
a batch that is done again, or by another worker, never sees a model that is not its own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel import files

Array = NDArray[Any]
Key = tuple[Any, ...]

LAYOUT = 1
"""Of head and base; what stands in them is of ``files.FORMAT``."""
PAGE = 64
"""Bytes that are compared, and written, together."""
WHOLE = 16 * 1024
"""Files of at most so many bytes stand in the head: a second call costs more than writing them."""
SHARE = 0.25
"""A head whose pages are more than this part of the file gets a new base."""
_DIGEST = slice(8 + len(b'{"__metadata__":{"sha256":"'), None)
_OBJECTS = 16 * 1024  # what a live model costs beside its arrays


class Head(NamedTuple):
    """What is known of a key without reading its model; the columns of the state ``heads``."""

    layout: int
    """Version of this table."""
    format: int
    """Version of the model file."""
    time: float
    """The latest time that was learned, in seconds."""
    learned: int
    """Rows that were learned."""
    late: int
    """Rows that came after later ones of their key had been learned."""
    refused: int
    """Rows that could not be learned."""
    digest: bytes
    """Of the model file, as the file itself holds it."""
    based: int
    """When the base was written, in milliseconds of processing time; -1: there is none."""
    data: bytes
    """The base's digest and the pages that differ from it; without a base, the model file."""


NEW = Head(LAYOUT, files.FORMAT, -np.inf, 0, 0, 0, b"", -1, b"")


def digest_of(data: bytes) -> bytes:
    """Return the digest that a model file begins with."""
    return bytes.fromhex(data[_DIGEST][:64].decode("ascii"))


# -- pages -----------------------------------------------------------------------------------------


def _pages(data: bytes) -> Array:
    padded = data + bytes(-len(data) % PAGE)
    return np.frombuffer(padded, np.uint64).reshape(-1, PAGE // 8)


def patch(base: bytes, data: bytes) -> bytes | None:
    """Return the pages in which a file differs from its base; None if they differ in length.

    ``[4 bytes: how many][4 bytes each: where][64 bytes each: what]``

    Examples
    --------
    >>> base, data = bytes(1000), bytes(500) + b"!" + bytes(499)
    >>> len(patch(base, data)), patched(base, patch(base, data)) == data
    (72, True)
    """
    if len(base) != len(data):
        return None
    new = _pages(data)
    where = np.flatnonzero((_pages(base) != new).any(axis=1)).astype("<u4")
    return len(where).to_bytes(4, "little") + where.tobytes() + new[where].tobytes()


def patched(base: bytes, change: bytes) -> bytes:
    """Return the file that :func:`patch` compared with its base."""
    count = int.from_bytes(change[:4], "little")
    where = np.frombuffer(change, "<u4", count, 4)
    pages = _pages(base).copy()
    words = np.frombuffer(change, np.uint64, count * (PAGE // 8), 4 + 4 * count)
    pages[where] = words.reshape(count, PAGE // 8)
    return pages.tobytes()[: len(base)]


# -- models at hand --------------------------------------------------------------------------------


@dataclass
class Held:
    """A model, and what the store holds of it."""

    model: Any
    head: Head
    base: bytes | None = None

    @property
    def digest(self) -> bytes:
        """By which a worker knows whether it is the present one."""
        return self.head.digest

    def size(self) -> int:
        """Bytes of memory, about."""
        base = 0 if self.base is None else len(self.base)
        return _OBJECTS + 2 * len(self.head.data) + 2 * base


class Cache:
    """The models, or groups of them, that were used last, up to a number of bytes.

    Examples
    --------
    >>> cache = Cache(limit=100_000)
    >>> cache.put(("a",), Held("a model", NEW._replace(digest=b"1")))
    >>> cache.take(("a",), b"2") is None, cache.take(("a",), b"1") is None
    (True, True)
    """

    def __init__(self, limit: int = 2**28) -> None:
        self.limit, self.used = limit, 0
        self._held: OrderedDict[Key, Any] = OrderedDict()

    def take(self, key: Key, digest: bytes) -> Any:
        """Return, and let go of, what is held of a key, if it has this digest."""
        held = self._held.pop(key, None)
        if held is None:
            return None
        self.used -= held.size()
        return held if held.digest == digest else None

    def put(self, key: Key, held: Any) -> None:
        """Hold on to a model, or to a group of them; those used longest ago go."""
        self.take(key, b"")
        self._held[key] = held
        self.used += held.size()
        while self.used > self.limit:
            self.used -= self._held.popitem(last=False)[1].size()


CACHE = Cache()
"""Of this process: Spark uses its Python workers again."""


# -- the store -------------------------------------------------------------------------------------


class Models:
    """The models of one group of keys, in two of Spark's map states.

    Parameters
    ----------
    heads, bases : pyspark MapState
        From a key to its :class:`Head`, and to its base.
    fresh : function
        Returns a new key's model.
    own : dict
        The user's own code, for :func:`onkel.load`.
    idle : int, optional
        Milliseconds after which Spark forgets a head; a base lives twice as long.
    """

    def __init__(
        self, heads: Any, bases: Any, fresh: Callable[[], Any], own: dict[str, Any],
        idle: int | None = None,
    ) -> None:  # fmt: skip
        self._heads, self._bases, self._fresh, self._own = heads, bases, fresh, own
        self._idle = idle

    def take(self, key: Key) -> Held:
        """Return a key's model, a new one for a new key."""
        row = self._heads.getValue(key)
        if row is None:
            return Held(self._fresh(), NEW)
        head = Head(*row)._replace(digest=bytes(row[6]), data=bytes(row[8]))
        if head.layout > LAYOUT or head.format > files.FORMAT:
            raise ValueError(
                f"its state was written by a newer onkel (layout {head.layout}, format "
                f"{head.format}; this one reads up to {LAYOUT} and {files.FORMAT}): upgrade onkel "
                "on the workers, or start with a new checkpoint."
            )
        held = CACHE.take(key, head.digest)
        if held is None or (held.head.based, held.head.data) != (head.based, head.data):
            return self._read(key, head)
        held.head = head  # of a batch done again, numbers may differ where the model does not
        return held

    def _read(self, key: Key, head: Head) -> Held:
        base = None
        if head.based >= 0:
            row = self._bases.getValue(key)
            if row is None:
                raise ValueError("its state is damaged: there are changes, and no base.")
            base = bytes(row[0])
        try:
            return Held(files.loads(_whole(head, base), **self._own), head, base)
        except ValueError as error:
            raise ValueError(f"its state cannot be read: {error}") from None

    def put(self, key: Key, held: Held, changed: bool, now: int) -> None:
        """Write a model to the store, as little of it as will do.

        Parameters
        ----------
        changed : bool
            Whether it has learned; if not, only the head's numbers are written.
        now : int
            Processing time in milliseconds; -1 if there is none.
        """
        if changed or not held.head.digest:
            data = files.dumps(held.model)
            held.head = held.head._replace(
                layout=LAYOUT, format=files.FORMAT, digest=digest_of(data)
            )
            self._place(key, held, data, now)
        elif self._old(held.head, now):
            self._new_base(key, held, _whole(held.head, held.base), now)
        self._heads.updateValue(key, tuple(held.head))
        CACHE.put(key, held)

    def _place(self, key: Key, held: Held, data: bytes, now: int) -> None:
        """Put a file where it is cheapest: pages beside the base, in the head, or as a new base."""
        if len(data) <= WHOLE:
            if held.base is not None:
                self._bases.removeKey(key)
            held.base, held.head = None, held.head._replace(based=-1, data=data)
            return
        pages = None if held.base is None else patch(held.base, data)
        if pages is None or len(pages) > SHARE * len(data) or self._old(held.head, now):
            self._new_base(key, held, data, now)
        else:
            assert held.base is not None
            held.head = held.head._replace(data=digest_of(held.base) + pages)

    def _old(self, head: Head, now: int) -> bool:
        """Whether a base might be forgotten before its head is."""
        return head.based >= 0 and self._idle is not None and now - head.based >= self._idle

    def _new_base(self, key: Key, held: Held, data: bytes, now: int) -> None:
        self._bases.updateValue(key, (data,))
        held.base = data
        held.head = held.head._replace(based=max(now, 0), data=digest_of(data) + bytes(4))


def _whole(head: Head, base: bytes | None) -> bytes:
    """Return the model file that head and base hold."""
    if base is None:
        return head.data
    if digest_of(base) != head.data[:32]:
        raise ValueError("its changes are of another base.")
    return patched(base, head.data[32:])
