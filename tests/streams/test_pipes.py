"""Pipes and standard input: what comes slowly, in pieces, or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from helpers.reading import read

from onkel.streams.sources import Reading, Roles, Schema, SourceError, Stopped, feed, open_source
from onkel.streams.sources.delimited import Delimited
from onkel.streams.sources.feed import PipeFeed
from onkel.streams.sources.source import TextSource


@pytest.fixture
def pipe():
    out, into = os.pipe()
    yield out, into
    os.close(out)
    os.close(into)


def test_a_named_pipe_is_read_as_a_pipe(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    text = b"a,b\n" + b"1,2\n" * 3
    threading.Timer(0.2, (tmp_path / "pipe").write_bytes, [text]).start()
    source, blocks = read(tmp_path / "pipe")
    assert source.live and np.concatenate([b.X for b in blocks]).tolist() == [[1, 2]] * 3
    with pytest.raises(SourceError, match="Parquet is read from a file"):
        read(tmp_path / "pipe", format="parquet")
    with pytest.raises(SourceError, match="--follow is for files"):
        read(tmp_path / "pipe", follow=True)


def test_standard_input_that_is_closed(monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(SourceError, match="Standard input is closed"):
        open_source("-")


def test_closed_standard_input_of_a_process() -> None:
    words = "from onkel.streams.sources import open_source; open_source('-')"
    shell = ["sh", "-c", '"$0" -c "$1" <&-', sys.executable, words]
    done = subprocess.run(shell, capture_output=True, text=True, check=False)
    assert "SourceError: Standard input is closed" in done.stderr


def test_first_bytes_without_a_line_end_do_not_block(pipe) -> None:
    out, into = pipe
    schema = Schema.infer(["a", "b"], [["1", "2"]], Roles())
    decoder = Delimited(",", True, names=["a", "b"])
    rows = TextSource(PipeFeed(fd=out), decoder, Roles(), patience=0.01, schema=schema).blocks()
    os.write(into, b"1,2")
    assert next(rows) is None and next(rows) is None
    os.write(into, b"\n")
    assert next(rows).X.tolist() == [[1, 2]]


@pytest.mark.parametrize("text", [b"", b"1,2", b"a,b"])
def test_the_first_row_is_not_waited_for_without_end(pipe, monkeypatch, text) -> None:
    out, into = pipe
    os.write(into, text)
    monkeypatch.setattr(feed, "_stdin", lambda: out)
    begun = time.monotonic()
    with pytest.raises(SourceError, match=r"Nothing came for 0\.3 seconds"):
        open_source("-", Reading(idle=0.3, patience=0.01))
    assert 0.3 <= time.monotonic() - begun < 5


def test_a_header_alone_is_a_source_without_rows(pipe, monkeypatch) -> None:
    out, into = pipe
    os.write(into, b"a,b\n")
    monkeypatch.setattr(feed, "_stdin", lambda: out)
    source = open_source("-", Reading(idle=0.1, patience=0.01))
    assert source.schema.features == ["a", "b"] and list(source.blocks()) == []


def test_waiting_for_the_first_row_can_be_stopped(pipe, monkeypatch) -> None:
    monkeypatch.setattr(feed, "_stdin", lambda: pipe[0])
    stop = threading.Event()
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(Stopped):
        open_source("-", Reading(stop=stop.is_set, patience=0.01))


def test_rows_in_quotes_that_come_piece_by_piece(pipe) -> None:
    out, into = pipe
    text = b'a,c\n1,"x\ny\nz"\n2,"u\nv"\n3,w\n'
    source = None
    found: list[float] = []
    for i in range(len(text)):
        os.write(into, text[i : i + 1])
        if source is None and i > 13:
            source = TextSource(PipeFeed(fd=out), Delimited(), Roles(), patience=0.0)
            blocks = source.blocks()
        block = next(blocks) if source is not None else None
        found += [] if block is None else block.X[:, 0].tolist()
    assert found == [1, 2, 3]
