"""Late labels: the same model as a plain loop that learns row i when its label comes."""

from __future__ import annotations

import copy
import datetime
import gc
import math
import pickle
import threading
import time
import tracemalloc

import numpy as np
import pytest
from helpers.sizes import size
from naive.late import NaiveLate

import onkel
from onkel import (
    Classifier,
    Detector,
    Fleet,
    KernelClassifier,
    KernelRegressor,
    Late,
    LinearRegressor,
    Regressor,
    files,
    kernels,
    losses,
    rules,
)

KINDS = {
    "Classifier": Classifier(),
    "KernelClassifier": KernelClassifier(),
    "Regressor": Regressor(),
    "KernelRegressor": KernelRegressor(loss=losses.Huber(nu=0.2)),
    "LinearRegressor": LinearRegressor(),
}
LABELS = np.array(["low", "high", "odd"])
LETTERS = str.maketrans("0123456789", "ghijklmnop")
"""Of a text all digits are alike."""


def fresh(kind):
    return copy.copy(KINDS[kind])


def stream(rng, kind, rows):
    X = rng.normal(size=(rows, 3))
    if "Classifier" in kind:
        return X, LABELS[(X[:, 0] > 0).astype(int) + (X[:, 1] > 1.2)]
    return X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=rows)


def events(rng, rows, delay):
    """Rows and labels in the order in which they come: ("row", i) and ("label", i)."""
    when = [(float(i), "row", i) for i in range(rows)]
    when += [(i + float(rng.exponential(delay)), "label", i) for i in range(rows)]
    return [(what, i) for _, what, i in sorted(when)]


def cut(rng, events, most):
    """The same in calls: runs of one kind, cut anywhere."""
    calls = []
    for what, i in events:
        if calls and calls[-1][0] == what and len(calls[-1][1]) < calls[-1][2]:
            calls[-1][1].append(i)
        else:
            calls.append((what, [i], int(rng.integers(1, most + 1))))
    return [(what, rows) for what, rows, _ in calls]


def play(late, calls, X, y, restart=None):
    """Give calls to a model; return it, and all that was said, by row."""
    said = {}
    for k, (what, rows) in enumerate(calls):
        if restart is not None:
            late = restart(late, k)
        if what == "row":
            found = late.predict(X[rows])
            assert found.ids == [str(i) for i in rows]
            said.update(zip(rows, found.prediction.tolist(), strict=True))
        else:
            late.learn([str(i) for i in rows], y[rows])
    return late, said


def plain(kind, events, X, y, **how):
    """The naive twin around a plain estimator that is given one row at a time."""
    model = fresh(kind)

    def look(row):
        if not model.__sklearn_is_fitted__():
            return None
        low, high = math.nan, math.nan
        if kind in ("Regressor", "KernelRegressor"):
            low, high = (float(v[0]) for v in model.predict_interval(row[None]))
        return model.predict(row[None]).tolist()[0], low, high

    naive = NaiveLate(look, lambda row, target: model.partial_fit(row[None], [target]), **how)
    for what, i in events:
        if what == "row":
            naive.predict(i, X[i], float(i))
        else:
            naive.learn(i, y[i], float(i))
    return naive, model


def same(a, b):
    if isinstance(b, float):
        return a == pytest.approx(b, rel=1e-6, abs=1e-9)
    return a == b


@pytest.mark.few
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("delay", "most"), [(0.3, 1), (40.0, 1), (40.0, 30), (500.0, 200)])
def test_the_same_as_a_plain_loop(rng, kind, delay, most):
    rows = size(250, 1000)
    X, y = stream(rng, kind, rows)
    order = events(rng, rows, delay)
    late, said = play(Late(fresh(kind)), cut(rng, order, most), X, y)
    naive, model = plain(kind, order, X, y)
    answers = naive.answers
    for i, found, *_ in answers:
        nothing = said[i] is None or said[i] != said[i]
        assert nothing if found is None else same(said[i], found[0])
    probe = rng.normal(size=(50, 3))
    if "Classifier" in kind:
        assert late.estimator.predict(probe).tolist() == model.predict(probe).tolist()
        wrong = sum(found is None or found[0] != target for _, found, target, *_ in answers)
        assert late.diagnostics_["mistakes"] == wrong
    else:
        assert np.allclose(late.estimator.predict(probe), model.predict(probe), atol=1e-7)
        errors = [abs((found[0] if found else 0.0) - target) for _, found, target, *_ in answers]
        assert late.diagnostics_["mean_absolute_error"] == pytest.approx(np.mean(errors))
        squares = math.sqrt(np.mean(np.square(errors)))
        assert late.diagnostics_["root_mean_squared_error"] == pytest.approx(squares)
        inside = [found[1] <= target <= found[2] for _, found, target, *_ in answers if found]
        told = late.diagnostics_["coverage_realised"]
        assert told is None if kind == "LinearRegressor" else told == pytest.approx(np.mean(inside))
    told = late.diagnostics_
    assert told["answered_blind"] == sum(found is None for _, found, *_ in answers)
    assert told["answered"] == rows and told["waiting"] == told["expired"] == 0


