"""The service: ``onkel serve --state DIR``, or :func:`serve` from a program.

Models by name over HTTP, each acknowledged example on the disk, and the live page at ``/``.
"""

from __future__ import annotations

import logging
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

from onkel.app.disk import InUse
from onkel.app.errors import StateProblem, UsageProblem
from onkel.app.http.counts import Requests
from onkel.app.http.server import Server, check_address
from onkel.app.live.page import Page, is_public
from onkel.app.notify.settings import Delivery, delivery_of
from onkel.app.service.archive import Keep
from onkel.app.service.engine import Engine
from onkel.app.service.limits import MIB, Limits
from onkel.app.service.log import Damaged
from onkel.app.service.routes import Api
from onkel.app.telling import say

HOST, PORT = "127.0.0.1", 8421


def serve(
    state: Path, host: str = HOST, port: int = PORT, token: str | None = None,
    limits: Limits | None = None, snapshot_bytes: int = 64 * MIB, snapshot_seconds: float = 300.0,
    ready: Callable[[str], None] | None = None, delivery: Delivery | None = None,
    archive: str | None = None,
) -> None:  # fmt: skip
    """Serve the models of a state folder until interrupted.

    Parameters
    ----------
    state : path
        The folder; made if it is not there. One process at a time.
    host, port : str, int
        Where to listen. An address that others can reach needs a token. Port 0 takes a free one.
    token : str, optional
        What clients must send as ``Authorization: Bearer TOKEN``.
    limits : Limits, optional
    snapshot_bytes, snapshot_seconds : number
        How large the log may grow, and how old, before the models are saved.
    ready : function, optional
        Called with the address when requests are answered.
    delivery : Delivery, optional
        To where alerts are sent; nothing is, unless told.
    archive : str, optional
        How long what detectors learn is kept, and how many bytes, to be replayed: ``"30d,2GB"``.
    """
    check_address(host, token)
    limits = limits or Limits()
    keep = None if archive is None else Keep.of(archive)
    engine = Engine(Path(state), limits, None, snapshot_bytes, snapshot_seconds, delivery, keep)
    try:
        server_of(engine, host, port, token).run(ready)
    finally:
        engine.close()


def server_of(engine: Engine, host: str, port: int, token: str | None) -> Server:
    """Return a server for an engine: the API, and the live page over its board."""
    requests, page = Requests(), Page(engine.board, service=True, known=engine.slot)
    return Server(
        [*Api(engine, requests, page).routes(), *page.routes()], host, port, token, is_public,
        page.closing.set, requests, engine.limits.requests_per_second, engine.limits.connections,
        engine.limits.seconds,
    )  # fmt: skip


# -- the command -------------------------------------------------------------------------------


def run(options: dict[str, Any]) -> int:
    """Serve as the command's options say; return the exit code."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    given = {f.name: options[f.name] for f in fields(Limits)}
    path, delivery = options["token_file"], delivery_of(options)
    try:
        token = Path(path).read_text("utf-8").strip() if path else None
        limits = Limits(**{k: v for k, v in given.items() if v is not None})
        serve(Path(options["state"]), options["host"], options["port"], token, limits,
              options["snapshot_bytes"], options["snapshot_seconds"], _say, delivery,
              options["archive"])  # fmt: skip
    except (InUse, Damaged, sqlite3.Error, RuntimeError) as error:
        print(f"onkel: {error}", file=sys.stderr)
        return StateProblem.code
    except (ValueError, OSError) as error:
        print(f"onkel: {error}", file=sys.stderr)
        return UsageProblem.code
    return 0


def _say(url: str) -> None:
    """Tell where the service is; a person also how to end it."""
    say(f"onkel: {url}")
    if sys.stderr.isatty():
        print("The live page is there as well. Ctrl-C ends the service.", file=sys.stderr)
