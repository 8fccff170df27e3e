"""Models of which the idle ones lie on the disk: those used longest ago go first."""

from __future__ import annotations

import os
import re
import tempfile
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.fleet.calls import Call

Array = NDArray[Any]

SLACK = 0.1
"""So much of the limit is made free at once."""
WASTE = 2**26
"""Bytes of outdated records that a file may hold, beside as many as are in use."""
AT_ONCE = 4096
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def bytes_of(size: Any) -> int:
    """Return a size in bytes: a whole number, or a text such as "2GB" or "500 MiB".

    Examples
    --------
    >>> bytes_of("2GB"), bytes_of("1 KiB"), bytes_of(4096)
    (2000000000, 1024, 4096)
    """
    if type(size) is int and size > 0:
        return size
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", str(size).lower())
    if isinstance(size, str) and match and float(match[1]) > 0 and (match[2] or not match[3]):
        unit = _UNITS[match[2]]
        step = 2 ** (10 * "kmgt".index(match[2]) + 10) if match[3] else unit
        return int(float(match[1]) * step)
    raise ValueError(
        "Fleet: memory must be None, a whole number of bytes, or a text such as '2GB' or '500MB'; "
        f"got {size!r}."
    )


class Spill:
    """Records by number in one file that nobody else sees, and which goes with the process."""

    def __init__(self, folder: str | None) -> None:
        self.folder = folder
        self._file = self._new()
        self.at, self.length = np.zeros((2, 0), np.int64)
        self.end = self.live = 0

    def __del__(self) -> None:
        """Close the file: a fleet ends when nobody has it any more."""
        file = self.__dict__.get("_file")  # none, where it could not be made
        if file is not None:
            file.close()

    def _new(self) -> Any:
        try:
            return tempfile.TemporaryFile(prefix="onkel-fleet-", dir=self.folder, buffering=0)
        except OSError as error:
            where = self.folder or tempfile.gettempdir()
            raise OSError(
                error.errno, f"Fleet: no file for idle keys can be made: {error.strerror}", where
            ) from None

    def make_room(self, count: int) -> None:
        """Let there be numbers up to so many."""
        more = count - len(self.at)
        if more > 0:
            more = max(more, len(self.at))
            self.at, self.length = np.pad(self.at, (0, more)), np.pad(self.length, (0, more))

    def put(self, numbers: Array, lengths: Array, data: bytes) -> None:
        """Write records, which lie one behind another; those of the same numbers are outdated."""
        self.make_room(int(numbers.max(initial=-1)) + 1)
        self._write(memoryview(data))
        self.live += int(lengths.sum() - self.length[numbers].sum())
        self.at[numbers] = self.end + np.cumsum(lengths) - lengths
        self.length[numbers] = lengths
        self.end += len(data)
        if self.end > 2 * self.live + WASTE:
            self._compact()

    def _write(self, data: memoryview) -> None:
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self._file.fileno(), data[written:], self.end + written)
        except OSError as error:
            words = f"Fleet: idle keys cannot be written to the disk: {error.strerror}"
            raise OSError(error.errno, words, self.folder or tempfile.gettempdir()) from None

    def get(self, numbers: Array) -> bytes:
        """Return records, one behind another."""
        handle = self._file.fileno()
        pairs = zip(self.length[numbers].tolist(), self.at[numbers].tolist(), strict=True)
        return b"".join([os.pread(handle, length, at) for length, at in pairs])

    def drop(self, numbers: Array) -> None:
        """Forget records."""
        self.make_room(int(numbers.max(initial=-1)) + 1)
        self.live -= int(self.length[numbers].sum())
        self.length[numbers] = 0

    def _compact(self) -> None:
        """Write all that is in use to a new file."""
        held = np.flatnonzero(self.length)
        held = held[np.argsort(self.at[held])]
        old, fresh, end = self._file, self._new(), 0
        for start in range(0, len(held), AT_ONCE):
            part = held[start : start + AT_ONCE]
            data = self.get(part)
            fresh.write(data)
            self.at[part] = end + np.cumsum(self.length[part]) - self.length[part]
            end += len(data)
        self._file, self.end = fresh, end
        old.close()


