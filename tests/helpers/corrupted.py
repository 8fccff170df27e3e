"""Model files that are wrong in every way we can think of, seeded; and what must become of them.

Two families. *Damaged* files have bytes that changed by accident: each must be refused. *Forged*
ones were changed by somebody who then put the digest right: they are refused, or they hold a model
that is exactly what the file says and can be used without harm.
"""

from __future__ import annotations

import copy
import json
import random
import struct
import warnings
from typing import Any

import numpy as np

from onkel import (
    Classifier,
    Detector,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    NoveltyDetector,
    Regressor,
    expansions,
    files,
    kernels,
    losses,
    rules,
    schedules,
)
from onkel.files import container
from onkel.files import model as models
from onkel.series import Lags, Series

NASTY: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 64, 2**31, 2**53, 2**63, -(2**63), 10**400, 0.5, 1.5, -0.0,
    1e-320, 1e308, "", "auto", "theory", "x" * 300, "\0", [], {}, [[]], [1, 2], {"float": "nan"},
    {"float": "inf"}, {"tuple": []}, {"array": "parameters.0"}, {"array": "learner.state"},
    {"scalar": "float64", "value": 1.0}, {"scalar": "int8", "value": 300}, {"dict": [[1, 2]]},
    {"own": "f", "slot": "kernel"}, {"function": "f", "slot": "schedule"},
    {"part": "kernel/gaussian", "parameters": {"gamma": 0.5}},
    {"part": "kernel/polynomial", "parameters": {"degree": 1000}},
    {"part": "loss/squared", "parameters": {}}, {"part": "rule/alma", "parameters": {}},
    {"part": "expansion/centers", "parameters": {"centers": 2**31, "sample": None}},
    {"part": "expansion/centers", "parameters": {"centers": 5, "sample": 2**31}},
    {"part": "expansion/window", "parameters": {"tolerance": 1e-300}},
    {"part": "expansion/tree", "parameters": {}},
    {"part": "kernel/spectrum", "parameters": {"length": 10**6}},
    {"estimator": "KernelClassifier", "parameters": {}},
    {"estimator": "Classifier", "parameters": {}},
    {"estimator": "NoveltyDetector", "parameters": {"nu": 0.2}},
)  # fmt: skip
NUMBERS = (0.0, -0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, float("nan"), float("inf"), -float("inf"))


