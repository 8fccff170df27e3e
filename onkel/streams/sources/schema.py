"""Columns: which are learned from, which say what, which are left out, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from onkel.columns import Plan, Typed
from onkel.columns.dateformats import DateFormat
from onkel.columns.dates import Parts
from onkel.nearest import did_you_mean
from onkel.streams.sources import judging

SAMPLE, CELLS = 1000, 2**20
"""So many rows at the start of a source tell its columns' types, or so many cells."""


class SourceError(ValueError):
    """A source that cannot be read at all, or not as asked."""


@dataclass(frozen=True)
class Column:
    """One column: its kind, its role, and why it is ignored.

    Kinds are "number", "whole" (numbers without decimals), "boolean", "category", "time", "text",
    "identifier" (different in every row) and "other" (lists, objects).
    """

    name: str
    kind: str = "number"
    role: str = "feature"
    why: str = ""
    empty: bool = False
    """Whether the first rows held nothing there: then nobody knows what it is."""
    note: str = ""
    """What a person should be told about what was found there."""
    dates: DateFormat | None = None
    """How its cells write times, if they do."""
    examples: tuple[str, ...] = field(default=(), compare=False)
    """A few of the values of the first rows, for who looks at them: no memo has them."""


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
    missing_labels: tuple[str, ...] = ()
    """Words that stand for no target; an empty cell does so anyway."""
    time_format: str | None = None
    """How times are written (`DateFormat.form`); None: as the first rows tell."""
    types: tuple[tuple[str, str], ...] = ()
    """Columns whose kind is given: "number", "category", "boolean", "time", "text", "ignore"."""
    decimal: str | None = None
    """What stands before decimals, a point or a comma; None: as the first rows tell."""
    id: str | None = None
    """The column under whose values rows wait for their targets."""
    series: bool = False
    """Whether the rows are to become a series: numbers alone are learned from then."""

    @cached_property
    def kinds(self) -> dict[str, str]:
        """The kinds that are given, by name."""
        return dict(self.types)

    @property
    def named(self) -> frozenset[str]:
        """All columns that someone has named."""
        one = [n for n in (self.target, self.time, self.key, self.id) if n is not None]
        return frozenset((*one, *self.ignore, *self.columns, *(n for n, _ in self.types)))


NUMBERS = ("number", "whole")
TYPES = ("number", "category", "boolean", "time", "text", "ignore")


