"""Which models there are: those in use, and those that are set aside.

A model that cannot be loaded or replayed is set aside: it keeps its name, its files and its part
of the log, answers with the reason, and is tried again at the next start. The others go on.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass

from onkel.app.http.problems import Problem
from onkel.app.service.slots import Slot, Spec
from onkel.app.service.watching import Watch

_LOG = logging.getLogger("onkel.service")


@dataclass(frozen=True)
class Aside:
    """A model that is out of use, and why."""

    spec: Spec
    reason: str


class Models:
    """The models of a service, by number and by name.

    Parameters
    ----------
    watch : Watch
        Told who comes and goes.
    """

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.guard = threading.RLock()
        self.slots: dict[int, Slot] = {}
        self.aside: dict[int, Aside] = {}
        self.next_id = 1
        self.settled = 0
        """Position of the last change to which models there are."""
        self._names: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def in_use(self) -> list[Slot]:
        """Return all models that are in use, oldest first."""
        with self.guard:
            return [self.slots[id] for id in sorted(self.slots)]

    def out_of_use(self) -> list[Aside]:
        """Return all that are set aside, oldest first."""
        with self.guard:
            return [self.aside[id] for id in sorted(self.aside)]

    def spec(self, name: str) -> Spec:
        """Return what a model is, in use or not."""
        with self.guard:
            id = self._names.get(name)
            if id is None:
                raise Problem(404, "unknown_model", f"There is no model {name[:80]!r}.", "name")
            return self.slots[id].spec if id in self.slots else self.aside[id].spec

    def enter(self, slot: Slot) -> None:
        """Take a model into use."""
        with self.guard:
            self.slots[slot.spec.id] = slot
            self._names[slot.spec.name] = slot.spec.id
        try:
            self.watch.begin(slot)
        except Exception as error:  # a page is no reason to refuse a model
            self.watch.trouble = f"{type(error).__name__}: {error}"

    def drop(self, id: int) -> Spec | None:
        """Forget a model, in use or not; return what it was, None if there was none."""
        with self.guard:
            slot, aside = self.slots.pop(id, None), self.aside.pop(id, None)
            if slot is not None:
                slot.gone = True
                self.watch.end(slot)
            found = slot.spec if slot is not None else aside.spec if aside is not None else None
            if found is not None:
                del self._names[found.name]
            return found

    def set_aside(self, spec: Spec, reason: str) -> None:
        """Take a model out of use; its name stays taken."""
        _LOG.error("model %r (number %d) is set aside: %s", spec.name, spec.id, reason)
        with self.guard:
            slot = self.slots.pop(spec.id, None)
            if slot is not None:
                slot.failed = reason
                self.watch.end(slot)
            self.aside[spec.id] = Aside(spec, reason)
            self._names[spec.name] = spec.id
