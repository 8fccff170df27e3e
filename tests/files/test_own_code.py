"""Parameters through a file: onkel's own parts whole, a user's own code by its name only."""

from __future__ import annotations

import datetime
import inspect
import json
import math
from dataclasses import dataclass

import numpy as np
import pytest
from helpers.fingerprint import fingerprint

import onkel
from onkel import (
    KernelClassifier,
    KernelRegressor,
    expansions,
    files,
    kernels,
    losses,
    rules,
    schedules,
)
from onkel.core.layout import Move, Verdict
from onkel.files import container
from onkel.files.parameters import BASES, PARTS, Reader, Writer
from onkel.params import Part
from onkel.rules.base import BoundRule


def cauchy(X, Z):
    return 1.0 / (1.0 + ((X[:, None] - Z[None]) ** 2).sum(-1))


def cosine(X, Z):
    return np.cos(X[:, None, 0] - Z[None, :, 0])


def slowing(t):
    return 0.3 / t**0.25


@dataclass(frozen=True)
class Pinball(losses.Loss):
    q: float = 0.9

    def judge(self, z, y, threshold):
        slope = self.q if y > z else self.q - 1
        return Verdict(slope, 0.0, slope * (y - z))


@dataclass(frozen=True)
class Timid(rules.Rule):
    step: float = 0.05

    def bind(self, loss, space=None):
        return BoundTimid(self.step)


class BoundTimid(BoundRule):
    def __init__(self, size):
        self.size = size

    def step(self, trial, loss):
        verdict = loss.judge(trial.f, trial.y, trial.threshold)
        return Move(1.0, self.size * verdict.slope, 0.0, trial.threshold, trial.alert, verdict)


def through(value, name="p", **own):
    writer = Writer()
    text = json.loads(json.dumps(writer.value(value, name)))
    reader = Reader(writer.tensors, own)
    reader.foresee(text)
    reader.check_own()
    return reader.value(text)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 0, -(2**80), 0.1, 1e-320, -0.0, math.inf, -math.inf, math.nan, "", "é\ud800\0",
        [1, [2.0, "x"]], (1, (2,)), {"a": 1, 2: (3,)}, {}, [], (), np.float32(0.1), np.int8(-3),
        datetime.timedelta(-3, 7, 9), np.timedelta64(90, "m"), np.timedelta64(3, "25us"),
        np.bool_(True), np.float64(math.nan), np.str_("x\0"), np.uint64(2**64 - 1),
        np.float16(2), b"", b"a\0\xff",
    ],
    ids=repr,
)  # fmt: skip
def test_values_come_back_as_they_were(value):
    assert fingerprint(through(value)) == fingerprint(value)


@pytest.mark.parametrize("dtype", ["<f8", ">f8", "<f4", ">i2", "u1", "?", "<f2"])
def test_arrays_come_back_in_their_type(dtype, rng):
    value = rng.integers(0, 2, size=(3, 4)).astype(dtype)[:, ::2]
    writer = Writer()
    text = writer.value(value, "p")
    data = b"".join(container.pack({"p": text}, writer.tensors))
    found = Reader(container.unpack(data)[2], {}).value(text)
    assert np.array_equal(found, value) and found.dtype == value.dtype.newbyteorder("=")


@pytest.mark.parametrize(
    "value", [{1, 2}, 1j, object(), np.array(["a"]), open, 2**70 * 1j, np.datetime64("2020")]
)
def test_what_no_file_can_hold_is_refused_by_name(value, tmp_path):
    with pytest.raises(ValueError, match="cannot hold passes="):
        Writer().value(value, "passes")
    with pytest.raises(ValueError, match="passes must be a whole number"):
        KernelRegressor(passes=value).save(tmp_path / "m")
    assert not [*tmp_path.iterdir()]


class Length(datetime.timedelta):
    """A class of its own, as data frames have one."""


class Word(str):
    """The same of texts."""


def test_what_is_of_a_class_of_its_own_comes_back_as_what_it_is_beside():
    assert fingerprint(through(Length(seconds=3))) == fingerprint(datetime.timedelta(seconds=3))
    assert fingerprint(through(Word("a\0"))) == fingerprint("a\0")
    assert fingerprint(through(np.longdouble(0.5))) == fingerprint(0.5)
    assert fingerprint(through(np.longlong(5))) == fingerprint(np.int64(5))
    assert fingerprint(through(np.array([1, "x"], object))) == fingerprint([1, "x"])


def test_every_part_has_a_name_for_files():
    """A new kernel, loss, rule, expansion or schedule must be in the table."""
    known = {kind for table in PARTS.values() for kind in table.values()}
    bases = (Part, losses._Bounded, *BASES.values())
    for module in (kernels, losses, rules, expansions, schedules):
        for kind in vars(module).values():
            if inspect.isclass(kind) and issubclass(kind, Part) and kind not in bases:
                assert kind in known, f"{kind} has no name in onkel/files/parameters.py"


def test_names_in_files_do_not_change():
    """Old files have them. Add to this list, take nothing away."""
    assert {slot: sorted(table) for slot, table in PARTS.items()} == {
        "kernel": ["additive", "exponential", "function", "gaussian", "laplacian", "linear",
                   "matern", "polynomial", "product", "scaled", "spectrum", "spline", "sum"],
        "loss": ["absolute", "epsilon_insensitive", "exponential", "huber", "least_squares",
                 "logistic", "novelty", "soft_margin", "squared"],
        "rule": ["alma", "norma", "perceptron", "projection", "rls", "romma"],
        "expansion": ["centers", "tree", "weights", "window"],
        "schedule": ["constant", "horizon", "inverse_sqrt", "power", "regularized"],
        "columns": ["columns"],
    }  # fmt: skip


