"""Write what the front-door study found into its page: ``python experiments/front_door_page.py``.

From reports/front_door.json and front_door-1.png, as ``python experiments/front_door.py`` leaves
them, and from reports/bank.json of benchmarks/bank.py, into docs/front_door.md, between two
comments each; and into docs/figures.
"""

from __future__ import annotations

import shutil
from typing import Any

if __package__:
    from . import harness
    from .meeting import common
    from .reproduce_docs import DOCS, markdown, put, report_of
else:
    import harness
    from meeting import common
    from reproduce_docs import DOCS, markdown, put, report_of

import bank

PAGE, FIGURE = DOCS / "front_door.md", DOCS / "figures" / "front_door-1.png"
SECTIONS: dict[str, tuple[str, ...]] = {
    "glance": ("At a glance", "Where a peer is ahead"),
    "classes": (
        "Classes: mistakes in per cent, all rows",
        "Classes: the first 20,000 rows of longer streams",
    ),
    "numbers": ("Numbers: mean absolute error, all rows",),
    "river": ("River's sets and its published best",),
    "calibration": ("Reliability of Classifier, second half",),
    "probabilities": (
        "Log loss, second half",
        "ECE, 15 bins, second half",
        "ECE of each class, their mean, second half",
    ),
    "every": (
        "Classes: mistakes in per cent, every method",
        "Numbers: mean absolute error, every method",
        "Texts: every method",
    ),
    "weights": (
        "Mean weight of each of Classifier's members",
        "Members of Classifier, for one feature",
        "Mean weight of each of Regressor's members",
        "Members of Regressor, for one feature",
    ),
    "time": ("Classes: seconds for 1000 rows", "Numbers: seconds for 1000 rows"),
}
"""The page's parts, and the captions of what stands in them."""


def section(tables: dict[str, list[dict[str, Any]]], captions: tuple[str, ...]) -> str:
    """Return the tables that there are, under their captions."""
    made = [f"**{c}**\n\n{markdown(tables[c])}" for c in captions if c in tables]
    return "\n\n".join(made) or "*Not measured yet.*"


def written(page: str, report: dict[str, Any], cost: dict[str, Any] | None) -> str:
    """Return the page with its tables made anew."""
    tables = {table["caption"]: table["rows"] for table in report["tables"]}
    for name, captions in SECTIONS.items():
        text = section(tables, captions)
        if name == "calibration" and report["figures"]:
            caption = report["figures"][0]
            text = f"![{caption}](figures/{FIGURE.name})\n\n*{caption}*\n\n{text}"
        page = put(page, name, text)
    if cost is None or cost["quick"]:
        print("bank: no report of a full run, left as it is")
        return page
    made = [f"**{title}**\n\n{markdown(rows)}" for title, rows in bank.tables(cost)]
    return put(page, "cost", "\n\n".join(made))


def main() -> int:
    """Write the page from the reports of full runs."""
    report = report_of("front_door", quick=False)
    if report is None:
        return 1
    text = PAGE.read_text("utf-8")
    PAGE.write_text(written(text, report, common.load("bank")), "utf-8")
    if report["figures"]:
        shutil.copyfile(harness.REPORTS / "front_door-1.png", FIGURE)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
