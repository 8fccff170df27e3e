"""Models of every kind with parameters in every form, and the calls that are made to them; seeded.

*What is accepted can be saved, what is saved can be loaded, and goes on with the same bits; what is
refused changes nothing.* A model goes through its calls beside a twin that is loaded from its file
before each of them: both must accept or refuse it alike, answer alike, and have the same file
afterwards; a refused call must leave the file as it was. Whatever raises anything but a ValueError
(a TypeError where a model is made) is a fault of ours.
"""

from __future__ import annotations

import random
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

import numpy as np

import onkel
from helpers.accepted_values import FIELDS, ODD, WEIGHTS, labels, numbers, texts, times
from onkel import files, kernels, losses, series
from onkel.files.parameters import PARTS

MODELS = (
    "KernelClassifier", "KernelRegressor", "NoveltyDetector", "LinearClassifier",
    "LinearRegressor", "Classifier", "Regressor", "Detector",
)  # fmt: skip
SEVERAL = {"Classifier": ("KernelClassifier", "LinearClassifier"),
           "Regressor": ("KernelRegressor", "LinearRegressor")}  # fmt: skip
ROWS = (0, 1, 1, 2, 3, 7, 40, 70)


ASKED = ([[0.5, -1.0], [1e20, 0.0]], ["the cat", ""])
"""What models are asked about: numbers, texts."""


class Fault(AssertionError):
    """Something that a model must not do."""


def gaussian(X: Any, Z: Any) -> Any:
    """A kernel of the user's own."""
    return np.exp(-((X[:, None] - Z[None]) ** 2).sum(-1))


def slow(t: Any) -> Any:
    """A schedule of the user's own."""
    return 0.5 / np.sqrt(np.asarray(t, float))


# -- models ----------------------------------------------------------------------------------------


def _value(name: str, dice: random.Random) -> Any:
    """Return a value for a number of a part or an estimator: usual ones, seldom any other."""
    return dice.choice(ODD) if dice.random() < 0.06 else dice.choice(FIELDS[name])


def part(slot: str, dice: random.Random, depth: int = 0) -> Any:
    """Return a part of a kind: a word, or an object with some of its parameters set."""
    table = PARTS[slot]
    name = dice.choice([*table])
    kind = table[name]
    if kind.word and dice.random() < 0.3:
        return kind.word
    given: dict[str, Any] = {}
    for field in fields(kind):  # type: ignore[arg-type]
        if field.default is MISSING or dice.random() < 0.4:
            given[field.name] = _of_part(name, field.name, dice, depth)
    return kind(**given)


def _of_part(kind: str, name: str, dice: random.Random, depth: int) -> Any:
    if name in ("kernel", "left", "right"):
        return kernels.get(part("kernel", dice, depth + 1)) if depth < 2 else kernels.Linear()
    if name == "function":
        return gaussian
    if name == "learning_rate" and dice.random() < 0.5:
        return dice.choice([part("schedule", dice), slow, "theory", None])
    own = f"{kind} {name}"
    return _value(own if own in FIELDS else name, dice)


def model(dice: random.Random, kind: str | None = None, depth: int = 0) -> Any:
    """Return an estimator, some of its parameters set; raises what its parts raise."""
    kind = kind or dice.choice(MODELS)
    made = getattr(onkel, kind)
    given: dict[str, Any] = {}
    for name in made._names():
        if name in ("device", "precision") or dice.random() < 0.6:
            continue
        given[name] = _of_model(kind, name, dice, depth)
    return made(**given)


def _of_model(kind: str, name: str, dice: random.Random, depth: int) -> Any:
    if name in ("kernel", "rule", "expansion"):
        return part(name, dice)
    if name == "loss":
        task = getattr(onkel, kind).task
        fitting = [k for k in losses.REGISTRY.values() if k.task == task]
        chosen = dice.choice(fitting)
        return dice.choice([chosen.word, part("loss", dice), chosen()])
    if name == "members":
        count = dice.choice((1, 1, 2, 3))
        return [model(dice, dice.choice(SEVERAL[kind]), depth + 1) for _ in range(count)]
    return _value(name, dice)


def lags(dice: random.Random) -> Any:
    """Return what makes rows wider, some of its parameters set."""
    names = [n for n in series.Lags._names() if dice.random() < 0.5]
    return series.Lags(**{n: _value(f"lags {n}", dice) for n in names})


# -- calls -----------------------------------------------------------------------------------------

Call = Callable[[Any], Any]


