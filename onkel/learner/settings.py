"""How a learner is put together."""

from __future__ import annotations

from dataclasses import dataclass

from onkel.expansions.base import Expansion
from onkel.kernels import Kernel
from onkel.losses import Loss
from onkel.rules.base import Rule


@dataclass(frozen=True)
class Settings:
    """The four choices, and what goes with them."""

    kernel: Kernel
    loss: Loss
    rule: Rule
    expansion: Expansion
    scale: bool = True
    intercept: bool = True
    average: bool = False
    threads: int = 1
    relevance: bool = False
    """Whether terms learn how much each column of a row matters."""
    missing: str = "error"
    """What NaN means: an error, or the feature's "mean"."""
    device: str = "cpu"
    """Where f lives: "cpu", or a GPU."""
    precision: str = "tf32x3"
    """Of products on a GPU."""


OF_THE_MACHINE = ("threads", "device", "precision")
"""Settings that no file holds: they are chosen where it is read."""
