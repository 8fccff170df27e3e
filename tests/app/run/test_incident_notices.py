"""Incidents of a run, delivered: when they open and when they are over, whoever is killed."""

from __future__ import annotations

import gzip
import itertools
import json
import time

import numpy as np
import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
from helpers.receiver import Receiver
from helpers.runs_of import begin, carry_out, command, json_lines, onkel, write_rows
from helpers.sizes import size

from onkel.app.notify.messages import INCIDENT, Message, body_of, incident_of

ROWS = 2400
KINDS = {
    "rows": ["--ignore", "unit"],
    "keys": ["--key", "unit", "--warmup", 40, "--incident-gap", 4],
}
POINTS = ["output", "before-commit", "after-commit"]
DEATHS = [*itertools.product(KINDS, POINTS), ("rows", "model")]
"""What dies where; the models of keys are not written one by one."""


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    """Six units; single rows that are far away, a fault of one unit, then one of all."""
    rng = np.random.default_rng(17)
    X = rng.normal(size=(ROWS, 3))
    X[rng.choice(np.arange(600, ROWS), 12, replace=False)] += 9.0
    X[np.arange(ROWS) % 6 == 2, 1] += 8.0 * ((np.arange(400) > 230) & (np.arange(400) < 250))
    X[2000:2025, 0] -= 9.0
    X[-2:] += 15.0
    units = [f"u{i % 6}" for i in range(ROWS)]
    return write_rows(tmp_path_factory.mktemp("rows") / "stream.csv", X, unit=units)


def words_of(stream, folder, kind, *more):
    out = ["-o", folder / "out", "--incidents", folder / "inc"]
    return ["detect", stream, *out, *KINDS[kind], "--notify-what", "incidents", *more]


def told(folder):
    return json_lines(folder / "inc")


def once(bodies):
    """Return messages without those that came before: what a receiver does by their ids."""
    return [*{body["id"]: body for body in bodies}.values()]


def facts(body):
    """Return what a message says of its incident."""
    about = ("id", "kind", "source", "seen", "incident_id")
    return {name: value for name, value in body.items() if name not in about}


def check(bodies, folder) -> None:
    """Messages are what the file tells, in its order; ids are what they should be."""
    wanted = told(folder)
    assert [facts(body) for body in bodies] == [
        {name: value for name, value in one.items() if value is not None} for one in wanted
    ]
    assert {one["state"] for one in wanted} >= {"opened", "closed"} and len(wanted) > 15
    assert len({body["id"] for body in bodies}) == len(bodies)
    numbers = {(body["incident_id"], body["incident"]) for body in bodies}
    assert len(numbers) == len({n for n, _ in numbers}) == len({n for _, n in numbers})


@pytest.mark.few
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("durable", [False, True])
def test_what_is_sent_is_what_the_file_tells(stream, tmp_path, kind, durable) -> None:
    more = ["--state", tmp_path / "s", "--every", 0, "--block", 256] if durable else []
    with Receiver() as receiver:
        done = onkel(*words_of(stream, tmp_path, kind, "--notify", receiver.url, "--json", *more))
    assert done.exit_code == 0, done.output
    check(receiver.bodies, tmp_path)
    assert all(b["kind"] == "incident" and b["source"] == "stream.csv" for b in receiver.bodies)
    states = [body["state"] for body in receiver.bodies]
    assert ("joined" in states) == (kind == "keys")
    assert ("unfinished" in states) == (not durable)  # the last rows are alerts
    summary = json.loads(done.stdout)
    assert summary["messages"] == {"incident": len(states)}
    assert summary["deliveries"]["webhook"]["delivered"] == len(states)


def line_of(bodies):
    return [(b["kind"], b.get("state"), b.get("row", b["incident"])) for b in bodies]


@pytest.mark.parametrize("kind", KINDS)
def test_both_come_in_one_order_whatever_the_blocks(stream, tmp_path, kind) -> None:
    """An incident is told of before its first alert, and its end after its last."""
    lines = []
    for block in size((100, 16384), (64, 100, 16384)):
        with Receiver() as receiver:
            words = words_of(stream, tmp_path, kind, "--notify", receiver.url, "--block", block)
            assert onkel(*words, "--notify-what", "both").exit_code == 0
        lines.append(line_of(receiver.bodies))
    assert all(line == lines[0] for line in lines)
    told_of, alerts = {}, json_lines(tmp_path / "out")
    for body in receiver.bodies:
        if body["kind"] == "alert":
            assert told_of[body["incident"]] == "opened"
        elif told_of.get(body["incident"]) != "joined":
            told_of[body["incident"]] = body["state"]
    rows = [body["row"] for body in receiver.bodies if body["kind"] == "alert"]
    assert rows == [line["row"] for line in alerts]
    assert [b["incident"] for b in receiver.bodies if b["kind"] == "alert"] == [
        line["incident"] for line in alerts
    ]


