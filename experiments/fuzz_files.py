"""Damaged and forged model files: ``python experiments/fuzz_files.py [number [seed]]``.

Expected: no damaged file is loaded; a forged one (its digest put right) is refused, or is a model
that says of itself what the file says and can be used: it learns, and whatever it has come to can
be saved and loaded again; a call that it refuses leaves it as it was. Nothing crashes.
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

SLOW = 20.0
"""Seconds for a file, its models' calls included: of a processor that others use too."""
MOST = 4 * 2**30
"""Bytes that the process may ask for: a file that wants more is an error, not a dead machine."""


FAULTS: Counter[str] = Counter()


def became(kind: str, data: bytes, rows: object) -> str:
    """Return what became of a file: refused, loaded, or a fault, which is noted."""
    try:
        return "refused" if was_refused(kind, data, rows) else "loaded"
    except Exception as error:
        FAULTS[f"{type(error).__name__}: {error!s:.100}"] += 1
        return "at fault"


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
    found, slowest = Counter[tuple[str, str]](), 0.0
    for i in range(number):
        kind = ("damaged", "forged")[i % 2]
        data, rows = samples[dice.choice([*samples])]
        changed = getattr(corrupted, kind)(data, dice)
        start = time.perf_counter()
        found[kind, became(kind, changed, rows)] += 1
        slowest = max(slowest, time.perf_counter() - start)
    for (kind, what), count in sorted(found.items()):
        print(f"{count:7d} {kind}, {what}")
    for fault, count in FAULTS.most_common():
        print(f"{count:7d} {fault}")
    print(f"slowest: {slowest * 1e3:.0f} ms, use of the loaded models included")
    checks = (
        Check("damaged files loaded", found["damaged", "loaded"], high=0),
        Check("forged files that did harm", FAULTS.total(), high=0),
        Check("seconds for the slowest", slowest, high=SLOW),
    )
    for check in checks:
        print(check)
    sys.exit(not all(check.ok for check in checks))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
