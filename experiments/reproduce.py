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
import os
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
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


PEERS = ("matplotlib", "river", "scipy", "sklearn")
"""What may be missing; any other module that is, is a fault of ours."""


class Entry(NamedTuple):
    """One row of the registry."""

    name: str
    module: str
    seconds: int
    """Expected of a full run on one core."""
    quick: int
    """Expected of a quick run."""


STUDIES = (
    Entry("drifting_switching", "drifting_switching", 130, 12),
    Entry("usps_novelty", "usps_novelty", 25, 8),
    Entry("tree_growth", "tree_growth", 25, 4),
    Entry("published", "published", 200, 30),
    Entry("drift_classes", "drift_classes", 360, 8),
    Entry("drift_nab", "drift_nab", 40, 4),
    Entry("drift_skab", "drift_skab", 15, 3),
    Entry("drift_intervals", "drift_intervals", 60, 12),
    Entry("drift_texts", "drift_texts", 65, 3),
    Entry("knobs", "knobs", 15, 3),
)


def load(module: str) -> Any:
    """Return a module of this folder, imported as this one was."""
    return importlib.import_module(f"{__package__}.{module}" if __package__ else module)


def outcome(entry: Entry, quick: bool, data: Path | None) -> Outcome:
    """Run one study; a failure becomes its text."""
    began = time.perf_counter(), time.process_time()
    try:
        study = load(entry.module).run(quick, data)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and str(error.name).split(".")[0] in PEERS:
            why = f"Skipped: {error}. Install what is missing and run again."
            return Outcome(entry.name, Study(entry.name, why, skipped=why), *_since(began))
        traceback.print_exc()
        why = traceback.format_exc(limit=-1).strip().splitlines()[-1]
        study = Study(entry.name, why, skipped=why)
        return Outcome(entry.name, study, *_since(began), failed=True)
    return Outcome(entry.name, study, *_since(began))


def kept(entry: Entry, quick: bool, data: Path | None, folder: Path) -> Outcome:
    """Run one study, and write down what it gives."""
    found = outcome(entry, quick, data)
    writing.keep(entry.name, found.study, quick, found.seconds, found.processor, folder=folder)
    return found


def outcomes(asked: list[Entry], jobs: int, *given: Any) -> Iterator[Outcome]:
    """Run studies, some at once, the longest first; each has a core of its own."""
    if jobs < 2 or len(asked) < 2:
        yield from (kept(entry, *given) for entry in asked)
        return
    with ProcessPoolExecutor(jobs, max_tasks_per_child=1) as pool:
        longest = sorted(asked, key=lambda entry: -entry.seconds)
        for done in as_completed([pool.submit(kept, entry, *given) for entry in longest]):
            yield done.result()


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
    parser.add_argument("--jobs", type=int, default=0, help="studies at once; 0: one a core, to 4")
    parser.add_argument("names", nargs="*", help="studies; all if none is named")
    args = parser.parse_args(argv)
    known = [entry.name for entry in STUDIES]
    if unknown := sorted(set(args.names) - set(known)):
        parser.error(f"no study is called {', '.join(unknown)}; there are {', '.join(known)}")
    data, folder = harness.data_folder(), folder or harness.REPORTS
    asked = [entry for entry in STUDIES if not args.names or entry.name in args.names]
    jobs = args.jobs or min(os.cpu_count() or 1, 4)
    lasts = sum(e.quick if args.quick else e.seconds for e in asked)
    print(f"about {lasts} s of a processor; {jobs} at once", flush=True)
    found, began = {}, time.perf_counter()
    for one in outcomes(asked, jobs, args.quick, data, folder):
        found[one.name] = one
        tell(one)
    ordered = [found[entry.name] for entry in asked]
    page = folder / ("reproduce-quick.html" if args.quick else "reproduce.html")
    page.write_text(reproduce_page.page(ordered, args.quick), "utf-8")
    print(f"{time.perf_counter() - began:.0f} s in all; {page}")
    return int(any(f.failed or not f.ok for f in ordered))


if __name__ == "__main__":
    raise SystemExit(main())
