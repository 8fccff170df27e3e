"""Messages brought to a target: in order, again after failures, lost only with a word."""

from __future__ import annotations

import json
import shutil
import socket
import sqlite3
import subprocess
import threading
import time

import pytest
from helpers.receiver import Receiver

from onkel.app.notify import outbox, verify
from onkel.app.notify.channels import Command, Failed, Refused, Webhook, address_of, shown
from onkel.app.notify.messages import Message, alert_of, body_of, features_of
from onkel.app.notify.outbox import StoredQueue
from onkel.app.notify.queues import MemoryQueue
from onkel.app.notify.sender import Backoff, Sender

SECRET = b"sixteen bytes !!"


def messages(count, start=0):
    return [
        alert_of("run", "rows.csv", str(i), 0.0, {"row": i}) for i in range(start, start + count)
    ]


def until(condition, seconds=20.0) -> None:
    stop = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < stop, "it did not come about"
        time.sleep(0.005)


class Scripted:
    """A channel that does what it is told, message by message."""

    def __init__(self, *script) -> None:
        self.script, self.seen, self.taken = list(script), [], []

    def __str__(self) -> str:
        return "nowhere"

    def send(self, message) -> None:
        self.seen.append(message.facts["row"])
        what = self.script.pop(0) if self.script else None
        if what is not None:
            raise what
        self.taken.append(message.facts["row"])

    def stop(self) -> None:
        pass


def sent(channel, count=5, give_up=1e9, clock=None, bury=None):
    queue = MemoryQueue()
    queue.put(messages(count))
    how = {} if clock is None else {"clock": clock, "tick": clock}
    sender = Sender("webhook", queue, channel, give_up, bury, Backoff(0.001, 0.01), **how)
    sender.start()
    until(lambda: queue.waiting() == 0)
    sender.stop()
    sender.join()
    return sender.tally


def test_order_is_kept_through_failures() -> None:
    channel = Scripted(None, Failed("no"), Failed("no"), None, RuntimeError("a fault"))
    tally = sent(channel)
    assert channel.taken == [0, 1, 2, 3, 4]
    assert channel.seen == [0, 1, 1, 1, 2, 2, 3, 4]
    assert (tally.delivered, tally.failed, tally.lost, tally.trouble) == (5, 3, 0, "")


def test_what_is_refused_is_not_sent_again() -> None:
    buried = []
    tally = sent(Scripted(Refused("answered 400")), bury=lambda m, w: buried.append((m.id, w)))
    assert (tally.delivered, tally.refused, tally.reasons) == (4, 1, ["answered 400"])
    assert buried == [(messages(1)[0].id, "answered 400")]


def test_a_message_that_cannot_be_buried_is_not_forgotten() -> None:
    calls = []

    def bury(message, words):
        calls.append(message.id)
        if len(calls) < 3:
            raise OSError("no room")

    channel = Scripted(Refused("no"), Refused("no"), Refused("no"))
    tally = sent(channel, count=1, bury=bury)
    assert tally.refused == 1 and len(calls) == 3


def test_a_message_is_given_up_in_the_end() -> None:
    now = [0.0]

    class Late(Scripted):
        def send(self, message):
            now[0] += 10.0
            super().send(message)

    channel = Late(*[Failed("down")] * 4)
    tally = sent(channel, count=3, give_up=35.0, clock=lambda: now[0])
    # Four attempts at the first take 40 s; by then the others have waited as long: once each.
    assert channel.seen == [0, 0, 0, 0, 1, 2]
    assert (tally.given_up, tally.delivered) == (1, 2) and "down" in tally.reasons[0]


def test_waits_double_and_differ() -> None:
    backoff = Backoff(1.0, 60.0)
    waits = [backoff.seconds("a", n) for n in range(12)]
    for n, wait in enumerate(waits):
        assert min(60.0, 2.0**n) / 2 <= wait <= min(60.0, 2.0**n)
    assert waits == [backoff.seconds("a", n) for n in range(12)]
    assert len({backoff.seconds(str(i), 3) for i in range(50)}) == 50


