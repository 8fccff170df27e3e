"""Anomalies in streams: onkel's detector beside every streaming peer that could be had.

Each contender sees a stream once, in order, raw, and says of every row how strange it is before it
learns it. The streams and their halves are described in detection_sets.py, the measures in
detection_measures.py, the peers in detection_peers.py and detection_others.py.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy loads

import argparse
import hashlib
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import onkel

if __package__:
    from . import detection_measures as measures
    from . import detection_sets as sets
    from . import harness, nab_score
    from .detection_peers import PEERS
    from .detection_sets import Stream
else:
    import detection_measures as measures
    import detection_sets as sets
    import harness
    import nab_score
    from detection_peers import PEERS
    from detection_sets import Stream

NU = 0.01
CACHE = harness.REPORTS / "detection"
Row = dict[str, Any]
Judged = tuple[np.ndarray, np.ndarray]
"""How strange each row is, and where there is an alert."""


# -- contenders ------------------------------------------------------------------------------------


def onkel_novelty(X: np.ndarray) -> Judged:
    """Return what onkel's NoveltyDetector says."""
    score = onkel.NoveltyDetector(nu=NU, n_jobs=1).predict_then_learn(X, output="score")
    alerts = onkel.NoveltyDetector(nu=NU, n_jobs=1).predict_then_learn(X) == -1
    return -np.asarray(score, float), np.asarray(alerts)


def peer(detect: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], Judged]:
    """Return a peer with alerts by its recent scores."""

    def judge(X: np.ndarray) -> Judged:
        score = np.nan_to_num(detect(X))
        return score, measures.recent_alerts(score, NU)

    return judge


CONTENDERS: dict[str, Callable[[np.ndarray], Judged]] = {
    **{name: peer(detect) for name, detect in PEERS.items()},
    "onkel: NoveltyDetector": onkel_novelty,
}


def judged(name: str, stream: Stream, fresh: bool) -> Row:
    """Return scores, alerts and seconds of a contender on a stream, from the cache if there."""
    digest = hashlib.sha256(stream.X.tobytes() + str(stream.X.shape).encode()).hexdigest()[:16]
    path = CACHE / name.replace(" ", "_").replace(":", "") / f"{stream.name}-{digest}.npz"
    if fresh or not path.exists():
        began = time.process_time()
        score, alerts = CONTENDERS[name](stream.X)
        seconds = time.process_time() - began
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, score=score, alerts=alerts, seconds=seconds)
    with np.load(path) as kept:
        return {key: kept[key] for key in kept.files}
