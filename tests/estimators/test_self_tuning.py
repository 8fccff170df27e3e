"""Mixtures: members share points and stay what they are alone; the mixture is the formula's."""

from __future__ import annotations

import pickle
from itertools import pairwise

import naive
import numpy as np
import pytest

import onkel
from onkel import (
    Classifier,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    Regressor,
    bounds,
    evaluate,
    expansions,
    kernels,
    losses,
    rules,
)
from onkel.learner import Bank

WIDE, NARROW = kernels.Laplacian(0.25), kernels.Laplacian(1.0)
GAUSS = kernels.Gaussian(0.5)
MEMORY = 4000


def norma(rate, **more):
    return rules.Norma(learning_rate=rate, memory=MEMORY, **more)


def classifiers(**more):
    return [
        KernelClassifier(NARROW, rule=norma(0.4), **more),
        KernelClassifier(WIDE, rule=norma(0.1), **more),
        KernelClassifier(GAUSS, "logistic", norma(0.4), **more),
        KernelClassifier(WIDE, rule=norma(0.8), **more),
        LinearClassifier(rule=norma(0.2), **more),
        KernelClassifier(rule="alma", **more),
    ]


def regressors(**more):
    return [
        KernelRegressor(WIDE, "squared", norma(0.4), **more),
        KernelRegressor(NARROW, "absolute", norma(0.2), fit_intercept=True, **more),
        KernelRegressor(WIDE, losses.EpsilonInsensitive(nu=0.2), norma(0.1), **more),
        LinearRegressor(rule=norma(0.1), **more),
    ]


BANKS = {"classification": classifiers, "regression": regressors}
MIXTURES = {"classification": Classifier, "regression": Regressor}


def stream(rng, task, n=700, d=3, dtype=np.float64):
    X = (rng.normal(size=(n, d)) * [1.0, 5.0, 0.2][:d] + 3).astype(dtype)
    z = np.sin(2 * X[:, 0]) + (X[:, 1] - 3) / 5
    return (X, z + 0.1 * rng.normal(size=n)) if task == "regression" else (X, (z > 0).astype(int))


def everything(value, name=""):
    """All arrays and numbers that a model holds, by name."""
    if isinstance(value, np.ndarray):
        yield name, (value.dtype.str, value.shape, value.tobytes())
    elif isinstance(value, (list, tuple)):
        for i, part in enumerate(value):
            yield from everything(part, f"{name}.{i}")
    elif isinstance(value, (int, float, str, bytes, type(None))):
        yield name, value
    elif isinstance(value, dict):
        for key, part in value.items():
            if not (key == "weights" and name.endswith("terms")):
                yield from everything(part, f"{name}.{key}")
    elif hasattr(value, "__dict__"):
        yield from everything(vars(value), name)


def bits(model):
    return dict(everything(model._learner))


# ---------------------------------------------------------------- members


@pytest.mark.parametrize("task", BANKS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [True, False])
def test_members_answer_as_they_do_alone(rng, task, dtype, scale):
    """Same memory, nothing dropped: every member in the bank is the estimator by itself."""
    X, y = stream(rng, task, dtype=dtype)
    model = MIXTURES[task](members=BANKS[task](scale=scale)).partial_fit(X, y)
    assert any(isinstance(part, Bank) for part, _ in model._learner.parts)
    rows = X[:50]
    scores, limits = model._learner.answers(rows), {}
    for part, held in model._learner.parts:
        limits |= dict(zip(held, part.limits().reshape(len(held), -1), strict=True))
    for i, member in enumerate(BANKS[task](scale=scale)):
        member.partial_fit(X, y)
        tolerance = 2e-3 if dtype == np.float32 else 1e-9
        np.testing.assert_allclose(
            scores[:, i], member._learner.scores(rows), rtol=tolerance, atol=tolerance
        )
        np.testing.assert_allclose(
            limits[i], member._learner.limits(), rtol=tolerance, atol=tolerance
        )


