"""A short check of everything on the device (``--quick``: fewer cases; ``--tiles``: try others).

Every kernel function, loss and rule runs on the device beside the NumPy core in double precision,
and one line each says PASS or FAIL with the largest difference; then each stage is timed, and
several tiles are tried. It runs from the source tree, with NumPy, PyTorch and Triton alone.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "tests" / "helpers")]

from gpu_timing import time_stages, try_tiles  # noqa: E402
from steps_on_device import cases, compare, first_state, reference, simulate  # noqa: E402

from onkel.gpu import launch  # noqa: E402


def check_steps(quick: bool, n: int, block: int, seed: int = 0) -> int:
    """Compare every case; return how many failed."""
    failed = 0
    for name, kernel, loss, rule, c, intercept in cases(quick):
        rng = np.random.default_rng(seed)
        d = 5 if launch.INTERPRETED else 20
        X = rng.normal(size=(n, d)).astype(np.float32)
        Y = np.sign(X[:, :1] * X[:, 1:2] + 0.3 * rng.normal(size=(n, c)))
        if loss.task == "regression":
            Y = np.sin(X[:, :1]) + 0.2 * rng.normal(size=(n, c))
        bound = rule.bind(loss)
        for mode, tol in ((0, 1e-4),) if quick else ((0, 1e-4), (2, 1e-4)):
            for cap, age in ((block, 10**9), (10**6, 2 * block)):
                weight = rng.uniform(0.5, 1.5, n) if mode else np.ones(n)
                args = kernel, loss, bound, X, Y, weight, cap, age, intercept
                want = reference(*args, first_state(loss, bound, c))
                try:
                    got = simulate(*args, mode, block)
                except Exception as problem:
                    print(f"FAIL {name} mode {mode}: {type(problem).__name__}: {problem}"[:2000])
                    failed += 1
                    break
                label = f"{name} [{'float32' if mode == 0 else 'tf32x3'}, "
                label += f"{'cap' if cap == block else 'age'}]"
                failed += not compare(label, got, want, tol)
    return failed


def main() -> None:
    """Run the check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer cases and sizes")
    parser.add_argument("--tiles", action="store_true", help="try tiles too")
    parser.add_argument("--time-only", action="store_true", help="no comparison")
    options = parser.parse_args()
    began = time.time()
    if not options.time_only:
        n, block = (150, 64) if launch.INTERPRETED else (1500, 256)
        failed = check_steps(options.quick, n, block)
        print(f"{failed} failed, {time.time() - began:.0f} s")
    if launch.INTERPRETED:
        return
    sizes = [(10_000, 16), (100_000, 16), (100_000, 256), (100_000, 784)]
    if not options.quick:
        sizes += [(1_000_000, 16), (1_000_000, 256), (1_000_000, 784)]
    time_stages(sizes, [1] if options.quick else [1, 2, 0])
    if options.tiles:
        for m, d in ((100_000, 16), (100_000, 256), (200_000, 784)):
            for mode in (1, 2, 0):
                try_tiles(m, d, mode)
    print(f"{time.time() - began:.0f} s in all")


if __name__ == "__main__":
    main()
