"""Windows on a budget in use: rows cut anyhow, refused calls, passes, files, sums of models."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from helpers.agreement import close
from helpers.corrupted import opened, sealed
from helpers.fingerprint import fingerprint

from onkel import (
    Classifier,
    KernelClassifier,
    KernelRegressor,
    expansions,
    files,
    kernels,
    losses,
    merge,
    rules,
)
from onkel.learner import Bank, Settings, TermLearner

BUDGETS = ("smallest", "merge", "project")
CUTS = {"one call": [10_000], "handfuls": [3, 1, 7], "blocks": [64, 50], "rows": [1]}


def window(budget, terms=48):
    return expansions.Window(terms=terms, budget=budget)


def model(budget, terms=48, **more):
    return KernelRegressor(kernel=kernels.Gaussian(0.5), expansion=window(budget, terms), **more)


def rows(rng, n=200, d=3):
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]


@pytest.mark.few
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("budget", BUDGETS)
def test_cuts_do_not_matter(budget, average, rng):
    """In any cuts, by learn_one too: the same predictions, terms and bound, to rounding."""
    X, y = rows(rng)
    found = {}
    for name, lengths in CUTS.items():
        one, said, at = model(budget, average=average), [], 0
        while at < len(X):
            n = lengths[len(said) % len(lengths)]
            said.append(one.predict_then_learn(X[at : at + n], y[at : at + n]))
            at += n
        found[name] = np.concatenate(said), one.diagnostics_["truncation_bound"], one.n_terms_
    single = model(budget, average=average)
    said = []
    for row, target in zip(X, y, strict=True):
        said.append(single.predict_one(row) if single.__dict__.get("_learner") else 0.0)
        single.learn_one(row, target)
    found["learn_one"] = np.array(said), single.diagnostics_["truncation_bound"], single.n_terms_
    whole = found.pop("one call")
    for name, (scores, bound, terms) in found.items():
        first = 1 if name == "learn_one" else 0
        close(scores[first:], whole[0][first:], 1e-7, name)
        assert bound == pytest.approx(whole[1], rel=1e-7), name
        assert terms == whole[2] < 48


@pytest.mark.parametrize("budget", BUDGETS)
def test_the_window_never_stays_full(budget, rng):
    X, y = rows(rng, 150)
    one = model(budget, 32)
    for i in range(0, 150, 5):
        one.partial_fit(X[i : i + 5], y[i : i + 5])
        assert one.n_terms_ < 32
        births = one._learner.terms.births_from(0, one.n_terms_)
        assert np.all(np.diff(births) > 0)
        assert births[-1] <= one._learner.t


@pytest.mark.parametrize("budget", BUDGETS)
def test_a_refused_call_changes_nothing(budget, rng):
    """A target that no step can follow, behind rows that condensed the window many times."""
    X, y = rows(rng)
    one = model(budget, loss="squared").partial_fit(X[:100], y[:100])
    before, bad = fingerprint(one), y[100:].copy()
    bad[90] = 1e151
    with pytest.raises(ValueError, match="90"):
        one.partial_fit(X[100:], bad)
    assert fingerprint(one) == before
    again = copy.deepcopy(one).partial_fit(X[100:], y[100:])
    one.partial_fit(X[100:], y[100:])
    assert fingerprint(one) == fingerprint(again)


@pytest.mark.parametrize("left", [40, 90])
def test_a_kernel_that_fails_while_terms_leave(left, rng):
    """A user's kernel is asked in the midst of condensing; what it breaks is put back."""
    calls = [np.inf]

    def own(X, Z):
        calls[0] -= 1
        if calls[0] < 0:
            raise OSError("no kernel")
        return np.exp(-((X[:, None] - Z[None]) ** 2).sum(-1))

    X, y = rows(rng, 60)
    one = KernelRegressor(kernel=kernels.Function(own), expansion=window("project", 20))
    one.partial_fit(X[:30], y[:30])
    before = one.predict(X)
    calls[0] = left
    with pytest.raises(OSError, match="no kernel"):
        one.partial_fit(X[30:], y[30:])
    calls[0] = np.inf
    assert np.array_equal(one.predict(X), before)


@pytest.mark.parametrize("budget", BUDGETS)
def test_later_passes(budget, rng):
    """A row whose term is still there adds to it; merged terms are no row's own any more."""
    X, y = rows(rng, 60)
    settings = Settings(
        kernels.Gaussian(0.5), losses.Squared(), rules.Norma(learning_rate=0.2),
        window(budget, 64), scale=False,
    )  # fmt: skip
    learner, own = TermLearner(settings, 3, 1, np.float64), np.zeros(60, np.int64)
    learner.learn(X, y[:, None], np.ones(60), own)
    first = learner.size
    learner.learn(X[:2], y[:2, None], np.ones(2), own[:2])
    assert learner.size == (first + 2 if budget == "merge" else first)
    errors = []
    for _ in range(4):
        errors.append(np.abs(learner.learn(X, y[:, None], np.ones(60), own)[0][:, 0] - y).mean())
    assert errors[-1] < 0.7 * errors[0]
    assert learner.size < 64


@pytest.mark.parametrize("budget", BUDGETS)
def test_files_and_copies_go_on_with_the_same_bits(budget, rng, tmp_path):
    X, y = rows(rng)
    one = model(budget).partial_fit(X[:110], y[:110])
    files.save(one, tmp_path / "model")
    others = [files.load(tmp_path / "model"), pickle.loads(pickle.dumps(one)), copy.deepcopy(one)]
    one.partial_fit(X[110:], y[110:])
    for other in others:
        assert fingerprint(other.partial_fit(X[110:], y[110:])) == fingerprint(one)


