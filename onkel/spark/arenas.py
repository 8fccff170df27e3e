"""The models of a group of keys in one fleet, and their state as a few pages that changed.

A key's own entry in Spark's store would cost two calls a batch, each dearer than learning its rows.
So a group's models are one fleet, which learns the rows of all keys in one call, and its state is a
log of pages (:mod:`onkel.spark.pages`): a batch appends the records that it has changed as a new
page, and reads nothing where the worker still holds the group. Three rules keep the log short:

- a page of which nothing is in use is removed;
- one that is in use by less than half is *taken up*: the keys that are left in it are written once
  more, with those that changed. So no record is written more than twice for each change;
- one that is no larger than what is written anyway is taken up, too, as long as both make one page.
  So small pages become one large one, as the digits of a counter carry over.

The value state ``arena`` names the pages, says how the fleet keeps its models, and has a *stamp*, a
digest of all that was ever written. A worker keeps the groups that it used last, and uses one only
if its stamp is the store's: a batch that is done again, or by another worker, reads what was
committed. Of a group that is not at hand, the pages with keys of the batch are read, not the rest.

A key that is idle is dropped by the time of its last use, when its group is next used. Spark itself
forgets pages after twice that time, so that those of groups without any rows go as well; what is
still in use in a page older than the limit is taken up.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import types

from onkel import files
from onkel.fleet import Fleet
from onkel.judge import named
from onkel.spark.models import SHARE, WHOLE, patch, patched
from onkel.spark.pages import LAYOUT, Directory, Key, Page, Pages, check_version

Array = NDArray[Any]

PAGE = 256 * 1024
"""Bytes of a page, about."""
_OBJECTS = 512  # what a key costs beside its record
_INT, _LONG, _TEXT = types.IntegerType(), types.LongType(), types.StringType()
ARENA = {
    "layout": _INT, "format": _INT, "groups": _INT, "model": _TEXT, "form": _TEXT,
    "stamp": types.BinaryType(), "pages": types.ArrayType(_LONG),
}  # fmt: skip
"""The columns of the state ``arena``."""


@dataclass(frozen=True)
class Blank:
    """What a new key begins with, and how a fleet keeps such models."""

    estimator: Any
    """Which has learned nothing."""
    form: dict[str, Any]
    record: bytes
    """Of a model that has learned already; else nothing."""
    seed: bytes
    """The stamp of a group that has no pages yet."""

    def fleet(self, form: dict[str, Any] | None = None) -> Fleet:
        """Return an empty fleet of such models."""
        found = Fleet(self.estimator)
        found.open_as(self.form if form is None else form)
        return found


def blank_of(model: Any, features: int, names: list[str] | None) -> Blank | None:
    """Return how models like this one, on so many numbers, are kept together; None: they are not.

    Examples
    --------
    >>> from onkel import Classifier, Detector
    >>> blank = blank_of(Detector(), 2, None)  # None without the compiled core
    >>> blank is None or blank.form["kept"] == "cells", blank_of(Classifier(), 2, None) is None
    (True, True)
    """
    if not hasattr(model, "get_params"):
        return None
    fresh = type(model)(**model.get_params(deep=False))
    fleet = Fleet(fresh)
    try:
        if model.__sklearn_is_fitted__():
            fleet[0] = model
        else:
            fleet.open_for(named(fresh, np.zeros((1, features)), names))
    except ValueError:  # it has learned what cells do not hold, or rows of another width
        return None
    form = fleet.form()
    if form is None or form["kept"] != "cells" or form["features"] != features:
        return None
    begun = fleet.records([0])[0] if 0 in fleet else b""
    return Blank(fresh, form, begun, hashlib.blake2b(files.dumps(model)).digest()[:16])


@dataclass
class Store:
    """The states of a group, and what the query is asked to do with them."""

    arena: Any
    """pyspark ValueState."""
    pages: Pages
    groups: int
    idle: int | None = None
    """Milliseconds after which a key is forgotten."""


class Arena:
    """One group of keys.

    Parameters
    ----------
    blank : Blank
    row : tuple, optional
        Of the state ``arena``; None for a group that is new.
    """

    def __init__(self, blank: Blank, row: Any = None) -> None:
        self.blank, self.stamp = blank, blank.seed if row is None else bytes(row[5])
        self.fleet = blank.fleet(None if row is None else json.loads(row[4]))
        self.directory = Directory()
        self.listed: list[int] = [] if row is None else [*row[6]]
        """Pages that the store has; those that were read stand in `pages`."""
        self.bases: dict[int, bytes] = {}
        """The last whole records of large models, where those are in the fleet."""
        self.pages: dict[int, Page] = {}

    @property
    def digest(self) -> bytes:
        """By which a worker knows whether it is the present one."""
        return self.stamp

    def size(self) -> int:
        """Bytes of memory, about."""
        held = self.directory.entries
        records = int(held["size"][held["here"]].sum())
        return records + sum(map(len, self.bases.values())) + _OBJECTS * len(held)

    @property
    def entries(self) -> Array:
        """Counters and places, by number."""
        return self.directory.entries

    # -- from the store ----------------------------------------------------------------------------

    def read(self, store: Store) -> None:
        """Learn from the store which keys there are, and where."""
        for number in sorted(self.listed):
            page = store.pages.enter(number, self.directory)
            if page is not None:
                self.pages[number] = page
            elif store.idle is None:
                raise ValueError(
                    f"keyed: the state of a group of keys is damaged: page {number} is not there."
                )

    def take(self, keys: list[Key], store: Store, now: int) -> Array:
        """Return the numbers of keys; their models are in the fleet then."""
        if store.idle is not None:
            self._forget(self.directory.idle(now, store.idle))
        numbers = np.array([self.directory.enter(key) for key in keys], np.int64)
        self.fetch(numbers, store)
        self.entries["used"][numbers] = now
        return numbers

    def _forget(self, numbers: Array) -> None:
        for number in numbers[self.entries["here"][numbers]].tolist():
            self.fleet.drop(number)
            self.bases.pop(number, None)
        self.directory.forget(numbers)

    def fetch(self, numbers: Array, store: Store) -> None:
        """Let the models of keys be in the fleet."""
        away = numbers[~self.entries["here"][numbers]]
        if not len(away):
            return
        held = self.entries[away]
        wanted = np.unique(np.concatenate([held["page"], held["change"]]))
        data = {p: store.pages.read(p, self.pages[p]) for p in wanted[wanted >= 0].tolist()}
        rows = zip(away.tolist(), held, strict=True)
        self.fleet.restore(away, [self._record(number, row, data) for number, row in rows])
        self.entries["here"][away] = True

    def _record(self, number: int, row: Any, data: dict[int, bytes]) -> bytes:
        page, at, size = int(row["page"]), int(row["at"]), int(row["size"])
        if page < 0:
            return self.blank.record
        whole = data[page][at : at + size]
        if size > WHOLE:
            self.bases[number] = whole
        if row["change"] < 0:
            return whole
        at, size = int(row["change_at"]), int(row["change_size"])
        return patched(whole, data[int(row["change"])][at : at + size])

    # -- to the store ------------------------------------------------------------------------------

    def write(self, numbers: Array, store: Store, now: int) -> None:
        """Write the models of keys that have changed, and what is known of them."""
        self._leave(numbers)
        parts, whole = self._parts(numbers)
        more = np.setdiff1d(self._taken_up(sum(map(len, parts)), store, now), numbers)
        bare = np.flatnonzero(~whole & (self.entries["page"][numbers] < 0))  # their bases went
        for i, part in zip(bare.tolist(), self._parts(numbers[bare])[0], strict=True):
            parts[i], whole[i] = part, True
        others, whole_too = self._parts(more)
        numbers, parts = np.concatenate([numbers, more]), parts + others
        whole = np.concatenate([whole, whole_too])
        lengths = np.cumsum([len(part) for part in parts])
        cuts = np.flatnonzero(np.diff(lengths // PAGE)) + 1
        stamp = hashlib.blake2b(self.stamp, digest_size=16)
        for at in np.split(np.arange(len(numbers)), cuts):
            page = max(self.listed, default=-1) + 1
            self.listed.append(page)
            self.pages[page] = store.pages.write(
                page, numbers[at], self.directory, [parts[i] for i in at.tolist()], whole[at], now
            )
            stamp.update(self.pages[page].digest + self.entries[numbers[at]].tobytes())
            stamp.update(repr([self.directory.names[n] for n in numbers[at].tolist()]).encode())
        self.stamp = stamp.digest()
        self._remove(store)
        store.arena.update(self._row(store))

    def _row(self, store: Store) -> tuple[Any, ...]:
        form = json.dumps(self.fleet.form())
        model = repr(self.blank.estimator)
        return LAYOUT, files.FORMAT, store.groups, model, form, self.stamp, [*self.listed]

    def _leave(self, numbers: Array) -> None:
        """Note that what pages hold of keys is outdated, but the bases of large records."""
        held = self.entries
        held["change"][numbers] = -1
        held["page"][numbers[held["size"][numbers] <= WHOLE]] = -1

    def _taken_up(self, size: int, store: Store, now: int) -> Array:
        """Return the keys that are written once more, so that their pages can be removed."""
        found = [np.zeros(0, np.int64)]
        live = {page: self.directory.live(page) for page in self.pages}
        for page in sorted(live, key=lambda p: live[p]):
            inside = self.directory.inside(page)
            small = live[page] <= size and live[page] + size <= PAGE
            if not len(inside) or not (small or self._worn(page, live[page], store.idle, now)):
                continue
            self.fetch(inside, store)
            held = self.entries
            held["page"][inside[held["page"][inside] == page]] = -1
            held["change"][inside] = -1
            found.append(inside)
            size += live[page]
        return np.concatenate(found)

    def _worn(self, page: int, live: int, idle: int | None, now: int) -> bool:
        """Whether less than half of a page is in use, or Spark might forget it too early."""
        known = self.pages[page]
        return 2 * live < known.total or (idle is not None and now - known.written >= idle)

    def _parts(self, numbers: Array) -> tuple[list[bytes], Array]:
        """Return what is written of each key's record, and whether that is all of it."""
        parts, whole = self.fleet.records(numbers.tolist()), np.ones(len(numbers), bool)
        for i in np.flatnonzero(self.entries["page"][numbers] >= 0).tolist():
            record = parts[i]
            change = patch(self.bases[int(numbers[i])], record)
            if change is not None and len(change) <= SHARE * len(record):
                parts[i], whole[i] = change, False
        self.entries["page"][numbers[whole]] = -1
        for i in np.flatnonzero(whole).tolist():
            self.bases.pop(int(numbers[i]), None)
            if len(parts[i]) > WHOLE:
                self.bases[int(numbers[i])] = parts[i]
        return parts, whole

    def _remove(self, store: Store) -> None:
        empty = [page for page in self.listed if not len(self.directory.inside(page))]
        for page in empty:
            if self.pages.pop(page, None) is not None:
                store.pages.remove(page)
            self.listed.remove(page)


def checked(row: Any, blank: Blank, groups: int) -> Any:
    """Return a row of the state ``arena``; raise if it is not this query's, or a newer onkel's."""
    if row is None:
        return None
    check_version(row[0], row[1])
    if row[2] != groups:
        raise ValueError(other_groups(groups, row[2]))
    if row[3] != repr(blank.estimator):
        raise ValueError(
            f"keyed: the models of this checkpoint are {row[3]}, and their settings cannot change; "
            f"got {blank.estimator!r}. Give that model, or a new checkpoint."
        )
    return row


def other_groups(asked: int, known: int) -> str:
    """Return what is said of another number of groups than a checkpoint was begun with."""
    return (
        f"keyed: groups={asked}, but this checkpoint was begun with groups={known}, and that "
        "cannot change. Give that number, or a new checkpoint."
    )
