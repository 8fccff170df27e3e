"""What the workers of a keyed stream do, without Spark: dicts stand in for its states."""

from __future__ import annotations

import copy
import hashlib
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from helpers.spark_fakes import FakeHandle, FakeMap, Times
from helpers.spark_session import missing_package

if missing_package():
    pytest.skip(missing_package(), allow_module_level=True)

import pandas as pd
from pyspark.sql import types

from onkel import (
    Classifier,
    KernelClassifier,
    KernelRegressor,
    NoveltyDetector,
    Regressor,
    files,
    losses,
    rules,
)
from onkel.expansions import Window
from onkel.fleet.judging import FleetDetected
from onkel.judge import Detected, judge_of
from onkel.kernels import Gaussian
from onkel.spark import models as kept
from onkel.spark.models import Cache, Head, Held, Models, patch, patched
from onkel.spark.processor import HEAD, Plan, Processor


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    monkeypatch.setattr(kept, "CACHE", Cache())
    monkeypatch.setattr("onkel.spark.processor.CACHE", kept.CACHE)


@pytest.fixture(autouse=True, params=[True, False], ids=["together", "key by key"])
def together(request, monkeypatch):
    """Whether a group's models are one fleet, and its state pages; what comes out is the same."""
    monkeypatch.setattr(sys.modules[__name__], "TOGETHER", request.param)
    return request.param


TOGETHER = True


def detector(**more: Any) -> NoveltyDetector:
    return NoveltyDetector(nu=0.1, expansion=Window(terms=20), recent=20, **more)


def plan(model: Any, **more: Any) -> Plan:
    explain = more.pop("explain", 0)
    judge = judge_of(model, ["a", "b"] if explain else None, explain)
    whole = Plan(
        files.dumps(model), judge, {"key0": types.StringType()}, judge.fields(), ["a", "b"], 1.0,
        "learn", "raise", False, 8, None, 2**28,
    )  # fmt: skip
    return replace(whole, **{"together": TOGETHER, **more})


def frame(keys, times, X, **more: Any) -> pd.DataFrame:
    given = pd.DataFrame({"key0": keys, "moment": times, "lacks": 0})
    return given.assign(row=list(np.asarray(X, float)), **more)


def work(plan: Plan, store: dict[str, Any], *frames: pd.DataFrame, now: int = -1) -> pd.DataFrame:
    """Run one task over one group of keys."""
    task = Processor(plan)
    task.init(FakeHandle(store))
    return pd.concat(task.handleInputRows((0,), iter(frames), Times(now)), ignore_index=True)


def heads(store: dict[str, Any]) -> dict[Any, Head]:
    """Return what the store says of each key; of pages, the newest."""
    if not TOGETHER:
        return {key: Head(*row) for key, row in store["heads"].items()}
    found = {}
    for (page,), (layout, format, _, _, names, *rest) in sorted(store["keys"].items()):
        *columns, sizes, whole = map(np.array, rest)
        ends, data = np.cumsum(sizes), store["pages"][(page,)][0]
        assert whole.all()
        for i, name in enumerate(names):
            record = data[ends[i] - sizes[i] : ends[i]]
            counts = [column[i].item() for column in columns[:4]]
            digest = hashlib.sha256(record).digest()
            found[(name,)] = Head(layout, format, *counts, digest, -1, record)
    return found


def head(store: dict[str, Any], key: str = "a") -> Head:
    return heads(store)[(key,)]


# -- pages -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize("changes", [0, 1, 5])
def test_a_patch_gives_the_file_back(length, changes, rng):
    base = rng.bytes(length)
    data = bytearray(base)
    for at in rng.integers(0, max(length, 1), changes if length else 0):
        data[at] ^= 1
    change = patch(base, bytes(data))
    assert patched(base, change) == bytes(data)
    assert len(change) <= 4 + changes * (4 + kept.PAGE)
    assert patch(base, bytes(data) + b"!") is None


def test_the_head_is_a_table_of_its_own():
    assert tuple(HEAD) == Head._fields


# -- the store -------------------------------------------------------------------------------------


def grown(rows: int, rng) -> NoveltyDetector:
    return detector().partial_fit(rng.normal(size=(rows, 2)))


