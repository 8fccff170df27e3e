"""The pages on the studies under drift: docs/evidence.md and docs/knobs.md.

Every number and figure on these pages comes from a report that `reproduce.py` has written, and goes
between two comments; `reproduce_docs.py` calls this.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

if __package__:
    from . import harness
    from .meeting import ROOT, Row, common
else:
    import harness
    from meeting import ROOT, Row, common

import publish

STUDIES = (
    "drift_classes", "drift_nab", "drift_skab", "drift_intervals", "drift_texts", "knobs",
)  # fmt: skip
DOCS = ROOT / "docs"
EVEN = 0.05
"""Two numbers within so much of the greater one are called even."""
WINDOW = 100 / 19
"""What one of NAB's 19 windows is worth at most: scores within that are called even."""
Report = dict[str, Any]


def report(name: str) -> Report | None:
    """Return what a full run wrote, None where there is none."""
    path = harness.REPORTS / f"{name}.json"
    found: Report | None = json.loads(path.read_text()) if path.exists() else None
    if found is None or found["quick"] or found["skipped"]:
        print(f"{name}: no report of a full run, left as it is")
        return None
    return found


# -- at a glance -------------------------------------------------------------------------------


def glance(reports: dict[str, Report]) -> list[Row]:
    """Return onkel's best line beside the best of the others, stream by stream."""
    rows: list[Row] = []
    if "drift_classes" in reports:
        for table in reports["drift_classes"]["tables"][1:]:
            stream = table["caption"].partition(":")[0]
            rows.append(_ahead(f"{stream}, mistakes %", table, "chosen %", True))
    if "drift_nab" in reports:
        here, held, _ = (table["rows"] for table in reports["drift_nab"]["tables"])
        theirs = [{"detector": f"{r['detector']}, published", "standard": r["standard"]}
                  for r in held]  # fmt: skip
        both = {"rows": [*here, *theirs]}
        rows.append(_ahead("NAB, threshold as NAB has it", both, "standard", False, WINDOW))
        best = [row | {"standard": row["best"]} for row in here]
        both = {"rows": [*best, *theirs]}
        rows.append(_ahead("NAB, the same, best setting", both, "standard", False, WINDOW))
        rows.append(_ahead("NAB, each series left out", {"rows": here}, "left out", False, WINDOW))
    if "drift_skab" in reports:
        common_, own, _ = reports["drift_skab"]["tables"]
        rows.append(_ahead("SKAB, F1, common threshold", common_, "F1", False))
        rows.append(_ahead("SKAB, F1, own threshold, best setting shown", own, "F1", False))
    for table in reports.get("drift_intervals", {}).get("tables", []):
        stream = table["caption"].partition(",")[0]
        rows.append(_ahead(f"{stream}, interval score", table, "interval score", True))
    for table in reports.get("drift_texts", {}).get("tables", []):
        rows.append(_ahead("SMS spam, mistakes %", table, "mistakes %", True))
    return rows


def _ahead(
    what: str, table: dict[str, Any], key: str, less: bool, slack: float | None = None
) -> Row:
    lines = [row for row in table["rows"] if row.get(key) is not None]
    ranked = sorted(lines, key=lambda row: row[key] if less else -row[key])
    named = [(str(row.get("method") or row.get("detector")), row[key]) for row in ranked]
    ours = next(pair for pair in named if pair[0].startswith("onkel"))
    other = next(pair for pair in named if not pair[0].startswith("onkel"))
    first = "onkel" if (ours[1] < other[1]) == less else "the other"
    near = EVEN * max(abs(ours[1]), abs(other[1])) if slack is None else slack
    if abs(ours[1] - other[1]) <= near:
        first = "even"
    return {
        "stream, measure": what, "onkel": ours[1], "which": ours[0].removeprefix("onkel: "),
        "best of the others": other[1], "which of them": other[0], "ahead": first,
    }  # fmt: skip


# -- the pages ---------------------------------------------------------------------------------


def section(name: str, found: Report) -> str:
    """Return the words, tables and figures of one study."""
    parts = [found["text"]] + [_table(table) for table in found["tables"]]
    parts += [
        f"![{caption}](figures/{name}-{i}.png)\n\n*{caption}*"
        for i, caption in enumerate(found["figures"], 1)
    ]
    return "\n\n".join([*parts, where(found)])


def _table(table: dict[str, Any]) -> str:
    return f"**{table['caption']}**\n\n{common.markdown(table['rows'])}"


def where(found: Report) -> str:
    """Return what the numbers depend on."""
    return f"*{found['processor']:.0f} s on one core.*"


def copy_figures(name: str, found: Report) -> None:
    """Put a study's figures where the pages look for them."""
    for i in range(1, 1 + len(found["figures"])):
        shutil.copyfile(harness.REPORTS / f"{name}-{i}.png", DOCS / "figures" / f"{name}-{i}.png")


def write(docs: Path = DOCS) -> None:
    """Write both pages from the reports of full runs."""
    reports = {name: found for name in STUDIES if (found := report(name)) is not None}
    for name, found in reports.items():
        copy_figures(name, found)
        if name == "knobs":
            tables = "\n\n".join(_table(table) for table in found["tables"])
            publish.put(docs / "knobs.md", name, f"{tables}\n\n{where(found)}")
        else:
            publish.put(docs / "evidence.md", name, section(name, found))
    if len(reports) == len(STUDIES):
        publish.put(docs / "evidence.md", "glance", common.markdown(glance(reports)))
