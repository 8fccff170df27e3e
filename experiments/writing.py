"""What the reproductions share: a style for figures, a test over seeds, one study as a command."""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy loads
os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

if __package__:
    from . import harness
    from .study import Row, Study
else:
    import harness
    from study import Row, Study

INK, SOFT, ACCENT, ALARM = "#22303c", "#9fb3c1", "#2a6f97", "#d1495b"
AMBER, GREEN = "#e08e0b", "#5a9367"
WIDTH = 5.6
"""Inches: narrow, so that the letters can still be read on a phone."""

Run = Callable[[bool, Path | None], Study]


def canvas(down: int, across: int = 1, height: float = 3.0) -> tuple[Any, Any]:
    """Return a figure of that many panels, below each other, and the panels as an array."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({
        "font.size": 10, "axes.titlesize": 11, "axes.titlelocation": "left", "text.color": INK,
        "axes.edgecolor": INK, "axes.labelcolor": INK, "axes.titlecolor": INK,
        "xtick.color": INK, "ytick.color": INK, "legend.frameon": False, "savefig.dpi": 130,
        "axes.spines.top": False, "axes.spines.right": False,
    })  # fmt: skip
    return plt.subplots(
        down, across, figsize=(WIDTH, height * down), layout="constrained", squeeze=False
    )


# -- over seeds ------------------------------------------------------------------------------------


def signed_rank(first: Any, second: Any) -> float:
    """Return the chance of differences as much below 0 as these, if signs were tosses of a coin.

    ``P(W <= w)``, W the sum of the ranks of |first - second| where the difference is positive

    Wilcoxon's test for pairs, exact, one-sided: small where `first` is the smaller. Pairs that
    are equal are left out; equal differences share their ranks.

    >>> signed_rank([1, 2, 3, 4], [2, 4, 6, 8])
    0.0625
    """
    gap = np.asarray(first, float) - np.asarray(second, float)
    gap = gap[gap != 0]
    twice = np.rint(2 * _ranks(np.abs(gap))).astype(int)  # halves occur, twice them are whole
    chance = np.zeros(int(twice.sum()) + 1)
    chance[0] = 1.0
    for rank in twice:
        moved = np.zeros_like(chance)
        moved[rank:] = chance[: len(chance) - rank]
        chance = (chance + moved) / 2
    return float(chance[: int(twice[gap > 0].sum()) + 1].sum())


def _ranks(values: np.ndarray) -> np.ndarray:
    """Return ranks from 1, ties sharing the mean of theirs."""
    below = (values[:, None] > values).sum(axis=1)
    equal = (values[:, None] == values).sum(axis=1)
    return below + (equal + 1) / 2


def quartiles(values: Any) -> str:
    """Return the middle half, as "low to high".

    >>> quartiles([1, 2, 3, 4, 5])
    '2 to 4'
    """
    low, high = np.quantile(np.asarray(values, float), [0.25, 0.75])
    return f"{low:.4g} to {high:.4g}"


# -- one study as a command ------------------------------------------------------------------------


def text_of(doc: str | None) -> str:
    """Return a module's docstring without its first line."""
    return (doc or "").split("\n\n", 1)[-1].strip()


def skipped(title: str, files: str) -> Study:
    """Return a study that could not be made, and why."""
    why = f"Skipped: it needs {files} in the folder that ONKEL_DATA names."
    return Study(title, why, skipped=why)


def has(data: Path | None, *files: str) -> bool:
    """Whether the data are there."""
    return data is not None and all((data / f"{name}.npz").exists() for name in files)


def command(name: str, run: Run, doc: str | None, argv: list[str] | None = None) -> int:
    """Run a study from the command line; print it, write reports/NAME.json and NAME-1.png, ..."""
    parser = argparse.ArgumentParser(description=(doc or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer seeds, rows and settings")
    quick = parser.parse_args(argv).quick
    began = time.perf_counter(), time.process_time()
    study = run(quick, harness.data_folder())
    seconds, processor = time.perf_counter() - began[0], time.process_time() - began[1]
    show(study)
    keep(name, study, quick, seconds, processor)
    print(f"{seconds:.0f} s, {processor:.0f} s of the processor; reports/{name}.json")
    return int(not all(check.ok for check in study.checks))


def show(study: Study) -> None:
    """Print the tables and the checks."""
    print(f"{study.title}\n\n{study.text}")
    for caption, rows in study.tables:
        print(f"\n{caption}\n{harness.table(rows)}")
    for check in study.checks:
        print(check)


def keep(
    name: str, study: Study, quick: bool, seconds: float, processor: float,
    folder: Path | None = None,
) -> None:  # fmt: skip
    """Write the rows as JSON and the figures as PNG."""
    folder = folder or harness.REPORTS
    folder.mkdir(exist_ok=True)
    whole = {
        "title": study.title, "text": study.text, "quick": quick, "seconds": seconds,
        "processor": processor,
        "tables": [{"caption": caption, "rows": rows} for caption, rows in study.tables],
        "figures": [caption for caption, _ in study.figures],
        "checks": [{"text": str(check), "ok": check.ok} for check in study.checks],
        "skipped": study.skipped,
    }  # fmt: skip
    (folder / f"{name}.json").write_text(json.dumps(harness.plain(whole), indent=1) + "\n", "utf-8")
    for i, (_, figure) in enumerate(study.figures, 1):
        figure.savefig(folder / f"{name}-{i}.png")


__all__ = [
    "ACCENT", "ALARM", "AMBER", "GREEN", "INK", "SOFT", "WIDTH", "Row", "Study", "canvas",
    "command", "has", "keep", "quartiles", "show", "signed_rank", "skipped", "text_of",
]  # fmt: skip
