"""Make the figures of the guides to what stands around a model: ``python docs/figures/tools.py``.

Seeded, offline; with names as arguments only those. Colours and style are those of make.py.
"""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np
from make import ACCENT, ALARM, INK, SOFT, running, save

from onkel import (
    Classifier,
    KernelClassifier,
    LinearClassifier,
    NoveltyDetector,
    alerting,
    kernels,
    rules,
    streams,
)


def explain() -> None:
    """A faulty reading: where each sensor usually lies, and what the score would be without it."""
    plant = streams.sensors(4000, seed=4, faults=0)
    x = plant.X[-1].copy()
    x[1] += 5 * plant.X[:, 1].std()
    why = NoveltyDetector().fit(plant.X[:-1]).explain(x, top=6)
    found = sorted(why.features, key=lambda f: int(f.name.split()[1]))
    mean, spread = plant.X.mean(axis=0), plant.X.std(axis=0)
    place = np.arange(len(found))
    figure, (a, b) = plt.subplots(1, 2, figsize=(9, 2.6), sharey=True, layout="constrained")
    usual = (np.array([f.usual for f in found]) - mean[:, None]) / spread[:, None]
    a.hlines(place, usual[:, 0], usual[:, 1], color=SOFT, lw=8, label="usual, given the others")
    a.plot((x - mean) / spread, place, "o", color=ALARM, label="this row")
    a.set(yticks=place, yticklabels=plant.names, xlabel="spreads from the mean",
          title="What came, and what was usual")  # fmt: skip
    a.legend(loc="upper center", bbox_to_anchor=(0.4, -0.2), ncols=2)
    colours = [ALARM if f is why.features[0] else ACCENT for f in found]
    b.barh(place, [why.score - f.effect for f in found], color=colours, height=0.6)
    b.axvline(why.threshold, color=INK, lw=1, ls=":", label="threshold")
    b.axvline(why.score, color=INK, lw=1, label="score")
    b.set(xlabel="score, had this sensor agreed", title="Leave one out")
    b.legend(loc="lower right")
    b.invert_yaxis()
    save(figure, "explain.png")


def alerts() -> None:
    """A level shift with and without learning alerts; scores, their ranks, and episodes."""
    figure, (a, b, c) = plt.subplots(3, 1, figsize=(8, 5.6), sharex=True, layout="constrained")
    X = np.random.default_rng(1).normal(size=(8000, 2))
    X[4000:] += 8.0
    X[2500:2520] += [5.0, 0.0]
    t = np.arange(len(X))
    how = {"support": 0.5, "kernel": kernels.Gaussian(2.0)}
    how["rule"] = rules.Norma(threshold_rate=3, support_rate=0.1)
    for learn, colour in ((True, ACCENT), (False, ALARM)):
        det = NoveltyDetector(nu=0.05, learn_alerts=learn, **how)
        rate = running(det.predict_then_learn(X) == -1, 200)
        a.plot(t[300:], rate[300:], color=colour, lw=1.2, label=f"learn_alerts={learn}")
    a.axhline(0.05, color=INK, lw=1, ls=":", label="promised")
    a.set(ylabel="rate of last 200", ylim=(0, 0.2), title="A fault at 2500, a level shift at 4000")
    a.legend(loc="upper left", ncols=3)
    det = NoveltyDetector(nu=0.05, **how)
    score = det.predict_then_learn(X, output="score")
    b.plot(t, score, ",", color=ACCENT)
    b.set(ylabel="score")
    rank = alerting.ranks(score)
    c.plot(t, rank, ",", color=ACCENT)
    found = alerting.episodes((rank <= 0.01) & (t >= 1000), rank, gap=25)
    for episode in found:
        if episode.count > 3:
            c.axvspan(episode.start - 15, episode.end + 15, color=ALARM, alpha=0.4, lw=0)
    c.set(ylabel="rank", xlabel="example", xlim=(0, len(X)),
          title="Ranks; shaded: episodes of more than three ranks of at most 1 %")  # fmt: skip
    save(figure, "alerts.png")


