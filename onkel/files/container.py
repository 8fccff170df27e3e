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
from collections.abc import Iterable, Mapping
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


def pack(model: Mapping[str, Any], tensors: Mapping[str, Array]) -> list[Any]:
    """Return the pieces of a file, one after another; arrays are not copied."""
    arrays = {name: _little(array) for name, array in tensors.items()}
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
    pieces = [len(text).to_bytes(8, "little") + text, *(_bytes_of(arrays[n]) for n in order)]
    digest = _digest(pieces).encode("ascii")
    pieces[0] = pieces[0][:_START] + digest + pieces[0][_START + HEX :]
    return pieces


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


def _digest(pieces: Iterable[Any]) -> str:
    """SHA-256 over everything but the digest's own place, which lies in the first piece."""
    first, *rest = pieces
    sha = hashlib.sha256(memoryview(first)[:_START])
    sha.update(memoryview(first)[_START + HEX :])
    for piece in rest:
        sha.update(piece)
    return sha.hexdigest()


def write(path: Any, pieces: Iterable[Any]) -> None:
    """Write a file whole or not at all: aside, to the disk, then under its name."""
    target = os.path.realpath(os.fsdecode(path))
    folder = os.path.dirname(target)
    aside = os.path.join(folder, f".onkel-{secrets.token_hex(8)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(aside, flags, 0o666)  # less the umask, as for any new file
    try:
        with open(handle, "wb") as file:
            file.writelines(pieces)
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
    _check_digest(data)
    metadata = _read_metadata(data)
    version = _version(metadata)
    model = loads(metadata["model"])
    if type(model) is not dict:
        raise ValueError("the header's model is not an object.")
    return version, model, _tensors(data)


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
