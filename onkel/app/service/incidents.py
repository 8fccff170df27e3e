"""The incidents of a service's detectors: alerts that belong together, kept with their models.

They are grouped where a record is applied, in the order of the log, and saved with the model. So a
service that is killed finds them again when it applies its log, as they were.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from onkel.app.http.problems import Problem
from onkel.app.run.fleets import far_of
from onkel.app.run.incidents import Grouping, Happened
from onkel.app.run.settings import RunSettings
from onkel.app.service import feedback, tables
from onkel.app.service.bodies import Entry
from onkel.fleet import Fleet
from onkel.inputs import weights_of
from onkel.judge import Answer, Marks
from onkel.streams.sources import Block

Array = NDArray[Any]

OPEN = 10_000
"""Incidents of single keys that may be open at once; then the one that was quiet longest closes."""
LATEST = 200
"""Incidents that are over and can still be asked for: the latest."""
_MAGIC = b"oki1"


class ModelIncidents:
    """The incidents of one detector.

    Parameters
    ----------
    estimator : estimator or Fleet
        It says at which rate alerts were promised.
    """

    def __init__(self, estimator: Any) -> None:
        self._settings = _settings_of(estimator)
        self.grouping: Grouping | None = None
        """There from the first rows on: they say which numbers there are."""
        self.trouble = ""
        """Why a record is missing in them."""

    # -- taking records ------------------------------------------------------------------------

    def take(
        self, entry: Entry, position: int, estimator: Any, said: Answer, rows: Any,
        names: list[str] | None,
    ) -> Happened | None:  # fmt: skip
        """Take what came of a record that was just applied; an error is noted, not raised."""
        try:
            if entry.op == "forget":
                return None if self.grouping is None else self.grouping.forget(entry.keys or [])
            if said.marks.mark is None or said.marks.value is None:
                return None
            return self._grouped(entry, estimator, said, *tables.drawn(rows, names))
        except Exception as error:  # incidents are no reason to refuse what was learned
            self.trouble = f"Record {position} is not in them ({error!r:.200})."
            return None

    def _grouped(
        self, entry: Entry, estimator: Any, said: Answer, X: Any, names: list[str] | None
    ) -> Happened:
        marks, keys = said.marks, entry.keys
        assert marks.mark is not None
        if self.grouping is None:
            self.grouping = self._made(_names(X, names))
        width = len(self.grouping.features)
        fits = _is_matrix(X) and X.shape[1] == width
        numbers = X if fits else np.full((len(marks.mark), width), np.nan)
        columns = _columns(marks, numbers, _ids(entry, estimator, said))
        times = None if entry.time is None else np.asarray(entry.time, float)  # a model took them
        places = places_of(entry, estimator)
        block = Block(
            0, len(places), places, numbers, {}, time=times, stamps=entry.time,
            keys=keys,  # type: ignore[arg-type]
        )  # fmt: skip
        return self.grouping(block, columns)

    def _made(self, features: list[str]) -> Grouping:
        return Grouping(self._settings, features, OPEN, remembered=0, latest=LATEST)

    # -- asking --------------------------------------------------------------------------------

    @property
    def open(self) -> int:
        """How many may still go on."""
        return 0 if self.grouping is None else len(self.grouping.groups)

    @property
    def so_far(self) -> int:
        """How many there were, without those that another has taken in."""
        return 0 if self.grouping is None else self.grouping.groups.count

    def known(self) -> list[dict[str, Any]]:
        """Return the incidents that are known, those first that are open, as a page shows them."""
        return [] if self.grouping is None else self.grouping.known()

    def going_on(self) -> list[dict[str, Any]]:
        """Return what is told of those that are open to who hears of them for the first time."""
        return [] if self.grouping is None else self.grouping.going_on()

    def unfinished(self) -> list[dict[str, Any]]:
        """Return what is told of those that are open where the model goes."""
        return [] if self.grouping is None else self.grouping.unfinished()

    def listed(self, start: int, count: int, only_open: bool = False) -> dict[str, Any]:
        """Return incidents, newest first: those that are open, then the latest that are over."""
        if self.grouping is None:
            return {"found": 0, "start": start, "so_far": 0, "open": 0, "incidents": []}
        grouping = self.grouping
        over, still = [] if only_open else grouping.latest[::-1], self.open
        page = grouping.still(start, min(count, max(still - start, 0)))
        rest = max(start - still, 0)
        page = [*page, *over[rest : rest + count - len(page)]]
        return {
            "found": still + len(over), "start": start, "so_far": self.so_far, "open": still,
            "incidents": page,
        }  # fmt: skip

    # -- files ---------------------------------------------------------------------------------

    def dumps(self) -> bytes:
        """Return all of it as a file's bytes; none of a model that has not seen a row."""
        if self.grouping is None and not self.trouble:
            return b""
        held: dict[str, Any] = {"trouble": self.trouble, "grouping": None}
        if self.grouping is not None:
            held["grouping"] = self.grouping.dump()
        body = msgspec.msgpack.encode(held)
        return _MAGIC + zlib.crc32(body).to_bytes(4, "little") + body

    def restore(self, data: bytes) -> None:
        """Become what `dumps` has described; raise ValueError where it is damaged."""
        body = data[8:]
        if data[:4] != _MAGIC or data[4:8] != zlib.crc32(body).to_bytes(4, "little"):
            raise ValueError("the file of its incidents is damaged")
        held = msgspec.msgpack.decode(body)
        self.trouble, self.grouping = held["trouble"], None
        if held["grouping"] is not None:
            self.grouping = self._made([])
            self.grouping.restore(held["grouping"])