def test_alerts_alone_are_sent_unless_asked_for(stream, tmp_path) -> None:
    with Receiver() as receiver:
        words = words_of(stream, tmp_path, "rows", "--notify", receiver.url, "--cool-down", 50)
        assert onkel(*words, "--notify-what", "alerts").exit_code == 0
        first = line_of(receiver.bodies)
        words = [word for word in words if word not in ("--notify-what", "incidents")]
        assert onkel(*words).exit_code == 0
    assert line_of(receiver.bodies) == first * 2 and {kind for kind, _, _ in first} == {"alert"}
    shown = json_lines(tmp_path / "out")
    assert len(first) > len(shown) > 5  # those that are held back are sent


# -- who dies ----------------------------------------------------------------------------------


@pytest.mark.long  # in quick runs one that sends alerts is killed
@pytest.mark.parametrize(("kind", "point"), DEATHS)
def test_a_run_that_is_killed_loses_nothing(stream, tmp_path, kind, point) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    how = ["--every", 0, "--block", 128]
    with Receiver([503] * 2) as receiver:
        words = words_of(stream, tmp_path / "cut", kind, "--state", tmp_path / "cut" / "s", *how,
                         "--notify", receiver.url)  # fmt: skip
        for count in (3, 4, 2, 4):
            assert command(*words, dies=f"{point}:{count}").returncode == -9
        done = carry_out(*words)
        assert done.returncode == 0, done.stderr
    check(once(receiver.bodies), tmp_path / "cut")
    with Receiver() as whole:
        words = words_of(stream, tmp_path / "whole", kind, "--state", tmp_path / "whole" / "s",
                         *how, "--notify", whole.url)  # fmt: skip
        done = onkel(*words)
    assert done.exit_code == 0, done.output
    assert [*map(facts, once(receiver.bodies))] == [*map(facts, whole.bodies)]
    by_id = {}
    for body in receiver.bodies:  # the same id, the same thing
        same = {**body, "seen": None}
        assert by_id.setdefault(body["id"], same) == same


def test_a_receiver_that_dies_in_the_midst_loses_nothing(stream, tmp_path) -> None:
    first = Receiver()
    with first:
        process = begin(*words_of(stream, tmp_path, "rows", "--state", tmp_path / "s", "--every",
                                  0, "--block", 64, "--notify", first.url, "-q",
                                  "--notify-wait", 20))  # fmt: skip
        stop = time.monotonic() + 60
        while len(first.got) < 3 and time.monotonic() < stop:
            time.sleep(0.005)
    assert first.got and process.poll() is None
    time.sleep(0.2)  # it is not there, and attempts fail
    with Receiver(port=first.port) as second:
        assert process.wait(60) == 0
    check(once([*first.bodies, *second.bodies]), tmp_path)


def test_an_incident_that_is_open_at_the_end_is_ended_by_the_next_run(stream, tmp_path) -> None:
    """It was told to open before, and is told to close once, by the same id."""
    text = stream.read_text().splitlines(keepends=True)
    path, got = tmp_path / "stream.csv", []
    for end in (2010, ROWS - 1, ROWS):  # within the fault of all
        path.write_text("".join(text[: end + 1]))
        with Receiver() as receiver:
            words = words_of(path, tmp_path, "rows", "--state", tmp_path / "s")
            done = onkel(*words, "--notify", receiver.url, "--json")
        assert done.exit_code == 0, done.output
        got.append(receiver.bodies)
    check([body for part in got for body in part], tmp_path)
    last = got[0][-1]
    assert last["state"] == "opened" and json.loads(done.stdout)["incidents_open"] == 1
    (end,) = [b for b in got[1] if b["incident_id"] == last["incident_id"]]
    assert end["state"] == "closed" and end["id"] != last["id"] and end["alerts"] > 10


