"""Fleets: many small models by key in one arena, beside dicts of single models and of River's.

    python benchmarks/fleet.py [speed one files evict command detector] [--quick]

- *speed*: blocks of 10 000 rows of eight numbers, windows of 32 terms, all full; 10^3 to 10^6 keys
  by turns and by a Zipf law, float32 and float64; bytes of a key, as the fleet counts them and as
  the process grows. A key's bytes by the rows that it has learned, of several settings.
- *one*: a row in a call of its own.
- *files*: a fleet saved, loaded, and saved again.
- *evict*: ``Fleet(memory=...)`` with room for a fifth of the models, beside one with room for all:
  by turns every key comes from the disk, and another one goes there; by the Zipf law only some do,
  so that its figures are of a row, not of a key that moved.
- *command*: ``onkel detect --key`` on a file, beside the same file without.
- *detector*: ``Detector()`` as it comes; a row is a mean here, since its work comes in bursts.

One thread; each part in a process of its own, others in turn with it, so that ratios hold on a
machine that is busy; seconds are the processor's, those of single calls, files and the command the
wall's. "±" is half the distance of the quartiles over the rounds. The detector of *speed* ranks
among 32 scores, not among the 1000 of the default, which are 8 kB a key more: the goals show both.
River's models have learned 260 rows each, and are 100 to 1000, not up to 10^6. Files are read from
the system's cache. Prints tables, and every goal beside what was found; writes reports/fleet.json.
Half an hour, --quick: one minute; 5 GB.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import common  # first: it sets the number of BLAS threads
import fleet_jobs
import fleet_work as work
import numpy as np
from common import Row, median

Report = dict[str, Any]
Tables = list[tuple[str, list[Row]]]
PAIRS = [(m, d) for m in ("NoveltyDetector", "KernelClassifier") for d in ("float32", "float64")]
BARS = {
    "events": 500_000, "bytes": 2500, "flat": 2.5, "one": 6.0, "files": 500e6, "evict": 20.0,
    "command": 0.5,
}  # fmt: skip
"""What is promised: see `goals`."""


def apart(name: str, *how: str, quick: bool) -> Report:
    """Run one job in a process of its own and return what it found."""
    words = ["--job", name, *how, *(["--quick"] if quick else [])]
    found: Report = json.loads(common.fresh(str(common.HERE / "fleet.py"), *words))
    return found


def noise(values: list[float]) -> float:
    """Return half the distance of the quartiles, in percent of the median."""
    low, high = np.quantile(values, [0.25, 0.75])
    return float(50 * (high - low) / np.median(values))


def timed(name: str, values: list[float], **more: Any) -> Row:
    """Return a line of microseconds, with rows in a second."""
    middle = median(values)
    return {"what": name, "us a row": middle, "± %": noise(values), "rows/s": 1e6 / middle, **more}


# -- speed -------------------------------------------------------------------------------------


def speed(quick: bool) -> Report:
    """Return the rounds of blocks, and the bytes of keys."""
    found: Report = {f"{m} {d}": apart("speed", m, d, quick=quick) for m, d in PAIRS}
    kinds = ["singles", *(["River"] if work.has_river() else [])]
    held = {
        f"{kind} {m}": apart("held", kind, m, "float64", quick=quick)["resident"]
        for kind in kinds
        for m in ("NoveltyDetector", "KernelClassifier")
    }
    return {"blocks": found, "held": held, "growth": apart("growth", quick=quick)}


def speed_tables(report: Report) -> Tables:
    """Return lines by size, by law, and of others; then bytes."""
    made: Tables = []
    memory: list[Row] = []
    for name, one in report["blocks"].items():
        rounds = one["rounds"]
        best = rounds[next(n for n in rounds if n.endswith("zipf"))]
        lines = [timed(n, v, **{"/ smallest": common.ratio(v, best)}) for n, v in rounds.items()]
        made.append((f"{name}: blocks of 10 000 rows", lines))
        for keys, held in one["memory"].items():
            passes = one["passes"][keys]
            memory.append({
                "model": name, "keys": keys, "bytes a key": held["bytes"],
                "resident": held["resident"], "terms": held["terms"],
                "us, first row of a key": passes["first"], "us, rows 71 to 80": passes["last"],
            })  # fmt: skip
    memory += [{"model": f"dict: {n}", "resident": v} for n, v in report["held"].items()]
    rows = [{"model": n, **{f"{k} rows": v for k, v in r.items()}}
            for n, r in report["growth"].items()]  # fmt: skip
    return [*made, ("Memory, after 80 rows of each key", memory), ("Bytes of a key by rows", rows)]


# -- the others --------------------------------------------------------------------------------


def one_tables(report: Report) -> Tables:
    """Return the microseconds of single calls."""
    lines = [{"call": n, "us": median(v), "± %": noise(v)} for n, v in report["rounds"].items()]
    return [("One row in a call: learn_one of a fleet, of single models, of River's", lines)]


def files_tables(report: Report) -> Tables:
    """Return megabytes in a second."""
    lines = [
        {
            "model": name, "keys": report["keys"], "file, MB": one["bytes"] / 1e6,
            "of the memory": one["bytes"] / one["held"],
            **{f"{n}, MB/s": one["bytes"] / 1e6 / median(v) for n, v in one["seconds"].items()},
            "± % (save)": noise(one["seconds"]["save"]), "saved again": _same(one["same"]),
        }
        for name, one in report.items()
        if isinstance(one, dict)
    ]  # fmt: skip
    return [("Files, float32; write and read: as many bytes, no more", lines)]


def _same(same: bool) -> str:
    return "the same bits" if same else "DIFFERS"


def evict_tables(report: Report) -> Tables:
    """Return what a row costs where its model is on the disk."""
    lines = []
    for name, one in report.items():
        plain, moved = (list(v) for v in zip(*one["rounds"], strict=True))
        extra = [b - a for a, b in zip(plain, moved, strict=True)]
        lines.append({
            "what": name, "keys": one["keys"], "in memory": one["held"] / (5 * one["limit"]),
            "all in memory, us a row": median(plain), "a fifth, us a row": median(moved),
            "more, us a row": median(extra), "± %": noise(extra), "mean": float(np.mean(extra)),
            "models": _same(one["same"]),
        })  # fmt: skip
    return [("Eviction", lines)]


def command_tables(report: Report) -> Tables:
    """Return rows in a second with and without --key."""
    lines = []
    for name, runs in report["seconds"].items():
        if not name.endswith(", key"):
            continue
        plain = report["seconds"][name.removesuffix("key") + "plain"]
        row: Row = {"what": name.removesuffix(", key")}
        for i, kind in enumerate(("wall", "processor")):
            pair = [[report["rows"] / run[i] for run in of] for of in (plain, runs)]
            row |= {f"rows/s, {kind}": median(pair[0]), f"--key, {kind}": median(pair[1]),
                    f"ratio, {kind}": common.ratio(pair[1], pair[0])}  # fmt: skip
        lines.append(row)
    return [(f"onkel detect, {report['rows']} rows, {report['keys']} keys", lines)]


def detector_tables(report: Report) -> Tables:
    """Return the default detector by keys and rows."""
    lines: list[Row] = []
    for name, values in report["rounds"].items():
        held, mean = report["memory"].get(name, {}), float(np.mean(values))
        lines.append({
            "what": name, "us a row, from there": mean, "± %": noise(values), "rows/s": 1e6 / mean,
            "us a row, up to there": report["passes"].get(name),
            "bytes a key": held.get("bytes"), "resident": held.get("resident"),
        })  # fmt: skip
    return [("Detector()", lines)]


# -- goals -------------------------------------------------------------------------------------


def goals(found: Report) -> list[Row]:
    """Return every goal beside what was found."""
    made: list[Row] = []
    for name, one in found.get("speed", {}).get("blocks", {}).items():
        made += _speed_goals(name, one)
    for name, held in found.get("speed", {}).get("growth", {}).items():
        if "recent=1000" in name:  # as detectors come: ranks among a thousand scores
            rows, most = max(held.items(), key=lambda pair: int(pair[0]))
            told = f"bytes a key, {rows} rows: {name}"
            made.append(goal(told, "at most", BARS["bytes"], most))
    for name, values in found.get("one", {}).get("rounds", {}).items():
        if " fleet " in name:
            made.append(goal(f"learn_one, us: {name}", "at most", BARS["one"], median(values)))
    for name, one in found.get("files", {}).items():
        if isinstance(one, dict):
            for way in ("save", "load"):
                rate = one["bytes"] / median(one["seconds"][way])
                made.append(goal(f"{way}, bytes/s: {name}", "at least", BARS["files"], rate))
            made.append(goal(f"saved again, same bytes: {name}", "at least", 1, int(one["same"])))
    for name, one in found.get("evict", {}).items():
        if name.endswith("turns"):  # where each row brings one model back, and sends one away
            extra = float(np.mean([b - a for a, b in one["rounds"]]))
            made.append(goal(f"eviction, us a key: {name}", "at most", BARS["evict"], extra))
        made.append(goal(f"eviction, models exact: {name}", "at least", 1, int(one["same"])))
    for row in command_tables(found["command"])[0][1] if "command" in found else []:
        for kind in ("wall", "processor"):
            name, value = f"--key beside no key, {kind}: {row['what']}", row[f"ratio, {kind}"]
            made.append(goal(name, "at least", BARS["command"], value))
    return made


def _speed_goals(name: str, one: Report) -> list[Row]:
    rounds, (most, least) = (
        one["rounds"],
        (max(one["memory"], key=int), min(one["memory"], key=int)),
    )
    made = []
    for law in ("turns", "zipf"):
        us = rounds[f"{most} {law}"]
        told = f"{name}, {most} keys, {law}"
        made.append(goal(f"events/s: {told}", "at least", BARS["events"], 1e6 / median(us)))
        flat = common.ratio(us, rounds[f"{least} {law}"])
        made.append(goal(f"beside {least} keys: {told}", "at most", BARS["flat"], flat))
    held = one["memory"][most]
    made.append(goal(f"bytes a key: {name}", "at most", BARS["bytes"], held["bytes"]))
    made.append(goal(f"resident bytes a key: {name}", "at most", BARS["bytes"], held["resident"]))
    return made


def goal(name: str, way: str, bar: float, value: float) -> Row:
    """Return a line: what was promised, what was found, and whether it holds."""
    kept = value >= bar if way == "at least" else value <= bar
    return {"goal": name, "promised": f"{way} {common.cell(bar)}", "found": value,
            "": "kept" if kept else "MISSED"}  # fmt: skip


# -- running -----------------------------------------------------------------------------------

TABLES = {
    "speed": speed_tables, "one": one_tables, "files": files_tables, "evict": evict_tables,
    "command": command_tables, "detector": detector_tables,
}  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Measure, print, write the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of: {', '.join(TABLES)}")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the keys: a minute")
    parser.add_argument("--job", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(argv)
    if options.job:
        name, *how = options.job
        print(json.dumps(common.plain(fleet_jobs.JOBS[name](*how, options.quick))))
        return 0
    if wrong := [part for part in options.parts if part not in TABLES]:
        parser.error(f"no part {wrong[0]!r}; there are {', '.join(TABLES)}")
    found: Report = {}
    for part in options.parts or TABLES:
        found[part] = speed(options.quick) if part == "speed" else apart(part, quick=options.quick)
        for title, rows in TABLES[part](found[part]):
            print(f"\n{title}\n{common.table(rows)}", flush=True)
    print(f"\nGoals\n{common.table(goals(found))}\n")
    common.save("fleet", {"quick": options.quick, **found, "goals": goals(found)})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
