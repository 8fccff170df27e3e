"""The bytes of a model file: safetensors, with our header in its metadata and a digest over all.

``[8 bytes: length of the header][header: JSON][tensors]``, and the header begins with the digest,
always at the same place: it is found without parsing anything, and checked before anything else.
It is written by hand, since the digest must stand first and the same model must give the same
bytes (the library writes metadata in any order), and read by safetensors itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

FORMAT = 1
"""The version that is written; all from 1 to this are read."""
NAME = "onkel"
BEGIN = b'{"__metadata__":{"sha256":"'
HEX = 64
_START = 8 + len(BEGIN)  # of the digest
_KEYS = {"sha256", "format", "version", "model"}
_TYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2",
    "I8": "i1", "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?",
}  # fmt: skip
_NAMES = {np.dtype(v): k for k, v in _TYPES.items()}


def can_hold(array: Array) -> bool:
    """Whether a file can hold an array of this type."""
    return array.dtype.newbyteorder("<") in _NAMES


# -- writing ---------------------------------------------------------------------------------------


class Bytes:
    """Bytes of a tensor that come in parts, so that they are never all in memory.

    Parameters
    ----------
    nbytes : int
        How many there are.
    parts : function
        Returns the parts, one after another.
    """

    itemsize = 1
    dtype = np.dtype(np.uint8)

    def __init__(self, nbytes: int, parts: Callable[[], Iterable[Any]]) -> None:
        self.nbytes, self.shape, self.parts = nbytes, (nbytes,), parts


def pack(model: Mapping[str, Any], tensors: Mapping[str, Any]) -> list[Any]:
    """Return the pieces of a file, one after another; arrays are not copied."""
    first, *rest = pieces_of(model, tensors)
    digest = _digest([first, *rest]).encode("ascii")
    return [first[:_START] + digest + first[_START + HEX :], *rest]


def pieces_of(model: Mapping[str, Any], tensors: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the pieces of a file, with 0 in the place of the digest."""
    arrays = {n: a if isinstance(a, Bytes) else _little(a) for n, a in tensors.items()}
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))  # so all are aligned
    header: dict[str, Any] = {"__metadata__": _metadata(model)}
    at = 0
    for name in order:
        array, end = arrays[name], at + arrays[name].nbytes
        shape = {"dtype": _NAMES[array.dtype], "shape": list(array.shape)}
        header[name] = {**shape, "data_offsets": [at, end]}
        at = end
    text = compact(header).encode("ascii")
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        array = arrays[name]
        yield from array.parts() if isinstance(array, Bytes) else [_bytes_of(array)]


def compact(value: Any) -> str:
    """Return strict JSON in ASCII without spaces."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def _metadata(model: Mapping[str, Any]) -> dict[str, str]:
    fixed = {"sha256": "0" * HEX, "format": NAME, "version": str(FORMAT)}
    return {**fixed, "model": compact(model)}


def _little(array: Array) -> Array:
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)


def _bytes_of(array: Array) -> Any:
    return array.reshape(-1).view(np.uint8).data


class Digest:
    """SHA-256 over everything but the digest's own place, which lies in the first piece."""

    def __init__(self, first: Any) -> None:
        self._sha = hashlib.sha256(memoryview(first)[:_START])
        self._sha.update(memoryview(first)[_START + HEX :])

    def update(self, piece: Any) -> None:
        """Take in the next piece."""
        self._sha.update(piece)

    def hex(self) -> bytes:
        """Return the digest as it stands in a file."""
        return self._sha.hexdigest().encode("ascii")


def _digest(pieces: Iterable[Any]) -> str:
    first, *rest = pieces
    found = Digest(first)
    for piece in rest:
        found.update(piece)
    return found.hex().decode("ascii")


def _write_pieces(file: Any, pieces: Iterable[Any]) -> None:
    """Write pieces as they come, then the digest of all of them in its place."""
    digest = None
    for piece in pieces:
        if digest is None:
            digest = Digest(piece)
        else:
            digest.update(piece)
        file.write(piece)
    assert digest is not None
    file.seek(_START)
    file.write(digest.hex())


