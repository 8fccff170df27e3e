"""What the first rows tell of a column: its kind, how it is written, and what to say about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from onkel.columns.cells import ENOUGH, is_missing, number_in
from onkel.columns.dateformats import DateFormat, find_format, fits
from onkel.columns.decimals import commas_in, has_signs
from onkel.columns.kinds import are_truth, kind_of
from onkel.streams.sources import values

if TYPE_CHECKING:
    from onkel.streams.sources.schema import Column, Roles

EPOCHS = (5e8, 4e9)
"""Whole seconds since 1970 from 1985 to 2096: numbers of that size may be times."""
LOOKED, SHOWN, LONG = 100, 3, 24
"""Cells that are looked at for examples, how many of these are shown, and how much of each."""
FEW = 10
"""Fewer numbers than this tell nothing of what they count."""


def decimal_of(columns: Sequence[Sequence[Any]]) -> str:
    """Return what stands before decimals: a comma if some column has such, and none has points."""
    if not any(commas_in(_held(c)) == "decimal" for c in columns if _any_has(c, ",")):
        return "."
    return "." if any(_has_points(_held(c)) for c in columns if _any_has(c, ".")) else ","


def _held(cells: Sequence[Any]) -> list[Any]:
    return [c for c in cells if not is_missing(c)]


def _any_has(cells: Sequence[Any], mark: str) -> bool:
    return any(isinstance(c, str) and mark in c for c in cells)


def _has_points(held: Sequence[Any]) -> bool:
    points = sum(isinstance(c, str) and "." in c and number_in(c) is not None for c in held)
    return points > (1 - ENOUGH) * len(held)


def judged(
    column: Column, cells: Sequence[Any], roles: Roles, decimal: str, told: str | None
) -> Column:
    """Return a column with its kind; `told` is what the source itself says that it is."""
    column = replace(column, examples=_examples(cells))
    if column.role == "target" and roles.labels:
        return _labels(column, cells, frozenset(roles.missing_labels))
    found = [number_in(c, decimal) for c in cells]
    numbers = [v for v in found if v is not None]
    held = [c for c, v in zip(cells, found, strict=True) if v is not None or not is_missing(c)]
    given = "time" if column.role == "time" else roles.kinds.get(column.name)
    kind = given or _kind(held, numbers, decimal, told)
    column = replace(column, kind=kind, empty=bool(cells) and not held)
    if kind == "time":
        return _timed(column, held, roles, given is not None)
    if kind == "number":
        return _counted(column, numbers, column.role == "feature" and not given)
    said = _written(held) if column.role == "feature" and kind != "other" and not given else ""
    fate = "is left out" if kind == "identifier" else f"is taken for a {kind}"
    first = str(held[0]).strip()[:40] if held else ""
    return replace(column, note=said.format(column.name, first, fate))


def _written(held: Sequence[Any]) -> str:
    """Return what to say of cells that are numbers with something more."""
    if has_signs(held):
        return _SIGNS
    return _GROUPS if commas_in(held) == "groups" else ""


def _examples(cells: Sequence[Any]) -> tuple[str, ...]:
    """Return the first few different values, as texts."""
    texts = (str(c).strip() for c in cells[:LOOKED] if not is_missing(c))
    found = tuple(dict.fromkeys(texts))[:SHOWN]
    return tuple(text if len(text) <= LONG else f"{text[: LONG - 1]}…" for text in found)


def _kind(held: Sequence[Any], numbers: Sequence[float], decimal: str, told: str | None) -> str:
    """Return what cells make of a column, lists and objects included."""
    if told is None and len(numbers) >= ENOUGH * len(held) and not are_truth(held):
        return "number"
    odd = sum(isinstance(c, _ODD) for c in held)
    return "other" if odd > (1 - ENOUGH) * len(held) else told or kind_of(held, decimal)


_ODD = values.Odd, dict, list, bytes


def _counted(column: Column, numbers: Sequence[float], hint: bool) -> Column:
    """Return a column of numbers: whole ones are, and may be times or count the rows."""
    if not numbers or not all(map(float.is_integer, numbers)):
        return column
    return replace(column, kind="whole", note=_hint(column.name, numbers) if hint else "")


# -- what is said ----------------------------------------------------------------------------------


def _labels(column: Column, cells: Sequence[Any], words: frozenset[str]) -> Column:
    """Return a column of labels; words that elsewhere stand for a missing number are told of."""
    held = [c for c in cells if not values.is_no_target(c, words)]
    numbers = [v for v in map(number_in, held) if v is not None]
    few = len(numbers) < ENOUGH * len(held)
    column = replace(column, kind="category") if few else _counted(column, numbers, hint=False)
    odd = dict.fromkeys(c.strip() for c in held if isinstance(c, str) and is_missing(c))
    many = "are labels" if len(odd) > 1 else "is a label"
    note = (
        f"column {column.name!r}: {', '.join(map(repr, odd))} {many} as any other "
        f"(--missing-label {next(iter(odd))}: rows with that word have none)" if odd else ""
    )  # fmt: skip
    return replace(column, empty=bool(cells) and not held, note=note)


def _timed(column: Column, held: Sequence[Any], roles: Roles, asked: bool) -> Column:
    """Return a column of times, with the format that was given or found."""
    name, note = column.name, ""
    given = DateFormat.given(roles.time_format) if roles.time_format else None
    dates = given if given and (asked or fits(given, held)) else find_format(held)
    if dates is None and held:
        odd = next((cell for cell in held if find_format([cell]) is None), None)
        note = f"column {name!r}: " + (
            "the first rows write times in more than one way; --time-format says which one counts"
            if odd is None else f"{str(odd)[:40]!r} is no time that is known (ISO 8601, day or "
            "month first, seconds since 1970, …); --time-format says how it is written"
        )  # fmt: skip
    elif dates is not None and dates.unsure:
        other = {"dmy": "mdy", "mdy": "dmy"}[dates.form]
        note = (
            f"column {name!r}: the first rows do not tell whether day or month comes first; taken "
            f"as {dates.words} (--time-format {other} for the other way, {dates.form} to be sure)"
        )
    return replace(column, dates=dates, note=note)


def _hint(name: str, numbers: Sequence[float]) -> str:
    steps = [b - a for a, b in pairwise(numbers)]
    if len(numbers) < FEW:
        return ""
    if min(steps) >= 0 and _is_epoch(numbers):
        return _EPOCH.format(name)
    return _COUNTER.format(name) if min(steps) == max(steps) == 1 else ""


_SIGNS = (
    "column {0!r}: {1!r} is a number with a sign, and {2}; write such numbers without it, and "
    "they are learned from as such"
)
_GROUPS = (
    "column {0!r}: {1!r} may have a separator of thousands, and {2}; write such "
    "numbers without it, or, if it stands before decimals, say --decimal ,"
)
_EPOCH = (
    "column {0!r} looks like a time since 1970: --time {0} makes it the rows' time, --types "
    "{0}=time learns from its hour, weekday and season; it is taken for a number"
)
_COUNTER = "column {0!r} counts the rows: --ignore {0} leaves it out"


def _is_epoch(numbers: Sequence[float]) -> bool:
    found = find_format(numbers)
    assert found is not None
    times = [found.seconds(v) for v in numbers]
    return found.form == "digits" or EPOCHS[0] <= times[0] <= times[-1] <= EPOCHS[1]
