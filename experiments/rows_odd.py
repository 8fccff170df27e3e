"""A log of payments with planted oddities, and who notices them.

Usual rows: shops by name, each with its own range of amounts, in office hours, with a short note.
After the first fifth, 6 of 1000 rows are made odd in one of six ways. `Detector` gets the rows as
they are and alerts by its own promise (nu = 0.01); its rate is that on usual rows. Peers get, made
by hand from the first fifth, columns of 0 and 1 for shops and countries, 64 hashed words, hour and
weekday, and a flag for what is missing; and the limit that lets exactly 1 of 100 usual rows
alert, found afterwards.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import onkel

ROWS, SEED, NU, SHARE = 40_000, 7, 0.01, 0.006
SHOPS = ("bakery", "books", "coffee", "flights", "fuel", "grocer", "hotel", "pharmacy", "shoes",
         "tools")  # fmt: skip
PRICES = dict(zip(SHOPS, (6, 20, 4, 420, 60, 45, 210, 15, 90, 75), strict=True))
COUNTRIES = ("AT", "CH", "DE", "FR", "IT")
NOTES = ("paid by card at till", "paid by phone at till", "paid by card online, order",
         "refund paid by card at till", "paid by card with a voucher, number")  # fmt: skip
KINDS = ("a shop never seen", "Sunday 03:00", "an odd pair", "a gap", "words never seen",
         "a number far off")  # fmt: skip
"""In the order of the generator: each kind is one way to be odd."""


def log(rows: int, seed: int = SEED) -> tuple[Any, np.ndarray]:
    """Return the table, and for each row 0 or which kind of oddity it is, from 1."""
    import pandas

    rng = np.random.default_rng(seed)
    shop = rng.choice(SHOPS, rows, p=(share := np.arange(10, 0, -1.0)) / share.sum())
    days = np.sort(rng.integers(rows // 200, size=rows))
    week, day = np.divmod(days, 5)
    hours = np.clip(rng.normal(13, 2.2, rows), 8, 17.99)
    seconds = ((week * 7 + day) * 86_400 + hours * 3600).astype(np.int64)
    notes = rng.choice(NOTES, rows), rng.integers(1000, 10_000, rows)
    price = np.array([PRICES[s] for s in shop])
    X = pandas.DataFrame({
        "when": np.datetime64("2024-01-01T00:00:00") + seconds.astype("timedelta64[s]"),
        "shop": shop, "country": rng.choice(COUNTRIES, rows, p=(0.1, 0.1, 0.5, 0.2, 0.1)),
        "amount": price * np.exp(0.3 * rng.normal(size=rows)),
        "milliseconds": rng.normal(120, 15, rows), "online": rng.random(rows) < 0.3,
        "note": [f"{note} {n}" for note, n in zip(*notes, strict=True)],
    })  # fmt: skip
    kind = np.where(rng.random(rows) < SHARE, rng.integers(1, len(KINDS) + 1, rows), 0)
    kind[: rows // 5] = 0
    plant(X, kind, week, rng)
    return X, kind


def plant(X: Any, kind: np.ndarray, week: np.ndarray, rng: np.random.Generator) -> None:
    """Make rows odd, each in its way."""
    at = {k + 1: np.flatnonzero(kind == k + 1) for k in range(len(KINDS))}
    X.loc[at[1], "shop"] = [f"shop {i}" for i in rng.permutation(len(at[1]))]
    sunday = np.datetime64("2024-01-07T03:00:00") + week[at[2]] * np.timedelta64(7, "D")
    X.loc[at[2], "when"] = sunday
    cheap = rng.choice(("coffee", "bakery"), len(at[3]))
    X.loc[at[3], "shop"], X.loc[at[3], "amount"] = cheap, rng.uniform(150, 400, len(at[3]))
    X.loc[at[4], "milliseconds"] = np.nan
    X.loc[at[5], "note"] = "urgent wire transfer, gift vouchers, keep secret"
    X.loc[at[6], "milliseconds"] = rng.choice((20.0, 220.0), len(at[6]))


# -- who is asked ----------------------------------------------------------------------------------


def alerts(X: Any, model: Any = None) -> tuple[np.ndarray, float]:
    """Return where a model of onkel alerts, Detector if none is given, and the seconds."""
    model, found, began = model or onkel.Detector(nu=NU), [], time.process_time()
    for a in range(0, len(X), 1000):
        found.append(model.predict_then_learn(X[a : a + 1000]) == -1)
    return np.concatenate(found), time.process_time() - began


def by_hand(X: Any) -> np.ndarray:
    """Return columns of numbers in 0 to 1, from what the first fifth holds."""
    from sklearn.feature_extraction.text import HashingVectorizer

    first = len(X) // 5
    parts = [(X[name].to_numpy(str)[:, None] == np.unique(X[name].to_numpy(str)[:first]))
             for name in ("shop", "country")]  # fmt: skip
    parts.append(
        HashingVectorizer(n_features=64, norm=None, binary=True).transform(X["note"]).toarray()
    )
    numbers = np.column_stack([X["amount"], X["milliseconds"], X["online"], X["when"].dt.hour,
                               X["when"].dt.dayofweek]).astype(float)  # fmt: skip
    gone = np.isnan(numbers[:, 1])
    numbers[gone, 1] = numbers[:first, 1].mean()
    low, high = numbers[:first].min(axis=0), numbers[:first].max(axis=0)
    scaled = (numbers - low) / (high - low)
    return np.hstack([*parts, scaled, gone[:, None]]).astype(float)


def trees(X: Any) -> np.ndarray:
    """Return the scores of River's half-space trees, row by row."""
    from river import anomaly

    model, found = anomaly.HalfSpaceTrees(seed=SEED), []
    for row in by_hand(X).clip(0, 1).tolist():
        x = dict(enumerate(row))
        found.append(model.score_one(x))
        model.learn_one(x)
    return np.array(found)


