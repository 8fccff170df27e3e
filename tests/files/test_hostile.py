"""Files that were damaged or forged: refused with a ValueError, whatever byte was touched."""

from __future__ import annotations

import random
import zlib

import numpy as np
import pytest
from helpers import corrupted
from helpers.sizes import size

from onkel import expansions, files
from onkel.core.density_table import Count, Level
from onkel.core.widths import KEPT
from onkel.files import container

SAMPLES = corrupted.samples()


@pytest.fixture
def dice(request):
    return random.Random(zlib.crc32(request.node.nodeid.encode()))


@pytest.mark.parametrize("name", SAMPLES)
def test_damaged_files_are_refused(name, dice):
    """`python experiments/fuzz_files.py` does the same ten thousand times."""
    data, _ = SAMPLES[name]
    for _ in range(size(25, 100)):
        with pytest.raises(ValueError, match="damaged"):
            files.loads(corrupted.damaged(data, dice))


@pytest.mark.parametrize("name", SAMPLES)
def test_forged_files_are_refused_or_harmless(name, dice):
    data, rows = SAMPLES[name]
    refused = [
        corrupted.check_forged(corrupted.forged(data, dice), rows) for _ in range(size(10, 200))
    ]
    assert np.mean(refused) > 0.5
    assert not corrupted.check_forged(data, rows)


def set_at(path, at, value):
    """A forgery: one element of one tensor."""

    def change(model, tensors):
        tensors[path] = tensors[path].copy()
        tensors[path][at] = value

    return change


def put(**values):
    """A forgery: some values of the state ("__" stands for a point)."""
    return lambda model, tensors: model["state"].update(
        {k.replace("__", "."): v for k, v in values.items()}
    )


def reshaped(path, of):
    return lambda model, tensors: tensors.update({path: of(tensors[path])})


def setting(name, value):
    return lambda model, tensors: model["settings"].update({name: value})


def widths(name, value):
    """A forgery: one number of a mixture's intervals."""
    at = (0, KEPT.index(name))
    path = "learner.widths.state"

    def put_in(model, tensors):
        tensors[path] = tensors[path].copy()
        tensors[path][at] = value

    return put_in


def one_setting(name, at, change):
    """A forgery: something of one member of a mixture."""

    def put_in(model, tensors):
        model["settings"][name][at] = change(model["settings"][name][at])

    return put_in


def another(kind):
    """A forgery: the model of one class under the name of another."""
    return lambda model, tensors: model.update(estimator=kind)


def dropped(name):
    return lambda model, tensors: model["settings"][name].pop()


def without_part(number):
    """A forgery: one part of a mixture is missing."""

    def take_out(model, tensors):
        for held in (model["state"], tensors):
            for name in [n for n in held if n.startswith(f"learner.parts.{number}.")]:
                del held[name]

    return take_out


def full_ring(model, tensors):
    """A forgery: a ring that has no room for another row, which no ring is left with."""
    for i in (0, 2):
        model["settings"]["expansion"][i]["parameters"]["terms"] = 29


def part(kind, **parameters):
    return lambda _: {"part": kind, "parameters": parameters}


