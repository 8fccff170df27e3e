"""Comparing two learners: how far apart they may be, and what a case is called."""

from __future__ import annotations

import numpy as np


def name_of(case):
    return "-".join(str(v) for v in case.values())


def close(ours, theirs, tolerance, what):
    ours, theirs = np.asarray(ours, float), np.asarray(theirs, float)
    size = max(1.0, float(np.max(np.abs(theirs), initial=0.0)))
    worst = float(np.max(np.abs(ours - theirs), initial=0.0)) / size
    assert worst <= tolerance, f"{what}: off by {worst:.2e} of {size:.3g}"
