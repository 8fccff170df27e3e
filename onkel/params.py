"""Parameters as data: what each accepts, and messages made from that.

A *part* (kernel, loss, rule, schedule, window) is a frozen dataclass whose ``_accepts`` maps a
field to an :class:`Accept`. Construction checks every field; nothing changes afterwards.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import pkgutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np

from onkel import clock
from onkel.nearest import did_you_mean


@dataclass(frozen=True)
class Accept:
    """What one parameter accepts, and what to do when something else came."""

    low: float = -math.inf
    high: float = math.inf
    low_open: bool = False
    high_open: bool = False
    whole: bool = False
    none: bool = False
    words: tuple[str, ...] = ()
    function: bool = False
    duration: bool = False
    hint: str = ""

    def describe(self) -> str:
        """The accepted values in words."""
        left, right = "(" if self.low_open else "[", ")" if self.high_open else "]"
        low = "-inf" if math.isinf(self.low) else f"{self.low:g}"
        high = "inf" if math.isinf(self.high) else f"{self.high:g}"
        kind = "a whole number" if self.whole else "a number"
        parts = [f"{kind} in {left}{low}, {high}{right}"] * (self.low <= self.high)
        parts += [repr(w) for w in self.words]
        parts += ["a function"] * self.function + [clock.ACCEPTED] * self.duration
        parts += ["None"] * self.none
        return " or ".join(parts)

    def fits(self, value: Any) -> bool:
        """Whether `value` is acceptable."""
        if value is None:
            return self.none
        if self.duration and clock.is_duration(value):
            return clock.seconds(value) is not None
        if isinstance(value, str):
            return value in self.words
        if self.function and callable(value):
            return True
        if isinstance(value, (bool, np.bool_)):
            return False
        if not isinstance(value, (int, float, np.integer, np.floating)):
            return False
        if isinstance(value, int) and abs(value) > sys.float_info.max:
            return False  # Python's own have any size, but no float holds such a one
        if self.whole and (not math.isfinite(value) or value != int(value)):
            return False
        above = value > self.low if self.low_open else value >= self.low
        below = value < self.high if self.high_open else value <= self.high
        return bool(above and below)

    def check(self, owner: str, name: str, value: Any) -> Any:
        """Return the value, a whole number as an int, whatever it came as (``1000.0``).

        Raise a ValueError that names the field, what is accepted, what came, what to do.
        """
        if not self.fits(value):
            hint = f" {self.hint}" if self.hint else ""
            raise ValueError(f"{owner}: {name} must be {self.describe()}; got {value!r}.{hint}")
        number = isinstance(value, (float, np.integer, np.floating))
        return int(value) if self.whole and number else value


POSITIVE = Accept(low=0, low_open=True, high_open=True)
NON_NEGATIVE = Accept(low=0, high_open=True)
FRACTION = Accept(low=0, low_open=True, high=1, high_open=True, none=True)


class Part:
    """Base of everything that is configured once and never changes."""

    word: ClassVar[str] = ""
    """The name that stands for it, with all its defaults; "" for none."""
    _accepts: ClassVar[Mapping[str, Accept]] = {}

    def __post_init__(self) -> None:
        for name, accept in self._accepts.items():
            value = accept.check(type(self).__name__, name, getattr(self, name))
            object.__setattr__(self, name, value)

    @classmethod
    def accepts(cls, name: str) -> Accept:
        """Return what a parameter accepts."""
        return cls._accepts[name]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters (with those of nested parts, if `deep`)."""
        params: dict[str, Any] = {}
        for field in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, field.name)
            params[field.name] = value
            if deep and isinstance(value, Part):
                inner = value.get_params()
                params.update({f"{field.name}__{k}": v for k, v in inner.items()})
        return params

    def with_params(self, **changes: Any) -> Self:
        """Return a copy with some parameters changed; ``outer__inner`` reaches inside."""
        return type(self)(**nested_changes(self, self.get_params(deep=False), changes))


PartT = TypeVar("PartT", bound=Part)


def registered(kind: type[PartT]) -> dict[str, type[PartT]]:
    """Return the parts of a kind that there are now, by the name that each class states."""
    found = {kind.word: kind} if vars(kind).get("word") else {}
    for part in kind.__subclasses__():
        for word, other in registered(part).items():
            if found.setdefault(word, other) is not other:
                raise TypeError(
                    f"{other.__name__} and {found[word].__name__} both have the word {word!r}; "
                    "one of them would not be found. Give each its own."
                )
    return dict(sorted(found.items()))


def gathered(package: str, path: Iterable[str], kind: type[PartT]) -> dict[str, type[PartT]]:
    """Import every module of a package, and return the parts of a kind by name."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{package}.{module.name}")
    return registered(kind)


def pick(what: str, value: Any, base: type[PartT], registry: Mapping[str, type[PartT]]) -> PartT:
    """Return a part from an object or a name; raise a ValueError that lists the names."""
    if isinstance(value, base):
        return value
    if isinstance(value, str) and value in registry:
        return registry[value]()
    raise ValueError(
        f"{what} must be one of {sorted(registry)} or an object of onkel (a {base.__name__}); "
        f"got {value!r}.{did_you_mean(value, registry, what)}"
    )


def nested_changes(
    owner: Any,
    params: dict[str, Any],
    changes: Mapping[str, Any],
    lookup: Callable[[str, Any], Any] = lambda name, value: value,
) -> dict[str, Any]:
    """Merge `changes` into `params`; ``a__b=v`` replaces part ``a`` by a changed copy.

    `lookup` turns a part's name (a string) into the object, so that its inside can be reached.
    """
    merged = dict(params)
    inner: dict[str, dict[str, Any]] = {}
    for key, value in changes.items():
        name, _, rest = key.partition("__")
        if name not in merged:
            raise ValueError(
                f"Invalid parameter {name!r} for estimator {owner!r}. "
                f"Valid parameters are: {sorted(merged)!r}.{did_you_mean(name, merged)}"
            )
        if rest:
            inner.setdefault(name, {})[rest] = value
        else:
            merged[name] = value
    for name, deeper in inner.items():
        part = lookup(name, merged[name])
        if not isinstance(part, Part):
            raise ValueError(f"{name} is {part!r} and has no parameters of its own to set.")
        merged[name] = part.with_params(**deeper)
    return merged
