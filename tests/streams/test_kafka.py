"""A topic over the wire, from librdkafka's own mock of a cluster."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest

kafka = pytest.importorskip("confluent_kafka", reason="needs Kafka: pip install onkel[kafka]")

from onkel.streams.sources import Reading, Roles, SourceError, open_source  # noqa: E402


@pytest.fixture(scope="module")
def cluster():
    producer = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    broker = next(iter(producer.list_topics(timeout=10).brokers.values()))
    return producer, f"{broker.host}:{broker.port}"


def send(cluster, topic: str, rows: list[bytes], partition: int = 0) -> str:
    producer, server = cluster
    for row in rows:
        producer.produce(topic, row, partition=partition)
    assert producer.flush(20) == 0
    return f"kafka://{server}/{topic}"


def objects(X: np.ndarray) -> list[bytes]:
    return [json.dumps({"a": a, "b": b}).encode() for a, b in X.tolist()]


def drain(source) -> list:
    found, quiet = [], 0
    for block in source.blocks():
        quiet = quiet + 1 if block is None else 0
        found += [] if block is None else [block]
        if quiet == 3:
            return found


def test_messages_come_in_order_with_names_and_positions(cluster, rng) -> None:
    X = rng.normal(size=(300, 2))
    name = send(cluster, "ordered", [*objects(X), b"{broken", *objects(X[:1])])
    source = open_source(name, Reading())
    blocks = drain(source)
    source.close()
    found = np.concatenate([b.X for b in blocks])
    np.testing.assert_array_equal(found, [*X, X[0]])
    ids = [i for b in blocks for i in b.ids]
    assert ids == [f"ordered/0/{i}" for i in range(302) if i != 300]
    bad = [bad for b in blocks for bad in b.bad]
    assert [(b.row, b.line) for b in bad] == [(300, 300)] and "not JSON" in bad[0].reason
    again = open_source(name, Reading(), source.memo(), json.loads(json.dumps(blocks[1].position)))
    rest = drain(again)
    again.close()
    assert [i for b in rest for i in b.ids] == ids[128:]


def test_every_partition_is_read(cluster, rng) -> None:
    X = rng.normal(size=(20, 2))
    name = send(cluster, "several", objects(X[:10]), 0)
    send(cluster, "several", objects(X[10:]), 1)
    source = open_source(name, Reading(roles=Roles()))
    blocks = drain(source)
    source.close()
    assert sorted(np.concatenate([b.X for b in blocks])[:, 0]) == sorted(X[:, 0])
    assert blocks[-1].position["offsets"] == {"0": 10, "1": 10}


def test_a_death_brings_rows_again_under_the_same_name_but_learns_them_once(cluster, rng, tmp_path):
    pytest.importorskip("click")
    from helpers.runs_of import carry_out, command, json_lines

    X = rng.normal(size=(700, 2))
    name = send(cluster, "deaths", objects(X))
    words = [
        "detect",
        name,
        "--state",
        tmp_path / "s",
        "-o",
        tmp_path / "out",
        "--all",
        "--every",
        0,
    ]
    words += ["--stop-after", 2, "--block", 64]
    done = command(*words, dies="output:5")
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert carry_out(*words).returncode == 0
    found = json_lines(tmp_path / "out")
    assert [line["id"] for line in found] == [f"deaths/0/{i}" for i in range(700)]
    told = json.loads(carry_out("inspect", tmp_path / "s", "--json").stdout)
    assert told["examples"] == 700 and told["position"]["offsets"] == {"0": 700}


def test_what_is_wrong_is_said(cluster) -> None:
    with pytest.raises(SourceError, match="kafka://host:port/topic"):
        open_source("kafka://here", Reading())
