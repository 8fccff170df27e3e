"""Sphinx configuration: built without network, warnings are errors (``make docs``)."""

from __future__ import annotations

import importlib.util
import runpy
from pathlib import Path

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
numpydoc_show_class_members = False
add_module_names = False
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

# The figures are committed; one that is missing is made where matplotlib is there.
if importlib.util.find_spec("matplotlib"):
    figures = runpy.run_path(str(HERE / "figures" / "make.py"))["FIGURES"]
    for name, make in figures.items():
        if not (HERE / "figures" / f"{name}.png").is_file():
            make()
