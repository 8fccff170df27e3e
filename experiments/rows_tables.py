"""The tables of the study of mixed rows: what each is, in which order, and who chose by it.

A table is a frame as its owner would hand it over: words, times, booleans, numbers, gaps. Files
lie in the folder that ONKEL_DATA names; the others are made here, and their truth is known.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

if __package__:
    from . import drift_texts
    from .front_door_streams import CLASSES, NUMBERS, coded
else:
    import drift_texts
    from front_door_streams import CLASSES, NUMBERS, coded

ROWS, SEED = 20_000, 0
"""Rows of a table made here, and their seed."""
FLIGHTS = 100_000
CHOSEN = ("adult", "airlines", "mushroom", "bike_hour", "sms_spam")
"""Sets by which the weight of a category, and how a text is coded, were chosen."""


@dataclass
class Table:
    """A frame in order, each row with a label 0, 1, ... or a number."""

    name: str
    task: str
    X: Any
    y: np.ndarray
    about: str
    types: dict[str, str] = field(default_factory=dict)
    best: float | None = None
    """The error of who knows the truth, where rows are made here."""
    classes: int = field(init=False)

    def __post_init__(self) -> None:
        self.classes = 0
        if self.task == CLASSES:
            self.y = np.unique(self.y, return_inverse=True)[1].astype(np.int64)
            self.classes = int(self.y.max()) + 1
        else:
            self.y = np.asarray(self.y, float)

    @property
    def chosen(self) -> str:
        """Whether it, or what it is made of, had a part in choosing."""
        return "yes" if self.name.startswith(CHOSEN) else "no"

    @property
    def texts(self) -> bool:
        """Whether it is one column of texts."""
        return list(self.X.columns) == ["message"]

    def head(self, rows: int) -> Table:
        """Return the first rows."""
        return Table(self.name, self.task, self.X[:rows], self.y[:rows], self.about, self.types,
                     self.best)  # fmt: skip

    @cached_property
    def dicts(self) -> list[dict[str, Any]]:
        """The rows as River takes them: categories are words, what is missing is left out.

        A time becomes, by hand, the day as a number, and hour, weekday and month as words.
        """
        columns: dict[str, list[Any]] = {}
        for name in self.X.columns:
            columns.update(_for_river(name, self.X[name], self.types.get(name)))
        names = list(columns)
        rows = zip(*columns.values(), strict=True)
        return [{n: v for n, v in zip(names, row, strict=True) if v is not None} for row in rows]


def _for_river(name: str, column: Any, kind: str | None) -> dict[str, list[Any]]:
    if column.dtype.kind == "M":
        days = (column - column.iloc[0]).dt.total_seconds() / 86_400
        words = {"hour": column.dt.hour, "weekday": column.dt.dayofweek, "month": column.dt.month}
        made = {f"{name} {part}": [str(v) for v in values] for part, values in words.items()}
        return {f"{name} day": days.tolist(), **made}
    gone = column.isna().tolist()
    number = kind is None and column.dtype.kind in "iuf"
    read: Callable[[Any], Any] = float if number else str
    return {name: [None if g else read(v) for g, v in zip(gone, column, strict=True)]}


# -- from files ------------------------------------------------------------------------------------


def _frame(data: Path, name: str) -> Any:
    import pandas

    text = gzip.decompress((data / f"{name}.csv.gz").read_bytes())
    return pandas.read_csv(BytesIO(text), keep_default_na=False)


def adult(data: Path) -> Table:
    """Return the census as it is kept, the survey's weight included."""
    frame = _frame(data, "adult")
    X = frame.drop(columns=["part", "income"])
    return Table("adult", CLASSES, X, frame["income"].to_numpy(str), "incomes: 8 words, 6 numbers")


def adult_numbers(data: Path) -> Table:
    """Return its numbers alone."""
    whole = adult(data)
    X = whole.X.select_dtypes("number")
    return Table(
        "adult, its numbers alone", CLASSES, X, whole.y, "what a model of numbers could use"
    )


def a9a(data: Path) -> Table:
    """Return the same people, row for row, as others have coded them."""
    import pandas

    with np.load(data / "a9a.npz") as held:
        X = np.concatenate([held["X_train"], held["X_test"]]).astype(np.float32)
        y = np.concatenate([held["y_train"], held["y_test"]])
    frame = pandas.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    return Table("adult, as a9a", CLASSES, frame, y, "the same people: 123 columns of 0 and 1")


def _flights(data: Path, rows: int) -> tuple[Any, np.ndarray]:
    import pandas

    with np.load(data / "airlines.npz") as held:
        names = held["feature_names"].tolist()
        return pandas.DataFrame(held["X"][:rows], columns=names), held["y"][:rows]


CATEGORIES = ("Airline", "Flight", "AirportFrom", "AirportTo", "DayOfWeek")


