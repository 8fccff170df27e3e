"""Rows that end with a delimiter, cells with signs behind their numbers, quotes that are none."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest

from onkel.columns.decimals import has_signs
from onkel.streams.sources import Reading, Roles, open_source

PARSERS = [False, pytest.param(True, marks=pytest.mark.skipif(
    find_spec("pyarrow") is None, reason="needs pyarrow"))]  # fmt: skip


@pytest.fixture(params=PARSERS)
def reading(request):
    """Return how files are read, with and without pyarrow."""
    return Reading(fast=request.param)


def read(path, reading, *known):
    source = open_source(str(path), reading, *known)
    blocks = list(source.blocks())
    source.close()
    return source, blocks


def rows_of(blocks):
    return np.concatenate([b.X for b in blocks]).tolist()


@pytest.mark.parametrize("head", ["a,b", "a,b,"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_delimiter_at_each_end(reading, tmp_path, head, end):
    lines = [head, *(f"{i},{i % 7}," for i in range(1200))]
    lines[1150], lines[1160], lines[1170] = "5,,", "1,2,3", "1,2"
    (tmp_path / "rows.csv").write_bytes((end.join(lines) + end).encode())
    source, blocks = read(tmp_path / "rows.csv", reading)
    assert source.schema.features == ["a", "b"]
    assert any("each row ends with ','" in words for words in source.warnings())
    bad = [b for block in blocks for b in block.bad]
    assert [(b.line, b.reason) for b in bad] == [(1161, "3 columns where 2 were expected")]
    X = rows_of(blocks)
    assert len(X) == 1199 and X[3] == [3, 3] and X[1168] == [1, 2]
    assert X[1149][0] == 5 and np.isnan(X[1149][1])
    again, rest = read(tmp_path / "rows.csv", reading, source.memo(), blocks[0].position)
    np.testing.assert_array_equal(rows_of([blocks[0], *rest]), X)
    assert again.schema == source.schema


def test_a_broken_row_among_such(reading, tmp_path):
    lines = ["a,b", *(f"{i},{i % 7}," for i in range(100)), "1,2,3,4"]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    _, blocks = read(tmp_path / "rows.csv", reading)
    assert len(rows_of(blocks)) == 100 and sum(len(b.bad) for b in blocks) == 1


def test_no_names_and_a_delimiter_at_each_end(reading, tmp_path):
    (tmp_path / "rows.csv").write_text("".join(f"{i};{i % 7};\n" for i in range(90)))
    source, blocks = read(tmp_path / "rows.csv", reading)
    assert source.schema.features == ["c1", "c2"] and len(rows_of(blocks)) == 90


@pytest.mark.parametrize(
    "lines", [["a,b,c", *["1,2,"] * 50], ["a,b,", *["1,2,3"] * 50], ["a,b", *["1,2,3"] * 50]]
)
def test_columns_that_are_there_stay(reading, tmp_path, lines):
    """One with a name that is empty, one without a name that is not, rows that are too wide."""
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    source, blocks = read(tmp_path / "rows.csv", reading)
    assert len(source.schema.columns) == lines[0].count(",") + 1
    assert not any("ends with" in words for words in source.warnings())
    assert sum(len(b.bad) for b in blocks) == (50 if lines[0] == "a,b" else 0)


# -- quotes ------------------------------------------------------------------------------------


SAID = ['"Gimme a few" was minutes ago', '"All is well"', 'he said "so"', "at home"] * 300
SAID += ['"never closed', "at work"] * 50


def test_quotes_that_are_part_of_cells(reading, tmp_path):
    lines = [f"ham\t{words}" for words in SAID]
    (tmp_path / "rows.tsv").write_text("\n".join(lines) + "\n")
    how = replace(reading, roles=Roles("c1", True, types=(("c2", "text"),)))
    source, blocks = read(tmp_path / "rows.tsv", how)
    assert [c for b in blocks for c in b.others["c2"]] == SAID
    assert not any(b.bad for b in blocks)
    assert any("quotes are taken as part of the cells" in words for words in source.warnings())
    _, rest = read(tmp_path / "rows.tsv", how, source.memo(), blocks[0].position)
    assert [c for b in rest for c in b.others["c2"]] == SAID[64:]


def test_quotes_around_cells_stay_quotes(reading, tmp_path):
    lines = ["a\tb", *['1\t"with\ta tab"', '2\t"a ""word"""', "3\tplain"] * 30, '4\t"odd" one']
    (tmp_path / "rows.tsv").write_text("\n".join(lines) + "\n")
    how = replace(reading, roles=Roles(types=(("b", "text"),)))
    _, blocks = read(tmp_path / "rows.tsv", how)
    cells = [c for b in blocks for c in b.others["b"]]
    assert cells[:3] == ["with\ta tab", 'a "word"', "plain"] and len(cells) == 90
    assert [b.line for block in blocks for b in block.bad] == [92]


# -- signs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [
    ["12 %", "7.5%"], ["€3.50", "€ 1,200.00"], ["3,50 €", "1.200,00 €"], ["$5", "-$5"],
    ["USD 3.20", "USD 7"],
])  # fmt: skip
def test_numbers_with_signs(words):
    assert has_signs(words) and not has_signs([*words, "high", "low"])


def test_words_and_numbers_have_none():
    for words in (
        ["5 stars", "4 stars"],
        ["1.5", "2"],
        ["%", "$"],
        [],
        ["100 % wool", "50 % silk"],
    ):
        assert not has_signs(words)


def test_numbers_with_signs_are_told(tmp_path):
    rows = [f"{i},{i % 90}.5 %,${i}.25" for i in range(200)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,share,price", *rows]) + "\n")
    source, _ = read(tmp_path / "rows.csv", Reading())
    said = "\n".join(source.warnings())
    assert "column 'share': '0.5 %' is a number with a sign, and is taken for a category" in said
    assert "column 'price': '$0.25' is a number with a sign, and is left out" in said
    given = Reading(roles=Roles(types=(("share", "category"), ("price", "ignore"))))
    assert "sign" not in "\n".join(read(tmp_path / "rows.csv", given)[0].warnings())
