"""Labels that are not the same stay apart; what cannot be one is refused by its row."""

from __future__ import annotations

import resource
import subprocess
import sys

import numpy as np
import pytest
from helpers.runs_of import environment

from onkel import Classifier, KernelClassifier, LinearClassifier, core, files
from onkel.inputs import RefusedRow

BIG = 2**53


@pytest.mark.few
@pytest.mark.parametrize("make", [KernelClassifier, LinearClassifier, Classifier])
@pytest.mark.parametrize(
    "labels",
    [
        [BIG, BIG + 1],
        [BIG + 1, 1.0, BIG],
        [2**63 - 1, 2**63 - 2, -(2**63) + 1],
        ["a", "a\0", "a\0\0"],
        ["a", "b" * 5000, "b" * 4999],
        ["1", 1, "x"],
    ],
    ids=lambda labels: repr(labels)[:40],
)
def test_labels_that_differ_stay_apart(rng, make, labels):
    X, y = rng.normal(size=(60, 2)), labels * (60 // len(labels))
    model = make().partial_fit(X, y)
    assert sorted(map(repr, model.classes_.tolist())) == sorted(map(repr, labels))
    assert [*model.class_count_.values()] == [60 // len(labels)] * len(labels)
    model.predict_then_learn(X, y)
    for label in labels:
        model.learn_one(X[0], label)
    assert {repr(v) for v in model.predict(X).tolist()} <= {*map(repr, labels)}
    again = files.loads(files.dumps(model))
    assert list(map(repr, again.classes_.tolist())) == list(map(repr, model.classes_.tolist()))
    named = make().partial_fit(X[:2], y[:2], classes=labels)
    assert len(named.classes_) == len(labels)


def test_a_text_that_ends_in_nul_is_told_from_those_of_fixed_width(rng):
    X = rng.normal(size=(20, 2))
    model = KernelClassifier().partial_fit(X, ["a\0", "b"] * 10)
    model.partial_fit(X, np.array(["a", "b"] * 10))
    assert model.class_count_ == {"a\0": 10, "b": 20, "a": 10}


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, 2**70, 3], r"Row 1: the label 1180591620717411303424 has 72 bits; give it as text"),
        ([1, -(2**63) - 1], r"Row 1: the label -9223372036854775809 has 65 bits"),
        ([1, 10**4000], r"Row 1: the label has 13289 bits"),
        (np.array([1, 2**64 - 1], np.uint64), r"Row 1: the label 18446744073709551615 has 65 bits"),
        ([1.0, 2.0**53], r"Row 1: the label 9007199254740992.0 is beyond 2\*\*53"),
        (["a", None], r"Row 1: .*contains NaN or None"),
        (["a", float("nan")], r"Row 1: .*contains NaN or None"),
        ([1.0, np.inf], r"Row 1: .*infinity"),
        ([1.0, 2.5], r"Row 1: Unknown label type: continuous"),
        ([2**60, 2.5], r"Row 1: Unknown label type: continuous"),
        (["a", {"b": 1}], r"Row 1: Unknown label type: dict \(\{'b': 1\}\)"),
        (["a", ["b"]], r"Row 1: Unknown label type: list"),
    ],
    ids=lambda case: case[8:30] if isinstance(case, str) else "y",
)
def test_what_is_no_label_is_refused_by_its_row(rng, y, message):
    X = rng.normal(size=(len(y), 2))
    for model in (KernelClassifier(), KernelClassifier().partial_fit(X, ["a"] * len(y))):
        before = files.dumps(model)
        with pytest.raises(RefusedRow, match=message) as refused:
            model.partial_fit(X, y)
        assert refused.value.row == 1 and files.dumps(model) == before
    with pytest.raises(RefusedRow, match="classes, place 1: " + message.partition(": ")[2]):
        KernelClassifier().partial_fit(X[:1], ["a"], classes=y)


@pytest.mark.skipif(not core.has_lane(), reason="as many rows in NumPy take their time")
def test_a_long_label_takes_its_own_room_and_no_more():
    code = (
        "import resource, numpy as np; from onkel import KernelClassifier\n"
        "X = np.random.default_rng(0).normal(size=(16384, 2))\n"
        "y = ['u', 'v'] * 8192; y[7] = 'w' * 900_000\n"
        "m = KernelClassifier(); m.predict_then_learn(X, y); m.predict(X)\n"
        "assert len(m.classes_) == 3\n"
    )
    room = 4 * 2**30
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (room, room)), timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-500:]
