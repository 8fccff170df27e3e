"""A thread that brings messages to one target: in order, again and again until each is taken."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from onkel.app.notify.channels import Channel, Failed, Refused
from onkel.app.notify.messages import Message
from onkel.app.notify.queues import Queue

Bury = Callable[[Message, str], None]
IDLE = 0.5
"""Seconds after which a thread looks for messages by itself, though nobody has called."""
TOLD = 3
"""Reasons that are kept for the words at the end."""


@dataclass(frozen=True)
class Backoff:
    """How long to wait after failures: twice as long each time, less a part that differs.

    The part follows from the message and the attempt alone: many senders do not come at once, and
    a test knows what comes.

    Examples
    --------
    >>> backoff = Backoff(first=1.0, most=60.0)
    >>> all(0.5 <= backoff.seconds("a", 0) <= 1.0 for _ in range(3))
    True
    >>> 30.0 <= backoff.seconds("a", 50) <= 60.0
    True
    """

    first: float = 0.5
    most: float = 60.0

    def seconds(self, id: str, attempt: int) -> float:
        """Return how long to wait after an attempt, counted from 0."""
        digest = hashlib.blake2b(f"{id} {attempt}".encode(), digest_size=4).digest()
        part = int.from_bytes(digest, "little") / 2**32
        return min(self.most, self.first * 2.0 ** min(attempt, 60)) * (1.0 - part / 2)


@dataclass
class Tally:
    """What came of messages to one target, since the start."""

    delivered: int = 0
    failed: int = 0
    """Attempts that failed, and were or will be made again."""
    refused: int = 0
    """Messages that the receiver refused for good."""
    given_up: int = 0
    """Messages that were tried for too long."""
    dropped: int = 0
    """Messages for which there was no room."""
    reasons: list[str] = field(default_factory=list)
    """Of the first that were lost."""
    trouble: str = ""
    """Why the last attempt failed; empty after one that did not."""

    @property
    def lost(self) -> int:
        """Messages that will not be tried again."""
        return self.refused + self.given_up + self.dropped

    def note(self, words: str) -> None:
        """Remember why a message was lost."""
        if len(self.reasons) < TOLD and words not in self.reasons:
            self.reasons.append(words)


class Sender(threading.Thread):
    """Brings the messages of a queue to a channel.

    Parameters
    ----------
    name : str
        Of the target: "webhook" or "command".
    queue, channel
        From where to where.
    give_up : float
        A message that could not be delivered for so many seconds is lost; the time while no sender
        was there does not count.
    bury : function, optional
        Called with a message that is lost, and why, before it is forgotten.
    backoff : Backoff
    clock, tick : function
        The time of day, and one that only goes forward.
    """

    def __init__(
        self, name: str, queue: Queue, channel: Channel, give_up: float, bury: Bury | None = None,
        backoff: Backoff | None = None, clock: Callable[[], float] = time.time,
        tick: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        super().__init__(name=f"onkel-{name}", daemon=True)
        self.target, self.queue, self.channel = name, queue, channel
        self.give_up, self.tally = give_up, Tally()
        self._bury, self._backoff = bury, backoff or Backoff()
        self._clock, self._tick, self._begun = clock, tick, tick()
        self._wake, self._ending = threading.Event(), threading.Event()

    def wake(self) -> None:
        """Say that there is something new."""
        self._wake.set()

    def stop(self) -> None:
        """End with the attempt that is being made; a program is killed. Who asks does not wait."""
        self._ending.set()
        self._wake.set()
        self.channel.stop()

    def run(self) -> None:
        """Deliver until stopped."""
        while not self._ending.is_set():
            self._wake.clear()
            try:
                found = self.queue.first()
                if found is not None:
                    self._deliver(*found)
            except Exception as error:  # of the queue's disk, as a rule: it may come back
                self.tally.trouble = f"{type(error).__name__}: {error}"
                found = None
            if found is None:
                self._wake.wait(IDLE)

    def _deliver(self, number: int, message: Message) -> None:
        """Bring one message to its target, or find that it is lost; none goes before it."""
        attempt = 0
        while not self._ending.is_set():
            try:
                self._send(message)
            except Refused as error:
                self._lose(number, message, "refused", str(error))
                return
            except Failed as error:
                self._failed(message, attempt, error)
                if self._age(message) > self.give_up:
                    unit = "second" if self.give_up == 1.0 else "seconds"
                    words = f"not delivered for {self.give_up:g} {unit}, at last: {error}"
                    self._lose(number, message, "given_up", words)
                    return
                attempt += 1
                continue
            self.tally.delivered += 1
            self.tally.trouble = ""
            self.queue.done(number)
            return

    def _send(self, message: Message) -> None:
        try:
            self.channel.send(message)
        except (Failed, Refused):
            raise
        except Exception as error:  # an error of our own is no reason to lose a message in silence
            raise Failed(f"{type(error).__name__}: {error}") from error

    def _failed(self, message: Message, attempt: int, error: Failed) -> None:
        """Note a failure, and wait; whoever ends the thread need not wait as long."""
        self.tally.failed += 1
        self.tally.trouble = str(error)
        wait = self._backoff.seconds(message.id, attempt)
        left = max(self.give_up - self._age(message), 0.0)
        self._ending.wait(min(max(wait, error.after or 0.0), left))

    def _age(self, message: Message) -> float:
        """Return for how long this message could have been delivered."""
        return min(self._clock() - message.seen, self._tick() - self._begun)

    def _lose(self, number: int, message: Message, outcome: str, words: str) -> None:
        """Forget a message, once it is written to where the lost ones lie."""
        if self._bury is not None:
            self._bury(message, words)
        setattr(self.tally, outcome, getattr(self.tally, outcome) + 1)
        self.tally.note(words)
        self.queue.done(number)
