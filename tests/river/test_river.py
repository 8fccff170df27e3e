"""At home with River: its own checks, texts, parameters."""

from __future__ import annotations

import inspect
import subprocess
import sys
import textwrap

import pytest
from helpers.river_streams import Cards, messages
from helpers.sizes import size

pytest.importorskip("river.base", reason="the River face needs River: pip install 'onkel[river]'")

import river.checks
from river import (
    base,
    datasets,
    evaluate,
    feature_extraction,
    metrics,
)

import onkel
from onkel import expansions, kernels, losses, rules
from onkel import river as face

ADDITIVE = kernels.Additive(kernels.Exponential(), weights="mean")
MODELS = [
    *(kind(**params) for kind in (face.Classifier, face.Regressor,
                                  face.KernelClassifier, face.LinearClassifier,
                                  face.KernelRegressor, face.LinearRegressor,
                                  face.NoveltyDetector, face.Detector)
      for params in kind._unit_test_params()),
    face.KernelClassifier(rule="projection"),
    face.KernelClassifier(rule="rls", expansion=expansions.Centers(10, linear=True)),
    face.KernelRegressor(rule="rls", expansion=expansions.Centers(10, linear=True)),
    face.LinearRegressor(rule="rls"),
    face.LinearClassifier(rule="rls"),
    face.KernelClassifier(expansion=expansions.Centers(10), loss="logistic"),
    face.KernelRegressor(ADDITIVE, expansion="tree"),
    face.KernelRegressor(loss=losses.EpsilonInsensitive(nu=0.1), scale=False, absent="zero"),
    face.NoveltyDetector(kernel=ADDITIVE, expansion="tree"),
]  # fmt: skip


def said(model):
    return str(model) + "".join(f" {v}" for v in model._get_params().values())


# -- River's own checks --------------------------------------------------------------------------


@pytest.fixture
def no_download(monkeypatch):
    """River's checks of detectors read a set from the network: a seeded stream in its place."""
    monkeypatch.setattr(datasets, "CreditCard", lambda: Cards(share=0.5))


# Classifiers take seconds each, minutes in plain NumPy: one is on texts below.
FEW = [next(m for m in MODELS if isinstance(m, k)) for k in (base.Regressor, base.AnomalyDetector)]


@pytest.mark.parametrize("model", size(FEW[:1], MODELS, plain=FEW), ids=said)
def test_rivers_checks(model, no_download):
    names = [check.__name__ for check in river.checks.yield_checks(model)]
    assert not model._unit_test_skips()
    assert "check_bounded_memory_growth" in names
    if isinstance(model, (base.MiniBatchClassifier, base.MiniBatchRegressor)):
        assert "check_learn_many_matches_learn_one" in names
    river.checks.check_estimator(model)