def test_a_source_that_breaks_off_leaves_none_open(rng, tmp_path) -> None:
    X = rng.normal(size=(ROWS, 2))
    X[600:700:50] += 9.0
    X[1200::5] += 20.0 * rng.normal(size=X[1200::5].shape)  # to the end
    whole = gzip.compress(write_rows(tmp_path / "all.csv", X, unit=["u"] * ROWS).read_bytes(), 1)
    path = tmp_path / "stream.csv.gz"
    path.write_bytes(whole[: len(whole) * 3 // 4])
    with Receiver() as receiver:
        words = words_of(path, tmp_path, "rows", "--notify", receiver.url, "--block", 64)
        assert onkel(*words).exit_code == 3
    last = {body["incident"]: body["state"] for body in receiver.bodies}
    assert set(last.values()) == {"closed", "unfinished"}
    assert [facts(body)["state"] for body in receiver.bodies] == [
        o["state"] for o in told(tmp_path)
    ]


# -- commands, Alertmanager, words -------------------------------------------------------------


def test_a_command_finds_it_in_its_environment(stream, tmp_path) -> None:
    say = 'echo "$ONKEL_KIND $ONKEL_INCIDENT $ONKEL_STATE $ONKEL_ALERTS $ONKEL_WORDS"'
    words = words_of(stream, tmp_path, "rows", "--notify-command",
                     f"sh -c 'cat > /dev/null; {say} >> {tmp_path}/got'")  # fmt: skip
    done = onkel(*words)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "got").read_text().splitlines() == [
        f"incident {one['incident']} {one['state']} {one['alerts']} {one['words']}"
        for one in told(tmp_path)
    ]


def test_alertmanager_knows_an_incident_by_its_own_id(stream, tmp_path) -> None:
    with Receiver() as receiver:
        done = onkel(*words_of(stream, tmp_path, "keys", "--notify", receiver.url,
                               "--notify-format", "alertmanager"))  # fmt: skip
    assert done.exit_code == 0, done.output
    alerts = [alert for (alert,) in receiver.bodies]
    assert len(alerts) == len(told(tmp_path))
    labels = {}
    for alert, one in zip(alerts, told(tmp_path), strict=True):
        known = labels.setdefault(one["incident"], alert["labels"])
        assert known == alert["labels"]  # one alert there, from its opening to its end
        assert known["alertname"] == "onkel_incident" and known["source"] == "stream.csv"
        assert known["incident"] == str(one["incident"]) and known.get("key") == one.get("key")
        assert alert["annotations"]["state"] == one["state"]
        assert alert["annotations"]["summary"] == one["words"]
        assert (alert["endsAt"] > alert["startsAt"]) == (one["state"] == "opened")
    assert len({label["incident_id"] for label in labels.values()}) == len(labels)


def test_an_id_is_of_the_run_the_incident_and_its_state() -> None:
    ids = {
        incident_of(run, "x", name, 0.0, {"incident": 1, "state": state}).id
        for run in ("a", "b")
        for name in ("1", "2")
        for state in ("opened", "closed")
    }
    assert len(ids) == 8
    one, again = (
        incident_of("a", "x", "1", seen, {"incident": 1, "state": "opened", "peak_p": float("nan"),
                                          "features": [{"name": "a", "spreads": float("inf")}]})
        for seen in (0.0, 9.0)
    )  # fmt: skip
    assert one.id == again.id and one.kind == INCIDENT and Message.from_text(one.to_text()) == one
    assert json.loads(body_of(one, "json"))["features"] == [{"name": "a", "spreads": None}]


def test_it_may_stand_in_a_file_of_settings(stream, tmp_path) -> None:
    with Receiver() as receiver:
        config = tmp_path / "run.toml"
        config.write_text(f'notify = "{receiver.url}"\nnotify-what = "both"\n')
        words = ["detect", stream, "--ignore", "unit", "-o", tmp_path / "out", "--config", config]
        done = onkel(*words, "--json")
    assert done.exit_code == 0, done.output
    made = json.loads(done.stdout)["messages"]
    assert made["alert"] == len(json_lines(tmp_path / "out")) and made["incident"] > 10
    assert sum(made.values()) == len(receiver.bodies)


def test_what_is_not_delivered_is_called_a_message(stream, tmp_path) -> None:
    with Receiver() as receiver:
        url = receiver.url
    done = onkel(*words_of(stream, tmp_path, "rows", "--notify", url, "--notify-wait", 0))
    count = len(told(tmp_path))
    assert done.exit_code == 7 and f"{count} messages were not delivered" in done.stderr
    folder = tmp_path / "kept"
    folder.mkdir()
    words = words_of(stream, folder, "rows", "--state", folder / "s", "--notify", url)
    assert onkel(*words, "--notify-wait", 0).exit_code == 7
    words.remove("--notify-what"), words.remove("incidents")
    done = onkel(
        *words, "--notify-give-up", "1ms", "--notify-wait", 2
    )  # what waits is of incidents
    count = len(json_lines(folder / "s" / "undelivered.jsonl"))
    assert done.exit_code == 7 and f"{count} messages were lost" in done.stderr


def test_it_goes_with_a_target(stream, tmp_path) -> None:
    done = onkel(*words_of(stream, tmp_path, "rows"))
    assert done.exit_code == 2 and "--notify-what goes with --notify URL" in done.stderr


# -- runs that deliver nothing -----------------------------------------------------------------


def in_parts(stream, path, ends):
    """Let a file grow up to each of these rows, the first hundred once more behind the last."""
    head, *rows = stream.read_text().splitlines(keepends=True)
    rows += rows[:100]
    for end in ends:
        path.write_text("".join([head, *rows[:end]]))
        yield path


def wanted_of(told, delivers, opened):
    """Return which messages are due of what a run has told, by hand; `opened` goes on."""
    found, before = [], told[0]
    if delivers:
        over = {one["incident"] for one in before if one["state"] != "opened"}
        late = {one["incident"] for one in before} - over - opened
        found += [(number, "opened") for number in sorted(late)]
        opened |= late
    for one in told[1]:
        number, state = one["incident"], one["state"]
        if state == "opened" and delivers:
            opened.add(number)
            found.append((number, state))
        elif state != "opened" and number in opened:
            opened.remove(number)
            found.append((number, state))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_what_opened_is_ended_though_a_run_in_between_delivers_nothing(
    stream, tmp_path, kind
) -> None:
    """And nothing is ended that was not told to open; what goes on is told by the last run."""
    deliveries, ends = [True, False, False, True], [2010, 2200, ROWS, ROWS + 100]
    wanted, opened, before, waits = [], set(), [], 0
    with Receiver() as receiver:
        parts = in_parts(stream, tmp_path / "stream.csv", ends)
        for path, delivers in zip(parts, deliveries, strict=True):
            words = words_of(path, tmp_path, kind, "--state", tmp_path / "s")
            if not delivers:
                words = [word for word in words if word not in ("--notify-what", "incidents")]
            else:
                words += ["--notify", receiver.url]
            done = onkel(*words)
            after = told(tmp_path)
            due = wanted_of((before, after[len(before) :]), delivers, opened)
            before, wanted, waits = after, wanted + due, 0 if delivers else waits + len(due)
            assert done.exit_code == (7 if waits else 0), done.output
            assert not waits or f"{waits} message{'s' * (waits > 1)} wait" in done.stderr
    got = [(body["incident"], body["state"]) for body in receiver.bodies]
    assert got == wanted
    assert len({body["id"] for body in receiver.bodies}) == len(got)
    silent = {one["incident"] for one in before} - {number for number, _ in got}
    assert silent and got[-1][1] == "closed" and not opened
    again = {number for number, state in got if state == "opened"}
    assert len(again) == sum(state == "opened" for _, state in got)


def test_each_target_hears_the_end_of_what_it_was_told(stream, tmp_path) -> None:
    """One that comes later is told what is open then; one that is not there finds it later."""
    script = f"sh -c 'cat >> {tmp_path}/got; echo >> {tmp_path}/got'"
    (tmp_path / "got").touch()
    with Receiver() as receiver:
        hook, command = ["--notify", receiver.url], ["--notify-command", script]
        targets = [hook, command, [*hook, *command]]
        for path, some in zip(
            in_parts(stream, tmp_path / "stream.csv", [2010, 2015, ROWS]), targets, strict=True
        ):
            words = words_of(path, tmp_path, "rows", "--state", tmp_path / "s", "--block", 64)
            onkel(*words, *some)
    states = {}
    for body in told(tmp_path):
        states.setdefault(body["incident"], []).append(body["state"])
    fault = next(one["incident"] for one in told(tmp_path) if one["end_row"] >= 2024)
    by_hook = [body["state"] for body in receiver.bodies if body["incident"] == fault]
    of_command = json_lines(tmp_path / "got")
    by_command = [body["state"] for body in of_command if body["incident"] == fault]
    assert by_hook == by_command == states[fault] == ["opened", "closed"]
    first = of_command[0]
    assert first["incident"] == fault and first["alerts"] > 5  # all that was known of it
