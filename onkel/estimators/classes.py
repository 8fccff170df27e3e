"""Labels of any kind, and how they map to the learner's outputs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.inputs import labels_of
from onkel.params import NON_NEGATIVE as WEIGHT
from onkel.saved import Saved

Array = NDArray[Any]


class Classes:
    """Which labels are known, and how they map to outputs.

    Two classes share one output (the second, in sorted order, is +1); otherwise each class has
    its own. Labels -1/1, 0/1 and booleans are binary from the start: 1 is the positive side, and
    a side that has not been seen stays unknown.
    """

    def __init__(self, labels: list[Any], binary: bool, named: int = 0) -> None:
        self.labels = labels  # one per output; binary: [negative, positive], each may be UNKNOWN
        self.binary = binary
        self.named = named  # how many the user has named beforehand

    @classmethod
    def given(cls, labels: Any) -> Classes:
        """Start from the labels that the user has named."""
        known = sorted_labels(labels)
        return cls(known, binary=len(known) == 2, named=len(known))

    @property
    def known(self) -> list[Any]:
        """All known labels, sorted."""
        return sorted_labels([v for v in self.labels if v is not UNKNOWN])

    def order(self) -> list[int]:
        """Return where the known labels, sorted, stand among the outputs' labels."""
        place = {label: i for i, label in enumerate(self.labels)}
        return [place[label] for label in self.known]

    @property
    def outputs(self) -> int:
        """Number of outputs."""
        return 1 if self.binary else len(self.labels)

    def copy(self) -> Classes:
        """Return an independent copy."""
        return Classes(list(self.labels), self.binary, self.named)

    def dump(self) -> dict[str, Any]:
        """Return what a file must hold of the classes."""
        seen = [v is not UNKNOWN for v in self.labels]
        labels = [v for v in self.labels if v is not UNKNOWN]
        return {"labels": labels, "seen": seen, "binary": self.binary, "named": self.named}

    @classmethod
    def restored(cls, saved: Saved) -> Classes:
        """Return the classes that a file holds."""
        binary, named = saved.flag("binary"), saved.whole("named")
        seen, labels = saved.items("seen", bool), saved.items("labels")
        if (binary and len(seen) != 2) or not (binary or all(seen)):
            raise saved.refuse("seen", "must be two flags where two classes share an output")
        if len(labels) != sum(seen) or len({*labels}) < len(labels):
            raise saved.refuse("labels", "must be distinct, one for each class that was seen")
        if any(v is None or v != v for v in labels):
            raise saved.refuse("labels", "must not hold NaN or nothing")
        left = iter(labels)
        saved.finish()
        return cls([next(left) if s else UNKNOWN for s in seen], binary, named)

    def admit(self, label: Any, learner: Any) -> None:
        """Take in a label; `learner` gets the outputs that this needs."""
        if label in self.labels:
            return
        side = side_of(label)
        if not self.labels and side is not None:
            self.binary = True
            self.labels = [UNKNOWN, UNKNOWN]
            learner.add_column()
        if self.binary and side is not None and self.labels[side] is UNKNOWN:
            self.labels[side] = label
            return
        if self.binary:
            self._split(learner)
        self.labels.append(label)
        learner.add_column()

    def _split(self, learner: Any) -> None:
        """More than two classes: the shared output becomes one for each side that was seen."""
        negative, positive = self.labels
        self.binary = False
        self.labels = [v for v in (positive, negative) if v is not UNKNOWN]
        if positive is UNKNOWN:
            learner.mirror_column()
        elif negative is not UNKNOWN:
            learner.split_column()

    def join(self, common: Classes, learner: Any) -> None:
        """Take over the classes of :func:`common`; `learner` gets their outputs, in their order."""
        if common.binary:
            if not self.labels:
                learner.add_column()
        else:
            if self.binary:
                self._split(learner)
            for label in common.labels:
                if label not in self.labels:
                    self.labels.append(label)
                    learner.add_column()
            place = {label: i for i, label in enumerate(self.labels)}
            learner.arrange([place[v] for v in common.labels])
        self.__dict__.update(common.copy().__dict__)

    def targets(self, y: Array) -> Array:
        """Return +1/-1 for every row and output."""
        if not self.labels:
            return np.zeros((len(y), 0))
        if self.binary:
            return np.where(_equal(y, self.labels[1]), 1.0, -1.0)[:, None]
        if y.dtype != object and len(self.labels) <= FEW:
            return np.column_stack([np.where(_equal(y, v), 1.0, -1.0) for v in self.labels])
        place = {label: i for i, label in enumerate(self.labels)}
        at = np.array([place.get(label, -1) for label in y.tolist()], np.intp)
        found, rows = np.full((len(y), len(self.labels)), -1.0), np.flatnonzero(at >= 0)
        found[rows, at[rows]] = 1.0
        return found

    def decisions(self, scores: Array) -> Array:
        """Return what decision_function shows: one column for two classes, else one per class."""
        if not self.labels:
            return np.zeros(len(scores))
        if self.binary or len(self.labels) == 1:
            return scores[:, 0]
        order = self.order()
        scores = scores[:, order]
        return (scores[:, 1] - scores[:, 0]) / 2 if len(order) == 2 else scores

    def contest(self, scores: Array) -> tuple[Any, Any, Array]:
        """Return the winning class, the one that came next, and what makes the margin of scores.

        With fewer than two known classes there is no second, and the margin is a plain score.
        """
        known, mix = self.known, np.zeros(len(scores))
        if len(known) < 2:
            mix[:1] = 1.0
            return (known[0] if known else None), None, mix
        decision = self.decisions(scores[None])[0]
        if len(known) == 2:
            side = 1.0 if decision >= 0 else -1.0
            mix = side * self.decisions(np.eye(len(scores)))
            return (known[1], known[0], mix) if side > 0 else (known[0], known[1], mix)
        winner = int(np.argmax(decision))
        second = int(np.argmax(np.where(np.arange(len(known)) == winner, -np.inf, decision)))
        mix[self.labels.index(known[winner])] = 1.0
        mix[self.labels.index(known[second])] = -1.0
        return known[winner], known[second], mix

    def mistakes(self, scores: Array, y: Array) -> int:
        """Count rows (of known labels) whose class does not score strictly above the rest."""
        if not len(y):
            return 0
        targets = self.targets(y)
        if self.binary:
            return int(np.count_nonzero(targets[:, 0] * scores[:, 0] <= 0))
        own = np.where(targets > 0, scores, -np.inf).max(axis=1)
        others = np.where(targets > 0, -np.inf, scores).max(axis=1)
        return int(np.count_nonzero(own <= others))

    def predictions(self, scores: Array) -> Array:
        """Return labels; a score of exactly 0 predicts the positive class."""
        known = self.known
        if not known:
            return np.full(len(scores), None, object)
        return label_array(known)[self.winners(scores)]

    def winners(self, scores: Array) -> Array:
        """Return the places of the labels that are predicted, among the known ones."""
        decision, count = self.decisions(scores), len(self.known)
        if count < 3:
            return ((decision >= 0) & (count == 2)).astype(np.intp)
        return np.argmax(decision, axis=1)