RING = "learner.parts.2."
"""Of the sample "odds": its parts are the weights, the centres, and the ring of two members."""
FORGED_MIXTURES = [
    ("odds", another("Regressor"), "members\\[0\\] is for classification"),
    ("odds", setting("task", "classification"), "settings.task is not known here"),
    ("means", setting("rate", 0.0), "settings.rate must be above 0"),
    ("means", setting("rate", 1), "settings.rate must be a finite number"),
    ("means", setting("rate", {"float": "nan"}), "settings.rate must be a finite number"),
    ("means", setting("nu", 0.0), "settings.nu must lie between 0 and 1"),
    ("means", put(learner__widths__rows=10**6), "widths must have seen"),
    ("means", widths("log_q", 99.0), "widths.state is not that of intervals"),
    ("means", widths("usual", -1.0), "widths.state is not that of intervals"),
    ("means", widths("missed", 1e9), "widths.state is not that of intervals"),
    ("odds", setting("share", 1.0), "settings.share must be below 1"),
    ("odds", setting("share", -0.1), "settings.share must be a finite number of at least 0"),
    ("odds", setting("extra", 1), "settings.extra is not known here"),
    ("odds", setting("loss", None), "settings.loss must be a list"),
    ("odds", setting("members", []), "settings.members must be as many as there are settings, 4"),
    ("odds", dropped("members"), "settings.members must be as many as there are settings"),
    ("odds", dropped("loss"), "settings.loss must have one value for each member"),
    ("odds", one_setting("members", 0, lambda _: 3), "members must be estimators for class"),
    ("odds", one_setting("members", 0, lambda _: {"estimator": "Classifier", "parameters": {}}),
     "a member must be one of"),
    ("odds", one_setting("members", 0, lambda _: {"estimator": [], "parameters": {}}),
     "a member must be one of"),
    ("odds", one_setting("members", 0, lambda _: {"estimator": "LinearRegressor",
     "parameters": {}}), "members must be estimators for class"),
    ("odds", one_setting("members", 0, lambda _: {"estimator": "KernelClassifier",
     "parameters": {"p": 1}}), "unexpected keyword"),
    ("odds", one_setting("kernel", 0, lambda _: "gaussian"), "settings.kernel is not what"),
    ("odds", one_setting("kernel", 0, part("kernel/spectrum")), "all take numbers, or all take"),
    ("odds", one_setting("kernel", 0, part("kernel/laplacian")), "held must be"),
    ("odds", one_setting("missing", 0, lambda _: "mean"), "the same missing="),
    ("odds", one_setting("loss", 0, part("loss/squared")), "not those of members for class"),
    ("odds", one_setting("rule", 0, part("rule/norma", memory="3h")), "do not fit the rule"),
    ("clocks", put(learner__parts__0__clock=2e9), "parts must have learned at the same time"),
    ("clocks", put(learner__parts__0__clock=None), "do not fit the rule"),
    ("odds", one_setting("rule", 2, part("rule/alma")), "held must be"),
    ("odds", one_setting("expansion", 2, part("expansion/window", terms=9)), "held must be"),
    ("odds", one_setting("expansion", 3, part("expansion/centers", centers=5, sample=10**7)),
     "draws must hold one number for each of sample"),
    ("means", one_setting("intercept", 1, lambda _: 3), "settings.intercept is not what"),
    ("odds", put(learner__parts__2__held=[2, 0]), r"held must be \[0, 2\]"),
    ("odds", put(learner__parts__2__held=[0]), "parts.2.held must be"),
    ("odds", put(learner__parts__2__t=91), "the other parts must have learned the same rows"),
    ("odds", put(learner__parts__0__dtype="float32"), "must have learned the same rows"),
    ("odds", put(learner__parts__3__t=1), "parts.3 is not known here"),
    ("odds", without_part(0), "parts.0.known must be an array"),
    ("odds", without_part(1), "parts.1.held is missing"),
    ("odds", without_part(2), "parts.2.held is missing"),
    ("odds", put(learner__parts__2__terms__count=30), "births must increase"),
    ("odds", full_ring, "parts.2.terms.count must be below 29"),
    ("odds", reshaped(RING + "state", lambda a: a[:5]), "as many outputs for each of 2 members"),
    ("odds", reshaped(RING + "state", lambda a: a[:4]), "coef must have shape"),
    ("odds", reshaped("learner.parts.0.known", lambda a: a[:2]), "must have shape"),
    ("odds", reshaped("learner.blend.weights", lambda a: a[:2]), "weights must have shape .6."),
    ("odds", set_at("learner.blend.weights", 0, 0.9), "weights must have a sum of 1"),
    ("odds", set_at("learner.blend.weights", 0, -0.1), "weights must be at least 0"),
    ("odds", set_at("learner.blend.weights", 0, np.nan), "weights must be finite"),
    ("odds", set_at("learner.blend.losses", 0, -1.0), "losses must be at least 0"),
    ("odds", set_at("learner.blend.count", 0, -1), "count must be at least 0"),
    ("odds", set_at("learner.blend.link", (0, 0), 51.0), "no link has"),
    ("odds", set_at("learner.blend.link", (0, 2), 0.0), "a lapse that is too small"),
    ("odds", set_at("learner.blend.bow", (0, 0), -1.0), "bow must be positive definite"),
    ("odds", set_at("learner.blend.bend", (0, 0), 0.0), "bend must be at least"),
    ("means", reshaped("learner.blend.weights", lambda a: a[:1]), "weights must have shape"),
    ("means", set_at("learner.blend.weights", 0, 0.99), "weights must have a sum of 1"),
    ("means", set_at("learner.blend.losses", 0, -1.0), "losses must be at least 0"),
    ("means", set_at("learner.blend.totals", 0, -1.0), "totals must not be negative"),
    ("means", set_at("learner.blend.bow", (0, 0, 0), -9.0), "bow must be positive definite"),
    ("odds", put(learner__judged=91), "judged must be a whole number from 0 to 90"),
    ("odds", put(learner__mistakes=-1), "mistakes"),
    ("odds", put(learner__usual=1.0), "learner.usual is not known here"),
    ("odds", put(classes__labels=["a", "b"], classes__seen=[True, True]), "do not fit 3 outputs"),
    ("odds", put(feature_names=["a", "b"]), "feature_names must be one per feature"),
    ("means", reshaped("learner.blend.usual", lambda a: a[:1]), "usual must have shape .2."),
    ("means", set_at("learner.blend.usual", 0, -1.0), "usual must be at least 0"),
    ("means", set_at("learner.blend.own", 0, np.nan), "own must be finite"),
    ("means", set_at("learner.blend.squares", (0, 0), -1.0), "squares must be at least 0"),
    ("means", put(flat=True), "flat does not fit 2 targets"),
]  # fmt: skip

