"""The three faces of Hedged: members and a mixture behind a classifier, a regressor, a detector."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from onkel import bounds, inputs, losses
from onkel.clock import is_duration
from onkel.estimators.banks import default_bank
from onkel.estimators.base import Estimator
from onkel.estimators.classifier import Classifier
from onkel.estimators.configured import threads_of
from onkel.estimators.detector import NoveltyDetector
from onkel.estimators.guard import guarded
from onkel.estimators.regressor import Regressor
from onkel.estimators.saving import as_dict
from onkel.kernels import Gaussian
from onkel.learner import KINDS, OF_THE_MACHINE, Mixture, Settings, resumed_mixture, start_parts
from onkel.params import Accept
from onkel.saved import Saved

Array = NDArray[Any]

RATES = {"classification": 0.25, "regression": 16.0, "novelty": 16.0}
"""Default rates of the weights; experiments/self_tuning.py has the study."""
_ACCEPTS = {
    "rate": Accept(low=0, low_open=True, high_open=True, none=True,
                   hint="None is the default of the task."),
    "share": Accept(low=0, high=1, high_open=True, hint="0 follows the best fixed member."),
    "nu": Accept(low=0, low_open=True, high=1, high_open=True),
    "n_jobs": Accept(low=-1, high_open=True, whole=True, none=True, hint="-1 uses every core."),
}  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What a face needs to know before its first row."""

    kernel: Any
    members: list[Any] | None
    missing: str = "error"
    device: str = "cpu"


def _check_alike(task: str, bank: list[Settings]) -> None:
    """Refuse settings that cannot take the same rows."""
    if len({settings.missing for settings in bank}) > 1:
        raise ValueError("Hedged: members must all have the same missing=.")
    domains = {settings.kernel.domain for settings in bank}
    if len(domains) > 1:
        raise ValueError("Hedged: members must all take numbers, or all take strings.")
    if task == "novelty" and domains == {"strings"}:
        raise ValueError(
            "Hedged: novelty is judged on rows made up from numbers, which strings have not. "
            "Use NoveltyDetector."
        )


