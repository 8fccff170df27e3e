"""What states that learn row by row in the compiled core share: arrays, copies, single rows."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


class _Bound:
    """What single rows are learned with may be bound to it; that is no part of what it is."""

    __slots__ = ("_one",)
    _one: tuple[Any, Array] | None


class Bindable(_Bound):
    """A dataclass of arrays that rows of scores change in place."""

    outputs: int

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
