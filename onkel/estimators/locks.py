"""One thread may learn while others predict: each call sees the model before or after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import RLock
from typing import Any, Self, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


class Locked:
    """A model with a lock of its own, which is no attribute that could be copied or compared."""

    __slots__ = ("_lock",)
    _lock: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        model = super().__new__(cls)
        model._lock = RLock()
        return model

    @contextmanager
    def still(self) -> Iterator[None]:
        """Let no other call come to the model meanwhile."""
        with self._lock:
            yield

    def __getstate__(self) -> dict[str, Any]:
        """A copy has a lock of its own."""
        return self.__dict__.copy()


def locked(method: Method) -> Method:
    """Let a method wait until no other call is at the same model."""

    @wraps(method)
    def call(self: Locked, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return call  # type: ignore[return-value]
