# Written by tests/core/test_stub.py from the built module; a test compares the two.
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Wholes = NDArray[np.int64]
Ints = NDArray[np.int32]
Bytes = NDArray[np.uint8]

FINGERPRINT: int

class BankBlockD:
    def __init__(
        self, first_trial: int, x: Doubles, y: Doubles, weight: Doubles, eta: Doubles, lam: Doubles
    ) -> None: ...

class BankBlockF:
    def __init__(
        self, first_trial: int, x: Floats, y: Doubles, weight: Doubles, eta: Doubles, lam: Doubles
    ) -> None: ...

class BankOneD:
    def __init__(
        self,
        members: Members,
        frame: FrameD,
        terms: TermsD,
        ring: Ring,
        state: Doubles,
        targets: Targets,
        rows: Moments | None,
        wanted: Moments | None,
        scores: Doubles,
        limits: Doubles,
    ) -> None: ...
    def plan(self, first: int, eta: Doubles, lam: Doubles) -> None: ...
    def learn(self, x: Doubles, y: Doubles, t: int) -> bool: ...
    def look(self, x: Doubles) -> bool: ...
    def undo(self) -> None: ...
    def moved(self, head: int, count: int) -> None: ...
    @property
    def count(self) -> int: ...

class BankOneF:
    def __init__(
        self,
        members: Members,
        frame: FrameF,
        terms: TermsF,
        ring: Ring,
        state: Doubles,
        targets: Targets,
        rows: Moments | None,
        wanted: Moments | None,
        scores: Doubles,
        limits: Doubles,
    ) -> None: ...
    def plan(self, first: int, eta: Doubles, lam: Doubles) -> None: ...
    def learn(self, x: Floats, y: Doubles, t: int) -> bool: ...
    def look(self, x: Floats) -> bool: ...
    def undo(self) -> None: ...
    def moved(self, head: int, count: int) -> None: ...
    @property
    def count(self) -> int: ...

class BankOutput:
    def __init__(
        self,
        state: Doubles,
        score: Doubles,
        limit: Doubles,
        coef: Doubles,
        kept: Bytes,
        wiped: Bytes,
    ) -> None: ...
    @property
    def done(self) -> int: ...
    @property
    def bad_row(self) -> int: ...

class BankRows:
    def __init__(
        self,
        first_trial: int,
        y: Doubles,
        weight: Doubles,
        eta: Doubles,
        lam: Doubles,
        diag: Doubles,
    ) -> None: ...

class BlockD:
    def __init__(
        self,
        first_trial: int,
        x: Doubles,
        y: Doubles,
        weight: Doubles,
        eta: Doubles,
        lam: Doubles,
        oldest: Wholes,
    ) -> None: ...

class BlockF:
    def __init__(
        self,
        first_trial: int,
        x: Floats,
        y: Doubles,
        weight: Doubles,
        eta: Doubles,
        lam: Doubles,
        oldest: Wholes,
    ) -> None: ...

class BlockOutput:
    def __init__(self, score: Doubles, limit: Doubles, kept: Bytes) -> None: ...

class CellsFound:
    @property
    def left(self) -> list[int]: ...
    @property
    def kinds(self) -> list[list[int]]: ...

class Chances:
    def __init__(
        self,
        outputs: int,
        share: float,
        link: Doubles,
        offset: Doubles,
        bend: Doubles,
        joint: Doubles,
        bow: Doubles,
        said: Doubles,
        weights: Doubles,
        losses: Doubles,
        count: Wholes,
    ) -> None: ...
    def learn(self, scores: Doubles, y: Doubles, out: Doubles) -> None: ...
    def look(self, scores: Doubles, out: Doubles) -> None: ...

class CodeTable:
    def __init__(self, count: int, weights: Doubles, past: Doubles, marks: Doubles) -> None: ...

class DensityAnswers:
    def __init__(
        self,
        places: Doubles,
        radius: Doubles,
        strength: Doubles,
        born: Wholes,
        memory: float,
        theta: float,
        judges: bool,
        alone: bool,
        asked: Doubles,
        asked_at: Wholes,
        said: Bytes,
        asked_count: Wholes,
    ) -> None: ...

