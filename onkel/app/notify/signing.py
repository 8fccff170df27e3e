"""Signatures of messages, as Standard Webhooks has them: a receiver knows who sent what, and when.

``webhook-signature`` is ``v1,`` and the base64 of the HMAC-SHA256 of ``id.timestamp.body``.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import time
from collections.abc import Mapping

PREFIX = "whsec_"
"""Before a secret that is written in base64."""
SHORTEST = 16
"""Bytes of a secret."""
TOLERANCE = 300.0
"""Seconds that a message may be old, or a clock be wrong."""
ID, TIMESTAMP, SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


def secret_of(text: str | bytes) -> bytes:
    """Return the key that a secret stands for: base64 after ``whsec_``, else its own bytes.

    Examples
    --------
    >>> secret_of("whsec_c2l4dGVlbiBieXRlcyAhIQ==")
    b'sixteen bytes !!'
    """
    held = (text.encode() if isinstance(text, str) else text).strip()
    if held.startswith(PREFIX.encode()):
        try:
            held = base64.b64decode(held[len(PREFIX) :], validate=True)
        except binascii.Error:
            raise ValueError(f"what follows {PREFIX} must be base64.") from None
    if len(held) < SHORTEST:
        raise ValueError(f"a secret has at least {SHORTEST} bytes; got {len(held)}.")
    return held


def signature(secret: str | bytes, id: str, timestamp: int, body: bytes) -> str:
    """Return the signature of a message.

    Examples
    --------
    >>> signature("sixteen bytes !!", "7", 1700000000, b"{}")[:12]
    'v1,cTR0svD+1'
    """
    return _signed(secret_of(secret), id, timestamp, body)


def _signed(key: bytes, id: str, timestamp: int, body: bytes) -> str:
    found = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, "sha256")
    return f"v1,{base64.b64encode(found).decode('ascii')}"


def headers_of(key: bytes | None, id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers that say which message this is, and that it is ours."""
    found = {ID: id, TIMESTAMP: str(timestamp)}
    return found if key is None else {**found, SIGNATURE: _signed(key, id, timestamp, body)}


def verify(
    secret: str | bytes, headers: Mapping[str, str], body: bytes, tolerance: float = TOLERANCE,
    now: float | None = None,
) -> str:  # fmt: skip
    """Return the id of a message that was sent by who knows the secret; else raise ValueError.

    It takes the same time whatever is wrong with a signature. A message may come twice: its id is
    what tells.

    Parameters
    ----------
    secret : str or bytes
        As the sender has it: ``whsec_`` and base64, or any text of at least 16 bytes.
    headers : mapping
        Of the request; names in any case.
    body : bytes
        As it came, before anything is made of it.
    tolerance : float
        Seconds that a message may be old: an old one may be somebody's repetition.
    now : float, optional
        The time, in seconds since 1970; the clock's, unless told.

    Examples
    --------
    >>> secret, body = "sixteen bytes !!", b'{"row": 7}'
    >>> headers = headers_of(secret_of(secret), "a1", 1700000000, body)
    >>> verify(secret, headers, body, now=1700000001)
    'a1'
    >>> verify(secret, headers, b'{"row": 8}', now=1700000001)
    Traceback (most recent call last):
    ValueError: the signature is not that of this message.
    """
    given = {name.lower(): value for name, value in headers.items()}
    missing = [name for name in (ID, TIMESTAMP, SIGNATURE) if not given.get(name)]
    if missing:
        raise ValueError(f"the message has no {missing[0]}.")
    stamp = given[TIMESTAMP]
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) < 15):
        raise ValueError(f"{TIMESTAMP} must be seconds since 1970; got {stamp[:40]!r}.")
    wanted = _signed(secret_of(secret), given[ID], int(stamp), body).encode()
    found = [hmac.compare_digest(one.encode(), wanted) for one in given[SIGNATURE].split(" ")]
    if not any(found):
        raise ValueError("the signature is not that of this message.")
    if abs((time.time() if now is None else now) - int(stamp)) > tolerance:
        raise ValueError(f"the message is older, or newer, than {tolerance:g} seconds.")
    return given[ID]
