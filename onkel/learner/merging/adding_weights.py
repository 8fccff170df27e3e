"""Adding weights: over the inputs themselves, or over fixed centres."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core import numpy_primal
from onkel.core.frame import Frame
from onkel.learner.merging.adding import Adding, Merged, same_view, shortened

Array = NDArray[Any]


class AddingWeights(Adding):
    """Weights add, in one frame; under a p-norm link it is theta that adds."""

    def functions(self) -> Merged:
        """Add theta, and past weights where the average is kept."""
        whole, frame = self.whole, self.frame()
        whole.map = whole.map.common([a.map for a in self.learners if a.t])
        theta = [self.moved(a, a.theta, frame) for a in self.learners]
        past = np.zeros((0, whole.map.count + 1))
        if whole.settings.average:
            total = [self.moved(a, a.total, frame) for a in self.learners]
            past = _sum(self.mean_gains(), total)
        whole.take_sum(frame, _sum(self.gains, theta), past)
        if whole.hashes:
            self.codes()
        lost = np.zeros(whole.columns)
        if whole.p != 2 and not whole.settings.average:
            lost = self.bend(theta)
        self.refuse_infinite(whole.theta, whole.total, whole.codes.weights, whole.codes.past)
        change = self.measured(frame)
        norms = whole.norms(whole.theta)
        whole.settle()
        if not whole.settings.average:
            lost = lost + shortened(norms, whole.norms(whole.theta))
        before = sum(a.size for a in self.learners)
        return Merged(whole, before, before - whole.size, 0, whole.targets.raw_widths(lost), change)

    def codes(self) -> None:
        """Add the weights of codes, and their past ones where the average is kept."""
        weights = _sum(self.gains, [a.codes.actual(a.state) for a in self.learners])
        past = np.zeros((0, self.whole.codes.buckets))
        if self.whole.settings.average:
            past = _sum(self.mean_gains(), [a.codes.summed(a.state) for a in self.learners])
        self.whole.take_codes(weights, past)

    def moved(self, learner: Any, theta: Array, frame: Frame) -> Array:
        """Return a learner's weights as the whole sees rows and orders centres."""
        if not learner.t:
            return np.zeros((len(theta), self.whole.map.count + 1))
        theta = theta[:, self.whole.map.places(learner.map)]
        if same_view(frame, learner.frame) and not self.whole.map.numbers:
            return theta
        return self.whole.map.reframed(theta, learner.frame, frame)

    def bend(self, theta: list[Array]) -> Array:
        """Return ||link(sum w_j theta_j) - sum w_j link(theta_j)||_q: the link is not linear."""
        p = self.whole.p
        each = [np.array([numpy_primal.link(row, p) for row in part[:, :-1]]) for part in theta]
        whole = np.array([numpy_primal.link(row, p) for row in self.whole.theta[:, :-1]])
        gap = whole - _sum(self.gains, each)
        return np.array([numpy_primal.norm_p(row, p / (p - 1)) for row in gap])

    def probes(self) -> Array:
        """Return the centres; where there are none, the mean and one spread either way."""
        moments = self.whole.moments
        rows: Array = self.whole.map.probes(moments.mean, moments.spread())
        return rows


def _sum(factors: list[Array], parts: list[Array]) -> Array:
    return np.sum([g[:, None] * part for g, part in zip(factors, parts, strict=True)], axis=0)
