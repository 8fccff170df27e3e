"""Compressed bytes made plain as they come: gzip, bzip2, xz and (with its library) Zstandard."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable
from typing import Any

from onkel.streams.sources.schema import SourceError

LONGEST_MAGIC = 6


def _zstd() -> Any:
    try:
        import zstandard
    except ImportError:
        raise SourceError(
            "Zstandard needs a library: pip install zstandard. Or unpack it: zstd -dc FILE | onkel"
        ) from None
    return zstandard.ZstdDecompressor().decompressobj()


_KINDS: dict[bytes, Callable[[], Any]] = {
    b"\x1f\x8b": lambda: zlib.decompressobj(wbits=31),
    b"BZh": bz2.BZ2Decompressor,
    b"\xfd7zXZ\x00": lzma.LZMADecompressor,
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
    >>> unpack(packed[:10]) + unpack(packed[10:]), unpack.whole
    (b'a,b,c', True)
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make, self._now, self.whole = make, make(), False

    def __call__(self, packed: bytes) -> bytes:
        """Return what these bytes hold."""
        plain = []
        while packed:
            if self.whole:
                packed = packed.lstrip(b"\0")  # tapes and some programs pad with zeros
                if not packed:
                    break
                self._now, self.whole = self._make(), False
            try:
                plain.append(self._now.decompress(packed))
            except Exception as error:  # each library has exceptions of its own
                raise SourceError(f"The compressed source is damaged: {error}.") from None
            self.whole = bool(self._now.eof)
            packed = self._now.unused_data if self.whole else b""
        return b"".join(plain)

    def finish(self) -> None:
        """Raise if the end came in the middle."""
        if not self.whole:
            raise SourceError("The compressed source ends in the middle: it was cut off.")
