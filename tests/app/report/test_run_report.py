"""The report of a run."""

from __future__ import annotations

import base64
import datetime
import gzip
import json
import os
import re
from html import escape

import numpy as np
import pytest
from helpers.runs_of import json_lines, onkel, write_rows

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")

from onkel.explain import one_in


def page_of(tmp_path, X, *words, task="detect", **more) -> str:
    """Run a command over rows; return the report without its scripts."""
    pytest.importorskip("bokeh", reason="needs bokeh: pip install onkel[report]")
    path, report = write_rows(tmp_path / "rows.csv", X, **more), tmp_path / "r.html"
    done = onkel(task, path, "--report", report, "-o", tmp_path / "out", *words)
    assert done.exit_code == 0, done.output
    return re.sub(r"<script.*?</script>", "", report.read_text("utf-8"), flags=re.S)


def test_a_detector_that_tells_p_says_how_rare_alerts_are(rng, tmp_path) -> None:
    X = rng.normal(size=(1500, 3))
    X[-5:, 1] += 9.0
    page = page_of(tmp_path, X)
    assert "How rare rows were" in page and "Score and threshold" not in page
    alerts = json_lines(tmp_path / "out")
    assert [a for a in alerts[-5:] if f">{one_in(np.log(a['p']))}</b>" not in page] == []
    assert "<b>230</b><span>rows of warm-up</span>" in page
    assert "(promised 0.01 of usual rows)" in page and "The 230 rows of warm-up" in page
    assert (
        "Detector(missing=&#x27;mean&#x27;)" in page and "learn" not in page.split("settings")[-1]
    )


def test_every_alert_is_drawn_and_incidents_are_told(rng, tmp_path) -> None:
    X = rng.normal(size=(4312, 3))
    X[2000:2040, 1] += 7.0
    at = [f"2026-01-{1 + i // 1440:02}T{i // 60 % 24:02}:{i % 60:02}:00" for i in range(4312)]
    page = page_of(tmp_path, X, "--time", "at", at=at)
    alerts, drawn = json_lines(tmp_path / "out"), drawings(tmp_path / "r.html")
    marks = next(d for d in drawn if "row" in d)
    assert marks["row"] == [a["row"] for a in alerts]
    np.testing.assert_allclose(marks["x"], [epoch_of(a["time"]) for a in alerts])
    rarity = np.maximum([a["score"] / np.log(10) for a in alerts], -12)
    np.testing.assert_allclose(marks["y"], rarity)
    band = next(d for d in drawn if "y1" in d and "y2" in d)
    assert 400 <= len(band["x"]) <= 800 and np.all(np.diff(band["x"]) > 0)
    assert len({a["incident"] for a in alerts}) == int(
        re.search(r"<b>(\d+)</b><span>incidents", page)[1]
    )
    assert "Driven by b up to" in page and 'id="incidents"' in page
    assert page.count('data-is="why"') == len(alerts)  # all of them, some folded
    assert "BoxAnnotation" in (tmp_path / "r.html").read_text("utf-8")


@pytest.mark.parametrize("kind", ["time", "keys", "kernel"])
def test_an_incident_unfolds_with_what_the_output_says_of_it(rng, tmp_path, kind):
    X = rng.normal(size=(1200, 3))
    X[800:803, 1], X[1100:1104, 2] = 9.0, -9.0
    words = {"time": ["--time", "at"], "keys": ["--key", "pump"], "kernel": ["--model", "kernel"]}
    more = {} if kind == "kernel" else {"at": [f"2026-01-01T{i // 60:02}:{i % 60:02}:00"
                                               for i in range(1200)]}  # fmt: skip
    more |= {"pump": ["<b>", "p1"] * 600} if kind == "keys" else {}
    words["keys"] += ["--ignore", "at"]
    page = page_of(tmp_path, X, *words[kind], "--incidents", tmp_path / "i", **more)
    told = {one["incident"]: one for one in json_lines(tmp_path / "i")}
    lines = json_lines(tmp_path / "out")[-200:]
    assert "<b></span>" not in page and ("&lt;b&gt;" in page) == (kind == "keys")
    boxes = re.findall(r"<details><summary><span.*?</div></details>", page, re.S)
    assert len(boxes) == min(len(told), 100)
    for box in boxes:
        number = int(re.search(r'data-is="incident">([\d,]+)', box)[1].replace(",", ""))
        one, cells = told[number], re.findall(r'<span data-is="(.*?)">(.*?)</span>', box)
        assert dict(cells)["alerts"] == str(one["alerts"]) and escape(one["words"]) in box
        assert [*dict(cells)][-1] == "driven by, spreads"
        rows = [line["row"] for line in lines if line["incident"] == number]
        listed = [int(r.replace(",", "")) for r in re.findall(r"<li>row ([\d,]+)", box)]
        assert listed == rows[::-1][:50]
        names = re.findall(r"<tr><th>([^<]*)</th><td>", box)
        assert names == [f["name"] for f in one["features"]]
        if "most unusual" in dict(cells):
            assert dict(cells)["most unusual"] == one_in(np.log(one["peak_p"]))
        left, width = map(float, re.search(r"left:(.*?)%;width:(.*?)%", box).groups())
        assert left == pytest.approx(one["start_row"] / 12, abs=0.01)
        assert width == pytest.approx((one["end_row"] + 1 - one["start_row"]) / 12, abs=0.01)


