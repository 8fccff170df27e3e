"""What a run wrote, read again: do its own settings give the same alerts over the same rows?"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onkel.app.run.ledger import Checkpoint
from onkel.app.run.outputs import unmarked

Told = dict[int, float]
"""Scores of alerts, by rows."""
ROUNDING = 1e-3
"""Scores of other rows differ by more; on another machine, or cut otherwise by a pipe, the same
rows have scores that differ by rounding."""
MOST = 2**31 - 1
"""Characters of a cell: as many as rows may have."""


@dataclass(frozen=True)
class Written:
    """The output of a run, as far as its state knows of it."""

    path: Path
    bytes: int
    style: str
    first: int = 0
    """The first row whose results it holds: more than 0 where it was lost on the way."""

    @classmethod
    def of(cls, noted: dict[str, Any], last: Checkpoint) -> Written | None:
        """Return the output that a state tells of; None where it is standard output."""
        name = noted["output"]
        if name not in last.outputs:
            return None
        lost = last.counters.get("lost", {}).get(name, 0)
        return cls(Path(name), last.outputs[name], noted["output_format"], lost)

    def alerts(self, keys: frozenset[str] | None) -> Told:
        """Return the alerts in it, those of some keys; raise Unread where it does not hold them."""
        data = _read(self.path, self.bytes)
        try:
            text = data.decode("utf-8")
            lines = list(_json(text) if self.style == "jsonl" else _csv(text))
            return {
                int(line["row"]): _number(line["score"]) for line in lines
                if line["alert"] in (True, "true") and (keys is None or line["key"] in keys)
            }  # fmt: skip
        except (csv.Error, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            raise Unread(f"{self.path} holds something else than the run has written") from None


class Unread(Exception):
    """An output does not hold what was written, and cannot be compared: in words, why not.

    Parameters
    ----------
    words : str
    gone : bool
        Whether it is not there: it may lie elsewhere, as it was.
    """

    def __init__(self, words: str, gone: bool = False) -> None:
        super().__init__(words)
        self.gone = gone


def _read(path: Path, count: int) -> bytes:
    """Return the first bytes of an output, so many as were written."""
    if not count:
        return b""  # there may be no file yet, or no more
    try:
        with open(path, "rb") as file:
            data = file.read(count)
    except FileNotFoundError:
        raise Unread(f"{path} is not there any more", gone=True) from None
    except OSError as error:
        raise Unread(f"{path} cannot be read: {error.strerror}", gone=True) from None
    if not data:
        raise Unread(f"{path} is empty now", gone=True)
    if len(data) < count:
        raise Unread(
            f"{path} was cut: it has {len(data):,} bytes, and the run has written {count:,}"
        )
    return data


def _json(text: str) -> Iterator[dict[str, Any]]:
    return map(json.loads, io.StringIO(text, newline="\n"))  # texts may hold other ends of lines


def _csv(text: str) -> Iterator[dict[str, Any]]:
    csv.field_size_limit(MOST)
    for line in csv.DictReader(io.StringIO(text, newline="")):
        key = line.get("key")
        yield {**line, "key": key and unmarked(key)}


def _number(value: Any) -> float:
    return math.nan if value in (None, "") else float(value)


def first_difference(told: Told, found: Told, first: int = 0) -> int | None:
    """Return the first row at which alerts, or their scores beyond rounding, differ; else None.

    Examples
    --------
    >>> first_difference({3: -5.0, 9: -6.0}, {3: -5.0, 9: -6.5})
    9
    >>> first_difference({9: -6.0}, {3: -5.0, 9: -6.0}, first=4) is None
    True
    """
    rows = sorted(row for row in told.keys() | found.keys() if row >= first)
    return next((r for r in rows if not _same(told.get(r), found.get(r))), None)


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=ROUNDING, abs_tol=ROUNDING) or (
        one != one and other != other
    )