def samples() -> dict[str, tuple[bytes, Any]]:
    """Return small files of every kind of model, and rows that each of them takes."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 3)), rng.normal(size=90)
    labels = np.array(["a", "b", "c"])[rng.integers(0, 3, 90)]
    texts = ["the cat", "a dog", "cat and dog", "☃ snow", "dog"] * 3
    additive = kernels.Additive(kernels.Exponential(), weights="mean")
    window, sample = expansions.Window(terms=20), expansions.Centers(6, sample=40)
    norma = rules.Norma(learning_rate=schedules.InverseSqrt(0.5), track_norm=True)
    made: dict[str, tuple[Any, Any]] = {
        "new": (KernelClassifier(kernel=kernels.Gaussian(0.2) * kernels.Linear()), X),
        "classifier": (KernelClassifier(expansion=window).partial_fit(X, labels), X),
        "binary": (KernelClassifier(rule="romma").partial_fit(X.astype("f4"), y > 0), X),
        "regressor": (KernelRegressor(loss=losses.Huber(nu=0.1)).partial_fit(X, y), X),
        "norm": (KernelRegressor(rule=norma, average=True).partial_fit(X, X), X),
        "tree": (KernelRegressor(kernel=additive, expansion="tree").partial_fit(X, y), X),
        "centers": (KernelClassifier(expansion=sample).partial_fit(X[:30], labels[:30]), X),
        "given": (KernelRegressor(expansion=expansions.Centers(X[:4])).partial_fit(X, y), X),
        "detector": (NoveltyDetector(average=True, recent=50, warmup=9).partial_fit(X), X),
        "timed": (
            KernelRegressor(rule=rules.Norma(memory="30s"), missing="mean").partial_fit(
                np.where(X > 2, np.nan, X), y, time=np.arange(90) * 2.0
            ),
            X,
        ),
        "squares": (_squares(6).partial_fit(X, y), X),
        "grown": (_squares(3).partial_fit(np.tile(X, (4, 1)), np.tile(y, 4)), X),
        "linear": (LinearClassifier(p=3.0, scale=False).partial_fit(X, labels), X),
        "weights": (LinearRegressor(average=True).partial_fit(X, X), X),
        "texts": (KernelClassifier(kernel="spectrum").partial_fit(texts, labels[:15]), texts),
        **_mixtures(X, y, labels),
        **_detectors(X),
    }
    return {name: (files.dumps(model), rows) for name, (model, rows) in made.items()}


def _squares(centres: int) -> Any:
    """Return a model of second order, whose centres follow the rows."""
    return KernelRegressor("gaussian", "squared", "rls", expansions.Centers(centres, linear=True))


def _detectors(X: Any) -> dict[str, tuple[Any, Any]]:
    """Return detectors that judge already, one of them of a series."""
    detector = Detector(nu=0.2, terms=30, warmup=20, recent=40)
    season = Lags(lags=1, shape=3, differences=True, season=["auto", 4], forecast=2)
    return {
        "densities": (copy.deepcopy(detector).partial_fit(X), X),
        "series": (Series(detector, season).partial_fit(X), X),
    }


def _mixtures(X: Any, y: Any, labels: Any) -> dict[str, tuple[Any, Any]]:
    """Return a mixture for each task, and one that has learned nothing."""
    window = expansions.Window(terms=30)
    members = [
        KernelClassifier(kernels.Gaussian(0.3), expansion=window),
        LinearClassifier(),
        KernelClassifier(kernels.Laplacian(0.3), rule="projection", expansion=window),
        KernelClassifier(expansion=expansions.Centers(4, sample=40)),
    ]
    targets = np.column_stack([y, -y])
    return {
        "odds": (Classifier(members=members).partial_fit(X, labels), X),
        "means": (Regressor().partial_fit(X.astype("f4"), targets), X),
        "bank": (Classifier(members=members), X),
        "clocks": (
            Classifier(memory="1h").partial_fit(X, labels, time=60.0 * np.arange(len(X))),
            X,
        ),
    }


# -- damaged ---------------------------------------------------------------------------------------


def damaged(data: bytes, rng: random.Random) -> bytes:
    """Return the file with an accident; never the same bytes."""
    while True:
        changed = rng.choice(ACCIDENTS)(data, rng)
        if changed != data:
            return changed


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data))]


def _bit(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]


def _begin_bit(data: bytes, rng: random.Random) -> bytes:
    return _bit(data[:200], rng) + data[200:]


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.randbytes(rng.choice((1, 8, 64))) + data[at:]


def _remove(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + data[at + rng.choice((1, 8, 64)) :]


def _zeros(data: bytes, rng: random.Random) -> bytes:
    at, n = rng.randrange(len(data)), rng.choice((1, 16, 512))
    return data[:at] + bytes(len(data[at : at + n])) + data[at + n :]


def _length(data: bytes, rng: random.Random) -> bytes:
    return rng.choice((2**64 - 1, 2**63, 2**40, len(data), 0, 7)).to_bytes(8, "little") + data[8:]


def _swap(data: bytes, rng: random.Random) -> bytes:
    a, b = sorted(rng.sample(range(len(data)), 2))
    return data[b:] + data[a:b] + data[:a]


def _twice(data: bytes, rng: random.Random) -> bytes:
    return data + data


ACCIDENTS = (
    _cut, _cut, _bit, _bit, _bit, _begin_bit, _insert, _remove, _zeros, _length, _swap, _twice,
)  # fmt: skip


# -- forged ----------------------------------------------------------------------------------------


def sealed(text: bytes, rest: bytes) -> bytes:
    """Return a file with this header, its length and digest right."""
    data = len(text).to_bytes(8, "little") + text + rest
    if len(data) < container._START + container.HEX:
        return data
    digest = container._digest([data]).encode()
    return data[: container._START] + digest + data[container._START + container.HEX :]


def opened(data: bytes) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """Return a file's header, its model as JSON, and the bytes of its tensors."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    return header, json.loads(header["__metadata__"]["model"]), data[8 + length :]


def forged(data: bytes, rng: random.Random) -> bytes:
    """Return the file with something else in it, and the digest of that."""
    return rng.choice(FORGERIES)(data, rng)


def _closed(header: dict[str, Any], model: Any, rest: bytes) -> bytes:
    header["__metadata__"]["model"] = model if type(model) is str else json.dumps(model)
    return sealed(json.dumps(header, separators=(",", ":")).encode(), rest)


