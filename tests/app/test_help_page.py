"""The guide's list of options is the commands' own; exit codes are told there too."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

pytest.importorskip("click", reason="needs click: pip install onkel[cli]")
DOCS = Path(__file__).resolve().parents[2] / "docs"
if not DOCS.is_dir():
    pytest.skip("the documentation is not here", allow_module_level=True)

from onkel.app.cli import main  # noqa: E402
from onkel.app.errors import CODES  # noqa: E402


def helper():
    spec = importlib.util.spec_from_file_location("docs_help", DOCS / "help.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_up_to_date() -> None:
    text = (DOCS / "command_line.md").read_text("utf-8")
    assert helper().with_help(text) == text, "run python docs/help.py"


def test_every_command_is_on_the_page() -> None:
    assert set(helper().COMMANDS) == {"", *main.commands}


def test_every_exit_code_is_on_the_page() -> None:
    text = (DOCS / "command_line.md").read_text("utf-8")
    for code, meaning in CODES.items():
        assert f"| {code} | {meaning} |" in text
