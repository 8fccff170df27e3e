"""One model over many partitions: what it costs in mistakes, what it saves in time.

Rows of a stationary stream are dealt out to 1, 2, ... 64 partitions, learned apart and merged, for
1, 2 and 4 rounds, by the functions that run in Spark's workers (the tests show that Spark gives the
very same model): on two classes along a wave (5 % is the best possible), at the default rate and at
one that slows down, and with ONKEL_DATA on a9a. The merged model is asked for rows that none has
seen, beside one that learned all rows in one pass.

Then, where pyspark and Java are there, the time of `onkel.spark.learn` on two cores beside the
single pass, and that of `onkel.spark.predict` beside a plain `predict`, with where it goes.

Expected: on the wave at the default rate 8 partitions err at most 0.5 points more than the single
pass in one round already, at the slowing rate after 4 rounds; on a9a in one round.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from onkel import KernelClassifier, expansions, files, merge, rules, schedules
from onkel.spark.mixing import Reading, learned, mixed_in_turns

if __package__:
    from . import harness
    from .merging import error, waves
else:
    import harness
    from merging import error, waves

PARTITIONS = (1, 2, 4, 8, 16, 32, 64)
ROUNDS = (1, 2, 4)
ROWS, FRESH = 32_000, 20_000
ROOM = expansions.Window(terms=50_000)
"""For all terms: what a full window costs is shown in the guide to merging."""
MODELS: dict[str, dict[str, Any]] = {
    "wave": {"expansion": ROOM},
    "wave, slowing": {
        "expansion": ROOM,
        "rule": rules.Norma(learning_rate=schedules.InverseSqrt(2.0), memory=100_000),
    },
    "a9a": {"expansion": ROOM},
}
BEST = 5.0
"""Per cent of mistakes of the best possible answer on the wave."""
FIGURE = Path(__file__).resolve().parent.parent / "docs" / "figures" / "spark_partitions.png"


# -- mistakes --------------------------------------------------------------------------------------


def framed(X: np.ndarray, y: np.ndarray) -> Any:
    """Return rows as a pandas frame: one column of arrays, and the labels."""
    import pandas as pd

    return pd.DataFrame({"x": [*np.asarray(X, float)], "y": np.asarray(y, int)})


def rounds_of(model: Any, frame: Any, partitions: int, most: int) -> Iterator[Any]:
    """Yield the model after each round over a frame whose rows are dealt out in turns."""
    reading = Reading(features=("x",), target="y", named=False)
    for _ in range(most):
        sent = files.dumps(model)
        parts = [
            learned(j, [frame.iloc[j::partitions]], sent, reading, "examples")
            for j in range(partitions)
        ]
        model = mixed_in_turns(parts, model, {})[1]
        yield model


def measured(
    make: Callable[[], Any], train: Any, test: Any, counts: Any, most: int
) -> dict[int, list[float]]:
    """Return mistakes in per cent after each round, by number of partitions."""
    frame = framed(*train)
    return {n: [error(model, *test) for model in rounds_of(make(), frame, n, most)] for n in counts}


def on_waves(name: str, seeds: int, counts: Any = PARTITIONS) -> list[dict[str, Any]]:
    """Average over seeded streams."""
    runs = [
        measured(
            lambda: KernelClassifier(**MODELS[name]),
            waves(ROWS, s),
            waves(FRESH, 1000 + s),
            counts,
            max(ROUNDS),
        )
        for s in range(seeds)
    ]
    return [row(n, np.array([run[n] for run in runs])) for n in counts]


def on_a9a(counts: Any = PARTITIONS, most: int = 1) -> list[dict[str, Any]]:
    """One run on a9a in random order, asked for its own test rows; more rounds take minutes."""
    folder = harness.data_folder()
    if folder is None:
        return []
    train = harness.load(folder, "a9a", shuffle=True)
    with np.load(folder / "a9a.npz") as arrays:
        test = arrays["X_test"].astype(float), arrays["y_test"]
    found = measured(lambda: KernelClassifier(**MODELS["a9a"]), train, test, counts, most)
    return [row(n, np.array([each])) for n, each in found.items()]


def row(partitions: int, runs: np.ndarray) -> dict[str, Any]:
    """Return one line of the table: means over runs, and their spread after one round."""
    done = [r for r in ROUNDS if r <= runs.shape[1]]
    means = {f"{r} round{'s' * (r > 1)}": float(runs[:, r - 1].mean()) for r in done}
    return {"partitions": partitions, **means, "spread": float(runs[:, 0].std())}


# -- time ------------------------------------------------------------------------------------------


def session() -> Any:
    """Return a Spark session on two cores; None, said aloud, where there is none."""
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        print("pyspark is not here: times are left out.")
        return None
    if shutil.which("java") is None:
        print("Java is not here: times are left out.")
        return None
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("onkel")
    for key, value in {
        "spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false", "spark.driver.memory": "2g",
        "spark.executorEnv.OMP_NUM_THREADS": "1",
    }.items():  # fmt: skip
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def timed(work: Callable[[], Any], times: int = 3) -> tuple[float, Any]:
    """Return the best of some times in seconds, and the last result."""
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        found = work()
        taken.append(time.perf_counter() - began)
    return min(taken), found


def times_of(spark: Any, folder: Path, rows: int) -> list[dict[str, Any]]:
    """Write a stream as Parquet, then learn and score it in one process and in Spark."""
    import pandas as pd

    X, y = waves(rows, seed=0)
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y}).to_parquet(folder / "rows.parquet")
    frame = spark.read.parquet(str(folder / "rows.parquet"))
    frame.repartition(8).write.mode("overwrite").parquet(str(folder / "eight"))
    spark.range(2).mapInPandas(lambda frames: frames, "id long").collect()  # workers are up
    eight = spark.read.parquet(str(folder / "eight"))
    return [*learning_times(eight, X, y), *scoring_times(eight, X, y)]


def learning_times(frame: Any, X: np.ndarray, y: np.ndarray) -> list[dict[str, Any]]:
    """Return seconds of learning: one process, Spark with 8 partitions, Spark without learning."""
    from onkel.spark import learn

    def on_spark(**settings: Any) -> Any:
        return learn(frame, KernelClassifier(), features=["a", "b"], target="y", **settings)

    def touched(frames: Any) -> Any:
        import pandas as pd

        yield pd.DataFrame({"rows": [sum(len(each) for each in frames)]})

    plain, single = timed(lambda: KernelClassifier().partial_fit(X, y), 1)
    dealt, whole = timed(lambda: on_spark(partitions=8), 2)
    moved = frame.repartition(8, "a").sortWithinPartitions("a")
    reading, _ = timed(lambda: moved.mapInPandas(touched, "rows long").collect(), 2)
    models = [KernelClassifier().partial_fit(X[j::8], y[j::8]) for j in range(8)]
    merging, _ = timed(lambda: merge(models), 1)
    test = waves(FRESH, 1000)
    return [
        {"what": "learn: one process", "seconds": plain, "rows/s": len(y) / plain,
         "mistakes %": error(single, *test)},
        {"what": "learn: Spark, 8 partitions, 2 cores", "seconds": dealt, "rows/s": len(y) / dealt,
         "mistakes %": error(whole, *test)},
        {"what": "  of it: reading, dealing, sorting, Arrow", "seconds": reading},
        {"what": "  of it: the merge", "seconds": merging},
    ]  # fmt: skip


def scoring_times(frame: Any, X: np.ndarray, y: np.ndarray) -> list[dict[str, Any]]:
    """Return seconds of scoring: plain, by the function of columns, and that without a model."""
    import pyarrow as pa
    from pyspark.sql.functions import arrow_udf
    from pyspark.sql.functions import sum as total

    from onkel.spark import predict

    def nothing(a: Any, b: Any) -> Any:
        return a

    def summed(score: Any) -> Any:  # a new frame each time: an old one would not run again
        return frame.agg(total(score("a", "b"))).collect()

    nothing.__annotations__ = {"a": pa.Array, "b": pa.Array, "return": pa.Array}
    found = []
    for terms in (1000, 10_000):
        kept = min(len(y), 3 * terms)
        window = expansions.Window(terms=terms)
        model = KernelClassifier(expansion=window).partial_fit(X[:kept], y[:kept])
        plain, _ = timed(partial(model.decision_function, X), 2)
        there, _ = timed(partial(summed, predict(model, "decision")))
        carried, _ = timed(partial(summed, arrow_udf(nothing, "double")))
        for what, seconds in (("one process", plain), ("Spark, 2 cores", there),
                              ("  of it: reading, Arrow, workers", carried)):  # fmt: skip
            found.append({
                "what": f"predict, {model.n_terms_} terms: {what}", "seconds": seconds,
                "rows/s": len(y) / seconds,
            })  # fmt: skip
    return found


# -- the picture -----------------------------------------------------------------------------------


def draw(tables: dict[str, list[dict[str, Any]]], path: Path = FIGURE) -> None:
    """Draw mistakes against partitions, a panel for each table."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    titles = {"wave": "Two classes along a wave", "wave, slowing": "The same, rate 2/√t",
              "a9a": "a9a (income above 50 K)"}  # fmt: skip
    shown = [name for name in titles if tables.get(name)]
    figure, axes = plt.subplots(
        1, len(shown), figsize=(3.4 * len(shown), 3.3), layout="constrained", squeeze=False
    )
    for ax, name in zip(axes[0], shown, strict=True):
        lines(ax, tables[name])
        if name.startswith("wave"):
            ax.axhline(BEST, color="#9fb3c1", lw=0.8, ls=":", label="best possible")
        ax.set_xlabel("partitions")
        ax.set_title(titles[name], loc="left", fontsize=10)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("mistakes on new rows, per cent")
    handles = axes[0][0].get_legend_handles_labels()
    figure.legend(*handles, fontsize=8, frameon=False, loc="outside lower center", ncols=5)
    figure.savefig(path, dpi=120, metadata={"Software": None})
    plt.close(figure)


