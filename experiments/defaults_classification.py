"""One set of defaults on six real classification streams, predict then learn.

``KernelClassifier()`` as it comes, on float32 and on float64 rows. Elec2 is in time order, the
others in the order of ``numpy.random.default_rng(0).permutation``. Beside it what needs no
learning: the last label again (no change), and the label seen most often so far (majority).

Expected: EXPECTED, in per cent of mistakes. Run with --quick to leave out the two largest.
"""

from __future__ import annotations

import argparse

import numpy as np

from onkel import KernelClassifier, evaluate

if __package__:
    from . import harness
else:
    import harness

EXPECTED = {
    "elec2": 9.6,
    "spambase": 12.0,
    "svmguide3": 22.5,
    "ijcnn1": 5.0,
    "cod_rna": 7.0,
    "a9a": 17.8,
}
"""Most mistakes, in per cent."""
LARGE = ("cod_rna", "a9a")


def no_change(y: np.ndarray) -> float:
    """Return the error of predicting the last label again, the first row being a mistake."""
    return float((1 + np.count_nonzero(y[1:] != y[:-1])) / len(y))


def majority(y: np.ndarray) -> float:
    """Return the error of predicting the label seen most often so far (first row: a mistake)."""
    balance = np.concatenate([[0.0], np.cumsum(np.where(y > 0, 1.0, -1.0))[:-1]])
    wrong = np.where(balance > 0, y <= 0, y > 0)
    wrong[0] = True
    return float(np.mean(wrong))


def measure(X: np.ndarray, y: np.ndarray) -> tuple[float, float, int]:
    """Return error in per cent, seconds and terms of one pass."""
    model = KernelClassifier()
    result = evaluate.progressive(model, X, y)
    return 100 * result.error, result.seconds, model.n_terms_


def main(argv: list[str] | None = None) -> int:
    """Run, print, check, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"leave out {', '.join(LARGE)}")
    args = parser.parse_args(argv)
    folder = harness.data_folder()
    if folder is None:
        return 0
    rows, checks = [], []
    for name, limit in EXPECTED.items():
        if args.quick and name in LARGE:
            continue
        X, y = harness.load(folder, name, shuffle=name != "elec2")
        row: dict[str, object] = {"data": name, "rows": len(y), "features": X.shape[1]}
        for dtype in ("float32", "float64"):
            error, seconds, terms = measure(X.astype(dtype), y)
            row |= {f"{dtype} %": error, "seconds" if dtype == "float32" else "s (64)": seconds}
            row["terms"] = terms
            checks.append(harness.Check(f"{name}, {dtype}, error %", error, high=limit))
        row |= {"no change %": 100 * no_change(y), "majority %": 100 * majority(y)}
        rows.append(row)
    print(harness.table(rows))
    return harness.finish("defaults_classification", {"rows": rows}, checks)


if __name__ == "__main__":
    raise SystemExit(main())
