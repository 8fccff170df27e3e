"""Wider rows of a series in plain loops, one row after another, by their definitions."""

import math

GOLDEN = (math.sqrt(5) - 1) / 2


def filled(column):
    """The last value known in the place of each gap; None before there was one."""
    last, found = None, []
    for value in column:
        last = last if math.isnan(value) else value
        found.append(last)
    return found


def earlier(column, i, j):
    """The value j rows before row i; before the first row, the first."""
    return column[max(i - j, 0)]


def running(values, horizon=10000):
    """After each value, the mean of all so far, or with weight 1/horizon from then on."""
    mean, found = 0.0, []
    for t, value in enumerate(values, 1):
        mean += (value - mean) / min(t, horizon)
        found.append(mean)
    return found


def shape(column, count):
    """Rows of the last `count` values around their mean, in units of their typical spread."""
    around = []
    for i in range(len(column)):
        last = [earlier(column, i, j) for j in range(count)]
        mean = sum(last) / count
        around.append([v - mean for v in last])
    typical = running([sum(v * v for v in row) / count for row in around])
    return [
        [v / math.sqrt(q) if q > 0 else 0.0 for v in row]
        for row, q in zip(around, typical, strict=True)
    ]


def roughness(column, count):
    """log(0.03 + root mean square of the last `count` steps / that of all steps)."""
    steps = [column[i] - earlier(column, i, 1) for i in range(len(column))]
    typical, found = running([s * s for s in steps]), []
    for i, usual in enumerate(typical):
        last = [steps[i - j] if i >= j else 0.0 for j in range(count)]
        rough = math.sqrt(sum(s * s for s in last) / count)
        found.append(math.log(0.03 + rough / math.sqrt(usual)) if usual > 0 else 0.0)
    return found


def phase(season, i, time):
    """The part of a season that has gone by at row i."""
    if season is None:  # not known
        return (i * GOLDEN) % 1
    if season == "day":
        return (time / 86400) % 1
    if season == "week":  # 1970 began on a Thursday
        return ((time / 86400 + 3) / 7) % 1
    return (i / season) % 1


def wide(columns, lags, count, differences, rough, seasons, times=None):
    """The wide rows of some columns: values, lags, shapes, differences, roughness, circles."""
    found = []
    shapes = [shape(column, count) for column in columns] if count else []
    roughs = [roughness(column, rough) for column in columns] if rough else []
    for i in range(len(columns[0])):
        row = [earlier(column, i, j) for j in range(lags + 1) for column in columns]
        row += [values[i][j] for j in range(count) for values in shapes]
        if differences:
            row += [column[i] - earlier(column, i, 1) for column in columns]
        row += [values[i] for values in roughs]
        for season in seasons:
            angle = 2 * math.pi * phase(season, i, None if times is None else times[i])
            row += [math.sin(angle), math.cos(angle)]
        found.append(row)
    return found


def apart(column, lag):
    """The mean squared difference of values `lag` rows apart, in units of the variance."""
    n, mean = len(column), sum(column) / len(column)
    variance = sum((v - mean) ** 2 for v in column) / n
    pairs = [(column[i + lag] - column[i]) ** 2 for i in range(n - lag)]
    return sum(pairs) / len(pairs) / variance


def clearness(column, lag):
    """Differences one and two lags apart, as part of those half and one and a half lags apart."""
    between = min(apart(column, lag // 2), apart(column, 3 * lag // 2))
    return max(apart(column, lag), apart(column, 2 * lag)) / between


def past(column, size):
    """Means over 1, 2, 4, ... values, until fewer than `size` are left; and over how many."""
    each = 1
    while len(column) // each >= size:
        each *= 2
    means = []
    for start in range(0, len(column) - each + 1, each):
        part = list(column[start : start + each])
        while len(part) > 1:
            part = [(part[i] + part[i + 1]) / 2 for i in range(0, len(part), 2)]
        means.append(part[0])
    return means, each
