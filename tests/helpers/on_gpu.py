"""Imported first by the tests of onkel.gpu: they run in Triton's interpreter, on the processor.

``ONKEL_GPU=1`` runs them on a GPU instead. They are skipped, and say why, in a quick run, and where
PyTorch or Triton is not installed, or where this Triton's interpreter cannot run with this NumPy.
"""

from __future__ import annotations

import os

import pytest

from helpers.sizes import LONG, WHY_NOT

INTERPRETED = os.environ.get("ONKEL_GPU", "") in ("", "0")
if INTERPRETED:
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported
if INTERPRETED and not LONG:
    pytest.skip(WHY_NOT, allow_module_level=True)  # PyTorch alone takes two seconds of each worker

torch = pytest.importorskip("torch", reason="needs PyTorch (the extra gpu)")
triton = pytest.importorskip("triton", reason="needs Triton (the extra gpu)")


@triton.jit
def count_up(out, numbers):
    """0 + 1 + ... to what is asked for: a loop whose end is known when it runs."""
    n = triton.language.load(numbers)
    for i in range(0, n):
        triton.language.store(out, triton.language.load(out) + i)


def fewer(rows: int) -> int:
    """Return half of so many rows in the interpreter, which takes a hundred times a GPU's time."""
    return rows // 2 if INTERPRETED else rows


def _check() -> None:
    out = torch.zeros(1)
    try:
        count_up[(1,)](out, torch.tensor([3]))
    except Exception as problem:
        why = f"the interpreter of Triton {triton.__version__} fails with this NumPy: {problem}"
        pytest.skip(why, allow_module_level=True)
    assert float(out[0]) == 3.0


def _hurry() -> None:
    """Let Triton's language be replaced once: the interpreter does so at every function's call."""
    found = pytest.importorskip("triton.runtime.interpreter")
    replace, done = found._patch_lang, set()

    class Kept:
        def restore(self) -> None:
            pass

    def once(fn):
        if id(fn.__globals__) not in done:
            done.add(id(fn.__globals__))
            replace(fn)
        return Kept()

    found._patch_lang = once


if INTERPRETED:
    _check()
    _hurry()
elif not torch.cuda.is_available():
    pytest.skip("ONKEL_GPU=1, but PyTorch finds no GPU", allow_module_level=True)

DEVICE = torch.device("cpu" if INTERPRETED else "cuda")
