"""Alerts of a run, delivered: all, in order, whoever is killed; learning waits for nobody."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
import time

import numpy as np
import pytest
from helpers.receiver import Receiver
from helpers.runs_of import begin, carry_out, command, json_lines, onkel, write_rows
from helpers.sizes import size

from onkel.app.notify import verify

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
def stream(rng, tmp_path):
    """Return a file of 3000 rows, of which some are far away, and keys."""
    X = rng.normal(size=(3000, 3))
    X[rng.choice(np.arange(500, 3000), 40, replace=False)] += 9.0
    return write_rows(tmp_path / "stream.csv", X, unit=[f"u{i % 3}" for i in range(len(X))])


def words_of(stream, tmp_path, *more):
    return ["detect", stream, "--ignore", "unit", "-o", tmp_path / "out.jsonl", *more]


def alerts(tmp_path):
    return json_lines(tmp_path / "out.jsonl")


def once(bodies):
    """Return messages without those that came before: what a receiver does by their ids."""
    return [*{body["id"]: body for body in bodies}.values()]


@pytest.mark.parametrize("durable", size([True], [False, True]))
def test_each_alert_is_sent_once_and_in_order(stream, tmp_path, durable) -> None:
    (tmp_path / "secret").write_text(SECRET + "\n")
    more = ["--state", tmp_path / "s", "--every", 0, "--block", 256] if durable else []
    with Receiver() as receiver:
        more += ["--notify", receiver.url, "--notify-secret-file", tmp_path / "secret"]
        done = onkel(*words_of(stream, tmp_path, *more, "--json"))
    assert done.exit_code == 0, done.output
    lines, told = alerts(tmp_path), json.loads(done.stdout)["deliveries"]["webhook"]
    assert len(lines) > 30 and receiver.rows() == [line["row"] for line in lines]
    assert told["delivered"] == len(lines) and told["waiting"] == told["failed"] == 0
    cells = [line.split(",") for line in stream.read_text().splitlines()[1:]]
    for (headers, raw), body, line in zip(receiver.got, receiver.bodies, lines, strict=True):
        assert verify(SECRET, headers, raw) == body["id"]
        for name in ("row", "alert_id", "score", "p", "threshold", "rank", "why"):
            assert body[name] == line[name], name
        row = [float(v) for v in cells[line["row"]][:3]]
        assert body["features"] == dict(zip("abc", row, strict=True))
        assert body["source"] == "stream.csv" and body["kind"] == "alert"
    assert len({body["id"] for body in receiver.bodies}) == len(lines)


def test_keys_and_times_are_told(stream, tmp_path) -> None:
    with Receiver() as receiver:
        done = onkel("detect", stream, "--key", "unit", "-o", tmp_path / "out.jsonl",
                     "--notify", receiver.url)  # fmt: skip
    assert done.exit_code == 0, done.output
    lines = alerts(tmp_path)
    for name in ("row", "key", "alert_id"):
        assert [body[name] for body in receiver.bodies] == [line[name] for line in lines]
    assert len({b["alert_id"] for b in receiver.bodies}) == len(lines) > 10


def test_nothing_is_sent_unless_asked_for(stream, tmp_path, monkeypatch) -> None:
    def never(*args, **how):
        raise AssertionError("something was sent")

    monkeypatch.setattr(socket.socket, "connect", never)
    monkeypatch.setattr(socket, "create_connection", never)
    monkeypatch.setattr("subprocess.Popen.__init__", never)
    done = onkel(*words_of(stream, tmp_path, "--state", tmp_path / "s", "--json"))
    assert done.exit_code == 0 and "deliveries" not in json.loads(done.stdout)
    assert not any(t.name.startswith("onkel-webhook") for t in threading.enumerate())
    with sqlite3.connect(tmp_path / "s" / "state.sqlite") as db:
        assert not db.execute("SELECT 1 FROM sqlite_master WHERE name = 'outbox'").fetchall()


def test_a_dry_run_sends_nothing(stream, tmp_path) -> None:
    with Receiver() as receiver:
        done = onkel(*words_of(stream, tmp_path, "--notify", receiver.url, "--dry-run"))
    assert done.exit_code == 0 and receiver.tries == 0


# -- who dies ----------------------------------------------------------------------------------


@pytest.mark.long
def test_a_receiver_that_dies_in_the_midst_loses_nothing(stream, tmp_path) -> None:
    got = []
    first = Receiver()
    with first:
        process = begin(*words_of(stream, tmp_path, "--state", tmp_path / "s", "--every", 0,
                                  "--block", 64, "--notify", first.url, "-q",
                                  "--notify-wait", 20))  # fmt: skip
        stop = time.monotonic() + 60
        while len(first.got) < 5 and time.monotonic() < stop:
            time.sleep(0.005)
    got += first.bodies
    assert got and process.poll() is None
    time.sleep(0.3)  # it is not there, and attempts fail
    with Receiver(port=first.port) as second:
        assert process.wait(60) == 0
        got += second.bodies
    assert [b["row"] for b in once(got)] == [line["row"] for line in alerts(tmp_path)]


@pytest.mark.parametrize("durable", size([True], [False, True]))
def test_a_receiver_that_was_away_gets_all(stream, tmp_path, durable) -> None:
    """The run ends before the receiver comes; with a state the next run brings what waits."""
    with Receiver() as receiver:
        url = receiver.url
    more = ["--state", tmp_path / "s"] if durable else []
    words = words_of(stream, tmp_path, *more, "--notify", url, "--notify-wait", 0.2)
    done = onkel(*words)
    count = len(alerts(tmp_path))
    assert done.exit_code == 7 and f"{count} alerts were not delivered" in done.stderr
    if not durable:
        return
    assert "the same command delivers what waits" in done.stderr
    told = json.loads(onkel("inspect", tmp_path / "s", "--json").stdout)
    assert told["undelivered"] == {"webhook": count}
    assert "undelivered: webhook" in onkel("inspect", tmp_path / "s").stdout
    without = onkel(*words_of(stream, tmp_path, *more))
    assert without.exit_code == 7 and f"{count} messages of an earlier run wait" in without.stderr
    quiet = onkel(*words_of(stream, tmp_path, *more, "--quiet", "--json"))
    assert quiet.exit_code == 7 and quiet.stderr == (
        f"onkel: {count} messages wait for --notify, which this run does not have: the same "
        "command with it delivers what waits.\n"
    )
    assert json.loads(quiet.stdout)["deliveries"]["webhook"]["waiting"] == count
    with Receiver(port=receiver.port) as receiver:
        assert onkel(*words).exit_code == 0
    assert receiver.rows() == [line["row"] for line in alerts(tmp_path)]
    with Receiver(port=receiver.port) as receiver:
        assert onkel(*words).exit_code == 0 and receiver.tries == 0


@pytest.mark.parametrize(
    "point", size(("output",), ("output", "model", "before-commit", "after-commit"))
)
def test_a_run_that_is_killed_loses_nothing(stream, tmp_path, point) -> None:
    with Receiver([503] * 3) as receiver:
        words = words_of(stream, tmp_path, "--state", tmp_path / "s", "--every", 0, "--block", 256,
                         "--notify", receiver.url)  # fmt: skip
        for count in size((4,), (2, 3, 2, 2)):  # there are twelve blocks
            assert command(*words, dies=f"{point}:{count}").returncode == -9
        done = carry_out(*words)
        assert done.returncode == 0, done.stderr
    rows = [line["row"] for line in alerts(tmp_path)]
    assert [b["row"] for b in once(receiver.bodies)] == rows and len(rows) > 30
    by_id = {}
    for body in receiver.bodies:  # the same id, the same alert
        same = {**body, "seen": None}
        assert by_id.setdefault(body["id"], same) == same


def test_a_lost_generation_is_sent_again(stream, tmp_path) -> None:
    """What it held is done again, and sent again under the same ids, whoever is away meanwhile."""
    words = words_of(stream, tmp_path, "--state", tmp_path / "s", "--every", 0, "--block", 1024)
    with Receiver() as receiver:
        words += ["--notify", receiver.url, "--notify-wait"]
        assert onkel(*words, 5).exit_code == 0
    newest = max((tmp_path / "s").glob("models-*"), key=lambda p: int(p.stem.split("-")[1]))
    newest.write_bytes(b"")
    assert onkel(*words, 0).exit_code == 7  # nobody is there
    assert onkel("inspect", tmp_path / "s").exit_code == 0
    with Receiver(port=receiver.port) as again:
        assert onkel(*words, 5).exit_code == 0
    ids, more = ([body["id"] for body in one.bodies] for one in (receiver, again))
    assert more and more == ids[-len(more) :] and len(more) < len(ids)


def test_a_damaged_outbox_is_said_to_be(stream, tmp_path) -> None:
    with Receiver() as receiver:
        url = receiver.url
    words = words_of(stream, tmp_path, "--state", tmp_path / "s", "--notify", url,
                     "--notify-wait", 0)  # fmt: skip
    assert onkel(*words).exit_code == 7
    path = tmp_path / "s" / "state.sqlite"
    whole = path.read_bytes()
    for change in (
        "DELETE FROM outbox WHERE number = 3", "DROP TABLE outbox", "DELETE FROM outbox",
        "UPDATE outbox SET message = replace(message, 'stream', 'dream') WHERE number = 2",
        "DELETE FROM meta WHERE name = 'outbox'",
    ):  # fmt: skip
        path.write_bytes(whole)
        with sqlite3.connect(path) as db:
            db.execute(change)
        db.close()
        for done in (onkel(*words), onkel("inspect", tmp_path / "s")):
            assert done.exit_code == 4 and "damaged" in done.stderr, (change, done.output)
        for name in ("state.sqlite-wal", "state.sqlite-shm"):
            (tmp_path / "s" / name).unlink(missing_ok=True)
    path.write_bytes(whole)
    assert onkel("inspect", tmp_path / "s").exit_code == 0


# -- who hangs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("durable", size([True], [False, True]))
def test_learning_does_not_wait_for_a_hook_that_hangs(stream, tmp_path, durable) -> None:
    more = ["--state", tmp_path / "s", "--every", 0, "--block", 64] if durable else ["--block", 64]
    with Receiver(["hang"]) as receiver:
        words = words_of(stream, tmp_path, *more, "--notify", receiver.url, "--notify-wait", 0,
                         "--notify-timeout", 50, "--json")  # fmt: skip
        done = onkel(*words)
        assert receiver.hanging.is_set() and receiver.tries == 1  # it hung to the end
    assert done.exit_code == 7
    told = json.loads(done.stdout)
    assert told["rows"] == 3000
    assert told["deliveries"]["webhook"]["waiting"] == told["alerts"] == len(alerts(tmp_path))


def test_learning_does_not_wait_for_who_does_not_read(rng, tmp_path) -> None:
    """It takes connections, and not a byte: more than fits into the buffers is to be sent."""
    X = rng.normal(size=(1500, 3))
    X[1000:1010] += 9.0
    long = ["x" * 900] * len(X)
    path = write_rows(tmp_path / "stream.csv", X, **{f"t{i}": long for i in range(3)})
    listening = socket.create_server(("127.0.0.1", 0))
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    done = onkel("detect", path, "-o", tmp_path / "out.jsonl", "--notify", url, "--notify-wait", 0,
                 "--notify-timeout", 50, "--json")  # fmt: skip
    listening.close()
    assert done.exit_code == 7 and json.loads(done.stdout)["rows"] == 1500


def test_learning_does_not_wait_for_a_command_that_hangs(stream, tmp_path) -> None:
    mark = tmp_path / "started"
    script = f"sh -c 'touch {mark}; exec sleep 50'"
    words = words_of(stream, tmp_path, "--block", 64, "--notify-command", script, "--notify-wait",
                     1, "--notify-timeout", 50, "--json")  # fmt: skip
    done = onkel(*words)
    assert done.exit_code == 7 and mark.exists()
    assert "alerts were not delivered (the last attempt: not done at the end, and" in done.stderr
    told = json.loads(done.stdout)
    assert told["rows"] == 3000 and told["deliveries"]["command"]["waiting"] == told["alerts"]


# -- commands, refusals, words -----------------------------------------------------------------


def test_a_command_and_a_webhook_get_all(stream, tmp_path) -> None:
    script = f"sh -c 'cat >> {tmp_path}/got; echo >> {tmp_path}/got'"
    with Receiver([500]) as receiver:
        done = onkel(*words_of(stream, tmp_path, "--state", tmp_path / "s", "--notify",
                               receiver.url, "--notify-command", script))  # fmt: skip
    assert done.exit_code == 0, done.output
    rows = [line["row"] for line in alerts(tmp_path)]
    assert receiver.rows() == rows == [body["row"] for body in json_lines(tmp_path / "got")]


def test_what_is_refused_is_told_and_kept(stream, tmp_path) -> None:
    with Receiver([200, 400, 200, 422]) as receiver:
        done = onkel(*words_of(stream, tmp_path, "--state", tmp_path / "s", "--notify",
                               receiver.url.replace("://", "://me:pass@"), "--json"))  # fmt: skip
    rows = [line["row"] for line in alerts(tmp_path)]
    assert done.exit_code == 7 and "2 alerts were lost: answered 400; answered 422" in done.stderr
    assert "undelivered.jsonl" in done.stderr and "pass" not in done.output
    kept = json_lines(tmp_path / "s" / "undelivered.jsonl")
    assert [k["row"] for k in kept] == [rows[1], rows[3]] and kept[0]["reason"] == "answered 400"
    assert receiver.rows() == [rows[0], rows[2], *rows[4:]]
    assert (tmp_path / "s" / "undelivered.jsonl").stat().st_mode & 0o777 == 0o600
    assert json.loads(done.stdout)["deliveries"]["webhook"]["refused"] == 2


def test_giving_up_is_told(stream, tmp_path) -> None:
    with Receiver([500] * 10**4) as receiver:
        done = onkel(*words_of(stream, tmp_path, "--notify", receiver.url, "--notify-give-up",
                               "100ms"))  # fmt: skip
    count = len(alerts(tmp_path))
    assert done.exit_code == 7 and f"{count} alerts were lost" in done.stderr
    assert receiver.got == []


def test_alertmanager_is_spoken_to_in_its_way(stream, tmp_path) -> None:
    with Receiver() as receiver:
        done = onkel(*words_of(stream, tmp_path, "--notify", receiver.url, "--notify-format",
                               "alertmanager"))  # fmt: skip
    assert done.exit_code == 0
    (one,) = receiver.bodies[0]
    assert one["labels"] == {"alertname": "onkel_alert", "source": "stream.csv"}
    assert one["annotations"]["summary"] == alerts(tmp_path)[0]["why"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--notify", "ftp://x"], "no http:// or https:// stands at its beginning"),
        (["--notify", ""], "no http:// or https:// stands at its beginning"),
        (["--notify", "http://me:pass@"], "no host"),
        (["--notify-secret-file", "SECRET"], "goes with --notify"),
        (["--notify-format", "json"], "goes with --notify"),
        (["--notify-command", "true", "--notify-secret-file", "SECRET"], "give one"),
        (["--notify", "http://127.0.0.1:9/", "--notify-secret-file", "SHORT"], "16 bytes"),
        (["--notify", "http://127.0.0.1:9/", "--notify-give-up", "soon"], "duration"),
        (["--notify-command", "no-such-program-here"], "no program"),
        (["--notify-command", "'"], "--notify-command"),
        (["--notify-command", ""], "program is needed"),
    ],
)
def test_settings_that_make_no_sense(stream, tmp_path, words, said) -> None:
    (tmp_path / "SECRET").write_text(SECRET)
    (tmp_path / "SHORT").write_text("short")
    known = {"SECRET": tmp_path / "SECRET", "SHORT": tmp_path / "SHORT"}
    done = onkel(*words_of(stream, tmp_path, *[known.get(w, w) for w in words]))
    assert done.exit_code == 2 and said in done.stderr and "pass@" not in done.stderr, done.output
    assert not (tmp_path / "out.jsonl").exists()
