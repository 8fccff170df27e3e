"""Rows that teach little through recursive least squares: a shorter run of the study."""

from __future__ import annotations

import pytest

from experiments import long_squares


@pytest.mark.long
def test_nothing_explodes():
    found = long_squares.study(20)
    assert [str(check) for check in long_squares.checks_of(found) if not check.ok] == []
