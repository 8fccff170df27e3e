"""Sequences built against the algorithms of the bounds, and those algorithms, in plain loops."""

from __future__ import annotations

import numpy as np


def separate(rows, labels, rate, lam=0.0, margin=0.0, ball=None, p=2.0):
    """NORMA or ALMA on one sequence; None as a label contradicts the score."""
    theta, mistakes, errors = np.zeros(rows.shape[1]), 0, 0
    for x, y in zip(rows, labels, strict=True):
        size = (np.abs(theta) ** p).sum() ** (1 / p)
        w = np.sign(theta) * np.abs(theta) ** (p - 1) / size ** (p - 2) if size else theta
        f = float(w @ x)
        y = (-1.0 if f > 0 else 1.0) if y is None else y
        sigma = y * f <= margin
        mistakes, errors = mistakes + (y * f <= 0), errors + sigma
        theta = (1 - rate * lam) * theta + rate * sigma * y * x
        if ball is not None:
            theta = theta / max(1.0, (np.abs(theta) ** p).sum() ** (1 / p) / ball)
    return mistakes, errors


def descend(rows, labels, rates, lam, rho, ages=None):
    """NORMA with the soft margin; returns the hypotheses, the labels given and the total risk."""
    T = len(rows)
    terms, path, given, total = np.zeros(T), np.zeros_like(rows, float), np.zeros(T), 0.0
    for t, (x, y) in enumerate(zip(rows, labels, strict=True)):
        if ages is not None:
            terms[: max(0, t - ages[t])] = 0.0
        w = terms[:t] @ rows[:t] if t else np.zeros(rows.shape[1])
        f = float(w @ x)
        y = (-1.0 if f > 0 else 1.0) if y is None else y
        path[t], given[t] = w, y
        total += max(0.0, rho - y * f) + lam / 2 * w @ w
        terms[:t] *= 1 - rates[t] * lam
        terms[t] = rates[t] * y * (y * f <= rho)
    return path, given, total


def least_risk(rows, labels, lam, rho, radius):
    """About the least mean risk in a ball, by subgradient steps from 0: never below the least."""
    w, best = np.zeros(rows.shape[1]), np.inf
    for k in range(1, 400):
        f = rows @ w
        best = min(best, np.maximum(0, rho - labels * f).mean() + lam / 2 * w @ w)
        w = w - (lam * w - (labels * (labels * f <= rho)) @ rows / len(rows)) / (lam * k)
        w *= min(1.0, radius / max(np.linalg.norm(w), 1e-300))
    return best


def streams(T):
    """Rows of norm 1 and labels built against gradient descent."""
    yield np.eye(T), np.ones(T)
    yield np.ones((T, 1)), [None] * T
    yield np.ones((T, 1)), np.ones(T)
    yield np.ones((T, 1)), np.where(np.arange(T) < T // 2, 1.0, -1.0)
    yield np.ones((T, 1)), np.where(np.arange(T) < T // 8, 1.0, -1.0)


def hedge(members: int, trials: int, rate: float, share: float):
    """Fixed share against losses of 1 for its heavier half; the loss beyond the best member's."""
    w, losses, total = np.full(members, 1 / members), np.zeros((trials, members)), 0.0
    for loss in losses:
        loss[np.argsort(-w, kind="stable")[: members // 2]] = 1.0
        total += w @ loss
        v = w * np.exp(-rate * loss)
        w = (1 - share) * v / v.sum() + share / members
    return total - losses.sum(axis=0).min()


def coin(loss: str, lam: float, chance: float, rates, runs: int = 200):
    """One row, labels by a coin: the last coefficients of many runs, and the best one."""
    rng, alpha = np.random.default_rng(1), np.zeros(runs)
    for rate in rates:
        y = np.where(rng.uniform(size=runs) < chance, 1.0, -1.0)
        u = y * alpha
        slope = -1.0 * (u <= 1) if loss == "hinge" else -1 / (1 + np.exp(u))
        alpha = alpha - rate * (lam * alpha + slope * y)
    grid = np.linspace(-1 / lam, 1 / lam, 20_001)
    value = (lambda u: np.maximum(0, 1 - u)) if loss == "hinge" else (lambda u: np.logaddexp(0, -u))
    F = chance * value(grid) + (1 - chance) * value(-grid) + lam / 2 * grid**2
    return alpha, grid[F.argmin()], F.min()
