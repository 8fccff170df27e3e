"""Models that may live on a GPU: where they go, and how they move."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

from onkel import learner as learners
from onkel.estimators.base import Estimator
from onkel.estimators.locks import locked
from onkel.gpu import devices
from onkel.gpu.densities import placed
from onkel.learner import Settings
from onkel.saved import Saved


def found_here(device: str) -> str:
    """Return a saved model's device; "cpu", with a warning, where there is no such device."""
    reason = None if device in ("cpu", "auto") else devices.missing(device)
    if reason is None:
        return device
    warnings.warn(
        f"This model was saved with device={device!r}, but {reason}: it goes on on the CPU, with "
        "device='cpu'.",
        RuntimeWarning,
        stacklevel=3,
    )
    return "cpu"


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

    def _come_here(self) -> None:
        devices.check(type(self).__name__, self.device, self.precision)
        self.device = found_here(self.device)

    def _resumed_settings(self, found: dict[str, Any]) -> Settings:
        return self._placed(super()._resumed_settings(found), self.device)

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


class JudgesOnDevice(Estimator):
    """A detector with ``device=``: there blocks of rows are judged; rows are learned on the CPU."""

    device: str
    _learner: Any

    def _chosen(self, device: str) -> str:
        owner = type(self).__name__
        devices.check(owner, device)
        return devices.found(owner, device)

    def _come_here(self) -> None:
        devices.check(type(self).__name__, self.device)
        self.device = found_here(self.device)

    def _go_on(self, learner: Any) -> Any:
        """Return the learner of a saved model, on the model's device."""
        return placed(learner, self._chosen(self.device))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A pickle of a model that judged on a GPU may be read where there is none."""
        self.__dict__.update(state)
        learner = state.get("_learner")
        if learner is not None and found_here(learner.device) != learner.device:
            self._learner, self.device = placed(learner, "cpu"), "cpu"

    @locked
    def to(self, device: str) -> Self:
        """Judge blocks of rows on another device, "cpu", "cuda" or "auto"; return the model.

        Examples
        --------
        >>> from onkel import Detector
        >>> Detector().partial_fit([[0.0], [1.0]]).to("cpu").t_
        2
        """
        chosen = self._chosen(device)
        if hasattr(self, "_learner"):
            self._learner = placed(self._learner, chosen)
            self.__dict__.pop("_one", None)
        self.device = device
        return self
