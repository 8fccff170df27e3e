"""The detector's learner with a device beside it: blocks of rows are judged there.

Rows are learned on the CPU. This module imports PyTorch when the first block is judged, so that a
model can be read where there is none.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onkel.core.density_table import Count, Level
from onkel.inputs import is_tensor, on_host
from onkel.learner import Densities

Array = NDArray[Any]

FEWEST = 512
"""Rows of a block that is worth sending; fewer are judged on the CPU."""
AT_ONCE = 2**24
"""Numbers of the rows that are sent together."""


class DeviceDensities(Densities):
    """See :class:`~onkel.learner.Densities`; `device` is the name of a GPU."""

    _judge: Any = None
    """What was copied to the device, for as long as nothing is learned."""

    def judged(self, X: Any, members: bool = False) -> tuple[Array, Array]:
        """Judge rows, each as the next one; long blocks on the device."""
        if len(X) < FEWEST or not self.judging:
            return super().judged(on_host(X), members)
        step = max(AT_ONCE // self.features, FEWEST)
        found = [self._block(X[i : i + step]) for i in range(0, len(X), step)]
        out, parts = (np.concatenate(column) for column in zip(*found, strict=True))
        return out, parts if members else parts[:0]

    def learn(self, X: Any, *args: Any, **kwargs: Any) -> tuple[Array, Array]:
        """Learn rows in order, on the CPU: each may change the sample that the next one meets."""
        return super().learn(on_host(X), *args, **kwargs)

    @property
    def judging(self) -> bool:
        """Whether there are terms enough (before that, p is 1), and no answers have a say."""
        return (
            not len(self.answers.born)
            and self.count(Count.SIZE) >= self.plan.young
            and self.level(Level.WIDTH) > 0
        )

    def _block(self, X: Any) -> tuple[Array, Array]:
        if not is_tensor(X):
            from onkel.gpu import rows

            X = rows.on_host(X)  # sparse ones too
            if self.missing == "mean" and np.isnan(X).any():
                return super().judged(X, members=True)
        found: tuple[Array, Array] = self._there().judged(X)
        return found

    def _there(self) -> Any:
        """Return the state on the device, copied anew if rows were learned since."""
        from onkel.gpu.density import Judge

        if self._judge is None or not self._judge.holds(self.state):
            self._judge = Judge(self.plan, self.state, self.tied, self.device)
        return self._judge

    def copy(self) -> Self:
        """Return an independent copy, with nothing on the device yet."""
        other = super().copy()
        other._judge = None
        return other

    def __getstate__(self) -> dict[str, Any]:
        """What lies on the device can be copied there again."""
        return {**self.__dict__, "_judge": None}


def placed(learner: Densities, device: str) -> Densities:
    """Return the same learner, which judges blocks of rows on that device."""
    kind = Densities if device == "cpu" else DeviceDensities
    other = object.__new__(kind)
    names = ("plan", "dtype", "missing", "state", "rule", "answers")
    other.__dict__.update({name: getattr(learner, name) for name in names})
    if device != "cpu":
        other.device = device
    return other