FORGED_DETECTORS = [
    ("densities", set_at("learner.whole", Count.DRAWS, 2**53), "whole does not fit the arrays"),
    ("densities", set_at("learner.whole", Count.CALM, 91), "whole does not fit the arrays"),
    ("densities", set_at("learner.whole", Count.T, 91), "whole does not fit the arrays"),
    ("densities", reshaped("learner.waiting", lambda a: np.tile(a, (2, 1))), "fit the arrays"),
    ("densities", set_at("learner.real", Level.LOG_ALPHA, -1e300), "level outside of its limits"),
    ("densities", set_at("learner.real", Level.SLOPE, 1e-9), "a slope that is none"),
    ("densities", set_at("learner.real", Level.WIDTH, 1e38), "beyond those of any rows"),
    ("densities", set_at("learner.real", Level.SEEN, 1e301), "real must not be beyond"),
    ("densities", set_at("learner.mean", (0, 0), 1e76), "mean must not be beyond"),
    ("densities", set_at("learner.cov", (0, 0, 0), -1.0), "variances of at least 0"),
    ("densities", set_at("learner.cov", (0, 0, 1), 1e160), "cov must not be beyond"),
    ("densities", set_at("learner.smooth", 0, 1e80), "smooth must not be beyond"),
    ("densities", set_at("learner.calm", (3, 0), 1e305), "beyond those of any rows"),
    ("densities", set_at("learner.history", 0, 1e7), "history must not be beyond"),
    ("densities", set_at("learner.due", 0, 2**40), "due must increase, from 91"),
    ("densities", set_at("learner.held", (0, 6), 0.0), "weights above 0"),
    ("densities", set_at("learner.held", (0, 0), 1e80), "rows of numbers that are accepted"),
]  # fmt: skip