class DensityCells:
    def __init__(
        self,
        plan: DensityPlan,
        d: int,
        recent: int,
        kept: int,
        memory: float,
        start: float,
        high: float,
        judges: bool,
        alone: bool,
    ) -> None: ...
    def __len__(self) -> int: ...
    def make_room(self, count: int) -> None: ...
    @property
    def nbytes(self) -> int: ...
    def has(self, number: int) -> bool: ...
    def record(self, number: int) -> bytes: ...
    def records(self, numbers: Wholes) -> bytes: ...
    def sizes(self, numbers: Wholes, out: Wholes) -> None: ...
    def restore(self, numbers: Wholes, lengths: Wholes, data: Bytes) -> int: ...
    def forget(self, numbers: Wholes) -> None: ...
    def learn(
        self,
        numbers: Wholes,
        x: Doubles,
        weight: Doubles,
        ranked: bool,
        out: Doubles,
        usual: Doubles,
        threads: int,
    ) -> None: ...
    def counts(self, numbers: Wholes, out: Doubles) -> None: ...

class DensityPlan:
    def __init__(
        self,
        nu: float,
        memory: float,
        terms: int,
        late_terms: int,
        delay: int,
        hold: int,
        history: int,
        warmup: int,
        young: int,
        seed: int,
        span: float,
        rate: float,
        low: float,
        high: float,
    ) -> None: ...

class DensityState:
    def __init__(
        self,
        whole: Wholes,
        real: Doubles,
        mean: Doubles,
        cov: Doubles,
        center: Doubles,
        scale: Doubles,
        turn: Doubles,
        last: Doubles,
        smooth: Doubles,
        size: Doubles,
        calm: Doubles,
        raw: Doubles,
        late_raw: Doubles,
        z: Floats,
        late_z: Floats,
        sums: Floats,
        late_sums: Floats,
        marks: Bytes,
        held: Doubles,
        due: Wholes,
        waiting: Doubles,
        history: Doubles,
        ranked: Doubles,
    ) -> None: ...

class Forest:
    def __init__(self, splits: Sequence[Split], weights: Doubles, columns: int) -> None: ...
    @property
    def columns(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def in_transaction(self) -> bool: ...
    def insert(self, X: Doubles, coef: Doubles, ids: Wholes) -> None: ...
    def erase(self, X: Doubles, ids: Wholes) -> None: ...
    def add(self, X: Doubles, ids: Wholes, delta: Doubles) -> None: ...
    def query(self, X: Doubles, out: Doubles, threads: int = ...) -> None: ...
    def remix(self, M: Doubles) -> None: ...
    def clear(self) -> None: ...
    def build(
        self,
        X: Doubles,
        coef: Doubles,
        ids: Wholes,
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
        center: Doubles,
        unit: Doubles,
        width: Doubles,
        shift: Doubles,
        apart: Doubles,
        invariant: bool,
        clip: float,
    ) -> None: ...

class FrameF:
    def __init__(
        self,
        center: Doubles,
        unit: Doubles,
        width: Doubles,
        shift: Doubles,
        apart: Doubles,
        invariant: bool,
        clip: float,
    ) -> None: ...

class KeyTable:
    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def numbers(self) -> int: ...
    @overload
    def find(self, keys: list[Any], out: Wholes) -> int: ...
    @overload
    def find(self, keys: Wholes, out: Wholes) -> int: ...
    @overload
    def enter(self, keys: list[Any], out: Wholes) -> KeysEntered: ...
    @overload
    def enter(self, keys: Wholes, out: Wholes) -> KeysEntered: ...
    def number(self, key: object) -> int: ...
    def key(self, number: int) -> object: ...
    def remove(self, number: int) -> None: ...
    def all(self) -> list[Any]: ...
    def taken(self) -> list[int]: ...

class KeysEntered:
    @property
    def bad(self) -> int: ...
    @property
    def fresh(self) -> list[int]: ...

class Loss:
    def __init__(
        self, code: int, nu: float = ..., extra: float = ..., learn_alerts: bool = ...
    ) -> None: ...
    @property
    def code(self) -> int: ...

class Means:
    def __init__(
        self,
        rate: float,
        share: float,
        weights: Doubles,
        losses: Doubles,
        usual: Doubles,
        own: Doubles,
        squares: Doubles,
        joint: Doubles,
        bow: Doubles,
        totals: Doubles,
    ) -> None: ...
    def learn(self, scores: Doubles, y: Doubles, out: Doubles) -> None: ...
    def look(self, scores: Doubles, out: Doubles) -> None: ...

class Members:
    def __init__(
        self, programs: Programs, steppers: Sequence[Stepper], kernels: Sequence[int], outputs: int
    ) -> None: ...

class Moments:
    def __init__(
        self,
        seen: Doubles,
        mean: Doubles,
        variance: Doubles,
        horizon: float,
        plain: bool,
        steady: bool,
    ) -> None: ...

class OneD:
    def __init__(
        self,
        program: Program,
        frame: FrameD,
        terms: TermsD,
        ring: Ring,
        state: Doubles,
        stepper: Stepper,
        targets: Targets,
        rows: Moments | None,
        wanted: Moments | None,
        scores: Doubles,
        limits: Doubles,
    ) -> None: ...
    def learn(
        self, x: Doubles, y: float, t: int, eta: float, lam: float, oldest: int, fade: float
    ) -> bool: ...
    def learn_all(
        self, x: Doubles, y: Doubles, t: int, eta: float, lam: float, oldest: int, fade: float
    ) -> bool: ...
    def look(self, x: Doubles) -> bool: ...
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
        state: Doubles,
        stepper: Stepper,
        targets: Targets,
        rows: Moments | None,
        wanted: Moments | None,
        scores: Doubles,
        limits: Doubles,
    ) -> None: ...
    def learn(
        self, x: Floats, y: float, t: int, eta: float, lam: float, oldest: int, fade: float
    ) -> bool: ...
    def learn_all(
        self, x: Floats, y: Doubles, t: int, eta: float, lam: float, oldest: int, fade: float
    ) -> bool: ...
    def look(self, x: Floats) -> bool: ...
    @property
    def score(self) -> float: ...
    @property
    def head(self) -> int: ...
    @property
    def count(self) -> int: ...