def test_a_full_queue_says_so() -> None:
    queue = MemoryQueue(3)
    assert queue.put(messages(5)) == 2 and queue.waiting() == 3
    assert queue.first()[1].facts["row"] == 0
    queue.done(1)
    assert queue.put(messages(2, 5)) == 1
    rows = []
    while (found := queue.first()) is not None:
        rows.append(found[1].facts["row"])
        queue.done(found[0])
    assert rows == [1, 2, 5]


# -- webhooks ----------------------------------------------------------------------------------


def test_a_webhook_is_signed_and_says_what_it_has() -> None:
    (message,) = messages(1)
    with Receiver() as receiver:
        Webhook(address_of(receiver.url), key=SECRET).send(message)
    ((headers, body),) = receiver.got
    assert verify(SECRET, headers, body) == message.id
    assert json.loads(body) == {
        "id": message.id, "kind": "alert", "source": "rows.csv", "alert_id": "0", "row": 0,
        "seen": "1970-01-01T00:00:00.000Z",
    }  # fmt: skip
    assert headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Refused), (404, Refused), (410, Refused), (301, Refused), (307, Refused),
     (408, Failed), (429, Failed), (500, Failed), (503, Failed)],
)  # fmt: skip
def test_what_answers_mean(status, kind) -> None:
    elsewhere = {"Location": "http://127.0.0.1:9/elsewhere", "Retry-After": "7"}
    with Receiver([status], headers=elsewhere) as receiver:
        with pytest.raises(kind, match=str(status)) as found:
            Webhook(address_of(receiver.url)).send(messages(1)[0])
        assert receiver.tries == 1
    assert kind is Refused or found.value.after == 7.0


def test_who_hangs_is_left() -> None:
    with Receiver(["hang"]) as receiver:
        with pytest.raises(Failed, match=r"0\.3 seconds"):
            Webhook(address_of(receiver.url), timeout=0.3).send(messages(1)[0])
    with pytest.raises(Failed):
        Webhook(address_of(receiver.url)).send(messages(1)[0])  # nobody is there any more


def test_who_trickles_is_left() -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def trickle():
        line, _ = listening.accept()
        with line:
            while not stop.is_set():
                try:
                    line.send(b"H")
                except OSError:
                    return
                stop.wait(0.02)

    threading.Thread(target=trickle, daemon=True).start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    with pytest.raises(Failed):
        Webhook(address_of(url), timeout=0.3).send(messages(1)[0])
    stop.set()
    listening.close()


