"""How tight are the bounds? For each theorem the worst sequence found, as a share of its bound.

``python experiments/bounds_tightness.py`` prints the table and draws docs/figures/bounds.png.
Sequences are built against the algorithm (orthonormal rows, labels that contradict its score,
targets that flip) over a grid of their few numbers; nothing is random but the samples of the i.i.d.
theorems, which are seeded. For risks the share is of what the theorem allows beyond the
comparator's own risk.

What is expected: counts against a fixed target, N01 Theorem 1, the projections' losses, the
truncation error and CR's norms are attained. A moving target reaches a third (NORMA) to a half
(ALMA): its path is paid for in full, though the hypothesis need not follow all of it. N04's
Theorems 4 and 6 and N01's 2 and 3 pay for hypotheses at distance 2U from the comparator at every
trial, which none keeps up; N04's Corollary 5 adds a chance term for the largest risk there could
be. A mistake on a segment counts 1 where the proof pays up to 4. CR's Theorem 4, and with it
Corollary 3, carry factors 9 and 19 from generous estimates of two sums. Fixed share reaches half.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from bounds_sequences import coin, descend, hedge, least_risk, separate, streams
from harness import Check, finish, table

from onkel import bounds

FIGURE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "bounds.png"
Share = Iterator[float]
BOUNDS: dict[str, tuple[str, Callable[[], Share], float]] = {}


def share(name: str, family: str, least: float) -> Callable[[Callable[[], Share]], None]:
    """Enter a function that yields counted/bound for one sequence after the other."""

    def enter(function: Callable[[], Share]) -> None:
        BOUNDS[name] = (family, function, least)

    return enter


def run_norma(told, rows, labels, margin, p=2.0):
    eta, lam = told.tuning["learning_rate"], told.tuning["regularization"]
    return separate(rows, labels, eta, lam, margin, None, p)


def run_alma(told, rows, labels, margin, p=2.0):
    return separate(
        rows, labels, told.tuning["learning_rate"], 0.0, margin, told.tuning["radius"], p
    )


# ---------------------------------------------------------------- counts

METHODS = {
    "NORMA": (bounds.norma_mistakes, bounds.norma_margin_errors, run_norma),
    "ALMA": (bounds.alma_mistakes, bounds.alma_margin_errors, run_alma),
}


def enter_counts(name: str, theorems: str) -> None:
    """The same five families for NORMA and ALMA."""
    mistakes, margin_errors, run = METHODS[name]

    @share(f"{name} mistakes, fixed target ({theorems})", "counts", 0.99)
    def _() -> Share:
        for n in (4, 40):
            told = mistakes(radius=n**0.5, bound=1.0, target_margin=1.0)
            yield run(told, np.eye(n), np.ones(n), 0.0)[0] / told.bound

    @share(f"{name} margin errors at rho = mu/2", "counts", 0.4)
    def _() -> Share:
        for n, again in itertools.product((4, 20), (1, 2, 3, 4)):
            told = margin_errors(radius=n**0.5, bound=1.0, target_margin=1.0, margin=0.5)
            rows = np.repeat(np.eye(n), again, axis=0)
            yield run(told, rows, np.ones(len(rows)), 0.5)[1] / told.bound

    @share(f"{name} mistakes, labels that contradict it", "counts", 0.9)
    def _() -> Share:
        for T in (100, 3000):
            told = mistakes(radius=1e-3, bound=1.0, target_margin=1.0, loss=T * 1.0)
            yield run(told, np.ones((T, 1)), [None] * T, 0.0)[0] / told.bound

    @share(f"{name} mistakes, target that moves", "counts", 0.3)
    def _() -> Share:
        for every, large in itertools.product(range(1, 8), (False, True)):
            T, mu = 600, 1.0
            signs = np.where(np.arange(T) // every % 2, -1.0, 1.0)
            flips = int(np.abs(np.diff(signs)).sum() / 2)
            more = {"trials": T, "squared_path": 4.0 * flips} if name == "NORMA" else {}
            told = mistakes(radius=mu, bound=1.0, target_margin=mu, path=2.0 * flips, **more)
            rows = np.ones((T, 1))
            yield run(told, rows, signs, told.margin if large else 0.0)[0] / told.bound
        T = 100  # a direction of its own for every trial
        more = {"trials": T, "squared_path": 2.0 * T} if name == "NORMA" else {}
        told = mistakes(radius=1.0, bound=1.0, target_margin=1.0, path=2**0.5 * T, **more)
        yield run(told, np.eye(T), np.ones(T), 0.0)[0] / told.bound

    @share(f"{name} mistakes, p = 6, sparse target", "counts", 0.1)
    def _() -> Share:
        p = 6.0
        for n in (8, 32, 128):
            told = mistakes(radius=1.0, bound=n ** (1 / p), target_margin=1.0, p=p)
            for seed in range(20):
                rows = np.random.default_rng(seed).choice([-1.0, 1.0], size=(400, n))
                yield run(told, rows, rows[:, 0], told.margin, p)[0] / told.bound


enter_counts("NORMA", "N04 Th. 2, 3")
enter_counts("ALMA", "A02 Th. 1, 2")


# ---------------------------------------------------------------- risks


def risk_shares(make, ages=None) -> Share:
    for T, lam, rho in itertools.product((30, 200), (0.01, 0.1, 1.0), (0.5, 5.0)):
        for told, radius in make(T, lam):
            rate = told.tuning["learning_rate"]
            rates = np.full(T, rate) if isinstance(rate, float) else rate(np.arange(1, T + 1))
            window = None if ages is None else ages(T, told)
            for rows, labels in streams(T):
                _, given, total = descend(rows, labels, rates, lam, rho, window)
                yield (total - T * least_risk(rows, given, lam, rho, radius)) / told.bound


@share("NORMA risk, falling rate (N04 Th. 4)", "risks", 0.1)
def _() -> Share:
    def make(T, lam):
        for decay in (0.2, 0.7, 0.99):
            yield (
                bounds.norma_risk(
                    risk=0.0, trials=T, learning_rate=decay / lam, regularization=lam
                ),
                np.inf,
            )

    yield from risk_shares(make)


@share("NORMA risk, truncated (N04 Th. 6)", "risks", 0.02)
def _() -> Share:
    def make(T, lam):
        yield (
            bounds.norma_risk_truncated(
                risk=0.0, trials=T, learning_rate=0.99 / lam, regularization=lam, growth=0.25
            ),
            np.inf,
        )

    def ages(T, told):
        return bounds.growth_window(np.arange(1, T + 1), bounds.growth_start(0.99, 0.25), 0.25)

    yield from risk_shares(make, ages)


@share("NORMA risk, constant rate (N01 Th. 1)", "risks", 0.9)
def _() -> Share:
    def make(T, lam):
        for radius in (0.1, 1.0, 5.0):
            if lam * radius < T**0.5:
                yield (
                    bounds.horizon_risk(risk=0.0, trials=T, radius=radius, regularization=lam),
                    radius,
                )

    yield from risk_shares(make)


@share("NORMA risk, rate 1/(3 lam sqrt t) (N01 Th. 2)", "risks", 0.1)
def _() -> Share:
    def make(T, lam):
        for radius in (0.1 / lam, 1 / lam):
            yield (
                bounds.regularized_risk(risk=0.0, trials=T, radius=radius, regularization=lam),
                radius,
            )

    yield from risk_shares(make)


def average_shares(make) -> Share:
    """One labelled row that is rare or common; the average hypothesis on samples of T."""
    rng = np.random.default_rng(0)
    for T, lam, chance in itertools.product((20, 200), (0.1, 1.0), (0.5, 0.8, 1.0)):
        told, rho, world = make(T, lam), 1.0, np.linspace(-1 / lam, 1 / lam, 2001)
        rates = told.tuning["learning_rate"](np.arange(1, T + 1))

        def risk(w, chance=chance, lam=lam, rho=rho):
            plus, minus = np.maximum(0, rho - w), np.maximum(0, rho + w)
            return chance * plus + (1 - chance) * minus + lam / 2 * w * w

        found = []
        for _ in range(30):
            labels = np.where(rng.uniform(size=T) < chance, 1.0, -1.0)
            path, _, _ = descend(np.ones((T, 1)), labels, rates, lam, rho)
            found.append(risk(path.mean()))
        yield (np.mean(found) - risk(world).min()) / told.bound


@share("risk of the average, i.i.d. (N04 Cor. 5)", "risks", 0.005)
def _() -> Share:
    yield from average_shares(
        lambda T, lam: bounds.norma_average_risk(
            risk=0.0, trials=T, learning_rate=0.7 / lam, regularization=lam, delta=0.05,
            risk_limit=bounds.soft_margin_risk(regularization=lam),
        )
    )  # fmt: skip


@share("risk of the average, i.i.d. (N01 Th. 3)", "risks", 0.01)
def _() -> Share:
    yield from average_shares(
        lambda T, lam: bounds.regularized_average_risk(
            risk=0.0, trials=T, radius=1e-3, regularization=lam
        )
    )


# ---------------------------------------------------------------- truncation, projections


@share("what truncation drops (N04 Prop. 1)", "truncation, projections", 0.9)
def _() -> Share:
    for eta, lam, tau in itertools.product((0.1, 0.5), (0.1, 0.5), (5, 50)):
        t = np.arange(1, 2001)  # one row, always a margin error: terms add up
        coefs = eta * (1 - eta * lam) ** (2000 - t)
        yield coefs[: 2000 - tau].sum() / bounds.truncation_error(tau, eta, lam)


@share("projection mistakes (H01 Th. 2)", "truncation, projections", 0.99)
def _() -> Share:
    for n in (4, 40):
        w, mistakes = np.zeros(n), 0
        for x in np.eye(n):
            mistakes += w @ x <= 0
            w = w + max(0.0, 1 - w @ x) * x
        yield mistakes / bounds.projection_loss(distance=n**0.5, bound=1.0).bound


@share("projection square loss (H01 Th. 3, 6)", "truncation, projections", 0.99)
def _() -> Share:
    for n, eps in itertools.product((1, 10), (0.0, 0.5)):
        u = np.full(n, 2.0)
        lost = sum(max(0.0, abs(v + eps) - eps) ** 2 for v in u)  # orthonormal rows, y = u + eps
        yield lost / bounds.projection_loss(distance=float(np.linalg.norm(u)), bound=1.0).bound


@share("square loss on a segment (H01 Th. 5)", "truncation, projections", 0.99)
def _() -> Share:
    told = bounds.projection_segment_loss(norm=2.0, radius=2.0, bound=1.0)
    yield (2.0 - -2.0) ** 2 / told.bound  # the row's target goes from -gamma to gamma


@share("mistakes on a segment (H01 Th. 4)", "truncation, projections", 0.2)
def _() -> Share:
    for n, before in itertools.product((1, 4, 20), (1.0, 2.0)):
        radius = n**0.5 * before
        w, mistakes = -before * np.ones(n), 0
        for x in np.repeat(np.eye(n), 3, axis=0):
            mistakes += w @ x <= 0
            w = w + max(0.0, 1 - w @ x) * x
            w = w * min(1.0, radius / np.linalg.norm(w))
        told = bounds.projection_segment_loss(norm=n**0.5, radius=radius, bound=1.0)
        yield mistakes / told.bound


# ---------------------------------------------------------------- coefficients


@share("norm of the coefficients (CR Th. 3)", "coefficients", 0.99)
def _() -> Share:
    for m, lam in itertools.product((1, 50), (2.0, 0.1)):
        x = np.ones(m) / m**0.5
        told = bounds.coefficient_norm("hinge", kappa=1.0, regularization=lam)
        alpha = np.zeros(m)
        for _ in range(200):
            alpha = alpha - told.tuning["learning_rate"] * (lam * alpha - (alpha @ x <= 1) * x)
            yield float(np.linalg.norm(alpha)) / told.bound


@share("distance from excess risk (CR Th. 2)", "coefficients", 0.99)
def _() -> Share:
    lam, best = 2.0, 0.5  # one row, hinge: linear below the margin, so only the penalty bends
    for a in (0.0, 0.3, 0.9, 2.0):
        excess = max(0, 1 - a) + lam / 2 * a * a - (1 - best) - lam / 2 * best * best
        told = bounds.coefficient_strong_convexity(excess=excess, regularization=lam)
        yield abs(a - best) / told.bound


@share("norm of f from that of alpha (CR Cor. 1)", "coefficients", 0.99)
def _() -> Share:
    yield 9.0 / bounds.coefficient_function_norm(norm=3.0, centers=9).bound  # centres coincide


@share("difference of risks (CR Cor. 4)", "coefficients", 0.99)
def _() -> Share:
    told = bounds.coefficient_risk_gap(
        "hinge", kappa=1.0, distance=0.5, norm=0.0, regularization=2.0
    )
    yield 0.5 / told.bound


@share("expected distance to the best (CR Th. 4)", "coefficients", 0.005)
def _() -> Share:
    for loss, lam, theta in itertools.product(("hinge", "logistic"), (0.2, 1.5), (0.3, 0.6, 1.0)):
        for T, chance in itertools.product((1, 10, 300), (0.5, 0.7, 1.0)):
            named = dict(kappa=1.0, regularization=lam, trials=T, theta=theta)
            if loss == "hinge" and theta == 1 and lam > 1:
                continue
            told = bounds.coefficient_excess(loss, **named)
            rates = told.tuning["learning_rate"](np.arange(1, T + 1))
            alpha, best, _ = coin(loss, lam, chance, rates)
            yield float(((alpha - best) ** 2).mean()) / told.bound


@share("excess misclassification (CR Cor. 3)", "coefficients", 0.0)
def _() -> Share:
    for T, chance in itertools.product((1, 10, 300), (0.6, 0.9)):
        told = bounds.coefficient_rate(trials=T, kappa=1.0, beta=1.0, epsilon=0.1)
        lam = told.tuning["regularization"]
        rates = told.tuning["learning_rate"](np.arange(1, T + 1))
        alpha, _, least = coin("hinge", lam, chance, rates)
        error = max(least - 2 * min(chance, 1 - chance), 1e-9)
        told = bounds.coefficient_rate(
            trials=T, kappa=1.0, beta=1.0, epsilon=0.1, constant=error / lam
        )
        yield float(np.mean(np.where(alpha > 0, 0, 2 * chance - 1))) / told.bound


@share("fixed share, best member (Herbster & Warmuth)", "mixtures", 0.4)
def _() -> Share:
    for n, T in itertools.product((2, 4, 32), (20, 2000)):
        told = bounds.fixed_share(members=n, trials=T)
        yield hedge(n, T, **told.tuning) / told.bound


# ---------------------------------------------------------------- table and figure


def draw(found: dict[str, float]) -> None:
    """One bar per bound, grouped, the loosest of a group last."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    ink, bar, frame = "#22303c", "#2a6f97", "#e6edf2"
    groups = list(dict.fromkeys(family for family, _, _ in BOUNDS.values()))
    rows = [
        (g, n) for g in groups for n in sorted(found, key=lambda n: -found[n]) if BOUNDS[n][0] == g
    ]
    places = np.cumsum(
        [1.0 + 0.9 * (i > 0 and rows[i][0] != rows[i - 1][0]) for i in range(len(rows))]
    )
    fig, ax = plt.subplots(figsize=(8.4, 0.26 * places[-1] + 0.9))
    ax.barh(places, 1.0, color=frame, height=0.7)
    ax.barh(places, [found[n] for _, n in rows], color=bar, height=0.7)
    for y, (_, name) in zip(places, rows, strict=True):
        ax.text(1.012, y, f"{found[name]:.2g}" if found[name] < 0.1 else f"{found[name]:.2f}",
                va="center", color=ink, fontsize=8)  # fmt: skip
    for group in groups:
        first = next(i for i, row in enumerate(rows) if row[0] == group)
        ax.text(
            0, places[first] - 0.72, group, color=ink, fontsize=8.5, fontweight="bold", va="center"
        )
    ax.set_yticks(places, [name for _, name in rows], fontsize=8, color=ink)
    ax.set_xticks(
        [0, 0.25, 0.5, 0.75, 1.0], ["0", "¼", "½", "¾", "the bound"], color=ink, fontsize=8
    )
    ax.set_xlim(0, 1.0)
    ax.set_ylim(places[-1] + 0.6, places[0] - 1.2)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    fig.suptitle(
        "Largest share of each bound that was reached", x=0.01, ha="left", fontsize=10, color=ink
    )
    fig.tight_layout()
    fig.savefig(FIGURE, dpi=130)


def main() -> int:
    """Measure, print, check, draw."""
    found = {name: float(max(function())) for name, (_, function, _) in BOUNDS.items()}
    rows = [{"bound": name, "largest share": found[name]} for name in BOUNDS]
    print(table(rows))
    checks = [Check(name, found[name], low, 1 + 1e-9) for name, (_, _, low) in BOUNDS.items()]
    draw(found)
    return finish("bounds_tightness", {"rows": rows}, checks)


if __name__ == "__main__":
    raise SystemExit(main())