def switching(n: int = 12_000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A straight boundary, then a checkerboard of four by four, then the straight one again."""
    rng = np.random.default_rng(seed)
    X, third = rng.uniform(-1, 1, size=(n, 2)), np.arange(n) * 3 // n
    board = np.floor(2 * X).sum(axis=1) % 2 == 0
    label = np.where(third == 1, board, X[:, 0] > X[:, 1])
    return X, np.where(label ^ (rng.uniform(size=n) < 0.05), 1, -1)


def self_tuning() -> None:
    """Weights and errors of four settings and their mixture on a stream that switches twice."""
    X, y = switching()
    short = rules.Norma(memory=1000)
    bank = {
        "linear": (LinearClassifier(rule=short), INK, "-"),
        "Gaussian, γ = 0.1": (KernelClassifier(kernels.Gaussian(0.1), rule=short), SOFT, "-"),
        "Gaussian, γ = 4": (KernelClassifier(kernels.Gaussian(4.0), rule=short), ACCENT, "--"),
        "Gaussian, γ = 4, projection": (
            KernelClassifier(kernels.Gaussian(4.0), rule="projection"), ALARM, "-",
        ),
    }  # fmt: skip
    model, weights, wrong = Classifier(members=[m for m, _, _ in bank.values()]), [], []
    for start in range(0, len(y), 20):
        part = slice(start, start + 20)
        wrong.append(model.predict_then_learn(X[part], y[part]) != y[part])
        weights.append(model.weights_)
    figure, (a, b) = plt.subplots(2, 1, figsize=(7.5, 4.4), sharex=True, layout="constrained")
    t = np.arange(20, len(y) + 1, 20)
    for (name, (member, colour, style)), w in zip(bank.items(), np.transpose(weights), strict=True):
        a.plot(t, w, color=colour, lw=1.3, ls=style, label=name)
        alone = running(member.predict_then_learn(X, y) != y, 500)
        b.plot(np.arange(len(y)), alone, color=colour, lw=1, ls=style)
    b.plot(running(np.concatenate(wrong), 500), color="black", lw=2.2, label="the mixture")
    a.set(title="The boundary is straight, then a checkerboard, then straight again",
          ylabel="weight", ylim=(0, 1))  # fmt: skip
    b.set(ylabel="error, last 500 rows", xlabel="example", xlim=(0, len(y)), ylim=(0, 0.6))
    a.legend(loc="upper left", bbox_to_anchor=(1, 1))
    b.legend(loc="upper left", bbox_to_anchor=(1, 1))
    save(figure, "self_tuning.png")


def merging() -> None:
    """Error of merged models against the number of partitions, in three settings."""
    from experiments import merging as study

    figure, axes = plt.subplots(1, 3, figsize=(10, 3.1), layout="constrained", sharex=True)
    titles = ("Room for all terms", "The same, rate 2/√t", "A full window: 1000 terms")
    for ax, name, title in zip(axes, study.MODELS, titles, strict=True):
        found = study.runs(name, seeds=10)
        merged_lines(ax, found, ("merged", "apart", "not refit")[: 2 + (name == "full")])
        ax.set(title=title, xlabel="partitions", ylim=(4, 50) if name == "full" else (4, 13))
    axes[0].set(ylabel="mistakes, per cent")
    axes[2].legend(loc="upper left", fontsize=8)
    save(figure, "merging.png")


def merged_lines(ax: plt.Axes, found: dict[int, list[dict[str, float]]], keys: tuple) -> None:
    """Mean and spread over streams of some errors, with the single pass and the best there is."""
    looks = {"merged": ("merged", ACCENT, "o-"), "apart": ("one of the models", SOFT, "s-"),
             "not refit": ("merged, refit=False", ALARM, "^-")}  # fmt: skip
    n = np.array(list(found))
    single = np.mean([run["merged"] for run in found[1]])
    for key in keys:
        label, colour, mark = looks[key]
        errors = np.array([[run[key] for run in found[k]] for k in n])
        ax.errorbar(n, errors.mean(axis=1), errors.std(axis=1), color=colour, fmt=mark, ms=4,
                    lw=1.3, elinewidth=0.8, label=label)  # fmt: skip
    ax.axhline(single, color=INK, lw=1, ls="--", label="whole stream, one pass")
    ax.axhline(5, color=INK, lw=1, ls=":", label="the best there is")
    ax.set(xscale="log", xticks=n, xticklabels=n)
    ax.minorticks_off()


def come_and_go(n: int = 6000, seed: int = 0) -> list[tuple[dict[str, float], bool]]:
    """Dicts with a and b always, c from a third on, and in the last third every other time."""
    rng = np.random.default_rng(seed)
    a, b, c = rng.normal(size=(3, n)) + np.array([[0.0], [0.0], [20.0]])
    there = (np.arange(n) >= n // 3) & ((np.arange(n) < 2 * n // 3) | (rng.random(n) < 0.5))
    y = a * b + 2 * (c - 20) > 0
    examples = zip(a.tolist(), b.tolist(), c.tolist(), there.tolist(), y.tolist(), strict=True)
    return [({"a": u, "b": v, **({"c": w} if k else {})}, t) for u, v, w, k, t in examples]


def river() -> None:
    """The River face while a feature comes, and then goes at times."""
    from onkel.river import KernelClassifier as Face

    stream = come_and_go()
    figure, (top, ax) = plt.subplots(
        2, 1, figsize=(6.5, 3.2), sharex=True, height_ratios=[1, 5], layout="constrained"
    )
    for row, name in enumerate("abc"):
        t = [i for i, (x, _) in enumerate(stream) if name in x]
        top.plot(t, [row] * len(t), "|", ms=5, mew=0.3, color=ACCENT)
    top.set(yticks=range(3), yticklabels="abc", ylim=(2.7, -0.7), title="features in the example")
    for label, colour, model in (
        ("without c", SOFT, Face()),
        ('absent="zero"', INK, Face(absent="zero")),
        ('absent="mean"', ACCENT, Face(absent="mean")),
    ):
        wrong = []
        for x, y in stream:
            shown = {k: v for k, v in x.items() if k != "c"} if label == "without c" else x
            wrong.append(model.predict_one(shown) != y)
            model.learn_one(shown, y)
        ax.plot(100 * running(np.array(wrong), 400), color=colour, lw=1.2, label=label)
    ax.set(xlabel="example", ylabel="error over the last 400, %", ylim=(0, 60))
    ax.legend(loc="lower left")
    save(figure, "river.png")


def missing() -> None:
    """Mistakes against the share of values that are missing, in three ways to live with them."""
    rng, n = np.random.default_rng(0), 6000
    X = rng.normal(size=(n, 4)) * [1.0, 5.0, 0.2, 1.0] + [0.0, 30.0, 1.0, 0.0]
    z = (X - X.mean(axis=0)) / X.std(axis=0)
    y = np.where(z[:, 0] * z[:, 1] + z[:, 2] > 0, 1, -1)
    shares = np.array([0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4])
    errors: dict[str, list[float]] = {"rows left out": [], "NaN as 0": [], 'missing="mean"': []}
    for share in shares:
        holes = np.where(rng.random(X.shape) < share, np.nan, X)
        whole = ~np.isnan(holes).any(axis=1)
        last = slice(n // 2, n)
        model = KernelClassifier(missing="mean")
        errors['missing="mean"'].append(np.mean((model.predict_then_learn(holes, y) != y)[last]))
        zeros = KernelClassifier().predict_then_learn(np.nan_to_num(holes), y)
        errors["NaN as 0"].append(np.mean((zeros != y)[last]))
        few = KernelClassifier().fit(holes[whole], y[whole])
        found = np.where(whole, few.predict(np.nan_to_num(holes)), 0)  # no answer is a wrong one
        errors["rows left out"].append(np.mean((found != y)[last]))
    figure, ax = plt.subplots(figsize=(5, 2.8), layout="constrained")
    for (label, values), colour in zip(errors.items(), (SOFT, INK, ACCENT), strict=True):
        ax.plot(100 * shares, 100 * np.array(values), "o-", ms=4, color=colour, label=label)
    ax.set(xlabel="values that are missing, %", ylabel="wrong or no answer, %")
    ax.legend()
    save(figure, "missing.png")


FIGURES = {
    "missing": missing,
    "explain": explain,
    "alerts": alerts,
    "self_tuning": self_tuning,
    "merging": merging,
    "river": river,
}

if __name__ == "__main__":
    for wanted in sys.argv[1:] or FIGURES:
        FIGURES[wanted]()
