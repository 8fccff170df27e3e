"""Answers in a replay: promised precisions, what each setting heard, and the faults it misses."""

from __future__ import annotations

import contextlib
import json
import signal

import numpy as np
import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from helpers.runs_of import command, json_lines, onkel, write_rows
from helpers.sizes import size

from onkel import Detector
from onkel.alerting import Incident
from onkel.app.replay.alerts import Alert, Mark
from onkel.app.replay.compare import Outcome, described
from onkel.app.replay.heard import Heard, Known
from onkel.app.run.inbox import Inbox

ROWS = size(2000, 3000)
HALF = ROWS // 2
KEYS = ["a", "b", "c"]


def rows_of(rng):
    """Return rows with spikes of one column that mean nothing, and of another that are faults."""
    X = rng.normal(size=(ROWS, 3))
    for start in range(400, ROWS, 60):
        X[start : start + 2, 1] += rng.uniform(4, 7)
    for start in range(430, ROWS, 100):
        X[start : start + 3, 0] -= rng.uniform(3, 7)
    return X


def is_fault(row):
    return row >= 430 and (row - 430) % 100 < 3


def answers_to(lines):
    """Return what somebody would say of alerts; of every fifth nothing."""
    said = {}
    for i, line in enumerate(lines):
        if i % 5:
            said[line["alert_id"]] = "fault" if is_fault(line["row"]) else "usual"
    return said


def feedback(folder, said):
    for kind in ("usual", "fault"):
        ids = [id for id, answer in said.items() if answer == kind]
        done = onkel("feedback", folder / "s", *ids, kind) if ids else None
        assert done is None or done.exit_code == 0, done.output


class Run:
    """A run that was answered in between, and after its end."""

    def __init__(self, folder, X, *words, keys=None):
        self.folder, self.X = folder, X
        more = {} if keys is None else {"who": keys}
        whole = write_rows(folder / "whole.csv", X, **more).read_text().splitlines(keepends=True)
        self.path, self.words = folder / "rows.csv", words
        self.path.write_text("".join(whole[: HALF + 1]))
        self.summary = self.goes_on()
        self.first = answers_to(self.lines)
        feedback(folder, self.first)
        self.path.write_text("".join(whole))
        self.summary = self.goes_on()
        late = [line for line in self.lines if line["row"] >= HALF]
        self.late = answers_to(late)

    @property
    def state(self):
        return self.folder / "s"

    @property
    def lines(self):
        return json_lines(self.folder / "out")

    def goes_on(self):
        done = onkel(
            "detect", self.path, "--state", self.folder / "s", "-o", self.folder / "out", "--json",
            "--numbers", "double", *self.words,
        )  # fmt: skip
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


