"""CSV and TSV: cells between delimiters, names in the first line."""

from __future__ import annotations

import contextlib
import csv
import re
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.columns.cells import ENOUGH, MISSING, is_missing, number_in
from onkel.streams.sources import values
from onkel.streams.sources.decoder import Decoder, Wanted, cr_alone, text_of
from onkel.streams.sources.headers import ROWS, is_header
from onkel.streams.sources.lines import Unfit
from onkel.streams.sources.schema import SourceError, listed
from onkel.streams.sources.values import BadRow

Array = NDArray[Any]

DELIMITERS = ",;\t|"
_MARK = b"\xef\xbb\xbf"
_QUOTES = (
    "quotes are taken as part of the cells: there are some that go on behind them, and none that "
    "needs them"
)
_TRAILING = "each row ends with {!r}, behind which nothing stands: no column is made of that"


class Delimited(Decoder):
    """Rows of cells.

    Parameters
    ----------
    delimiter : str, optional
        Between cells; None: the one of ``, ; tab |`` that the first line has most of, but no
        comma that stands before decimals.
    header : bool, optional
        Whether the first line has the names; None: as it and the rows below tell.
    arrow : bool, optional
        Whether pyarrow parses; None: if it is there. The results are the same.
    names : list of str, optional
        The columns, if they are known already.
    named : frozenset of str
        Columns that someone has named.
    trailing : bool
        Whether rows end with a delimiter behind which nothing stands.
    quotes : bool
        Whether quotes stand around cells; else they are part of them.

    Examples
    --------
    >>> decoder = Delimited()
    >>> decoder.start([b"a;b", b"1;2"]), decoder.names, decoder.cells(b"1;x")
    (1, ['a', 'b'], ['1', 'x'])
    """

    multiline = True

    def __init__(
        self, delimiter: str | None = None, header: bool | None = None, arrow: bool | None = None,
        names: list[str] | None = None, named: frozenset[str] = frozenset(),
        trailing: bool = False, quotes: bool = True,
    ) -> None:  # fmt: skip
        self._named, self.trailing, self.quotes = named, trailing, quotes
        self.notes: list[str] = []
        self.delimiter, self.header = delimiter, header
        self._names = names
        self.order: list[int] | None = None
        """Where the present file has each column, if not in its own place."""
        self.arrow = find_spec("pyarrow") is not None if arrow is None else arrow
        if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
            raise SourceError(f"--delimiter is one character, such as ';'; got {delimiter!r}.")

    def to_dict(self) -> dict[str, Any]:
        """Return delimiter, header, names, how rows end, and what quotes are."""
        return {
            "delimiter": self.delimiter, "header": self.header, "names": self._names,
            "trailing": self.trailing, "quotes": self.quotes,
        }  # fmt: skip

    @property
    def names(self) -> list[str]:
        """The columns."""
        assert self._names is not None
        return self._names

    def start(self, lines: list[bytes]) -> int:
        """Learn delimiter and names from the first line."""
        if not lines:
            raise SourceError("The source is empty: there is not even a header.")
        first = _plain(lines[0])
        if self.delimiter is None:
            self.delimiter = _delimiter(first, lines[1 : ROWS + 1])
        first, lines = self._ended(first, lines)
        if self.delimiter == "\t" and self._has_odd_quotes(lines):
            self.quotes = False
            self.notes.append(_QUOTES)
        cells = self._first_cells(first)
        if self.header is None:
            self.header, said = is_header(cells, self._below(lines, len(cells)), self._named)
            self.notes += [said] if said else []
        if not self.header:
            self._names = [f"c{j + 1}" for j in range(len(cells))]
            return 0
        self._names = _named(cells)
        return 1

    def _ended(self, first: str, lines: list[bytes]) -> tuple[str, list[bytes]]:
        """Return the first lines without a delimiter at the end of each, if all rows have one.

        Behind it is a column without a name in which nothing stands: either the first line has
        that delimiter, too, or it has a cell less.
        """
        assert self.delimiter is not None
        mark, rows = self.delimiter, [text.rstrip(b"\r") for text in lines[1:]]
        end, more = mark.encode(), first.count(mark) + 1
        ends = [row.endswith(end) for row in rows]
        less = sum(e and row.count(end) == more for e, row in zip(ends, rows, strict=True))
        if not (all(ends) if first.endswith(mark) else less > ENOUGH * len(rows)):
            return first, lines
        self.trailing = True
        self.notes.append(_TRAILING.format(mark))
        return first.removesuffix(mark), self.ready(lines)

    def ready(self, lines: list[bytes]) -> list[bytes]:
        """Return lines without what stands behind their last cell."""
        if not self.trailing:
            return lines
        assert self.delimiter is not None
        end = self.delimiter.encode()
        return [
            line if type(line) is Unfit else line.removesuffix(b"\r").removesuffix(end)
            for line in lines
        ]

    def _has_odd_quotes(self, lines: list[bytes]) -> bool:
        """Whether quotes are part of what they stand in: a cell goes on behind one, none needs it.

        Tables with tabs between their cells often have them so.
        """
        odd = False
        for line in (line for line in lines if b'"' in line):
            try:
                cells = self._split(text_of(line).removesuffix("\r"))
            except BadRow:
                odd = True
            else:
                if b'""' in line or any(mark in cell for cell in cells for mark in "\t\n"):
                    return False
        return odd

    def _below(self, lines: list[bytes], width: int) -> list[list[str]]:
        """Return the cells of the first rows that are as wide as the first line."""
        found = []
        for line in lines[1 : ROWS + 1]:
            with contextlib.suppress(BadRow):
                found.append(self._split(text_of(line).removesuffix("\r")))
        return [cells for cells in found if len(cells) == width]

    def _first_cells(self, first: str) -> list[str]:
        try:
            return self._split(first)
        except BadRow as reason:
            raise SourceError(f"The first line is {reason}.{cr_alone(first.encode())}") from None

    def adopt(self, line: bytes) -> bool:
        """Whether a line is a header; if its columns are in another order, they are found there."""
        try:
            found = _named(self._split(_plain(*self.ready([line]))))
        except (BadRow, SourceError):
            return False
        if not self.header:
            return False
        if sorted(found) == sorted(self.names):
            place = {name: j for j, name in enumerate(found)}
            order = [place[name] for name in self.names]
            self.order = order if found != self.names else None
            return True
        self._check_other(found)
        return False

    def _check_other(self, cells: list[str]) -> None:
        """Raise if a first line names other columns: no number, as wide or with known names."""
        known, given = dict.fromkeys(self.names), dict.fromkeys(cells)
        new, gone = [c for c in cells if c not in known], [n for n in known if n not in given]
        if any(values.is_number(c) or is_missing(c) for c in cells):
            return
        if len(cells) == len(self.names) or len(new) < len(cells):
            raise SourceError(
                f"The next file has other columns: {listed(new) or 'none'} instead of "
                f"{listed(sorted(gone)) or 'none'}. Rows of other columns are another run's."
            )

    def layout(self) -> dict[str, Any]:
        """Return where the columns are, if not in their first order."""
        return {} if self.order is None else {"order": self.order}

    def _placed(self, wanted: Wanted) -> Wanted:
        if self.order is None:
            return wanted
        others = {role: self.order[at] for role, at in wanted.others.items()}
        features = [self.order[j] for j in wanted.features]
        return replace(wanted, features=features, others=others)

    def is_open(self, line: bytes) -> bool:
        """Whether a quoted cell is not closed yet: an odd number of quotes, one at a start."""
        if not self.quotes or line.count(b'"') % 2 == 0:
            return False
        marks = self.delimiter or DELIMITERS  # not known yet in the very first lines
        return re.search(rb'(?:^|[%s])[ ]*"' % re.escape(marks).encode(), line) is not None

    def _split(self, text: str) -> list[str]:
        assert self.delimiter is not None
        if not self.quotes or ('"' not in text and "\r" not in text and "\n" not in text):
            return text.split(self.delimiter)
        try:
            rows = list(
                csv.reader([text], delimiter=self.delimiter, strict=True, skipinitialspace=True)
            )
        except csv.Error as error:
            raise BadRow(f"not readable as cells: {error}") from None
        if len(rows) != 1:
            raise BadRow("not readable as cells: a line break inside")
        return rows[0]

    def cells(self, line: bytes) -> list[str]:
        """Return the cells of one row."""
        found = self._split(text_of(line).removesuffix("\r"))
        if len(found) != len(self.names):
            raise BadRow(f"{len(found)} columns where {len(self.names)} were expected")
        return found if self.order is None else [found[j] for j in self.order]

    # -- whole blocks --------------------------------------------------------------------------

    def fast(self, lines: list[bytes], wanted: Wanted) -> tuple[Array, dict[str, list[Any]]] | None:
        """Parse a block at once, where it is plain: no quotes, as many cells in each row."""
        assert self.delimiter is not None
        data = b"\n".join(lines)
        if (self.quotes and b'"' in data) or (len(self.names) == 1 and not data.isascii()):
            return None  # the latter: a line of odd blanks is no empty line here
        if b"\r" in data:
            data = data.replace(b"\r\n", b"\n").removesuffix(b"\r")
            if b"\r" in data:
                return None
        wanted = self._placed(wanted)
        if self.arrow:  # it refuses rows of another width itself
            table = self._by_arrow(data, wanted) if _is_text(data) else None
            del data  # what comes of it may be as large once more
            same = table is not None and table.num_rows == len(lines)
            return _from_arrow(table, wanted) if same else None
        mark, width = self.delimiter.encode(), len(self.names) - 1
        if any(line.count(mark) != width for line in lines):
            return None
        return self._plainly(data, wanted)

    def divided(self, lines: list[bytes], wanted: Wanted) -> list[list[int]]:
        """Return the places of lines that look plain, and of the others."""
        match = self._pattern(self._placed(wanted)).fullmatch
        plain = [type(line) is not Unfit and match(line) is not None for line in lines]
        parts = [[i for i, found in enumerate(plain) if found is kind] for kind in (True, False)]
        return parts if all(parts) else super().divided(lines, wanted)

    def _pattern(self, wanted: Wanted) -> re.Pattern[bytes]:
        """Return what a row looks like whose features are plain numbers, or missing."""
        assert self.delimiter is not None
        mark = re.escape(self.delimiter.encode())
        cells = [rb"[^%s\r\n%s]*" % (b'"' * self.quotes, mark)] * len(self.names)
        for j in wanted.features:
            cells[j] = rb"(?:[-+]?\d+(?:%s\d*)?(?:[eE][-+]?\d+)?)?" % (
                re.escape(wanted.decimal.encode())
            )
        return re.compile(mark.join(cells) + rb"\r?")

    def _plainly(self, data: bytes, wanted: Wanted) -> tuple[Array, dict[str, list[Any]]] | None:
        try:
            rows = data.decode("utf-8").split("\n")
            split = [row.split(self.delimiter) for row in rows] if self._splits(wanted) else []
            X = self._loaded(rows, split, wanted)
        except ValueError:  # a bad number, a missing one, or bytes that are no text
            return None
        if X is None or len(X) != len(rows) or not np.all(np.isfinite(X)):
            return None
        return X, {role: [row[at] for row in split] for role, at in wanted.others.items()}

    @staticmethod
    def _splits(wanted: Wanted) -> bool:
        return bool(wanted.others) or wanted.decimal != "."

    def _loaded(self, rows: list[str], split: list[list[str]], wanted: Wanted) -> Array | None:
        if not wanted.features:
            return np.empty((len(rows), 0))
        places: Any = wanted.features
        if wanted.decimal != ".":
            numbers = ["\t".join(row[j] for j in wanted.features) for row in split]
            if any("." in row for row in numbers):
                return None
            rows, places = [row.replace(wanted.decimal, ".") for row in numbers], None
        mark = self.delimiter if places is not None else "\t"
        return np.loadtxt(rows, delimiter=mark, comments=None, usecols=places, ndmin=2)

    def _by_arrow(self, data: bytes, wanted: Wanted) -> Any:
        """Return a table of what is wanted; None where it is no such."""
        import pyarrow
        from pyarrow import csv as arrow

        places = [*wanted.features, *wanted.others.values()]
        types = dict.fromkeys((str(j) for j in wanted.features), pyarrow.float64())
        types |= dict.fromkeys((str(j) for j in wanted.others.values()), pyarrow.string())
        try:
            return arrow.read_csv(
                pyarrow.py_buffer(data),
                arrow.ReadOptions(
                    column_names=[str(j) for j in range(len(self.names))], use_threads=False,
                    block_size=max(len(data) + 1, 4096),
                ),
                arrow.ParseOptions(delimiter=self.delimiter, quote_char=False),
                arrow.ConvertOptions(
                    column_types=types, include_columns=[str(j) for j in places],
                    null_values=list(MISSING), strings_can_be_null=False,
                    decimal_point=wanted.decimal,
                ),
            )  # fmt: skip
        except pyarrow.ArrowException:
            return None