def test_what_a_cool_down_has_held_back_is_no_alert_that_is_missing(rng, tmp_path) -> None:
    X = rng.normal(size=(1200, 3))
    X[1000:1012, 1] = 9.0
    page = page_of(tmp_path, X, "--cool-down", 30, "--incidents", tmp_path / "i")
    lines = json_lines(tmp_path / "out")
    told = [o for o in json_lines(tmp_path / "i") if o["state"] != "opened"]
    held = sum(one["held_back"] for one in told)
    assert held > 5 and f"Newest first. A cool-down has held back {held} more." in page
    (one,) = [o for o in told if o["end_row"] >= 1000 >= o["start_row"]]
    shown = sum(line["incident"] == one["incident"] for line in lines)
    assert shown == one["alerts"] - one["held_back"] > 0
    assert f"Its alerts, newest first. A cool-down has held back {one['held_back']}." in page


def test_a_precision_is_not_known_before_any_answer(rng, tmp_path) -> None:
    page = page_of(tmp_path, rng.normal(size=(300, 2)), "--precision", "0.8")
    tiles = re.findall(r"<div><b>([^<]*)</b><span>([^<]*)</span></div>", page)
    assert ("–", "precision (promised 0.8; not known yet)") in tiles
    assert [a for a, _ in tiles if not re.fullmatch(r"–|[\d,.]+", a)] == []


def test_settings_have_the_names_of_their_options(rng, tmp_path) -> None:
    X = rng.normal(size=(400, 2))
    page = page_of(tmp_path, X, "--numbers", "double", "--precision", 0.8)
    told = dict(re.findall(r'<th scope="row">(.*?)</th><td>.*?</td><td>(--.*?)</td>', page))
    assert told["numbers"] == "--numbers" and told["precision"] == "--precision"


@pytest.mark.parametrize("task", ["classify", "regress"])
def test_keys_of_labels_and_numbers_have_a_table(rng, tmp_path, task) -> None:
    X, who = rng.normal(size=(600, 2)), [f"</script>{i % 3}" for i in range(600)]
    y = np.where(X[:, 0] > 0, "a", "b") if task == "classify" else X[:, 0]
    words = ["--target", "y", "--key", "who", "--model", "linear"]
    page = page_of(tmp_path, X, *words, task=task, y=y, who=who)
    heads = re.findall(r'data-by="(.*?)">(.*?)</button>', page)
    assert (
        heads
        == {
            "classify": [("share", "mistakes, share"), ("alerts", "mistakes"), ("rows", "rows")],
            "regress": [("error", "mean error"), ("rows", "rows")],  # no interval without --nu
        }[task]
    )
    data = re.search(
        r"const data = (.*?), columns = data.columns", (tmp_path / "r.html").read_text()
    )
    assert "</script>" not in data[1]
    columns = json.loads(data[1])["columns"]
    assert columns["rows"] == [200, 200, 200] and {*columns["key"]} == {*who}
    assert columns[heads[0][0]] == sorted(columns[heads[0][0]], reverse=True)
    assert "3 keys, each with a model of its own. First are those" in page


