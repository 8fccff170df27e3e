"""Where the time of a block goes on the device, and which tiles are fast; see ``gpu_check.py``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from steps_on_device import first_state, plain_frame

from onkel import kernels, losses, rules
from onkel.gpu import launch
from onkel.gpu.feeding import kind_of, row_numbers
from onkel.gpu.launch import Launcher, Ring, Rows, Terms, Tiles
from onkel.gpu.programs import encode
from onkel.gpu.track import BLOCK, Track, sum_up


def timed(call: Any, repeat: int = 10) -> float:
    """Return the median time of a call in milliseconds."""
    call()
    torch.cuda.synchronize()
    times = []
    for _ in range(repeat):
        a, b = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        a.record()
        call()
        b.record()
        torch.cuda.synchronize()
        times.append(a.elapsed_time(b))
    return sorted(times)[len(times) // 2]


def peak() -> float:
    """Return the TFLOP/s of a large TF32 matrix product."""
    torch.backends.cuda.matmul.allow_tf32 = True
    a = torch.randn(8192, 8192, device="cuda")
    ms = timed(lambda: a @ a)
    return 2 * 8192**3 / ms / 1e9


class Bench:
    """A full ring of random terms, and a block of rows against it."""

    def __init__(self, m: int, d: int, mode: int, block: int = BLOCK, tiles: Tiles | None = None):
        self.m, self.d, self.block = m, d, block
        dev = torch.device("cuda")
        kernel = kernels.Gaussian(gamma=1.0 / d)
        self.loss, self.rule = (
            losses.SoftMargin(margin=1.0),
            rules.Norma().bind(losses.SoftMargin(margin=1.0)),
        )
        program = encode(kernel.program() or [], dev)
        self.launcher = Launcher([program], d, mode, dev, tiles)
        slots = -(-m // 256) * 256
        self.terms = Terms.empty(slots, self.launcher, 1)
        frame = plain_frame(d, dev)
        for start in range(0, slots, 65536):
            part = slice(start, min(start + 65536, slots))
            x = torch.randn(part.stop - start, d, device=dev)
            ring = self.terms
            into = Rows(ring.rows, ring.operand, ring.turned, ring.norm, ring.diag)
            self.launcher.ready(x, frame, True, True, into.part(part))
        self.terms.weights.normal_().mul_(1e-3)  # small: every row is stored
        self.terms.coef.copy_(self.terms.weights)
        self.terms.births.copy_(torch.arange(slots, device=dev) - slots)
        self.terms.ring[Ring.COUNT] = m
        n = 8 * block
        Y = np.where(np.random.default_rng(0).random((n, 1)) < 0.5, -1.0, 1.0)
        t = 1 + np.arange(n)
        eta, lam = self.rule.rates(t), self.rule.lams(t)
        numbers = row_numbers(self.rule, eta, lam, np.ones(n), t - 10**9, Y, 1)
        self.kind = kind_of(self.loss, self.rule, True, True, numbers.steady, False)
        self.track = Track(self.launcher, 1, False, block, n)
        self.launcher.prepare(torch.randn(n, d, device=dev), frame, True, self.track.rows)
        self.track.feed.take(numbers, False)
        self.track.begin(first_state(self.loss, self.rule, 1), n)

    def sums(self) -> None:
        """The large product alone."""
        buffers, share = self.track.buffers, self.launcher.shares[0]
        rows = self.track.rows
        sum_up(self.launcher, share, rows, 0, self.block, self.terms, buffers, buffers.base)

    def matrices(self) -> None:
        """The kernel values that the steps read."""
        buffers = self.track.buffers
        for kind, out in ((0, buffers.old_k), (1, buffers.own_k)):
            self.launcher.matrix(kind, self.track.rows, 0, self.block, self.terms, self.block, out)

    def whole(self) -> None:
        """Learn eight blocks."""
        self.track.run(self.terms, self.kind, self.m, 8 * self.block, self.block)


def time_stages(sizes: list[tuple[int, int]], modes: list[int]) -> None:
    """Print the time of each stage, and examples per second of the whole."""
    top = peak()
    print(f"TF32 peak of a matrix product: {top:.0f} TFLOP/s", flush=True)
    for m, d in sizes:
        for mode in modes:
            try:
                bench = Bench(m, d, mode)
                a, b = timed(bench.sums), timed(bench.matrices)
                line = f"m={m} d={d} mode={mode}: sums {a:.3f} ms "
                line += f"({2e-9 * BLOCK * m * d / a:.0f} TFLOP/s, "
                line += f"{200e-9 * BLOCK * m * d / a / top:.0f} %), matrices {b:.3f} ms"
                bench.whole()
                c = timed(bench.whole, 5) / 8
                line += f", block {c:.3f} ms = {BLOCK / 1e3 / c:.3f} M/s"
                line += f", stop {int(bench.terms.ring[Ring.WHY])}"
                print(line, flush=True)
                del bench
            except Exception as problem:
                print(f"FAIL m={m} d={d} mode={mode}: {type(problem).__name__}: {problem}"[:600])
            torch.cuda.empty_cache()


def try_tiles(m: int, d: int, mode: int) -> None:
    """Print the speed of several tiles for the large product."""
    dp = launch.padded(d)
    shapes = []
    if dp <= 128:
        for bm, bn, w in (
            (64, 64, 4), (64, 128, 4), (128, 64, 4), (128, 128, 4), (128, 128, 8), (64, 256, 4),
            (128, 256, 8), (256, 128, 8), (64, 128, 8),
        ):  # fmt: skip
            shapes += [Tiles(bm, bn, dp, w, s, per=p) for s in (1, 3) for p in (1, 2, 4)]
    bks = (16, 32) if mode == 0 else (32,) if dp % 64 else (32, 64)
    if dp > 64:
        for bm, bn, w in (
            (64, 64, 4), (128, 64, 4), (64, 128, 4), (128, 128, 4), (128, 128, 8), (64, 256, 4),
            (128, 256, 8), (256, 128, 8), (128, 192, 8),
        ):  # fmt: skip
            if bn & (bn - 1):
                continue
            for bk in bks:
                if mode == 0 and bm * bn > 128 * 128:
                    continue
                ways = [(False, False)]
                if mode and bm * bn >= 128 * 128:
                    ways += [(False, True), (True, False), (True, True)]
                for way in ways:
                    shapes += [Tiles(bm, bn, bk, w, s, *way) for s in (3, 4)]
                if bm * bn <= 128 * 128:
                    shapes += [Tiles(bm, bn, bk, w, 3, False, False, 2)]
    found = []
    bench = Bench(m, d, mode)
    for tiles in shapes:
        try:
            bench.launcher.shares[0].tiles = tiles
            found.append((timed(bench.sums, 3), str(tiles)))
        except Exception as problem:
            found.append((math.inf, f"{tiles} {type(problem).__name__} {str(problem)[:90]}"))
    print(f"tiles for m={m} d={d} mode={mode}:")
    for ms, words in sorted(found):
        print(f"  {ms:8.3f} ms {2e-9 * BLOCK * m * d / ms:6.0f} TFLOP/s  {words}", flush=True)
