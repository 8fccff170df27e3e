"""Classes under drift: River's generators and elec2, for onkel and peers with few settings each.

SEA, Agrawal, a turning hyperplane, moving radial bases and LED digits whose segments are
exchanged, made by River's own generators (seeded); and the electricity prices elec2 in time
order. Every method predicts a row before it learns it. Each has up to three settings, the first
being the method as it comes; one is chosen by the mistakes on the first fifth of the stream (at
most 3000 rows), which then does not count for anybody. `Classifier` has one setting, but is a bank
of nine models, and chooses among them while it runs. The window of a batch method and the nearest
neighbours have one setting, too; the forest, which takes longer than all others together, has two.
Peers get rows standardised as River's StandardScaler does; onkel standardises by itself. Each
generator is run once, with one seed: small differences mean nothing.

Columns: mistakes in per cent of the remaining rows as it comes, and as chosen. `--quick` leaves out
the forest, the Fourier features and the neighbours.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

if __package__:
    from .meeting import (
        COLOURS,
        INK,
        SOFT,
        WIDTH,
        Feed,
        Row,
        Settings,
        Study,
        canvas,
        command,
        has,
        head,
        least,
        running,
        walk,
    )
else:
    from meeting import (
        COLOURS,
        INK,
        SOFT,
        WIDTH,
        Feed,
        Row,
        Settings,
        Study,
        canvas,
        command,
        has,
        head,
        least,
        running,
        walk,
    )

import adapters

from onkel import Classifier, KernelClassifier, rules

TITLE = "Classes under drift"
ROWS = {True: 500, False: 5000}
SLOW = (
    "River: adaptive random forest", "River: Fourier features, logistic",
    "River: nearest neighbours",
)  # fmt: skip
"""Left out of quick runs: they take nine tenths of the time."""
TRIAL = 3000
"""Most rows that a choice is made on."""
PARTS = 4
"""A generator whose concept changes at once is drawn anew at each quarter."""


# -- the streams -------------------------------------------------------------------------------


def _feed(rows: Iterable[tuple[dict[Any, Any], Any]]) -> Feed:
    pairs = list(rows)
    names = sorted(pairs[0][0], key=str)
    X = np.array([[float(x[name]) for name in names] for x, _ in pairs])
    return Feed(X, np.unique([int(y) for _, y in pairs], return_inverse=True)[1])


def _quarters(makers: list[Any], n: int) -> Feed:
    """Return n rows, an equal share of each generator."""
    each = n // len(makers)
    return _feed(pair for make in makers for pair in islice(make, each))


def sea(n: int) -> Feed:
    """Sum of two numbers above a limit that jumps three times; one label in ten is wrong."""
    from river.datasets import synth

    return _quarters([synth.SEA(variant=v, noise=0.1, seed=v) for v in range(PARTS)], n)


def agrawal(n: int) -> Feed:
    """Loan applications, nine fields; the rule by which they are granted changes three times."""
    from river.datasets import synth

    makers = [
        synth.Agrawal(classification_function=f, perturbation=0.05, seed=f) for f in (0, 3, 6, 8)
    ]
    return _quarters(makers, n)


def hyperplane(n: int) -> Feed:
    """A plane in ten dimensions, five of whose directions turn all the time; 5 % wrong labels."""
    from river.datasets import synth

    return _feed(synth.Hyperplane(seed=0, n_drift_features=5, mag_change=0.001).take(n))


def bases(n: int) -> Feed:
    """Fifty centres in ten dimensions, four classes; every centre moves all the time."""
    from river.datasets import synth

    made = synth.RandomRBFDrift(seed_model=0, seed_sample=0, n_classes=4, change_speed=0.001)
    return _feed(made.take(n))


def led(n: int) -> Feed:
    """Digits on seven segments, 10 % wrong, 17 idle ones; each quarter more are exchanged."""
    from river.datasets import synth

    makers = [
        synth.LEDDrift(seed=k, noise_percentage=0.1, irrelevant_features=True, n_drift_features=k)
        for k in (0, 3, 5, 7)
    ]
    return _quarters(makers, n)


def elec2(data: Path, n: int | None) -> Feed:
    """Electricity prices, up or down, half-hourly; without the date."""
    with np.load(data / "elec2.npz") as arrays:
        return Feed(arrays["X"][:n, 1:], arrays["y"][:n] > 0)


GENERATORS = {
    "SEA": sea, "Agrawal": agrawal, "hyperplane": hyperplane, "moving bases": bases, "LED": led,
}  # fmt: skip


def streams(quick: bool, data: Path | None) -> dict[str, Feed]:
    """Return the streams that can be made here."""
    found = {name: make(ROWS[quick]) for name, make in GENERATORS.items()}
    if data is not None and has(data, "elec2.npz"):
        found["elec2"] = elec2(data, ROWS[quick] if quick else None)
    return found


# -- the methods -------------------------------------------------------------------------------


def ours(**params: Any) -> Any:
    """Return an adapter for the kernel classifier."""
    return partial(adapters.blocks, lambda: KernelClassifier(n_jobs=1, **params))


def theirs(build: Any, binary: bool = False) -> Any:
    """Return an adapter for one of River's."""
    return partial(adapters.river, lambda river: (build(river), binary))