def _places(tree: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) in some JSON."""
    found = []
    for key in tree if type(tree) is dict else range(len(tree)):
        found.append((tree, key))
        if type(tree[key]) in (dict, list):
            found += _places(tree[key])
    return found


def _model_value(data: bytes, rng: random.Random) -> bytes:
    header, model, rest = opened(data)
    for _ in range(rng.choice((1, 1, 1, 3))):
        tree, key = rng.choice(_places(model))
        tree[key] = copy.deepcopy(rng.choice(NASTY))
    return _closed(header, model, rest)


def _model_key(data: bytes, rng: random.Random) -> bytes:
    header, model, rest = opened(data)
    trees = [t for t, _ in _places(model) if type(t) is dict]
    tree = rng.choice(trees)
    what = rng.choice(("drop", "add", "rename"))
    key = rng.choice([*tree])
    if what == "add":
        tree[rng.choice(("x", "learner.x", "p", "state", ""))] = copy.deepcopy(rng.choice(NASTY))
    else:
        value = tree.pop(key)
        if what == "rename":
            tree[key[1:]] = value
    return _closed(header, model, rest)


def _model_swap(data: bytes, rng: random.Random) -> bytes:
    header, model, rest = opened(data)
    (a, i), (b, j) = rng.sample(_places(model), 2)
    a[i], b[j] = json.loads(json.dumps(b[j])), json.loads(json.dumps(a[i]))
    return _closed(header, model, rest)


def _model_text(data: bytes, rng: random.Random) -> bytes:
    header, _, rest = opened(data)
    text = header["__metadata__"]["model"]
    at = rng.randrange(len(text))
    new = rng.choice(("NaN", "1e999", "-Infinity", "[" * 100_000, '{"a":1,"a":2}', "9" * 5000, "}",
                      ",", '"', "\\", "\\ud800", "0", "e5"))  # fmt: skip
    return _closed(header, text[:at] + new + text[at + rng.choice((0, 1, 4)) :], rest)


def _tensor_entry(data: bytes, rng: random.Random) -> bytes:
    header, model, rest = opened(data)
    names = [n for n in header if n != "__metadata__"]
    if not names:
        return _model_value(data, rng)
    entry = header[rng.choice(names)]
    what = rng.choice(("dtype", "shape", "offset", "all", "other"))
    if what == "dtype":
        entry["dtype"] = rng.choice(("F32", "F64", "I64", "U32", "BOOL", "F16", "BF16", "F8_E5M2"))
    elif what == "shape":
        entry["shape"] = rng.choice(([], [0], [2**62, 2], [10**12], [1] * 50, [-1], "x",
                                     entry["shape"][::-1], [*entry["shape"], 1]))  # fmt: skip
    elif what == "offset":
        entry["data_offsets"][rng.randrange(2)] = rng.choice((0, 1, 8, 2**62, -8, 2**70, len(rest)))
    elif what == "all":
        entry["data_offsets"] = list(header[rng.choice(names)]["data_offsets"])
    else:
        header[rng.choice(("x", "learner", "learner.terms", "parameters.9", ""))] = entry
    return _closed(header, model, rest)


def _tensor_gone(data: bytes, rng: random.Random) -> bytes:
    """A tensor taken out, renamed, or of another length, and all the others moved up."""
    header, model, rest = opened(data)
    tensors = {n: rest[slice(*e["data_offsets"])] for n, e in header.items() if n[0] != "_"}
    if not tensors:
        return _model_value(data, rng)
    name = rng.choice([*tensors])
    what = rng.choice(("out", "rename", "shorter", "longer"))
    entry = header[name]
    size = len(tensors[name]) // max(entry["shape"][0], 1) if entry["shape"] else 0
    if what == "out":
        del tensors[name], header[name]
    elif what == "rename":
        tensors[name + "s"], header[name + "s"] = tensors.pop(name), header.pop(name)
    elif what == "shorter" and entry["shape"] and entry["shape"][0]:
        entry["shape"][0] -= 1
        tensors[name] = tensors[name][: len(tensors[name]) - size]
    elif entry["shape"]:
        entry["shape"][0] += 1
        tensors[name] = tensors[name] + tensors[name][:size].ljust(size, b"\0")
    at, out = 0, b""
    for name in [n for n in header if n in tensors]:
        header[name]["data_offsets"] = [at, at + len(tensors[name])]
        at, out = at + len(tensors[name]), out + tensors[name]
    return _closed(header, model, out)


def _tensor_bytes(data: bytes, rng: random.Random) -> bytes:
    header, model, rest = opened(data)
    if not rest:
        return _model_value(data, rng)
    changed = bytearray(rest)
    for _ in range(rng.choice((1, 1, 5))):
        at = rng.randrange(len(rest))
        what = rng.choice(("bit", "double", "whole", "noise"))
        if what == "bit":
            changed[at] ^= 1 << rng.randrange(8)
        elif what == "noise":
            changed[at : at + 16] = rng.randbytes(len(changed[at : at + 16]))
        else:
            at -= at % 8
            whole = rng.choice((0, 1, -1, 2**62, -(2**63), 63, 64, 10**6))
            new = (
                struct.pack("<d", rng.choice(NUMBERS)) if what == "double"
                else struct.pack("<q", whole)
            )  # fmt: skip
            changed[at : at + 8] = new[: len(changed[at : at + 8])]
    return _closed(header, model, bytes(changed))


def _header_text(data: bytes, rng: random.Random) -> bytes:
    """The header's own text, outside of the digest's place."""
    length = int.from_bytes(data[:8], "little")
    text, rest = data[8 : 8 + length], data[8 + length :]
    at = rng.randrange(len(container.BEGIN) + container.HEX, len(text) + 1)
    new = rng.choice((b"NaN", b"[" * 100_000, b'"a":{},"a":{},', b"{", b"}", b"\xff", b"\0", b" ",
                      b"1e400", b"9" * 30, b'"__metadata__":{},', rng.randbytes(3)))  # fmt: skip
    return sealed(text[:at] + new + text[at + rng.choice((0, 1, 9)) :], rest)


def _header_metadata(data: bytes, rng: random.Random) -> bytes:
    header, model, rest = opened(data)
    meta = header["__metadata__"]
    meta["model"] = json.dumps(model)
    key = rng.choice(("format", "version", "model", "extra"))
    meta[key] = rng.choice(
        ("", "2", "0", "1", "-1", "onkel", "{}", "[]", "null", 1, None, [], "1 ")
    )
    return sealed(json.dumps(header, separators=(",", ":")).encode(), rest)


FORGERIES = (
    _model_value, _model_value, _model_value, _model_key, _model_swap, _model_text, _tensor_entry,
    _tensor_gone, _tensor_bytes, _tensor_bytes, _tensor_bytes, _header_text, _header_metadata,
)  # fmt: skip


# -- what must become of them ----------------------------------------------------------------------


def check_forged(data: bytes, rows: Any) -> bool:
    """Whether a forged file was refused; one that was not must be used without harm."""
    try:
        model = files.loads(data)
    except ValueError:
        return True
    assert _holds(data, model), "the model is not what the file says"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        use(model, rows)
    return False


def use(model: Any, rows: Any) -> None:
    """Make the calls that a user would make; each may refuse, none may do worse.

    A refusal leaves the model as it was, and whatever it has come to can be saved and loaded again.
    """
    dtype = model._learner.dtype if hasattr(model, "_learner") else "f8"
    rows = rows if type(rows) is list else rows.astype(dtype)
    y = np.arange(len(rows)) % 2
    fitted, single = model.__sklearn_is_fitted__(), not isinstance(model, Series)
    calls = (
        lambda: model.predict(rows[:9]), lambda: single and model.predict_one(rows[0]),
        lambda: single and model.learn_one(rows[0], y[0]),
        lambda: model.partial_fit(rows[:40], y[:40]), lambda: model.predict(rows[:1]),
    )  # fmt: skip
    for call in calls:
        before = files.dumps(model)
        try:
            call()
        except ValueError:
            assert files.dumps(model) == before, "a refused call has changed the model"
        assert files.dumps(files.loads(files.dumps(model))) == files.dumps(model)
    if fitted:
        repr(model.diagnostics_)


_LAYOUT = ("heights", "levels", "pieces")


def _holds(data: bytes, model: Any) -> bool:
    """Whether a loaded model says of itself what the file says."""
    _, text, tensors = container.unpack(data)
    found, arrays = models.describe(model)
    arrays = {n: a for n, a in arrays.items() if n.rpartition(".")[2] not in _LAYOUT}
    tensors = {n: a for n, a in tensors.items() if n.rpartition(".")[2] not in _LAYOUT}
    same = {n: a.tobytes() for n, a in arrays.items()} == {
        n: a.tobytes() for n, a in tensors.items()
    }
    return same and _agrees(text, found)


def _agrees(text: Any, found: Any, inside: bool = False) -> bool:
    """Whether JSON is the same; a parameter that is left out has its default."""
    if type(text) is dict and type(found) is dict:
        extra = set(found) - set(text)
        return (not extra or inside) and set(text) <= set(found) and all(
            _agrees(text[k], found[k], k in ("parameters", "lags")) for k in text
        )  # fmt: skip
    if type(text) is list and type(found) is list:
        return len(text) == len(found) and all(map(_agrees, text, found))
    if type(text) is dict and set(text) == {"scalar", "value"} and type(found) is not dict:
        text = text["value"]
    whole = type(text) is float and type(found) is int and text == found  # what 20.0 is kept as
    return whole or json.dumps(text) == json.dumps(found)
