"""A group of keys as one arena, its state as pages: against single estimators, without Spark."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from helpers.sizes import size
from helpers.spark_fakes import FakeHandle, Times
from helpers.spark_session import missing_package

if missing_package():
    pytest.skip(missing_package(), allow_module_level=True)

import pandas as pd
from pyspark.sql import types

from onkel import (
    Classifier,
    Detector,
    KernelClassifier,
    KernelRegressor,
    NoveltyDetector,
    files,
    losses,
    rules,
)
from onkel.core.cells import has_cells
from onkel.expansions import Window
from onkel.judge import judge_of
from onkel.spark import arenas
from onkel.spark import models as kept
from onkel.spark.models import Cache
from onkel.spark.processor import Plan, Processor

if not has_cells():
    pytest.skip("needs the compiled core", allow_module_level=True)

KINDS: dict[str, Any] = {
    "Detector": lambda: Detector(nu=0.05),
    "NoveltyDetector": lambda: NoveltyDetector(nu=0.1, expansion=Window(terms=20), recent=20),
    "by the clock": lambda: NoveltyDetector(nu=0.1, rule=rules.Norma(memory="1h"), recent=20),
    "KernelRegressor": lambda: KernelRegressor(),
    "intervals": lambda: KernelRegressor(loss=losses.EpsilonInsensitive(nu=0.2)),
    "KernelClassifier": lambda: KernelClassifier(),
    "logistic": lambda: KernelClassifier(loss="logistic"),
}
LAYOUTS = {"as it is": {}, "small pages": {"PAGE": 4000}, "changes": {"PAGE": 4000, "WHOLE": 0}}


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    monkeypatch.setattr(kept, "CACHE", Cache())
    monkeypatch.setattr("onkel.spark.processor.CACHE", kept.CACHE)


def plan(model: Any, *, explain: int = 0, **more: Any) -> Plan:
    judge = judge_of(model, ["a", "b"] if explain else None, explain)
    given = {
        "model": files.dumps(model), "judge": judge, "fields": judge.fields(),
        "keys": {"key0": types.StringType(), "key1": types.LongType()}, "features": ["a", "b"],
        "scale": 1.0, "late": "learn", "on_error": "raise", "alerts_only": False, "groups": 8,
        "idle": None, "cache": 2**28,
    }  # fmt: skip
    return Plan(**{**given, **more})


def batch(rng, rows: int, keys: int, model: Any, first: int = 0) -> pd.DataFrame:
    which = rng.integers(0, keys, rows)
    found = pd.DataFrame({"key0": [f"k{k % 5}" for k in which], "key1": which // 5})
    X = rng.normal(size=(rows, 2)) + which[:, None]
    given = found.assign(moment=first + rng.permutation(rows), lacks=0, row=list(X))
    if model.task == "regression":
        return given.assign(label=X[:, 0] + rng.normal(size=rows))
    if model.task == "classification":
        return given.assign(label=rng.choice(["x", "y", "z"], rows, p=[0.6, 0.3, 0.1]))
    return given


def work(plan: Plan, store: dict[str, Any], given: pd.DataFrame, now: int = -1) -> pd.DataFrame:
    task = Processor(plan)
    task.init(FakeHandle(store))
    return pd.concat(task.handleInputRows((3,), iter([given]), Times(now)), ignore_index=True)


def forget() -> None:
    """What a worker held is gone: another one goes on."""
    Cache.__init__(kept.CACHE)


# -- what comes out --------------------------------------------------------------------------------


@pytest.mark.few
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_all_is_what_single_estimators_say(kind, layout, rng, monkeypatch):
    for name, value in LAYOUTS[layout].items():
        monkeypatch.setattr(arenas, name, value)
    model, store, alone = KINDS[kind](), {}, {}
    whole = plan(model)
    for i in range(size(4, 6)):
        given = batch(rng, 60, 12, model, first=60 * i)
        found = work(whole, store, given)
        if i % 2:
            forget()
        given = given.sort_values("moment")
        for key, rows in given.groupby(["key0", "key1"]):
            own = alone.setdefault(key, KINDS[kind]())
            mine = found[(found["key0"] == key[0]) & (found["key1"] == key[1])]
            assert mine["moment"].tolist() == rows["moment"].tolist()
            compare(own, rows, mine)
    assert isinstance(store["arena"].value, tuple) and "heads" not in store


def compare(own: Any, rows: pd.DataFrame, found: pd.DataFrame) -> None:
    """Let a single estimator learn rows, and hold what it says against what was found."""
    X = np.stack(rows["row"])
    if own.task == "novelty":
        how = {"time": rows["moment"].to_numpy(float)} if own.forgets_by_clock() else {}
        truth = own.predict_then_learn(X, output="judgement", **how)
        columns = found[["score", "threshold", "alert"]].to_numpy(float)
        np.testing.assert_array_equal(columns, truth)
    elif own.task == "regression":
        y = rows["label"].to_numpy()
        output = "judgement" if "low" in found else "prediction"
        truth = np.atleast_2d(own.predict_then_learn(X, y, output=output))
        names = ["prediction", "low", "high"][: len(truth)]
        np.testing.assert_array_equal(found[names].to_numpy(float).T, truth)
    else:
        first = not own.__sklearn_is_fitted__()
        chances = own.predict_then_learn(X, rows["label"].to_numpy(), output="probability")
        told = found["probability"].to_numpy(float)
        np.testing.assert_array_equal(told[first:], chances.max(axis=1)[first:])
        assert found["prediction"].isna().tolist()[first:] == [False] * (len(rows) - first)


@pytest.mark.few
@pytest.mark.parametrize("late", ["learn", "drop"])
@pytest.mark.parametrize("kind", KINDS)
def test_whatever_comes_it_is_the_same_as_key_by_key(kind, late, rng):
    """Late rows, refused ones, missing targets, ties, explanations; a start that has learned."""
    model = KINDS[kind]()
    supervised = model.task != "novelty"
    if late == "drop":
        given = batch(rng, 30, 1, model)
        rest = (given["label"].to_numpy(),) if supervised else ()
        how = {"time": np.zeros(30)} if kind == "by the clock" else {}
        model.partial_fit(np.stack(given["row"]), *rest, **how)
    more = {"late": late, "on_error": "skip", "explain": 0 if supervised else 2}
    ways = [(plan(model, together=on, **more), {}) for on in (True, False)]
    for i in range(size(3, 5)):
        given = batch(rng, 80, 8, model, first=40 * i)
        odd = rng.choice(80, 12, replace=False)
        for row, value in zip(odd[:4], (np.nan, np.inf, -np.inf, 1e300), strict=True):
            given.at[row, "row"] = np.array([value, 0.0])
        given.loc[odd[4:6], "lacks"] = [1, 2]
        if supervised:
            given.loc[rng.random(80) < 0.3, "lacks"] |= 4
        one, other = (work(p, store, given.sample(frac=1.0, random_state=i)) for p, store in ways)
        pd.testing.assert_frame_equal(one, other, check_exact=True)
        errors = one["error"].notna().sum()
        assert errors == 6 if late == "learn" else 2 <= errors <= 6  # one may be late, and dropped
    assert counts(ways[0][1]) == {
        key: tuple(row[2:6]) for key, row in sorted(ways[1][1]["heads"].items())
    }


def counts(store: dict[str, Any]) -> dict[Any, Any]:
    """Return of each key the time, and how many rows were learned, late, refused."""
    found = {}
    for _, row in sorted(store["keys"].items()):
        for i, key in enumerate(zip(*row[4:6], strict=True)):
            found[key] = tuple(column[i] for column in row[6:10])
    return dict(sorted(found.items()))


def test_what_cells_cannot_hold_is_kept_key_by_key(rng):
    model, store = Classifier(), {}
    given = batch(rng, 20, 2, KernelClassifier())
    work(plan(model), store, given)
    assert "heads" in store and "pages" not in store
    store = {}
    work(plan(KernelClassifier(), features=[]), store, given)  # arrays may differ in length
    assert "heads" in store and "pages" not in store


# -- the state -------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_batch_done_again_starts_from_what_was_committed(layout, rng, monkeypatch):
    for name, value in LAYOUTS[layout].items():
        monkeypatch.setattr(arenas, name, value)
    whole, store = plan(Detector()), {}
    for i in range(8):
        given = batch(rng, 40, 12, Detector(), first=40 * i)
        committed = copy.deepcopy(store)
        first = work(whole, store, given)  # its task is lost
        again = work(whole, committed, given)
        pd.testing.assert_frame_equal(first, again, check_exact=True)
        store = committed
        assert store["arena"].value[5] == bytes(store["arena"].value[5])


def test_a_group_that_is_at_hand_is_not_read(rng):
    whole, store = plan(Detector()), {}
    for i in range(5):
        work(whole, store, batch(rng, 40, 12, Detector(), first=40 * i))
    assert store["keys"].reads == store["pages"].reads == 0
    forget()
    work(whole, store, batch(rng, 3, 1, Detector(), first=900))
    assert 0 < store["pages"].reads <= store["keys"].reads


@pytest.mark.parametrize("touched", size([5, 200], [1, 5, 40, 200]))
def test_pages_are_few_and_most_of_them_is_in_use(touched, rng, monkeypatch):
    monkeypatch.setattr(arenas, "PAGE", 20_000)
    model, store = NoveltyDetector(nu=0.1, expansion=Window(terms=5), recent=5), {}
    given = batch(rng, 1000, 200, model)
    work(plan(model), store, given)
    changed = written = 0
    for i in range(size(25, 60)):
        before = set(store["pages"])
        keys = rng.choice(200, touched, replace=False)
        rows = given.iloc[:touched].assign(key0=[f"k{k % 5}" for k in keys], key1=keys // 5)
        work(plan(model), store, rows.assign(moment=2000 + i))
        written += sum(len(row[0]) for page, row in store["pages"].items() if page not in before)
        changed += touched
    total = sum(len(row[0]) for row in store["pages"].values())
    sizes: dict[Any, int] = {}
    for _, row in sorted(store["keys"].items()):
        sizes.update(zip(zip(*row[4:6], strict=True), row[11], strict=True))
    live = sum(sizes.values())
    assert len(sizes) > 190 and set(store["keys"]) == set(store["pages"])
    assert total <= 2 * live and len(store["pages"]) <= 2 * live / 20_000 + 10
    assert written <= 8 * changed * live / 200


def test_large_records_write_what_changed(rng):
    model = NoveltyDetector(nu=0.9, expansion=Window(terms=800), recent=800)
    store: dict[str, Any] = {}
    given = batch(rng, 900, 1, model)
    work(plan(model), store, given)
    first = sum(len(row[0]) for row in store["pages"].values())
    assert first > kept.WHOLE
    work(plan(model), store, batch(rng, 3, 1, model, first=1000))
    total = sum(len(row[0]) for row in store["pages"].values())
    assert len(store["pages"]) == 2 and total < 1.25 * first


def test_keys_that_have_learned_nothing_are_counted(rng):
    whole, store = plan(Detector(), on_error="skip"), {}
    given = batch(rng, 3, 1, Detector()).assign(row=[np.array([np.nan, 0.0])] * 3)
    for i in range(3):
        work(whole, store, given.assign(moment=i))
        forget()
    assert counts(store) == {("k0", 0): (-np.inf, 0, 0, 9)}
    work(whole, store, batch(rng, 3, 1, Detector(), first=9))
    assert counts(store) == {("k0", 0): (11.0, 3, 0, 9)}


# -- idle keys -------------------------------------------------------------------------------------


def expired(store: dict[str, Any], now: int, idle: int) -> None:
    """Forget pages as Spark does."""
    for page in [p for p, row in store["keys"].items() if row[2] + 2 * idle <= now]:
        del store["keys"][page], store["pages"][page]


@pytest.mark.few
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("cached", [True, False])
def test_idle_keys_are_forgotten_and_others_are_not(layout, cached, rng, monkeypatch):
    for name, value in LAYOUTS[layout].items():
        monkeypatch.setattr(arenas, name, value)
    make, idle, store = KINDS["NoveltyDetector"], 1000, {}
    whole, alone, last = plan(make(), idle=idle), {}, {}
    rare = {key: rng.integers(1, 12) for key in range(12)}  # of some, seldom a row
    for i in range(size(25, 60)):
        now = 10_000 + 300 * i
        given = batch(rng, 30, 12, make(), first=30 * i)
        number = given["key0"].str[1:].astype(int) + 5 * given["key1"]
        given = given[[i % rare[k] == 0 for k in number]].sort_values("moment")
        if not len(given):
            continue
        expired(store, now, idle) if store else None
        found = work(whole, store, given, now)
        if not cached:
            forget()
        for key, rows in given.groupby(["key0", "key1"]):
            if now - last.get(key, now) >= idle:
                del alone[key]
            own, last[key] = alone.setdefault(key, make()), now
            compare(own, rows, found[(found["key0"] == key[0]) & (found["key1"] == key[1])])


# -- refusals --------------------------------------------------------------------------------------


def begun(rng) -> dict[str, Any]:
    store: dict[str, Any] = {}
    work(plan(Detector()), store, batch(rng, 20, 4, Detector()))
    forget()
    return store


def test_state_of_a_newer_onkel_is_refused(rng):
    store = begun(rng)
    store["arena"].value = (99, *store["arena"].value[1:])
    with pytest.raises(ValueError, match=r"newer onkel \(layout 99.*upgrade"):
        work(plan(Detector()), store, batch(rng, 5, 4, Detector()))


def test_damaged_state_is_refused(rng):
    store = begun(rng)
    (page,) = store["pages"]
    data = bytearray(store["pages"][page][0])
    data[-9] ^= 1
    store["pages"][page] = (bytes(data),)
    with pytest.raises(ValueError, match=r"cannot be read: page 0 is damaged"):
        work(plan(Detector()), store, batch(rng, 5, 4, Detector()))
    del store["keys"][page]
    with pytest.raises(ValueError, match=r"damaged: page 0 is not there"):
        work(plan(Detector()), store, batch(rng, 5, 4, Detector()))


def test_other_settings_and_another_layout_are_refused(rng):
    given = batch(rng, 5, 4, Detector())
    with pytest.raises(ValueError, match=r"models of this checkpoint are Detector\(\), and"):
        work(plan(Detector(nu=0.2)), begun(rng), given)
    with pytest.raises(ValueError, match="groups=9, but this checkpoint was begun with groups=8"):
        work(plan(Detector(), groups=9), begun(rng), given)
    with pytest.raises(ValueError, match="keeps its models in another way"):
        work(plan(Detector(), together=False), begun(rng), given)
    store: dict[str, Any] = {}
    work(plan(Detector(), together=False), store, given)
    with pytest.raises(ValueError, match="keeps its models in another way"):
        work(plan(Detector()), store, given)
