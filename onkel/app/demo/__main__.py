"""The demonstration: ``python -m onkel.app.demo``.

Six sensors of a plant that drifts, changes its product and has faults. A novelty detector gives
alerts at a promised rate, a classifier predicts whether the product is within tolerance; both
judge each reading before they learn from it.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from onkel import streams
from onkel.app.demo.trial import CHANCE, FITTED, Demonstration, classifier, detector, run
from onkel.app.errors import OutputProblem
from onkel.app.telling import ending, to_stdout

EXAMPLES = 86_400
FAULTS = 12
ROWS_PER_FAULT = 1500
"""A short run gets fewer faults, so that most of it stays without."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demonstration, print its table, write its report."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if not options.no_report and not options.output.parent.is_dir():
        parser.error(f"--output: there is no folder {options.output.parent}")
    trial = conduct(options.examples, options.seed, progress=sys.stderr.isatty())
    print(text_table(trial))
    if not options.no_report:
        print(_report(trial, options.output, options.seed))
    return 0


def conduct(examples: int, seed: int, progress: bool = False) -> Demonstration:
    """Generate the stream and let both models go through it."""
    faults = max(1, min(FAULTS, examples // ROWS_PER_FAULT))
    plant = streams.sensors(examples, seed, faults)
    titles = ("detector", "classifier") if progress else ("", "")
    detection = run(detector(), plant.X, None, "judgement", titles[0])
    tracking = run(classifier(), plant.X, plant.y, "prediction", titles[1])
    return Demonstration(plant, detection, tracking)


def text_table(trial: Demonstration) -> str:
    """Return the summary as lines of text."""
    rows = trial.table()
    first, second = (max(len(row[i]) for row in rows) for i in (0, 1))
    lines = [f"{a:<{first}}  {b:>{second}}  {c}".rstrip() for a, b, c in rows]
    rule = "-" * max(map(len, lines))
    note = (
        f"A fault is found if at most {CHANCE:.0%} of all stretches of its length without a fault\n"
        "or a fresh change hold as many alerts.\n" + textwrap.fill(FITTED, 79)
    )
    return "\n".join([rule, *lines, rule, note])


def _report(trial: Demonstration, path: Path, seed: int) -> str:
    """Write the report and return where it is, or why there is none."""
    if importlib.util.find_spec("bokeh") is None:
        return 'No report: it needs Bokeh. Install it with: pip install "onkel[report]"'
    from onkel.app.demo import report

    page = report.page(trial, seed)
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise OutputProblem(f"--output {path}: {error.strerror}.") from None
    return f"Report: {path.resolve()}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m onkel.app.demo",
        description="Novelty detection and a tracking classifier over generated sensor data.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    add = parser.add_argument
    add("--examples", metavar="N", type=_at_least(100), default=EXAMPLES, help="how many readings")
    add("--seed", metavar="N", type=_at_least(0), default=0, help="which stream")
    add("--output", metavar="PATH", type=Path, default=Path("onkel-demo.html"), help="the report")
    add("--no-report", action="store_true", help="print the table only")
    return parser


class _at_least:
    """A whole number not below a limit, for argparse."""

    __name__ = "whole number"

    def __init__(self, least: int) -> None:
        self.least = least

    def __call__(self, text: str) -> int:
        value = int(text)
        if value < self.least:
            raise argparse.ArgumentTypeError(f"must be {self.least} or more; got {value}")
        return value


if __name__ == "__main__":
    with ending(), to_stdout():
        code = main()
    sys.exit(code)
