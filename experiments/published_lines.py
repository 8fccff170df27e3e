"""One line of the table of published numbers: what was printed, what we find, the difference."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]

SAME, OURS = "as printed", "ours, beside"
EXACT, MET, BETTER, SHORT, BESIDE = "to the digit", "met", "better", "short of it", "beside it"


def line(
    source: str,
    setting: str,
    measure: str,
    printed: float | None,
    ours: float,
    *,
    digits: int = 2,
    lower: bool = True,
    slack: float = 0.0,
    spread: float | None = None,
    seconds: float | None = None,
    note: str = "",
    same: bool = True,
) -> Row:
    """Return the row; better, met (within `slack`) or short is decided here and nowhere else.

    `same` says whether it is the printed method, or one of ours beside another's figure.

    >>> line("a paper", "its setting", "error %", 15.01, 15.0052)["verdict"]
    'to the digit'
    >>> line("a paper", "ours", "error %", 15.01, 14.8)["verdict"]
    'better'
    """
    gap = None if printed is None else round(ours - printed, digits) + 0.0  # no minus zero
    return {
        "source": source, "setting": setting, "method": SAME if same else OURS, "measure": measure,
        "printed": printed,
        "ours": round(ours, digits), "± over orders": _rounded(spread, digits),
        "difference": gap, "verdict": verdict(printed, ours, digits, lower, slack),
        "seconds": _rounded(seconds, 2), "note": note,
    }  # fmt: skip


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def verdict(printed: float | None, ours: float, digits: int, lower: bool, slack: float) -> str:
    """Return how a figure stands to the printed one."""
    if printed is None:
        return BESIDE
    if round(ours, digits) == round(printed, digits):
        return EXACT
    worse = (ours - printed) * (1 if lower else -1)
    if worse < 0 and abs(worse) > slack:
        return BETTER
    return MET if abs(worse) <= slack else SHORT
