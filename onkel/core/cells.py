"""A model as the bytes of a cell: what a fleet keeps of each key, in memory and in files.

A cell begins with a head, whose numbers say how long the arrays behind it are; all is
little-endian, 8 bytes first. ``src/density_cell.hpp`` and ``src/term_cell.hpp`` have the same
layout, and ``src/sound_cells.hpp`` says what must hold of it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import core
from onkel.core.density import WHOLE_UP_TO
from onkel.core.density_table import LEVELS, Count
from onkel.core.layout import LANES, Field

Array = NDArray[Any]
Shape = tuple[int, ...]
Fields = dict[str, Any]
Row = tuple[str, Any, Shape]
"""Name, type and shape of an array."""

I8, I4, I2, U1, F8, F4 = np.int64, np.int32, np.int16, np.uint8, np.float64, np.float32
VERSION = 1
BINARY, WARM, MERGED, WIDE, ONE_TARGET = 1, 2, 4, 8, 16
"""Flags of a model with terms."""
NARROW = 2**31
"""Births below it have four bytes."""
LONE = 7
"""Numbers of a link without others: joint 2, bow, said, weight, losses 2."""

DENSITY_HEAD = np.dtype(
    [("size", I8)]
    + [(name, I4) for name in ("version", "settled", "places", "late_places", "holds", "waits",
                               "told", "recent_room", "recent_at", "recent_count",
                               "asked_room", "answers")]
)  # fmt: skip
TERM_HEAD = np.dtype(
    [("size", I8), ("t", I8), ("mistakes", I8), ("clock", F8), ("refreshed", F8)]
    + [(name, I4) for name in ("version", "flags", "columns", "head", "count", "panels", "room",
                               "recent_room", "recent_at", "recent_count", "labels", "counted",
                               "named", "spare")]
)  # fmt: skip


@dataclass(frozen=True)
class DensityLayout:
    """Where the state of a self-tuning detector for rows of `d` features lies in a cell."""

    d: int
    head = DENSITY_HEAD

    def rows(self, h: Any) -> Iterable[Row]:
        """Return the arrays behind a head, in their order."""
        d, ranks = self.d, self.d if self.d <= WHOLE_UP_TO else 1
        places, late, holds = int(h["places"]), int(h["late_places"]), int(h["holds"])
        told = int(h["told"])
        yield from [
            ("whole", I8, (len(Count),)), ("real", F8, (LEVELS,)), ("mean", F8, (3, d)),
            ("cov", F8, (3, ranks, d)), ("last", F8, (d,)), ("smooth", F8, (d,)),
            ("size", F8, (d,)), ("calm", F8, (4, d)), ("raw", F8, (2, places, d)),
            ("late_raw", F8, (late, d)), ("held", F8, (holds, 2 * d + 2)), ("due", I8, (holds,)),
            ("waiting", F8, (int(h["waits"]), d)), ("history", F8, (told,)),
            ("ranked", F8, (told,)), ("recent", F8, (int(h["recent_room"]),)),
        ]  # fmt: skip
        asked, answers = int(h["asked_room"]), int(h["answers"])
        yield from [
            ("asked_counts", I8, (4,)), ("theta", F8, (2,)), ("asked", F8, (asked, 3 * d + 2)),
            ("asked_at", I8, (asked,)), ("places", F8, (answers, 5, 3, d)),
            ("radius", F8, (answers, 4)), ("strength", F8, (answers,)), ("born", I8, (answers,)),
            ("of", I8, (answers,)),
        ]  # fmt: skip
        if h["settled"]:
            yield from [
                ("center", F8, (3, d)), ("scale", F8, (3, d)), ("turn", F8, (3, ranks, d)),
                ("z", F4, (3, d, places)), ("late_z", F4, (d, late)), ("sums", F4, (7, places)),
                ("late_sums", F4, (2, late)),
            ]  # fmt: skip
        yield from [("marks", U1, (places,)), ("said", U1, (asked,))]


@dataclass(frozen=True)
class TermLayout:
    """Where a kernel model lies in a cell; what each number means: ``src/term_model.hpp``."""

    d: int
    dtype: Any
    scale: bool
    gaps: bool
    invariant: bool
    targets: bool
    link: bool
    head = TERM_HEAD

    def rows(self, h: Any) -> Iterable[Row]:
        """Return the arrays behind a head, in their order."""
        d, c, room = self.d, int(h["columns"]), int(h["room"])
        kept, gaps = d * (self.scale or self.gaps), d * self.gaps
        y, counted, wide = c * self.targets, int(h["counted"]), bool(h["flags"] & WIDE)
        link = (3 + 2 * max(c, 2) + LONE) * self.link
        panels, lanes = (int(h["panels"]), LANES) if h["panels"] > 1 else (1, room)
        yield from [
            ("state", F8, (c, len(Field))), ("seen", F8, (gaps or min(kept, 1),)),
            ("mean", F8, (kept,)), ("variance", F8, (kept,)), ("means", F8, (gaps,)),
            ("center", F8, (d,)), ("width", F8, (d,)), ("frame_mean", F8, (d,)),
            ("shift", F8, (0 if self.invariant else d,)),
            ("target_center", F8, (y,)), ("target_spread", F8, (y,)), ("target_seen", F8, (y,)),
            ("target_mean", F8, (y,)), ("target_variance", F8, (y,)),
            ("warm", F8, (3 * bool(h["flags"] & WARM),)), ("recent", F8, (int(h["recent_room"]),)),
            ("link", F8, (link,)), ("linked", I8, (int(self.link),)), ("counts", I8, (counted,)),
            ("coef", F8, (panels, c, lanes)), ("wide_births", I8, (room * wide,)),
            ("rows", self.dtype, (panels, d, lanes)), ("norms", self.dtype, (room,)),
            ("births", I4, (room * (not wide),)), ("labels", I4, (int(h["labels"]),)),
            ("counted", I4, (counted,)), ("power", I2, (d,)), ("known", U1, (d,)),
            ("units", U1, (y,)),
        ]  # fmt: skip


Layout = DensityLayout | TermLayout


def read(layout: Layout, data: bytes) -> tuple[Any, Fields]:
    """Return a cell's head and arrays, which are copies; a ValueError if its length is not right.

    Examples
    --------
    >>> layout = DensityLayout(1)
    >>> head = {"places": 4, "holds": 1, "waits": 1}
    >>> data = write(layout, head, {"last": np.array([5.0])})
    >>> read(layout, data)[1]["last"]
    array([5.])
    """
    if len(data) < layout.head.itemsize:
        raise ValueError("the record ends too soon.")
    h = np.frombuffer(data, layout.head.newbyteorder("<"), 1)[0]
    found, at = {}, layout.head.itemsize
    for name, kind, shape in layout.rows(h):
        dtype, n = np.dtype(kind).newbyteorder("<"), int(np.prod(shape, dtype=object))
        if at + n * dtype.itemsize > len(data):
            raise ValueError("the record ends too soon.")
        found[name] = np.frombuffer(data, dtype, n, at).reshape(shape).astype(kind)
        at += n * dtype.itemsize
    if -(-at // 8) * 8 != len(data) or h["size"] != len(data) or h["version"] != VERSION:
        raise ValueError("the record is not one of this version.")
    return h, found


def write(layout: Layout, head: Mapping[str, Any], fields: Mapping[str, Any]) -> bytes:
    """Return a cell's bytes; what is not given is 0."""
    h = np.zeros(1, layout.head)
    for name, value in {"version": VERSION, **head}.items():
        h[name] = value
    parts = []
    for name, kind, shape in layout.rows(h[0]):
        found = np.zeros(shape, kind) if name not in fields else np.asarray(fields[name], kind)
        assert found.shape == shape, (name, found.shape, shape)
        parts.append(found.astype(np.dtype(kind).newbyteorder("<")).tobytes())
    body = b"".join(parts)
    body += bytes(-len(body) % 8)
    h["size"] = layout.head.itemsize + len(body)
    return h.astype(layout.head.newbyteorder("<")).tobytes() + body


def has_cells() -> bool:
    """Whether the compiled core runs, on a processor whose bytes lie as those of a cell do."""
    return core.has_lane() and sys.byteorder == "little"
