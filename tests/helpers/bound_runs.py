"""The algorithms of the theorems in plain loops over trials, many sequences at once.

Shapes: X (S, T, d), labels (S, T), numbers of a sequence (S,). Nothing of the package is used.
A True in `answer` replaces the label by the one that contradicts the algorithm's own score.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from helpers.sizes import size

SEQUENCES = size(30, 100)


def norm(x, p):
    """The p-norm along the last axis."""
    return (np.abs(x) ** p).sum(-1) ** (1 / p)


def dual(p):
    """q with 1/p + 1/q = 1."""
    return p / (p - 1)


def weights(theta, p):
    """The inverse link: w of A02 (1) from theta."""
    if p == 2:
        return theta
    top = np.abs(theta).max(-1, keepdims=True)
    top[top == 0] = 1.0
    t = theta / top
    size = norm(t, p)[..., None]
    size[size == 0] = 1.0
    return top * np.sign(t) * np.abs(t) ** (p - 1) / size ** (p - 2)


@dataclass
class Counts:
    """What happened in each sequence."""

    mistakes: np.ndarray
    margin_errors: np.ndarray
    loss: np.ndarray
    labels: np.ndarray


def separate(X, labels, answer, step, p=2.0, margin=0.0, shrink=1.0, ball=None):
    """NORMA (`shrink`) and ALMA (`ball`): theta <- shrink * theta + step * sigma * y * x."""
    S, T, d = X.shape
    one = np.ones(S)
    step, margin, shrink = step * one, margin * one, shrink * one
    theta, labels = np.zeros((S, d)), labels.copy()
    out = Counts(np.zeros(S), np.zeros(S), np.zeros(S), labels)
    for t in range(T):
        f = (weights(theta, p) * X[:, t]).sum(-1)
        labels[:, t] = np.where(answer[:, t], np.where(f > 0, -1.0, 1.0), labels[:, t])
        y = labels[:, t]
        sigma = (y * f <= margin).astype(float)
        out.mistakes += y * f <= 0
        out.margin_errors += sigma
        out.loss += sigma * (margin - y * f)
        theta = shrink[:, None] * theta + (step * sigma * y)[:, None] * X[:, t]
        if ball is not None:
            theta /= np.maximum(1.0, norm(theta, p) / ball)[:, None]
    return out


@dataclass
class Case:
    """Sequences with their comparators and every quantity that the theorems assume."""

    X: np.ndarray
    labels: np.ndarray
    answer: np.ndarray
    U: np.ndarray
    mu: float
    p: float

    @cached_property
    def bound(self):
        return norm(self.X, self.p).max(-1)

    @cached_property
    def radius(self):
        return norm(self.U, dual(self.p)).max(-1)

    @cached_property
    def steps(self):
        return norm(np.diff(self.U, axis=1), dual(self.p))

    @cached_property
    def loss(self):
        """Comparator's hinge loss at mu; the worst possible where the label is an answer."""
        f = (self.U[:, :-1] * self.X).sum(-1)
        own = np.maximum(0.0, self.mu - self.labels * f)
        return np.where(self.answer, self.mu + np.abs(f), own).sum(-1)

    def numbers(self, i):
        """The assumptions of sequence i, as keyword arguments."""
        return {
            "radius": float(self.radius[i]), "bound": float(self.bound[i]),
            "loss": float(self.loss[i]), "path": float(self.steps[i].sum()),
            "target_margin": self.mu, "p": self.p,
        }  # fmt: skip


def comparators(rng, kind, S, T, d, q):
    """Targets u_1 ... u_{T+1}: fixed, drifting or switching; q-norm at most about 1."""
    if kind == "fixed":
        U = np.repeat(rng.normal(size=(S, 1, d)), T + 1, axis=1)
    elif kind == "drifting":
        walk = rng.normal(size=(S, T + 1, d)) * rng.choice([0.01, 0.05], size=(S, 1, 1))
        walk[:, 0] = rng.normal(size=(S, d))
        U = walk.cumsum(axis=1)
    else:
        stretch = np.arange(T + 1) // rng.integers(20, 80)
        U = rng.normal(size=(S, stretch[-1] + 1, d))[:, stretch]
    return U / np.maximum(norm(U, q), 1e-9)[..., None].max(axis=1, keepdims=True)


def case(rng, target, noise, p=2.0, S=SEQUENCES, T=200, d=5):
    """Random inputs of a random spread, labels by the moving target, then `noise`."""
    q, mu = dual(p), float(rng.choice([0.05, 0.2, 0.5]))
    U = comparators(rng, target, S, T, d, q)
    X = rng.normal(size=(S, T, d)) * rng.choice([0.1, 1.0], size=(S, 1, d))
    f = (U[:, :-1] * X).sum(-1)
    labels, answer = np.where(f > 0, 1.0, -1.0), np.zeros((S, T), bool)
    if noise != "margin":  # that one moves each row out to the margin: K = 0
        labels *= np.where(rng.uniform(size=(S, T)) < rng.choice([0.0, 0.1]), -1.0, 1.0)
    if noise == "answers":
        answer = rng.uniform(size=(S, T)) < rng.choice([0.05, 0.3, 1.0], size=(S, 1))
    if noise == "margin":
        v = np.sign(U[:, :-1]) * np.abs(U[:, :-1]) ** (q - 1)  # parallel to the dual vector
        short = np.maximum(0.0, mu * (1 + 1e-9) - labels * f) / (U[:, :-1] * v).sum(-1)
        X += (labels * short)[..., None] * v
    return Case(X, labels, answer, U, mu, p)