def fitted(rng, **params):
    X = rng.normal(size=(40, 2))
    return KernelRegressor(**params).partial_fit(X, X[:, 0])


@pytest.mark.parametrize(
    "wrap",
    [
        lambda f: f,
        lambda f: kernels.Function(f, limit=1.0),
        lambda f: kernels.Function(f) + kernels.Gaussian(0.3),
    ],
)
def test_a_kernel_function(wrap, rng):
    model = fitted(rng, kernel=wrap(cauchy))
    data = files.dumps(model)
    with pytest.raises(ValueError, match=r"code of your own.*load\(path, kernel=cauchy\)"):
        files.loads(data)
    loaded = files.loads(data, kernel=cauchy)
    assert fingerprint(loaded) == fingerprint(model)
    assert files.dumps(loaded) == data
    for wrong in (3, "cauchy", Pinball, kernels.Gaussian()):
        with pytest.raises(ValueError, match=r"kernel= must be a function, as 'cauchy' was"):
            files.loads(data, kernel=wrong)


def test_several_functions_are_told_apart_by_name(rng):
    model = fitted(rng, kernel=kernels.Function(cauchy) + kernels.Function(cosine))
    data = files.dumps(model)
    with pytest.raises(ValueError, match=r"kernel=\{'cauchy': ...\}, kernel=\{'cosine': ...\}"):
        files.loads(data, kernel=cauchy)
    with pytest.raises(ValueError, match=r"kernel=\{'cosine': ...\}"):
        files.loads(data, kernel={"cauchy": cauchy})
    loaded = files.loads(data, kernel={"cauchy": cauchy, "cosine": cosine})
    assert fingerprint(loaded) == fingerprint(model)


def test_two_lambdas_have_two_names(rng):
    one, two = (lambda X, Z: cauchy(X, Z)), (lambda X, Z: 2 * cauchy(X, Z))
    model = fitted(rng, kernel=kernels.Function(one) * kernels.Function(two))
    loaded = files.loads(files.dumps(model), kernel={"<lambda>": one, "<lambda> 2": two})
    assert fingerprint(loaded) == fingerprint(model)


def test_schedules_and_regularisers_of_ones_own(rng):
    rule = rules.Norma(learning_rate=slowing, regularization=0.1, regularizer=math.sqrt)
    model = fitted(rng, rule=rule)
    data = files.dumps(model)
    with pytest.raises(ValueError, match=r"regularizer=sqrt, schedule=slowing\)"):
        files.loads(data)
    loaded = files.loads(data, schedule=slowing, regularizer=math.sqrt)
    assert fingerprint(loaded) == fingerprint(model)


def test_losses_and_rules_of_ones_own(rng):
    model = fitted(rng, loss=Pinball(q=0.7), rule=Timid())
    data = files.dumps(model)
    with pytest.raises(ValueError, match=r"loss=Pinball, rule=Timid\)"):
        files.loads(data)
    for own in ({"loss": Pinball, "rule": Timid}, {"loss": Pinball(q=0.7), "rule": Timid()}):
        loaded = files.loads(data, **own)
        assert fingerprint(loaded) == fingerprint(model)
        assert loaded.loss == Pinball(q=0.7)
    with pytest.raises(ValueError, match=r"Pinball\(q=0.5\) has another q .* \(0.7\)"):
        files.loads(data, loss=Pinball(q=0.5), rule=Timid)
    with pytest.raises(ValueError, match="loss= must be the class Pinball or an object of it"):
        files.loads(data, loss=Timid, rule=Timid)
    with pytest.raises(ValueError, match=r"makes no sense.*unexpected keyword"):
        files.loads(data, loss=losses.Squared, rule=Timid)


def test_what_is_handed_over_for_nothing_is_refused(rng):
    data = files.dumps(fitted(rng))
    with pytest.raises(ValueError, match="kernel= was given, but the file holds none of your own"):
        files.loads(data, kernel=cauchy)
    with pytest.raises(TypeError, match=r"code of your own is given as kernel, .*; got 'kernle'"):
        files.loads(data, kernle=cauchy)


def test_an_estimator_of_ones_own_is_refused(rng, tmp_path):
    class Mine(KernelClassifier):
        pass

    with pytest.raises(ValueError, match="got a Mine"):
        Mine().save(tmp_path / "m")

    class KernelRegressor(onkel.KernelRegressor):
        pass

    with pytest.raises(ValueError, match="got a KernelRegressor"):
        KernelRegressor().save(tmp_path / "m")


def test_a_kernel_of_many_parts():
    kernel = kernels.Gaussian(0.1)
    for i in range(60):
        kernel = kernel + (0.5 + i) * kernels.Laplacian(0.2)
    model = KernelRegressor(kernel=kernel)
    assert files.loads(files.dumps(model)).kernel == kernel
    for _ in range(150):
        kernel = kernels.Scaled(kernel, 1.0)
    with pytest.raises(ValueError, match="kernel is nested deeper than"):
        files.dumps(KernelRegressor(kernel=kernel))