def numbers_of(column: Any) -> Array:
    """Return a column of doubles, NaN where it has none.

    Arrow's own way imports pandas, where that is installed: a third of a second.
    """
    found = np.full(len(column), np.nan)
    start = 0
    for chunk in column.chunks:
        there: Any = np.array(chunk.is_valid().to_pylist()) if chunk.null_count else slice(None)
        held = np.frombuffer(chunk.buffers()[1], float)[chunk.offset : chunk.offset + len(chunk)]
        found[start : start + len(chunk)][there] = held[there]
        start += len(chunk)
    return found


def _from_arrow(table: Any, wanted: Wanted) -> tuple[Array, dict[str, list[Any]]] | None:
    X = np.empty((table.num_rows, len(wanted.features)))
    for i, j in enumerate(wanted.features):
        column = table.column(str(j))
        X[:, i] = numbers_of(column)
        if np.count_nonzero(np.isnan(X[:, i])) != column.null_count:
            return None  # a spelling of NaN that nobody else takes
    return X, {role: table.column(str(at)).to_pylist() for role, at in wanted.others.items()}


def _delimiter(first: str, lines: list[bytes]) -> str:
    """Return what the first line has most of; commas may all stand before decimals."""
    texts = [first, *(line.decode("utf-8", "replace").removesuffix("\r") for line in lines)]
    for mark in DELIMITERS.replace(",", ""):
        commas = [c for t in texts for c in t.split(mark) if "," in c] if mark in first else []
        if commas and all(number_in(c, ",") is not None for c in commas):
            return mark
    return max(DELIMITERS, key=first.count) if first else ","


def _named(cells: list[str]) -> list[str]:
    return [c.strip() or f"c{j + 1}" for j, c in enumerate(cells)]


def _is_text(data: bytes) -> bool:
    """Whether bytes are UTF-8; pyarrow looks at those columns only that it hands over."""
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _plain(line: bytes) -> str:
    """Return a first line as text, without the mark that some programs put there."""
    try:
        return line.removeprefix(_MARK).decode("utf-8").removesuffix("\r")
    except UnicodeDecodeError:
        raise SourceError(
            "The first line is not UTF-8. Convert the source: iconv -f latin1 -t utf-8 FILE | onkel"
        ) from None
