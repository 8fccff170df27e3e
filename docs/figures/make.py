"""Make the figures of the README and the guides: ``python docs/figures/make.py [name ...]``.

Seeded, offline, a few seconds each. The pictures are committed; run this after a change that
should show in them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from safetensors.numpy import load as load_tensors

from onkel import (
    KernelClassifier,
    KernelRegressor,
    NoveltyDetector,
    bounds,
    evaluate,
    expansions,
    files,
    kernels,
    losses,
    rules,
    schedules,
)

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))
INK, SOFT, ACCENT, ALARM = "#22303c", "#9fb3c1", "#2a6f97", "#d1495b"
plt.rcParams.update({
    "figure.dpi": 110, "savefig.dpi": 120, "font.size": 9, "axes.spines.top": False,
    "axes.spines.right": False, "axes.edgecolor": INK, "axes.labelcolor": INK,
    "axes.titlesize": 10, "axes.titlelocation": "left", "axes.titlecolor": INK,
    "xtick.color": INK, "ytick.color": INK, "text.color": INK, "legend.frameon": False,
})  # fmt: skip


def drifting_cloud(n: int = 6000, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    """A cloud that wanders, jumps at two thirds, and holds 30 faults; returns rows and faults."""
    rng = np.random.default_rng(seed)
    t = np.arange(n) / n
    centre = np.column_stack([3 * np.sin(2 * np.pi * t), 2 * t]) + np.outer(t > 2 / 3, [4.0, -3.0])
    X = centre + 0.4 * rng.normal(size=(n, 2))
    faulty = np.zeros(n, bool)
    faulty[rng.choice(np.arange(500, n), 30, replace=False)] = True
    X[faulty] += rng.choice([-1, 1], size=(30, 2)) * rng.uniform(2.5, 4, size=(30, 2))
    return X, faulty


def drifting_sine(n: int = 6000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A sine whose phase drifts; half-way the noise becomes four times as strong."""
    rng = np.random.default_rng(seed)
    t = np.arange(n) / n
    X = rng.uniform(-2, 2, size=(n, 1))
    return X, np.sin(3 * X[:, 0] + 6 * t) + np.where(t > 0.5, 0.4, 0.1) * rng.normal(size=n)


def running(values: np.ndarray, width: int) -> np.ndarray:
    """Mean over the last `width` values."""
    total = np.concatenate([[0.0], np.cumsum(values, dtype=float)])
    stop = np.arange(1, len(values) + 1)
    start = np.maximum(stop - width, 0)
    return (total[stop] - total[start]) / (stop - start)


def overview() -> None:
    """What is promised under drift: an alert rate, and the coverage of intervals."""
    figure, ((a, b), (c, d)) = plt.subplots(
        2, 2, figsize=(9, 4.3), sharex=True, height_ratios=[3, 2], layout="constrained"
    )
    X, faulty = drifting_cloud()
    rule = rules.Norma(memory=2000, threshold_rate=3, support_rate=0.1)
    decision = NoveltyDetector(nu=0.02, support=0.1, rule=rule).predict_then_learn(
        X, output="decision"
    )
    t, alert = np.arange(len(X)), decision < 0
    a.plot(t[~alert], decision[~alert], ",", color=SOFT)
    a.plot(t[alert], decision[alert], ".", ms=3, color=ALARM, label="alert")
    a.plot(t[faulty], decision[faulty], "o", ms=6, mfc="none", color=INK, label="planted fault")
    a.axhline(0, color=ACCENT, lw=1)
    a.set(title="Novelty: the world moves, then jumps", ylabel="score minus threshold")
    a.legend(loc="upper left", ncols=2, markerscale=1.3)
    b_rate(c, running(alert, 1000), 0.02, "alert rate", (0, 0.06))

    X, y = drifting_sine()
    reg = KernelRegressor(loss=losses.Huber(nu=0.1), rule=rules.Norma(memory=2000))
    low, high = reg.predict_then_learn(X, y, output="interval")
    inside = (low <= y) & (y <= high)
    error, half = y - (low + high) / 2, (high - low) / 2
    b.fill_between(t, -half, half, color=ACCENT, alpha=0.25, lw=0, label="interval")
    b.plot(t[inside], error[inside], ",", color=SOFT)
    b.plot(t[~inside], error[~inside], ".", ms=2, color=ALARM, label="outside")
    b.set(title="Regression: half-way, noise grows fourfold", ylabel="error",
          ylim=(-2.2, 2.2))  # fmt: skip
    b.legend(loc="upper left", ncols=2, markerscale=2)
    b_rate(d, running(inside, 1000), 0.9, "coverage", (0.8, 1))
    save(figure, "overview.png")