def write(path: Any, pieces: Iterable[Any]) -> None:
    """Write a file whole or not at all: aside, to the disk, then under its name.

    `pieces` are those of :func:`pieces_of`, which need not all be in memory.
    """
    target = os.path.realpath(os.fsdecode(path))
    folder = os.path.dirname(target)
    aside = os.path.join(folder, f".onkel-{secrets.token_hex(8)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(aside, flags, 0o666)  # less the umask, as for any new file
    try:
        with open(handle, "wb") as file:
            _write_pieces(file, pieces)
            file.flush()
            os.fsync(handle)
        os.replace(aside, target)
    except BaseException:
        os.unlink(aside)
        raise
    _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    """Let the new name survive a power failure too, where the system can do that."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:  # some network file systems refuse it; the file itself is safe
        pass
    finally:
        os.close(handle)


# -- reading ---------------------------------------------------------------------------------------


def unpack(data: Any) -> tuple[int, dict[str, Any], dict[str, Array]]:
    """Return version, model and tensors; raise a ValueError unless every byte is as written."""
    version, model = opened(data)
    return version, model, views(data) if "fleet" in model else _tensors(bytes(data))


def opened(data: Any) -> tuple[int, dict[str, Any]]:
    """Return version and model of a file of which every byte is as written; else a ValueError."""
    _check_digest(data)
    metadata = _read_metadata(data)
    version = _version(metadata)
    model = loads(metadata["model"])
    if type(model) is not dict:
        raise ValueError("the header's model is not an object.")
    return version, model


def _check_digest(data: Any) -> None:
    if data[8:_START] != BEGIN:
        raise ValueError("this is no model file of onkel's, or its beginning is damaged.")
    if data[_START : _START + HEX] != _digest([data]).encode("ascii"):
        raise ValueError("the file is damaged: cut short, or changed after it was written.")


def _read_metadata(data: Any) -> dict[str, str]:
    length = int.from_bytes(data[:8], "little")
    if length > len(data) - 8:
        raise ValueError("the header is longer than the file.")
    found = loads(bytes(data[8 : 8 + length]).decode("ascii"))["__metadata__"]
    if any(type(v) is not str for v in found.values()):
        raise ValueError("the metadata must be strings.")
    return dict(found)


def _version(metadata: Mapping[str, str]) -> int:
    text = metadata.get("version", "")
    if metadata.get("format") != NAME or not (text.isdecimal() and len(text) < 9):
        raise ValueError("the header does not say which format this is.")
    version = int(text)
    if version > FORMAT:
        raise ValueError(
            f"written by a newer onkel (format {version}, this one reads up to {FORMAT}): upgrade."
        )
    if version < 1 or set(metadata) != _KEYS:
        raise ValueError(f"the header is not one of format {version}.")
    return version


def loads(text: str) -> Any:
    """Read strict JSON: no key twice, no number that is not one."""
    return json.loads(
        text, object_pairs_hook=_distinct, parse_constant=_no_number, parse_float=_finite
    )


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in the header.")
    return found


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is no number of JSON.")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text:.20} is too large.")
    return value


def views(data: Any) -> dict[str, Array]:
    """Return the tensors of a file that is checked already, where they lie: nothing is copied.

    Places and sizes are checked as safetensors does: one behind another, each as long as its shape.
    """
    length = int.from_bytes(data[:8], "little")
    header, found, at = loads(bytes(data[8 : 8 + length]).decode("ascii")), {}, 0
    listed = [(name, held) for name, held in header.items() if name != "__metadata__"]
    for name, held in sorted(listed, key=lambda pair: pair[1]["data_offsets"]):
        kind, shape, (start, end) = _TYPES.get(held["dtype"]), held["shape"], held["data_offsets"]
        if kind is None or any(type(n) is not int or n < 0 for n in (*shape, start, end)):
            raise ValueError(f"tensor {name!r} has a type or a shape that is not used here.")
        size = int(np.prod(shape, dtype=object)) * np.dtype(kind).itemsize
        if start != at or end - start != size or 8 + length + end > len(data):
            raise ValueError(f"tensor {name!r} does not lie where it should.")
        raw = np.frombuffer(data, np.uint8, size, 8 + length + start)
        found[name], at = raw.view(kind).reshape(shape), end
    if 8 + length + at != len(data):
        raise ValueError("the file is longer than what it holds.")
    return found


def _tensors(data: Any) -> dict[str, Array]:
    """Let safetensors check sizes and places, and return arrays that can be written to."""
    from safetensors import deserialize

    tensors = {}
    for name, held in deserialize(data):  # type: ignore[no-untyped-call]
        kind = _TYPES.get(held["dtype"])
        if kind is None:
            raise ValueError(f"tensor {name!r} has a type that is not used here.")
        raw = np.frombuffer(held["data"], np.uint8)
        if kind == "?" and np.any(raw > 1):
            raise ValueError(f"tensor {name!r} holds truth values other than 0 and 1.")
        array = raw.view(kind).reshape(held["shape"])
        tensors[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
    return tensors
