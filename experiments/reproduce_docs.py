"""Write what the studies found into the documentation: ``python experiments/reproduce_docs.py``.

From reports/NAME.json and NAME-1.png, as `reproduce.py` leaves them, into docs/reproduce.md and the
pages on the papers, between two comments; the figures to docs/figures/reproduce_NAME-1.png. Reports
of a quick run are left out unless --quick is given.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __package__:
    from . import evidence, harness
    from .reproduce import STUDIES
    from .reproduce_page import cell, split
    from .study import Row
else:
    import evidence
    import harness
    from reproduce import STUDIES
    from reproduce_page import cell, split
    from study import Row

DOCS = Path(__file__).resolve().parent.parent / "docs"
Report = dict[str, Any]


def put(text: str, name: str, new: str) -> str:
    """Return a page with what stands between the two comments of this name replaced.

    >>> put("a <!-- x:begin --> old <!-- x:end --> b", "x", "new")
    'a <!-- x:begin -->\\n\\nnew\\n\\n<!-- x:end --> b'
    """
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.S)
    if len(pattern.findall(text)) != 1:
        raise SystemExit(f"there must be one pair of comments {begin} ... {end}")
    return pattern.sub(lambda _: f"{begin}\n\n{new.strip()}\n\n{end}", text)


def markdown(rows: list[Row]) -> str:
    """Return rows as a Markdown table; columns that are empty are left out.

    >>> print(markdown([{"a": 1, "b": "x", "c": None}]))
    | a | b |
    | ---: | --- |
    | 1 | x |
    """
    keys = [k for k in dict.fromkeys(k for row in rows for k in row)
            if any(row.get(k) not in (None, "") for row in rows)]  # fmt: skip
    cells = [[cell(row.get(key)).replace("|", "\\|") for key in keys] for row in rows]
    sides = ["---" if any(isinstance(r.get(k), str) for r in rows) else "---:" for k in keys]
    return "\n".join("| " + " | ".join(line) + " |" for line in [keys, sides, *cells])


def whole(name: str, report: Report) -> str:
    """Return a study for docs/reproduce.md: its words, figures and tables."""
    first, rest = split(report["text"])
    parts = [first]
    for i, caption in enumerate(report["figures"], 1):
        parts.append(f"![{caption}](figures/reproduce_{name}-{i}.png)\n\n*{caption}*")
    parts += [f"**{t['caption']}**\n\n{markdown(t['rows'])}" for t in report["tables"]]
    parts += [rest] if rest else []
    return "\n\n".join([*parts, f"*{report['processor']:.0f} s on one core.*"])


# -- what the pages on the papers show -------------------------------------------------------------


def mistakes(report: Report) -> str:
    """Return medians and middle halves, a column for each stream."""
    rows: dict[str, Row] = {}
    for line in report["tables"][0]["rows"]:
        row = rows.setdefault(line["learner"], {"learner": line["learner"]})
        row[line["stream"]] = f"{line['mistakes, median']:g} ({line['middle half']})"
    caption = report["tables"][0]["caption"]
    head = f"![{caption}](figures/reproduce_drifting_switching-1.png)"
    table = markdown(list(rows.values()))
    return f"{head}\n\n*{caption}: the median, and the middle half.*\n\n{table}"


def order(report: Report) -> str:
    """Return how often each claim holds."""
    rows = [
        {key: r[key] for key in ("stream", "pair", "holds on", "p", "verdict")}
        for r in report["tables"][1]["rows"]
    ]
    return markdown(rows)


def digits(report: Report) -> str:
    """Return the three grids with the smaller λ, and the time of a pass with the slower setting."""
    slowest = max(row["seconds"] for row in report["tables"][0]["rows"])
    caption = report["figures"][1]
    head = f"![{caption}](figures/reproduce_usps_novelty-2.png)"
    return f"{head}\n\n*{caption}* The slower setting takes {slowest:.2f} s a pass on one core."


def growth(report: Report) -> str:
    """Return the figure and the fitted lines."""
    figure = "![Time of one example against terms](figures/reproduce_tree_growth-1.png)"
    return f"{figure}\n\n{markdown(report['tables'][1]['rows'])}"


PLACES: tuple[tuple[str, str, str, Callable[[Report], str]], ...] = (
    ("paper_norma_2004.md", "drifting", "drifting_switching", mistakes),
    ("paper_norma_2004.md", "digits", "usps_novelty", digits),
    ("paper_alma_2002.md", "order", "drifting_switching", order),
    ("paper_additive_2001.md", "growth", "tree_growth", growth),
)
"""(page, name of its comments, study, what to write)."""


def report_of(name: str, quick: bool) -> Report | None:
    """Return a study's report, or None where there is none to be published."""
    path = harness.REPORTS / f"{name}.json"
    report: Report | None = json.loads(path.read_text("utf-8")) if path.exists() else None
    if report is None or report["skipped"] or (report["quick"] and not quick):
        print(f"{name}: left out (no report, skipped, or of a quick run)")
        return None
    return report


def write(page: Path, name: str, new: str) -> None:
    """Replace one part of a page."""
    old = page.read_text("utf-8")
    text = put(old, name, new)
    page.write_text(text, "utf-8")
    print(f"{'unchanged' if text == old else 'written'}: {page.name}, {name}")


def main(argv: list[str] | None = None) -> int:
    """Write every part whose study has been run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="take reports of quick runs too")
    quick = parser.parse_args(argv).quick
    own = [entry.name for entry in STUDIES if entry.name not in evidence.STUDIES]
    found = {name: report_of(name, quick) for name in own}
    for name, report in found.items():
        if report is None:
            continue
        for i in range(1, len(report["figures"]) + 1):
            shutil.copyfile(harness.REPORTS / f"{name}-{i}.png",
                            DOCS / "figures" / f"reproduce_{name}-{i}.png")  # fmt: skip
        write(DOCS / "reproduce.md", name, whole(name, report))
        for page, part, study, text in PLACES:
            if study == name:
                write(DOCS / page, part, text(report))
    evidence.write()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
