"""What the self-tuning estimators share: members instead of one setting, and their weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import NDArray

from onkel import inputs, rules
from onkel.clock import check_order, times_of
from onkel.columns import Plan
from onkel.core.frame import effective
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
    "share": Accept(low=0, high=1, high_open=True, hint="0 follows the best fixed member."),
    "memory": rules.Norma.accepts("memory"),
    "n_jobs": N_JOBS,
}  # fmt: skip


class Mixed(Placed):
    """A bank of settings side by side, mixed so that the best of them need not be known.

    Each task has its own loss, and its own way to mix the members' answers.
    """

    passes = 1
    members: Any
    share: float
    memory: Any
    relevance: bool
    _kind: ClassVar[type[Mixture]]
    """How members are judged, and their answers blended."""
    _learner: Any

    # -- members -------------------------------------------------------------------------------

    def _default_members(self, features: float) -> Sequence[Estimator]:
        raise NotImplementedError

    def _chosen(self, features: float) -> list[Any]:
        """Return the members for rows of so many features: the user's, or the default bank."""
        return [self._remembering(f"members[{i}]", m) for i, m in enumerate(self._given(features))]

    def _given(self, features: float) -> list[Any]:
        if self.members is None:
            bank = self._default_members(max(features, 1))
            return [member.set_params(missing=self.missing) for member in bank]
        found = list(self.members) if isinstance(self.members, (list, tuple)) else []
        if not found:
            raise ValueError(
                f"{type(self).__name__}: members must be a list of at least one estimator of "
                f"onkel, or None for the default bank; got {self.members!r}."
            )
        return found

    def _remembering(self, where: str, member: Any) -> Any:
        """Return a member with the mixture's memory, where there is one and its rule has one."""
        if self.memory is None or not isinstance(member, Estimator) or isinstance(member, Mixed):
            return member
        rule = member.part("rule")
        if not hasattr(rule, "memory"):
            return member
        try:
            rule = rule.with_params(memory=self.memory)
        except ValueError as error:
            raise ValueError(
                f"{type(self).__name__}: memory={self.memory!r} cannot be set for {where}: {error}"
            ) from None
        return type(member)(**{**member.get_params(deep=False), "rule": rule})

    def _takes(self) -> tuple[bool, bool]:
        """What the user's first member takes, all take."""
        found = self.members if isinstance(self.members, (list, tuple)) else ()
        first = found[0] if found else None
        gaps = self.members is None and self.missing == "mean"
        return first._takes() if isinstance(first, Estimator) else (False, gaps)

    def _settings(self) -> Settings:
        """Check every parameter; return the first member's settings: what it takes, all take."""
        for name, accept in ACCEPTS.items():
            accept.check(type(self).__name__, name, getattr(self, name))
        self._checked_missing()
        if not isinstance(self.relevance, (bool, np.bool_)):
            raise ValueError(
                f"{type(self).__name__}: relevance must be True or False; got {self.relevance!r}."
            )
        members = self._chosen(1)
        for i, member in enumerate(members):
            self._check_member(f"members[{i}]", member)
        bank = [member._settings() for member in members]
        self._check_alike(bank)
        if self.missing == "mean" and bank[0].missing != "mean":
            raise ValueError(
                f"{type(self).__name__}: missing='mean' was given, but the members have "
                f"missing={bank[0].missing!r}. With members= it is said there: "
                f"{type(members[0]).__name__}(missing='mean')."
            )
        return self._placed(bank, self.device)[0]

    def _all_settings(self) -> list[Settings]:
        self._settings()
        return [member._settings() for member in self._chosen(1)]

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
        if member.columns is not None:
            raise ValueError(
                f"{owner}: {where} has columns={member.columns!r}; all members see the same rows. "
                f"Leave it out, and give {owner}(columns=...)."
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
        apart = self._apart(X)
        chosen = self._chosen(effective(features, apart))
        bank = [self._for_tables(X, settings) for settings in self._bank(chosen)]
        bank = self._placed(bank, self.device)
        parts = start_parts(bank, features, columns, dtype, opened, apart)
        learner = self._kind(bank, parts, **self._numbers())
        learner.names = chosen
        return learner

    def _bank(self, chosen: Sequence[Any]) -> list[Settings]:
        """Return the members' settings, with what the mixture says of all of them."""
        threads, learned = threads_of(self.n_jobs), self.members is None and bool(self.relevance)
        return [replace(m._settings(), threads=threads, relevance=learned) for m in chosen]

    def _wider(self, values: Array) -> Any:
        """Return the mixture for more features; the default bank's widths follow their number."""
        mixture = self._mixture()
        if self.members is not None:
            return mixture.widened(values)
        width = len(mixture.moments.mean) + len(values)
        chosen = self._chosen(effective(width, mixture.apart))
        made = {name: getattr(mixture.members[0], name) for name in ("missing", "relevance")}
        bank = [replace(settings, **made) for settings in self._bank(chosen)]
        other = mixture.widened(values, bank)
        other.names = chosen
        return other

    def _numbers(self) -> dict[str, float]:
        """Return what the mixture is made with, beside its members."""
        return {"share": float(self.share)}

    def forgets_by_clock(self) -> bool:
        """Whether a member's memory is a duration, so that learning must be told the times."""
        return any(isinstance(m, Estimator) and m.forgets_by_clock() for m in self._chosen(1))

    def _times(self, time: Any, rows: int, learner: Any) -> Array | None:
        """Return the rows' times in seconds, where a member forgets by the clock."""
        owner, by_clock = type(self).__name__, learner.durations()
        if time is None and by_clock:
            raise ValueError(
                f"{owner}: memory={by_clock[0]!r} goes by the clock: give time=, one per row."
            )
        if time is None:
            return None
        if not by_clock:
            raise ValueError(
                f"{owner}: time= was given, but its members forget by examples. Give the memory "
                f"as a duration, such as {owner}(memory='12h'), or leave time out."
            )
        times = times_of(time, rows)
        check_order(times, learner.clock)
        return times

    # -- files ---------------------------------------------------------------------------------

    def _dump_settings(self) -> dict[str, Any] | None:
        """Return what the mixture was made of; each of a member's settings as a list over them."""
        if not hasattr(self, "_learner"):
            return None
        mixture = self._learner
        each = [as_dict(settings) for settings in mixture.settled()]
        found = {name: [settings[name] for settings in each] for name in each[0]}
        return {**mixture.numbers(), "members": mixture.names, **found}

    def _dump_learner(self) -> dict[str, Any]:
        found: dict[str, Any] = self._learner.dump()
        return found

    def _resumed_learner(self, settings: dict[str, Any], saved: Saved) -> Any:
        held = Saved(settings, "settings.")
        names, bank = held.items("members"), self._resumed_bank(held)
        if not all(isinstance(m, Estimator) and m.task == self.task for m in names):
            raise held.refuse("members", f"must be estimators for {self.task}")
        for i, member in enumerate(names):
            self._check_member(f"settings.members[{i}]", member)
            member.check_params()
        if not bank or len(names) != len(bank):
            raise held.refuse("members", f"must be as many as there are settings, {len(bank)}")
        numbers = self._resumed_numbers(held)
        held.finish()
        self._check_resumed(bank)
        bank = self._placed_here(bank, names)
        learner = resumed_mixture(self._kind, bank, numbers, saved, opened)
        learner.names = names
        return learner

    def _resumed_numbers(self, held: Saved) -> dict[str, float]:
        share = held.number("share", low=0.0)
        if share >= 1:
            raise held.refuse("share", f"must be below 1; got {share}")
        return {"share": share}

    def _resumed_bank(self, held: Saved) -> list[Settings]:
        """Return the settings of each member, from one list for each name."""
        names = [f.name for f in fields(Settings) if f.name not in OF_THE_MACHINE]
        if held.peek("relevance") is None:
            names.remove("relevance")
        lists = {name: held.items(name) for name in names}
        for name, values in lists.items():
            if len(values) != len(lists["kernel"]):
                raise held.refuse(name, "must have one value for each member")
        each = zip(*lists.values(), strict=True)
        return [self._resumed_settings(dict(zip(lists, one, strict=True))) for one in each]

    def _check_resumed(self, bank: list[Settings]) -> None:
        """Refuse settings that no mixture can have been made of."""
        self._check_alike(bank)
        if any(s.loss.task != self.task for s in bank):
            raise ValueError(f"settings are not those of members for {self.task}.")

    # -- reporting -----------------------------------------------------------------------------

    @property
    @locked
    def weights_(self) -> Array:
        """What each member counts for now; the numbers add up to 1."""
        found: Array = self._mixture().influence.copy()
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
        named = self._relevance_by_name()
        return {**report(self._mixture()), "relevance": named or None}

    @property
    @locked
    def relevance_(self) -> Array:
        """How much each column counts, in the order of ``feature_names_in_``; 1 in the mean.

        What members with terms multiply a column's differences by, the mean over them: 1 for all
        where that is not learned. A column of a table that became several features counts as the
        one of them that counts most, and one that is ignored not at all.
        """
        mixture = self._mixture()
        learned, alike = mixture.relevance, np.ones(len(mixture.moments.mean))
        found = alike if learned is None else learned
        return found if self._tally is None else _of_columns(self._tally.plan, found)

    def _relevance_by_name(self) -> dict[str, float]:
        """Return what each column counts for, where that is learned."""
        if self._mixture().relevance is None:
            return {}
        found = self.relevance_.tolist()
        names = getattr(self, "feature_names_in_", [f"feature {j}" for j in range(len(found))])
        return dict(zip(map(str, names), found, strict=True))

    def _details(
        self, x: Any, row: Any, mix: Array, top: int, lowest_first: bool
    ) -> dict[str, Any]:
        found, named = super()._details(x, row, mix, top, lowest_first), self._relevance_by_name()
        features = [replace(f, relevance=named.get(f.name)) for f in found["features"]]
        return {**found, "features": tuple(features)}


def _of_columns(plan: Plan, widths: Array) -> Array:
    """Return what each column of a table counts for, from what was made of it; 1 in the mean."""
    most: dict[str, float] = {}
    for name, width in zip(plan.owners, widths.tolist(), strict=True):
        most[name] = max(most.get(name, 0.0), width)
    found = np.array([most.get(name, 0.0) for name in plan.names])
    return found / max(found[found > 0].mean(), 1e-300) if found.any() else found
