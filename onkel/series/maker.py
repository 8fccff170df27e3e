"""Wider rows out of a series: its state, and one block after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.inputs import RefusedRow
from onkel.saved import Saved
from onkel.series.forecast import Forecast
from onkel.series.season import Seasons, names_of
from onkel.series.window import Line, Looks, Running

Array = NDArray[Any]


@dataclass(frozen=True)
class Plan:
    """What is made of each row."""

    looks: Looks
    seasons: tuple[Any, ...]

    def names(self, columns: list[str]) -> list[str]:
        """Return the names of what comes out, for the names of what comes in."""
        residuals = [f"{name} residual" for name in columns] * (self.looks.forecast > 0)
        return [*self.looks.names(columns), *residuals, *names_of(self.seasons)]


class Maker:
    """The state of a series.

    Parameters
    ----------
    plan : Plan
        What is made of each row.
    columns : int
        Of the rows that come.
    """

    def __init__(self, plan: Plan, columns: int) -> None:
        self.plan, self.columns = plan, columns
        self.last = np.full(columns, np.nan)
        """The last value of each column that was known."""
        self.before = np.zeros((0, columns))
        """The last rows; none before the first whole one."""
        self.seasons = Seasons(plan.seasons, columns)
        self.spread, self.steps = Running(columns), Running(columns)
        self.forecast = Forecast() if plan.looks.forecast else None

    def take(self, rows: Array, times: Array | None) -> Array:
        """Return the rows, wider, and take them in: all of them, or none if one is refused."""
        if len(rows) <= self.seasons.next_cut():
            return self._take_all(rows, times)
        made = self.copy()  # of several pieces a later one may be refused
        found = made._take_all(rows, times)
        self.__dict__.update(made.__dict__)
        return found

    def _take_all(self, rows: Array, times: Array | None) -> Array:
        whole = self._filled(rows)
        found = np.full((len(rows), len(self.plan.names([""] * self.columns))), np.nan)
        at = 0 if len(self.before) else int(np.isnan(whole).any(axis=1).sum())
        while at < len(rows):
            part = slice(at, min(at + self.seasons.next_cut(), len(rows)))
            try:
                found[part] = self._take(whole[part], None if times is None else times[part])
            except RefusedRow as error:
                raise RefusedRow(f"The forecast: {error}", at + error.row) from None
            at = part.stop
        if len(rows):
            self.last = whole[-1].copy()
        return found

    def _filled(self, rows: Array) -> Array:
        """Return rows whose gaps hold the last value known; NaN where there was none yet."""
        if not np.isnan(rows).any():
            return rows
        line = np.concatenate([self.last[None], rows])
        places = np.where(np.isnan(line), 0, np.arange(len(line))[:, None])
        return np.take_along_axis(line, np.maximum.accumulate(places, axis=0), axis=0)[1:]

    def _take(self, rows: Array, times: Array | None) -> Array:
        """Return rows without gaps, wider, between two looks for a period; take them in."""
        reach = self.plan.looks.reach
        before = self.before if len(self.before) else np.repeat(rows[:1], reach, axis=0)
        line, points = Line(before, rows), self.seasons.points(len(rows), times)
        residuals = self._residuals(line, points)  # first: it alone could refuse
        shown = self._shown(line)
        self.seasons.add(rows, times)
        self.before = line.values[len(rows) :].copy()
        return np.concatenate([*shown, *residuals, points], axis=1)

    def _residuals(self, line: Line, points: Array) -> list[Array]:
        if self.forecast is None:
            return []
        known = [line.lag(j) for j in range(1, self.plan.looks.forecast + 1)]
        return [self.forecast.residuals(np.concatenate([*known, points], axis=1), line.lag(0))]

    def _shown(self, line: Line) -> list[Array]:
        """Return what is made of the last values, in the order of the names."""
        looks = self.plan.looks
        parts = [line.lag(j) for j in range(looks.lags + 1)]
        if looks.shape:
            parts.append(line.shape(looks.shape, self.spread))
        if looks.differences:
            parts.append(line.lag(0) - line.lag(1))
        if looks.roughness:
            parts.append(line.roughness(looks.roughness, self.steps))
        return parts

    # -- copies and files ----------------------------------------------------------------------

    def copy(self) -> Maker:
        """Return an independent copy."""
        other = object.__new__(Maker)
        other.__dict__.update(self.__dict__)
        for name in ("seasons", "spread", "steps"):
            setattr(other, name, getattr(self, name).copy())
        other.forecast = None if self.forecast is None else self.forecast.copy()
        return other

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold."""
        known = ~np.isnan(self.last)
        found: dict[str, Any] = {"last": np.where(known, self.last, 0.0), "known": known}
        if not len(self.before):
            return found
        found |= {"before": self.before.copy(), "seasons": self.seasons.dump()}
        found |= {"spread": self.spread.dump(), "steps": self.steps.dump()}
        return found | ({} if self.forecast is None else {"forecast": self.forecast.dump()})

    @classmethod
    def restored(cls, plan: Plan, saved: Saved) -> Maker:
        """Return what a file holds."""
        last = saved.array("last", (None,), np.float64)
        maker = cls(plan, len(last))
        known = saved.array("known", (len(last),), np.bool_)
        maker.last = np.where(known, last, np.nan)
        if saved.peek("before") is not None:
            maker._restore(saved)
        saved.finish()
        return maker

    def _restore(self, saved: Saved) -> None:
        looks = self.plan.looks
        self.before = saved.array("before", (looks.reach, self.columns), np.float64)
        if np.isnan(self.last).any():
            raise saved.refuse("known", "must be all columns, once there are rows")
        self.seasons.restore(saved.inside("seasons"))
        self.spread.restore(saved.inside("spread"))
        self.steps.restore(saved.inside("steps"))
        if self.forecast is not None:
            inputs = looks.forecast * self.columns + 2 * len(self.plan.seasons)
            self.forecast.restore(saved.inside("forecast"), inputs, self.columns)