@pytest.mark.few
@pytest.mark.parametrize("whole", [0, 2**40])
@pytest.mark.parametrize("cached", [True, False])
def test_a_model_comes_back_bit_for_bit(whole, cached, rng, monkeypatch):
    monkeypatch.setattr(kept, "WHOLE", whole)
    heads, bases = FakeMap(), FakeMap()
    models = Models(heads, bases, detector, {})
    alone = detector()
    for _ in range(30):
        X = rng.normal(size=(3, 2))
        held = models.take(("a",))
        held.model.partial_fit(X)
        models.put(("a",), held, True, -1)
        alone.partial_fit(X)
        assert files.dumps(models.take(("a",)).model) == files.dumps(alone)
        models.put(("a",), models.take(("a",)), False, -1)
        if not cached:
            kept.CACHE = Cache()
    assert bool(bases) == (whole == 0)


def test_pages_write_a_part_of_the_file(rng, monkeypatch):
    monkeypatch.setattr(kept, "WHOLE", 0)
    heads, bases = FakeMap(), FakeMap()
    models = Models(heads, bases, lambda: grown(500, rng), {})
    sizes = []
    for _ in range(40):
        held = models.take(("a",))
        held.model.partial_fit(rng.normal(size=(2, 2)))
        models.put(("a",), held, True, -1)
        sizes.append(len(heads[("a",)][8]))
    assert bases.writes < 20 and np.mean(sizes) < 0.25 * len(files.dumps(held.model))


def test_a_batch_done_again_starts_from_what_was_committed(rng):
    heads, bases = FakeMap(), FakeMap()
    models = Models(heads, bases, detector, {})
    X = rng.normal(size=(5, 2))
    held = models.take(("a",))
    held.model.partial_fit(X)
    models.put(("a",), held, True, -1)
    committed, expected = dict(heads), files.dumps(held.model)
    held = models.take(("a",))
    held.model.partial_fit(X)  # a batch whose task was lost, or never committed
    models.put(("a",), held, True, -1)
    heads.clear()
    heads.update(committed)
    assert files.dumps(models.take(("a",)).model) == expected


def test_a_base_is_written_anew_before_it_could_be_forgotten(rng, monkeypatch):
    monkeypatch.setattr(kept, "WHOLE", 0)
    heads, bases = FakeMap(), FakeMap()
    models = Models(heads, bases, lambda: grown(500, rng), {}, idle=1000)
    for now in range(5000, 9000, 100):
        held = models.take(("a",))
        models.put(("a",), held, False, now)
        based = Head(*heads[("a",)]).based
        assert now + 1000 <= based + 2000  # the head lives so long, the base so long


def test_a_cache_is_bounded(rng):
    held = [Held(None, kept.NEW._replace(digest=bytes([i]), data=bytes(1000))) for i in range(50)]
    cache = Cache(limit=5 * held[0].size())
    for i, one in enumerate(held):
        cache.put((i,), one)
    assert [cache.take((i,), bytes([i])) is not None for i in (44, 45, 49)] == [False, True, True]
    assert cache.used == 3 * held[0].size()


def test_state_of_a_newer_onkel_is_refused_with_the_key(rng):
    store: dict[str, Any] = {}
    whole = plan(detector(), together=False)
    work(whole, store, frame(["a"] * 3, [1, 2, 3], rng.normal(size=(3, 2))))
    for name in ("layout", "format"):
        other = copy.deepcopy(store)
        other["heads"][("a",)] = tuple(Head(*store["heads"][("a",)])._replace(**{name: 99}))
        with pytest.raises(ValueError, match=r"key 'a': .*newer onkel .*99.*upgrade"):
            work(whole, other, frame(["a"], [4], [[0.0, 0.0]]))


def test_damaged_state_is_refused_with_the_key(rng):
    store: dict[str, Any] = {}
    whole = plan(detector(), together=False)
    work(whole, store, frame(["a"] * 3, [1, 2, 3], rng.normal(size=(3, 2))))
    data = bytearray(Head(*store["heads"][("a",)]).data)
    data[-9] ^= 1
    store["heads"][("a",)] = tuple(
        Head(*store["heads"][("a",)])._replace(data=bytes(data), digest=bytes(32))
    )
    with pytest.raises(ValueError, match=r"key 'a': its state cannot be read: .*damaged"):
        work(whole, store, frame(["a"], [4], [[0.0, 0.0]]))


