"""Which rows are asked for: those whose answer would teach most, at a promised share."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.alerting import RecentScores
from onkel.bounds import ask_budget
from onkel.params import Accept
from onkel.saved import Saved

Array = NDArray[Any]

SHARE = Accept(
    low=0, low_open=True, high=1, high_open=True, none=True,
    hint="It is the share of the rows whose labels are asked for, for example 0.02.",
)  # fmt: skip
RECENT = 1000
"""A row's doubt is ranked among that of so many rows before it."""
LOT = 0.2
"""This share of the rows is judged by lot: a model that is wrong and sure is found by no doubt."""
STEP = 0.5
"""By this share of the promised one the level rises when a row is asked for."""

NOISE = 1e-12
"""A rank that the level meets but for rounding has reached it."""


@dataclass
class Asking:
    """Asks for a promised share of the rows, by their doubt, exactly for any stream.

    A row's doubt becomes a rank among the rows before it, and it is asked for if that reaches a
    level: ``level <- level + rate (asked - share)``. So
    ``asked = share * rows + (level_end - level_start) / rate``, whatever came; see
    :func:`onkel.bounds.ask_budget`.

    Parameters
    ----------
    share : float
        Promised.

    Examples
    --------
    >>> asking = Asking(0.1)
    >>> doubt = np.random.default_rng(0).uniform(size=5000)
    >>> int(asking.update(doubt, np.ones(5000, bool)).sum())
    501
    """

    share: float
    seen: int = 0
    asked: int = 0
    recent: RecentScores = field(default_factory=lambda: RecentScores(RECENT))

    def __post_init__(self) -> None:
        self.share = float(self.share)

    @property
    def rate(self) -> float:
        """By how much the level rises with a row that is asked for."""
        return STEP * self.share

    @property
    def start(self) -> float:
        """The level before the first row: right if ranks are even."""
        return 1.0 - self.share

    @property
    def level(self) -> float:
        """What a rank must reach; of the counts alone, so that no rounding adds up."""
        return self.start + self.rate * (self.asked - self.share * self.seen)

    def update(self, doubt: Array, known: Array) -> Array:
        """Return which of the next rows are asked for; where nothing is known, doubt is highest."""
        asked = np.zeros(len(doubt), bool)
        for i, rank in enumerate(self._ranks(doubt, known)):
            asked[i] = rank >= self.level - NOISE
            self.asked += bool(asked[i])
            self.seen += 1
        return asked

    def _ranks(self, doubt: Array, known: Array) -> list[float]:
        ranks = np.ones(len(doubt))
        ranks[known] = self.recent.update(doubt[known])
        lots = [drawn(self.seen + i) for i in range(len(doubt))]
        pairs = zip(lots, ranks.tolist(), strict=True)
        return [(chance / LOT) if chance < LOT else rank for chance, rank in pairs]

    def copy(self) -> Asking:
        """Return an independent copy."""
        return replace(self, recent=self.recent.copy())

    def report(self) -> dict[str, Any]:
        """Return what was promised, what happened, and the term between them."""
        told = ask_budget(
            trials=max(self.seen, 1), ask=self.share, ask_rate=self.rate, ask_start=self.start,
            ask_end=self.level,
        )  # fmt: skip
        realised = self.asked / self.seen if self.seen else None
        found = {"ask_promised": self.share, "ask_realised": realised, "asked": self.asked}
        term = (told.bound - told.details["promised"]) / self.seen if self.seen else None
        words = "Nothing was asked yet."
        if self.seen:
            words = (
                f"Promised to ask for {100 * self.share:.3g} % of the rows, asked for "
                f"{self.asked} of {self.seen}: {100 * self.share:.3g} % and "
                f"{told.bound - told.details['promised']:+.3g} rows, which is how far the level "
                f"moved; never more than {told.details['surplus']:.3g} too many."
            )
        return {**found, "ask_term": term, "ask_in_words": words}

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold."""
        return {"seen": self.seen, "asked": self.asked, "recent": self.recent.dump()}

    @classmethod
    def restored(cls, share: float, saved: Saved) -> Asking:
        """Return what a file holds."""
        seen = saved.whole("seen")
        asked = saved.whole("asked", high=seen)
        recent = RecentScores.restored(saved.inside("recent"))
        if recent.size != RECENT:
            raise saved.refuse("recent.size", f"must be {RECENT}")
        saved.finish()
        return cls(share, seen, asked, recent)


def drawn(number: int) -> float:
    """Return a number in [0, 1) that follows from a row's number alone, as a lot is drawn."""
    mixed = (number * 0x9E3779B97F4A7C15 + 0x7F4A7C15) & (2**64 - 1)
    return zlib.crc32(mixed.to_bytes(8, "little")) / 2**32
