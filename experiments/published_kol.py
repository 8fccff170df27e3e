"""KOL's table on a9a: the kernel perceptron to the digit, gradient descent and its approximations.

LIBOL/KOL (Lu, Hoi, Wang, Zhao, Liu, « Large scale online kernel learning », JMLR 17, 2016), 32561
rows in file order, 16281 for testing, Gaussian kernel with γ = 0.01 and η = 0.5. FOGD: 400
Fourier components, a step of 0.0005 on unscaled features (0.2 in units of the kernel), as its
code has it. NOGD: 300 points, rank 30, η = 0.1 then 0.3, as its README has it; beside it the
code's defaults, 100 points and rank 20, which do worse. Both are tested with averaged weights. No
seeds are printed: those two can be met or beaten, not matched.

Here the perceptron and gradient descent (NORMA with λ = 0) are `KernelClassifier`; FOGD and NOGD
are our linear learner on features made in this script: sines and cosines of random projections;
the Nyström map of the first 300 terms that gradient descent stores. Our online error of gradient
descent is the printed one with a digit more, or there are a mistake or two between us: it cannot
be told. FOGD is a little better here than in print with every seed that we tried (the note has
the range); why, we do not know. « Met » is within 0.1 points, a third of the standard error of a
test error.

« Our own » setting is chosen by its mistakes on the first 10 000 rows (predicted, then learned),
from widths, rates and with or without the average hypothesis; it never sees the test rows. The
default and `Classifier` run as they come.

*Chosen after a look.* Print does not say with which setting NOGD was run. Sixteen were tried
(points, rank, rates); the README's own is shown as printed because it is documented and agrees,
the code's defaults beside it because they do not. The widths and rates of « our own » were
widened after a first grid whose test errors were seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

if __package__:
    from . import writing
    from .published_lines import Row, line
else:
    import writing
    from published_lines import Row, line

import numpy as np

from onkel import Classifier, KernelClassifier, LinearClassifier, expansions, kernels, rules

SOURCE, FILES, GAMMA = "KOL, a9a", ("a9a",), 0.01
PRINTED = {  # online error %, test error %
    "perceptron": (21.15, 29.26), "OGD": (16.87, 15.01), "FOGD": (16.94, 15.77),
    "NOGD": (17.14, 15.57),
}  # fmt: skip
SLACK = 0.1
"""Points: 16 of the 16 281 test rows."""

Array = np.ndarray
Split = tuple[Array, Array, Array, Array]


def load(data: Path) -> Split:
    """Return training rows and labels, test rows and labels."""
    with np.load(data / "a9a.npz") as files:
        X, test = files["X_train"].astype(np.float32), files["X_test"].astype(np.float32)
        return X, files["y_train"], test, files["y_test"]


def kernel_model(rule: Any, gamma: float = GAMMA, **more: Any) -> KernelClassifier:
    """Return a classifier as KOL has it: no offset, raw rows, every term kept."""
    return KernelClassifier(
        kernel=kernels.Gaussian(gamma), rule=rule, scale=False, fit_intercept=False,
        expansion=expansions.Window(terms=None), **more,
    )  # fmt: skip


def descent(rate: float, gamma: float = GAMMA, average: bool = False) -> KernelClassifier:
    """Return kernel gradient descent: NORMA that forgets nothing."""
    return kernel_model(rules.Norma(learning_rate=rate, regularization=0.0), gamma, average=average)


def per_cent(found: Array, y: Array) -> float:
    """Return the share of wrong labels in per cent."""
    return 100 * float(np.mean(found != y))


def both(model: Any, split: Split) -> tuple[float, float, float]:
    """Return online error, test error and the seconds of learning."""
    X, y, test, labels = split
    began = time.process_time()
    online = per_cent(model.predict_then_learn(X, y, classes=[-1, 1]), y)
    seconds = time.process_time() - began
    return online, per_cent(model.predict(test), labels), seconds


# -- features --------------------------------------------------------------------------------------


def linear(rate: float, average: bool) -> LinearClassifier:
    """Return linear gradient descent on the features as they are."""
    return LinearClassifier(
        rule=rules.Norma(learning_rate=rate, regularization=0.0), scale=False,
        fit_intercept=False, average=average,
    )  # fmt: skip


def fourier(seed: int, components: int = 400) -> Callable[[Array], Array]:
    """Return the map x -> (sin u'x, cos u'x) for random u, whose products are 400 k(x, z)."""
    u = np.random.default_rng(seed).normal(0, np.sqrt(2 * GAMMA), size=(123, components))

    def features(X: Array) -> Array:
        at = X @ u
        return np.hstack([np.sin(at), np.cos(at)])

    return features


def nystroem(points: Array, rank: int) -> Callable[[Array], Array]:
    """Return x -> (top eigenvalues)^(-1/2) V' k(points, x)."""
    kernel = kernels.Gaussian(GAMMA)
    values, vectors = np.linalg.eigh(kernel(points, points))
    turn = vectors[:, -rank:] / np.sqrt(values[-rank:])
    return lambda X: kernel(np.asarray(X, float), points) @ turn


