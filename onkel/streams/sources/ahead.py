"""Reading ahead: the next block is parsed while the present one is learned."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from queue import Queue
from typing import Any, TypeVar

T = TypeVar("T")

_END = object()


def ahead(items: Iterable[T], most: int = 2) -> Iterator[T]:
    """Yield the same items in the same order, up to `most` of them made in advance by a thread.

    Examples
    --------
    >>> list(ahead(range(5)))
    [0, 1, 2, 3, 4]
    """
    queue: Queue[tuple[Any, BaseException | None]] = Queue(most)
    stop = threading.Event()
    thread = threading.Thread(target=_make, args=(items, queue, stop), daemon=True)
    thread.start()
    try:
        while True:
            item, error = queue.get()
            if error is not None:
                raise error
            if item is _END:
                return
            yield item
    finally:
        stop.set()
        while thread.is_alive():  # one that waits for a free place gets one
            while not queue.empty():
                queue.get_nowait()
            thread.join(0.01)


def _make(items: Iterable[T], queue: Queue[Any], stop: threading.Event) -> None:
    try:
        for item in items:
            queue.put((item, None))
            if stop.is_set():
                return
        queue.put((_END, None))
    except BaseException as error:
        queue.put((None, error))
