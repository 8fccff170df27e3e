"""What came of predictions: counted when the label comes, against what was said at the time."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from onkel.saved import Saved


@dataclass
class Scores:
    """Counts over all rows whose labels have come."""

    answered: int = 0
    asked: int = 0
    """Of these, rows that had been asked for."""
    blind: int = 0
    """Of these, rows that were predicted before anything was known."""
    mistakes: int = 0
    absolute: float = 0.0
    squared: float = 0.0
    judged: int = 0
    """Rows that had an interval."""
    covered: int = 0
    """Rows whose targets lay in it."""
    rows: int = 0
    """Rows that came between a row and its label, summed up."""
    most_rows: int = 0
    timed: int = 0
    """Labels whose delay in time is known."""
    seconds: float = 0.0
    most_seconds: float = 0.0

    def wait(self, rows: int, seconds: float, asked: bool, blind: bool) -> None:
        """Count one label: how long it was waited for."""
        self.answered += 1
        self.asked += asked
        self.blind += blind
        self.rows += rows
        self.most_rows = max(self.most_rows, rows)
        if not math.isnan(seconds):
            self.timed += 1
            self.seconds += seconds
            self.most_seconds = max(self.most_seconds, seconds)

    def label(self, said: Any, label: Any) -> None:
        """Count one label against the one that was said; None is a mistake."""
        self.mistakes += said is None or bool(said != label)

    def number(self, said: list[float], target: list[float]) -> None:
        """Count one row's error, the mean over its targets; nothing said counts as 0."""
        errors = [abs((0.0 if m != m else m) - y) for m, y in zip(said, target, strict=True)]
        self.absolute += sum(errors) / len(errors)
        self.squared += sum(e * e for e in errors) / len(errors)

    def interval(self, low: list[float], high: list[float], target: list[float]) -> None:
        """Count whether all targets of a row lay in their intervals."""
        self.judged += 1
        self.covered += all(a <= y <= b for a, b, y in zip(low, high, target, strict=True))

    def report(self, task: str) -> dict[str, Any]:
        """Return rates and means, None where there is nothing to divide by."""
        found: dict[str, Any] = {"answered": self.answered, "answered_blind": self.blind}
        if task == "classification":
            found |= {
                "mistakes": self.mistakes,
                "mistake_rate": _over(self.mistakes, self.answered),
            }
        else:
            squared = _over(self.squared, self.answered)
            found |= {
                "mean_absolute_error": _over(self.absolute, self.answered),
                "root_mean_squared_error": None if squared is None else math.sqrt(squared),
                "coverage_realised": _over(self.covered, self.judged),
            }
        return found | {
            "delay_rows_mean": _over(self.rows, self.answered), "delay_rows_most": self.most_rows,
            "delay_seconds_mean": _over(self.seconds, self.timed),
            "delay_seconds_most": self.most_seconds if self.timed else None,
        }  # fmt: skip

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold."""
        return asdict(self)

    @classmethod
    def restored(cls, saved: Saved) -> Scores:
        """Return what a file holds."""
        found: dict[str, Any] = {
            f.name: saved.number(f.name, low=0.0) if f.type == "float" else saved.whole(f.name)
            for f in fields(cls)
        }
        saved.finish()
        return cls(**found)


def _over(part: float, whole: int) -> float | None:
    return part / whole if whole else None
