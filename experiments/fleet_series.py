"""Real series as the keys of one fleet: NAB's and the servers', beside a Detector for each.

The rows of all series of a set come interleaved, by their place in time: first the first row of
each series, then the second of each, and so on; in blocks of 1000 rows, each row with the name of
its series as its key. Three ways judge each row before they learn it:

- *alone*: a ``Detector()`` for each series, which is given its rows in one call;
- *fleet*: ``Fleet(Detector())``, one for the whole set;
- *shared*: ``Fleet(Detector(), share=True)``.

The first two must agree in every bit: scores, thresholds and alerts of every row. The third is
another method, and is only reported. AUC and AP (of rows, by the score) and the shares of rows with
an alert are means over the series, each measured from where detection_sets.py says on; "early" is
the share of the usual rows before it that raised an alert.

NAB has 24 series of one value, five of them without an anomaly: they count for alerts alone. The
servers (SMD) are 8 series of 38 metrics. ONKEL_DATA names the folder with the data; a set whose
files are not there is left out. --quick takes every fifth series, and 3000 rows of each at most.

Expected: no value of the fleet differs from its series' own detector, and so no measure does.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from onkel import Detector, Fleet

if __package__:
    from . import detection_measures as measures
    from . import detection_sets, harness
    from .detection_sets import Stream
else:
    import detection_measures as measures
    import detection_sets
    import harness
    from detection_sets import Stream

SETS = ("nab", "smd")
BLOCK, QUICK_ROWS = 1000, 3000
ALONE, FLEET, SHARED = "alone", "fleet", "shared"

Judged = list[np.ndarray]
"""Of each series its rows' scores, thresholds and alerts."""


def alone(streams: list[Stream]) -> Judged:
    """Judge each series by a detector of its own, in one call."""
    return [np.asarray(Detector().predict_then_learn(s.X, output="judgement")) for s in streams]


def together(streams: list[Stream], fleet: Fleet) -> Judged:
    """Judge all series by one fleet, rows interleaved by their places in time."""
    which = np.concatenate([np.full(len(s.X), i) for i, s in enumerate(streams)])
    place = np.concatenate([np.arange(len(s.X)) for s in streams])
    X, names = np.concatenate([s.X for s in streams]), [s.name for s in streams]
    order, found = np.argsort(place, kind="stable"), np.empty((len(X), 3))
    for start in range(0, len(order), BLOCK):
        at = order[start : start + BLOCK]
        keys = [names[i] for i in which[at].tolist()]
        found[at] = fleet.predict_then_learn(keys, X[at], output="judgement")
    return np.split(found, np.cumsum([len(s.X) for s in streams])[:-1])


def ways() -> dict[str, Callable[[list[Stream]], Judged]]:
    """Return the ways to judge."""
    return {
        ALONE: alone,
        FLEET: lambda streams: together(streams, Fleet(Detector())),
        SHARED: lambda streams: together(streams, Fleet(Detector(), share=True)),
    }


def measured(streams: list[Stream], judged: Judged) -> dict[str, float]:
    """Return the means over the series."""
    rows: list[dict[str, float]] = []
    for s, verdict in zip(streams, judged, strict=True):
        y, score, alert = s.y[s.start :], -verdict[s.start :, 0], verdict[s.start :, 2] > 0
        early = verdict[: s.start, 2][s.y[: s.start] == 0]
        row = {"early": float(early.mean()), **measures.alert_shares(y, alert)}
        if s.both:
            row |= {"AUC": measures.auc(y, score), "AP": measures.ap(y, score)}
        rows.append(row)
    names = ("AUC", "AP", "rows", "episodes", "outside", "early")
    return {n: _mean([row[n] for row in rows if n in row]) for n in names}


def _mean(values: list[float]) -> float:
    known = [v for v in values if not np.isnan(v)]
    return float(np.mean(known)) if known else float("nan")


def differing(one: Judged, other: Judged) -> int:
    """Return in how many rows any bit differs."""
    pairs = zip(one, other, strict=True)
    return sum(int(np.any(_bits(a) != _bits(b), axis=1).sum()) for a, b in pairs)


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, np.float64).view(np.int64)


def study(name: str, streams: list[Stream]) -> tuple[list[dict[str, Any]], list[harness.Check]]:
    """Judge a set in all ways; return a line for each, and what is expected."""
    lines, judged = [], {}
    for way, judge in ways().items():
        began = time.process_time()
        judged[way] = judge(streams)
        rows = sum(map(len, judged[way]))
        cost = 1e6 * (time.process_time() - began) / rows
        head = {"set": name, "way": way, "series": len(streams), "rows": rows}
        # `rows` of the measures: the share of anomalous rows with an alert
        found = {("found" if k == "rows" else k): v
                 for k, v in measured(streams, judged[way]).items()}  # fmt: skip
        differ = differing(judged[ALONE], judged[way])
        lines.append({**head, **found, "differ": differ, "us a row": cost})
    same, other = (differing(judged[ALONE], judged[way]) for way in (FLEET, SHARED))
    what = f"{name}: rows of the {{}} that differ from detectors alone"
    return lines, [harness.Check(what.format("fleet"), same, high=0),
                   harness.Check(what.format("fleet with share=True"), other, low=1)]  # fmt: skip


def shortened(stream: Stream) -> Stream:
    """Return the last rows of a stream, so many that a quick run is quick."""
    cut = max(len(stream.X) - QUICK_ROWS, 0)
    start = max(stream.start - cut, QUICK_ROWS // 5)
    return replace(stream, X=stream.X[cut:], y=stream.y[cut:], start=start)


def main(argv: list[str] | None = None) -> int:
    """Run, print, check, report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="every fifth series, 3000 rows each")
    quick = parser.parse_args(argv).quick
    data, lines, checks = harness.data_folder(), [], []
    for name in SETS:
        streams = detection_sets.load(name, data, quick)
        if streams:
            some, expected = study(name, [shortened(s) for s in streams] if quick else streams)
            print(harness.table(some), flush=True)
            lines, checks = lines + some, checks + expected
    return harness.finish("fleet_series", {"quick": quick, "lines": lines}, checks)


if __name__ == "__main__":
    raise SystemExit(main())
