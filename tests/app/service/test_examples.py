"""The examples with curl that the help and the guide print, as they are printed."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.serving import served

ROOT = Path(__file__).resolve().parents[3]
PRINTED = [ROOT / "onkel" / "app" / "cli.py", ROOT / "README.md", *(ROOT / "docs").glob("*.md")]


def lines_of(path):
    return re.findall(r"^\s*(curl .*127\.0\.0\.1:8421.*)$", path.read_text("utf-8"), re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_examples_with_curl(tmp_path):
    known = subprocess.run(["curl", "--help", "all"], capture_output=True, text=True, check=False)
    if "--json" not in known.stdout:
        pytest.skip("needs a curl that knows --json (7.82)")
    found = {path: lines for path in PRINTED if path.exists() and (lines := lines_of(path))}
    assert ROOT / "onkel" / "app" / "cli.py" in found
    for i, lines in enumerate(found.values()):
        with served(tmp_path / str(i)) as one:
            for line in lines:
                words = shlex.split(line.replace("http://127.0.0.1:8421", one.url))
                done = subprocess.run([*words, "--silent"], capture_output=True, check=True)
                assert "error" not in json.loads(done.stdout), (line, done.stdout)
