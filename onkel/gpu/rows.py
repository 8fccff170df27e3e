"""Rows wherever they are: arrays, tensors, sparse ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


def on_host(X: Any) -> NDArray[Any]:
    """Return rows as an array on the host."""
    if isinstance(X, torch.Tensor):
        return X.detach().cpu().numpy()
    if isinstance(X, np.ndarray):
        return X
    step = getattr(X, "most", 1024)  # sparse rows come out dense in short slices
    return np.concatenate([X[at : at + step] for at in range(0, len(X), step)])
