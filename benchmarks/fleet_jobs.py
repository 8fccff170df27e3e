"""What the benchmark of fleets measures, each in a process of its own: see fleet.py."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import common  # first: it sets the number of BLAS threads
import fleet_work as work
import numpy as np
import tool
from fleet_work import BLOCK, FILLED, MODELS, Feed, Rivers, Singles

import onkel
from onkel import Fleet

Report = dict[str, Any]
ROWS_ONE = 500
"""Calls of a round where rows come one by one."""


def sized(quick: bool, *sizes: int) -> list[int]:
    """Return sizes, in a quick run a hundredth of each but of the smallest ones."""
    return sorted({max(size // 100, 100) if quick else size for size in sizes})


# -- blocks ------------------------------------------------------------------------------------


def speed(model: str, dtype: str, quick: bool) -> Report:
    """Blocks of 10 000 rows: the microseconds of a row by size and law, and bytes by key."""
    sizes = sized(quick, 10**6, 10**5, 10**4, 10**3)
    report: Report = {"model": model, "dtype": dtype, "memory": {}, "passes": {}}
    fleets: dict[int, tuple[Fleet, Feed]] = {}
    for keys in reversed(sizes):  # the largest first: what is freed for others is not counted
        fleet, feed = Fleet(MODELS[model]()), Feed(model, dtype, keys)
        before = work.resident()
        spent = work.fill(fleet, feed)
        told = fleet.diagnostics_
        report["memory"][keys] = {
            "bytes": told["bytes"] / keys, "resident": (work.resident() - before) / keys,
            "terms": told["terms"] / keys,
        }  # fmt: skip
        report["passes"][keys] = {
            "first": spent[0], "last": common.median(spent[-10:]), "all": float(np.mean(spent)),
        }  # fmt: skip
        fleets[keys] = fleet, feed
    jobs: dict[str, common.Job] = {
        f"{keys} {law}": partial(_blocks, *fleets[keys], law)
        for keys in sizes
        for law in ("turns", "zipf")
    }
    jobs |= {f"texts {keys}": _texts(model, dtype, keys) for keys in sizes[-2:-1]}
    report["rounds"] = common.rounds(jobs | _others(model, dtype, quick), 5 if quick else 9)
    return report


def _blocks(fleet: Fleet, feed: Feed, law: str, count: int = 5) -> float:
    spent = sum(work.learn(fleet, rows)[0] for rows in work.blocks(feed, law, count))
    return 1e6 * spent / (count * BLOCK)


def _texts(model: str, dtype: str, keys: int) -> common.Job:
    """Return blocks by the Zipf law whose keys are texts."""
    names = [f"device-{k:07d}" for k in range(keys)]
    fleet, feed = Fleet(MODELS[model]()), Feed(model, dtype, keys)

    def learn(law: str, count: int) -> float:
        spent = 0.0
        for numbers, X, y in work.blocks(feed, law, count):
            texts = [names[k] for k in numbers.tolist()]
            began = common.clock()
            fleet.predict_then_learn(texts, X, y)
            spent += common.clock() - began
        return 1e6 * spent / (count * BLOCK)

    learn("turns", FILLED * max(keys // BLOCK, 1))
    return partial(learn, "zipf", 5)


def _others(model: str, dtype: str, quick: bool) -> dict[str, common.Job]:
    """Return the same for dicts of single models, of a thousand keys (half-space trees: 100)."""
    keys = 100 if quick else 1000
    feed, singles = Feed(model, dtype, keys), Singles(model)
    for rows in work.blocks(feed, "turns", -(-FILLED * keys // BLOCK)):
        singles.block(rows)
    found: dict[str, common.Job] = {
        f"singles, blocks, {keys}": lambda: 1e6 * singles.block(feed.zipf()) / BLOCK,
        f"singles, one by one, {keys}": lambda: 1e6 * singles.single(feed.zipf(2000)) / 2000,
    }
    if work.has_river():
        rivers, few = Rivers(model), keys if model == "KernelClassifier" else 100
        theirs = Feed(model, dtype, few)
        rivers.single(theirs.turns(few * work.SETTLED))
        name = f"River, one by one, {few}"
        found[name] = lambda: 1e6 * rivers.single(theirs.zipf(ROWS_ONE)) / ROWS_ONE
    return found


def held(kind: str, model: str, dtype: str, quick: bool) -> Report:
    """Return the resident bytes of a key in a dict of single models, after 80 rows each."""
    keys = 20 if quick or (kind == "River" and model != "KernelClassifier") else 1000
    feed, others = Feed(model, dtype, keys), Rivers(model) if kind == "River" else Singles(model)
    others.single(feed.turns(1))  # what is loaded once
    before = work.resident()
    for _ in range(FILLED):
        others.single(feed.turns(keys))
    return {"resident": (work.resident() - before) / keys}


def growth(quick: bool) -> Report:
    """Return the bytes of a key by the rows that it has learned, of several settings."""
    from onkel import Detector, KernelClassifier, NoveltyDetector
    from onkel.expansions import Window

    window = Window(terms=work.TERMS)
    models = {
        "NoveltyDetector, recent=32": MODELS["NoveltyDetector"](),
        "NoveltyDetector, recent=1000": NoveltyDetector(support=0.5, expansion=window),
        "KernelClassifier": KernelClassifier(expansion=window),
        "Detector()": Detector(),
        "Detector(terms=32, recent=100)": Detector(terms=32, recent=100),
    }
    steps, keys = (1, 10, 30, 100, 300, 1000), 20 if quick else 100
    report: Report = {}
    for name, model in models.items():
        for dtype in ("float32", "float64"):
            kind = "KernelClassifier" if model.task == "classification" else "Detector"
            fleet, feed, known = Fleet(model), Feed(kind, dtype, keys), 0
            row = report[f"{name}, {dtype}"] = {}
            for rows in steps:
                for _ in range(rows - known):
                    work.learn(fleet, feed.turns(keys))
                known = rows
                row[rows] = fleet.diagnostics_["bytes"] / keys
    return report


# -- one row -----------------------------------------------------------------------------------


def one(quick: bool) -> Report:
    """Median microseconds of single calls: fleets, dicts of single models, River's."""
    calls: dict[str, common.Job] = {}
    for model in MODELS:
        each = 30 if model == "Detector" else FILLED
        many = sized(quick, 10**4 if model == "Detector" else 10**5)[0]
        for keys in (100, many):
            for dtype in ("float32", "float64"):
                fleet, feed = work.filled(model, dtype, keys, each)
                calls[f"{model} {dtype} fleet {keys}"] = partial(_lone, fleet.learn_one, feed)
                ask: Callable[..., Any] = partial(_asked, fleet.predict_one)
                calls[f"{model} {dtype} predict {keys}"] = partial(_lone, ask, feed)
        singles, feed = Singles(model), Feed(model, "float64", 100)
        singles.single(feed.turns(100 * each))
        calls[f"{model} float64 singles 100"] = partial(_lone, partial(_single, singles), feed)
        if work.has_river() and model != "Detector":
            rivers, theirs = Rivers(model), Feed(model, "float64", 100)
            rivers.single(theirs.turns(100 * work.SETTLED))
            calls[f"{model} float64 River 100"] = partial(
                _lone, partial(_river, rivers), theirs, True
            )
    return {"rounds": common.rounds(calls, 5 if quick else 11)}