class LoneClasses:
    """The classes as single rows need them: worked out once, until a new class comes."""

    def __init__(self, classes: Classes) -> None:
        known = classes.known
        self.targets: dict[Any, Any] = {}
        """What a known label means to the outputs; empty while fewer than two are known."""
        self.rows: dict[Any, Array] = {}
        """The same as arrays, one number per output."""
        if len(known) < 2:
            return
        labels, self.labels = classes.labels, label_array(known)
        self.binary = classes.binary
        self.place = {v: i for i, v in enumerate(labels)}
        self.order = [self.place[v] for v in known]
        for i, label in enumerate(labels):
            row = np.where(np.arange(len(labels)) == i, 1.0, -1.0)
            self.targets[label] = float(row[1]) if self.binary else row
            self.rows[label] = row[1:] if self.binary else row

    def target(self, label: Any) -> Any:
        """Return the target of a known label, else None."""
        try:
            return self.targets.get(label)
        except TypeError:
            return None

    def mistake(self, label: Any, scores: Array) -> bool:
        """Whether the class of this label does not score strictly above the rest."""
        found = scores.tolist()
        if self.binary:
            return bool(self.targets[label] * found[0] <= 0)
        own = found.pop(self.place[label])
        return bool(own <= max(found))

    def prediction(self, scores: Array) -> Any:
        """Return the label of a row with these scores."""
        found = scores.tolist()
        if len(self.order) == 2:
            decision = found[0] if self.binary else found[self.order[1]] - found[self.order[0]]
            return self.labels[int(decision >= 0)]
        ranked = [found[i] for i in self.order]
        return self.labels[ranked.index(max(ranked))]


class _Unknown:
    """Stands for the negative label of 0/1 or -1/1 while only 1 has been seen."""

    def __repr__(self) -> str:
        return "<not seen yet>"

    def __reduce__(self) -> str:
        return "UNKNOWN"


UNKNOWN = _Unknown()