class PanelsD:
    def __init__(
        self, values: Doubles, norms: Doubles, coef: Doubles, first: int, used: int
    ) -> None: ...

class PanelsF:
    def __init__(
        self, values: Floats, norms: Floats, coef: Floats, first: int, used: int
    ) -> None: ...

class PrimalInput:
    def __init__(
        self,
        x: Doubles,
        y: Doubles,
        weight: Doubles,
        eta: Doubles,
        lam: Doubles,
        stepper: Stepper,
        p: float,
        average: bool,
        codes: CodeTable | None,
    ) -> None: ...

class PrimalOutput:
    def __init__(
        self,
        state: Doubles,
        theta: Doubles,
        total: Doubles,
        score: Doubles,
        mean_score: Doubles,
        limit: Doubles,
    ) -> None: ...
    @property
    def bad_row(self) -> int: ...

class PrimalRowsD:
    def __init__(self, settings: Sequence[WeightsD], scores: Doubles) -> None: ...
    def plan(self, first: int, eta: Doubles, lam: Doubles) -> None: ...
    def attempt(self, x: Doubles, y: Doubles, t: int) -> bool: ...
    def commit(self) -> None: ...
    def look(self, x: Doubles) -> bool: ...

class PrimalRowsF:
    def __init__(self, settings: Sequence[WeightsF], scores: Doubles) -> None: ...
    def plan(self, first: int, eta: Doubles, lam: Doubles) -> None: ...
    def attempt(self, x: Floats, y: Doubles, t: int) -> bool: ...
    def commit(self) -> None: ...
    def look(self, x: Floats) -> bool: ...

class Program:
    def __init__(self, nodes: Sequence[tuple[int, float, float, int]]) -> None: ...
    def __len__(self) -> int: ...

class Programs:
    def __init__(self, of: Sequence[Program], ends: Sequence[int]) -> None: ...

class QueriesD:
    def __init__(
        self, q: Doubles, v: Doubles, off: Doubles, norm: Doubles, width: Doubles, codes: int = ...
    ) -> None: ...

class QueriesF:
    def __init__(
        self, q: Floats, v: Floats, off: Floats, norm: Floats, width: Floats, codes: int = ...
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
        most: float = ...,
    ) -> None: ...
    @property
    def code(self) -> int: ...

class Split:
    def __init__(self, kind: int, number: float, values: Sequence[float]) -> None: ...

