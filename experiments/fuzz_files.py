"""Damaged and forged model files: ``python experiments/fuzz_files.py [number [seed]]``.

Expected: no damaged file is loaded; a forged one (its digest put right) is refused, or is a model
that says of itself what the file says and can be used; nothing takes a second, nothing crashes.
The mutations are those of ``tests/helpers/corrupted.py``, which the suite runs a sample of.
"""

from __future__ import annotations

import faulthandler
import random
import resource
import sys
import time
from collections import Counter
from pathlib import Path

from harness import Check

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from helpers import corrupted

from onkel import files

SLOW = 1.0
MOST = 4 * 2**30
"""Bytes that the process may ask for: a file that wants more is an error, not a dead machine."""


def was_refused(kind: str, data: bytes, rows: object) -> bool:
    """Load a file that is not what was written; whether a ValueError came of it."""
    if kind == "forged":
        return corrupted.check_forged(data, rows)
    try:
        files.loads(data)
    except ValueError:
        return True
    return False


def main(number: int = 20_000, seed: int = 0) -> None:
    """Try so many files, half of them damaged and half forged; print what became of them."""
    faulthandler.enable()
    resource.setrlimit(resource.RLIMIT_AS, (MOST, MOST))
    dice, samples = random.Random(seed), corrupted.samples()
    found, slowest, slow = Counter[tuple[str, bool]](), 0.0, 0
    for i in range(number):
        kind = ("damaged", "forged")[i % 2]
        data, rows = samples[dice.choice([*samples])]
        changed = getattr(corrupted, kind)(data, dice)
        start = time.perf_counter()
        found[kind, was_refused(kind, changed, rows)] += 1
        took = time.perf_counter() - start
        slowest, slow = max(slowest, took), slow + (took > SLOW)
    for (kind, refused), count in sorted(found.items()):
        print(f"{count:7d} {kind}, {'refused' if refused else 'loaded'}")
    print(f"slowest: {slowest * 1e3:.0f} ms, use of the loaded models included")
    checks = (
        Check("damaged files loaded", found["damaged", False], high=0),
        Check("files slower than a second", slow, high=0),
    )
    for check in checks:
        print(check)
    sys.exit(not all(check.ok for check in checks))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