class _Face(Estimator):
    """What the three faces of :class:`Hedged` share: members instead of one setting."""

    passes = 1
    average = False
    class_weight = None
    device = "cpu"
    precision = "tf32x3"
    _learner: Any

    def __init__(
        self, task: str, members: Any, share: float, rate: float | None, nu: float,
        n_jobs: int | None,
    ) -> None:  # fmt: skip
        self.task_wanted = task
        self.members, self.share, self.rate = members, share, rate
        self.nu, self.n_jobs = nu, n_jobs

    @property
    def kernel(self) -> Any:
        """The first member's: what it takes, all take."""
        first = self.members[0] if isinstance(self.members, (list, tuple)) and self.members else 0
        return getattr(first, "kernel", "gaussian")

    @property
    def missing(self) -> str:  # type: ignore[override]
        """The first member's."""
        first = self.members[0] if isinstance(self.members, (list, tuple)) and self.members else 0
        return str(getattr(first, "missing", "error"))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters of the Hedged that this is a face of."""
        names = ("members", "share", "rate", "nu", "n_jobs")
        return {"task": self.task_wanted, **{n: getattr(self, n) for n in names}}

    def _settings(self) -> Any:
        for name, accept in _ACCEPTS.items():
            accept.check("Hedged", name, getattr(self, name))
        if self.members is None:
            return Plan(Gaussian(), None)
        found = list(self.members) if isinstance(self.members, (list, tuple)) else []
        if not found:
            raise ValueError(
                "Hedged: members must be a list of at least one estimator of onkel, or None for "
                f"the default bank; got {self.members!r}."
            )
        for i, member in enumerate(found):
            self._check_member(i, member)
        bank = [member._settings() for member in found]
        _check_alike(self.task, bank)
        return Plan(bank[0].kernel, found, bank[0].missing)

    def _check_member(self, i: int, member: Any) -> None:
        if not isinstance(member, Estimator) or isinstance(member, _Face):
            raise ValueError(
                f"Hedged: members[{i}] must be an estimator of onkel, such as KernelClassifier(); "
                f"got {member!r}."
            )
        if member.task != self.task:
            raise ValueError(
                f"Hedged: members[{i}] is for {member.task}, but task={self.task!r}: {member!r}. "
                "Give task= the members' task."
            )
        if getattr(member, "class_weight", None) is not None:
            raise ValueError(
                f"Hedged: members[{i}] has a class_weight; a mixture has none. Pass sample_weight= "
                "when learning."
            )
        if is_duration(getattr(member.rule, "memory", None)):
            raise ValueError(
                f"Hedged: members[{i}] forgets by the clock (memory={member.rule.memory!r}); a "
                "mixture counts examples. Give its memory in examples."
            )
        if getattr(member, "device", "cpu") != "cpu":
            raise ValueError(
                f"Hedged: members[{i}] has device={member.device!r}; a mixture lives on the CPU. "  # type: ignore[attr-defined]
                "Leave it out."
            )
        if getattr(member, "warmup", 0):
            raise ValueError(f"Hedged: members[{i}] has a warmup; a mixture shows alerts at once.")
        if self.task == "novelty" and member.nu != self.nu:  # type: ignore[attr-defined]
            raise ValueError(
                f"Hedged: members[{i}] promises nu={member.nu!r}, the mixture nu={self.nu!r}: they "  # type: ignore[attr-defined]
                "must agree. Give nu= to both."
            )

    def _begin(self, X: Any, settings: Any, rows: Any, columns: int) -> Any:
        features = 0 if isinstance(rows, list) else rows.shape[1]
        dtype = np.float64 if isinstance(rows, list) else inputs.choose_dtype(X)
        chosen = settings.members
        if chosen is None:
            chosen = default_bank(self.task, features, self.nu)
        threads = threads_of(self.n_jobs)
        bank: list[Settings] = [replace(m._settings(), threads=threads) for m in chosen]
        rate = RATES[self.task] if self.rate is None else float(self.rate)
        parts = start_parts(bank, features, columns, dtype)
        learner = KINDS[self.task](bank, parts, rate, float(self.share))
        learner.names = chosen
        return learner

    # -- files ---------------------------------------------------------------------------------

    def _dump_settings(self) -> dict[str, Any] | None:
        """Return what the mixture was made of; each of a member's settings as a list over them."""
        if not hasattr(self, "_learner"):
            return None
        mixture = self._learner
        each = [as_dict(settings) for settings in mixture.settled()]
        found = {name: [settings[name] for settings in each] for name in each[0]}
        numbers = {"task": self.task, "rate": mixture.rate, "share": mixture.share}
        return {**numbers, "members": mixture.names, **found}

    def _dump_learner(self) -> dict[str, Any]:
        found: dict[str, Any] = self._learner.dump()
        return found

    def _resumed_learner(self, settings: dict[str, Any], saved: Saved) -> Any:
        held = Saved(settings, "settings.")
        held.word("task", [self.task])
        rate, share = held.number("rate", low=0.0), held.number("share", low=0.0)
        if not (rate > 0 and share < 1):
            raise held.refuse("rate", f"must be above 0 and the share below 1; got {rate}, {share}")
        names, bank = held.items("members"), self._resumed_bank(held)
        held.finish()
        if not all(isinstance(m, Estimator) and m.task == self.task for m in names):
            raise held.refuse("members", f"must be estimators for {self.task}")
        if not bank or len(names) != len(bank):
            raise held.refuse("members", f"must be as many as there are settings, {len(bank)}")
        self._check_resumed(bank)
        learner = resumed_mixture(self.task, bank, rate, share, saved)
        learner.names = self.members = names
        return learner

    def _resumed_bank(self, held: Saved) -> list[Settings]:
        """Return the settings of each member, from one list for each name."""
        lists = {
            f.name: held.items(f.name) for f in fields(Settings) if f.name not in OF_THE_MACHINE
        }
        for name, values in lists.items():
            if len(values) != len(lists["kernel"]):
                raise held.refuse(name, "must have one value for each member")
        each = zip(*lists.values(), strict=True)
        return [self._resumed_settings(dict(zip(lists, one, strict=True))) for one in each]

    def _check_resumed(self, bank: list[Settings]) -> None:
        """Refuse settings that no mixture can have been made of."""
        _check_alike(self.task, bank)
        by_clock = any(is_duration(getattr(s.rule, "memory", None)) for s in bank)
        if by_clock or any(s.loss.task != self.task for s in bank):
            raise ValueError(f"settings are not those of members for {self.task}.")
        if self.task == "novelty" and len({s.loss.nu for s in bank}) > 1:
            raise ValueError("settings.loss must have one nu for all members.")

    @property
    @guarded
    def diagnostics_(self) -> dict[str, Any]:
        return report(self._fitted(), self.task)  # type: ignore[arg-type]


