"""SKAB: sixteen experiments in which a valve is closed; who sees it, and who cries wolf.

Each experiment is a file of about 19 minutes, one row a second; as usual for this benchmark a
method learns the first 400 rows, which are normal, and then judges the whole file. Counted over
all files: F1, the false alarm rate FAR (normal rows that raise an alert) and the missing alarm
rate MAR (anomalous rows that do not). The machine warms up all the while: what is normal drifts.

- *Own threshold*: every method and setting with its own idea of when to alert, all 16 files.
  Those of onkel, OneClassSVM and half-space trees ask for 5 % of alerts, that of T-squared for
  0.1 %. *First minute*: alerts among the first 60 anomalous rows, to be held against FAR.
- *Common threshold*: an alert is a score beyond ``median + k (q99 - median)`` of the 400 scores,
  the mean of the last 5 scores being judged. k of 1, 1.5, 2, 3, 5 and one of up to three settings
  are chosen by F1 on files 0 to 3; counted are files 4 to 15. T-squared has one setting, the
  others three.
- *Published*: the leaderboard of github.com/waico/SKAB (README, v0.9, "out-of-box"). It counts 34
  files of three kinds, of which valve1 is one: a direction, not a match.

A detector that goes on learning keeps its promise, 5 % of alerts, and so cannot mark a third of
all rows: at best 86 % of the anomalous ones are missed. What it can do is alert more often when
something begins: twice as often as it comes, four times with a threshold that moves slowly. A
detector that stops after 400 rows has had twenty alerts, and knows little (docs/novelty.md, "A
young detector is often blind"): several passes, or `support=0.1`, mend that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

if __package__:
    from .meeting import (
        ACCENT,
        ALARM,
        INK,
        SOFT,
        Feed,
        Row,
        Study,
        absent,
        canvas,
        command,
        has,
        running,
    )
else:
    from meeting import (
        ACCENT,
        ALARM,
        INK,
        SOFT,
        Feed,
        Row,
        Study,
        absent,
        canvas,
        command,
        has,
        running,
    )

import feeds

from onkel import NoveltyDetector, rules

TITLE = "SKAB: a valve is closed"
FILE = "skab_valve1.csv.gz"
TRAIN, TUNE = 400, 4
REACH = (1.0, 1.5, 2.0, 3.0, 5.0)
SMOOTH = 5
LEADERBOARD = {
    "Conv-AE": (0.79, 13.69, 17.77), "MSET": (0.73, 20.82, 20.08), "LSTM-AE": (0.68, 14.24, 35.56),
    "T-squared+Q (PCA-based)": (0.67, 13.95, 36.32), "Vanilla LSTM": (0.64, 15.4, 39.93),
    "MSCRED": (0.64, 13.56, 41.16), "LSTM-VAE": (0.56, 9.13, 55.03),
    "T-squared": (0.56, 12.14, 52.56), "Vanilla AE": (0.45, 7.56, 66.57),
    "Isolation forest": (0.4, 6.86, 72.09),
}  # fmt: skip
"""F1, FAR and MAR in per cent."""


@dataclass(frozen=True)
class Judged:
    """How strange every row of a file is (the higher, the more), and which rows alert."""

    scores: np.ndarray
    alerts: np.ndarray


Method = Callable[[np.ndarray], Judged]
"""From all rows of a file, of which the first TRAIN may be learned."""


# -- the measure -------------------------------------------------------------------------------


def measure(alerts: list[np.ndarray], truth: list[np.ndarray]) -> Row:
    """Return F1, FAR and MAR of all files together.

    ``F1 = TP / (TP + (FP + FN)/2)``, ``FAR = FP / (FP + TN)``, ``MAR = FN / (FN + TP)``

    >>> found = [np.array([True, True, False, False])], [np.array([True, False, True, False])]
    >>> measure(*found)
    {'F1': 0.5, 'FAR %': 50.0, 'MAR %': 50.0}
    """
    said, true = np.concatenate(alerts), np.concatenate(truth)
    tp, fp, fn = (np.count_nonzero(x) for x in (said & true, said & ~true, ~said & true))
    tn = len(true) - tp - fp - fn
    f1 = tp / (tp + (fp + fn) / 2) if tp + fp + fn else 0.0
    return {"F1": f1, "FAR %": 100 * fp / max(fp + tn, 1), "MAR %": 100 * fn / max(fn + tp, 1)}


def minute(alerts: list[np.ndarray], truth: list[np.ndarray]) -> float:
    """Return the share of alerts among the first 60 anomalous rows of each file."""
    return float(np.mean([a[t][:60].mean() for a, t in zip(alerts, truth, strict=True)]))


def beyond(scores: np.ndarray, reach: float) -> np.ndarray:
    """Return the alerts of the common threshold."""
    smooth = running(scores, SMOOTH)
    middle, high = np.quantile(smooth[:TRAIN], [0.5, 0.99])
    return smooth > middle + reach * (high - middle)


# -- the methods -------------------------------------------------------------------------------


def frozen(**params: Any) -> Method:
    """Return onkel's detector, which learns 400 rows and then only judges; it sees raw rows."""

    def judge(X: np.ndarray) -> Judged:
        model = NoveltyDetector(n_jobs=1, **params).fit(X[:TRAIN])
        scores = model.score_samples(X)
        return Judged(-np.log(np.maximum(scores, 1e-9)), model.predict(X) < 0)

    return judge


