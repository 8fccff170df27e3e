"""The kernel perceptron (Rosenblatt), with a margin if asked (N04, after (18))."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from onkel.core.layout import Move, NativeRule, RuleCode, Trial
from onkel.losses import Loss, SoftMargin
from onkel.rules.base import ANY_SPACE, BoundRule, Rule, Space, keep


@dataclass(frozen=True)
class Perceptron(Rule):
    """The kernel perceptron: add each example that is got wrong, forget nothing.

    ``f <- f + sigma y k(x, .)``, sigma = [y f(x) <= rho]

    rho is the margin of the loss: 0 (what the name "soft_margin" means beside this rule) is the
    perceptron, more is the perceptron with margin. It is NORMA with eta = 1 and lam = 0. The
    number of terms grows with the mistakes: bound it by the expansion.

    Examples
    --------
    >>> from onkel import KernelClassifier
    >>> clf = KernelClassifier(rule="perceptron").partial_fit([[0.0], [1.0]], [0, 1])
    >>> clf.diagnostics_["mistakes"]
    2
    """

    word: ClassVar[str] = "perceptron"
    losses: ClassVar[tuple[type[Loss], ...]] = (SoftMargin,)
    adapts: ClassVar[bool] = False
    has_offset: ClassVar[bool] = False
    has_link: ClassVar[bool] = True
    named: ClassVar[Mapping[str, Loss]] = {"soft_margin": SoftMargin(margin=0.0)}

    def bind(self, loss: Loss, space: Space = ANY_SPACE) -> BoundPerceptron:
        return BoundPerceptron()


class BoundPerceptron(BoundRule):
    """The perceptron has no numbers."""

    def step(self, trial: Trial, loss: Any) -> Move:
        verdict = loss.judge(trial.f, trial.y, trial.threshold)
        return keep(trial, verdict, 1.0, trial.weight * verdict.slope)

    def native(self) -> NativeRule | None:
        return NativeRule(RuleCode.NORMA)  # at lam = 0 and eta = 1
