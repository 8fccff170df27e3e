"""The kernels are compiled for a GPU, which none is needed for: what no interpreter would mind."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from helpers.on_gpu import INTERPRETED
from helpers.steps_on_device import cases

from onkel.gpu.feeding import kind_of
from onkel.gpu.launch import power_of_two

NAMES = ("gaussian soft-margin", "novelty support", "alma tuning", "3 classes projection ball")
COMPILE = """
import json, sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
import triton
from onkel.gpu.steps import steps

whole = ("births", "ring", "oldest", "slot_of")
short = ("told", "who", "kernel_of")
single = ("base", "old_k", "own_k", "square_k", "old_base", "weights", "t_diag", "diag")
double = ("coef", "state", "fresh", "feed", "y", "numbers", "results")
kinds = {**dict.fromkeys(whole, "*i64"), **dict.fromkeys(single, "*fp32")}
kinds.update(dict.fromkeys(double, "*fp64"))
kinds.update(dict.fromkeys(short, "*i32"))
for constants in json.load(sys.stdin):
    signature = {
        name: kinds.get(name) or ("constexpr" if name in constants else "i32")
        for name in steps.arg_names
    }
    source = ASTSource(steps, signature, constants, {})
    triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 4})
    print("compiled")
"""


@pytest.mark.skipif(not INTERPRETED, reason="on a GPU all tests compile")
def test_the_steps_compile():
    """Each kind of rule once, with all that a window can ask for."""
    chosen = [case for case in cases(quick=False) if case[0] in NAMES]
    wanted = []
    for _, kernel, loss, rule, c, intercept in chosen:
        bounded = kernel.bound is not None
        kind = kind_of(loss, rule.bind(loss), bounded, intercept, False, True, 3)
        shape = {"C": c, "CP": power_of_two(c), "B": 512, "WIDE": 512 // power_of_two(c)}
        wanted.append(kind.constants() | shape | {"BANK": False})
        if not kind.norm:  # as a member of a bank, none of whose terms go meanwhile
            alone = {"BANK": True, "DROPS": 0, "AGED": False}
            wanted.append(kind.constants() | shape | alone)
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", COMPILE], input=json.dumps(wanted), text=True,
        capture_output=True, env=environment, timeout=300, check=False,
    )  # fmt: skip
    if "ptxas" in done.stderr and "compiled" not in done.stdout:
        pytest.skip(f"this Triton brings no compiler for GPUs: {done.stderr[-200:]}")
    assert done.stdout.count("compiled") == len(wanted), done.stderr[-2000:]
