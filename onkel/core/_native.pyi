from typing import Any

from numpy.typing import NDArray

from onkel.core.layout import NativeLoss, NativeRule, Program

Array = NDArray[Any]

LANES: int
FIELDS: int

def levels() -> list[str]: ...
def level() -> str: ...
def use_level(name: str) -> None: ...
def sums(
    program: Program,
    q: Array,
    v: Array,
    off: Array,
    norm: Array,
    width: Array,
    panels: Array,
    norms: Array,
    first: int,
    used: int,
    coef: Array,
    out: Array,
    threads: int,
) -> None: ...
def matrix(
    program: Program,
    q: Array,
    v: Array,
    off: Array,
    norm: Array,
    width: Array,
    rows: Array,
    norms: Array,
    out: Array,
) -> None: ...
def steps(
    kernel: Array,
    base: Array,
    old_coef: Array,
    diag: Array,
    births: Array,
    live: int,
    first_trial: int,
    y: Array,
    weight: Array,
    eta: Array,
    lam: Array,
    cap: Array,
    hosts: Array,
    oldest: Array,
    loss: NativeLoss,
    rule: NativeRule,
    intercept: bool,
    needs_norm: bool,
    average: bool,
    stop_scale: float,
    state: Array,
    score: Array,
    mean_score: Array,
    limit: Array,
    coef: Array,
    kept: Array,
    merged: Array,
    wiped: Array,
) -> tuple[int, int, int, bool]: ...
def primal(
    x: Array,
    y: Array,
    weight: Array,
    eta: Array,
    lam: Array,
    loss: NativeLoss,
    rule: NativeRule,
    p: float,
    intercept: bool,
    needs_norm: bool,
    average: bool,
    state: Array,
    theta: Array,
    total: Array,
    score: Array,
    mean_score: Array,
    limit: Array,
) -> int: ...

class OneF:
    def __init__(self, *parts: Any) -> None: ...
    def learn(
        self, x: Array, y: float, t: int, eta: float, lam: float, oldest: int, fade: float
    ) -> bool: ...
    def learn_all(
        self, x: Array, y: Array, t: int, eta: float, lam: float, oldest: int
    ) -> bool: ...
    def look(self, x: Array) -> bool: ...
    @property
    def score(self) -> float: ...
    @property
    def head(self) -> int: ...
    @property
    def count(self) -> int: ...

class OneD(OneF): ...

def lane_f(
    program: Program,
    frame: tuple[Array, ...],
    invariant: bool,
    clip: float,
    terms: tuple[Array, ...],
    ring: tuple[int, int, int],
    state: Array,
    loss: NativeLoss,
    rule: NativeRule,
    intercept: bool,
    needs_norm: bool,
    threads: int,
    first_trial: int,
    data: tuple[Array, ...],
    out: tuple[Array, ...],
) -> tuple[int, int, int]: ...

lane_d = lane_f

def moments(
    rows: Array,
    fade: Array,
    plain: bool,
    horizon: float,
    seen: Array,
    mean: Array,
    variance: Array,
) -> None: ...

class Forest:
    def __init__(
        self, splits: list[tuple[int, float, list[float]]], weights: Array, columns: int
    ) -> None: ...
    @property
    def columns(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def in_transaction(self) -> bool: ...
    def insert(self, X: Array, coef: Array, ids: Array) -> None: ...
    def erase(self, X: Array, ids: Array) -> None: ...
    def add(self, X: Array, ids: Array, delta: Array) -> None: ...
    def query(self, X: Array, out: Array, threads: int = 1) -> None: ...
    def remix(self, M: Array) -> None: ...
    def clear(self) -> None: ...
    def build(
        self, X: Array, coef: Array, ids: Array, layout: list[list[list[int]]] = ...
    ) -> None: ...
    def layout(self) -> list[list[list[int]]]: ...
    def copy(self) -> Forest: ...
    def begin(self) -> None: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...

def additive_matrix(
    splits: list[tuple[int, float, list[float]]], weights: Array, X: Array, Z: Array, out: Array
) -> None: ...
def bank_sums_f(
    programs: list[Program],
    ends: list[int],
    rows: tuple[Array, ...],
    ring: tuple[Any, ...],
    out: Array,
    threads: int,
) -> None: ...
def bank_sums_d(
    programs: list[Program],
    ends: list[int],
    rows: tuple[Array, ...],
    ring: tuple[Any, ...],
    out: Array,
    threads: int,
) -> None: ...
def bank_f(
    programs: list[Program],
    ends: list[int],
    members: list[tuple[int, NativeLoss, NativeRule, bool]],
    rows: tuple[Array, ...],
    ring: tuple[Any, ...],
    first_trial: int,
    data: tuple[Array, ...],
    out: tuple[Array, ...],
    threads: int,
) -> tuple[int, int]: ...
def bank_d(
    programs: list[Program],
    ends: list[int],
    members: list[tuple[int, NativeLoss, NativeRule, bool]],
    rows: tuple[Array, ...],
    ring: tuple[Any, ...],
    first_trial: int,
    data: tuple[Array, ...],
    out: tuple[Array, ...],
    threads: int,
) -> tuple[int, int]: ...
def fixed_share(
    losses: Array, rate: float, share: float, weights: Array, before: Array, gap: Array
) -> None: ...
