"""Scores of online learning: row by row as it goes, and against the best choice in hindsight."""

from __future__ import annotations

from onkel.evaluate.hindsight import Regret, regret
from onkel.evaluate.progress import Progress, alert_rate, coverage, progressive

__all__ = ["Progress", "Regret", "alert_rate", "coverage", "progressive", "regret"]
