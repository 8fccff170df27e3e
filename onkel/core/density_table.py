"""What a detector counts and measures: the table of its state, a part of that in ``layout.py``.

Imports the standard library only, as that one does, so that a build can load it.
"""

from __future__ import annotations

from enum import IntEnum


class Count(IntEnum):
    """Whole numbers in the state of a detector (``core/density.py``)."""

    T = 0
    """Rows learned."""
    DRAWS = 1
    """Random numbers drawn."""
    SIZE = 2
    LATE_SIZE = 3
    """Terms of the sample of rows and steps, and of that of late means."""
    LATE_SEEN = 4
    """Means that have been let in."""
    HELD_FIRST = 5
    HELD = 6
    """Where the ring of rows that raised an alert begins, and how many wait there."""
    HISTORY_AT = 7
    HISTORY = 8
    """Where the next joined score goes, and how many are remembered."""
    REFRESH = 9
    """The number of rows at which all views are settled anew."""
    FRESH = 10
    LATE_FRESH = 11
    """Terms put since the tails were fitted."""
    JUDGED = 12
    ALERTS = 13
    """Rows since the warm-up, and the alerts among them."""
    CALM = 14
    """Rows without an alert that followed one without."""
    ALARMED = 15
    """Whether the last row raised an alert."""


class Level(IntEnum):
    """Real numbers in the state of a detector."""

    SEEN = 0
    LATE_WEIGHT = 1
    """Weight let in so far: of rows, of late means."""
    ROW_MASS = 2
    STEP_MASS = 3
    LATE_MASS = 4
    """Weight that the running moments hold."""
    SMOOTH_MASS = 5
    """The same of the short running mean."""
    LOG_ALPHA = 6
    """The level: a row whose log p lies below it raises an alert."""
    FORGIVEN = 7
    UNSPENT = 8
    """What the lower and the upper limit of the level cut off, in units of log p."""
    RECENT = 9
    """The alert rate of the last thousand rows."""
    WIDTH = 10
    """Of four views: plain, turned, steps, late."""
    EDGE = 14
    SLOPE = 23
    """Of nine tails: plain, turned, turned and narrow, steps, late; four reaches."""
    START = 32
    """The level before the first row; of models that were added, all of their travel before now."""


LEVELS = 33
"""Numbers in all: four widths, and an edge and a slope for each of nine tails."""

# -- what judging rests on; metric.hpp, view.hpp and density.hpp have it as kReach, kTied, ... -----

LEAST_SPREAD = 1e-8
"""The least spread of a number, as a share of its size: less is rounding."""
REACH = 1e4
"""Most that a coordinate counts."""
FURTHEST = 1e6
"""The same for what answers look at: no value stands out by more spreads."""
TIED = 1 + 1e-5
"""Sums this close are the same."""
TAIL_SHARE, TAIL_LEAST = 0.05, 10
"""Of the terms: those beyond which the tail is fitted; at least so many."""
LAST_SHARE, LAST_LEAST = 0.02, 20
"""The same of the joined scores."""
KNOWN = 200
"""Joined scores that make a distribution of their own."""
GROSS = 2.3
"""Below the level by a factor of ten."""
LOUD = 40.0
"""A view's score beyond this is tempered."""
REACH_COST = 2.5
"""What a largest coordinate must be ahead by."""
TURN_COST = 3.0
"""What whitened rows must be ahead by where order does not matter."""
LARGEST = 1e75
"""Most that a number counts: its fourth power is finite."""
