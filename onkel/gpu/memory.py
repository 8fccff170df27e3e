"""Memory of the device: refused before anything is changed, with the arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from onkel.gpu import launch


def free_bytes(device: Any) -> int | None:
    """Return what can still be had on the device; None where nobody says."""
    if launch.INTERPRETED:
        return None
    free, _ = torch.cuda.mem_get_info(device)
    unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(free + unused)


def check_room(terms: Any, count: int) -> None:
    """Refuse if the ring for so many terms cannot be had beside what is there."""
    slots = terms.room_for(count)
    if slots <= terms.held.slots:
        return
    free, one = free_bytes(terms.device), terms.bytes_of_one()
    if free is not None and slots * one > free:
        raise refused(terms, f"{slots:,} terms of {one:,} bytes are {gb(slots * one)}; {gb(free)} "
                      f"are free beside the {gb(terms.nbytes)} that the model has")  # fmt: skip


def refused(terms: Any, why: str) -> MemoryError:
    """Return the error that says what does not fit."""
    d, wide = len(terms.frame.center), terms.launcher.wide + terms.launcher.tall
    rest = 12 + 4 * len(terms.launcher.functions)
    return MemoryError(
        f"The memory of {terms.device} is too small: {why}. A term takes 4 x {d} (its row) + 4 x "
        f"{wide} (as precision={terms.precision!r} multiplies it) + 12 for each output + {rest} = "
        f"{terms.bytes_of_one():,} bytes. Give expansions.Window fewer terms, or precision='tf32' "
        "for less of it. The model was not changed."
    )


@contextmanager
def explained(terms: Any) -> Iterator[None]:
    """Turn the device's own out-of-memory error into ours, which says what does not fit."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise refused(terms, str(error)) from None


def gb(count: int) -> str:
    """Return bytes in words.

    Examples
    --------
    >>> gb(3_200_000_000)
    '3.20 GB'
    """
    return f"{count / 1e9:.2f} GB"
