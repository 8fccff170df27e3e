"""A study of NoveltyDetector's knobs: how fast thresholds move, what f learns from.

Each digit class of scikit-learn's load_digits is held out in turn. One pass over 70 % of the
others, in the order of ``numpy.random.default_rng(seed).permutation``; tested on the remaining
30 % and the held-out class. nu = 0.05 throughout. Reported, as means over the ten classes:

- AUC: held-out class against the rest, by the score;
- rate: alerts in the second half of the pass, as a multiple of nu (1 is the promise);
- sharp: the part of those alerts whose scores are among the lowest fraction nu of that half (1: the
  alerts are the most unusual rows; nu: they come at random, from a threshold that jumps about).

The peer is scikit-learn's OneClassSVM(nu=0.05, gamma=1/64), which sees the whole training part at
once, standardised; onkel gets raw rows, in one pass. The grid covers the rule's threshold_rate and
support_rate and the detector's support. The default is the paper's: 1, nu, None.

Two lines are looked at: the default, and (3, 0.1, 0.1), which learns from more and holds the rate
closer, and was chosen on this same data, seed 0 included. Over five seeds their AUC lies 0.006 and
0.008 below OneClassSVM's. The paper's varies more from seed to seed (it has fewer terms); its
alerts are sharper, since its threshold jumps less.

Expected, of both: a mean AUC of at least OneClassSVM's less 0.01, and a rate within 10 % of nu.
--quick runs two seeds instead of five.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from sklearn.svm import OneClassSVM

from onkel import NoveltyDetector, rules

if __package__:
    from . import harness
else:
    import harness

NU = 0.05
THRESHOLD_RATES = (1.0, 3.0, 10.0, 30.0)
SUPPORTS = (NU, 0.1, 0.2, 0.5)
SUPPORT_RATES = (None, 0.1, 1.0)
LEARNS_MORE = (3.0, 0.1, 0.1)
AUC_SLACK, RATE_SLACK = 0.01, 0.1

Split = tuple[np.ndarray, np.ndarray, np.ndarray]


def splits(seed: int) -> list[Split]:
    """Return (training rows, test rows, which of those are new) for each class held out."""
    X, y = load_digits(return_X_y=True)
    result = []
    for digit in range(10):
        usual = X[y != digit]
        usual = usual[np.random.default_rng(seed).permutation(len(usual))]
        cut = int(0.7 * len(usual))
        test = np.concatenate([usual[cut:], X[y == digit]])
        result.append((usual[:cut], test, np.arange(len(test)) >= len(usual) - cut))
    return result


def peer_auc(parts: list[Split]) -> float:
    """Return the mean AUC of OneClassSVM."""
    found = []
    for train, test, new in parts:
        scaler = StandardScaler().fit(train)
        model = OneClassSVM(nu=NU, gamma=1 / 64).fit(scaler.transform(train))
        found.append(roc_auc_score(new, -model.score_samples(scaler.transform(test))))
    return float(np.mean(found))


def measure(make: Callable[[], NoveltyDetector], parts: list[Split]) -> tuple[float, ...]:
    """Return means of AUC, second-half alert rate over nu, its sharpness, number of terms."""
    found = []
    for train, test, new in parts:
        model = make()
        alerts = make().predict_then_learn(train)[len(train) // 2 :] == -1
        late = model.predict_then_learn(train, output="score")[len(train) // 2 :]
        lowest = late <= np.quantile(late, NU)
        auc = roc_auc_score(new, -model.score_samples(test))
        sharp = np.mean(lowest[alerts]) if alerts.any() else np.nan
        found.append((auc, alerts.mean() / NU, sharp, model.n_terms_))
    return tuple(float(v) for v in np.mean(found, axis=0))


def setting(threshold_rate: float, support: float, support_rate: float | None) -> Any:
    """Return a function that makes the detector of one point of the grid."""
    rule = rules.Norma(threshold_rate=threshold_rate, support_rate=support_rate)
    return lambda: NoveltyDetector(nu=NU, support=support, rule=rule)


def summary(figures: list[tuple[float, ...]], peers: list[float]) -> dict[str, Any]:
    """Return means and spreads over the seeds."""
    auc, rate, sharp, terms = np.array(figures).T
    return {
        "AUC": float(auc.mean()),
        "AUC sd": float(auc.std()),
        "less SVM": float(np.mean(auc - np.array(peers))),
        "rate/nu": float(rate.mean()),
        "rate sd": float(rate.std()),
        "sharp": float(sharp.mean()),
        "terms": float(terms.mean()),
    }


def main(argv: list[str] | None = None) -> int:
    """Run, print, check, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two seeds instead of five")
    args = parser.parse_args(argv)
    parts = [splits(seed) for seed in range(2 if args.quick else 5)]
    peers = [peer_auc(p) for p in parts]
    default = [measure(lambda: NoveltyDetector(nu=NU), p) for p in parts]
    rows = [{"t.rate": "default", "support": "", "s.rate": ""} | summary(default, peers)]
    watched = {"default": rows[0]}
    for point in product(THRESHOLD_RATES, SUPPORTS, SUPPORT_RATES):
        figures = [measure(setting(*point), p) for p in parts]
        names = dict(zip(("t.rate", "support", "s.rate"), point, strict=True))
        rows.append(names | summary(figures, peers))
        if point == LEARNS_MORE:
            watched["learns more"] = rows[-1]
    print(harness.table(rows))
    print(f"OneClassSVM: AUC {np.mean(peers):.4f}, sd {np.std(peers):.4f} over {len(peers)} seeds")
    gaps = [figure[0] - peer for figure, peer in zip(default, peers, strict=True)]
    print("default, AUC less OneClassSVM's, seed by seed:", " ".join(f"{g:+.4f}" for g in gaps))
    return harness.finish(
        "novelty_defaults", {"rows": rows, "peer_auc": peers, "gaps": gaps}, checks_of(watched)
    )


def checks_of(watched: dict[str, dict[str, Any]]) -> list[harness.Check]:
    """Return what is expected of some lines of the table, by name."""
    checks = []
    for name, row in watched.items():
        checks.append(harness.Check(f"{name}, AUC less SVM", row["less SVM"], low=-AUC_SLACK))
        rate = harness.Check(f"{name}, rate/nu", row["rate/nu"], 1 - RATE_SLACK, 1 + RATE_SLACK)
        checks.append(rate)
    return checks


if __name__ == "__main__":
    raise SystemExit(main())
