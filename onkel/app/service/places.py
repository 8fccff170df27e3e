"""Changes on their way: each has a place among those that wait, and gives it back once."""

from __future__ import annotations

import threading
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from types import TracebackType
from typing import Self

from onkel.app.service.bodies import Entry
from onkel.app.service.keys import Keys, Remembered
from onkel.app.service.slots import Slot

MAKING = ("create", "import")
"""Changes that bring a model."""


class Places:
    """How many changes wait, how many of them bring a model, and which keys they will answer."""

    def __init__(self, guard: threading.RLock, keys: Keys) -> None:
        self.guard = guard
        self.keys = keys
        self.waiting = 0
        self.making = 0
        self.pending: dict[str, Place] = {}

    def take(self, entry: Entry) -> Place:
        """Return a place for a change; call it with the guard held."""
        place = Place(self, entry)
        self.waiting += 1
        self.making += entry.op in MAKING
        if entry.key:
            self.pending[entry.key] = place
        return place


class Place:
    """The place of one change, from its coming to its answer.

    Whoever ends it first, by an answer or an error, gives it back; all others do nothing. As a
    context it ends with whatever is raised.
    """

    def __init__(self, places: Places, entry: Entry) -> None:
        self.future: Future[Remembered] = Future()
        self.digest = entry.digest
        self._places = places
        self._entry = entry
        self._taken = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        if error is not None:
            self.fail(error)

    def answer(self, found: Remembered, about: Slot | None = None) -> None:
        """End with an answer; it is remembered unless the model `about` which it is has gone."""
        with self._places.guard:
            if not self._give_back():
                return
            if about is None or not about.gone:
                self._places.keys.add(found)
        with suppress(InvalidStateError):  # nobody waits for it any more
            self.future.set_result(found)

    def fail(self, error: BaseException) -> None:
        """End with an error; the key may be used again."""
        with self._places.guard:
            if not self._give_back():
                return
        with suppress(InvalidStateError):
            self.future.set_exception(error)

    def _give_back(self) -> bool:
        """Whether it was still taken."""
        places, taken, self._taken = self._places, self._taken, False
        if taken:
            places.waiting -= 1
            places.making -= self._entry.op in MAKING
            if self._entry.key:
                del places.pending[self._entry.key]
        return taken