def test_delays_are_counted_in_rows(rng):
    X, y = stream(rng, "KernelClassifier", 200)
    order = events(rng, 200, 30.0)
    late, _ = play(Late(fresh("KernelClassifier")), [(w, [i]) for w, i in order], X, y)
    between = [a[3] for a in plain("KernelClassifier", order, X, y)[0].answers]
    told = late.diagnostics_
    assert told["delay_rows_most"] == max(between)
    assert told["delay_rows_mean"] == pytest.approx(np.mean(between))
    assert told["delay_seconds_mean"] is told["delay_seconds_most"] is None


@pytest.mark.few
@pytest.mark.parametrize("kind", ["Classifier", "KernelRegressor"])
@pytest.mark.parametrize("ask", [None, 0.1])
def test_a_restart_at_any_call_changes_nothing(rng, kind, ask):
    """Through a file, a pickle or a copy: the same bytes in the end."""
    X, y = stream(rng, kind, 120)
    calls = cut(rng, events(rng, 120, 25.0), 7)
    ways = (
        lambda late: files.loads(files.dumps(late)),
        lambda late: pickle.loads(pickle.dumps(late)),
        copy.copy,
        copy.deepcopy,
    )
    one, said = play(Late(fresh(kind), ask=ask), calls, X, y)
    other, again = play(Late(fresh(kind), ask=ask), calls, X, y, lambda late, k: ways[k % 4](late))
    assert files.dumps(one) == files.dumps(other)
    assert repr(said) == repr(again)
    told, there = one.diagnostics_, other.diagnostics_
    for name in ("bytes", "model"):  # room is not the same
        del told[name], there[name]
    assert told == there


def test_a_copy_is_its_own(rng):
    X, y = stream(rng, "Classifier", 60)
    late = Late(Classifier(), ask=0.2)
    late.predict(X[:40])
    late.learn(["0", "1"], y[:2])
    before = files.dumps(late)
    other = copy.copy(late)
    other.predict(X[40:])
    other.learn(["7", "41"], y[[7, 41]])
    assert files.dumps(late) == before


# -- expiry ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 5, 40])
def test_rows_expire_by_count_and_time_as_in_a_plain_loop(rng, most):
    rows, keep, within = 300, 20, 30.0
    X, y = stream(rng, "KernelClassifier", rows)
    times = np.cumsum(rng.exponential(1.0, size=rows) * (1 + 40 * (rng.uniform(size=rows) < 0.02)))
    late = Late(fresh("KernelClassifier"), keep=keep, within=f"{within:g}s")
    model = fresh("KernelClassifier")
    naive = NaiveLate(
        lambda row: None, lambda row, target: model.partial_fit(row[None], [target]), keep, within
    )
    at = 0
    while at < rows:
        part = np.arange(at, min(at + int(rng.integers(1, most + 1)), rows))
        late.predict(X[part], time=times[part], ids=part)
        for i in part:
            naive.predict(str(i), X[i], times[i])
        now, at = times[part[-1]] + 0.1, part[-1] + 1
        naive.expire(now)
        ids = [str(i) for i in rng.permutation(rows)[:15]]
        here = [w[0] for w in naive.waiting]
        assert [late.waits(id, now) for id in ids] == [id in here for id in ids]
        for id in ids:
            if id in here:
                naive.learn(id, y[int(id)], now)
        found = late.learn(ids, y[[int(i) for i in ids]], time=now, unknown="skip")
        assert found.ids == [id for id in ids if id in here]
        assert late.waiting() == [w[0] for w in naive.waiting]
        times = np.maximum(times, now)
    told = late.diagnostics_
    assert told["expired"] == naive.expired and told["answered"] == len(naive.answers)
    assert told["predicted"] == told["answered"] + told["expired"] + told["waiting"]
    seconds = [a[4] for a in naive.answers]
    assert told["delay_seconds_mean"] == pytest.approx(np.mean(seconds))
    assert told["delay_seconds_most"] == pytest.approx(max(seconds))
    probe = rng.normal(size=(30, 3))
    assert late.estimator.predict(probe).tolist() == model.predict(probe).tolist()


