"""Group commit: one thread writes, everybody who waits shares its fsync."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from onkel.app.service.log import Log


@dataclass
class Waiting:
    """A record on its way to the disk."""

    owner: int
    """The model that it is for."""
    record: bytes
    durable: Callable[[int], None]
    """Called with its position when it is on the disk, in the order of positions."""
    failed: Callable[[Exception], None]
    """Called in its place if the disk did not take the record, or if `durable` raised."""


class Committer(threading.Thread):
    """Takes all records that wait, writes them as one frame, and tells everyone."""

    MOST = 64 * 2**20
    """Bytes in one frame, about; one record may be larger."""

    def __init__(self, log: Log) -> None:
        super().__init__(name="onkel-log", daemon=True)
        self.log = log
        self.commits = 0
        self.seconds = 0.0
        self._waiting: list[Waiting] = []
        self._tasks: list[Callable[[], None]] = []
        self._wake = threading.Condition()
        self._closing = False

    def submit(self, waiting: Waiting) -> None:
        """Hand over a record; it is durable when its function is called."""
        with self._wake:
            if self._closing:
                raise RuntimeError("the log is closed")
            self._waiting.append(waiting)
            self._wake.notify()

    def write(self, owner: int, record: bytes) -> None:
        """Write a record and wait until it is on the disk; any thread may ask, also this one."""
        if threading.current_thread() is self:
            self.log.append([(owner, record)])
            return
        done, errors = threading.Event(), list[Exception]()

        def failed(error: Exception) -> None:
            errors.append(error)
            done.set()

        self.submit(Waiting(owner, record, lambda position: done.set(), failed))
        done.wait()
        if errors:
            raise errors[0]

    def between(self, task: Callable[[], None]) -> None:
        """Run a function between two commits and wait for it."""
        done, errors = threading.Event(), list[Exception]()

        def run() -> None:
            try:
                task()
            except Exception as error:
                errors.append(error)
            done.set()

        with self._wake:
            self._tasks.append(run)
            self._wake.notify()
        done.wait()
        if errors:
            raise errors[0]

    def close(self) -> None:
        """Write what waits, then end."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        self.join()

    def run(self) -> None:
        """Commit until closed."""
        while True:
            with self._wake:
                while not (self._waiting or self._tasks or self._closing):
                    self._wake.wait()
                group, tasks = self._take(), self._tasks
                self._tasks = []
                if not group and not tasks:
                    return
            if group:
                self._commit(group)
            for task in tasks:
                task()

    def _take(self) -> list[Waiting]:
        size = taken = 0
        for waiting in self._waiting:
            if taken and size + len(waiting.record) > self.MOST:
                break
            size, taken = size + len(waiting.record), taken + 1
        group, self._waiting = self._waiting[:taken], self._waiting[taken:]
        return group

    def _commit(self, group: list[Waiting]) -> None:
        began = time.perf_counter()
        try:
            first = self.log.append([(w.owner, w.record) for w in group])
        except Exception as error:
            for waiting in group:
                waiting.failed(error)
            return
        self.commits += 1
        self.seconds += time.perf_counter() - began
        for i, waiting in enumerate(group):
            try:
                waiting.durable(first + i)
            except Exception as error:  # of one request; the others wait for this thread
                waiting.failed(error)
