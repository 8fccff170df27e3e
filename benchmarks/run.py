"""The benchmarks: seeded, offline, frozen workloads. ``make bench`` and ``make bench-quick``.

Every section prints its tables and writes reports/NAME.json and, where matplotlib is installed,
reports/NAME.png. ``--docs`` draws to docs/figures instead. ``--readme`` measures nothing: it writes
the tables of README.md and docs/benchmarks.md from the reports (and draws them, with --docs).
"""

from __future__ import annotations

import argparse
import importlib
import time
from pathlib import Path
from typing import Any

import common  # first: it sets the number of BLAS threads
import publish

SECTIONS = ("limit", "one", "growth", "startup", "peers")


def show(section: Any, report: dict[str, Any]) -> None:
    """Print the tables of a report."""
    for title, rows in section.tables(report):
        print(f"\n{title}\n{common.table(rows)}")
    print()


def run(name: str, quick: bool, figures: Path) -> None:
    """Measure one section, print it, write its report and its figure."""
    print(f"== {name}", flush=True)
    began = time.perf_counter()
    section = importlib.import_module(name)
    found = section.measure(quick)
    spent = time.perf_counter() - began
    report = common.plain({"machine": common.machine(), "quick": quick, "seconds": spent, **found})
    show(section, report)
    common.save(name, report)
    section.figure(report, figures / f"{name}.png")
    print(f"{spent:.0f} s\n", flush=True)


def main(argv: list[str] | None = None) -> int:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats and rows: two minutes")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=SECTIONS, default=SECTIONS,
                        help=f"some of: {', '.join(SECTIONS)}")  # fmt: skip
    parser.add_argument("--docs", action="store_true", help="draw to docs/figures, not reports")
    parser.add_argument("--readme", action="store_true", help="write the documents from reports")
    args = parser.parse_args(argv)
    figures = common.ROOT / "docs" / "figures" if args.docs else common.REPORTS
    if args.readme:
        return publish.publish(list(args.only), args.quick, figures if args.docs else None)
    machine = common.machine()
    print("; ".join(f"{key}: {value}" for key, value in machine.items()))
    for name in args.only:
        run(name, args.quick, figures)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
