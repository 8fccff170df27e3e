"""One thread may learn while others predict: each call sees the model before or after another."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def guarded(method: Method) -> Method:
    """Let a method wait until no other call is at the same model."""

    @wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        learner = self.__dict__.get("_learner")
        if learner is None:
            return method(self, *args, **kwargs)
        with learner.lock:
            return method(self, *args, **kwargs)

    return call  # type: ignore[return-value]
