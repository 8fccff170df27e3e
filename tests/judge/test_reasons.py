"""Reasons of alerts: true on their face, about the right features, a matter of rows alone."""

from __future__ import annotations

import gzip
import io
import re
from functools import partial

import numpy as np
import pytest
from helpers.reasons import all_true, false_in, kind_of
from helpers.sizes import size

from onkel import Detector, Fleet, NoveltyDetector, files, kernels, rules
from onkel.columns import raw_of
from onkel.fleet.judging import FleetDetect
from onkel.judge import Rows, answer, judge_of
from onkel.judge.brief import Usual, in_brief, spreads

NAMES = [f"n{j}" for j in range(6)]
EVERY = float("inf")
ROWS = size(600, 1200)
LIKE = re.compile(r"ike alert (\d+), which was answered as (?:a )?(usual|fault)")


def reasons(model, X, cuts, explain=EVERY, names=NAMES, time=None):
    """Return the rows that raise alerts, each with its reason, in calls of these sizes."""
    judge, found, start, i = judge_of(model, names, explain=explain, brief=True), {}, 0, 0
    while start < len(X):
        part = slice(start, start + cuts[i % len(cuts)])
        told = judge(model, Rows(X[part], time=None if time is None else time[part])).columns()
        at = np.flatnonzero(told["alert"]).tolist()
        assert [j for j, why in enumerate(told["why"]) if why is not None] == at
        found |= {start + j: told["why"][j] for j in at}
        start, i = part.stop, i + 1
    return found


def tied(rng, rows, d):
    """Return rows that follow one another."""
    steps = rng.normal(size=(rows, d))
    found = np.zeros((rows, d))
    for i in range(1, rows):
        found[i] = 0.95 * found[i - 1] + 0.3 * steps[i]
    return found


# -- cuts --------------------------------------------------------------------------------------

KINDS = {
    "densities": (lambda: Detector(nu=0.05), {}),
    "kernels": (lambda: NoveltyDetector(nu=0.05), {}),
    "not scaled": (lambda: NoveltyDetector(nu=0.1, scale=False, kernel=kernels.Laplacian(0.5)), {}),
    "linear": (lambda: NoveltyDetector(nu=0.1, kernel="linear"), {}),
    "gaps": (lambda: Detector(nu=0.05, missing="mean"), {"gaps": True}),
    "by the clock": (
        lambda: NoveltyDetector(nu=0.1, rule=rules.Norma(memory="1h")), {"time": True},
    ),
}  # fmt: skip


@pytest.mark.few
@pytest.mark.parametrize("explain", [EVERY, 3, 0])
@pytest.mark.parametrize("kind", KINDS)
def test_reasons_do_not_depend_on_cuts(rng, kind, explain):
    make, more = KINDS[kind]
    X = tied(rng, ROWS, 6)
    X[400::23, 2] += 6.0
    if "gaps" in more:
        X[rng.random(X.shape) < 0.02] = np.nan
    time = np.arange(float(ROWS)) if "time" in more else None
    whole = reasons(make(), X, [ROWS], explain, time=time)
    assert len(whole) > 5
    all_true(whole.values())
    for cuts in ([1], [7], [256, 3], [400, 800]):
        assert reasons(make(), X, cuts, explain, time=time) == whole
    told = [words.startswith("Alert") for words in whole.values()]
    if kind != "not scaled":  # without moments there is nothing shorter
        assert [i for i, t in enumerate(told) if t] == [i for i in range(len(told)) if i < explain]


def test_reasons_of_tables_do_not_depend_on_cuts(rng):
    kinds = rng.choice(["a", "b", "c"], 900, p=[0.7, 0.28, 0.02])
    notes = [" ".join(rng.choice(["all", "is", "well", "odd"], 3)) for _ in range(900)]
    rows = [
        {
            "kind": str(k),
            "x": float(v),
            "note": n,
            "when": f"2024-01-{1 + i // 48:02}T{i % 24:02}:00",
        }
        for i, (k, v, n) in enumerate(zip(kinds, rng.normal(size=900), notes, strict=True))
    ]
    for i in range(600, 900, 37):
        rows[i]["x"] = 8.0
    rows[710]["kind"], rows[720]["note"] = "never", "zebra crossing"
    spec = {"note": "text", "when": "time", "kind": "category"}
    for make in (Detector, NoveltyDetector):
        plan = make(columns=spec).partial_fit(rows[:100]).plan_
        X = plan.encode(raw_of(rows))
        for explain in (EVERY, 0):
            whole = reasons(make(columns=spec, warmup=100), X, [900], explain, names=None)
            for cuts in size(([50, 7, 300],), ([1], [50, 7, 300])):
                assert reasons(make(columns=spec, warmup=100), X, cuts, explain, None) == whole
            all_true(whole.values())
            if make is Detector:
                assert "kind never" in whole[710]
                assert "zebra" in whole[720]


