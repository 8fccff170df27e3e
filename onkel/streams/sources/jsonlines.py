"""JSON lines: one object per line, columns by name."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.streams.sources.decoder import Decoder, Wanted, text_of
from onkel.streams.sources.schema import SourceError
from onkel.streams.sources.values import BadRow

Array = NDArray[Any]

WIDEST = 100_000
"""As many columns as a line of a mebibyte can hold; more come of rows that share no names."""
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
        if len(names) > WIDEST:
            raise SourceError(
                f"The first rows have {len(names)} names, and {WIDEST} columns are the most: it "
                "seems that something is used as a name that should be a value."
            )
        if not names:
            array = bool(lines) and lines[0].lstrip().startswith(b"[")
            way = " Make lines of an array's objects: jq -c '.[]' FILE | onkel … -" if array else ""
            raise SourceError(
                f'There is no JSON object in the first lines, such as {{"a": 1.5}}.{way}'
            )
        self._names = list(names)
        return 0

    def columns(self, lines: list[bytes]) -> list[Sequence[Any]]:
        """Return what each column holds in the first rows, without what rows leave out."""
        found: dict[str, list[Any]] = {name: [] for name in self.names}
        for line in lines:
            with contextlib.suppress(BadRow):
                for name, value in _object(line).items():
                    found[name].append(value)
        return list(found.values())

    def cells(self, line: bytes) -> list[Any]:
        """Return one row's values, None where there is none."""
        found = _object(line)
        return [found.get(name) for name in self.names]

    def fast(self, lines: list[bytes], wanted: Wanted) -> tuple[Array, dict[str, list[Any]]] | None:
        """Parse a block at once, where every line is an object and every feature a number."""
        objects = self._many(lines)
        if objects is None or len(objects) != len(lines):
            return None
        features = [self.names[j] for j in wanted.features]
        sparse = 4 * sum(map(len, objects)) < len(objects) * len(features)
        try:
            X = (_scattered if sparse else _dense)(objects, features)
        except OverflowError:
            return None
        if X is None:
            return None
        names = {role: self.names[at] for role, at in wanted.others.items()}
        return X, {role: [found.get(name) for found in objects] for role, name in names.items()}


def _dense(objects: list[dict[str, Any]], names: list[str]) -> Array | None:
    """Return numbers column by column; None where there is something else."""
    X = np.empty((len(objects), len(names)))
    for j, name in enumerate(names):
        column = [found.get(name) for found in objects]
        if not set(map(type, column)) <= _PLAIN:
            return None
        X[:, j] = np.array(column, float)
    return X


def _scattered(objects: list[dict[str, Any]], names: list[str]) -> Array | None:
    """Return the same of rows that leave most names out: what they hold is what it costs."""
    X = np.full((len(objects), len(names)), np.nan)
    place = {name: j for j, name in enumerate(names)}
    for i, found in enumerate(objects):
        for name in found.keys() & place.keys():
            if type(found[name]) not in _PLAIN:
                return None
            X[i, place[name]] = np.nan if found[name] is None else float(found[name])
    return X


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
