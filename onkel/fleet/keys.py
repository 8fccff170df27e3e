"""Keys and their numbers: by these the stores know models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.fleet.groups import Key, plain_keys

Array = NDArray[Any]


class Keys:
    """Keys, each with a number of its own; that of a key that is gone is used again.

    Examples
    --------
    >>> keys = Keys()
    >>> with keys.entering(["pump", "fan", "pump"]) as numbers:
    ...     pass
    >>> numbers, keys.find(["fan", "crane"]), keys.all()
    (array([0, 1, 0]), array([ 1, -1]), ['pump', 'fan'])
    """

    def __init__(self) -> None:
        self._table: Any = core.compiled.KeyTable() if core.has_lane() else PlainTable()

    def __len__(self) -> int:
        return len(self._table)

    @property
    def room(self) -> int:
        """One more than the largest number that there was."""
        return int(self._table.numbers())

    def find(self, keys: Any) -> Array:
        """Return the numbers of keys; -1 of one that is not known."""
        numbers = np.empty(len(keys), np.int64)
        if self._table.find(keys, numbers) >= 0:
            self._table.find(plain_keys(keys), numbers)
        return numbers

    def number(self, key: Any) -> int:
        """Return the number of one key; -1 if it is not known."""
        if key is None:  # which the compiled table does not take
            return -1
        found: int = self._table.number(key)
        if found < 0 and isinstance(key, np.generic):
            found = self._table.number(key.item())
        return found

    @contextmanager
    def entering(
        self, keys: Any, forget: Callable[[list[int]], None] | None = None
    ) -> Iterator[Array]:
        """Give keys numbers; those that are new are forgotten again if what follows fails.

        `forget` is called with their numbers by then, which other keys will have.
        """
        numbers = np.empty(len(keys), np.int64)
        entered = self._table.enter(keys, numbers)
        fresh = entered.fresh
        try:
            if entered.bad >= 0:
                fresh = [*fresh, *self._table.enter(plain_keys(keys), numbers).fresh]
            yield numbers
        except BaseException:
            if forget is not None:
                forget([*fresh])
            for number in reversed(fresh):
                self._table.remove(number)
            raise

    def key(self, number: int) -> Key:
        """Return the key of a number."""
        found: Key = self._table.key(number)
        return found

    def remove(self, number: int) -> None:
        """Forget a key."""
        self._table.remove(number)

    def all(self) -> list[Key]:
        """Return all keys, by their numbers."""
        return list(self._table.all())

    def taken(self) -> list[int]:
        """Return all numbers that are in use."""
        return list(self._table.taken())


class Entered(NamedTuple):
    """Keys that were taken in."""

    bad: int
    """The first place of what is no key, or -1."""
    fresh: list[int]
    """The new numbers."""


class PlainTable:
    """The same as the compiled core's table, in a dict."""

    def __init__(self) -> None:
        self._number: dict[Key, int] = {}
        self._key: list[Key | None] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._number)

    def numbers(self) -> int:
        """One more than the largest number that there was."""
        return len(self._key)

    def find(self, keys: Any, out: Array) -> int:
        """Leave numbers, -1 of what is not known; return the first place of no key, or -1."""
        for i, key in enumerate(keys.tolist() if isinstance(keys, np.ndarray) else keys):
            if type(key) not in (str, int):
                return i
            out[i] = self._number.get(key, -1)
        return -1

    def enter(self, keys: Any, out: Array) -> Entered:
        """The same, but what is not known is taken in."""
        fresh: list[int] = []
        for i, key in enumerate(keys.tolist() if isinstance(keys, np.ndarray) else keys):
            if type(key) not in (str, int):
                return Entered(i, fresh)
            if key not in self._number:
                fresh.append(self._enter(key))
            out[i] = self._number[key]
        return Entered(-1, fresh)

    def _enter(self, key: Key) -> int:
        if self._free:
            number = self._free.pop()
            self._key[number] = key
        else:
            number = len(self._key)
            self._key.append(key)
        self._number[key] = number
        return number

    def number(self, key: Any) -> int:
        """Return the number of one key, -1 if it is not known."""
        return self._number.get(key, -1) if type(key) in (str, int) else -1

    def key(self, number: int) -> Key:
        """Return the key of a number."""
        found = self._key[number]
        assert found is not None
        return found

    def remove(self, number: int) -> None:
        """Forget a key."""
        del self._number[self.key(number)]
        self._key[number] = None
        self._free.append(number)

    def all(self) -> list[Key]:
        """Return all keys, by their numbers."""
        return [key for key in self._key if key is not None]

    def taken(self) -> list[int]:
        """Return all numbers that are in use."""
        return [number for number, key in enumerate(self._key) if key is not None]
