"""Alert hygiene: fewer, better alerts out of a detector's own.

Each is a pure function of whole arrays, and a small object that takes a stream in pieces and gives
the same whatever the pieces. The objects' fields, numbers and arrays, are all their state.

>>> import numpy as np
>>> alerts = np.array([0, 1, 1, 0, 1, 0, 0, 0, 0, 1], bool)
>>> cool_down(alerts, rows=3).astype(int)
array([0, 1, 0, 0, 0, 0, 0, 0, 0, 1])
>>> [(e.start, e.end, e.count) for e in episodes(alerts, -1.0 * alerts, gap=2)]
[(1, 4, 3), (9, 9, 1)]
"""

from onkel.alerting.grouping import Incidents, incidents
from onkel.alerting.hygiene import (
    CoolDown,
    Episode,
    Episodes,
    RecentScores,
    cool_down,
    episodes,
    ranks,
)
from onkel.alerting.incident import Event, Grouped, Incident

__all__ = [
    "CoolDown",
    "Episode",
    "Episodes",
    "Event",
    "Grouped",
    "Incident",
    "Incidents",
    "RecentScores",
    "cool_down",
    "episodes",
    "incidents",
    "ranks",
]
