"""The lowest versions that pyproject.toml accepts, to be installed: ``python tools/lowest.py cli``.

Printed are the requirements of the library itself and of each extra that is named (``build`` stands
for those of the build), one per line, each pinned to its lower bound: ``numpy>=2`` becomes
``numpy==2``. An extra named within another, as in ``onkel[cli]``, is not followed: name it too. A
requirement without a lower bound is refused, for nobody knows what it runs on.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

OURS = "onkel"
BUILD = "build"
BOUND = re.compile(r"(?P<name>[\w.-]+)>=(?P<version>[\w.]+)(,<[\w.]+)?(;.*)?")


def listed(project: dict[str, Any], part: str) -> list[str]:
    """Return the requirements of an extra, or of the build, as they are written."""
    if part == BUILD:
        return list(project["build-system"]["requires"])
    extras = project["project"]["optional-dependencies"]
    if part not in extras:
        raise ValueError(f"There is no extra {part!r}. There are: {BUILD}, {', '.join(extras)}.")
    return list(extras[part])


def pinned(requirement: str) -> str:
    """Return a requirement that only its lower bound meets.

    Examples
    --------
    >>> pinned("pandas>=2.2,<3")
    'pandas==2.2'
    """
    found = BOUND.fullmatch(requirement.replace(" ", ""))
    if found is None:
        raise ValueError(f"{requirement!r} has no lower bound: write name>=1.2, or name>=1.2,<3.")
    return f"{found['name']}=={found['version']}"


def lowest(project: dict[str, Any], parts: Sequence[str]) -> Iterator[str]:
    """Yield what is to be installed for the library and these extras, each once."""
    wanted = list(project["project"]["dependencies"])
    for part in parts:
        wanted += listed(project, part)
    outside = [text for text in wanted if not text.startswith(f"{OURS}[")]
    yield from dict.fromkeys(map(pinned, outside))


def main(parts: Sequence[str]) -> int:
    """Print the pins; 2 and the reason if there is something to mend in pyproject.toml."""
    file = Path(__file__).resolve().parents[1] / "pyproject.toml"
    try:
        print(*lowest(tomllib.loads(file.read_text(encoding="utf-8")), parts), sep="\n")
    except ValueError as problem:
        print(problem, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
