"""The core in plain NumPy: fallback, oracle, and the place to read the algorithm.

Every function here has a compiled twin in ``src/`` with the same name and the same results to
rounding. :func:`steps` is also what runs a user's own loss or rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.layout import (
    CODES,
    LANES,
    MOST_SHOWN,
    MOST_STATE,
    STAYS,
    BudgetCode,
    Field,
    Move,
    Op,
    Program,
    Reads,
    Trial,
    Verdict,
    known,
    operation_of,
    reads_of,
)  # fmt: skip
from onkel.core.records import PrimalInput, Queries, Running, StepInput

Array = NDArray[Any]


# -- rows --------------------------------------------------------------------------------------


def evaluate(program: Program, dot: Any, dist2: Any, dist1: Any) -> Array:
    """Run a kernel program on matrices of pair statistics (None where it reads none)."""
    stack: list[Any] = []
    for code, a, b, c in program:
        op = operation_of(code)
        s: Any = a * np.sqrt(dist2) if op.operation.rooted else None
        if op == Op.GAUSSIAN:
            stack.append(np.exp(-a * dist2))
        elif op == Op.LAPLACIAN:
            stack.append(np.exp(-a * dist1))
        elif op == Op.MATERN32:
            stack.append((1 + s) * np.exp(-s))
        elif op == Op.MATERN52:
            stack.append((1 + s + s * s / 3) * np.exp(-s))
        elif op == Op.LINEAR:
            stack.append(dot)
        elif op == Op.POLYNOMIAL:
            stack.append((a * dot + b) ** c)
        elif op == Op.SUM:
            right = stack.pop()
            stack[-1] = stack[-1] + right
        elif op == Op.PRODUCT:
            right = stack.pop()
            stack[-1] = stack[-1] * right
        elif op == Op.SCALE:
            stack[-1] = a * stack[-1]
        else:
            raise NotImplementedError(
                f"onkel core: kernel operation {op.name} is in the table, but has no branch in "
                "numpy_core.evaluate. Write it, as the recipe for a kernel in CONTRIBUTING.md says."
            )
    return stack[0]


_DIRECT = 4


def matrix(program: Program, queries: Queries, rows: Array, norms: Array) -> Array:
    """k(query, row) for all pairs, as float64; what overflows is left to the caller to see."""
    with np.errstate(over="ignore", invalid="ignore"):
        return _matrix(program, queries, rows, norms)


def _matrix(program: Program, queries: Queries, rows: Array, norms: Array) -> Array:
    reads = reads_of(program)
    q, v, off, norm, width = queries.q, queries.v, queries.off, queries.norm, queries.width
    dot = dist2 = dist1 = None
    codes = queries.codes
    direct = Reads.DOT not in reads and rows.shape[1] - codes <= _DIRECT
    if Reads.DOT in reads or (Reads.DIST2 in reads and not direct):
        dot = q[:, codes:] @ rows[:, codes:].T + off[:, None]
        if codes:
            dot += _agreeing(queries, rows)
        dist2 = np.maximum(norm[:, None] + norms[None, :] - 2 * dot, 0)
    elif Reads.DIST2 in reads:
        dist2 = _over_features(v, rows, width, codes, np.square)
    if Reads.DIST1 in reads:
        dist1 = _over_features(v, rows, width, codes, np.abs)
    return evaluate(program, dot, dist2, dist1).astype(np.float64)


def _agreeing(queries: Queries, rows: Array) -> Array:
    """What codes add to products: half of what they would be apart, where they agree."""
    total = np.zeros((len(queries), len(rows)), rows.dtype)
    for j in range(queries.codes):
        total += (queries.v[:, j, None] == rows[None, :, j]) * (queries.width[j] / 2)
    return total


def _over_features(v: Array, rows: Array, width: Array, codes: int, size: Any) -> Array:
    total = np.zeros((len(v), len(rows)), v.dtype)
    for j in range(codes):
        total += (v[:, j, None] != rows[None, :, j]) * width[j]
    for j in range(codes, v.shape[1]):
        total += size((v[:, j, None] - rows[None, :, j]) * width[j])
    return total


def are_codes(values: Array) -> Array:
    """Return which of these numbers are codes: whole, from 0 to less than CODES.

    Examples
    --------
    >>> are_codes(np.array([0.0, 7.5, -1.0, 2.0**24 - 1, 2.0**24, np.nan]))
    array([ True, False, False,  True, False, False])
    """
    return (values >= 0) & (values < CODES) & (np.floor(values) == values)


def sums(
    program: Program, queries: Queries, panels: Array, norms: Array, first: int, used: int,
    coef: Array, threads: int = 1,
) -> Array:  # fmt: skip
    """Sum over terms of coef * k(query, term), for each column of `coef`."""
    which = (first + np.arange(used)) % max(len(panels), 1)
    rows = panels[which].transpose(0, 2, 1).reshape(used * LANES, panels.shape[1])
    weights = coef[which].transpose(0, 2, 1).reshape(used * LANES, coef.shape[1])
    values = matrix(program, queries, rows, norms.reshape(-1, LANES)[which].ravel())
    with np.errstate(over="ignore", invalid="ignore"):  # the caller looks for what overflowed
        return values @ weights.astype(np.float64)


def moments(rows: Array, fade: Array, into: Running) -> None:
    """Running mean and population variance, of rows that weigh 1/min(seen, horizon); in place.

    Steady ones take a value further from the mean than 10 000 spreads for one that widens the
    spread by an eighth, or more in the first hundred rows (variance that is rounding is none).
    """
    seen, mean, variance, horizon, _, steady = into
    for i, x in enumerate(rows):
        came = ~np.isnan(x)
        seen *= fade[i] if len(fade) else 1.0
        seen += came
        share = np.where(came, 1.0 / np.clip(seen, 1.0, horizon), 0.0)
        delta = np.where(came, x - mean, 0.0)
        if steady:
            absurd = (1e-8 * delta**2 > variance) & (variance > 1e-29 * mean**2)
            held = np.sqrt(16.0 + 0.25 / np.where(came, share, 1.0)) * np.sqrt(variance)
            held = np.copysign(held, delta)
            delta = np.where(absurd, held, delta)
        move = share * delta
        mean += move
        variance[:] = (1.0 - share) * (variance + move * delta)


# -- steps -------------------------------------------------------------------------------------


FEW = 64
"""So many terms are soon summed anew, where a norm has grown and fallen."""


@dataclass
class _Block:
    """The block in flight: old terms that may be dropped, then the block's own rows."""

    task: StepInput
    state: Array
    coef: Array  # [wide][candidates], in units of the block's start
    start: Array  # scale at the block's start
    factor: Array  # scale now / scale at the start
    stored: Array
    merged: Array
    births: Array
    live: int
    front: int = 0
    stale_norm: bool = False

    def value(self, i: int, column: int, upto: int) -> float:
        """Sum over the terms alive now, at candidate `i`, in units of the block's start."""
        row = i if self.task.needs_norm else i - self.task.old_count
        alive = slice(self.front, upto)
        return float(
            self.task.base[row, column] + self.task.kernel[row, alive] @ self.coef[column, alive]
        )

    def settle_norm(self, c: int, square: float, before: float) -> None:
        """Take over ||f||^2; what is left of a sum that has cancelled must not be trusted."""
        wild = self.task.rule.wild and self.live <= FEW
        self.stale_norm |= bool(square < (0.5 if wild else 1e-5) * before)
        self.state[c, Field.NORM2] = max(square, 0.0)

    def keep_in_ball(self) -> None:
        """Dropping a term can make f longer."""
        most = self.task.rule.radius * self.task.rule.radius
        for c, s in enumerate(self.state):
            if self.task.needs_norm and s[Field.NORM2] > most:
                inward = float(np.sqrt(most / s[Field.NORM2]))
                self.factor[c] *= inward
                s[Field.DROPPED] *= inward
                s[Field.NORM2] = most

    def let_go(self, upto: int) -> None:
        """Let the term go whose turn it is."""
        if self.task.budget == BudgetCode.OLDEST:
            self.drop_front(upto)
        else:
            raise ValueError(f"onkel core: {known('budget', BudgetCode, self.task.budget)}.")

    def drop_front(self, upto: int) -> None:
        """Let the oldest candidate go, and account for it."""
        i, task, state = self.front, self.task, self.state
        if self.stored[i]:
            for t in np.flatnonzero(self.merged & (task.hosts == i)):
                guest = task.old_count + t  # what a later pass has added goes with it
                self.coef[:, i] += self.coef[:, guest]
                self.coef[:, guest] = 0.0
                self.merged[t] = False
            size = np.sqrt(max(task.diag[i], 0.0))
            for c in range(task.columns):
                a = self.factor[c] * self.coef[c, i]
                state[c, Field.DROPPED] += abs(a) * size
                if task.needs_norm:
                    f = self.factor[c] * self.value(i, c, upto)
                    before = state[c, Field.NORM2]
                    self.settle_norm(c, before - 2 * a * f + a * a * task.diag[i], before)
                if task.average:
                    sum_ = state[c, Field.SCALE_SUM] / self.start[c] * self.coef[c, i]
                    share = abs(self.coef[task.columns + c, i] + sum_)
                    state[c, Field.DROPPED_AVERAGE] += share * size
            self.live -= 1
        self.front += 1


