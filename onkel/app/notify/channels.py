"""Ways to a target: a request to a URL, a command. Each takes one message, or says why not."""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import SplitResult, unquote, urlsplit

from onkel.app.notify.messages import Message, body_of
from onkel.app.notify.signing import headers_of

PASSING = (408, 425, 429)
"""Answers of the fourth hundred that say: not now."""
SAID = 200
"""Bytes of an answer that are read, for the words about it."""
LONGEST_WAIT = 3600.0
"""Seconds that a receiver may ask for (Retry-After)."""
AT_THE_END = "not done at the end, and killed"
"""What is said of a program that hangs where nobody waits for it any more."""


class Failed(Exception):
    """A message was not taken this time; `after` says when to try again, if the receiver did."""

    def __init__(self, words: str, after: float | None = None) -> None:
        super().__init__(words)
        self.after = after


class Refused(Exception):
    """A message was refused for good: to try again is of no use."""


class Channel(Protocol):
    """A way to a target."""

    def send(self, message: Message) -> None:
        """Bring a message there, or raise Failed or Refused."""

    def stop(self) -> None:
        """Leave nothing running behind: no more will be sent."""

    def __str__(self) -> str:
        """Return where it goes, without what is secret."""


# -- webhooks ----------------------------------------------------------------------------------


def address_of(url: str) -> SplitResult:
    """Return the parts of a URL to which messages may go; raise ValueError for others.

    Examples
    --------
    >>> address_of("https://example.org/hook").hostname
    'example.org'
    """
    wanted = "an address such as https://example.org/hook is needed"
    if not url.isprintable() or " " in url or not url.isascii():
        raise ValueError(f"{wanted}, in printable ASCII, without blanks.")
    try:
        parts = urlsplit(url)
        port = parts.port  # raises where it is no number
    except ValueError as error:
        raise ValueError(f"{wanted} ({error}).") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{wanted}: no http:// or https:// stands at its beginning.")
    if not parts.hostname or port == 0:
        raise ValueError(f"{wanted}: it has no host, or port 0.")
    if parts.fragment:
        raise ValueError(f"{wanted}, without what follows a #.")
    return parts


def shown(parts: SplitResult) -> str:
    """Return what may be said of an address: not its name and password, nor its path.

    Examples
    --------
    >>> shown(address_of("https://me:secret@example.org:8443/hook/T0K3N"))
    'https://example.org:8443/…'
    """
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}/…"


@dataclass(frozen=True)
class Webhook:
    """A POST to a URL.

    Parameters
    ----------
    parts : SplitResult
        The address.
    form : str
        Of the body: "json" or "alertmanager".
    key : bytes, optional
        Signs what is sent.
    timeout : float
        Seconds for all of it.
    clock : function
        The time that is signed.
    """

    parts: SplitResult
    form: str = "json"
    key: bytes | None = None
    timeout: float = 10.0
    clock: Callable[[], float] = time.time

    def __str__(self) -> str:
        return shown(self.parts)

    def send(self, message: Message) -> None:
        """Post a message; a redirect is not followed."""
        body = body_of(message, self.form)
        headers = {"Content-Type": "application/json", "User-Agent": "onkel", **self._login()}
        headers |= headers_of(self.key, message.id, int(self.clock()), body)
        line = self._line()
        try:
            line.connect()
            with _ended_after(self.timeout, line.sock):
                line.request("POST", self._path(), body, headers)
                answer = line.getresponse()
                _judge(answer, answer.read(SAID))
        except TimeoutError:
            raise Failed(f"no answer within {self.timeout:g} seconds") from None
        except (OSError, http.client.HTTPException) as error:
            raise Failed(_words(error)) from None
        finally:
            line.close()

    def stop(self) -> None:
        """Do nothing: a request that is on its way ends with its thread."""

    def _line(self) -> http.client.HTTPConnection:
        host = self.parts.hostname or ""
        if self.parts.scheme == "http":
            return http.client.HTTPConnection(host, self.parts.port, timeout=self.timeout)
        secure = ssl.create_default_context()
        return http.client.HTTPSConnection(
            host, self.parts.port, timeout=self.timeout, context=secure
        )

    def _path(self) -> str:
        path = self.parts.path or "/"
        return f"{path}?{self.parts.query}" if self.parts.query else path

    def _login(self) -> dict[str, str]:
        """Return the header for a name and a password in the address."""
        if self.parts.username is None:
            return {}
        pair = f"{unquote(self.parts.username)}:{unquote(self.parts.password or '')}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"}


