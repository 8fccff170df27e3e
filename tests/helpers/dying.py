"""The command, dying at a chosen moment as by ``kill -9``: ``-m helpers.dying POINT:N COMMAND …``.

It dies when it reaches the point for the n-th time. The product knows nothing of it: what it does
at these points is wrapped here, before it starts.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

POINTS = ("output", "model", "before-commit", "after-commit", "cleanup")
"""Half of an output written; half of a model; around the transaction; old files half gone."""


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def wrapped(owner: Any, name: str, count: int, last: Callable[..., None]) -> None:
    """Let the n-th call of a method be another, which ends with the death of the process."""
    real, left = getattr(owner, name), [count]

    def call(*args: Any, **how: Any) -> Any:
        left[0] -= 1
        return last(real, *args, **how) if left[0] == 0 else real(*args, **how)

    setattr(owner, name, call)


def half_of_an_output(write: Callable[..., None], sink: Any, data: bytes) -> None:
    write(sink, data[: len(data) // 2])
    die()


def half_of_a_model(put: Callable[..., None], store: Any, key: str, data: bytes) -> None:
    put(store, key, data[: len(data) // 2])
    store._file.flush()
    die()


def afterwards(real: Callable[..., Any], *args: Any, **how: Any) -> None:
    real(*args, **how)
    die()


def old_files_half_gone(count: int) -> None:
    real, left = Path.unlink, [count]

    def unlink(path: Path, missing_ok: bool = False) -> None:
        left[0] -= path.name.startswith("models-") and path.exists()
        real(path, missing_ok)
        if left[0] == 0:
            die()

    Path.unlink = unlink  # type: ignore[method-assign]


def arrange(point: str, count: int) -> None:
    """See to it that this process dies at a point, when it comes there for the n-th time."""
    from onkel.app.run.ledger import Ledger
    from onkel.app.run.outputs import FileSink
    from onkel.app.run.store import Store

    if point == "output":
        wrapped(FileSink, "write", count, half_of_an_output)
    elif point == "model":
        wrapped(Store, "put", count, half_of_a_model)
    elif point == "before-commit":  # the models' file is whole, the transaction not begun
        wrapped(Store, "finish", count, afterwards)
    elif point == "after-commit":
        wrapped(Ledger, "commit", count, afterwards)
    else:
        assert point == "cleanup", point
        old_files_half_gone(count)


def main() -> None:
    point, _, count = sys.argv.pop(1).partition(":")
    arrange(point, int(count or 1))
    from onkel.app.__main__ import main as command

    command()


if __name__ == "__main__":
    main()