def test_to_stop_at_alerts_changes_no_bit(rng):
    X = tied(rng, 3000, 4)
    X[500::61] += rng.normal(size=(1, 4)) * 4
    one, other = Detector(nu=0.05), Detector(nu=0.05)
    judge = judge_of(one, None, explain=EVERY)
    for start in range(0, 3000, 700):
        told = judge(one, Rows(X[start : start + 700]))
        plain = other.predict_then_learn(X[start : start + 700], output="judgement")
        np.testing.assert_array_equal(np.column_stack([told.score, told.limit, told.alert]), plain)
    assert files.dumps(one) == files.dumps(other)


def test_a_reason_is_what_the_model_says_before_the_row(rng):
    X = tied(rng, 1500, 3)
    X[1000::50, 1] -= 5.0
    found = reasons(Detector(), X, [1500], names=["a", "b", "c"])
    for i in [*found][::3]:
        twin = Detector()
        judge_of(twin, ["a", "b", "c"])(twin, Rows(X[:i]))
        assert twin.explain(X[i]).sentence == found[i]


def test_a_model_that_goes_on_from_a_file_says_the_same(rng):
    X = rng.normal(size=(2000, 6))
    for make in (lambda: Detector(nu=0.05), lambda: NoveltyDetector(nu=0.1)):
        whole = reasons(make(), X, [2000], explain=20)
        model = make()
        first = reasons(model, X[:900], [900], explain=20)
        then = reasons(files.loads(files.dumps(model)), X[900:], [1100], explain=20)
        assert first | {900 + i: why for i, why in then.items()} == whole


# -- the right ones ------------------------------------------------------------------------------


def faulty(rng, fault):
    """Return rows of which one in fifty has a fault, and where; the first two go together."""
    X = rng.normal(size=(4000, 6))
    X[:, 1] = 0.97 * X[:, 0] + 0.25 * X[:, 1]
    at = np.arange(2000, 4000, 50)
    which = rng.integers(2, 6, len(at))
    for i, j in zip(at.tolist(), which.tolist(), strict=True):
        if fault == "one":
            X[i, j] += rng.choice([-9.0, 9.0])
        elif fault == "two":
            X[i, :2] = rng.permutation([1.4, -1.4])
        else:
            X[i] = rng.choice([-9.0, 9.0], 6)
    return X, at, which


@pytest.mark.few
@pytest.mark.parametrize("explain", [EVERY, 0])
@pytest.mark.parametrize("fault", ["one", "two", "all"])
@pytest.mark.parametrize("make", [Detector, partial(NoveltyDetector, learn_alerts=False)])
def test_faults_are_named(rng, make, fault, explain):
    if make is not Detector and fault == "two":
        pytest.skip("one kernel width for all: a broken correlation raises no alert")
    X, at, which = faulty(rng, fault)
    found = reasons(make(), X, [4000], explain)
    all_true(found.values())
    seen = [(found[i], j) for i, j in zip(at.tolist(), which.tolist(), strict=True) if i in found]
    assert len(seen) >= 0.9 * len(at)
    right = 0
    for words, j in seen:
        first = words.partition("through ")[2] or words
        if fault == "one":
            right += first.startswith(f"n{j} ") and kind_of(words) == "single"
        elif fault == "two":
            right += kind_of(words) == "pair" and "n0" in words and "n1" in words
        elif explain:
            right += "through" in words and ("3 more outside" in words or make is not Detector)
        else:
            right += words.count("spreads") == 2
    assert right >= 0.9 * len(seen), (right, len(seen))


def test_steps_and_means_are_named(rng):
    X = np.zeros((6000, 2))
    for i in range(1, 6000):
        X[i] = 0.999 * X[i - 1] + 0.05 * rng.normal(size=2)
    X = X + 3 * np.sin(np.arange(6000)[:, None] / 100)
    for i in range(3000, 6000, 300):
        X[i] = X[i] * 0.2 - 0.3
    found = reasons(Detector(), X, [6000], names=["a", "b"])
    all_true(found.values())
    assert sum(kind_of(words) == "pattern" for words in found.values()) > 3


