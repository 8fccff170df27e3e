"""The check that keeps private names at home, on a small package that breaks its rules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from textwrap import dedent

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "private_names.py"
if not TOOL.exists():
    pytest.skip("the tools are not here", allow_module_level=True)


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("private_names", TOOL)
    found = sys.modules["private_names"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    yield found
    del sys.modules["private_names"]


MODELS = """
    class Model:
        __slots__ = ("_lock",)
        shared: "Other"

        def __init__(self):
            self._learner = 1

        def fit(self) -> Self:
            return self

        def _settings(self): ...

    def _helper(): ...

    def made() -> Model: ...
"""


@pytest.fixture
def found(tool, tmp_path):
    """What is found in a file of the package `doors`, beside the package `models`."""

    def look(code, place="doors/hall.py"):
        files = {"__init__.py": "", "models/__init__.py": "from onkel.models.base import Model",
                 "models/base.py": MODELS, "app/__init__.py": "", place: code}  # fmt: skip
        for name, text in files.items():
            path = tmp_path / "onkel" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))
        return [f"{f.line}: {f.text}" for f in tool.findings(tmp_path / "onkel")]

    return look


WRONG = [
    ("from onkel.models.base import _helper", "1: imports _helper of onkel.models.base"),
    ("from onkel.models import base\nbase._helper()",
     "2: base._helper is private to models"),
    ("def f(m): return m._settings()", "1: m._settings is private to models"),
    ("def f(m): return m.inner[0]._lock", "1: m.inner[0]._lock is private to models"),
    ("def f(m): return hasattr(m, '_learner')", "1: m._learner is private to models"),
    ("def f(m): m._learner = 3", "1: m._learner is private to models"),
    ("def f(m): return m._nowhere", "1: m._nowhere is no name of ours"),
    ("import os\nos._exit(0)", "2: os._exit is no name of ours"),
    ("from sklearn.utils._tags import Tags", "1: imports _tags of sklearn.utils._tags"),
]  # fmt: skip
TWIN = """
    from onkel.models import Model
    from onkel.models.base import made
    from onkel import models

    class Door:
        def _settings(self): ...
"""


@pytest.mark.parametrize(("code", "words"), WRONG)
def test_what_is_refused(found, code, words):
    assert found(code) == [words]


@pytest.mark.parametrize(
    "code",
    [
        "def f(m: Model): return m._settings()",
        "def f(m: Model | None): return m._settings()",
        "def f():\n    m: Model = 1\n    return m._settings()",
        "def f():\n    m = Model()\n    return m._settings()",
        "def f():\n    m, n = models.Model(), 1\n    return m._settings()",
        "def f(): return made()._settings()",
        "def f(m: Model): return type(m)()._settings()",
        "def f(m: Model): return m.fit()._settings()",
    ],
)
def test_a_name_of_ones_own_is_no_excuse_where_the_class_is_known(found, code):
    [line] = found(dedent(TWIN) + code)
    assert "_settings is private to models" in line


def test_where_the_class_is_not_known_it_must_be_said(found):
    [line] = found(dedent(TWIN) + "def f(m): return m._settings()")
    assert "m._settings may be models's: say what m is" in line
    assert found(dedent(TWIN) + "def f(m: Door): return m._settings()") == []


def test_what_is_allowed(found):
    assert found("""
        from onkel.models import Model

        class Hook(Model):
            _settings = None  # what the base leaves to it

            def use(self):
                return self._settings, super()._settings, self.__dict__

        class Door:
            _key = 1

            def __init__(self, other: Door):
                self._open = other._open
                self._head = other.head._replace(at=1)
                copy = type(self)(other)
                copy._open, _ = 1, 2
                return copy._key
    """) == []  # fmt: skip


def test_a_bases_private_name_is_not_inherited_by_another_package(found):
    assert found("""
        from onkel.models import Model

        class Near(Model):
            def use(self):
                return self._learner
    """) == ["6: self._learner is private to models"]  # fmt: skip


def test_each_room_of_the_application_is_a_package(found):
    """Loose files of app are one, each of its folders another."""
    assert found("class Page:\n    _board = 1\n", "app/live/page.py") == []
    assert found("def f(page): return page._board", "app/live/other.py") == []
    assert found("def f(page): return page._board", "app/loose.py") == [
        "1: page._board is private to app.live"
    ]
