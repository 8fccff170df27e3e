"""Run every study and write one page: ``python experiments/reproduce.py [--quick] [name ...]``.

A study is a row of STUDIES: its name, its module, and the seconds it may take (full, quick). Its
``run(quick, data)`` returns a ``Study``; what it gives goes to reports/NAME.json and NAME-1.png,
..., and into reports/reproduce.html (reproduce-quick.html), which holds all it needs. A study
that fails says so on the page, and the command's exit code is 1; one whose data are absent says
what it lacks, and that is no failure.
"""

from __future__ import annotations

import argparse
import importlib
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple

if __package__:
    from . import harness, reproduce_page, writing
    from .reproduce_page import Outcome
    from .study import Study
else:
    import harness
    import reproduce_page
    import writing
    from reproduce_page import Outcome
    from study import Study


class Entry(NamedTuple):
    """One row of the registry."""

    name: str
    module: str
    seconds: int
    """Expected of a full run on one core."""
    quick: int
    """Expected of a quick run."""


STUDIES = (
    Entry("drifting_switching", "drifting_switching", 120, 12),
    Entry("usps_novelty", "usps_novelty", 35, 8),
    Entry("tree_growth", "tree_growth", 15, 4),
    Entry("published", "published", 240, 30),
    Entry("drift_classes", "drift_classes", 220, 8),
    Entry("drift_nab", "drift_nab", 40, 4),
    Entry("drift_skab", "drift_skab", 20, 3),
    Entry("drift_intervals", "drift_intervals", 30, 3),
    Entry("drift_texts", "drift_texts", 30, 3),
    Entry("knobs", "knobs", 50, 3),
)


def load(module: str) -> Any:
    """Return a module of this folder, imported as this one was."""
    return importlib.import_module(f"{__package__}.{module}" if __package__ else module)


def outcome(entry: Entry, quick: bool, data: Path | None) -> Outcome:
    """Run one study; a failure becomes its text."""
    began = time.perf_counter(), time.process_time()
    try:
        study = load(entry.module).run(quick, data)
    except ImportError as error:
        why = f"Skipped: {error}. Install what is missing and run again."
        study = Study(entry.name, why, skipped=why)
    except Exception:
        traceback.print_exc()
        why = traceback.format_exc(limit=-1).strip().splitlines()[-1]
        return Outcome(entry.name, Study(entry.name, why), *_since(began), failed=True)
    return Outcome(entry.name, study, *_since(began))


def _since(began: tuple[float, float]) -> tuple[float, float]:
    """Return seconds by the clock, and of the processor: others may be at work on the machine."""
    return time.perf_counter() - began[0], time.process_time() - began[1]


def tell(found: Outcome) -> None:
    """Print one line for each study, and its missed checks."""
    checks = getattr(found.study, "checks", [])
    missed = [check for check in checks if not check.ok]
    skipped = bool(getattr(found.study, "skipped", ""))
    state = "FAILED" if found.failed else "skipped" if skipped else f"{len(checks)} checks"
    times = f"{found.seconds:7.1f} s, {found.processor:6.1f} s of the processor"
    print(f"{found.name:22s}{times}  {state}", flush=True)
    for check in missed:
        print(f"    {check}", flush=True)


def main(argv: list[str] | None = None, folder: Path | None = None) -> int:
    """Run, write the page, return 1 after a failure or a missed check."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer seeds, rows and settings")
    parser.add_argument("names", nargs="*", help="studies; all if none is named")
    args = parser.parse_args(argv)
    known = [entry.name for entry in STUDIES]
    if unknown := sorted(set(args.names) - set(known)):
        parser.error(f"no study is called {', '.join(unknown)}; there are {', '.join(known)}")
    data, folder = harness.data_folder(), folder or harness.REPORTS
    found = []
    for entry in STUDIES:
        if not args.names or entry.name in args.names:
            found.append(outcome(entry, args.quick, data))
            times = found[-1].seconds, found[-1].processor
            writing.keep(entry.name, found[-1].study, args.quick, *times, folder=folder)
            tell(found[-1])
    page = folder / ("reproduce-quick.html" if args.quick else "reproduce.html")
    page.write_text(reproduce_page.page(found, args.quick), "utf-8")
    print(f"{sum(f.seconds for f in found):.0f} s in all; {page}")
    return int(any(f.failed or not f.ok for f in found))


if __name__ == "__main__":
    raise SystemExit(main())
