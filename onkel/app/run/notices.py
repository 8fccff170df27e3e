"""Alerts and incidents of a run on their way to a webhook or a command.

With a state they become part of the checkpoint that has their rows, and are sent from there: what
was killed is sent by the next run. Without one they wait in memory. Who learns waits for nobody.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import numpy as np

from onkel.app.notify.messages import (
    ALERT,
    OPENED,
    Message,
    alert_of,
    features_of,
    in_order,
    incident_of,
)
from onkel.app.notify.office import OUTCOMES, UNDELIVERED, Office, grave
from onkel.app.notify.outbox import StoredQueue
from onkel.app.notify.queues import MemoryQueue
from onkel.app.notify.settings import OPTIONS, Delivery
from onkel.app.run.checkpoint import State
from onkel.app.run.incidents import Happened
from onkel.app.run.ledger import Checkpoint
from onkel.streams.sources import Block

FACTS = ("score", "p", "threshold", "rank", "incident", "why")
"""Columns of a detector that go into a message."""


class Notices:
    """Makes messages of a run's alerts and incidents, and has them sent.

    Parameters
    ----------
    delivery : Delivery, optional
        To where, and how. Without one nothing is sent: what an earlier run has told to be open is
        ended, and waits for a run that delivers.
    source : str
        What the run reads from.
    state : State, optional
        Keeps messages until they are delivered.
    clock : function
        The time of day.
    """

    def __init__(
        self, delivery: Delivery | None, source: str, state: State | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self.source = source_name(source)
        self.state, self._clock = state, clock
        self._delivery = delivery = delivery or Delivery()
        self.made: Counter[str] = Counter()
        """Messages of this run, by their kinds."""
        self._targets, self._new = [*delivery.channels()], dict[str, list[Message]]()
        self._opened: dict[str, set[int]] = {target: set() for target in self._targets}
        """Incidents that each target was told to be open: it hears of their end, too."""
        self._left: Counter[str] = Counter()
        """Messages that wait for targets that this run does not have."""
        self._memory: dict[str, MemoryQueue] = {}
        self._stored: dict[str, StoredQueue] = {}
        if state is None:
            self._run = uuid.uuid4().hex
            self._memory = {target: MemoryQueue() for target in self._targets}
            self.office = Office(delivery, self._memory)
        else:
            self._run = state.open_outbox()
            self._opened |= {target: set(found) for target, found in state.last.opened.items()}
            waits = state.messages_waiting()
            self._left.update({t: n for t, n in waits.items() if t not in self._targets})
            self._stored = {t: StoredQueue(state.database, t) for t in self._targets}
            self.office = Office(delivery, self._stored, grave(state.folder))
        self._closed = False

    def start(self) -> None:
        """Begin to send, first what an earlier run has left."""
        self.office.start()

    # -- while rows come -----------------------------------------------------------------------

    def add(
        self, block: Block, columns: dict[str, Any], names: list[str], happened: Happened | None
    ) -> None:
        """Take the alerts of a block, and what happened to incidents: what is wanted of it."""
        alerts, events = list[Message](), list[Message]()
        if self._targets and self._delivery.alerts:
            at = np.flatnonzero(np.asarray(columns["alert"], bool)).tolist()
            raw = block.raw(names) if at else None
            alerts = [self._message(block, columns, raw, i) for i in at]
        if self._hears_incidents and happened is not None:
            events = self._incidents(happened.told())
        self._put(in_order(alerts, events, [] if happened is None else happened.before))

    def tell(self, told: list[dict[str, Any]]) -> bool:
        """Take what is told of incidents; return whether some of it is wanted."""
        return self._hears_incidents and self._put(self._incidents(told))

    @property
    def _hears_incidents(self) -> bool:
        return self._wants_incidents or any(self._opened.values())

    @property
    def _wants_incidents(self) -> bool:
        return bool(self._targets) and self._delivery.incidents

    def _incidents(self, told: list[dict[str, Any]]) -> list[Message]:
        return [
            incident_of(self._run, self.source, str(one["incident"]), self._clock(), one)
            for one in told
        ]

    def _put(self, found: list[Message]) -> bool:
        """Take messages; return whether anybody is to have one.

        With a state they are sent after the next checkpoint.
        """
        new: dict[str, list[Message]] = {target: [] for target in self._opened}
        for message in found:
            wanted = [target for target in new if self._is_for(target, message)]
            self.made.update([message.kind] if wanted else [])
            for target in wanted:
                new[target].append(message)
        if self.state is None:
            self._keep_in_memory(new)
        else:
            for target, some in new.items():
                self._new.setdefault(target, []).extend(some)
                if some and target not in self._targets:
                    self._left[target] += len(some)
        return any(new.values())

    def _is_for(self, target: str, message: Message) -> bool:
        """Whether a target is to have a message: each incident opens once there, and ends once.

        Of one that it was never told to be open it hears nothing.
        """
        if message.kind == ALERT:
            return target in self._targets
        number, opened = message.facts["incident"], self._opened[target]
        known = number in opened
        if message.facts["state"] != OPENED:
            opened.discard(number)
            return known
        if known or target not in self._targets or not self._delivery.incidents:
            return False
        opened.add(number)
        return True

    def _keep_in_memory(self, new: dict[str, list[Message]]) -> None:
        for sender in self.office.senders:
            lost = self._memory[sender.target].put(new[sender.target])
            if lost:
                sender.tally.dropped += lost
                sender.tally.note("too many wait; a --state would keep them")
        self.office.wake()

    def _message(self, block: Block, columns: dict[str, Any], raw: Any, i: int) -> Message:
        facts: dict[str, Any] = {"row": int(block.rows[i])}
        given = {"time": block.stamps, "key": block.keys, "record": block.ids}
        facts |= {n: values[i] for n, values in given.items() if values is not None}
        facts |= {n: columns[n][i] for n in FACTS if n in columns}
        facts |= features_of(raw.names, [column[i] for column in raw.columns])
        name = str(columns["alert_id"][i])
        return alert_of(self._run, self.source, name, self._clock(), facts)

    def commit(self, checkpoint: Checkpoint) -> None:
        """Make a checkpoint of which the messages since the last one are a part; then send them."""
        assert self.state is not None
        opened = {target: sorted(found) for target, found in self._opened.items() if found}
        self.state.commit(checkpoint, self._new, opened)
        self._new = {}
        self.office.wake()

    # -- the end -------------------------------------------------------------------------------

    def finish(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Wait for what can be delivered soon; then send no more."""
        if not self._closed:
            self.office.drain(stopped)
            self.office.stop()

    def summary(self) -> dict[str, Any]:
        """Return what came of the messages, by target."""
        sent = self.office.summary() if not self._closed else self._last
        none = dict.fromkeys(OUTCOMES, 0)
        return sent | {t: {**none, "waiting": count} for t, count in self._left.items()}

    def troubles(self) -> list[str]:
        """Return what was not delivered, in words."""
        kept = "" if self.state is None else "the same command delivers what waits"
        found = self.office.troubles(kept)
        if self.state is not None and any(t.lost for t in self.office.tallies().values()):
            found.append(f"What is lost lies in {self.state.folder / UNDELIVERED}.")
        return found + [
            f"{_waiting(count)} for {OPTIONS.get(target, target)}, which this run does not have: "
            "the same command with it delivers what waits."
            for target, count in sorted(self._left.items())
        ]

    def close(self) -> None:
        """Let go of the database."""
        if self._closed:
            return
        self.office.stop()
        self._last, self._closed = self.office.summary(), True
        for queue in self._stored.values():
            queue.close()


def source_name(source: str) -> str:
    """Return what a source is called in messages: a file's own name.

    Examples
    --------
    >>> source_name("/data/pump.csv"), source_name("-"), source_name("kafka://me:pw@host:1/topic")
    ('pump.csv', 'stdin', 'topic')
    """
    return PurePath(source).name if source != "-" else "stdin"


def left_behind(state: State | None, delivery: Delivery | None) -> list[str]:
    """Return words on messages of an earlier run for which this one has no target."""
    given = delivery.channels() if delivery is not None else {}
    waits = state.messages_waiting() if state is not None else {}
    return [
        f"{_waiting(count, ' of an earlier run')} for {OPTIONS.get(target, target)}, which this "
        "one does not have"
        for target, count in sorted(waits.items())
        if target not in given
    ]


def _waiting(count: int, whose: str = "") -> str:
    """Return that so many messages wait.

    Examples
    --------
    >>> _waiting(1), _waiting(1200, " of an earlier run")
    ('1 message waits', '1,200 messages of an earlier run wait')
    """
    return f"{count:,} message{'s' * (count != 1)}{whose} wait{'s' * (count == 1)}"
