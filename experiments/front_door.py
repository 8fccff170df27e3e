"""The front door: the self-tuning models, the single defaults and peers, on every stream there is.

Every method as it comes, no setting chosen for a stream; each row is predicted before it is
learned. Streams are described in front_door_streams.py, peers and what they are given in
front_door_peers.py, the measures in front_door_measures.py.

What is measured is kept, a file for each stream and method, in reports/front_door. A run measures
what is not yet there, or was measured on other rows; --ours measures onkel's own again, --fresh
everything; --streams and --methods name some alone. Tables are made of all that is kept.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy loads
os.environ["MKL_NUM_THREADS"] = "1"

import argparse
import hashlib
import json
import re
import time
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

import onkel
from onkel import kernels

if __package__:
    from . import front_door_measures as measures
    from . import front_door_peers as peers
    from . import front_door_streams as streams
    from . import front_door_tables as tables
    from . import harness, writing
    from .front_door_peers import Said
    from .front_door_streams import CLASSES, NUMBERS, TEXTS, Stream
    from .study import Study
else:
    import front_door_measures as measures
    import front_door_peers as peers
    import front_door_streams as streams
    import front_door_tables as tables
    import harness
    import writing
    from front_door_peers import Said
    from front_door_streams import CLASSES, NUMBERS, TEXTS, Stream
    from study import Study

TITLE = "The front door: onkel as it comes, and its peers"
KEPT, TRIED = harness.REPORTS / "front_door", harness.REPORTS / "front_door_tried"
"""Of whole streams, and of their first rows alone."""
BLOCK = 1000
"""Rows in a call; what is said does not depend on it."""
Kept = dict[str, Any]


# -- onkel -----------------------------------------------------------------------------------------


def of_strings() -> list[Any]:
    """Return members that compare whole texts."""
    return [
        onkel.KernelClassifier(kernels.Spectrum(length), rule=rule)
        for length in (3, 4, 5)
        for rule in ("norma", "projection")
    ]


OURS: dict[str, dict[str, Callable[[], Any]]] = {
    CLASSES: {
        "Classifier": lambda: onkel.Classifier(n_jobs=1),
        "KernelClassifier": lambda: onkel.KernelClassifier(n_jobs=1),
        "LinearClassifier": lambda: onkel.LinearClassifier(n_jobs=1),
    },
    NUMBERS: {
        "Regressor": lambda: onkel.Regressor(n_jobs=1),
        "KernelRegressor": lambda: onkel.KernelRegressor(n_jobs=1),
        "LinearRegressor": lambda: onkel.LinearRegressor(n_jobs=1),
    },
    TEXTS: {
        "Classifier": lambda: onkel.Classifier(members=of_strings(), n_jobs=1),
        "KernelClassifier": lambda: onkel.KernelClassifier(kernels.Spectrum(4), n_jobs=1),
    },
}


def ours(name: str, stream: Stream) -> Said:
    """Run a model of onkel as it comes; a second run for probabilities, where it has them."""
    model, n, answers, weights = OURS[stream.task][name](), len(stream.y), [], []
    began = time.process_time()
    for a in range(0, n, BLOCK):
        rows = slice(a, a + BLOCK)
        answers.append(np.asarray(model.predict_then_learn(stream.X[rows], stream.y[rows])))
        weights.append(getattr(model, "weights_", None))
    seconds = time.process_time() - began
    p = None
    if stream.task != NUMBERS and hasattr(model, "predict_proba"):
        p = probabilities(OURS[stream.task][name](), stream)
    mean = None if weights[0] is None else np.mean(weights, axis=0).tolist()
    return Said(np.concatenate(answers), p, seconds, mean)


def probabilities(model: Any, stream: Stream) -> np.ndarray:
    """Return what a model says of each row before it learns it, a column for each class."""
    p = model.predict_then_learn(stream.X, stream.y, output="probability")
    return np.asarray(p)[:, np.argsort(model.classes_)]


def members(task: str) -> list[str]:
    """Return the members of the default bank in words, as they are for one feature."""
    model = next(iter(OURS[task].values()))()
    model.partial_fit(np.array([[0.0], [1.0]]), np.array([0, 1]))
    return [in_words(member) for member in model.members_]


def in_words(value: Any) -> str:
    """Return a setting with what is not its default.

    >>> in_words(onkel.LinearClassifier(rule=onkel.rules.Norma(learning_rate=0.1)))
    'LinearClassifier(rule=Norma(learning_rate=0.1))'
    """
    if is_dataclass(value):
        held = {f.name: (getattr(value, f.name), f.default) for f in fields(value)}
    elif hasattr(value, "get_params"):
        usual = type(value)().get_params(deep=False)
        held = {k: (v, usual[k]) for k, v in value.get_params(deep=False).items()}
    else:
        return repr(value)
    parts = [f"{k}={in_words(v)}" for k, (v, default) in held.items() if v != default]
    return f"{type(value).__name__}({', '.join(parts)})"


# -- measured once, and kept -----------------------------------------------------------------------


def method_names(task: str) -> list[str]:
    """Return all methods for a task, onkel's first."""
    return [*OURS[task], *peers.PEERS[task]]


