"""The lowest versions, as the tool reads them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "lowest.py"
if not TOOL.exists():
    pytest.skip("the tools are not here", allow_module_level=True)

PROJECT = {
    "build-system": {"requires": ["maker>=1.0,<2"]},
    "project": {
        "dependencies": ["numpy>=2"],
        "optional-dependencies": {
            "wide": ["onkel[narrow]", "b.c>=0.3 ; platform_machine == 'x86_64'", "numpy>=2"],
            "narrow": ["d-e >= 1.2rc1, < 3"],
            "loose": ["f<2"],
        },
    },
}


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("lowest", TOOL)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize(
    ("parts", "pins"),
    [
        ([], ["numpy==2"]),
        (["build"], ["numpy==2", "maker==1.0"]),
        (["wide"], ["numpy==2", "b.c==0.3"]),
        (["wide", "narrow"], ["numpy==2", "b.c==0.3", "d-e==1.2rc1"]),
    ],
)
def test_each_is_pinned_once_and_other_extras_are_not_followed(tool, parts, pins):
    assert list(tool.lowest(PROJECT, parts)) == pins


def test_without_a_lower_bound_it_is_refused(tool):
    with pytest.raises(ValueError, match=r"'f<2' has no lower bound: write name>=1\.2"):
        list(tool.lowest(PROJECT, ["loose"]))
    for text in ("f", "f==1", "f>1", "f~=1.2", "f[x]>=1"):
        with pytest.raises(ValueError, match="has no lower bound"):
            tool.pinned(text)


def test_an_extra_that_is_not_there_is_named(tool):
    with pytest.raises(
        ValueError, match=r"no extra 'none'\. There are: build, wide, narrow, loose"
    ):
        list(tool.lowest(PROJECT, ["none"]))


def test_as_a_command_it_says_what_is_wrong(tool, capsys):
    assert tool.main(["none"]) == 2
    told = capsys.readouterr()
    assert not told.out and told.err.startswith("There is no extra 'none'.")
    assert tool.main(["cli"]) == 0
    assert "click==" in capsys.readouterr().out
