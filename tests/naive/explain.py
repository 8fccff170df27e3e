"""Explanations by their definitions: one kernel value after another, features replaced in turn."""

import math


def score(kernel, x, terms, base=0.0):
    """base + sum_i a_i k(x, z_i)."""
    return base + sum(a * kernel(x, z) for a, z in terms)


def without(kernel, x, terms, feature, base=0.0):
    """The score if this feature of x agreed with every term: it is replaced, term by term."""
    total = base
    for a, z in terms:
        changed = x.copy()
        changed[feature] = z[feature]
        total += a * kernel(changed, z)
    return total


def shares(kernel, x, terms):
    """|a_i k_i| / sum |a k| for each term."""
    sizes = [abs(a * kernel(x, z)) for a, z in terms]
    return [s / sum(sizes) for s in sizes]


def slope(kernel, x, terms, feature, step=1e-4):
    """ds/dx_j by Richardson's extrapolation of two central differences."""

    def central(h):
        up, down = x.copy(), x.copy()
        up[feature] += h
        down[feature] -= h
        return (score(kernel, up, terms) - score(kernel, down, terms)) / (2 * h)

    return (4 * central(step / 2) - central(step)) / 3


def worth(weights):
    """How many equal weights these are worth."""
    return sum(weights) ** 2 / sum(w * w for w in weights)


def usual_weights(kernel, x, terms, feature, least=10.0):
    """|a| (k without the feature)^p, p = 1, 2, 4, ... the highest worth `least` terms, or 1."""
    alike = []
    for _, z in terms:
        changed = x.copy()
        changed[feature] = z[feature]
        alike.append(kernel(changed, z))
    powers = [2**i for i in range(11)]
    for p, next_p in zip(powers, [*powers[1:], None], strict=True):
        weights, sharper = (
            [abs(a) * (k / max(alike)) ** q for (a, _), k in zip(terms, alike, strict=True)]
            for q in (p, next_p or p)
        )
        if next_p is None or worth(sharper) < least:
            return weights
    raise AssertionError


def quantile(values, weights, fraction):
    """The least value such that values up to it have at least that fraction of the weight."""
    total, so_far = math.fsum(weights), 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        so_far += weight
        if so_far >= fraction * total * (1 - 1e-12):
            return value
    return max(values)