class SquaresFeaturesD:
    def __init__(
        self,
        program: Program | None,
        frame: FrameD,
        points: Doubles,
        norms: Doubles,
        center: Doubles,
        shift: Doubles,
        farthest: float,
    ) -> None: ...

class SquaresFeaturesF:
    def __init__(
        self,
        program: Program | None,
        frame: FrameF,
        points: Floats,
        norms: Floats,
        center: Doubles,
        shift: Doubles,
        farthest: float,
    ) -> None: ...

class SquaresNumbers:
    def __init__(self, clip: float, most: float, horizon: float, longest: float) -> None: ...

class SquaresRowD:
    def __init__(
        self,
        features: SquaresFeaturesD,
        numbers: SquaresNumbers,
        keep: float,
        state: Doubles,
        theta: Doubles,
        cov: Doubles,
        targets: Targets,
        rows: Moments | None,
        wanted: Moments | None,
        scores: Doubles,
        limits: Doubles,
    ) -> None: ...
    def attempt(self, x: Doubles, y: Doubles) -> bool: ...
    def commit(self) -> None: ...
    def look(self, x: Doubles) -> bool: ...

class SquaresRowF:
    def __init__(
        self,
        features: SquaresFeaturesF,
        numbers: SquaresNumbers,
        keep: float,
        state: Doubles,
        theta: Doubles,
        cov: Doubles,
        targets: Targets,
        rows: Moments | None,
        wanted: Moments | None,
        scores: Doubles,
        limits: Doubles,
    ) -> None: ...
    def attempt(self, x: Floats, y: Doubles) -> bool: ...
    def commit(self) -> None: ...
    def look(self, x: Floats) -> bool: ...

class StepInput:
    def __init__(
        self,
        kernel: Doubles,
        base: Doubles,
        old_coef: Doubles,
        diag: Doubles,
        births: Wholes,
        live: int,
        first_trial: int,
        y: Doubles,
        weight: Doubles,
        eta: Doubles,
        lam: Doubles,
        cap: Wholes,
        hosts: Wholes,
        oldest: Wholes,
        stepper: Stepper,
        budget: int,
        average: bool,
        stop_scale: float,
    ) -> None: ...