@pytest.mark.long
@pytest.mark.parametrize("on", size([None], [None, "text"], plain=[None]))
def test_rivers_checks_on_texts(on, no_download, monkeypatch):
    """The same checks with a string kernel, on a stream of dicts that hold a text among others."""
    if on is None:
        kinds = [face.KernelClassifier(kernels.Spectrum(), "logistic")]
        stream_of = lambda scale: list(messages(100 * scale))
    else:
        kinds = [
            face.KernelClassifier(kernels.Spectrum(), on=on),
            face.KernelRegressor(kernels.Spectrum(), on=on),
            face.NoveltyDetector(kernel=kernels.Spectrum(), on=on),
        ]
        stream_of = lambda scale, share=0.1: [
            ({"text": text, "a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}, y)
            for text, y in messages(100 * scale, share=share)
        ]
    monkeypatch.setattr(river.checks, "_yield_datasets", lambda model, scale=1: [stream_of(scale)])
    on_dicts = ("features", "many", "aliasing")
    for model in kinds:
        assert base.tags.TEXT_INPUT in model._tags
        for check in river.checks.yield_checks(model):
            if "many" in check.__name__ or (
                on is None and any(w in check.__name__ for w in on_dicts)
            ):
                continue  # those take a dict's values for numbers
            check(model.clone())


def test_kinds_and_signatures():
    assert isinstance(face.KernelClassifier(), base.MiniBatchClassifier)
    assert isinstance(face.LinearRegressor(), base.MiniBatchRegressor)
    assert isinstance(face.NoveltyDetector(), base.AnomalyDetector)
    assert not face.NoveltyDetector()._supervised
    assert face.KernelClassifier()._multiclass
    for name in set(face.__all__) - {"Lags"}:  # of the models
        ours, theirs = getattr(face, name), getattr(onkel, name)
        here, there = (inspect.signature(k).parameters for k in (ours, theirs))
        of_a_gpu = {"device"} if name == "Detector" else {"device", "precision"} & set(there)
        passes = {"passes"} & set(there)
        assert set(there) - set(here) == {"missing"} | passes | of_a_gpu
        assert set(here) - set(there) <= {"absent", "on"}
        differ = {n for n in set(here) & set(there) if here[n].default != there[n].default}
        assert differ <= {"warmup"}


def test_alerts_can_be_answered(rng):
    model = face.Detector(nu=0.02, warmup=50, terms=50)
    for x in rng.normal(size=400).tolist():
        model.learn_one({"a": x})
    model.learn_one({"a": 30.0})
    assert model.estimator.alerts_[-1]["id"] == "400" and model.score_one({"a": 30.0}) > 0.5
    model.feedback("400", "usual")
    assert model.score_one({"a": 30.0}) < 0.5


# -- texts ---------------------------------------------------------------------------------------


def test_texts_as_river_has_them():
    model = face.KernelClassifier(kernels.Spectrum(), "logistic")
    accuracy = evaluate.progressive_val_score(messages(400), model, metrics.Accuracy())
    assert accuracy.get() > 0.75
    named = face.KernelClassifier(kernels.Spectrum(), "logistic", on="body")
    plain = onkel.KernelClassifier(kernels.Spectrum(), "logistic")
    for text, spam in messages(100):
        named.learn_one({"body": text, "length": len(text)}, spam)
        plain.learn_one(text, spam)
    for text, _ in messages(20, seed=1):
        want = float(plain.predict_proba([text])[0, 1])
        assert named.predict_proba_one({"body": text})[True] == pytest.approx(want)
        assert named.predict_proba_one(text)[True] == pytest.approx(want)
    assert named.predict_one({"length": 3}) == named.predict_one({"body": ""})  # absent is empty
    words = feature_extraction.BagOfWords() | face.LinearClassifier(absent="zero", scale=False)
    accuracy = evaluate.progressive_val_score(messages(400), words, metrics.Accuracy())
    assert accuracy.get() > 0.75


def test_texts_in_frames():
    pd = pytest.importorskip("pandas")
    texts, y = zip(*messages(120), strict=True)
    one = face.KernelClassifier(kernels.Spectrum(), on="body")
    for text, label in zip(texts, y, strict=True):
        one.learn_one(text, label)
    frame = pd.DataFrame({"body": list(texts), "n": 1.0})
    for X, on in ((frame, "body"), (frame["body"], None)):
        many = face.KernelClassifier(kernels.Spectrum(), on=on)
        many.learn_many(X, pd.Series(y))
        assert many.predict_many(X).tolist() == [one.predict_one(text) for text in texts]
    with pytest.raises(ValueError, match="named by on="):
        face.KernelClassifier(kernels.Spectrum()).learn_many(frame, y)


def test_texts_that_are_none():
    model = face.KernelClassifier(kernels.Spectrum(), on="body")
    model.learn_one({"body": None}, True)
    with pytest.raises(ValueError, match=r"'body' must be a text \(or None\); got 7"):
        model.learn_one({"body": 7}, True)
    with pytest.raises(ValueError, match="a dict and on= the name"):
        face.KernelClassifier(kernels.Spectrum()).predict_one({"body": "abc"})
    with pytest.raises(ValueError, match="on='body' names a text"):
        face.KernelClassifier(on="body")


# -- parameters ----------------------------------------------------------------------------------


def test_parameters_are_checked_when_given():
    with pytest.raises(ValueError, match=r"absent must be one of \('mean', 'zero'\); got 'none'"):
        face.KernelRegressor(absent="none")
    with pytest.raises(ValueError, match="nu must be"):
        face.NoveltyDetector(nu=2.0)
    with pytest.raises(ValueError, match="loss"):
        face.KernelClassifier(loss="huber")
    clone = face.KernelRegressor(rule=rules.Norma(memory=50)).clone({"absent": "zero"})
    assert (clone.rule.memory, clone.absent) == (50, "zero")


def test_light_to_import_and_reached_from_onkel():
    code = """
        import sys, onkel
        assert onkel.river.KernelClassifier
        heavy = {"pandas", "polars", "scipy", "sklearn", "narwhals"}
        print(*sorted(heavy & {name.partition(".")[0] for name in sys.modules}))
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_without_river_it_says_what_to_install():
    code = "import sys; sys.modules['river'] = None; import onkel.river"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True
    )
    assert done.returncode and "pip install 'onkel[river]'" in done.stderr
