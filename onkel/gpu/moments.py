"""Running moments of many rows at once, on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from onkel.scaling import Moments

Array = NDArray[Any]

AT_ONCE = 2**24
"""Numbers that are held in double precision at once."""


def take_in(moments: Moments, x: Any) -> None:
    """Take rows into running moments, as one row after another would.

    Each row is mixed in with weight ``w = 1/min(seen, horizon)``, so after n rows
    ``mean = W mean_0 + sum w_i x_i`` and ``variance = W (variance_0 + (mean_0 - mean)^2) + sum w_i
    (x_i - mean)^2``, w_i the weight that is left of row i at the end, W what is left of the past.

    Examples
    --------
    >>> moments = Moments(1, 2.0, 2e-16)
    >>> take_in(moments, torch.tensor([[1.0], [3.0], [5.0]]))
    >>> float(moments.mean[0]), float(moments.variance[0])
    (3.5, 2.75)
    """
    n, d = x.shape
    step = max(AT_ONCE // max(d, 1), 1)
    for start in range(0, n, step):
        _take_piece(moments, x[start : start + step].to(torch.float64))


def _take_piece(moments: Moments, x: Any) -> None:
    n, numbers = len(x), x[:, moments.codes :]
    running = moments.running()
    seen = float(running.seen[0]) + 1.0 + np.arange(n) if len(running.seen) else np.ones(n)
    share = 1.0 / np.clip(seen, 1.0, moments.horizon)
    left = np.cumprod((1.0 - share)[::-1])[::-1]
    weight = share * np.append(left[1:], 1.0)
    w = torch.from_numpy(weight).to(x.device)
    old = torch.from_numpy(running.mean).to(x.device)
    # From the old mean on, so that a column that is constant stays so.
    gap = numbers - old
    if moments.steady and _absurd(running.variance, gap):
        moments.update(x.cpu().numpy())
        return
    step = w @ gap
    spread = w @ (gap - step).square()
    move = step.cpu().numpy()
    running.mean[:] += move
    running.variance[:] = left[0] * (running.variance + move**2) + spread.cpu().numpy()
    running.seen[:] += n


def _absurd(variance: Array, gap: Any) -> bool:
    """Whether a value might be held back: those are taken one row after another."""
    spread = torch.from_numpy(np.sqrt(variance)).to(gap.device)
    return bool((gap.abs() > 1e3 * spread).any())
