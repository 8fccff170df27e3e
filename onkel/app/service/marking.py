"""What the page draws of labels, whatever the caller wants to know of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.judge import Answer, marks_of_labels

Array = NDArray[Any]


def marked(model: Any, found: Answer, y: Any) -> Answer:
    """Return an answer with marks: of decisions and probabilities, by the labels they mean."""
    if model.task != "classification" or found.marks.value is not None:
        return found
    labels = _labels(np.asarray(found.values), model.classes_)
    return found._replace(marks=marks_of_labels(labels, y))


def _labels(values: Array, classes: Array) -> list[Any]:
    """Return the labels that decisions or probabilities speak for.

    Examples
    --------
    >>> _labels(np.array([-1.0, 0.5]), np.array(["a", "b"]))
    ['a', 'b']
    >>> _labels(np.array([[0.2, 0.7, 0.1]]), np.array([1, 2, 3]))
    [2]
    """
    at = values.argmax(axis=1) if values.ndim == 2 else (values >= 0).astype(int)
    found: list[Any] = classes[np.minimum(at, len(classes) - 1)].tolist()
    return found
