"""The package as others get it: light to import, complete when built, usable without a compiler."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import onkel
from onkel.core import BACKEND

ROOT = Path(__file__).resolve().parents[2]
COMPILER = shutil.which(os.environ.get("CXX") or "c++") or shutil.which("clang++")
PAGE = {str(p.relative_to(ROOT)) for p in (ROOT / "onkel/app/live/static").glob("*")}
"""The live page's own files."""
BUILD_TOOLS = ("build", "scikit_build_core", "nanobind", "cmake", "ninja")
PURE = os.environ.get("ONKEL_PURE", "") not in ("", "0")

once = pytest.mark.skipif(PURE, reason="builds packages: once is enough, with the compiled core")
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler")

HEAVY = {
    "bokeh", "click", "jax", "matplotlib", "msgspec", "narwhals", "pandas", "polars", "pyarrow",
    "river", "scipy", "sklearn", "starlette", "tensorflow", "torch", "uvicorn",
}  # fmt: skip

SMOKE = ROOT / "tools" / "smoke.py"
"""What every wheel is tried with, wherever it is built."""


def run(*command: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command away from the source tree, with none of our own settings in force."""
    ours = ("PYTHONPATH", "ONKEL_PURE", "ONKEL_LEVEL", "CC", "CXX", "CXXFLAGS", "PYTHONWARNINGS")
    env = {k: v for k, v in os.environ.items() if k not in ours and not k.startswith("SKBUILD_")}
    words = [str(word) for word in command]
    return subprocess.run(
        words, env=env | variables, cwd=Path(sys.prefix), capture_output=True, text=True
    )


def must(*command: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command that has to succeed."""
    done = run(*command, **variables)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done


def build(source: Path, out: Path, *what: str, **variables: str) -> None:
    """Build with the tools installed here; without `what`, the wheel is made from the sdist."""
    missing = [name for name in BUILD_TOOLS if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"builds packages: not installed here: {', '.join(missing)}")
    flags = ("--no-isolation", "--skip-dependency-check", "--outdir", out)
    must(sys.executable, "-m", "build", *flags, *what, source, **variables)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sdist, and the wheel that was made from it."""
    if not (ROOT / "pyproject.toml").is_file():
        pytest.skip("builds packages: the tests do not stand in a source tree")
    out = tmp_path_factory.mktemp("built")
    build(ROOT, out)
    return out


@pytest.fixture(scope="module")
def fresh_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of a new environment that holds our two dependencies and no more."""
    home = tmp_path_factory.mktemp("fresh")
    venv.create(home, with_pip=True, symlinks=os.name != "nt")
    python = home / ("Scripts" if os.name == "nt" else "bin") / "python"
    quick = ("--quiet", "--retries", "1", "--timeout", "20", "--only-binary", ":all:")
    needs = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    if run(python, "-m", "pip", "install", *quick, *needs).returncode:
        pytest.skip("installs in an empty environment: numpy and safetensors are out of reach")
    return python


def install(python: Path, wheel: Path) -> None:
    """Install without an index: a dependency beyond the two would make this fail."""
    must(python, "-m", "pip", "uninstall", "--quiet", "--yes", "onkel")
    must(python, "-m", "pip", "install", "--quiet", "--no-index", wheel)
    must(python, "-m", "pip", "check")


def only(folder: Path, pattern: str) -> Path:
    """Return the one file that matches."""
    (found,) = folder.glob(pattern)
    return found


def test_import_is_light() -> None:
    code = (
        "import sys, numpy; before = set(sys.modules); import onkel;"
        "print(*sorted(set(sys.modules) - before))"
    )
    modules = must(sys.executable, "-W", "ignore", "-c", code).stdout.split()
    assert not HEAVY & {name.partition(".")[0] for name in modules}
    assert not [name for name in modules if name.startswith("onkel.app")]
    others = [name for name in modules if name.partition(".")[0] != "onkel"]
    assert len(others) < 60, others


def test_version_is_the_one_installed() -> None:
    assert onkel.__version__ == importlib.metadata.version("onkel")


@needs_compiler
@once
def test_core_is_compiled_where_there_is_a_compiler() -> None:
    assert BACKEND.startswith("compiled"), "the core did not build: pip install -v ."


@pytest.mark.long
@once
def test_sdist_has_what_a_build_needs_and_no_more(built: Path) -> None:
    with tarfile.open(only(built, "onkel-*.tar.gz")) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {"pyproject.toml", "CMakeLists.txt", "LICENSE", "onkel/py.typed", "PKG-INFO"}
    needed |= {"Makefile", "tools/private_names.py"}  # which the Makefile calls
    needed |= {"SECURITY.md", "CITATION.cff", "tools/lowest.py", "tools/smoke.py"}
    kept = {str(p.relative_to(ROOT)) for p in (ROOT / "tests/data").rglob("*") if p.is_file()}
    assert kept, "files of every version, which the tests load"
    sources = {str(p.relative_to(ROOT)) for p in (ROOT / "onkel").rglob("*.[ch]pp")}
    assert needed | kept | sources | PAGE <= names
    ends = (".npz", ".so", ".pyc", ".gz", ".html")
    assert not [name for name in names - PAGE if name.endswith(ends) or ".venv" in name]


@pytest.mark.long
@needs_compiler
@once
def test_wheel_has_core_types_and_no_sources(built: Path) -> None:
    names = zipfile.ZipFile(only(built, "onkel-*.whl")).namelist()
    assert {"onkel/py.typed", "onkel/core/_native.pyi"} | PAGE <= set(names)
    (core,) = [name for name in names if re.match(r"onkel/core/_native\.(?!pyi)", name)]
    assert (".abi3." in core) == (sys.version_info >= (3, 12)), "one for all versions from 3.12 on"
    assert not [name for name in names if name.endswith((".cpp", ".hpp")) or "tests" in name]


@pytest.mark.long
@needs_compiler
@once
def test_wheel_works_in_an_empty_environment(built: Path, fresh_python: Path) -> None:
    install(fresh_python, only(built, "onkel-*.whl"))
    assert "without the command" in must(fresh_python, "-W", "error", SMOKE, "compiled").stdout


@pytest.mark.long
@once
def test_without_a_compiler_the_wheel_is_pure_and_works(
    built: Path, fresh_python: Path, tmp_path: Path
) -> None:
    with tarfile.open(only(built, "onkel-*.tar.gz")) as archive:
        archive.extractall(tmp_path, filter="data")
    source = only(tmp_path, "onkel-*")
    build(source, tmp_path, "--wheel", CC="/bin/false", CXX="/bin/false")
    install(fresh_python, only(tmp_path, "onkel-*-py3-none-any.whl"))
    warned = must(fresh_python, SMOKE, "numpy")
    assert "RuntimeWarning: onkel runs without its compiled core" in warned.stderr
    assert not must(fresh_python, SMOKE, "numpy", ONKEL_PURE="1").stderr
