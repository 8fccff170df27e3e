"""What the command says: to standard output for good, to standard error if somebody listens."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

from onkel.app.errors import OutputProblem, RunError, Unheard


def say(text: str) -> None:
    """Print to standard output, or raise OutputProblem."""
    if sys.stdout is None:
        raise OutputProblem("standard output is closed.")
    with to_stdout():
        print(text)


def tell(text: str) -> None:
    """Print to standard error; that nobody listens is no reason to stop."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def to_stdout() -> Iterator[None]:
    """Bring what is printed inside to its reader, or raise OutputProblem.

    Inside there is nothing but printing: any OSError is taken for standard output's.
    """
    try:
        yield
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        forget_stdout()
        raise unwritten(error) from None


def unwritten(error: OSError) -> OutputProblem:
    """Return what to raise where standard output failed."""
    kind = Unheard if isinstance(error, BrokenPipeError) else OutputProblem
    return kind(f"standard output cannot be written: {error.strerror}.")


def forget_stdout() -> None:
    """Let Python end without a second complaint about an output that fails."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def ending() -> Iterator[None]:
    """End the process where a run does: with its message and its exit code."""
    try:
        yield
    except RunError as error:
        if not isinstance(error, Unheard):
            tell(f"onkel: {error}")
        raise SystemExit(error.code) from None
