"""Make the figures of the pages on the papers: ``python docs/figures/papers.py [name ...]``.

Seeded, offline, a few seconds each; colours and style are those of make.py beside it.
"""

from __future__ import annotations

import math
import sys

import matplotlib.pyplot as plt
import numpy as np
from make import ACCENT, ALARM, INK, SOFT, save

from onkel import (
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    bounds,
    evaluate,
    expansions,
    kernels,
    losses,
    rules,
)

# ---------------------------------------------------------------- N04: a target that turns


def turning_bumps(
    n: int = 4000, turns: float = 4.0, margin: float = 0.3, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, dict[str, float]]:
    """Rows, labels, and what the theorem needs to know of u_t = k(c_t, .) - k(-c_t, .).

    c_t goes round the unit circle; rows on which u_t is below the margin are left out.
    """
    rng, angle = np.random.default_rng(seed), 2 * np.pi * turns * np.arange(n) / n
    c = np.column_stack([np.cos(angle), np.sin(angle)])

    def k(x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.exp(-((x - z) ** 2).sum(axis=-1))

    X, y = np.empty((n, 2)), np.zeros(n)
    while not y.all():
        todo = y == 0
        X[todo] = rng.uniform(-1.6, 1.6, size=(todo.sum(), 2))
        u = k(X, c) - k(X, -c)
        y[todo] = np.where(np.abs(u[todo]) >= margin, np.sign(u[todo]), 0.0)
    a, b = c[:-1], c[1:]
    steps = 4 - 4 * k(a, -a) - 4 * k(a, b) + 4 * k(a, -b)  # ||u_t - u_{t+1}||^2
    known = {"radius": math.sqrt(2 - 2 * math.exp(-4)), "bound": 1.0, "target_margin": margin}
    return X, y, {**known, "path": np.sqrt(steps).sum(), "squared_path": steps.sum()}


def mistakes_of(model: KernelClassifier | LinearClassifier, X: np.ndarray, y: np.ndarray):
    """Cumulative mistakes, a score of 0 being one."""
    z = np.ravel(model.predict_then_learn(X, y, output="decision", classes=[-1, 1]))
    return np.cumsum(z * y <= 0)


def paper_norma_2004() -> None:
    """Left the stream, right the mistakes of NORMA and the perceptron, and the bound."""
    figure, (a, b) = plt.subplots(
        1, 2, figsize=(7.6, 3.1), width_ratios=[1, 1.7], layout="constrained"
    )
    X, y, known = turning_bumps()
    first = slice(0, 125)
    for label, colour in ((1, ACCENT), (-1, ALARM)):
        a.plot(*X[first][y[first] == label].T, ".", ms=4, color=colour)
    turn = np.linspace(0, 2 * np.pi, 100)
    a.plot(np.cos(turn), np.sin(turn), color=SOFT, lw=1, zorder=0)
    for sign, angle in ((1, 0.0), (-1, np.pi)):
        colour = ACCENT if sign > 0 else ALARM
        a.plot(np.cos(angle), np.sin(angle), "o", ms=9, mfc="white", mew=2, color=colour)
        a.annotate("", (np.cos(angle + 0.9), np.sin(angle + 0.9)),
                   (np.cos(angle + 0.3), np.sin(angle + 0.3)),
                   arrowprops={"arrowstyle": "->", "color": INK, "lw": 1.2,
                               "connectionstyle": "arc3,rad=0.15"})  # fmt: skip
    a.set(title="The first 125 of 4000 rows", xlim=(-1.7, 1.7), ylim=(-1.7, 1.7), aspect="equal")

    told = bounds.norma_mistakes(trials=len(X), **known)
    norma = rules.Norma(**told.tuning)
    runs = {
        "perceptron": (rules.Perceptron(), 0.0, INK, 1.18),
        "NORMA, ρ = 0": (norma, 0.0, SOFT, 0.55),
        f"NORMA, ρ = μ − r = {told.margin:.2f}": (norma, told.margin, ACCENT, 1.18),
    }
    b.axhline(told.bound, color=ALARM, lw=1, ls=":")
    b.text(0, told.bound * 0.93, f"bound of Theorem 3: {told.bound:.0f}", va="top", color=ALARM)
    for name, (rule, margin, colour, place) in runs.items():
        clf = KernelClassifier(
            kernel=kernels.Gaussian(gamma=1.0), loss=losses.SoftMargin(margin=margin), rule=rule,
            expansion=expansions.Window(terms=None), scale=False, fit_intercept=False,
        )  # fmt: skip
        count = mistakes_of(clf, X, y)
        b.plot(np.arange(1, len(X) + 1), count, color=colour, lw=1.6)
        b.text(len(X), count[-1] * place, f"{name}: {count[-1]}", ha="right", color=INK)
    b.set(title="Mistakes while the target turns four times", xlabel="example", yscale="log",
          ylim=(1, 3000), xlim=(-60, len(X) + 60))  # fmt: skip
    save(figure, "paper_norma_2004.png")


# ---------------------------------------------------------------- N01: regret and its bounds


def paper_norma_2001() -> None:
    """Regret of the two learning rates of N01, with the bounds of Theorems 1 and 2."""
    figure, ax = plt.subplots(figsize=(7.0, 3.1), layout="constrained")
    rng, lam, radius = np.random.default_rng(0), 0.5, 2.0
    X = rng.normal(size=(3000, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
    sizes = [30, 100, 300, 1000, 3000]

    def run(told: bounds.Guarantee, checkpoints: list[int]) -> evaluate.Regret:
        clf = KernelClassifier(
            kernel=kernels.Gaussian(gamma=1.0), rule=rules.Norma(**told.tuning),
            expansion=expansions.Window(terms=None), scale=False, fit_intercept=False,
        )  # fmt: skip
        return evaluate.regret(clf, X, y, checkpoints=checkpoints)

    told = [
        bounds.horizon_risk(risk=0.0, trials=m, radius=radius, regularization=lam) for m in sizes
    ]
    found = [run(g, [m]).regret[0] for g, m in zip(told, sizes, strict=True)]
    ax.plot(sizes, [g.bound for g in told], ":", color=ACCENT, lw=1.2)
    ax.plot(sizes, found, "o", ms=5, color=ACCENT)
    labels = [(told[-1].bound, "bound of Theorem 1", ACCENT),
              (found[-1], "rate B/(X√m), a run for each m", ACCENT)]  # fmt: skip
    told = [
        bounds.regularized_risk(risk=0.0, trials=m, radius=radius, regularization=lam)
        for m in sizes
    ]
    curve = run(told[0], sorted({*np.geomspace(30, 3000, 15).astype(int).tolist(), 3000}))
    ax.plot(sizes, [g.bound for g in told], ":", color=ALARM, lw=1.2)
    ax.plot(curve.t, curve.regret, "-", color=ALARM, lw=1.6)
    labels += [(told[-1].bound, "bound of Theorem 2", ALARM),
               (curve.regret[-1] * 0.85, "rate 1/(3λ√t), one run", ALARM)]  # fmt: skip
    for height, text, colour in labels:
        ax.text(3400, height, text, color=colour, va="center")
    ax.set(title="Regret against the best fixed g", xscale="log", yscale="log",
           xlabel="examples m", xlim=(25, 40_000), ylim=(2, 1500), xticks=sizes,
           xticklabels=map(str, sizes))  # fmt: skip
    ax.minorticks_off()
    ax.spines["bottom"].set_bounds(25, 3300)
    ax.xaxis.set_label_coords(0.33, -0.12)
    save(figure, "paper_norma_2001.png")


# ---------------------------------------------------------------- A02: few features of many


def majority(d: int, n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The label is the majority of the first three features, which are signs."""
    X = np.random.default_rng(seed).uniform(-1, 1, size=(n, d))
    X[:, :3] = np.sign(X[:, :3])
    return X, np.sign(X[:, :3].sum(axis=1))


def alma_for_majority(d: int, p: float) -> tuple[LinearClassifier, bounds.Guarantee]:
    """ALMA as A02 Theorem 2 tunes it for u = (1, 1, 1, 0, ...), whose margin is 1."""
    told = bounds.alma_mistakes(radius=3 ** (1 - 1 / p), bound=d ** (1 / p), target_margin=1.0, p=p)
    clf = LinearClassifier(
        loss=losses.SoftMargin(margin=told.margin), rule=rules.Alma(**told.tuning), p=p,
        scale=False,
    )  # fmt: skip
    return clf, told


def paper_alma_2002() -> None:
    """Mistakes on a target of three features among d, p = 2 against p = 2 ln d."""
    figure, (a, b) = plt.subplots(1, 2, figsize=(7.6, 3.1), layout="constrained")
    sizes = [30, 100, 300, 1000, 3000]
    for name, colour, p_of in (
        ("p = 2", ALARM, lambda d: 2.0),
        ("p = 2 ln d", ACCENT, lambda d: 2 * math.log(d)),
    ):
        totals, limits = [], []
        for d in sizes:
            X, y = majority(d, 6000)
            clf, told = alma_for_majority(d, p_of(d))
            count = mistakes_of(clf, X, y)
            totals.append(count[-1])
            limits.append(told.bound)
            if d == 1000:
                a.plot(np.arange(1, len(X) + 1), count, color=colour, lw=1.6)
                place = (len(X), count[-1] + (5 if p_of(d) > 2 else -14))
                a.text(*place, f"{name}: {count[-1]}", ha="right", color=colour)
        b.plot(sizes, limits, ":", color=colour, lw=1.2)
        b.plot(sizes, totals, "o-", ms=4, color=colour, label=name)
    b.plot([], [], ":", color=INK, label="bound")
    a.set(title="1000 features, three matter", xlabel="example", ylabel="mistakes")
    b.set(title="All mistakes, against features", xlabel="features d", xscale="log", yscale="log")
    b.legend(loc="upper left")
    save(figure, "paper_alma_2002.png")


# ---------------------------------------------------------------- H01: trees, projections

PARTS = {
    "sin(2π x/8)": lambda x: np.sin(2 * np.pi * x / 8),
    "|x/4 − 1|": lambda x: np.abs(x / 4 - 1),
    "0": lambda x: 0 * x,
}


def paper_additive_2001() -> None:
    """Above the parts of an additive f held in trees, below the projections on segments."""
    figure = plt.figure(figsize=(7.6, 4.9), layout="constrained")
    above, below = figure.subfigures(2, 1, height_ratios=[1, 1])
    panels = above.subplots(1, 3, sharey=True)
    components(panels)
    segments(below.subplots())
    save(figure, "paper_additive_2001.png")


def components(panels: np.ndarray) -> None:
    """The parts of f that trees have learned, each less its mean."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 8, size=(20_000, 3))
    y = sum(part(X[:, j]) for j, part in enumerate(PARTS.values())) + 0.3 * rng.normal(size=len(X))
    grid = np.linspace(0, 8, 200)
    for kernel, rate, colour in (
        (kernels.Exponential(sigma=0.6), 0.1, ALARM),
        (kernels.Spline(order=1), 0.02, ACCENT),
    ):
        reg = KernelRegressor(
            kernel=kernels.Additive(kernel, weights="mean"), scale=False,
            rule=rules.Norma(learning_rate=rate, memory=20_000), expansion=expansions.Tree(),
        )  # fmt: skip
        reg.partial_fit(X, y)
        for j, ax in enumerate(panels):
            rows = np.full((200, 3), 4.0)
            rows[:, j] = grid
            curve = reg.predict(rows)
            ax.plot(grid, curve - curve.mean(), color=colour, lw=1.4, label=type(kernel).__name__)
    for j, (ax, (name, part)) in enumerate(zip(panels, PARTS.items(), strict=True)):
        ax.plot(grid, part(grid) - part(grid).mean(), "--", color=INK, lw=1, label="true")
        ax.set(title=name, xlabel=f"feature {j + 1}")
    panels[2].legend(loc="upper right", fontsize=8)


def segments(ax: plt.Axes, length: int = 300) -> None:
    """Square loss since the segment's start, of the projections with and without a ball."""
    rng = np.random.default_rng(1)
    u = rng.normal(size=(4, 5))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    X = rng.normal(size=(4 * length, 5))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    which, eps = np.arange(len(X)) // length, 0.05
    y = np.einsum("ij,ij->i", X, u[which]) + rng.uniform(-eps, eps, len(X))
    y[which == 2] = 3 * rng.normal(size=length)
    for radius, colour, name in ((None, ALARM, "free"), (1.0, ACCENT, "‖f‖ ≤ γ = 1")):
        reg = KernelRegressor(
            kernel=kernels.Linear(), loss=losses.EpsilonInsensitive(epsilon=eps), scale=False,
            rule=rules.Projection(radius=radius), expansion=expansions.Window(terms=None),
        )  # fmt: skip
        gap = np.abs(reg.predict_then_learn(X, y) - y) - eps
        lost = (np.maximum(gap, 0) ** 2).reshape(4, length).cumsum(axis=1)
        for i in (0, 1, 3):
            t = np.arange(i * length, (i + 1) * length)
            ax.plot(t, lost[i], color=colour, lw=1.6, label=name if i == 0 else None)
        ax.text(4 * length + 6, lost[3, -1], f"{lost[3, -1]:.1f}", color=colour, va="center")
    told = bounds.projection_segment_loss(norm=1.0, radius=1.0, bound=1.0)
    ends = [0, 4 * length]
    ax.plot(ends, [told.bound] * 2, ":", color=INK, lw=1, label=f"bound for γ = 1: {told.bound:g}")
    ax.axvspan(2 * length, 3 * length, color=SOFT, alpha=0.25, lw=0)
    ax.text(2.5 * length, 30, "pure noise:\nno u fits", ha="center", va="center")
    ax.legend(loc="upper left", ncols=3, fontsize=8)
    ax.set(title="Square loss beyond ε since the segment began; the target switches every 300",
           xlabel="example", yscale="log", ylim=(0.05, 800), xlim=(-10, 4 * length + 70),
           xticks=[0, 300, 600, 900, 1200])  # fmt: skip


# ---------------------------------------------------------------- CR: the norm of alpha


def paper_coefficients() -> None:
    """The norm of the coefficients under the paper's kappa and under the corrected one."""
    figure, axes = plt.subplots(1, 2, figsize=(7.6, 2.9), layout="constrained")
    rng, lam, m = np.random.default_rng(0), 0.5, 50
    centers, X = rng.normal(size=(m, 2)), rng.normal(size=(100, 2))
    y = np.where(X[:, 0] > 0, 1, -1)
    kernel = kernels.Gaussian(gamma=0.05)
    right = bounds.coefficient_kappa(kernel(X, centers))
    names = {"As printed, κ = sup √k = 1": 1.0, f"Corrected, κ = sup ‖K(x)‖ = {right:.2f}": right}
    for ax, (name, kappa) in zip(axes, names.items(), strict=True):
        told = bounds.coefficient_norm("hinge", kappa=kappa, regularization=lam)
        clf = KernelClassifier(
            kernel=kernel, loss=losses.SoftMargin(), scale=False, fit_intercept=False,
            rule=rules.Norma(**told.tuning, track_norm=True),
            expansion=expansions.Centers(centers),
        )  # fmt: skip
        norms = []
        for x, label in zip(X, y, strict=True):
            clf.partial_fit([x], [label], classes=[-1, 1])
            norms.append(clf.diagnostics_["norm"])
        ax.plot(np.arange(1, len(X) + 1), norms, ".-", ms=4, color=ACCENT, lw=0.8)
        ax.axhline(told.bound, color=ALARM, lw=1.2, ls=":")
        rate = told.tuning["learning_rate"]
        top = 1.3 * max(told.bound, *norms)
        ax.text(len(X), 0.98 * top, f"η = {rate:.3g}, largest ‖α‖ {max(norms):.2f}", ha="right",
                va="top", color=ACCENT)  # fmt: skip
        ax.text(0, 0.98 * top, f"bound {told.bound:.3g}", va="top", color=ALARM)
        ax.set(title=name, xlabel="example", ylim=(0, top))
    axes[0].set_ylabel("‖α‖")
    save(figure, "paper_coefficients.png")


FIGURES = {
    "norma_2004": paper_norma_2004,
    "norma_2001": paper_norma_2001,
    "alma_2002": paper_alma_2002,
    "additive_2001": paper_additive_2001,
    "coefficients": paper_coefficients,
}

if __name__ == "__main__":
    for wanted in sys.argv[1:] or FIGURES:
        FIGURES[wanted]()