# -- order -----------------------------------------------------------------------------------------


def test_rows_are_learned_in_order_of_time_however_they_come(rng):
    keys, times = rng.choice(["a", "b", "c"], 60), rng.permutation(60)
    X = rng.normal(size=(60, 2))
    given = frame(keys, times, X)
    found = work(plan(detector()), {}, given.iloc[:17], given.iloc[17:])
    for key in "abc":
        at = np.flatnonzero(keys == key)
        at = at[np.argsort(times[at])]
        alone = detector().predict_then_learn(X[at], output="judgement")
        mine = found[found["key0"] == key]
        assert mine["moment"].tolist() == times[at].tolist()
        np.testing.assert_array_equal(mine[["score", "threshold"]].to_numpy(float), alone[:, :2])
        assert mine["alert"].tolist() == (alone[:, 2] > 0).tolist()


def test_ties_are_ordered_by_sequence_or_by_what_the_rows_hold(rng):
    X = rng.integers(0, 3, size=(40, 2)).astype(float)
    given = frame(["a"] * 40, rng.integers(0, 3, 40), X)
    order = np.lexsort([X[:, 1], X[:, 0], given["moment"]])
    alone = detector().predict_then_learn(X[order], output="score")
    for _ in range(3):
        given = given.sample(frac=1, random_state=rng)
        found = work(plan(detector()), {}, given)
        np.testing.assert_array_equal(found["score"], alone)
    given["place"] = rng.permutation(40)
    order = np.lexsort([given["place"], given["moment"]])
    alone = detector().predict_then_learn(np.stack(given["row"].iloc[order]), output="score")
    found = work(plan(detector()), {}, given)
    np.testing.assert_array_equal(found["score"], alone)
    assert found["place"].tolist() == given["place"].iloc[order].tolist()


@pytest.mark.parametrize("late", ["learn", "drop"])
def test_late_rows(late, rng):
    X, store, whole = rng.normal(size=(9, 2)), {}, plan(detector(), late=late)
    work(whole, store, frame(["a"] * 4, [10, 11, 12, 13], X[:4]))
    found = work(whole, store, frame(["a"] * 5, [14, 9, 13, 12, 15], X[4:]))
    assert found["moment"].tolist() == [9, 12, 13, 14, 15]
    assert found["late"].tolist() == [True, True, False, False, False]
    learned = [*range(4), *([5, 7] if late == "learn" else []), 6, 4, 8]
    alone = detector().predict_then_learn(X[learned], output="score")
    scores = found["score"].to_numpy()
    assert np.isnan(scores[:2]).all() == (late == "drop")
    np.testing.assert_allclose(scores[~np.isnan(scores)], alone[4:], rtol=1e-12)
    assert head(store)[2:6] == (15.0, len(learned), 2, 0)


def test_late_rows_do_not_turn_the_clock_back(rng):
    model = detector(rule=rules.Norma(memory="1h"))
    X, store = rng.normal(size=(4, 2)), {}
    work(plan(model), store, frame(["a"] * 2, [100.0, 200.0], X[:2]))
    found = work(plan(model), store, frame(["a"] * 2, [150.0, 250.0], X[2:]))
    alone = detector(rule=rules.Norma(memory="1h"))
    scores = alone.predict_then_learn(X, output="score", time=[100.0, 200.0, 200.0, 250.0])
    np.testing.assert_allclose(found["score"], scores[2:], rtol=1e-12)
    assert found["late"].tolist() == [True, False]


# -- rows that cannot be learned -------------------------------------------------------------------


def test_an_error_names_key_time_and_row(rng):
    X = rng.normal(size=(3, 2))
    X[1, 0] = np.nan
    with pytest.raises(ValueError, match=r"key 'a', time 2, row \{'a': nan, 'b': .*NaN"):
        work(plan(detector()), {}, frame(["a"] * 3, [1, 2, 3], X))