def told_of(state, *words) -> dict:
    done = onkel("replay", state, *words, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def in_plain_calls(X, said, late=(), **settings):
    """Return the alerts of a detector that is told answers at one row, and what it heard."""
    det = Detector(missing="mean", **settings)
    alerts, heard = [], {}
    for part, told in ((slice(0, HALF), said), (slice(HALF, ROWS), late)):
        judged = det.predict_then_learn(X[part], output="judgement")
        alerts += (np.flatnonzero(judged[:, 2]) + part.start).tolist()
        for id, answer in dict(told).items():
            if id in {a["id"] for a in det.alerts_}:
                det.feedback(id, answer)
                heard[id] = answer
    return alerts, heard, det.diagnostics_


SETTINGS = {
    "precision=0.8": {"nu": 0.03, "precision": 0.8},
    "precision=0.5": {"nu": 0.03, "precision": 0.5},
    "nu=none,precision=0.8": {"nu": None, "precision": 0.8},
    "nu=0.005,precision=0.8": {"nu": 0.005, "precision": 0.8},
    "nu=0.005": {"nu": 0.005},
    "precision=0.8,memory-of-feedback=300": {
        "nu": 0.03, "precision": 0.8, "memory_of_feedback": 300.0},
    "alerts-kept=10,precision=0.8": {"nu": 0.03, "precision": 0.8, "alerts_kept": 10},
}  # fmt: skip


@pytest.mark.parametrize("waiting", size([True], [False, True]))
def test_each_setting_hears_the_answers_where_it_has_the_alerts(rng, tmp_path, waiting) -> None:
    X = rows_of(rng)
    run = Run(tmp_path, X, "--nu", 0.03)
    late = run.late if waiting else {}
    if waiting:
        feedback(tmp_path, late)
    sets = [word for text in SETTINGS for word in ("--set", text)]
    found = told_of(run.state, *sets)
    assert found["output"] == "same"
    own, *others = found["settings"]
    was, heard, _ = in_plain_calls(X, run.first, late, nu=0.03)
    assert was == [line["row"] for line in run.lines]
    said = {**run.first, **late}
    assert heard == said and own["answers_heard"] == len(said) > 20
    faults = [int(id) for id, answer in said.items() if answer == "fault"]
    realised = set()
    for one, settings in zip(others, SETTINGS.values(), strict=True):
        alerts, heard, told = in_plain_calls(X, run.first, late, **settings)
        assert one["alerts"] == len(alerts) and one["answers_heard"] == len(heard)
        assert one["still"] == len({*was} & {*alerts})
        assert one["precision_promised"] == settings.get("precision")
        dismissed = list(heard.values()).count("usual")
        assert one["precision_realised"] == pytest.approx(1 - dismissed / len(heard))
        assert told["alerts_answered"] == len(heard) and told["alerts_dismissed"] == dismissed
        shown = {id: answer for id, answer in said.items() if int(id) in alerts}
        for kind in ("usual", "fault"):
            count, of = (list(some.values()).count(kind) for some in (shown, said))
            assert one["answered"][kind] == {"of": of, "shown": count, "share": count / of}
        assert one["precision_shown"] == pytest.approx(
            list(shown.values()).count("fault") / len(shown)
        )
        missed = sorted({*faults} - {*alerts})
        assert one["faults_missed"] == len(missed)
        assert sorted(a["row"] for a in one["first_missed"]) == missed[:10] or len(missed) > 10
        realised.add(one["precision_realised"])
    assert len(realised) > 2
    assert any(one["faults_missed"] for one in others)
    assert bool(found["notes"]) == waiting


def test_with_keys_each_keys_level_follows_its_own_answers(rng, tmp_path) -> None:
    X, keys = rows_of(rng), [KEYS[i] for i in rng.integers(0, 3, ROWS)]
    run = Run(tmp_path, X, "--key", "who", "--nu", size(0.1, 0.04), keys=keys)
    found = told_of(run.state, "--precision", 0.7, "--nu", 0.02, "--nu", "none")
    own, with_nu, alone = found["settings"]
    assert found["output"] == "same" and own["answers_heard"] == len(run.first) > 20
    assert [with_nu["name"], alone["name"]] == ["nu 0.02, precision 0.7", "nu none, precision 0.7"]
    assert alone["rate_promised"] is None and with_nu["changed"] == {"nu": 0.02, "precision": 0.7}
    for one, nu in ((with_nu, 0.02), (alone, None)):
        count, heard = 0, {}
        for key in KEYS:
            at = np.flatnonzero(np.array(keys) == key)
            det = Detector(nu=nu, precision=0.7, missing="mean")
            half = int(np.searchsorted(at, HALF))
            count += int(det.predict_then_learn(X[at[:half]], output="judgement")[:, 2].sum())
            known = {f"{key}:{a['id']}" for a in det.alerts_}
            for id in [id for id in run.first if id in known]:
                det.feedback(id.split(":")[1], run.first[id])
                heard[id] = run.first[id]
            count += int(det.predict_then_learn(X[at[half:]], output="judgement")[:, 2].sum())
        assert one["alerts"] == count and one["answers_heard"] == len(heard)
        assert one["precision_realised"] == pytest.approx(
            list(heard.values()).count("fault") / len(heard)
        )
    some = told_of(run.state, "--precision", 0.7, "--key", "b")["settings"]
    mine = {id: answer for id, answer in run.first.items() if id.startswith("b:")}
    assert some[0]["answers_heard"] == len(mine) and some[0]["answered"]["usual"]["of"] == (
        list(mine.values()).count("usual")
    )


def test_a_precision_of_the_run_can_be_taken_back(rng, tmp_path) -> None:
    X = rows_of(rng)
    run = Run(tmp_path, X, "--nu", "none", "--precision", 0.6)
    assert run.summary["precision_realised"] is not None
    found = told_of(run.state, "--set", "nu=0.03,precision=default", "--set", "precision=0.9")
    own, back, more = found["settings"]
    assert found["output"] == "same"
    assert own["answers_heard"] == run.summary["alerts_answered"]
    realised = run.summary["precision_realised"]
    assert own["precision_realised"] == realised
    assert own["precision_promised"] == 0.6 and own["rate_promised"] is None
    alerts, heard, _ = in_plain_calls(X, run.first, nu=0.03)
    assert back["alerts"] == len(alerts) and back["precision_promised"] is None
    assert back["answers_heard"] == len(heard) and back["changed"]["precision"] is None
    assert back["name"] == "nu 0.03, precision default"
    alerts, _, _ = in_plain_calls(X, run.first, nu=None, precision=0.9)
    assert more["alerts"] == len(alerts)
    for words in (["--set", "precision=default"], ["--model", "kernel"]):
        done = onkel("replay", run.state, *words)
        assert done.exit_code == 2
    assert "take back what goes with answers, in the same --set: precision=default,nu=default" in (
        " ".join(done.stderr.split())
    )
    kernel = told_of(run.state, "--set", "model=kernel,precision=default,nu=default")["settings"][1]
    assert kernel["answers_heard"] == 0 and kernel["precision_realised"] is None
    assert kernel["answered"]["usual"]["of"] == own["answered"]["usual"]["of"]


def test_without_answers_a_precision_changes_where_the_level_starts(rng, tmp_path) -> None:
    X = rows_of(rng)
    path = write_rows(tmp_path / "r.csv", X)
    words = ["detect", path, "--state", tmp_path / "s", "-o", tmp_path / "out", "--nu", 0.03]
    assert onkel(*words).exit_code == 0
    found = told_of(tmp_path / "s", "--precision", 0.5, "--precision", 0.9, "--set", "nu=0.02")
    own, half, most, other = found["settings"]
    assert half["alerts"] == most["alerts"] <= own["alerts"] and "answered" not in own
    assert [one["answers_heard"] for one in (own, half, other)] == [0, 0, 0]
    assert half["precision_promised"] == 0.5 and half["precision_realised"] is None
    (note,) = found["notes"]
    assert note.startswith("Nobody has answered an alert of this run yet.")
    assert "nothing but where the level starts" in note
    said = onkel("replay", tmp_path / "s", "--precision", 0.5).stdout
    assert note in " ".join(said.split()) and "promised" in said
    first, second = (line["alert_id"] for line in json_lines(tmp_path / "out")[:2])
    for id, answer in ((first, "usual"), (second, "fault"), (first, "fault")):
        assert onkel("feedback", tmp_path / "s", id, answer).exit_code == 0
    found = told_of(tmp_path / "s", "--precision", 0.5)
    assert found["settings"][0]["answers_heard"] == 2  # who changed their mind counts once
    assert found["settings"][0]["precision_realised"] == 1.0
    assert "All answers came after the last row" in found["notes"][0]
    assert "where the level starts" in found["notes"][1]


@pytest.mark.long  # answers of a run that was not killed are heard in quick runs
def test_answers_of_a_killed_run_are_heard_as_far_as_it_came(rng, tmp_path) -> None:
    X = rows_of(rng)
    path, out, state = tmp_path / "rows.csv", tmp_path / "out", tmp_path / "s"
    whole = write_rows(tmp_path / "whole.csv", X).read_text().splitlines(keepends=True)
    path.write_text("".join(whole[: HALF + 1]))
    words = ["detect", path, "--state", state, "-o", out, "--nu", 0.03, "--numbers", "double",
             "--every", 0, "--block", size(128, 64)]  # fmt: skip
    assert onkel(*words).exit_code == 0
    said = answers_to(json_lines(out))
    feedback(tmp_path, said)
    path.write_text("".join(whole))
    for dies, early in (("before-commit:1", False), ("before-commit:5", True)):
        assert command(*words, dies=dies).returncode == -signal.SIGKILL
        found = told_of(state, "--precision", 0.7)
        assert found["output"] == "same" and found["rows"] < ROWS
        assert found["settings"][0]["answers_heard"] == len(said)
        assert bool(found["notes"]) == (not early)
    assert onkel(*words).exit_code == 0
    found = told_of(state, "--precision", 0.7)
    alerts, heard, _ = in_plain_calls(X, said, nu=0.03, precision=0.7)
    assert found["output"] == "same" and found["rows"] == ROWS and not found["notes"]
    assert found["settings"][1]["alerts"] == len(alerts)
    assert found["settings"][1]["answers_heard"] == len(heard)


def test_answers_that_fit_no_alert_are_told_and_ids_are_numbers(rng, tmp_path) -> None:
    path = write_rows(tmp_path / "r.csv", rows_of(rng))
    words = ["detect", path, "--state", tmp_path / "s", "-o", tmp_path / "out", "--nu", 0.03]
    assert onkel(*words, "--alerts-kept", 5).exit_code == 0
    rows = [line["row"] for line in json_lines(tmp_path / "out")]
    with contextlib.closing(Inbox(tmp_path / "s")) as inbox:
        wrong = [(str(rows[0]), "fault"), ("x", "fault")]
        inbox.put([*wrong, (f"00{rows[-1]}", "usual"), *wrong])
    found = told_of(tmp_path / "s")
    (one,) = found["settings"]
    assert one["answers_heard"] == 1
    assert one["answered"] == {
        "usual": {"of": 1, "shown": 1, "share": 1.0}, "fault": {"of": 0, "shown": 0, "share": None}
    }  # fmt: skip
    assert found["notes"][0] == (
        f"2 answers are left out: {rows[0]} fault: there is no alert {rows[0]}: the last 5 alerts "
        f"can be answered, and it is older or was none. The oldest is {rows[-5]}, the newest "
        f"{rows[-1]}; x fault: the id of an alert is a number, such as '1234'; got 'x'."
    )
    with contextlib.closing(Inbox(tmp_path / "s")) as inbox:
        inbox.put([(name, "usual") for name in ("y", "z", "w")])
    note = told_of(tmp_path / "s")["notes"][0]
    assert note.startswith("5 answers are left out: ") and note.endswith("; and 2 more.")
    assert [note.count(f"got {name!r}") for name in "xyzw"] == [1, 1, 0, 0]


def test_since_leaves_out_answers_to_what_was_before(rng, tmp_path) -> None:
    X = rows_of(rng)
    run = Run(tmp_path, X, "--nu", 0.03)
    start = HALF - 400
    found = told_of(run.state, "--nu", 0.002, "--since", start)
    mine = [answer for id, answer in run.first.items() if int(id) >= start]
    own, one = found["settings"]
    for kind in ("usual", "fault"):
        assert own["answered"][kind]["of"] == own["answered"][kind]["shown"] == mine.count(kind)
        assert one["answered"][kind]["of"] == mine.count(kind) > 0
    assert own["answers_heard"] == len(run.first) > len(mine)
    assert all(alert["row"] >= start for alert in one["first_missed"])


def test_the_terminal_names_the_missed_faults_first(rng, tmp_path) -> None:
    X = rows_of(rng)
    run = Run(tmp_path, X, "--nu", 0.03)
    words = ["--set", "memory=100,nu=0.001,window=20", "--set", "nu=0.02"]
    one = told_of(run.state, *words)["settings"][1]
    assert one["faults_missed"] > 3
    done = onkel("replay", run.state, *words)
    head = f"{one['name']}: FAULTS MISSED, "
    at = done.stdout.index(head)
    assert at < done.stdout.index("gone, ")
    lines = [line for line in done.stdout[at:].splitlines() if line.startswith("  row")]
    lines = lines[: len(one["first_missed"])]
    for line, alert in zip(lines, one["first_missed"], strict=True):
        assert line.startswith(f"  row {alert['row']:,}")
        beside = "nothing comes" if alert["beside"] is None else f"row {alert['beside']:,} comes"
        assert beside in line
    table = [line for line in done.stdout.splitlines() if line.startswith(one["name"])][1]
    assert f"{one['answered']['fault']['shown']} of {one['answered']['fault']['of']}" in table
    assert max(map(len, done.stdout.splitlines()[1:])) <= 105


# -- parts -----------------------------------------------------------------------------------------


def alert(row, incident=None, key=None):
    return Alert(row, row, -9.0, -4.0, key=key, incident=incident)


def test_missed_faults_by_hand() -> None:
    was = [alert(1, 1), alert(3, 1), alert(50, 2), alert(70, 3), alert(71, 3)]
    incidents = [Incident(1, start=1, end=3), Incident(2, start=50, end=50),
                 Incident(3, start=70, end=71)]  # fmt: skip
    said = {"1": "fault", "3": "usual", "50": "fault", "71": "fault"}
    answers = {Mark(id): answer for id, answer in said.items()}
    known = Known.of(was, incidents, answers)
    missed = known.missed([alert(3), alert(71), alert(90)])
    assert [(a["row"], a["beside"]) for a in missed] == [(50, None), (1, 3)]
    told = known.told([alert(3), alert(71), alert(90)])
    assert told["answered"] == {
        "usual": {"of": 1, "shown": 1, "share": 1.0},
        "fault": {"of": 3, "shown": 1, "share": 1 / 3},
    }  # fmt: skip
    assert told["precision_shown"] == 0.5
    assert (told["faults_missed"], told["faults_missed_altogether"]) == (2, 1)
    more = Known.of(
        was, incidents, {**answers, Mark("999"): "fault"}
    )  # not even the run's own shows it
    assert more.missed([alert(3), alert(71)])[0] == {"id": "999", "beside": None}
    assert more.told([alert(3)])["answered"]["fault"] == {"of": 4, "shown": 0, "share": 0.0}


def test_of_many_keys_an_alert_of_another_one_is_beside() -> None:
    was = [alert(5, 1, "a"), alert(6, 1, "b")]
    known = Known.of(
        was, [Incident(1, start=5, end=6, keys={"a": 1, "b": 1})], {Mark("a:5"): "fault"}
    )
    assert [a["beside"] for a in known.missed([alert(6, None, "b")])] == [6]
    assert [a["beside"] for a in known.missed([alert(6, None, "c")])] == [None]


def test_who_brings_no_answers_is_told_of_none() -> None:
    """The service hands outcomes over as it always did."""
    outcomes = [Outcome("was", {}, 0.01, 10, 0, [alert(3)]), Outcome("x", {}, 0.1, 10, 0, [])]
    found = described(outcomes, 20)
    assert not any("answer" in name or "precision" in name for one in found for name in one)
    heard = Outcome("was", {}, 0.01, 10, 0, [alert(3)], heard=Heard({Mark("3"): "fault"}))
    assert described([heard, outcomes[1]], 20, {Mark("3"): "fault"})[1]["faults_missed"] == 1
