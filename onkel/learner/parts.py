"""The learners of a mixture: members that can share points do, the others stand alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onkel.core.frame import Apart, effective
from onkel.learner.bank import Bank
from onkel.learner.base import Learner
from onkel.learner.resume import Open, opened, resumed_group, shape_of
from onkel.learner.settings import Settings
from onkel.saved import Saved

Part = tuple[Learner, list[int]]


def grouped(members: Sequence[Settings], features: float) -> list[list[int]]:
    """Return the members' numbers, those together that share points.

    Members that can share points do; the largest such group is the last.
    """
    groups: dict[Any, list[int]] = {}
    for i, settings in enumerate(members):
        key = Bank.key(settings, features)
        groups.setdefault(("alone", i) if key is None else key, []).append(i)
    found = []
    for held in sorted(groups.values(), key=len):
        order = [0] if len(held) == 1 else Bank.in_order([members[i] for i in held], features)
        found.append([held[i] for i in order])
    return sorted(found, key=lambda held: not members[held[0]].expansion.primal)


def start_parts(
    members: Sequence[Settings], features: int, columns: int, dtype: Any, opening: Open = opened,
    apart: Apart = (),
) -> list[Part]:  # fmt: skip
    """Return learners for the members, with the numbers of the members that each holds."""
    return [
        (opening([members[i] for i in held], features, columns, dtype, apart), held)
        for held in grouped(members, effective(features, apart))
    ]


def resumed_parts(members: Sequence[Settings], saved: Saved, opening: Open = opened) -> list[Part]:
    """Return the learners that a file holds, of members that are grouped as they always are."""
    first = saved.inside("0")
    parts: list[Part] = []
    for i, held in enumerate(grouped(members, effective(*shape_of(members[0], first)))):
        inside = first if i == 0 else saved.inside(str(i))
        if inside.items("held", int) != held:
            raise inside.refuse("held", f"must be {held}: the members that share points")
        parts.append((resumed_group([members[i] for i in held], inside, opening), held))
    if len({(p.t, p.columns // len(h), p.dtype, len(p.known), p.apart) for p, h in parts}) > 1:
        raise saved.refuse("0", "and the other parts must have learned the same rows")
    if len({p.clock for p, _ in parts if p.clock is not None}) > 1:
        raise saved.refuse("0", "and the other parts must have learned at the same time")
    saved.finish()
    return parts
