"""Where the members of a mixture live: those with terms together on a device, others on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from onkel.estimators.base import Estimator
from onkel.estimators.device import found_here
from onkel.estimators.locks import locked
from onkel.gpu import devices
from onkel.gpu.opening import opened
from onkel.learner import Mixture, Settings, resumed_mixture
from onkel.saved import Saved


class Placed(Estimator):
    """A mixture with ``device=``: there live its members with terms."""

    device: str
    _kind: ClassVar[type[Mixture]]
    _learner: Any

    def _placed(self, bank: Sequence[Settings], device: str) -> list[Settings]:
        """Return the members' settings with the device of each; raise where one cannot go there.

        "auto" is the GPU where there is one that can run all members with terms.
        """
        owner = type(self).__name__
        devices.check(owner, device)
        far = [settings for settings in bank if not settings.expansion.primal]
        where = devices.found(owner, device, lambda: _unfit(far))
        return [s if s.expansion.primal else replace(s, device=where) for s in bank]

    def _come_here(self) -> None:
        devices.check(type(self).__name__, self.device)
        self.device = found_here(self.device)

    def _placed_here(self, bank: Sequence[Settings], names: Sequence[Any]) -> list[Settings]:
        """Return a saved mixture's settings, on the model's device."""
        precise = [getattr(member, "precision", "tf32x3") for member in names]
        own = [replace(s, precision=p) for s, p in zip(bank, precise, strict=True)]
        return self._placed(own, self.device)

    @locked
    def to(self, device: str) -> Self:
        """Move the members with terms to another device, "cpu", "cuda" or "auto"; return the model.

        The same as saving it there and loading it here. On a GPU rows are held in float32.

        Examples
        --------
        >>> from onkel import Classifier
        >>> Classifier().partial_fit([[0.0], [1.0]], [0, 1]).to("cpu").t_
        2
        """
        devices.check(type(self).__name__, device)
        if hasattr(self, "_learner"):
            old = self._learner
            bank, saved = self._placed(old.members, device), Saved(old.dump())
            new = resumed_mixture(self._kind, bank, old.numbers(), saved, opened)
            new.names = old.names
            self._learner = new
        self.device = device
        return self


def _unfit(bank: Sequence[Settings]) -> str | None:
    """Return what of these settings cannot run on a GPU; None if all can."""
    if len({settings.precision for settings in bank}) > 1:
        return "its members have not all the same precision="
    return next((why for why in map(devices.unfit, bank) if why is not None), None)
