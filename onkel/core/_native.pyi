from typing import Any

from numpy.typing import NDArray

from onkel.core.layout import Program

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
    cap: Array,
    hosts: Array,
    oldest: Array,
    loss: tuple[int, float, float],
    rule: tuple[int, float, float, float, float],
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
def moments(rows: Array, seen: int, horizon: float, mean: Array, variance: Array) -> None: ...
