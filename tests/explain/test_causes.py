"""What the guide's table says of each cause is so, by the numbers that an explanation holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from helpers.reasons import GAP, false_in
from helpers.sizes import size

from onkel import Detector, NoveltyDetector
from onkel.explain.causes import beside_gap

WHOLE = "it is the row as a whole"


def tables(rng, rows=1400):
    """Numbers, categories with rare values, texts: a detector's rows as they are."""
    words, shares = ["on", "off", "hot", "cold", "ok"], [0.5, 0.46, 0.04]
    return [
        {"a": float(rng.normal()), "b": float(rng.integers(0, 3)),
         "who": str(rng.choice(["x", "y", "z"], p=[0.6, 0.37, 0.03])),
         "kind": str(rng.choice(["u", "v", "w"], p=shares)), "told": " ".join(rng.choice(words, 3))}
        for _ in range(rows)
    ]  # fmt: skip


def half_way(why, score):
    """Whether another score would be no alert, or half the way there."""
    return score > why.score and score >= why.score + (why.threshold - why.score) / 2


def check(why):
    """Compare a cause with what an explanation holds; return it."""
    named, cause, words = why.named, why.cause, why.sentence
    alone = [half_way(why, why.score - f.effect) for f in named[:1]]
    if cause == "single":
        assert alone == [True] and "mostly through" in words
    elif cause == "several":
        assert len(named) > 1 and (why.agreed is None or half_way(why, why.agreed))
    elif cause == "whole":
        assert why.pattern is None and WHOLE in words
        assert alone != [True]
        assert why.agreed is None or not half_way(why, why.agreed)
        assert all(f.in_words() in words for f in named[:3])
    else:
        assert why.pattern is not None and why.pattern.kind == cause
    assert not false_in(words)
    return cause, bool(named)


@pytest.mark.parametrize("kind", [Detector, NoveltyDetector])
@pytest.mark.parametrize("seed", size([0, 5], range(12)))
def test_alerts_of_tables(kind, seed):
    rows = tables(np.random.default_rng(seed))
    det, found = kind(nu=0.05).fit(rows[:900]), Counter()
    for row in rows[900:]:
        why = det.explain(row)
        if why.alert:
            found[check(why)] += 1
    assert found["single", True] > 0


@pytest.mark.parametrize("seed", range(size(4, 40)))
def test_alerts_of_numbers(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(2, 7))
    mix = np.eye(d) + 0.5 * rng.normal(size=(d, d))
    X = rng.standard_t(3, size=(1200, d)) @ mix
    if seed % 2:
        X = np.cumsum(0.1 * X, axis=0)
    det = Detector(nu=0.03).fit(X[:900])
    for x in X[900:] + rng.normal(size=(300, d)) * (rng.random((300, d)) < 0.2):
        why = det.explain(x)
        if why.alert:
            check(why)


@pytest.mark.parametrize(
    ("value", "gap"),
    [(1700000000.5, (1700000000.0, 1700000001.0)), (12345678.91, (12345678.9, 12345679.0)),
     (1 + 1e-10, (1.0, 1 + 3e-10)), (-1e-20, (-3e-20, 0.0)), (np.nextafter(1, 2), (1.0, 1.1))],
)  # fmt: skip
def test_a_number_in_a_gap_is_told_inside_of_it(value, gap):
    shown, hole = beside_gap(value, gap)
    words = f"mostly through a {shown}, where no row kept lies {hole}"
    assert GAP.search(words) and not false_in(words)


def test_what_is_0_is_told(rng):
    """That of a score, too: log p of what comes always."""
    why = Detector(nu=0.05, warmup=100).fit(rng.normal(size=(400, 2))).explain([4.0, 4.0])
    made = replace(why, agreed=0.0, pattern=None).to_dict()
    assert made["agreed"] == 0.0 and not {"pattern", "members", "precedent"} & set(made)
    assert "agreed" not in replace(why, agreed=None).to_dict()


def test_one_number_that_explains_nothing_is_no_reason():
    """By hand: half the way would be to -6, and all that the number does is to -9.5."""
    rows = np.random.default_rng(0).normal(size=(400, 2))
    why = Detector(nu=0.05, warmup=100).fit(rows).explain([4.0, 4.0])
    far = replace(why.features[0], effect=-0.5, outside=True, usual=(-1.0, 1.0), value=4.0)
    near = replace(why.features[1], effect=-0.1, outside=False)
    made = replace(
        why, score=-10.0, threshold=-2.0, features=(far, near), pattern=None, agreed=None
    )
    assert made.cause == "whole" and WHOLE in made.sentence
    assert "with feature " in made.sentence and "had it agreed: 1 in 13 000" in made.sentence
    helps = replace(made, features=(replace(far, effect=-4.0), near))
    assert helps.cause == "single" and "mostly through" in helps.sentence
    both = (far, replace(near, outside=True, usual=(-1.0, 1.0)))
    assert replace(made, features=both, agreed=-5.0).cause == "several"
    assert replace(made, features=both, agreed=-9.0).cause == "whole"
    assert replace(made, features=both).cause == "several"  # nobody has asked what both would do


def test_a_value_that_is_kept_lies_in_no_gap(rng):
    """Terms are kept standardised, in single precision: their values come back rounded."""
    levels = np.array([-0.601143, -0.273216, 0.054711, 0.382638, 0.710565, 1.03849])
    which = np.clip(rng.normal(2.5, 1.1, 900).round().astype(int), 0, 5)
    X = np.column_stack([20 + 3 * rng.normal(size=900), levels[which]]).astype("float32")
    det = NoveltyDetector(nu=0.05).partial_fit(X[:600])
    why = [det.explain(x) for x in X[600:]]
    alerts = [str(one) for one in why if one.alert]
    gaps = [words for words in alerts if "feature 1" in words and "no row kept" in words]
    assert len(alerts) > 5 and not gaps and not any(map(false_in, alerts))
