"""A fleet behind ``--key``: detectors of many keys, judged and learned a block at a time.

What it is for the session is what :class:`~onkel.app.run.store.Models` is for single models: who
keeps the models, in memory and in the state's files.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from onkel import files
from onkel.app.errors import StateProblem, UsageProblem
from onkel.app.run.counting import Alerts, Finish, alert_ids
from onkel.app.run.settings import RunSettings
from onkel.app.run.store import OWN_KEY, WHOLE, Store, is_own
from onkel.estimators.packed import packed_of
from onkel.fleet import Fleet
from onkel.fleet.judging import FleetDetect
from onkel.inputs import RefusedRow
from onkel.judge import Columns, Rows
from onkel.streams.sources import Block, Schema

NOTE = "fleet"
"""What the state's note is called that says how models are kept."""
AT_ONCE = 4096


def is_fleet(settings: RunSettings, schema: Schema, lags: Any, plan: Any) -> bool:
    """Whether a fleet runs: detectors by key, of numbers alone, whose cells the core can hold."""
    if settings.task != "detect" or schema.at("key") is None or settings.explain == "all":
        return False
    if lags is not None or plan is not None:
        return False
    dtype = np.float32 if settings.precision == "single" else np.float64
    rows = np.zeros((1, len(schema.features)), dtype)
    return not isinstance(packed_of(settings.estimator(), rows), str)


def check_shared(settings: RunSettings, schema: Schema, fits: bool) -> None:
    """Refuse --share where keys cannot share."""
    if schema.at("key") is None:
        raise UsageProblem("--share: keys share what is usual; say which column they are: --key.")
    if not settings.tunes_itself:
        raise UsageProblem("--share goes with --model auto.")
    if settings.estimator().nu is None:
        raise UsageProblem(
            "--share promises an alert rate to keys that are new: give --nu 0.01 beside "
            "--precision, instead of --nu none."
        )
    if not fits:
        raise UsageProblem(
            "--share: keys can share what is usual of rows of numbers, without --lags, --season, "
            "--differences and --explain all; leave out other columns by --ignore."
        )


class Keyed:
    """The models of all keys, those in use in memory.

    Parameters
    ----------
    settings : RunSettings
        They tell what each key begins with.
    store : Store
        Where records go.
    memory : str
        Of the models, such as "2GB".
    folder : str, optional
        Where models that are idle wait.
    note : dict, optional
        What an earlier run has noted of its fleet.
    """

    def __init__(
        self, settings: RunSettings, store: Store, memory: str, folder: str | None,
        note: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        self.fleet = Fleet(settings.estimator(), share=settings.share, memory=memory, folder=folder)
        self.store = store
        if note is not None:
            self.fleet.open_as(note["form"])
            self._restore_shared()

    def _restore_shared(self) -> None:
        data = self.store.get(WHOLE)
        if data is not None:
            with self._damage():
                self.fleet.restore_shared(data)

    @contextmanager
    def _damage(self) -> Iterator[None]:
        """What cannot be read is told as damage of the state."""
        try:
            yield
        except ValueError as error:
            raise StateProblem(f"{self.store.folder} is damaged: {error}") from None

    def fetch(self, keys: list[str]) -> None:
        """Bring those of the keys to memory that only the store has."""
        if not self.store.places:
            return
        new = [k for k in dict.fromkeys(keys) if k not in self.fleet and not is_own(k)]
        away = [k for k in new if k in self.store.places]
        for start in range(0, len(away), AT_ONCE):
            part = away[start : start + AT_ONCE]
            records = [self.store.get(key) for key in part]
            with self._damage():
                self.fleet.restore(part, [r for r in records if r is not None])

    def flush(self) -> None:
        """Write every model that changed."""
        changed = self.fleet.changed()
        for start in range(0, len(changed), AT_ONCE):
            part = [str(key) for key in changed[start : start + AT_ONCE]]
            self.store.put_all(part, self.fleet.records(part))
        if changed and self.fleet.share:
            self.store.put_all([WHOLE], [self.fleet.shared()])

    def compact(self) -> None:
        """Write models anew that lie in old files, where most of what those hold is outdated."""
        used, there = self.store.sizes()
        if there > 4 * used + 2**20:
            left = [k for k in self.store.places if k not in self.store.changed]
            for start in range(0, len(left), AT_ONCE):
                part = left[start : start + AT_ONCE]
                held = [self.store.get(key) for key in part]
                self.store.put_all(part, [data for data in held if data is not None])

    def __len__(self) -> int:
        """Number of keys known."""
        known = self.store.places.keys() | {str(key) for key in self.fleet}
        return len(known) - sum(map(is_own, known))

    def newest(self) -> None:
        """No model stands for all."""
        return

    def note(self) -> dict[str, Any] | None:
        """Return what a restart must know; None before the first row."""
        form = self.fleet.form()
        if form is None:
            return None
        estimator = base64.b64encode(files.dumps(self.fleet.estimator)).decode("ascii")
        return {"form": form, "estimator": estimator, "share": self.fleet.share}


def model_of_record(note: dict[str, Any], record: bytes) -> Any:
    """Return the model that a fleet's record holds, an ordinary estimator."""
    estimator = files.loads(base64.b64decode(note["estimator"]))
    fleet = Fleet(estimator, share=note["share"])
    fleet.open_as(note["form"])
    fleet.restore([""], [record])
    return fleet[""]


class FleetAlerts(Alerts):
    """What the command counts of a block of many keys."""

    def __call__(self, model: Any, block: Block) -> Finish:
        """Judge and learn; what is returned counts."""
        assert block.keys is not None
        row = next((i for i, key in enumerate(block.keys) if is_own(key)), None)
        if row is not None:
            raise RefusedRow(f"Row {row}: {OWN_KEY}.", row)
        rows = self.seen(None, block)
        judge = FleetDetect(self.names, self.judge.rarity, self.judge.by_clock, self.judge.brief)
        found = judge(model.fleet, block.keys, rows)
        verdicts = found.verdicts
        shown = verdicts.age >= _warmup(model.fleet.estimator, rows)
        if model.fleet.share:
            shown[:] = True

        def finish() -> Columns:
            self.counters.warming += int(np.count_nonzero(~shown))
            columns = found.columns()
            p = columns.get("p", verdicts.rank)
            self.ranking.update(block.keys, p, verdicts.alert, block.X, found.usual)
            ids = alert_ids(verdicts.alert, verdicts.age, block.keys)
            far = far_of(block.X, verdicts.alert, found.usual)
            more = {"alert_id": ids, "far": far, "own": found.own}
            return {**self.counted(columns, block), **more, "shown": shown}

        return finish

    def rank(self, keys: list[str], columns: Columns) -> None:
        """Nothing: each piece of a block was, with what is usual for its keys."""


def far_of(X: Any, alert: Any, usual: Any) -> list[Any]:
    """Return how far the numbers of alerts lie from the means of their keys, in spreads."""
    far: list[Any] = [None] * len(alert)
    for i in np.flatnonzero(alert).tolist() if usual is not None else ():
        mean, variance = usual[i]
        with np.errstate(all="ignore"):
            z = (X[i] - mean) / np.sqrt(variance)
        far[i] = np.where(variance > 0, z, 0.0)
    return far


def _warmup(estimator: Any, rows: Rows) -> int:
    """Return after how many rows of its key a row may be an alert."""
    if hasattr(estimator, "warmup_of"):
        return int(estimator.warmup_of(rows.X.shape[1]))
    return int(estimator.warmup)