@contextlib.contextmanager
def _ended_after(seconds: float, line: socket.socket) -> Iterator[None]:
    """Hang up after some seconds, whatever trickles in: the socket's own limit is for each byte."""
    late = threading.Event()

    def end() -> None:
        late.set()
        with contextlib.suppress(OSError):
            line.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (OSError, http.client.HTTPException):
        if late.is_set():
            raise TimeoutError from None
        raise
    finally:
        timer.cancel()


def _judge(answer: http.client.HTTPResponse, said: bytes) -> None:
    """Raise what an answer means, unless it means that the message was taken."""
    status = answer.status
    if 200 <= status < 300:
        return
    text = "".join(c for c in said.decode("utf-8", "replace") if c.isprintable()).strip()
    words = f"answered {status}" + (f" ({text})" if text else "")
    if 300 <= status < 400:
        raise Refused(f"{words}: redirects are not followed, give the address itself")
    if 400 <= status < 500 and status not in PASSING:
        raise Refused(words)
    raise Failed(words, _after(answer.getheader("Retry-After")))


def _after(text: str | None) -> float | None:
    """Return the seconds that a receiver asks for; a date is passed over."""
    if text is None or not (text.isascii() and text.isdigit()):
        return None
    return min(float(text), LONGEST_WAIT)


def _words(error: Exception) -> str:
    told = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(told)[:SAID]


# -- commands ----------------------------------------------------------------------------------


class _Running:
    """The process that was started for a message, if one runs; none is, once it is stopped."""

    def __init__(self) -> None:
        self.stopped = False
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = threading.Lock()

    def start(self, start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        """Start a process, unless it is too late."""
        with self._guard:
            if self.stopped:
                raise Failed(AT_THE_END)
            self._process = start()
            return self._process

    def end(self) -> None:
        """End the process, with its group."""
        with self._guard:
            process, self._process = self._process, None
        if process is not None:
            _kill(process)

    def stop(self) -> None:
        """End the process, and let no other begin; its thread may still wait for it."""
        with self._guard:
            self.stopped = True
            if self._process is not None:
                _kill_group(self._process)


@dataclass(frozen=True)
class Command:
    """A program of the user's, started for each message: JSON to its standard input.

    Parameters
    ----------
    words : tuple of str
        Program and arguments; no shell reads them.
    form : str
        Of what it is given.
    timeout : float
        Seconds after which it is killed, with all that it has started in its process group.
    """

    words: tuple[str, ...]
    form: str = "json"
    timeout: float = 10.0
    _running: _Running = field(default_factory=_Running, init=False, repr=False, compare=False)

    def __str__(self) -> str:
        return self.words[0]

    def send(self, message: Message) -> None:
        """Run the program; anything but exit code 0 is a failure."""
        try:
            process = self._running.start(lambda: self._started(message))
        except (OSError, ValueError) as error:
            raise Failed(f"cannot be started: {_words(error)}") from None
        try:
            process.communicate(body_of(message, self.form), self.timeout)
        except subprocess.TimeoutExpired:
            raise Failed(f"not done after {self.timeout:g} seconds, and killed") from None
        except OSError as error:
            raise Failed(_words(error)) from None
        finally:
            self._running.end()
        if process.returncode:
            late = self._running.stopped and process.returncode == -signal.SIGKILL
            raise Failed(AT_THE_END if late else f"ended with {_ended(process.returncode)}")

    def _started(self, message: Message) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, **_error_output(),
            env={**os.environ, **variables(message)}, start_new_session=True,
        )  # fmt: skip

    def stop(self) -> None:
        """Kill the program if it runs, with all that it has started in its process group."""
        self._running.stop()


def _error_output() -> dict[str, Any]:
    """Return where a command's complaints go: to our own, if there is one."""
    return {} if sys.stderr is not None else {"stderr": subprocess.DEVNULL}


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process that has not ended, and its group; then forget it."""
    _kill_group(process)
    process.wait()
    if process.stdin is not None:
        with contextlib.suppress(OSError):  # what it did not read is of no use any more
            process.stdin.close()


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)


def _ended(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"signal {-code}"


def variables(message: Message) -> dict[str, str]:
    """Return what a command finds in its environment.

    Examples
    --------
    >>> message = Message("f00", "alert", "pump.csv", 0.0, {"row": 7, "why": None})
    >>> {name: value for name, value in variables(message).items() if name != "ONKEL_SEEN"}
    {'ONKEL_ID': 'f00', 'ONKEL_KIND': 'alert', 'ONKEL_SOURCE': 'pump.csv', 'ONKEL_ROW': '7'}
    """
    told = {n: v for n, v in message.to_dict().items() if isinstance(v, (str, int, float))}
    return {f"ONKEL_{name.upper()}": str(v).replace("\0", "") for name, v in told.items()}
