"""From the models to the live page: numbers, and alerts with their reasons.

Why a row raised an alert is said by the model as it was just before it learned that row.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.app.live.board import PERIOD, REVISED, Block, Board
from onkel.app.run.incidents import Happened
from onkel.app.service import feedback, tables
from onkel.app.service.bodies import Entry, names_bytes
from onkel.app.service.incidents import places_of
from onkel.app.service.slots import Slot
from onkel.fleet import Fleet
from onkel.fleet.ranking import Ranking
from onkel.fleet.view import FleetView
from onkel.judge import UNKNOWN, Marks

Array = NDArray[Any]
Known = dict[str, Any]
"""Of each row its alert's id and incident, where there are such."""

SHARE = 0.02
"""Of the time, at most, that goes into numbers for the page."""


class Budget:
    """Lets something be done again when its cost is a small share of the time.

    What the first time costs is not counted: much of that is loading.

    Examples
    --------
    >>> budget = Budget(least=1.0)
    >>> budget.due(5.0), budget.spent(5.0, 0.5), budget.due(5.5), budget.due(6.0)
    (True, None, False, True)
    >>> budget.spent(6.0, 0.5), budget.due(7.0), budget.due(31.0)
    (None, False, True)
    """

    def __init__(self, least: float) -> None:
        self.least = least
        self._next = self._times = 0.0

    def due(self, now: float) -> bool:
        """Whether it may be done now."""
        return now >= self._next

    def spent(self, now: float, seconds: float) -> None:
        """Note what it cost."""
        self._next = now + max(self.least, seconds / SHARE if self._times else 0.0)
        self._times += 1


class Watched:
    """What the page needs to remember of one model."""

    def __init__(self, names: list[str] | None) -> None:
        self.names = names_bytes(names)
        """They count as the model's, for which there is a limit."""
        self.numbers = Budget(PERIOD)
        self.behind = False
        """Whether rows came since numbers were asked for."""
        self.ranking: Ranking | None = None
        """Of a model with keys: how they are doing, since the service started."""
        self.view: FleetView | None = None


