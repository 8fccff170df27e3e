"""Cells made into a block: targets, times and keys beside the numbers."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.columns.kinds import truth_of
from onkel.inputs import text_array
from onkel.streams.sources import values
from onkel.streams.sources.block import Bad, Block, beginning
from onkel.streams.sources.decoder import Cells, feature_role
from onkel.streams.sources.schema import Column, Schema
from onkel.streams.sources.values import BadRow

Array = NDArray[Any]


@dataclass(frozen=True)
class Rules:
    """Which rows count as broken although they could be read."""

    gaps: bool = True
    """Whether numbers may be missing."""
    ordered: bool = False
    """Whether time must not run backwards."""


def assemble(
    first: int, cells: Cells, schema: Schema, numbers: list[int], texts: list[bytes],
    position: dict[str, Any], rules: Rules | None = None,
) -> Block:  # fmt: skip
    """Return a block; rows whose target, time or key cannot be read join the bad ones.

    `position` may know the last ``clock``; the block's own knows the next.
    """
    rules = rules or Rules()
    found: dict[str, tuple[list[Any], dict[int, str]]] = {
        role: _column(cells.others[role], _reader(role, schema))
        for role in ("target", "time", "key", "id") if role in cells.others
    }  # fmt: skip
    found |= {
        feature_role(c.name): _feature(cells.others[feature_role(c.name)], c) for c in schema.others
    }
    failed = {i: why for column, reasons in found.values() for i, why in reasons.items()}
    if not rules.gaps:
        gaps, answers = {**_no_times(found, schema), **_gaps(cells.X, schema)}, _answers(found)
        failed |= {i: why for i, why in gaps.items() if i not in answers}
    if rules.ordered and "time" in found:
        failed |= _late(found["time"][0], failed, position)
    bad = sorted([*cells.bad, *((cells.good[i], why) for i, why in failed.items())])
    keep = [i for i in range(len(cells.good)) if i not in failed]
    columns = {role: [column[i] for i in keep] for role, (column, _) in found.items()}
    y, known = _targets(columns.get("target"), schema)
    return Block(
        first, len(cells.good) + len(cells.bad),
        rows=first + np.array([cells.good[i] for i in keep], np.int64),
        X=cells.X if not failed else cells.X[keep],
        position=position, y=y, known=known,
        time=np.array(columns["time"], float) if "time" in columns else None,
        stamps=[cells.others["time"][i] for i in keep] if "time" in columns else None,
        keys=columns.get("key"), ids=columns.get("id"), others=_others(columns, schema),
        bad=[Bad(first + i, numbers[i], why, beginning(texts[i])) for i, why in bad],
        lines=numbers, texts=texts,
    )  # fmt: skip


def _gaps(X: Array, schema: Schema) -> dict[int, str]:
    """Return the rows in which a number is missing."""
    at = np.argwhere(np.isnan(X))
    names = schema.features
    return {int(i): f"column {names[j]!r}: no value (--missing skip)" for i, j in at[::-1].tolist()}


def _no_times(found: dict[str, Any], schema: Schema) -> dict[int, str]:
    """Return the rows in which a time that is learned from is missing."""
    return {
        i: f"column {c.name!r}: no value (--missing skip)"
        for c in schema.others if c.kind == "time"
        for i, time in enumerate(found[feature_role(c.name)][0]) if time != time
    }  # fmt: skip


def _answers(found: dict[str, Any]) -> set[int]:
    """Return the rows that may be the target of an earlier row, whose numbers they need not have.

    What none is will be refused by the model, as it lacks a number.
    """
    if "id" not in found or "target" not in found:
        return set()
    cells = found["target"][0]
    return {i for i, target in enumerate(cells) if target is not None and target == target}


def _late(times: list[Any], failed: dict[int, str], position: dict[str, Any]) -> dict[int, str]:
    """Return the rows at which time runs backwards."""
    late: dict[int, str] = {}
    clock = position.get("clock", -math.inf)
    for i, time in enumerate(times):
        if i in failed:
            continue
        if time < clock:
            late[i] = f"time runs backwards: {time:.17g} after {clock:.17g} (seconds)"
        clock = max(clock, time)
    if clock > -math.inf:
        position["clock"] = clock
    return late


def _column(cells: list[Any], read: Callable[[Any], Any]) -> tuple[list[Any], dict[int, str]]:
    try:
        return [read(cell) for cell in cells], {}
    except BadRow:
        pass
    column: list[Any] = []
    reasons: dict[int, str] = {}
    for i, cell in enumerate(cells):
        try:
            column.append(read(cell))
        except BadRow as reason:
            column.append(None)
            reasons[i] = str(reason)
    return column, reasons


def _reader(role: str, schema: Schema) -> Callable[[Any], Any]:
    at = schema.at(role)
    assert at is not None
    name, kind, dates = schema.columns[at].name, schema.columns[at].kind, schema.columns[at].dates
    if role == "time":
        return lambda cell: values.seconds(cell, name, dates)
    if role in ("key", "id"):
        return lambda cell: values.key(cell, name, role)
    words = frozenset(schema.roles.missing_labels)
    if schema.roles.labels:
        return lambda cell: values.label(cell, kind == "whole", name, words)
    return lambda cell: values.target(cell, name, words, schema.decimal)


_PLAIN = {str, int, float, bool, type(None)}


def _feature(cells: list[Any], column: Column) -> tuple[list[Any], dict[int, str]]:
    """Return what a feature holds that is no number: times in seconds, the others as they came."""
    name, dates = column.name, column.dates
    if column.kind == "time":
        return _column(cells, lambda cell: values.moment(cell, name, dates))
    if column.kind == "boolean":
        cells = [truth_of(cell) for cell in cells]
    if set(map(type, cells)) <= _PLAIN:
        return cells, {}
    return _column(cells, lambda cell: values.plain(cell, name))


def _others(columns: dict[str, list[Any]], schema: Schema) -> dict[str, Any]:
    held = {c.name: columns[feature_role(c.name)] for c in schema.others}
    times = {c.name for c in schema.others if c.kind == "time"}
    return {n: np.array(cells, float) if n in times else cells for n, cells in held.items()}


def _targets(found: list[Any] | None, schema: Schema) -> tuple[Array | None, Array]:
    """Return targets and which rows have one; what stands in for the others is never learned."""
    if found is None:
        return None, np.zeros(0, bool)
    if not schema.roles.labels:
        y = np.array(found, float)
        known = ~np.isnan(y)
        return np.where(known, y, 0.0), known
    known = np.array([label is not None for label in found], bool)
    at = schema.at("target")
    assert at is not None
    whole = schema.columns[at].kind == "whole"
    if whole:
        return np.array([label or 0 for label in found], np.int64), known
    return text_array([label or "" for label in found]), known
