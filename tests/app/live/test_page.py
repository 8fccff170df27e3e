"""The live page in a real browser, at a desk's and at a phone's width.

``ONKEL_SHOTS=DIR`` keeps the pictures, to be looked at.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers.page_checks import AUDIT, FRAMES, INKED
from helpers.serving import Client, served
from helpers.sizes import LONG, WHY_NOT
from helpers.watching import until

if not LONG:
    pytest.skip(WHY_NOT, allow_module_level=True)
pytest.importorskip("bokeh", reason="needs Bokeh: pip install onkel[serve]")

from onkel.app.live.board import Block, Board
from onkel.app.live.page import Dashboard

NAMES = ["temperature", "pressure", "flow"]


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service with three models that learn all the time; the detector meets faults."""
    with served(tmp_path_factory.mktemp("state")) as one:
        kinds = {
            "plant": ("NoveltyDetector", {"nu": 0.02}, NAMES),
            "rare": ("Detector", {"nu": 0.02}, NAMES),
            "quality": ("KernelClassifier", {}, NAMES),
            "tuned": ("Regressor", {}, NAMES),
            "forecast": ("KernelRegressor", {"loss": {"name": "huber", "nu": 0.1}}, None),
        }
        for name, (kind, parameters, features) in kinds.items():
            body = {"name": name, "kind": kind, "parameters": parameters, "features": features}
            one.client.ok("POST", "/models", body)
        stop = threading.Event()
        thread = threading.Thread(target=feed, args=(one.url, stop))
        thread.start()
        yield one
        stop.set()
        thread.join()


def feed(url, stop):
    rng, client, count = np.random.default_rng(0), Client(url), 0
    while not stop.is_set():
        X = rng.normal([20.0, 2.0, 0.5], [1.0, 0.1, 0.05], size=(40, 3))
        if count % 12 == 11:
            X[20:23, 1] += 1.5
        count += 1
        send = [("plant", {}), ("rare", {}), ("quality", {"y": (X[:, 0] > 20).tolist()}),
                ("forecast", {"y": X[:, 0].tolist(), "output": "interval"}),
                ("tuned", {"y": (X[:, 0] * X[:, 1]).tolist()})]  # fmt: skip
        for name, extra in send:
            client.ok("POST", f"/models/{name}/predict-then-learn", {"X": X.tolist(), **extra})
        time.sleep(0.03)


def opened(browser, url, width, **options):
    """A page, and the list of what it complains about."""
    page = browser.new_page(viewport={"width": width, "height": 850}, **options)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda m: wrong.append(m.text) if m.type in ("error", "warning") else None)
    page.on("request", lambda r: wrong.append(r.url) if not r.url.startswith(url) else None)
    return page, wrong


def text(page, selector):
    return page.locator(selector).inner_text()


def shown(page):
    """The numbers of the tiles, by name."""
    return dict(zip(page.locator("dt").all_inner_texts(), page.locator("dd").all_inner_texts(),
                    strict=True))  # fmt: skip


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_shows_the_stream(browser, service, width):
    page, wrong = opened(browser, service.url, width)
    page.goto(f"{service.url}/?model=plant")
    page.wait_for_selector("#alerts li", timeout=30_000)
    until(page, "document.querySelectorAll('#moments tr').length === 3")
    page.wait_for_timeout(2500)
    assert text(page, "h1").startswith("plant") and text(page, "#state") == "live"
    before = int(shown(page)["examples"].replace(",", ""))
    assert shown(page)["rate promised"] == "2 %" and shown(page)["rate realised"].endswith("%")
    assert float(shown(page)["examples per second"].replace(",", "")) > 0
    until(page, "document.getElementById('alerts').textContent.includes('pressure')")  # fmt: skip
    until(page, f"parseInt(document.querySelector('dd').textContent.replace(',', '')) > {before}")
    assert page.locator(".chart .bk-Figure").count() == 5
    inked = page.evaluate(INKED)
    assert min(inked) > 150, f"a chart is empty: {inked}"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(AUDIT) == []
    keep(page, f"plant-{width}")
    for name, tile in (("quality", "share of mistakes"), ("forecast", "coverage promised")):
        page.select_option("#model", name)
        until(page, f"document.querySelector('h1').textContent.startsWith('{name}')")
        page.wait_for_timeout(1500)
        assert shown(page)[tile].endswith("%")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        keep(page, f"{name}-{width}")
    assert shown(page)["coverage promised"] == "90 %"
    assert not page.locator("#members-card").is_visible()
    page.select_option("#model", "tuned")
    until(page, "document.getElementById('leads').textContent.startsWith('Leads now: ')")
    page.wait_for_timeout(1500)
    names = service.client.ok("GET", "/models/tuned")["diagnostics"]["names"]
    assert page.locator("#members-legend li").all_inner_texts() == names
    assert page.locator(".chart .bk-Figure").count() == 6
    assert min(page.evaluate(INKED)) > 150
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(AUDIT) == []
    keep(page, f"tuned-{width}")
    assert wrong == []
    page.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_says_how_rare_rows_are(browser, service, width):
    page, wrong = opened(browser, service.url, width)
    page.goto(f"{service.url}/?model=rare")
    until(page, "document.getElementById('alerts').textContent.includes('1 in ')")
    until(page, "document.getElementById('alerts').textContent.includes('pressure')")
    until(page, "document.getElementById('score-words').textContent.startsWith('Now 1 in ')")
    page.wait_for_timeout(1500)
    assert text(page, "#score-title") == "How rare rows are"
    assert text(page, "#score-legend").split("\n")[2] == "level of an alert"
    assert "first 230 rows of a model" in text(page, "#words")
    assert shown(page)["promised, usual rows"] == "2 %" and "realised, all rows" in shown(page)
    assert min(page.evaluate(INKED)) > 150
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(AUDIT) == []
    keep(page, f"rare-{width}")
    page.select_option("#model", "plant")
    until(page, "document.querySelector('h1').textContent.startsWith('plant')")
    assert text(page, "#score-title") == "Score and threshold"
    assert wrong == []
    page.close()


