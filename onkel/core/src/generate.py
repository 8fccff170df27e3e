"""Write the C++ header of the tables in ``onkel/core``: python generate.py FOLDER HEADER.

Run by CMake when the core is built; needs the standard library only.
"""

from __future__ import annotations

import math
import sys
from enum import IntEnum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any


def load(folder: str) -> ModuleType:
    """Return ``layout.py``, loaded from a folder: its own package may not be installed yet."""
    package = ModuleType("onkel_tables")
    package.__path__ = [folder]
    sys.modules[package.__name__] = package
    return import_module("onkel_tables.layout")


def camel(name: str) -> str:
    """SOFT_MARGIN as SoftMargin."""
    return "".join(part.capitalize() for part in name.split("_"))


def number(value: Any) -> str:
    """A number as C++ writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and math.isinf(value):
        return "HUGE_VAL" if value > 0 else "-HUGE_VAL"
    return repr(value)


def codes(kind: type[IntEnum]) -> list[str]:
    """An enum whose switches can be closed, its names, and how many there are."""
    rows = list(kind)
    if [int(row) for row in rows] != list(range(len(rows))):
        raise SystemExit(f"layout.py: the codes of {kind.__name__} must be 0, 1, 2, ... in order")
    names = ", ".join(f"k{camel(row.name)} = {int(row)}" for row in rows)
    words = ", ".join(f'"{row.name}"' for row in rows)
    return [
        f"enum class {kind.__name__} : int {{ {names} }};",
        f"constexpr const char* k{kind.__name__}Names[] = {{{words}}};",
        f"constexpr int k{kind.__name__}Count = {len(rows)};",
    ]


def operation(op: Any) -> str:
    """One row of the operations."""
    row = op.operation
    spans = (f"{{{number(s[0])}, {number(s[1])}, true}}" if s else "{0, 0, false}"
             for s in (row.a, row.b, row.c))  # fmt: skip
    flags = f"{number(row.rooted)}, {number(row.exponential)}"
    return f"    {{{row.pops}, Reads::k{camel(row.reads.name)}, {', '.join(spans)}, {flags}}},"


def header(layout: ModuleType) -> str:
    """The whole text."""
    fields = ", ".join(f"kField{camel(f.name)} = {int(f)}" for f in layout.Field)
    counts = ", ".join(f"kCount{camel(c.name)} = {int(c)}" for c in layout.Count)
    levels = ", ".join(f"kLevel{camel(v.name)} = {int(v)}" for v in layout.Level)
    kinds = (layout.Reads, layout.Op, layout.LossCode, layout.RuleCode, layout.BudgetCode,
             layout.SplitCode)  # fmt: skip
    lines = [
        "// Made from onkel/core/layout.py and density_table.py by onkel/core/src/generate.py.",
        "#pragma once",
        "#include <cmath>",
        "#include <cstdint>",
        "namespace onkel {",
        f"constexpr uint32_t kFingerprint = {layout.fingerprint()}u;",
        f"constexpr int kLanes = {layout.LANES};",
        f"constexpr int kMaxDepth = {layout.DEPTH};",
        f"constexpr int kLongest = {layout.LONGEST};",
        f"constexpr int64_t kNoTerm = {layout.NO_TERM};",
        f"constexpr int64_t kStays = {layout.STAYS};",
        f"constexpr int64_t kCodes = {layout.CODES};",
        f"constexpr double kMostShown = {layout.MOST_SHOWN!r};",
        f"constexpr double kMostState = {layout.MOST_STATE!r};",
        f"constexpr double kLargest = {layout.LARGEST!r};",
        f"constexpr double kSmallScale = {layout.SMALL_SCALE!r};",
        *(line for kind in kinds for line in codes(kind)),
        f"enum Field : int {{ {fields} }};",
        f"constexpr int kFields = {len(layout.Field)};",
        f"enum Count : int {{ {counts} }};",
        f"constexpr int kCounts = {len(layout.Count)};",
        f"enum Level : int {{ {levels} }};",
        f"constexpr int kLevels = {layout.LEVELS};",
        "struct Span { double low, high; bool given; };",
        "struct Operation { int pops; Reads reads; Span a, b, c; bool rooted, exponential; };",
        "constexpr Operation kOperations[] = {",
        *(operation(op) for op in layout.Op),
        "};",
        "static constexpr const Operation& operation_of(Op op) {",
        "  return kOperations[static_cast<int>(op)];",
        "}",
        "}  // namespace onkel",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(header(load(sys.argv[1])), encoding="utf-8")
