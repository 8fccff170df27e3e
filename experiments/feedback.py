"""Feedback: how many answers it takes until false alerts are half as many, and what that costs.

A ``Detector()`` watches a stream. Somebody answers the first alert of each episode (alerts at most
20 rows apart), 100 rows after it came, by the stream's labels: "fault" inside a labelled stretch,
"usual" outside; one answer in ten is wrong. After so many answers they stop. Measured on the last
half of the rows that detection_sets.py measures: false alerts (rows outside of labelled stretches
that raised one), and the stretches in which at least one row did; both beside the same rows without
any answer. Sums over a set's streams.

- *answers*: of a budget; none, 5, 10, 20, 50, all. *given*: how many were given, on average.
- *false alerts*: as a share of those without answers. *found*: of the *stretches* in that half.
- *precision 0.8*: the same with ``Detector(precision=0.8)`` and all answers; *alone*: with nu=None.
  *precision* is the share of answers that were "fault".

What is alike (onkel/core/answers.py) was settled on the half "choose" of each set: there it was
seen that a wrong "fault" made alerts of usual rows, and that alerts which an answer hushed were
made up for by others; both are mended. The table shows the other half, and the sets whose streams
are all shown.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy loads

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onkel import Detector

if __package__:
    from . import detection_sets as sets
    from . import harness, writing
    from .detection_sets import Stream
    from .study import Study
else:
    import detection_sets as sets
    import harness
    import writing
    from detection_sets import Stream
    from study import Study

SETS = ("smd", "smap", "nab", "asd", "skab", "tables", "faults")
BUDGETS = (0, 5, 10, 20, 50, 10**9)
DELAY, GAP, WRONG, CHUNK = 100, 20, 0.1, 50
WAYS: dict[str, dict[str, Any]] = {
    "precision 0.8": {"precision": 0.8}, "precision 0.8 alone": {"nu": None, "precision": 0.8},
}  # fmt: skip
TITLE = "Feedback: false alerts by the number of answers"


@dataclass
class Watched:
    """What came of one stream."""

    alert: np.ndarray
    given: int
    told: dict[str, Any]


def watch(stream: Stream, budget: int, **how: Any) -> Watched:
    """Let a detector watch, and answer the first alerts of episodes while the budget lasts."""
    rng = np.random.default_rng(zlib.crc32(f"{stream.name} answers".encode()))
    wrong = rng.random(len(stream.X)) < WRONG
    det, said, given, last, next_ = Detector(**how), [], 0, -(10**9), 0
    starts: list[int] = []
    for first in range(0, len(stream.X), CHUNK):
        said.append(det.predict_then_learn(stream.X[first : first + CHUNK]) == -1)
        for row in (first + np.flatnonzero(said[-1])).tolist():
            if row - last > GAP:
                starts.append(row)
            last = row
        while next_ < len(starts) and given < budget and starts[next_] + DELAY < first + CHUNK:
            row = starts[next_]
            fault = bool(stream.y[row]) != bool(wrong[row])
            det.feedback(row, "fault" if fault else "usual")
            given, next_ = given + 1, next_ + 1
    return Watched(np.concatenate(said), given, det.diagnostics_)


def stretches(y: np.ndarray) -> list[slice]:
    """Return the labelled stretches."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], y.astype(int), [0]])))
    return [slice(a, b) for a, b in edges.reshape(-1, 2)]


def counted(stream: Stream, alert: np.ndarray) -> np.ndarray:
    """Return false alerts, stretches found, stretches; in the last half of what is measured."""
    start = (stream.start + len(stream.X)) // 2
    y, alert = np.asarray(stream.y[start:], bool), alert[start:]
    found = [alert[s].any() for s in stretches(y)]
    return np.array([np.count_nonzero(alert & ~y), sum(found), len(found)])


def row_of(name: str, streams: list[Stream], budget: int, **how: Any) -> dict[str, Any]:
    """Return one line of a table, without what it is compared with."""
    runs = [watch(stream, budget, **how) for stream in streams]
    sums = sum(counted(s, r.alert) for s, r in zip(streams, runs, strict=True))
    answered = sum(r.told["alerts_answered"] for r in runs)
    dismissed = sum(r.told["alerts_dismissed"] for r in runs)
    share = 1 - dismissed / answered if answered and "precision" in how else None
    return {
        "set": name, "given": float(np.mean([r.given for r in runs])), "false": int(sums[0]),
        "found": int(sums[1]), "stretches": int(sums[2]), "precision": share,
    }  # fmt: skip


def table(name: str, streams: list[Stream], quick: bool) -> list[dict[str, Any]]:
    """Return the lines of one set."""
    rows = []
    for budget in BUDGETS[::5] if quick else BUDGETS:
        word = "all" if budget == BUDGETS[-1] else str(budget)
        rows.append({"answers": word, **row_of(name, streams, budget)})
    for word, how in WAYS.items():
        rows.append({"answers": word, **row_of(name, streams, BUDGETS[-1], **how)})
    none = rows[0]["false"]
    for row in rows:
        row["false alerts"] = row["false"] / none if none else None
    return rows


def run(quick: bool, data: Path | None) -> Study:
    """Answer alerts on all sets."""
    study = Study(TITLE, (__doc__ or "").split("\n\n", 1)[1])
    lines = []
    for name in SETS:
        streams = [s for s in sets.load(name, data, quick) if quick or s.half == sets.SHOWN]
        if name == "tables":
            streams = [s for s in streams if len(s.X) >= 2000]
        if streams:
            lines += table(name, streams, quick)
            print(harness.table(lines[-len(BUDGETS) - len(WAYS) :] if not quick else lines[-4:]))
    study.tables.append(("False alerts and stretches found, by set and number of answers", lines))
    study.figures.append(("False alerts left, by the answers given", _figure(lines)))
    return study


def _figure(lines: list[dict[str, Any]]) -> Any:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    left, right = figure.subplots(1, 2, sharex=True)
    for name in dict.fromkeys(line["set"] for line in lines):
        own = [r for r in lines if r["set"] == name and "precision" not in r["answers"]]
        given = [r["given"] for r in own]
        left.plot(given, [r["false alerts"] for r in own], "o-", label=name, markersize=3)
        right.plot(given, [r["found"] / max(r["stretches"], 1) for r in own], "o-", markersize=3)
    left.axhline(0.5, color="grey", linestyle=":")
    left.set(xlabel="answers of a stream", ylabel="false alerts, of those without", xscale="symlog")
    right.set(xlabel="answers of a stream", ylabel="labelled stretches found", ylim=(0, 1.02))
    left.legend(fontsize="small")
    return figure


if __name__ == "__main__":
    raise SystemExit(writing.command("feedback", run, __doc__))
