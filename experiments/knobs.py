"""What the knobs do: memory, window, width, margin and nu, one at a time, on four streams.

A made stream that moves all the time (`drift`), electricity prices (`elec2`, the first 12 000
half-hours, without the date), hourly bike rentals (`bike`), and e-mails in random order, which do
not drift (`spambase`); for nu also a plant's sensors with faults, and a machine's temperature
(NAB). All is predict then learn, all rows count. Everything but the knob shown is as it comes.
Errors are mistakes in per cent; for `bike` the mean absolute error in rentals.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

if __package__:
    from .drift_nab import FILE as NAB
    from .drift_nab import load as load_nab
    from .meeting import ACCENT, ALARM, INK, WIDTH, Row, Study, canvas, command, has
else:
    from drift_nab import FILE as NAB
    from drift_nab import load as load_nab
    from meeting import ACCENT, ALARM, INK, WIDTH, Row, Study, canvas, command, has

import common

from onkel import (
    KernelClassifier,
    KernelRegressor,
    NoveltyDetector,
    expansions,
    kernels,
    losses,
    rules,
    streams,
)

TITLE = "What the knobs do"
ROWS = {True: 1000, False: 12_000}
MEMORIES = (300, 1000, 3000, 10_000, 30_000, 100_000, 1_000_000)
TERMS = (30, 100, 300, 1000, 3000, 10_000, 30_000)
WIDTHS = (1 / 16, 1 / 4, 1.0, 4.0, 16.0, 64.0)
MARGINS = (0.0, 0.1, 0.3, 0.6, 1.0, 1.5, 2.0, 3.0)
NUS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2)
SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5)
DEFAULTS = {"memory": 100_000, "window": 10_000, "width": 1.0, "margin": 1.0}


@dataclass(frozen=True)
class Stream:
    """A stream with answers."""

    X: np.ndarray
    y: np.ndarray
    classes: bool = True

    def error(self, model: Any) -> float:
        """Return what a model gets wrong: per cent, or the mean distance."""
        said = model.predict_then_learn(self.X, self.y)
        if self.classes:
            return 100 * float(np.mean(said != self.y))
        return float(np.mean(np.abs(said - self.y)))

    def model(
        self, memory: float = 100_000, terms: int = 10_000, width: float = 1.0,
        kernel: Any = None, **params: Any,
    ) -> Any:  # fmt: skip
        """Return the estimator as it comes, but for the knobs given."""
        default = kernels.Gaussian if self.classes else kernels.Laplacian
        make = KernelClassifier if self.classes else KernelRegressor
        return make(
            (kernel or default)(width / self.X.shape[1]), rule=rules.Norma(memory=memory),
            expansion=expansions.Window(terms=terms), n_jobs=1, **params,
        )  # fmt: skip


def load(quick: bool, data: Path | None) -> dict[str, Stream]:
    """Return the streams that can be made here."""
    n = ROWS[quick]
    made = streams.drifting_classes(n, seed=0, components=4, gap=0.5)
    found = {"drift": Stream(made.X.astype(np.float32), made.y)}
    if data is not None and has(data, "elec2.npz"):
        with np.load(data / "elec2.npz") as arrays:
            found["elec2"] = Stream(arrays["X"][:n, 1:], arrays["y"][:n])
    if data is not None and has(data, "bike_hour.npz"):
        with np.load(data / "bike_hour.npz") as arrays:
            found["bike"] = Stream(arrays["X"][:n], arrays["y"][:n].astype(float), False)
    if data is not None and has(data, "spambase.npz"):
        with np.load(data / "spambase.npz") as arrays:
            order = np.random.default_rng(0).permutation(len(arrays["y"]))[:n]
            found["spambase"] = Stream(arrays["X"][order], arrays["y"][order])
    return found


# -- one knob at a time ------------------------------------------------------------------------

Curve = dict[float, float]
Sweep = dict[str, dict[str, Curve]]
"""Stream, line, place on the axis: error."""


def memory(found: dict[str, Stream]) -> Sweep:
    """Return errors against memory, for three windows."""
    return {
        name: {
            f"window {terms:,}": {m: s.error(s.model(m, terms)) for m in MEMORIES}
            for terms in (300, 1000, 10_000)
        }
        for name, s in found.items()
    }


def window(found: dict[str, Stream]) -> Sweep:
    """Return errors against the window, for two memories."""
    return {
        name: {f"memory {m:,}": {t: s.error(s.model(m, t)) for t in TERMS} for m in (2000, 100_000)}
        for name, s in found.items()
    }


def width(found: dict[str, Stream]) -> Sweep:
    """Return errors against gamma d, for two kernels."""
    kinds = {"Gaussian": kernels.Gaussian, "Laplacian": kernels.Laplacian}
    return {
        name: {
            kind: {w: s.error(s.model(width=w, kernel=kernel)) for w in WIDTHS}
            for kind, kernel in kinds.items()
        }
        for name, s in found.items()
    }


def margin(found: dict[str, Stream]) -> tuple[Sweep, Sweep]:
    """Return errors, and terms stored in per cent of the rows, against the margin."""
    errors: Sweep = {}
    stored: Sweep = {}
    for name, s in found.items():
        if not s.classes:
            continue
        errors[name], stored[name] = {"mistakes": {}}, {"terms stored": {}}
        for rho in MARGINS:
            model = s.model(loss=losses.SoftMargin(margin=rho), terms=len(s.y))
            errors[name]["mistakes"][rho] = s.error(model)
            stored[name]["terms stored"][rho] = 100 * model.n_terms_ / len(s.y)
    return errors, stored


def cost(s: Stream) -> Curve:
    """Return microseconds of the processor per row against the window."""
    found: Curve = {}
    for terms in TERMS:
        model, began = s.model(terms=terms), time.process_time()
        model.predict_then_learn(s.X, s.y)
        found[terms] = 1e6 * (time.process_time() - began) / len(s.y)
    return found


# -- nu ----------------------------------------------------------------------------------------


def rates(X: np.ndarray, faulty: np.ndarray) -> tuple[Curve, Curve]:
    """Return the realised alert rate and the share of faulty rows that alert, against nu."""
    realised: Curve = {}
    caught: Curve = {}
    for nu in NUS:
        alerts = NoveltyDetector(nu=nu, n_jobs=1).predict_then_learn(X) < 0
        realised[nu] = 100 * float(alerts.mean())
        caught[nu] = 100 * float(alerts[faulty].mean())
    return realised, caught


def coverage(s: Stream) -> tuple[Curve, Curve]:
    """Return coverage in per cent and mean width in the target's units, against nu."""
    inside: Curve = {}
    wide: Curve = {}
    for nu in SHARES:
        model = KernelRegressor(loss=losses.Huber(nu=nu), n_jobs=1)
        low, high = model.predict_then_learn(s.X, s.y, output="interval")
        inside[nu] = 100 * float(np.mean((low <= s.y) & (s.y <= high)))
        wide[nu] = float(np.mean(high - low))
    return inside, wide


