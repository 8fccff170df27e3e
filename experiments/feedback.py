"""Feedback: how many answers it takes until false alerts are half as many, and what that costs.

A ``Detector()`` watches a stream. Somebody answers the first alert of each incident (alerts at most
20 rows apart), 100 rows after it came, by the stream's labels: "fault" inside a labelled stretch,
"usual" outside; one answer in ten is wrong. After so many answers they stop. Measured on the last
half of the rows that detection_sets.py measures: false incidents, in which no row is labelled, and
their alerts; and the labelled stretches in which at least one row raised an alert; both beside the
same rows without any answer. Sums over a set's streams. (An incident that goes on when its label
has ended is the fault's own, for whoever is called: nobody would answer it another time.)

- *answers*: of a budget; none, 5, 10, 20, 50, all. *given*: how many were given, on average.
- *false incidents*, *false alerts*: as a share of those without answers. *found*: of the
  *stretches* in that half. *by level*: found by a lower level alone that leaves as few false
  incidents, the best such level seen afterwards.
- *equal recall*: the same at nu = 0.01, 0.015, 0.02, 0.03 and 0.05, and of these the one that
  leaves fewest false incidents and finds at least as many stretches as nu = 0.01 does without
  answers; for no answers likewise. Which one that is was seen afterwards, on the streams shown, as
  somebody sees it who replays (``onkel replay STATE --nu 0.01 --nu 0.02 ...``). A dash: none does.
- *nu of the other half*: with all answers, that nu as it was seen on the half "choose", and what
  it does on the streams shown, which had no part in it; *wanted* is what was found there at
  nu = 0.01 without answers.
- *precision 0.8*: the same with ``Detector(precision=0.8)`` and all answers; *alone*: with nu=None.
  *precision* is the share of answers that were "fault".

What is alike (onkel/core/answers.py) was settled on the half "choose" of each set: there it was
seen that a wrong "fault" made alerts of usual rows, that alerts which an answer hushed were made up
for by others, and that false alerts of many metrics are seldom alike, though each of their values
was usual in some answer before; and that values which join in may count together, not the largest
alone, at hardly any cost (SMD: 1.32 for 1.19 left after ten answers, .34 for .36 after all; SMAP
and NAB alike). That one such answer is enough looked as good there, but found only 24 of SMD's 37
shown stretches after ten answers: two are wanted, so far these were seen. The first table shows the
other half, and the sets whose streams are all shown; the second the half that the choice was made
on.
"""

from __future__ import annotations

import os

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy loads

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onkel import Detector

if __package__:
    from . import detection_sets as sets
    from . import harness, writing
    from .detection_sets import Stream
    from .study import Study
else:
    import detection_sets as sets
    import harness
    import writing
    from detection_sets import Stream
    from study import Study

SETS = ("smd", "smap", "nab", "asd", "skab", "tables", "faults")
BUDGETS = (0, 5, 10, 20, 50, 10**9)
DELAY, GAP, WRONG, CHUNK = 100, 20, 0.1, 50
WAYS: dict[str, dict[str, Any]] = {
    "precision 0.8": {"precision": 0.8}, "precision 0.8 alone": {"nu": None, "precision": 0.8},
}  # fmt: skip
NUS = (0.01, 0.015, 0.02, 0.03, 0.05)
QUIET = ("skab", "faults")
"""Sets with nothing to halve."""
TITLE = "Feedback: false incidents by the number of answers"


@dataclass
class Watched:
    """What came of one stream."""

    score: np.ndarray
    """log p of each row."""
    alert: np.ndarray
    given: int
    told: dict[str, Any]


def watch(stream: Stream, budget: int, **how: Any) -> Watched:
    """Let a detector watch, and answer the first alerts of episodes while the budget lasts."""
    rng = np.random.default_rng(zlib.crc32(f"{stream.name} answers".encode()))
    wrong = rng.random(len(stream.X)) < WRONG
    det, said, given, last, next_ = Detector(**how), [], 0, -(10**9), 0
    starts: list[int] = []
    for first in range(0, len(stream.X), CHUNK):
        rows = stream.X[first : first + CHUNK]
        said.append(det.predict_then_learn(rows, output="judgement"))
        for row in (first + np.flatnonzero(said[-1][:, 2])).tolist():
            if row - last > GAP:
                starts.append(row)
            last = row
        while next_ < len(starts) and given < budget and starts[next_] + DELAY < first + CHUNK:
            row = starts[next_]
            fault = bool(stream.y[row]) != bool(wrong[row])
            det.feedback(row, "fault" if fault else "usual")
            given, next_ = given + 1, next_ + 1
    score, _, alert = np.concatenate(said).T
    return Watched(score, alert > 0, given, det.diagnostics_)


