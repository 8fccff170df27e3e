"""What judges rows, against plain loops over single rows: every task, with and without targets."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from onkel import (
    Classifier,
    Detector,
    KernelClassifier,
    KernelRegressor,
    LinearRegressor,
    NoveltyDetector,
    Regressor,
    files,
    losses,
    rules,
)
from onkel.alerting import RecentScores
from onkel.judge import (
    OUTPUTS,
    NamedRows,
    Rows,
    answer,
    forgets_by_clock,
    judge_of,
    marks_of_labels,
    marks_of_numbers,
    named,
    predict,
    predicted,
    ranks_at,
)

NAMES = ["level", "flow"]


def detector(**more):
    return NoveltyDetector(nu=0.1, recent=50, **more)


@pytest.fixture
def X(rng):
    found = rng.normal(size=(300, 2))
    found[::40] += 5.0
    return found


def cut(rows, sizes=(1, 60, 7, 100, 132)):
    """Return rows in calls of several sizes."""
    edges = np.cumsum([0, *sizes]).tolist()
    return [rows.part(slice(a, b)) for a, b in pairwise(edges)]


def joined(parts):
    """Return the columns of several calls as lists."""
    return {n: [v for part in parts for v in list(part[n])] for n in parts[0]}


# -- alerts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("clock", [False, True])
def test_alerts_equal_a_loop_over_rows(X, clock):
    time = np.arange(300.0) if clock else None
    rule = {"rule": rules.Norma(memory="100s")} if clock else {}
    model, twin = detector(**rule), detector(**rule)
    judge = judge_of(model)
    assert judge.by_clock == clock
    found = joined([judge(model, part).columns() for part in cut(Rows(X, time=time))])

    seen: list[float] = []
    for i in range(300):
        when = {"time": [time[i]]} if clock else {}
        score, limit, alert = twin.predict_then_learn(X[i : i + 1], output="judgement", **when)[0]
        np.testing.assert_allclose(found["score"][i], score, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found["threshold"][i], limit, rtol=1e-12, atol=1e-12)
        assert found["alert"][i] == (alert > 0)
        before = seen[-50:]
        rank = (1 + sum(s <= found["score"][i] for s in before)) / (1 + len(before))
        assert found["rank"][i] == rank
        seen.append(found["score"][i])
    assert [*judge.fields()] == ["score", "threshold", "rank", "alert"]
    assert any(found["alert"]) and judge.learned(Rows(X)) == 300


def test_alerts_alone_may_be_ranked(X):
    model, twin = detector(), detector()
    every, some = judge_of(model), judge_of(twin, rank_all=False)
    for part in cut(Rows(X)):
        a, b = every(model, part).columns(), some(twin, part).columns()
        alert = a["alert"]
        np.testing.assert_array_equal(a["rank"][alert], b["rank"][alert])
        assert np.isnan(b["rank"][~alert]).all()


def test_the_first_alerts_are_explained_by_the_model_just_before_them(X):
    model, twin = detector(), detector()
    judge = judge_of(model, NAMES, explain=2, brief=True)
    told = judge(model, Rows(X))
    later = Rows(np.zeros((50, 2)))
    judge(model, later)  # the next rows are learned before this block's columns are asked for
    found = told.columns()
    at = np.flatnonzero(found["alert"]).tolist()
    assert len(at) > 2 and [i for i, why in enumerate(found["why"]) if why] == at
    for n, i in enumerate(at):
        begin = at[n - 1] if n else 0
        twin.partial_fit(NamedRows(X[begin:i], NAMES) if n == 0 else X[begin:i])
        own = twin.explain(X[i])
        assert (found["why"][i] == own.sentence) == (n < 2)
        assert found["why"][i].startswith("Alert") == (n < 2)


def test_a_call_may_have_another_number_of_explanations(X):
    for first in (0, 1, float("inf")):
        model = detector()
        judge = judge_of(model, NAMES, brief=True)
        told = [judge(model, part, first) for part in (Rows(X[:200]), Rows(X[200:]))]
        alerts = sum(int(np.sum(each.alert)) for each in told)
        why = [text for each in told for text in each.columns()["why"] if text]
        assert len(why) == alerts > 5
        assert sum(text.startswith("Alert") for text in why) == min(first, alerts)


def test_the_first_call_gives_names(X):
    model = detector()
    judge_of(model, NAMES, explain=5)(model, Rows(X))
    assert list(model.feature_names_in_) == NAMES
    plain = detector()
    judge_of(plain)(plain, Rows(X))
    assert not hasattr(plain, "feature_names_in_")


def test_reasons_cost_the_model_nothing(X):
    model, twin = detector(), detector()
    judge, plain = judge_of(model, NAMES, explain=9, brief=True), judge_of(twin, NAMES)
    for part in cut(Rows(X)):
        judge(model, part).columns()
        plain(twin, part)
    assert files.dumps(model) == files.dumps(twin)


# -- targets -----------------------------------------------------------------------------------


def labelled(X, rng):
    y = np.where(X[:, 0] > 0, "up", "down").astype(object)
    known = rng.random(300) < 0.8
    known[:5] = False
    return y, known


def loop(model, X, y, known, ask):
    """Return what a model says of one row after another; None before it knows anything."""
    found = []
    for i in range(len(X)):
        row = X[i : i + 1]
        if known[i]:
            found.append(ask(model, row, y[i : i + 1]))
        else:
            found.append(ask(model, row, None) if model.__sklearn_is_fitted__() else None)
    return found


def test_labels_equal_a_loop_over_rows(X, rng):
    y, known = labelled(X, rng)
    model, twin = KernelClassifier(), KernelClassifier()
    judge = judge_of(model, NAMES)
    found = joined([judge(model, part).columns() for part in cut(Rows(X, y, known))])

    def ask(one, row, target):
        said = one.predict(row) if target is None else one.predict_then_learn(row, target)
        return said.tolist()[0]

    assert found["prediction"] == loop(twin, X, y, known, ask)
    assert found["target"] == [v if k else None for v, k in zip(y, known, strict=True)]
    assert judge.learned(Rows(X, y, known)) == known.sum() == model.t_
    assert [*judge.fields().items()] == [
        ("prediction", "target"), ("probability", "double"), ("target", "target"),
    ]  # fmt: skip
    assert all(p is None or 0.5 <= p <= 1 for p in found["probability"])


def test_a_class_counts_from_the_row_after_its_first(rng):
    """Whatever the cuts: no row is called what nobody had seen, and the chances are of the rest."""
    X = rng.normal(size=(300, 2))
    y = np.array([["a", "b", "c"][i % (1 + min(i // 100, 2))] for i in range(300)])
    for kind in (Classifier, KernelClassifier):
        ways = [Rows(X, y)], cut(Rows(X, y)), [Rows(X[i:][:1], y[i:][:1]) for i in range(300)]
        told = []
        for way in ways:
            model = kind()
            judge = judge_of(model)
            told.append(joined([judge(model, part).columns() for part in way]))
        for found in told:
            assert found["prediction"][0] is None and found["probability"][0] is None
            assert found["probability"][1:100] == [1.0] * 99
            for i, label in enumerate(found["prediction"][1:], 1):
                assert label in y[:i]
            assert found["prediction"] == told[0]["prediction"]
            np.testing.assert_allclose(
                found["probability"][1:], told[0]["probability"][1:], rtol=1e-6
            )


def test_rows_without_weight_bring_no_class_and_named_ones_are_there(rng):
    X, y = rng.normal(size=(6, 1)), ["a", "b", "a", "b", "a", "b"]
    weight = [1.0, 0.0, 1.0, 1.0, 1.0, 1.0]
    found = answer(Classifier(), X, y, sample_weight=weight)
    assert found.values.tolist()[:4] == [None, "a", "a", "a"]
    assert found.beside["probability"].tolist()[:4] == [None, 1.0, 1.0, 1.0]
    named = answer(Classifier(), X, y, classes=["a", "b"])
    assert named.values.tolist()[0] in ("a", "b")
    assert named.beside["probability"][0] == pytest.approx(0.5)


@pytest.mark.parametrize("nu", [None, 0.2])
def test_numbers_equal_a_loop_over_rows(X, rng, nu):
    y, known = X[:, 0] * 3 + 10, labelled(X, rng)[1]
    model, twin = (KernelRegressor(loss=losses.Huber(nu=nu)) for _ in range(2))
    judge = judge_of(model)
    found = joined([judge(model, part).columns() for part in cut(Rows(X, y, known))])

    def ask(one, row, target):
        if nu is None:
            said = one.predict(row) if target is None else one.predict_then_learn(row, target)
            return said.item()
        if target is None:
            return one.predict(row).item(), *(v.item() for v in one.predict_interval(row))
        return [v.item() for v in one.predict_then_learn(row, target, output="judgement")]

    truth = loop(twin, X, y, known, ask)
    names = ["prediction"] if nu is None else ["prediction", "low", "high"]
    assert [*judge.fields()] == [*names, "target"]
    for i, said in enumerate(truth):
        own = [found[n][i] for n in names]
        if said is None:
            assert own == [None] * len(names)
        else:
            np.testing.assert_allclose(own, np.ravel(said), rtol=1e-9)


def test_a_call_without_known_has_targets_throughout(X):
    y = X[:, 0].copy()
    model, twin = KernelRegressor(), KernelRegressor()
    a = judge_of(model)(model, Rows(X, y)).columns()
    b = judge_of(twin)(twin, Rows(X, y, np.ones(300, bool))).columns()
    assert a == b and judge_of(model).learned(Rows(X, y)) == 300


def test_stretches_are_the_runs_of_known_rows(rng):
    for _ in range(50):
        known = rng.random(rng.integers(0, 20)) < 0.5
        rows = Rows(np.zeros((len(known), 1)), None, known)
        parts = list(rows.stretches())
        assert [i for p in parts for i in range(p.start, p.stop)] == list(range(len(known)))
        assert all(len(set(known[p].tolist())) == 1 for p in parts)
        assert all(known[a.start] != known[b.start] for a, b in pairwise(parts))


# -- refusals ----------------------------------------------------------------------------------


def test_refused_rows_change_nothing(X):
    model = detector()
    judge = judge_of(model, NAMES, explain=3)
    judge(model, Rows(X[:100]))
    before = files.dumps(model)
    bad = X[100:110].copy()
    bad[4, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        judge(model, Rows(bad))
    uneven = np.empty(2, object)
    uneven[:] = [np.zeros(2), np.zeros(3)]
    with pytest.raises(ValueError, match="shape"):
        judge(model, Rows(uneven))
    assert files.dumps(model) == before


# -- which judge -------------------------------------------------------------------------------


def test_a_judge_follows_from_task_memory_and_loss():
    clock = rules.Norma(memory="2h")
    assert not forgets_by_clock(KernelClassifier())
    assert forgets_by_clock(NoveltyDetector(rule=clock))
    assert judge_of(KernelRegressor(rule=clock)).by_clock
    assert "low" in judge_of(LinearRegressor(loss=losses.EpsilonInsensitive(nu=0.1))).fields()
    assert "low" not in judge_of(KernelRegressor()).fields()
    assert "low" not in judge_of(KernelClassifier(loss=losses.SoftMargin(nu=0.1))).fields()


def test_what_tunes_itself_is_judged_like_the_rest(X):
    time = 60.0 * np.arange(300)
    for kind, y in ((Classifier, X[:, 0] > 0), (Regressor, X[:, 0])):
        model, twin = kind(memory="1h"), kind(memory="1h")
        judge = judge_of(model, NAMES)
        assert judge.by_clock and not judge_of(kind(memory=9)).by_clock
        found = joined([judge(model, part).columns() for part in cut(Rows(X, y, time=time))])
        truth = twin.predict_then_learn(X, y, time=time)
        np.testing.assert_allclose(
            np.array(found["prediction"][1:], float), truth[1:].astype(float), rtol=1e-9, atol=1e-9
        )
        assert model.t_ == 300
    assert [*found] == ["prediction", "low", "high", "target"]
    low, high = Regressor(memory="1h").predict_then_learn(X, y, output="interval", time=time)
    np.testing.assert_allclose(found["low"], low, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found["high"], high, rtol=1e-9, atol=1e-9)


def test_a_judge_can_be_sent_anywhere(X):
    judge = pickle.loads(pickle.dumps(judge_of(detector(), NAMES, explain=2)))
    model = detector()
    assert judge(model, Rows(X)).columns().keys() == judge.fields().keys()


# -- answers, marks, ranks ---------------------------------------------------------------------


def test_answers_are_those_of_the_estimators(X):
    y = {"classification": np.where(X[:, 0] > 0, "a", "b"), "regression": X @ [1.0, 2.0]}
    models = [
        detector(),
        KernelClassifier(loss="logistic"),
        KernelRegressor(loss=losses.Huber(nu=0.1)),
        KernelRegressor(),
        Classifier(),
        Regressor(),
    ]
    for model in models:
        target = y.get(model.task)
        intervals = model.task == "regression" and model is not models[3]
        for output in OUTPUTS[model.task]:
            if output == "interval" and not intervals:
                continue
            one, twin = copy.deepcopy(model), copy.deepcopy(model)
            values, beside, marks = answer(one, X, target, output)
            given = (X,) if target is None else (X, target)
            truth = twin.predict_then_learn(*given, output=output)
            truth = np.stack(truth, axis=-1) if output == "interval" else truth
            np.testing.assert_array_equal(values, truth)
            assert marks.mark is None or len(marks.mark) == 300
            assert predict(one, X, output).shape == values.shape
            said = predicted(one, X, output)
            assert said.values.shape == values.shape and said.beside.keys() == beside.keys()
            also = {"classification": {"probability"}, "regression": {"interval"}}
            goes = output == "prediction" and (model.task == "classification" or intervals)
            assert beside.keys() == (also[model.task] if goes else set())
            if output == "prediction":
                np.testing.assert_array_equal(said.values, one.predict(X))


def test_marks_of_several_targets_are_the_largest():
    marks = marks_of_numbers([[0.0, 1.0], [2.0, 2.0]], [[0.5, 3.0], [2.0, 2.1]], [[1.0, 1.0]] * 2)
    np.testing.assert_allclose(marks.value, [2.0, 0.1])
    assert marks.mark.tolist() == [True, False] and marks.limit.tolist() == [1.0, 1.0]
    assert marks_of_labels(["a", "b"], ["a", "c"]).mark.tolist() == [False, True]


def test_ranks_equal_those_of_the_recent_scores(rng):
    for size in (1, 7, 100):
        recent = RecentScores(size)
        recent.extend(rng.integers(0, 5, 30).astype(float))
        scores = rng.integers(0, 5, 60).astype(float)
        truth = recent.copy().update(scores)
        np.testing.assert_array_equal(ranks_at(recent, scores, np.arange(60)), truth)


def test_ranks_in_bounded_memory(rng):
    scores, at = rng.normal(size=3000), np.arange(0, 3000, 7)
    for size in (1, 50, 2**18 + 1):
        recent = RecentScores(size)
        recent.extend(scores[:500])
        line = np.concatenate([scores[:500], scores])
        truth = []
        for i in (at + 500).tolist():
            window = line[max(i - size, 0) : i]
            truth.append((1 + sum(window <= line[i])) / (1 + len(window)))
        np.testing.assert_array_equal(ranks_at(recent, scores, at), truth)
    assert len(ranks_at(RecentScores(5), scores, at[:0])) == 0


def test_names_are_told_once(X):
    model = detector()
    assert isinstance(named(model, X, NAMES), NamedRows) and named(model, X, None) is X
    model.partial_fit(named(model, X, NAMES))
    assert named(model, X, NAMES) is X and len(NamedRows(X, NAMES)) == 300


def test_single_precision_is_kept(X):
    model = detector()
    judge_of(model, NAMES)(model, Rows(X.astype(np.float32)))
    single, double = detector().partial_fit(X.astype(np.float32)), detector().partial_fit(X)
    at = np.array([[0.3, -0.7]])
    assert model.score_samples(at) == single.score_samples(at) != double.score_samples(at)


def test_its_import_is_light():
    code = (
        "import onkel.judge, sys; heavy = {'pandas', 'click', 'msgspec', 'starlette', 'pyspark', "
        "'onkel.explain'}; print(heavy & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True
    )
    assert done.stdout.strip() == "set()", done.stderr


@pytest.mark.few
@pytest.mark.parametrize("kind", [Detector, NoveltyDetector])
@pytest.mark.parametrize("output", OUTPUTS["novelty"])
def test_which_rows_are_alerts_does_not_hang_on_the_question(rng, X, kind, output):
    """What is answered is the library's; what is marked is the same whatever is asked for."""
    given = {"nu": 0.1, "warmup": 50, "recent": 40}
    one, plain, twin = (kind(**given) for _ in range(3))
    weight = rng.integers(0, 3, 300).astype(float)
    for part in (slice(0, 1), slice(1, 180), slice(180, 300)):
        how = {} if part.start == 1 else {"sample_weight": weight[part]}
        found = answer(one, X[part], output=output, **how)
        marks = answer(plain, X[part], **how).marks
        np.testing.assert_array_equal(
            found.values, twin.predict_then_learn(X[part], output=output, **how)
        )
        np.testing.assert_array_equal(found.marks.mark, marks.mark)
        np.testing.assert_array_equal(found.marks.value, marks.value)
    assert marks.mark.any()
