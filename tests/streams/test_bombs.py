"""Small files that stand for huge ones: what is held at once is bounded, whatever they hold."""

from __future__ import annotations

import bz2
import gzip
import importlib
import json
import lzma
import os
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from helpers.reading import broken, read
from helpers.sizes import LONG, size

from onkel.streams.sources import Reading, SourceError, lines, open_source, unpack

MEGA = 2**20
PLAIN = size(128, 256)
"""Mebibytes that a bomb unpacks to."""
HEAVY = size(12, 30)
"""Pieces of twenty rows, each row a megabyte."""
ROOM = 120
"""Mebibytes that reading may take, beside what the parsers take themselves."""


ZSTD = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"


def has_zstd() -> bool:
    try:
        importlib.import_module(ZSTD)
    except ImportError:
        return False
    return True


NO_ZSTD = "needs backports.zstd: pip install onkel[zstd]"


def zstd(data: bytes) -> bytes:
    module = pytest.importorskip(ZSTD, reason=NO_ZSTD)
    return module.compress(data, 1)


PACK = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress, "zst": zstd}
MEASURE = """
import importlib.util, json, resource, sys, time
from onkel.streams.sources import Reading, open_source
if importlib.util.find_spec("pyarrow"):
    import pyarrow.csv
resource.setrlimit(resource.RLIMIT_AS, (5 * 2**30, 5 * 2**30))
def peak():
    with open("/proc/self/status") as file:  # getrusage knows of the process before it, too
        return int(next(line for line in file if line.startswith("VmHWM")).split()[1]) // 1024
before, told = peak(), {}
for path in sys.argv[1:]:
    begun, how = time.process_time(), Reading(format="csv", durable="durable" in path)
    blocks = open_source(path, how).blocks()
    found = [(b.count, [(bad.line, bad.reason) for bad in b.bad]) for b in blocks]
    told[path] = [found, peak() - before, time.process_time() - begun]
print(json.dumps(told))
"""