def test_room_is_used_again(rng):
    """A thousand times as many rows as are kept take no more room."""
    late = Late(KernelClassifier(), keep=10)
    for _ in range(100):
        late.predict(rng.normal(size=(100, 2)))
    assert len(late) == 10 and late.diagnostics_["expired"] == 9990
    assert late._shelf.nbytes < 5000


def test_many_rows_expire_in_no_more_time_than_it_took_to_keep_them():
    """A look through all that have gone, for each, would be seven times that."""
    late, spent = Late(KernelClassifier(), keep=10**6, within="1h"), []
    for call in (lambda: late.predict(np.zeros((60_000, 1)), time=0.0), lambda: late.expire(1e6)):
        start = time.process_time()
        call()
        spent.append(time.process_time() - start)
    assert len(late) == 0 and late.counts()["expired"] == 60_000
    assert spent[1] < 2 * spent[0]


def test_one_long_call_takes_no_more_room(rng):
    """What would expire within the call is not laid down; who waits is as from single rows."""
    X, y = stream(rng, "KernelClassifier", 600)
    late, single = Late(KernelClassifier(), keep=10), Late(KernelClassifier(), keep=10)
    for one in (late, single):
        one.predict(X[:5])
        one.learn(["3", "1"], y[[3, 1]])
    late.predict(X[5:])
    for row in X[5:]:
        single.predict(row[None])
    assert files.dumps(late) == files.dumps(single)
    assert late._shelf.nbytes < 5000


def test_refused_rows_leave_no_trace(rng):
    late = Late(KernelClassifier())
    late.predict(rng.normal(size=(3, 2)), ids=["a", "b", "c"])
    room = late._shelf.nbytes
    for _ in range(50):
        with pytest.raises(ValueError, match="'b' already"):
            late.predict(rng.normal(size=(20, 2)), ids=["b", *range(19)])
    assert late._shelf.nbytes <= 4 * room


def test_times_may_be_dates():
    late = Late(Classifier(), within=datetime.timedelta(days=30))
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    late.predict([[1.0], [2.0]], time=start)
    late.predict([[3.0]], time=start + datetime.timedelta(days=20))
    with pytest.raises(ValueError, match=r"id '0'.*waited 2\.67.*longer than within"):
        late.learn(["0"], ["a"], time=start + datetime.timedelta(days=31))
    late.learn(["2"], ["a"], time=start + datetime.timedelta(days=31))
    assert late.diagnostics_["expired"] == 2 and late.diagnostics_["waiting"] == 0


def test_rows_expire_when_time_is_told():
    late = Late(Classifier(), within="10s")
    late.predict([[1.0], [2.0]], time=[0.0, 5.0])
    assert late.expire(10.0) == 0 and late.expire(10.5) == 1 and late.waiting() == ["1"]
    with pytest.raises(ValueError, match="time runs backwards"):
        late.expire(3.0)
    with pytest.raises(ValueError, match="give expire time="):
        late.expire(None)


# -- tables, texts, names --------------------------------------------------------------------------


def table(rng, rows):
    return [
        {
            "carrier": str(rng.choice(["AA", "UA", "DL"])),
            "minutes": float(rng.normal()),
            "note": None,
        }
        for _ in range(rows)
    ]


def test_tables_wait_as_codes_and_numbers(rng):
    """The first rows tell what the columns are; categories are named in explanations as ever."""
    rows = table(rng, 200)
    y = np.array([row["carrier"] == "AA" for row in rows])
    plan = {"carrier": "category", "minutes": "number", "note": "text"}
    late = Late(Classifier(columns=plan))
    model = Classifier(columns=plan)
    for start in range(0, 200, 20):
        late.predict(rows[start : start + 20])
        late = files.loads(files.dumps(late))
    order = rng.permutation(200)
    for part in np.split(order, 20):
        late.learn(part.astype(str), y[part])
        late = files.loads(files.dumps(late))
        model.partial_fit([rows[i] for i in part], y[part])
    assert late.diagnostics_["waiting"] == 0
    assert files.dumps(late.estimator) == files.dumps(model)
    assert late.estimator.tally_.names["carrier"] == model.tally_.names["carrier"]


