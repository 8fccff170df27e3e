"""The weights of a self-tuning model's members over a run: bounded, and kept through restarts."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers.runs_of import onkel, write_rows

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")

from onkel import Classifier, Regressor
from onkel.app.run.checkpoint import State
from onkel.app.run.counters import BUCKETS, Counters, History, member
from onkel.app.run.counting import COUNTINGS
from onkel.app.run.settings import RunSettings
from onkel.streams.sources import Block, Column, Schema, next_cut


def kept(folder) -> Counters:
    state = State(str(folder), writable=False)
    try:
        return Counters.from_dict(json.loads(json.dumps(state.kept()[0].checkpoint.counters)))
    finally:
        state.close()


def test_the_history_has_the_weights_after_each_block(rng, tmp_path) -> None:
    X = rng.normal(size=(2000, 2)).astype(np.float32)
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    path = write_rows(tmp_path / "rows.csv", X, y=y)
    run = ["classify", path, "--target", "y", "--state", tmp_path / "s", "--block", 64]
    assert onkel(*run, "-o", tmp_path / "out").exit_code == 0
    counters = kept(tmp_path / "s")
    model, start = Classifier(missing="mean"), 0
    sums = np.zeros((len(counters.history), len(counters.members)))
    rows = np.zeros(len(sums))
    while start < 2000:
        stop = min(next_cut(start, 64), 2000)
        model.partial_fit(X[start:stop], y[start:stop])
        sums[(stop - 1) // counters.history.width] += model.weights_ * (stop - start)
        rows[(stop - 1) // counters.history.width] += stop - start
        start = stop
    assert counters.members == model.diagnostics_["names"]
    assert [bool(w) for w in counters.weights()] == [bool(n) for n in rows]
    there = rows > 0
    found = [w for w in counters.weights() if w]
    np.testing.assert_allclose(found, sums[there] / rows[there, None], atol=1e-3)


def test_the_weights_go_on_where_a_run_was_stopped(rng, tmp_path) -> None:
    X = rng.normal(size=(1500, 2)).astype(np.float32)
    names = {"whole": [1500], "parts": [700, 1500]}
    for name, ends in names.items():
        for end in ends:
            path = write_rows(tmp_path / f"{name}.csv", X[:end], y=X[:end, 0] * 2)
            run = ["regress", path, "--target", "y", "--state", tmp_path / f"s-{name}"]
            done = onkel(*run, "--block", 64, "-o", tmp_path / f"{name}.out", "--replay")
            assert done.exit_code == 0, done.output
    whole, parts = kept(tmp_path / "s-whole"), kept(tmp_path / "s-parts")
    assert whole.members == parts.members and len(whole.weights()) == len(parts.weights())
    np.testing.assert_allclose(whole.weights()[-1], parts.weights()[-1], atol=0.02)
    assert all(abs(sum(w) - 1) < 1e-9 for w in parts.weights() if w)


def test_the_history_is_bounded() -> None:
    counters = Counters(members=["a", "b"], history=History(width=1))
    for row in range(5000):
        counters.history.add(np.array([row]), {member(0): 0.25, member(1): 0.75})
    assert len(counters.weights()) <= BUCKETS
    assert counters.weights()[0] == [0.25, 0.75]
    counters.history.add(np.array([6000]), {"rows": 1.0})
    assert counters.weights()[-1] == []


def test_models_of_several_keys_count_by_their_rows(rng, tmp_path) -> None:
    X = rng.normal(size=(400, 2)).astype(np.float32)
    y, keys = (X[:, 0] > 0).astype(int), [f"k{i % 4 // 3}" for i in range(400)]
    path = write_rows(tmp_path / "rows.csv", X, y=y, who=keys)
    run = ["classify", path, "--target", "y", "--key", "who", "--state", tmp_path / "s"]
    assert onkel(*run, "-o", tmp_path / "out").exit_code == 0
    counters, start = kept(tmp_path / "s"), 0
    sums = np.zeros(len(counters.members))
    models = {"k0": Classifier(missing="mean"), "k1": Classifier(missing="mean")}
    while start < 400:
        stop = min(next_cut(start, 1024), 400)
        for key, model in models.items():
            at = [i for i in range(start, stop) if keys[i] == key]
            if at:
                model.partial_fit(X[at], y[at])
                sums += model.weights_ * len(at)
        start = stop
    found = [counters.history.column(member(i)).sum() for i in range(len(sums))]
    np.testing.assert_allclose(found, sums, atol=0.1)


@pytest.mark.parametrize("words", [{"kernel": "gaussian"}, {"model": "linear"}])
def test_a_single_model_has_no_weights(rng, words) -> None:
    counters = Counters()
    counting = COUNTINGS["regress"](
        RunSettings("regress", **words), Schema((Column("a"),)), counters
    )
    model = RunSettings("regress", **words).estimator()
    X = rng.normal(size=(5, 1))
    block = Block(0, 5, np.arange(5), X, {}, X[:, 0], np.ones(5, bool))
    assert counting(model, block)()
    assert not counters.members and not counting.weights()
    assert not isinstance(model, Regressor)
