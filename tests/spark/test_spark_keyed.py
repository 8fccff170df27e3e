"""Keyed streams in a real Spark session: against the library alone, after kills, with bad rows."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.spark_session import why_not

if why_not():
    pytest.skip(why_not(), allow_module_level=True)

import pandas as pd
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as sf

from onkel import KernelClassifier, KernelRegressor, NoveltyDetector, Regressor, losses
from onkel.expansions import Window
from onkel.spark import keyed
from onkel.spark.checks import PROVIDER, ROCKSDB

FEATURES = ["a", "b c"]
SCHEMA = "device string, at timestamp, a double, `b c` double"


def detector() -> NoveltyDetector:
    return NoveltyDetector(nu=0.1, expansion=Window(terms=20), recent=20)


def events(rows: int, keys: int, rng: np.random.Generator, first: int = 0) -> pd.DataFrame:
    """Return rows in no order, each with a time of its own."""
    moments = 1_700_000_000_000_000 + (first + rng.permutation(rows)) * 1000
    X = rng.normal(size=(rows, 2))
    given = {"device": [f"d{k}" for k in rng.integers(0, keys, rows)]}
    given["at"] = pd.to_datetime(moments, unit="us", utc=True).astype("datetime64[us, UTC]")
    return pd.DataFrame({**given, "a": X[:, 0], "b c": X[:, 1]})


def put(folder: Path, name: int, frame: pd.DataFrame) -> None:
    """Write a file whole; Spark takes files in the order of their time stamps."""
    folder.mkdir(exist_ok=True)
    aside = folder / f"_{name}"
    frame.to_parquet(aside, index=False)
    os.utime(aside, (1_600_000_000 + name,) * 2)
    aside.rename(folder / f"{name:03d}.parquet")


def stream(spark: Any, folder: Path) -> Any:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def finish(found: Any, work: Path) -> None:
    """Run a query over all there is, from where its checkpoint stands."""
    writer = found.writeStream.format("parquet").option("path", str(work / "out"))
    query = writer.option("checkpointLocation", str(work / "checkpoint"))
    for attempt in range(3):
        job = query.trigger(availableNow=True).start()
        try:
            assert job.awaitTermination(300), "the query did not end"
            return
        except StreamingQueryException as error:  # Spark gives a busy machine ten seconds
            if attempt == 2 or "failed to connect back" not in str(error):
                raise


def output(spark: Any, work: Path) -> pd.DataFrame:
    found = spark.read.parquet(str(work / "out")).toPandas()
    return found.assign(at=found["at"].dt.tz_localize("UTC")).sort_values(["device", "at"])


def alone(given: pd.DataFrame) -> pd.DataFrame:
    """Return what the library says, key by key."""
    pieces = []
    for _, rows in given.sort_values(["device", "at"]).groupby("device"):
        judged = detector().predict_then_learn(rows[FEATURES].to_numpy(), output="judgement")
        pieces.append(rows[["device", "at"]].assign(score=judged[:, 0], alert=judged[:, 2] > 0))
    return pd.concat(pieces)


def agree(found: pd.DataFrame, given: pd.DataFrame) -> None:
    """Check that nothing is lost, nothing there twice, and all is as the library says."""
    truth = alone(given)
    assert found["device"].tolist() == truth["device"].tolist()
    assert np.all(found["at"].to_numpy() == truth["at"].to_numpy())
    np.testing.assert_allclose(found["score"], truth["score"], rtol=1e-9, atol=1e-12)
    assert found["alert"].tolist() == truth["alert"].tolist()


def ask(spark: Any, folder: Path, **more: Any) -> Any:
    options = {"key": "device", "time": "at", "features": FEATURES, "groups": 8, **more}
    return keyed(stream(spark, folder), detector(), **options)


# -- streams ---------------------------------------------------------------------------------------


def test_a_stream_gives_what_the_library_gives_also_after_a_restart(spark, tmp_path, rng):
    parts = [events(600, 100, rng, first=600 * i) for i in range(3)]
    for i in (0, 1):
        put(tmp_path / "in", i, parts[i])
    finish(ask(spark, tmp_path / "in", explain=1), tmp_path)
    put(tmp_path / "in", 2, parts[2])
    finish(ask(spark, tmp_path / "in", explain=1), tmp_path)
    found = output(spark, tmp_path)
    agree(found, pd.concat(parts))
    assert found["why"].notna().any() and not found["late"].any() and found["error"].isna().all()


def test_late_rows_of_a_stream_are_told_and_counted(spark, tmp_path, rng):
    early, late = events(60, 3, rng), events(60, 3, rng, first=-60)
    put(tmp_path / "in", 0, early)
    put(tmp_path / "in", 1, pd.concat([late, events(60, 3, rng, first=60)]))
    finish(ask(spark, tmp_path / "in", late="drop"), tmp_path)
    found = output(spark, tmp_path)
    assert found["late"].sum() == 60 and found["score"].isna().sum() == 60
    state = spark.read.format("statestore").option("stateVarName", "keys")
    names = ", ".join(f"user_map_value.{name}" for name in ("key0", "learned", "late", "refused"))
    each = state.load(str(tmp_path / "checkpoint")).selectExpr(
        "user_map_key.page", f"explode(arrays_zip({names})) as of"
    )
    rows = each.selectExpr("page", "of.*").groupBy("key0").agg(
        sf.max_by("learned", "page").alias("learned"), sf.max_by("late", "page").alias("late")
    ).collect()  # fmt: skip
    assert len(rows) == 3
    assert sum(r["late"] for r in rows) == 60 and sum(r["learned"] for r in rows) == 120


def test_a_bad_row_ends_the_query_with_key_and_row(spark, tmp_path, rng):
    given = events(50, 3, rng)
    given.loc[17, "a"] = np.inf
    put(tmp_path / "in", 0, given)
    with pytest.raises(Exception, match=f"key '{given['device'][17]}', time .*'a': inf"):
        finish(ask(spark, tmp_path / "in"), tmp_path)


def test_bad_rows_are_skipped_when_asked(spark, tmp_path, rng):
    given, bad = events(200, 5, rng), [3, 50, 199]
    spoilt = given.copy()
    spoilt.loc[bad, "b c"] = [np.nan, np.inf, -np.inf]
    for i in (0, 1):
        put(tmp_path / "in", i, spoilt.sort_values("at").iloc[100 * i : 100 * i + 100])
    finish(ask(spark, tmp_path / "in", on_error="skip"), tmp_path)
    found = output(spark, tmp_path)
    wrong = found["error"].notna()
    assert wrong.sum() == 3 and found["error"][wrong].str.match("key 'd.', time 2023-.*row").all()
    agree(found[~wrong], given.drop(bad))


def wait_for(job: Any, rows: int) -> None:
    """Wait until so many rows were taken in; the engine never says that such a query is done."""
    until = time.monotonic() + 60
    while sum(p.numInputRows for p in job.recentProgress) < rows:
        assert job.isActive and time.monotonic() < until, job.exception()
        time.sleep(0.1)


def test_idle_keys_are_forgotten(spark, tmp_path, rng):
    parts = [events(40, 2, rng, first=40 * i) for i in range(4)]
    (tmp_path / "in").mkdir()
    writer = ask(spark, tmp_path / "in", idle="8s").writeStream.format("parquet")
    writer = writer.option("path", str(tmp_path / "out")).trigger(processingTime="1 second")
    job = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        for i, pause in enumerate((0, 10, 0, 10)):  # a first batch may take long: a new start
            time.sleep(pause)
            put(tmp_path / "in", i, parts[i])
            wait_for(job, 40 * (i + 1))
    finally:
        job.stop()
    found = output(spark, tmp_path).set_index(["device", "at"])["score"]
    for part in (parts[0], pd.concat(parts[1:3]), parts[3]):
        truth = alone(part).set_index(["device", "at"])["score"]
        np.testing.assert_allclose(found.loc[truth.index], truth, rtol=1e-9)


# -- kills -----------------------------------------------------------------------------------------

HERE = Path(__file__).resolve().parent
PATHS = [str(HERE), str(HERE.parent)]
DRIVER = """
import sys
from pathlib import Path
sys.path[:0] = {paths!r}
from helpers import spark_session
import test_spark_keyed as t
spark = spark_session.open_session()
work = Path({work!r})
t.finish(t.ask(spark, work / "in"), work)
spark.stop()
"""


def begun(work: Path) -> int:
    folder = work / "checkpoint" / "offsets"
    return sum(p.name.isdecimal() for p in folder.iterdir()) if folder.is_dir() else 0


def test_nothing_is_lost_and_nothing_twice_when_the_driver_is_killed(spark, tmp_path, rng):
    parts = [events(900, 300, rng, first=900 * i) for i in range(4)]
    for i, part in enumerate(parts):
        put(tmp_path / "in", i, part)
    code = DRIVER.format(paths=PATHS, work=str(tmp_path))
    for batch in (1, 2, None):
        driver = subprocess.Popen(
            [sys.executable, "-c", code], start_new_session=True, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        while batch is not None and driver.poll() is None and begun(tmp_path) < batch:
            time.sleep(0.05)
        if batch is None:
            errors = driver.communicate(timeout=300)[1]
            assert driver.returncode == 0, errors.decode()[-3000:]
        else:
            time.sleep(rng.uniform(0, 1))
            os.killpg(driver.pid, signal.SIGKILL)  # Python and the JVM at once
            driver.communicate()
    agree(output(spark, tmp_path), pd.concat(parts))


# -- batches, and other tasks ----------------------------------------------------------------------


def test_a_batch_and_several_keys_and_targets(spark, rng):
    rows = 120
    given = pd.DataFrame(rng.normal(size=(rows, 2)), columns=["x", "y"])
    given.insert(0, "site", rng.integers(0, 3, rows))
    given.insert(1, "line", rng.choice(["l", "m"], rows))
    given["t"], given["label"] = np.arange(rows), rng.integers(0, 3, rows)
    given["number"] = given["x"] + rng.normal(size=rows)
    frame = spark.createDataFrame(given)
    options = {"key": ["site", "line"], "time": "t", "features": ["x", "y"]}
    interval = KernelRegressor(loss=losses.EpsilonInsensitive(nu=0.2))
    labels = keyed(frame, KernelClassifier(), target="label", **options).toPandas()
    numbers = keyed(frame, interval, target="number", **options).toPandas()
    tuned = keyed(frame, "regression", target="number", **options).toPandas()
    assert list(tuned)[3:7] == ["prediction", "low", "high", "target"]
    assert list(labels) == [
        "site", "line", "t", "prediction", "probability", "target", "late", "error",
    ]  # fmt: skip
    assert list(numbers)[3:7] == ["prediction", "low", "high", "target"]
    for (site, line), part in given.groupby(["site", "line"]):
        X = part[["x", "y"]].to_numpy()
        first = [f[(f["site"] == site) & (f["line"] == line)] for f in (labels, numbers)]
        label, number = (f.sort_values("t") for f in first)
        truth = KernelClassifier().predict_then_learn(X, part["label"].to_numpy())
        told = label["prediction"].fillna(-1).tolist()
        assert told == [-1, *truth[1:].tolist()]  # before its first label a model says nothing
        model = KernelRegressor(loss=losses.EpsilonInsensitive(nu=0.2))
        low, high = model.predict_then_learn(X, part["number"].to_numpy(), output="interval")
        np.testing.assert_allclose(number[["low", "high"]], np.c_[low, high], rtol=1e-9)
        there = tuned[(tuned["site"] == site) & (tuned["line"] == line)].sort_values("t")
        low, high = Regressor().predict_then_learn(X, part["number"].to_numpy(), output="interval")
        np.testing.assert_allclose(there[["low", "high"]], np.c_[low, high], rtol=1e-9)


def test_an_array_of_features(spark, rng):
    X = rng.normal(size=(30, 3))
    rows = [("k", float(i), x.tolist(), i) for i, x in enumerate(X)]
    frame = spark.createDataFrame(rows, "id string, at double, x array<double>, n int")
    found = keyed(frame, detector(), key="id", time="at", features="x", sequence="n").toPandas()
    truth = detector().predict_then_learn(X, output="score")
    np.testing.assert_allclose(found.sort_values("at")["score"], truth, rtol=1e-9)
    assert list(found)[:3] == ["id", "at", "n"]


# -- refusals --------------------------------------------------------------------------------------

BAD = {
    "key": ({"key": "nobody"}, "key: there is no column 'nobody'; there are"),
    "key's type": ({"key": "a"}, "key: column 'a' is double"),
    "no key": ({"key": []}, "key must name one or more columns"),
    "time": ({"time": "nobody"}, "time: there is no column 'nobody'"),
    "time's type": ({"time": "device"}, "time: column 'device' is string; accepted are timestamp"),
    "time is no name": ({"time": 3}, "time must be the name of a column"),
    "features": ({"features": ["a", "nobody"]}, "features: there is no column 'nobody'"),
    "features' type": ({"features": ["a", "raw"]}, "features: column 'raw' is binary; numbers, "),
    "features' list": ({"features": ["a", "list"]}, "features: column 'list' is array<double>"),
    "target": ({"target": "a"}, "a detector learns without a target"),
    "sequence": ({"sequence": "a"}, "sequence: column 'a' is double"),
    "late": ({"late": "maybe"}, "late must be one of"),
    "on_error": ({"on_error": "ignore"}, "on_error must be one of"),
    "idle": ({"idle": "soon"}, "idle must be None or a duration"),
    "groups": ({"groups": 0}, "groups must be a whole number"),
    "explain": ({"explain": -1}, "explain must be a whole number"),
    "cache": ({"cache": "much"}, "cache must be a number"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_arguments_are_told_before_the_query_starts(case, spark):
    change, message = BAD[case]
    frame = spark.createDataFrame([], f"{SCHEMA}, raw binary, list array<double>")
    options = {"key": "device", "time": "at", "features": FEATURES, **change}
    with pytest.raises((ValueError, TypeError), match=message):
        keyed(frame, detector(), **options)


def test_a_model_must_fit_its_columns(spark):
    frame = spark.createDataFrame([], SCHEMA)
    options = {"key": "device", "time": "at", "features": FEATURES}
    with pytest.raises(ValueError, match="KernelRegressor learns targets: give target="):
        keyed(frame, KernelRegressor(), **options)
    with pytest.raises(ValueError, match="explain and alerts_only are for detectors"):
        keyed(frame, KernelRegressor(), target="a", explain=1, **options)
    with pytest.raises(TypeError, match=r"name of a task .*; got 'norma'"):
        keyed(frame, "norma", **options)
    with pytest.raises(TypeError, match="events must be a Spark DataFrame; got DataFrame"):
        keyed(pd.DataFrame(), detector(), **options)
    renamed = frame.withColumnRenamed("device", "score")
    with pytest.raises(ValueError, match="'score' would stand twice"):
        keyed(renamed, detector(), **{**options, "key": "score"})


def test_without_rocksdb_the_setting_is_named(spark, tmp_path):
    (tmp_path / "in").mkdir()
    spark.conf.unset(PROVIDER)
    try:
        with pytest.raises(ValueError, match=f'spark.conf.set."{PROVIDER}", "{ROCKSDB}"'):
            ask(spark, tmp_path / "in")
    finally:
        spark.conf.set(PROVIDER, ROCKSDB)


def test_without_pyspark_the_extra_is_named():
    code = "import sys; sys.modules['pyspark'] = None; from onkel.spark import keyed"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "onkel.spark needs pyspark: pip install 'onkel[spark]' (and Java 17)" in found.stderr


def test_code_of_the_users_own_must_be_handed_over(spark):
    frame = spark.createDataFrame([], SCHEMA)
    model = NoveltyDetector(kernel=lambda X, Z: np.exp(-((X[:, None] - Z) ** 2).sum(axis=2)))
    with pytest.raises(ValueError, match="kernel="):
        keyed(frame, model, key="device", time="at", features=FEATURES)


def test_importing_onkel_does_not_import_spark():
    code = (
        "import sys, onkel, onkel.spark; print('pyspark' in sys.modules, 'pandas' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]


def test_a_time_zone_with_summer_time_changes_nothing(spark, rng):
    zone = spark.conf.get("spark.sql.session.timeZone")
    start = datetime.datetime(2024, 10, 27, 0, 30, tzinfo=datetime.UTC)
    X = rng.normal(size=(40, 2))
    minutes = [start + datetime.timedelta(minutes=3 * i) for i in range(40)]  # 2:30 comes twice
    rows = [("k", m, *x) for m, x in zip(minutes, X.tolist(), strict=True)]
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        frame = spark.createDataFrame(rows, SCHEMA)
        found = keyed(frame, detector(), key="device", time="at", features=FEATURES)
        mine = found.selectExpr("unix_seconds(at) AS s", "score").orderBy("s").toPandas()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert mine["s"].tolist() == [int(m.timestamp()) for m in minutes]
    np.testing.assert_allclose(mine["score"], detector().predict_then_learn(X, output="score"))
