"""Recursive least squares in the information form: R = P^-1 is kept, and inverted at every row."""

import math

import numpy as np


def inverse(R):
    """R^-1 by Gauss and Jordan, with pivots."""
    n = len(R)
    rows = [[*map(float, R[i]), *(float(i == j) for j in range(n))] for i in range(n)]
    for i in range(n):
        best = max(range(i, n), key=lambda k: abs(rows[k][i]))
        rows[i], rows[best] = rows[best], rows[i]
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for k in range(n):
            if k != i and rows[k][i] != 0:
                rows[k] = [a - rows[k][i] * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [row[n:] for row in rows]


def inner(v, w):
    """Sum of v_i w_i."""
    return sum(a * b for a, b in zip(v, w, strict=True))


class LeastSquares:
    """theta minimises the weighted sum of squares so far, and ridge |theta|^2.

    ``R <- R + (weight - (1 - keep) / (phi'R^-1 phi)) phi phi'``: what was known along phi counts
    for `keep` times as much, and nothing else is forgotten. A row forgets nothing that would make
    a weight vaguer than it was at first. A row with an error beyond `clip` weighs less, so that
    the error counts as that.
    """

    def __init__(self, size, ridge, outputs=1, clip=math.inf, horizon=math.inf):
        self.R = [[ridge * (i == j) for j in range(size)] for i in range(size)]
        self.theta = [[0.0] * size for _ in range(outputs)]
        self.noise, self.rows = [0.0] * outputs, [0] * outputs
        self.ridge, self.clip, self.horizon = ridge, clip, horizon

    def _vague(self, phi, zeta, keep):
        """Whether forgetting along phi would take a weight beyond its first variance."""
        n = range(len(phi))
        R = [[self.R[i][j] - (1 - keep) / zeta * phi[i] * phi[j] for j in n] for i in n]
        return max(inverse(R)[i][i] for i in n) > 1 / self.ridge

    def learn(self, phi, targets, weight=1.0, keep=1.0):
        """Predict, then learn; the scores and their standard deviations before that."""
        phi, n = [float(v) for v in phi], range(len(phi))
        P = inverse(self.R)
        zeta = inner(phi, [inner(row, phi) for row in P])
        scores = [inner(theta, phi) for theta in self.theta]
        spreads = [math.sqrt(v * (1 + zeta)) for v in self.noise]
        lost = 0.0
        errors = [abs(y - s) for y, s in zip(targets, scores, strict=True) if y is not None]
        if max(errors, default=0.0) > self.clip:
            weight *= self.clip / max(errors)
        if keep < 1 and zeta > 0 and not self._vague(phi, zeta, keep):
            lost = (1 - keep) / zeta
        self.R = [
            [self.R[i][j] + (weight - lost) * phi[i] * phi[j] for j in n] for i in n
        ]  # fmt: skip
        gain = [inner(row, phi) for row in inverse(self.R)]
        for c, y in enumerate(targets):
            if y is None:  # an output that is not there yet
                continue
            error = y - scores[c]
            self.theta[c] = [
                w + weight * error * g for w, g in zip(self.theta[c], gain, strict=True)
            ]
            self.rows[c] += 1
            share = 1 / min(self.rows[c], self.horizon)
            self.noise[c] += share * (error**2 / (1 + zeta) - self.noise[c])
        return scores, spreads

    def without(self, j):
        """What is left where feature j is no more: its weight is 0, all others follow."""
        n = [i for i in range(len(self.R)) if i != j]
        b = [[inner(row, theta) for row in self.R] for theta in self.theta]
        self.R = [[self.R[i][k] for k in n] for i in n]
        P = inverse(self.R)
        self.theta = [[inner(row, [v[i] for i in n]) for row in P] for v in b]


def ridge_solution(rows, targets, ridge, weights=None):
    """The theta that minimises the sum of squares and ridge |theta|^2, at once."""
    Phi, y = np.array(rows, float), np.array(targets, float)
    w = np.ones(len(y)) if weights is None else np.array(weights, float)
    return np.linalg.solve(
        Phi.T @ (w[:, None] * Phi) + ridge * np.eye(Phi.shape[1]), Phi.T @ (w * y)
    )
