"""Reasons of alerts on real streams: what they name, and whether any is wrong on its face.

Every alert of a self-tuning detector is explained as its row comes, and told in a few words beside
that. Counted: reasons that name numbers by themselves, a pair of them, a pattern (a gap, a step, a
short mean), an answered alert, or the row as a whole; *missing*, alerts without any; *wrong*,
reasons that name a number that lies within the range that they print for it, read off the words,
or an alert that was not answered so; *cuts*, alerts told otherwise when the rows come in calls of
1, 7, 64 or 1000; and *by effect alone*, what the same explanations would have said had they named
the feature with the largest effect, whether it is unusual or not.

The same after answers: every 500 rows the alerts that wait are answered by the labels. The same of
the command with a key (the streams of a set are its keys), read off its output. Then faults that
are made, in one number, in two and in all: how often those are named.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from onkel import Detector
from onkel.explain.outcome import is_outside
from onkel.judge import Rows, answer, judge_of

if __package__:
    from . import detection_sets as sets
    from . import harness
else:
    import detection_sets as sets
    import harness

CUTS = (1, 7, 64, 1000)
ANSWERED = 500
"""After every so many rows alerts are answered."""
STREAMS = {"nab": 3, "skab": 2, "smd": 2, "smap": 4, "batadal": 1}
"""So many streams of each set."""
NUMBER = r"(-?\d[\d.]*(?:e[+-]?\d+)?)"
RANGE = re.compile(rf"{NUMBER}(?: from one row to the next)? where {NUMBER}(?:–| to ){NUMBER} was")
GIVEN = re.compile(rf" {NUMBER} and .* not together: .* was {NUMBER}(?:–| to ){NUMBER}")
LIKE = re.compile(r"ike alert (\d+), which was answered as (usual|a fault)")
SPREADS = re.compile(rf"{NUMBER} spreads (?:above|below)")


def is_wrong(words: str) -> bool:
    """Whether a reason names a number within the range beside it, or within two spreads.

    Examples
    --------
    >>> is_wrong("a 1.2 where 1.0–1.4 was usual"), is_wrong("a 1.5 where 1.0–1.4 was usual")
    (True, False)
    """
    ranges = [*RANGE.findall(words), *GIVEN.findall(words)]
    within = any(float(low) <= float(value) <= float(high) for value, low, high in ranges)
    return within or any(float(z) <= 2.0 for z in SPREADS.findall(words))


def kind_of(words: str) -> str:
    """Return what a reason names.

    Examples
    --------
    >>> kind_of("a 2.5 is 2.5 spreads above its mean."), kind_of("... a 3, where no row kept lies")
    ('numbers', 'pattern')
    """
    if "without that" in words or "had nothing been answered" in words:
        return "answer"
    if "not together" in words:
        return "pair"
    if any(w in words for w in ("from one row", "over the last ten rows", "no row kept")):
        return "pattern"
    return "whole row" if "row as a whole" in words else "numbers"


KINDS = ("numbers", "pair", "pattern", "answer", "whole row")


def by_effect_alone(why: Any) -> bool:
    """Whether the feature with the largest effect lies within its own range."""
    first = min(why.features, key=lambda f: f.effect)
    return first.usual is not None and not is_outside(first.value, first.usual)


def told(X: np.ndarray, explain: float, cut: int, y: np.ndarray | None = None) -> Told:
    """Return why rows are alerts, in calls of so many rows; with labels, alerts are answered."""
    names, model = [f"n{j}" for j in range(X.shape[1])], Detector()
    judge, found, said = judge_of(model, names, explain, brief=True), {}, {}
    for first in range(0, len(X), ANSWERED):
        last = min(first + ANSWERED, len(X))
        for start in range(first, last, cut):
            part = X[start : min(start + cut, last)]
            columns = judge(model, Rows(part)).columns()
            at = np.flatnonzero(columns["alert"]).tolist()
            found |= {start + i: columns["why"][i] for i in at}
        for alert in model.alerts_ if y is not None else ():
            if alert["answer"] is None:
                said[alert["id"]] = "a fault" if y[int(alert["id"])] else "usual"
                model.feedback(alert["id"], said[alert["id"]].removeprefix("a "))
    return found, said


Told = tuple[dict[int, str | None], dict[str, str]]
"""Why, by row; and what was answered."""


def rows_of(name: str, stream: Any) -> list[dict[str, Any]]:
    """Return counts for one stream: explained, in a few words, and the same after answers."""
    rows = []
    for how, explain in (("explained", math.inf), ("in brief", 0)):
        for labels in (None, stream.y):
            found, said = told(stream.X, explain, CUTS[-1], labels)
            others = [told(stream.X, explain, cut, labels)[0] for cut in CUTS[:-1]]
            cuts = sum(found.get(i) != other.get(i) for other in others for i in found | other)
            row = _counts(name, how + ("" if labels is None else ", answers"), found, said)
            rows.append({**row, "cuts": cuts})
    rows[0]["wrong by effect alone"] = _by_effect_alone(stream.X)
    return rows


def _by_effect_alone(X: np.ndarray) -> int:
    model, count = Detector(), 0
    for start in range(0, len(X), 4096):
        found = answer(model, X[start : start + 4096], explain=math.inf).marks
        count += sum(map(by_effect_alone, found.why().values() if found.why else ()))
    return count


def _counts(name: str, how: str, found: dict[int, Any], said: dict[str, str]) -> dict[str, Any]:
    words = [w for w in found.values() if w]
    kinds = [kind_of(w) for w in words]
    wrong = sum(is_wrong(w) or misquotes(w, said) for w in words)
    return {
        "stream": name, "reasons": how, "alerts": len(found),
        **{kind: kinds.count(kind) for kind in KINDS}, "missing": len(found) - len(words),
        "wrong": wrong, "cuts": "", "wrong by effect alone": "",
    }  # fmt: skip


def misquotes(words: str, said: dict[str, str]) -> bool:
    """Whether a reason names an alert that was not answered so.

    Examples
    --------
    >>> misquotes("Like alert 7, which was answered as usual.", {"7": "a fault"})
    True
    """
    return any(said.get(id) != answer for id, answer in LIKE.findall(words))


# -- the command, with keys ------------------------------------------------------------------------


def keyed(name: str, streams: list[Any]) -> list[dict[str, Any]]:
    """Return counts of the command's own output, the streams being keys that take turns."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "rows.csv"
        _write(source, streams)
        plain = ["--lags", "0"] if streams[0].X.shape[1] == 1 else []  # else it is seen as a series
        for more in ([], [*plain, "--share"], ["--explain", "all"]):
            found = [_run(source, *more, "--block", str(block)) for block in (64, 8192)]
            said: dict[str, str] = {}
            counts = _counts(f"{name}, {len(streams)} keys", "command " + " ".join(more), found[0],
                             said)  # fmt: skip
            cuts = sum(found[0].get(i) != found[1].get(i) for i in found[0] | found[1])
            rows.append({**counts, "cuts": cuts})
    return rows