def test_texts_of_codes_go_with_their_rows(rng):
    late = Late(Classifier(), keep=50)
    for i in range(100):
        late.predict([{"user": f"user {i} {j}", "n": 1.0} for j in range(50)])
    assert sum(map(len, late._shelf.names.values())) < 2000


def test_rows_of_many_words_are_looked_through_seldom(monkeypatch):
    """Each has more words than there is room for without looking, for good."""
    keep, looks = 300, []
    late = Late(KernelClassifier(columns={"note": "text"}), keep=keep)
    look = late._shelf._names_in_use
    monkeypatch.setattr(late._shelf, "_names_in_use", lambda: looks.append(1) or look())
    rows = [{"note": " ".join(f"w{chr(97 + j)}{i:x}q".translate(LETTERS) for j in range(12))}
            for i in range(3 * keep)]  # fmt: skip
    late.predict(rows[:keep])
    for row in rows[keep:]:
        late.predict([row])
    held, used = (sum(map(len, names.values())) for names in (late._shelf.names, look()))
    assert 4 * keep + 1000 < used <= held <= 2 * used + 1000
    assert 1 <= len(looks) < 5


def test_bytes_are_those_that_rows_take_with_their_words(rng):
    words = rng.choice([*"abcdefghijklmnop"], size=(1000, 8, 9))
    rows = [{"note": " ".join("".join(word) for word in row)} for row in words]
    late = Late(KernelClassifier(columns={"note": "text"}))
    late.predict(rows[:1])
    gc.collect()
    tracemalloc.start()
    late.predict(rows[1:])
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 0.7 * taken < late.nbytes < 1.5 * taken


def test_texts_of_a_string_kernel(rng):
    late = Late(KernelClassifier(kernel=kernels.Spectrum(3)))
    late.predict(["good morning", "bad evening", "good night"])
    late = files.loads(files.dumps(late))
    late.learn(["1", "2"], ["bad", "good"])
    assert late.predict(["good day"]).prediction.tolist() == ["good"]
    assert late.learn(["0"], ["good"]).prediction.tolist() == [None]


def test_names_of_a_frame_are_known_when_it_is_learned(rng):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(rng.normal(size=(20, 2)), columns=["level", "flow"])
    late = Late(Regressor())
    late.predict(frame)
    with pytest.raises(ValueError, match=r"feature names.*\['level', 'flow'\].*\['a', 'b'\]"):
        late.predict(frame.set_axis(["a", "b"], axis=1))
    late.learn(["3"], [1.0])
    assert late.estimator.feature_names_in_.tolist() == ["level", "flow"]


def test_several_targets(rng):
    X = rng.normal(size=(100, 2))
    late = Late(Regressor())
    late.predict(X[:50])
    late.learn([str(i) for i in range(50)], X[:50] * 2)
    said = late.predict(X[50:])
    late = files.loads(files.dumps(late))
    found = late.learn(said.ids, X[50:] * 2)
    assert np.array_equal(found.prediction, said.prediction)
    assert np.array_equal(found.interval, said.interval) and said.interval.shape == (50, 2, 2)


def test_single_precision_and_gaps(rng):
    X = rng.normal(size=(60, 2)).astype(np.float32)
    X[::7, 0] = np.nan
    late = Late(Classifier(missing="mean"))
    late.predict(X)
    assert late._shelf.rows.dtype == np.float32
    late.learn([str(i) for i in range(60)], X[:, 1] > 0)
    model = Classifier(missing="mean").partial_fit(X, X[:, 1] > 0)
    assert files.dumps(late.estimator) == files.dumps(model)


