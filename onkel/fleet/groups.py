"""Rows by key: which rows are whose, and how rows of any kind are picked out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import inputs
from onkel.inputs import RefusedRow
from onkel.judge import NamedRows

Array = NDArray[Any]
Key = str | int
KINDS = frozenset((str, int))
MOST = 2**63 - 1


def keys_of(keys: Any) -> Any:
    """Return keys as an array of whole numbers, or as a list; what it holds is not looked at.

    Examples
    --------
    >>> keys_of(np.array([3, 1])), keys_of(("a", 2))
    (array([3, 1]), ['a', 2])
    """
    if isinstance(keys, (str, bytes)) or not hasattr(keys, "__len__"):
        raise ValueError(
            f"keys must be a list or an array, one key per row; got {keys!r:.60}. For a single row "
            "there are learn_one and predict_one."
        )
    if hasattr(keys, "to_numpy"):
        keys = keys.to_numpy()
    if not isinstance(keys, np.ndarray):
        return [*keys]
    if keys.dtype.kind not in "iu" or keys.ndim != 1:
        return keys.tolist()
    if keys.dtype.kind == "u" and keys.max(initial=0) > MOST:
        return keys.tolist()  # which says what is wrong with them
    return np.ascontiguousarray(keys, np.int64)


def plain_keys(keys: Any) -> list[Key]:
    """Return keys as a list of strings and whole numbers; refuse the first that is none.

    Examples
    --------
    >>> plain_keys(["a", np.int64(2)])
    ['a', 2]
    >>> plain_keys(["a", None])
    Traceback (most recent call last):
    ...
    onkel.inputs.RefusedRow: Row 1: its key is None; a key is a string or a whole number.
    """
    return [_plain(key, row) for row, key in enumerate(keys)]


def _plain(key: Any, row: int) -> Key:
    if isinstance(key, np.str_):
        key = str(key)
    elif isinstance(key, np.integer):
        key = int(key)
    if type(key) not in KINDS:
        words = f"Row {row}: its key is {key!r}; a key is a string or a whole number."
        raise RefusedRow(words, row)
    if type(key) is int and not -MOST - 1 <= key <= MOST:
        words = f"Row {row}: its key is {key}; a whole number of a key has up to 64 bits."
        raise RefusedRow(words, row)
    if type(key) is str and not key.isascii():
        try:
            key.encode()
        except UnicodeEncodeError:
            words = f"Row {row}: its key {key!r} is no text that could be written down (UTF-8)."
            raise RefusedRow(words, row) from None
    found: Key = key
    return found


def key_of(key: Any) -> Key:
    """Return one key; refuse what is none.

    Examples
    --------
    >>> key_of(np.int64(7))
    7
    """
    try:
        return _plain(key, 0)
    except RefusedRow as error:
        raise ValueError(f"Fleet: {str(error).removeprefix('Row 0: ')}") from None


def by_number(numbers: Array) -> list[Array]:
    """Return the rows of each number, numbers in the order of their appearance.

    Examples
    --------
    >>> by_number(np.array([7, 3, 7]))
    [array([0, 2]), array([1])]
    """
    order = np.argsort(numbers, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1) if len(order) else []
    return sorted(groups, key=lambda at: int(at[0]))


def as_table(values: Any) -> Any:
    """Return rows, targets or times as something that :func:`picked` can pick from."""
    if values is None or isinstance(values, np.ndarray) or inputs.is_sparse(values):
        return values.tocsr() if inputs.is_sparse(values) else values
    if hasattr(values, "iloc") or hasattr(values, "columns"):
        return values
    return inputs.on_host(values) if inputs.is_tensor(values) else values


def picked(values: Any, at: Array) -> Any:
    """Return some of the rows of an array, a list, a frame or a sparse matrix."""
    if values is None:
        return None
    if isinstance(values, (list, tuple)):
        return [values[i] for i in at.tolist()]
    if isinstance(values, NamedRows):
        return values.part(at)
    if hasattr(values, "iloc"):  # pandas counts by labels otherwise
        return values.iloc[at]
    return values[at]


def rows_in(values: Any) -> int:
    """Return how many rows there are."""
    return int(values.shape[0]) if hasattr(values, "shape") else len(values)


def width_of(values: Any) -> int:
    """Return how many numbers a row has."""
    return int(np.shape(values)[1] if hasattr(values, "shape") else len(values[0]))


def check_lengths(rows: int, **given: Any) -> None:
    """Refuse what does not come once for each row."""
    for name, values in given.items():
        if values is not None and rows_in(values) != rows:
            raise ValueError(
                f"Fleet: {name} must have one value per row; got {rows_in(values)} for {rows} rows."
            )
