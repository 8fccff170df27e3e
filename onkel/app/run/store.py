"""Models on disk: one file per generation, each holding the models that changed in it."""

from __future__ import annotations

import contextlib
import os
import re
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from onkel.app.disk import new_private, open_private, sync_folder
from onkel.app.errors import OutputProblem, StateProblem
from onkel.files import dumps, loads

WHOLE = "\0fleet"
"""Stands among the keys for what a fleet has learned from all of them."""
_RANKED = "\0keys "
"""Begins what stands there for how some of the keys are doing."""
_NAMED = re.compile(r"models-([1-9]\d*)\.onkel")


class Place(NamedTuple):
    """Where a model lies, and a checksum of its bytes."""

    generation: int
    offset: int
    length: int
    checksum: int

    @property
    def file(self) -> str:
        """The name of the generation's file."""
        return f"models-{self.generation}.onkel"


def is_own(key: str) -> bool:
    """Whether what stands among the keys is none: the state's own.

    Examples
    --------
    >>> is_own(WHOLE), is_own(ranked(3)), is_own("pump")
    (True, True, False)
    """
    return key == WHOLE or key.startswith(_RANKED)


def where(key: str) -> str:
    """Return whose bytes lie at a place, as a message goes on that names its file.

    Examples
    --------
    >>> where("pump"), where(ranked(3)), where("")
    (", at key 'pump'", ', where it tells how keys are doing', '')
    """
    if is_own(key):
        what = "what all keys have in common" if key == WHOLE else "how keys are doing"
        return f", where it tells {what}"
    return f", at key {key!r}" if key else ""


def ranked(part: int) -> str:
    """Return what stands among the keys for how those of a part are doing."""
    return f"{_RANKED}{part}"


def parts_of(places: Iterable[str]) -> list[str]:
    """Return what stands there for how keys are doing, part after part."""
    return [
        n for _, n in sorted((int(n[len(_RANKED) :]), n) for n in places if n.startswith(_RANKED))
    ]


OWN_KEY = "its key is used by the state itself"
"""Why a row is refused whose key is none."""


def model_files(folder: Path) -> dict[int, Path]:
    """Return the files of models in a folder, by generation; what else lies there is left alone."""
    with os.scandir(folder) as entries:
        found = {_NAMED.fullmatch(e.name): e for e in entries if e.is_file(follow_symlinks=False)}
    return {int(name[1]): Path(e.path) for name, e in found.items() if name is not None}


