"""Anomalies in streams: onkel's detector beside every streaming peer that could be had.

Each contender sees a stream once, in order, raw, and says of every row how strange it is before it
learns it. The streams and their halves are described in detection_sets.py, the measures in
detection_measures.py, the peers in detection_peers.py and detection_others.py, streams on which
alerts are watched in detection_behaviour.py. No contender gets labels, and none is tuned to a set:
each has the one setting that its name tells.

- *AUC*, *AP*, *VUS-PR*: means over a set's streams (those that are the same rows counted as one);
  *wins*: on how many of them no contender has a higher AUC;
- *rows*, *episodes*, *outside*: the share of anomalous rows, of stretches of them and of usual rows
  that get an alert at nu = 0.01. onkel's detectors have their own rule, the others alert where a
  score is among the highest hundredth of its last thousand;
- *NAB*: NAB's score, standard profile, one threshold for all series, the best there is; of the
  scores as they come, and read as how unusual they are among the last thousand (NAB's likelihood);
- *µs/row*: processor time, one core.

*onkel detect* is what the command makes of a single column with times: the Detector behind
Lags(season="day"). Of several columns it makes the Detector alone, which is not shown twice.

Settings of onkel's detector are chosen on the half named "choose" and shown on the other. What
peers say is kept in reports/detection, so that a second run is quick; --fresh forgets what is kept
of the contenders named. onkel's own detectors are always run anew.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy loads
os.environ.setdefault("NUMBA_NUM_THREADS", "1")

import argparse
import hashlib
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import onkel
from onkel.series import Lags, Series

if __package__:
    from . import detection_behaviour as behaviour
    from . import detection_measures as measures
    from . import detection_others as others
    from . import detection_sets as sets
    from . import detection_tables as tables
    from . import harness, writing
    from .detection_peers import PEERS
    from .detection_sets import Stream
    from .study import Study
else:
    import detection_behaviour as behaviour
    import detection_measures as measures
    import detection_others as others
    import detection_sets as sets
    import detection_tables as tables
    import harness
    import writing
    from detection_peers import PEERS
    from detection_sets import Stream
    from study import Study

NU = 0.01
CACHE = harness.REPORTS / "detection"
BEHAVIOUR = "behaviour"
QUICK = (
    "onkel: Detector", "onkel: NoveltyDetector", "onkel detect", "z-score 1000", "z-score 20000",
    "neighbours 1000", "neighbours 20000 thinned", "isolation forest 1000",
)  # fmt: skip
TITLE = "Anomalies in streams: onkel and its peers"
Judged = tuple[np.ndarray, np.ndarray]
"""How strange each row is, and where there is an alert."""
Judge = Callable[..., Judged]
"""Of rows, and of their times where they have such."""


# -- contenders ------------------------------------------------------------------------------------


def onkel_detector(X: np.ndarray, time: np.ndarray | None = None) -> Judged:
    """Return what onkel's Detector says: -log p, and its alerts."""
    return _ours(onkel.Detector(nu=NU), X)


def onkel_novelty(X: np.ndarray, time: np.ndarray | None = None) -> Judged:
    """Return what onkel's NoveltyDetector says: its score, negated, and its alerts."""
    return _ours(onkel.NoveltyDetector(nu=NU), X)


def onkel_detect(X: np.ndarray, time: np.ndarray | None = None) -> Judged:
    """Return what `onkel detect` says of a single column: with the day, where there are times."""
    lags = Lags(season=None if time is None else "day")
    return _ours(Series(onkel.Detector(nu=NU), lags), X, time=time)


def _ours(model: Any, X: np.ndarray, **how: Any) -> Judged:
    said = np.asarray(model.predict_then_learn(X, output="judgement", **how), float)
    return -said[:, 0], said[:, 2] == 1


def peer(detect: Callable[[np.ndarray], np.ndarray]) -> Judge:
    """Return a peer with alerts by its recent scores."""

    def judge(X: np.ndarray, time: np.ndarray | None = None) -> Judged:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of other packages
            score = np.nan_to_num(np.asarray(detect(X), float))
        return score, measures.recent_alerts(score, NU)

    return judge


def contenders() -> dict[str, Judge]:
    """Return all; those of packages that are not there have what is kept of them at most."""
    detects = PEERS | {name: detect for name, (_, detect) in others.OTHERS.items()}
    ours: dict[str, Judge] = {
        "onkel: Detector": onkel_detector, "onkel: NoveltyDetector": onkel_novelty,
        "onkel detect": onkel_detect,
    }  # fmt: skip
    return ours | {name: peer(detect) for name, detect in detects.items()}


