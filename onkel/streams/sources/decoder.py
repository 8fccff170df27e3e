"""Rows of text made into numbers: fast for a whole block, or line by line where one is broken."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.inputs import LARGEST
from onkel.streams.sources import values
from onkel.streams.sources.lines import Unfit
from onkel.streams.sources.schema import CELLS, Schema
from onkel.streams.sources.values import BadRow

Array = NDArray[Any]

FEW, PARTS = 64, 16
"""A block with a broken row is divided into parts, down to so few lines as can be looked at."""
PIECE = 2**24
"""A block of heavy rows is parsed in pieces of about so many bytes: parsers hold them again."""


@dataclass
class Cells:
    """What a block's good rows hold: the features' numbers, the other columns as they came."""

    good: list[int]
    X: Array
    others: dict[str, list[Any]]
    """By role: target, time, key, id; of features that are no numbers by `feature_role`."""
    bad: list[tuple[int, str]]


@dataclass(frozen=True)
class Wanted:
    """Which columns are read: places of the features, and of the others by role."""

    names: list[str]
    features: list[int]
    others: dict[str, int]
    decimal: str = "."

    @classmethod
    def of(cls, schema: Schema) -> Wanted:
        """Return what a schema asks for."""
        places = {role: schema.at(role) for role in ("target", "time", "key", "id")}
        others = {role: at for role, at in places.items() if at is not None}
        at = {name: j for j, name in enumerate(schema.names)}
        others |= {feature_role(c.name): at[c.name] for c in schema.others}
        return cls(schema.names, schema.places(), others, schema.decimal)


def feature_role(name: str) -> str:
    """Return under which role the cells of a feature are handed over that is no number."""
    return f"feature {name}"


class Decoder:
    """One text format."""

    multiline = False
    """Whether a row may go on in the next line."""
    notes: Sequence[str] = ()
    """What a person should be told about what was found in the first lines."""

    def start(self, lines: list[bytes]) -> int:
        """Learn names (and dialect) from the first lines; return how many of them are no rows."""
        raise NotImplementedError

    @property
    def names(self) -> list[str]:
        """The columns."""
        raise NotImplementedError

    def cells(self, line: bytes) -> list[Any]:
        """Return one row's cells, or raise BadRow."""
        raise NotImplementedError

    def columns(self, lines: list[bytes]) -> list[Sequence[Any]]:
        """Return what each column holds in the first rows; of wide ones fewer are looked at."""
        most = max(CELLS // max(len(self.names), 1), 1)
        rows = list(islice(self._readable(self.ready(lines)), most))
        return list(zip(*rows, strict=True)) or [()] * len(self.names)

    def _readable(self, lines: list[bytes]) -> Iterator[list[Any]]:
        for line in lines:
            with contextlib.suppress(BadRow):
                yield self.cells(line)

    def fast(self, lines: list[bytes], wanted: Wanted) -> tuple[Array, dict[str, list[Any]]] | None:
        """Return a block's numbers and other columns, or None where a closer look is needed."""
        return None

    def is_open(self, line: bytes) -> bool:
        """Whether a row goes on in the next line."""
        return False

    def adopt(self, line: bytes) -> bool:
        """Whether a line is a header, as a rotated file's first: columns are then where it says."""
        return False

    def layout(self) -> dict[str, Any]:
        """Return what a position must know about where the present file has its columns."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Return what was learned from the first lines, JSON-ready."""
        return {}

    def ready(self, lines: list[bytes]) -> list[bytes]:
        """Return lines as `cells` and `fast` take them."""
        return lines

    def decode(self, lines: list[bytes], wanted: Wanted, weight: int = 0) -> Cells:
        """Return what the rows hold, good and bad ones apart; `weight` is how many bytes."""
        lines = self.ready(lines)
        pieces = weight // PIECE + 1
        if pieces == 1:
            return self._decoded(lines, wanted)
        return self._by_parts(lines, wanted, _equal(len(lines), -(-len(lines) // pieces)))

    def _decoded(self, lines: list[bytes], wanted: Wanted) -> Cells:
        if lines and not any(type(line) is Unfit for line in lines):
            found = self.fast(lines, wanted)
            if found is not None and fit(found[0]):
                return Cells(list(range(len(lines))), *found, bad=[])
        if len(lines) <= FEW:
            return self._one_by_one(lines, wanted)
        return self._by_parts(lines, wanted, self.divided(lines, wanted))

    def _by_parts(self, lines: list[bytes], wanted: Wanted, parts: list[list[int]]) -> Cells:
        return joined([(at, self._decoded([lines[i] for i in at], wanted)) for at in parts])

    def divided(self, lines: list[bytes], wanted: Wanted) -> list[list[int]]:
        """Return the places of lines in parts: a broken row slows down those of its own only."""
        return _equal(len(lines), max(len(lines) // PARTS, FEW))

    def _one_by_one(self, lines: list[bytes], wanted: Wanted) -> Cells:
        good: list[int] = []
        rows: list[list[float]] = []
        others: dict[str, list[Any]] = {role: [] for role in wanted.others}
        bad = []
        for i, line in enumerate(lines):
            try:
                if type(line) is Unfit:
                    raise BadRow(line.reason)
                cells = self.cells(line)
                row = [values.number(cells[j], wanted.names[j], wanted.decimal)
                       for j in wanted.features]  # fmt: skip
            except BadRow as reason:
                bad.append((i, str(reason)))
                continue
            good.append(i)
            rows.append(row)
            for role, at in wanted.others.items():
                others[role].append(cells[at])
        X = np.array(rows, float).reshape(len(rows), len(wanted.features))
        return Cells(good, X, others, bad)


def _equal(many: int, step: int) -> list[list[int]]:
    """Return the places of so many lines, each part with so many of them."""
    return [list(range(start, min(start + step, many))) for start in range(0, many, step)]


def joined(parts: list[tuple[list[int], Cells]]) -> Cells:
    """Return cells as one, in the order of their lines; each part has its lines' places."""
    good = [at[i] for at, cells in parts for i in cells.good]
    order = sorted(range(len(good)), key=good.__getitem__)
    columns = {
        role: [v for _, cells in parts for v in cells.others[role]] for role in parts[0][1].others
    }
    return Cells(
        [good[i] for i in order],
        np.concatenate([cells.X for _, cells in parts])[order],
        {role: [column[i] for i in order] for role, column in columns.items()},
        sorted((at[i], reason) for at, cells in parts for i, reason in cells.bad),
    )


def fit(X: Array) -> bool:
    """Whether all numbers are in range (or missing)."""
    with np.errstate(invalid="ignore"):
        return not bool(np.any(np.abs(X) > LARGEST))


def cr_alone(line: bytes) -> str:
    """Return what to say of a line that cannot be read, if it holds line ends of another kind."""
    if b"\r" not in line.removesuffix(b"\r"):
        return ""
    return " It seems that lines end with CR alone; convert them: tr '\\r' '\\n' < FILE | onkel"


def text_of(line: bytes) -> str:
    """Return a line as text, or raise BadRow."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadRow(f"not UTF-8 at byte {error.start}") from None
