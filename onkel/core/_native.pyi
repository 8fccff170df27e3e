# Written by tests/core/test_stub.py from the built module; a test compares the two.
from collections.abc import Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

FINGERPRINT: int

class BankOutput:
    def __init__(
        self,
        state: NDArray[np.float64],
        score: NDArray[np.float64],
        limit: NDArray[np.float64],
        coef: NDArray[np.float64],
        kept: NDArray[np.uint8],
        wiped: NDArray[np.uint8],
    ) -> None: ...
    @property
    def done(self) -> int: ...
    @property
    def bad_row(self) -> int: ...

class BankRows:
    def __init__(
        self,
        first_trial: int,
        y: NDArray[np.float64],
        weight: NDArray[np.float64],
        eta: NDArray[np.float64],
        lam: NDArray[np.float64],
        diag: NDArray[np.float64],
    ) -> None: ...

class BlockD:
    def __init__(
        self,
        first_trial: int,
        x: NDArray[np.float64],
        y: NDArray[np.float64],
        weight: NDArray[np.float64],
        eta: NDArray[np.float64],
        lam: NDArray[np.float64],
        oldest: NDArray[np.int64],
    ) -> None: ...

class BlockF:
    def __init__(
        self,
        first_trial: int,
        x: NDArray[np.float32],
        y: NDArray[np.float64],
        weight: NDArray[np.float64],
        eta: NDArray[np.float64],
        lam: NDArray[np.float64],
        oldest: NDArray[np.int64],
    ) -> None: ...

class BlockOutput:
    def __init__(
        self, score: NDArray[np.float64], limit: NDArray[np.float64], kept: NDArray[np.uint8]
    ) -> None: ...

class Forest:
    def __init__(
        self, splits: Sequence[Split], weights: NDArray[np.float64], columns: int
    ) -> None: ...
    @property
    def columns(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def in_transaction(self) -> bool: ...
    def insert(
        self, X: NDArray[np.float64], coef: NDArray[np.float64], ids: NDArray[np.int64]
    ) -> None: ...
    def erase(self, X: NDArray[np.float64], ids: NDArray[np.int64]) -> None: ...
    def add(
        self, X: NDArray[np.float64], ids: NDArray[np.int64], delta: NDArray[np.float64]
    ) -> None: ...
    def query(
        self, X: NDArray[np.float64], out: NDArray[np.float64], threads: int = ...
    ) -> None: ...
    def remix(self, M: NDArray[np.float64]) -> None: ...
    def clear(self) -> None: ...
    def build(
        self,
        X: NDArray[np.float64],
        coef: NDArray[np.float64],
        ids: NDArray[np.int64],
        layout: Sequence[Sequence[Sequence[int]]] = ...,
    ) -> None: ...
    def layout(self) -> list[list[list[int]]]: ...
    def copy(self) -> Forest: ...
    def begin(self) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...

class FrameD:
    def __init__(
        self,
        center: NDArray[np.float64],
        unit: NDArray[np.float64],
        width: NDArray[np.float64],
        shift: NDArray[np.float64],
        invariant: bool,
        clip: float,
    ) -> None: ...

class FrameF:
    def __init__(
        self,
        center: NDArray[np.float64],
        unit: NDArray[np.float64],
        width: NDArray[np.float64],
        shift: NDArray[np.float64],
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
        self,
        seen: NDArray[np.float64],
        mean: NDArray[np.float64],
        variance: NDArray[np.float64],
        horizon: float,
        plain: bool,
    ) -> None: ...

class OneD:
    def __init__(
        self,
        program: Program,
        frame: FrameD,
        terms: TermsD,
        ring: Ring,
        state: NDArray[np.float64],
        stepper: Stepper,
        targets: Targets,
        rows: Moments | None,
        wanted: Moments | None,
        scores: NDArray[np.float64],
        limits: NDArray[np.float64],
    ) -> None: ...
    def learn(
        self,
        x: NDArray[np.float64],
        y: float,
        t: int,
        eta: float,
        lam: float,
        oldest: int,
        fade: float,
    ) -> bool: ...
    def learn_all(
        self,
        x: NDArray[np.float64],
        y: NDArray[np.float64],
        t: int,
        eta: float,
        lam: float,
        oldest: int,
        fade: float,
    ) -> bool: ...
    def look(self, x: NDArray[np.float64]) -> bool: ...
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
        state: NDArray[np.float64],
        stepper: Stepper,
        targets: Targets,
        rows: Moments | None,
        wanted: Moments | None,
        scores: NDArray[np.float64],
        limits: NDArray[np.float64],
    ) -> None: ...
    def learn(
        self,
        x: NDArray[np.float32],
        y: float,
        t: int,
        eta: float,
        lam: float,
        oldest: int,
        fade: float,
    ) -> bool: ...
    def learn_all(
        self,
        x: NDArray[np.float32],
        y: NDArray[np.float64],
        t: int,
        eta: float,
        lam: float,
        oldest: int,
        fade: float,
    ) -> bool: ...
    def look(self, x: NDArray[np.float32]) -> bool: ...
    @property
    def score(self) -> float: ...
    @property
    def head(self) -> int: ...
    @property
    def count(self) -> int: ...