def b_rate(
    ax: plt.Axes, rate: np.ndarray, promised: float, name: str, limits: tuple[float, float]
) -> None:
    """A rate over the last 1000 rows, beside its promise."""
    ax.axhline(promised, color=INK, lw=1, ls=":", label=f"promised {promised:g}")
    ax.plot(np.arange(200, len(rate)), rate[200:], color=ACCENT, lw=1.3, label="last 1000 rows")
    ax.set(ylim=limits, ylabel=name, xlabel="example", xlim=(0, len(rate)))
    ax.legend(loc="lower right", ncols=2)


def alert_rate() -> None:
    """The realised alert rate: the paper's step for the threshold, and larger ones."""
    figure, ax = plt.subplots(figsize=(6.5, 2.6), layout="constrained")
    X = np.random.default_rng(0).normal(size=(20_000, 2))
    t = np.arange(1, len(X) + 1)
    for rate, colour in ((1, SOFT), (3, ACCENT), (10, INK)):
        det = NoveltyDetector(nu=0.2, rule=rules.Norma(threshold_rate=rate))
        alerts = det.predict_then_learn(X) == -1
        ax.plot(t[50:], (np.cumsum(alerts) / t)[50:], color=colour, label=f"threshold_rate={rate}")
    ax.axhline(0.2, color=ALARM, lw=1, ls=":", label="promised")
    ax.set(xscale="log", xlabel="example", ylabel="alert rate so far", ylim=(0.12, 0.22))
    ax.legend(loc="lower right", ncols=2)
    save(figure, "alert_rate.png")


