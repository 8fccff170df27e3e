"""JSON lines: one object per line, columns by name."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.streams.sources.decoder import Decoder, Wanted, text_of
from onkel.streams.sources.schema import SourceError
from onkel.streams.sources.values import BadRow

Array = NDArray[Any]

_PLAIN = {int, float, bool, type(None)}


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


class JsonLines(Decoder):
    """Objects, one per line; what a row leaves out is missing, what is new is ignored.

    Parameters
    ----------
    fast_parser : bool, optional
        Whether msgspec parses; None: if it is there. The results are the same.

    Examples
    --------
    >>> decoder = JsonLines()
    >>> decoder.start([b'{"a": 1}', b'{"a": 2, "b": 3}']), decoder.names
    (0, ['a', 'b'])
    >>> decoder.cells(b'{"b": 0.5}')
    [None, 0.5]
    """

    def __init__(self, fast_parser: bool | None = None, names: list[str] | None = None) -> None:
        self._names = names
        there = find_spec("msgspec") is not None
        self._many = _by_msgspec() if (there if fast_parser is None else fast_parser) else _plainly

    def to_dict(self) -> dict[str, Any]:
        """Return the names."""
        return {"names": self._names}

    @property
    def names(self) -> list[str]:
        """The keys that the first rows had."""
        assert self._names is not None
        return self._names

    def start(self, lines: list[bytes]) -> int:
        """Collect the names of the first rows, in the order of their appearance."""
        names: dict[str, None] = {}
        for line in lines:
            try:
                names |= dict.fromkeys(_object(line))
            except BadRow:
                continue
        if not names:
            raise SourceError('There is no JSON object in the first lines, such as {"a": 1.5}.')
        self._names = list(names)
        return 0

    def cells(self, line: bytes) -> list[Any]:
        """Return one row's values, None where there is none."""
        found = _object(line)
        return [found.get(name) for name in self.names]

    def fast(self, lines: list[bytes], wanted: Wanted) -> tuple[Array, dict[str, list[Any]]] | None:
        """Parse a block at once, where every line is an object and every feature a number."""
        objects = self._many(lines)
        if objects is None or len(objects) != len(lines):
            return None
        X = np.empty((len(lines), len(wanted.features)))
        for i, j in enumerate(wanted.features):
            name = self.names[j]
            column = [found.get(name) for found in objects]
            if not set(map(type, column)) <= _PLAIN:
                return None
            try:
                X[:, i] = np.array(column, float)
            except OverflowError:
                return None
        names = {role: self.names[at] for role, at in wanted.others.items()}
        return X, {role: [found.get(name) for found in objects] for role, name in names.items()}


def _object(line: bytes) -> dict[str, Any]:
    try:
        found = _DECODER.decode(text_of(line))
    except BadRow:
        raise
    except (ValueError, RecursionError) as error:
        raise BadRow(f"not JSON: {error}"[:120]) from None
    if not isinstance(found, dict):
        raise BadRow(f"a JSON {type(found).__name__} where an object was expected")
    if b"\\u" in line:  # only so can half a character be written
        _check_text(found)
    return found


def _check_text(found: dict[str, Any]) -> None:
    try:
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except (UnicodeEncodeError, RecursionError):
        raise BadRow("half a character: a surrogate without the other one") from None


def _plainly(lines: list[bytes]) -> list[dict[str, Any]] | None:
    try:
        return [_object(line) for line in lines]
    except BadRow:
        return None


def _by_msgspec() -> Any:
    import msgspec

    decoder = msgspec.json.Decoder(dict[str, Any])

    def many(lines: list[bytes]) -> list[dict[str, Any]] | None:
        try:
            found: list[dict[str, Any]] = decoder.decode_lines(b"\n".join(lines))
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        return found

    return many
