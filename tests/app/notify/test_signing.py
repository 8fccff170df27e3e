"""Signatures: those that others' libraries make, and no byte may differ."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from onkel.app.notify import signature, verify
from onkel.app.notify.signing import headers_of, secret_of

# As the libraries of Standard Webhooks have it in their own tests.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
ID, WHEN, BODY = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNED = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_signature_is_that_of_standard_webhooks() -> None:
    assert signature(SECRET, ID, WHEN, BODY) == SIGNED
    raw = b"any text of sixteen bytes or more"
    mac = hmac.new(raw, f"{ID}.{WHEN}.".encode() + BODY, hashlib.sha256).digest()
    assert signature(raw, ID, WHEN, BODY) == "v1," + base64.b64encode(mac).decode()


def test_a_changed_byte_is_noticed(rng) -> None:
    headers = headers_of(secret_of(SECRET), ID, WHEN, BODY)
    assert verify(SECRET, headers, BODY, now=WHEN) == ID
    assert verify(SECRET, {k.title(): v for k, v in headers.items()}, BODY, now=WHEN) == ID
    for at in range(len(BODY)):
        changed = bytearray(BODY)
        changed[at] ^= 1 << int(rng.integers(8))
        with pytest.raises(ValueError, match="signature"):
            verify(SECRET, headers, bytes(changed), now=WHEN)
    for name, value in (("webhook-id", "msg_x"), ("webhook-timestamp", str(WHEN + 1))):
        with pytest.raises(ValueError, match="signature"):
            verify(SECRET, {**headers, name: value}, BODY, now=WHEN)
    with pytest.raises(ValueError, match="signature"):
        verify("another secret that is long", headers, BODY, now=WHEN)


def test_one_of_several_signatures_is_enough() -> None:
    headers = headers_of(secret_of(SECRET), ID, WHEN, BODY)
    headers["webhook-signature"] = f"v1,bm9uc2Vuc2U= v2,x {SIGNED}"
    assert verify(SECRET, headers, BODY, now=WHEN) == ID


def test_what_is_old_or_says_nothing_is_refused() -> None:
    headers = headers_of(secret_of(SECRET), ID, WHEN, BODY)
    for now in (WHEN + 301, WHEN - 301):
        with pytest.raises(ValueError, match="older, or newer"):
            verify(SECRET, headers, BODY, now=now)
    for name in headers:
        with pytest.raises(ValueError, match=name):
            verify(SECRET, {k: v for k, v in headers.items() if k != name}, BODY, now=WHEN)
    for stamp in ("", "soon", "-5", "1e9", "9" * 40, "１６"):
        with pytest.raises(ValueError, match="webhook-timestamp"):
            verify(SECRET, {**headers, "webhook-timestamp": stamp}, BODY, now=WHEN)


@pytest.mark.parametrize("bad", ["short", "whsec_%%%", "whsec_c2hvcnQ=", ""])
def test_a_secret_that_protects_nothing_is_refused(bad) -> None:
    with pytest.raises(ValueError, match=r"secret|base64"):
        secret_of(bad)