def test_skipped_rows_leave_the_model_as_it_was(rng):
    X, store = rng.normal(size=(12, 2)), {}
    bad = [0, 5, 9]  # the very first row of a key, too
    poisoned = X.copy()
    poisoned[bad, 1] = [np.inf, np.nan, 1e300]
    whole = plan(detector(), on_error="skip")
    given = frame(["a"] * 12, range(12), poisoned)
    parts = [work(whole, store, given.iloc[i : i + 4]) for i in (0, 4, 8)]
    found = pd.concat(parts, ignore_index=True)
    assert np.flatnonzero(found["error"].notna()).tolist() == bad
    assert found["error"][5].startswith("key 'a', time 5, row {'a': ")
    good = np.delete(np.arange(12), bad)
    alone = detector()
    scores = alone.predict_then_learn(X[good], output="score")
    np.testing.assert_allclose(found["score"][good], scores, rtol=1e-12)
    assert found["score"][bad].isna().all() and found["alert"][bad].isna().all()
    assert head(store).refused == 3 and head(store).learned == 9
    before = head(store).digest
    work(whole, store, frame(["a"], [20], [[np.nan, 0.0]]))
    assert head(store).digest == before  # of the model


def test_rows_that_lack_something(rng):
    whole = plan(detector(), on_error="skip")
    given = frame(["", "a", "a", "a"], [0, 0, 1, 2], rng.normal(size=(4, 2)))
    given["lacks"] = [1, 2, 0, 8]
    given.at[3, "row"] = np.zeros(0)
    store: dict[str, Any] = {}
    found = work(whole, store, given)
    texts = found["error"].tolist()
    assert "its key is null" in texts[0] and "its time is null" in texts[1]
    assert texts[2] is None and "it has no features" in texts[3]
    assert found["moment"].tolist() == [0, None, 1, 2] and set(heads(store)) == {("a",)}


def test_rows_of_another_length(rng):
    whole = plan(detector(), on_error="skip")
    given = frame(["a"] * 3, [0, 1, 2], rng.normal(size=(3, 2)))
    given.at[1, "row"] = np.zeros(3)
    found = work(whole, {}, given)
    assert "3 features" in found["error"][1] and found["score"].notna().tolist() == [
        True,
        False,
        True,
    ]


def test_another_number_of_groups_is_refused(rng):
    store: dict[str, Any] = {}
    work(plan(detector()), store, frame(["a"], [1], [[0.0, 0.0]]))
    with pytest.raises(ValueError, match="groups=9, but this checkpoint was begun with groups=8"):
        work(plan(detector(), groups=9), store, frame(["a"], [2], [[0.0, 0.0]]))


# -- tasks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [None, 0.2])
def test_targets_that_are_null_are_predicted_and_not_learned(nu, rng):
    model = KernelRegressor(loss=losses.EpsilonInsensitive(nu=nu) if nu else "huber")
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    lacks = np.where(rng.random(30) < 0.3, 4, 0)
    lacks[0] = 4
    found = work(plan(model), {}, frame(["a"] * 30, range(30), X, label=y).assign(lacks=lacks))
    alone = copy.deepcopy(model)
    expected: list[float] = []
    for x, target, lack in zip(X, y, lacks, strict=True):
        begun = alone.__sklearn_is_fitted__()
        expected.append(alone.predict([x])[0] if begun else (np.nan if lack else 0.0))
        if not lack:
            alone.partial_fit([x], [target])
    np.testing.assert_allclose(found["prediction"], expected, rtol=1e-9, atol=1e-12)
    assert found["target"].isna().tolist() == (lacks > 0).tolist()
    assert ("low" in found) == (nu is not None)
    if nu:
        middle = (found["low"] + found["high"]) / 2
        np.testing.assert_allclose(middle, found["prediction"], rtol=1e-9)


def test_labels(rng):
    X, y = rng.normal(size=(40, 2)), rng.choice(["x", "y", "z"], 40)
    found = work(plan(KernelClassifier()), {}, frame(["a"] * 40, range(40), X, label=y))
    alone = KernelClassifier().predict_then_learn(X, y)
    assert found["prediction"].tolist() == alone.tolist() and found["target"].tolist() == y.tolist()


