"""Which device a model may use, and what it must be made of to live there.

This module imports neither PyTorch nor Triton before it is asked about a GPU.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Callable
from typing import Any

from onkel.core.layout import BudgetCode, LossCode, Op, RuleCode, depth_of, operation_of, row_of
from onkel.expansions import Window
from onkel.learner.settings import Settings

PRECISIONS = ("float32", "tf32x3", "tf32")
"""Of products: exact float32, three TF32 products that come near it, or one."""
_NAMES = re.compile(r"cpu|auto|cuda(:\d+)?")
DEEPEST = 4
"""Values that a kernel's program may hold at once on the device."""
LONGEST = 15
"""Operations of a kernel's program there."""


def check(owner: str, device: Any, precision: Any = PRECISIONS[0]) -> None:
    """Refuse what names no device, or no precision."""
    if not (isinstance(device, str) and _NAMES.fullmatch(device)):
        raise ValueError(
            f"{owner}: device must be 'cpu', 'auto', 'cuda' or 'cuda:N'; got {device!r}."
        )
    if precision not in PRECISIONS:
        raise ValueError(
            f"{owner}: precision must be 'float32', 'tf32x3' or 'tf32' (products on a GPU); got "
            f"{precision!r}."
        )


def interpreted() -> bool:
    """Whether Triton interprets its kernels on the processor (``TRITON_INTERPRET=1``)."""
    return os.environ.get("TRITON_INTERPRET", "") not in ("", "0")


def missing(device: str) -> str | None:
    """Return why this machine has no such device, or None if it has."""
    absent = [n for n in ("torch", "triton") if importlib.util.find_spec(n) is None]
    if absent:
        return (
            f"{' and '.join(absent)} cannot be imported: install PyTorch with Triton (pip install "
            "'onkel[gpu]')"
        )
    import torch

    if interpreted():
        return None
    if not torch.cuda.is_available():
        return "PyTorch finds no CUDA GPU here"
    index = int(device.partition(":")[2] or 0)
    if index >= torch.cuda.device_count():
        return f"there are {torch.cuda.device_count()} GPUs, counted from 0"
    return None


def unfit(settings: Settings) -> str | None:
    """Return what of these settings cannot run on a GPU, and what can; None if all can."""
    if settings.kernel.domain == "strings":
        return f"kernel {settings.kernel!r} takes strings; a GPU takes rows of numbers"
    if type(settings.expansion) is not Window:
        return f"expansion {settings.expansion!r}; a GPU holds expansions.Window"
    if not settings.expansion.policy.code.gpu:
        return f"expansion {settings.expansion!r}; {listed(BudgetCode)}"
    program = settings.kernel.resolve(1).program()
    if program is None:
        return (
            f"kernel {settings.kernel!r}; a GPU knows Gaussian, Laplacian, Matern, Linear, "
            "Polynomial, their sums and products"
        )
    strange = [op for op in (operation_of(node[0]) for node in program) if not op.gpu]
    if strange:
        return f"kernel {settings.kernel!r} has the operation {strange[0].name}; {listed(Op)}"
    if len(program) > LONGEST or depth_of(program) > DEEPEST:
        return (
            f"kernel {settings.kernel!r} is too long; a GPU takes up to {LONGEST} operations, "
            f"{DEEPEST} values at once"
        )
    if any(op == Op.POLYNOMIAL and not 0 <= degree < 256 for op, _, _, degree in program):
        return f"kernel {settings.kernel!r}; a GPU takes degrees below 256"
    loss = settings.loss.native()
    if loss is None or not row_of(LossCode, "loss", loss.code).gpu:
        return f"loss {settings.loss!r}; {listed(LossCode)}"
    return _unfit_rule(settings)


def _unfit_rule(settings: Settings) -> str | None:
    bound = settings.rule.bind(settings.loss).native()
    if bound is None or not row_of(RuleCode, "rule", bound.code).gpu:
        return (
            f"rule {settings.rule!r}; a GPU knows Norma (with a number as regularizer), "
            "Perceptron, Alma and Projection"
        )
    if settings.average:
        return "average=True; on a GPU predictions are by the current hypothesis"
    return None


Row = Op | LossCode | RuleCode | BudgetCode


def listed(kind: type[Row]) -> str:
    """Return what the table allows on a GPU."""
    return f"a GPU knows {', '.join(row.name for row in kind if row.gpu)}"


def allow(what: str, row: Row) -> None:
    """Refuse what the table does not list for a GPU; the last look before anything is launched."""
    if not row.gpu:
        raise ValueError(
            f"onkel.gpu: {what} {row.name} cannot run on a GPU; {listed(type(row))}. "
            "Use device='cpu'."
        )


def chosen(owner: str, settings: Settings) -> str:
    """Return where a model with these settings goes; raise where it cannot go as asked.

    "auto" is the GPU where there is one that can run these settings, else the processor; never
    Triton's interpreter.
    """
    return found(owner, settings.device, lambda: unfit(settings))


def found(owner: str, device: str, unfit: Callable[[], str | None] = lambda: None) -> str:
    """Return the device that is meant; raise where it is missing, or `unfit` says why not."""
    if device == "cpu" or (device == "auto" and interpreted()):
        return "cpu"
    reason = missing(device) or unfit()
    if reason is None:
        return "cuda" if device == "auto" else device
    if device == "auto":
        return "cpu"
    raise ValueError(
        f"{owner}: device={device!r}, but {reason}. Use device='cpu', or 'auto' for the "
        "GPU where it can be used."
    )