def test_late_classes_reach_every_member(rng):
    """Binary from the start, then a third and a fourth class."""
    X = rng.normal(size=(500, 3))
    y = np.digitize(X[:, 0], [-0.5, 0.5]) + 10 * (X[:, 1] > 1)
    y[:100] = X[:100, 0] > 0
    model = Classifier(members=classifiers())
    model.predict_then_learn(X, y)
    scores = model._learner.answers(X[:40])
    known = model._classes
    for i, member in enumerate(classifiers()):
        member.partial_fit(X, y)
        assert member._classes.labels == known.labels
        np.testing.assert_allclose(scores[:, i], member._learner.scores(X[:40]), atol=1e-9)
    assert model.classes_.tolist() == sorted({*y.tolist()})
    assert model.decision_function(X).shape == (500, len(model.classes_))


def steps_of():
    """NORMA with the soft margin, and the projection, as (shrink, coefficient)."""

    def descend(rate, lam):
        return lambda f, y, kxx: (1 - rate * lam, rate * y * (y * f <= 1))

    def project(f, y, kxx):
        return 1.0, 0.0 if y * f >= 1 else (y - f) / kxx

    return [
        (naive.gaussian(0.5), descend(0.5, 0.02)),
        (naive.gaussian(0.5), project),
        (naive.gaussian(2.0), descend(0.2, 0.1)),
        (naive.laplacian(1.0), project),
    ]


@pytest.mark.few
@pytest.mark.parametrize("cap", [3, 40, 64])
@pytest.mark.parametrize("block", [1, 13, 400])
def test_a_full_ring_lets_the_oldest_go(rng, cap, block):
    """Against plain loops: one list of points, from which a sixteenth goes at once."""
    X = rng.normal(size=(160, 3))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
    want = naive.Bank(steps_of(), cap)
    expected = np.array([want.learn(x, int(v)) for x, v in zip(X, y, strict=True)])
    window = {"expansion": expansions.Window(terms=cap), "scale": False, "fit_intercept": False}
    model = Classifier(members=[
        KernelClassifier(kernels.Gaussian(0.5), rule=rules.Norma(0.5, regularization=0.02),
                         **window),
        KernelClassifier(kernels.Gaussian(0.5), rule="projection", **window),
        KernelClassifier(kernels.Gaussian(2.0), rule=rules.Norma(0.2, regularization=0.1),
                         **window),
        KernelClassifier(kernels.Laplacian(1.0), rule="projection", **window),
    ])  # fmt: skip
    for start in range(0, 160, block):
        part = slice(start, start + block)
        if start:
            scores = model._learner.answers(X[start : start + 1])
            np.testing.assert_allclose(scores[0, :, 0], expected[start], atol=1e-9)
        model.partial_fit(X[part], y[part])
    assert model.n_terms_ == len(want.points) < cap
    bank, held = model._learner.parts[-1]
    dropped = bank.state[np.argsort(held), onkel.core.layout.Field.DROPPED]
    np.testing.assert_allclose(dropped, want.dropped, atol=1e-9)


# ---------------------------------------------------------------- the mixture


def alone(task, X, y):
    """Every member's answers before each row, from the estimators by themselves."""
    found = []
    for member in BANKS[task]():
        if task == "classification":
            found.append(member.predict_then_learn(X, y, output="decision"))
        else:
            found.append(member.predict_then_learn(X, y))
    return np.column_stack(found)


def test_odds_are_the_formula(rng):
    """Members alone, their scores through plain loops: links, joint experts, weights."""
    X, y = stream(rng, "classification")
    z, side = alone("classification", X, y), (y > 0).astype(int)
    twin = naive.Chances(z.shape[1], 1, 0.01)
    told = np.array([twin.learn(row[:, None].tolist(), c) for row, c in zip(z, side, strict=True)])
    model = Classifier(members=classifiers(), share=0.01)
    found = model.predict_then_learn(X, y, output="decision")
    np.testing.assert_allclose(found, np.log(told[:, 1] / told[:, 0]), atol=1e-6)
    chances = Classifier(members=classifiers(), share=0.01).predict_then_learn(
        X, y, output="probability"
    )
    both = np.flatnonzero(np.diff(side))[0] + 2  # from here on both classes are known
    np.testing.assert_allclose(chances[both:], told[both:], atol=1e-7)
    np.testing.assert_allclose(model._learner.blend.weights, twin.weights, atol=1e-8)
    d = model.diagnostics_
    assert d["mistakes"] == np.count_nonzero(found * np.where(side, 1.0, -1.0) <= 0)
    assert d["loss"] == pytest.approx(twin.total)
    assert d["losses"] + d["losses_joint"] == pytest.approx(twin.losses)