def test_what_never_changed_is_said_so():
    usual = Usual(np.array([0.0, 2.0]), np.array([1.0, 0.0]))
    assert in_brief([0.5, 2.0], usual, None).startswith("The row as a whole")
    assert in_brief([0.5, 5.0], usual, ["a", "b"]) == "b 5 where 2 was usual."
    assert in_brief([2.04, 2.0], usual, ["a", "b"]).startswith("The row as a whole")  # 2.0 spreads
    assert in_brief([2.06, 2.0], usual, ["a", "b"]) == "a 2.06 is 2.1 spreads above its mean."


def test_what_never_changes_is_no_reason(rng):
    """Means of the last rows differ in their last digits, where all rows are the same."""
    X = np.tile(rng.random(40) * 10.0 ** rng.integers(-9, 9, 40), (500, 1))
    X[:, 0] = np.cumsum(rng.normal(size=500))
    model, far = Detector().partial_fit(X[:400]), np.zeros(40)
    for row in X[400:]:
        told = Usual.of_densities(model._learner, row)
        for value, mean, variance in (told.step, told.late):
            known = variance > 0
            far[known] = np.maximum(far, np.abs(spreads(value, mean, variance)))[known]
        model.learn_one(row)
    assert far[0] > 1 and (far[1:] < 1e-3).all()


@pytest.mark.parametrize("keyed", [False, True])
def test_digits_of_single_precision_are_those_that_were_read(rng, keyed):
    X, read, usual = rng.normal(size=(301, 2)), f"{rng.uniform(1, 9):.6f}", "0.077381"
    X[:, 1], X[300, 1] = float(usual), float(read)
    X = X.astype(np.float32)
    assert f"{X[0, 1]:.9g}" != usual
    if keyed:
        judge = FleetDetect(NAMES[:2])
        why = judge(Fleet(Detector()), ["k"] * 301, Rows(X)).columns()["why"][300]
    else:
        why = reasons(Detector(), X, [301], explain=0, names=NAMES[:2])[300]
    assert f"n1 {read} where {usual} was usual" in why


def test_digits_of_double_precision_are_nine():
    third, usual = 1 / 3, Usual(np.array([0.1]), np.zeros(1))
    for value, told in ((third, "0.333333333"), (123456792.0, "123456792"), (1e300, "1e+300")):
        assert in_brief([value], usual, ["a"]) == f"a {told} where 0.1 was usual."


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_is_told_beside_what_was_usual_differs_from_it(rng, dtype):
    """A column that never changed, and a value that is hardly another: both read back apart."""
    pattern = re.compile(r"a (\S+) where (\S+) was usual\.")
    least = {np.float32: 2e-7, np.float64: 1.01e-9}[dtype]
    for _ in range(size(200, 5000)):
        base = rng.choice([1.0, 1e9, 1e6, 0.1, -3e-7, 2.0**40])
        mean = float(dtype(base * 10.0 ** rng.integers(-3, 4)))
        value = mean * (1 + least * 10 ** (4 * rng.random()) * rng.choice([-1, 1]))
        usual = Usual(np.array([mean]), np.array([0.0]))
        words = in_brief(np.array([float(dtype(value))]), usual, ["a"])
        shown, beside = pattern.fullmatch(words).groups()
        assert (float(shown) < float(beside)) == (float(dtype(value)) < mean)
        assert float(shown) == pytest.approx(value, rel=1e-6)
        assert float(beside) == pytest.approx(mean, rel=1e-6)
    for value, mean in ((1.000000002, 1.0), (1e9 + 2, 1e9), (1e6 + 0.01, 1e6),
                        (float(np.float32(0.1)), 0.1)):  # fmt: skip
        usual = Usual(np.array([mean]), np.array([0.0]))
        shown, beside = pattern.fullmatch(in_brief(np.array([value]), usual, ["a"])).groups()
        assert float(shown) > float(beside)


