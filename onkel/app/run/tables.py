"""What the columns of a source are to a run, as data and in words."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from onkel.app.run.settings import RunSettings
from onkel.columns import Plan
from onkel.columns.codes import text_of
from onkel.streams.sources import Block, Column, Schema

_NUMBERS = ("number", "whole")


def plan_of(settings: RunSettings, schema: Schema) -> Plan | None:
    """Return what makes codes and numbers of a source's rows; None where all are numbers.

    What is new by being late is nothing for a detector.
    """
    return schema.plan(running=settings.task != "detect") if schema.others else None


def by_kind(columns: Iterable[Column]) -> dict[str, list[str]]:
    """Return the names of the columns that are learned from, by their kinds.

    Examples
    --------
    >>> by_kind([Column("age", "whole"), Column("sex", "category"), Column("pay")])
    {'number': ['age', 'pay'], 'category': ['sex']}
    """
    found: dict[str, list[str]] = {}
    for column in columns:
        if column.role == "feature":
            kind = "number" if column.kind in _NUMBERS else column.kind
            found.setdefault(kind, []).append(column.name)
    return found


_KERNELS = {
    "category": "equal or not", "boolean": "equal or not", "time": "hour, weekday, days",
    "text": "its words",
}  # fmt: skip
_RARITY = {
    "category": "how rare it is", "boolean": "how rare it is", "time": "how rare its hour is",
    "text": "how rare its words are",
}  # fmt: skip


def learned_as(column: Column, settings: RunSettings) -> str:
    """Return what a model sees of a column.

    Examples
    --------
    >>> learned_as(Column("sex", "category"), RunSettings("classify"))
    'equal or not'
    >>> learned_as(Column("sex", "category"), RunSettings("detect"))
    'how rare it is'
    """
    if column.role != "feature":
        return ""
    if settings.task == "detect" and column.kind == "time" and not settings.tells_p:
        return "hour, weekday"
    return (_RARITY if settings.tells_p else _KERNELS).get(column.kind, "number")


def described(column: Column, schema: Schema, first: Block) -> dict[str, Any]:
    """Return what the first rows hold of a column that is learned from: scale, or missing cells."""
    if column.role != "feature" or not len(first.rows):
        return {}
    if column.kind in _NUMBERS:
        return _scale(first.X[:, schema.features.index(column.name)])
    cells = first.others[column.name]
    if column.kind == "time":
        return {"missing": int(np.isnan(cells).sum())}
    texts = [text_of(cell) for cell in cells]
    return {"missing": texts.count(""), "different": len({*texts} - {""})}


def _scale(values: Any) -> dict[str, Any]:
    held = values[~np.isnan(values)]
    if not len(held):
        return {"missing": len(values)}
    spread = float(held.std())
    return {"mean": float(held.mean()), "spread": spread, "missing": int(len(values) - len(held))}


def shown(found: dict[str, Any]) -> str:
    """Return examples of a column's values as a dry run shows them.

    Examples
    --------
    >>> shown({"kind": "category", "examples": ["AA", "UA", "DL"], "different": 12})
    'AA, UA, DL, … (12 different)'
    """
    if found["kind"] in _NUMBERS:
        return ""
    held = [repr(e) for e in found["examples"]] if found["kind"] == "text" else found["examples"]
    words = ", ".join(held)
    count = found.get("different", 0)
    return f"{words}, … ({count} different)" if count > len(found["examples"]) else words
