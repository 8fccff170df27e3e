"""Files that hold no rows of text, known by how they begin: what they are, and what to do."""

from __future__ import annotations

from onkel.streams.sources.schema import SourceError

_SHEET = "save the sheet as CSV"
_BEGINNINGS = {
    b"pk\x03\x04": f"a ZIP archive, perhaps an Excel workbook: {_SHEET}, or unpack it",
    b"\xd0\xcf\x11\xe0": f"an Office file, perhaps an old Excel workbook: {_SHEET}",
    b"par1\x15": "Parquet: say --format parquet",
    b"\xff\xfe": "UTF-16: iconv -f utf-16 -t utf-8 FILE | onkel … -",
    b"\xfe\xff": "UTF-16: iconv -f utf-16 -t utf-8 FILE | onkel … -",
    b"sqlite format 3": "an SQLite database: export a table as CSV",
    b"%pdf-": "a PDF document, and no table",
    b"\x89hdf": "HDF5: export a table as CSV or Parquet",
    b"<!doctype": "a page of HTML, perhaps an error of whoever sent it",
    b"<html": "a page of HTML, perhaps an error of whoever sent it",
    b"<?xml": "XML: write its rows as CSV or JSON lines",
}


def check_beginning(line: bytes) -> None:
    """Raise SourceError where a first line is that of something else.

    Examples
    --------
    >>> check_beginning(b"a,b")
    >>> check_beginning(b"<html><body>404")
    Traceback (most recent call last):
    onkel.streams.sources.schema.SourceError: This is a page of HTML, perhaps an error of ...
    """
    first = line[:64].lstrip(b" \t").lower()
    for beginning, words in _BEGINNINGS.items():
        if first.startswith(beginning):
            raise SourceError(f"This is {words}.")
