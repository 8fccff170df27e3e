"""Linear members of a mixture on rows with codes: single rows make what blocks make."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import rule_cases
from helpers.fingerprint import fingerprint as bits
from helpers.rule_cases import APART
from helpers.sizes import size

from onkel import core, expansions, kernels, losses, rules
from onkel.explain.source import details
from onkel.learner import Odds, Settings, start_parts

ROWS = size(200, 2000, plain=200)


def members(bits):
    made = [
        (losses.Logistic(), rules.Norma(learning_rate=0.3, memory=30)),  # folds every few rows
        (losses.SoftMargin(), rules.Projection(radius=2.0)),
        (losses.SoftMargin(), rules.Romma()),
    ]
    return [
        Settings(kernels.Linear(), loss, rule, expansions.Weights(bits=bits), intercept=False)
        for loss, rule in made
    ]


def mixture(outputs, dtype, bits):
    settings = members(bits)
    parts = start_parts(settings, len(APART) + 3, outputs, dtype, apart=APART)
    return Odds(settings, parts, 0.01)


def stream(rng, outputs, dtype):
    X = rule_cases.with_codes(rng.normal(size=(ROWS, 3)), rng)
    classes = (X[:, 0] + (X[:, 3] > 0)).astype(int) % max(outputs, 2)
    if outputs == 1:
        return X.astype(dtype), np.where(classes[:, None] > 0, 1.0, -1.0)
    return X.astype(dtype), np.where(classes[:, None] == np.arange(outputs), 1.0, -1.0)


def learn_singly(model, X, Y):
    """Row by row, the cheap way where that is possible; return how often it was."""
    quick, one = 0, None
    for x, y in zip(X, Y, strict=True):
        if one is None or not one.holds(model):
            one = model.single_row()
        told = float(y[0]) if len(y) == 1 else y
        if one is not None and one.learn(x, told):
            quick += 1
            continue
        model.learn(x[None], y[None], np.ones(1))
        one = None
    return quick


@pytest.mark.few
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("held", [2, 10])
def test_single_rows_make_the_same_bits_as_blocks(rng, outputs, dtype, held):
    """With four buckets two codes of a row share one, and tables are folded every four steps."""
    X, Y = stream(rng, outputs, dtype)
    block, single = mixture(outputs, dtype, held), mixture(outputs, dtype, held)
    block.learn(X, Y, np.ones(ROWS))
    quick = learn_singly(single, X, Y)
    assert bits(block.dump()["parts"]) == bits(single.dump()["parts"])
    np.testing.assert_allclose(single.scores(X[:20]), block.scores(X[:20]), rtol=1e-9)
    assert quick > 0.6 * ROWS or not core.has_lane()


@pytest.mark.skipif(not core.has_lane(), reason="needs the compiled core")
def test_a_look_is_a_score_and_changes_nothing(rng):
    X, Y = stream(rng, 1, np.float64)
    model = mixture(1, np.float64, 4)
    model.learn(X, Y, np.ones(ROWS))
    one, before = model.single_row(), bits(model.dump())
    for x in X[:10]:
        assert one.look(x)
        np.testing.assert_allclose(one.scores, model.scores(x[None])[0], rtol=1e-9)
    x = X[0].copy()
    for wrong in (0.5, -1.0, 2.0**24, np.nan):
        x[1] = wrong
        assert not one.look(x) and not one.learn(x, 1.0)
    assert bits(model.dump()) == before


def test_members_are_explained_by_every_column(rng):
    X, Y = stream(rng, 1, np.float64)
    model = mixture(1, np.float64, 6)
    model.learn(X, Y, np.ones(ROWS))
    names = ["few", "many", "tells", "a", "b", "c"]
    told = details(model, X[0], np.ones(1), names, 6, False)
    effects = {feature.name: feature.effect for feature in told.features}
    assert sorted(effects) == sorted(names) and effects["tells"] != 0