def forest(X: Any) -> np.ndarray:
    """Return the scores of scikit-learn's isolation forest, which learned the first fifth."""
    from sklearn.ensemble import IsolationForest

    Z = by_hand(X)
    model = IsolationForest(random_state=SEED).fit(Z[: len(Z) // 5])
    return np.asarray(-model.score_samples(Z))


def line(name: str, said: np.ndarray, kind: np.ndarray, seconds: float) -> dict[str, Any]:
    """Return which share of each kind was found, and the rate on usual rows, after a fifth."""
    late = np.arange(len(kind)) >= len(kind) // 5
    found = {word: 100 * float(said[kind == k].mean()) for k, word in enumerate(KINDS, 1)}
    rate = 100 * float(said[late & (kind == 0)].mean())
    return {"method": name, **found, "usual rows": rate, "rows/s": len(kind) / seconds}


def measured(rows: int = ROWS) -> list[dict[str, Any]]:
    """Return a line for each method, in per cent."""
    X, kind = log(rows)
    said, seconds = alerts(X)
    made = [line("Detector, rows as they are", said, kind, seconds)]
    said, seconds = alerts(X, onkel.NoveltyDetector(nu=NU, n_jobs=1))
    made.append(line("NoveltyDetector, the same", said, kind, seconds))
    numbers = X[["amount", "milliseconds"]].fillna(X["milliseconds"].mean())
    said, seconds = alerts(numbers)
    made.append(line("Detector, numbers alone", said, kind, seconds))
    usual = (kind == 0) & (np.arange(rows) >= rows // 5)
    for name, run in (("River: half-space trees", trees), ("isolation forest", forest)):
        began = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            scores = run(X)
        seconds = time.process_time() - began
        made.append(line(name, scores > np.quantile(scores[usual], 1 - NU), kind, seconds))
    return made
