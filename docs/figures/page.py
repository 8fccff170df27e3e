"""Make the pictures of the live page and of the report: ``python docs/figures/page.py``.

The command watches the simulated plant through a pipe for half a minute. It needs a Chromium.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO, Any

from playwright.sync_api import Browser, sync_playwright

from onkel import streams

HERE = Path(__file__).parent
SECONDS, RATE, ROWS = 40.0, 1500.0, 75
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]


def feed(pipe: IO[str], stop: threading.Event) -> None:
    """Write the plant's readings as CSV, so many a second."""
    plant = streams.sensors(86_400, seed=0, faults=12)
    pipe.write(",".join(plant.names) + "\n")
    began = time.monotonic()
    for start in range(0, len(plant.X), ROWS):
        rows = plant.X[start : start + ROWS].tolist()
        pipe.writelines(",".join(map(repr, row)) + "\n" for row in rows)
        pipe.flush()
        if stop.wait(max(0.0, began + start / RATE - time.monotonic())):
            return


def main() -> None:
    """Run the command, and take the pictures while it runs and when it has ended."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as player:
        folder = Path(name)
        words = ["--nu", "0.01", "--dashboard", "0", "-o", str(folder / "alerts.jsonl")]
        process = subprocess.Popen(
            [sys.executable, "-m", "onkel.app", "detect", "-", *words,
             "--report", str(folder / "run.html")],
            stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert process.stdin is not None and process.stderr is not None
        stop = threading.Event()
        feeder = threading.Thread(target=feed, args=(process.stdin, stop))
        feeder.start()
        browser = player.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        picture(browser, process.stderr.readline().split()[-1], "page.png", SECONDS)
        stop.set()
        feeder.join()
        process.stdin.close()
        assert process.wait() == 0
        picture(browser, (folder / "run.html").as_uri(), "report.png", 2.0)
        browser.close()


def picture(browser: Browser, url: str, name: str, seconds: float) -> None:
    """Open a page, wait, and keep what a screen shows."""
    page = browser.new_page(viewport={"width": 1180, "height": 1000})
    page.goto(url)
    time.sleep(seconds)
    clip: Any = {"x": 0, "y": 0, "width": 1180, "height": 1000}
    page.screenshot(path=HERE / name, clip=clip)
    page.close()


if __name__ == "__main__":
    main()
