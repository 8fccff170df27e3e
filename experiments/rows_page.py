"""Write what the study of mixed rows found into its page: ``python experiments/rows_page.py``.

From reports/rows.json, as ``python experiments/rows.py`` leaves it, and from reports/rows_cost.json
of benchmarks/mixed_rows.py, into docs/rows.md, between two comments each.
"""

from __future__ import annotations

from typing import Any

if __package__:
    from .meeting import common
    from .reproduce_docs import DOCS, markdown, put, report_of
    from .rows_peers import FEW
else:
    from meeting import common
    from reproduce_docs import DOCS, markdown, put, report_of
    from rows_peers import FEW

import mixed_rows

PAGE = DOCS / "rows.md"
SECTIONS = {
    "tables": "The tables",
    "classes": "Classes: mistakes in per cent, all rows",
    "half": "Classes: mistakes in per cent, second half",
    "first": f"Classes: mistakes in per cent, the first {FEW} rows",
    "numbers_first": f"Numbers: mean absolute error, the first {FEW} rows",
    "numbers": "Numbers: mean absolute error, all rows",
    "numbers_half": "Numbers: mean absolute error, second half",
    "loss": "Log loss, second half",
    "texts": "Texts",
    "odd": "Oddities found, in per cent of each kind",
    "speed": "Rows a second",
}
"""The page's parts, and the captions of what stands in them."""


def written(page: str, report: dict[str, Any], cost: dict[str, Any] | None) -> str:
    """Return the page with its tables made anew."""
    tables = {table["caption"]: table["rows"] for table in report["tables"]}
    for name, caption in SECTIONS.items():
        page = put(
            page, name, markdown(tables[caption]) if caption in tables else "*Not measured.*"
        )
    if cost is None or cost["quick"]:
        print("benchmarks/mixed_rows.py: no report of a full run, left as it is")
        return page
    made = [f"**{title}**\n\n{markdown(rows)}" for title, rows in mixed_rows.tables(cost)]
    return put(page, "cost", "\n\n".join(made))


def main() -> int:
    """Write the page from the reports of full runs."""
    report = report_of("rows", quick=False)
    if report is None:
        return 1
    text = PAGE.read_text("utf-8")
    PAGE.write_text(written(text, report, common.load("rows_cost")), "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
