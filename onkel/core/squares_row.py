"""Single rows for recursive least squares: first tried, then learned (``src/bind_squares.cpp``)."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from onkel import core
from onkel.core import SINGLE, Queries, Running, Targets, compiled
from onkel.core.layout import Program

Array = NDArray[Any]


class Features(NamedTuple):
    """What makes features of a row: kernel values at points, the row's own numbers, 1."""

    program: Program | None
    """None where there are no points."""
    frame: Any
    points: Queries
    center: Array
    """Of the numbers, as many as there are; none, where only kernel values count."""
    shift: Array
    farthest: float

    def native(self) -> Any:
        """Return it as the compiled core takes it."""
        single = self.frame.dtype == SINGLE
        made = compiled.SquaresFeaturesF if single else compiled.SquaresFeaturesD
        program = None if self.program is None else core.program_of(self.program)
        return made(
            program, core.frame_of(self.frame), self.points.v, self.points.norm, self.center,
            self.shift, self.farthest,
        )  # fmt: skip


def squares_row(
    features: Features, numbers: tuple[float, float, float, float], keep: float,
    arrays: tuple[Array, Array, Array], targets: Targets, rows: Running | None,
    wanted: Running | None, scores: Array, limits: Array,
) -> Any:  # fmt: skip
    """Bind a learner's state, theta and P, which change in place.

    `numbers` are clip, most, horizon and longest of :class:`onkel.core.SquaresInput`; for the
    others see :func:`onkel.core.one`.
    """
    made = compiled.SquaresRowF if features.frame.dtype == SINGLE else compiled.SquaresRowD
    return made(
        features.native(), compiled.SquaresNumbers(*numbers), keep, *arrays,
        compiled.Targets(*targets), rows and compiled.Moments(*rows),
        wanted and compiled.Moments(*wanted), scores, limits,
    )  # fmt: skip
