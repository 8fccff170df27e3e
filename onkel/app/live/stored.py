"""The keys of a state folder for the page: read when somebody asks for them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from onkel.app.errors import StateProblem
from onkel.app.http.problems import busy
from onkel.app.run.fleets import model_of_record
from onkel.app.run.keys import shown_of
from onkel.app.run.ledger import Kept
from onkel.app.run.settings import RunSettings
from onkel.app.run.store import is_own, parts_of, read
from onkel.fleet.groups import Key
from onkel.fleet.ranking import Ranking
from onkel.fleet.view import SHOWN, View


class StoredKeys(View):
    """What a checkpoint tells of keys: the table out of its own parts, a key out of its model.

    Parameters
    ----------
    folder : Path
        The state's.
    kept : Kept
        The checkpoint. A run that goes on removes its files after the next two.
    note : dict, optional
        What the run has noted of its fleet; other models are not shown in detail.
    settings : RunSettings
    names : list of str
        Of the features.
    """

    def __init__(
        self, folder: Path, kept: Kept, note: dict[str, Any] | None, settings: RunSettings,
        names: list[str],
    ) -> None:  # fmt: skip
        shown = shown_of(settings) if note is None else SHOWN["novelty"]
        super().__init__(Ranking(), shown, names)
        self.folder, self.kept, self.note = folder, kept, note
        self.opens, self.shares = note is not None, bool(note and note["share"])
        self._guard, self._was_read = threading.Lock(), False

    def table(
        self, by: str = "", search: str = "", start: int = 0, count: int = 50
    ) -> dict[str, Any]:
        """Return some keys, those first that are highest, and the numbers of all."""
        self._read()
        return super().table(by, search, start, count)

    def key(self, key: Key) -> dict[str, Any] | None:
        """Return all that is shown of one key; None if it is not known."""
        self._read()
        return super().key(key)

    def model(self, key: Key) -> Any | None:
        """Return the detector of a key; None if it is not known."""
        place = self.kept.places.get(str(key))
        if place is None or self.note is None or is_own(str(key)):
            return None
        try:
            return model_of_record(self.note, self._bytes(str(key)))
        except ValueError as error:
            raise busy("storage", f"{self.folder / place.file} is damaged: {error}") from None

    def _read(self) -> None:
        """Read how the keys were doing, once."""
        with self._guard:
            if not self._was_read:
                found = [self._bytes(name) for name in parts_of(self.kept.places)]
                self.ranking.restore(found)
                self.lasting = len(self.ranking) >= len(self.kept.models())
                self._was_read = True

    def _bytes(self, name: str) -> bytes:
        try:
            return read(self.folder, self.kept.places[name])
        except StateProblem as problem:  # a run has gone on meanwhile: the next look has it
            raise busy("storage", f"{problem} If a run goes on there, ask again.") from None
