"""Make the pictures of an incident and of a replay: ``python docs/figures/afterwards.py``.

Four lines of a plant, four days of minutes; somebody answers the first alert of each
incident by what was injected. Each page as a laptop shows it, and beside it as a phone does. It
needs a Chromium.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from page import FLAGS, HERE
from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from onkel import streams

LINES, ROWS, DAWN = 4, 6000, datetime(2026, 10, 1)
LAPTOP, PHONE, HEIGHT, EDGE = 1180, 390, 1150, 24
WARMED = 1200
"""Rows of a line before which nobody looks."""


def onkel(*words: Any) -> str:
    """Run the command."""
    full = [sys.executable, "-m", "onkel.app", *map(str, words)]
    return subprocess.run(full, check=True, capture_output=True, text=True).stdout


def readings(path: Path) -> dict[str, np.ndarray]:
    """Write the rows of all lines, minute by minute; return which of each were injected."""
    plants = {f"line-{k + 1}": streams.sensors(ROWS, seed=k, faults=3) for k in range(LINES)}
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["at", "line", *plants["line-1"].names])
        for i in range(ROWS):
            at = (DAWN + timedelta(minutes=i)).isoformat(timespec="minutes")
            for name, plant in plants.items():
                writer.writerow([at, name, *(f"{v:.6g}" for v in plant.X[i])])
    found = {name: np.zeros(ROWS, bool) for name in plants}
    for name, plant in plants.items():
        for fault in plant.faults:
            found[name][fault.start : fault.stop] = True
    return found


def lines(path: Path) -> list[dict[str, Any]]:
    """Return what was written."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def answered(folder: Path, faulty: dict[str, np.ndarray]) -> None:
    """Answer the first alert of each incident."""
    said: dict[str, list[str]] = {"usual": [], "fault": []}
    seen = set()
    for alert in lines(folder / "alerts.jsonl"):
        if alert["incident"] not in seen:
            seen.add(alert["incident"])
            fault = faulty[alert["key"]][alert["row"] // LINES]
            said["fault" if fault else "usual"].append(alert["alert_id"])
    for answer, ids in said.items():
        onkel("feedback", folder / "run", *ids, answer)


def main() -> None:
    """Run, answer, replay; take the pictures."""
    with tempfile.TemporaryDirectory() as name, sync_playwright() as player:
        folder = Path(name)
        faulty = readings(folder / "plant.csv")
        detect = ["detect", folder / "plant.csv", "--time", "at", "--key", "line"]
        onkel(*detect, "--warmup", WARMED, "--state", folder / "run", "-o", folder / "alerts.jsonl",
              "--incidents", folder / "incidents.jsonl", "-q")  # fmt: skip
        answered(folder, faulty)
        asked = ["--nu", 0.002, "--set", "nu=0.02,precision=0.8"]
        onkel("replay", folder / "run", *asked, "--report", folder / "replay.html")
        browser = player.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        beside(views(browser, (folder / "replay.html").as_uri()), "replay.png")
        watching = subprocess.Popen(
            [sys.executable, "-m", "onkel.app", "watch", str(folder / "run")],
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert watching.stderr is not None
        url = watching.stderr.readline().split(" at ")[1].split()[0]
        beside(views(browser, url, worst(folder)), "incident.png")
        watching.terminate()
        browser.close()


def worst(folder: Path) -> int:
    """Return the number of the incident with most alerts."""
    told = lines(folder / "incidents.jsonl")
    return int(max(told, key=lambda one: one["alerts"])["incident"])


def views(browser: Browser, url: str, incident: int | None = None) -> Iterator[Image.Image]:
    """Show a page at both widths; an incident of it unfolded, at the top."""
    for width in (LAPTOP, PHONE):
        page = browser.new_page(viewport={"width": width, "height": HEIGHT})
        page.goto(url)
        page.wait_for_timeout(2000)
        if incident is not None:
            unfold(page, incident)
        else:
            page.evaluate("document.querySelector('section, .card').scrollIntoView()")
            page.evaluate("window.scrollBy(0, -20)")
        yield Image.open(BytesIO(page.screenshot()))
        page.close()


def unfold(page: Page, incident: int) -> None:
    """Unfold an incident, wherever it is in the list."""
    summary = page.locator(f'#incidents summary[data-incident="{incident}"]')
    while not summary.count():
        page.locator("#incidents-more").click()
    summary.click()
    page.wait_for_timeout(1500)
    page.evaluate("document.querySelector('#incidents details[open]').scrollIntoView()")
    page.evaluate("window.scrollBy(0, -130)")
    page.wait_for_timeout(500)


def beside(pages: Iterator[Image.Image], name: str) -> None:
    """Keep two pages beside each other."""
    canvas = Image.new("RGB", (LAPTOP + PHONE + 3 * EDGE, HEIGHT + 2 * EDGE), "#c9d1d8")
    for page, x in zip(pages, (EDGE, LAPTOP + 2 * EDGE), strict=True):
        canvas.paste(page, (x, EDGE))
    canvas.quantize(128, Image.Quantize.MAXCOVERAGE).save(HERE / name, optimize=True)


if __name__ == "__main__":
    main()