def detectable(quick: bool, data: Path | None) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return rows and which of them are faulty: a made plant, and a machine of NAB."""
    made = streams.sensors(ROWS[quick], seed=0)
    found = {"plant": (made.X, made.faulty)}
    if data is not None and has(data, NAB):
        (series,) = (s for s in load_nab(data) if s.name.startswith("machine_temperature"))
        inside = np.zeros(len(series.values), bool)
        for first, last in series.windows:
            inside[first : last + 1] = True
        found["machine temperature"] = (series.values[:, None], inside)
    return found


# -- tables ------------------------------------------------------------------------------------


def against_default(knob: str, sweep: Sweep) -> list[Row]:
    """Return for each stream: the error at the default, and the best on the default's own line."""
    rows = []
    for name, lines in sweep.items():
        curve = lines[_own(knob, name, lines)]
        best = min(curve, key=lambda value: curve[value])
        at = curve[DEFAULTS[knob]]
        rows.append({
            "knob": knob, "stream": name, "default": DEFAULTS[knob], "error there": at,
            "best value": best, "error at best": curve[best],
            "default / best": at / curve[best],
        })  # fmt: skip
    return rows


def _own(knob: str, name: str, lines: dict[str, Curve]) -> str:
    if knob == "width":
        return "Laplacian" if name == "bike" else "Gaussian"
    return list(lines)[-1]


def promises(found: dict[str, tuple[Curve, Curve]], bike: tuple[Curve, Curve] | None) -> list[Row]:
    """Return what was promised by nu, and what happened."""
    rows = [
        {"stream": name, "nu": nu, "promised %": 100 * nu, "alerts %": share,
         "of the faulty rows %": found[name][1][nu]}
        for name, (realised, _) in found.items()
        for nu, share in realised.items()
    ]  # fmt: skip
    if bike:
        rows += [
            {"stream": "bike", "nu": nu, "promised %": 100 * nu, "outside %": 100 - share,
             "mean width": bike[1][nu]}
            for nu, share in bike[0].items()
        ]  # fmt: skip
    return rows


# -- figures -----------------------------------------------------------------------------------

LOOKS = ((ALARM, "-"), ("#e08e0b", "-"), (ACCENT, "-"))


