"""What a person should be told of the first rows, before anything is learned from them."""

from __future__ import annotations

import numpy as np

from onkel.app.run import target
from onkel.streams.sources import Block, Schema, Source

ENOUGH, SHOWN = 100, 5
"""In so many rows a value that never changes is worth a word; so many columns are named."""
NAMES = frozenset(
    f"{before}{name}" for before in ("", "is_")
    for name in ("anomaly", "anomalous", "outlier", "label", "target", "class", "fraud", "attack")
)  # fmt: skip
CLASSES = 20
"""A column of such a name and at most so many values may say which rows are unusual."""
_LABELS = (
    "column {0!r} is learned from like the others; if it says which rows are unusual, leave it "
    "out: --ignore {0}"
)
_TIME = (
    "column {0!r} is learned from by its hour and weekday; --time {0} makes it the time of the "
    "rows, and {1!r} a series"
)


def hints(source: Source, first: Block) -> list[str]:
    """Return what is to be said, beside the source's own warnings."""
    sparse = source.format == "libsvm"  # there most columns are 0 most of the time
    found = [*target.hints(source.schema, first), *([] if sparse else _constant(source, first))]
    labels = [] if target.target_of(source.schema) else _labels(source.schema, first)
    return [*found, *(_LABELS.format(name) for name in labels), *_series(source.schema, labels)]


def _labels(schema: Schema, first: Block) -> list[str]:
    """Return columns that may say which rows are unusual, where nothing is to be predicted."""
    held = {**dict(zip(schema.features, first.X.T, strict=True)), **first.others}
    return [n for n, cells in held.items() if n.lower() in NAMES and len(set(cells)) <= CLASSES]


def _series(schema: Schema, labels: list[str]) -> list[str]:
    """Return a hint where a single number beside a time is looked at row by row."""
    numbers = [name for name in schema.features if name not in labels]
    times = [c.name for c in schema.others if c.kind == "time" and c.name not in labels]
    others = [c for c in schema.others if c.kind != "time" and c.name not in labels]
    detects = target.target_of(schema) is None and schema.at("time") is None
    if detects and len(numbers) == len(times) == 1 and not others:
        return [_TIME.format(times[0], numbers[0])]
    return []


def _constant(source: Source, first: Block) -> list[str]:
    """Return which columns hold one value in all of the first rows."""
    X, rows = first.X, len(first.X)
    if rows < ENOUGH:
        return []
    names, same = source.schema.features, np.flatnonzero(np.all(X == X[:1], axis=0)).tolist()
    found = [f"{names[j]!r} ({X[0, j]:g})" for j in same]
    found += [f"{n!r} ({str(c[0])[:40]})" for n, c in first.others.items() if len(set(c)) == 1]
    if not found:
        return []
    rest = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    shown = ", ".join(found[:SHOWN])
    which = f"column {shown} holds" if len(found) == 1 else f"columns {shown}{rest} hold"
    return [f"{which} the same value in all of the first {rows} rows"]