# -- running ---------------------------------------------------------------------------------------


@dataclass
class Run:
    """What one contender said of one stream."""

    contender: str
    stream: Stream
    score: np.ndarray
    alerts: np.ndarray
    seconds: float
    measured: dict[str, float] = field(default_factory=dict)


def judged(name: str, judge: Judge, stream: Stream, fresh: bool = False) -> Run:
    """Return scores, alerts and seconds of a contender on a stream, kept ones if there are."""
    path = _path(name, stream)
    if fresh or not path.exists():
        began = time.process_time()
        score, alerts = judge(stream.X, stream.time)
        seconds = time.process_time() - began
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, score=score, alerts=alerts, seconds=seconds)
    with np.load(path) as kept:
        return Run(name, stream, kept["score"], kept["alerts"], float(kept["seconds"]))


def _path(name: str, stream: Stream) -> Path:
    content = stream.X.tobytes() + str(stream.X.shape).encode()
    digest = hashlib.sha256(content).hexdigest()[:16]
    return CACHE / name.replace(" ", "_").replace(":", "") / f"{stream.name}-{digest}.npz"


def measure(run: Run, ordered: bool) -> Run:
    """Measure what was said from the stream's start on."""
    stream, found = run.stream, run.measured
    y, score = stream.y[stream.start :], run.score[stream.start :]
    if stream.both:
        found |= {"AUC": measures.auc(y, score), "AP": measures.ap(y, score)}
    if stream.both and ordered:
        found["VUS-PR"] = measures.vus_pr(y, score)
    found |= measures.alert_shares(y, run.alerts[stream.start :])
    found["µs/row"] = 1e6 * run.seconds / len(stream.y)
    return run


def runs(name: str, streams: list[Stream], chosen: dict[str, Judge], fresh: bool) -> list[Run]:
    """Run the contenders on a set; onkel's always anew."""
    found = []
    for contender, judge in chosen.items():
        absent = others.absent(contender)
        kept = all(_path(contender, stream).exists() for stream in streams)
        if others.left_out(contender, name) or (absent and not kept):  # no mean over a part
            continue
        for stream in streams:
            again = (fresh and not absent) or contender.startswith("onkel")
            found.append(judged(contender, judge, stream, again))
            measure(found[-1], name not in sets.UNORDERED)
    return found


def study(args: argparse.Namespace, data: Path | None) -> Study:
    """Run all that was asked for."""
    there, names = contenders(), _listed(args.contender)
    if unknown := [name for name in names if name not in there]:
        raise SystemExit(f"no contender {unknown[0]!r}; there are: {', '.join(there)}")
    names = names or [name for name in there if not args.quick or name in QUICK]
    chosen = {name: there[name] for name in names}
    if missing := [name for name in chosen if others.absent(name)]:
        print("not installed, shown where kept:", "; ".join(missing))
    only = _listed(args.only) or [*sets.SETS, BEHAVIOUR]
    found: dict[str, list[Run]] = {}
    for name in only:
        if name != BEHAVIOUR and (streams := sets.load(name, data, args.quick)):
            print(f"{name}: {len(streams)} streams", flush=True)
            found[name] = runs(name, streams, chosen, args.fresh)
    made = tables.every(found)
    if BEHAVIOUR in only:
        made += behaviour.tables(chosen, args.quick, args.million)
    return Study(TITLE, writing.text_of(__doc__), made, tables.figures(found))


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def options(argv: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="every fifth stream, a few peers")
    parser.add_argument("--only", default="", help="sets, by comma, or behaviour")
    parser.add_argument("--contender", default="", help="names, by comma")
    parser.add_argument("--fresh", action="store_true", help="do not use what is kept")
    parser.add_argument("--million", action="store_true", help="rates over a million rows")
    return parser.parse_args(argv)


def run(quick: bool, data: Path | None) -> Study:
    """Run all sets, all contenders."""
    return study(options(["--quick"] if quick else ["--million"]), data)


def main(argv: list[str] | None = None) -> int:
    """Run, print, write reports/detection.txt, .json and -1.png."""
    args = options(argv)
    began = time.perf_counter(), time.process_time()
    made = study(args, harness.data_folder())
    seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    writing.show(made)
    writing.keep("detection", made, args.quick, *seconds)
    lines = [f"{caption}\n{harness.table(rows)}\n" for caption, rows in made.tables]
    (harness.REPORTS / "detection.txt").write_text("\n".join(lines), "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
