"""The senders of one process: started, woken, waited for at the end, and what came of it all."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from onkel.app.disk import open_private
from onkel.app.notify.messages import Message, iso
from onkel.app.notify.queues import Queue
from onkel.app.notify.sender import Bury, Sender, Tally
from onkel.app.notify.settings import OPTIONS, Delivery

UNDELIVERED = "undelivered.jsonl"
"""In a state's folder: messages that are lost, with the reason."""
OUTCOMES = ("delivered", "failed", "refused", "given_up", "dropped")


class Office:
    """A sender for each target.

    Parameters
    ----------
    delivery : Delivery
    queues : mapping
        Of messages, by target.
    bury : function, optional
        What is done with a message that is lost.
    """

    def __init__(
        self, delivery: Delivery, queues: Mapping[str, Queue], bury: Bury | None = None
    ) -> None:
        self.delivery, channels = delivery, delivery.channels()
        earlier = any(queue.waiting() for queue in queues.values())
        self.word = "message" if delivery.incidents or earlier else "alert"
        """What messages are called in words: all are alerts, or they are not; those that wait from
        an earlier run may be either."""
        self.senders = [
            Sender(target, queues[target], channel, delivery.give_up, bury)
            for target, channel in channels.items()
        ]

    def start(self) -> None:
        """Begin to send."""
        for sender in self.senders:
            sender.start()

    def wake(self) -> None:
        """Say that there is something new."""
        for sender in self.senders:
            sender.wake()

    def tallies(self) -> dict[str, Tally]:
        """Return what came of the messages to each target."""
        return {sender.target: sender.tally for sender in self.senders}

    def waiting(self) -> dict[str, int]:
        """Return how many messages wait for each target."""
        return {sender.target: sender.queue.waiting() for sender in self.senders}

    def drain(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Wait until all is sent; not longer than some seconds in which nothing was."""
        last, seen = time.monotonic(), -1
        while any(self.waiting().values()) and not stopped():
            now, sent = time.monotonic(), self._settled()
            if sent != seen:
                last, seen = now, sent
            elif now - last >= self.delivery.wait:
                return
            time.sleep(0.01)

    def _settled(self) -> int:
        return sum(t.delivered + t.lost for t in self.tallies().values())

    def stop(self) -> None:
        """Send no more; an attempt that hangs is not waited for."""
        for sender in self.senders:
            sender.stop()
        for sender in self.senders:
            if sender.is_alive():
                sender.join(0.5)

    def summary(self) -> dict[str, Any]:
        """Return what came of the messages, by target."""
        waits = self.waiting()
        return {
            target: {**{name: getattr(tally, name) for name in OUTCOMES}, "waiting": waits[target]}
            for target, tally in self.tallies().items()
        }

    def troubles(self, kept: str = "") -> list[str]:
        """Return what was not delivered, in words; `kept` says where what waits is kept."""
        waits, found = self.waiting(), []
        for sender in self.senders:
            where, tally = f"{OPTIONS[sender.target]} {sender.channel}", sender.tally
            if tally.lost:
                why = "; ".join(tally.reasons)
                found.append(f"{where}: {_so_many(tally.lost, self.word)} lost: {why}.")
            if waits[sender.target]:
                last = f" (the last attempt: {tally.trouble})" if tally.trouble else ""
                count = _so_many(waits[sender.target], self.word)
                words = f"{where}: {count} not delivered{last}"
                found.append(f"{words}{'; ' + kept if kept else ''}.")
        return found


def _so_many(count: int, word: str) -> str:
    """Return a number of alerts, or of messages, with its verb.

    Examples
    --------
    >>> _so_many(1, "alert"), _so_many(1200, "message")
    ('1 alert was', '1,200 messages were')
    """
    return f"{count:,} {word}{'s were' if count != 1 else ' was'}"


def grave(folder: Path) -> Bury:
    """Return what writes lost messages to a state's folder, one per line."""

    def bury(message: Message, words: str) -> None:
        line = {**message.to_dict(), "lost": iso(time.time()), "reason": words}
        handle = open_private(folder / UNDELIVERED, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with os.fdopen(handle, "wb") as file:
            file.write(json.dumps(line).encode("ascii") + b"\n")
            file.flush()
            os.fsync(file.fileno())

    return bury