def test_weights_and_a_memory_by_the_clock(rng):
    X, y = stream(rng, "KernelRegressor", 80)
    rule, weight = rules.Norma(memory="60s"), rng.uniform(size=80)
    late, model = Late(KernelRegressor(rule=rule)), KernelRegressor(rule=rule)
    late.predict(X, time=0.0)
    ids, times = [str(i) for i in range(80)], np.arange(80.0)
    with pytest.raises(ValueError, match="goes by the clock: give time="):
        late.learn(ids, y)
    late.learn(ids, y, time=times, sample_weight=weight)
    model.partial_fit(X, y, sample_weight=weight, time=times)
    assert files.dumps(late.estimator) == files.dumps(model)


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda m: m.learn(["999"], ["a"]), "'999'.*never given: 30 rows have come"),
        (lambda m: m.learn(["x"], ["a"]), "'x'.*never given to predict, is answered already"),
        (lambda m: m.learn(["25"], ["a"]), "'25'.*it is answered already[.] Nothing"),
        (lambda m: m.learn(["2"], ["a"]), "'2'.*answered already, or has expired"),
        (lambda m: m.learn(["26", "26"], ["a", "a"]), "'26' .number 1 of this call.*twice"),
        (lambda m: m.learn(["26", "999"], ["a", "a"]), "'999' .number 1"),
        (lambda m: m.learn(["26"], ["a", "b"]), "one value per id; got 2 for 1"),
        (lambda m: m.learn(["26"], [1.5]), "regression|continuous|labels|numbers"),
        (lambda m: m.learn("26", ["a"]), "ids must be a list"),
        (lambda m: m.learn([2.5], ["a"]), "row 0 has 2.5"),
        (lambda m: m.learn(["26"], ["a"], unknown="maybe"), "unknown must be one of"),
        (lambda m: m.predict([[1.0]]), "2 features|expecting 2"),
        (lambda m: m.predict([[1.0, np.nan]]), "NaN"),
        (lambda m: m.predict([[1.0, 2.0]], ids=["a"]), "Give ids= in all calls, or in none"),
        (lambda m: m.predict([[1.0, 2.0]], time="soon"), "time must hold"),
    ],
)  # fmt: skip
def test_a_refused_call_changes_nothing(rng, call, words):
    late = Late(KernelClassifier(), keep=25, ask=0.1)
    X = rng.normal(size=(30, 2))
    late.predict(X)
    late.learn(["25", "24"], ["a", "b"])
    before = files.dumps(late)
    with pytest.raises(ValueError, match=words):
        call(late)
    assert files.dumps(late) == before


def test_own_ids_that_wait_already(rng):
    late = Late(Classifier())
    with pytest.raises(ValueError, match=r"'a' already \(row 2 of this call\)"):
        late.predict(np.zeros((3, 2)), ids=["a", "b", "a"])
    assert files.dumps(late) == files.dumps(Late(Classifier()))
    late.predict(np.zeros((2, 5)), ids=["a", 7])  # five features: the refused call has fixed none
    before = files.dumps(late)
    with pytest.raises(ValueError, match="id '7' already"):
        late.predict(np.zeros((2, 5)), ids=["c", "7"])
    assert files.dumps(late) == before and late.waiting() == ["a", "7"]
    late.learn(["7"], ["x"])
    late.predict(np.zeros((1, 5)), ids=[7])
    assert "7" in late and 7 in late


@pytest.mark.parametrize("flat", [True, False])
def test_the_first_rows_after_a_label_may_be_refused(flat):
    """Those before were predicted blindly, so that a file holds nothing said of them."""
    late, X = Late(LinearRegressor()), np.ones((3, 2))
    late.predict(X, ids=["a", "b", "c"])
    late.learn(["b"], [1.0] if flat else [[1.0]])
    before = files.dumps(late)
    with pytest.raises(ValueError, match="id 'a' already"):
        late.predict(X, ids=["d", "e", "a"])
    assert files.dumps(late) == before
    assert late.learn(["a"], [2.0] if flat else [[2.0]]).prediction.shape == (1,)


def test_labels_of_weight_0_tell_of_no_class():
    late, X = Late(KernelClassifier(), ask=0.5), np.eye(4)
    late.predict(X)
    late.learn(["0", "1"], ["a", "b"], sample_weight=[0, 0])
    said = late.predict(X)
    assert said.prediction.tolist() == [None] * 4 and np.isnan(said.probability).all()
    late.learn(["2", "5", "6"], ["a", "b", "a"])
    told = late.diagnostics_
    assert (told["answered"], told["answered_blind"], told["mistakes"]) == (5, 5, 5)
    assert set(late.predict(X).prediction) <= {"a", "b"}