_NOWHERE = Move(1.0, math.nan, math.nan, math.nan, math.nan, Verdict(math.nan, 0.0, math.nan))
"""What is decided where a number has left the floating range: the row is refused."""


def decide(task: StepInput | PrimalInput, s: Array, f: float, t: int, c: int, kxx: float) -> Move:
    """Let the rule judge output c of row t; count what happened, move its own few numbers."""
    loss, weight = task.loss, float(task.weight[t])
    trial = Trial(
        f=float(f),
        y=float(task.y[t, c]),
        kxx=float(kxx),
        norm2=float(s[Field.NORM2]),
        eta=float(task.eta[t]),
        lam=float(task.lam[t]),
        weight=weight,
        offset=float(s[Field.OFFSET]),
        threshold=float(s[Field.THRESHOLD]),
        alert=float(s[Field.ALERT]),
        intercept=task.intercept,
        updates=float(s[Field.UPDATES]),
    )
    try:
        move: Move = task.rule.step(trial, loss)
        risk = task.rule.penalty(trial) if task.needs_norm else 0.0
    except OverflowError:  # of Python's powers, where the compiled core's are infinite
        move, risk = _NOWHERE, math.inf
    verdict = move.verdict
    s[Field.TRIALS] += 1
    s[Field.WEIGHT] += weight
    s[Field.OUTSIDE] += weight * verdict.outside
    s[Field.ALERTS] += weight * (loss.alerts and trial.f + trial.offset < trial.alert)
    s[Field.MARGIN_ERRORS] += verdict.outside
    s[Field.UPDATES] += move.coef != 0
    s[Field.LOSS] += weight * verdict.value
    if task.needs_norm:
        s[Field.RISK] += weight * verdict.value + risk
    s[Field.OFFSET_SUM] += trial.offset
    s[Field.ALERT_SUM] += trial.alert
    s[Field.OFFSET], s[Field.THRESHOLD], s[Field.ALERT] = move.offset, move.threshold, move.alert
    return move


