"""Keyed streams on Spark: exact, exact after kills, how fast, where the time goes, how it grows.

    python benchmarks/spark.py exact            10^6 events, 10^4 keys, against the library alone
    python benchmarks/spark.py kill             the same with the driver killed ten times
    python benchmarks/spark.py where            where the time goes; ways to lay out the state
    python benchmarks/spark.py growth           10^2 to 10^5 keys

Each writes reports/spark_NAME.json; --quick takes a hundredth of the events, and keys. Needs the
extra `spark` and Java 17. Everything runs in local mode, with two cores unless told otherwise.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"  # before NumPy loads
os.environ["PYSPARK_PYTHON"] = sys.executable

import numpy as np
import pandas as pd
from common import HERE, REPORTS, ROOT

from onkel import NoveltyDetector, expansions, files
from onkel.judge import Rows, judge_of
from onkel.spark.checks import PROVIDER, ROCKSDB
from onkel.spark.processor import Processor

FEATURES = ["a", "b", "c", "d"]
START = 1_700_000_000_000_000
"""Microseconds since 1970 of the first event."""
WAYS: dict[str, dict[str, Any]] = {
    "as it is": {}, "key by key": {"together": False},
    "whole files": {"together": False, "WHOLE": 2**40},
    "base and pages": {"together": False, "WHOLE": 0},
}  # fmt: skip
"""Ways to lay out the state: is a group one arena, and what is set in onkel.spark.models."""


PARTS = ("wall", "total", "table", "take", "learn", "put", "dump")
"""Measured in a worker, in seconds of the processor (but `wall`); `dump` is part of `put`."""


def detector(terms: int = 100, recent: int = 100) -> NoveltyDetector:
    return NoveltyDetector(nu=0.02, expansion=expansions.Window(terms=terms), recent=recent)


# -- events ------------------------------------------------------------------------------------


def make_events(folder: Path, events: int, keys: int, batches: int, seed: int = 0) -> None:
    """Write one file per micro-batch: keys at random, each around a place of its own."""
    rng = np.random.default_rng(seed)
    places = 3 * rng.normal(size=(keys, len(FEATURES)))
    folder.mkdir(parents=True)
    for i, count in enumerate(np.diff(np.linspace(0, events, batches + 1).astype(int))):
        which = rng.integers(0, keys, count)
        X = places[which] + rng.normal(size=(count, len(FEATURES)))
        X += 6 * (rng.random(count) < 0.005)[:, None]
        moments = START + 10**9 * i + rng.permutation(count) * 1000
        frame = pd.DataFrame(X, columns=FEATURES)
        frame.insert(0, "device", [f"device-{k:06d}" for k in which])
        at = pd.to_datetime(moments, unit="us", utc=True)
        frame.insert(1, "at", at.astype("datetime64[us, UTC]"))
        frame.to_parquet(folder / f"{i:05d}.parquet", index=False)
        stamp = 1_700_000_000 + i  # Spark takes files in the order of their time stamps
        os.utime(folder / f"{i:05d}.parquet", (stamp, stamp))


def blocks(folder: Path) -> Iterator[pd.DataFrame]:
    for path in sorted(folder.glob("*.parquet")):
        yield pd.read_parquet(path).sort_values(["device", "at"], kind="stable")


def plain_loop(folder: Path, model: NoveltyDetector) -> tuple[pd.DataFrame, dict[str, float]]:
    """Do the same work in one process: a dict of models, micro-batch by micro-batch.

    What was spent is in seconds of the processor: others at work do not count.
    """
    judge, models, pieces = judge_of(model, None, 0), {}, []
    start = files.dumps(model)
    spent = {"read": 0.0, "learn": 0.0}
    mark = time.process_time()
    for frame in blocks(folder):
        devices, X = frame["device"].to_numpy(), frame[FEATURES].to_numpy()
        moments = frame["at"].astype("int64").to_numpy() / 1e6
        edges = np.flatnonzero(np.r_[True, devices[1:] != devices[:-1], True])
        spent["read"] += time.process_time() - mark
        mark, found = time.process_time(), []
        for i, j in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            own = models.get(devices[i])
            if own is None:
                own = models[devices[i]] = files.loads(start)
            found.append(judge(own, Rows(X[i:j], time=moments[i:j])).columns())
        spent["learn"] += time.process_time() - mark
        mark = time.process_time()
        columns = {n: np.concatenate([f[n] for f in found]) for n in found[0]}
        pieces.append(frame[["device", "at"]].assign(**columns))
    return pd.concat(pieces, ignore_index=True), spent


# -- the query ---------------------------------------------------------------------------------


class Timed(Processor):
    """Measures where a worker's time goes, and adds a line to a file when its task ends."""

    def __init__(self, plan: Any, folder: str, settings: dict[str, Any]) -> None:
        settings = dict(settings)
        super().__init__(replace(plan, together=settings.pop("together", True)))
        self.folder, self.settings = folder, settings

    def init(self, handle: Any) -> None:
        from onkel.spark import (
            models as store,  # here and below: this class is sent to workers by value
        )

        for name, value in self.settings.items():
            setattr(store, name, value)
        super().init(handle)
        self.spent = dict.fromkeys(PARTS, 0.0)
        self.calls = dict.fromkeys(("groups", "keys", "cached", "bytes", "pages_read"), 0)
        self.table = self._timed("table", self.table)
        if self.blank is None:
            self._watch()
        else:
            self._watch_pages()

    def _timed(self, name: str, function: Any) -> Any:
        spent = self.spent

        def call(*args: Any) -> Any:
            began = time.process_time()
            try:
                return function(*args)
            finally:
                spent[name] += time.process_time() - began

        return call

    def _counted(self, inner: Any, reads: str = "") -> Any:
        calls = self.calls

        class Counted:
            def __init__(self) -> None:
                self.removeKey = inner.removeKey

            def getValue(self, key: Any) -> Any:
                if reads:
                    calls[reads] += 1
                return inner.getValue(key)

            def updateValue(self, key: Any, value: Any) -> None:
                calls["bytes"] += sum(len(v) if isinstance(v, bytes) else 8 for v in value)
                inner.updateValue(key, value)

        return Counted()

    def _watch(self) -> None:
        from onkel import files
        from onkel.spark import models as store

        calls, models = self.calls, self.models

        class Files:
            FORMAT, loads = files.FORMAT, staticmethod(files.loads)
            dumps = staticmethod(self._timed("dump", files.dumps))

        take, read = models.take, models._read

        def reading(*args: Any) -> Any:
            calls["cached"] -= 1
            return read(*args)

        def taking(key: Any) -> Any:
            calls["keys"] += 1
            held = take(key)
            calls["cached"] += bool(held.head.digest)
            return held

        store.files, models._read = Files, reading
        models._heads, models._bases = self._counted(models._heads), self._counted(models._bases)
        models.take, models.put = self._timed("take", taking), self._timed("put", models.put)
        self.learn = self._timed("learn", self.learn)

    def _watch_pages(self) -> None:
        pages = self.store.pages
        pages._keys = self._counted(pages._keys)
        pages._data = self._counted(pages._data, "pages_read")

    def learn_all(self, table: Any, arena: Any, now: int) -> None:
        """`learn` is what is neither `take` nor `put` (of which `dump` makes the records)."""
        self.calls["keys"] += len(np.unique(table.codes))
        self.calls["cached"] += int(np.count_nonzero(arena.entries["here"]))
        fleet = arena.fleet
        arena.take, arena.write = self._timed("take", arena.take), self._timed("put", arena.write)
        fleet.records = self._timed("dump", fleet.records)
        before = self.spent["take"] + self.spent["put"]
        try:
            self._timed("learn", super().learn_all)(table, arena, now)
        finally:
            del arena.take, arena.write, fleet.records
            self.spent["learn"] -= self.spent["take"] + self.spent["put"] - before

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        began, worked = time.perf_counter(), time.process_time()
        found = list(super().handleInputRows(key, rows, timerValues))
        self.spent["wall"] += time.perf_counter() - began
        self.spent["total"] += time.process_time() - worked
        self.calls["groups"] += 1
        yield from found

    def close(self) -> None:
        if getattr(self, "calls", {}).get("groups"):
            with open(f"{self.folder}/{time.time_ns()}-{os.getpid()}.json", "w") as file:
                json.dump({**self.spent, **self.calls}, file)