def _lone(call: Callable[..., Any], feed: Feed, dicts: bool = False) -> float:
    """Return the median time of calls with a key, a row and, of classifiers, a label."""
    keys, X, y = feed.zipf(ROWS_ONE)
    made = [dict(enumerate(row)) for row in X.tolist()] if dicts else [*X]
    times = []
    for i, key in enumerate(keys.tolist()):
        more = () if y is None else (int(y[i]),)
        row = made[i]
        began = time.perf_counter()
        call(key, row, *more)
        times.append(time.perf_counter() - began)
    return 1e6 * common.median(times)


def _asked(ask: Callable[..., Any], key: int, row: Any, y: Any = None) -> None:
    ask(key, row)


def _single(singles: Singles, key: int, *row: Any) -> None:
    singles.models[key].learn_one(*row)


def _river(rivers: Rivers, key: int, row: Any, y: Any = None) -> None:
    model = rivers.models[key]
    model.learn_one(row) if y is None else model.learn_one(row, y > 0)


# -- files -------------------------------------------------------------------------------------


def files(quick: bool) -> Report:
    """Save and load, beside writing and reading as many bytes; seconds on the wall."""
    keys = sized(quick, 300_000)[0]
    report: Report = {"keys": keys}
    for model in ("NoveltyDetector", "KernelClassifier"):
        fleet, _ = work.filled(model, "float32", keys, 40)
        folder = Path(tempfile.mkdtemp())
        try:
            report[model] = _saved(fleet, folder, 2 if quick else 3)
        finally:
            shutil.rmtree(folder)
    return report


