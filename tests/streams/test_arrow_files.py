"""Arrow's own files: read as a Parquet file is, bounded, refused where they are damaged."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.reading import broken, read

from onkel.streams.sources import Reading, Roles, SourceError, arrowfile, open_source

pyarrow = pytest.importorskip("pyarrow", reason="needs pyarrow: pip install onkel[arrow]")
from pyarrow import feather, ipc  # noqa: E402

ROWS = 3000


@pytest.fixture
def table(rng):
    return pyarrow.table({
        "a": rng.normal(size=ROWS), "words": pyarrow.array(["u", "v", None] * 1000),
        "coded": pyarrow.array(["x", "y"] * 1500).dictionary_encode(),
        "when": pyarrow.array(range(ROWS), pyarrow.timestamp("s")), "y": [1, 0] * 1500,
    })  # fmt: skip


def written(path, table, how: str):
    if how == "stream":
        with pyarrow.OSFile(str(path), "wb") as file, ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table, 700)
    else:
        feather.write_feather(table, path, compression=how, chunksize=700)
    return path


@pytest.mark.few
@pytest.mark.parametrize("how", ["zstd", "lz4", "uncompressed", "stream"])
@pytest.mark.parametrize("ending", ["feather", "arrow"])
def test_rows_as_they_were_written(tmp_path, table, how, ending) -> None:
    path = written(tmp_path / f"rows.{ending}", table, how)
    source, blocks = read(path, size=1024, roles=Roles("y", labels=True))
    assert source.format == "arrow" and broken(blocks) == []
    assert [b.first for b in blocks] == [0, 64, 128, 256, 512, 1024, 2048]
    np.testing.assert_array_equal(np.concatenate([b.X for b in blocks])[:, 0], table["a"])
    for name in ("words", "coded"):
        assert [c for b in blocks for c in b.others[name]] == table[name].to_pylist()
    assert [c for b in blocks for c in b.others["when"]] == list(range(ROWS))
    assert np.concatenate([b.y for b in blocks]).tolist() == [1, 0] * 1500


def test_a_run_goes_on_in_the_middle(tmp_path, table) -> None:
    path = str(written(tmp_path / "rows.feather", table, "zstd"))
    source = open_source(path, Reading(size=1024))
    block = [b for b, _ in zip(source.blocks(), range(5), strict=False)][-1]
    later = open_source(path, Reading(size=1024), source.memo(), block.position)
    rest = np.concatenate([b.X for b in later.blocks()])
    source.close()
    later.close()
    np.testing.assert_array_equal(rest[:, 0], table["a"][block.position["row"] :])


def test_what_unpacks_to_too_much_is_refused(tmp_path, table, monkeypatch) -> None:
    path = written(tmp_path / "rows.feather", table, "zstd")
    monkeypatch.setattr(arrowfile, "MEMORY", 20_000)
    with pytest.raises(SourceError, match=r"takes 0 MiB of memory, more than 0\. Write it in"):
        read(path)
    monkeypatch.setattr(arrowfile, "MEMORY", 40_000)
    read(path)


def test_damaged_files(tmp_path, table, rng) -> None:
    """Whatever the bytes are, the answer is rows or a sentence."""
    path = written(tmp_path / "rows.feather", table.slice(0, 300), "lz4")
    good = path.read_bytes()
    for cut in (0, 4, 9, 200, len(good) // 2):
        path.write_bytes(good[:cut])
        with pytest.raises(SourceError):
            read(path)
    for _ in range(60):
        data = bytearray(good)
        for at in rng.integers(0, len(data), 3):
            data[at] = rng.integers(256)
        path.write_bytes(data)
        try:
            read(path)
        except SourceError:
            continue


def test_what_is_told(tmp_path, table) -> None:
    (tmp_path / "old.feather").write_bytes(b"FEA1" + bytes(100))
    with pytest.raises(SourceError, match="Feather of version 1: write it anew"):
        read(tmp_path / "old.feather")
    path = written(tmp_path / "rows.feather", table, "zstd")
    with pytest.raises(SourceError, match="no pipe, no --follow"):
        read(path, follow=True)
