"""Streams of dicts for the tests of the River face."""

from __future__ import annotations

import numpy as np

NAMES = ["a", "b", "c", "d", "e"]


def coming_and_going(rng, rows, share=0.75):
    """Dicts whose features come one after another, and are absent at times in several ways."""
    X = rng.normal(size=(rows, 5)) * [1.0, 2.0, 1.0, 0.5, 1.0] + [0.0, 5.0, -3.0, 0.0, 1.0]
    there = rng.random((rows, 5)) < share
    there[:, 0] |= np.arange(rows) == 0
    for j in range(5):
        there[: j * rows // 8, j] = False
    examples = []
    for i in range(rows):
        x = {NAMES[j]: float(X[i, j]) for j in rng.permutation(5) if there[i, j]}
        lacking = [n for n in NAMES if n not in x]
        x |= {n: v for n, v in zip(lacking, (None, float("nan")), strict=False) if i % 3 == 0}
        examples.append(x)
    y = np.where(there[:, 0], X[:, 0], 0.0) * np.where(there[:, 2], X[:, 2], -3.0) + X[:, 4]
    return examples, y


class Cards:
    """In the place of a set that River would download: mostly usual points, some far off.

    Asked for rows, it gives a `share` of them: enough for River's checks.
    """

    def __init__(self, share=1.0):
        self.share = share

    def take(self, rows):
        rng = np.random.default_rng(rows)
        for _ in range(int(rows * self.share)):
            odd = rng.random() < 0.02
            values = rng.normal(size=6) + 3.0 * odd * rng.choice([-1, 1], size=6)
            yield {f"V{j}": float(v) for j, v in enumerate(values)}, int(odd)


WORDS = {
    True: ["win", "cash", "prize", "urgent", "free", "offer", "claim", "now"],
    False: ["home", "later", "dinner", "meeting", "thanks", "tomorrow", "see", "soon"],
}


def messages(rows, seed=0, share=0.4):
    """Short texts of two kinds, a third of the words from either; a `share` is spam."""
    rng = np.random.default_rng(seed)
    for _ in range(rows):
        spam = bool(rng.random() < share)
        kinds = rng.random(6) < 0.3
        yield " ".join(str(rng.choice(WORDS[bool(spam ^ k)])) for k in kinds), spam
