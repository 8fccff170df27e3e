"""Write the commands' own help into the guide: run ``python docs/help.py`` after a change."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from onkel.app.cli import main

PAGE = Path(__file__).parent / "command_line.md"
COMMANDS = (
    "", "detect", "classify", "regress", "serve", "inspect", "watch", "feedback", "replay", "demo",
    "completion",
)  # fmt: skip
WIDTH = 100


def help_of(name: str) -> str:
    """Return the help of a command, as a terminal of 100 columns shows it."""
    how: dict[str, Any] = {"resilient_parsing": True, "terminal_width": WIDTH}
    outer = main.make_context("onkel", [], **how)
    if not name:
        return main.get_help(outer)
    command = main.commands[name]
    return command.get_help(command.make_context(name, [], parent=outer, **how))


def with_help(text: str) -> str:
    """Return the page with its generated part made anew."""
    parts = [f"### onkel {n}".rstrip() + f"\n\n```text\n{help_of(n)}\n```\n" for n in COMMANDS]
    made = "<!-- help:begin -->\n\n" + "\n".join(parts) + "\n<!-- help:end -->"
    return re.sub(r"<!-- help:begin -->.*<!-- help:end -->", lambda _: made, text, flags=re.S)


if __name__ == "__main__":
    PAGE.write_text(with_help(PAGE.read_text("utf-8")), encoding="utf-8")
