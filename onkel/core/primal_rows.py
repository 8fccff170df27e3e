"""Single rows for weights, of several settings in one call (``src/bind_primal_rows.cpp``)."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from onkel import core
from onkel.core import SINGLE, CodeTable, Running, Stepper, Targets, compiled

Array = NDArray[Any]


def weights(
    frame: Any, state: Array, theta: Array, stepper: Stepper, p: float, targets: Targets,
    rows: Running | None, wanted: Running | None, codes: CodeTable | None,
) -> Any:  # fmt: skip
    """Bind the weights of one setting, which change in place; see :func:`onkel.core.one`."""
    made = compiled.WeightsF if frame.dtype == SINGLE else compiled.WeightsD
    return made(
        core.frame_of(frame), state, theta, stepper.native(), p, compiled.Targets(*targets),
        rows and compiled.Moments(*rows), wanted and compiled.Moments(*wanted),
        core.codes_of(codes),
    )  # fmt: skip


def together(settings: list[Any], scores: Array) -> Any:
    """Return what takes single rows for all of these: first tried, then taken over.

    `scores` are where each row's are left, one setting after another.
    """
    single = isinstance(settings[0], compiled.WeightsF)
    made = compiled.PrimalRowsF if single else compiled.PrimalRowsD
    return made(settings, scores)
