"""One browser for the pages that a file tests."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Return a headless Chromium; skip without one."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("needs a Chromium on the path")
    needs = "needs playwright: pip install onkel[test-all]"
    pytest.importorskip("bokeh", reason="needs Bokeh: pip install onkel[serve]")
    playwright = pytest.importorskip("playwright.sync_api", reason=needs)
    with playwright.sync_playwright() as player:
        opened = player.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        opened.close()
