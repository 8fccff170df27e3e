"""What categories cost: rows of words and numbers beside rows of as many numbers.

``python benchmarks/mixed_rows.py`` prints tables and writes reports/rows_cost.json. A table has K
columns of words (12 values each) and n of numbers; beside it stand K + n numbers. Kernel models
have full windows and store every row; the others have learned 3000 rows. Each has a model of its
own, all take turns in one process, one thread; ratios are medians over rounds. "encoded" are rows
whose words had become codes before, "as they are" a frame (blocks) or a dict (single calls).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import common  # first: it sets the number of BLAS threads
import numpy as np
from common import median, ratio

from onkel import Classifier, Detector, KernelClassifier, LinearClassifier
from onkel.columns import table_of
from onkel.expansions import Window

SHAPES = ((8, 6), (4, 4), (16, 16))
BLOCK, CALLS, VALUES = 2000, 200, 12
BAR = 1.5
"""The kernel models' rows of codes should cost at most so many times as many numbers."""


def windowed(terms: int) -> Any:
    """Return a classifier that stores every row, in a window."""
    return KernelClassifier(loss="least_squares", expansion=Window(terms=terms), n_jobs=1)


MODELS: dict[str, tuple[Callable[[], Any], int]] = {
    "KernelClassifier, window 1000": (partial(windowed, 1000), 1000),
    "KernelClassifier, window 10,000": (partial(windowed, 10_000), 10_000),
    "Classifier": (partial(Classifier, n_jobs=1), 3000),
    "LinearClassifier": (partial(LinearClassifier, n_jobs=1), 3000),
    "Detector": (Detector, 3000),
}
"""Each with the rows that it learns first."""


def table(K: int, n: int, rows: int) -> tuple[Any, np.ndarray]:
    """Return a frame of words and numbers, and labels."""
    import pandas

    rng = np.random.default_rng(K + n)
    words = {f"c{j}": [f"v{i}" for i in rng.integers(VALUES, size=rows)] for j in range(K)}
    numbers = {f"x{j}": rng.normal(size=rows) for j in range(n)}
    y = (rng.random(rows) < 0.5).astype(int)
    return pandas.DataFrame({**words, **numbers}), y


def ready(make: Callable[[], Any], X: Any, y: np.ndarray) -> Any:
    """Return a model that has learned these rows."""
    model = make()
    return model.fit(X) if isinstance(model, Detector) else model.partial_fit(X, y)


def block(model: Any, X: Any, y: np.ndarray) -> float:
    """Return the microseconds of a row, in one call for all."""
    began = common.clock()
    model.predict_then_learn(*((X,) if isinstance(model, Detector) else (X, y)))
    return 1e6 * (common.clock() - began) / len(y)


def single(model: Any, rows: list[Any], y: list[int]) -> float:
    """Return the microseconds of a call for one row."""
    began = common.clock()
    if isinstance(model, Detector):
        for x in rows:
            model.learn_one(x)
    else:
        for x, label in zip(rows, y, strict=True):
            model.learn_one(x, label)
    return 1e6 * (common.clock() - began) / len(rows)


def line(name: str, K: int, n: int, rounds: int) -> dict[str, Any]:
    """Return the rounds of one model on one shape."""
    make, first = MODELS[name]
    mixed, y = table(K, n, first + BLOCK)
    numbers = np.random.default_rng(K).normal(size=(first + BLOCK, K + n))
    old, new, labels = slice(0, first), slice(first, None), y[first:]
    of_words, of_numbers = ready(make, mixed[old], y[old]), ready(make, numbers[old], y[old])
    raw = table_of(mixed[new])
    assert raw is not None
    encoded = of_words.plan_.encode(raw)
    dicts, few = mixed[new][:CALLS].to_dict("records"), labels[:CALLS].tolist()
    found = common.rounds({
        "numbers": partial(block, of_numbers, numbers[new], labels),
        "encoded": partial(block, of_words, encoded, labels),
        "frame": partial(block, of_words, mixed[new], labels),
        "a row": partial(single, of_numbers, list(numbers[new][:CALLS]), few),
        "a dict": partial(single, of_words, dicts, few),
    }, rounds)  # fmt: skip
    return {"model": name, "words": K, "numbers": n, "rounds": found}


def measure(quick: bool) -> dict[str, Any]:
    """Return every model on every shape."""
    rounds, shapes = (2, SHAPES[:1]) if quick else (7, SHAPES)
    names = [name for name in MODELS if not (quick and "10,000" in name)]
    return {"quick": quick, "lines": [line(m, *s, rounds) for m in names for s in shapes]}


def tables(report: dict[str, Any]) -> list[tuple[str, list[common.Row]]]:
    """Return microseconds and ratios, in blocks and in single calls."""
    blocks: list[common.Row] = []
    calls: list[common.Row] = []
    for one in report["lines"]:
        found = one["rounds"]
        head = {"model": one["model"], "words + numbers": f"{one['words']} + {one['numbers']}"}
        blocks.append({
            **head, "numbers, us/row": median(found["numbers"]),
            "encoded / numbers": ratio(found["encoded"], found["numbers"]),
            "as they are / numbers": ratio(found["frame"], found["numbers"]),
        })  # fmt: skip
        calls.append({
            **head, "a row of numbers, us": median(found["a row"]),
            "a dict / a row": ratio(found["a dict"], found["a row"]),
        })  # fmt: skip
    return [("Rows in blocks", blocks), ("learn_one", calls)]


def main(argv: list[str] | None = None) -> int:
    """Measure, print, write the report; 1 where a kernel model is beyond its bar."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one shape, fewer rounds")
    report = measure(parser.parse_args(argv).quick)
    made = tables(report)
    for title, rows in made:
        print(f"{title}\n{common.table(rows)}")
    common.save("rows_cost", report)
    kernel = [row for row in made[0][1] if row["model"].startswith("KernelClassifier")]
    return int(any(row["encoded / numbers"] > BAR for row in kernel))


if __name__ == "__main__":
    raise SystemExit(main())
