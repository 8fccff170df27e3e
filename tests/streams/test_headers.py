"""The first line of a table: names, or a row; what is doubtful is told."""

from __future__ import annotations

import pytest
from helpers.reading import FAST, broken, read

from onkel.streams.sources import Roles, SourceError
from onkel.streams.sources.headers import NAMES, NO_NAMES


def rows_of(path, text: str, **how) -> tuple:
    path.write_text(text)
    source, blocks = read(path, **how)
    assert broken(blocks) == []
    return source, sum(len(b.rows) for b in blocks)


@pytest.mark.parametrize("fast", FAST)
@pytest.mark.parametrize(
    ("text", "names", "rows", "said"),
    [
        ("a,b\n1,2\n", ["a", "b"], 1, []),
        ("1,2\n3,4\n", ["c1", "c2"], 2, []),
        ("1;2,5\n3,5;4\n", ["c1", "c2"], 2, []),
        ("size,colour\n1,red\n2,blue\n", ["size", "colour"], 2, []),
        ("5.1,3.5,setosa\n4.9,3.0,setosa\n", ["c1", "c2", "c3"], 2, [NO_NAMES]),
        ("red,1\nblue,2\n", ["c1", "c2"], 2, [NO_NAMES]),
        ("when,who\n2020-03-09,x\n2020-03-10,y\n", ["when", "who"], 2, []),
        ("2020-03-09,x\n2020-03-10,y\n", ["c1", "c2"], 2, [NO_NAMES]),
        ("ok,who\nyes,x\nno,y\n", ["ok", "who"], 2, []),
        (",a\n0,1\n1,2\n", ["c1", "a"], 2, []),
        ("colour,shape\nred,round\nblue,flat\n", ["colour", "shape"], 2, [NAMES]),
        ("red,round\nblue,flat\nred,flat\n", ["c1", "c2"], 3, [NO_NAMES]),
        ("x,x,y\na,b,c\nb,b,c\n", ["c1", "c2", "c3"], 3, [NO_NAMES]),
        ("country,2019,2020\nAustria,1,2\nPeru,3,4\n", ["c1", "c2", "c3"], 3, [NO_NAMES]),
        ("NA,1\n2,3\n", ["c1", "c2"], 2, []),
    ],
)  # fmt: skip
def test_what_the_first_line_is(tmp_path, text, names, rows, said, fast) -> None:
    source, count = rows_of(tmp_path / "rows.csv", text, fast=fast)
    assert (source.schema.names, count) == (names, rows)
    assert [w for w in source.warnings() if w in (NAMES, NO_NAMES)] == said


def test_columns_that_someone_named_settle_it(tmp_path) -> None:
    text = "country,2019,2020\nAustria,1,2\nPeru,3,4\n"
    source, count = rows_of(tmp_path / "rows.csv", text, roles=Roles("2020"))
    assert source.schema.names == ["country", "2019", "2020"] and count == 2
    assert source.warnings() == []
    text = "red,round\nblue,flat\n"
    source, count = rows_of(tmp_path / "rows.csv", text, roles=Roles("c2", labels=True))
    assert source.schema.features == [] and count == 2 and source.warnings() == []


@pytest.mark.parametrize("header", [True, False])
def test_who_says_so_is_believed(tmp_path, header) -> None:
    for text in ("5.1,setosa\n4.9,virginica\n", "colour,shape\nred,round\n"):
        source, count = rows_of(tmp_path / "rows.csv", text, header=header)
        assert count == (1 if header else 2) and source.warnings() == []


def test_names_that_stand_twice_are_refused_where_numbers_stand_below(tmp_path) -> None:
    with pytest.raises(SourceError, match="there are several"):
        rows_of(tmp_path / "rows.csv", "a,a\n1,2\n")


def test_a_pipe_is_judged_alike(tmp_path) -> None:
    (tmp_path / "rows").write_text("5.1,setosa\n4.9,setosa\n")  # no ending: as of a pipe
    source, blocks = read(tmp_path / "rows")
    assert source.format == "csv" and source.warnings() == [NO_NAMES]
    assert sum(len(b.rows) for b in blocks) == 2
