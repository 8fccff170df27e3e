"""What the tests of runs share."""

from __future__ import annotations

import pytest
from helpers.runs_of import write_rows


@pytest.fixture
def rows(rng, tmp_path):
    """Return a file of 600 rows of two numbers."""
    return write_rows(tmp_path / "rows.csv", rng.normal(size=(600, 2)))