def stretches(y: np.ndarray) -> list[slice]:
    """Return the labelled stretches."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], y.astype(int), [0]])))
    return [slice(a, b) for a, b in edges.reshape(-1, 2)]


def counted(stream: Stream, alert: np.ndarray) -> np.ndarray:
    """Return false incidents, their alerts, stretches found, stretches; in the last half."""
    start = (stream.start + len(stream.X)) // 2
    y, alert = np.asarray(stream.y[start:], bool), alert[start:]
    at = np.flatnonzero(alert)
    incidents = np.split(at, np.flatnonzero(np.diff(at) > GAP) + 1) if len(at) else []
    false = [len(rows) for rows in incidents if not y[rows].any()]
    found = [alert[s].any() for s in stretches(y)]
    return np.array([len(false), sum(false), sum(found), len(found)])


def by_level(streams: list[Stream], runs: list[Watched]) -> list[np.ndarray]:
    """Return what levels alone would leave of runs without answers, the highest level first."""
    levels = np.unique(np.concatenate([run.score[run.alert] for run in runs]))[::-1]
    levels = levels[np.linspace(0, len(levels) - 1, min(len(levels), 300)).astype(int)]
    return [
        sum(counted(s, r.alert & (r.score <= level)) for s, r in zip(streams, runs, strict=True))
        for level in levels
    ]


def row_of(name: str, streams: list[Stream], runs: list[Watched], **how: Any) -> dict[str, Any]:
    """Return one line of a table, without what it is compared with."""
    sums = sum(counted(s, r.alert) for s, r in zip(streams, runs, strict=True))
    answered = sum(r.told["alerts_answered"] for r in runs)
    dismissed = sum(r.told["alerts_dismissed"] for r in runs)
    share = 1 - dismissed / answered if answered and "precision" in how else None
    return {
        "set": name, "given": float(np.mean([r.given for r in runs])), "incidents": int(sums[0]),
        "alerts": int(sums[1]), "found": int(sums[2]), "stretches": int(sums[3]),
        "precision": share,
    }  # fmt: skip


def table(name: str, streams: list[Stream], quick: bool) -> list[dict[str, Any]]:
    """Return the lines of one set."""
    rows, silent = [], [watch(stream, 0) for stream in streams]
    for budget in BUDGETS[::5] if quick else BUDGETS:
        word = "all" if budget == BUDGETS[-1] else str(budget)
        runs = [watch(stream, budget) for stream in streams] if budget else silent
        rows.append({"answers": word, **row_of(name, streams, runs)})
    for word, how in WAYS.items():
        runs = [watch(stream, BUDGETS[-1], **how) for stream in streams]
        rows.append({"answers": word, **row_of(name, streams, runs, **how)})
    alone = by_level(streams, silent)
    for row in rows:
        left = [found[2] for found in alone if found[0] <= row["incidents"]]
        row["by level"] = int(max(left, default=0))
    for what in ("incidents", "alerts"):
        none = rows[0][what]
        for row in rows:
            row[f"false {what}"] = row[what] / none if none else None
    return rows


def equal_recall(
    name: str, streams: list[Stream], quick: bool, budgets: Sequence[int] = (0, 10, 20, 10**9)
) -> list[dict[str, Any]]:
    """Return, by the number of answers, the best nu that finds as much as no answers do."""
    lines, wanted, before = [], 0, 0
    for budget in BUDGETS[::5] if quick else budgets:
        word, tried = "all" if budget == BUDGETS[-1] else str(budget), []
        for nu in NUS[::3] if quick else NUS:
            runs = [watch(stream, budget, nu=nu) for stream in streams]
            tried.append({"set": name, "answers": word, "nu": nu, **row_of(name, streams, runs)})
        if not budget:
            wanted, before = tried[0]["found"], tried[0]["incidents"]
        enough = [row for row in tried if row["found"] >= wanted]
        best = min(enough, key=lambda row: row["incidents"], default=None)
        line = best or {"set": name, "answers": word}
        left = best["incidents"] / before if best and before else None
        keys = ("set", "answers", "nu", "given", "incidents", "found", "stretches")
        lines.append({key: line.get(key) for key in keys} | {"false incidents": left})
    return lines


def of_other_half(name: str, chosen: list[Stream], shown: list[Stream]) -> dict[str, Any]:
    """Return what all answers leave at the nu that was best on streams which are not shown."""
    first = equal_recall(name, chosen, False, (BUDGETS[0], BUDGETS[-1]))[-1]
    line = {"set": name, "nu": first.get("nu"), "there": first["false incidents"]}
    if first.get("nu") is None:
        return line
    silent = row_of(name, shown, [watch(stream, 0) for stream in shown])
    runs = [watch(stream, BUDGETS[-1], nu=first["nu"]) for stream in shown]
    found = row_of(name, shown, runs)
    left = found["incidents"] / silent["incidents"] if silent["incidents"] else None
    kept = {key: found[key] for key in ("given", "incidents", "found", "stretches")}
    return {**line, "false incidents": left, **kept, "wanted": silent["found"]}


def halves(name: str, data: Path | None, quick: bool = False) -> dict[str, list[Stream]]:
    """Return the streams of a set by their halves; a quick run takes all of them as shown."""
    found: dict[str, list[Stream]] = {sets.SHOWN: [], sets.CHOOSE: []}
    for stream in sets.load(name, data, quick):
        if name != "tables" or len(stream.X) >= 2000:
            found[sets.SHOWN if quick else stream.half].append(stream)
    return found


def run(quick: bool, data: Path | None) -> Study:
    """Answer alerts on all sets."""
    study = Study(TITLE, (__doc__ or "").split("\n\n", 1)[1])
    for half, words in ((sets.SHOWN, "shown"), (sets.CHOOSE, "the half it was settled on")):
        lines, equal, other = [], [], []
        for name in SETS if half == sets.SHOWN or not quick else ():
            streams = halves(name, data, quick)[half]
            if streams:
                lines += table(name, streams, quick)
                print(
                    harness.table(lines[-len(BUDGETS) - len(WAYS) :] if not quick else lines[-4:])
                )
                if half == sets.SHOWN and name not in QUIET:
                    equal += equal_recall(name, streams, quick)
                    print(harness.table(equal))
                    chosen = [] if quick else halves(name, data)[sets.CHOOSE]
                    if chosen:
                        other.append(of_other_half(name, chosen, streams))
                        print(harness.table(other[-1:]))
        if lines:
            study.tables.append((f"False incidents and stretches found, {words}", lines))
            if equal:
                study.tables.append(("The best ν that finds as many stretches, shown", equal))
            if other:
                study.tables.append(("ν of the other half, all answers, shown", other))
            study.figures.append(
                (f"False incidents left by the answers given, {words}", _figure(lines))
            )
    return study


def _figure(lines: list[dict[str, Any]]) -> Any:
    figure, axes = writing.canvas(2)
    left, found = axes[:, 0]
    for name in dict.fromkeys(line["set"] for line in lines):
        own = [r for r in lines if r["set"] == name and "precision" not in r["answers"]]
        if not own[0]["incidents"] > 1:
            continue  # nothing to halve
        given = [r["given"] for r in own]
        left.plot(given, [r["false incidents"] for r in own], "o-", label=name, markersize=3)
        found.plot(given, [r["found"] / own[0]["found"] for r in own], "o-", markersize=3)
    left.axhline(0.5, color=writing.SOFT, linestyle=":")
    left.set(title="false incidents, of those without answers", ylim=(0, None))
    found.set(title="labelled stretches found, of those without answers", ylim=(0, 1.1))
    found.set(xlabel="answers of a stream")
    for panel in (left, found):
        panel.set_xscale("symlog", linthresh=5)
        panel.set(xlim=(0, None), xticks=(0, 5, 10, 20, 50), xticklabels=(0, 5, 10, 20, 50))
    left.legend(fontsize="small", ncols=2)
    return figure


if __name__ == "__main__":
    raise SystemExit(writing.command("feedback", run, __doc__))
