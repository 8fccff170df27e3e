"""Models that may live on a GPU: where they go, and how they move."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

from onkel import learner as learners
from onkel.estimators.base import Estimator
from onkel.estimators.locks import locked
from onkel.gpu import devices
from onkel.learner import Settings
from onkel.saved import Saved


class OnDevice(Estimator):
    """An estimator with ``device=`` and ``precision=``."""

    device: str
    precision: str

    def _settings(self) -> Settings:
        settings, owner = super()._settings(), type(self).__name__
        devices.check(owner, self.device, self.precision)
        if self.device != "cpu" and self.passes > 1:
            if self.device == "auto":
                return settings
            raise ValueError(
                f"{owner}: device={self.device!r} takes passes=1; got {self.passes}. A second pass "
                "adds to terms that are stored already, which only device='cpu' does."
            )
        return self._placed(settings, self.device)

    def _placed(self, settings: Settings, device: str) -> Settings:
        wanted = replace(settings, device=device, precision=self.precision)
        return replace(wanted, device=devices.chosen(type(self).__name__, wanted))

    def _resumed_settings(self, found: dict[str, Any]) -> Settings:
        settings = super()._resumed_settings(found)
        devices.check(type(self).__name__, self.device, self.precision)
        reason = None if self.device in ("cpu", "auto") else devices.missing(self.device)
        if reason is None:
            return self._placed(settings, self.device)
        warnings.warn(
            f"This model was saved with device={self.device!r}, but {reason}: it goes on on the "
            "CPU, with device='cpu'.",
            RuntimeWarning,
            stacklevel=2,
        )
        self.device = "cpu"
        return settings

    @locked
    def to(self, device: str) -> Self:
        """Move the model to another device, "cpu", "cuda" or "auto"; return it.

        The same as saving it there and loading it here. On a GPU rows are held in float32.

        Examples
        --------
        >>> from onkel import KernelRegressor
        >>> model = KernelRegressor().partial_fit([[0.0], [1.0]], [1.0, 2.0])
        >>> model.to("cpu").t_
        2
        """
        devices.check(type(self).__name__, device, self.precision)
        if hasattr(self, "_learner"):
            settings = self._placed(self._learner.settings, device)
            saved = Saved(learners.dump(self._learner))
            self._learner = learners.resumed(settings, saved, self._starter(settings))
            self.__dict__.pop("_one", None)
        self.device = device
        return self