TERMS = "learner.terms."
FOLLOWING, WIDTHS = "learner.following.", "learner.intervals."
FORGED_SQUARES = [
    ("squares", set_at("learner.cov", 0, -1.0), "cov must be positive definite"),
    ("squares", set_at("learner.cov", 1, 1e5), "cov must be positive definite"),
    ("squares", set_at("learner.cov", 0, 1e7), "cov must be positive definite"),
    ("squares", set_at("learner.cov", 0, np.nan), "cov must be finite"),
    ("squares", reshaped("learner.cov", lambda a: a[:-1]), "cov must have shape"),
    ("squares", reshaped(FOLLOWING + "rows", lambda a: a[:-1]), "rows must have shape"),
    ("squares", reshaped(FOLLOWING + "targets", lambda a: a[1:]), "targets must have shape"),
    ("squares", reshaped(FOLLOWING + "more", lambda a: -a - 1), "more must be at least 0"),
    ("squares", reshaped(FOLLOWING + "born", lambda a: a[1:]), "born must tell a trial"),
    ("squares", reshaped(FOLLOWING + "born", lambda a: a + 91), "born must tell a trial"),
    ("grown", reshaped(FOLLOWING + "rows", lambda a: np.tile(a, (9, 1))), "rows must be fewer"),
    ("grown", reshaped(FOLLOWING + "targets", lambda a: np.zeros((999, 1))), "rows must be fewer"),
    ("squares", reshaped("learner.map.points", lambda a: np.tile(a, (2, 1))), "at most 6"),
    ("squares", set_at(WIDTHS + "state", (0, 0), 1e9), "is not that of intervals"),
    ("squares", reshaped("learner.theta", lambda a: a[:, 1:]), "theta must have shape"),
]
FORGED = [
    ("classifier", put(learner__terms__head=64), r"terms.head must be a whole number from 0 to 63"),
    ("classifier", put(learner__terms__head=-1), "terms.head"),
    ("classifier", put(learner__terms__count=21), "terms.count must .* to 20"),
    ("regressor", put(learner__terms__count=10**6), "terms.count"),
    ("classifier", put(learner__terms__count=7), "must be 0 where there is no term"),
    ("classifier", put(learner__terms__head=5), "must"),
    ("classifier", put(learner__t=3, learner__mistakes=0), "births must increase, from 1 to 3 at"),
    ("classifier", put(learner__mistakes=91), "mistakes must be a whole number from 0 to 90"),
    ("classifier", set_at("link.count", 0, 2**62), "link.count must be 90 at most"),
    ("classifier", put(counts=[1, 2, 91]), "counts must be at least 1"),
    ("classifier", set_at("learner.state", (0, 10), 1e301), "state must be finite"),
    ("classifier", set_at("learner.moments.mean", 0, 1e200), "those of numbers that are accepted"),
    ("classifier", set_at("learner.moments.variance", 0, 1e306), "numbers that are accepted"),
    ("odds", set_at("learner.blend.count", 0, 2**62), "blend.count must be 90 at most"),
    ("means", set_at("learner.blend.joint", (0, 0, 0), 1e13), "beyond what any rows make of it"),
    ("means", widths("base", 1e13), "widths.state is not that of intervals"),
    ("means", setting("rate", 1e-200), "settings.rate must be above 0, and no extreme"),
    ("classifier", put(learner__t=2**53 + 1), "learner.t must be a whole number"),
    ("classifier", put(learner__t=True), "learner.t must be a whole number"),
    ("classifier", put(learner__t=90.0), "learner.t must be a whole number"),
    ("classifier", put(learner__dtype="float16"), "dtype must be one of"),
    ("classifier", put(learner__dtype="float32"), "must be an array of float32; got float64"),
    ("classifier", put(learner__mistakes=-1), "mistakes"),
    ("classifier", put(learner__merged=1), "merged must be true or false"),
    ("classifier", put(learner__extra=1), "learner.extra is not known here"),
    ("classifier", put(extra=1), "extra is not known here"),
    ("classifier", set_at("learner.moments.seen", 0, -2), "seen must be at least 0"),
    ("classifier", set_at("learner.means", 0, np.nan), "means must be finite"),
    ("classifier", put(learner__clock=5.0), "clock and the time of the last refresh do not fit"),
    ("classifier", put(learner__clock=5), "clock must be a number, or nothing"),
    ("timed", put(learner__clock=None), "clock and the time of the last refresh do not fit"),
    ("timed", put(learner__refreshed=1e9), "clock and the time of the last refresh do not fit"),
    ("timed", put(learner__clock={"float": "nan"}), "clock must be a number, or nothing"),
    ("detector", put(recent__at=50), "recent.at must be a whole number from 0 to 49"),
    ("detector", put(recent__size=60), "recent.at does not fit 50 of 60 scores"),
    ("detector", put(recent__size=45, recent__at=0), "recent.at does not fit 50 of 45 scores"),
    ("detector", put(recent__size=0), "recent.size must be a whole number from 1"),
    ("detector", reshaped("recent.values", lambda a: a[:0]), "recent"),
    ("detector", reshaped("warm", lambda a: a[:2]), "warm must have shape"),
    ("classifier", setting("missing", "mode"), "settings.missing is not what"),
    ("classifier", put(learner__terms__panels=2), "panels stands twice"),
    ("classifier", put(learner__frame=3), "makes no sense"),
    ("classifier", put(classes__labels=["a", "b"]), "labels must be distinct, one for each"),
    ("classifier", put(classes__labels=["a", "b", "a"]), "labels must be distinct"),
    ("classifier", put(classes__labels=["a", "b", None]), "labels must not hold NaN or nothing"),
    ("classifier", put(classes__labels=["a", "b", ["c"]]), "makes no sense"),
    ("classifier", put(classes__labels={"tuple": ["a", "b", "c"]}), "labels must be a list"),
    ("classifier", put(classes__seen=[True, False, True]), "seen must be two flags"),
    ("classifier", put(classes__binary=True), "seen must be two flags"),
    ("classifier", put(classes__named=-1), "named"),
    ("classifier", put(classes__labels=["a", "b"], classes__seen=[True, True]),
     "classes do not fit 3 outputs"),
    ("classifier", put(counts=[1, 2]), "counts must be at least 1"),
    ("classifier", put(counts=[1, 2, 0]), "counts must be at least 1"),
    ("classifier", put(counts=[1, 2, 3.0]), "counts must hold values of type int"),
    ("classifier", put(feature_names=["a", "b"]), "feature_names must be one per feature"),
    ("classifier", put(feature_names=["a", "b", 3]), "feature_names must hold values of type str"),
    ("texts", put(feature_names=[]), "feature_names must be one per feature"),
    ("regressor", put(flat=1), "flat must be true or false"),
    ("norm", put(flat=True), "flat does not fit 3 targets"),
    ("regressor", set_at(TERMS + "births", 0, 89), "births must increase"),
    ("classifier", set_at(TERMS + "births", 0, -1), "births must be at least 0"),
    ("classifier", set_at(TERMS + "births", 30, 1), "births must be 0 where"),
    ("classifier", set_at(TERMS + "norms", (0, 30), 1), "norms must be 0 where"),
    ("classifier", set_at(TERMS + "norms", (0, 0), np.nan), "norms must be at least 0"),
    ("classifier", set_at(TERMS + "coef", (0, 0, 30), -0.0), "coef must be 0 where"),
    ("classifier", set_at(TERMS + "coef", (0, 0, 0), np.inf), "coef must be finite"),
    ("classifier", set_at(TERMS + "panels", (0, 0, 30), 1), "panels must be 0 where"),
    ("classifier", set_at(TERMS + "panels", (0, 0, 0), np.nan), "panels must not hold NaN"),
    ("classifier", set_at("learner.state", (0, 0), 0.0), "a scale of 0"),
    ("classifier", set_at("learner.state", (0, 17), -1.0), "counts at least 0"),
    ("classifier", set_at("learner.state", (0, 1), np.nan), "state must be finite"),
    ("classifier", set_at("learner.moments.variance", 0, -1), "variance must be at least 0"),
    ("classifier", set_at("learner.moments.mean", 0, np.inf), "mean must be finite"),
    ("classifier", set_at("learner.frame.width", 0, 0.0), "width must be at least"),
    ("classifier", set_at("learner.frame.unit", 0, -1.0), "unit must be at least"),
    ("classifier", set_at("learner.frame.center", 0, np.nan), "center must be finite"),
    ("regressor", set_at("learner.targets.spread", 0, 0.0), "spread must be at least"),
    ("classifier", reshaped("learner.state", lambda a: a[:2]), "coef must have shape"),
    ("classifier", reshaped("learner.state", lambda a: a[:, :9]), r"state must have shape \['any'"),
    ("classifier", reshaped("learner.known", lambda a: a[:2]), "must have shape .2."),
    ("classifier", reshaped("learner.known", lambda a: a[:0]), "known does not fit the kernel"),
    ("classifier", reshaped("learner.known", lambda a: a[None]), "known must be an array with one"),
    ("classifier", reshaped(TERMS + "births", lambda a: a.astype("<i4")), "array of int64"),
    ("classifier", reshaped(TERMS + "norms", lambda a: a[:, :63]), "norms must have shape"),
    ("tree", reshaped(TERMS + "levels", lambda a: a + 1), "levels do not fit"),
    ("tree", reshaped(TERMS + "pieces", lambda a: -a), "pieces must be at least 1"),
    ("tree", set_at(TERMS + "panels", (0, 0, 0), np.inf), "points must be finite"),
    ("centers", set_at("learner.map.draws", 3, 4), "draws must each lie below"),
    ("centers", set_at("learner.map.draws", 3, -1), "draws must be at least 0"),
    ("centers", reshaped("learner.map.draws", lambda a: a[:-1]), "map.draws must hold one number"),
    ("centers", reshaped("learner.map.points", lambda a: np.tile(a, (9, 1))), "at most 6"),
    ("centers", reshaped("learner.theta", lambda a: a[:, 1:]), "theta must have shape"),
    ("given", set_at("learner.map.points", (0, 0), 0.0), "points must be the given ones"),
    ("weights", reshaped("learner.total", lambda a: a[:0]), "total must have shape"),
    ("texts", set_at(TERMS + "pieces", (0, 0), 2**31), "utf-32"),
    ("texts", set_at(TERMS + "which", 0, 999), "which does not fit the pieces"),
    ("texts", set_at(TERMS + "which", 0, 1), "must"),
    ("texts", set_at(TERMS + "lengths", 0, 2**60), "which does not fit the pieces"),
    ("texts", set_at(TERMS + "births", 1, 1), "births must increase"),
    ("texts", set_at(TERMS + "amounts", 1, np.nan), "amounts must be finite"),
    ("classifier", lambda model, tensors: tensors.update({"parameters.0": np.zeros(2)}),
     "a tensor belongs to no parameter"),
    ("classifier", lambda model, tensors: tensors.update({"other": np.zeros(2)}), "other is not"),
    ("classifier", setting("scale", 1), "settings.scale is not what"),
    ("classifier", setting("extra", 1), "settings.extra is not what"),
    ("classifier", setting("kernel", "gaussian"), "settings.kernel is not what"),
    ("detector", setting("intercept", True), "settings.intercept is not what a novelty"),
    ("classifier", setting("loss", {"part": "loss/squared", "parameters": {}}), "targets"),
    ("classifier", setting("loss", {"part": "loss/novelty", "parameters": {}}), "is for novelty"),
    ("classifier", setting("loss", {"part": "loss/none", "parameters": {}}), "makes no sense"),
    ("linear", setting("expansion", {"part": "expansion/centers", "parameters": {"centers": 3}}),
     "must hold"),
    *FORGED_SQUARES,
    *FORGED_MIXTURES,
    *FORGED_DETECTORS,
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "message"), FORGED, ids=map(str, range(len(FORGED))))
def test_what_no_run_can_have_left_is_refused(name, change, message):
    """Most of these would have made the compiled core read where it must not."""
    _, held, tensors = container.unpack(SAMPLES[name][0])
    change(held, tensors)
    with pytest.raises(ValueError, match=message):
        files.loads(b"".join(container.pack(held, tensors)))