def on_features(rate: float, split: Split, features: Callable[[Array], Array]) -> Any:
    """Return the online error of the last weights, the averaged weights' test error, seconds."""
    X, y, test, labels = split
    began = time.process_time()
    mapped = features(X)
    online = per_cent(linear(rate, False).predict_then_learn(mapped, y, classes=[-1, 1]), y)
    seconds = time.process_time() - began
    mean = linear(rate, True).partial_fit(mapped, y, classes=[-1, 1])
    return online, per_cent(mean.predict(features(test)), labels), seconds


def nogd(
    split: Split, budget: int, rank: int, rates: tuple[float, float]
) -> tuple[float, float, float]:
    """Return the errors of NOGD: gradient descent until the budget is full, then the map."""
    X, y, test, labels = split
    n, began = 10 * budget, time.process_time()
    z = np.ravel(
        descent(rates[0]).predict_then_learn(X[:n], y[:n], output="decision", classes=[-1, 1])
    )
    stored = np.flatnonzero(z * y[:n] <= 1)[:budget]
    n = int(stored[-1]) + 1
    first = float(np.sum(z[:n] * y[:n] <= 0))
    rest, features = (X[n:], y[n:], test, labels), nystroem(X[stored].astype(float), rank)
    start = time.process_time() - began
    online, tested, seconds = on_features(rates[1], rest, features)
    return (100 * first + online * (len(y) - n)) / len(y), tested, start + seconds


# -- the lines -------------------------------------------------------------------------------------


def two(
    name: str, setting: str, found: tuple[float, ...], note: str = "", **more: Any
) -> list[Row]:
    """Return the lines of one method: online and test error."""
    online, tested, seconds = found
    printed = PRINTED.get(name, (None, None))
    return [
        line(SOURCE, setting, "online error %", printed[0], online, seconds=seconds, note=note,
             slack=SLACK, **more),
        line(SOURCE, setting, "test error %", printed[1], tested, note=note, slack=SLACK, **more),
    ]  # fmt: skip


def perceptron(split: Split) -> list[Row]:
    """Return mistakes, terms and test error of the kernel perceptron."""
    model = kernel_model("perceptron")
    found = both(model, split)
    counted = model.diagnostics_["mistakes"]
    setting = "kernel perceptron, file order"
    return [
        line(SOURCE, setting, "mistakes", 6887, counted, digits=0, seconds=found[2]),
        line(SOURCE, setting, "terms", 6887, model.n_terms_, digits=0),
        line(SOURCE, setting, "online error %", 21.15, 100 * counted / len(split[1])),
        line(SOURCE, setting, "test error %", 29.26, found[1]),
    ]


def ours(split: Split, quick: bool) -> list[Row]:
    """Return our own setting, chosen on the first rows, the default, and the mixture."""
    X, y = split[0][:10_000], split[1][:10_000]
    points = product((0.01, 0.02, 0.05), (0.5, 1.0), (False, True))
    best = min(points, key=lambda p: per_cent(descent(p[1], p[0], p[2]).predict_then_learn(
        X, y, classes=[-1, 1]), y))  # fmt: skip
    name = f"our own: γ {best[0]:g}, η {best[1]:g}" + (", average" if best[2] else "")
    lines = two("OGD", name, both(descent(best[1], best[0], best[2]), split), "printed is OGD's",
                same=False)  # fmt: skip
    if not quick:
        lines += two("OGD", "KernelClassifier() as it comes", both(KernelClassifier(), split),
                     "printed is OGD's; standardised rows, at most 10 000 terms",
                     same=False)  # fmt: skip
        lines += two("OGD", "Classifier() as it comes", both(Classifier(), split),
                     "printed is OGD's", same=False)  # fmt: skip
    return lines


def rows(data: Path, quick: bool) -> list[Row]:
    """Return the lines of the table."""
    split = load(data)
    lines = perceptron(split)
    found = both(descent(0.5), split)
    count = round(found[0] * len(split[1]) / 100)
    lines += two("OGD", "gradient descent, η 0.5", found, f"{count} mistakes, {found[0]:.3f} %")
    runs = [on_features(5e-4, split, fourier(seed)) for seed in range(1 if quick else 5)]
    fogd = two("FOGD", "FOGD, 400 components, η 0.0005", tuple(np.median(runs, axis=0)))
    for row, column in zip(fogd, np.transpose(runs), strict=False):
        row["note"] = f"seeds: {len(runs)}, {column.min():.2f} to {column.max():.2f}; the median"
    lines += fogd
    for points, rank, rates in ((300, 30, (0.1, 0.3)), (100, 20, (0.5, 0.5))):
        name = f"NOGD, {points} points, rank {rank}, η {rates[0]:g}, {rates[1]:g}"
        lines += two("NOGD", name, nogd(split, points, rank, rates), same=points == 300,
                     note="" if points == 300 else "the code's defaults")  # fmt: skip
    return lines + ours(split, quick)


if __name__ == "__main__":
    import published

    raise SystemExit(writing.command("published_kol", published.part("kol"), __doc__))