def test_means_are_the_formula(rng):
    """Members alone, their answers through plain loops: joint experts, weights, usual errors."""
    X, y = stream(rng, "regression")
    y = y * 1000
    p = alone("regression", X, y)
    twin = naive.Means(p.shape[1], 1, 2.0, 0.01)
    want = [twin.learn(row[:, None].tolist(), [t])[0] for row, t in zip(p, y.tolist(), strict=True)]
    model = Regressor(regressors(), rate=2.0, share=0.01)
    found = model.predict_then_learn(X, y)
    np.testing.assert_allclose(found, want, rtol=1e-6, atol=1e-4)
    np.testing.assert_allclose(model._learner.blend.weights, twin.weights, atol=1e-7)
    d = model.diagnostics_
    assert d["loss"] == pytest.approx(twin.total)
    assert d["losses"] + d["losses_joint"] == pytest.approx(twin.losses)


def test_several_targets(rng):
    X, y = stream(rng, "regression")
    Y = np.column_stack([y, 1000 * X[:, 0]])
    model = Regressor(regressors()[:2])
    assert model.predict_then_learn(X, Y).shape == Y.shape
    assert model.score(X, Y) > 0.5
    assert model.predict_one(X[0]).shape == (2,)


def test_a_far_answer_is_moved_in(rng):
    """One member that goes wild takes the mean along by no more than some usual errors."""
    X, y = stream(rng, "regression", n=400)
    model = Regressor([*regressors()[:2], LinearRegressor(rule=norma(0.1))])
    model.partial_fit(X, y)
    far = X[:1] * 1e9
    answers = model._learner.answers(far)[0, :, 0]
    assert np.abs(answers).max() > 1e6
    assert abs(model.predict(far)[0] - np.median(answers[:2])) < 10


def test_probabilities_of_several_classes(rng):
    """They are at the row what the odds say, add up to 1, and follow classes that come late."""
    X = rng.normal(size=(900, 3))
    y = np.array(["a", "b", "c"])[np.argmax(X + 0.3 * rng.normal(size=X.shape), axis=1)]
    y[:300] = np.where(y[:300] == "c", "a", y[:300])
    model = Classifier()
    early = model.predict_then_learn(X[:300], y[:300], output="probability")
    late = model.predict_then_learn(X[300:], y[300:], output="probability")
    assert early.shape == (300, 2) and late.shape == (600, 3)
    np.testing.assert_allclose(late.sum(axis=1), 1.0)
    first = np.flatnonzero(y[300:] == "c")[0]
    assert (late[: first + 1, 2] == 0).all() and (late[first + 1 :, 2] > 0).all()
    found = model.predict_proba(X[:50])
    assert (model.classes_[found.argmax(axis=1)] == model.predict(X[:50])).all()
    np.testing.assert_allclose(np.log(found) - np.log(found).mean(axis=1, keepdims=True),
                               model.decision_function(X[:50]), atol=1e-9)  # fmt: skip
    assert not hasattr(Regressor(), "predict_proba")
    assert not hasattr(Regressor(), "decision_function")


def test_the_odds_of_a_third_class_leave_those_of_two(rng):
    """The row that brings it was told the odds of the two that were known."""
    X, y = rng.normal(size=(200, 2)), np.arange(200) % 2
    third = np.vstack([X, X[:1]]), np.append(y, 7)
    one, other = Classifier(), Classifier()
    one.partial_fit(X, y)
    told = other.predict_then_learn(*third, output="probability")
    np.testing.assert_allclose(told[-1], [*one.predict_proba(X[:1])[0], 0.0], atol=1e-9)


# ---------------------------------------------------------------- the protocol


