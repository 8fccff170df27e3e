"""Topics of Kafka: messages are JSON objects; partition and offset are a row's stable name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from onkel.streams.sources.assemble import Rules, assemble
from onkel.streams.sources.block import Block
from onkel.streams.sources.decoder import Wanted
from onkel.streams.sources.jsonlines import JsonLines
from onkel.streams.sources.schema import SAMPLE, Roles, Schema, SourceError
from onkel.streams.sources.source import Source
from onkel.streams.sources.waiting import Waiting

SCHEME = "kafka://"
WAIT = 10.0
"""Seconds that a broker has to answer at the start."""


class Kafka(Source):
    """A topic, from ``kafka://host:port/topic``: all its partitions, each from its own offset.

    Offsets are kept here, in positions, not at the broker: what was not committed with the
    models comes again, under the same name. Messages that are no JSON objects are broken rows.
    """

    format = "kafka"
    live = True

    def __init__(
        self, name: str, roles: Roles, size: int | None = None,
        position: dict[str, Any] | None = None, memo: dict[str, Any] | None = None,
        rules: Rules | None = None, patience: float = 0.2, waiting: Waiting | None = None,
    ) -> None:  # fmt: skip
        server, self.topic = _address(name)
        at = position or {}
        self._row, self.size, self.patience, self._rules = at.get("row", 0), size, patience, rules
        self._offsets: dict[str, int] = dict(at.get("offsets", {}))
        self._clock = {k: v for k, v in at.items() if k == "clock"}
        self._consumer = _consumer(server, self.topic, self._offsets)
        self._held: list[Any] = []
        self._decoder = JsonLines(**(memo["decoder"] if memo else {}))
        self.schema = (
            Schema.from_dict(memo["schema"]) if memo else self._look(roles, waiting or Waiting())
        )
        self._wanted = Wanted.of(self.schema)

    def _look(self, roles: Roles, waiting: Waiting) -> Schema:
        """Learn the columns from the first messages, which stay to be handled."""
        while not self._held:
            self._held = self._messages(SAMPLE)
            if not self._held and waiting.enough(0):
                raise waiting.nothing()
        values = [message.value() or b"" for message in self._held]
        self._decoder.start(values)
        return Schema.of(self._decoder.names, self._decoder.columns(values), roles)

    def _messages(self, most: int) -> list[Any]:
        found, self._held = self._held[:most], self._held[most:]
        if len(found) < most:
            found += self._consumer.consume(most - len(found), timeout=self.patience)
        for message in found:
            if message.error() is not None:
                raise SourceError(f"Kafka: {message.error()}.")
        return found

    def trial(self) -> Block:
        """Return the first messages, broken ones included."""
        values = [message.value() or b"" for message in self._held]
        offsets = [message.offset() for message in self._held]
        cells = self._decoder.decode(values, self._wanted)
        return assemble(0, cells, self.schema, offsets, values, {}, self._rules)

    def memo(self) -> dict[str, Any]:
        """Return schema and names."""
        return {**super().memo(), "decoder": self._decoder.to_dict()}

    def blocks(self) -> Iterator[Block | None]:
        """Yield blocks as messages come; None where there are none now."""
        while True:
            found = self._messages(self._left())
            yield self._block(found) if found else None

    def _block(self, messages: list[Any]) -> Block:
        values = [message.value() or b"" for message in messages]
        offsets = [message.offset() for message in messages]
        first, self._row = self._row, self._row + len(messages)
        self._offsets = {
            **self._offsets, **{str(m.partition()): m.offset() + 1 for m in messages}
        }  # fmt: skip
        position = {"row": self._row, "offsets": self._offsets, **self._clock}
        cells = self._decoder.decode(values, self._wanted)
        block = assemble(first, cells, self.schema, offsets, values, position, self._rules)
        if block.ids is None:
            block.ids = [self._name(messages[row - first]) for row in block.rows.tolist()]
        self._clock = {k: v for k, v in position.items() if k == "clock"}
        return block

    def _name(self, message: Any) -> str:
        return f"{self.topic}/{message.partition()}/{message.offset()}"

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()


def _address(name: str) -> tuple[str, str]:
    """Return broker and topic.

    Examples
    --------
    >>> _address("kafka://localhost:9092/readings")
    ('localhost:9092', 'readings')
    """
    parts = urlsplit(name)
    topic = parts.path.strip("/")
    if not parts.netloc or not topic or "/" in topic:
        raise SourceError(f"A topic is written kafka://host:port/topic; got {name!r}.")
    return parts.netloc, topic


def _consumer(server: str, topic: str, offsets: dict[str, int]) -> Any:
    try:
        import confluent_kafka as kafka
    except ImportError:
        raise SourceError("Kafka needs a library: pip install 'onkel[kafka]'.") from None
    consumer = kafka.Consumer({
        "bootstrap.servers": server, "group.id": "onkel", "enable.auto.commit": False,
        "auto.offset.reset": "earliest", "session.timeout.ms": 6000, "log_level": 0,
    })  # fmt: skip
    try:
        found = consumer.list_topics(topic, timeout=WAIT).topics[topic]
    except kafka.KafkaException as error:
        consumer.close()
        raise SourceError(f"Kafka at {server} does not answer: {error.args[0].str()}.") from None
    if found.error is not None or not found.partitions:
        consumer.close()
        raise SourceError(f"Kafka at {server} has no topic {topic!r}.")
    # Our own offsets, never the broker's: they belong to the models' checkpoint.
    consumer.assign([
        kafka.TopicPartition(topic, p, offsets.get(str(p), kafka.OFFSET_BEGINNING))
        for p in sorted(found.partitions)
    ])  # fmt: skip
    return consumer
