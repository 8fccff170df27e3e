"""Who is connected: those whose request was let in, and strangers, who have a part of the room."""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from onkel.app.http.problems import busy


class Line(Protocol):
    """A connection."""

    @property
    def host(self) -> str:
        """Where it comes from."""

    @property
    def idle(self) -> bool:
        """Whether no request of it is being answered."""

    def hang_up(self) -> None:
        """End it now."""


class Door:
    """Keeps room for those who may come in, however many others stand outside.

    A connection is a stranger until a request on it was let in: with the token where there is one,
    else from this machine. Strangers have a quarter of the room; a new one takes the place of
    another, from where most of them come: the oldest that is idle.

    Parameters
    ----------
    connections : int
        At once, of both kinds together.
    """

    def __init__(self, connections: int) -> None:
        self.part = max(1, connections // 4)
        """Strangers at once."""
        self.room = max(1, connections - self.part)
        """The others at once."""
        self.strangers: dict[Line, None] = {}
        """Oldest first."""
        self.known: set[Line] = set()

    def enter(self, line: Line) -> None:
        """Take a new connection, for which another one may have to go."""
        if len(self.strangers) >= self.part:
            other = self._other()
            del self.strangers[other]
            other.hang_up()
        self.strangers[line] = None

    def _other(self) -> Line:
        """Return who makes room."""
        crowd = Counter(one.host for one in self.strangers).most_common(1)[0][0]
        theirs = [one for one in self.strangers if one.host == crowd]
        return next((one for one in theirs if one.idle), theirs[0])

    def admit(self, line: Line) -> None:
        """Note that a request was let in; refuse where all the room is taken."""
        if line in self.known:
            return
        if line not in self.strangers or len(self.known) >= self.room:
            words = f"All {self.room} connections that there may be are in use. Come again later."
            problem = busy("too_many_connections", words)
            problem.headers["Connection"] = "close"
            raise problem
        del self.strangers[line]
        self.known.add(line)

    def leave(self, line: Line) -> None:
        """Forget a connection."""
        self.strangers.pop(line, None)
        self.known.discard(line)