def test_alerts_are_explained_by_the_model_before_them_however_batches_are_cut(rng):
    X, each = rng.normal(size=(1010, 2)), []
    X[1000] = 9.0, 0.0
    model = NoveltyDetector(nu=0.05, kernel=Gaussian(gamma=0.5))
    for explain, cut in ((2, 1000), (2, 700), (10_000, 1000)):
        whole, store = plan(model, explain=explain, alerts_only=True), {}
        before = work(whole, store, frame(["a"] * cut, range(cut), X[:cut]))
        after = work(whole, store, frame(["a"] * (1010 - cut), range(cut, 1010), X[cut:]))
        found = pd.concat([before, after], ignore_index=True)
        assert found["alert"].all() and found["why"].notna().all() and len(found) > 20
        each.append(found)
    short, cut, whole = each
    pd.testing.assert_frame_equal(short, cut)
    assert short["why"].str.startswith("Alert").sum() == 2
    assert whole["why"].str.startswith("Alert").all()
    odd = whole[whole["moment"] == 1000]["why"].item()
    assert odd.startswith("Alert: score") and "a 9" in odd


@pytest.mark.parametrize("error", [ValueError, TypeError, OverflowError])
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_failure_after_learning_is_no_refusal_of_a_row(rng, monkeypatch, error, on_error):
    """The rows are learned: were they taken for refused, they would be learned a second time."""

    def fails(found):
        raise error("no ranks today")

    monkeypatch.setattr(Detected, "columns", fails)
    monkeypatch.setattr(FleetDetected, "columns", fails)
    with pytest.raises(RuntimeError, match="rows were learned, but their columns failed: no ranks"):
        work(
            plan(detector(), on_error=on_error), {},
            frame(["a"] * 10, range(10), rng.normal(size=(10, 2))),
        )  # fmt: skip


def test_a_model_that_has_learned_is_where_keys_start(rng):
    X, start = rng.normal(size=(20, 2)), detector().partial_fit(rng.normal(size=(50, 2)))
    keys = ["a", "b"] * 10
    found = work(plan(start), {}, frame(keys, range(20), X))
    for i, key in enumerate("ab"):
        alone = copy.deepcopy(start).predict_then_learn(X[i::2], output="score")
        np.testing.assert_allclose(found["score"][found["key0"] == key], alone, rtol=1e-12)


@pytest.mark.parametrize("whole", [0, 2**40])
def test_numbers_of_a_batch_done_again_are_those_of_the_store(whole, rng, monkeypatch):
    monkeypatch.setattr(kept, "WHOLE", whole)
    store: dict[str, Any] = {}
    skips = plan(detector(), on_error="skip")
    work(skips, store, frame(["a"] * 3, [1, 2, 3], rng.normal(size=(3, 2))))
    committed = store
    for _ in range(2):  # its first try was lost; the model is the same, the count is not
        store = copy.deepcopy(committed)
        work(skips, store, frame(["a"], [4], [[np.nan, 0.0]]))
    assert head(store).refused == 1


def test_changes_of_another_base_are_refused(rng, monkeypatch):
    monkeypatch.setattr(kept, "WHOLE", 0)
    store: dict[str, Any] = {}
    work(
        plan(detector(), together=False),
        store,
        frame(["a"] * 30, range(30), rng.normal(size=(30, 2))),
    )
    store["bases"][("a",)] = (files.dumps(grown(5, rng)),)
    kept.CACHE.put(("a",), Held(None, kept.NEW))
    with pytest.raises(ValueError, match=r"key 'a': .*changes are of another base"):
        work(plan(detector(), together=False), store, frame(["a"], [40], [[0.0, 0.0]]))


@pytest.mark.parametrize("kind", [Classifier, Regressor])
def test_banks_of_settings(kind, rng):
    model = kind()
    X, y = rng.normal(size=(60, 2)), rng.choice([0.0, 1.0], 60)
    store: dict[str, Any] = {}
    given = frame(["a"] * 60, range(60), X, label=y)
    found = pd.concat([work(plan(model), store, given.iloc[i : i + 20]) for i in (0, 20, 40)])
    truth = copy.deepcopy(model).predict_then_learn(X, y).astype(float)
    np.testing.assert_allclose(found["prediction"].to_numpy(float)[1:], truth[1:], rtol=1e-9)
