"""What a person sees while a run goes on, and at its end."""

from __future__ import annotations

import time
from typing import Any, TextIO

from onkel.app.run import answering, lost
from onkel.app.run.session import Session


class Progress:
    """One line on the terminal, written anew a few times a second."""

    def __init__(self, stream: TextIO, width: int = 100) -> None:
        self._stream, self._width = stream, width
        self._begun = self._shown = time.monotonic()
        self._recent: list[tuple[float, int]] = []

    def __call__(self, session: Session) -> None:
        """Show where the run is, at most five times a second."""
        now = time.monotonic()
        if not self._recent:
            self._recent = [(self._begun, session.counters.rows)]
        if now - self._shown < 0.2:
            return
        self._shown = now
        self._recent = [*self._recent, (now, session.counters.rows)][-25:]
        text = status(session, self._rate())
        self._stream.write(f"\r\x1b[2K{text[: self._width]}")
        self._stream.flush()

    def _rate(self) -> float:
        (t0, r0), (t1, r1) = self._recent[0], self._recent[-1]
        return (r1 - r0) / (t1 - t0) if t1 > t0 else 0.0

    def close(self) -> None:
        """Leave an empty line for what follows."""
        self._stream.write("\r\x1b[2K")
        self._stream.flush()


def status(session: Session, rate: float) -> str:
    """Return where a run is, in one line."""
    counters = session.counters
    words = [lost.rows_of(counters.rows), f"{rate:,.0f} rows/s", *told(session.summary())]
    if counters.broken:
        words.append(f"{counters.broken:,} broken")
    return " · ".join(words)


def told(summary: dict[str, Any]) -> list[str]:
    """Return what was promised, and what came of it, in words."""
    words = []
    if "alerts" in summary:
        words.append(f"{summary['alerts']:,} alert{'s' * (summary['alerts'] != 1)}")
        if summary.get("held_back"):
            words.append(f"{summary['held_back']:,} of them held back by the cool-down")
        if summary["alerts"]:
            still = f" ({summary['incidents_open']:,} open)" * (summary["incidents_open"] > 0)
            words.append(
                f"{summary['incidents']:,} incident{'s' * (summary['incidents'] != 1)}{still}"
            )
        if summary["rate_realised"] is not None:
            words.append(f"rate {summary['rate_realised']:.3g}{_promised(summary)}")
        if summary["warmup"]:
            rest = "" if summary["rate_realised"] is not None else ", all of them"
            words.append(f"{lost.rows_of(summary['warmup'])} of warm-up{rest}")
        words += answering.in_words(summary)
    if summary.get("mistake_rate") is not None:
        text = f"{summary['mistake_rate']:.2%} mistakes"
        same = summary.get("mistake_rate_no_change")
        words.append(text if same is None else f"{text} (repeating the last label: {same:.2%})")
    if summary.get("mean_absolute_error") is not None:
        words.append(f"mean absolute error {summary['mean_absolute_error']:.4g}")
    if summary.get("coverage_realised") is not None:
        promised = f"{summary['coverage_promised']:.3g}"
        words.append(f"coverage {summary['coverage_realised']:.3g} (promised {promised})")
    for target, found in summary.get("deliveries", {}).items():
        waits = f", {found['waiting']:,} waiting" if found["waiting"] else ""
        words.append(f"{found['delivered']:,} delivered{waits} ({target})")
    return words


def _promised(summary: dict[str, Any]) -> str:
    if summary["rate_promised"] is None:
        return ""
    of = f" of {summary['rate_promised_of']}" if "rate_promised_of" in summary else ""
    return f" (promised {summary['rate_promised']:.3g}{of})"


def closing(session: Session, seconds: float, rows: int, broken: bool) -> str:
    """Return the last words of a run; of its broken rows only where nobody else tells of them."""
    summary, counters = session.closing(), session.counters
    rate = [f"{rows / seconds:,.0f} rows/s"] if rows and seconds > 0 else []
    rate = ["none of them new"] if summary["rows"] and not rows else rate
    text = " · ".join([lost.rows_of(summary["rows"]), *rate, *told(summary)])
    if "in_words" in summary:
        text += f"\n{summary['in_words']}"
    if "answers_to_take_in" in summary:
        text += f"\nanswers that wait for the rows of their alerts: {summary['answers_to_take_in']}"
    for words in summary.get("first_answers_refused", []):
        text += f"\nan answer could not be taken in: {words}"
    target = session.source.schema.roles.target
    without = lost.unlabelled(summary, session.settings.task, target)
    for words in (without, lost.pending(summary)):
        text += f"\n{words}" if words else ""
    for path, row in counters.lost.items():
        text += f"\nresults of the rows before row {row} are not in {path} (--output-lost)"
    if counters.broken and broken:
        text += f"\n{lost.broken(counters)}, the first at {counters.first_broken[0]}"
    return text
