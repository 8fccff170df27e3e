"""The kernels are compiled for a GPU, which none is needed for: what no interpreter would mind."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from helpers.on_gpu import DEVICE, INTERPRETED
from helpers.steps_on_device import cases

from onkel import kernels
from onkel.gpu.feeding import kind_of
from onkel.gpu.launch import power_of_two
from onkel.gpu.programs import encode, packed

NAMES = ("gaussian soft-margin", "novelty support", "alma tuning", "3 classes projection ball")
COMPILE = """
import json, sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
import triton
from onkel.gpu.kernels import matrix, prepare, sums
from onkel.gpu.steps import steps

whole = ("births", "ring", "oldest", "slot_of")
short = ("told", "who", "kernel_of")
single = ("base", "old_k", "own_k", "square_k", "old_base", "weights", "t_diag", "diag")
double = ("coef", "state", "fresh", "feed", "y", "results", "frame")
kinds = {**dict.fromkeys(whole, "*i64"), **dict.fromkeys(single, "*fp32")}
kinds.update(dict.fromkeys(double, "*fp64"))
kinds.update(dict.fromkeys(short, "*i32"))
rows = ("x", "v", "apart", "q", "t", "q_ptr", "t_ptr", "partial", "out", "operand", "norms")
kinds.update(dict.fromkeys(rows, "*fp32"))
kinds.update(dict.fromkeys(("turned", "q_turned", "t_turned", "q_norm", "t_norm"), "*fp32"))
code = {"steps": steps, "sums": sums, "matrix": matrix, "prepare": prepare}
for name, constants in json.load(sys.stdin):
    function = code[name]
    kinds["numbers"] = "*fp64" if name == "steps" else "*fp32"
    signature = {
        name: kinds.get(name) or ("constexpr" if name in constants else "i32")
        for name in function.arg_names
    }
    source = ASTSource(function, signature, constants, {})
    triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    print("compiled")
"""


@pytest.mark.long
@pytest.mark.skipif(not INTERPRETED, reason="on a GPU all tests compile")
def test_the_steps_compile():
    """Each kind of rule once, with all that a window can ask for."""
    chosen = [case for case in cases(quick=False) if case[0] in NAMES]
    wanted = []
    for _, kernel, loss, rule, c, intercept in chosen:
        bounded = kernel.bound is not None
        kind = kind_of(loss, rule.bind(loss), bounded, intercept, False, True, 3)
        shape = {"C": c, "CP": power_of_two(c), "B": 512, "WIDE": 512 // power_of_two(c)}
        wanted.append(("steps", kind.constants() | shape | {"BANK": False}))
        if not kind.norm:  # as a member of a bank, none of whose terms go meanwhile
            alone = {"BANK": True, "DROPS": 0, "AGED": False}
            wanted.append(("steps", kind.constants() | shape | alone))
    compiled(wanted)


@pytest.mark.long
@pytest.mark.skipif(not INTERPRETED, reason="on a GPU all tests compile")
@pytest.mark.parametrize("codes", [0, 3, 20])
@pytest.mark.parametrize("kernel", [kernels.Gaussian(0.1), kernels.Laplacian(0.1)], ids=repr)
def test_pairs_compile(kernel, codes):
    """Rows of numbers, with a few codes, with many; distances by products, and by features."""
    some = packed([encode(kernel.program(), DEVICE)], [1], 1)[0]
    mode = 0 if some.l1 else 2
    both = {"DP": 16, "MODE": mode, "CODES": codes, "DOT": some.dot, "L1": some.l1}
    both |= some.constants
    tile = {"BM": 64, "BN": 64, "BK": 16, "CURSOR": False}
    column = {"C": 1, "CP": 1, "TMA": False, "OLDEST": False, "FLAT": False}
    compiled([
        ("sums", {**both, **tile, **column, **some.served}),
        ("matrix", {**both, **tile, **some.planes, "KIND": 0, "B": 512}),
        ("prepare", {**both, "INVARIANT": True, "RAW": True, "ROWS": 8, "BD": 16}),
    ])  # fmt: skip


def compiled(wanted):
    """Compile these, each a name and its constants."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMPILE], input=json.dumps(wanted), text=True,
        capture_output=True, env=environment, timeout=300, check=False,
    )  # fmt: skip
    if "ptxas" in done.stderr and "compiled" not in done.stdout:
        pytest.skip(f"this Triton brings no compiler for GPUs: {done.stderr[-200:]}")
    assert done.stdout.count("compiled") == len(wanted), done.stderr[-2000:]
