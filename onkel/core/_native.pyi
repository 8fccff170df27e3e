# Written by tests/core/test_stub.py from the built module; a test compares the two.
from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

FINGERPRINT: int

class BankOutput:
    def __init__(
        self,
        state: float64,
        score: float64,
        limit: float64,
        coef: float64,
        kept: uint8,
        wiped: uint8,
    ) -> None: ...
    @property
    def done(self) -> int: ...
    @property
    def bad_row(self) -> int: ...

class BankRows:
    def __init__(
        self,
        first_trial: int,
        y: float64,
        weight: float64,
        eta: float64,
        lam: float64,
        diag: float64,
    ) -> None: ...

class BlockD:
    def __init__(
        self,
        first_trial: int,
        x: float64,
        y: float64,
        weight: float64,
        eta: float64,
        lam: float64,
        oldest: int64,
    ) -> None: ...

class BlockF:
    def __init__(
        self,
        first_trial: int,
        x: float32,
        y: float64,
        weight: float64,
        eta: float64,
        lam: float64,
        oldest: int64,
    ) -> None: ...

class BlockOutput:
    def __init__(self, score: float64, limit: float64, kept: uint8) -> None: ...

class Forest:
    def __init__(self, splits: Sequence[Split], weights: float64, columns: int) -> None: ...
    @property
    def columns(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def in_transaction(self) -> bool: ...
    def insert(self, X: float64, coef: float64, ids: int64) -> None: ...
    def erase(self, X: float64, ids: int64) -> None: ...
    def add(self, X: float64, ids: int64, delta: float64) -> None: ...
    def query(self, X: float64, out: float64, threads: int = ...) -> None: ...
    def remix(self, M: float64) -> None: ...
    def clear(self) -> None: ...
    def build(
        self, X: float64, coef: float64, ids: int64, layout: Sequence[Sequence[Sequence[int]]] = ...
    ) -> None: ...
    def layout(self) -> list[list[list[int]]]: ...
    def copy(self) -> Forest: ...
    def begin(self) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...

class FrameD:
    def __init__(
        self,
        center: float64,
        unit: float64,
        width: float64,
        shift: float64,
        invariant: bool,
        clip: float,
    ) -> None: ...

class FrameF:
    def __init__(
        self,
        center: float64,
        unit: float64,
        width: float64,
        shift: float64,
        invariant: bool,
        clip: float,
    ) -> None: ...

class Loss:
    def __init__(
        self, code: int, nu: float = ..., extra: float = ..., learn_alerts: bool = ...
    ) -> None: ...
    @property
    def code(self) -> int: ...

class Moments:
    def __init__(
        self, seen: float64, mean: float64, variance: float64, horizon: float, plain: bool
    ) -> None: ...

class OneD:
    def __init__(
        self,
        program: Program,
        frame: FrameD,
        terms: TermsD,
        ring: Ring,
        state: float64,
        stepper: Stepper,
        targets: Targets,
        rows: Moments | None,
        wanted: Moments | None,
        scores: float64,
        limits: float64,
    ) -> None: ...
    def learn(
        self, x: float64, y: float, t: int, eta: float, lam: float, oldest: int, fade: float
    ) -> bool: ...
    def learn_all(
        self, x: float64, y: float64, t: int, eta: float, lam: float, oldest: int, fade: float
    ) -> bool: ...
    def look(self, x: float64) -> bool: ...
    @property
    def score(self) -> float: ...
    @property
    def head(self) -> int: ...
    @property
    def count(self) -> int: ...

class OneF:
    def __init__(
        self,
        program: Program,
        frame: FrameF,
        terms: TermsF,
        ring: Ring,
        state: float64,
        stepper: Stepper,
        targets: Targets,
        rows: Moments | None,
        wanted: Moments | None,
        scores: float64,
        limits: float64,
    ) -> None: ...
    def learn(
        self, x: float32, y: float, t: int, eta: float, lam: float, oldest: int, fade: float
    ) -> bool: ...
    def learn_all(
        self, x: float32, y: float64, t: int, eta: float, lam: float, oldest: int, fade: float
    ) -> bool: ...
    def look(self, x: float32) -> bool: ...
    @property
    def score(self) -> float: ...
    @property
    def head(self) -> int: ...
    @property
    def count(self) -> int: ...

class PanelsD:
    def __init__(
        self, values: float64, norms: float64, coef: float64, first: int, used: int
    ) -> None: ...

class PanelsF:
    def __init__(
        self, values: float32, norms: float32, coef: float32, first: int, used: int
    ) -> None: ...

class PrimalInput:
    def __init__(
        self,
        x: float64,
        y: float64,
        weight: float64,
        eta: float64,
        lam: float64,
        stepper: Stepper,
        p: float,
        average: bool,
    ) -> None: ...

class PrimalOutput:
    def __init__(
        self,
        state: float64,
        theta: float64,
        total: float64,
        score: float64,
        mean_score: float64,
        limit: float64,
    ) -> None: ...
    @property
    def bad_row(self) -> int: ...

class Program:
    def __init__(self, nodes: Sequence[tuple[int, float, float, int]]) -> None: ...
    def __len__(self) -> int: ...

class Programs:
    def __init__(self, of: Sequence[Program], ends: Sequence[int]) -> None: ...

class QueriesD:
    def __init__(
        self, q: float64, v: float64, off: float64, norm: float64, width: float64
    ) -> None: ...

class QueriesF:
    def __init__(
        self, q: float32, v: float32, off: float32, norm: float32, width: float32
    ) -> None: ...

class Ring:
    def __init__(self, head: int, count: int, cap: int, budget: int) -> None: ...
    @property
    def head(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def cap(self) -> int: ...
    @property
    def budget(self) -> int: ...

class Rule:
    def __init__(
        self,
        code: int,
        threshold_rate: float = ...,
        power: float = ...,
        support_rate: float = ...,
        radius: float = ...,
        extra: float = ...,
    ) -> None: ...
    @property
    def code(self) -> int: ...

class Split:
    def __init__(self, kind: int, number: float, values: Sequence[float]) -> None: ...

class StepInput:
    def __init__(
        self,
        kernel: float64,
        base: float64,
        old_coef: float64,
        diag: float64,
        births: int64,
        live: int,
        first_trial: int,
        y: float64,
        weight: float64,
        eta: float64,
        lam: float64,
        cap: int64,
        hosts: int64,
        oldest: int64,
        stepper: Stepper,
        budget: int,
        average: bool,
        stop_scale: float,
    ) -> None: ...

class StepOutput:
    def __init__(
        self,
        state: float64,
        score: float64,
        mean_score: float64,
        limit: float64,
        coef: float64,
        kept: uint8,
        merged: uint8,
        wiped: uint8,
    ) -> None: ...
    @property
    def dropped(self) -> int: ...
    @property
    def done(self) -> int: ...
    @property
    def bad_row(self) -> int: ...
    @property
    def stale_norm(self) -> bool: ...

class Stepper:
    def __init__(self, loss: Loss, rule: Rule, intercept: bool, needs_norm: bool) -> None: ...

class Targets:
    def __init__(self, center: float64, spread: float64) -> None: ...

class TermsD:
    def __init__(
        self, panels: float64, norms: float64, coef: float64, weights: float64, births: int64
    ) -> None: ...

class TermsF:
    def __init__(
        self, panels: float32, norms: float32, coef: float64, weights: float32, births: int64
    ) -> None: ...

def additive_matrix(
    splits: Sequence[Split], weights: float64, X: float64, Z: float64, out: float64
) -> None: ...
@overload
def bank(
    programs: Programs,
    members: Sequence[Stepper],
    kernels: Sequence[int],
    queries: QueriesF,
    panels: PanelsF,
    rows: BankRows,
    out: BankOutput,
    threads: int,
) -> None: ...
@overload
def bank(
    programs: Programs,
    members: Sequence[Stepper],
    kernels: Sequence[int],
    queries: QueriesD,
    panels: PanelsD,
    rows: BankRows,
    out: BankOutput,
    threads: int,
) -> None: ...
@overload
def bank_sums(
    programs: Programs, queries: QueriesF, panels: PanelsF, out: float64, threads: int
) -> None: ...
@overload
def bank_sums(
    programs: Programs, queries: QueriesD, panels: PanelsD, out: float64, threads: int
) -> None: ...
def evaluate(
    program: Program, dot: float64, dist2: float64, dist1: float64, out: float64
) -> None: ...
def fixed_share(
    losses: float64, rate: float, share: float, weights: float64, before: float64, gap: float64
) -> None: ...
@overload
def lane(
    program: Program,
    frame: FrameF,
    terms: TermsF,
    ring: Ring,
    state: float64,
    stepper: Stepper,
    block: BlockF,
    out: BlockOutput,
    threads: int,
) -> int: ...
@overload
def lane(
    program: Program,
    frame: FrameD,
    terms: TermsD,
    ring: Ring,
    state: float64,
    stepper: Stepper,
    block: BlockD,
    out: BlockOutput,
    threads: int,
) -> int: ...
def level() -> str: ...
def levels() -> list[str]: ...
@overload
def matrix(
    program: Program, queries: QueriesF, rows: float32, norms: float32, out: float64
) -> None: ...
@overload
def matrix(
    program: Program, queries: QueriesD, rows: float64, norms: float64, out: float64
) -> None: ...
def moments(rows: float64, fade: float64, into: Moments) -> None: ...
def primal(task: PrimalInput, out: PrimalOutput) -> None: ...
def steps(task: StepInput, out: StepOutput) -> None: ...
@overload
def sums(
    program: Program, queries: QueriesF, panels: PanelsF, out: float64, threads: int
) -> None: ...
@overload
def sums(
    program: Program, queries: QueriesD, panels: PanelsD, out: float64, threads: int
) -> None: ...
def use_level(name: str) -> None: ...
