"""A run that is cut between any two calls and continued from a file gives the same bits."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from helpers import cases, model_cases
from helpers.fingerprint import fingerprint
from helpers.sizes import some

from onkel import files
from onkel.kernels import Function

LISTS = {
    "norma": model_cases.norma_cases(),
    "rules": model_cases.rule_case_list(),
    "primal": model_cases.primal_case_list(),
    "centers": model_cases.center_cases(),
}
NAMED = [(f"{k}{i}", c) for k, found in LISTS.items() for i, c in enumerate(found)]
EVERY = [
    pytest.param(case, id=name)
    for name, case in some(
        NAMED,
        times=1,
        levels=lambda named: [(named[0].strip("0123456789"), *level) for level in named[1].items()],
    )
]


def own_of(case):
    """What a file of this case does not hold."""
    own = {}
    if case.get("kernel") == "function":
        own["kernel"] = cases.KERNELS["function"][0].function
    if case.get("schedule") == "function":
        own["schedule"] = cases.SCHEDULES["function"][0]
    return own


def same(a, b):
    return fingerprint(a) == fingerprint(b)


@pytest.mark.parametrize("case", EVERY)
def test_a_run_cut_between_any_two_calls(case, rng):
    """Saved and loaded before every call: if bits agree after each, any single cut does too."""
    X, y = model_cases.stream(case, rng)
    whole = model_cases.estimator(model_cases.settings_of(case))
    cut = model_cases.estimator(model_cases.settings_of(case))
    first = 0
    for rows in model_cases.CALLS:
        data = files.dumps(cut)
        before = fingerprint(cut)
        cut = files.loads(data, **own_of(case))
        assert fingerprint(cut) == before
        assert files.dumps(cut) == data
        expected, found = (model_cases.call(m, X, y, first, rows) for m in (whole, cut))
        assert same(expected, found), (first, rows)
        assert same(whole, cut), (first, rows)
        first += rows


@pytest.mark.parametrize("case", EVERY[::3])
def test_one_cut_and_many_calls_behind_it(case, rng):
    """What the fast lane keeps beside the terms is older here than the file."""
    X, y = model_cases.stream(case, rng)
    whole = model_cases.estimator(model_cases.settings_of(case))
    half = len(model_cases.CALLS) // 2
    first = 0
    for i, rows in enumerate(model_cases.CALLS):
        if i == half:
            cut = files.loads(files.dumps(whole), **own_of(case))
        expected = model_cases.call(whole, X, y, first, rows)
        if i >= half:
            assert same(expected, model_cases.call(cut, X, y, first, rows))
        first += rows
    assert same(whole, cut)


@pytest.mark.few
@pytest.mark.parametrize("case", EVERY[1::6])
@pytest.mark.parametrize("way", ["pickle", "deepcopy"])
def test_pickled_and_copied_models_too(case, way, rng):
    kernel = cases.KERNELS.get(case.get("kernel"), (None,))[0]
    if way == "pickle" and (isinstance(kernel, Function) or case.get("schedule") == "function"):
        pytest.skip("a lambda cannot be pickled")
    X, y = model_cases.stream(case, rng)
    whole = model_cases.estimator(model_cases.settings_of(case))
    cut, first = copy.deepcopy(whole), 0
    for rows in model_cases.CALLS:
        cut = copy.deepcopy(cut) if way == "deepcopy" else pickle.loads(pickle.dumps(cut))
        expected, found = (model_cases.call(m, X, y, first, rows) for m in (whole, cut))
        assert same(expected, found), (first, rows)
        first += rows


def test_the_fingerprint_would_notice(rng):
    case = LISTS["norma"][0]
    X, y = model_cases.stream(case, rng)
    model = model_cases.estimator(model_cases.settings_of(case))
    for first, rows in ((0, 1), (1, 1), (2, 10)):
        model_cases.call(model, X, y, first, rows)
    other = copy.deepcopy(model)
    assert same(model, other)
    other._learner.state[0, 1] = np.nextafter(other._learner.state[0, 1], 1)
    assert not same(model, other)
    other = copy.deepcopy(model)
    other._learner.new_field = 1
    assert not same(model, other)
