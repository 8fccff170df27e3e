"""What every test may ask for: a seeded generator, rows in a file, real data where it is."""

from __future__ import annotations

import gc
import itertools
import os
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.browsing import browser as browser
from helpers.runs_of import write_rows
from helpers.sizes import LONG, WHY_NOT, cover, size
from helpers.spark_session import spark as spark
from hypothesis import settings

# The same examples every time, on slow machines too (sanitizers, plain NumPy).
settings.register_profile(
    "onkel", deadline=None, derandomize=True, print_blob=True, max_examples=size(8, 100)
)
settings.load_profile("onkel")


ONCE = (
    "onkel/river/", "tests/app/", "tests/docs/", "tests/experiments/", "tests/gpu/",
    "tests/judge/", "tests/packaging/", "tests/river/", "tests/series/", "tests/spark/",
    "tests/streams/", "tests/tools/",
)  # fmt: skip
"""What the core has no part in: run beside the compiled one, not again in plain NumPy."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what takes long in a quick run, and in plain NumPy what the compiled run has shown."""
    pure = os.environ.get("ONKEL_PURE", "") not in ("", "0") and not os.environ.get("ONKEL_ALL")
    again = pytest.mark.skip(reason="the core has no part in it: run once (ONKEL_ALL=1: here too)")
    shown = pytest.mark.skip(
        reason="real data: shown with the compiled core (ONKEL_ALL=1: here too)"
    )
    later = pytest.mark.skip(reason=WHY_NOT)
    more = set() if LONG else beyond_few(items)
    for item in items:
        if pure and item.nodeid.startswith(ONCE):
            item.add_marker(again)
        elif pure and "data_dir" in getattr(item, "fixturenames", ()):
            item.add_marker(shown)
        elif item in more or (not LONG and item.get_closest_marker("long")):
            item.add_marker(later)


def pytest_collection_finish() -> None:
    """Let the collector pass over what was imported: it is there to the end."""
    gc.collect()
    gc.freeze()


def beyond_few(items: list[pytest.Item]) -> set[pytest.Item]:
    """Return what tests marked `few` leave out: all but some of the product of their parameters."""
    found = set()
    marked = (item for item in items if item.get_closest_marker("few"))
    for _, group in itertools.groupby(marked, lambda item: item.nodeid.partition("[")[0]):
        each = list(group)
        kept = cover([*map(levels, each)], *each[0].get_closest_marker("few").args)
        found |= {item for place, item in enumerate(each) if place not in kept}
    return found


def levels(item: pytest.Item) -> list[tuple[Any, ...]]:
    """Return what each `parametrize` of a test, and each fixture with parameters, has here."""
    values = item.callspec.params
    named = [mark.args[0] for mark in item.iter_markers("parametrize")]
    axes = [re.findall(r"\w+", names) if isinstance(names, str) else names for names in named]
    axes += [[name] for name in values if not any(name in axis for axis in axes)]
    return [(*axis, *(id(values[name]) for name in axis)) for axis in axes]


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Return a generator seeded by the test's own name: the same numbers in any order of tests."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))


@pytest.fixture
def rows(rng: np.random.Generator, tmp_path: Path) -> Path:
    """Return a file for the command: 600 rows of two numbers, as CSV."""
    return write_rows(tmp_path / "rows.csv", rng.normal(size=(600, 2)))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder of real data sets that ONKEL_DATA names."""
    folder = os.environ.get("ONKEL_DATA", "")
    if not folder:
        pytest.skip("needs real data: set ONKEL_DATA to the folder of data sets")
    if not Path(folder).is_dir():
        pytest.skip(f"needs real data: ONKEL_DATA={folder} is not a folder")
    return Path(folder)


@pytest.fixture(scope="session")
def load_data(data_dir: Path) -> Callable[[str], dict[str, np.ndarray]]:
    """Return a function from a name, such as "elec2", to the arrays of that .npz file."""

    def load(name: str) -> dict[str, np.ndarray]:
        path = data_dir / f"{name}.npz"
        if not path.is_file():
            pytest.skip(f"needs real data: there is no {path.name} in ONKEL_DATA")
        with np.load(path, allow_pickle=False) as arrays:
            return dict(arrays)

    return load