def session(cores: int, partitions: int) -> Any:
    from pyspark.sql import SparkSession

    options = {
        "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": str(partitions),
        "spark.sql.session.timeZone": "UTC", PROVIDER: ROCKSDB, "spark.driver.memory": "3g",
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.log.level": "ERROR",
    }  # fmt: skip
    builder = SparkSession.builder.master(f"local[{cores}]")
    for name, value in options.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def query(args: argparse.Namespace) -> None:
    """Run a query over all that is there, from wherever its checkpoint stands; say what it took."""
    from onkel.spark import streaming

    work = Path(args.work)
    began = time.perf_counter()
    spark = session(args.cores, args.partitions)
    started = time.perf_counter() - began
    schema = spark.read.parquet(str(work / "events")).schema
    events = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    if args.timed:
        folder = work / "timed"
        folder.mkdir(exist_ok=True)
        streaming.Processor = lambda plan: Timed(plan, str(folder), WAYS[args.way])
    found = streaming.keyed(
        events.parquet(str(work / "events")), detector(args.terms, args.recent), key="device",
        time="at", features=FEATURES, groups=args.groups, cache=args.cache,
    )  # fmt: skip
    writer = found.writeStream.format("parquet").option("path", str(work / "out"))
    writer = writer.option("checkpointLocation", str(work / "checkpoint"))
    began = time.perf_counter()
    job = writer.trigger(availableNow=True).start()
    job.awaitTermination()
    report = {"session_s": started, "query_s": time.perf_counter() - began}
    report["progress"] = [json.loads(p.json) for p in job.recentProgress]
    if args.collect:
        read = spark.read.parquet(str(work / "out")).coalesce(1)
        read.write.mode("overwrite").parquet(str(work / "found"))
    (work / "query.json").write_text(json.dumps(report))
    spark.stop()


