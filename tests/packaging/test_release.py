"""What others rely on: bounds of other packages, workflows, the citation."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "pyproject.toml").is_file():
    pytest.skip("the tests do not stand in a source tree", allow_module_level=True)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
NEWEST = {"lint", "docs", "bench", "test-all"}
"""Tools of our own house, always the newest; and `all`, which has no names of its own."""
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

needs_workflows = pytest.mark.skipif(not WORKFLOWS, reason="a source distribution has none")


def requirements() -> dict[str, list[str]]:
    """Return what each part asks for of others."""
    parts = {"the library": PROJECT["project"]["dependencies"]}
    parts |= {name: listed for name, listed in EXTRAS.items() if name not in NEWEST}
    parts["build-system"] = PROJECT["build-system"]["requires"]
    return {
        name: [text for text in listed if not text.startswith("onkel[")]
        for name, listed in parts.items()
    }


@pytest.mark.parametrize("part", requirements())
def test_every_package_has_a_lower_bound(part: str) -> None:
    assert not [text for text in requirements()[part] if ">=" not in text]


def test_a_package_has_the_same_lower_bound_everywhere() -> None:
    bounds: dict[str, set[str]] = {}
    for text in [text for listed in requirements().values() for text in listed]:
        name, _, bound = text.partition(">=")
        bounds.setdefault(name, set()).add(bound.partition(",")[0])
    assert not {name: found for name, found in bounds.items() if len(found) > 1}


@pytest.mark.parametrize("name", ["uvicorn", "nanobind"])
def test_what_we_derive_from_has_an_upper_bound(name: str) -> None:
    listed = [text for texts in requirements().values() for text in texts]
    asked = [text for text in listed if text.startswith(f"{name}>=")]
    assert asked and all(",<" in text for text in asked)


def test_the_lowest_versions_are_tried_of_every_extra_but_the_heavy_ones() -> None:
    """`make test-lowest` names its extras by hand."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    (named,) = re.findall(r"tools/lowest\.py (.*) > \$\(LOW\)/pins\.txt", makefile)
    missing = set(EXTRAS) - NEWEST - {"all"} - set(named.split())
    assert missing == {"gpu", "spark", "river"}
    assert "tools/lowest.py river" in makefile


def test_the_citation_is_of_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text("utf-8")
    assert f"\nversion: {PROJECT['project']['version']}\n" in text
    assert f"\nlicense: {PROJECT['project']['license']}\n" in text


@needs_workflows
@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_can_be_read_and_take_only_what_is_pinned(path: Path) -> None:
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load(path.read_text("utf-8"))
    assert found["permissions"] == {"contents": "read"}
    for job in found["jobs"].values():
        assert job["runs-on"] and job["timeout-minutes"]
        for step in job["steps"]:
            assert "run" in step or re.search(r"@[0-9a-f]{40}$", step["uses"]), step


@needs_workflows
def test_nothing_is_published_unless_it_is_asked_for() -> None:
    yaml = pytest.importorskip("yaml")
    found = yaml.safe_load((ROOT / ".github/workflows/wheels.yml").read_text("utf-8"))
    dispatch = found[True]["workflow_dispatch"]  # `on` is true to YAML 1.1
    assert dispatch["inputs"]["publish"]["default"] is False
    asked = found["jobs"]["publish"]["if"]
    for condition in ("'workflow_dispatch'", "inputs.publish", "github.ref_type == 'tag'"):
        assert condition in asked
    may_write = [name for name, job in found["jobs"].items() if "permissions" in job]
    assert may_write == ["publish"]


def test_wheels_are_tried_by_the_same_script_as_here() -> None:
    assert (ROOT / "tools/smoke.py").is_file()
    wheels = PROJECT["tool"]["cibuildwheel"]
    assert wheels["test-command"].endswith("tools/smoke.py compiled")
    lowest = PROJECT["project"]["requires-python"].removeprefix(">=").replace(".", "")
    assert wheels["build"][0] == f"cp{lowest}-*"