@dataclass(frozen=True)
class Schema:
    """The columns of a source, in its order.

    Examples
    --------
    >>> schema = Schema.infer(["a", "b"], [["1", "x"], ["2", "y"]], Roles())
    >>> schema.features, [column.name for column in schema.others]
    (['a'], ['b'])
    """

    columns: tuple[Column, ...]
    roles: Roles = field(default_factory=Roles)
    decimal: str = "."
    """What stands before the decimals of numbers that are texts."""

    @classmethod
    def infer(cls, names: Sequence[str], sample: Iterable[Sequence[Any]], roles: Roles) -> Schema:
        """Tell the columns' types from the first rows and give each its role."""
        columns = list(zip(*sample, strict=True))
        return cls.of(names, columns or [()] * len(names), roles)

    @classmethod
    def of(
        cls, names: Sequence[str], columns: Iterable[Sequence[Any]], roles: Roles,
        told: Mapping[str, str] | None = None,
    ) -> Schema:  # fmt: skip
        """Tell the columns' types from what each holds in the first rows.

        `told` are kinds that the source knows itself, by name.
        """
        check_names(names, roles)
        check_said(roles)
        cells, role = list(columns), _Role(roles)
        decimal = roles.decimal or judging.decimal_of(cells)
        found = tuple(
            _kept(judging.judged(role(Column(n)), c, roles, decimal, (told or {}).get(n)), roles)
            for n, c in zip(names, cells, strict=True)
        )
        schema = cls(found, roles, decimal)
        if not schema.features and not schema.others:
            ignored = [f"{name}: {why}" for name, why in schema.ignored()]
            raise SourceError(
                f"There is no column to learn from ({listed(ignored, '; ') or 'none at all'})."
            )
        return schema

    @property
    def names(self) -> list[str]:
        """All columns."""
        return [c.name for c in self.columns]

    @property
    def features(self) -> list[str]:
        """The columns of numbers that are learned from: those of a block's matrix."""
        return [self.columns[j].name for j in self.places()]

    @property
    def others(self) -> list[Column]:
        """The other columns that are learned from: truth values, categories, times, texts."""
        return [c for c in self.columns if c.role == "feature" and c.kind not in NUMBERS]

    def at(self, role: str) -> int | None:
        """Return where the column with a role is."""
        return next((j for j, c in enumerate(self.columns) if c.role == role), None)

    def places(self) -> list[int]:
        """Return where the features that are numbers are."""
        return [j for j, c in enumerate(self.columns) if c.role == "feature" and c.kind in NUMBERS]

    def plan(self, running: bool = True) -> Plan:
        """Return what makes codes and numbers of a block's rows (`Block.raw`)."""
        found = [
            Typed(c.name, "number" if c.kind in NUMBERS else c.kind)
            for c in self.columns if c.role == "feature"
        ]  # fmt: skip
        return Plan(tuple(found), time=Parts(running))

    def ignored(self) -> list[tuple[str, str]]:
        """Return the columns left out, and why."""
        return [(c.name, c.why) for c in self.columns if c.role == "ignored"]

    def warnings(self) -> list[str]:
        """Return what a person should be told: of columns left out, and of doubtful ones."""
        notes = [
            c.note for c in self.columns if c.note and (c.role != "ignored" or c.why == UNIQUE)
        ]
        empty = [c.name for c in self.columns if c.empty and c.role == "feature"]
        return [
            *notes[:SHOWN],
            *_told(self._because(UNIQUE), "column {0!r} is different in every row and is ignored; "
                   "--types {0}=category learns from it"),
            *_told(self._because(OTHER), "column {0!r} holds lists or objects and is ignored"),
            *_told(self._because(SERIES), "column {0!r} is left out, as --lags, --season and "
                   "--differences take numbers alone"),
            *_told(empty, "column {0!r} held nothing in the first rows and is taken for numbers: a "
                   "row with text there will be a broken one (else --types {0}=category, or "
                   "--ignore {0})"),
        ]  # fmt: skip

    def _because(self, why: str) -> list[str]:
        return [name for name, reason in self.ignored() if reason == why]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON knows it, but examples."""
        found = asdict(self)
        for column in found["columns"]:
            del column["examples"]
        return found

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Schema:
        """Return the schema that `to_dict` has described."""
        roles: dict[str, Any] = dict(data["roles"])
        roles |= {name: tuple(roles[name]) for name in ("ignore", "columns", "missing_labels")}
        roles["types"] = tuple((name, kind) for name, kind in roles["types"])
        return cls(tuple(map(_restored, data["columns"])), Roles(**roles), data["decimal"])


def _restored(data: dict[str, Any]) -> Column:
    dates = data["dates"]
    return Column(**{**data, "dates": dates and DateFormat.from_dict(dates)})


UNIQUE, OTHER = "different in every row", "no number, no text"
SERIES = "no number for a series"


def _kept(column: Column, roles: Roles) -> Column:
    """Leave out a feature that nothing can be learned from."""
    why = {"identifier": UNIQUE, "other": OTHER}.get(column.kind)
    if why is None and roles.series and column.kind not in NUMBERS:
        why = SERIES
    if why is None or column.role != "feature":
        return column
    return replace(column, role="ignored", why=why)


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
    wanted.append(("--id", roles.id))
    wanted += [("--ignore", n) for n in roles.ignore] + [("--columns", n) for n in roles.columns]
    wanted += [("--types", n) for n, _ in roles.types]
    for option, name in wanted:
        if name is not None and name not in known:
            raise SourceError(
                f"{option}: there is no column {name!r}.{did_you_mean(name, known)} There are: "
                f"{listed(names)}.{_alone(names)}"
            )
    given: dict[str, dict[str, None]] = {}
    for option, name in wanted:
        if name is not None:
            given.setdefault(name, {})[option] = None
    for name, options in given.items():
        if len(options) > 1 and options.keys() != {"--columns", "--types"}:
            raise SourceError(
                f"Column {name!r} is named by {' and '.join(options)}: it can have one role only."
            )


def _alone(names: Sequence[str]) -> str:
    if len(names) > 1:
        return ""
    return " Where they should be several: --delimiter CHAR tells what stands between the cells."


def check_said(roles: Roles) -> None:
    """Raise SourceError where what was said about cells is nothing that can be done."""
    for name, kind in roles.types:
        if kind not in TYPES:
            raise SourceError(
                f"--types: {name!r} can be one of {', '.join(TYPES)}; got {kind!r}."
                f"{did_you_mean(kind, TYPES, 'type')}"
            )
    if roles.decimal not in (None, ".", ","):
        raise SourceError(f"--decimal is a point or a comma; got {roles.decimal!r}.")
    try:
        DateFormat.given(roles.time_format or "iso")
    except ValueError as error:
        raise SourceError(f"--time-format: {error}.") from None


def types_of(said: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return what each column was said to be.

    Examples
    --------
    >>> types_of(["carrier=category, when=time"])
    (('carrier', 'category'), ('when', 'time'))
    """
    found = []
    for part in (p.strip() for text in said for p in text.split(",")):
        name, mark, kind = part.rpartition("=")
        if part and not (mark and name.strip()):
            raise SourceError(f"--types is written carrier=category,when=time; got {part!r}.")
        found += [(name.strip(), kind.strip())] if part else []
    return tuple(found)


class _Role:
    """Gives a column its role."""

    def __init__(self, roles: Roles) -> None:
        self._named = {
            roles.target: "target", roles.time: "time", roles.key: "key", roles.id: "id",
        }  # fmt: skip
        ignored = (n for n, kind in roles.types if kind == "ignore")
        self._ignore, self._only = frozenset((*roles.ignore, *ignored)), frozenset(roles.columns)

    def __call__(self, column: Column) -> Column:
        if column.name in self._named:
            return replace(column, role=self._named[column.name])
        if column.name in self._ignore:
            return replace(column, role="ignored", why="asked for")
        if self._only and column.name not in self._only:
            return replace(column, role="ignored", why="not among --columns")
        return column