@pytest.mark.parametrize("task", BANKS)
def test_blocks_of_any_size(rng, task):
    X, y = stream(rng, task)
    kind = {"output": "decision"} if task == "classification" else {}
    want = MIXTURES[task](members=BANKS[task]()).predict_then_learn(X, y, **kind)
    for cut in ([1] * 300, [7, 256, 1, 100], [699]):
        edges = [0, *np.cumsum(cut).tolist(), len(X)]
        model, found = MIXTURES[task](members=BANKS[task]()), []
        for start, stop in pairwise(edges):
            part = slice(start, stop)
            found.append(model.predict_then_learn(X[part], y[part], **kind))
        np.testing.assert_allclose(np.concatenate(found), want, atol=1e-9)


@pytest.mark.parametrize("task", BANKS)
def test_single_rows(rng, task):
    X, y = stream(rng, task, n=300)
    block, single = MIXTURES[task]().partial_fit(X, y), MIXTURES[task]()
    for i, row in enumerate(X):
        single.predict_one(row)
        single.learn_one(row, y[i])
    assert single.t_ == block.t_ == 300
    np.testing.assert_allclose(single.weights_, block.weights_, atol=1e-9)
    found = [single.predict_one(x) for x in X[:9]]
    np.testing.assert_allclose(single.predict(X[:9]), found, atol=1e-12)
    np.testing.assert_allclose(single._learner.scores(X), block._learner.scores(X),
                               atol=1e-8)  # fmt: skip


def test_before_anything_is_known():
    assert Classifier().predict_one([1.0]) is None
    assert Regressor().predict_one([1.0]) == 0.0
    with pytest.raises(ValueError, match="not fitted yet"):
        Classifier().weights_


@pytest.mark.parametrize("task", BANKS)
def test_predicting_changes_nothing_and_same_calls_same_bits(rng, task):
    X, y = stream(rng, task)
    model, twin = MIXTURES[task]().partial_fit(X, y), MIXTURES[task]().partial_fit(X, y)
    before = bits(model)
    model.predict(X)
    model.predict_one(X[0])
    model.diagnostics_
    assert bits(model) == before == bits(twin) == bits(pickle.loads(pickle.dumps(model)))


def wild(task, alone):
    """Banks in which a member leaves the floating range: in the bank, or in a part of its own."""
    if task == "regression":
        bad = {"loss": "squared", "rule": rules.Norma(1e12, regularization=0.0)}
        last = LinearRegressor(**bad) if alone else KernelRegressor(NARROW, **bad)
        return [KernelRegressor(NARROW), KernelRegressor(WIDE), LinearRegressor(), last]
    bad = {"loss": losses.LeastSquares(), "rule": rules.Norma(1e12, regularization=0.0)}
    last = LinearClassifier(**bad) if alone else KernelClassifier(NARROW, **bad)
    return [KernelClassifier(NARROW), KernelClassifier(WIDE), LinearClassifier(), last]


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_refused_call_changes_no_member(rng, task, alone):
    X, y = stream(rng, task)
    model = MIXTURES[task](members=wild(task, alone))
    learned = 0
    while learned < 600:  # row by row until one member cannot go on
        try:
            model.learn_one(X[learned], y[learned])
        except ValueError as error:
            assert "leaves the floating range" in str(error)
            break
        learned += 1
    assert 1 <= learned < 600
    before = bits(model)
    for many in (1, 40):
        part = slice(learned, learned + many)
        with pytest.raises(ValueError, match="floating range"):
            model.partial_fit(X[part], y[part])
        assert bits(model) == before
    fresh = MIXTURES[task](members=wild(task, alone))
    with pytest.raises(ValueError, match="floating range"):
        fresh.partial_fit(X, y)
    assert not hasattr(fresh, "_learner")


@pytest.mark.parametrize("task", BANKS)
def test_missing_values(rng, task):
    """Every member fills gaps as it does alone."""
    X, y = stream(rng, task)
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    model = MIXTURES[task](members=BANKS[task](missing="mean")).partial_fit(X, y)
    scores = model._learner.answers(X[:50])
    for i, member in enumerate(BANKS[task](missing="mean")):
        member.partial_fit(X, y)
        np.testing.assert_allclose(scores[:, i], member._learner.scores(X[:50]), atol=1e-8)
    with pytest.raises(ValueError, match="NaN"):
        MIXTURES[task]().partial_fit(X, y)


