"""One model over many partitions: against plain loops over the parts."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from helpers.spark_session import missing_package

from onkel import (
    Classifier,
    KernelClassifier,
    NoveltyDetector,
    expansions,
    files,
    kernels,
    rules,
)

if missing_package():
    pytest.skip(missing_package(), allow_module_level=True)

import pandas as pd
from helpers.spark_rows import AB, CASES, learn_rows, rows, same_model

from onkel.spark import learn, predict
from onkel.spark.mixing import FAN, Part, Reading, blocks, learned, mixed, mixed_in_turns

# -- the arithmetic of parts, without Spark ----------------------------------------------------


def test_blocks_do_not_depend_on_how_rows_come(rng):
    frame = rows(rng, 2500)
    for cuts in ([0, 2500], [0, 1, 2, 1500, 1500, 2499, 2500], [0, 1024, 2048, 2500]):
        pieces = [frame.iloc[i:j] for i, j in itertools.pairwise(cuts)]
        found = list(blocks(pieces, 1000))
        assert [len(f) for f in found] == [1000, 1000, 500]
        assert np.array_equal(pd.concat(found).to_numpy(), frame.to_numpy())
    assert list(blocks([])) == [] and list(blocks([frame.iloc[:0]])) == []


@pytest.mark.parametrize("weights", ["examples", "equal"])
def test_a_tree_of_merges_is_the_weighted_mean(weights, rng):
    frame, model = rows(rng, 900), KernelClassifier(scale=False)
    reading, count = Reading(features=("a", "b"), target="y"), 2 * FAN + 3
    cuts = np.sort(rng.choice(np.arange(1, 900), count - 1, replace=False))
    pieces = [frame.iloc[i:j] for i, j in itertools.pairwise([0, *cuts.tolist(), 900])]
    sent = files.dumps(model)
    parts = [learned(j, [piece], sent, reading, weights) for j, piece in enumerate(pieces)]
    whole, merged = mixed_in_turns(parts[::-1], model, {})
    share = [len(p) / 900 if weights == "examples" else 1 / count for p in pieces]
    X = rows(rng, 60)[AB].to_numpy()
    alone = [learn_rows(KernelClassifier(scale=False), piece) for piece in pieces]
    mean = sum(w * m.decision_function(X) for w, m in zip(share, alone, strict=True))
    assert np.allclose(merged.decision_function(X), mean, atol=1e-9)
    assert (whole.examples, merged.t_, whole.bound) == (900, 900, 0.0)


def test_parts_without_examples_have_no_say(rng):
    one = learned(
        1, [rows(rng)], files.dumps(KernelClassifier()), Reading(("a", "b"), "y"), "equal"
    )
    empty = Part(0, b"", 0, 0.0, skipped=2, why="row 0 of partition 0 was refused")
    whole, model = mixed([one, empty], KernelClassifier(), {})
    assert whole.model == one.model and files.dumps(model) == one.model
    assert (whole.partition, whole.skipped, whole.examples) == (0, 2, 240)


def test_a_refused_row_is_skipped_and_nothing_else(rng):
    frame = rows(rng, 50)
    bad = frame.copy()
    bad.loc[[7, 30], "a"] = np.nan
    sent, reading = files.dumps(KernelClassifier()), Reading(("a", "b"), "y", skip=True)
    part = learned(5, [bad], sent, reading, "examples")
    model = KernelClassifier()
    for i in set(range(50)) - {7, 30}:  # one by one, as after a refusal
        reading.take(model, frame.iloc[i : i + 1])
    assert (part.examples, part.skipped) == (48, 2)
    assert part.model == files.dumps(model)
    assert part.why.startswith("row 7 of partition 5 was refused: Input X contains NaN")
    assert "b=" in part.why and "a=nan" in part.why


# -- learning in Spark -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table(spark):
    frame = rows(np.random.default_rng(3), 1500)
    return spark.createDataFrame(frame).repartition(3).cache(), frame


def partitions_of(frame: Any) -> list[pd.DataFrame]:
    """Return the rows of each partition, as tasks see them."""
    from pyspark.sql.functions import spark_partition_id

    found = frame.withColumn("p", spark_partition_id()).toPandas()
    return [found[found["p"] == p].drop(columns="p") for p in sorted(found["p"].unique())]


@pytest.mark.parametrize("case", ["classifier", "regressor", "detector", "mixture"])
def test_spark_gives_the_very_model_of_the_parts(table, case):
    frame, make = table[0], CASES[case]
    target = None if case == "detector" else "y"
    found = learn(frame, make(), features=AB, target=target, rounds=2)
    model, reading = make(), Reading(("a", "b"), target)
    for _ in range(2):
        sent = files.dumps(model)
        parts = [
            learned(j, [piece], sent, reading, "examples")
            for j, piece in enumerate(partitions_of(frame))
        ]
        model = mixed_in_turns(parts, model, {})[1]
    assert same_model(found, model)
    assert found.t_ == 3000 and found.learn_report_.partitions == 3
    assert sum(found.learn_report_.examples) == 1500
    assert frame.storageLevel.useMemory  # what the user keeps stays kept


def test_a_task_stands_for_its_self_tuning_model(table):
    found = learn(table[0], "classification", features=AB, target="y", partitions=2)
    assert type(found) is Classifier and len(found.weights_) == len(found.members_)
    assert same_model(found, learn(table[0], Classifier(), features=AB, target="y", partitions=2))


def test_many_partitions_are_merged_as_a_tree_on_the_machines(table):
    from pyspark.sql import functions as F

    count = FAN + 3
    found = learn(table[0], KernelClassifier(), features=AB, target="y", partitions=count)
    hashed = table[0].withColumn("h", F.xxhash64("a", "b", "y"))
    dealt = hashed.repartition(count, "h").sortWithinPartitions("h").drop("h")
    sent, reading = files.dumps(KernelClassifier()), Reading(("a", "b"), "y")
    parts = [
        learned(j, [piece], sent, reading, "examples")
        for j, piece in enumerate(partitions_of(dealt))
    ]
    assert len(parts) == count
    assert same_model(found, mixed_in_turns(parts, KernelClassifier(), {})[1])


def test_dealt_rows_give_the_same_bits_wherever_they_lay(spark, table):
    frame, plain = table
    again = spark.createDataFrame(plain.sample(frac=1.0, random_state=1)).repartition(5)
    one, other = (
        learn(f, KernelClassifier(), features=AB, target="y", partitions=4) for f in (frame, again)
    )
    assert same_model(one, other)


def test_batches_of_arrow_do_not_show(spark, table):
    key = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(key)
    one = learn(table[0], KernelClassifier(), features=AB, target="y")
    try:
        spark.conf.set(key, 77)
        assert same_model(one, learn(table[0], KernelClassifier(), features=AB, target="y"))
    finally:
        spark.conf.set(key, before)


def test_one_partition_is_one_pass_and_goes_on(table):
    frame, plain = table
    start = learn_rows(KernelClassifier(), plain[:100])
    kept = files.dumps(start)
    found = learn(frame.coalesce(1), start, features=AB, target="y")
    model = files.loads(kept)
    for block in blocks(partitions_of(frame.coalesce(1))):
        model.partial_fit(block[AB].to_numpy(), block["y"].to_numpy())
    assert same_model(found, model)
    assert files.dumps(start) == kept  # it stays as it was
    assert learn(frame, start, features=AB, target="y").t_ == 1600


def test_time_orders_each_partition(spark, table):
    plain = table[1].assign(t=np.random.default_rng(0).permutation(1500).astype(float))
    frame = spark.createDataFrame(plain).coalesce(1)
    model = KernelClassifier(rule=rules.Norma(memory="10min"))
    found = learn(frame, model, features=AB, target="y", time="t")
    ordered = plain.sort_values("t")
    for block in blocks([ordered]):
        model.partial_fit(block[AB], block["y"].to_numpy(), time=block["t"].to_numpy())
    assert same_model(found, model)


def test_a_column_of_arrays_is_rows(spark, table):
    from pyspark.sql import functions as F

    frame = table[0].select(F.array("a", "b").alias("x"), "y")
    one = learn(frame, KernelClassifier(), features="x", target="y")
    other = learn(table[0], KernelClassifier(), features=AB, target="y")
    X = table[1][AB].to_numpy()
    assert np.array_equal(one.decision_function(X), other.decision_function(X))
    assert list(other.feature_names_in_) == AB and not hasattr(one, "feature_names_in_")
    found = frame.select("x", predict(one, "decision")("x").alias("d")).toPandas()
    assert np.allclose(found["d"], one.decision_function(np.stack(found["x"])), rtol=1e-12)


def test_bad_rows_are_shown_or_skipped(spark, table):
    from pyspark.sql import functions as F

    bad = table[0].withColumn("a", F.when(F.col("b") > 12, None).otherwise(F.col("a")))
    lost = int((table[1]["b"] > 12).sum())
    with pytest.raises(
        ValueError, match=r"row \d+ of partition 0 was refused: Input X contains"
    ) as e:
        learn(bad, KernelClassifier(), features=AB, target="y")
    assert "a=nan, b=1" in str(e.value) and "on_error='skip'" in str(e.value)
    found = learn(bad, KernelClassifier(), features=AB, target="y", on_error="skip")
    assert found.learn_report_.skipped == lost > 0
    assert found.t_ == 1500 - lost and "was refused" in found.learn_report_.first_skipped
    with pytest.raises(ValueError, match=f"no row to learn from. The first of {1500} refused"):
        none = table[0].withColumn("a", F.lit(float("nan")))
        learn(none, KernelClassifier(), features=AB, target="y", on_error="skip")


def test_a_kernel_of_ones_own_goes_along(table):
    def near(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        return np.exp(-np.abs(X[:, None] - Z[None]).sum(axis=2))

    model = KernelClassifier(kernel=near, scale=False)
    own = {"kernel": near}
    found = learn(table[0].limit(100), model, features=AB, target="y", own=own)
    assert found.t_ == 100
    with pytest.raises(ValueError, match="kernel"):
        learn(table[0], model, features=AB, target="y")
    column = predict(found, "decision", own=own)("a", "b")
    got = table[0].limit(5).select("a", "b", column.alias("d")).toPandas()
    assert np.allclose(got["d"], found.decision_function(got[AB].to_numpy()))


def test_eight_partitions_err_as_one_pass(spark, rng):
    """A wave with one label in twenty wrong: at most half a point more than the single pass."""

    def wave(n: int) -> pd.DataFrame:
        X = rng.normal(size=(n, 2))
        y = (X[:, 1] > np.sin(2 * X[:, 0])) ^ (rng.uniform(size=n) < 0.05)
        return pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y.astype(int)})

    train, test = wave(16_000), wave(8000)
    X, y = test[AB].to_numpy(), test["y"].to_numpy()
    whole = learn(spark.createDataFrame(train), KernelClassifier(), features=AB, target="y",
                  partitions=8)  # fmt: skip
    single = learn_rows(KernelClassifier(), train)
    assert whole.learn_report_.partitions == 8 and whole.t_ == 16_000
    assert whole.score(X, y) > single.score(X, y) - 0.005


def test_eight_partitions_err_as_one_pass_on_a9a(spark, load_data):
    data = load_data("a9a")
    frame = pd.DataFrame({"x": [*data["X_train"].astype(float)], "y": data["y_train"].astype(int)})
    whole = learn(spark.createDataFrame(frame), KernelClassifier(), features="x", target="y",
                  partitions=8)  # fmt: skip
    order = np.random.default_rng(0).permutation(len(frame))
    single = KernelClassifier().partial_fit(data["X_train"][order].astype(float),
                                            data["y_train"][order])  # fmt: skip
    X, y = data["X_test"].astype(float), data["y_test"]
    assert whole.score(X, y) > single.score(X, y) - 0.005


# -- bad arguments, before any job -------------------------------------------------------------


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"model": "norma"}, "model must be an estimator"),
    "a word": ({"model": "clustering"}, "or the name of a task"),
    "a bank of texts": (
        {"model": Classifier([KernelClassifier(kernel="spectrum")])}, "must be numbers"
    ),
    "no column": ({"features": ["a", "c"]}, "no column 'c'"),
    "no target": ({"target": None}, "needs target="),
    "a target too many": ({"model": NoveltyDetector()}, "has none"),
    "another target": ({"target": "z"}, "target: there is no column 'z'"),
    "another time": ({"time": "z"}, "time: there is no column 'z'"),
    "partitions": ({"partitions": 0}, "partitions must be"),
    "rounds": ({"rounds": 1.5}, "rounds must be"),
    "weights": ({"weights": "size"}, "weights must be one of"),
    "on_error": ({"on_error": "ignore"}, "on_error must be one of"),
    "no clock": (
        {"model": KernelClassifier(rule=rules.Norma(memory="1h"))}, "goes by the clock",
    ),
    "clock backwards": (
        {"model": KernelClassifier(rule=rules.Norma(memory="1h")), "time": "a", "rounds": 2},
        "backwards",
    ),
    "centres": ({"model": KernelClassifier(expansion=expansions.Centers(10))}, "Give the points"),
    "strings": ({"model": KernelClassifier(kernel=kernels.Spectrum())}, "takes strings"),
    "width": ({"model": KernelClassifier().partial_fit([[1.0, 2, 3]], [1])}, "of 3 features"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_bad_arguments_are_refused_before_any_job(table, case):
    given, said = WRONG[case]
    asked = {"frame": table[0], "model": KernelClassifier(), "features": AB, "target": "y", **given}
    with pytest.raises((ValueError, TypeError), match=said):
        learn(**asked)


def test_frames_that_are_none_are_refused(spark, table):
    with pytest.raises(TypeError, match="must be a Spark DataFrame; got DataFrame"):
        learn(table[1], KernelClassifier(), features=AB, target="y")
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ValueError, match="a stream, which has no end"):
        learn(stream, KernelClassifier(), features=["value"], target="value")