def incidents_of(estimator: Any, data: bytes | None = None) -> ModelIncidents | None:
    """Return the incidents of a detector, new or from a file's bytes; None of other models."""
    if estimator.task != "novelty":
        return None
    found = ModelIncidents(estimator)
    if data is not None:
        found.restore(data)
    return found


def check(incidents: ModelIncidents | None, name: str) -> ModelIncidents:
    """Refuse a question to a model that has none."""
    if incidents is None:
        words = f"The model {name!r} is no detector, and has no incidents."
        raise Problem(422, "no_incidents", words, "name")
    return incidents


def _settings_of(estimator: Any) -> RunSettings:
    model = getattr(estimator, "estimator", estimator)
    kind = "auto" if getattr(model, "tells_p", False) else "kernel"
    return RunSettings("detect", model=kind, nu=None if model.nu is None else float(model.nu))


# -- records as a grouping takes them --------------------------------------------------------------


def places_of(entry: Entry, estimator: Any) -> Array:
    """Return how many rows a model had learned before each of a record that it has just learned."""
    live = weights_of(entry.sample_weight, entry.count) > 0
    found: Array = estimator.t_ - np.cumsum(live[::-1])[::-1]
    return found


def _is_matrix(X: Any) -> bool:
    return isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind == "f"


def _names(X: Any, names: list[str] | None) -> list[str]:
    """Return what the numbers of rows are called; none, where there are no numbers.

    Examples
    --------
    >>> _names(np.zeros((5, 2)), None), _names(None, ["when"])
    (['x0', 'x1'], [])
    """
    if not _is_matrix(X):
        return []
    return [*names] if names is not None else [f"x{j}" for j in range(X.shape[1])]


def _columns(marks: Marks, numbers: Array, ids: list[str | None] | None) -> dict[str, Any]:
    """Return what a grouping wants to know of rows."""
    found: dict[str, Any] = {
        "alert": marks.mark, "score": marks.value, "threshold": marks.limit, "alert_id": ids,
        "own": marks.own,
    }  # fmt: skip
    if marks.usual is not None and len(marks.usual):
        found["far"] = far_of(numbers, marks.mark, marks.usual)
    return found


def _ids(entry: Entry, estimator: Any, said: Answer) -> list[str | None] | None:
    """Return what alerts are called, as their messages call them; None where nobody says so."""
    mark, ids = said.marks.mark, said.beside.get("alert_id")
    assert mark is not None
    if not mark.any():
        return None
    if isinstance(estimator, Fleet):
        keys = entry.keys or []
        return None if ids is None else [
            None if id is None else f"{key}:{id}" for key, id in zip(keys, ids, strict=True)
        ]  # fmt: skip
    if ids is None:
        ids = feedback.ids_of(mark, feedback.ages_of(estimator.t_, len(mark), entry.sample_weight))
    return [*ids]
