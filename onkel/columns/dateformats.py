"""Dates and times as people write them: the form is found from the first cells, and then kept.

>>> found = find_format(["09.03.2020 15:56:30", "14.03.2020 08:00"])
>>> found.form, found.seconds("14.03.2020 08:00")
('dmy', 1584172800.0)
"""

from __future__ import annotations

import datetime
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from onkel.columns import datepatterns
from onkel.columns.cells import ENOUGH, NUMBER, is_missing, number_in
from onkel.columns.datepatterns import Written
from onkel.columns.dates import is_time, seconds_of
from onkel.inputs import LARGEST

UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_WORDS = {
    "iso": "ISO 8601", "s": "seconds since 1970", "ms": "milliseconds since 1970",
    "us": "microseconds since 1970", "ns": "nanoseconds since 1970", "dmy": "day first",
    "mdy": "month first", "ymd": "year first", "dby": "day first, the month by name",
    "bdy": "month first, by name", "digits": "digits alone, year first",
}  # fmt: skip
_SIZES = {"s": 1e11, "ms": 1e14, "us": 1e17}
"""Times from 1973 to 5138 are below, in each unit."""
_SHOWN = 40


@dataclass(frozen=True)
class DateFormat:
    """How the cells of one column write a time.

    Parameters
    ----------
    form : str
        ``iso``; ``s``, ``ms``, ``us`` or ``ns`` since 1970; ``dmy``, ``mdy`` or ``ymd`` (day,
        month or year first); ``dby`` or ``bdy`` (months by name); ``digits`` (20200309,
        202003091556, 20200309155630); or a pattern of ``strptime``.
    like : str
        A cell that is written so.
    unsure : bool
        Whether day and month might change places, for all that the cells tell.

    Examples
    --------
    >>> DateFormat("%d/%m/%Y").seconds("02/01/1970")
    86400.0
    >>> DateFormat("ms").seconds(1500)
    1.5
    """

    form: str
    like: str = ""
    unsure: bool = False

    @classmethod
    def given(cls, form: str) -> DateFormat:
        """Return the format that a person has named; raise ValueError where it is none."""
        if "%" in form:
            datepatterns.pattern_of(form)
        elif form not in _WORDS:
            raise ValueError(
                f"a format of times is one of {', '.join(_WORDS)}, or a pattern such as "
                f"'%d.%m.%Y %H:%M:%S'; got {form!r}"
            )
        return cls(form)

    @property
    def words(self) -> str:
        """The format as a person is told of it.

        Examples
        --------
        >>> DateFormat("dmy", "09.03.2020").words
        "day first, as in '09.03.2020'"
        """
        like = f", as in {self.like!r}" if self.like else ""
        return _WORDS.get(self.form, self.form) + like

    def seconds(self, cell: Any) -> float:
        """Return a cell's time in seconds since 1970 (UTC, where it names no zone), or ValueError.

        Examples
        --------
        >>> DateFormat("iso").seconds("1970-01-01T01:00:01+01:00")
        1.0
        """
        if isinstance(cell, str):
            return self._read(cell.strip())
        if is_time(cell):
            return float(seconds_of([cell])[0])
        if isinstance(cell, (int, float)) and self.form in UNITS:
            return _bounded(cell / UNITS[self.form])
        if isinstance(cell, (int, float)) and self.form == "digits":
            return self._read(str(int(cell)) if cell == int(cell) else repr(cell))
        raise ValueError(f"{type(cell).__name__} where a time was expected")

    @cached_property
    def _read(self) -> Callable[[str], float]:
        if self.form == "iso":
            return _iso
        if self.form in UNITS:
            return _Epoch(UNITS[self.form]).seconds
        return Written(self.form).seconds

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON knows it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> DateFormat:
        """Return the format that `to_dict` has described."""
        return cls(**data)


def find_format(cells: Sequence[Any]) -> DateFormat | None:
    """Return how cells write times; None if (nine of ten of) them are none.

    Numbers are times since 1970, in the unit that their size tells, unless all their digits
    are a date's. Whether day or month comes first is told by a number above 12; where there
    is none, dots and dashes mean the day, slashes the month, and the format is `unsure`.

    Examples
    --------
    >>> find_format(["3/9/2020 3:56 PM", "3/14/2020 8:00 AM"]).form
    'mdy'
    >>> find_format([1583769390123]).form, find_format(["20200309"]).form
    ('ms', 'digits')
    >>> find_format(["blue", "red"]) is None
    True
    """
    held = [c for c in cells if not is_missing(c)]
    if not held:
        return None
    numbers = [v for v in map(number_in, held) if v is not None]
    if len(numbers) >= ENOUGH * len(held):
        return _of_numbers(held, numbers)
    like = str(held[0]).strip()[:_SHOWN]
    for form in ("iso", "ymd", "dby", "bdy"):
        if fits(DateFormat(form), held):
            return DateFormat(form, like)
    return _by_order(held, like)


def fits(found: DateFormat, held: Sequence[Any]) -> bool:
    """Whether (nine of ten of) the cells are written so; the first ones mostly tell."""
    left = len(held) - math.ceil(ENOUGH * len(held))
    for cell in held:
        try:
            found.seconds(cell)
        except ValueError:
            left -= 1
            if left < 0:
                return False
    return True


def _of_numbers(held: Sequence[Any], numbers: Sequence[float]) -> DateFormat:
    like = str(held[0]).strip()[:_SHOWN]
    if all(v >= 1e7 for v in numbers) and fits(DateFormat("digits"), held):
        return DateFormat("digits", like)
    size = statistics.median(map(abs, numbers))
    unit = next((u for u, most in _SIZES.items() if size < most), "ns")
    return DateFormat(unit, like)


def _by_order(held: Sequence[Any], like: str) -> DateFormat | None:
    """Return which comes first, day or month, of dates that end with the year."""
    found = [m for m in map(datepatterns.day_and_month, held) if m is not None]
    if len(found) < ENOUGH * len(held):
        return None
    days, months = sum(a > 12 for a, _, _ in found), sum(b > 12 for _, b, _ in found)
    form = "mdy" if months > days or (months == days and found[0][2] == "/") else "dmy"
    chosen = DateFormat(form, like, unsure=not days and not months)
    return chosen if fits(chosen, held) else None


class _Epoch:
    """Numbers since 1970."""

    def __init__(self, unit: int) -> None:
        self._unit = unit

    def seconds(self, text: str) -> float:
        if not NUMBER.fullmatch(text):
            raise ValueError(f"{text[:_SHOWN]!r} is no number")
        return _bounded(float(text) / self._unit)


def _bounded(seconds: float) -> float:
    if not abs(seconds) <= LARGEST:
        raise ValueError(f"{seconds!r} is no time up to {LARGEST:g} seconds")
    return seconds


def _iso(text: str) -> float:
    try:
        return _since(datetime.datetime.fromisoformat(text))
    except ValueError:
        raise ValueError(f"{text[:_SHOWN]!r} is no ISO 8601") from None


_EPOCH = datetime.datetime(1970, 1, 1)
_EPOCH_UTC = _EPOCH.replace(tzinfo=datetime.UTC)


def _since(date: datetime.datetime) -> float:
    return (date - (_EPOCH if date.tzinfo is None else _EPOCH_UTC)).total_seconds()
