"""Make the figures of the gallery from its code: ``python docs/figures/gallery.py [number ...]``.

The code is that of docs/gallery.md: each Python block is run alone, and what it has drawn
becomes the picture that the page shows below it.
"""

from __future__ import annotations

import re
import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

HERE = Path(__file__).parent
PAGE = HERE.parent / "gallery.md"
EXAMPLE = re.compile(
    r"^```python\n(.*?)^```\n\n!\[[^\]]+\]\(figures/(gallery-\d+\.png)\)$", re.M | re.S
)


def examples() -> list[tuple[str, str]]:
    """The code of each example, and the picture below it."""
    return EXAMPLE.findall(PAGE.read_text("utf-8"))


def draw(code: str) -> plt.Figure:
    """Run one example by itself, and return the one figure it has drawn."""
    plt.close("all")
    exec(compile(code, str(PAGE), "exec", dont_inherit=True), {"__name__": "gallery"})
    (number,) = plt.get_fignums()
    return plt.figure(number)


def main(wanted: list[str]) -> None:
    import make  # noqa: F401, for its style

    for code, name in examples():
        if not wanted or re.sub(r"\D", "", name) in wanted:
            start = time.perf_counter()
            draw(code).savefig(HERE / name)
            print(f"{name}  {time.perf_counter() - start:.1f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