def panels(knob: str, sweep: Sweep, label: str, log: bool = True) -> Any:
    """Draw a panel per stream, the default dotted."""
    fig, axes = canvas(len(sweep), 2, (WIDTH, 2.6 * -(-len(sweep) // 2)))
    for axis, (name, lines) in zip(axes, sweep.items(), strict=False):
        for (colour, style), (line, curve) in zip(LOOKS[-len(lines) :], lines.items(), strict=True):
            axis.plot(list(curve), list(curve.values()), style, marker="o", ms=3, color=colour,
                      label=line)  # fmt: skip
        axis.axvline(DEFAULTS[knob], color=INK, lw=0.9, ls=":")
        axis.set(title=name, xlabel=label, ylim=(0, None))
        axis.set_ylabel("mean error, rentals" if name == "bike" else "mistakes, %")
        if log:
            axis.set_xscale("log")
    axes[0].legend(frameon=False, fontsize=7)
    return fig


def draw_window(sweep: Sweep, name: str, micro: Curve) -> Any:
    """Draw errors against the window, and its cost in the panel of one stream."""
    fig = panels("window", sweep, "terms in the window")
    twin = fig.axes[list(sweep).index(name)].twinx()
    twin.plot(list(micro), list(micro.values()), "--", color=INK, lw=0.9)
    twin.set_ylabel("dashed: µs per row")
    twin.spines["top"].set_visible(False)
    twin.set_ylim(0, None)
    return fig


def draw_margin(errors: Sweep, stored: Sweep) -> Any:
    """Draw errors and terms against the margin."""
    fig = panels("margin", errors, "margin", log=False)
    for axis, lines in zip(list(fig.axes), stored.values(), strict=False):
        twin, curve = axis.twinx(), lines["terms stored"]
        twin.plot(list(curve), list(curve.values()), "--", color=ALARM, lw=1)
        twin.set(ylim=(0, 100), ylabel="dashed: rows stored, %")
        twin.spines["top"].set_visible(False)
    return fig


def draw_nu(found: dict[str, tuple[Curve, Curve]], bike: tuple[Curve, Curve] | None) -> Any:
    """Draw the promise, what was caught, and what an interval costs."""
    fig, axes = canvas(4 if bike else 2, 2, (WIDTH, 5.2 if bike else 2.6))
    for colour, (name, (realised, caught)) in zip((ACCENT, ALARM), found.items(), strict=False):
        nus = [100 * nu for nu in realised]
        axes[0].plot(nus, list(realised.values()), "o-", ms=3, color=colour, label=name)
        lift = [caught[nu] / max(share, 1e-9) for nu, share in realised.items()]
        axes[1].plot(nus, lift, "o-", ms=3, color=colour, label=name)
    limits = (100 * NUS[0], 100 * NUS[-1])
    axes[0].plot(limits, limits, color=INK, lw=0.9, ls=":", label="promised")
    axes[0].set(title="detector: alerts", xlabel="nu, %", ylabel="alerts, %", xscale="log",
                yscale="log")  # fmt: skip
    axes[1].axhline(1, color=INK, lw=0.9, ls=":")
    axes[1].set(title="detector: aim (1: chance)", xlabel="nu, %", xscale="log", ylim=(0, None),
                ylabel="alert rate, faulty rows / all")  # fmt: skip
    axes[0].legend(frameon=False, fontsize=7)
    common.readable(axes[0].yaxis)
    for axis in axes[:2]:
        common.readable(axis.xaxis)
    if bike:
        shares = [100 * nu for nu in bike[0]]
        axes[2].plot(shares, list(bike[0].values()), "o-", ms=3, color=ACCENT)
        axes[2].plot(shares, [100 - s for s in shares], color=INK, lw=0.9, ls=":")
        axes[2].set(title="bike: coverage", xlabel="nu, %", ylabel="targets inside, %")
        axes[3].plot(shares, list(bike[1].values()), "o-", ms=3, color=ACCENT)
        axes[3].set(title="bike: width", xlabel="nu, %", ylabel="mean width, rentals")
        axes[3].set_ylim(0, None)
    return fig


# -- the study ---------------------------------------------------------------------------------


def run(quick: bool, data: Path | None) -> Study:
    """Turn every knob."""
    found = load(quick, data)
    swept: dict[str, Sweep] = {"memory": memory(found), "window": window(found)}
    swept["width"] = width(found)
    swept["margin"], stored = margin(found)
    alerts = {name: rates(*pair) for name, pair in detectable(quick, data).items()}
    bike = coverage(found["bike"]) if "bike" in found else None
    dear = "bike" if bike else "drift"  # bike stores every row
    draw: dict[str, Callable[[], Any]] = {
        "memory": partial(panels, "memory", swept["memory"], "memory, rows"),
        "window": lambda: draw_window(swept["window"], dear, cost(found[dear])),
        "width": partial(panels, "width", swept["width"], "gamma · d"),
        "margin": lambda: draw_margin(swept["margin"], stored),
        "nu": lambda: draw_nu(alerts, bike),
    }
    table = [row for knob, sweep in swept.items() for row in against_default(knob, sweep)]
    tables = [
        ("The default beside the best of the grid, all else as it comes", table),
        ("nu is a promise", promises(alerts, bike)),
    ]
    text = (__doc__ or "").split("\n\n", 1)[1].strip()
    captions = {knob: f"{knob.capitalize()}; dotted: the default." for knob in swept}
    captions["nu"] = "nu; dotted: what is promised."
    figures = [(captions[knob], make()) for knob, make in draw.items()]
    return Study(TITLE, text, tables, figures)


if __name__ == "__main__":
    raise SystemExit(command("knobs", run, __doc__ or ""))