@pytest.mark.parametrize("task", BANKS)
def test_missing_is_handed_to_the_default_bank(rng, task):
    X, y = stream(rng, task, n=300)
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    model = MIXTURES[task](missing="mean", relevance=False).partial_fit(X, y)
    assert {m.missing for m in model.members_} == {"mean"}
    bank = MIXTURES[task](members=model.members_).partial_fit(X, y)
    np.testing.assert_array_equal(model.predict(X), bank.predict(X))
    assert model.__sklearn_tags__().input_tags.allow_nan
    assert not MIXTURES[task]().__sklearn_tags__().input_tags.allow_nan
    with pytest.raises(ValueError, match="missing='mean' was given, but the members have"):
        MIXTURES[task](members=BANKS[task](), missing="mean").partial_fit(X, y)
    with pytest.raises(ValueError, match="missing must be 'error' or 'mean'"):
        MIXTURES[task](missing="median").partial_fit(X, y)


def test_bad_rows_change_nothing(rng):
    X, y = stream(rng, "classification")
    model = Classifier().partial_fit(X, y)
    before = bits(model)
    for rows, labels in (([[np.nan, 1, 1]], [1]), (X[:2], [1]), (X[:1, :2], [1]), (X[:1], [0.5])):
        with pytest.raises(ValueError):
            model.partial_fit(rows, labels)
        assert bits(model) == before


def test_rows_of_weight_0_are_only_looked_at(rng):
    X, y = stream(rng, "classification")
    weight = np.where(np.arange(len(y)) % 3, 1.0, 0.0)
    one = Classifier().partial_fit(X, y, sample_weight=weight)
    other = Classifier().partial_fit(X[weight > 0], y[weight > 0])
    np.testing.assert_allclose(one.weights_, other.weights_, atol=1e-9)
    assert one.t_ == other.t_


# ---------------------------------------------------------------- what it is for


def test_the_weights_follow_a_switch(rng):
    """First a straight boundary, then the sign of a product: linear members, then the kernel."""
    X = rng.uniform(-1, 1, size=(4000, 4))
    y = np.where(np.arange(4000) < 2000, X.sum(axis=1) > 0, X[:, 0] * X[:, 1] > 0).astype(int)
    bank = [LinearClassifier(), KernelClassifier(kernels.Gaussian(0.05)),
            KernelClassifier(kernels.Gaussian(1.0), rule=rules.Norma(memory=1000))]  # fmt: skip
    model = Classifier(members=bank)
    model.partial_fit(X[:2000], y[:2000])
    assert model.weights_[2] < 0.2
    model.partial_fit(X[2000:], y[2000:])
    assert model.weights_[2] > 0.8


def test_regret_stays_below_what_diagnostics_say(rng):
    X, y = stream(rng, "classification", n=3000)
    for share in (0.0, 0.001, 0.05):
        d = Classifier(share=share).partial_fit(X, y).diagnostics_
        assert d["regret"] == pytest.approx(d["loss"] - min(d["losses"] + d["losses_joint"]))
        told = bounds.log_loss(members=12, trials=3000, share=share)
        assert d["regret"] <= d["regret_bound"] == d["regret_promise"] == told.bound
        assert d["trials"] == 3000
    for rate, share in ((0.25, 0.001), (2.0, 0.0), (0.05, 0.05)):
        X, y = stream(rng, "regression", n=1000)
        d = Regressor(rate=rate, share=share).partial_fit(X, y).diagnostics_
        assert d["regret"] <= d["regret_bound"] <= d["regret_promise"] + 1e-9


