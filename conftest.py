"""Modules whose examples need an extra are left out where it is not installed."""

import importlib.util

NEEDS = {
    ("river",): ["onkel/river/*"],
    ("torch", "triton"): ["onkel/gpu/*"],
    ("pyspark", "pandas", "pyarrow"): ["onkel/spark/*"],
    ("click",): ["onkel/app/cli.py", "onkel/app/options.py"],
    ("starlette", "uvicorn", "httptools", "msgspec"): [
        "onkel/app/service/*",
        "onkel/app/server.py",
        "onkel/app/dashboard.py",
    ],
}
collect_ignore = ["tests/gpu/steps_on_device.py"]
"""Imported by tests, after they have said where Triton is to run."""
collect_ignore_glob = [
    path
    for needs, paths in NEEDS.items()
    if not all(importlib.util.find_spec(need) for need in needs)
    for path in paths
]
