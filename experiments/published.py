"""Published numbers beside ours: one table, from four sources.

Each line has the source and the setting, the printed figure, ours, the difference, and the
processor's seconds for one pass. « To the digit »: equal as printed. « Better », « met » (within a
slack that the text on each source states; none for the toolbox) and « short of it » are decided by
the numbers, for every line, by one function. « As printed » is the printed method, tuned by us
where print gives no setting; « ours, beside » is something of ours next to another method's
figure, and the note says whose.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

if __package__:
    from . import published_budgeted, published_kafbox, published_kol, published_libol, writing
    from .harness import Check
    from .published_lines import BETTER, EXACT, MET, SAME, SHORT, Row
    from .writing import Study
else:
    import published_budgeted
    import published_kafbox
    import published_kol
    import published_libol
    import writing
    from harness import Check
    from published_lines import BETTER, EXACT, MET, SAME, SHORT, Row
    from writing import Study

TITLE = "Published numbers"
PARTS: dict[str, ModuleType] = {
    "kafbox": published_kafbox,
    "kol": published_kol,
    "budgeted": published_budgeted,
    "libol": published_libol,
}
EXPECTED = {  # lines of a part that must be equal to print, by the beginning of their setting
    "kafbox": ("Lorenz, L = 6: NORMA σ", "mg30, L = 11: NORMA σ", "MIMO, L = 4: NORMA σ"),
    "kol": ("kernel perceptron",),
}
NEVER_SHORT = ("kol",)
"""Parts whose printed methods must all be met or beaten."""


def part(name: str) -> Callable[[bool, Path | None], Study]:
    """Return the study of one source alone."""

    def run(quick: bool, data: Path | None) -> Study:
        return study([name], quick, data)

    return run


def run(quick: bool, data: Path | None) -> Study:
    """Run all sources."""
    return study(list(PARTS), quick, data)


def study(names: list[str], quick: bool, data: Path | None) -> Study:
    """Return the table of these sources; one whose data are absent says so."""
    rows, checks, words = [], [], [writing.text_of(__doc__)]
    for name in names:
        module = PARTS[name]
        head = (module.__doc__ or "").splitlines()[0]
        if data is None or not writing.has(data, *module.FILES):
            words += [f"**{head}**", writing.skipped("", _files(module)).skipped]
            continue
        found = module.rows(data, quick)
        words += [f"**{head}**", writing.text_of(module.__doc__)]
        rows += found
        checks += [_equal(name, start, found) for start in EXPECTED.get(name, ())]
        if name in NEVER_SHORT:
            short = sum(row["verdict"] == SHORT for row in found if row["method"] == SAME)
            checks.append(Check(f"{name}: printed methods, lines short of print", short, high=0))
    if not rows:
        return writing.skipped(TITLE, ", ".join(_files(PARTS[n]) for n in names))
    tables: list[tuple[str, list[Row]]] = [("Printed and found", rows), ("In short", counts(rows))]
    caption = "Better (right) or worse than print, line by line; hollow: beside another's figure"
    figures = [(caption, draw(rows))]
    return Study(TITLE, "\n\n".join(words), tables, figures, checks)


def _files(module: ModuleType) -> str:
    return ", ".join(f"{name}.npz" for name in module.FILES)


def _equal(name: str, start: str, rows: list[Row]) -> Check:
    lines = [row for row in rows if row["setting"].startswith(start)]
    equal = sum(row["verdict"] == EXACT for row in lines)
    return Check(f"{name}: {start.strip()}, lines equal to print", equal / len(lines), low=1.0)


def counts(rows: list[Row]) -> list[Row]:
    """Return how many lines of each source are equal, better, met, short."""
    kinds = dict.fromkeys((row["source"], row["method"]) for row in rows)
    found = []
    for kind in kinds:
        mine = [row["verdict"] for row in rows if (row["source"], row["method"]) == kind]
        line: Row = {"source": kind[0], "method": kind[1], "lines": len(mine)}
        found.append(line | {v: mine.count(v) for v in (EXACT, BETTER, MET, SHORT)})
    return found


def draw(rows: list[Row]) -> Any:
    """Return how much better (right) or worse (left) than print each line is."""
    shown = [row for row in rows if row["printed"] is not None]
    figure, panels = writing.canvas(1, height=0.6 + 0.17 * len(shown))
    axis = panels[0, 0]
    for i, row in enumerate(shown):
        colour = writing.ALARM if row["verdict"] == SHORT else writing.ACCENT
        fill = colour if row["method"] == SAME else "white"
        axis.plot([0, gain(row)], [-i, -i], color=colour, lw=1.5)
        axis.plot(gain(row), -i, "o", ms=5, color=colour, mfc=fill)
    names = [f"{row['setting'].split(' (')[0]}, {row['measure'].split(' %')[0]}" for row in shown]
    axis.set_yticks([-i for i in range(len(shown))], names, fontsize=6.5)
    axis.axvline(0, color=writing.INK, lw=0.8)
    axis.set_xscale("symlog", linthresh=1)
    ticks = (-30, -10, -3, -1, 0, 1, 3, 10, 30)
    axis.set_xticks(ticks, [str(t) for t in ticks], fontsize=8)
    axis.set_xlabel("better than print by, % of it (MSE: dB)", fontsize=9)
    axis.set(ylim=(-len(shown), 1), xlim=(-45, 45))
    return figure


def gain(row: Row) -> float:
    """Return how much better than print, in per cent of the printed figure (decibels: as they are).

    >>> gain({"measure": "test accuracy %", "printed": 80.0, "ours": 84.0})
    5.0
    """
    better = (row["printed"] - row["ours"]) * (-1 if "accuracy" in row["measure"] else 1)
    return better if "dB" in row["measure"] else 100 * better / abs(row["printed"])


if __name__ == "__main__":
    raise SystemExit(writing.command("published", run, __doc__))
