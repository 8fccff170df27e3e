"""Lags in River: in its pipelines an example comes out alike before and after it is learned."""

from __future__ import annotations

import copy
import datetime
import pickle
from itertools import pairwise

import numpy as np
import pytest
from helpers.sizes import size

pytest.importorskip("river.base", reason="the River face needs River: pip install 'onkel[river]'")

from river import compose, evaluate, linear_model, metrics, preprocessing

from onkel import river as face
from onkel import series


def examples(rng, rows=400):
    start = datetime.datetime(2024, 1, 1)
    for i in range(rows):
        value = np.sin(i * 2 * np.pi / 24) + 0.1 * rng.normal()
        yield {"load": float(value), "at": start + datetime.timedelta(hours=i)}


def test_as_the_library_both_times_it_is_asked(rng):
    rows = [*examples(rng)]
    kinds = dict(lags=2, shape=3, differences=True, season="auto")
    plain = series.Lags(**kinds)
    X, at = [[x["load"]] for x in rows], [x["at"] for x in rows]
    wide = plain.transform_then_learn(X, time=at)
    maker = face.Lags(**kinds, time="at")
    names = plain.get_feature_names_out(["load"]).tolist()
    for x, row in zip(rows, wide.tolist(), strict=True):
        ahead = maker.transform_one(x)
        maker.learn_one(x)
        assert maker.transform_one(x) == ahead == dict(zip(names, row, strict=True))
    assert maker.season_ == plain.season_ == "day"


def test_the_next_example_may_be_the_same_dict(rng):
    maker, x = face.Lags(1, roughness=0, season=None, forecast=0), {"load": 1.0}
    maker.learn_one(x)
    maker.transform_one(x)
    x["load"] = 2.0
    assert maker.transform_one(x) == {"load": 2.0, "load lag 1": 1.0}
    maker.learn_one(x)
    x["load"] = 3.0
    assert maker.transform_one(x) == {"load": 3.0, "load lag 1": 2.0}


def test_in_a_pipeline(rng):
    rows = [*examples(rng, 700)]
    pairs = [({"load": a["load"]}, b["load"]) for a, b in pairwise(rows)]
    scores = []
    for first in (compose.Select("load"), face.Lags(3, season="auto")):
        model = first | preprocessing.StandardScaler() | linear_model.LinearRegression()
        found = evaluate.progressive_val_score(pairs, model, metrics.MAE())
        scores.append(found.get())
    assert scores[1] < 0.7 * scores[0]
    detector = face.Lags(time="at") | face.NoveltyDetector()
    for x in rows[: size(200, 700)]:
        assert 0 <= detector.score_one(x) <= 1
        detector.learn_one(x)
    assert detector["NoveltyDetector"].estimator.t_ == size(200, 700)


def test_absent_features_and_copies(rng):
    maker = face.Lags(1, roughness=0, season=None, forecast=0)
    maker.learn_one({"a": 1.0, "b": 2.0})
    others = [copy.deepcopy(maker), pickle.loads(pickle.dumps(maker))]
    for other in [maker, *others]:
        wide = {"a": 1.0, "b": 5.0, "a lag 1": 1.0, "b lag 1": 2.0}
        assert other.transform_one({"b": 5.0, "c": 9.0}) == wide
    assert maker.clone()._names == []


def test_refusals():
    with pytest.raises(ValueError, match="lags must be a whole number"):
        face.Lags(-1)
    with pytest.raises(ValueError, match="must hold its time, 'at'"):
        face.Lags(time="at").learn_one({"load": 1.0})
    with pytest.raises(ValueError, match="holds no feature"):
        face.Lags().learn_one({})
    with pytest.raises(ValueError, match="is the text"):
        face.Lags().learn_one({"load": "high"})
