"""Rows as they are: words, times, gaps and numbers in one table, beside one-hot and peers.

Every method as it comes, no setting chosen for a table; each row is predicted before it is
learned. Tables are described in rows_tables.py, peers and what they are given in rows_peers.py; a
log with planted oddities, for the detectors, in rows_odd.py.

What is measured is kept, a file for each table and method, in reports/rows. A run measures what
is not yet there; --ours measures onkel's own again, --fresh everything; --tables and --methods
name some alone. The report is made of all that is kept.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy loads
os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import json
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import onkel
from onkel import kernels

if __package__:
    from . import front_door_measures as measures
    from . import harness, rows_odd, rows_peers, rows_shown, rows_tables, writing
    from .front_door_peers import Said
    from .front_door_streams import CLASSES, NUMBERS
    from .rows_tables import Table
    from .study import Study
else:
    import front_door_measures as measures
    import harness
    import rows_odd
    import rows_peers
    import rows_shown
    import rows_tables
    import writing
    from front_door_peers import Said
    from front_door_streams import CLASSES, NUMBERS
    from rows_tables import Table
    from study import Study

TITLE = "Rows as they are: onkel as it comes, and its peers"
KEPT, TRIED = harness.REPORTS / "rows", harness.REPORTS / "rows_tried"
"""Of whole tables, and of their first rows alone."""
BLOCK = 1000
"""Rows in a call; what is said does not depend on it."""
FIRST = rows_shown.FIRST
Kept = dict[str, Any]


# -- onkel -----------------------------------------------------------------------------------------

OURS: dict[str, dict[str, Callable[..., Any]]] = {
    CLASSES: {
        "Classifier": onkel.Classifier,
        "KernelClassifier": onkel.KernelClassifier,
        "LinearClassifier": onkel.LinearClassifier,
    },
    NUMBERS: {
        "Regressor": onkel.Regressor,
        "KernelRegressor": onkel.KernelRegressor,
        "LinearRegressor": onkel.LinearRegressor,
    },
}
STRINGS = "KernelClassifier, Spectrum(4)"
"""Whole texts, without words."""


def ours_of(table: Table) -> list[str]:
    """Return which of onkel's are asked about a table."""
    return [*OURS[table.task], *([STRINGS] if table.texts else [])]


def built(name: str, table: Table) -> Any:
    """Return a model as it comes; what is said of columns is what the table's owner knows."""
    if name == STRINGS:
        return onkel.KernelClassifier(kernels.Spectrum(4), n_jobs=1)
    return OURS[table.task][name](columns=table.types or None, n_jobs=1)


def ours(name: str, table: Table) -> Said:
    """Run a model of onkel, block by block; a second run for probabilities, where it has them."""
    rows = table.X["message"].tolist() if name == STRINGS else table.X
    model, n, answers = built(name, table), len(table.y), []
    began = time.process_time()
    for a in range(0, n, BLOCK):
        block = slice(a, a + BLOCK)
        answers.append(np.asarray(model.predict_then_learn(rows[block], table.y[block])))
    seconds = time.process_time() - began
    p = None
    if table.task == CLASSES and hasattr(model, "predict_proba"):
        model = built(name, table)
        p = np.asarray(model.predict_then_learn(rows, table.y, output="probability"))
        p = p[:, np.argsort(model.classes_)]
    return Said(np.concatenate(answers), p, seconds)


# -- measured once, and kept -----------------------------------------------------------------------


def error(task: str, said: np.ndarray, y: np.ndarray) -> float | None:
    """Return mistakes in per cent, or the mean absolute error; None where nothing was said."""
    if not len(y) or np.isnan(said).any():
        return None
    return float(100 * np.mean(said != y) if task == CLASSES else np.mean(np.abs(said - y)))


