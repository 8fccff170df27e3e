"""From scores to probabilities, in the estimators' terms: classes, and those that come late."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel.core.chances import Chances, softmax
from onkel.estimators.classes import Classes
from onkel.learner import Learner

Array = NDArray[Any]


class Piece(NamedTuple):
    """Rows of one call that met the same classes."""

    classes: Classes
    scores: Array
    told: Array
    """The same as odds: what probabilities are made of."""


class Outputs:
    """A learner and its link, as those who give them more outputs see them."""

    def __init__(self, learner: Learner, link: Chances | None) -> None:
        self.parts: list[Any] = [learner] if link is None else [learner, link]

    def add_column(self) -> None:
        """Add an output."""
        for part in self.parts:
            part.add_column()

    def mirror_column(self) -> None:
        """Turn the single output round."""
        for part in self.parts:
            part.mirror_column()

    def split_column(self) -> None:
        """Give the single output a mirror."""
        for part in self.parts:
            part.split_column()

    def arrange(self, order: list[int]) -> None:
        """Put the outputs in another order."""
        for part in self.parts:
            part.arrange(order)


def linked(link: Chances | None, scores: Array, targets: Array, counted: Array) -> Array:
    """Return what scores mean as odds, before each row; rows that count move the link."""
    if link is None or not len(scores):
        return scores
    told = np.empty(scores.shape)
    edges = [0, *(np.flatnonzero(np.diff(counted)) + 1).tolist(), len(scores)]
    for start, stop in pairwise(edges):
        part, rows = slice(start, stop), scores[start:stop, None]
        told[part] = link.learn(rows, targets[part]) if counted[start] else link.look(rows)
    return told


def of_odds(classes: Classes, told: Array) -> Array:
    """Return probabilities of odds (log-odds of one output, else logarithms), by sorted class."""
    if len(classes.known) < 2:
        return np.ones((len(told), len(classes.known)))
    if classes.binary:
        return _two(told[:, 0])
    return softmax(told)[:, classes.order()]


def of_logits(classes: Classes, scores: Array) -> Array:
    """Return probabilities of logistic scores, one per class: each by itself, then made to fit."""
    if len(classes.known) < 2:
        return np.ones((len(scores), len(classes.known)))
    decision = classes.decisions(scores)
    if decision.ndim == 1:
        return _two(decision)
    p = 0.5 * (1.0 + np.tanh(0.5 * decision)) + 1e-300
    return np.asarray(p / p.sum(axis=1, keepdims=True))


def led(chances: Array, winners: Array) -> Array:
    """Return probabilities of which the predicted class has the highest.

    Where rounding has made several alike, it gets one bit more.
    """
    rows = np.flatnonzero(chances.argmax(axis=1) != winners)
    chances[rows, winners[rows]] = np.nextafter(chances[rows].max(axis=1), 1.0)
    return chances


def _two(log_odds: Array) -> Array:
    p = 0.5 * (1.0 + np.tanh(0.5 * log_odds))
    return np.column_stack([1.0 - p, p])


def spread(then: Classes, chances: Array, now: Classes) -> Array:
    """Return probabilities in the columns of a later set of classes; 0 for those yet unknown.

    Before the first label all of them are alike.
    """
    if then.known == now.known:
        return chances
    if not then.known:
        return np.full((len(chances), len(now.known)), 1.0 / len(now.known))
    wide = np.zeros((len(chances), len(now.known)))
    place = {label: i for i, label in enumerate(now.known)}
    wide[:, [place[v] for v in then.known]] = chances
    return wide
