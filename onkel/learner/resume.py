"""A learner to and from a file: everything that it needs to go on as if nothing had happened."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.core.frame import Apart, Frame
from onkel.core.layout import Field
from onkel.core.numpy_core import is_sound
from onkel.learner.bank import Bank
from onkel.learner.base import Learner
from onkel.learner.primal_learner import PrimalLearner
from onkel.learner.refusals import checked_apart
from onkel.learner.second_order import SecondOrderLearner
from onkel.learner.settings import Settings
from onkel.learner.term_learner import TermLearner
from onkel.saved import Saved

Array = NDArray[Any]

AT_LEAST_0 = (Field.NORM2, Field.TRIALS, Field.WEIGHT, Field.OUTSIDE, Field.ALERTS, Field.UPDATES)


Start = Callable[[Settings, int, int, Any, Apart], Learner]
Open = Callable[[Sequence[Settings], int, int, Any, Apart], Learner]
"""What makes a learner for one setting, or for several that share points."""


def start(
    settings: Settings, features: int, columns: int, dtype: Any, apart: Apart = ()
) -> Learner:
    """Return a learner that has seen nothing, of the kind that the expansion asks for."""
    kind: type[Learner] = PrimalLearner if settings.expansion.primal else TermLearner
    if settings.rule.second_order:
        if not settings.expansion.primal:
            raise ValueError(
                f"{settings.rule!r} learns weights over features, and {settings.expansion!r} holds "
                "terms. Give expansion=expansions.Centers(300, linear=True), or use a linear model."
            )
        kind = SecondOrderLearner
    return kind(settings, features, columns, dtype, apart)


def opened(
    group: Sequence[Settings], features: int, columns: int, dtype: Any, apart: Apart = ()
) -> Learner:
    """Return a learner that has seen nothing, for one setting or for several that share points."""
    if len(group) == 1:
        return start(group[0], features, columns, dtype, apart)
    return Bank(group, features, columns, dtype, apart)


def dump(learner: Learner) -> dict[str, Any]:
    """Return what a file must hold of a learner, beside its settings; nothing is shared with it."""
    return {
        "dtype": learner.dtype.name,
        **({"apart": list(learner.apart)} if learner.apart else {}),
        "t": learner.t,
        "mistakes": learner.mistakes,
        "merged": learner.merged,
        "clock": learner.clock,
        "refreshed": learner.refreshed,
        "state": learner.state.copy(),
        "known": learner.known.copy(),
        "means": learner.means.copy(),
        **({} if learner.relevance is None else {"relevance": learner.relevance.part.copy()}),
        "moments": learner.moments.dump(),
        **({"targets": learner.targets.dump()} if learner.targets.active else {}),
        **({} if learner.on_strings else {"frame": learner.frame.dump()}),
        **learner.dump_f(),
    }


def resumed(settings: Settings, saved: Saved, begin: Start = start) -> Learner:
    """Return the learner that a file holds; `begin` makes an empty one."""
    return resumed_group([settings], saved, lambda group, *shape: begin(group[0], *shape))


def resumed_group(group: Sequence[Settings], saved: Saved, opening: Open = opened) -> Learner:
    """Return the learner that a file holds of one setting, or of several that share points.

    `opening` makes an empty one.
    """
    features, apart = shape_of(group[0], saved)
    group[0].expansion.foresee(saved)  # what opening would cost
    dtype = saved.word("dtype", ("float32", "float64"))
    if apart:
        saved.value("apart")
    learner = opening(group, features, 0, dtype, apart)
    learner.t = saved.whole("t")
    learner.mistakes = saved.whole("mistakes", high=learner.t)
    if saved.flag("merged"):
        learner.merged = True
    learner.state = _state(saved)
    if len(learner.state) % len(group):
        raise saved.refuse("state", f"must have as many outputs for each of {len(group)} members")
    learner.known = saved.array("known", (features,), bool)
    learner.means = saved.array("means", (features,), np.float64)
    _restore_clock(learner, saved)
    learner.moments.restore(saved.inside("moments"), features)
    if learner.targets.active:
        learner.targets.restore(saved.inside("targets"), learner.columns)
    if learner.relevance is not None:
        learner.relevance = learner.relevance.restored(saved)
        apart = learner.relevance.apart
    frame, invariant = learner.plain_frame(np.zeros(features)), learner.kernel.translation_invariant
    if not learner.on_strings:
        frame = Frame.restored(saved.inside("frame"), features, dtype, invariant, apart)
    learner.restore_f(saved, frame)
    saved.finish()
    return learner


def shape_of(settings: Settings, saved: Saved) -> tuple[int, Apart]:
    """Return the width of a row, told by an array, and what its codes are apart."""
    known = saved.peek("known")
    if not isinstance(known, np.ndarray) or known.ndim != 1:
        raise saved.refuse("known", "must be an array with one value per feature")
    strings = settings.kernel.domain == "strings"
    if strings != (len(known) == 0):
        raise saved.refuse("known", f"does not fit the kernel, with {len(known)} features")
    apart = saved.peek("apart")
    if apart is None:
        return len(known), ()
    if type(apart) is not list or not apart:
        raise saved.refuse("apart", "must be a list of numbers, if it is there")
    if not known[: len(apart)].all():
        raise saved.refuse("known", "must hold where columns are codes")
    return len(known), checked_apart(settings, len(known), tuple(apart))


def _restore_clock(learner: Learner, saved: Saved) -> None:
    """Take the times of the last row and of the last refresh, where there is a clock."""
    learner.clock, learner.refreshed = saved.maybe("clock"), saved.maybe("refreshed")
    times = [time for time in (learner.refreshed, learner.clock) if time is not None]
    wanted = 2 if learner.t and np.isfinite(learner.rule.duration) else 0
    if len(times) != wanted or times != sorted(times):
        raise saved.refuse("clock", "and the time of the last refresh do not fit the rule")


def _state(saved: Saved) -> Array:
    """Take the scalars of each output."""
    state = saved.array("state", (None, len(Field)), np.float64, finite=False)
    if not is_sound(state) or np.any(state[:, AT_LEAST_0] < 0):
        raise saved.refuse("state", "must be finite, and its counts at least 0")
    if np.any(state[:, Field.SCALE] == 0):
        raise saved.refuse("state", "must not have a scale of 0")
    return state