def logistic(rate: float) -> Any:
    """Return River's logistic regression at a rate."""
    from river import optim

    return theirs(lambda r: r.linear_model.LogisticRegression(optim.SGD(rate)), True)


def fourier(gamma: float, rate: float) -> Any:
    """Return River's random Fourier features before logistic regression, one for each class."""

    def build(river: Any) -> Any:
        one = river.linear_model.LogisticRegression(river.optim.SGD(rate))
        sampler = river.feature_extraction.RBFSampler(gamma=gamma, seed=0)
        return sampler | river.multiclass.OneVsRestClassifier(one)

    return theirs(build)


def neighbours(river: Any) -> Any:
    """Return River's nearest neighbours as they come, but seeded."""
    return river.neighbors.KNNClassifier(engine=river.neighbors.SWINN(seed=0))


METHODS: dict[str, Settings] = {
    "onkel: KernelClassifier": {
        "as it comes": ours(),
        "memory 2000": ours(rule=rules.Norma(memory=2000)),
        "projection": ours(rule="projection"),
    },
    "onkel: Classifier": {"as it comes": partial(adapters.blocks, partial(Classifier, n_jobs=1))},
    "River: adaptive random forest": {
        "as it comes": theirs(lambda r: r.forest.ARFClassifier(seed=0)),
        "half of the features": theirs(lambda r: r.forest.ARFClassifier(seed=0, max_features=0.5)),
    },
    "River: adaptive Hoeffding tree": {
        "as it comes": theirs(lambda r: r.tree.HoeffdingAdaptiveTreeClassifier(seed=0)),
        "leaves split sooner": theirs(
            lambda r: r.tree.HoeffdingAdaptiveTreeClassifier(seed=0, grace_period=50)
        ),
        "bolder splits": theirs(
            lambda r: r.tree.HoeffdingAdaptiveTreeClassifier(seed=0, grace_period=50, delta=1e-3)
        ),
    },
    "River: logistic regression": {
        "as it comes": logistic(0.01), "rate 0.05": logistic(0.05), "rate 0.2": logistic(0.2),
    },
    "River: Fourier features, logistic": {
        "as it comes": fourier(1.0, 0.01), "rate 0.1": fourier(1.0, 0.1),
        "rate 0.1, gamma 0.3": fourier(0.3, 0.1),
    },
    "River: nearest neighbours": {
        "as it comes": theirs(neighbours)
    },
    "scikit-learn: SVC, last 1000 rows": {"as it comes": adapters.svc},
    "last label": {"as it comes": adapters.last_label},
}  # fmt: skip


def mistakes(answers: np.ndarray, feed: Feed) -> np.ndarray:
    """Return 1 for every row that was predicted wrongly."""
    return (answers != feed.y[: len(answers)]).astype(float)


