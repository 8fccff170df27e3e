"""Model files: open, versioned, without code in them; a loaded model goes on bit for bit.

>>> from onkel import KernelRegressor, files
>>> model = KernelRegressor().partial_fit([[0.0], [1.0]], [1.0, 2.0])
>>> again = files.loads(files.dumps(model))
>>> bool(again.predict([[0.5]])[0] == model.predict([[0.5]])[0])
True
"""

from __future__ import annotations

import mmap
import os
from contextlib import nullcontext
from typing import Any

import numpy as np

from onkel.files import container, model
from onkel.files.container import FORMAT
from onkel.files.parameters import SLOTS

__all__ = ["FORMAT", "dumps", "load", "loads", "save"]

LARGE = 2**24
"""Files from this size on are read where they lie on the disk, not as a whole."""
_NONSENSE = (
    ValueError, TypeError, LookupError, ArithmeticError, AttributeError, AssertionError,
    RecursionError, MemoryError,
)  # fmt: skip
"""What may come of a file that was made to harm: all of it is the file's fault."""


def dumps(estimator: Any) -> bytes:
    """Return the model as the bytes of a file."""
    with getattr(estimator, "still", nullcontext)():
        return b"".join(container.pack(*model.describe(estimator)))


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write the model to a file; the file is there whole, or as it was before."""
    with getattr(estimator, "still", nullcontext)():
        container.write(path, container.pieces_of(*model.describe(estimator)))


def loads(data: bytes, **own: Any) -> Any:
    """Return the model that these bytes hold; see :func:`load`."""
    return _read(data, own, "these bytes")


def load(path: str | os.PathLike[str], **own: Any) -> Any:
    """Return the model that a file holds: the same bits, and the same to come.

    Parameters
    ----------
    path : str or path
        What ``save`` has written.
    **own
        Code of your own that the model uses, which is in no file: ``kernel=``, ``loss=``,
        ``rule=``, ``expansion=``, ``schedule=``, ``regularizer=``. A function, a class, an equal
        object, or (where there are several) a dict from the names that they were saved under.

    Raises
    ------
    ValueError
        If any byte is not as it was written, if the file makes no sense, or if it was written by
        a newer onkel. Nothing in a file is ever executed.

    Examples
    --------
    >>> import tempfile, os, onkel
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> onkel.NoveltyDetector(nu=0.02).partial_fit([[0.0], [1.0]]).save(path)
    >>> onkel.load(path).t_
    2
    """
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size < LARGE:
            return _read(file.read(), own, os.fsdecode(path))
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return _read(data, own, os.fsdecode(path))


def _read(data: Any, own: dict[str, Any], where: str) -> Any:
    from safetensors import SafetensorError

    if not isinstance(data, (bytes, bytearray, memoryview, mmap.mmap)):
        raise TypeError(f"loads takes bytes; got {type(data).__name__}.")
    for name in own:
        if name not in SLOTS:
            raise TypeError(f"code of your own is given as {', '.join(SLOTS)}; got {name!r}.")
    try:
        with np.errstate(all="ignore"):  # numbers that overflow are found by the checks
            return model.rebuild(*container.unpack(data), own)
    except (*_NONSENSE, SafetensorError) as error:
        raise ValueError(f"{where}: cannot load this model: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, ValueError):
        return str(error)
    return f"it makes no sense ({type(error).__name__}: {error})."
