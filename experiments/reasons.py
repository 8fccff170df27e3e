"""Reasons of alerts on real streams: what they name, and whether any is wrong on its face.

Every alert of a self-tuning detector is explained as its row comes, and told in a few words beside
that. Counted: reasons that name numbers by themselves, a pair of them, a pattern (a gap, a step, a
short mean), or the row as a whole; *wrong*, reasons that name a number that lies within the range
that they print for it, read off the words; and *by effect alone*, what the same explanations would
have said had they named the feature with the largest effect, whether it is unusual or not.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np

from onkel import Detector
from onkel.explain.outcome import is_outside
from onkel.judge import Rows, answer, judge_of

if __package__:
    from . import detection_sets as sets
    from . import harness
else:
    import detection_sets as sets
    import harness

STREAMS = {"nab": 3, "skab": 2, "smd": 2, "smap": 4, "batadal": 1}
"""So many streams of each set."""
NUMBER = r"(-?\d[\d.]*(?:e[+-]?\d+)?)"
RANGE = re.compile(rf"{NUMBER}(?: from one row to the next)? where {NUMBER}(?:–| to ){NUMBER} was")
GIVEN = re.compile(rf" {NUMBER} and .* not together: .* was {NUMBER}(?:–| to ){NUMBER}")
SPREADS = re.compile(rf"{NUMBER} spreads (?:above|below)")


def is_wrong(words: str) -> bool:
    """Whether a reason names a number within the range beside it, or within two spreads.

    Examples
    --------
    >>> is_wrong("a 1.2 where 1.0–1.4 was usual"), is_wrong("a 1.5 where 1.0–1.4 was usual")
    (True, False)
    """
    ranges = [*RANGE.findall(words), *GIVEN.findall(words)]
    within = any(float(low) <= float(value) <= float(high) for value, low, high in ranges)
    return within or any(float(z) <= 2.0 for z in SPREADS.findall(words))


def kind_of(words: str) -> str:
    """Return what a reason in a few words names."""
    if "not together" in words:
        return "pair"
    if "from one row" in words or "over the last ten rows" in words:
        return "pattern"
    return "whole row" if "row as a whole" in words else "numbers"


KINDS = {
    "single": "numbers", "several": "numbers", "pair": "pair", "gap": "pattern", "step": "pattern",
    "mean": "pattern", "whole": "whole row",
}  # fmt: skip


def by_effect_alone(why: Any) -> bool:
    """Whether the feature with the largest effect lies within its own range."""
    first = min(why.features, key=lambda f: f.effect)
    return first.usual is not None and not is_outside(first.value, first.usual)


def told(name: str, X: np.ndarray) -> list[dict[str, Any]]:
    """Return counts for one stream: explained, and in a few words."""
    names = [f"n{j}" for j in range(X.shape[1])]
    model, whys = Detector(), []
    for start in range(0, len(X), 4096):
        found = answer(model, X[start : start + 4096], explain=math.inf).marks
        whys += [*found.why().values()] if found.why else []
    brief, words = Detector(), []
    judge = judge_of(brief, names, brief=True)
    for start in range(0, len(X), 4096):
        words += [w for w in judge(brief, Rows(X[start : start + 4096])).columns()["why"] if w]
    kinds = [KINDS[why.cause] for why in whys]
    before = sum(map(by_effect_alone, whys))
    return [
        _counts(name, "explained", kinds, [why.sentence for why in whys], before),
        _counts(name, "in brief", [kind_of(w) for w in words], words, None),
    ]


def _counts(
    name: str, how: str, kinds: list[str], words: list[str], before: int | None
) -> dict[str, Any]:
    shown = {kind: kinds.count(kind) for kind in dict.fromkeys(KINDS.values())}
    wrong = sum(map(is_wrong, words))
    return {
        "stream": name, "reasons": how, "alerts": len(words), **shown, "wrong": wrong,
        "wrong by effect alone": "" if before is None else before,
    }  # fmt: skip


def main(argv: list[str] | None = None) -> int:
    """Run, print, check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="the folder of the data sets")
    parser.add_argument("--quick", action="store_true", help="one stream of each set, 5000 rows")
    args = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    for name, count in STREAMS.items():
        for stream in sets.load(name, args.data)[: 1 if args.quick else count]:
            rows += told(f"{name} {stream.name}", stream.X[: 5000 if args.quick else None])
    print(harness.table(rows))
    wrong = sum(row["wrong"] for row in rows)
    print(f"{sum(row['alerts'] for row in rows)} reasons, {wrong} wrong on their face")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