def test_elec2_below_eight_per_cent(load_data):
    data = load_data("elec2")
    model = Classifier()
    model.predict_then_learn(data["X"], data["y"])
    assert model.diagnostics_["mistakes"] / len(data["y"]) < 0.075


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Classifier("novelty"), "members must be a list"),
        (lambda: Classifier(members=[Classifier()]), "with one setting"),
        (lambda: Regressor(rate=0.0), r"rate must be a number in \(0"),
        (lambda: Classifier(share=1.0), r"share must be a number in \[0, 1\)"),
        (lambda: Classifier(n_jobs=1.5), "n_jobs must be"),
        (lambda: Classifier(members=[]), "at least one estimator"),
        (lambda: Classifier(members=KernelClassifier()), "must be a list"),
        (lambda: Classifier(members=["gaussian"]), r"members\[0\] must be an estimator"),
        (
            lambda: Classifier(members=[KernelClassifier(), KernelRegressor()]),
            r"members\[1\] is for",
        ),
        (lambda: Classifier(members=[KernelClassifier(class_weight="balanced")]), "class_weight"),
        (lambda: Classifier(members=[KernelClassifier(kernel="gaussain")]), "gaussain"),
        (
            lambda: Classifier(members=[KernelClassifier(), KernelClassifier(kernels.Spectrum(2))]),
            "all take strings",
        ),
    ],
)
def test_refusals(make, words):
    with pytest.raises(ValueError, match=words):
        make().partial_fit([[1.0], [2.0]], [0, 1])


def test_more_refusals():
    with pytest.raises(ValueError, match="same missing="):
        Classifier(members=[KernelClassifier(), KernelClassifier(missing="mean")]).fit([[1.0]], [1])
    with pytest.raises(ValueError, match="output must be one of"):
        Regressor().predict_then_learn([[1.0]], [1.0], output="probability")
    with pytest.raises(ValueError, match="Invalid parameter 'speed'"):
        Classifier().set_params(speed=1)


def test_strings_and_users_own_rules(rng):
    """What cannot be shared stands beside: string kernels, users' kernels."""
    texts = ["abab", "cdcd", "abba", "dcdc"] * 20
    model = Classifier(members=[KernelClassifier(kernels.Spectrum(n)) for n in (1, 2)])
    found = model.predict_then_learn(texts, ["ab", "cd"] * 40)
    assert np.mean(found[8:] == np.array(["ab", "cd"] * 40)[8:]) == 1.0
    X, y = stream(rng, "classification", n=60)
    own = KernelClassifier(lambda A, B: np.exp(-np.abs(A[:, :1] - B[:, 0])))
    assert Classifier(members=[own, KernelClassifier()]).partial_fit(X, y).t_ == 60


def test_what_takes_one_setting_refuses_a_mixture(rng):
    X, y = stream(rng, "classification", n=60)
    with pytest.raises(ValueError, match="mixes several settings"):
        evaluate.regret(Classifier(), X, y)


def test_parameters():
    own = {"members": None, "memory": None, "missing": "error", "columns": None, "n_jobs": None,
           "device": "cpu", "relevance": True}  # fmt: skip
    assert Classifier(share=0.1).get_params() == {**own, "share": 0.1}
    more = {"nu": 0.1, "share": 0.005, "rate": 3.0}
    assert Regressor(rate=3.0).get_params() == {**own, **more}
    assert repr(Regressor(rate=3.0)) == "Regressor(rate=3.0)"
    for kind in (Classifier, Regressor):
        assert kind().set_params(share=0.2).share == 0.2


@pytest.mark.parametrize("task", MIXTURES)
def test_a_class_per_task(task):
    """What a class offers is what its task has."""
    kind = MIXTURES[task]
    assert kind.task == task
    assert hasattr(kind(), "decision_function") == (task == "classification")
    assert not hasattr(kind(), "score_samples")
    assert hasattr(kind(), "predict_proba") == (task == "classification")
    assert hasattr(kind(), "predict_interval") == (task == "regression")


def test_a_leading_member_that_goes_wild_does_not_lead_astray(rng):
    """Far answers are moved in towards the plain median, whatever the weight and the record."""
    X, y = stream(rng, "regression", n=400)
    model = Regressor([*regressors()[:2], LinearRegressor(rule=norma(0.1))])
    model.partial_fit(X, y)
    blend = model._learner.blend
    blend.weights[:] = 0.0
    blend.weights[2] = 1.0  # the linear one alone
    far = X[:1] * 1e9
    answers = model._learner.answers(far)[0, :, 0]
    most = 64 * blend.usual[0] + 8 * max(blend.usual[0], blend.own[0])
    assert np.abs(answers).max() > 100 * most
    assert abs(model.predict(far)[0] - np.median(answers)) <= most
