"""The page of a replay."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
pytest.importorskip("bokeh", reason="needs bokeh: pip install onkel[report]")
from helpers.runs_of import onkel, write_rows

from onkel.app.replay.compare import Alert, Outcome
from onkel.app.replay.figures import PLACES, Axis


def page_of(tmp_path, X, *words, how=(), **more) -> tuple[str, str]:
    """Return the page without its scripts, and its scripts but the library."""
    path, report = write_rows(tmp_path / "rows.csv", X, **more), tmp_path / "r.html"
    done = onkel("detect", path, "--state", tmp_path / "s", "-o", tmp_path / "out.jsonl", *how)
    assert done.exit_code == 0, done.output
    done = onkel("replay", tmp_path / "s", *words, "--report", report)
    assert done.exit_code == 0, done.output
    text = report.read_text("utf-8")
    parts = re.findall(r"<script.*?</script>", text, flags=re.S)
    page = re.sub(r"<script.*?</script>", "", text, flags=re.S)
    assert not re.search(r'(src|href)="(?!data:)', page)
    return page, parts[-1]


def test_numbers_marks_and_words(rng, tmp_path) -> None:
    X = rng.normal(size=(1500, 3))
    X[-5:, 1] += 9.0
    when = [f"2026-09-{1 + i // 144:02}T{i // 6 % 24:02}:{i % 6}0:00" for i in range(1500)]
    page, script = page_of(tmp_path, X, "--nu", 0.001, "--nu", 0.05, at=when, how=["--time", "at"])
    assert "Would it have fired? The same rows with 2 other settings" in page
    assert "With its own settings the run&#x27;s alerts came out again." in page
    assert page.count('class="plot"') == 3 and "would have come as well" in page
    assert "<h2>nu 0.001</h2>" in page and "Gone" in page and "<h3>New, the first 10 of" in page
    assert "2026-09-0" in page and "DatetimeTicker" in script and "as it was" in script
    assert 'scope="row">as it was</th><td data-is="rows">1,500</td>' in page
    forms = re.findall(r'"(?:hours|hourmin|days)":"(.*?)"', script)
    lines = [line for form in forms for line in re.split(r"\\+n", form)]
    assert forms and max(len(line) for line in lines) <= len("%d %b")  # labels fit a phone


def test_names_are_texts_and_not_html(rng, tmp_path) -> None:
    keys = ["<b>k</b>"] * 900
    page, script = page_of(
        tmp_path, rng.normal(size=(900, 2)), "--nu", 0.05, who=keys, how=["--key", "who"]
    )
    assert "<b>k</b>" not in page and "&lt;b&gt;k&lt;/b&gt;" in page and "</b>" not in script


def test_a_run_without_alerts_has_a_page(rng, tmp_path) -> None:
    page, _ = page_of(tmp_path, rng.normal(size=(150, 3)), "--nu", 0.05)
    assert "0 still, 0 gone, 0 new." in page and 'class="plot"' not in page
    (tmp_path / "alone").mkdir()
    page, _ = page_of(tmp_path / "alone", rng.normal(size=(150, 3)))
    assert "<h1>Would it have fired?</h1>" in page


def test_answers_missed_faults_and_incidents(rng, tmp_path) -> None:
    X = rng.normal(size=(1500, 3))
    X[700:704, 1] += [9.0, 4.0, 9.0, 9.0]
    X[1000] -= 3.5
    keys = ["<i>p</i>"] * 1500
    how = ["--nu", 0.05, "--key", "who"]
    path = write_rows(tmp_path / "rows.csv", X, who=keys)
    words = ["detect", path, "--state", tmp_path / "s", "-o", tmp_path / "out.jsonl", *how]
    assert onkel(*words).exit_code == 0
    faults = [f"{keys[0]}:{row}" for row in (700, 701, 1000)]
    done = onkel("feedback", tmp_path / "s", *faults, "fault")
    assert done.exit_code == 0, done.output
    changes = ["--set", "nu=0.0001,precision=0.9", "--set", "nu=0.04"]
    found = json.loads(onkel("replay", tmp_path / "s", *changes, "--json").stdout)
    missed = found["settings"][1]["faults_missed"]
    assert 0 < missed < 3 and not found["settings"][2]["faults_missed"]
    page, _ = page_of(tmp_path, X, *changes, who=keys, how=how)
    assert f"<h3>Faults missed: {missed}</h3>" in page
    assert page.index("Faults missed") < page.index("<h3>Gone")
    assert "All 3 answered faults come." in page
    assert f'<td data-is="faults shown">{3 - missed} of 3</td>' in page
    assert '<td data-is="promised">0.9</td>' in page and "came after the last row" in page
    own = found["settings"][0]
    assert f"as it was: {len(own['largest_incidents'])} of {own['incidents']}" in page
    assert page.count("<details") == 3 and page.count("<details open>") == 1
    assert "nu 0.0001, precision 0.9: <b>none</b>" in page
    assert "<i>" not in page and "&lt;i&gt;p&lt;/i&gt;" in page


def test_of_many_alerts_the_rarest_of_each_place_is_drawn(rng) -> None:
    scores = rng.normal(size=20_000)
    alerts = [Alert(i, i, float(s), 0.0) for i, s in enumerate(scores)]
    axis = Axis.of([Outcome("", {}, None, 20_000, 0, alerts)])
    found = axis.thinned(alerts)
    assert len(found) <= PLACES and sum(count for _, count in found) == 20_000
    assert min(alert.score for alert, _ in found) == scores.min()
    edges = np.cumsum([0, *(count for _, count in found)])
    assert [a.score for a, _ in found] == [scores[a:b].min() for a, b in pairwise(edges)]