def bomb(path, kind: str, filler: bytes) -> str:
    """Write a file of a few kilobytes: rows about one packed filler, again and again."""
    pack, first, last = PACK[kind], b"a,b\n" + b"1,2\n" * 20, b"\n1,2\nx,2\n"
    piece = pack(filler * (4 * MEGA // len(filler)))
    path.write_bytes(pack(first) + piece * (PLAIN // 4) + pack(last))
    assert path.stat().st_size < 1200 * PLAIN
    return str(path)


def heavy(path) -> str:
    row = b"1," + b"x" * 1_000_000 + b"\n"
    piece = lzma.compress(row * 20, preset=0)
    path.write_bytes(lzma.compress(b"a,note\n") + piece * HEAVY)
    return str(path)


def blank(path, filler: bytes) -> str:
    many = size(6, 100) * MEGA // len(filler)
    rows = b"1,2\n" * 20
    path.write_bytes(b'a,"b"\n' + filler * many + rows + filler * many + b"x,2\n")
    return str(path)


KINDS = size(["xz"], ["xz", "bz2", "gz"])
if LONG and has_zstd():
    KINDS.append("zst")


@pytest.fixture(scope="module")
def measures(tmp_path_factory):
    """What came of each bomb, the memory that it and those before it took at most, its seconds."""
    if not os.path.exists("/proc/self/status"):
        pytest.skip("needs /proc, to tell what a process held at most")
    folder = tmp_path_factory.mktemp("bombs")
    paths = [bomb(folder / f"line-{kind}-durable", kind, b"7") for kind in KINDS]
    paths += [bomb(folder / f"blank-{kind}-durable", kind, b"\n") for kind in size([], KINDS)]
    paths += [blank(folder / "lf", b"\n"), blank(folder / "crlf", b" \r\n")]
    paths += [heavy(folder / "heavy")]
    words = [sys.executable, "-c", MEASURE, *paths]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return {os.path.basename(path): told for path, told in json.loads(done.stdout).items()}


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_without_end_from_a_few_packed_bytes(measures, kind) -> None:
    found, memory, _ = measures[f"line-{kind}-durable"]
    long = f"a line of {PLAIN * MEGA} bytes is too long"
    assert found == [[23, [[22, long], [24, "column 'a': 'x' is no number"]]]]
    assert memory < ROOM


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_blank_lines_are_counted_and_not_kept(measures, kind) -> None:
    found, memory, _ = measures[f"blank-{kind}-durable"]
    line = 21 + PLAIN * MEGA + 3
    assert found == [[22, [[line, "column 'a': 'x' is no number"]]]] and memory < ROOM


@pytest.mark.parametrize("name", ["lf", "crlf"])
def test_a_plain_file_of_blank_lines(measures, name) -> None:
    found, memory, _ = measures[name]
    many = size(6, 100) * MEGA // (1 if name == "lf" else 3)
    line = 1 + many + 20 + many + 1
    assert found == [[21, [[line, "column 'a': 'x' is no number"]]]] and memory < ROOM


def test_rows_that_are_heavy_end_their_block(measures) -> None:
    found, memory, _ = measures["heavy"]
    assert sum(count for count, _ in found) == 20 * HEAVY
    assert max(count for count, _ in found) == lines.HEAVY // 1_000_002 + 1
    assert memory < 6 * lines.HEAVY // MEGA  # a block, the one before it, and what parsers hold


@pytest.mark.parametrize("blanks", [False, True])
def test_a_block_that_ends_early_goes_on_alike(rng, tmp_path, monkeypatch, blanks) -> None:
    monkeypatch.setattr(lines, "HEAVY", 700)
    rows = [f"{v!r},{'x' * int(n)}" for v, n in
            zip(rng.normal(size=300).tolist(), rng.integers(0, 90, 300), strict=True)]  # fmt: skip
    end = "\n  \n\n" if blanks else "\n"
    (tmp_path / "rows.csv").write_text("a,note\n" + end.join(rows) + "\n")
    source = open_source(str(tmp_path / "rows.csv"), Reading(size=64))
    blocks = list(source.blocks())
    assert max(b.count for b in blocks) < 64
    assert sum(b.count for b in blocks) == 300
    for i, block in enumerate(blocks[:-1]):
        rest = open_source(
            str(tmp_path / "rows.csv"), Reading(size=64), source.memo(), block.position
        )
        assert [b.first for b in rest.blocks()] == [b.first for b in blocks[i + 1 :]]


def test_a_dictionary_that_asks_for_gigabytes(tmp_path) -> None:
    packed = bytearray(lzma.compress(b"a\n1\n"))
    header = 12  # of the stream; then the block's: length, flags, filter, its size, dictionary
    assert packed[header + 2 : header + 4] == b"\x21\x01"
    packed[header + 4] = 40  # 4 GiB
    end = header + 4 * (packed[header] + 1) - 4
    packed[end : end + 4] = struct.pack("<I", zlib.crc32(packed[header:end]))
    (tmp_path / "rows.csv.xz").write_bytes(packed)
    with pytest.raises(SourceError, match=r"more than 128 MiB of memory.*xz -dc FILE"):
        read(tmp_path / "rows.csv.xz")


@pytest.mark.skipif(has_zstd(), reason="it is here")
def test_zstandard_without_its_library_names_the_extra(tmp_path) -> None:
    (tmp_path / "rows.csv.zst").write_bytes(b"\x28\xb5\x2f\xfd" + bytes(20))
    with pytest.raises(SourceError, match=r"onkel\[zstd\].*zstd -dc FILE"):
        read(tmp_path / "rows.csv.zst")


@pytest.mark.skipif(not has_zstd(), reason=NO_ZSTD)
def test_zstandard_is_read(tmp_path) -> None:
    (tmp_path / "rows.csv.zst").write_bytes(zstd(b"a,b\n1,2\n") + zstd(b"3,4\n"))
    _, blocks = read(tmp_path / "rows.csv.zst")
    assert blocks[0].X.tolist() == [[1, 2], [3, 4]]


@pytest.mark.skipif(not has_zstd(), reason=NO_ZSTD)
def test_a_window_that_asks_for_gigabytes(tmp_path) -> None:
    # a frame without its size, a window of 1 GiB, one last raw block
    frame = b"\x28\xb5\x2f\xfd" + bytes([0, 20 << 3]) + bytes([4 << 3 | 1, 0, 0]) + b"a\n1\n"
    (tmp_path / "rows.csv.zst").write_bytes(frame)
    with pytest.raises(SourceError, match="more than 128 MiB of memory"):
        read(tmp_path / "rows.csv.zst")


@pytest.mark.parametrize("kind", PACK)
def test_pieces_are_what_the_whole_is(rng, kind) -> None:
    data = [bytes(rng.integers(0, 4, int(n), dtype=np.uint8)) for n in (0, 1, 70_000, 500_000)]
    packed = b"".join(PACK[kind](piece) + bytes(int(rng.integers(3))) * 7 for piece in data)
    for step in (13, 4096, len(packed)):
        tool, found = unpack.Unpack(unpack.kind_of(packed[:6])), []
        for start in range(0, min(len(packed), 10**9 if step > 13 else 20_000), step):
            tool.add(packed[start : start + step])
            while piece := tool.read():
                found.append(piece)
        assert b"".join(data).startswith(b"".join(found)) and max(map(len, found)) <= MEGA
        if step > 13:
            tool.finish()
            assert b"".join(found) == b"".join(data)


def test_many_empty_files_one_after_another(tmp_path) -> None:
    (tmp_path / "rows.csv.gz").write_bytes(
        gzip.compress(b"a\n" + b"1\n" * 20)
        + gzip.compress(b"") * size(50_000, 500_000)
        + gzip.compress(b"x\n")
    )
    _, blocks = read(tmp_path / "rows.csv.gz")
    assert broken(blocks) == [(22, "column 'a': 'x' is no number")]
