"""Batch scoring: a fitted model as a function of columns, against the model itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from helpers.spark_session import missing_package

from onkel import (
    Classifier,
    KernelClassifier,
    KernelRegressor,
    NoveltyDetector,
    files,
    kernels,
    losses,
)

if missing_package():
    pytest.skip(missing_package(), allow_module_level=True)

import pandas as pd
from helpers.spark_rows import AB, learn_rows, rows

from onkel.spark import predict


@pytest.fixture(scope="module")
def table(spark):
    frame = rows(np.random.default_rng(3), 1500)
    return spark.createDataFrame(frame).repartition(3).cache(), frame


def scored(table: Any, model: Any, output: str, **options: Any) -> tuple[pd.Series, np.ndarray]:
    frame = table[0].select("a", "b", predict(model, output, **options)("a", "b").alias("p"))
    found = frame.toPandas()
    return found["p"], found[AB].to_numpy()


def test_labels_and_decisions_are_the_models(table):
    model = learn_rows(KernelClassifier(), table[1][:400])
    kept = files.dumps(model)
    labels, X = scored(table, model, "prediction")
    assert labels.dtype == np.int64 and np.array_equal(labels, model.predict(X))
    decisions, X = scored(table, model, "decision")
    assert np.allclose(decisions, model.decision_function(X), rtol=1e-12, atol=1e-12)
    assert files.dumps(model) == kept


def test_labels_of_any_one_kind(table):
    X = table[1][AB].to_numpy()[:300]
    words = np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = KernelClassifier(loss="logistic").partial_fit(X, words)
    for output in ("prediction", "decision", "probability"):
        found, Z = scored(table, model, output)
        wanted = {"prediction": model.predict, "decision": model.decision_function,
                  "probability": model.predict_proba}[output](Z)  # fmt: skip
        if output == "prediction":
            assert found.tolist() == wanted.tolist()
        else:
            assert np.allclose(np.stack(found), wanted, rtol=1e-12, atol=1e-12)
    mixed_labels = KernelClassifier().partial_fit([[0.0], [1.0]], [1, "a"])
    with pytest.raises(ValueError, match="the labels must be all"):
        predict(mixed_labels)


def test_numbers_and_intervals_are_the_models(table):
    X = table[1][AB].to_numpy()[:300]
    model = KernelRegressor(loss=losses.Huber(nu=0.1)).partial_fit(X, X[:, 0])
    found, Z = scored(table, model, "prediction")
    assert np.allclose(found, model.predict(Z), rtol=1e-12, atol=1e-12)
    found, Z = scored(table, model, "interval")
    for name, wanted in zip(("low", "high"), model.predict_interval(Z), strict=True):
        assert np.allclose([v[name] for v in found], wanted, rtol=1e-12, atol=1e-12)
    both = KernelRegressor().partial_fit(X, X)
    found, Z = scored(table, both, "prediction")
    assert np.allclose(np.stack(found), both.predict(Z), rtol=1e-12, atol=1e-12)


def test_judgements_are_the_detectors(table):
    model = NoveltyDetector(nu=0.1).partial_fit(table[1][AB].to_numpy()[:500])
    found, X = scored(table, model, "judgement")
    score = model.score_samples(X)
    assert np.allclose([v["score"] for v in found], score, rtol=1e-12, atol=1e-12)
    assert {v["threshold"] for v in found} == {model.threshold_}
    assert [v["alert"] for v in found] == (model.predict(X) == -1).tolist()
    for output, wanted in (("alert", model.predict(X) == -1), ("prediction", model.predict(X)),
                           ("rank", model.rank_samples(X)), ("score", score)):  # fmt: skip
        assert np.allclose(scored(table, model, output)[0].astype(float), wanted, atol=1e-12)


def test_a_bank_scores_too(table):
    model = learn_rows(Classifier(), table[1][:200])
    labels, X = scored(table, model, "prediction")
    assert np.array_equal(labels, model.predict(X))


def test_rows_that_cannot_be_scored_are_shown_or_null(table):
    from pyspark.sql import functions as F

    model = learn_rows(KernelClassifier(), table[1][:200])
    holes = table[0].withColumn("a", F.when(F.col("b") > 12, None).otherwise(F.col("a")))
    with pytest.raises(
        Exception, match=r"predict: row \d+ of a batch in partition \d+ was refused"
    ):
        holes.select(predict(model)("a", "b")).collect()
    for output in ("prediction", "decision"):
        found = holes.select("b", predict(model, output, on_error="null")("a", "b").alias("p"))
        got = found.toPandas()
        assert np.array_equal(got["p"].isna(), got["b"] > 12) and got["p"].isna().any()


def test_columns_of_other_numbers_are_read(spark):
    from pyspark.sql import functions as F

    model = KernelRegressor().partial_fit([[0.0, 1.0], [1.0, 0.0]], [1.0, 2.0])
    frame = spark.range(4).select(
        (F.col("id") % 2 == 0).alias("a"), F.col("id").cast("decimal(5,1)").alias("b")
    )
    found = frame.select("a", "b", predict(model)("a", "b").alias("p")).toPandas()
    assert np.allclose(found["p"], model.predict(found[AB].to_numpy(float)))


@pytest.mark.parametrize(
    ("model", "given", "said"),
    [
        (KernelClassifier(), {}, "not fitted"),
        ("model", {}, "must be an estimator"),
        (KernelRegressor().partial_fit([[1.0]], [1.0]), {"output": "alert"}, "must be one of"),
        (KernelRegressor().partial_fit([[1.0]], [1.0]), {"output": "interval"}, "Intervals need"),
        (KernelRegressor().partial_fit([[1.0]], [1.0]), {"on_error": "skip"}, "'raise' or 'null'"),
        (KernelClassifier(kernel=kernels.Spectrum()).partial_fit(["a"], [1]), {}, "strings"),
    ],
)
def test_bad_questions_are_refused_before_any_job(spark, model, given, said):
    with pytest.raises((ValueError, TypeError), match=said):
        predict(model, **given)


def test_columns_are_counted_before_any_job(spark):
    score = predict(KernelRegressor().partial_fit([[1.0, 2.0, 3.0]], [1.0]))
    with pytest.raises(ValueError, match="takes 3 columns, or one of arrays of 3 numbers; got 2"):
        score("a", "b")
