"""Files of every version that ever was: they load for ever, and predict what they predicted."""

from __future__ import annotations

import json

import numpy as np
import pytest
from helpers import keep_files

import onkel
from onkel import files
from onkel.files import container
from onkel.files.model import ESTIMATORS

KEPT = sorted(keep_files.DATA.glob("format-*/*.safetensors"))


def agree(found, expected):
    if expected and isinstance(np.ravel(expected)[0], (str, np.bool_)):
        return found == expected
    return np.array(found) == pytest.approx(np.array(expected), rel=1e-6, abs=1e-6)


def names(path):
    return f"{path.parent.name}-{path.stem}"


@pytest.mark.parametrize("path", KEPT, ids=names)
def test_a_kept_file_loads_for_ever(path):
    held = json.loads(path.with_suffix(".json").read_text())
    model = onkel.load(path)
    rows, y = held["rows"], held["y"]
    assert agree(keep_files.shown(model, rows), held["then"])
    model.partial_fit(rows[24:], y[24:])
    assert agree(keep_files.shown(model, rows), held["after_the_rest"])


@pytest.mark.parametrize("path", KEPT, ids=names)
def test_a_kept_file_is_saved_again_as_one_of_today(path):
    """Loaded, saved and loaded once more, then after the rest of its rows: the same bits."""
    held = json.loads(path.with_suffix(".json").read_text())
    model = onkel.load(path)
    for part in (slice(0, 0), slice(24, None)):
        if part.stop is None:
            model.partial_fit(held["rows"][part], held["y"][part])
        data = files.dumps(model)
        assert container.unpack(data)[0] == files.FORMAT
        model = files.loads(data)
        assert files.dumps(model) == data


def test_no_kept_file_is_of_a_version_that_is_not_read():
    assert {p.parent.name for p in KEPT} == {f"format-{v}" for v in range(1, files.FORMAT + 1)}


def test_there_are_small_files_of_every_version_and_kind():
    for version in range(1, files.FORMAT + 1):
        kept = [p for p in KEPT if p.parent.name == f"format-{version}"]
        kinds = {type(onkel.load(p)).__name__ for p in kept}
        assert kinds == set(ESTIMATORS)
        assert all(p.stat().st_size < 40_000 for p in kept)
