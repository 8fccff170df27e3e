"""What is to be predicted: whether it fits the task, and what the first rows hold of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from onkel.app.errors import SourceProblem
from onkel.estimators.labels import CONTINUOUS
from onkel.streams.sources import Block, Column, Schema

ENOUGH, NEW = 100, 0.9
"""Of so many first rows a larger share of different labels is refused: they are no classes."""
FEW, MANY = 20, 50
"""Of so many first rows a single label is worth a hint, and so are many whole numbers."""
_NUMBERS = ("number", "whole")


def target_of(schema: Schema) -> Column | None:
    """Return the column that is to be predicted, if there is one."""
    at = schema.at("target")
    return None if at is None else schema.columns[at]


def labels_of(first: Block) -> Counter[Any]:
    """Return the labels of the first rows, with their counts."""
    assert first.y is not None
    return Counter(first.y[first.known].tolist())


def check(schema: Schema, first: Block) -> None:
    """Raise SourceProblem where the target does not fit the task."""
    column = target_of(schema)
    if column is None or column.empty:
        return
    if schema.roles.labels:
        _check_labels(column, first)
    elif column.kind not in _NUMBERS and first.known.sum() <= len(first.bad):
        raise SourceProblem(
            f"--target {column.name}: column {column.name!r} holds no numbers{_shown(first)}, and "
            "a regression predicts such. For labels use onkel classify."
        )


def _shown(first: Block) -> str:
    """Return what a broken row says about itself."""
    return f" ({first.bad[0].reason.partition(': ')[2]})" if first.bad else ""


def _check_labels(column: Column, first: Block) -> None:
    labels, use = labels_of(first), f"{CONTINUOUS} onkel regress."
    rows, name = sum(labels.values()), f"--target {column.name}"
    if column.kind == "number" and labels:
        shown = next((label for label in labels if "." in str(label)), next(iter(labels)))
        raise SourceProblem(f"{name}: column {column.name!r} holds {shown}. {use}")
    if rows < ENOUGH or len(labels) <= NEW * rows:
        return
    told = f"{name}: almost each row has a label of its own ({len(labels)} labels in {rows} rows)."
    what = use if column.kind == "whole" else "Nothing can be learned of such: name another column."
    raise SourceProblem(f"{told} {what}")


def hints(schema: Schema, first: Block) -> list[str]:
    """Return what a person should be told about a target that is taken all the same."""
    column = target_of(schema)
    if column is None or not schema.roles.labels:
        return []
    labels = labels_of(first)
    rows, name = sum(labels.values()), column.name
    if rows >= FEW and len(labels) == 1:
        return [
            f"column {name!r}: all of the first {rows} rows have the label {next(iter(labels))!r}; "
            "rows that are sorted by their labels are hard to learn from: shuffle them"
        ]
    if column.kind == "whole" and rows >= FEW and len(labels) > min(MANY, rows // 2):
        return [
            f"column {name!r}: {len(labels)} labels in the first {rows} rows; if they are "
            "measurements, onkel regress predicts those"
        ]
    return []


def last_hint(label: Any, changes: int, examples: int) -> str:
    """Return what to say at the end of a run in which one label came all the time."""
    if label is None or changes > 1 or examples < FEW:
        return ""
    return f"no other label than {label!r} came: there was nothing to tell apart"


def described(schema: Schema, first: Block) -> dict[str, Any]:
    """Return what the first rows hold of the target, JSON-ready; nothing, where there is none."""
    column = target_of(schema)
    if column is None:
        return {}
    found = {"column": column.name, "kind": column.kind, "without": int((~first.known).sum())}
    if schema.roles.labels:
        labels = labels_of(first)
        most = {str(label): count for label, count in labels.most_common(FEW)}
        return {"target": {**found, "different": len(labels), "classes": most}}
    y = first.y[first.known] if first.y is not None else ()
    ends = {"low": float(min(y)), "high": float(max(y))} if len(y) else {}
    return {"target": {**found, **ends}}


def in_words(found: dict[str, Any]) -> str:
    """Return the same in words."""
    words = f"{found['column']}, {found['kind']}"
    if "classes" in found:
        shown = [f"{label} ({count})" for label, count in found["classes"].items()]
        more = ", …" if found["different"] > len(shown) else ""
        several = "label" if found["different"] == 1 else "labels"
        words += f", {found['different']} {several}: {', '.join(shown) or 'none'}{more}"
    if "low" in found:
        words += f", {found['low']:g} to {found['high']:g}"
    return words + (f"; {found['without']} rows without" if found["without"] else "")
