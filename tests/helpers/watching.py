"""The page of a state folder in a browser; ``ONKEL_SHOTS=DIR`` keeps the pictures."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from pathlib import Path

from helpers.page_checks import AUDIT


@contextmanager
def watched(browser, folder, width):
    """A page of a state folder; without a complaint, and no wider than its window."""
    from onkel.app.live.board import Board
    from onkel.app.live.page import Dashboard
    from onkel.app.live.states import Folder

    shown = Folder(Board(), str(folder))
    shown.look()
    wrong: list[str] = []
    with Dashboard(shown.board, take=shown.take) as page_of:
        page = browser.new_page(viewport={"width": width, "height": 850})
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda m: wrong.append(f"{m.type}: {m.text}"))
        page.goto(page_of.url)
        yield page
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(AUDIT) == []
        assert [w for w in wrong if not w.startswith(("log", "info", "debug"))] == []
        page.close()


def until(page, condition, seconds=30.0):
    """Wait for something to be true; the page's own policy forbids the browser tool's way."""
    stop = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < stop, condition
        time.sleep(0.05)


def keep(page, name):
    folder = os.environ.get("ONKEL_SHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)
