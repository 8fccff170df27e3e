"""Modules whose examples need an extra are left out where it is not installed."""

import importlib.util
import os

# Tests share the processors, and their matrices are small: threads of NumPy's own would only wait
# for one another. Set before NumPy is imported, and for the processes that tests start.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")


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
if os.environ.get("ONKEL_LONG", "") in ("", "0"):
    collect_ignore_glob.append("onkel/gpu/*")  # with tests/gpu, in the long run