def test_a_certificate_that_nobody_knows_is_refused(tmp_path, monkeypatch) -> None:
    """Over https the receiver must show who it is; SSL_CERT_FILE tells whom to trust."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("needs openssl (Debian: apt-get install openssl)")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
             "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
             "-keyout", key, "-out", cert]  # fmt: skip
    subprocess.run([program, *words], check=True, capture_output=True)
    with Receiver(certificate=(cert, key)) as receiver:
        url = receiver.url.replace("http://127.0.0.1", "https://localhost")
        with pytest.raises(Failed, match="certificate"):
            Webhook(address_of(url)).send(messages(1)[0])
        monkeypatch.setenv("SSL_CERT_FILE", str(cert))
        Webhook(address_of(url)).send(messages(1)[0])
    assert receiver.rows() == [0] and receiver.tries == 1


def test_a_password_is_used_and_not_shown() -> None:
    with Receiver() as receiver:
        url = receiver.url.replace("://", "://me:p%40ss@") + "/T0K3N?t=1"
        hook = Webhook(address_of(url))
        hook.send(messages(1)[0])
    assert receiver.got[0][0]["Authorization"] == "Basic bWU6cEBzcw=="
    assert "p%40ss" not in str(hook) and "T0K3N" not in str(hook) and "127.0.0.1" in str(hook)
    assert shown(address_of("https://[::1]:8/x")) == "https://[::1]:8/…"


@pytest.mark.parametrize(
    "url", ["", "ftp://a/b", "file:///etc/passwd", "//a", "http://", "http://a:x/", "http://a b/",
            "http://a/\r\nX: y", "http://a/#b", "example.org/hook", "http://a:0/", "http://ü/"],
)  # fmt: skip
def test_other_addresses_are_refused(url) -> None:
    with pytest.raises(ValueError, match="address"):
        address_of(url)


@pytest.mark.parametrize("url", ["me:T0K3N@example.org/hook", "T0K3N", "T0K3N:x", "ftp://T0K3N/"])
def test_an_address_without_its_scheme_is_not_printed(url) -> None:
    with pytest.raises(ValueError, match="no http:// or https:// stands at its begin") as refused:
        address_of(url)
    said = str(refused.value).lower()
    assert "t0k3n" not in said and "none" not in said and "ftp" not in said


# -- commands ----------------------------------------------------------------------------------


def test_a_command_gets_the_message(tmp_path) -> None:
    (message,) = messages(1)
    script = 'cat > "$0"; echo "$ONKEL_ROW $ONKEL_ID $ONKEL_SOURCE" >> "$0"; echo noise'
    Command(("sh", "-c", script, str(tmp_path / "got"))).send(message)
    body, _, line = (tmp_path / "got").read_text().rpartition("}")
    assert json.loads(body + "}") == message.to_dict()
    assert line.split() == ["0", message.id, "rows.csv"]


def test_no_shell_reads_a_command(tmp_path) -> None:
    Command(("touch", f"{tmp_path}/a;b $HOME")).send(messages(1)[0])
    assert (tmp_path / "a;b $HOME").exists()


def test_a_command_that_fails_or_hangs_is_tried_again(tmp_path) -> None:
    with pytest.raises(Failed, match="exit code 3"):
        Command(("sh", "-c", "exit 3")).send(messages(1)[0])
    with pytest.raises(Failed, match="cannot be started"):
        Command((str(tmp_path / "none"),)).send(messages(1)[0])
    mark = tmp_path / "late"
    with pytest.raises(Failed, match="killed"):
        Command(("sh", "-c", f"(sleep 1.5; touch {mark}) & wait"), timeout=0.3).send(messages(1)[0])
    time.sleep(1.8)
    assert not mark.exists()  # its children went with it


def test_a_command_that_hangs_is_killed_where_its_sender_ends(tmp_path) -> None:
    mark, script = tmp_path / "late", "touch {0}.begun; (sleep 1.5; touch {0}) & wait"
    queue = MemoryQueue()
    queue.put(messages(2))
    command = Command(("sh", "-c", script.format(mark)), timeout=50.0)
    sender = Sender("command", queue, command, 1e9)
    sender.start()
    until((tmp_path / "late.begun").exists)
    begun = time.monotonic()
    sender.stop()
    sender.join()
    assert time.monotonic() - begun < 1.0
    assert queue.waiting() == 2 and sender.tally.trouble == "not done at the end, and killed"
    with pytest.raises(Failed, match="at the end"):  # and none is started later
        command.send(messages(1)[0])
    time.sleep(1.8)
    assert not mark.exists()  # its children went with it


def test_a_command_need_not_read() -> None:
    large = alert_of(
        "run", "x", "1", 0.0, {"row": 1, "features": {f"f{i}": "v" * 999 for i in range(300)}}
    )
    Command(("true",)).send(large)


# -- bodies ------------------------------------------------------------------------------------


def test_the_body_for_alertmanager() -> None:
    facts = {
        "row": 7,
        "key": "pump 1",
        "score": -9.0,
        "why": "level 9 is new",
        "rank": float("nan"),
    }
    message = alert_of("run", "rows.csv", "pump 1:3", 1.7e9, facts)
    (found,) = json.loads(body_of(message, "alertmanager"))
    assert found["labels"] == {
        "alertname": "onkel_alert", "source": "rows.csv", "key": "pump 1",
    }  # fmt: skip
    assert found["startsAt"] == "2023-11-14T22:13:20.000Z"
    notes = found["annotations"]
    assert notes["summary"] == "level 9 is new" and notes["alert_id"] == "pump 1:3"
    assert all(isinstance(value, str) for value in notes.values())
    assert notes["score"] == "-9.0" and notes["rank"] == "null" and notes["id"] == message.id


def test_values_of_all_kinds_can_be_sent() -> None:
    import numpy as np

    names = ["a", "b", "c", "d", "e", "f"]
    values = [np.float32(1.5), np.int64(2), np.bool_(True), float("inf"), "\ud800", None]
    found = features_of(names, values)["features"]
    assert found == {"a": 1.5, "b": 2, "c": True, "d": None, "e": "\\ud800", "f": None}
    many = features_of([f"f{i}" for i in range(300)], [0.0] * 300)
    assert len(many["features"]) == 256 and many["features_left_out"] == 44


# -- an outbox ---------------------------------------------------------------------------------


def made(path, count):
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("BEGIN")
    outbox.create(db)
    outbox.put(db, "webhook", 0, messages(count))
    db.execute("COMMIT")
    return db


def test_an_outbox_keeps_messages_in_order(tmp_path) -> None:
    db = made(tmp_path / "db", 3)
    queue = StoredQueue(tmp_path / "db", "webhook")
    other = StoredQueue(tmp_path / "db", "command")
    assert other.first() is None and queue.waiting() == 3
    assert [queue.first()[1], queue.first()[0]] == [messages(1)[0], 1]
    queue.done(1)
    outbox.put(db, "webhook", 3, messages(1, 3))
    assert outbox.check(db, {"webhook": 4}) == ""
    again = StoredQueue(tmp_path / "db", "webhook")  # as after a kill
    rows = []
    while (found := again.first()) is not None:
        rows.append(found[1].facts["row"])
        again.done(found[0])
    assert rows == [1, 2, 3] and outbox.check(db, {"webhook": 4}) == ""
    assert outbox.waiting(db) == {}


def test_what_is_lost_or_changed_in_an_outbox_shows(tmp_path) -> None:
    for i, change in enumerate((
        "DELETE FROM outbox WHERE number = 2", "DELETE FROM outbox", "DELETE FROM delivered",
        "UPDATE outbox SET message = replace(message, 'rows', 'cows') WHERE number = 3",
        "UPDATE outbox SET number = 9 WHERE number = 4", "UPDATE delivered SET number = 2",
        "UPDATE outbox SET target = 'command' WHERE number = 4",
    )):  # fmt: skip
        db = made(tmp_path / f"db{i}", 4)
        queue = StoredQueue(tmp_path / f"db{i}", "webhook")
        queue.done(1)
        assert outbox.check(db, {"webhook": 4}) == ""
        db.execute(change)
        assert outbox.check(db, {"webhook": 4}), change


def test_a_disk_that_fails_makes_no_doubles(tmp_path, monkeypatch) -> None:
    db = made(tmp_path / "db", 2)
    queue = StoredQueue(tmp_path / "db", "webhook")
    db.execute("BEGIN IMMEDIATE")  # nobody else may write now
    queue._db.execute("PRAGMA busy_timeout=1")
    with pytest.raises(sqlite3.OperationalError):
        queue.done(1)
    db.execute("COMMIT")
    assert queue.first()[0] == 2
    assert outbox.check(db, {"webhook": 2}) == ""


def test_message_ids_follow_from_what_they_are_of() -> None:
    a, b = messages(2)
    assert a.id == messages(1)[0].id != b.id
    assert a.id != alert_of("other", "rows.csv", "0", 0.0, {}).id
    assert Message.from_text(a.to_text()) == a
