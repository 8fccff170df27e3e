"""ROMMA: the relaxed online maximum margin algorithm (Li and Long, 2002)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from onkel.core.layout import Move, NativeRule, RuleCode, Trial
from onkel.losses import Loss, SoftMargin
from onkel.rules.base import ANY_SPACE, BoundRule, Rule, Space, keep

LOST = 1e24
"""Above this k(x, x) ||f||^2 the margin 1/||f|| is lost in rounding."""


@dataclass(frozen=True)
class Romma(Rule):
    """The smallest f that gets this example right and stays beyond the last one's half-space.

    ``f <- s f + a k(x, .)``, with D = k(x, x) ||f||^2 - f(x)^2:
    ``s = (k(x, x) ||f||^2 - y f(x)) / D``, ``a = ||f||^2 (y - f(x)) / D``

    Where k(x, .) is parallel to f, or f alone would do worse, f starts again from the example:
    ``s = 0, a = y / k(x, x)``. So it does where labels contradict each other for so long that
    the margin 1/||f|| has fallen below 1e-12 of the examples' length (without an end to that, ||f||
    would overflow). An example with k(x, x) = 0 changes nothing. Needs no learning rate.

    Parameters
    ----------
    aggressive : bool
        Update wherever y f(x) < 1; False: only at mistakes, y f(x) <= 0.

    References
    ----------
    Y. Li and P. M. Long, The relaxed online maximum margin algorithm, Machine Learning 46 (2002),
    361-387. The case of k(x, .) parallel to f, where D = 0, is added here.

    Examples
    --------
    >>> from onkel import KernelClassifier
    >>> clf = KernelClassifier(rule="romma", scale=False).partial_fit([[0.0], [3.0]], [0, 1])
    >>> clf.decision_function([[0.0], [3.0]]).round(6)
    array([-1.,  1.])
    """

    word: ClassVar[str] = "romma"
    aggressive: bool = True
    losses: ClassVar[tuple[type[Loss], ...]] = (SoftMargin,)
    adapts: ClassVar[bool] = False
    has_offset: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.aggressive, bool):
            raise ValueError(f"Romma: aggressive must be True or False; got {self.aggressive!r}.")

    def check(self, loss: Loss) -> None:
        super().check(loss)
        if loss.start != 1:
            raise ValueError(
                f"Romma works at margin 1 (any other only scales f); got {loss!r}. Use "
                "losses.SoftMargin(margin=1), and aggressive=False for updates at mistakes only."
            )

    def bind(self, loss: Loss, space: Space = ANY_SPACE) -> BoundRomma:
        self.check(loss)
        return BoundRomma(self.aggressive)


class BoundRomma(BoundRule):
    """ROMMA in one of its two forms."""

    needs_norm = True
    wild = True
    divides = True

    def __init__(self, aggressive: bool) -> None:
        self.aggressive = aggressive

    def step(self, trial: Trial, loss: Any) -> Move:
        verdict = loss.judge(trial.f, trial.y, trial.threshold)
        m = trial.y * trial.f
        if not trial.kxx > 0 or (m >= 1 - 1e-12 if self.aggressive else m > 0):
            return keep(trial, verdict, 1.0, 0.0)
        s, a = self._whole_way(trial)
        return keep(trial, verdict, max(1 + trial.weight * (s - 1), 0.0), trial.weight * a)

    @staticmethod
    def _whole_way(trial: Trial) -> tuple[float, float]:
        f, y, n, kn = trial.f, trial.y, trial.norm2, trial.kxx * trial.norm2
        d = kn - f * f
        if not n > 0:
            return 1.0, y / trial.kxx
        if kn <= y * f or d <= 1e-12 * kn or kn > LOST:
            return 0.0, y / trial.kxx
        return (kn - y * f) / d, n * (y - f) / d

    def native(self) -> NativeRule | None:
        return NativeRule(RuleCode.ROMMA, extra=float(self.aggressive))