def limit_of(loss: Any, s: Array) -> float:
    """Return what a score is compared with."""
    return float(s[Field.ALERT if loss.alerts else Field.THRESHOLD])


def mean_limit(loss: Any, s: Array, now: float) -> float:
    """The threshold that belongs to the average hypothesis."""
    return float(s[Field.ALERT_SUM] / s[Field.TRIALS]) if loss.alerts else now


def _step_column(
    block: _Block, t: int, c: int, score: Array, mean_score: Array, limit: Array
) -> bool:
    """One output of one trial; True if its coefficient is not 0."""
    task, s = block.task, block.state[c]
    if np.isnan(task.y[t, c]):  # an output that is not there yet
        score[t, c], limit[t, c] = 0.0, limit_of(task.loss, s)
        return False
    i = task.old_count + t
    f = block.factor[c] * block.value(i, c, i)
    score[t, c] = f + s[Field.OFFSET]
    limit[t, c] = limit_of(task.loss, s)
    if task.average and s[Field.TRIALS] > 1:  # f_1 = 0, without rounding
        past = block.value(i, task.columns + c, i)
        total = past + s[Field.SCALE_SUM] / block.start[c] * block.value(i, c, i)
        mean_score[t, c] = (total + s[Field.OFFSET_SUM]) / s[Field.TRIALS]
        limit[t, c] = mean_limit(task.loss, s, limit[t, c])
    s[Field.SCALE_SUM] += block.factor[c] * block.start[c]
    move = decide(task, s, f, t, c, task.diag[i])
    shrink, coef = move.shrink, move.coef
    if task.needs_norm:
        old, own = shrink * shrink * s[Field.NORM2], coef * coef * task.diag[i]
        square = old + 2 * shrink * coef * f + own
        block.settle_norm(c, square, old + own)
        if square > move.radius * move.radius:
            inward = move.radius / float(np.sqrt(square))
            s[Field.NORM2] *= inward**2
            shrink, coef = inward * shrink, inward * coef
    s[Field.DROPPED] *= shrink
    block.factor[c] *= shrink
    block.coef[c, i] = coef if block.factor[c] == 0 else coef / block.factor[c]
    return bool(coef != 0)


BACK = 4.0
"""A step may take back so many times what a score had become."""


