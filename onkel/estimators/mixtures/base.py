"""What the self-tuning estimators share: members instead of one setting, and their weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from onkel import inputs
from onkel.clock import is_duration
from onkel.estimators.base import Estimator
from onkel.estimators.configured import N_JOBS, threads_of
from onkel.estimators.locks import locked
from onkel.estimators.mixtures.placing import Placed
from onkel.estimators.mixtures.reporting import report
from onkel.estimators.saving import as_dict
from onkel.gpu.opening import opened
from onkel.learner import OF_THE_MACHINE, Mixture, Settings, resumed_mixture, start_parts
from onkel.params import Accept
from onkel.saved import Saved

Array = NDArray[Any]

ACCEPTS = {
    "rate": Accept(low=0, low_open=True, high_open=True, none=True,
                   hint="None is the class's default."),
    "share": Accept(low=0, high=1, high_open=True, hint="0 follows the best fixed member."),
    "n_jobs": N_JOBS,
}  # fmt: skip


class Mixed(Placed):
    """A bank of settings side by side, mixed so that the best of them need not be known.

    ``w_i <- (1 - share) w_i exp(-rate l_i) / (sum of the same) + share / members``
    """

    passes = 1
    members: Any
    share: float
    rate: float | None
    _kind: ClassVar[type[Mixture]]
    """How members are judged, and their answers blended."""
    _default_rate: ClassVar[float]
    """What ``rate=None`` means; experiments/self_tuning.py has the study."""
    _learner: Any

    # -- members -------------------------------------------------------------------------------

    def _default_members(self, features: int) -> Sequence[Estimator]:
        raise NotImplementedError

    def _chosen(self, features: int) -> list[Any]:
        """Return the members for rows of so many features: the user's, or the default bank."""
        if self.members is None:
            return list(self._default_members(max(features, 1)))
        found = list(self.members) if isinstance(self.members, (list, tuple)) else []
        if not found:
            raise ValueError(
                f"{type(self).__name__}: members must be a list of at least one estimator of "
                f"onkel, or None for the default bank; got {self.members!r}."
            )
        return found

    def _takes(self) -> tuple[bool, bool]:
        """What the user's first member takes, all take."""
        found = self.members if isinstance(self.members, (list, tuple)) else ()
        first = found[0] if found else None
        return first._takes() if isinstance(first, Estimator) else (False, False)

    def _settings(self) -> Settings:
        """Check every parameter; return the first member's settings: what it takes, all take."""
        for name, accept in ACCEPTS.items():
            accept.check(type(self).__name__, name, getattr(self, name))
        members = self._chosen(1)
        for i, member in enumerate(members):
            self._check_member(f"members[{i}]", member)
        bank = [member._settings() for member in members]
        self._check_alike(bank)
        return self._placed(bank, self.device)[0]

    def settings(self) -> NoReturn:
        """There is no one setting."""
        raise ValueError(
            f"{type(self).__name__} mixes several settings; what needs one takes a model of one, "
            "such as those of its members_."
        )

    def _check_member(self, where: str, member: Any) -> None:
        owner = type(self).__name__
        if not isinstance(member, Estimator) or isinstance(member, Mixed):
            raise ValueError(
                f"{owner}: {where} must be an estimator of onkel with one setting, such as "
                f"{self._default_members(1)[0]!r}; got {member!r}."
            )
        if member.task != self.task:
            raise ValueError(
                f"{owner}: {where} is for {member.task}, and {owner} is for {self.task}; got "
                f"{member!r}. Members must be for the mixture's own task."
            )
        if is_duration(getattr(member.rule, "memory", None)):
            raise ValueError(
                f"{owner}: {where} forgets by the clock (memory={member.rule.memory!r}); a "
                "mixture counts examples. Give its memory in examples."
            )
        device = getattr(member, "device", "cpu")
        if device != "cpu":
            raise ValueError(
                f"{owner}: {where} has device={device!r}; members that share points live together. "
                f"Leave it out, and give {owner}(device={device!r})."
            )

    def _check_alike(self, bank: list[Settings]) -> None:
        """Refuse settings that cannot take the same rows."""
        owner = type(self).__name__
        if len({settings.missing for settings in bank}) > 1:
            raise ValueError(f"{owner}: members must all have the same missing=.")
        if len({settings.kernel.domain for settings in bank}) > 1:
            raise ValueError(f"{owner}: members must all take numbers, or all take strings.")

    def _begin(self, X: Any, settings: Settings, rows: Any, columns: int) -> Any:
        features = 0 if isinstance(rows, list) else rows.shape[1]
        dtype = np.float64 if isinstance(rows, list) else inputs.choose_dtype(X)
        chosen, threads = self._chosen(features), threads_of(self.n_jobs)
        bank: list[Settings] = [replace(m._settings(), threads=threads) for m in chosen]
        bank = self._placed(bank, self.device)
        rate = self._default_rate if self.rate is None else float(self.rate)
        parts = start_parts(bank, features, columns, dtype, opened)
        learner = self._kind(bank, parts, rate, float(self.share))
        learner.names = chosen
        return learner

    def _times(self, time: Any, rows: int, learner: Any) -> None:
        if time is not None:
            raise ValueError(
                f"{type(self).__name__}: time= was given, but a mixture counts examples. Leave it "
                "out."
            )

    # -- files ---------------------------------------------------------------------------------

    def _dump_settings(self) -> dict[str, Any] | None:
        """Return what the mixture was made of; each of a member's settings as a list over them."""
        if not hasattr(self, "_learner"):
            return None
        mixture = self._learner
        each = [as_dict(settings) for settings in mixture.settled()]
        found = {name: [settings[name] for settings in each] for name in each[0]}
        return {"rate": mixture.rate, "share": mixture.share, "members": mixture.names, **found}

    def _dump_learner(self) -> dict[str, Any]:
        found: dict[str, Any] = self._learner.dump()
        return found

    def _resumed_learner(self, settings: dict[str, Any], saved: Saved) -> Any:
        held = Saved(settings, "settings.")
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
        bank = self._placed_here(bank, names)
        learner = resumed_mixture(self._kind, bank, rate, share, saved, opened)
        learner.names = names
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
        self._check_alike(bank)
        by_clock = any(is_duration(getattr(s.rule, "memory", None)) for s in bank)
        if by_clock or any(s.loss.task != self.task for s in bank):
            raise ValueError(f"settings are not those of members for {self.task}.")

    # -- reporting -----------------------------------------------------------------------------

    @property
    @locked
    def weights_(self) -> Array:
        """The weight of each member now."""
        found: Array = self._mixture().weights.copy()
        return found

    @property
    def members_(self) -> list[Estimator]:
        """The settings side by side, in the order of the weights; none of them has learned."""
        return list(self._mixture().names)

    def _mixture(self) -> Any:
        return self._fitted()

    @property
    @locked
    def diagnostics_(self) -> dict[str, Any]:
        """What happened to the members, beside what was promised: see the guide for each key."""
        return report(self._mixture())

    @property
    def explain(self) -> Any:
        """A mixture has none, and ``hasattr`` says so."""
        raise AttributeError(
            f"{type(self).__name__} blends the answers of several settings, which explain cannot "
            "take apart. Let one of its members_ learn alone, and ask that one."
        )
