"""Mixtures through a file: members, their ring, the weights; the same bits whatever comes later."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from helpers.fingerprint import MADE_ANEW, fingerprint
from helpers.sizes import size

import onkel
from onkel import (
    Classifier,
    KernelClassifier,
    KernelRegressor,
    LinearClassifier,
    LinearRegressor,
    Regressor,
    expansions,
    files,
    kernels,
    losses,
    rules,
)
from onkel.learner import Bank

SMALL = expansions.Window(terms=50)


def classifiers(**more):
    return [
        KernelClassifier(kernels.Gaussian(0.3), expansion=SMALL, **more),
        LinearClassifier(loss="logistic", **more),
        KernelClassifier(kernels.Laplacian(0.7), rule="projection", expansion=SMALL, **more),
        KernelClassifier(rule="alma", average=True, **more),
        KernelClassifier(expansion=expansions.Centers(5, sample=90), **more),
    ]


def regressors(**more):
    return [
        KernelRegressor(kernels.Laplacian(0.5), losses.Huber(nu=0.2), expansion=SMALL, **more),
        KernelRegressor(kernels.Laplacian(0.5), fit_intercept=True, expansion=SMALL, **more),
        LinearRegressor(average=True, **more),
        KernelRegressor(rule=rules.Norma(track_norm=True), **more),
    ]


BANKS = {"classification": classifiers, "regression": regressors}
MIXTURES = {"classification": Classifier, "regression": Regressor}
CALLS = (1, 1, 3, 1, 20, 64, 1, 1, size(70, 150), 70, 1, 8)


def stream(rng, task, dtype="float64"):
    n = sum(CALLS)
    X = (rng.normal(size=(n, 3)) * [1.0, 4.0, 0.2] + 2).astype(dtype)
    z = np.sin(2 * X[:, 0]) + X[:, 1] / 4 + 0.1 * rng.normal(size=n)
    labels = np.array(["low", "high", "late"])[np.digitize(z, [0.5, 2.0])]
    labels[:10] = np.where(z[:10] > 0.5, "high", "low")
    return X, {"classification": labels, "regression": z}[task]


def call(model, X, y, first, rows):
    """Let a model see the next rows: one as a single row, several as a block."""
    part = slice(first, first + rows)
    if rows == 1:
        shown = model.predict_one(X[first])
        model.learn_one(X[first], y[first])
        return shown
    return model.predict_then_learn(X[part], y[part])


def all_of(model):
    """Every bit of a mixture."""
    left_out = {*model.get_params(), *MADE_ANEW}
    rest = {k: v for k, v in sorted(vars(model).items()) if k not in left_out}
    return fingerprint([model.get_params(), rest])


def report(model):
    """Diagnostics; what the ring keeps beside its points, for speed, is in no file."""
    return {k: v for k, v in model.diagnostics_.items() if k != "bytes"}


def again(model, **own):
    """The mixture from its file, and the same in all its bits."""
    data = files.dumps(model)
    loaded = files.loads(data, **own)
    assert type(loaded) is type(model)
    assert files.dumps(loaded) == data
    if hasattr(model, "_learner"):
        assert all_of(loaded) == all_of(model)
        assert report(loaded) == report(model)
    return loaded


@pytest.mark.few
@pytest.mark.parametrize("task", BANKS)
@pytest.mark.parametrize(
    ("dtype", "bank"),
    size(
        [("float32", "default"), ("float64", "own")],
        [(d, b) for d in ("float32", "float64") for b in ("default", "own")],
    ),
)
def test_a_run_cut_between_any_two_calls(task, dtype, bank, rng):
    """Saved and loaded before every call: if bits agree after each, any single cut does too."""
    X, y = stream(rng, task, dtype)
    made = {"members": BANKS[task]() if bank == "own" else None, "share": 0.01}
    whole, cut = MIXTURES[task](**made), MIXTURES[task](**made)
    first = 0
    for rows in CALLS:
        cut = again(cut)
        expected, found = (call(m, X, y, first, rows) for m in (whole, cut))
        assert fingerprint(expected) == fingerprint(found), (first, rows)
        assert all_of(whole) == all_of(cut), (first, rows)
        first += rows
    assert fingerprint(whole.predict(X)) == fingerprint(cut.predict(X))
    assert any(isinstance(part, Bank) for part, _ in cut._learner.parts)
    assert repr(cut.members_) == repr(whole.members_)


@pytest.mark.few
@pytest.mark.parametrize("task", BANKS)
@pytest.mark.parametrize("bank", ["default", "own"])
def test_one_cut_and_many_calls_behind_it(task, bank, rng, tmp_path):
    """What the ring keeps beside its points is older here than the file."""
    X, y = stream(rng, task)
    whole = MIXTURES[task](members=BANKS[task]() if bank == "own" else None)
    path, first = tmp_path / "m", 0
    for i, rows in enumerate(CALLS):
        if i == 6:
            assert whole.save(path) is None
            cut = onkel.load(path)
        expected = call(whole, X, y, first, rows)
        if i >= 6:
            assert fingerprint(expected) == fingerprint(call(cut, X, y, first, rows))
        first += rows
    assert all_of(whole) == all_of(cut)


@pytest.mark.parametrize("task", BANKS)
def test_a_mixture_that_has_learned_nothing(task, rng):
    X, y = stream(rng, task)
    for members in (None, BANKS[task](scale=False), tuple(BANKS[task]())):
        model = again(MIXTURES[task](members=members, share=0.01, n_jobs=1))
        assert "_learner" not in vars(model) and not model.__sklearn_is_fitted__()
        assert type(model.members) is type(members) and repr(model.members) == repr(members)
        expected = MIXTURES[task](members=members, share=0.01, n_jobs=1).fit(X, y)
        assert all_of(again(model.fit(X, y))) == all_of(expected)


@pytest.mark.parametrize("task", BANKS)
def test_the_first_rows_may_all_have_weight_0(task, rng):
    X, y = stream(rng, task)
    y = y[:5]
    loaded = again(MIXTURES[task]().partial_fit(X[:5], y, sample_weight=np.zeros(5)))
    assert loaded.t_ == 0
    whole = MIXTURES[task]().partial_fit(X[:5], y, sample_weight=np.zeros(5)).partial_fit(X[:5], y)
    assert all_of(loaded.partial_fit(X[:5], y)) == all_of(whole)


@pytest.mark.parametrize("task", BANKS)
def test_gaps_and_names_of_features(task, rng):
    pandas = pytest.importorskip("pandas")
    X, y = stream(rng, task)
    X[rng.uniform(size=X.shape) < 0.1] = np.nan
    frame = pandas.DataFrame(X, columns=["a", "b", "c"])
    model = MIXTURES[task](members=BANKS[task](missing="mean"))
    model.partial_fit(frame[:100], y[:100])
    loaded = again(model)
    assert loaded.feature_names_in_.tolist() == ["a", "b", "c"]
    for m in (model, loaded):
        m.partial_fit(frame[100:], y[100:])
    assert all_of(loaded) == all_of(model)


def test_several_targets_and_rings_that_turn(rng):
    """More points than the ring holds: it lets some go, and its oldest stands anywhere."""
    X, y = stream(rng, "regression")
    Y = np.column_stack([y, -y, X[:, 0]])
    whole, cut = Regressor(regressors()), Regressor(regressors())
    for first in range(0, len(X), 40):
        cut = again(cut)
        for m in (whole, cut):
            m.partial_fit(X[first : first + 40], Y[first : first + 40])
        assert all_of(cut) == all_of(whole)
    bank = cut._learner.main
    assert isinstance(bank, Bank) and 0 < bank.terms.count < 50
    assert cut.predict(X).shape == Y.shape


def test_texts(rng):
    texts = ["the cat sat", "a dog ran", "☃ snow", "dog and cat", "", "\ud800"] * 6
    y = ["cat" if "cat" in t else "none" for t in texts]
    members = [KernelClassifier(kernels.Spectrum(n)) for n in (1, 2, 3)]
    model = Classifier(members=members).partial_fit(texts[:20], y[:20])
    loaded = again(model)
    for m in (model, loaded):
        m.partial_fit(texts[20:], y[20:])
    assert all_of(loaded) == all_of(model)


def cauchy(X, Z):
    return 1.0 / (1.0 + ((X[:, None] - Z[None]) ** 2).sum(-1))


def cosine(X, Z):
    return np.cos(X[:, None, 0] - Z[None, :, 0])


def test_code_of_ones_own_inside_members(rng):
    X, y = stream(rng, "regression")
    members = [
        KernelRegressor(f, **more) for f in (cauchy, cosine) for more in ({}, {"average": 1})
    ]
    members[1].average = members[3].average = True
    own = {"kernel": {"cauchy": cauchy, "cosine": cosine}}
    for model in (Regressor(members), Regressor(members).fit(X, y)):
        with pytest.raises(ValueError, match=r"kernel=\{'cauchy': ...\}, kernel=\{'cosine': ...\}"):
            files.loads(files.dumps(model))
        assert again(model, **own).members[2].kernel is cosine


def test_the_theorys_step_is_kept_as_a_number(rng):
    X, y = stream(rng, "classification")
    rule = rules.Norma(learning_rate="theory", regularization=0.01)
    own = KernelClassifier(expansion=expansions.Centers(X[:9]), rule=rule, scale=False)
    model = Classifier(members=[own, LinearClassifier(scale=False)]).partial_fit(X[:99], y[:99])
    data = files.dumps(model)
    loaded = files.loads(data)
    assert files.dumps(loaded) == data
    assert loaded.members[0].rule.learning_rate == "theory"
    for m in (model, loaded):
        m.partial_fit(X[99:], y[99:])
    assert fingerprint(loaded.decision_function(X)) == fingerprint(model.decision_function(X))


def test_members_are_settings_and_not_what_they_learned(rng):
    """A member that learned by itself lends its settings only, to a mixture and to a file."""
    X, y = stream(rng, "regression")
    learned = KernelRegressor(kernels.Gaussian(0.2)).fit(X, y)
    loaded = files.loads(files.dumps(Regressor([learned, LinearRegressor()])))
    assert repr(loaded.members) == repr([learned, LinearRegressor()])
    assert not loaded.members[0].__sklearn_is_fitted__()


def test_parameters_set_after_fit_wait_for_the_next_one(rng):
    """The mixture keeps what it was made of, its members too; the file keeps both."""
    X, y = stream(rng, "regression")
    members = regressors()
    model = Regressor(members).partial_fit(X[:90], y[:90])
    members[0].kernel = "linear"
    model.set_params(members=regressors()[:2], share=0.2, rate=3.0, n_jobs=2)
    loaded = files.loads(files.dumps(model))
    assert len(loaded.members) == 2 and len(loaded.weights_) == 4
    assert loaded.members_[0].kernel == "linear"
    for m in (model, loaded):
        m.partial_fit(X[90:], y[90:])
    assert files.dumps(loaded) == files.dumps(model)
    assert report(loaded) == report(model)
    assert all_of(loaded.fit(X, y)) == all_of(model.fit(X, y))


def test_saving_changes_nothing_and_waits_for_the_lock(rng):
    X, y = stream(rng, "classification")
    model = Classifier(members=classifiers()).partial_fit(X[:99], y[:99])
    before = all_of(model)
    files.dumps(model)
    assert all_of(model) == before
    done = threading.Event()
    thread = threading.Thread(target=lambda: (files.dumps(model), done.set()))
    with model._lock:
        thread.start()
        assert not done.wait(0.2)
    thread.join()
    assert done.is_set()


@pytest.mark.parametrize("task", BANKS)
def test_saving_while_another_thread_learns(task, rng):
    """Each file is the model before or after a call of the other, whole, never in the middle."""
    X, y = stream(rng, task)
    model = MIXTURES[task](members=BANKS[task]()).partial_fit(X, y)
    stop = threading.Event()

    def learn():
        while not stop.is_set():
            model.partial_fit(X, y)
            model.fit(X, y)  # another mixture

    thread = threading.Thread(target=learn)
    thread.start()
    try:
        found = [files.loads(files.dumps(model)).t_ for _ in range(size(5, 25))]
    finally:
        stop.set()
        thread.join()
    assert {t % len(X) for t in found} == {0}


def test_what_no_file_can_hold(tmp_path):
    class Mine(Classifier):
        pass

    class OwnMember(KernelClassifier):
        pass

    for model, words in (
        (Mine(), "got a Mine"),
        (Classifier(members=[OwnMember()]), "cannot hold members=OwnMember"),
        (Classifier(members=[Classifier()]), "must be an estimator of onkel with one setting"),
        (Classifier(members=[KernelClassifier(kernel={1, 2})]), "kernel must be one of"),
    ):
        with pytest.raises(ValueError, match=words):
            model.save(tmp_path / "m")
    assert not [*tmp_path.iterdir()]
