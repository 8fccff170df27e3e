"""The page of a state folder in a real browser; ``ONKEL_SHOTS=DIR`` keeps the pictures."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.runs_of import json_lines, onkel, write_rows
from helpers.sizes import LONG, WHY_NOT
from helpers.watching import keep, until, watched

if not LONG:
    pytest.skip(WHY_NOT, allow_module_level=True)
pytest.importorskip("bokeh", reason="needs Bokeh: pip install onkel[serve]")

ITEMS = "[...document.querySelectorAll('#incidents details[open] li')]"


def waiting(folder):
    """What was said, and no run has taken in."""
    listed = json.loads(onkel("feedback", folder, "--list", "--json").stdout)
    return {one["id"]: one["answer"] for one in listed["answers_to_take_in"]}


def test_what_a_cool_down_holds_back_is_told(browser, rng, tmp_path):
    X = rng.normal(size=(2000, 3))
    X[1900:1940, 1] += 9.0
    words = ["detect", write_rows(tmp_path / "rows.csv", X), "--cool-down", 5]
    done = onkel(*words, "--state", tmp_path / "s", "-o", tmp_path / "out", "--json")
    shown, held = len(json_lines(tmp_path / "out")), json.loads(done.stdout)["held_back"]
    assert shown > 10 and held > 10
    with watched(browser, tmp_path / "s", 390) as page:
        page.wait_for_selector("#alerts li", timeout=30_000)
        told = f"of {shown}. The cool-down has held back {held} more."
        assert page.inner_text("#alerts-words") == f"The newest 10 alerts {told}"
        page.click("#alerts-more")
        assert page.inner_text("#alerts-words") == f"The newest {shown} alerts {told}"
        assert page.inner_text("#state") == "not running"
        assert page.locator("#score-legend .strip").is_visible()


@pytest.mark.parametrize("width", [1280, 390])
def test_an_incident_unfolds_and_is_answered(browser, rng, tmp_path, width):
    X = rng.normal(size=(2000, 3))
    X[1900:1915, 1] += 9.0
    path = write_rows(tmp_path / "rows.csv", X)
    words = ["detect", path, "--state", tmp_path / "s", "-o", tmp_path / "out"]
    assert onkel(*words, "--incidents", tmp_path / "i").exit_code == 0
    lines = json_lines(tmp_path / "out")
    number = next(line["incident"] for line in lines if line["row"] >= 1900)
    own = [line for line in lines if line["incident"] == number]
    with watched(browser, tmp_path / "s", width) as page:
        page.wait_for_selector("#incidents summary", timeout=30_000)
        page.locator(f'#incidents summary[data-incident="{number}"]').click()
        until(page, "document.querySelectorAll('#incidents details[open] li').length > 5")
        box = page.locator("#incidents details[open]")
        assert box.locator("li").count() == len(own)
        assert "b" in box.locator("tbody th").all_inner_texts()
        assert f"Row {own[-1]['row']:,}" in box.locator("li").first.inner_text()
        keep(page, f"incident-{width}")
        scrolled = "document.querySelector('#incidents details[open] .scroll')"
        assert page.evaluate(f"{scrolled}.scrollWidth <= {scrolled}.clientWidth")
        page.wait_for_timeout(1200)
        box.get_by_role("button", name="All faults").click()
        until(page, f"{ITEMS}.every((li) => li.textContent.includes('the next run takes it in.'))")
        assert page.evaluate(f"{ITEMS}.every((li) => li.textContent.includes('Said: a fault'))")
        assert waiting(tmp_path / "s") == {line["alert_id"]: "fault" for line in own}
        row = page.locator("#alerts li").first
        row.get_by_role("button").first.click()
        until(page, "document.querySelector('#alerts li').textContent.includes('next run takes')")
        page.keyboard.press("Shift+Tab")  # the list was drawn anew, and the focus is where it was
        until(page, "document.querySelector('#incidents details[open]') !== null")
        keep(page, f"incident-said-{width}")
        page.locator(f'#incidents summary[data-incident="{number}"]').click()
        until(page, "document.querySelector('#incidents details[open]') === null")
        page.wait_for_timeout(1200)


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("task", ["detect", "classify", "regress"])
def test_keys(browser, rng, tmp_path, task, width):
    X, keys = rng.normal(size=(4000, 3)), [f"pump {i}" for i in rng.integers(0, 30, 4000)]
    X[-5:, 1] += 9.0
    y = {"y": np.where(X[:, 0] > 0, "up", "down")} if task == "classify" else {}
    path = write_rows(tmp_path / "rows.csv", X, who=keys, **y)
    words = [task, path, "--key", "who", "--state", tmp_path / "s", "-o", tmp_path / "out"]
    words += {"classify": ["--target", "y"], "regress": ["--target", "c"], "detect": []}[task]
    words += [] if task == "detect" else ["--model", "linear"]
    told = tmp_path / "told"
    words += ["--warmup", 30, "--incidents", told] if task == "detect" else []
    words += ["--nu", 0.1] if task == "regress" else []
    assert onkel(*words).exit_code == 0
    with watched(browser, tmp_path / "s", width) as page:
        page.wait_for_selector("#keys tr", timeout=30_000)
        page.wait_for_timeout(1500)  # the charts are drawn
        wide = task == "detect" and any("key" not in one for one in json_lines(told))
        assert page.locator("#score-legend .strip:visible").count() == wide  # others are not drawn
        heads = page.locator("#keys-head th").all_inner_texts()
        assert (
            heads
            == {
                "detect": ["key", "latest rows", "alerts", "drift, spreads", "rows"],
                "classify": ["key", "mistakes, share", "mistakes", "rows"],
                "regress": ["key", "mean error", "inside", "rows"],
            }[task]
        )
        table = page.locator(".keys-table")
        assert table.evaluate("t => t.scrollWidth <= t.parentElement.clientWidth"), "is cut off"
        assert page.locator("#keys tr").count() == 20
        page.fill("#keys-search", "pump 1")
        until(page, "document.querySelectorAll('#keys tr').length === 11")
        page.select_option("#keys-by", "rows")
        wanted = max((k for k in set(keys) if "pump 1" in k), key=keys.count)
        until(page, f"document.querySelector('#keys tr th').textContent === '{wanted}'")
        keep(page, f"keys-{task}-{width}")
        assert page.locator("#keys button").count() == (11 if task == "detect" else 0)
        if task == "detect":
            page.locator("#keys button").first.click()
            until(page, f"document.getElementById('key-title').textContent === 'Key {wanted}'")
            page.wait_for_timeout(1200)
            assert "rows learned" in page.locator("#key-tiles").inner_text()
            keep(page, f"key-{width}")
