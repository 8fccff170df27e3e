"""Dicts whose features come and go, as the rows of a dense matrix."""

import math


def present(value):
    return value is not None and value == value


def filled(examples, absent, memory=math.inf):
    """Return the names in order of appearance and one row per example, no value missing.

    A feature not seen yet has the value that it will have when first seen (absent="mean") or 0;
    later it has its value, else the mean of the values so far (over about the last `memory` of
    them), or 0.
    """
    first = {}
    for x in examples:
        for name, value in x.items():
            if present(value) and name not in first:
                first[name] = float(value)
    mean, count, rows = dict(first), dict.fromkeys(first, 0), []
    for x in examples:
        row = []
        for name in first:
            if present(x.get(name)):
                count[name] += 1
                mean[name] += (x[name] - mean[name]) / min(count[name], memory)
                row.append(float(x[name]))
            else:
                row.append(mean[name] if absent == "mean" else 0.0)
        rows.append(row)
    return list(first), rows


def known_before(examples):
    """Return how many features were known before each example, and after the last."""
    seen, counts = set(), []
    for x in examples:
        counts.append(len(seen))
        seen |= {name for name, value in x.items() if present(value)}
    return [*counts, len(seen)]
