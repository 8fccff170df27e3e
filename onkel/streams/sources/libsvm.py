"""LIBSVM's sparse text: ``label index:value index:value …``, indices from 1."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import Any

from onkel.streams.sources import values
from onkel.streams.sources.decoder import Decoder, text_of
from onkel.streams.sources.schema import SourceError
from onkel.streams.sources.values import BadRow

MOST = 100_000
"""More features than this are taken only where they were asked for: one odd index is no reason."""


class LibSvm(Decoder):
    """Rows of a label and the values that are not 0; columns are called label, 1, 2, …

    Parameters
    ----------
    features : int, optional
        Number of features; None: the largest index of the first rows.

    Examples
    --------
    >>> decoder = LibSvm()
    >>> decoder.start([b"+1 2:0.5 # a comment"]), decoder.names
    (0, ['label', '1', '2'])
    >>> decoder.cells(b"-1 1:3")
    ['-1', 3.0, 0.0]
    """

    def __init__(self, features: int | None = None) -> None:
        self.features = features

    def to_dict(self) -> dict[str, Any]:
        """Return the number of features."""
        return {"features": self.features}

    @property
    def names(self) -> list[str]:
        """The label, and the features by number."""
        assert self.features is not None
        return ["label", *(str(j + 1) for j in range(self.features))]

    def start(self, lines: list[bytes]) -> int:
        """Find the largest index of the first rows, unless told."""
        if self.features is None:
            largest = 0
            for line in lines:
                try:
                    largest = max([largest, *_parse(line)[1]])
                except BadRow:
                    continue
            if not largest:
                raise SourceError('There is no index:value in the first lines, such as "1 3:0.5".')
            if largest > MOST:
                raise SourceError(
                    f"The first lines have an index of {largest}; more than {MOST} features are "
                    "taken if you say how many: --features N. Rows beyond N are broken ones."
                )
            self.features = largest
        return 0

    def columns(self, lines: list[bytes]) -> list[Sequence[Any]]:
        """Return what each column holds in the first rows; 0 stands for all that they leave out."""
        assert self.features is not None
        labels: list[Any] = []
        found: list[list[float | None]] = [[0.0] for _ in range(self.features)]
        for line in lines:
            with contextlib.suppress(BadRow):
                label, row = self._fitting(line)
                labels.append(label)
                for index, value in row.items():
                    found[index - 1].append(None if math.isnan(value) else value)
        return [labels, *found]

    def _fitting(self, line: bytes) -> tuple[str, dict[int, float]]:
        assert self.features is not None
        label, found = _parse(line)
        largest = max(found, default=0)
        if largest > self.features:
            raise BadRow(f"index {largest}, but there are {self.features} features (--features)")
        return label, found

    def cells(self, line: bytes) -> list[Any]:
        """Return the label and all features."""
        assert self.features is not None
        label, found = self._fitting(line)
        row = [0.0] * self.features
        for index, value in found.items():
            row[index - 1] = value
        return [label, *row]


_DIGITS = 18


def _parse(line: bytes) -> tuple[str, dict[int, float]]:
    words = text_of(line).partition("#")[0].split()
    if not words:
        raise BadRow("no label")
    if ":" in words[0]:
        raise BadRow("no label before the first index:value")
    found: dict[int, float] = {}
    for word in words[1:]:
        index, colon, value = word.partition(":")
        if index == "qid":
            continue
        known = colon and index.isascii() and index.isdigit() and len(index) <= _DIGITS
        if not known or int(index) < 1:
            raise BadRow(f"{word[:40]!r} is no index:value")
        found[int(index)] = values.number(value, index)
    return words[0], found