class StepOutput:
    def __init__(
        self,
        state: Doubles,
        score: Doubles,
        mean_score: Doubles,
        limit: Doubles,
        coef: Doubles,
        kept: Bytes,
        merged: Bytes,
        wiped: Bytes,
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
    def __init__(self, center: Doubles, spread: Doubles) -> None: ...

class TermCellsD:
    def __init__(self, task: int, program: Program, stepper: Stepper, plan: TermPlan) -> None: ...
    def __len__(self) -> int: ...
    def make_room(self, count: int) -> None: ...
    @property
    def nbytes(self) -> int: ...
    def has(self, number: int) -> bool: ...
    def record(self, number: int) -> bytes: ...
    def records(self, numbers: Wholes) -> bytes: ...
    def sizes(self, numbers: Wholes, out: Wholes) -> None: ...
    def restore(self, numbers: Wholes, lengths: Wholes, data: Bytes) -> int: ...
    def forget(self, numbers: Wholes) -> None: ...
    def learn(
        self,
        numbers: Wholes,
        x: Doubles,
        y: Doubles,
        labels: Ints,
        weight: Doubles,
        eta: Doubles,
        lam: Doubles,
        fade: Doubles,
        time: Doubles,
        oldest: Wholes,
        flat: bool,
        bound: bool,
        ranked: bool,
        score: Doubles,
        limit: Doubles,
        more: Doubles,
        kinds: Ints,
        usual: Doubles,
        threads: int,
    ) -> CellsFound: ...
    def look(
        self,
        numbers: Wholes,
        x: Doubles,
        bound: bool,
        ranked: bool,
        score: Doubles,
        limit: Doubles,
        more: Doubles,
        kinds: Ints,
        threads: int,
    ) -> CellsFound: ...
    def trials(self, numbers: Wholes, time: Doubles, trials: Wholes, gaps: Doubles) -> None: ...
    def counts(self, numbers: Wholes, out: Doubles) -> None: ...
    def widest(self, numbers: Wholes) -> int: ...
    def keep(self, numbers: Wholes) -> None: ...
    def learn_one(
        self,
        number: int,
        x: Doubles,
        y: float,
        label: int,
        eta: float,
        lam: float,
        oldest: int,
        fade: float,
        time: float,
    ) -> bool: ...
    def t(self, number: int) -> int: ...
    def clock(self, number: int) -> float: ...
    def set_sides(self, sides: Ints) -> None: ...
    def undo(self) -> None: ...
    def done(self) -> None: ...

class TermCellsF:
    def __init__(self, task: int, program: Program, stepper: Stepper, plan: TermPlan) -> None: ...
    def __len__(self) -> int: ...
    def make_room(self, count: int) -> None: ...
    @property
    def nbytes(self) -> int: ...
    def has(self, number: int) -> bool: ...
    def record(self, number: int) -> bytes: ...
    def records(self, numbers: Wholes) -> bytes: ...
    def sizes(self, numbers: Wholes, out: Wholes) -> None: ...
    def restore(self, numbers: Wholes, lengths: Wholes, data: Bytes) -> int: ...
    def forget(self, numbers: Wholes) -> None: ...
    def learn(
        self,
        numbers: Wholes,
        x: Floats,
        y: Doubles,
        labels: Ints,
        weight: Doubles,
        eta: Doubles,
        lam: Doubles,
        fade: Doubles,
        time: Doubles,
        oldest: Wholes,
        flat: bool,
        bound: bool,
        ranked: bool,
        score: Doubles,
        limit: Doubles,
        more: Doubles,
        kinds: Ints,
        usual: Doubles,
        threads: int,
    ) -> CellsFound: ...
    def look(
        self,
        numbers: Wholes,
        x: Floats,
        bound: bool,
        ranked: bool,
        score: Doubles,
        limit: Doubles,
        more: Doubles,
        kinds: Ints,
        threads: int,
    ) -> CellsFound: ...
    def trials(self, numbers: Wholes, time: Doubles, trials: Wholes, gaps: Doubles) -> None: ...
    def counts(self, numbers: Wholes, out: Doubles) -> None: ...
    def widest(self, numbers: Wholes) -> int: ...
    def keep(self, numbers: Wholes) -> None: ...
    def learn_one(
        self,
        number: int,
        x: Floats,
        y: float,
        label: int,
        eta: float,
        lam: float,
        oldest: int,
        fade: float,
        time: float,
    ) -> bool: ...
    def t(self, number: int) -> int: ...
    def clock(self, number: int) -> float: ...
    def set_sides(self, sides: Ints) -> None: ...
    def undo(self) -> None: ...
    def done(self) -> None: ...

class TermPlan:
    def __init__(
        self,
        d: int,
        cap: int,
        limit: int,
        adaptive: bool,
        invariant: bool,
        scale: bool,
        gaps: bool,
        targets: bool,
        link: bool,
        steady: bool,
        start: float,
        memory: float,
        horizon: float,
        duration: float,
        eps: float,
        clip: float,
        recent: int,
        warmup: int,
    ) -> None: ...

class TermsD:
    def __init__(
        self, panels: Doubles, norms: Doubles, coef: Doubles, weights: Doubles, births: Wholes
    ) -> None: ...

class TermsF:
    def __init__(
        self, panels: Floats, norms: Floats, coef: Doubles, weights: Floats, births: Wholes
    ) -> None: ...

class WeightsD:
    def __init__(
        self,
        frame: FrameD,
        state: Doubles,
        theta: Doubles,
        stepper: Stepper,
        p: float,
        targets: Targets,
        rows: Moments | None,
        wanted: Moments | None,
        codes: CodeTable | None,
    ) -> None: ...

class WeightsF:
    def __init__(
        self,
        frame: FrameF,
        state: Doubles,
        theta: Doubles,
        stepper: Stepper,
        p: float,
        targets: Targets,
        rows: Moments | None,
        wanted: Moments | None,
        codes: CodeTable | None,
    ) -> None: ...

def additive_matrix(
    splits: Sequence[Split], weights: Doubles, X: Doubles, Z: Doubles, out: Doubles
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
def bank_lane(
    members: Members,
    frame: FrameF,
    terms: TermsF,
    ring: Ring,
    state: Doubles,
    block: BankBlockF,
    out: BlockOutput,
    at_once: int,
    threads: int,
) -> int: ...
@overload
def bank_lane(
    members: Members,
    frame: FrameD,
    terms: TermsD,
    ring: Ring,
    state: Doubles,
    block: BankBlockD,
    out: BlockOutput,
    at_once: int,
    threads: int,
) -> int: ...
@overload
def bank_sums(
    programs: Programs, queries: QueriesF, panels: PanelsF, out: Doubles, threads: int
) -> None: ...
@overload
def bank_sums(
    programs: Programs, queries: QueriesD, panels: PanelsD, out: Doubles, threads: int
) -> None: ...
def buckets(codes: Doubles, count: int, out: Wholes) -> None: ...
def code_scores(
    x: Doubles, table: CodeTable, now: Doubles, then: Doubles, out: Doubles
) -> None: ...
@overload
def condense(
    program: Program,
    frame: FrameF,
    terms: TermsF,
    ring: Ring,
    into: TermsF,
    left: int,
    own: int,
    lost: Doubles,
) -> int: ...
@overload
def condense(
    program: Program,
    frame: FrameD,
    terms: TermsD,
    ring: Ring,
    into: TermsD,
    left: int,
    own: int,
    lost: Doubles,
) -> int: ...
def density(
    plan: DensityPlan,
    state: DensityState,
    answers: DensityAnswers | None,
    x: Doubles,
    weight: Doubles,
    out: Doubles,
    members: Doubles,
    stop_from: int = ...,
) -> int: ...
def evaluate(
    program: Program, dot: Doubles, dist2: Doubles, dist1: Doubles, out: Doubles
) -> None: ...
def follow_widths(
    answers: Doubles,
    apart: Doubles,
    errors: Doubles,
    nu: float,
    row: int,
    numbers: Doubles,
    state: Doubles,
    out: Doubles,
) -> None: ...
@overload
def has_codes(rows: Floats, count: int) -> bool: ...
@overload
def has_codes(rows: Doubles, count: int) -> bool: ...
@overload
def lane(
    program: Program,
    frame: FrameF,
    terms: TermsF,
    ring: Ring,
    state: Doubles,
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
    state: Doubles,
    stepper: Stepper,
    block: BlockD,
    out: BlockOutput,
    threads: int,
) -> int: ...
def least_squares(
    x: Doubles,
    y: Doubles,
    weight: Doubles,
    keep: Doubles,
    numbers: SquaresNumbers,
    state: Doubles,
    theta: Doubles,
    cov: Doubles,
    score: Doubles,
    limit: Doubles,
) -> int: ...
@overload
def left_behind(frame: FrameF, v: Doubles, recent: Doubles, center: Doubles) -> bool: ...
@overload
def left_behind(frame: FrameD, v: Doubles, recent: Doubles, center: Doubles) -> bool: ...
def level() -> str: ...
def levels() -> list[str]: ...
@overload
def matrix(
    program: Program, queries: QueriesF, rows: Floats, norms: Floats, out: Doubles
) -> None: ...
@overload
def matrix(
    program: Program, queries: QueriesD, rows: Doubles, norms: Doubles, out: Doubles
) -> None: ...
def moments(rows: Doubles, fade: Doubles, into: Moments) -> None: ...
@overload
def norms(frame: FrameF, v: Floats, out: Floats) -> None: ...
@overload
def norms(frame: FrameD, v: Doubles, out: Doubles) -> None: ...
def primal(task: PrimalInput, out: PrimalOutput) -> None: ...
@overload
def queries(frame: FrameF, v: Doubles, q: Floats, off: Floats, norm: Floats) -> None: ...
@overload
def queries(frame: FrameD, v: Doubles, q: Doubles, off: Doubles, norm: Doubles) -> None: ...
def steps(task: StepInput, out: StepOutput) -> None: ...
@overload
def sums(
    program: Program, queries: QueriesF, panels: PanelsF, out: Doubles, threads: int
) -> None: ...
@overload
def sums(
    program: Program, queries: QueriesD, panels: PanelsD, out: Doubles, threads: int
) -> None: ...
def use_level(name: str) -> None: ...
def widths(
    answers: Doubles, apart: Doubles, numbers: Doubles, state: Doubles, out: Doubles
) -> None: ...
