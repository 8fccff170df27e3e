"""Compressed bytes made plain, a piece at a time: gzip, bzip2, xz, Zstandard.

A few packed bytes may stand for gigabytes: what is made at once is bounded, whatever they hold, and
so is the memory that a file may ask for to be unpacked.
"""

from __future__ import annotations

import bz2
import lzma
import sys
import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

from onkel.streams.sources.schema import SourceError

LONGEST_MAGIC = 6
PIECE = 2**20
"""So many plain bytes are made at once."""
MEMORY = 2**27
"""Bytes that a dictionary (xz) or a window (Zstandard) may take; ``xz -9`` takes half of it."""
_SLICE = 2**14
"""Packed bytes are handed over in so many: what a file's end leaves of them is copied."""


class _Gzip:
    """zlib's decompressor with the manners of the others."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self.needs_input = True

    def decompress(self, packed: bytes, most: int) -> bytes:
        plain = self._inner.decompress(self._inner.unconsumed_tail + packed, most)
        self.needs_input = len(plain) < most and not self._inner.unconsumed_tail
        return plain

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data


def _zstd() -> Any:
    """Zstandard's decompressor: of the standard library from Python 3.14 on."""
    try:
        zstd = import_module(
            "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
        )
    except ImportError:
        raise SourceError(
            "Zstandard needs a library: pip install 'onkel[zstd]'. Or unpack it: "
            "zstd -dc FILE | onkel"
        ) from None
    limit = {zstd.DecompressionParameter.window_log_max: MEMORY.bit_length() - 1}
    return zstd.ZstdDecompressor(options=limit)


_KINDS: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": _Gzip,
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\x00": lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY),
    b"\x28\xb5\x2f\xfd": _zstd,
}


def kind_of(head: bytes) -> Callable[[], Any] | None:
    """Return what unpacks bytes that begin like this; None if they are plain."""
    return next((make for magic, make in _KINDS.items() if head.startswith(magic)), None)


class Unpack:
    """Plain bytes from compressed ones; files that were put one after another are one.

    Examples
    --------
    >>> import gzip
    >>> packed = gzip.compress(b"a,b") + gzip.compress(b",c")
    >>> unpack = Unpack(kind_of(packed[:6]))
    >>> unpack.add(packed)
    >>> unpack.read(), unpack.read(), unpack.whole
    (b'a,b,c', b'', True)
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._now, self.whole = make, make(), False
        self._packed, self._at = b"", 0

    def add(self, packed: bytes) -> None:
        """Take more, once `read` has returned nothing."""
        self._packed, self._at = self._packed[self._at :] + packed, 0

    def read(self) -> bytes:
        """Return the next plain bytes, up to a piece; none where more packed ones are needed."""
        plain, left = [], PIECE
        while left > 0 and self._has_more():
            plain.append(self._step(left))
            left -= len(plain[-1])
        return b"".join(plain)

    def _has_more(self) -> bool:
        if self.whole:  # tapes and some programs pad with zeros
            while self._packed.startswith(b"\0", self._at):
                rest = self._packed[self._at : self._at + _SLICE]
                self._at += len(rest) - len(rest.lstrip(b"\0"))
        return self._at < len(self._packed) or not (self.whole or self._now.needs_input)

    def _step(self, most: int) -> bytes:
        if self.whole:
            self._now, self.whole = self._make(), False
        given = self._packed[self._at : self._at + _SLICE] if self._now.needs_input else b""
        self._at += len(given)
        try:
            plain: bytes = self._now.decompress(given, most)
        except Exception as error:  # each library has exceptions of its own
            raise _refusal(error) from None
        if self._now.eof:
            self.whole, self._at = True, self._at - len(self._now.unused_data)
        return plain

    def finish(self) -> None:
        """Raise if the end came in the middle."""
        if not self.whole:
            raise SourceError("The compressed source ends in the middle: it was cut off.")


def _refusal(error: Exception) -> SourceError:
    if "memory" in str(error).lower():
        return SourceError(
            f"To unpack the source takes more than {MEMORY >> 20} MiB of memory: {error}. Unpack "
            "it before it is read: xz -dc FILE | onkel, or zstd --long=31 -dc FILE | onkel."
        )
    return SourceError(f"The compressed source is damaged: {error}.")
