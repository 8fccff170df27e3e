"""Columns: one role each, and a word about those that hold nothing."""

from __future__ import annotations

import pytest
from helpers.reading import read

from onkel.streams.sources import Roles, Schema, SourceError


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        (Roles("a", key="a"), "--target and --key"),
        (Roles(time="a", key="a"), "--time and --key"),
        (Roles("a", ignore=("a",)), "--target and --ignore"),
        (Roles(ignore=("a",), columns=("a", "b")), "--ignore and --columns"),
    ],
)
def test_one_column_has_one_role(roles, said) -> None:
    with pytest.raises(SourceError, match=f"'a' is named by {said}"):
        Schema.infer(["a", "b"], [["1", "2"]], roles)


def test_a_column_of_nothing_is_told(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text("a,b,c\n" + "1,,NA\n" * 5)
    source, _ = read(tmp_path / "rows.csv", roles=Roles(ignore=("c",)))
    (said,) = source.warnings()
    assert said.startswith("column 'b' held nothing in the first rows")
    assert Schema.from_dict(source.memo()["schema"]).warnings() == [said]
