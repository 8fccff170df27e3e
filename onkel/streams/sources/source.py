"""A source: its columns, and its rows in blocks cut at fixed row numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onkel.streams.sources.assemble import Rules, assemble
from onkel.streams.sources.block import Block, most_rows, next_cut, rows_for
from onkel.streams.sources.decoder import Cells, Decoder, Wanted, cr_alone
from onkel.streams.sources.feed import Feed, readable
from onkel.streams.sources.foreign import check_beginning
from onkel.streams.sources.lines import LONGEST, Lines, Taken, Unfit
from onkel.streams.sources.schema import SAMPLE, Roles, Schema, SourceError
from onkel.streams.sources.waiting import Waiting

MARK = b"\xef\xbb\xbf"


class Source:
    """What all sources share."""

    schema: Schema
    format: str
    live = False
    """Whether more rows may come later."""
    name = "-"
    """What was opened."""
    size: int | None
    """Blocks end at multiples of it; None: the number of features tells."""
    _row = 0
    """Of the next row."""

    def _left(self) -> int:
        """Return how many rows the present block may still have."""
        features = len(self.schema.features) + len(self.schema.others)
        size = min(self.size or rows_for(features), most_rows(features))
        return next_cut(self._row, size) - self._row

    def blocks(self) -> Iterator[Block | None]:
        """Yield blocks, in order; None where a live source has nothing now."""
        raise NotImplementedError

    def trial(self) -> Block:
        """Return the first rows, as a block; they will come again in the blocks."""
        raise NotImplementedError

    def memo(self) -> dict[str, Any]:
        """Return what was learned from the first rows, JSON-ready: no need to look again."""
        return {"format": self.format, "schema": self.schema.to_dict(), "decoder": {}}

    def warnings(self) -> list[str]:
        """Return what a person should be told; more may be said after each block."""
        return self.schema.warnings()

    def close(self) -> None:
        """Let go of what is open."""


class TextSource(Source):
    """Rows of text from a feed.

    Parameters
    ----------
    feed : Feed
        Where bytes come from.
    decoder : Decoder
        What makes numbers of them.
    roles : Roles
        What the user said about columns.
    size : int, optional
        Blocks end at multiples of it.
    position, schema
        Of an earlier run, to go on from.
    longest : int
        A line of more bytes is a broken row.
    patience : float
        Seconds without new rows after which a live source's block is not waited for.
    rules : Rules
        Which rows count as broken although they could be read.
    waiting : Waiting
        How long the first rows are waited for.
    durable : bool
        Whether a later run goes on from a block's position; it gets a last line without an end.
    """

    def __init__(
        self, feed: Feed, decoder: Decoder, roles: Roles, size: int | None = None,
        position: dict[str, Any] | None = None, schema: Schema | None = None,
        longest: int = LONGEST, patience: float = 0.2, rules: Rules | None = None,
        waiting: Waiting | None = None, durable: bool = False,
    ) -> None:  # fmt: skip
        self.feed, self.decoder, self.size, self.patience = feed, decoder, size, patience
        self.live, self._rules = feed.live, rules
        at = position or {}
        is_open = decoder.is_open if decoder.multiline else None
        line, hold = at.get("line", 0) if feed.offset else 0, durable and feed.returns
        self._lines = Lines(feed, line, is_open, longest, hold)
        self._row = at.get("row", 0)
        self._clock = {k: v for k, v in at.items() if k == "clock"}
        self._maybe_header = self._lines.offset == 0
        """Whether the next line may be a header: of the first file, a rotated one, a new pipe."""
        self._heads = 0
        """Lines before the first row."""
        if schema is None:
            self._look(roles, waiting or Waiting())
        else:
            self.schema = schema
        self._wanted = Wanted.of(self.schema)

    # -- the first rows ------------------------------------------------------------------------

    _over = False
    """Whether the first row was waited for in vain: then there are none."""

    def _look(self, roles: Roles, waiting: Waiting) -> None:
        """Learn the columns from the first rows."""
        sample: list[bytes] = []  # not kept: heavy rows would weigh on all that come after them
        while not sample:  # a pipe may bring its header long before its first row
            lines = self._first_lines()
            if lines or self._lines.ended:
                self._heads = self.decoder.start(lines)
                sample = lines[self._heads :]
            if sample or self._lines.ended:
                break
            self._over = waiting.enough(self.feed.offset)
            if self._over and not lines:
                raise waiting.nothing()
            if self._over:
                break
        columns = self.decoder.columns(sample)
        self.schema = Schema.of(self.decoder.names, columns, roles)

    def _first_lines(self) -> list[bytes]:
        found = self._lines.look(SAMPLE, self.patience)
        for line in found[:1]:
            check_beginning(line)
        lines = [line for line in found if type(line) is not Unfit]
        if not lines and found and isinstance(found[0], Unfit):
            raise SourceError(f"No line can be read: {found[0].reason}.{cr_alone(found[0])}")
        if not lines and self._lines.held:
            raise SourceError("There is no line yet that is finished: the first has no line end.")
        lines[:1] = [line.removeprefix(MARK) for line in lines[:1]]
        return lines

    def trial(self) -> Block:
        """Return the first rows, broken ones included."""
        looked = self._lines.looked()
        fit = [i for i, line in enumerate(looked.lines) if type(line) is not Unfit]
        if fit[:1] == [0]:
            looked.lines[0] = looked.lines[0].removeprefix(MARK)
        heads = frozenset(fit[: self._heads])
        most = most_rows(len(self.schema.features))
        rows = [i for i in range(len(looked.lines)) if i not in heads][:most]
        lines, numbers = [looked.lines[i] for i in rows], [looked.numbers[i] for i in rows]
        cells = self.decoder.decode(lines, self._wanted, sum(map(len, lines)))
        return assemble(0, cells, self.schema, numbers, lines, {}, self._rules)

    def memo(self) -> dict[str, Any]:
        """Return format, schema, and what the decoder knows."""
        return {**super().memo(), "decoder": self.decoder.to_dict()}

    # -- blocks --------------------------------------------------------------------------------

    def blocks(self) -> Iterator[Block | None]:
        """Yield blocks; None where nothing is there now."""
        with readable(self.name):
            yield from self._blocks()

    def _blocks(self) -> Iterator[Block | None]:
        while not self._over:
            taken = self._take(self._left())
            if taken.lines:
                yield self._block(taken)
            elif not taken.ended:
                yield None
            if taken.ended:
                if not self._lines.next_file():
                    return
                self._maybe_header = True

    def _take(self, most: int) -> Taken:
        if not self._maybe_header:
            return self._lines.take(most, self.patience)
        first = self._lines.take(1, self.patience)
        if not first.lines:
            return first
        self._maybe_header = False
        if type(first.lines[0]) is not Unfit:
            first.lines[0] = first.lines[0].removeprefix(MARK)
            if self.decoder.adopt(first.lines[0]):
                return self._take(most)
        more = self._lines.take(most - 1, self.patience) if most > 1 else Taken()
        lines, numbers = first.lines + more.lines, first.numbers + more.numbers
        return Taken(lines, numbers, first.weight + more.weight, more.ended)

    def _block(self, taken: Taken) -> Block:
        cells: Cells = self.decoder.decode(taken.lines, self._wanted, taken.weight)
        first = self._row
        self._row += len(taken.lines)
        position = {"row": self._row, **self._lines.position(), **self._clock}
        position |= self.decoder.layout()
        block = assemble(
            first, cells, self.schema, taken.numbers, taken.lines, position, self._rules
        )
        self._clock = {k: v for k, v in position.items() if k == "clock"}
        return block

    def warnings(self) -> list[str]:
        """Return what is to be said about columns, and about files that were not read."""
        held = self._lines.held
        left = f"the last line ({held} bytes) has no line end: it is left for the next run"
        found = [*self.decoder.notes, *self.schema.warnings(), *self.feed.notes]
        return found + [left] * bool(held)

    def close(self) -> None:
        """Close the feed."""
        self.feed.close()