def going_on(**params: Any) -> Method:
    """Return onkel's detector as it is meant: it goes on learning, but not its alerts."""

    def judge(X: np.ndarray) -> Judged:
        model = NoveltyDetector(n_jobs=1, learn_alerts=False, warmup=100, **params)
        decision = model.predict_then_learn(X, output="decision")
        return Judged(-decision, (decision < 0) & (np.arange(len(X)) >= 100))

    return judge


def standard(X: np.ndarray) -> np.ndarray:
    """Return the rows, standardised by the first 400."""
    spread = X[:TRAIN].std(axis=0)
    return (X - X[:TRAIN].mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def fitted(build: Callable[[], Any]) -> Method:
    """Return one of scikit-learn's detectors on standardised rows."""

    def judge(X: np.ndarray) -> Judged:
        Z = standard(X)
        model = build().fit(Z[:TRAIN])
        return Judged(-model.score_samples(Z), model.predict(Z) < 0)

    return judge


def forest(**params: Any) -> Method:
    """Return the isolation forest; as SKAB has it unless told otherwise."""

    def build() -> Any:
        from sklearn.ensemble import IsolationForest

        return IsolationForest(random_state=0, **({"contamination": 0.0005} | params))

    return fitted(build)


def one_class(gamma: float, nu: float = 0.05) -> Method:
    """Return scikit-learn's one-class SVM."""

    def build() -> Any:
        from sklearn.svm import OneClassSVM

        return OneClassSVM(nu=nu, gamma=gamma)

    return fitted(build)


def neighbours(k: int) -> Method:
    """Return the local outlier factor."""

    def build() -> Any:
        from sklearn.neighbors import LocalOutlierFactor

        return LocalOutlierFactor(n_neighbors=k, novelty=True)

    return fitted(build)


def hotelling(X: np.ndarray) -> Judged:
    """Return Hotelling's T-squared, its limit by the F distribution at 0.999, as SKAB has it."""
    from scipy.stats import f

    Z, d = standard(X), X.shape[1]
    inverse = np.linalg.inv(np.cov(Z[:TRAIN].T))
    t2 = np.einsum("ij,jk,ik->i", Z, inverse, Z)
    factor = d * (TRAIN - 1) * (TRAIN + 1) / (TRAIN * (TRAIN - d))
    return Judged(np.log1p(t2), t2 > factor * f.ppf(0.999, d, TRAIN - d))


def residual(kept: float) -> Method:
    """Return the squared residual outside the components that hold a share of the variance."""

    def judge(X: np.ndarray) -> Judged:
        Z = standard(X)
        _, values, axes = np.linalg.svd(Z[:TRAIN], full_matrices=False)
        share = np.cumsum(values**2) / np.sum(values**2)
        rest = axes[int(np.searchsorted(share, kept)) + 1 :]
        q = np.sum((Z @ rest.T) ** 2, axis=1)
        return Judged(np.log1p(q), q > np.quantile(q[:TRAIN], 0.999))

    return judge


def half_space(**params: Any) -> Method:
    """Return River's half-space trees, which learn the 400 rows one after another."""

    def judge(X: np.ndarray) -> Judged:
        from river import anomaly

        rows = [dict(enumerate(row)) for row in standard(X).tolist()]
        limits = dict.fromkeys(range(X.shape[1]), (-4.0, 4.0))
        model = anomaly.HalfSpaceTrees(limits=limits, seed=0, **({"window_size": 200} | params))
        for row in rows[:TRAIN]:
            model.learn_one(row)
        scores = np.array([model.score_one(row) for row in rows])
        return Judged(scores, scores > np.quantile(scores[:TRAIN], 0.95))

    return judge


MORE = {"support": 0.1, "rule": rules.Norma(support_rate=0.1)}
SLOW = {"support": 0.1, "rule": rules.Norma(threshold_rate=0.1, support_rate=0.1)}
GOES_ON = "onkel: NoveltyDetector, goes on"
METHODS: dict[str, dict[str, Method]] = {
    "onkel: NoveltyDetector, 400 rows": {
        "as it comes": frozen(),
        "five passes": frozen(passes=5),
        "support 0.1": frozen(**MORE),
    },
    GOES_ON: {
        "as it comes": going_on(),
        "support 0.1": going_on(**MORE),
        "support 0.1, threshold_rate 0.1": going_on(**SLOW),
    },
    "scikit-learn: isolation forest": {
        "as it comes": forest(), "400 rows a tree": forest(max_samples=TRAIN),
        "half of the features": forest(max_features=0.5),
    },
    "scikit-learn: OneClassSVM": {
        "as it comes": one_class(1 / 8), "gamma = 3/d": one_class(3 / 8),
        "gamma = 1/3d": one_class(1 / 24),
    },
    "scikit-learn: local outlier factor": {
        "as it comes": neighbours(20), "5 neighbours": neighbours(5),
        "50 neighbours": neighbours(50),
    },
    "T-squared": {"as it comes": hotelling},
    "Q (PCA residual)": {
        "as it comes": residual(0.85), "0.7 kept": residual(0.7), "0.5 kept": residual(0.5),
    },
    "River: half-space trees": {
        "as it comes": half_space(), "25 trees": half_space(n_trees=25),
        "height 5": half_space(height=5),
    },
}  # fmt: skip


# -- tables and figures ------------------------------------------------------------------------


def own(found: dict[str, dict[str, list[Judged]]], truth: list[np.ndarray]) -> list[Row]:
    """Return a line per method, with its own threshold."""
    rows = [
        {"method": name, "setting": setting}
        | measure([j.alerts for j in judged], truth)
        | {"first minute %": 100 * minute([j.alerts for j in judged], truth)}
        for name, settings in found.items()
        for setting, judged in settings.items()
    ]
    return sorted(rows, key=lambda row: -row["F1"])


def choose(settings: dict[str, list[Judged]], truth: list[np.ndarray]) -> tuple[str, float]:
    """Return the setting and reach that are best on the first files."""

    def score(pair: tuple[str, float]) -> float:
        alerts = [beyond(j.scores, pair[1]) for j in settings[pair[0]][:TUNE]]
        return measure(alerts, truth[:TUNE])["F1"]

    return max([(name, k) for name in settings for k in REACH], key=score)  # the first of equals


def tuned(
    found: dict[str, dict[str, list[Judged]]], truth: list[np.ndarray]
) -> tuple[list[Row], dict[str, list[np.ndarray]]]:
    """Return a line per method with the common threshold, and its alerts."""
    rows, alerts = [], {}
    for name, settings in found.items():
        setting, reach = choose(settings, truth)
        alerts[name] = [beyond(j.scores, reach) for j in settings[setting]]
        row = {"method": name} | measure(alerts[name][TUNE:], truth[TUNE:])
        rows.append(row | {"setting": setting, "k": reach})
    return sorted(rows, key=lambda row: -row["F1"]), alerts


def draw(truth: list[np.ndarray], alerts: dict[str, list[np.ndarray]], order: list[str]) -> Any:
    """Draw when each method alerts, over all files that count, beside when it should."""
    fig, (axis,) = canvas(1, 1, (10, 3.6))
    shown = [f[TUNE:] for f in [truth, *(alerts[name] for name in order)]]
    labels = ["valve closed", *order]
    length = min(len(part) for part in shown[0])
    for k, (name, parts) in enumerate(zip(labels, shown, strict=True)):
        share = np.mean([part[:length] for part in parts], axis=0)
        colour = INK if k == 0 else ACCENT if name.startswith("onkel") else ALARM
        axis.fill_between(np.arange(length), -k - 0.4, -k - 0.4 + 0.8 * running(share, 10),
                          color=colour, alpha=0.8, lw=0)  # fmt: skip
    axis.axvline(TRAIN, color=SOFT, lw=1, ls="--")
    axis.set_yticks([-k for k in range(len(labels))], labels)
    axis.set(xlabel="seconds since the file began", xlim=(0, length))
    return fig


def run(quick: bool, data: Path | None) -> Study:
    """Run every method on every file."""
    if data is None or not has(data, FILE):
        return absent(TITLE, FILE)
    parts: list[Feed] = feeds.skab(data)[: 6 if quick else None]
    truth = [part.y > 0 for part in parts]
    rows = [part.X.astype(float) for part in parts]
    few = 1 if quick else None
    found = {
        name: {s: [judge(X) for X in rows] for s, judge in list(settings.items())[:few]}
        for name, settings in METHODS.items()
    }
    lines, alerts = tuned({n: s for n, s in found.items() if n != GOES_ON}, truth)
    alerts[GOES_ON] = [j.alerts for j in found[GOES_ON]["as it comes"]]
    board = [
        {"method": name, "F1": f1, "FAR %": far, "MAR %": mar}
        for name, (f1, far, mar) in LEADERBOARD.items()
    ]
    tables = [
        (f"Common threshold, chosen on files 0 to 3; files 4 to {len(parts) - 1}", lines),
        (f"Own threshold, files 0 to {len(parts) - 1}", own(found, truth)),
        ("Published leaderboard: 34 files, of which these are 16", board),
    ]
    caption = "Share of the files in alert, second by second; dashed: end of the normal rows."
    text = (__doc__ or "").split("\n\n", 1)[1].strip()
    figure = draw(truth, alerts, [*(row["method"] for row in lines), GOES_ON])
    return Study(TITLE, text, tables, [(caption, figure)])


if __name__ == "__main__":
    raise SystemExit(command("drift_skab", run, __doc__ or ""))
