"""What the estimators share of scikit-learn's protocol: parameters, and what is made of them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, Self

import numpy as np

from onkel import expansions, kernels, losses, rules
from onkel.clock import is_duration
from onkel.estimators.locks import Locked
from onkel.learner import Settings
from onkel.params import Accept, Part, nested_changes

_PARTS: dict[str, Callable[[Any], Any]] = {
    "kernel": kernels.get,
    "loss": losses.get,
    "rule": rules.get,
    "expansion": expansions.get,
}
SECOND_ORDER = expansions.Centers(200, linear=True)
"""What is learned over by a rule that needs features, where nothing else was asked for."""
MOST_THREADS = 256
"""More than these are never started, whatever was asked for."""
N_JOBS = Accept(low=-1, high_open=True, whole=True, none=True, hint="-1 uses every core.")
_COMMON = {"passes": Accept(low=1, high_open=True, whole=True), "n_jobs": N_JOBS}


class Configured(Locked):
    """An estimator's parameters, checked when learning begins."""

    task: ClassVar[str]
    kernel: Any
    loss: Any
    rule: Any
    expansion: Any
    scale: bool
    fit_intercept: bool | str
    passes: int
    average: bool
    missing: str
    n_jobs: int | None

    @classmethod
    @cache
    def _names(cls) -> tuple[str, ...]:
        return tuple(n for n in inspect.signature(cls.__init__).parameters if n != "self")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the constructor's parameters; those of parts as ``rule__memory``, if `deep`."""
        params: dict[str, Any] = {n: getattr(self, n) for n in self._names()}
        if deep:
            for name, value in list(params.items()):
                part = self._part(name, value, quiet=True)
                if isinstance(part, Part):
                    params.update({f"{name}__{k}": v for k, v in part.get_params().items()})
        return params

    def set_params(self, **params: Any) -> Self:
        """Set parameters; ``rule__memory=1000`` reaches inside (a name becomes its object)."""
        for name, value in nested_changes(
            self, self.get_params(deep=False), params, lookup=self._part
        ).items():
            setattr(self, name, value)
        return self

    _own_parts: ClassVar[dict[tuple[str, str], Part]] = {}
    """Parts that a name stands for in this estimator, where they differ from the registry's."""

    def _part(self, name: str, value: Any, quiet: bool = False) -> Any:
        """Return the part behind a parameter's value: a name is replaced by its object.

        A loss's name may mean something else beside a rule that says so, and "window", which is
        the default, means centres beside a rule that needs them.
        """
        if name == "loss" and isinstance(value, str):
            rule = self._part("rule", self.rule, quiet=True)
            if isinstance(rule, rules.Rule) and value in rule.named:
                return rule.named[value]
        if name == "expansion" and isinstance(value, str) and value == "window":
            rule = self._part("rule", self.rule, quiet=True)
            if isinstance(rule, rules.Rule) and rule.second_order:
                return SECOND_ORDER
        if isinstance(value, str) and (name, value) in self._own_parts:
            return self._own_parts[name, value]
        if name not in _PARTS:
            return value
        try:
            return losses.get(value, self.task) if name == "loss" else _PARTS[name](value)
        except ValueError:
            if quiet:
                return value
            raise

    def part(self, name: str) -> Any:
        """Return the part that a parameter stands for: an object, also where a name was given."""
        return self._part(name, getattr(self, name))

    def check_params(self) -> None:
        """Raise the ValueError that learning would raise, should a parameter not be accepted."""
        self._settings()

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self).__init__).parameters
        params = self.get_params(deep=False)
        changed = [f"{n}={v!r}" for n, v in params.items() if not _same(v, defaults[n].default)]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _settings(self) -> Settings:
        """Check every parameter and put the learner's settings together."""
        owner = type(self).__name__
        for name, accept in _COMMON.items():
            accept.check(owner, name, getattr(self, name))
        for name in ("scale", "average"):
            if not isinstance(getattr(self, name), (bool, np.bool_)):
                raise ValueError(
                    f"{owner}: {name} must be True or False; got {getattr(self, name)!r}."
                )
        missing = self._checked_missing()
        loss = self._loss()
        rule = self._part("rule", self.rule)
        if loss.task != self.task:
            raise ValueError(
                f"{owner}: loss {loss!r} is for {loss.task}, not for {self.task}; use one of "
                f"{sorted(losses.of_task(self.task))} or a loss of your own for it."
            )
        rule.check(loss)
        return Settings(
            kernel=kernels.get(self.kernel),
            loss=loss,
            rule=rule,
            expansion=self._part("expansion", self.expansion),
            scale=bool(self.scale),
            intercept=self._intercept(rule),
            average=bool(self.average),
            threads=threads_of(self.n_jobs),
            missing=missing,
        )

    def _checked_missing(self) -> str:
        """Return what NaN means; a plain word, also where it came as another kind of text."""
        for word in ("error", "mean"):
            if isinstance(self.missing, str) and self.missing == word:
                return word
        raise ValueError(
            f"{type(self).__name__}: missing must be 'error' or 'mean'; got {self.missing!r}."
        )

    def forgets_by_clock(self) -> bool:
        """Whether the memory is a duration, so that learning must be told the times."""
        return is_duration(self.get_params().get("rule__memory"))

    def _all_settings(self) -> list[Settings]:
        """Return the settings side by side: one, or those of each member."""
        return [self._settings()]

    def settings(self) -> Settings:
        """Return what the parameters make a learner of, all of them checked.

        For the package's other parts, which need one setting: a mixture refuses.
        """
        return self._settings()

    def _loss(self) -> losses.Loss:
        loss: losses.Loss = self._part("loss", self.loss)
        return loss

    def _intercept(self, rule: Any) -> bool:
        wanted = self.fit_intercept
        if not (wanted == "auto" or isinstance(wanted, (bool, np.bool_))):
            raise ValueError(
                f"{type(self).__name__}: fit_intercept must be True, False or 'auto'; "
                f"got {wanted!r}."
            )
        possible = rule.offers_offset and self.task != "novelty"
        if wanted != "auto" and wanted and not possible:
            raise ValueError(
                f"{type(self).__name__}: fit_intercept=True, but "
                + (
                    "novelty detection has no offset (it would halve the alert rate)."
                    if self.task == "novelty"
                    else f"the rule {rule!r} has none."
                )
                + " Use 'auto' or False."
            )
        if wanted != "auto":
            return bool(wanted)
        # Standardised targets are centred already; an offset would only walk about.
        return possible and not (self.task == "regression" and bool(self.scale))


def _same(a: Any, b: Any) -> bool:
    """Whether two parameters are the same (arrays and odd objects count as different)."""
    return a is b or (type(a) is type(b) and isinstance(a, (str, int, float)) and a == b)


def threads_of(n_jobs: int | None) -> int:
    """Return the number of threads that `n_jobs` asks for."""
    if n_jobs is None or n_jobs == 0:
        return 1
    return (os.cpu_count() or 1) if n_jobs < 0 else min(int(n_jobs), MOST_THREADS)