def digest(stream: Stream) -> str:
    """Return a name for the very rows."""
    texts = stream.task == TEXTS
    content = "\n".join(stream.X).encode() if texts else np.ascontiguousarray(stream.X).tobytes()
    return hashlib.sha256(content + stream.y.tobytes()).hexdigest()[:16]


def _slug(text: str) -> str:
    return re.sub("[^A-Za-z0-9.]+", "_", text)


def measured(name: str, stream: Stream) -> Kept:
    """Run a method on a stream, and measure it."""
    said = ours(name, stream) if name in OURS[stream.task] else peers.run(name, stream)
    rows, y = len(said.answers), stream.y[: len(said.answers)]
    numbers = stream.task == NUMBERS
    found = (
        measures.of_numbers(said.answers, y)
        if numbers
        else measures.of_classes(said.answers, said.probabilities, y)
    )
    most = slice(0, peers.MOST)
    first = said.answers[most], y[most]
    found["error, first"] = (
        measures.of_numbers(*first)["error"]
        if numbers
        else measures.of_classes(first[0], None, first[1])["error"]
    )
    return {
        "stream": stream.name, "method": name, "task": stream.task, "of": len(stream.y),
        "rows": rows, "d": stream.d, "classes": stream.classes, "seconds": said.seconds,
        "weights": said.weights, "about": stream.about, "digest": digest(stream), **found,
    }  # fmt: skip


def keep(name: str, stream: Stream, again: bool, folder: Path = KEPT) -> Kept:
    """Return what is kept of a method on a stream, measured first where that is due."""
    path = folder / _slug(stream.name) / f"{_slug(name)}.json"
    old: Kept = json.loads(path.read_text("utf-8")) if path.exists() else {}
    if not again and old.get("digest") == digest(stream):
        return old
    found: Kept = harness.plain(measured(name, stream))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    line = f"{stream.name}, {name}: {found['error']:.4g}, {found['seconds']:.1f} s"
    print(line, flush=True)
    return found


def all_kept(folder: Path = KEPT) -> list[Kept]:
    """Return everything that is kept."""
    order = {name: i for i, name in enumerate(streams.names())}
    found = [json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*/*.json"))]
    found = [k for k in found if k["stream"] in order and k["method"] in method_names(k["task"])]
    return sorted(found, key=lambda kept: order[kept["stream"]])


# -- running ---------------------------------------------------------------------------------------


def walk(args: argparse.Namespace, data: Path | None, folder: Path = KEPT) -> None:
    """Measure what was asked for."""
    only, methods = _listed(args.streams), _listed(args.methods)
    for name in only or streams.names():
        stream = streams.make(name, data)
        if stream is None:
            continue
        stream = stream.head(args.rows) if args.rows else stream
        for method in method_names(stream.task):
            own = method in OURS[stream.task]
            if (methods and method not in methods) or (args.ours and not own):
                continue
            keep(method, stream, args.fresh or (args.ours and own), folder)


def _listed(text: str) -> list[str]:
    return [name.strip() for name in text.split(";") if name.strip()]


def options(argv: list[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ours", action="store_true", help="onkel's own again, peers as kept")
    parser.add_argument("--fresh", action="store_true", help="measure again what is kept")
    parser.add_argument("--streams", default="", help="names, by semicolon")
    parser.add_argument("--methods", default="", help="names, by semicolon")
    parser.add_argument("--rows", type=int, default=0, help="the first rows alone; 0: all")
    parser.add_argument("--tables", action="store_true", help="measure nothing")
    return parser.parse_args(argv)


def study(kept: list[Kept]) -> Study:
    """Return tables, figure and checks of what is kept."""
    made = tables.every(kept) + [
        (f"Members of {tables.SELF[task]}, for one feature",
         [{"member": str(i), "setting": word} for i, word in enumerate(members(task), 1)])
        for task in (CLASSES, NUMBERS)
    ]  # fmt: skip
    text = writing.text_of(__doc__)
    return Study(TITLE, text, made, tables.figures(kept), tables.checks(kept))


def main(argv: list[str] | None = None) -> int:
    """Measure, print, write reports/front_door.json and -1.png."""
    args = options(argv)
    began = time.perf_counter(), time.process_time()
    folder = TRIED if args.rows else KEPT
    if not args.tables:
        walk(args, harness.data_folder(), folder)
    made = study(all_kept(folder))
    writing.show(made)
    seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    writing.keep("front_door", made, bool(args.rows), *seconds)
    return int(not all(check.ok for check in made.checks))


if __name__ == "__main__":
    raise SystemExit(main())