class Watch:
    """Tells a board what the models of a service do."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.trouble = ""
        """The last thing that went wrong; a page is no reason to stop learning."""
        self._watched: dict[int, Watched] = {}
        self._ending = threading.Lock()  # nothing is shown of a model between its end and after

    def begin(self, slot: Slot) -> None:
        """Show a model."""
        watched = self._watched[slot.spec.id] = Watched(slot.spec.features)
        slot.bytes = watched.names
        self.board.begin(slot.spec.name, slot.estimator.task)
        self._incidents(slot)
        if isinstance(slot.estimator, Fleet):
            watched.ranking = Ranking()
            watched.view = FleetView(slot.estimator, watched.ranking, slot.spec.features)
            self.board.show_keys(slot.spec.name, watched.view)
        if slot.estimator.__sklearn_is_fitted__():
            numbers = self._numbers(slot, watched, slot.estimator.diagnostics_) | _counted(slot)
            self.board.publish(slot.spec.name, Block(slot.estimator.task, 0, numbers=numbers))

    def end(self, slot: Slot) -> None:
        """Show a model no longer."""
        self._watched.pop(slot.spec.id, None)
        with self._ending:
            self.board.forget(slot.spec.name)

    def _show(self, slot: Slot, call: Callable[..., None], *told: Any) -> None:
        """Tell the board of a model, unless it has ended: another may have its name by now."""
        with self._ending:
            if not slot.gone and not slot.failed:
                call(slot.spec.name, *told)

    def forgot(self, slot: Slot, keys: list[Any]) -> None:
        """Show keys no longer."""
        watched = self._watched.get(slot.spec.id)
        if watched is not None and watched.ranking is not None:
            watched.ranking.drop(keys)

    def learned(
        self, slot: Slot, entry: Entry, rows: Any, judged: Marks, learned: int, ids: Any = None,
        happened: Happened | None = None,
    ) -> None:  # fmt: skip
        """Note what a call brought; called while no other is at the model.

        So many rows were learned: others have no weight. `ids` are those of alerts that can be
        answered; what happened to incidents is theirs.
        """
        if happened is not None and (happened.events or happened.before):
            self._incidents(slot)
        if entry.op == "forget":
            self.forgot(slot, entry.keys or [])
            return
        if entry.op != feedback.OP:
            slot.heard = time.monotonic()
        slot.examples += learned
        slot.alerts += 0 if judged.mark is None else int(np.count_nonzero(judged.mark))
        watched = self._watched.get(slot.spec.id)
        if watched is None or slot.gone or not slot.estimator.__sklearn_is_fitted__():
            return
        try:
            if entry.op == feedback.OP:
                self._answered(slot, watched, entry)
            else:
                numbers = None if happened is None else happened.columns.get("incident")
                known = {"id": ids, "incident": numbers}
                self._publish(slot, watched, entry, rows, judged, known)
                events = [] if happened is None else happened.events
                told = [event.incident for event in events]
                joined = {one.number: one.into for one in told if one.into is not None}
                if joined:
                    self._show(slot, self.board.join, joined)
        except Exception as error:
            self.trouble = f"{type(error).__name__}: {error}"

    def catch_up(self, slots: Iterable[Slot]) -> None:
        """Have the numbers of models that have become quiet asked for once more."""
        now = time.monotonic()
        for slot in slots:
            watched = self._watched.get(slot.spec.id)
            if watched is None or not watched.behind or slot.waiting:
                continue
            if watched.numbers.due(now):
                watched.behind = False
                slot.ask(partial(self._refresh, slot, watched))

    def _refresh(self, slot: Slot, watched: Watched) -> None:
        if slot.gone or slot.failed:
            return
        try:
            found = self._asked(slot, watched) | _counted(slot)
            block = Block(slot.estimator.task, 0, numbers=found)
            self._show(slot, self.board.publish, block)
        except Exception as error:
            self.trouble = f"{type(error).__name__}: {error}"

    def _asked(self, slot: Slot, watched: Watched) -> dict[str, Any]:
        """Return a model's numbers as they are now, and note what that cost."""
        began = time.monotonic()
        found = self._numbers(slot, watched, slot.estimator.diagnostics_)
        watched.numbers.spent(began, time.monotonic() - began)
        watched.behind = False
        return found

    def _incidents(self, slot: Slot) -> None:
        """Show the newest incidents of a detector."""
        if slot.incidents is None or slot.gone:
            return
        try:
            self._show(slot, self.board.show_incidents, slot.incidents.known())
        except Exception as error:
            self.trouble = f"{type(error).__name__}: {error}"

    def _answered(self, slot: Slot, watched: Watched, entry: Entry) -> None:
        """Show what alerts were said to be."""
        ids, answers = entry.alerts or [], entry.answers or []
        keys: list[Any] = [*entry.keys] if entry.keys else [None] * len(ids)
        for key, id, answer in zip(keys, ids, answers, strict=True):
            self._show(slot, self.board.answer, str(int(id)), answer, key)
        if watched.ranking is None:
            numbers = self._numbers(slot, watched, slot.estimator.diagnostics_)
            block = Block(slot.estimator.task, 0, numbers=numbers)
            self._show(slot, self.board.publish, block)

    def _publish(
        self, slot: Slot, watched: Watched, entry: Entry, rows: Any, judged: Marks, known: Known
    ) -> None:  # fmt: skip
        est = slot.estimator
        X, names = tables.drawn(rows, slot.spec.features)
        if watched.ranking is not None:
            self._publish_keys(slot, watched, entry, X, names, judged, known)
            return
        numbers: dict[str, Any] = {"t": est.t_, "terms": est.n_terms_, **_kind(est)}
        if slot.weights:
            numbers["weights"] = est.weights_.round(3).tolist()
        watched.behind = True
        if watched.numbers.due(time.monotonic()):
            numbers = self._asked(slot, watched)
        numbers |= _counted(slot)
        block = Block(
            est.task, len(rows), judged.value, judged.limit, judged.mark, X, names, numbers,
            _seconds(entry),
        )  # fmt: skip
        self._show(slot, self.board.publish, block)
        if est.task == "novelty" and judged.mark is not None and judged.mark.any():
            self._alerts(slot, judged, places_of(entry, est), known)

    def _publish_keys(
        self, slot: Slot, watched: Watched, entry: Entry, X: Any, names: Any, judged: Marks,
        known: Known,
    ) -> None:  # fmt: skip
        """Show what came of rows of a model with keys."""
        fleet, keys = slot.estimator, entry.keys or []
        assert watched.ranking is not None and watched.view is not None
        watched.view.fleet = fleet  # another one, where it was made anew from the disk
        numbers: dict[str, Any] = {"t": fleet.t_, "keys": len(fleet), **_kind(fleet.estimator)}
        watched.behind = True
        if watched.numbers.due(time.monotonic()):
            numbers |= self._asked(slot, watched)
        numbers |= _counted(slot)
        block = Block(
            fleet.task, len(keys), judged.value, judged.limit, judged.mark, X, names, numbers,
            _seconds(entry),
        )  # fmt: skip
        self._show(slot, self.board.publish, block)
        none = np.zeros(len(keys), bool)
        if fleet.task != "novelty" or judged.value is None:
            mark = none if judged.mark is None else judged.mark
            watched.ranking.update(keys, np.full(len(keys), np.nan), mark)
            return
        assert judged.limit is not None and judged.mark is not None
        rare = np.full(len(keys), np.nan) if judged.rare is None else judged.rare
        watched.ranking.update(keys, rare, judged.mark, X, judged.usual)
        why = {} if judged.why is None or not judged.mark.any() else judged.why()
        told = _told(judged, places_of(entry, fleet), known)
        for alert, at in told:
            alert |= {"key": str(keys[at]), "whole": not isinstance(keys[at], str)}
            alert["sentence"] = why.get(at, UNKNOWN)
        self._show(slot, self.board.tell, [alert for alert, _ in told])

    def _numbers(self, slot: Slot, watched: Watched, report: dict[str, Any]) -> dict[str, Any]:
        tally = tables.tally_bytes(slot.estimator.tally_)
        model = slot.estimator.estimator if watched.ranking is not None else slot.estimator
        slot.bytes = int(report["bytes"]) + watched.names + tally
        realised, promised = report.get("rate_realised"), report.get("rate_promised")
        if isinstance(realised, list):
            realised = float(np.mean(realised))
        if report["mistakes"] is not None:
            promised, realised = None, report["mistakes"] / max(report["t"], 1)
        slot.promised, slot.realised = promised, realised
        return {
            "t": report["t"], "terms": report["terms"], "promised": promised,
            "realised": realised, "mistakes": report["mistakes"], "bytes": report["bytes"],
            "words": report.get("rate_in_words"), **_kind(model),
            **{name: report[name] for name in ("keys",) if name in report},
            **self._members(slot, report), **feedback.told(report),
        }  # fmt: skip

    def _members(self, slot: Slot, report: dict[str, Any]) -> dict[str, Any]:
        """Return the members of a self-tuning model and their weights, and who leads in words."""
        if "names" not in report:
            return {}
        slot.weights = dict(zip(report["names"], report["weights"], strict=True))
        weights = [round(w, 3) for w in report["weights"]]
        return {"members": report["names"], "weights": weights, "leads": report["in_words"]}

    # -- reasons -------------------------------------------------------------------------------

    def _alerts(self, slot: Slot, judged: Marks, before: Array, known: Known) -> None:
        """Show the latest alerts of the block, each with its reason."""
        try:
            why = {} if judged.why is None else judged.why()
        except Exception as error:
            self.trouble, why = f"{type(error).__name__}: {error}", {}
        told = _told(judged, before, known)
        for alert, at in told:
            alert |= _reason(why.get(at, UNKNOWN))
        self._show(slot, self.board.tell, [alert for alert, _ in told])