def common(parts: list[Classes]) -> Classes:
    """Return the classes of several models together: one shared output if all have the same two.

    Else one output for each class that any of them knows.
    """
    named = max(part.named for part in parts)
    known = [part for part in parts if part.labels]
    if known and all(part.binary for part in known):
        sides = [_one_label([part.labels[i] for part in known]) for i in (0, 1)]
        if None not in sides:
            return Classes([side[0] for side in sides if side], True, named)
    labels = [v for part in known for v in part.labels if v is not UNKNOWN]
    return Classes(sorted_labels(labels), False, named)


def _one_label(labels: list[Any]) -> tuple[Any] | None:
    """Return the one label among these (not seen yet, if none is known); None if they differ."""
    known = [v for v in labels if v is not UNKNOWN]
    if any(v != known[0] for v in known):
        return None
    return (known[0] if known else UNKNOWN,)


def side_of(label: Any) -> int | None:
    """Return 1 for the label 1 (or True), 0 for 0, -1 (or False), None for any other."""
    if isinstance(label, str) or label not in (-1, 0, 1):
        return None
    return int(label == 1)


def _equal(y: Array, label: Any) -> Array:
    if y.dtype == object:
        return np.array([v == label for v in y], bool)
    if isinstance(label, str) and label.endswith("\0"):
        return np.zeros(len(y), bool)  # an array of fixed width cannot hold it
    return np.asarray(y == label)


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
    """Return labels as an array of their common type; numbers of any kind have one."""
    numbers = all(isinstance(v, (bool, int, float)) for v in labels)
    if not numbers and len({type(v) for v in labels}) > 1:
        return np.array(labels, dtype=object)
    return labels_of(labels)


def first_rows(y: Array, state: Classes) -> dict[int, Any]:
    """Return row -> label for every label that appears for the first time."""
    firsts: dict[int, Any] = {}
    seen = {v for v in state.labels if v is not UNKNOWN}
    if y.dtype != object:
        if 0 < len(seen) <= FEW and np.all(np.any([_equal(y, v) for v in seen], axis=0)):
            return firsts  # the rule, and much cheaper to see than to sort
        values, where = np.unique(y, return_index=True)
        return {int(i): v for v, i in zip(values.tolist(), where, strict=True) if v not in seen}
    for i, label in enumerate(y.tolist()):
        if label not in seen:
            seen.add(label)
            firsts[i] = label
    return firsts


def joined(pieces: list[tuple[Classes, Array]], y: Array) -> Array:
    """Return predictions as one array; before any class is known, None (1 for -1/1 and 0/1)."""
    parts = [classes.predictions(scores) for classes, scores in pieces]
    if y.dtype.kind in "biuf" and len(y) and side_of(y[0].item()) is not None:
        unknown = [not classes.labels for classes, _ in pieces]
        parts = [
            np.ones(len(p), y.dtype) if new else p for p, new in zip(parts, unknown, strict=True)
        ]
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


FEW = 64
"""Labels up to which each is counted on its own."""


def label_counts(before: Mapping[Any, int], new: Iterable[Any], labels: Array) -> dict[Any, int]:
    """Return counts with these labels added; `new` are those not counted before, in order.

    Examples
    --------
    >>> label_counts({"b": 1}, ["c", "a"], np.array(["c", "a", "c"]))
    {'b': 1, 'c': 2, 'a': 1}
    """
    counts = {**before, **dict.fromkeys(new, 0)}
    if labels.dtype == object or len(counts) > FEW:
        for label in labels.tolist():
            counts[label] = counts.get(label, 0) + 1
        return counts
    for label in counts:
        counts[label] += int(np.count_nonzero(_equal(labels, label)))
    return counts


def class_weights(
    owner: str, wanted: Any, before: Mapping[Any, int], named: int, y: Array
) -> Array:
    """Return each row's weight by its class: None, given, or balanced by the counts so far."""
    if wanted is None:
        return np.ones(len(y))
    if isinstance(wanted, dict):
        for label, weight in wanted.items():
            WEIGHT.check(owner, f"class_weight[{label!r}]", weight)
        return np.array([float(wanted.get(v, 1.0)) for v in y.tolist()])
    if wanted != "balanced":
        raise ValueError(f"class_weight must be a dict, 'balanced' or None; got {wanted!r}.")
    counts, weights = dict(before), np.empty(len(y))
    for i, label in enumerate(y.tolist()):
        counts[label] = counts.get(label, 0) + 1
        weights[i] = sum(counts.values()) / (max(len(counts), named) * counts[label])
    return weights
