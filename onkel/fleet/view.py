"""A fleet as a page shows it: keys in a table, and one key in detail."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from onkel.fleet.fleet import Fleet
from onkel.fleet.groups import Key
from onkel.fleet.ranking import Ranking

SCORES = 300
"""Latest scores of a key that are drawn."""
FEATURES = 50
"""Inputs of a key that are told."""


@dataclass
class FleetView:
    """What is shown of a fleet.

    Parameters
    ----------
    fleet : Fleet
    ranking : Ranking
        Of its keys.
    names : list of str, optional
        Of the features.
    """

    fleet: Fleet
    ranking: Ranking
    names: list[str] | None = None

    def table(
        self, by: str = "unusual", search: str = "", start: int = 0, count: int = 50
    ) -> dict[str, Any]:
        """Return some keys, those first that are highest, and the numbers of all."""
        rows = self.ranking.top(count, by, search, start)
        return {
            **self.ranking.summary(), "found": self.ranking.found(search), "start": start,
            "rows_told": [{**row, **_named(row["key"])} for row in rows],
        }  # fmt: skip

    def key(self, key: Key) -> dict[str, Any] | None:
        """Return all that is shown of one key; None if it is not known."""
        if key not in self.fleet:
            return None
        model = self.fleet[key]
        told = self.ranking.key(key) or {"key": key}
        if not model.__sklearn_is_fitted__():
            return {**told, "t": 0}
        found = model.diagnostics_
        names = ("t", "terms", "bytes", "rate_promised", "rate_realised", "rate_in_words")
        return {
            **told, **{name: found.get(name) for name in names},
            "warmup": int(model.warmup_), "shares": bool(self.fleet.share),
            "threshold": float(model.threshold_), "rarity": bool(model.tells_p),
            "scores": [_finite(v) for v in model.recent_.in_order()[-SCORES:].tolist()],
            "inputs": self._inputs(model),
        }  # fmt: skip

    def _inputs(self, model: Any) -> list[dict[str, Any]]:
        moments = model.moments_
        names = self.names or [f"x{j}" for j in range(len(moments.mean))]
        spread = moments.spread()
        rows = zip(names, moments.mean.tolist(), spread.tolist(), strict=False)
        return [{"feature": n, "mean": _finite(m), "spread": _finite(s)}
                for n, m, s in [*rows][:FEATURES]]  # fmt: skip


def _named(key: Key) -> dict[str, Any]:
    """Return a key as a text, and whether it is a number: a browser's have 53 bits."""
    return {"text": str(key), "whole": not isinstance(key, str)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def shares(view: FleetView, most: int = 10_000) -> dict[str, Any]:
    """Return the keys of a fleet for a report: up to `most`, in columns."""
    rows = view.ranking.top(most)
    columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
    return {**view.ranking.summary(), "columns": _rounded(columns)}


def _rounded(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {
        name: [float(f"{v:.3g}") if isinstance(v, float) else v for v in values]
        for name, values in columns.items()
    }