class Store:
    """Files of models in a folder.

    A generation's file holds, one after another, the models that changed since the last one. With
    a single model it is that model's own file, which ``onkel.load`` reads.
    """

    def __init__(self, folder: Path, generation: int, places: dict[str, Place]) -> None:
        self.folder, self.generation = folder, generation
        self.places = places
        """Where each key's newest model lies."""
        self.changed: dict[str, Place] = {}
        """Those of the generation that is being written."""
        self._file: BinaryIO | None = None
        self._end = 0

    def put(self, key: str, data: bytes) -> None:
        """Write a model to the present generation's file."""
        place = Place(self.generation + 1, self._end, len(data), zlib.crc32(data))
        try:
            file = self._opened(place.file)
            file.seek(self._end)
            file.write(data)
        except OSError as error:
            path = self.folder / place.file
            raise OutputProblem(f"{path}: cannot be written: {error.strerror}.") from None
        self.places[key] = self.changed[key] = place
        self._end += len(data)

    def put_all(self, keys: list[str], records: list[bytes]) -> None:
        """Write models to the present generation's file, all in one piece."""
        generation, at = self.generation + 1, self._end
        found = {}
        for key, data in zip(keys, records, strict=True):
            found[key] = Place(generation, at, len(data), zlib.crc32(data))
            at += len(data)
        name = f"models-{generation}.onkel"
        try:
            file = self._opened(name)
            file.seek(self._end)
            file.write(b"".join(records))
        except OSError as error:
            path = self.folder / name
            raise OutputProblem(f"{path}: cannot be written: {error.strerror}.") from None
        self.places.update(found)
        self.changed.update(found)
        self._end = at

    def _opened(self, name: str) -> BinaryIO:
        if self._file is None:
            self._file = new_private(self.folder / name)
        return self._file

    def get(self, key: str) -> bytes | None:
        """Return a key's newest model."""
        place = self.places.get(key)
        if place is None:
            return None
        if self._file is not None and place.generation > self.generation:
            self._file.flush()
        return read(self.folder, place, where(key))

    def finish(self) -> dict[str, Place]:
        """Wait until the disk has everything; return what changed since the last time."""
        if self._file is not None:
            try:
                self._file.flush()
                os.fsync(self._file.fileno())
                self._file.close()
            except OSError as error:
                raise OutputProblem(
                    f"{self.folder}: cannot be written: {error.strerror}."
                ) from None
            self._file = None
        sync_folder(self.folder)
        self.generation, self._end = self.generation + 1, 0
        changed, self.changed = self.changed, {}
        return changed

    def close(self) -> None:
        """Close what is open; what was not finished counts for nothing."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # a full disk: nothing of it was needed
                self._file.close()
            self._file = None

    def sizes(self) -> tuple[int, int]:
        """Return the bytes that are in use, and those on disk."""
        used = sum(place.length for place in self.places.values())
        return used, sum(path.stat().st_size for path in model_files(self.folder).values())

    def remove_all_but(self, generations: set[int]) -> None:
        """Remove files that nothing refers to."""
        for generation, path in sorted(model_files(self.folder).items()):
            if generation not in generations:
                path.unlink(missing_ok=True)


def read(folder: Path, place: Place, whose: str = "") -> bytes:
    """Return the bytes at a place, or raise StateProblem, which says whose they are."""
    path = folder / place.file
    try:
        with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
            file.seek(place.offset)
            data = file.read(place.length)
    except OSError as error:
        raise StateProblem(f"{path}: cannot be read: {error.strerror}.") from None
    if len(data) != place.length:
        raise StateProblem(f"{path} is damaged{whose}: it ends too soon.")
    if zlib.crc32(data) != place.checksum:
        raise StateProblem(f"{path} is damaged{whose}: it does not hold what was written.")
    return data


class Models:
    """Models by key, a bounded number of them in memory; the least recently used go to disk.

    Parameters
    ----------
    make : function
        Returns a new model.
    store : Store, optional
        Where models go; None: they stay in memory, all of them.
    most : int
        So many are held in memory.
    """

    def __init__(self, make: Callable[[], Any], store: Store | None, most: int = 1000) -> None:
        self._make, self.store, self.most = make, store, most
        self._held: OrderedDict[str, Any] = OrderedDict()
        self._changed: set[str] = set()

    def get(self, key: str) -> Any:
        """Return the model of a key, a new one if it is not known; it is expected to change."""
        self._changed.add(key)
        if key in self._held:
            self._held.move_to_end(key)
            return self._held[key]
        data = self.store.get(key) if self.store is not None else None
        model = self._held[key] = self._make() if data is None else self._loaded(key, data)
        self._shrink()
        return model

    def has(self, key: str) -> bool:
        """Whether there is a model of a key."""
        there = self.store is not None and key in self.store.places and not is_own(key)
        return key in self._held or there

    def _loaded(self, key: str, data: bytes) -> Any:
        try:
            return loads(data)
        except ValueError as error:
            assert self.store is not None
            file = self.store.folder / self.store.places[key].file
            raise StateProblem(f"{file} is damaged{where(key)}: {error}") from None

    def _shrink(self) -> None:
        while self.store is not None and len(self._held) > self.most:
            key, model = self._held.popitem(last=False)
            if key in self._changed:
                self.store.put(key, dumps(model))
                self._changed.discard(key)

    def flush(self) -> None:
        """Write every model that changed."""
        if self.store is not None:
            for key in sorted(self._changed):
                self.store.put(key, dumps(self._held[key]))
        self._changed.clear()

    def compact(self) -> None:
        """Write models anew that lie in old files, where most of what those hold is outdated."""
        assert self.store is not None
        used, there = self.store.sizes()
        if there > 4 * used + 2**20:
            for key in [k for k in self.store.places if k not in self.store.changed]:
                data = self.store.get(key)
                assert data is not None
                self.store.put(key, data)

    def wake(self) -> None:
        """Bring the only model there is to memory: a run tells of it, even if no row comes."""
        if self.store is None or self._held or len(self) != 1:
            return
        key = next(k for k in self.store.places if not is_own(k))
        data = self.store.get(key)
        assert data is not None
        self._held[key] = self._loaded(key, data)

    def __len__(self) -> int:
        """Number of keys known."""
        known = self._held.keys() | (self.store.places.keys() if self.store else set())
        return len(known) - sum(map(is_own, known))

    def newest(self) -> Any | None:
        """Return the model used last, or None."""
        return next(reversed(self._held.values()), None)