class Bounded:
    """A store of models, of which so many bytes at most are in memory between calls.

    Parameters
    ----------
    inner : store
        Holds the models that are in memory.
    limit : int
        Bytes.
    folder : str, optional
        Where the others go.
    """

    def __init__(self, inner: Any, limit: int, folder: str | None) -> None:
        self.inner, self.limit = inner, limit
        self.spill = Spill(folder)
        self.used = np.zeros(0, np.int64)
        """The call in which each number was used last."""
        self.here = np.zeros(0, bool)
        """Whether its model is in memory."""
        self.same = np.zeros(0, bool)
        """Whether the file holds it as it is."""
        self.counted = np.zeros((0, 5))
        """Of models that are on the disk."""
        self.calls = 0
        self.full = False
        """Whether models could not be written at the end of a call."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    # -- which are where -------------------------------------------------------------------------

    def _use(self, numbers: Any, changed: bool = True) -> None:
        """Bring models to memory, and note that they are used."""
        if self.full:
            self.shrink()  # which says why it cannot be, before anything changes
            self.full = False
        wanted = np.asarray(numbers, np.int64)
        wanted = wanted[wanted >= 0]
        self._make_room(int(wanted.max(initial=-1)) + 1)
        self.calls += 1
        away = wanted[~self.here[wanted]]
        away = np.unique(away[self.spill.length[away] > 0])
        for start in range(0, len(away), AT_ONCE):
            part = away[start : start + AT_ONCE]
            data = np.frombuffer(self.spill.get(part), np.uint8)
            self.inner.restore_joined(part, self.spill.length[part], data)
            self.same[part] = True
        self.here[wanted], self.used[wanted] = True, self.calls
        if changed:
            self.same[wanted] = False

    def _make_room(self, count: int) -> None:
        more = count - len(self.used)
        if more > 0:
            more = max(more, len(self.used), 64)
            self.used, self.here = np.pad(self.used, (0, more)), np.pad(self.here, (0, more))
            self.same = np.pad(self.same, (0, more))
            self.counted = np.pad(self.counted, ((0, more), (0, 0)))
            self.spill.make_room(len(self.used))

    def shrink(self) -> None:
        """Let those used longest ago go to the disk, while there are more bytes than there may."""
        if self.inner.nbytes <= self.limit:
            return
        held = np.flatnonzero(self.here)
        sizes = self.inner.sizes(held)
        order = np.argsort(self.used[held], kind="stable")
        over = self.inner.nbytes - (1.0 - SLACK) * self.limit
        count = int(np.searchsorted(np.cumsum(sizes[order]), over)) + 1
        recent = self.used[held] == self.calls  # what the last call needed may be needed again
        going = order[:count][~recent[order[:count]]]
        for start in range(0, len(going), AT_ONCE):
            part = going[start : start + AT_ONCE]
            self._send(held[part], sizes[part])

    def _shrink_late(self) -> None:
        """Do the same after a call, whose work is done: a disk that is full must not undo it."""
        try:
            self.shrink()
        except OSError as error:
            self.full = True
            words = (
                f"{error.strerror}. They stay in memory; while it is so, other calls are refused."
            )
            warnings.warn(words, stacklevel=2)

    def _send(self, numbers: Array, sizes: Array) -> None:
        new = ~self.same[numbers]
        counts = self.inner.counts(numbers)
        if new.any():
            self.spill.put(numbers[new], sizes[new], self.inner.joined(numbers[new]))
        self.counted[numbers] = np.column_stack([counts[name] for name in _COUNTS])
        self.inner.forget(numbers)
        self.here[numbers] = False

    def adopt(self, numbers: Array) -> None:
        """Take over models that are in memory already."""
        self._make_room(int(numbers.max(initial=-1)) + 1)
        self.here[numbers] = True
        self.shrink()

    # -- what stores do --------------------------------------------------------------------------

    def learn(self, call: Call) -> Any:
        """Judge and learn rows; return what was asked for."""
        self._use(call.numbers)
        try:
            return self.inner.learn(call)
        finally:
            self._shrink_late()

    def look(self, call: Call) -> Any:
        """Return what is said of rows; nothing changes."""
        self._use(call.numbers, changed=False)
        try:
            return self.inner.look(call)
        finally:
            self._shrink_late()

    def learn_one(self, number: int, row: Any, y: Any, time: Any) -> Any:
        """Learn one row."""
        if number < len(self.here) and self.here[number]:
            self.calls += 1
            self.used[number], self.same[number] = self.calls, False
        else:
            self._use([number])
            self._shrink_late()
        return self.inner.learn_one(number, row, y, time)

    def look_one(self, number: int, row: Any) -> Any:
        """Return what is said of one row."""
        self._use([number], changed=False)
        return self.inner.look_one(number, row)

    def model(self, number: int) -> Any:
        """Return a model as an ordinary estimator of its own."""
        self._use([number], changed=False)
        return self.inner.model(number)

    def put(self, models: dict[int, Any]) -> None:
        """Let models be what these are."""
        self._use([*models])
        self.inner.put(models)
        self._shrink_late()

    def answer(self, number: int, id: Any, answer: str, frame: Any = None) -> None:
        """Answer an alert of a model."""
        self._use([number])
        self.inner.answer(number, id, answer, frame)
        self._shrink_late()

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget models."""
        gone = np.array([*numbers], np.int64)
        self._make_room(int(gone.max(initial=-1)) + 1)
        self.spill.drop(gone)
        self.inner.forget(gone)
        self.here[gone] = False

    def records(self, numbers: Iterable[int]) -> list[bytes]:
        """Return models as bytes."""
        wanted = [*numbers]
        if self._all_here(np.array(wanted, np.int64)):
            return list(self.inner.records(wanted))
        found = []
        for number in wanted:
            if self.here[number] or not self.spill.length[number]:
                found += self.inner.records([number])
            else:
                found.append(self.spill.get(np.array([number])))
        return found

    def _all_here(self, numbers: Array) -> bool:
        """Whether none of these models is on the disk alone."""
        self._make_room(int(numbers.max(initial=-1)) + 1)
        return not np.any(~self.here[numbers] & (self.spill.length[numbers] > 0))

    def restore(self, numbers: Iterable[int], records: Iterable[bytes]) -> None:
        """Let models be what records hold."""
        wanted = [*numbers]
        self.inner.restore(wanted, records)
        self._taken(np.array(wanted, np.int64))

    def restore_joined(self, numbers: Array, lengths: Array, data: Array) -> None:
        """Let models be what records hold, which lie one behind another."""
        self.inner.restore_joined(numbers, lengths, data)
        self._taken(numbers)

    def _taken(self, numbers: Array) -> None:
        self._make_room(int(numbers.max(initial=-1)) + 1)
        self.spill.drop(numbers)
        self.here[numbers], self.same[numbers] = True, False
        self.used[numbers] = self.calls
        self.calls += 1
        self._shrink_late()

    def sizes(self, numbers: Array) -> Array:
        """Return the bytes of records."""
        self._make_room(int(numbers.max(initial=-1)) + 1)
        return np.where(self.here[numbers], self.inner.sizes(numbers), self.spill.length[numbers])

    def joined(self, numbers: Array) -> bytes:
        """Return the records of models, one behind another."""
        if self._all_here(numbers):
            return bytes(self.inner.joined(numbers))
        return b"".join(self.records(numbers.tolist()))

    def counts(self, numbers: Iterable[int]) -> dict[str, Array]:
        """Return of some models rows learned, terms, alerts and their rows, mistakes."""
        asked = np.array([*numbers], np.int64)
        self._make_room(int(asked.max(initial=-1)) + 1)
        found, here = self.inner.counts(asked), self.here[asked]
        return {
            name: np.where(here, found[name], self.counted[asked, i])
            for i, name in enumerate(_COUNTS)
        }


_COUNTS = ("t", "terms", "alerts", "judged", "mistakes")