def call(made: Any, dice: random.Random, rows: np.random.Generator, clock: list[float]) -> Call:
    """Return a call for a model: one that a user would make, or nearly."""
    estimator = getattr(made, "estimator", made)
    task, n = estimator.task, dice.choice(ROWS)
    X: Any = texts(n, dice) if _strings(estimator) else numbers(n, dice, rows)
    y = labels(n, dice) if task == "classification" else targets(n, dice, rows)
    how: dict[str, Any] = {}
    if dice.random() < 0.3:
        how["sample_weight"] = [dice.choice(WEIGHTS) for _ in range(n)]
    by_clock = _by_clock(estimator)
    if by_clock != (dice.random() < 0.05):
        how["time"] = times(n, dice, clock)
    what = dice.random()
    if what < 0.25 and n and made is estimator and "sample_weight" not in how:
        when = how.get("time")
        rest = () if task == "novelty" else (y[0],)
        more = {} if when is None else {"time": when[0]}
        return lambda m: (m.learn_one(X[0], *rest, **more), None)[1]
    rest = () if task == "novelty" else (y,)
    if what < 0.6:
        return lambda m: (m.partial_fit(X, *rest, **how), None)[1]
    return lambda m: m.predict_then_learn(X, *rest, **how)


def _strings(made: Any) -> bool:
    """Whether rows are texts, as far as that can be told."""
    try:
        return bool(getattr(made, "estimator", made)._takes()[0])
    except Exception:
        return False


def _by_clock(estimator: Any) -> bool:
    try:
        return bool(estimator.forgets_by_clock())
    except Exception:
        return False


def targets(n: int, dice: random.Random, rows: np.random.Generator) -> Any:
    """Return measurements, one or several for each row."""
    shape = (n,) if dice.random() < 0.8 else (n, 2)
    found = rows.normal(size=shape) * dice.choice((1.0, 1.0, 1.0, 0.0, 1e-300, 1e80, 1e149))
    return found + dice.choice((0.0, 0.0, 1e6, -1e140))


# -- what must hold --------------------------------------------------------------------------------


OWN: dict[str, Any] = {"kernel": gaussian, "schedule": slow, "regularizer": abs}
"""Code of ours, by the word under which a file asks for it."""


def loaded(data: bytes) -> Any:
    """Load a file, with code of our own where it was saved with some."""
    try:
        return files.loads(data)
    except ValueError as error:
        asked = str(error).rpartition("load(path, ")[2]
        own = {word: thing for word, thing in OWN.items() if f"{word}=" in asked}
        if not own:
            raise
    return files.loads(data, **own)


def _made(make: Call, thing: Any) -> tuple[bool, Any]:
    """Make a call; return whether it was accepted, and what it gave."""
    try:
        return True, make(thing)
    except ValueError as error:
        return False, str(error)


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray) and a.dtype != object:
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    return repr(a) == repr(b)


def trial(seed: Any, calls: int = 5) -> Counter[str]:
    """Make one model, and calls to it; count what was accepted and what was refused."""
    dice, found = random.Random(seed), Counter[str]()
    rows = np.random.default_rng(dice.randrange(2**32))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            made = model(dice)
            if dice.random() < 0.15:
                made = series.Series(made, lags(dice))
            getattr(made, "estimator", made).check_params()
            getattr(made, "lags", made).check_params()
        except (ValueError, TypeError):
            return Counter({"models refused": 1})
        found["models accepted"] += 1
        clock = [0.0]
        for _ in range(calls):
            made, accepted = _one(made, call(made, dice, rows, clock))
            found["calls accepted" if accepted else "calls refused"] += 1
        loaded(files.dumps(made))
    return found


def _one(made: Any, make: Call) -> tuple[Any, bool]:
    """Make a call to a model and to its twin out of a file; return the twin."""
    before = files.dumps(made)
    twin = loaded(before)
    (accepted, told), (also, said) = _made(make, made), _made(make, twin)
    after = files.dumps(made)
    if accepted != also or not _same(told, said):
        raise Fault(f"{made!r}: loaded, it says {said!s:.200}, not {told!s:.200}")
    if not accepted and after != before:
        raise Fault(f"{made!r}: a refused call has changed it ({told})")
    if files.dumps(twin) != after:
        raise Fault(f"{made!r}: loaded, it goes on otherwise")
    if made.__sklearn_is_fitted__():
        repr(made.diagnostics_)
        told, said = (_made(lambda m: m.predict(ASKED[_strings(m)]), m) for m in (made, twin))
        if not _same(told, said):
            raise Fault(f"{made!r}: loaded, it predicts {said!s:.200}, not {told!s:.200}")
    return twin, accepted
