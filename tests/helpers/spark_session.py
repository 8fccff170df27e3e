"""One local Spark session for all tests; what is needed, and a reason to skip without it."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import onkel
from helpers.sizes import LONG, WHY_NOT

NEEDED = ("pyspark", "pandas", "pyarrow", "google.protobuf")


def missing_package() -> str:
    """Return which package is missing, in words, or nothing."""
    for name in NEEDED:
        try:
            found = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            found = None
        if found is None:
            return f"needs {name}: pip install 'onkel[spark]'"
    return ""


@functools.cache
def why_not() -> str:
    """Return why there can be no session, or nothing."""
    if not LONG:
        return WHY_NOT
    if missing_package():
        return missing_package()
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not java or subprocess.run([java, "-version"], capture_output=True).returncode:
        return "needs Java 17 or later: there is no java that runs"
    return ""


def options() -> dict[str, str]:
    """Return what a small session is told."""
    from onkel.spark.checks import PROVIDER, ROCKSDB

    return {
        "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC", "spark.log.level": "ERROR", PROVIDER: ROCKSDB,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        "spark.sql.streaming.stopTimeout": "10000", "spark.driver.host": "localhost",
    }  # fmt: skip


def open_session() -> Any:
    """Return a local session whose workers find this onkel."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    root = str(Path(onkel.__file__).resolve().parents[1])
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    builder = SparkSession.builder.master("local[2]")
    for name, value in options().items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """Return the session that all tests share."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    session = open_session()
    yield session
    session.stop()
