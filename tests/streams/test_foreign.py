"""Files that are something else are named; none is read as a table of no rows."""

from __future__ import annotations

import io
import zipfile

import pytest
from helpers.runs_of import onkel

from onkel.streams.sources import Reading, Roles, SourceError, open_source

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("xl/workbook.xml", "<x/>")
    return file.getvalue()


TEXT = "a,y\n1,u\n2,v\n"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (zipped(), "save the sheet as CSV"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "Excel"),
        (TEXT.encode("utf-16"), "iconv -f utf-16"),
        (TEXT.encode("utf-16-be").join([b"\xfe\xff", b""]), "iconv -f utf-16"),
        (b"PAR1\x15\x04", "--format parquet"),
        (b"SQLite format 3\0" + bytes(80), "SQLite"),
        (b"<!DOCTYPE html>\n<html><body>404</body></html>\n", "HTML"),
        (b'<?xml version="1.0"?>\n<rows/>\n', "XML"),
    ],
)
@pytest.mark.parametrize("name", ["rows.csv", "rows"])
def test_what_is_no_table_is_named(tmp_path, data, told, name) -> None:
    (tmp_path / name).write_bytes(data)
    for words in (["detect"], ["detect", "--dry-run"], ["classify", "--target", "y"]):
        done = onkel(words[0], tmp_path / name, *words[1:])
        assert done.exit_code == 3 and told in done.stderr, done.output


def test_a_table_may_begin_with_the_same_letters(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text("PAR1,PK\n1,2\n")
    source = open_source(str(tmp_path / "rows.csv"))
    assert source.schema.features == ["PAR1", "PK"]
    source.close()


def test_an_array_of_json_is_named(tmp_path) -> None:
    (tmp_path / "rows.json").write_text('[{"a": 1},\n {"a": 2}]\n')
    with pytest.raises(SourceError, match=r"jq -c '\.\[\]'"):
        open_source(str(tmp_path / "rows.json"))


def test_a_single_column_may_be_several(tmp_path) -> None:
    (tmp_path / "rows.txt").write_text("a b y\n1 2 u\n")
    with pytest.raises(SourceError, match="--delimiter"):
        open_source(str(tmp_path / "rows.txt"), Reading(roles=Roles(target="y")))
    found = open_source(str(tmp_path / "rows.txt"), Reading(delimiter=" ", roles=Roles(target="y")))
    assert found.schema.features == ["a", "b"]
    found.close()
