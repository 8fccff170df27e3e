"""Columns: which are learned from, which say what, which are left out, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from onkel.streams.sources import values

SAMPLE = 1000
"""So many rows at the start of a source tell its columns' types."""
ENOUGH = 0.9
"""A column is a number's if this share of what it holds are numbers; the rest are broken rows."""


class SourceError(ValueError):
    """A source that cannot be read at all, or not as asked."""


@dataclass(frozen=True)
class Column:
    """One column: its kind ("number", "whole" or "text"), its role, and why it is ignored."""

    name: str
    kind: str = "number"
    role: str = "feature"
    why: str = ""
    empty: bool = False
    """Whether the first rows held nothing there: then nobody knows what it is."""


@dataclass(frozen=True)
class Roles:
    """What the user said about columns."""

    target: str | None = None
    labels: bool = False
    """Whether the target is a label (else a number)."""
    time: str | None = None
    key: str | None = None
    ignore: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    """If given, the only features."""


@dataclass(frozen=True)
class Schema:
    """The columns of a source, in its order.

    Examples
    --------
    >>> schema = Schema.infer(["a", "b"], [["1", "x"], ["2", "y"]], Roles())
    >>> schema.features, schema.ignored()
    (['a'], [('b', 'text')])
    """

    columns: tuple[Column, ...]
    roles: Roles = field(default_factory=Roles)

    @classmethod
    def infer(cls, names: Sequence[str], sample: Iterable[Sequence[Any]], roles: Roles) -> Schema:
        """Tell the columns' types from the first rows and give each its role."""
        rows = list(sample)
        _check_names(names, roles)
        found = [_column(name, [row[j] for row in rows]) for j, name in enumerate(names)]
        schema = cls(tuple(_with_role(column, roles) for column in found), roles)
        if not schema.features:
            told = "; ".join(f"{name}: {why}" for name, why in schema.ignored()) or "none at all"
            raise SourceError(f"There is no column of numbers to learn from ({told}).")
        return schema

    @property
    def names(self) -> list[str]:
        """All columns."""
        return [c.name for c in self.columns]

    @property
    def features(self) -> list[str]:
        """The columns that are learned from."""
        return [c.name for c in self.columns if c.role == "feature"]

    def at(self, role: str) -> int | None:
        """Return where the column with a role is."""
        return next((j for j, c in enumerate(self.columns) if c.role == role), None)

    def places(self) -> list[int]:
        """Return where the features are."""
        return [j for j, c in enumerate(self.columns) if c.role == "feature"]

    def ignored(self) -> list[tuple[str, str]]:
        """Return the columns left out, and why."""
        return [(c.name, c.why) for c in self.columns if c.role == "ignored"]

    def warnings(self) -> list[str]:
        """Return what a person should be told: columns of text, and those nothing is known of."""
        texts = [c.name for c in self.columns if c.role == "ignored" and c.why == "text"]
        return [f"column {name!r} holds text and is ignored" for name in texts] + [
            f"column {c.name!r} held nothing in the first rows and is taken for numbers: a row "
            f"with text there will be a broken one (else --ignore {c.name})"
            for c in self.columns if c.empty and c.role == "feature"
        ]  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON knows it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Schema:
        """Return the schema that `to_dict` has described."""
        roles: dict[str, Any] = dict(data["roles"])
        roles |= {name: tuple(roles[name]) for name in ("ignore", "columns")}
        return cls(tuple(Column(**c) for c in data["columns"]), Roles(**roles))


def _check_names(names: Sequence[str], roles: Roles) -> None:
    twice = sorted({n for n in names if list(names).count(n) > 1})
    if twice:
        raise SourceError(f"Columns must have names of their own; there are several {twice!r}.")
    wanted = [("--target", roles.target), ("--time", roles.time), ("--key", roles.key)]
    wanted += [("--ignore", n) for n in roles.ignore] + [("--columns", n) for n in roles.columns]
    for option, name in wanted:
        if name is not None and name not in names:
            shown = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
            raise SourceError(f"{option}: there is no column {name!r}. There are: {shown}.")
    for name in dict.fromkeys(name for _, name in wanted if name is not None):
        options = list(dict.fromkeys(option for option, other in wanted if other == name))
        if len(options) > 1:
            raise SourceError(
                f"Column {name!r} is named by {' and '.join(options)}: it can have one role only."
            )


def _column(name: str, cells: list[Any]) -> Column:
    empty = bool(cells) and all(values.is_missing(cell) for cell in cells)
    return Column(name, _kind(cells), empty=empty)


def _kind(cells: list[Any]) -> str:
    held = [c for c in cells if not values.is_missing(c)]
    numbers = [c for c in held if values.is_number(c)]
    if held and len(numbers) < ENOUGH * len(held):
        return "text"
    whole = all(values.number(c).is_integer() for c in numbers)
    return "whole" if numbers and whole else "number"


def _with_role(column: Column, roles: Roles) -> Column:
    name, text = column.name, column.kind == "text"
    for role in ("target", "time", "key"):
        if name == getattr(roles, role):
            return replace(column, role=role)
    if name in roles.ignore:
        return replace(column, role="ignored", why="asked for")
    if roles.columns and name not in roles.columns:
        return replace(column, role="ignored", why="not among --columns")
    if text:
        return replace(column, role="ignored", why="text")
    return column
