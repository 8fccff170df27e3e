"""Rows judged on a device, many at once: what ``Machine::judge`` of ``core/src/density.hpp`` does.

Coordinates, and all that there is once per row, are in float64 as in the core; distances,
exponentials and their sums over the terms in float32. No row is learned here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from onkel.core.density import DensityState, Plan
from onkel.core.density_table import (
    KNOWN,
    LAST_LEAST,
    LAST_SHARE,
    LOUD,
    REACH,
    REACH_COST,
    TAIL_LEAST,
    TAIL_SHARE,
    TIED,
    TURN_COST,
    Count,
    Level,
)
from onkel.gpu.devices import interpreted
from onkel.gpu.launch import send
from onkel.gpu.memory import gb

Array = NDArray[Any]

TILE = 2**24
"""Distances that are held at once: 64 MB, several times; smaller tiles leave a large GPU idle."""
ONE_BY_ONE = 64
"""Features up to which distances are added up one by one; with more, in PyTorch's own way."""
ROUNDING = 1e-6
"""Joined scores this close to a remembered one are the same: rows that are alike share a rank."""
ROWS, STEPS, LATE = range(3)
"""Kinds of what has moments and a metric."""


def distances(q: Any, z: Any, crow: bool) -> Any:
    """Return the distances of rows [rows][d] to terms [d][terms]: as the crow flies, or by axes."""
    if len(z) > ONE_BY_ONE:
        mode = "donot_use_mm_for_euclid_dist"
        return torch.cdist(q, z.T.contiguous(), p=2.0 if crow else 1.0, compute_mode=mode)
    found = torch.zeros((len(q), z.shape[1]), dtype=q.dtype, device=q.device)
    for j in range(len(z)):
        gap = q[:, j : j + 1] - z[j]
        found += gap.square_() if crow else gap.abs_()
    return found.sqrt_() if crow else found


