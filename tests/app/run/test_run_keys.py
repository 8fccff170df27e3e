"""How the keys of a run are doing: against plain loops over its output, and after a kill."""

from __future__ import annotations

import json
import re
import signal
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from helpers.runs_of import carry_out, command, json_lines, onkel, write_rows
from helpers.sizes import size

from onkel.app.run.checkpoint import State
from onkel.app.run.store import is_own, parts_of, ranked, read
from onkel.fleet.ranking import PART, Ranking

KEYS = 90
"""More than one part holds."""


def parts(folder) -> dict[str, bytes]:
    """What the newest checkpoint of a state tells of its keys."""
    state = State(folder, writable=False)
    kept = state.kept()[0]
    state.close()
    return {name: read(Path(folder), kept.places[name]) for name in parts_of(kept.places)}


def ranking_of(folder) -> Ranking:
    found = Ranking()
    found.restore(parts(folder).values())
    return found


def rows_of(rng, count, task):
    X = rng.normal(size=(count, 2))
    keys = [f"k{i}" for i in rng.integers(0, KEYS, count) % rng.integers(1, KEYS + 1, count)]
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=count) > 0, "a", "b")
    if task == "regress":
        y = X[:, 0] + 0.1 * rng.normal(size=count) * [1 + int(k[1:]) for k in keys]
    y = [None if i % 7 == 0 else v for i, v in enumerate(y.tolist())]
    return X, keys, ["" if v is None else v for v in y]


@pytest.mark.parametrize("task", ["classify", "regress"])
def test_what_is_counted_of_each_key_is_what_the_output_says(rng, tmp_path, task):
    X, keys, y = rows_of(rng, size(700, 3000), task)
    path = write_rows(tmp_path / "rows.csv", X, who=keys, y=y)
    words = [task, path, "--target", "y", "--key", "who", "-o", tmp_path / "out"]
    words += ["--model", "linear", *(["--nu", 0.2] if task == "regress" else [])]
    assert onkel(*words, "--state", tmp_path / "s").exit_code == 0
    rows, marks, errors = dict.fromkeys(keys, 0), defaultdict(int), defaultdict(float)
    for line in json_lines(tmp_path / "out"):
        if line["target"] is None:
            continue
        rows[line["key"]] += 1
        if task == "classify":
            marks[line["key"]] += line["prediction"] != line["target"]
        else:
            errors[line["key"]] += abs((line["prediction"] or 0.0) - line["target"])
            low, high = line["low"], line["high"]
            marks[line["key"]] += low is None or not low <= line["target"] <= high
    ranking = ranking_of(tmp_path / "s")
    told = {row["key"]: row for row in ranking.top(1000, "share")}
    assert {key: row["rows"] for key, row in told.items()} == rows
    assert {key: row["alerts"] for key, row in told.items()} == {k: marks[k] for k in rows}
    for key in [key for key in told if not rows[key]]:
        assert told.pop(key)["share"] is None
    for key, row in told.items():
        assert row["share"] == marks[key] / rows[key]
        assert row["error"] == pytest.approx(errors[key] / rows[key])
    grown = [row["share"] for row in told.values() if row["rows"] >= 50]
    young = [row["share"] for row in told.values() if row["rows"] < 50]
    shares = [row["share"] for row in told.values()]
    assert shares == sorted(grown, reverse=True) + sorted(young, reverse=True)


WORDS = {
    "detect": ["detect", "--warmup", 30],
    "tables": ["detect", "--warmup", 30, "--lags", 1],
    "classify": ["classify", "--target", "y", "--model", "linear"],
}


@pytest.mark.parametrize("kind", size(["detect"], [*WORDS]))
@pytest.mark.parametrize("death", size(["before-commit:2"], ["before-commit:2", "model:9"]))
def test_a_killed_run_goes_on_with_the_same_numbers(rng, tmp_path, kind, death):
    task = WORDS[kind][0]
    X, keys, y = rows_of(rng, size(1500, 6000), task)
    more = {"y": y} if task == "classify" else {}
    path = write_rows(tmp_path / "rows.csv", X, who=keys, **more)

    def words(name):
        found = [task, path, *WORDS[kind][1:], "--key", "who", "--every", 0, "--block", 256]
        return [*found, "--state", tmp_path / name, "-o", tmp_path / f"{name}.out", "--report",
                tmp_path / f"{name}.html"]  # fmt: skip

    assert command(*words("killed"), dies=death).returncode == -signal.SIGKILL
    assert carry_out(*words("killed")).returncode == 0
    assert carry_out(*words("whole")).returncode == 0
    found = parts(tmp_path / "killed")
    assert found == parts(tmp_path / "whole")
    assert len(found) == -(-len(set(keys)) // PART) > 1
    assert shown(tmp_path / "killed.html") == shown(tmp_path / "whole.html")


def shown(path) -> dict:
    """The table of keys of a report."""
    text = path.read_text("utf-8")
    data = json.loads(re.search(r"const data = (.*?), columns = data.columns", text)[1])
    words = re.search(r"<h2>Keys</h2><p>(.*?)</p>", text)[1]
    assert "since this run went on" not in words
    return {"data": data, "words": words}


@pytest.mark.parametrize("task", ["detect", "classify"])
def test_a_key_that_the_state_uses_itself_is_refused(rng, tmp_path, task):
    X, keys, y = rows_of(rng, 600, task)
    for row in (100, 300, 301):
        keys[row] = ranked(0)
    path = tmp_path / "rows.jsonl"
    lines = [json.dumps({"a": a, "b": b, "who": k, "y": v or None})
             for (a, b), k, v in zip(X.tolist(), keys, y, strict=True)]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")
    words = [task, path, "--key", "who", "--state", tmp_path / "s", "-o", tmp_path / "out"]
    words += ["--target", "y"] if task == "classify" else ["--ignore", "y"]
    for _ in range(2):  # the second time the state holds it
        done = onkel(*words)
        assert done.exit_code == 0, done.output
        with open(path, "a") as file:
            file.write("\n".join(lines) + "\n")
    dead = json_lines(tmp_path / "s" / "dead_letters.jsonl")
    assert [line["row"] for line in dead] == [100, 300, 301, 700, 900, 901]
    assert all("used by the state itself" in line["reason"] for line in dead)
    state = State(tmp_path / "s", writable=False)
    assert set(state.kept()[0].models()) == set(keys) - {ranked(0)}
    state.close()
    assert is_own(ranked(0)) and not any(is_own(key) for key in set(keys) - {ranked(0)})


def test_parts_hold_what_is_known_bit_for_bit(rng):
    """A ranking out of its parts goes on as the one they were taken of."""
    ranking, kept = Ranking(), {}
    for _ in range(30):
        keys = rng.integers(0, 300, 200).tolist()
        X = rng.normal(size=(200, 3))
        usual = np.stack([np.zeros((200, 3)), np.ones((200, 3))], axis=1)
        told = (keys, rng.random(200), rng.random(200) < 0.1, X, usual)
        ranking.update(*told, error=rng.random(200))
        for part in ranking.heard():
            kept[part] = ranking.dump(part)
        assert ranking.heard() == []
        again = Ranking()
        again.restore(kept[part] for part in sorted(kept))
        for by in ("unusual", "drift", "share", "error", "latest"):
            assert again.top(1000, by) == ranking.top(1000, by)
        assert again.summary() == ranking.summary() and again.rows == ranking.rows
        ranking = again if rng.random() < 0.5 else ranking
