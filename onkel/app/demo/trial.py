"""What the demonstration measures: two models over one stream, row by row, and the verdict."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import Classifier, Detector
from onkel.streams import Fault, Plant
from onkel.streams.plant import DAY

Array = NDArray[Any]

NU = 0.01
DETECTOR_TERMS = 1300
"""A thousand readings, three hundred running means."""
TERMS = 11_000
"""Of the classifier: ten thousand readings that taught it something, and the last thousand."""
BLOCK = 500
CHANCE = 0.01
"""A fault counts as found if at most this share of usual stretches had as many alerts."""
FITTED = (
    "Both models have their defaults, nothing set but nu. The plant was made while looking at "
    "seeds 0 to 2, and some rows of seed 0 are among the data that the detector was studied on, "
    "so those flatter; seeds 0 to 5 find 12, 12, 12, "
    "12, 11 and 12 of 12 faults. Try another seed."
)
"""Said beside the result, wherever it is shown (at the default number of examples)."""


def detector() -> Detector:
    """Return the demonstration's detector: the defaults."""
    return Detector(nu=NU)


def classifier() -> Classifier:
    """Return the demonstration's classifier: the defaults."""
    return Classifier()


@dataclass(frozen=True)
class Run:
    """One model's way through the stream."""

    output: Array
    """What was said of each row, before it was learned."""
    rows: Array
    """Rows learned at the end of each block ..."""
    terms: Array
    """... and terms stored then."""
    seconds: float
    weights: Array
    """... and the weights of a self-tuning model's settings; else none."""
    report: dict[str, Any]
    """What the model says of itself at the end."""


def run(model: Any, rows: Array, labels: Array | None, output: str, progress: str = "") -> Run:
    """Let a model predict, then learn, every row in order."""
    parts, terms, weights, seconds = [], [], [], 0.0
    for start in range(0, len(rows), BLOCK):
        block = slice(start, start + BLOCK)
        args = (rows[block],) if labels is None else (rows[block], labels[block])
        began = time.perf_counter()
        parts.append(model.predict_then_learn(*args, output=output))
        seconds += time.perf_counter() - began
        terms.append(model.n_terms_)
        weights.append(getattr(model, "weights_", []))
        if progress:
            _show(progress, min(block.stop, len(rows)), len(rows))
    done = np.minimum(BLOCK * np.arange(1, len(terms) + 1), len(rows))
    return Run(
        np.concatenate(parts), done, np.array(terms), seconds, np.array(weights),
        model.diagnostics_,
    )  # fmt: skip


def _show(title: str, done: int, total: int) -> None:
    end = "\n" if done == total else ""
    sys.stderr.write(f"\r{title:<12}{done:>9,} of {total:,} examples{end}")
    sys.stderr.flush()


@dataclass(frozen=True)
class Verdict:
    """How a fault was judged."""

    fault: Fault
    alerts: int
    chance: float
    """Share of the usual stretches of this length that hold as many alerts, or more."""

    @property
    def found(self) -> bool:
        """Whether the alerts are more than chance gives."""
        return self.alerts > 0 and self.chance <= CHANCE


def judge(fault: Fault, alerts: Array, other: Array) -> Verdict:
    """Compare a fault's alerts with those in all usual stretches of the same length.

    `other` says which rows are not usual. Counting real stretches, not independent coin tosses,
    makes the comparison fair: alerts come in bursts, also where nothing is wrong.
    """
    length = fault.stop - fault.start
    counts = _sliding(alerts, length)[_sliding(other, length) == 0]
    here = int(alerts[fault.start : fault.stop].sum())
    return Verdict(fault, here, float(np.mean(counts >= here)) if len(counts) else 1.0)


def _sliding(mask: Array, length: int) -> Array:
    """Return how many are true in each stretch of `length` rows."""
    total = np.concatenate([[0], np.cumsum(mask)])
    counts: Array = total[length:] - total[:-length]
    return counts


