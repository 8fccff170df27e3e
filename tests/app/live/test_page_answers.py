"""The buttons at alerts in a real browser; ``ONKEL_SHOTS=DIR`` keeps the pictures."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.page_checks import AUDIT
from helpers.runs_of import begin, onkel, write_rows
from helpers.serving import served
from helpers.sizes import LONG, WHY_NOT
from helpers.watching import until

if not LONG:
    pytest.skip(WHY_NOT, allow_module_level=True)
pytest.importorskip("bokeh", reason="needs Bokeh: pip install onkel[serve]")

NAMES = ["temperature", "pressure", "flow"]


def opened(browser, url, width):
    page = browser.new_page(viewport={"width": width, "height": 850})
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    return page, wrong


def keep(page, name):
    folder = os.environ.get("ONKEL_SHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def plant(rng, rows=600):
    X = rng.normal([20.0, 2.0, 0.5], [1.0, 0.1, 0.05], size=(rows, 3))
    X[-1, 1] += 2.0
    return X


def first(text):
    return f"document.querySelector('#alerts li').textContent.includes('{text}')"


TOKEN = "correct-horse-battery"


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_of_a_service(browser, tmp_path, rng, width):
    with served(tmp_path, token=TOKEN) as one:
        given = {"nu": 0.02, "precision": 0.8}
        body = {"name": "plant", "kind": "Detector", "parameters": given, "features": NAMES}
        one.client.ok("POST", "/models", body)
        X = plant(rng)
        for part in np.array_split(X, 12):
            one.client.ok("POST", "/models/plant/predict-then-learn", {"X": part.tolist()})
            time.sleep(0.25)
        page, wrong = opened(browser, one.url, width)
        page.goto(one.url)
        page.fill("#token", TOKEN)
        page.keyboard.press("Enter")
        until(page, "document.querySelector('#alerts li') !== null")
        assert page.locator("#alerts li button").count() >= 2
        tiles = page.locator("dt").all_inner_texts()
        assert "faults among answered, promised" in tiles
        keep(page, f"answers-waiting-{width}")
        page.wait_for_timeout(1500)  # the charts are drawn
        row = page.locator("#alerts li").first
        name = row.get_by_role("button", name="Usual").get_attribute("data-answer")
        id = name.split("\n")[2]
        row.get_by_role("button", name="Usual").click()
        until(page, first("Said: usual."))
        assert answer_to(one, id) == "usual"
        assert "No, a fault" in page.evaluate("document.activeElement.textContent")
        page.keyboard.press("Enter")  # another mind, by the keyboard
        until(page, first("Said: a fault."))
        until(page, "document.querySelector('#tiles').textContent.includes('100 %')")
        assert answer_to(one, id) == "fault"
        assert one.client.ok("GET", "/models/plant")["diagnostics"]["alerts_answered"] == 1
        one.client.ok("POST", "/models/plant/feedback", {"id": id, "answer": "usual"})
        until(page, first("Said: usual."))  # what others say is shown, too
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(AUDIT) == []
        keep(page, f"answers-said-{width}")
        page.route("**/feedback", gone)
        row.get_by_role("button").click()
        until(page, first("That could not be said: There is no alert 7."))
        assert answer_to(one, id) == "usual"
        assert wrong and all("404" in w or "401" in w for w in wrong), wrong
        page.close()


def gone(route):
    error = {"error": {"code": "unknown_alert", "message": "There is no alert 7.", "field": "id"}}
    route.fulfill(status=404, content_type="application/json", body=json.dumps(error))


def answer_to(one, id):
    found = one.client.ok("GET", "/models/plant/alerts?count=1000")["alerts"]
    return {alert["id"]: alert["answer"] for alert in found}[id]


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_of_a_run(browser, tmp_path, rng, width):
    path = write_rows(tmp_path / "rows.csv", plant(rng, 1001))
    words = ["detect", path, "--follow", "--dashboard", "0", "--state", tmp_path / "s", "-o",
             tmp_path / "out", "--precision", 0.8, "--every", 0.05]  # fmt: skip
    process = begin(*words, stderr=-1)
    try:
        assert process.stderr is not None
        url = process.stderr.readline().decode().split()[-1]
        page, wrong = opened(browser, url, width)
        page.goto(url)
        until(page, "document.querySelector('#alerts li') !== null")
        page.wait_for_timeout(1500)  # the charts are drawn
        row = page.locator("#alerts li").first
        row.get_by_role("button", name="Fault").click()
        until(page, first("Said: a fault."))
        until(page, "document.querySelector('#tiles').textContent.includes('100 %')")
        row.get_by_role("button", name="No, usual").click()
        until(page, first("Said: usual."))
        until(page, "document.querySelector('#alerts li').className === 'dismissed'")
        page.wait_for_timeout(1200)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(AUDIT) == [] and wrong == []
        keep(page, f"answers-run-{width}")
        page.close()
    finally:
        process.terminate()
        process.communicate(timeout=60)
    told = onkel("inspect", tmp_path / "s").output
    assert "alerts_answered" in told and "answers_to_take_in" not in told