def lines(ax: Any, rows: list[dict[str, Any]]) -> None:
    """Draw a line for each number of rounds, and the single pass with what is allowed."""
    counts = [r["partitions"] for r in rows]
    single = rows[0]["1 round"]
    ax.axhspan(single, single + 0.5, color="#22303c", alpha=0.08, lw=0)
    ax.axhline(single, color="#22303c", lw=1, ls="--", label="one pass, one process")
    looks = {"1 round": ("#d1495b", "o-"), "2 rounds": ("#edae49", "s-"),
             "4 rounds": ("#2a6f97", "^-")}  # fmt: skip
    for key in [key for key in looks if key in rows[0]]:
        color, mark = looks[key]
        ax.plot(counts, [r[key] for r in rows], mark, color=color, ms=4, lw=1.2, label=key)
    ax.set_xscale("log", base=2)
    ax.set_xticks(counts, [str(n) for n in counts])
    ax.minorticks_off()


# -- all of it -------------------------------------------------------------------------------------


def checks_of(tables: dict[str, list[dict[str, Any]]]) -> list[harness.Check]:
    """Compare 8 partitions with the single pass."""
    checks = []
    for name, rounds in (("wave", "1 round"), ("wave, slowing", "4 rounds"), ("a9a", "1 round")):
        rows = {r["partitions"]: r for r in tables.get(name, [])}
        if 8 in rows:
            cost = rows[8][rounds] - rows[1]["1 round"]
            what = f"{name}: cost of 8 partitions after {rounds}, points"
            checks.append(harness.Check(what, cost, high=0.5))
    return checks


def main(argv: list[str] | None = None) -> int:
    """Run, print, draw, check, report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3, help="streams to average over")
    parser.add_argument("--rows", type=int, default=500_000, help="rows of the timings")
    parser.add_argument("--no-times", action="store_true", help="leave the timings out")
    parser.add_argument("--figure", type=Path, help=f"draw it here, for example {FIGURE.name}")
    args = parser.parse_args(argv)
    tables = {name: on_waves(name, args.seeds) for name in MODELS if name != "a9a"}
    tables["a9a"] = on_a9a()
    if args.figure:
        draw(tables, args.figure)
    spark = None if args.no_times else session()
    if spark is not None:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            tables["times"] = times_of(spark, Path(folder), args.rows)
        spark.stop()
    for name, rows in tables.items():
        if rows:
            print(f"\n{name}\n{harness.table(rows)}\n")
    return harness.finish("spark_partitions", tables, checks_of(tables))


if __name__ == "__main__":
    raise SystemExit(main())