def drawings(path) -> list[dict]:
    """What the pictures of a report hold: columns by name, of each that has any."""
    text = path.read_text("utf-8")
    docs = re.search(r"const docs_json = '(.*?)';\n", text, re.S)[1]
    found = []
    walk(json.loads(docs.replace("\\\\", "\\").replace("\\'", "'")), found)
    return found


def walk(node, found) -> None:
    if isinstance(node, dict):
        if node.get("name") == "ColumnDataSource":
            pairs = node["attributes"]["data"]["entries"]
            found.append({name: numbers(values) for name, values in pairs})
        for value in node.values():
            walk(value, found)
    elif isinstance(node, list):
        for value in node:
            walk(value, found)


def numbers(values):
    if isinstance(values, dict) and values.get("type") == "ndarray":
        held = base64.b64decode(values["array"]["data"])
        return np.frombuffer(gzip.decompress(held) if held[:2] == b"\x1f\x8b" else held,
                             values["dtype"])  # fmt: skip
    return values


def epoch_of(text: str) -> float:
    return 1000.0 * datetime.datetime.fromisoformat(text + "+00:00").timestamp()


def test_a_classifier_has_its_table_and_its_calibration(rng, tmp_path) -> None:
    X = rng.normal(size=(1500, 3))
    side = np.where(X[:, 0] + 0.3 * rng.normal(size=1500) > 0, "left", "right")
    page = page_of(tmp_path, X, "--target", "side", task="classify", side=side)
    rows = [r for r in json_lines(tmp_path / "out") if r["prediction"] is not None]
    for name in ("left", "right"):
        for told in ("left", "right"):
            count = sum((r["target"], r["prediction"]) == (name, told) for r in rows)
            assert f"{count:,}" in re.search(f"<tr>.*?<b>{name}</b>.*?</tr>", page)[0]
    assert len(rows) == 1499 and "1 row with a label came before any label was known" in page
    dots = next(d for d in drawings(tmp_path / "r.html") if "rows" in d)
    bins = np.minimum([int(10 * r["probability"]) for r in rows], 9)
    assert list(dots["rows"]) == [int(n) for n in np.bincount(bins, minlength=10) if n]
    right = [r["prediction"] == r["target"] for r in rows]
    np.testing.assert_allclose(dots["y"], [np.mean(np.array(right)[bins == b]) for b in set(bins)])


def test_labels_beyond_those_of_the_table_are_told_as_others(rng, tmp_path) -> None:
    """Which of them were right, the table does not know: it says so, and no share."""
    which = rng.integers(0, 44, 900)
    page = page_of(
        tmp_path, rng.normal(size=(900, 2)), "--target", "n", task="classify", n=which.tolist()
    )
    rows = re.findall(r"<tr><td data-is=\"it was\"><b>(.*?)</b>(.*?)</tr>", page)
    names = [name for name, _ in rows]
    assert names[:-1] == sorted(names[:-1], key=int) and names[-1] == "(others)" and len(rows) == 41
    assert "<b>" not in rows[-1][1] and rows[-1][1].endswith('<td data-is="right">–</td>')
    assert "Labels that came after the first 40 are together, as (others)" in page


def test_the_papers_detector_has_scores_and_no_warm_up(rng, tmp_path) -> None:
    page = page_of(tmp_path, rng.normal(size=(800, 3)), "--model", "kernel")
    assert "Score and threshold" in page and "how rare" not in page and "warm-up" not in page
    assert "(promised 0.05)" in page and "goes to the promised one." in page


def test_a_run_that_is_all_warm_up_says_so(rng, tmp_path) -> None:
    page = page_of(tmp_path, rng.normal(size=(150, 3)))
    assert "All 150 rows were warm-up" in page
    assert "<b>150</b><span>rows of warm-up, all of them</span>" in page
    assert "Its only row was warm-up" in page_of(tmp_path, rng.normal(size=(1, 3)))


def test_a_run_by_key_names_the_keys_of_its_alerts(rng, tmp_path) -> None:
    X = rng.normal(size=(1000, 3))
    X[-4:] += 9.0
    page = page_of(tmp_path, X, "--key", "pump", pump=[f"p{i % 2}" for i in range(1000)])
    assert "<th>key</th>" in page and re.search('data-is="key"><span class="nowrap">p1<', page)
    assert "<b>460</b><span>rows of warm-up</span>" in page and "<b>2</b><span>models" in page
    names = [f"a pump of a rather long name, the {i % 2}. of two" for i in range(1000)]
    page = page_of(tmp_path, X, "--key", "pump", pump=names)
    assert re.search('data-is="key"><span class="long">a pump', page)  # the reasons have room


