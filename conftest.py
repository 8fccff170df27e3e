"""Modules whose examples need an extra are left out where it is not installed."""

import importlib.util


def installed(name: str) -> bool:
    """Return whether a package is there, and not just a folder of tests with its name."""
    found = importlib.util.find_spec(name)
    return found is not None and found.origin is not None


NEEDS = {
    ("river",): ["onkel/river/*"],
    ("torch", "triton"): ["onkel/gpu/*"],
    ("pyspark", "pandas", "pyarrow"): ["onkel/spark/*"],
    ("bokeh",): ["onkel/app/report/*", "onkel/app/demo/figures.py", "onkel/app/demo/report.py"],
    ("click",): ["onkel/app/cli.py", "onkel/app/options.py"],
    ("starlette", "uvicorn", "httptools", "msgspec"): [
        "onkel/app/service/*",
        "onkel/app/http/*",
        "onkel/app/live/page.py",
    ],
}
collect_ignore = ["tests/helpers/steps_on_device.py"]
"""Imported by tests, after they have said where Triton is to run."""
collect_ignore_glob = [
    path
    for needs, paths in NEEDS.items()
    if not all(installed(need) for need in needs)
    for path in paths
]
