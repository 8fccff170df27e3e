"""Dates as patterns: an order of day, month and year, or a pattern of ``strptime``."""

from __future__ import annotations

import datetime
import re
from operator import itemgetter
from typing import Any

_PARTS = ("y", "m", "d", "H", "M", "S", "f", "p", "z")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_ZONE = r"(?P<z>Z|UTC|GMT|[+-]\d\d:?\d\d)"
_CLOCK = (
    r"(?:\s*[T ,:]\s*(?P<H>\d{1,2}):(?P<M>\d\d)(?::(?P<S>\d\d)(?:[.,](?P<f>\d{1,9}))?)?"
    rf"(?:\s?(?P<p>[AP])\.?M\.?)?(?:\s?{_ZONE})?)?"
)
_YEAR, _MONTH, _DAY = r"(?P<y>\d{4}|\d\d)", r"(?P<m>\d{1,2})", r"(?P<d>\d{1,2})"
_NAME = rf"(?P<m>{'|'.join(_MONTHS)})[a-z]{{0,6}}\.?"
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6}\.?,?\s)?"
_FORMS = {
    "dmy": rf"{_DAY}(?P<s>[./-])\s?{_MONTH}(?P=s)\s?{_YEAR}{_CLOCK}",
    "mdy": rf"{_MONTH}(?P<s>[./-])\s?{_DAY}(?P=s)\s?{_YEAR}{_CLOCK}",
    "ymd": rf"(?P<y>\d{{4}})(?P<s>[./-]){_MONTH}(?P=s){_DAY}{_CLOCK}",
    "dby": rf"{_WEEKDAY}{_DAY}(?:st|nd|rd|th)?[ ./-]\s?{_NAME}[ ,./-]\s?(?P<y>\d{{4}}){_CLOCK}",
    "bdy": rf"{_WEEKDAY}{_NAME}\s{_DAY}(?:st|nd|rd|th)?,?\s(?P<y>\d{{4}}){_CLOCK}",
    "digits": r"(?P<y>(?:19|20)\d\d)(?P<m>\d\d)(?P<d>\d\d)(?:(?P<H>\d\d)(?P<M>\d\d)(?P<S>\d\d)?)?",
}
_DIRECTIVES = {
    "d": _DAY, "m": _MONTH, "Y": r"(?P<y>\d{4})", "y": r"(?P<y>\d\d)", "H": r"(?P<H>\d{1,2})",
    "I": r"(?P<H>\d{1,2})", "M": r"(?P<M>\d{1,2})", "S": r"(?P<S>\d{1,2})",
    "f": r"(?P<f>\d{1,9})", "p": r"(?P<p>[AP])M", "b": _NAME, "B": _NAME,
    "a": r"[a-z]{2,9}\.?", "A": r"[a-z]{2,9}\.?", "z": _ZONE, "%": "%",
}  # fmt: skip
_FIRST_DAY = datetime.date(1970, 1, 1).toordinal()
_KEPT = 4096
"""So many days are kept as they were read: most rows have the day of the row before."""


def pattern_of(form: str) -> re.Pattern[str]:
    """Return the expression for an order or a pattern; raise ValueError where it cannot be read.

    Examples
    --------
    >>> pattern_of("%d.%m.%Y").fullmatch("9.3.2020").group("d", "m", "y")
    ('9', '3', '2020')
    """
    text = _FORMS[form] if form in _FORMS else _expression(form)
    known = re.compile(text).groupindex if form not in _FORMS else dict.fromkeys("ymd")
    if not {"y", "m", "d"} <= set(known):
        raise ValueError(f"a pattern of times has a year, a month and a day; got {form!r}")
    wanting = "".join(rf"(?P<{p}>(?!))?" for p in _PARTS if f"(?P<{p}>" not in text)
    return re.compile(text + wanting, re.ASCII | re.IGNORECASE)