class PanelsD:
    def __init__(
        self,
        values: NDArray[np.float64],
        norms: NDArray[np.float64],
        coef: NDArray[np.float64],
        first: int,
        used: int,
    ) -> None: ...

class PanelsF:
    def __init__(
        self,
        values: NDArray[np.float32],
        norms: NDArray[np.float32],
        coef: NDArray[np.float32],
        first: int,
        used: int,
    ) -> None: ...

class PrimalInput:
    def __init__(
        self,
        x: NDArray[np.float64],
        y: NDArray[np.float64],
        weight: NDArray[np.float64],
        eta: NDArray[np.float64],
        lam: NDArray[np.float64],
        stepper: Stepper,
        p: float,
        average: bool,
    ) -> None: ...

class PrimalOutput:
    def __init__(
        self,
        state: NDArray[np.float64],
        theta: NDArray[np.float64],
        total: NDArray[np.float64],
        score: NDArray[np.float64],
        mean_score: NDArray[np.float64],
        limit: NDArray[np.float64],
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
        self,
        q: NDArray[np.float64],
        v: NDArray[np.float64],
        off: NDArray[np.float64],
        norm: NDArray[np.float64],
        width: NDArray[np.float64],
    ) -> None: ...

class QueriesF:
    def __init__(
        self,
        q: NDArray[np.float32],
        v: NDArray[np.float32],
        off: NDArray[np.float32],
        norm: NDArray[np.float32],
        width: NDArray[np.float32],
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
        kernel: NDArray[np.float64],
        base: NDArray[np.float64],
        old_coef: NDArray[np.float64],
        diag: NDArray[np.float64],
        births: NDArray[np.int64],
        live: int,
        first_trial: int,
        y: NDArray[np.float64],
        weight: NDArray[np.float64],
        eta: NDArray[np.float64],
        lam: NDArray[np.float64],
        cap: NDArray[np.int64],
        hosts: NDArray[np.int64],
        oldest: NDArray[np.int64],
        stepper: Stepper,
        budget: int,
        average: bool,
        stop_scale: float,
    ) -> None: ...

class StepOutput:
    def __init__(
        self,
        state: NDArray[np.float64],
        score: NDArray[np.float64],
        mean_score: NDArray[np.float64],
        limit: NDArray[np.float64],
        coef: NDArray[np.float64],
        kept: NDArray[np.uint8],
        merged: NDArray[np.uint8],
        wiped: NDArray[np.uint8],
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
    def __init__(self, center: NDArray[np.float64], spread: NDArray[np.float64]) -> None: ...

class TermsD:
    def __init__(
        self,
        panels: NDArray[np.float64],
        norms: NDArray[np.float64],
        coef: NDArray[np.float64],
        weights: NDArray[np.float64],
        births: NDArray[np.int64],
    ) -> None: ...

class TermsF:
    def __init__(
        self,
        panels: NDArray[np.float32],
        norms: NDArray[np.float32],
        coef: NDArray[np.float64],
        weights: NDArray[np.float32],
        births: NDArray[np.int64],
    ) -> None: ...

def additive_matrix(
    splits: Sequence[Split],
    weights: NDArray[np.float64],
    X: NDArray[np.float64],
    Z: NDArray[np.float64],
    out: NDArray[np.float64],
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
    programs: Programs, queries: QueriesF, panels: PanelsF, out: NDArray[np.float64], threads: int
) -> None: ...
@overload
def bank_sums(
    programs: Programs, queries: QueriesD, panels: PanelsD, out: NDArray[np.float64], threads: int
) -> None: ...
def evaluate(
    program: Program,
    dot: NDArray[np.float64],
    dist2: NDArray[np.float64],
    dist1: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
def fixed_share(
    losses: NDArray[np.float64],
    rate: float,
    share: float,
    weights: NDArray[np.float64],
    before: NDArray[np.float64],
    gap: NDArray[np.float64],
) -> None: ...
@overload
def lane(
    program: Program,
    frame: FrameF,
    terms: TermsF,
    ring: Ring,
    state: NDArray[np.float64],
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
    state: NDArray[np.float64],
    stepper: Stepper,
    block: BlockD,
    out: BlockOutput,
    threads: int,
) -> int: ...
def level() -> str: ...
def levels() -> list[str]: ...
@overload
def matrix(
    program: Program,
    queries: QueriesF,
    rows: NDArray[np.float32],
    norms: NDArray[np.float32],
    out: NDArray[np.float64],
) -> None: ...
@overload
def matrix(
    program: Program,
    queries: QueriesD,
    rows: NDArray[np.float64],
    norms: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None: ...
def moments(rows: NDArray[np.float64], fade: NDArray[np.float64], into: Moments) -> None: ...
def primal(task: PrimalInput, out: PrimalOutput) -> None: ...
def steps(task: StepInput, out: StepOutput) -> None: ...
@overload
def sums(
    program: Program, queries: QueriesF, panels: PanelsF, out: NDArray[np.float64], threads: int
) -> None: ...
@overload
def sums(
    program: Program, queries: QueriesD, panels: PanelsD, out: NDArray[np.float64], threads: int
) -> None: ...
def use_level(name: str) -> None: ...
