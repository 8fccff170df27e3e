"""Write what the study of detectors found into its page: ``python experiments/detection_page.py``.

From reports/detection.json and detection-1.png, as ``python experiments/detection.py --million``
leaves them, into docs/detection_study.md, between two comments each; and into docs/figures.
"""

from __future__ import annotations

import shutil
from typing import Any

if __package__:
    from . import harness
    from .reproduce_docs import DOCS, markdown, put, report_of
else:
    import harness
    from reproduce_docs import DOCS, markdown, put, report_of

PAGE, FIGURE = DOCS / "detection_study.md", DOCS / "figures" / "detection.png"
SECTIONS: dict[str, tuple[str, ...]] = {
    "beside": tuple(
        f"onkel's detector and the best peer, {half}"
        for half in ("the half « shown »", "the half « choose »", "all streams")
    ),
    "shown": tuple(f"{key}, the half « shown »" for key in ("AUC", "AP", "VUS-PR")),
    "choose": tuple(f"{key}, the half « choose »" for key in ("AUC", "AP", "VUS-PR")),
    "nab": ("NAB's score, standard profile, all series",),
    "alerts": ("Alerts, the half « shown »",),
    "behaviour": (
        "Bursts, 20 seeds",
        "Rate, one stream each",
        "Shift, 20 seeds",
        "Youth, 20 seeds",
    ),
    "time": ("Processor time, µs/row, all streams",),
}
"""The page's parts, and the captions of what stands in them."""


def section(tables: dict[str, list[dict[str, Any]]], captions: tuple[str, ...]) -> str:
    """Return tables under their captions."""
    return "\n\n".join(f"**{caption}**\n\n{markdown(tables[caption])}" for caption in captions)


def written(page: str, report: dict[str, Any]) -> str:
    """Return the page with its tables made anew."""
    tables = {table["caption"]: table["rows"] for table in report["tables"]}
    for name, captions in SECTIONS.items():
        page = put(page, name, section(tables, captions))
    return page


def main() -> int:
    """Write the page from the report of a full run."""
    report = report_of("detection", quick=False)
    if report is None:
        return 1
    PAGE.write_text(written(PAGE.read_text("utf-8"), report), "utf-8")
    shutil.copyfile(harness.REPORTS / "detection-1.png", FIGURE)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
