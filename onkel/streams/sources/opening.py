"""From a name to a source: which format, which feed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from onkel.streams.sources.assemble import Rules
from onkel.streams.sources.decoder import Decoder
from onkel.streams.sources.delimited import Delimited
from onkel.streams.sources.feed import Feed, FileFeed, PipeFeed, flows, readable
from onkel.streams.sources.growing import GrowingFeed
from onkel.streams.sources.jsonlines import JsonLines
from onkel.streams.sources.libsvm import LibSvm
from onkel.streams.sources.lines import LONGEST
from onkel.streams.sources.schema import Roles, Schema, SourceError
from onkel.streams.sources.source import Source, TextSource
from onkel.streams.sources.waiting import Waiting

FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow", "libsvm")
_ENDINGS = {
    "csv": "csv", "txt": "csv", "tsv": "tsv", "tab": "tsv", "jsonl": "jsonl", "ndjson": "jsonl",
    "json": "jsonl", "parquet": "parquet", "pq": "parquet", "feather": "arrow", "arrow": "arrow",
    "libsvm": "libsvm", "svm": "libsvm",
}  # fmt: skip
_PACKED = {"gz", "bz2", "xz", "zst"}


@dataclass(frozen=True)
class Reading:
    """How a source is to be read."""

    format: str | None = None
    delimiter: str | None = None
    header: bool | None = None
    features: int | None = None
    follow: bool = False
    replay: bool = False
    size: int | None = None
    longest: int = LONGEST
    fast: bool | None = None
    """Whether pyarrow or msgspec parse; None: where they are installed."""
    patience: float = 0.2
    roles: Roles = field(default_factory=Roles)
    rules: Rules = field(default_factory=Rules)
    idle: float | None = None
    """A live source that brings nothing for so many seconds before its first row has none."""
    durable: bool = False
    """Whether a later run goes on from a position, as those with a state do: what was read is then
    known by a checksum, and a last line without an end is left for that run."""
    stop: Callable[[], bool] | None = None
    """Asked while the first rows are waited for: True raises `Stopped`."""


def open_source(
    name: str, reading: Reading | None = None, memo: dict[str, Any] | None = None,
    position: dict[str, Any] | None = None,
) -> Source:  # fmt: skip
    r"""Return the source with a name: a path, or ``-`` for standard input.

    Parameters
    ----------
    name : str
        A file's path, ``-``, or ``kafka://host:port/topic``.
    reading : Reading
        Format, roles of columns and the like.
    memo, position : dict, optional
        What an earlier source said (:meth:`Source.memo`), and where to go on (of a block).

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.csv"
    >>> path.write_text("a,b\n1,2\n3,4\n")
    12
    >>> source = open_source(str(path))
    >>> [block.X.tolist() for block in source.blocks()]
    [[[1.0, 2.0], [3.0, 4.0]]]
    >>> source.close()
    """
    with readable(name):
        source = _opened(name, reading or Reading(), memo, position)
    source.name = name
    return source


def _opened(
    name: str, reading: Reading, memo: dict[str, Any] | None, position: dict[str, Any] | None
) -> Source:
    schema = Schema.from_dict(memo["schema"]) if memo else None
    waiting = Waiting(reading.idle, reading.stop)
    kind = memo["format"] if memo else reading.format or _format_of(name)
    if kind in ("parquet", "arrow"):
        from onkel.streams.sources.parquet import Feather, Parquet

        _check_parquet(name, kind, reading)
        return (Parquet if kind == "parquet" else Feather)(
            name, reading.roles, reading.size, position, schema, reading.rules, reading.durable
        )
    if name.startswith("kafka://"):
        from onkel.streams.sources.kafka import Kafka

        return Kafka(
            name, reading.roles, reading.size, position, memo, reading.rules, reading.patience,
            waiting,
        )  # fmt: skip
    feed = _feed(name, reading, position)
    decoder = _decoder(kind, reading, memo["decoder"] if memo else {})
    if isinstance(decoder, Delimited) and position and feed.offset:
        decoder.order = position.get("order")
    known = position if not isinstance(feed, PipeFeed) or reading.replay else _row_only(position)
    source = TextSource(
        feed, decoder, reading.roles, reading.size, known, schema, reading.longest,
        reading.patience, reading.rules, waiting, reading.durable,
    )  # fmt: skip
    source.format = kind if kind is not None else _sniffed(decoder)
    return source


def _row_only(position: dict[str, Any] | None) -> dict[str, Any] | None:
    """A pipe that is opened again brings new rows: only their numbers go on."""
    return None if position is None else {k: v for k, v in position.items() if k in _KEPT}


_KEPT = ("row", "clock")


def _check_parquet(name: str, kind: str, reading: Reading) -> None:
    if name == "-" or reading.follow or flows(name):
        raise SourceError(
            f"{kind.capitalize()} is read from a file that is finished: no pipe, no --follow."
        )


def _feed(name: str, reading: Reading, position: dict[str, Any] | None) -> Feed:
    if name == "-" or flows(name):
        if reading.follow:
            raise SourceError("--follow is for files; a pipe is followed anyway.")
        again = reading.replay
        return PipeFeed(
            path=None if name == "-" else name, position=position if again else None,
            durable=again and reading.durable,
        )  # fmt: skip
    kind = GrowingFeed if reading.follow else FileFeed
    return kind(name, position, reading.durable)


def _format_of(name: str) -> str | None:
    """Return the format that a name's ending tells; None for a pipe: its first byte tells.

    Examples
    --------
    >>> _format_of("x/data.JSONL.gz"), _format_of("-")
    ('jsonl', None)
    """
    if name == "-":
        return None
    endings = [e.lstrip(".").lower() for e in PurePath(name).suffixes]
    endings = [e for e in endings if e not in _PACKED]
    known = [_ENDINGS[e] for e in endings[-1:] if e in _ENDINGS]
    return known[0] if known else None


def _decoder(kind: str | None, reading: Reading, known: dict[str, Any]) -> Decoder:
    if kind == "jsonl":
        return JsonLines(reading.fast, **known)
    if kind == "libsvm":
        return LibSvm(**(known or {"features": reading.features}))
    if kind in ("csv", "tsv"):
        given = reading.delimiter or ("\t" if kind == "tsv" else None)
        told = known or {"delimiter": given, "header": reading.header}
        return Delimited(**told, arrow=reading.fast, named=reading.roles.named)
    return _ByFirstByte(reading)


class _ByFirstByte(Decoder):
    """CSV or JSON lines: what begins with a brace is an object."""

    multiline = True

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self.own: Decoder = Delimited(
            reading.delimiter, reading.header, reading.fast, named=reading.roles.named
        )

    def start(self, lines: list[bytes]) -> int:
        if lines and lines[0].lstrip().startswith(b"{"):
            self.own = JsonLines(self._reading.fast)
        return self.own.start(lines)

    @property
    def names(self) -> list[str]:
        return self.own.names

    @property
    def notes(self) -> Sequence[str]:  # type: ignore[override]
        return self.own.notes

    def cells(self, line: bytes) -> list[Any]:
        return self.own.cells(line)

    def columns(self, lines: list[bytes]) -> list[Sequence[Any]]:
        return self.own.columns(lines)

    def ready(self, lines: list[bytes]) -> list[bytes]:
        return self.own.ready(lines)

    def fast(self, lines: list[bytes], wanted: Any) -> Any:
        return self.own.fast(lines, wanted)

    def divided(self, lines: list[bytes], wanted: Any) -> list[list[int]]:
        return self.own.divided(lines, wanted)

    def is_open(self, line: bytes) -> bool:
        if not isinstance(self.own, Delimited) or line.lstrip().startswith(b"{"):
            return False
        return self.own.delimiter is not None and self.own.is_open(line)

    def adopt(self, line: bytes) -> bool:
        return self.own.adopt(line)

    def layout(self) -> dict[str, Any]:
        return self.own.layout()

    def to_dict(self) -> dict[str, Any]:
        return self.own.to_dict()


def _sniffed(decoder: Decoder) -> str:
    own = decoder.own if isinstance(decoder, _ByFirstByte) else decoder
    return "jsonl" if isinstance(own, JsonLines) else "csv"
