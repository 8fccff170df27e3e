"""Sphinx configuration: built without network, warnings are errors (``make docs``)."""

from __future__ import annotations

import importlib.util
import inspect
import runpy
from pathlib import Path
from typing import Any

import onkel

HERE = Path(__file__).parent

project = "onkel"
author = "The onkel developers"
copyright = "2026, The onkel developers"
version = release = onkel.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
]
exclude_patterns = ["_build", "auto_*"]
myst_heading_anchors = 3
myst_enable_extensions = ["deflist"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"
# What is only imported, and may not be here: its own pages need it not.
autodoc_mock_imports = [
    name for name in ("pandas", "pyspark", "torch", "triton") if not importlib.util.find_spec(name)
]
autodoc_inherit_docstrings = True
autodoc_default_options = {"no-value": True}
numpydoc_show_class_members = False
add_module_names = False
maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"onkel {release}"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#2a6f97", "color-brand-content": "#2a6f97"},
    "dark_css_variables": {"color-brand-primary": "#7fb7d6", "color-brand-content": "#7fb7d6"},
}
html_static_path = ["_static"]
html_css_files = ["onkel.css"]
html_copy_source = False


class Long:
    """Stands for a default that is an object, or longer than a signature can bear."""

    def __repr__(self) -> str:
        return "..."


def _plain(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter without its type, and with its default where that is short."""
    shown = "" if parameter.default is parameter.empty else repr(parameter.default)
    if len(shown) > 30 or shown.startswith("<"):
        parameter = parameter.replace(default=Long())
    return parameter.replace(annotation=parameter.empty)


def signature_of(app: Any, what: str, name: str, obj: Any, *_: Any) -> tuple[str, str] | None:
    """Return a signature as `inspect` has it; for a class Sphinx would show that of `__new__`."""
    if what not in ("class", "method", "function"):
        return None
    try:
        found = inspect.signature(obj)
    except (TypeError, ValueError):
        return None
    parameters = [_plain(p) for p in found.parameters.values()]
    if what == "method" and parameters and parameters[0].name == "self":
        del parameters[0]
    return str(inspect.Signature(parameters)), ""


INSIDE = ("check_params", "dump", "part", "restored", "settings")
"""What the package's own parts ask of an estimator; stability.md promises nothing of it."""


def left_out(app: Any, what: str, name: str, obj: Any, *_: Any) -> bool | None:
    """Leave that out of the API pages; None leaves the choice to Sphinx."""
    home = getattr(obj, "__qualname__", "").partition(".")[0]
    return True if name in INSIDE and home in ("Configured", "Saving", "Mixed") else None


def setup(app: Any) -> None:
    """Connect what is above; before numpydoc, which comes with 500."""
    app.connect("autodoc-process-signature", signature_of, priority=400)
    app.connect("autodoc-skip-member", left_out)


# The figures are committed; one that is missing is made where matplotlib is there.
if importlib.util.find_spec("matplotlib"):
    figures = runpy.run_path(str(HERE / "figures" / "make.py"))["FIGURES"]
    for name, make in figures.items():
        if not (HERE / "figures" / f"{name}.png").is_file():
            make()