def in_tail(count: int, share: float, least: int) -> int:
    """Return how many of so many lie in a tail."""
    return max(min(least, count // 4), int(share * count))


@dataclass
class Met:
    """What rows meet in a view: exp(-c (distance - least)) for all terms, and c times the least."""

    values: Any
    least: Any

    def raised(self, w: int) -> tuple[Any, Any]:
        """Return both for a kernel that is four times narrower (w = 1), or as they are."""
        return (self.values.square().square_(), 4 * self.least) if w else (self.values, self.least)


class View:
    """The terms as one view sees them (``View`` of the core), on the device."""

    def __init__(
        self, z: Any, sums: Any, reach: Any, real: Array, at: tuple[int, int, int]
    ) -> None:
        width, first, farthest = at
        self.crow = width > 0
        self.z, self.sums, self.count = z, sums, z.shape[1]
        self.reach = reach.sort().values
        self.width = float(np.float32(real[Level.WIDTH + width]))
        edge, slope = real[Level.EDGE :], real[Level.SLOPE :]
        self.edge, self.slope = edge[first:][: len(sums)], slope[first:][: len(sums)]
        self.reach_edge, self.reach_slope = float(edge[farthest]), float(slope[farthest])

    def meet(self, q: Any) -> Met:
        """Compare rows [rows][d] with all terms."""
        far = distances(q, self.z, self.crow)
        least = far.amin(1, keepdim=True)
        values = far.sub_(least).mul_(-self.width).exp_()
        return Met(values, self.width * least[:, 0].double())

    def tail_score(self, met: Met, w: int = 0) -> Any:
        """Return -log of the tail probability of the rows' densities, among the terms' own."""
        values, least = met.raised(w)
        total = values.sum(1).double()
        s = least - (total / self.count).log()
        edge, slope = float(self.edge[w]), float(self.slope[w])
        return self._read(s, edge, slope, self._at_most(values, least, total, w))

    def reach_score(self, q: Any) -> Any:
        """Return the same of the rows' largest coordinates, before they were turned."""
        own = q.abs().amax(1)
        farther = self.count - torch.searchsorted(self.reach, own)
        return self._read(own.double(), self.reach_edge, self.reach_slope, farther)

    def _at_most(self, values: Any, least: Any, total: Any, w: int) -> Any:
        """How many terms lie in a density at most as high, each with the row among its own."""
        factor = (-least).exp().float()
        own = (total * factor.double() * TIED).float()
        theirs = torch.addcmul(self.sums[w], values, factor[:, None])
        return (theirs <= own[:, None]).sum(1)

    def _read(self, score: Any, edge: float, slope: float, beyond: Any) -> Any:
        """Return a fitted tail's -log p beyond its edge, and that of the rank before it."""
        n = self.count
        tail = log(n / in_tail(n, TAIL_SHARE, TAIL_LEAST)) + (score - edge) / slope
        return torch.where(score > edge, tail, -((1.0 + beyond.double()) / (n + 1.0)).log())


class Judge:
    """A detector's state on a device, as it was when it was copied.

    Parameters
    ----------
    plan : Plan
        What was asked for.
    state : DensityState
        With terms enough to judge by.
    tied : float
        How far the next row is tied to the last one, as the core finds it.
    device : str
        Its name.
    """

    def __init__(self, plan: Plan, state: DensityState, tied: float, device: str) -> None:
        self.plan, self.state, self.t, self.tied = plan, state, int(state.whole[Count.T]), tied
        self.device = torch.device("cpu" if interpreted() else device)
        self.full = state.turn.shape[1] > 1 or len(state.last) == 1
        try:
            self._copy(state)
        except torch.OutOfMemoryError as error:
            raise self._refused(error) from None

    def holds(self, state: DensityState) -> bool:
        """Whether this is that state still: every row that is learned is counted."""
        return self.state is state and self.t == state.whole[Count.T]

    def _copy(self, state: DensityState) -> None:
        def put(array: Array) -> Any:
            return torch.from_numpy(np.array(array)).to(self.device)

        n, late, real = int(state.whole[Count.SIZE]), int(state.whole[Count.LATE_SIZE]), state.real
        z, sums = put(state.z[:, :, :n]), put(state.sums[:, :n])
        self.center, self.scale, self.turn = map(put, (state.center, state.scale, state.turn))
        self.last, self.smooth = put(state.last), put(state.smooth)
        self.ranked = put(state.ranked[: state.whole[Count.HISTORY]])
        self.plain = View(z[0], sums[:1], sums[4], real, (0, 0, 5))
        self.white = View(z[1], sums[1:3], sums[5], real, (1, 1, 6))
        self.steps = View(z[2], sums[3:4], sums[6], real, (2, 3, 7))
        self.late: View | None = None
        if late >= self.plan.young and real[Level.WIDTH + 3]:
            late_sums = put(state.late_sums[:, :late])
            self.late = View(put(state.late_z[:, :late]), late_sums[:1], late_sums[1], real,
                             (3, 4, 8))  # fmt: skip

    def judged(self, X: Any) -> tuple[Array, Array]:
        """Judge rows, an array or a tensor; return what :func:`onkel.core.density.run` does."""
        try:
            rows = self._sent(X)
            step = max(TILE // self.plain.count, 1)
            found = [self._tile(rows[i : i + step].double()) for i in range(0, len(rows), step)]
            out, parts = (torch.cat(column).cpu().numpy() for column in zip(*found, strict=True))
        except torch.OutOfMemoryError as error:
            raise self._refused(error) from None
        return out, parts

    def _sent(self, X: Any) -> Any:
        if isinstance(X, torch.Tensor):
            return X.to(self.device)
        return send(X if X.flags.writeable else X.copy(), self.device)  # else PyTorch warns

    def _refused(self, error: Exception) -> MemoryError:
        return MemoryError(
            f"The memory of {self.device} is too small: {error}. The terms take "
            f"{gb(self._size())}, rows that are judged {gb(16 * TILE)} beside them. Give Detector "
            "fewer terms, or judge with device='cpu'. The model was not changed."
        )

    def _size(self) -> int:
        return int(self.state.z.nbytes + self.state.late_z.nbytes)

    # -- one tile of rows ------------------------------------------------------------------------

    def _tile(self, x: Any) -> tuple[Any, Any]:
        parts = self._parts(x)
        joined = self._joined(parts)
        score = self._rank_score(joined)
        level = float(self.state.real[Level.LOG_ALPHA])
        alert = (-score < level) & (self.t >= self.plan.warmup)
        out = torch.stack([0 - score, torch.full_like(score, level), alert.double(), joined], 1)
        return out, parts

    def _seen_as(self, kind: int, x: Any) -> tuple[Any, Any]:
        """Rows in the units of their kind, and turned so that their correlations vanish."""
        z = ((x - self.center[kind]) / self.scale[kind]).clamp_(-REACH, REACH)
        straight = z.float()
        if not self.full:
            return straight, straight
        return straight, (z @ self.turn[kind].T).clamp_(-REACH, REACH).float()

    def _parts(self, x: Any) -> Any:
        """Return of each view its tail score, and how far rows are tied to those before."""
        parts = x.new_zeros((len(x), 9))
        parts[:, 8] = self.tied
        straight, turned = self._seen_as(ROWS, x)
        met = self.white.meet(turned)
        parts[:, 1] = self.white.tail_score(met)
        if self.tied < 1:
            parts[:, 0] = self.plain.tail_score(self.plain.meet(straight))
            parts[:, 5] = self.plain.reach_score(straight)
        if self.tied > 0:
            parts[:, 2] = self.white.tail_score(met, 1)
            parts[:, 6] = self.white.reach_score(straight)
            straight, step = self._seen_as(STEPS, x - self.last)
            parts[:, 3] = self.steps.tail_score(self.steps.meet(step))
            parts[:, 7] = self.steps.reach_score(straight)
            if self.late is not None:
                _, mean = self._seen_as(LATE, self._mean(x))
                parts[:, 4] = self.late.tail_score(self.late.meet(mean))
        return parts

    def _mean(self, x: Any) -> Any:
        """Return the running means with each row as the next one."""
        fade = 1 - 2 / (self.plan.span + 1)
        mass = fade * float(self.state.real[Level.SMOOTH_MASS]) + 1
        return (fade * self.smooth + x) / mass

    def _joined(self, parts: Any) -> Any:
        """No view drowns the others: beyond LOUD a score counts by its logarithm."""

        def loud(score: Any) -> Any:
            return torch.where(score < LOUD, score, LOUD + (score - LOUD).clamp(min=0).log1p())

        def joined_with(score: Any, reach: Any) -> Any:
            return torch.maximum(score, reach - REACH_COST)

        part = parts.T
        series = (
            loud(joined_with((part[1] + part[2]) / 2, part[6]))
            + loud(joined_with(part[3], part[7])) / 2
            + loud(part[4])
        )
        alone = torch.maximum(joined_with(part[0], part[5]), part[1] - TURN_COST)
        return (1 - self.tied) * loud(alone) + self.tied * series

    def _rank_score(self, g: Any) -> Any:
        """Return -log p of joined scores among those remembered."""
        n = len(self.ranked)
        guess = g / (1 + 1.5 * self.tied)  # what it is while little is known
        if n < self.plan.young:
            return guess
        known = min(1.0, n / KNOWN)
        return known * self._among(g, n) + (1 - known) * guess

    def _among(self, g: Any, n: int) -> Any:
        k = in_tail(n, LAST_SHARE, LAST_LEAST)
        edge, half = self.ranked[n - k - 1], self.ranked[n - k // 2 - 1]
        slope = ((half - edge) / log(2)).clamp(min=0.5)
        low = g - ROUNDING * (1 + g.abs())
        rank = n - torch.searchsorted(self.ranked, low) + 1
        tail = log(n / k) + (g - edge) / slope
        return torch.where(low > edge, tail, -(rank.double() / (n + 1)).log())