def test_a_sample_is_not_drawn_longer_than_the_file():
    """The draws of a reservoir are made when it is opened: 80 MB here, from a file of 3 KB."""
    _, held, tensors = container.unpack(SAMPLES["centers"][0])
    held["settings"]["expansion"]["parameters"]["sample"] = 10**7
    with pytest.raises(ValueError, match="draws must hold one number for each of sample"):
        files.loads(b"".join(container.pack(held, tensors)))


def test_an_eigenvalue_is_not_computed_for_a_file(monkeypatch):
    """Of k at the given points, which takes their number cubed; only the theory's step asks."""
    rng = np.random.default_rng(0)
    rule = corrupted.rules.Norma(learning_rate="theory", regularization=0.1)
    made = corrupted.KernelClassifier(
        expansion=expansions.Centers(rng.normal(size=(9, 2))), rule=rule, scale=False
    )
    data = files.dumps(made.partial_fit(rng.normal(size=(20, 2)), rng.integers(0, 2, 20)))
    monkeypatch.setattr(np.linalg, "eigvalsh", lambda *a: pytest.fail("an eigenvalue"))
    assert files.loads(data).t_ == 20


def test_a_layout_that_does_not_fit_is_not_used():
    """That of the other core, or nonsense: the trees are divided anew, with the same sums."""
    _, held, tensors = container.unpack(SAMPLES["tree"][0])
    rows = SAMPLES["tree"][1]
    expected = files.loads(SAMPLES["tree"][0]).predict(rows)
    n = held["state"]["learner.terms.count"]
    for heights, levels, pieces in (
        ([], [], []), ([1, 1, 1], [n, n, n], [1] * 3 * n), ([1], [2], [1, n - 1]),
        ([2] * 3, [n, 1] * 3, [*[1] * n, n] * 3), ([30] * 3, [n] * 90, [1] * 90 * n),
        ([1] * 3, [1] * 3, [2**62] * 3),
    ):  # fmt: skip
        layout = {"heights": heights, "levels": levels, "pieces": pieces}
        new = {f"{TERMS}{k}": np.array(v, np.int64) for k, v in layout.items()}
        loaded = files.loads(b"".join(container.pack(held, {**tensors, **new})))
        assert loaded.predict(rows) == pytest.approx(expected, rel=1e-9)
        corrupted.use(loaded, rows)


