"""What states that learn row by row in the compiled core share: arrays, copies, single rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel.saved import Saved

Array = NDArray[Any]


class _Bound:
    """What single rows are learned with may be bound to it; that is no part of what it is."""

    __slots__ = ("_one",)
    _one: tuple[Any, Array] | None


class Bindable(_Bound):
    """A dataclass of arrays that rows of scores change in place."""

    averaged: ClassVar[tuple[str, ...]]
    """Arrays of which the mean is taken where states are added."""
    added: ClassVar[tuple[str, ...]]
    """Arrays of which the sum is taken."""
    low: ClassVar[Mapping[str, float]]
    """The least number that an array of a file may hold, where there is one."""

    outputs: int
    weights: Array
    bow: Array

    @property
    def influence(self) -> Array:
        """What each member counts for now, its part of the joint experts with it; 1 in all."""
        raise NotImplementedError

    def bound(self) -> Any:
        """Return what learns and looks at rows in these arrays, as long as none is replaced."""
        raise NotImplementedError

    def _writable(self) -> bool:
        """Whether the arrays may be written to: those of a file that is mapped may not."""
        raise NotImplementedError

    def __setattr__(self, name: str, value: Any) -> None:
        """An array that is replaced leaves nothing bound to the old one."""
        object.__setattr__(self, "_one", None)
        object.__setattr__(self, name, value)

    def __getstate__(self) -> dict[str, Any]:
        """Return what it is, without what is bound to it."""
        return dict(vars(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become what was pickled."""
        for name, value in state.items():
            setattr(self, name, value)

    def dump(self) -> dict[str, Any]:
        """Return its arrays, as copies."""
        held = {f.name: getattr(self, f.name) for f in fields(self)}  # type: ignore[arg-type]
        return {k: v.copy() for k, v in held.items() if isinstance(v, np.ndarray)}

    def copy(self) -> Self:
        """Return an independent copy."""
        return replace(self, **self.dump())  # type: ignore[type-var]

    def load(self, saved: Saved) -> None:
        """Take the arrays of a file, each as large as it is here."""
        for name, like in self.dump().items():
            setattr(self, name, saved.array(name, like.shape, like.dtype, low=self.low.get(name)))
        if abs(self.weights.sum() - 1.0) > 1e-6:
            raise saved.refuse("weights", "must have a sum of 1")
        if not positive(self.bow):
            raise saved.refuse("bow", "must be positive definite")

    def take_sum(self, states: Sequence[Self], shares: Array, start: Self | None) -> None:
        """Become what these know together: what they fitted averaged, what they counted added.

        Of weights the logarithms are averaged. What a start had counted counts once.
        """
        for name in self.averaged:
            each = np.array([getattr(s, name) for s in states])
            setattr(self, name, np.tensordot(shares, each, 1))
        self.weights = mean_weights(np.array([s.weights for s in states]), shares)
        for name in self.added:
            total = sum(getattr(s, name) for s in states)
            again = 0 if start is None else (len(states) - 1) * getattr(start, name)
            setattr(self, name, total - again)

    # -- rows ----------------------------------------------------------------------------------

    def learn(self, scores: Array, y: Array) -> Array:
        """Answer rows and learn them, one by one; return what was told before each.

        `scores` are [rows][members][outputs], `y` and what is told [rows][outputs].
        """
        out = np.empty((len(scores), self.outputs))
        if out.size:
            y = np.ascontiguousarray(y, np.float64)
            self.bound().learn(np.ascontiguousarray(scores), y, out)
        return out

    def look(self, scores: Array) -> Array:
        """Return what is told of rows as things are."""
        out = np.empty((len(scores), self.outputs))
        if out.size:
            held = self if self._writable() else self.copy()
            held.bound().look(np.ascontiguousarray(scores), out)
        return out

    def learn_one(self, scores: Array, y: Array) -> Array:
        """Answer one row and learn it; the answer lies where the next one will."""
        bound, out = self._one or self._bind()
        bound.learn(scores, y, out)
        return out

    def look_one(self, scores: Array) -> Array:
        """Answer one row; the answer lies where the next one will."""
        bound, out = self._one or self._bind()
        bound.look(scores, out)
        return out

    def _bind(self) -> tuple[Any, Array]:
        held = self if self._writable() else self.copy()
        self._one = found = held.bound(), np.empty(self.outputs)
        return found


def positive(lower: Array) -> bool:
    """Whether matrices are positive definite, of which these are the lower halves."""
    try:
        np.linalg.cholesky(whole(lower))
    except np.linalg.LinAlgError:
        return False
    return True


def whole(lower: Array) -> Array:
    """Return the symmetric matrix of which this is the lower half."""
    return np.asarray(np.tril(lower) + np.tril(lower, -1).swapaxes(-1, -2))


def mean_weights(each: Array, shares: Array) -> Array:
    """Return weights whose logarithms are the mean of these, but for a constant.

    A member that one of the mixtures has given up altogether has none.

    Examples
    --------
    >>> mean_weights(np.array([[0.9, 0.1], [0.5, 0.5]]), np.array([0.5, 0.5])).round(3)
    array([0.75, 0.25])
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(shares[:, None] > 0, shares[:, None] * np.log(each), 0.0).sum(axis=0)
    if not np.isfinite(logs).any():
        return np.asarray(shares @ each)
    found = np.exp(logs - logs.max())
    return np.asarray(found / found.sum())
