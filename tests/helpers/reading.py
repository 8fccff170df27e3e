"""Reading a source to its end, by either parser."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from onkel.streams import sources
from onkel.streams.sources import Reading, open_source

FAST = [False]
if all(importlib.util.find_spec(name) for name in ("pyarrow", "msgspec")):
    FAST.append(True)
"""Whether the fast parser reads: both ways, where it is installed."""


def read(path: Path, **how: object) -> tuple[sources.Source, list[sources.Block]]:
    source = open_source(str(path), Reading(**how))  # type: ignore[arg-type]
    blocks = [block for block in source.blocks() if block is not None]
    source.close()
    return source, blocks


def broken(blocks: list[sources.Block]) -> list[tuple[int, str]]:
    return [(bad.line, bad.reason) for block in blocks for bad in block.bad]