def test_time_is_needed_and_runs_forward():
    late = Late(Classifier(), within="1h")
    with pytest.raises(ValueError, match=r"within='1h' goes by the clock: give predict time="):
        late.predict([[1.0]])
    late.predict([[1.0]], time=100.0)
    before = files.dumps(late)
    with pytest.raises(ValueError, match="time runs backwards"):
        late.learn(["0"], ["a"], time=50.0)
    with pytest.raises(ValueError, match="give learn time="):
        late.learn(["0"], ["a"])
    assert files.dumps(late) == before


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Late(Detector()), "classifier or a regressor"),
        (lambda: Late(Fleet(Detector())), "classifier or a regressor"),
        (lambda: Late(Classifier), "classifier or a regressor"),
        (lambda: Late(Classifier(), keep=0), "keep must be a whole number"),
        (lambda: Late(Classifier(), within="soon"), "within must be a duration"),
        (lambda: Late(Classifier(), within=30), "within must be a duration"),
        (lambda: Late(Classifier(), ask=1.0), "ask must be a number in"),
        (lambda: Late(LinearRegressor(), ask=0.1), "widest intervals.*has none"),
    ],
)  # fmt: skip
def test_parameters(make, words):
    with pytest.raises((ValueError, TypeError), match=words):
        make()


def test_skipped_labels_are_counted(rng):
    late = Late(Classifier())
    late.predict(rng.normal(size=(3, 2)))
    found = late.learn(["0", "7", "0", "2"], ["a", "b", "c", "d"], unknown="skip")
    assert found.ids == ["0", "2"] and late.diagnostics_["skipped"] == 2
    assert late.estimator.t_ == 2 and late.estimator.classes_.tolist() == ["a", "d"]
    assert late.learn(["9"], ["a"], unknown="skip").ids == []


@pytest.mark.parametrize("kind", KINDS)
def test_calls_without_rows(rng, kind):
    """Before anything is learned, and after."""
    X, y = stream(rng, kind, 20)
    late = Late(fresh(kind))
    for _ in range(2):
        assert late.predict(X[:0]).ids == [] and late.learn([], y[:0]).ids == []
        late.learn(late.predict(X).ids, y)
    assert late.diagnostics_["answered"] == 40


def test_nothing_at_all():
    late = Late(Classifier())
    assert late.diagnostics_["waiting"] == 0 and late.diagnostics_["mistake_rate"] is None
    assert files.loads(files.dumps(late)).waiting() == []
    assert "Late(Classifier()" in repr(late)


# -- files -----------------------------------------------------------------------------------------


def test_save_and_load(rng, tmp_path):
    late = Late(Regressor(), keep=500, within="30d", ask=0.1)
    late.predict(rng.normal(size=(40, 2)), time=0.0)
    late.save(tmp_path / "late.model")
    again = onkel.load(tmp_path / "late.model")
    assert repr(again) == repr(late) and again.clock == 0.0


def test_a_file_that_was_forged(rng):
    from onkel.files import container, model

    late = Late(KernelClassifier(), keep=50, ask=0.1)
    late.predict(rng.normal(size=(30, 2)))
    late.learn(["3", "4"], ["a", "b"])
    late.predict(rng.normal(size=(5, 2)))
    whole, tensors = model.describe(late)
    wrong = {
        "late.waiting.number": tensors["late.waiting.number"][::-1].copy(),
        "late.waiting.ends": tensors["late.waiting.ends"] * 2,
        "late.waiting.letters": np.full_like(tensors["late.waiting.letters"], 255),
        "late.waiting.said": tensors["late.waiting.said"] + 9,
        "late.shelf.rows": tensors["late.shelf.rows"][:, :1].copy(),
        "late.shelf.told": tensors["late.shelf.told"][1:].copy(),
        "late.waiting.time": np.full_like(tensors["late.waiting.time"], np.inf),
        "late.asking.recent.values": np.full(3, np.nan),
    }
    for name, tensor in wrong.items():
        assert name in tensors
        data = b"".join(container.pack(whole, {**tensors, name: tensor}))
        with pytest.raises(ValueError, match="cannot load this model"):
            files.loads(data)
    twice = np.zeros_like(tensors["late.waiting.letters"]) + ord("1")
    with pytest.raises(ValueError, match="distinct ids"):
        files.loads(b"".join(container.pack(whole, {**tensors, "late.waiting.letters": twice})))
    assert files.dumps(files.loads(b"".join(container.pack(whole, tensors)))) == files.dumps(late)


def test_threads_that_predict_while_others_learn(rng):
    late, X = Late(KernelClassifier()), rng.normal(size=(200, 2))
    first = late.predict(X).ids
    errors = []

    def learn():
        try:
            for id, row in zip(first, X, strict=True):
                late.learn([id], [bool(row[0] > 0)])
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=learn)
    thread.start()
    for _ in range(50):
        late.predict(X[:4])
    thread.join()
    assert not errors and late.diagnostics_["answered"] == 200 and len(late) == 200