def _saved(fleet: Fleet, folder: Path, repeats: int) -> Report:
    path, again, plain = folder / "fleet", folder / "again", folder / "plain"
    found: dict[str, list[float]] = {"save": [], "load": [], "write": [], "read": []}
    for _ in range(repeats):
        found["save"].append(_wall(lambda: fleet.save(path)))
        loaded: list[Any] = []
        found["load"].append(_wall(lambda: loaded.append(onkel.load(path))))  # noqa: B023
        data = path.read_bytes()
        found["write"].append(_wall(lambda: _write(plain, data)))  # noqa: B023
        found["read"].append(_wall(plain.read_bytes))
        loaded.pop().save(again)
        same = again.read_bytes() == data
    size = path.stat().st_size
    return {"bytes": size, "held": fleet.diagnostics_["bytes"], "same": same, "seconds": found}


def _write(path: Path, data: bytes) -> None:
    """Write bytes, to the disk."""
    with open(path, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())


def _wall(job: Callable[[], Any]) -> float:
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


# -- eviction ----------------------------------------------------------------------------------


def evict(quick: bool) -> Report:
    """A fleet that holds a fifth of its models in memory, beside one that holds all."""
    keys = sized(quick, 100_000)[0]
    return {
        f"{model}, {law}": _evicted(model, law, keys, 10 if quick else 30)
        for model in ("NoveltyDetector", "KernelClassifier")
        for law in ("turns", "zipf")
    }