def airlines(data: Path) -> Table:
    """Return flights whose codes are said to be categories."""
    X, y = _flights(data, FLIGHTS)
    about = "flights, late or not: 5 categories of up to 7000 values, 2 numbers"
    return Table("airlines", CLASSES, X, y, about, dict.fromkeys(CATEGORIES, "category"))


def airlines_numbers(data: Path) -> Table:
    """Return the same with the codes taken as numbers."""
    X, y = _flights(data, FLIGHTS)
    return Table(
        "airlines, codes as numbers", CLASSES, X, y, "the same, its codes taken as numbers"
    )


def mushroom(data: Path) -> Table:
    """Return 22 columns of letters."""
    frame = _frame(data, "mushroom")
    return Table("mushroom", CLASSES, frame.drop(columns="class"), frame["class"].to_numpy(str),
                 "22 columns of letters")  # fmt: skip


def mushroom_coded(data: Path) -> Table:
    """Return the same as columns of 0 and 1."""
    import pandas

    whole = mushroom(data)
    X = coded(whole.X.to_numpy(str).tolist())
    frame = pandas.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    return Table(
        "mushroom, one-hot", CLASSES, frame, whole.y, "a column of 0 and 1 for each letter"
    )


def sms(data: Path) -> Table:
    """Return short messages, one column of texts."""
    import pandas

    texts, spam = drift_texts.load(data)
    return Table("sms_spam", CLASSES, pandas.DataFrame({"message": texts}), spam,
                 "short messages, spam or not", {"message": "text"})  # fmt: skip


def bike(data: Path) -> Table:
    """Return bicycles rented in an hour, with the time as a time."""
    import pandas

    with np.load(data / "bike_hour.npz") as held:
        names, X, y = held["feature_names"].tolist(), held["X"].astype(float), held["y"]
        days = held["day_index"].astype("timedelta64[D]")
    column = {name: X[:, j] for j, name in enumerate(names)}
    weather = np.array(["clear", "mist", "light rain", "heavy rain"])
    frame = pandas.DataFrame({
        "when": np.datetime64("2011-01-01T00") + days + column["hr"].astype("timedelta64[h]"),
        "holiday": column["holiday"] > 0, "workingday": column["workingday"] > 0,
        "weather": weather[column["weathersit"].astype(int) - 1],
        **{name: column[name] for name in ("temp", "atemp", "hum", "windspeed")},
    })  # fmt: skip
    return Table("bike_hour", NUMBERS, frame, y, "bicycles rented: a time, weather, 4 numbers")


def bike_numbers(data: Path) -> Table:
    """Return the same with year, month, hour and weekday as the numbers that the file has."""
    import pandas

    with np.load(data / "bike_hour.npz") as held:
        names = held["feature_names"].tolist()
        X, y = pandas.DataFrame(held["X"].astype(float), columns=names), held["y"]
    return Table("bike_hour, as numbers", NUMBERS, X, y, "the same, the file's 12 numbers")


FROM_FILES: dict[str, tuple[tuple[str, ...], Callable[[Path], Table]]] = {
    "adult": (("adult.csv.gz",), adult),
    "adult, as a9a": (("a9a.npz",), a9a),
    "adult, its numbers alone": (("adult.csv.gz",), adult_numbers),
    "airlines": (("airlines.npz",), airlines),
    "airlines, codes as numbers": (("airlines.npz",), airlines_numbers),
    "mushroom": (("mushroom.csv.gz",), mushroom),
    "mushroom, one-hot": (("mushroom.csv.gz",), mushroom_coded),
    "sms_spam": (("sms_spam.tsv.gz",), sms),
    "bike_hour": (("bike_hour.npz",), bike),
    "bike_hour, as numbers": (("bike_hour.npz",), bike_numbers),
}


# -- made here -------------------------------------------------------------------------------------


def _words(rng: np.random.Generator, rows: int, values: int, name: str) -> tuple[np.ndarray, Any]:
    """Return places in a list of words, few of them frequent, and the words."""
    share = 1 / np.arange(1, values + 1)
    at = rng.choice(values, rows, p=share / share.sum())
    return at, np.array([f"{name}{i}" for i in range(values)])[at]


def _tossed(rng: np.random.Generator, logit: np.ndarray) -> tuple[np.ndarray, float]:
    """Return labels of these chances, and the mistakes of who knows the chances, in per cent."""
    p = 1 / (1 + np.exp(-logit))
    return rng.random(len(p)) < p, float(100 * np.minimum(p, 1 - p).mean())


