"""Files that were cut, damaged, or end their lines in another way."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pytest
from helpers.reading import read

from onkel.streams.sources import Reading, SourceError, open_source


def test_a_plain_file_that_was_cut(tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a\n" + "1\n" * 5000)
    source, blocks = read(path)
    os.truncate(path, 9000)
    with pytest.raises(SourceError, match="shorter than what was read"):
        open_source(str(path), Reading(), source.memo(), blocks[-1].position)


def test_damaged_parquet(rng, tmp_path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install onkel[arrow]")
    from pyarrow import parquet

    table = pyarrow.table({"a": rng.normal(size=5000), "b": rng.normal(size=5000)})
    path = tmp_path / "rows.parquet"
    parquet.write_table(table, path, write_page_checksum=True, use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 64] = bytes(64)
    path.write_bytes(data)
    with pytest.raises(SourceError, match="is damaged"):
        read(path)


@pytest.mark.parametrize("rows", [3, 400_000])
def test_lines_that_end_with_cr_alone(tmp_path, rows) -> None:
    (tmp_path / "rows.csv").write_bytes(b"a,b\r" + b"1,2\r" * rows)
    with pytest.raises(SourceError, match=r"CR alone; convert them: tr '\\r' '\\n'"):
        read(tmp_path / "rows.csv")


@pytest.mark.parametrize("zeros", [1, 2**20 + 7])
def test_gzip_with_zeros_behind_it(tmp_path, zeros) -> None:
    packed = gzip.compress(b"a\n1\n") + bytes(zeros)
    (tmp_path / "rows.csv.gz").write_bytes(packed + gzip.compress(b"2\n") + bytes(zeros))
    _, blocks = read(tmp_path / "rows.csv.gz")
    assert np.concatenate([b.X for b in blocks])[:, 0].tolist() == [1, 2]
    (tmp_path / "rows.csv.gz").write_bytes(packed + b"dirt")
    with pytest.raises(SourceError, match="damaged"):
        read(tmp_path / "rows.csv.gz")


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="needs /proc")
@pytest.mark.parametrize("how", [Reading(format="csv"), Reading(format="csv", follow=True)])
def test_an_error_of_the_disk_is_the_sources(tmp_path, how) -> None:
    with pytest.raises(SourceError, match=r"/proc/self/mem: cannot be read: Input/output error"):
        open_source("/proc/self/mem", how)  # reading its first page is an error of the device
    (tmp_path / "rows.csv").write_text("a\n1\n")
    source = open_source(str(tmp_path / "rows.csv"), how)
    source.feed.file.close()
    source.feed.file = open("/proc/self/mem", "rb")  # noqa: SIM115
    with pytest.raises(SourceError, match=r"rows\.csv: cannot be read: Input/output error"):
        list(source.blocks())
