"""Labels of any kind, and how they map to the learner's outputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.learner import Learner

Array = NDArray[Any]


class Classes:
    """Which labels are known, and how they map to outputs.

    Two classes share one output (the second, in sorted order, is +1); otherwise each class has
    its own. Labels -1/1, 0/1 and booleans are binary from the start; their +1 is 1.
    """

    def __init__(self, labels: list[Any], binary: bool) -> None:
        self.labels = labels  # one per output; binary: [negative or _UNKNOWN, positive]
        self.binary = binary

    @classmethod
    def given(cls, labels: Any) -> Classes:
        """Start from the labels that the user has named."""
        known = sorted_labels(labels)
        return cls(known, binary=len(known) == 2)

    @property
    def known(self) -> list[Any]:
        """All known labels, sorted."""
        return sorted_labels([v for v in self.labels if v is not _UNKNOWN])

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return 1 if self.binary else len(self.labels)

    def copy(self) -> Classes:
        """Return an independent copy."""
        return Classes(list(self.labels), self.binary)

    def admit(self, label: Any, learner: Learner | None) -> None:
        """Take in a label; `learner` gets the outputs that this needs."""
        if label in self.labels:
            return
        if not self.labels and label in (0, 1, -1) and not isinstance(label, str):
            self.binary = True
            self.labels = [_UNKNOWN, label] if label == 1 else [label, _one_like(label)]
            return
        if self.binary and self.labels[0] is _UNKNOWN and label in (0, -1):
            self.labels[0] = label
            return
        if self.binary:
            self._split(learner)
        self.labels.append(label)
        if learner is not None:
            learner.add_column()

    def _split(self, learner: Learner | None) -> None:
        """More than two classes: the shared output becomes two."""
        self.binary = False
        negative, positive = self.labels
        self.labels = [positive] if negative is _UNKNOWN else [positive, negative]
        if learner is not None and negative is not _UNKNOWN:
            learner.split_column()

    def targets(self, y: Array) -> Array:
        """Return +1/-1 for every row and output."""
        if self.binary:
            return np.where(_equal(y, self.labels[1]), 1.0, -1.0)[:, None]
        return np.column_stack([np.where(_equal(y, v), 1.0, -1.0) for v in self.labels])

    def decisions(self, scores: Array) -> Array:
        """Return what decision_function shows: one column for two classes, else one per class."""
        if self.binary:
            return scores[:, 0]
        order = [self.labels.index(v) for v in self.known]
        scores = scores[:, order]
        return (scores[:, 1] - scores[:, 0]) / 2 if len(order) == 2 else scores

    def predictions(self, scores: Array) -> Array:
        """Return labels; a score of exactly 0 predicts the positive class."""
        known = self.known
        if not known:
            return np.full(len(scores), None, object)
        labels = label_array(known)
        if len(known) == 1:
            return np.repeat(labels, len(scores))
        decision = self.decisions(scores)
        if len(known) == 2:
            return labels[(decision >= 0).astype(int)]
        return labels[np.argmax(decision, axis=1)]


class _Unknown:
    """Stands for the negative label of 0/1 or -1/1 while only 1 has been seen."""

    def __repr__(self) -> str:
        return "<not seen yet>"

    def __reduce__(self) -> str:
        return "_UNKNOWN"


_UNKNOWN = _Unknown()


def _one_like(label: Any) -> Any:
    return True if isinstance(label, (bool, np.bool_)) else type(label)(1)


def _equal(y: Array, label: Any) -> Array:
    return np.array([v == label for v in y], bool) if y.dtype == object else y == label


def sorted_labels(labels: Any) -> list[Any]:
    """Return distinct labels in order, as Python objects."""
    distinct = list(
        dict.fromkeys(np.asarray(labels).tolist() if not isinstance(labels, list) else labels)
    )
    try:
        return sorted(distinct)
    except TypeError:
        return sorted(distinct, key=lambda v: (type(v).__name__, repr(v)))


def label_array(labels: list[Any]) -> Array:
    """Return labels as an array of their common type."""
    if len({type(v) for v in labels}) > 1:
        return np.array(labels, dtype=object)
    return np.array(labels)


def first_rows(y: Array, state: Classes) -> dict[int, Any]:
    """Return row -> label for every label that appears for the first time."""
    firsts: dict[int, Any] = {}
    seen = {v for v in state.labels if v is not _UNKNOWN}
    if y.dtype != object:
        values, where = np.unique(y, return_index=True)
        return {int(i): v for v, i in zip(values.tolist(), where, strict=True) if v not in seen}
    for i, label in enumerate(y.tolist()):
        if label not in seen:
            seen.add(label)
            firsts[i] = label
    return firsts


def joined(parts: list[Array], y: Array) -> Array:
    """Return predictions as one array; a first None becomes 1 where labels are -1/1 or 0/1."""
    if y.dtype.kind in "biuf" and len(y) and y[0] in (-1, 0, 1):
        parts = [np.ones(len(p), y.dtype) if p.dtype == object else p for p in parts]
    if any(p.dtype == object for p in parts):
        parts = [p.astype(object) for p in parts]
    return np.concatenate(parts) if parts else np.zeros(0, y.dtype)


def aligned(then: Classes, scores: Array, now: Classes) -> Array:
    """Return scores of an earlier set of classes in the columns of a later one."""
    if then.binary == now.binary and then.outputs == now.outputs:
        return scores
    wide = np.zeros((len(scores), now.outputs))
    if then.binary and not now.binary:
        for i, label in enumerate(now.labels):
            if label in then.labels:
                wide[:, i] = scores[:, 0] if label == then.labels[1] else -scores[:, 0]
        return wide
    if not then.labels:
        return wide
    wide[:, : scores.shape[1]] = scores
    return wide