class _Classifier(_Face, Classifier):
    def _check_proba(self) -> None:
        found = self._learner.members if hasattr(self, "_learner") else self._member_settings()
        if not all(isinstance(m.loss, losses.Logistic) for m in found):
            raise AttributeError(
                "predict_proba needs members that all have loss='logistic'; the scores of others "
                "are no probabilities."
            )

    def _member_settings(self) -> list[Settings]:
        plan = self._settings()
        chosen = default_bank(self.task, 1, self.nu) if plan.members is None else plan.members
        return [m._settings() for m in chosen]

    @staticmethod
    def _probabilities(classes: Any, scores: Array) -> Array:
        """Votes are twice a probability, less 1."""
        scores = 2.0 * np.arctanh(np.clip(scores, -1.0 + 1e-15, 1.0 - 1e-15))
        return Classifier._probabilities(classes, scores)


class _Regressor(_Face, Regressor):
    outputs: ClassVar[tuple[str, ...]] = ("prediction",)

    def _check_interval(self) -> None:
        raise ValueError("Hedged gives no intervals; use KernelRegressor with a loss that has nu.")


class _Detector(_Face, NoveltyDetector):
    warmup = 0
    recent = 1000


FACES: dict[str, type[_Face]] = {
    "classification": _Classifier, "regression": _Regressor, "novelty": _Detector,
}  # fmt: skip
for _face in FACES.values():
    _face.__name__ = "Hedged"  # as messages are to call it


def report(mixture: Mixture, task: str) -> dict[str, Any]:
    """Return what happened to a mixture, beside what was promised."""
    best = float(mixture.losses.min())
    found: dict[str, Any] = {
        "t": mixture.t,
        "terms": mixture.size,
        "bytes": mixture.nbytes,
        "mistakes": mixture.mistakes if task == "classification" else None,
        "members": [repr(m) for m in mixture.names],
        "weights": mixture.weights.tolist(),
        "losses": mixture.losses.tolist(),
        "loss": mixture.loss_total,
        "trials": mixture.judged,
        "regret": mixture.loss_total - best,
        "regret_bound": _regret_bound(mixture, None),
        "regret_promise": _regret_bound(mixture, best),
        "rate": mixture.rate,
        "share": mixture.share,
    }
    if task == "novelty":
        weight = max(mixture.weight, 1e-300)  # type: ignore[attr-defined]
        found |= {
            "threshold": mixture.theta,  # type: ignore[attr-defined]
            "rate_promised": mixture.nu,  # type: ignore[attr-defined]
            "rate_realised": mixture.alerts / weight,  # type: ignore[attr-defined]
            "rate_error_term": -mixture.theta / (mixture.STEP * weight),  # type: ignore[attr-defined]
        }
    return found


def _regret_bound(mixture: Mixture, best: float | None) -> float:
    """Return the bound against the best fixed member: as measured, or (`best`) as promised."""
    count, trials = len(mixture.members), mixture.judged
    if count < 2 or not trials:
        return 0.0
    measured = mixture.gap_total if best is None else None
    return bounds.fixed_share(
        members=count, trials=trials, rate=mixture.rate, share=mixture.share, best_loss=best,
        mix_gap=None if measured is None else max(measured, 0.0),
    ).bound  # fmt: skip
