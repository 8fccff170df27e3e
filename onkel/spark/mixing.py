"""Learning in parts: what one partition does, and how its models become one. Needs no Spark.

Everything here is a pure function of rows and a start, so that a task that runs twice (a retry, a
speculative copy) changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onkel import files
from onkel.merging import merge
from onkel.spark import columns

BLOCK = 1024
"""Rows learned in one call: the same bits, however Spark cuts its batches."""
FAN = 8
"""Models merged at once, so that nobody ever holds more than so many."""
REFUSALS = (ValueError, TypeError)
"""What a row that cannot be learned or scored raises."""


@dataclass(frozen=True)
class Reading:
    """How rows become examples."""

    features: tuple[str, ...]
    target: str | None = None
    time: str | None = None
    """For models that forget by the clock."""
    skip: bool = False
    """Whether a row that is refused is left out; else learning stops there."""
    named: bool = True
    """Whether each feature is a column of its own, with a name worth remembering."""
    own: Mapping[str, Any] = field(default_factory=dict)
    """Code of the user's own, for :func:`onkel.load`."""
    reader: columns.Reader | None = None
    """For features that are not all numbers."""

    def take(self, model: Any, frame: Any) -> None:
        """Learn the rows of a pandas frame, all of them or none."""
        X: Any
        if self.reader is not None:
            X = self.reader.encode(frame)
        else:
            X = columns.read(frame, self.features)
            X = type(frame)(X, columns=list(self.features)) if self.named else X
        rest = {} if self.time is None else {"time": frame[self.time].to_numpy()}
        if self.target is not None:
            rest["y"] = frame[self.target].to_numpy()
        model.partial_fit(X, **rest)


@dataclass(frozen=True)
class Part:
    """What learning on one partition, or on several together, has come to."""

    partition: int
    """Its number; of several the first."""
    model: bytes
    """As :func:`onkel.files.dumps` writes it."""
    examples: int
    """Rows that were learned."""
    weight: float
    """Its weight among others: the rows that were learned, or 1."""
    skipped: int = 0
    why: str = ""
    """The first row that was refused, and why; "" if none was."""
    dropped: int = 0
    """Terms that merging could not keep."""
    bound: float = 0.0
    """What merging has changed at most, as in the merge report; of several outputs the largest."""


def learned(
    partition: int, frames: Iterable[Any], start: bytes, reading: Reading, weights: str
) -> Part:
    """Learn the rows of one partition, from a start; pandas frames come one after another.

    Examples
    --------
    >>> import pandas as pd
    >>> from onkel import KernelRegressor, files
    >>> rows = pd.DataFrame({"a": [0.0, 1.0, None], "y": [1.0, 2.0, 3.0]})
    >>> reading = Reading(features=("a",), target="y", skip=True)
    >>> part = learned(3, [rows], files.dumps(KernelRegressor()), reading, "examples")
    >>> part.examples, part.skipped
    (2, 1)
    >>> part.why[:34]
    'row 2 of partition 3 was refused: '
    """
    model = files.loads(start, **reading.own)
    before, position, skipped, why = getattr(model, "t_", 0), 0, 0, ""
    for block in blocks(frames):
        refused = _learn_block(model, block, reading)
        if refused and not why:
            why = _told(partition, position, block, *refused[0])
        if refused and not reading.skip:
            break
        position, skipped = position + len(block), skipped + len(refused)
    examples = getattr(model, "t_", 0) - before
    weight = float(examples if weights == "examples" else examples > 0)
    return Part(partition, files.dumps(model) if examples else b"", examples, weight, skipped, why)


def blocks(frames: Iterable[Any], size: int = BLOCK) -> Iterator[Any]:
    """Cut pandas frames into frames of `size` rows; the last may be shorter."""
    import pandas as pd

    held: list[Any] = []
    for frame in frames:
        held.append(frame)
        while sum(map(len, held)) >= size:
            whole = held[0] if len(held) == 1 else pd.concat(held, ignore_index=True)
            yield whole.iloc[:size]
            held = [whole.iloc[size:]]
    rest = [frame for frame in held if len(frame)]
    if rest:
        yield pd.concat(rest, ignore_index=True)


def _learn_block(model: Any, block: Any, reading: Reading) -> list[tuple[int, Exception]]:
    """Learn a block; return the rows that were refused, only the first if none is skipped.

    The model refuses a block whole, so its rows are then learned one by one.
    """
    try:
        reading.take(model, block)
        return []
    except REFUSALS:
        pass
    refused: list[tuple[int, Exception]] = []
    for i in range(len(block)):
        try:
            reading.take(model, block.iloc[i : i + 1])
        except REFUSALS as error:
            refused.append((i, error))
            if not reading.skip:
                break
    return refused


def _told(partition: int, position: int, block: Any, i: int, error: Exception) -> str:
    values = ", ".join(f"{name}={value!r:.60}" for name, value in block.iloc[i].items())
    return f"row {position + i} of partition {partition} was refused: {error} The row: {values}."


def mixed(
    parts: Sequence[Part], start: Any, own: Mapping[str, Any], refit: bool = True
) -> tuple[Part, Any]:
    """Merge parts, in the order of their numbers; return the whole, as a part and as a model.

    ``f = sum of w_j f_j / sum of w_j``; what the `start` had counted counts once.

    Parts that have learned nothing have no say. A single one stays what it is, bit for bit.
    """
    parts = sorted(parts, key=lambda part: part.partition)
    live = [part for part in parts if part.examples]
    told: dict[str, Any] = {
        "partition": parts[0].partition, "examples": sum(p.examples for p in parts),
        "skipped": sum(p.skipped for p in parts), "why": next((p.why for p in parts if p.why), ""),
    }  # fmt: skip
    weight = sum(part.weight for part in live)
    models = [files.loads(part.model, **own) for part in live]
    if len(models) < 2:
        same = live[0] if live else parts[0]
        whole = Part(
            model=same.model, weight=weight, dropped=same.dropped, bound=same.bound, **told
        )
        return whole, models[0] if models else None
    shares = [part.weight / weight for part in live]
    begun = start if start is not None and start.__sklearn_is_fitted__() else None
    model = merge(models, shares, refit=refit, start=begun)
    report = model.merge_report_
    bound = sum(share * part.bound for share, part in zip(shares, live, strict=True))
    whole = Part(
        model=files.dumps(model), weight=weight, **told,
        dropped=report.terms_dropped + sum(part.dropped for part in live),
        bound=bound + max(report.bound, default=0.0),
    )  # fmt: skip
    return whole, model


def mixed_in_turns(
    parts: Sequence[Part], start: Any, own: Mapping[str, Any], refit: bool = True
) -> tuple[Part, Any]:
    """Merge any number of parts, as a tree: neighbours first, never more than FAN at once."""
    level = 0
    while len(parts) > FAN:
        groups: dict[int, list[Part]] = {}
        for part in parts:
            groups.setdefault(group_of(part.partition, level), []).append(part)
        parts = [mixed(group, start, own, refit)[0] for group in groups.values()]
        level += 1
    return mixed(parts, start, own, refit)


def group_of(partition: int, level: int) -> int:
    """Return in which group a partition is merged, at a level of the tree.

    Examples
    --------
    >>> [group_of(p, 0) for p in (0, 7, 8, 63, 64)], [group_of(p, 1) for p in (0, 8, 56, 64)]
    ([0, 0, 1, 7, 8], [0, 0, 0, 1])
    """
    return int(partition // FAN ** (level + 1))