def _evicted(model: str, law: str, keys: int, count: int) -> Report:
    free, feed = work.filled(model, "float32", keys, 40)
    limit = free.diagnostics_["bytes"] // 5
    bound = Fleet(MODELS[model](), memory=limit)
    bound.open_as(free.form() or {})
    for start in range(0, keys, BLOCK):
        part = [*range(start, min(start + BLOCK, keys))]
        bound.restore(part, free.records(part))
    output = "prediction" if free.task == "classification" else "judgement"
    size = min(BLOCK, keys // 10)
    times, same = [], True
    for _ in range(count):
        rows = getattr(feed, law)(size)
        (plain, a), (moved, b) = work.learn(free, rows, output), work.learn(bound, rows, output)
        times.append((1e6 * plain / size, 1e6 * moved / size))
        same &= np.asarray(a).tobytes() == np.asarray(b).tobytes()
    every = [*range(keys)]
    same &= free.records(every) == bound.records(every)
    return {"keys": keys, "limit": limit, "held": bound.diagnostics_["bytes"],
            "rounds": times, "same": same}  # fmt: skip


# -- the command -------------------------------------------------------------------------------


def command(quick: bool) -> Report:
    """`onkel detect` with and without --key, with and without a state: (wall, processor)."""
    rows, keys = (10_000, 1000) if quick else (1_000_000, 100_000)
    folder = Path(tempfile.mkdtemp())
    try:
        path = _table(folder / "rows.csv", rows, keys)
        jobs = {
            f"{model}{', state' if state else ''}, {way}": (words + more, state)
            for model, words in (("default", []), ("kernel", ["--model", "kernel"]))
            for state in (False, True)
            for way, more in (("plain", ["--ignore", "device"]), ("key", ["--key", "device"]))
        }
        found: dict[str, list[Any]] = {name: [] for name in jobs}
        for _ in range(1 if quick else 2):
            for name, (words, state) in jobs.items():
                tool.anew(folder)
                more = ["--state", folder / "state"] if state else []
                out = ["-o", folder / "alerts.jsonl", "-q"]
                found[name].append(tool.command(["detect", path, *out, *words, *more]))
    finally:
        shutil.rmtree(folder)
    return {"rows": rows, "keys": keys, "seconds": found}


def _table(path: Path, rows: int, keys: int) -> Path:
    rng = np.random.default_rng(0)
    with open(path, "w") as out:
        out.write("device,a,b,c,d,e,f,g,h\n")
        for start in range(0, rows, 10_000):
            count = min(10_000, rows - start)
            X = rng.normal(size=(count, 8)).round(4).tolist()
            names = rng.integers(keys, size=count).tolist()
            pairs = zip(names, X, strict=True)
            out.writelines(f"device-{k:06d},{','.join(map(repr, row))}\n" for k, row in pairs)
    return path


# -- the default detector ----------------------------------------------------------------------


def detector(quick: bool) -> Report:
    """Detector() by the number of keys and of rows of each; beside a dict of them, and River."""
    report: Report = {"memory": {}, "passes": {}}
    jobs: dict[str, common.Job] = {}
    sizes = [(size, 30) for size in reversed(sized(quick, 10**5, 10**4, 10**3))]
    for keys, each in [*sizes, (100, 300)]:
        before = work.resident()
        fleet, feed = Fleet(MODELS["Detector"]()), Feed("Detector", "float64", keys)
        spent = work.fill(fleet, feed, each)
        name = f"{keys} keys, {each} rows"
        report["memory"][name] = {
            "bytes": fleet.diagnostics_["bytes"] / keys,
            "resident": (work.resident() - before) / keys,
        }  # fmt: skip
        report["passes"][name] = float(np.mean(spent))
        jobs[name] = partial(_passed, lambda rows, of=fleet: work.learn(of, rows)[0], feed)
    report["rounds"] = common.rounds(jobs | _other_detectors(), 3 if quick else 5)
    return report


def _other_detectors() -> dict[str, common.Job]:
    feed, singles = Feed("Detector", "float64", 1000), Singles("Detector")
    for rows in work.blocks(feed, "turns", 3):
        singles.block(rows)
    jobs: dict[str, common.Job] = {
        "singles, 1000 keys, 30 rows": partial(_passed, singles.block, feed)
    }
    if work.has_river():
        rivers, theirs = Rivers("Detector"), Feed("Detector", "float64", 100)
        rivers.single(theirs.turns(100 * work.SETTLED))
        jobs["River, 100 keys"] = partial(_passed, rivers.single, theirs)
    return jobs


def _passed(learn: Callable[[work.Rows], float], feed: Feed) -> float:
    """Learn one row more of every key, a thousand at least: work comes in bursts."""
    count = max(feed.keys, 1000)
    parts = [min(BLOCK, count - a) for a in range(0, count, BLOCK)]
    return 1e6 * sum(learn(feed.turns(n)) for n in parts) / count


JOBS: dict[str, Callable[..., Report]] = {
    "speed": speed, "held": held, "growth": growth, "one": one, "files": files, "evict": evict,
    "command": command, "detector": detector,
}  # fmt: skip