def child(work: Path, **options: Any) -> subprocess.Popen[bytes]:
    """Start the query in a process group of its own, which can be killed whole."""
    words = [f"--{name}={value}" for name, value in options.items()]
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with open(work / "log.txt", "ab") as log:
        return subprocess.Popen(
            [sys.executable, str(HERE / "spark.py"), "query", f"--work={work}", *words],
            env={**os.environ, "PYTHONPATH": path}, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def finished(work: Path, **options: Any) -> dict[str, Any]:
    """Run the query to its end; return what it reported, and the processor time that it took."""
    process, samples = child(work, **options), []
    while process.poll() is None:
        used = processor_time(process.pid)
        samples.append({"at": time.time(), "batches": committed(work), **used})
        time.sleep(0.5)
    if process.returncode:
        raise SystemExit((work / "log.txt").read_text()[-4000:])
    return {**json.loads((work / "query.json").read_text()), "samples": samples}


def processor_time(session: int) -> dict[str, float]:
    """Return the seconds of processor that a session's JVM, workers and driver have used so far."""
    found, tick = {"jvm": 0.0, "workers": 0.0, "driver": 0.0}, os.sysconf("SC_CLK_TCK")
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with contextlib.suppress(OSError, IndexError):
            numbers = (entry / "stat").read_text().rpartition(") ")[2].split()
            if int(numbers[3]) == session:
                words = (entry / "cmdline").read_bytes()
                kind = "jvm" if b"java" in words[:200] else "workers"
                kind = "driver" if int(entry.name) == session else kind
                found[kind] += (int(numbers[11]) + int(numbers[12])) / tick
    return found


def steady(found: dict[str, Any], batches: int) -> dict[str, float]:
    """Return seconds per batch, of clock and processor, once the first quarter is over."""
    samples = found["samples"]
    first = next(s for s in samples if s["batches"] >= max(batches // 4, 1))
    last = next((s for s in samples if s["batches"] >= batches), samples[-1])
    most = {n: max(s[n] for s in samples) for n in ("jvm", "workers", "driver")}  # some have ended
    last, count = {**last, **most}, max(last["batches"] - first["batches"], 1)
    return {n: (last[n] - first[n]) / count for n in ("at", "jvm", "workers", "driver")}


def output(work: Path) -> pd.DataFrame:
    """Return what Spark itself reads of the file sink's output."""
    found = pd.read_parquet(work / "found")
    return found.assign(at=pd.to_datetime(found["at"], utc=True).astype("datetime64[us, UTC]"))


# -- sections ----------------------------------------------------------------------------------


@contextlib.contextmanager
def workplace(args: argparse.Namespace, name: str) -> Iterator[Path]:
    root = Path(args.scratch or tempfile.gettempdir()) / f"onkel-spark-{name}-{os.getpid()}"
    root.mkdir(parents=True)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def compared(found: pd.DataFrame, truth: pd.DataFrame) -> dict[str, Any]:
    """Compare row by row; device and time name a row."""
    both = truth.merge(
        found, on=["device", "at"], how="outer", suffixes=("", "_spark"), indicator=True
    )
    gap = np.abs(both["score"] - both["score_spark"])
    differ = both["alert"] != both["alert_spark"]
    close = np.abs(both["score"] - both["threshold"]) < 1e-9
    return {
        "rows": len(truth), "rows_found": len(found),
        "lost": int((both["_merge"] == "left_only").sum()),
        "twice": int(found.duplicated(["device", "at"]).sum()),
        "not_there": int((both["_merge"] == "right_only").sum()),
        "largest_difference": float(gap.max()),
        "alerts": int(truth["alert"].sum()), "alerts_differ": int((differ & ~close).sum()),
    }  # fmt: skip


def measure_exact(args: argparse.Namespace) -> dict[str, Any]:
    """10^6 events, 10^4 keys: what comes out, and how fast, against a plain loop."""
    events, keys = sizes(args)
    with workplace(args, "exact") as work:
        make_events(work / "events", events, keys, args.batches)
        found = finished(work, collect=1, **shared(args))
        began = time.process_time()
        truth, spent = plain_loop(work / "events", detector(args.terms, args.recent))
        plain = time.process_time() - began
        return {
            "events": events, "keys": keys, "batches": args.batches, **shared(args),
            **compared(output(work), truth), "session_s": found["session_s"],
            "spark_s": found["query_s"], "spark_events_per_s": events / found["query_s"],
            "plain_s": plain, "plain_events_per_s": events / plain, "plain_spent": spent,
            "processor_s": found["samples"][-1], "per_batch": steady(found, args.batches),
            **stored(found, work, keys),
        }  # fmt: skip


def stored(found: dict[str, Any], work: Path, keys: int) -> dict[str, Any]:
    """Return the state's sizes."""
    last = found["progress"][-1]["stateOperators"][0]
    folder = work / "checkpoint" / "state"
    return {
        "state_rows": last["numRowsTotal"], "state_bytes_in_use": last["memoryUsedBytes"],
        "checkpoint_bytes": sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()),
        "sst_bytes_per_key": last["customMetrics"].get("rocksdbSstFileSize", 0) / keys,
        "custom": last["customMetrics"],
    }  # fmt: skip


def measure_kill(args: argparse.Namespace) -> dict[str, Any]:
    """The same with the driver killed at random moments, and started again."""
    events, keys = sizes(args)
    rng = random.Random(7)
    with workplace(args, "kill") as work:
        make_events(work / "events", events, keys, args.batches)
        kills: list[dict[str, Any]] = []
        process, began = child(work, collect=1, **shared(args)), time.time()
        while process.poll() is None:
            time.sleep(0.2)
            done = committed(work)
            if len(kills) < args.kills and progressed(work, kills):
                wait = rng.uniform(0, args.patience)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(wait)
                    continue
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                kills.append({"after_s": time.time() - began, "batches_before": done,
                              "batches": committed(work)})  # fmt: skip
                process = child(work, collect=1, **shared(args))
        if process.returncode:
            raise SystemExit((work / "log.txt").read_text()[-4000:])
        truth, _ = plain_loop(work / "events", detector(args.terms, args.recent))
        return {"events": events, "keys": keys, "batches": args.batches, "kills": kills,
                "total_s": time.time() - began, **compared(output(work), truth)}  # fmt: skip


def committed(work: Path) -> int:
    """Return how many batches the query has committed."""
    folder = work / "checkpoint" / "commits"
    return sum(p.name.isdecimal() for p in folder.iterdir()) if folder.is_dir() else 0


def progressed(work: Path, kills: list[dict[str, Any]]) -> bool:
    """Whether a batch is under way, and one has been committed since the last kill."""
    folder = work / "checkpoint" / "offsets"
    begun = sum(p.name.isdecimal() for p in folder.iterdir()) if folder.is_dir() else 0
    done = committed(work)
    return begun > done and (not kills or done > kills[-1]["batches"])


def measure_where(args: argparse.Namespace) -> dict[str, Any]:
    """Where a worker's time goes, for models of several sizes and ways to lay out their state."""
    events, keys = sizes(args, 10)
    found: dict[str, Any] = {"events": events, "keys": keys, "batches": args.batches, "runs": []}
    with workplace(args, "where") as work:
        make_events(work / "events", events, keys, args.batches)
        for terms, recent in ((100, 100), (1000, 1000)):
            for way in WAYS:
                found["runs"].append(one_run(args, work, terms, recent, way, args.groups))
        found["runs"].append(one_run(args, work, 100, 100, "as it is", 2**30))
        found["plain"] = plain_loop(work / "events", detector(100, 100))[1]
    return found


def one_run(
    args: argparse.Namespace, work: Path, terms: int, recent: int, way: str, groups: int
) -> dict[str, Any]:
    """Run the query anew and return where its time went."""
    for name in ("out", "checkpoint", "timed"):
        shutil.rmtree(work / name, ignore_errors=True)
    chosen = {**shared(args), "terms": terms, "recent": recent, "way": way, "groups": groups}
    found = finished(work, timed=1, **chosen)
    spent: dict[str, float] = {}
    for path in (work / "timed").glob("*.json"):
        for name, value in json.loads(path.read_text()).items():
            spent[name] = spent.get(name, 0) + value
    sums: dict[str, float] = {}
    for batch in found["progress"]:
        for name, value in batch["durationMs"].items():
            sums[name] = sums.get(name, 0) + value
    commit = sum(p["stateOperators"][0]["commitTimeMs"] for p in found["progress"])
    keys = len(set(pd.concat([b[["device"]] for b in blocks(work / "events")])["device"]))
    report = {**chosen, "query_s": found["query_s"], "worker": spent, "duration_ms": sums,
              "processor_s": found["samples"][-1], "per_batch": steady(found, args.batches),
              "commit_ms": commit, **stored(found, work, keys)}  # fmt: skip
    print(json.dumps(report), flush=True)
    return report


def measure_growth(args: argparse.Namespace) -> dict[str, Any]:
    """The same number of events over more and more keys."""
    runs = []
    for keys in [args.keys] if args.keys else (100, 1000, 10_000, 100_000):
        keys, events = (keys // 100, 2000) if args.quick else (keys, args.events or 200_000)
        with workplace(args, "growth") as work:
            make_events(work / "events", events, max(keys, 1), args.batches)
            run = one_run(args, work, args.terms, args.recent, args.way, args.groups)
            began = time.process_time()
            plain_loop(work / "events", detector(args.terms, args.recent))
            plain = time.process_time() - began
            runs.append({"keys": keys, "events": events, "plain_s": plain, **run})
    return {"runs": runs}


def sizes(args: argparse.Namespace, less: int = 1) -> tuple[int, int]:
    events, keys = args.events or 10**6 // less, args.keys or 10**4 // less
    return (events // 100, keys // 100) if args.quick else (events, keys)


def shared(args: argparse.Namespace) -> dict[str, Any]:
    names = ("cores", "partitions", "groups", "terms", "recent", "cache")
    return {name: getattr(args, name) for name in names}


SECTIONS = {
    "exact": measure_exact, "kill": measure_kill, "where": measure_where, "growth": measure_growth,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("section", choices=[*SECTIONS, "query"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--scratch", help="where events and checkpoints go")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--way", default="as it is", choices=WAYS, help="of growth")
    parser.add_argument("--timed", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--collect", type=int, default=0, help=argparse.SUPPRESS)
    numbers = {
        "cores": 2, "partitions": 2, "groups": 40, "terms": 100, "recent": 100, "batches": 10,
        "kills": 10, "cache": 256, "patience": 20, "events": 0, "keys": 0,
    }  # fmt: skip
    for name, value in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    if args.section == "query":
        query(args)
        return
    report = SECTIONS[args.section](args)
    REPORTS.mkdir(exist_ok=True)
    quick = "_quick" if args.quick else ""
    (REPORTS / f"spark_{args.section}{quick}.json").write_text(json.dumps(report, indent=1))
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