def is_finite(rule: Any, state: Array, scores: Array, coefs: Array, kxx: float) -> bool:
    """Whether steps stay well inside the floating range, so that what follows stays in it too.

    A step may be as long as the rule's `longest_step`; a longer one only if it takes back what a
    score had become before (it does not go far beyond): no row is refused for what another one has
    done.
    """
    sizes, steps = np.abs([scores, state[:, Field.NORM2], state[:, Field.OFFSET]]), np.abs(coefs)
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is too long
        short = steps**2 * max(kxx, 1.0) <= rule.longest_step**2
        back = steps * kxx <= BACK * np.abs(scores)
    return bool(np.all(short | back) and np.all(sizes < MOST_STATE) and np.all(steps < MOST_SHOWN))


def is_sound(state: Array, *others: Array) -> bool:
    """Whether the outputs' state is well inside the floating range, and other sums like it.

    What is only reported may leave it.
    """
    kept = state[:, : Field.LOSS], state[:, Field.MARGIN_ERRORS :]
    sizes = [np.abs(sums).max(initial=0.0) for sums in (*kept, *others)]
    return all(size < MOST_STATE for size in sizes)  # NaN is no less


@np.errstate(over="ignore", invalid="ignore")  # what leaves the floating range is refused
def steps(task: StepInput) -> dict[str, Any]:
    """Run the scalar steps of one block; see :class:`onkel.core.records.StepInput` for the names.

    For each row, in order: predict from the terms alive, let the rule move f, then drop what
    the window no longer holds. Ends early when the global scale leaves its range (the
    caller folds it) or a shrink of 0 wipes an output.
    """
    columns, old, rows = task.columns, task.old_count, len(task.y)
    wide = 2 * columns if task.average else columns
    state = task.state.copy()
    block = _Block(
        task, state, np.zeros((wide, old + rows)), state[:, Field.SCALE].copy(),
        np.ones(columns), np.zeros(old + rows, bool), np.zeros(rows, bool),
        np.concatenate([task.births, task.first_trial + np.arange(rows)]), task.live,
    )  # fmt: skip
    block.coef[:, :old] = task.old_coef
    block.stored[:old] = True
    score, mean_score, limit = (np.zeros((rows, columns)) for _ in range(3))
    bad_row, t, wiped = -1, 0, np.zeros(columns, bool)
    while t < rows:
        i = old + t
        for c in range(columns):
            block.stored[i] |= _step_column(block, t, c, score, mean_score, limit)
        wiped = block.factor == 0
        if task.average:
            per_start = np.where(wiped, 1.0, block.start)
            block.coef[columns:, i] = (
                -block.coef[:columns, i] / per_start * state[:, Field.SCALE_SUM]
            )
        moved = block.coef[:columns, i] * np.where(wiped, 1.0, block.factor)
        if not is_finite(task.rule, state, score[t], moved, float(task.diag[i])):
            bad_row = t
        if block.stored[i] and (task.hosts[t] == STAYS or task.hosts[t] >= block.front):
            block.merged[t], block.stored[i] = True, False
        block.live += int(block.stored[i])
        while block.front <= i and (
            block.live > task.cap[t] or block.births[block.front] < task.oldest[t]
        ):
            block.let_go(i + 1)
        block.keep_in_ball()
        shown = mean_score[t] if task.average else score[t]
        if not (is_sound(state, block.coef[columns:, i]) and np.abs(shown).max() < MOST_SHOWN):
            bad_row = t
        t += 1
        scale = block.factor * block.start
        far = (scale < task.stop_scale) | (scale * task.stop_scale > 1)
        if bad_row >= 0 or block.stale_norm or wiped.any() or far.any():
            break
    result = _result(block, t, wiped)
    shown = {"score": score[:t], "mean_score": mean_score[:t], "limit": limit[:t]}
    return {**result, **shown, "bad_row": bad_row, "stale_norm": block.stale_norm}


def _result(block: _Block, done: int, wiped: Array) -> dict[str, Any]:
    """Turn the block's coefficients into stored units: actual = scale * stored."""
    task, state, columns = block.task, block.state, block.task.columns
    own = block.coef[:, task.old_count : task.old_count + done].T.copy()
    own[:, :columns] /= np.where(wiped, 1.0, block.start)
    for c in np.flatnonzero(wiped):  # all but the last row's term were wiped out of f
        if task.average:
            past = own[:-1, c] / block.start[c] * state[c, Field.SCALE_SUM]
            own[:-1, columns + c] += past
        own[:-1, c] = 0.0
    state[:, Field.SCALE] = np.where(wiped, 1.0, block.factor * block.start)
    alive = np.arange(done) + task.old_count >= block.front
    return {
        "state": state,
        "coef": own,
        "kept": block.stored[task.old_count : task.old_count + done] & alive,
        "merged": block.merged[:done],
        "wiped": wiped,
        "dropped": min(block.front, task.old_count),
        "done": done,
    }
