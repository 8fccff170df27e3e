"""Write the tables of README.md and docs/benchmarks.md from the reports, between two comments."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import common
from common import Row, cell, load, markdown

README = common.ROOT / "README.md"
PAGE = common.ROOT / "docs" / "benchmarks.md"


def put(path: Path, name: str, text: str) -> None:
    """Replace what stands between the two comments of this name."""
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    old = path.read_text("utf-8")
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.S)
    if len(pattern.findall(old)) != 1:
        raise SystemExit(f"{path.name}: there must be one pair of comments {begin} ... {end}")
    new = pattern.sub(lambda _: f"{begin}\n\n{text.strip()}\n\n{end}", old)
    path.write_text(new, "utf-8")
    print(f"{'unchanged' if new == old else 'written'}: {path.name}, {name}")


def publish(names: list[str], quick: bool, figures: Path | None) -> int:
    """Write every section whose report is there; quick ones only if asked to."""
    reports = {name: load(name) for name in names}
    for name, report in reports.items():
        if report is not None and report["quick"] and not quick:
            print(f"reports/{name}.json is of a quick run: left out (or give --quick)")
            reports[name] = None
    usable = {name: report for name, report in reports.items() if report is not None}
    for name, report in usable.items():
        section = importlib.import_module(name)
        if figures is not None:
            section.figure(report, figures / f"{name}.png")
        put(PAGE, name, long_text(name, section, report))
    if {"limit", "one", "startup", "peers"} <= set(usable):
        put(README, "benchmarks", short_text(usable))
    else:
        print("README.md needs limit, one, startup and peers: left as it is")
    return 0


# -- docs/benchmarks.md ------------------------------------------------------------------------


def long_text(name: str, section: Any, report: dict[str, Any]) -> str:
    """Return the tables of a section, its figure where it has been drawn, and where it was run."""
    parts = [f"**{title}**\n\n{markdown(rows)}" for title, rows in section.tables(report)]
    if (common.ROOT / "docs" / "figures" / f"{name}.png").exists():
        parts.append(f"![The same as a figure](figures/{name}.png)")
    return "\n\n".join([*parts, f"*{where(report)}*"])


def where(report: dict[str, Any]) -> str:
    """Return what the numbers depend on."""
    m = report["machine"]
    kind = "A quick run" if report["quick"] else "Run"
    core = f"core {m['core']}, Python {m['python']}, NumPy {m['numpy']}"
    return f"{kind} in {report['seconds']:.0f} s on {m['processor']}, {m['cores']} cores; {core}."


# -- README.md ---------------------------------------------------------------------------------


def short_text(reports: dict[str, Any]) -> str:
    """Return the comparison stream by stream, what a row costs in a sentence, and where it ran."""
    costs = "; ".join(
        [*_limit(reports["limit"]), *_one(reports["one"]), *_start(reports["startup"])]
    )
    return f"{markdown(_streams(reports['peers']))}\n\n{costs}. *{where(reports['peers'])}*"


def _table(name: str, report: dict[str, Any], index: int = 0) -> list[Row]:
    return importlib.import_module(name).tables(report)[index][1]


def _limit(report: dict[str, Any]) -> list[str]:
    return [
        f"One row against one term ({row['workload']}) takes {cell(row['ns'])} ns, "
        f"{row['onkel / L']:.2f} × the machine's limit"
        for row in _table("limit", report)
        if row["workload"] == "d = 16, float32"
    ]


def _one(report: dict[str, Any]) -> list[str]:
    return [
        f"`{row['call']}` with 300 terms, d = 50, takes {cell(row['us'])} µs"
        for row in _table("one", report)
        if row["call"] == "learn_one"
    ]


def _start(report: dict[str, Any]) -> list[str]:
    rows = [row for row in _table("startup", report) if row.get("limit ms")]
    return [f"{row['until']}: {row['ms']:.0f} ms" for row in rows[-1:]]


def _streams(report: dict[str, Any]) -> list[Row]:
    """Return onkel's default, onkel's best and the best of the others that saw every row."""
    peers = importlib.import_module("peers")
    rows = []
    for name, lines in (report["classes"] | report["novelty"]).items():
        ranked = peers.best_first([x for x in lines if x.get("rows") and x["rows"] == x["of"]])
        mine = [line for line in ranked if line["family"] == "onkel"]
        others = [line for line in ranked if line["family"] != "onkel"]
        row: Row = {
            "stream": name,
            "onkel, default": _said(lines[0]),
            "onkel, best": _said(mine[0], True),
        }
        rows.append(
            row
            | {"best of the others that saw every row": _said(others[0], True) if others else ""}
        )
    return rows


def _said(line: Row, named: bool = False) -> str:
    """Return error (or AUC) and speed in words."""
    peers = importlib.import_module("peers")
    value = f"AUC {peers.area(line):.2f}" if "AUC" in line else f"{line['error %']:.3g} %"
    speed = f"{value}, {line['examples/s']:,.0f}/s"
    name = line["method"] if line["family"] == "onkel" else peers.named(line)
    return f"{speed} ({name})" if named else speed
