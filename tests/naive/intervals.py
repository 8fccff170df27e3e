"""Intervals around the mean of several members, in a plain loop."""

import math


def intervals(answers, members, targets, nu):
    """Half-widths and standard deviations before each row, and ln q at the end.

    `members` has a list for each row.

    width = q u g(x), u the mean error, g(x) = c0 + c1 d/u + c2 (p - m)/v within [0.1, 10], d the
    members' mean distance from p, m and v mean and mean distance of answers; ln q goes up by
    0.03 (1 - nu) with a miss, else down by 0.03 nu, within [0.001, 10000]; c by least mean squares.
    Means are over the last 200 rows or so, less the very first, and v less the first two. The
    standard deviation is u g(x) times the root of the mean square of errors in such units, none of
    which counts as larger than 100; it starts with pi/2.
    """
    q = math.log(min(max(-math.log(nu), 1e-3), 1e4))
    u = m = v = 0.0
    c = [1.0, 0.0, 0.0]
    square = math.pi / 2
    found, std = [], []
    for t, (p, each, y) in enumerate(zip(answers, members, targets, strict=True)):
        d = sum(abs(a - p) for a in each) / len(each)
        x = [1.0, min(d / u, 5.0) if u else 0.0, max(-5.0, min((p - m) / v, 5.0)) if v else 0.0]
        g = sum(a * b for a, b in zip(c, x, strict=True))
        unit = u * max(0.1, min(g, 10.0))
        found.append(math.exp(q) * unit)
        std.append(math.sqrt(square) * unit)
        error = abs(y - p)
        q += 0.03 * ((error > found[-1]) - nu)
        q = max(math.log(1e-3), min(q, math.log(1e4)))
        if u:
            step = 0.01 * (min(error / u, 8.0) - g) / sum(b * b for b in x)
            c = [a + step * b for a, b in zip(c, x, strict=True)]
        if t:
            n = min(t, 200)
            if unit:
                square += (min(error / unit, 100.0) ** 2 - square) / n
            u += (error - u) / n
            if t > 1:
                v += (abs(p - m) - v) / n
            m += (p - m) / n
    return found, std, q
