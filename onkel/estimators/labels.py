"""Labels as they come from users: which can be told apart, and which are refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.inputs import EXACT, WHOLE, RefusedRow

Array = NDArray[Any]

CONTINUOUS = (
    "Unknown label type: continuous. A classifier takes labels, not measurements; for those use"
)
"""Said where fractions came as labels; who says it knows what is to be used."""
LABELS = (bool, int, float, str, bytes, np.bool_, np.integer, np.floating)
"""What can be told apart, and kept in a file."""


def checked(y: Array, what: str = "Row") -> Array:
    """Return labels; raise a :class:`RefusedRow` for the first that cannot be one.

    `what` is said before its number.

    Examples
    --------
    >>> checked(np.array([2, 3]))
    array([2, 3])
    >>> checked(np.array([3, 2**64], object))
    Traceback (most recent call last):
    onkel.inputs.RefusedRow: Row 1: the label 18446744073709551616 has 66 bits; give it as text.
    """
    kind = y.dtype.kind
    if kind == "c":
        raise ValueError(f"Complex data not supported: labels are texts or numbers; got {y.dtype}.")
    with np.errstate(invalid="ignore"):
        plain = kind == "f" and np.all((np.abs(y) < EXACT) & (y == np.floor(y)))
    if kind == "O" or (kind == "f" and not plain) or (kind == "u" and np.any(y > WHOLE[1])):
        check_labels(y.tolist(), what)
    elif kind not in "biufUS":
        check_labels(y[:1].tolist(), what)
    return y


def check_labels(labels: Sequence[Any], what: str = "Label") -> None:
    """Raise a :class:`RefusedRow` for the first that cannot be a label."""
    words = any(isinstance(label, str) for label in labels)
    for row, label in enumerate(labels):
        why = "" if label.__class__ is str else _fault(label, words)
        if why:
            raise RefusedRow(f"{what} {row}: {why}", row)


def _fault(label: Any, words: bool) -> str:
    """Return what is wrong with a label; nothing, if it is one.

    Beside `words` a fraction is a name like any other.
    """
    if label is None or (isinstance(label, (float, np.floating)) and label != label):
        return "Input y contains NaN or None: give a label."
    if isinstance(label, int) and not WHOLE[0] <= label <= WHOLE[1]:
        bits = label.bit_length() + 1  # one is the sign
        named = f"the label {label}" if bits <= 128 else "the label"
        return f"{named} has {bits} bits; give it as text."
    if isinstance(label, float):
        return _fault_of_float(label, words)
    if not isinstance(label, LABELS):
        return (
            f"Unknown label type: {type(label).__name__} ({label!r:.60}). A label is a whole "
            "number, a text or True or False; turn others into texts."
        )
    return ""


def _fault_of_float(label: float, words: bool) -> str:
    if math.isinf(label):
        return "Input y contains NaN or infinity: every row needs a label."
    if label != math.floor(label) and not words:
        return f"{CONTINUOUS} Regressor."
    if abs(label) >= EXACT:
        return f"the label {label!r} is beyond 2**53, where floats skip numbers. Give integers."
    return ""
