"""Models by key as a page shows them: keys in a table, and one key in detail."""

from __future__ import annotations

import math
from typing import Any

from onkel.fleet.fleet import Fleet
from onkel.fleet.groups import Key
from onkel.fleet.ranking import Ranking

SCORES = 300
"""Latest scores of a key that are drawn."""
FEATURES = 50
"""Inputs of a key that are told."""
SHOWN = {
    "novelty": ("unusual", "alerts", "drift", "rows"),
    "classification": ("share", "alerts", "rows"),
    "regression": ("share", "rows"),
}
"""What is told of each key, by task; keys come first that are worst by the first of it."""


class View:
    """What is shown of keys.

    Parameters
    ----------
    ranking : Ranking
        Of the keys.
    shown : tuple of str
        What is told of each, as `Ranking.top` knows it; they are sorted by the first.
    names : list of str, optional
        Of the features.
    """

    opens = False
    """Whether there is more to be seen of a key than its line in the table."""
    shares = False
    """Whether a key that is new starts from what is usual among all."""
    lasting = False
    """Whether the keys are those of the whole run; else those heard since the page began."""

    def __init__(
        self, ranking: Ranking, shown: tuple[str, ...], names: list[str] | None = None
    ) -> None:  # fmt: skip
        self.ranking, self.shown, self.names = ranking, shown, names

    def model(self, key: Key) -> Any | None:
        """Return the detector of a key; None if it is not known."""
        return None

    def table(
        self, by: str = "", search: str = "", start: int = 0, count: int = 50
    ) -> dict[str, Any]:
        """Return some keys, those first that are highest, and the numbers of all."""
        rows = self.ranking.top(count, by or self.shown[0], search, start)
        return {
            **self.ranking.summary(), "found": self.ranking.found(search), "start": start,
            "shown": self.shown, "opens": self.opens, "lasting": self.lasting,
            "rows_told": [{**row, **_named(row["key"])} for row in rows],
        }  # fmt: skip

    def key(self, key: Key) -> dict[str, Any] | None:
        """Return all that is shown of one key; None if it is not known."""
        model = self.model(key) if self.opens else None
        if model is None:
            return None
        told = self.ranking.key(key) or {"key": key}
        if not model.__sklearn_is_fitted__():
            return {**told, "t": 0}
        found = model.diagnostics_
        names = ("t", "terms", "bytes", "rate_promised", "rate_realised", "rate_in_words")
        return {
            **told, **{name: found.get(name) for name in names},
            "warmup": int(model.warmup_), "shares": self.shares,
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


class FleetView(View):
    """What is shown of a fleet.

    Parameters
    ----------
    fleet : Fleet
    ranking : Ranking
        Of its keys.
    names : list of str, optional
        Of the features.
    """

    def __init__(self, fleet: Fleet, ranking: Ranking, names: list[str] | None = None) -> None:
        super().__init__(ranking, SHOWN[fleet.task], names)
        self.fleet = fleet
        self.opens, self.shares = fleet.task == "novelty", bool(fleet.share)

    def model(self, key: Key) -> Any | None:
        """Return the detector of a key; None if it is not known."""
        with self.fleet.still():  # else it may be forgotten in between
            return self.fleet[key] if key in self.fleet else None  # noqa: SIM401 (it is no dict)


def _named(key: Key) -> dict[str, Any]:
    """Return a key as a text, and whether it is a number: a browser's have 53 bits."""
    return {"text": str(key), "whole": not isinstance(key, str)}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def columns_of(view: View, most: int = 10_000) -> dict[str, Any]:
    """Return the keys of a view for a report: up to `most`, in columns."""
    rows = view.ranking.top(most, view.shown[0])
    columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
    return {**view.ranking.summary(), "columns": _rounded(columns)}


def _rounded(columns: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {
        name: [float(f"{v:.6g}") if isinstance(v, float) else v for v in values]
        for name, values in columns.items()
    }