def turning_line(
    n: int = 20_000, period: int = 8000, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Two classes on the two sides of a line that turns once in `period` rows."""
    X = np.random.default_rng(seed).normal(size=(n, 2))
    angle = 2 * np.pi * np.arange(n) / period
    return X, np.where(X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) > 0, 1, -1)


def memory() -> None:
    """Mistakes under drift against memory, for three windows."""
    figure, ax = plt.subplots(figsize=(6.5, 2.8), layout="constrained")
    X, y = turning_line()
    memories = np.array([50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 100_000])
    for terms, colour in ((200, ALARM), (1000, ACCENT), (10_000, INK)):
        window = expansions.Window(terms=terms)
        errors = [
            evaluate.progressive(
                KernelClassifier(rule=rules.Norma(memory=m), expansion=window), X, y
            ).error
            for m in memories
        ]
        ax.plot(memories, errors, "o-", ms=3, color=colour, label=f"Window(terms={terms})")
    ax.set(xscale="log", xlabel="memory, in examples", ylabel="mistake rate", ylim=(0, 0.13))
    ax.legend(ncols=3, loc="lower right")
    save(figure, "memory.png")


def time() -> None:
    """Mistakes where rows come at two paces, for memories by the clock and by count."""
    rng, n = np.random.default_rng(0), 12_000
    quiet = np.arange(n) // 3000 % 2 == 1
    when = np.cumsum(rng.exponential(np.where(quiet, 300.0, 1.0)))
    X = rng.normal(size=(n, 2))
    angle = 2 * np.pi * when / (24 * 3600)
    y = np.where(X[:, 0] * np.cos(angle) + X[:, 1] * np.sin(angle) > 0, 1, -1)
    figure, axis = plt.subplots(figsize=(7, 2.8), layout="constrained")
    for memory, color in ((3600, "#c9c9c9"), (600, "#9a9a9a"), (60, "#6b6b6b"), ("4h", ACCENT)):
        by_clock = {"time": when} if isinstance(memory, str) else {}
        clf = KernelClassifier(rule=rules.Norma(memory=memory))
        wrong = clf.predict_then_learn(X, y, **by_clock) != y
        label = memory if by_clock else f"{memory} rows"
        axis.plot(running(wrong.astype(float), 300), color=color, label=label, lw=1.2)
    for start in (3000, 9000):
        axis.axvspan(start, start + 3000, color="#f1f1f1", zorder=0)
    axis.set(
        xlabel="row (shaded: one in five minutes, else one a second)",
        ylabel="mistakes",
        ylim=(0, 0.6),
    )
    axis.set_title("The boundary turns once a day, whatever the rows do")
    axis.legend(title="memory", ncols=4, loc="upper left")
    save(figure, "time.png")


def regret() -> None:
    """Regret of NORMA for three learning rates, with the bound of N04 Theorem 4."""
    figure, ax = plt.subplots(figsize=(6.5, 3.0), layout="constrained")
    rng, lam, eta = np.random.default_rng(0), 0.1, 1.0
    X = rng.normal(size=(2000, 2))
    y = np.where((X[:, 0] * X[:, 1] > 0) ^ (rng.uniform(size=2000) < 0.1), 1, -1)
    rates = {
        "η = 1/√t": (schedules.InverseSqrt(eta), ACCENT),
        "η = 1": (1.0, ALARM),
        "η = 0.03": (0.03, SOFT),
    }
    for name, (rate, colour) in rates.items():
        clf = KernelClassifier(
            kernel=kernels.Gaussian(gamma=1.0),
            rule=rules.Norma(learning_rate=rate, regularization=lam),
            scale=False, fit_intercept=False,
        )  # fmt: skip
        found = evaluate.regret(clf, X, y)
        ax.plot(found.t, found.regret, "o-", ms=3, color=colour, label=name)
    U = bounds.norm_bound(lam)
    a = 2 * lam * U**2 * (2 * eta * lam + 1 / (eta * lam))
    bound = a * np.sqrt(found.t) + U**2 / (2 * eta)
    ax.plot(found.t, bound, color=INK, lw=1, ls=":", label="bound for η = 1/√t (N04 Th. 4)")
    ax.plot(found.t, found.best, color=INK, lw=1, label="risk of the best in hindsight")
    ax.set(xscale="log", yscale="log", xlabel="example", ylabel="cumulative")
    ax.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    save(figure, "regret.png")


def model_files() -> None:
    """A run that goes on from files, over the same run uncut; and where a file's bytes are."""
    figure, (a, b) = plt.subplots(1, 2, figsize=(9, 2.8), width_ratios=[3, 2], layout="constrained")
    X, y = turning_line(6000)
    rule, pieces = rules.Norma(memory=1500), np.arange(0, 6000, 500)
    uncut = cut = KernelClassifier(rule=rule)
    scores: list[list[np.ndarray]] = [[], []]
    for start in pieces:
        part = slice(start, start + 500)
        cut = files.loads(files.dumps(cut))
        for kept, model in zip(scores, (uncut, cut), strict=True):
            kept.append(model.predict_then_learn(X[part], y[part], output="decision"))
    first, second = map(np.concatenate, scores)
    t, gap = np.arange(len(X)), np.abs(first - second).max()
    for score, style in ((first, {"color": SOFT, "lw": 4, "label": "uncut"}),
                         (second, {"color": ACCENT, "lw": 1, "label": "from files"})):  # fmt: skip
        a.plot(t[200:], running(np.sign(score) != y, 300)[200:], **style)
    for start in pieces[1:]:
        a.axvline(start, color=ALARM, lw=0.8, ls=":")
    a.set(title=f"Saved and loaded at each dotted line: largest difference {gap:g}", ylim=(0, 0.12),
          xlabel="example", ylabel="mistakes, last 300")  # fmt: skip
    a.legend(loc="upper right", ncols=2)
    where_bytes_are(b)
    save(figure, "files.png")


def where_bytes_are(ax: plt.Axes) -> None:
    """Shares of a file: rows, coefficients, births and norms, and the rest."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(3000, 20)), rng.normal(size=3000)
    models = {
        "window, 20 features": KernelRegressor(),
        "window, 2 features": KernelRegressor(),
        "100 centres": KernelRegressor(expansion=expansions.Centers(100)),
    }
    parts = {"rows": ("panels", "points"), "coefficients": ("coef", "theta"),
             "births, norms": ("births", "norms")}  # fmt: skip
    for i, (name, model) in enumerate(models.items()):
        data = files.dumps(model.partial_fit(X[:, : 2 if " 2 " in name else 20], y))
        held = load_tensors(data)
        sizes = [sum(v.nbytes for k, v in held.items() if k.rpartition(".")[2] in wanted)
                 for wanted in parts.values()]  # fmt: skip
        sizes.append(len(data) - sum(sizes))
        edges = np.cumsum([0, *sizes]) / len(data)
        colours = (ACCENT, SOFT, INK, ALARM)
        for part, left, right, colour in zip(
            (*parts, "rest"), edges, edges[1:], colours, strict=False
        ):
            ax.barh(i, right - left, 0.4, left=left, color=colour, label=None if i else part)
        ax.text(0.0, i + 0.45, f"{name}: {len(data) / 1e3:,.0f} kB", fontsize=8)
    ax.set(yticks=[], ylim=(2.65, -0.9), xlim=(0, 1), xlabel="share of the file")
    ax.set_title("Where its bytes are")
    ax.legend(loc="upper left", ncols=4, fontsize=8, handlelength=0.8, columnspacing=1)


def save(figure: plt.Figure, name: str) -> None:
    """Write a picture beside this script."""
    figure.savefig(HERE / name, metadata={"Software": None})
    plt.close(figure)


FIGURES = {
    "overview": overview,
    "alert_rate": alert_rate,
    "memory": memory,
    "time": time,
    "regret": regret,
    "files": model_files,
}

if __name__ == "__main__":
    for wanted in sys.argv[1:] or FIGURES:
        FIGURES[wanted]()
