"""From options to channels: where messages go, in which form, for how long they are tried."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult

from onkel.app.errors import UsageProblem
from onkel.app.notify.channels import Channel, Command, Webhook, address_of
from onkel.app.notify.signing import secret_of
from onkel.clock import seconds

WEBHOOK, COMMAND = "webhook", "command"
"""The names of targets; a state knows by them what waits for whom."""
OPTIONS = {WEBHOOK: "--notify", COMMAND: "--notify-command"}
WHAT = ("alerts", "incidents", "both")
"""What messages may be about."""


@dataclass(frozen=True)
class Delivery:
    """How messages are delivered.

    Parameters
    ----------
    address : SplitResult, optional
        Of the webhook.
    command : tuple of str
        Program and arguments; empty: there is none.
    form : str
        Of the bodies.
    key : bytes, optional
        Signs what goes to the webhook.
    give_up : float
        Seconds after which a message is lost.
    timeout : float
        Seconds for one attempt.
    wait : float
        At the end of a run, for so many seconds without a delivery.
    what : str
        "alerts", "incidents" or "both".
    """

    address: SplitResult | None = None
    command: tuple[str, ...] = ()
    form: str = "json"
    key: bytes | None = None
    give_up: float = 86400.0
    timeout: float = 10.0
    wait: float = 5.0
    what: str = WHAT[0]

    @property
    def alerts(self) -> bool:
        """Whether alerts are sent."""
        return self.what != "incidents"

    @property
    def incidents(self) -> bool:
        """Whether incidents are sent."""
        return self.what != "alerts"

    def channels(self) -> dict[str, Channel]:
        """Return the ways to all targets, by their names."""
        found: dict[str, Channel] = {}
        if self.address is not None:
            found[WEBHOOK] = Webhook(self.address, self.form, self.key, self.timeout)
        if self.command:
            found[COMMAND] = Command(self.command, self.form, self.timeout)
        return found


def delivery_of(options: dict[str, Any]) -> Delivery | None:
    """Return what the options ask for; None if nothing is to be sent. Raise UsageProblem."""
    url, command = options.get("notify"), options.get("notify_command")
    if url is None and command is None:
        _check_unused(options)
        return None
    if options["notify_secret_file"] is not None and url is None:
        raise UsageProblem("--notify-secret-file signs what goes to a --notify URL: give one.")
    return Delivery(
        None if url is None else _address(url), () if command is None else _words(command),
        options["notify_format"] or "json", _key(options["notify_secret_file"]),
        _give_up(options["notify_give_up"]), options["notify_timeout"], options["notify_wait"],
        options["notify_what"] or WHAT[0],
    )  # fmt: skip


def _check_unused(options: dict[str, Any]) -> None:
    for name in ("notify_what", "notify_secret_file", "notify_format", "notify_give_up"):
        if options.get(name) is not None:
            option = "--" + name.replace("_", "-")
            raise UsageProblem(f"{option} goes with --notify URL or --notify-command CMD.")


def _address(url: str) -> SplitResult:
    try:
        return address_of(url)
    except ValueError as error:
        raise UsageProblem(f"--notify: {error}") from None


def _words(command: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(command))
    except ValueError as error:
        raise UsageProblem(f"--notify-command: {error}; got {command!r}.") from None
    if not words:
        raise UsageProblem("--notify-command: a program is needed, and got ''.")
    if shutil.which(words[0]) is None:
        raise UsageProblem(
            f"--notify-command: there is no program {words[0]!r}. No shell reads the line; if one "
            "should: --notify-command \"sh -c '...'\"."
        )
    return words


def _key(path: str | None) -> bytes | None:
    if path is None:
        return None
    try:
        return secret_of(Path(path).read_bytes())
    except OSError as error:
        raise UsageProblem(f"--notify-secret-file {path}: {error.strerror}.") from None
    except ValueError as error:
        raise UsageProblem(f"--notify-secret-file {path}: {error}") from None


def _give_up(text: str | None) -> float:
    found = 86400.0 if text is None else seconds(text)
    if found is None:
        raise UsageProblem(f"--notify-give-up is a duration such as 30min or 1d; got {text!r}.")
    return found