def keep(page, name):
    folder = os.environ.get("ONKEL_SHOTS")
    if folder:
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def test_a_keyboard_is_enough(browser, service):
    page, wrong = opened(browser, service.url, 1280, reduced_motion="reduce")
    page.goto(f"{service.url}/?model=plant")
    page.wait_for_selector("#alerts li", timeout=30_000)
    order: list[str] = []
    for _ in range(7):  # and three links at the end
        page.keyboard.press("Tab")
        order.append(page.evaluate("document.activeElement.id || document.activeElement.className"))
        ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert ring != "none", order
    assert order[:3] == ["skip", "model", "pause"] and "scroll" in order
    page.focus("#model")
    page.keyboard.press("ArrowDown")
    until(page, "!document.querySelector('h1').textContent.startsWith('plant')")
    page.focus("#pause")
    page.keyboard.press("Enter")
    assert page.get_attribute("#pause", "aria-pressed") == "true"
    page.wait_for_timeout(300)
    before = shown(page)
    page.wait_for_timeout(1500)
    assert shown(page) == before, "a paused page stands still"
    assert page.evaluate("getComputedStyle(document.getElementById('dot')).animationName") == "none"
    assert page.get_attribute("#news", "aria-live") == "polite"
    assert wrong == []
    page.close()


def test_a_token_is_asked_for_and_kept_for_the_session(browser, tmp_path):
    with served(tmp_path, token="correct-horse-battery") as one:
        one.client.ok("POST", "/models", {"name": "secret", "kind": "NoveltyDetector"})
        page, _ = opened(browser, one.url, 390)
        page.goto(one.url)
        page.wait_for_selector("#token", state="visible")
        assert "secret" not in page.content()
        page.fill("#token", "wrong-horse-battery!")
        page.keyboard.press("Enter")
        until(page, "document.getElementById('ask-error').textContent !== ''")
        page.fill("#token", "correct-horse-battery")
        page.keyboard.press("Enter")
        until(page, "document.querySelector('h1').textContent.startsWith('secret')")
        page.reload()
        until(page, "document.querySelector('h1').textContent.startsWith('secret')")
        page.close()


def test_the_page_comes_back_when_the_service_does(browser, tmp_path):
    with served(tmp_path) as one:
        one.client.ok("POST", "/models", {"name": "a", "kind": "NoveltyDetector"})
        one.client.ok("POST", "/models/a/learn", {"X": [[1.0], [2.0]]})
        page, _ = opened(browser, one.url, 1280)
        page.goto(one.url)
        until(page, "document.querySelector('h1').textContent.startsWith('a')")
        port = one.url.rpartition(":")[2]
    until(page, "document.getElementById('state').textContent.includes('not connected')")
    board = Board()
    board.publish("a", Block("novelty", 7, numbers={"t": 7, "terms": 1}))
    with Dashboard(board, port=int(port)) as shown_again:
        assert shown_again.url.endswith(port)
        until(page, "document.querySelector('dd').textContent === '7'")
    page.close()


def test_a_page_that_is_opened_before_the_first_row_complains_of_nothing(browser, rng):
    board = Board()
    board.begin("m", "novelty")
    with Dashboard(board) as own:
        page, wrong = opened(browser, own.url, 390)
        page.goto(own.url)
        until(page, "document.querySelector('#title').textContent.startsWith('m')")
        page.wait_for_timeout(500)
        assert page.evaluate(INKED) == [0] * len(page.evaluate(INKED))
        for numbers in ({}, {"promised": 0.01, "realised": 0.0, "terms": 7}):
            score = rng.normal(size=50)
            block = Block("novelty", 50, score, score - 1, score > 9, numbers=numbers)
            board.publish("m", block)
            page.wait_for_timeout(700)
        assert page.evaluate(INKED)[0] and wrong == []
        began = text(page, "#alerts-none").removeprefix("None since ")
        time.strptime(began, "%Y-%m-%d %H:%M UTC, when this page began.")
        page.close()


