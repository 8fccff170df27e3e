"""Blocks on the device beside the NumPy core: every kernel function, loss and rule once.

Used by ``tests/gpu`` and ``benchmarks/gpu_check.py``; needs NumPy, PyTorch and Triton alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from onkel import core, kernels, losses, rules
from onkel.core import numpy_core
from onkel.core.layout import Field
from onkel.gpu import launch
from onkel.gpu.feeding import kind_of, row_numbers
from onkel.gpu.launch import Launcher, Ring, Terms
from onkel.gpu.programs import encode
from onkel.gpu.track import Track

Array = Any


def plain_frame(d: int, device: Any) -> Any:
    """Return the frame that changes nothing."""
    frame = torch.zeros((5, d), dtype=torch.float64, device=device)
    frame[1:3] = 1.0
    frame[4] = 1e18
    return frame


def first_state(loss: Any, rule: Any, columns: int) -> Any:
    """Return the state before the first row."""
    state = np.zeros((columns, len(Field)))
    state[:, Field.SCALE] = 1.0
    state[:, Field.THRESHOLD] = state[:, Field.ALERT] = rule.start(loss)
    return state


def device() -> Any:
    """Return where to run: the GPU, or the processor in Triton's interpreter."""
    return torch.device("cpu" if launch.INTERPRETED else "cuda")


def reference(
    kernel: Any, loss: Any, rule: Any, X: Array, Y: Array, weight: Array, cap: int, age: int,
    intercept: bool, state: Array,
) -> dict[str, Any]:  # fmt: skip
    """Run the NumPy core in double precision, the whole stream as one block."""
    n = len(X)
    t = 1 + np.arange(n)
    K = np.asarray(kernel(X.astype(np.float64)), np.float64)
    task = core.StepInput(
        kernel=K, base=np.zeros((n, Y.shape[1])), old_coef=np.zeros((Y.shape[1], 0)),
        diag=np.diag(K).copy(), births=np.zeros(0, np.int64), live=0, first_trial=1,
        y=Y.astype(np.float64), weight=weight, eta=rule.rates(t), lam=rule.lams(t),
        cap=np.full(n, cap), hosts=np.full(n, -1), oldest=t + 1 - age, loss=loss, rule=rule,
        intercept=intercept, needs_norm=rule.needs_norm, average=False, stop_scale=1e-100,
        state=state,
    )  # fmt: skip
    return numpy_core.steps(task)