def _expression(form: str) -> str:
    found, seen = "", set[str]()
    for mark, other in re.findall(r"%(.?)|([^%]+)", form, re.DOTALL):
        if other:
            found += re.sub(r"(?:\\?\s)+", r"\\s+", re.escape(other))
            continue
        piece = _DIRECTIVES.get(mark)
        if piece is None or piece[:6] in seen:
            known = " ".join(f"%{name}" for name in _DIRECTIVES)
            raise ValueError(f"a pattern of times is made of {known}, each once; got {form!r}")
        seen |= {piece[:6]} if piece.startswith("(?P<") else set()
        found += piece
    return found


class Written:
    """Reads texts of one form.

    Examples
    --------
    >>> Written("mdy").seconds("1/2/1970 12:00 AM")
    86400.0
    """

    def __init__(self, form: str) -> None:
        pattern = pattern_of(form)
        self._form, self._match = form, pattern.fullmatch
        self._parts = itemgetter(*(pattern.groupindex[part] - 1 for part in _PARTS))
        self._days: dict[tuple[str, str, str], float] = {}

    def seconds(self, text: str) -> float:
        """Return the time in seconds since 1970, or raise ValueError."""
        match = self._match(text)
        if match is None:
            raise ValueError(f"{text[:40]!r} is no time of the form {self._form}")
        y, m, d, hour, minute, second, fraction, half, zone = self._parts(match.groups())
        found = self._days.get((y, m, d))
        if found is None:
            found = self._day(y, m, d)
        if hour is None:
            return found
        found += _clock(int(hour), int(minute or 0), int(second or 0), half)
        if fraction is not None:
            found += float("." + fraction)
        return found if zone is None else found - _offset(zone)

    def _day(self, *key: str) -> float:
        y, m, d = key
        month = int(m) if m.isdigit() else _MONTHS.index(m.lower()) + 1
        found = 86400.0 * (datetime.date(_year(y), month, int(d)).toordinal() - _FIRST_DAY)
        if len(self._days) >= _KEPT:
            self._days.clear()
        self._days[y, m, d] = found
        return found


def _clock(hour: int, minute: int, second: int, half: str | None) -> float:
    """Return seconds since midnight; a leap second is the next minute's first."""
    if half is not None:
        if not 1 <= hour <= 12:
            raise ValueError(f"{hour} is no hour of AM or PM")
        hour = hour % 12 + (12 if half in "Pp" else 0)
    if hour > 23 or minute > 59 or second > 60:
        raise ValueError(f"{hour:02}:{minute:02}:{second:02} is no time of day")
    return 3600.0 * hour + 60.0 * minute + second


def _year(text: str) -> int:
    """Return a year; of two digits, 69 to 99 are the last century's, as ``strptime`` has it."""
    year = int(text)
    return year if len(text) > 2 else year + (1900 if year > 68 else 2000)


def _offset(zone: str) -> float:
    if zone[0] not in "+-":
        return 0.0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    if hours > 23 or minutes > 59:
        raise ValueError(f"{zone!r} is no offset of a time zone")
    return (-1.0 if zone[0] == "-" else 1.0) * (3600.0 * hours + 60.0 * minutes)


_EITHER = re.compile(
    r"(\d{1,2})([./-])\s?(\d{1,2})\2\s?(\d{4}|\d\d)" + re.sub(r"\?P<\w>", "?:", _CLOCK),
    re.ASCII | re.IGNORECASE,
)


def day_and_month(cell: Any) -> tuple[int, int, str] | None:
    """Return the two first numbers of a date that ends with its year, and what stands between.

    A year of two digits is taken only where nothing else is likely: 1.2.10 may be a version.

    Examples
    --------
    >>> day_and_month("3/9/2020 3:56 PM"), day_and_month("1.2.10")
    ((3, 9, '/'), None)
    """
    match = _EITHER.fullmatch(cell.strip()) if isinstance(cell, str) else None
    if match is None:
        return None
    first, mark, second, year = match.groups()
    if len(year) == 2 and mark != "/" and not (mark == "." and len(first) == len(second) == 2):
        return None
    return int(first), int(second), mark
