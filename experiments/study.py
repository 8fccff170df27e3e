"""What a study gives back: words, tables and figures, from which reports and pages are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass
class Study:
    """The outcome of ``run(quick, data)``."""

    title: str
    text: str
    tables: list[tuple[str, list[Row]]] = field(default_factory=list)
    """(caption, rows)"""
    figures: list[tuple[str, Any]] = field(default_factory=list)
    """(caption, matplotlib figure)"""
    checks: list[Any] = field(default_factory=list)
    """harness.Check: numbers that are expected in a range"""
    skipped: str = ""
    """why there are no tables"""