def simulate(
    kernel: Any, loss: Any, rule: Any, X: Array, Y: Array, weight: Array, cap: int, age: int,
    intercept: bool, mode: int, block: int,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Run the same on the device, block by block; return scores, state and the ring's numbers."""
    dev, (n, d), c = device(), X.shape, Y.shape[1]
    program = encode(kernel.program(), dev)
    launcher = Launcher([program], d, mode, dev, counts=[c])
    slots = -(-min(cap, n) // 256) * 256 + 256
    terms = Terms.empty(slots, launcher, c)
    t = 1 + np.arange(n)
    numbers = row_numbers(rule, rule.rates(t), rule.lams(t), weight, t + 1 - age, Y, 1)
    kind = kind_of(loss, rule, kernel.bound is not None, intercept, numbers.steady, age < n)
    track = Track(launcher, c, kind.norm, block, n)
    x = torch.from_numpy(X.astype(np.float32)).to(dev)
    launcher.prepare(x, plain_frame(d, dev), kernel.translation_invariant, track.rows)
    track.feed.take(numbers, kind.aged)
    track.begin(first_state(loss, rule, c), n)
    track.run(terms, kind, cap, n, block)
    score = track.feed.results[0].cpu().numpy().T
    return score, track.state.cpu().numpy()[:c], terms.ring.cpu().numpy()


def compare(name: str, got: tuple[Array, Array, Array], want: dict[str, Any], tol: float) -> bool:
    """Print one line; a decision within rounding of its threshold ends the comparison there."""
    score, state, ring = got
    n = int(ring[Ring.DONE])
    truth = want["score"][:n]
    size = max(float(np.abs(truth).max(initial=0.0)), 1e-3)
    off = np.abs(score[:n] - truth).max(axis=1) / size
    bad = np.flatnonzero(~(off < tol))
    until = int(bad[0]) if len(bad) else n
    fields = [f for f in Field if f not in (Field.DROPPED_AVERAGE, Field.NORM2)]
    wrong = {}
    for f in fields if until == n == len(want["score"]) else []:
        a, b = state[:, f], want["state"][:, f]
        gap = float(np.max(np.abs(a - b)) / max(float(np.abs(b).max()), 1e-3))
        if not gap < 30 * tol:
            wrong[f.name] = gap
    # A block that stopped since f is far below its scale: the learner folds, and goes on.
    far = ring[Ring.WHY] == 1 and n >= 64
    fine = until == n and (n == len(want["score"]) or far) and not wrong
    where = "" if until == n else f" first at row {until}"
    print(
        f"{'PASS' if fine else 'FAIL'} {name}: rows {n} of {len(want['score'])}, scores off by "
        f"{float(off[:until].max(initial=0.0)):.1e}{where}{' state ' + str(wrong) if wrong else ''}"
        f"{f' stop {ring[Ring.WHY]}' if ring[Ring.WHY] else ''}",
        flush=True,
    )
    return fine


def cases(quick: bool) -> list[tuple[str, Any, Any, Any, int, bool]]:
    """Return name, kernel, loss, rule, outputs and offset of every case."""
    g = kernels.Gaussian(gamma=0.2)
    norma = rules.Norma(learning_rate=0.3, memory=500)
    soft = losses.SoftMargin(margin=1.0)
    found = [
        ("gaussian soft-margin", g, soft, norma, 1, True),
        ("matern 3/2", kernels.Matern(nu=1.5, length=2.0), soft, norma, 1, True),
        ("matern 5/2", kernels.Matern(nu=2.5, length=2.0), soft, norma, 1, True),
        ("laplacian", kernels.Laplacian(gamma=0.1), soft, norma, 1, True),
        ("linear", kernels.Linear(), soft, rules.Norma(learning_rate=0.02, memory=500), 1, True),
        ("polynomial", kernels.Polynomial(degree=3, gamma=0.1, offset=1.0), soft,
         rules.Norma(learning_rate=0.02, memory=500), 1, True),
        ("sum and product", g + 0.5 * kernels.Laplacian(gamma=0.2)
         * kernels.Matern(nu=1.5, length=3.0), soft, norma, 1, True),
        ("nu soft-margin", g, losses.SoftMargin(nu=0.2), norma, 1, True),
        ("power 2", g, losses.SoftMargin(margin=1.0, power=2.0), norma, 1, True),
        ("logistic", g, losses.Logistic(), norma, 1, True),
        ("least squares", g, losses.LeastSquares(), rules.Norma(learning_rate=0.1), 1, True),
        ("exponential", g, losses.Exponential(), rules.Norma(learning_rate=0.1), 1, True),
        ("novelty", g, losses.Novelty(nu=0.1), norma, 1, False),
        ("novelty support", g, losses.Novelty(nu=0.05, support=0.3), norma, 1, False),
        ("squared", g, losses.Squared(), norma, 1, True),
        ("absolute", g, losses.Absolute(), norma, 1, True),
        ("epsilon", g, losses.EpsilonInsensitive(epsilon=0.1), norma, 1, True),
        ("epsilon nu", g, losses.EpsilonInsensitive(nu=0.2), norma, 1, True),
        ("huber", g, losses.Huber(sigma=0.5), norma, 1, True),
        ("huber nu", g, losses.Huber(nu=0.2), norma, 1, True),
        ("regularizer 3", g, soft, rules.Norma(learning_rate=0.3, memory=500, regularizer=3.0),
         1, True),
        ("track norm", g, soft, rules.Norma(learning_rate=0.3, memory=500, track_norm=True),
         1, True),
        ("perceptron", g, losses.SoftMargin(margin=0.0), rules.Perceptron(), 1, False),
        ("alma", g, soft, rules.Alma(radius=2.0, learning_rate=0.2), 1, False),
        ("alma tuning", g, losses.SoftMargin(), rules.Alma(approximation=0.7), 1, False),
        ("projection", g, soft, rules.Projection(), 1, False),
        ("projection ball", g, soft, rules.Projection(radius=2.0), 1, False),
        ("projection regression", g, losses.EpsilonInsensitive(epsilon=0.1), rules.Projection(),
         1, False),
        ("4 classes", g, soft, norma, 4, True),
        ("10 classes logistic", g, losses.Logistic(), norma, 10, True),
        ("3 classes projection ball", g, soft, rules.Projection(radius=2.0), 3, False),
    ]  # fmt: skip
    return found[:: 5 if quick else 1]