def meet(feed: Feed, settings: Settings) -> tuple[Row, np.ndarray]:
    """Choose a setting on the first fifth, then run it; return a line, and the mistakes."""
    first = min(len(feed.X) // 5, TRIAL)
    begun = {n: float(mistakes(walk(m, head(feed, first)), feed).mean()) if len(settings) > 1 else 0
             for n, m in settings.items()}  # fmt: skip
    names = dict.fromkeys(["as it comes", least(begun)])
    wrong = {name: mistakes(walk(settings[name], feed), feed) for name in names}
    errors = {name: 100 * float(w[first:].mean()) for name, w in wrong.items()}
    best = least(begun)
    line = {"as it comes %": errors["as it comes"], "chosen %": errors[best]}
    return line | {"setting": "" if best == "as it comes" else best}, wrong[best]


# -- tables and figures ------------------------------------------------------------------------


def summary(tables: dict[str, list[Row]]) -> list[Row]:
    """Return a line per method: its mistakes on each stream, and its mean place."""
    names = [row["method"] for row in next(iter(tables.values()))]
    found = {stream: [row["chosen %"] for row in rows] for stream, rows in tables.items()}
    places = np.mean([1 + np.argsort(np.argsort(v)) for v in found.values()], axis=0)
    return [
        {"method": name} | {stream: values[i] for stream, values in found.items()}
        | {"mean place": float(places[i])}
        for i, name in enumerate(names)
    ]  # fmt: skip


def draw(curves: dict[str, dict[str, np.ndarray]]) -> Any:
    """Draw the running error of every method, a panel per stream."""
    fig, axes = canvas(len(curves), 2, (WIDTH, 2.5 * -(-len(curves) // 2) + 1))
    for axis, (stream, wrong) in zip(axes, curves.items(), strict=False):
        n = len(next(iter(wrong.values())))
        colours = dict(zip(METHODS, COLOURS, strict=False))
        for name, values in wrong.items():
            ours = name.startswith("onkel")
            line = 100 * running(values, n // 20)
            at = slice(n // 20, None, max(1, n // 400))
            axis.plot(np.arange(n)[at], line[at], lw=1.8 if ours else 0.9, label=name,
                      color=colours.get(name, SOFT), zorder=3 if ours else 2)  # fmt: skip
        if stream not in ("elec2", "hyperplane", "moving bases"):
            for quarter in range(1, PARTS):
                axis.axvline(quarter * n / PARTS, color=INK, lw=0.6, ls=":")
        axis.set(title=stream, xlabel="row", ylabel="mistakes, %, last 5 %", ylim=(0, None))
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False)
    return fig


def run(quick: bool, data: Path | None) -> Study:
    """Run every method on every stream."""
    tables: dict[str, list[Row]] = {}
    curves: dict[str, dict[str, np.ndarray]] = {}
    about = {}
    for stream, feed in streams(quick, data).items():
        lines, wrong = [], {}
        for method, settings in METHODS.items():
            if quick and method in SLOW:
                continue
            line, wrong[method] = meet(feed, settings)
            lines.append({"method": method} | line)
        tables[stream] = lines
        curves[stream] = {m: w for m, w in wrong.items() if m != "last label"}
        make = GENERATORS.get(stream, elec2)
        about[stream] = f"{stream}: {make.__doc__} {len(feed.X):,} rows, {feed.d} features."
    captions = [(about[s], sorted(t, key=lambda row: row["chosen %"])) for s, t in tables.items()]
    text = (__doc__ or "").split("\n\n", 1)[1].strip()
    whole = ("Mistakes in per cent, settings chosen on the first fifth", summary(tables))
    caption = "Mistakes of late; dotted: the concept changes. Settings as chosen."
    return Study(TITLE, text, [whole, *captions], [(caption, draw(curves))])


if __name__ == "__main__":
    raise SystemExit(command("drift_classes", run, __doc__ or ""))
