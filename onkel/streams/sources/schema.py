"""Columns: which are learned from, which say what, which are left out, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from onkel.streams.sources import values

SAMPLE, CELLS = 1000, 2**20
"""So many rows at the start of a source tell its columns' types, or so many cells."""
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
        columns = list(zip(*sample, strict=True))
        return cls.of(names, columns or [()] * len(names), roles)

    @classmethod
    def of(cls, names: Sequence[str], columns: Iterable[Sequence[Any]], roles: Roles) -> Schema:
        """Tell the columns' types from what each holds in the first rows."""
        check_names(names, roles)
        role = _Role(roles)
        found = tuple(role(_column(n, c)) for n, c in zip(names, columns, strict=True))
        schema = cls(found, roles)
        if not schema.features:
            ignored = [f"{name}: {why}" for name, why in schema.ignored()]
            told = listed(ignored, "; ") or "none at all"
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
        empty = [c.name for c in self.columns if c.empty and c.role == "feature"]
        return _told(texts, "column {0!r} holds text and is ignored") + _told(
            empty, "column {0!r} held nothing in the first rows and is taken for numbers: a row "
            "with text there will be a broken one (else --ignore {0})",
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON knows it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Schema:
        """Return the schema that `to_dict` has described."""
        roles: dict[str, Any] = dict(data["roles"])
        roles |= {name: tuple(roles[name]) for name in ("ignore", "columns")}
        return cls(tuple(Column(**c) for c in data["columns"]), Roles(**roles))


SHOWN = 20
"""So many names are told of those that share a fate."""


def listed(words: Sequence[str], mark: str = ", ") -> str:
    """Return words in a row; of many the first ones.

    Examples
    --------
    >>> listed(["a", "b"]), listed(["a"] * 25)[-7:]
    ('a, b', 'a, a, …')
    """
    return mark.join([*words[:SHOWN], *(["…"] if len(words) > SHOWN else [])])


def _told(names: list[str], words: str) -> list[str]:
    more = [f"{len(names) - SHOWN} more columns are like {names[0]!r}"] if names[SHOWN:] else []
    return [words.format(name) for name in names[:SHOWN]] + more


def check_names(names: Sequence[str], roles: Roles) -> None:
    """Raise SourceError where a name stands twice, is wanting, or has two roles."""
    known = Counter(names)
    twice = sorted(n for n, count in known.items() if count > 1)
    if twice:
        raise SourceError(
            f"Columns must have names of their own; there are several {twice[:SHOWN]!r}."
        )
    wanted = [("--target", roles.target), ("--time", roles.time), ("--key", roles.key)]
    wanted += [("--ignore", n) for n in roles.ignore] + [("--columns", n) for n in roles.columns]
    for option, name in wanted:
        if name is not None and name not in known:
            raise SourceError(f"{option}: there is no column {name!r}. There are: {listed(names)}.")
    given: dict[str, dict[str, None]] = {}
    for option, name in wanted:
        if name is not None:
            given.setdefault(name, {})[option] = None
    for name, options in given.items():
        if len(options) > 1:
            raise SourceError(
                f"Column {name!r} is named by {' and '.join(options)}: it can have one role only."
            )


def _column(name: str, cells: Sequence[Any]) -> Column:
    empty = bool(cells) and all(values.is_missing(cell) for cell in cells)
    return Column(name, _kind(cells), empty=empty)


def _kind(cells: Sequence[Any]) -> str:
    held = [c for c in cells if not values.is_missing(c)]
    numbers = [v for v in map(values.number_or_nan, held) if v == v]
    if len(numbers) < ENOUGH * len(held):
        return "text"
    return "whole" if numbers and all(v.is_integer() for v in numbers) else "number"


class _Role:
    """Gives a column its role."""

    def __init__(self, roles: Roles) -> None:
        self._named = {roles.target: "target", roles.time: "time", roles.key: "key"}
        self._ignore, self._only = frozenset(roles.ignore), frozenset(roles.columns)

    def __call__(self, column: Column) -> Column:
        if column.name in self._named:
            return replace(column, role=self._named[column.name])
        if column.name in self._ignore:
            return replace(column, role="ignored", why="asked for")
        if self._only and column.name not in self._only:
            return replace(column, role="ignored", why="not among --columns")
        if column.kind == "text":
            return replace(column, role="ignored", why="text")
        return column
