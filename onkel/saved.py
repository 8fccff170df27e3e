"""What a model file holds of one object: values by name, each taken once and checked on the way.

Nothing is believed: a file may have been written by anyone. What an object takes from here has the
type, the shape and the range that it asked for, or there is a ValueError that names the field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

MOST = 2**53
"""No counter goes beyond this: up to here whole numbers are exact also as floats."""


class Saved:
    """The fields of one object, as a file holds them.

    Examples
    --------
    >>> saved = Saved({"t": 3, "mean": np.zeros(2)}, "learner.")
    >>> saved.whole("t")
    3
    >>> saved.array("mean", (3,), np.float64)
    Traceback (most recent call last):
    ...
    ValueError: learner.mean must have shape [3]; got [2].
    """

    def __init__(self, held: Mapping[str, Any], path: str = "") -> None:
        self._held = dict(held)
        self.path = path

    def refuse(self, name: str, why: str) -> ValueError:
        """Return the error that says what is wrong with a field."""
        return ValueError(f"{self.path}{name} {why}.")

    def value(self, name: str) -> Any:
        """Take a field, whatever it is."""
        if name not in self._held:
            raise self.refuse(name, "is missing")
        return self._held.pop(name)

    def peek(self, name: str) -> Any:
        """Look at a field without taking it; None if it is not there."""
        return self._held.get(name)

    def whole(self, name: str, low: int = 0, high: int = MOST) -> int:
        """Take a whole number."""
        value = self.value(name)
        if type(value) is not int or not low <= value <= high:
            raise self.refuse(name, f"must be a whole number from {low} to {high}; got {value!r}")
        return value

    def number(self, name: str, low: float | None = None) -> float:
        """Take a finite number."""
        value = self.value(name)
        if type(value) is float and math.isfinite(value) and (low is None or value >= low):
            return value
        least = "" if low is None else f" of at least {low:g}"
        raise self.refuse(name, f"must be a finite number{least}; got {value!r:.60}")

    def maybe(self, name: str) -> float | None:
        """Take a finite number, or nothing."""
        value = self.value(name)
        if value is None or (type(value) is float and math.isfinite(value)):
            return value
        raise self.refuse(name, f"must be a number, or nothing; got {value!r}")

    def flag(self, name: str) -> bool:
        """Take True or False."""
        value = self.value(name)
        if type(value) is not bool:
            raise self.refuse(name, f"must be true or false; got {value!r}")
        return value

    def word(self, name: str, words: Sequence[str]) -> str:
        """Take one of some words."""
        value = self.value(name)
        if type(value) is not str or value not in words:
            raise self.refuse(name, f"must be one of {list(words)}; got {value!r}")
        return value

    def items(self, name: str, kind: type | None = None) -> list[Any]:
        """Take a list (of one type)."""
        value = self.value(name)
        if type(value) is not list:
            raise self.refuse(name, f"must be a list; got {value!r:.60}")
        if kind is not None and any(type(v) is not kind for v in value):
            raise self.refuse(name, f"must hold values of type {kind.__name__}")
        return value

    def array(
        self, name: str, shape: Sequence[int | None], dtype: Any, *, finite: bool = True,
        low: float | None = None,
    ) -> Array:  # fmt: skip
        """Take an array of this shape (None: any length) and type; `low` is its least value."""
        value = self.value(name)
        if not isinstance(value, np.ndarray) or value.dtype != np.dtype(dtype):
            found = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
            raise self.refuse(name, f"must be an array of {np.dtype(dtype)}; got {found}")
        wrong = any(n not in (None, m) for n, m in zip(shape, value.shape, strict=False))
        if wrong or len(shape) != value.ndim:
            wanted = ["any" if n is None else n for n in shape]
            raise self.refuse(name, f"must have shape {wanted}; got {list(value.shape)}")
        if finite and value.dtype.kind == "f" and not np.all(np.isfinite(value)):
            raise self.refuse(name, "must be finite")
        if low is not None and not np.all(value >= low):  # not (NaN >= low) either
            raise self.refuse(name, f"must be at least {low:g}")
        return value

    def inside(self, name: str) -> Saved:
        """Take the fields of an object inside, which may have none."""
        value = self._held.pop(name, {})
        if type(value) is not dict:
            raise self.refuse(name, "must hold fields of its own")
        return Saved(value, f"{self.path}{name}.")

    def part(self, start: str) -> Saved:
        """Take the fields whose names begin so, without that."""
        names = [name for name in self._held if str(name).startswith(start)]
        found = {name.removeprefix(start): self._held.pop(name) for name in names}
        return Saved(found, f"{self.path}{start}")

    def finish(self) -> None:
        """Refuse fields that nobody has taken."""
        if self._held:
            raise self.refuse(str(min(self._held, key=str)), "is not known here")