def test_deep_json():
    for text in ("[" * 200_000, '{"a":' * 200_000, "[" * 900 + "]" * 900):
        meta = {**container._metadata({}), "model": text}
        header = container.compact({"__metadata__": meta}).encode()
        with pytest.raises(ValueError, match="cannot load this model"):
            files.loads(corrupted.sealed(header, b""))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"average":false', '"average":false,"average":true', "a key stands twice"),
        ('"average":false', '"average":1e999', "1e999 is too large"),
        ('"average":false', '"average":-1e999', "-1e999 is too large"),
        ('"average":false', '"average":NaN', "NaN is no number of JSON"),
        ('"average":false', '"average":-Infinity', "-Infinity is no number of JSON"),
        ('"average":false', f'"average":{"9" * 5000}', "cannot load"),
        ('"average":false', '"average":{"scalar":"bool","value":5}', "5 is no bool"),
        ('"average":false', '"average":{"scalar":"float32","value":0.1}', "0.1 is no float32"),
        ('"average":false', '"average":{"scalar":"int8","value":300}', "cannot load"),
        ('"average":false', '"average":{"scalar":"object","value":1}', "cannot load"),
        ('"average":false', '"average":false,"p":1', "unexpected keyword argument 'p'"),
        ('"estimator":"KernelClassifier"', '"estimator":"load"', "estimator must be one of"),
        ('"estimator":"KernelClassifier"', '"estimator":"losses"', "estimator must be one of"),
    ],
)
def test_json_is_read_strictly(old, new, message):
    length = int.from_bytes(SAMPLES["new"][0][:8], "little")
    text = SAMPLES["new"][0][8 : 8 + length].decode()
    escaped = [t.replace('"', '\\"') for t in (old, new)]
    assert escaped[0] in text
    forged = text.replace(*escaped, 1).encode()
    with pytest.raises(ValueError, match=message):
        files.loads(corrupted.sealed(forged, b""))


def test_truth_values_are_0_or_1():
    header, held, rest = corrupted.opened(SAMPLES["classifier"][0])
    at = header["learner.known"]["data_offsets"][0]
    assert rest[at] == 1
    forged = corrupted._closed(header, held, rest[:at] + b"\x02" + rest[at + 1 :])
    with pytest.raises(ValueError, match=r"learner.known' holds truth values other than 0 and 1"):
        files.loads(forged)


def test_a_kernel_nested_too_deep():
    part = {"part": "kernel/gaussian", "parameters": {}}
    for _ in range(150):
        part = {"part": "kernel/scaled", "parameters": {"kernel": part, "factor": 1.0}}
    held = {"estimator": "KernelRegressor", "parameters": {"kernel": part}}
    with pytest.raises(ValueError, match="nested deeper than"):
        files.loads(b"".join(container.pack(held, {})))


def test_every_single_byte_counts():
    data, _ = SAMPLES["new"]
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(ValueError, match="damaged"):
            files.loads(changed)
