"""The learner whose f lives on a GPU: its terms, and rows on their way there.

What learns rows is the device's engine (``engine.py``); the loop is every learner's.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from onkel.core.frame import Frame
from onkel.core.layout import Field, Program
from onkel.gpu import devices, launch, memory
from onkel.gpu.device_terms import DeviceTerms
from onkel.gpu.engine import DEVICE
from onkel.gpu.launch import send
from onkel.gpu.moments import take_in
from onkel.gpu.rows import on_host
from onkel.gpu.track import PIECE, Track
from onkel.learner import TermLearner

Array = NDArray[Any]


class OnDevice(TermLearner):
    """What learners with terms on a GPU share: where rows go, and what scores them."""

    at_a_time: ClassVar[int] = PIECE
    track: Any = None
    """What the device works in."""

    @property
    def device(self) -> Any:
        """Where the terms are."""
        return torch.device("cpu" if launch.INTERPRETED else self.settings.device)

    def open(self, frame: Frame) -> None:
        """Make what f is stored in."""
        super().open(frame)
        devices.allow("budget", self.window.budget.code)
        self.refreshes = self.settings.scale or self.moments.gaps or self.targets.active

    def no_terms(self, frame: Frame | None) -> DeviceTerms:
        """Return empty storage for terms."""
        assert frame is not None  # no strings here
        limit = min(self.window.cap, self.window.age)
        return DeviceTerms(
            self.kernel, frame, 0, limit, self.device, self.settings.precision, self.dtype,
            self.functions(),
        )  # fmt: skip

    def functions(self) -> list[Program]:
        """Return the kernel functions of all settings that share the terms."""
        return [self.kernel.program() or []]

    # -- learning ------------------------------------------------------------------------------

    def learn_within(self, *args: Any, **kwargs: Any) -> tuple[Array, Array]:
        """Learn rows as part of a call; a device without room says what does not fit."""
        with memory.explained(self.terms):
            return super().learn_within(*args, **kwargs)

    # -- rows ----------------------------------------------------------------------------------

    def on_device(self, X: Any) -> Any:
        """Return rows on the device, in the type they came in; a tensor there is used in place."""
        if isinstance(X, torch.Tensor):
            return X.to(self.device)
        return send(on_host(X), self.device)

    def at_once(self, X: Any, start: int, rows: int) -> int:
        """Return how many of these rows are looked at together: all, they are sent in pieces."""
        return rows

    def filled(self, X: Any) -> Any:
        """Return rows with missing values as what they stand for."""
        return super().filled(on_host(X)) if self.moments.gaps else X

    def take_in(self, X: Any, fade: Array) -> None:
        """Take rows into the moments, where they are."""
        if isinstance(X, torch.Tensor) and not (self.moments.gaps or len(fade)):
            take_in(self.moments, X.to(self.device))
        else:
            self.moments.update(on_host(X), fade)

    def refresh(self, X: Any) -> None:
        """Take frame and targets' units over from the moments."""
        super().refresh(on_host(X[-1:]))

    # -- predicting ----------------------------------------------------------------------------

    def unit_scores(self, X: Any) -> Array:
        """Return f(x) + b, in the learner's own units of targets."""
        found = self.terms.scores(self.on_device(X))
        return np.asarray(found * self.state[:, Field.SCALE] + self.state[:, Field.OFFSET])

    # -- copies --------------------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """What the device works in can be made again."""
        return {**self.__dict__, "track": None}


class GpuLearner(OnDevice):
    """f = sum of terms a_i k(x_i, .) on a GPU; see :class:`~onkel.learner.TermLearner`."""

    engines: ClassVar[tuple[Any, ...]] = (DEVICE,)
    track: Track | None = None

    def norm2(self) -> Array:
        """Recompute ||f||^2 of each output from its terms, in O(terms^2)."""
        scale = self.state[:, Field.SCALE]
        return np.asarray(self.terms.norm2(self.columns) * scale**2)