@dataclass(frozen=True)
class Demonstration:
    """The stream, both runs, and what they amount to."""

    plant: Plant
    detection: Run
    tracking: Run

    @property
    def score(self) -> Array:
        """The score of each row, log p: how usual it looked."""
        score: Array = self.detection.output[:, 0]
        return score

    @property
    def threshold(self) -> Array:
        """The threshold before each row: the logarithm of the level."""
        level: Array = self.detection.output[:, 1]
        return level

    @property
    def alerts(self) -> Array:
        """Whether each row was an alert."""
        alert: Array = self.detection.output[:, 2] > 0
        return alert

    @property
    def warmup(self) -> int:
        """Rows before the first alert."""
        return detector().warmup_of(self.plant.X.shape[1])

    @property
    def settling(self) -> int:
        """Rows after a change of the plant in which alerts are right: a day, or a 60th of all."""
        return min(DAY, len(self.plant.X) // 60)

    @property
    def changed(self) -> Array:
        """Whether each row comes that soon after a change."""
        mask = np.zeros(len(self.plant.X), bool)
        for row in self.plant.changes:
            mask[row : row + self.settling] = True
        return mask

    @property
    def usual(self) -> Array:
        """Whether each row is one that the promise is about: no fault, no fresh change."""
        mask: Array = ~(self.plant.faulty | self.changed)
        mask[: self.warmup] = False
        return mask

    @property
    def mistakes(self) -> Array:
        """Whether the classifier was wrong about each row."""
        wrong: Array = self.tracking.output != self.plant.y
        return wrong

    @property
    def baseline(self) -> Array:
        """Whether "the same label as the last one" was wrong; the first row is given to it."""
        return np.concatenate([[False], self.plant.y[1:] != self.plant.y[:-1]])

    @property
    def verdicts(self) -> list[Verdict]:
        """One for each fault, in time order."""
        alerts, other = self.alerts, self.plant.faulty | self.changed
        return [judge(fault, alerts, other) for fault in self.plant.faults]

    @property
    def speed(self) -> float:
        """Examples per second, each judged by both models."""
        return len(self.plant.X) / (self.detection.seconds + self.tracking.seconds)

    def table(self) -> list[tuple[str, str, str]]:
        """Return the summary: what, how much, and a remark."""
        n = len(self.plant.X)
        return [
            ("Examples", f"{n:,}", f"{n / DAY:.3g} days of one reading a minute"),
            *self._alert_rows(),
            *self._mistake_rows(),
            *self._cost_rows(n),
        ]

    def _alert_rows(self) -> list[tuple[str, str, str]]:
        alerts, faulty, verdicts = self.alerts, self.plant.faulty, self.verdicts
        found, luck = sum(v.found for v in verdicts), CHANCE * len(verdicts)
        inside, fresh = alerts[faulty], int((alerts & self.changed & ~faulty).sum())
        return [
            ("  warm-up", f"{self.warmup:,}", "learned before the first alert is shown"),
            ("Alerts", f"{alerts.sum():,}", f"{inside.sum():,} inside faults, {self.fresh(fresh)}"),
            ("Alert rate promised", f"{NU:.2%}", "of usual readings, about"),
            ("Alert rate realised", f"{share(alerts[self.usual]):.2%}", "of those"),
            (
                "  of all readings",
                f"{alerts.mean():.2%}",
                f"{faulty.mean():.2%} of them are faulty",
            ),
            ("Faults found", f"{found} of {len(verdicts)}", f"chance alone: at most {luck:.2g}"),
            ("  their readings", f"{share(inside):.0%}", "raised an alert"),
        ]

    def fresh(self, alerts: int) -> str:
        """Return so many alerts after changes, in words."""
        return f"{alerts:,} within {self.settling / 60:.3g} hours after a change of the plant"

    def _mistake_rows(self) -> list[tuple[str, str, str]]:
        own, base = self.mistakes, self.baseline
        return [
            ("Mistakes", f"{own.sum():,}", f"{own.mean():.2%}"),
            (
                "  no-change baseline",
                f"{base.sum():,}",
                f"{base.mean():.2%}, repeats the last label",
            ),
        ]

    def _cost_rows(self, n: int) -> list[tuple[str, str, str]]:
        first, second = self.detection, self.tracking
        alone = f"detector {n / first.seconds:,.0f}, classifier {n / second.seconds:,.0f} alone"
        stored = f"{first.terms[-1] + second.terms[-1]:,}"
        split = f"detector {first.terms[-1]:,}, classifier {second.terms[-1]:,}"
        return [
            ("Terms stored", stored, f"{split}; at most {DETECTOR_TERMS:,} and {TERMS:,}"),
            ("Examples per second", f"{self.speed:,.0f}", f"both models; {alone}"),
        ]


def share(mask: Array) -> float:
    """Return which share is true; 0 of nothing."""
    return float(mask.mean()) if len(mask) else 0.0