def test_the_reader_of_reasons_knows_what_is_wrong():
    assert false_in("through a 1.2 where 1.0–1.4 was usual")
    assert false_in("through a -1.2 where -1.4 to -1.0 was usual")
    assert false_in("a 2.00 is 2.0 spreads above its mean.")
    assert false_in(
        "mostly through a 1.2 and b 3, each usual by itself, not together: with this b, a was 1–2"
    )
    assert not false_in("through a 1.5 where 1.0–1.4 was usual, and b -9 where -1 to 1 was usual")


# -- the service's way ---------------------------------------------------------------------------


def test_answers_have_reasons_for_every_alert(rng):
    X = rng.normal(size=(900, 6))
    for make in (lambda: Detector(nu=0.05), lambda: NoveltyDetector(nu=0.1)):
        whole, model, found = reasons(make(), X, [900], explain=20, names=None), make(), {}
        for start in range(0, 900, 111):
            marks = answer(model, X[start : start + 111], explain=20).marks
            found |= {start + i: str(why) for i, why in marks.why().items()}
        assert found == whole
        assert answer(model, X[:5]).marks.why is None


# -- real streams --------------------------------------------------------------------------------


def _nab(data_dir):
    with gzip.open(data_dir / "nab_realKnownCause.csv.gz", "rt") as file:
        lines = [line.split(",") for line in file.read().splitlines()[1:]]
    return np.array([[float(v[2])] for v in lines if "machine_temperature" in v[0]])


def _skab(data_dir):
    with gzip.open(data_dir / "skab_valve1.csv.gz", "rt") as file:
        text = file.read().splitlines()
    columns = text[0].split(",")
    at = [j for j, name in enumerate(columns) if name not in ("datetime", "file", "experiment",
          "anomaly", "changepoint")]  # fmt: skip
    rows = np.genfromtxt(io.StringIO("\n".join(text[1:])), delimiter=",", usecols=at)
    return rows[:, ~np.isnan(rows).any(axis=0)]


def _smd(data_dir):
    data = np.load(data_dir / "smd_dev.npz")
    return data[f"{data['names'][0]}_test"].astype(float)


def _elec2(data_dir):
    return np.load(data_dir / "elec2.npz")["X"][14_000:].astype(float)  # three are constant so far


REAL = {"nab": _nab, "skab": _skab, "smd": _smd, "elec2": _elec2}


@pytest.mark.few
@pytest.mark.parametrize("explain", [EVERY, 0])
@pytest.mark.parametrize("name", size(["nab", "skab"], REAL))
def test_no_reason_is_wrong_on_real_streams(data_dir, name, explain):
    X = REAL[name](data_dir)[: size(3500, 6000)]
    names = [f"n{j}" for j in range(X.shape[1])]
    whole = reasons(Detector(), X, [256], explain, names)
    assert len(whole) > 10
    all_true(whole.values())
    for i, words in whole.items():  # what is printed is what came
        for j, said in enumerate(f" {words}".split(f" n{j} ")[1:2] for j in range(X.shape[1])):
            value = said[0].split()[0].rstrip(",") if said else ""
            if value.replace(".", "").replace("-", "").replace("e+", "").isdigit():
                digits = len(value.partition(".")[2])
                assert float(value) == pytest.approx(X[i, j], abs=0.51 * 10.0**-digits, rel=1e-3)
    assert reasons(Detector(), X, [1, 700, 16384], explain, names) == whole


@pytest.mark.parametrize("explain", [EVERY, 0])
@pytest.mark.parametrize("name", REAL)
def test_no_reason_is_wrong_on_real_streams_after_answers(data_dir, name, explain):
    """Every 500 rows what waits is answered, by turns; whoever is named was answered so."""
    X = REAL[name](data_dir)[:6000]
    names, seen = [f"n{j}" for j in range(X.shape[1])], []
    for cuts in ([7], [500, 64]):
        model, found, said = Detector(), {}, {}
        for start in range(0, len(X), 500):
            part = reasons(model, X[start : start + 500], cuts, explain, names)
            found |= {start + i: why for i, why in part.items()}
            for id in [a["id"] for a in model.alerts_ if a["answer"] is None]:
                said[id] = ("usual", "fault")[len(said) % 3 == 0]
                model.feedback(id, said[id])
        all_true(found.values())
        told = [m for why in found.values() for m in LIKE.findall(why)]
        assert all(said[id] == answer for id, answer in told)
        seen.append((found, said))
    assert seen[0] == seen[1]
    assert len(told) > (3 if name in ("nab", "elec2") else -1)