def test_any_publisher_can_show_the_page(browser):
    """What a running command does: publish to a board, and serve the page beside its work."""
    board, rng = Board(), np.random.default_rng(1)
    with Dashboard(board) as dashboard:
        stop = threading.Event()

        def work():
            t = 0
            while not stop.is_set():  # fifty thousand examples a second
                score = rng.normal(size=1000)
                t += 1000
                numbers = {"t": t, "terms": 100, "promised": 0.05, "realised": 0.05}
                limit, X = np.full(1000, -1.6), rng.normal(size=(1000, 2))
                block = Block("novelty", 1000, score, limit, score < limit, X, None, numbers)
                board.publish("run", block)
                time.sleep(0.02)

        thread = threading.Thread(target=work)
        thread.start()
        try:
            page, wrong = opened(browser, dashboard.url, 1280)
            page.goto(dashboard.url)
            until(page, "document.querySelector('h1').textContent.startsWith('run')")
            page.wait_for_timeout(3000)
            assert text(page, "#state") == "live"
            assert page.evaluate(FRAMES) < 1000, "the page stays quick"
            assert min(page.evaluate(INKED)) > 150
            assert wrong == []
            page.close()
        finally:
            stop.set()
            thread.join()
        assert Client(dashboard.url).refused("GET", "/models")[0] == 404


@pytest.mark.parametrize("width", [1280, 390])
def test_alerts_and_incidents_whatever_is_asked_for(browser, tmp_path, width):
    """A model that is only asked for ranks: the page has all its alerts, and its incidents."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(3000, 3))
    X[1500:1540, 1] += 9.0
    with served(tmp_path) as one:
        body = {"name": "ranked", "kind": "Detector", "features": NAMES}
        one.client.ok("POST", "/models", body)
        for part in np.split(X, 30):
            asked = {"X": part.tolist(), "output": "rank"}
            one.client.ok("POST", "/models/ranked/predict-then-learn", asked)
        page, wrong = opened(browser, one.url, width)
        page.goto(f"{one.url}/?model=ranked")
        page.wait_for_selector("#alerts li", timeout=30_000)
        total = int(shown(page)["alerts, this run"])
        assert total > 40 and page.locator("#alerts li").count() == 10
        assert text(page, "#alerts-words") == f"The newest 10 alerts of {total}."
        while page.locator("#alerts-more").is_visible():
            before = page.locator("#alerts li").count()
            page.click("#alerts-more")
            until(page, f"document.querySelectorAll('#alerts li').length > {before}")
        assert page.locator("#alerts li").count() == total
        assert page.locator("#incidents li").count() == 5
        page.click("#incidents-more")
        assert "pressure up to" in text(page, "#incidents-card")
        assert page.locator("#incidents li").count() == int(
            text(page, "#incidents-words").split()[0]
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(AUDIT) == [] and wrong == []
        keep(page, f"ranked-{width}")


@pytest.mark.parametrize("width", [1280, 390])
def test_an_incident_of_a_model_with_keys_unfolds_and_is_answered(browser, tmp_path, width):
    rng = np.random.default_rng(4)
    X, keys = rng.normal(size=(3000, 3)), ["pump 7", 8] * 1500
    X[2900:2930:2, 1] += 9.0
    with served(tmp_path) as one:
        body = {"name": "keyed", "kind": "Detector", "features": NAMES, "keyed": True}
        one.client.ok("POST", "/models", body)
        page, wrong = opened(browser, one.url, width)
        page.goto(f"{one.url}/?model=keyed")
        since = "when the service was started or this model made."
        until(page, f"document.querySelector('#alerts-none').textContent.endsWith('{since}')")
        for i in range(0, 3000, 100):
            part = {"X": X[i : i + 100].tolist(), "keys": keys[i : i + 100]}
            one.client.ok("POST", "/models/keyed/learn", part)
        (told,) = (
            found for found in one.client.ok("GET", "/models/keyed/incidents")["incidents"]
            if found["alerts"] > 9
        )  # fmt: skip
        page.wait_for_selector("#incidents summary", timeout=30_000)
        page.locator(f'#incidents summary[data-incident="{told["incident"]}"]').click()
        box = "#incidents details[open]"
        until(page, f"document.querySelectorAll('{box} li').length === {told['alerts']}")
        assert "key pump 7." in page.locator(f"{box} li").first.inner_text()
        page.locator(box).get_by_role("button", name="All faults").click()
        said = f"[...document.querySelectorAll('{box} li')].every((li) => li.textContent.includes("
        until(page, f"{said}'Said: a fault'))")
        answered = one.client.ok("GET", "/models/keyed/alerts?key=pump+7")["alerts"]
        names = {f"pump 7:{alert['id']}" for alert in answered if alert["answer"] == "fault"}
        assert names == set(told["alert_ids"])
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(AUDIT) == [] and wrong == []
        keep(page, f"incident-of-a-key-{width}")