def _write(path: Path, streams: list[Any]) -> None:
    """Write a file in which the rows of streams take turns."""
    width = streams[0].X.shape[1]
    with path.open("w") as file:
        file.write(",".join(["who", *(f"n{j}" for j in range(width))]) + "\n")
        for i in range(max(len(s.X) for s in streams)):
            for k, stream in enumerate(streams):
                if i < len(stream.X):
                    file.write(f"k{k}," + ",".join(map(repr, stream.X[i].tolist())) + "\n")


def _run(source: Path, *more: str) -> dict[int, str | None]:
    """Run the command; return why rows are alerts, by row."""
    out = source.with_name("out.jsonl")
    words = ["detect", str(source), "--key", "who", "-o", str(out), *more]
    subprocess.run([sys.executable, "-m", "onkel.app", *words], check=True, capture_output=True)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    out.unlink()
    return {line["row"]: line["why"] for line in lines}


# -- faults that are made --------------------------------------------------------------------------

FAULTS = ("one", "two", "two that go together", "all")


def made(fault: str, rows: int, seed: int) -> tuple[np.ndarray, dict[int, list[int]]]:
    """Return rows of six numbers, one in fifty with a fault, and in which numbers that is."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 6))
    X[:, 1] = 0.97 * X[:, 0] + 0.25 * X[:, 1]
    at: dict[int, list[int]] = {}
    for i in range(rows // 4, rows, 50):
        at[i] = sorted(rng.choice(np.arange(2, 6), size=2, replace=False).tolist())
        if fault == "one":
            at[i] = at[i][:1]
        elif fault != "two":
            at[i] = [0, 1] if "together" in fault else [*range(6)]
        if "together" in fault:
            X[i, :2] = rng.permutation([1.4, -1.4])
        else:
            X[i, at[i]] = rng.choice([-9.0, 9.0], len(at[i]))
    return X, at


def named_in(words: str, numbers: list[int]) -> bool:
    """Whether a reason names these numbers, the first of them before any other.

    Of more than two it says two or three, and that there are more.
    """
    named = [int(n) for n in re.findall(r"\bn(\d)\b", words)]
    first = list(dict.fromkeys(named))
    if len(numbers) > 2:
        return len(first) >= 2
    return set(first[: len(numbers)]) == set(numbers)


def faults(rows: int) -> list[dict[str, Any]]:
    """Return how often faults raise an alert, and how often the right numbers are named."""
    found = []
    for fault in FAULTS:
        X, at = made(fault, rows, seed=7)
        for how, explain in (("explained", math.inf), ("in brief", 0)):
            words = told(X, explain, CUTS[-1])[0]
            seen = {i: words[i] for i in at if words.get(i)}
            right = sum(named_in(w, at[i]) for i, w in seen.items())
            found.append({
                "fault in": fault, "reasons": how, "faults": len(at), "alerts": len(seen),
                "right": right, "wrong": sum(map(is_wrong, (w for w in words.values() if w))),
                "missing": sum(not w for w in words.values()),
            })  # fmt: skip
    return found


def main(argv: list[str] | None = None) -> int:
    """Run, print, check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder of the data sets")
    parser.add_argument("--quick", action="store_true", help="one stream of each set, 5000 rows")
    args = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    for name, count in STREAMS.items():
        most, streams = 5000 if args.quick else None, sets.load(name, args.data)
        some = [replace(s, X=s.X[:most], y=s.y[:most]) for s in streams[: max(count, 3)]]
        for stream in some[: 1 if args.quick else count]:
            rows += rows_of(f"{name} {stream.name}", stream)
        rows += keyed(name, [s for s in some if s.X.shape[1] == some[0].X.shape[1]])
    print(harness.table(rows))
    generated = faults(4000 if args.quick else 20_000)
    print(harness.table(generated))
    wrong = sum(row["wrong"] for row in rows + generated)
    missing, cuts = sum(r["missing"] for r in rows + generated), sum(r["cuts"] for r in rows)
    reasons = sum(row["alerts"] for row in rows)
    print(f"{reasons} reasons: {wrong} wrong, {missing} missing, {cuts} a matter of cuts")
    return int(wrong + missing + cuts > 0)


if __name__ == "__main__":
    sys.exit(main())