@pytest.mark.long
def test_what_tunes_itself_shows_which_settings_counted(rng, tmp_path) -> None:
    X = rng.normal(size=(1500, 3))
    side = np.where(X[:, 0] * X[:, 1] > 0, "a", "b")
    page = page_of(tmp_path, X, "--target", "side", task="classify", side=side)
    assert "Which settings counted" in page and "Leads now: " in page
    assert page.count('class="area"') >= 2 and "Classifier(missing=" in page
    assert ">recent<" not in page and ">scale<" not in page
    page = page_of(tmp_path, X, "--target", "y", task="regress", y=X[:, 0])
    assert "Which settings counted" in page and "Coverage" in page and "(promised 0.9)" in page
    words = ["--target", "y", "--key", "who"]
    page = page_of(tmp_path, X, *words, task="regress", y=X[:, 0], who=["p", "q"] * 750)
    assert "Which settings counted" in page and "Means over the models" in page
    words = ["--target", "y", "--model", "linear"]
    page = page_of(tmp_path, X, *words, task="regress", y=X[:, 0])
    assert "Which settings" not in page and "Coverage" not in page and "LinearRegressor(" in page


def test_areas_are_the_weights_of_the_most_important_and_of_the_others(rng) -> None:
    pytest.importorskip("bokeh", reason="needs bokeh: pip install onkel[report]")
    from onkel.app.report.figures import stacked

    weights = rng.dirichlet([5, 4, 3, 2, 2, 1, 1, 0.5, 0.5], size=20)
    weights[:, 8] = 0.0
    weights /= weights.sum(axis=1, keepdims=True)
    drawn = stacked(np.arange(20.0), weights, [f"setting {i}" for i in range(9)])
    assert [label for _, _, label in drawn.legend][-1] == "the other 3"
    areas = [r for r in drawn.plot.renderers if hasattr(r, "data_source")]
    tops = [np.array(r.data_source.data["y2"]) for r in areas]
    np.testing.assert_allclose(tops[-1], 1.0)
    first = int(drawn.legend[0][2].split()[-1])
    np.testing.assert_allclose(tops[0], weights[:, first])
    assert first == weights.mean(axis=0).argmax()
    weights[-1] = np.eye(9)[8]  # what leads at the end is told by name, however little it was
    drawn = stacked(np.arange(20.0), weights, [f"setting {i}" for i in range(9)])
    assert [label for _, _, label in drawn.legend][-2:] == ["setting 8", "the other 3"]


def test_a_report_of_nothing(tmp_path) -> None:
    pytest.importorskip("bokeh", reason="needs bokeh: pip install onkel[report]")
    (tmp_path / "empty.csv").write_text("a,b\n")
    report = tmp_path / "r.html"
    done = onkel("detect", tmp_path / "empty.csv", "--report", report, "-o", tmp_path / "out")
    assert done.exit_code == 0 and "0 rows" in report.read_text()
    if os.path.exists("/dev/full"):
        done = onkel("detect", tmp_path / "empty.csv", "--report", "/dev/full")
        assert done.exit_code == 5 and "--report" in done.stderr


def test_rows_that_wait_or_have_no_target_are_told(rng, tmp_path) -> None:
    X = rng.normal(size=(300, 2))
    words = ["--target", "side", "--model", "linear"]
    side = ["" if i % 3 == 0 else "left" for i in range(300)]
    page = page_of(tmp_path, X, *words, task="classify", side=side)
    assert "100 of 300 rows had no label and were predicted only" in page
    for name in ("out", "r.html"):
        (tmp_path / name).unlink()
    who = [f"i{i - (i % 2 and i < 200)}" for i in range(300)]  # rows with labels, then without
    side = ["left" if i % 2 and i < 200 else "" for i in range(300)]
    words += ["--id", "who", "--pending", 20]
    page = page_of(tmp_path, X, *words, task="classify", who=who, side=side)
    assert "100 targets came later than their rows; 20 rows wait for theirs; " in page
