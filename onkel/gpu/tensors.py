"""Rows that are PyTorch tensors already: checked where they are, and used there."""

from __future__ import annotations

from typing import Any

import torch

from onkel.inputs import LARGEST


def tensor_rows(X: Any, owner: str, width: int | None) -> Any:
    """Return a tensor as checked rows; raise a ValueError that says what is wrong.

    Examples
    --------
    >>> tensor_rows(torch.tensor([[1, 2]]), "KernelClassifier", None).dtype
    torch.float32
    """
    X = X.detach()
    if X.dtype not in (torch.float32, torch.float64):
        if X.is_complex():
            raise ValueError(f"Complex data not supported; got dtype {X.dtype}.")
        X = X.to(torch.float32)
    if X.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead (shape {tuple(X.shape)}). Reshape it "
            "with X.reshape(-1, 1) for a single feature, X.reshape(1, -1) for a single row."
        )
    if X.shape[1] == 0:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={tuple(X.shape)}) while a minimum of 1 is "
            "required."
        )
    if width is not None and X.shape[1] != width:
        raise ValueError(
            f"X has {X.shape[1]} features, but {owner} is expecting {width} features as input."
        )
    _check_finite(X, owner)
    return X


def _check_finite(X: Any, owner: str) -> None:
    if not X.numel():
        return
    most = X.abs().max()  # NaN is kept by max
    if bool(most <= LARGEST):
        return
    bad = torch.nonzero(~(X.abs() <= LARGEST))[0].tolist()
    raise ValueError(
        f"Input X contains NaN, infinity or a value too large. First at row {bad[0]}, column "
        f"{bad[1]}: {float(X[bad[0], bad[1]])}. {owner} takes finite numbers only: impute those "
        "values or leave out those rows. The model was not changed."
    )
