"""Models of every kind, in every form: ``python experiments/fuzz_models.py [number [seed]]``.

Expected: what is accepted can be saved, what is saved can be loaded, and goes on with the same
bits; what is refused changes nothing, byte for byte; nothing raises anything but a ValueError.
Models and calls are those of ``tests/helpers/accepted.py``, which the suite runs a sample of.
"""

from __future__ import annotations

import faulthandler
import resource
import sys
import time
from collections import Counter
from pathlib import Path

from harness import Check

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from helpers import accepted

MOST = 6 * 2**30
"""Bytes that the process may ask for: a model that wants more is an error, not a dead machine."""


def main(number: int = 10_000, seed: int = 0) -> None:
    """Make so many models, each with its calls; print how many were accepted, and all faults."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MOST, MOST))
    found, faults, start = Counter[str](), dict[str, str](), time.perf_counter()
    for i in range(number):
        try:
            found += accepted.trial(f"{seed}-{i}")
        except Exception as error:
            faults[f"{seed}-{i}"] = f"{type(error).__name__}: {error!s:.300}"
    for what, count in sorted(found.items()):
        print(f"{count:7d} {what}")
    for name, fault in faults.items():
        print(f"trial {name}: {fault}")
    print(f"{time.perf_counter() - start:.0f} s")
    check = Check("trials at fault", len(faults), high=0)
    print(check)
    sys.exit(not check.ok)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