def test_a_file_with_a_full_window_is_refused(rng, tmp_path):
    """A run would have brought it down: the file of another budget, with this one's name."""
    X, y = rows(rng, 60)
    files.save(model("oldest").partial_fit(X, y), tmp_path / "model")
    header, inside, rest = opened((tmp_path / "model").read_bytes())
    text = json.dumps(inside)
    assert "oldest" in text
    header["__metadata__"]["model"] = text.replace("oldest", "merge")
    forged = sealed(json.dumps(header, separators=(",", ":")).encode(), rest)
    (tmp_path / "model").write_bytes(forged)
    with pytest.raises(ValueError, match=r"count.*must be below 48"):
        files.load(tmp_path / "model")


@pytest.mark.parametrize("budget", BUDGETS)
def test_merged_models(budget, rng):
    """Together they hold more than the window; what is left of f is told by the bound."""
    X, y = rows(rng, 90)
    parts = [model(budget, scale=False).partial_fit(X[i::2], y[i::2]) for i in range(2)]
    whole = merge(parts)
    assert whole.n_terms_ == 45
    assert whole.merge_report_.terms_dropped == 45
    asked = sum(p.predict(X) for p in parts) / 2
    assert np.abs(whole.predict(X) - asked).max() <= np.max(whole.merge_report_.bound) + 1e-6
    whole.partial_fit(*rows(rng, 60))
    assert whole.n_terms_ < 48


def test_merged_models_that_went_on_from_one_start(rng, tmp_path):
    """Merged terms keep a birth that others may have too: they are told apart by their points."""
    X, y = rows(rng, 160)
    begun = model("merge", scale=False).partial_fit(X[:60], y[:60])
    parts = [copy.deepcopy(begun).partial_fit(X[a : a + 50], y[a : a + 50]) for a in (60, 110)]
    whole = merge(parts, start=begun, refit=False)
    births = whole._learner.terms.births_from(0, whole.n_terms_)
    assert np.all(np.diff(births) > 0)
    assert births[-1] <= whole._learner.t
    files.save(whole, tmp_path / "whole")
    assert fingerprint(files.load(tmp_path / "whole")._learner) == fingerprint(whole._learner)


def test_members_of_a_mixture_stand_alone(rng):
    X = rng.normal(size=(150, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
    settings = Settings(
        kernels.Gaussian(0.5), losses.Logistic(), rules.Norma(), window("merge", 32),
    )  # fmt: skip
    assert Bank.key(settings, 2) is None
    assert Bank.key(replace(settings, expansion=expansions.Window(terms=32)), 2) is not None
    bank = [KernelClassifier(expansion=window(b, 32)) for b in ("oldest", "merge", "project")]
    blocks, single = Classifier(bank), Classifier(bank)
    blocks.partial_fit(X, y)
    for i in range(150):
        single.partial_fit(X[i : i + 1], y[i : i + 1], np.array([-1, 1]))
    close(single.decision_function(X), blocks.decision_function(X), 1e-5, "single rows")


def test_texts(rng):
    """Of texts the smallest can go, and no other way."""
    words = ["".join(rng.choice(list("abcd"), 6)) for _ in range(80)]
    y = np.array(["a" in w[:2] for w in words])
    one = KernelClassifier(kernel=kernels.Spectrum(2), expansion=window("smallest", 20))
    one.partial_fit(words, y)
    assert one.n_terms_ < 20
    assert one.diagnostics_["truncation_bound"] > 0
    with pytest.raises(ValueError, match="budget 'project' projects terms on rows of numbers"):
        one.set_params(expansion=window("project", 20)).fit(words, y)


REFUSED = {
    "age": (lambda: expansions.Window(terms=10, age=5, budget="merge"), "of any age; got age=5"),
    "growth": (lambda: expansions.Window(growth=0.1, budget="smallest"), "got growth=0.1"),
    "tolerance": (lambda: expansions.Window(tolerance=1.0, budget="project"), "got tolerance=1.0"),
    "none": (lambda: expansions.Window(terms=None, budget="merge"), "got terms=None"),
    "one": (lambda: expansions.Window(terms=1, budget="merge"), "two or more.*got terms=1"),
    "word": (lambda: expansions.Window(budget="newest"),
             "budget must be 'oldest' or 'smallest' or 'merge' or 'project'; got 'newest'"),
    "number": (lambda: expansions.Window(budget=1), "budget must be 'oldest'"),
    "laplacian": (lambda: model("merge").set_params(kernel="laplacian").fit([[0.0]], [1.0]),
                  "merges terms of the Gaussian kernel alone; got Laplacian.*'project'"),
    "tree": (lambda: KernelRegressor(
        kernel=kernels.Additive(kernels.Exponential()),
        expansion=expansions.Tree(terms=9, budget="smallest")).fit([[0.0]], [1.0]),
        "Tree: terms go from the oldest on; got budget='smallest'"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what):
    make, words = REFUSED[what]
    with pytest.raises(ValueError, match=words):
        make()


def test_ten_thousand_terms_by_default():
    assert expansions.Window(budget="merge").terms == "auto"
    rule, loss = rules.Norma().bind(losses.Squared()), losses.Squared()
    assert expansions.Window(budget="merge").bind(rule, loss, kernels.Gaussian(1.0)).cap == 10_000


def test_a_device_refuses_it_by_name():
    devices = pytest.importorskip("onkel.gpu.devices", reason="no PyTorch here")
    settings = Settings(
        kernels.Gaussian(0.5), losses.Squared(), rules.Norma(), window("merge"), device="cuda"
    )
    assert "budget='merge'" in devices.unfit(settings)
    assert devices.unfit(replace(settings, expansion=window("oldest"))) is None
