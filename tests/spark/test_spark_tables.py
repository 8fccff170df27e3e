"""Columns of texts, booleans, timestamps and dates in Spark: with it, and what its workers do."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest
from helpers.spark_fakes import FakeHandle, Times
from helpers.spark_session import missing_package

if missing_package():
    pytest.skip(missing_package(), allow_module_level=True)

import pandas as pd
from pyspark.sql import types

from onkel import Columns, Detector, KernelClassifier, KernelRegressor, files, merge
from onkel.columns import Raw
from onkel.judge import judge_of
from onkel.series import Series
from onkel.spark import keyed, learn, predict
from onkel.spark.columns import check_schema, reader_of
from onkel.spark.mixing import Reading, learned, mixed
from onkel.spark.processor import Plan, Processor

SCHEMA = types.StructType([
    types.StructField("carrier", types.StringType()),
    types.StructField("minutes", types.DoubleType()),
    types.StructField("late", types.BooleanType()),
    types.StructField("at", types.TimestampType()),
    types.StructField("day", types.DateType()),
    types.StructField("note", types.StringType()),
])  # fmt: skip
NAMES = [field.name for field in SCHEMA]
COLUMNS = Columns({"note": "text"}, places=8)
START = datetime.datetime(2024, 3, 1, 7, 30, tzinfo=datetime.UTC)


def records(rng: np.random.Generator, n: int) -> list[dict[str, Any]]:
    found = []
    for i in range(n):
        at = START + datetime.timedelta(minutes=37 * i)
        row = {
            "carrier": str(rng.choice(["AA", "UA", "DL"])), "minutes": float(rng.normal(100, 10)),
            "late": bool(rng.random() < 0.3), "at": at, "day": at.date(),
            "note": f"gate changed to number {rng.integers(9)}",
        }  # fmt: skip
        found.append({**row, NAMES[i % 6]: None} if i % 11 == 10 else row)
    return found


def travelled(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows as Spark hands them to workers: moments as microseconds."""
    found = pd.DataFrame(rows, columns=NAMES)
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    micro = datetime.timedelta(microseconds=1)
    found["at"] = [None if r["at"] is None else (r["at"] - epoch) // micro for r in rows]
    found["day"] = [None if r["day"] is None else
                    (r["day"] - epoch.date()) // datetime.timedelta(days=1) * 86_400_000_000
                    for r in rows]  # fmt: skip
    return found


def encoded(rows: list[dict[str, Any]], model: Any) -> Any:
    """The same rows as the library reads them, by the plan that the schema tells."""
    reader = reader_of(SCHEMA, NAMES, model)
    assert reader is not None
    return reader.plan.encode(Raw(NAMES, [[r[n] for r in rows] for n in NAMES], len(rows)))


def target(rows: list[dict[str, Any]]) -> list[float]:
    return [float(r["carrier"] == "AA") for r in rows]


# -- what workers do, without Spark ----------------------------------------------------------------


def test_the_schema_tells_what_columns_are() -> None:
    reader = reader_of(SCHEMA, NAMES, KernelRegressor(columns=COLUMNS))
    assert reader is not None
    assert {c.name: c.kind for c in reader.plan.columns} == {
        "carrier": "category", "minutes": "number", "late": "boolean", "at": "time",
        "day": "time", "note": "text",
    }  # fmt: skip
    assert reader.moments == ("at", "day")
    assert reader_of(SCHEMA, ["minutes", "late"], Detector()) is None
    asked = reader_of(SCHEMA, ["minutes", "late"], Detector(columns={"minutes": "category"}))
    assert asked is not None
    assert [c.kind for c in asked.plan.columns] == ["category", "boolean"]


def test_what_does_not_fit_is_refused_before_any_job(rng: np.random.Generator) -> None:
    begun = KernelRegressor().partial_fit([[1.0, 2.0]], [1.0])
    with pytest.raises(ValueError, match="takes numbers alone"):
        reader_of(SCHEMA, ["carrier", "minutes"], begun)
    with pytest.raises(ValueError, match="takes numbers alone"):
        reader_of(SCHEMA, ["carrier", "minutes"], Series(Detector()))
    rows = encoded(records(rng, 20), KernelRegressor())
    table = KernelRegressor().partial_fit(rows, [0.0] * 20)
    with pytest.raises(ValueError, match=r"has learned \['carrier'.*got \['carrier', 'minutes'\]"):
        reader_of(SCHEMA, ["carrier", "minutes"], table)
    kept = reader_of(SCHEMA, NAMES[::-1], table)
    assert kept is not None
    assert kept.plan == table.plan_
    schema = types.StructType(
        [types.StructField("m", types.MapType(types.StringType(), types.StringType()))]
    )
    with pytest.raises(TypeError, match="texts, booleans, timestamps and dates are accepted"):
        check_schema(schema, ["m"])


def test_rows_that_travelled_are_the_librarys(rng: np.random.Generator) -> None:
    model, rows = KernelRegressor(columns=COLUMNS), records(rng, 60)
    reader = reader_of(SCHEMA, NAMES, model, [f"f{i}" for i in range(6)])
    assert reader is not None
    found = reader.encode(travelled(rows).set_axis(reader.aliases, axis=1))
    np.testing.assert_array_equal(found.X, encoded(rows, model).X)


@pytest.mark.parametrize("kind", [KernelRegressor, Detector])
def test_partitions_that_never_saw_a_value_are_merged(rng: np.random.Generator, kind: Any) -> None:
    """Each partition has one carrier only; the plan is of the schema, so that all agree."""
    model, rows = kind(columns=COLUMNS), sorted(records(rng, 90), key=lambda r: str(r["carrier"]))
    reader = reader_of(SCHEMA, NAMES, model)
    goal = None if kind is Detector else "y"
    reading = Reading(tuple(NAMES), goal, reader=reader)
    frame, sent = travelled(rows).assign(y=target(rows)), files.dumps(model)
    parts = [learned(i, [frame[i * 30 : (i + 1) * 30]], sent, reading, "examples")
             for i in range(3)]  # fmt: skip
    whole, merged = mixed(parts, model, {})
    assert (whole.examples, whole.why, merged.t_) == (90, "", 90)
    alone = [kind(columns=COLUMNS).partial_fit(encoded(rows[i : i + 30], model),
             *([target(rows[i : i + 30])] if goal else [])) for i in (0, 30, 60)]  # fmt: skip
    again = merge(alone)
    look = encoded(rows[::9], model)
    ask = "predict" if goal else "score_samples"
    np.testing.assert_allclose(getattr(merged, ask)(look), getattr(again, ask)(look), rtol=1e-9)
    assert merged.tally_.seen("carrier", "AA") == sum(r["carrier"] == "AA" for r in rows)


def test_a_keyed_worker_learns_each_key_as_the_library_does(rng: np.random.Generator) -> None:
    model, rows = KernelClassifier(columns=COLUMNS), records(rng, 40)
    reader = reader_of(SCHEMA, NAMES, model, [f"f{i}" for i in range(6)])
    assert reader is not None
    judge = judge_of(model)
    plan = Plan(
        files.dumps(model), judge, {"key0": types.StringType()}, judge.fields(), NAMES, 1.0,
        "learn", "skip", False, 8, None, 2**28, {}, reader,
    )  # fmt: skip
    keys, goal = rng.choice(["a", "b"], 40), ["yes" if t else "no" for t in target(rows)]
    given = travelled(rows).set_axis(reader.aliases, axis=1)
    given = given.assign(key0=keys, moment=np.arange(40.0), lacks=0, label=goal)
    given.loc[7, "f1"] = np.inf
    given = given.sample(frac=1.0, random_state=1)
    store: dict[str, Any] = {}
    pieces = []
    for part in (given[given["moment"] < 20], given[given["moment"] >= 20]):
        task = Processor(plan)
        task.init(FakeHandle(store))
        pieces += list(task.handleInputRows((0,), iter([part]), Times(-1)))
    found = pd.concat(pieces).sort_values("moment", ignore_index=True)
    error = found["error"][7]
    assert "column 'minutes': inf is not a number" in error
    assert "'carrier': " in error
    assert found["error"].notna().sum() == 1
    for key in "ab":
        at = [i for i in range(40) if keys[i] == key and i != 7]
        table = encoded([rows[i] for i in at], model)
        alone = KernelClassifier(columns=COLUMNS)
        truth = alone.predict_then_learn(table, [goal[i] for i in at])
        assert found["prediction"][at].tolist()[1:] == truth.tolist()[1:]


# -- in Spark --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(spark: Any) -> Any:
    rows = records(np.random.default_rng(5), 300)
    given = [(f"k{i % 2}", i, *r.values(), float(r["carrier"] == "AA")) for i, r in enumerate(rows)]
    fields = [types.StructField("key", types.StringType()),
              types.StructField("n", types.LongType()), *SCHEMA,
              types.StructField("y", types.DoubleType())]  # fmt: skip
    return spark.createDataFrame(given, types.StructType(fields)).repartition(3).cache(), rows


def test_learning_and_scoring_are_the_librarys(spark: Any, table: Any) -> None:
    """In a time zone that is not UTC, too."""
    frame, rows = table
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        model = learn(frame.coalesce(1), KernelRegressor(columns=COLUMNS), features=NAMES,
                      target="y", time="at")  # fmt: skip
        found = frame.select("n", predict(model)(*NAMES).alias("p")).orderBy("n").toPandas()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert model.t_ == 300
    np.testing.assert_allclose(found["p"], model.predict(encoded(rows, model)), rtol=1e-9)
    with pytest.raises(ValueError, match="takes 6 columns in this order: carrier, minutes"):
        predict(model)("carrier")
    labels = learn(frame, "classification", features=["carrier", "minutes"], target="late",
                   partitions=3, on_error="skip")  # fmt: skip
    assert labels.plan_.names == ["carrier", "minutes"]


def test_a_batch_by_keys_is_the_librarys(table: Any) -> None:
    frame, rows = table
    found = keyed(frame, Detector(columns=COLUMNS), key="key", time="n", features=NAMES,
                  explain=1).toPandas().sort_values("n", ignore_index=True)  # fmt: skip
    for key in (0, 1):
        mine = encoded(rows[key::2], Detector(columns=COLUMNS))
        truth = Detector(columns=COLUMNS).predict_then_learn(mine, output="score")
        np.testing.assert_allclose(found["score"][key::2], truth, rtol=1e-9)