def measured(name: str, table: Table) -> Kept:
    """Run a method on a table, and measure it."""
    said = ours(name, table) if name in ours_of(table) else rows_peers.run(name, table)
    rows, half = len(said.answers), len(table.y) // 2
    y = table.y[:rows]
    found: Kept = {
        "table": table.name, "method": name, "task": table.task, "of": len(table.y), "rows": rows,
        "columns": table.X.shape[1], "chosen": table.chosen, "about": table.about,
        "best": table.best, "seconds": said.seconds, "error": error(table.task, said.answers, y),
        FIRST: error(table.task, said.answers[: rows_peers.FEW], y[: rows_peers.FEW]),
        "error, second half": error(table.task, said.answers[half:], y[half:]),
    }  # fmt: skip
    if said.probabilities is not None and rows == len(table.y):
        found["log loss"] = measures.log_loss(said.probabilities[half:], y[half:])
    return found


def keep(name: str, table: Table, again: bool, folder: Path = KEPT) -> Kept:
    """Return what is kept of a method on a table, measured first where that is due."""
    path = folder / _slug(table.name) / f"{_slug(name)}.json"
    if path.exists() and not again:
        old: Kept = json.loads(path.read_text("utf-8"))
        if old["of"] == len(table.y):
            return old
    found: Kept = harness.plain(measured(name, table))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    wrong = found["error, second half"] if found["error"] is None else found["error"]
    print(f"{table.name}, {name}: {wrong:.4g}, {found['seconds']:.1f} s", flush=True)
    return found


def _slug(text: str) -> str:
    return re.sub("[^A-Za-z0-9.]+", "_", text)


def all_kept(folder: Path = KEPT) -> list[Kept]:
    """Return everything that is kept, in the order of the tables."""
    order = {name: i for i, name in enumerate(rows_tables.names())}
    found = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*/*.json"))]
    return sorted((k for k in found if k["table"] in order), key=lambda k: order[k["table"]])


# -- running ---------------------------------------------------------------------------------------


def walk(args: argparse.Namespace, data: Path | None, folder: Path = KEPT) -> None:
    """Measure what was asked for."""
    only, methods = _listed(args.tables), _listed(args.methods)
    for name in only or rows_tables.names():
        table = rows_tables.make(name, data)
        if table is None:
            continue
        table = table.head(args.rows) if args.rows else table
        for method in (*ours_of(table), *rows_peers.peers_of(table)):
            own = method in ours_of(table)
            if (methods and method not in methods) or (args.ours and not own):
                continue
            keep(method, table, args.fresh or (args.ours and own), folder)


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(";") if name.strip()]


def options(argv: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ours", action="store_true", help="onkel's own again, peers as kept")
    parser.add_argument("--fresh", action="store_true", help="measure again what is kept")
    parser.add_argument("--tables", default="", help="names, by semicolon")
    parser.add_argument("--methods", default="", help="names, by semicolon")
    parser.add_argument("--rows", type=int, default=0, help="the first rows alone; 0: all")
    parser.add_argument("--no-odd", action="store_true", help="without the detectors' log")
    parser.add_argument("--report", action="store_true", help="measure nothing")
    return parser.parse_args(argv)


def odd(args: argparse.Namespace, folder: Path) -> list[Kept]:
    """Return what the detectors found, measured first where that is due."""
    path = folder / "odd.json"
    due = args.fresh or args.ours or not path.exists()
    if due and not (args.report or args.no_odd):
        folder.mkdir(parents=True, exist_ok=True)
        found = harness.plain(rows_odd.measured(args.rows or rows_odd.ROWS))
        path.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    made: list[Kept] = json.loads(path.read_text("utf-8")) if path.exists() else []
    return made


def main(argv: list[str] | None = None) -> int:
    """Measure, print, write reports/rows.json."""
    args = options(argv)
    began = time.perf_counter(), time.process_time()
    folder = TRIED if args.rows else KEPT
    if not args.report:
        walk(args, harness.data_folder(), folder)
    oddities = odd(args, folder)
    text = writing.text_of(__doc__)
    kept = all_kept(folder)
    study = Study(TITLE, text, rows_shown.every(kept, oddities), [], rows_shown.checks(kept))
    writing.show(study)
    seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    writing.keep("rows", study, bool(args.rows), *seconds)
    return int(not all(check.ok for check in study.checks))


if __name__ == "__main__":
    raise SystemExit(main())
