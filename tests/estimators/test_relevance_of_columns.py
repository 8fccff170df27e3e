"""Which columns matter: relevance_ of arrays and of tables, in reports and explanations."""

from __future__ import annotations

import numpy as np
import pytest

import onkel
from onkel import Classifier, KernelRegressor, Regressor, kernels
from onkel.river import Regressor as RiverRegressor


def table(rng, rows=1500):
    """The carrier and the minutes tell, the remark a little; the number is an identifier."""
    carrier = rng.choice(["AA", "BB", "CC"], size=rows)
    minutes, dull = rng.normal(size=(2, rows))
    remark = np.where(rng.uniform(size=rows) < 0.5, "fog and rain", "clear sky above")
    y = 2.0 * (carrier == "BB") + np.sin(2 * minutes) + 0.5 * (remark == "clear sky above")
    names = ("carrier", "minutes", "dull", "remark", "number")
    columns = carrier, minutes, dull, remark, [f"n{i}" for i in range(rows)]
    found = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return found, y


COLUMNS = {"remark": "text", "number": "ignore"}


@pytest.mark.parametrize("kind", [Classifier, Regressor])
def test_of_a_table_by_its_columns(rng, kind):
    rows, y = table(rng)
    y = (y > 1).astype(int) if kind is Classifier else y
    model = kind(columns=COLUMNS).partial_fit(rows, y)
    found = dict(zip(model.feature_names_in_, model.relevance_, strict=True))
    assert found["number"] == 0
    assert np.mean([v for v in found.values() if v]) == pytest.approx(1.0)
    assert min(found["carrier"], found["minutes"]) > 1.5 * found["dull"]
    assert model.diagnostics_["relevance"] == pytest.approx(found)
    told = model.explain(rows[0])
    assert {f.name: f.relevance for f in told.features if f.relevance} == pytest.approx(
        {k: v for k, v in found.items() if v}
    )
    assert told.to_dict()["features"][0]["relevance"] == told.features[0].relevance


def test_of_an_array_by_number(rng):
    X = rng.normal(size=(600, 4))
    model = Regressor().partial_fit(X, np.sin(2 * X[:, 1]))
    assert model.relevance_.argmax() == 1
    found = model.diagnostics_["relevance"]
    assert list(found) == [f"feature {j}" for j in range(4)]
    assert list(found.values()) == model.relevance_.tolist()
    told = model.explain(X[0])
    assert {f.name: f.relevance for f in told.features} == found
    spreads = onkel.diagnostics.report(model._learner.main)["scale"]["spreads"]
    np.testing.assert_allclose(spreads, X[:512].std(axis=0), rtol=0.02)


def test_it_can_be_turned_off(rng):
    X = rng.normal(size=(600, 4))
    y = np.sin(2 * X[:, 1])
    own = [KernelRegressor(kernels.Laplacian(0.2)), KernelRegressor(kernels.Laplacian(0.8))]
    for model in (Regressor(relevance=False), Regressor(members=own)):
        model.partial_fit(X, y)
        assert np.array_equal(model.relevance_, np.ones(4))
        assert model.diagnostics_["relevance"] is None
        assert {f.relevance for f in model.explain(X[0]).features} == {None}
    assert Regressor(relevance=np.bool_(True)).partial_fit(X, y).relevance_.argmax() == 1
    with pytest.raises(ValueError, match="relevance must be True or False; got 'yes'"):
        Regressor(relevance="yes").partial_fit(X, y)


def test_features_that_come_later(rng):
    model = RiverRegressor()
    for i, row in enumerate(rng.normal(size=(700, 3)).tolist()):
        names = "abc" if i >= 400 else "ab"
        model.learn_one(dict(zip(names, row, strict=False)), float(np.sin(2 * row[0])))
    inside = model.estimator
    assert len(inside.relevance_) == 3 and inside.relevance_.argmax() == 0
    assert not RiverRegressor(relevance=False).relevance