def rule(rows: int = ROWS, seed: int = SEED) -> Table:
    """Return orders: what an amount means depends on the product, and the country counts too."""
    import pandas

    rng = np.random.default_rng(seed)
    country, countries = _words(rng, rows, 12, "country")
    product, products = _words(rng, rows, 40, "product")
    amount, age = rng.normal(size=rows), rng.normal(size=rows)
    slope, shift = 4 * rng.choice([-1, 1], 40), 2 * rng.normal(size=12)
    y, best = _tossed(rng, slope[product] * amount + shift[country] + 2 * (np.abs(age) > 1) - 0.6)
    X = pandas.DataFrame({"country": countries, "product": products,
                          "amount": np.exp(3 + amount), "age": 40 + 12 * age})  # fmt: skip
    return Table("made: a rule", CLASSES, X, y, rule.__doc__ or "", best=best)


def drift(rows: int = ROWS, seed: int = SEED) -> Table:
    """Return calls: what each of 20 agents means wanders; two numbers mean what they meant."""
    import pandas

    rng = np.random.default_rng(seed)
    agent, agents = _words(rng, rows, 20, "agent")
    turn = 2 * np.pi * (np.arange(rows) / 8000 + rng.random(20)[agent])
    a, b = rng.normal(size=rows), rng.normal(size=rows)
    y, best = _tossed(rng, 4 * np.sin(turn) + 1.5 * a - 0.5 * b)
    X = pandas.DataFrame({"agent": agents, "seconds": 100 + 30 * a, "calls before": b})
    return Table("made: drift", CLASSES, X, y, drift.__doc__ or "", best=best)


def noise(rows: int = ROWS, seed: int = SEED) -> Table:
    """Return visits: columns of a thousand and of 200 values that mean nothing, among others."""
    import pandas

    rng = np.random.default_rng(seed)
    plan, plans = _words(rng, rows, 5, "plan")
    device, devices = _words(rng, rows, 8, "device")
    idle = {"campaign": rng.integers(1000, size=rows), "branch": rng.integers(200, size=rows)}
    a = rng.normal(size=rows)
    level = np.array([-3, 3, -1, 2, 0])[plan]
    y, best = _tossed(rng, level + np.where(device % 2, 3, -3) * a)
    words = {name: np.char.add(name[0], values.astype(str)) for name, values in idle.items()}
    X = pandas.DataFrame({"plan": plans, "device": devices, **words, "minutes": 10 + 4 * a})
    return Table("made: noise", CLASSES, X, y, noise.__doc__ or "", best=best)


def gaps(rows: int = ROWS, seed: int = SEED) -> Table:
    """Return loans: an income that is missing says more than one that is there."""
    import pandas

    rng = np.random.default_rng(seed)
    job, jobs = _words(rng, rows, 10, "job")
    income, owns = rng.normal(size=rows), rng.random(rows) < 0.4
    gone = rng.random(rows) < 0.25
    logit = (
        np.where(gone, 2.5, -1.2 * income) + np.where(owns, -1.5, 0.5) + rng.normal(size=10)[job]
    )
    y, best = _tossed(rng, 1.5 * logit)
    jobs = jobs.astype(object)
    jobs[rng.random(rows) < 0.1] = None
    X = pandas.DataFrame(
        {"job": jobs, "income": np.where(gone, np.nan, 30 + 9 * income), "owns": owns}
    )
    return Table("made: gaps", CLASSES, X, y, gaps.__doc__ or "", best=best)


def trips(rows: int = ROWS, seed: int = SEED) -> Table:
    """Return minutes of trips: a route, rush hours but not on Sundays, rain; half a year."""
    import pandas

    rng = np.random.default_rng(seed)
    route, routes = _words(rng, rows, 60, "route")
    seconds = np.sort(rng.integers(180 * 86_400, size=rows))
    when = np.datetime64("2024-01-01T00:00:00") + seconds.astype("timedelta64[s]")
    hour, day = seconds / 3600 % 24, seconds // 86_400 % 7
    rush = np.exp(-((hour - 8) ** 2) / 4) + np.exp(-((hour - 17.5) ** 2) / 6)
    rain, load = rng.random(rows) < 0.2, rng.normal(size=rows)
    base = rng.uniform(10, 50, 60)[route]
    truth = base * (1 + 0.6 * rush * (day < 6) + 0.25 * rain) + 2 * load
    y = truth + 3 * rng.normal(size=rows)
    X = pandas.DataFrame({"when": when, "route": routes, "rain": rain, "load": 5 + load})
    return Table(
        "made: trips", NUMBERS, X, y, trips.__doc__ or "", best=float(np.abs(y - truth).mean())
    )


MADE: dict[str, Callable[[], Table]] = {
    "made: a rule": rule, "made: drift": drift, "made: noise": noise, "made: gaps": gaps,
    "made: trips": trips,
}  # fmt: skip


def names() -> list[str]:
    """Return every table's name."""
    return [*FROM_FILES, *MADE]


def make(name: str, data: Path | None) -> Table | None:
    """Return a table; None where its file is not there."""
    if name in MADE:
        return MADE[name]()
    files, load = FROM_FILES[name]
    if data is None or not all((data / file).exists() for file in files):
        return None
    return load(data)