def _of(known: Known, at: int) -> dict[str, Any]:
    """Return the id of a row's alert, where it can be answered, and its incident."""
    return {name: v[at] for name, v in known.items() if v is not None and v[at] is not None}


def _seconds(entry: Entry) -> Any:
    """Return the times that rows have brought: numbers, since a model has taken them."""
    return None if entry.time is None else np.atleast_1d(np.asarray(entry.time, float))


def _counted(slot: Slot) -> dict[str, int]:
    """Return how many incidents of a detector there were, and how many are open."""
    own = slot.incidents
    return {} if own is None else {"incidents": own.so_far, "incidents_open": own.open}


def _told(judged: Marks, before: Array, known: Known) -> list[tuple[dict[str, Any], int]]:
    """Return the latest alerts of a call, without reasons, and their places in it.

    `before`: how many rows were learned before each row.
    """
    assert judged.value is not None and judged.limit is not None and judged.mark is not None
    return [
        (
            {
                "t": int(before[at]) + 1, "score": float(judged.value[at]),
                "threshold": float(judged.limit[at]), "sentence": None, "features": [],
                **_of(known, at),
            },
            at,
        )
        for at in np.flatnonzero(judged.mark)[-REVISED:].tolist()
    ]  # fmt: skip


def _kind(model: Any) -> dict[str, Any]:
    """Return whether scores are log p, and when a detector begins to alert."""
    return {
        "rarity": getattr(model, "tells_p", False), "warmup": getattr(model, "warmup_", None),
    }  # fmt: skip


def _reason(why: Any) -> dict[str, Any]:
    """Return an alert's reason as the page shows it: a few words, or an explanation."""
    if isinstance(why, str):
        return {"sentence": why, "features": []}
    features = [
        {"name": f.name, "value": f.value, "usual": f.usual, "effect": f.effect}
        for f in why.named[:3]
    ]
    return {"sentence": why.sentence, "features": features}
