"""What the estimators share of model files: ``save``, and how a file becomes a model again."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Any, Self

import numpy as np

from onkel import learner as learners
from onkel.estimators.configured import N_JOBS, Configured, threads_of
from onkel.estimators.locks import locked
from onkel.expansions import Expansion
from onkel.kernels import Kernel
from onkel.learner import OF_THE_MACHINE, Learner, Settings, Start
from onkel.losses import Loss
from onkel.rules import Rule
from onkel.saved import Saved


def as_dict(settings: Settings) -> dict[str, Any]:
    """Return settings by name, less those of the machine that reads; `relevance` if it is on."""
    names = [f.name for f in fields(settings) if f.name not in OF_THE_MACHINE]
    found = {name: getattr(settings, name) for name in names}
    return found if settings.relevance else {n: v for n, v in found.items() if n != "relevance"}


_KINDS = {"kernel": Kernel, "loss": Loss, "rule": Rule, "expansion": Expansion}


class Saving(Configured):
    """A model that can be written to a file; read it with :func:`onkel.load`."""

    _learner: Learner

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file, all of it or (should that fail) nothing.

        ``onkel.load(path)`` gives it back, and it goes on learning with the very same bits.

        Parameters
        ----------
        path : str or path
            A file that is there already is replaced, in one instant.
        """
        from onkel import files

        files.save(self, path)

    @locked
    def dump(self) -> tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any]]:
        """Return what a file must hold: parameters, settings and state.

        Settings are None, and the state is empty, before anything is learned. While another
        thread learns, this is the model before or after one of its calls. Parameters that learning
        would refuse are refused here too, since no file with such is loaded.
        """
        self.check_params()
        settings = self._dump_settings()
        state = {} if settings is None else self._dump()
        return self.get_params(deep=False), settings, state

    @classmethod
    def restored(
        cls, parameters: dict[str, Any], settings: dict[str, Any] | None, saved: Saved
    ) -> Self:
        """Return the model that a file holds."""
        model = cls(**parameters)
        model._come_here()
        model.check_params()
        if settings is not None:
            model._resume(settings, saved)
        return model

    def _come_here(self) -> None:
        """Take another device, with a warning, where the one of a saved model is not here."""

    def _dump_settings(self) -> dict[str, Any] | None:
        """Return what the learner was made of, which parameters set later do not change."""
        if not hasattr(self, "_learner"):
            return None
        settings = self._learner.settings
        return {**as_dict(settings), "rule": settings.rule.settled(self._learner.rule)}

    def _dump(self) -> dict[str, Any]:
        """Return what a file must hold beside parameters and settings."""
        names = getattr(self, "feature_names_in_", None)
        known = {} if names is None else {"feature_names": [str(name) for name in names]}
        return {"learner": self._dump_learner(), **known}

    def _dump_learner(self) -> dict[str, Any]:
        return learners.dump(self._learner)

    def _resume(self, settings: dict[str, Any], saved: Saved) -> None:
        """Become the fitted model that a file holds."""
        learner = self._resumed_learner(settings, saved.inside("learner"))
        if saved.peek("feature_names") is not None:
            names = saved.items("feature_names", str)
            strings = learner.kernel.domain == "strings"
            if strings or len(names) != self._columns_of(learner):
                raise saved.refuse("feature_names", "must be one per feature")
            self.feature_names_in_ = np.array(names, dtype=object)
        self._learner = learner

    def _columns_of(self, learner: Learner) -> int:
        """Return how many columns a row has that comes."""
        return len(learner.moments.mean)

    @staticmethod
    def _starter(settings: Settings) -> Start:
        """Return what makes a learner that has seen nothing, on the settings' device."""
        if settings.device == "cpu":
            return learners.start
        from onkel.gpu.learner import GpuLearner

        return GpuLearner

    def _resumed_learner(self, settings: dict[str, Any], saved: Saved) -> Learner:
        made = self._resumed_settings(settings)
        learner = learners.resumed(made, saved, self._starter(made))
        if learner.loss.task != self.task:
            raise ValueError(f"the learner is for {learner.loss.task}, not for {self.task}.")
        return learner

    def _resumed_settings(self, found: dict[str, Any]) -> Settings:
        """Return checked settings; more threads than processors would be of no use."""
        found = {"relevance": False, **found}
        flags = ("scale", "intercept", "average", "relevance")
        wrong = [n for n, kind in _KINDS.items() if not isinstance(found.get(n), kind)]
        wrong += [n for n in flags if type(found.get(n)) is not bool]
        wrong += ["missing"] * (found.get("missing") not in ("error", "mean"))
        wrong += sorted(set(found) - {*_KINDS, *flags, "missing"})
        if not wrong and found["intercept"] and not self._offset_fits(found["rule"]):
            wrong = ["intercept"]
        if wrong:
            raise ValueError(f"settings.{wrong[0]} is not what a {self.task} learner is made of.")
        threads = threads_of(self.n_jobs) if N_JOBS.fits(self.n_jobs) else 1
        return Settings(**found, threads=min(threads, os.cpu_count() or 1))

    def _offset_fits(self, rule: Rule) -> bool:
        return rule.offers_offset and self.task != "novelty"
