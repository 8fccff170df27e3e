"""The self-tuning detector as the bytes of a cell."""

from __future__ import annotations

import copy
from dataclasses import fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.alerting import RecentScores
from onkel.core import cells, compiled
from onkel.core.answers import Answers
from onkel.core.density import DensityState, sixteens
from onkel.estimators.density_detector import Detector
from onkel.estimators.feedback import terms_of
from onkel.learner import Densities

Array = NDArray[Any]


class PackedDensities:
    """Detectors of one setting, for rows of so many features.

    Parameters
    ----------
    estimator : Detector
        Which has learned nothing.
    features : int
    dtype : dtype
        In which rows come.
    names : array, optional
        Of the features.
    """

    def __init__(self, estimator: Detector, features: int, dtype: Any, names: Array | None) -> None:
        estimator.check_params()
        self.estimator, self.features, self.dtype = estimator, features, np.dtype(dtype)
        self.names = names
        self.plan = estimator._asked(features)
        self.layout = cells.DensityLayout(features)

    def cells(self) -> Any:
        """Return the compiled core's cells for such models."""
        plan, blank = compiled.DensityPlan(**vars(self.plan)), self._blank().answers
        alone = blank.promise is not None and blank.promise.alone
        high = 0.0 if blank.promise is None else blank.promise.high
        return compiled.DensityCells(
            plan, self.features, int(self.estimator.recent), blank.room, blank.memory, blank.theta,
            high, blank.promise is not None, alone,
        )  # fmt: skip

    def _blank(self) -> Densities:
        """Return a learner that has learned nothing."""
        model = self.estimator
        return Densities(
            self.plan, self.features, self.dtype, model.missing, model._promise(),
            float(model.memory_of_feedback), int(model.alerts_kept),
        )  # fmt: skip

    def form(self) -> dict[str, Any]:
        """Return what a file must say of such cells."""
        return form_of(self)

    def model(self, record: bytes) -> Detector:
        """Return the estimator that a record holds."""
        head, found = cells.read(self.layout, record)
        model: Detector = copy.copy(self.estimator)
        learner = self._blank()
        learner.answers = _answers(learner.answers, found)
        learner.state = _state(learner.state, head, found)
        model._learner = learner
        model.recent_ = recent_of(int(self.estimator.recent), head, found)
        model.warm_ = None
        if self.names is not None:
            model.feature_names_in_ = self.names.copy()
        return model

    def record(self, model: Detector) -> bytes:
        """Return the bytes of a model that has learned something."""
        learner: Any = model._learner
        if learner.features != self.features or np.dtype(learner.dtype) != self.dtype:
            raise ValueError(
                f"a model of this fleet takes {self.features} features in {self.dtype}; this one "
                f"takes {learner.features} in {np.dtype(learner.dtype)}."
            )
        state, answers = learner.state.packed(), learner.answers
        self._check_made(learner)
        settled = learner.t >= self.plan.young or state.real[10:14].any()
        head = {
            "settled": settled, "places": state.raw.shape[1], "late_places": len(state.late_raw),
            "holds": len(state.due), "waits": len(state.waiting), "told": len(state.history),
            **recent_head(model.recent_), "asked_room": len(answers.asked_at),
            "answers": len(answers.born),
        }  # fmt: skip
        counts = [*answers.asked_count.tolist(), answers.answered, answers.dismissed]
        own = {"asked_counts": counts, "theta": [answers.theta, answers.unspent]}
        given = {name: getattr(answers, name) for name in ANSWERS}
        fields = {**vars(state), **given, **own, "recent": model.recent_.values}
        return cells.write(self.layout, head, fields)

    def _check_made(self, learner: Densities) -> None:
        """Refuse a model that was begun with other settings, though it has these by now."""
        blank = self._blank()
        own, asked = ((m.plan, m.missing, terms_of(m.answers)) for m in (learner, blank))
        if own != asked:
            raise ValueError(
                f"a model of this fleet has learned with {self.estimator!r}; this one has learned "
                "with other settings, and set_params has changed what it says of itself since."
            )


ANSWERS = ("places", "radius", "strength", "born", "of", "asked", "asked_at", "said")


def _answers(blank: Answers, found: dict[str, Any]) -> Answers:
    """Return the answers that a cell holds, and take them out of what was found."""
    counts, theta = found.pop("asked_counts").tolist(), found.pop("theta").tolist()
    given = {name: found.pop(name) for name in ANSWERS}
    return replace(
        blank, **given, asked_count=np.array(counts[:2], np.int64), answered=counts[2],
        dismissed=counts[3], theta=theta[0], unspent=theta[1],
    )  # fmt: skip


def form_of(packed: Any) -> dict[str, Any]:
    """Return width, type and names of the rows that cells are made for."""
    names = None if packed.names is None else [str(name) for name in packed.names]
    return {"features": packed.features, "dtype": packed.dtype.name, "names": names}


def recent_head(recent: RecentScores) -> dict[str, int]:
    """Return what the head of a cell says of recent scores."""
    return {
        "recent_room": len(recent.values),
        "recent_at": recent.at,
        "recent_count": recent.count,
    }


def recent_of(size: int, head: Any, found: dict[str, Any]) -> RecentScores:
    """Return the recent scores that a cell holds."""
    return RecentScores(size, found["recent"], int(head["recent_at"]), int(head["recent_count"]))


def _state(empty: DensityState, head: Any, found: dict[str, Any]) -> DensityState:
    """Return a detector's state; places come in sixteens, and those without a term hold nothing."""
    told = sixteens(head["told"])
    places, late = sixteens(head["places"]), sixteens(head["late_places"])
    state = {f.name: getattr(empty, f.name) for f in fields(empty)}
    d = len(found["last"])
    kept = {
        "raw": _longer(found["raw"], 1, places), "late_raw": _longer(found["late_raw"], 0, late),
        "marks": _longer(found["marks"], 0, places),
        "history": _longer(found["history"], 0, told),
        "ranked": _longer(found["ranked"], 0, told),
    }  # fmt: skip
    if not head["settled"]:
        f4 = np.float32
        kept |= {
            "z": np.full((3, d, places), empty.z.flat[0], f4),
            "late_z": np.full((d, late), empty.z.flat[0], f4),
            "sums": np.full((7, places), np.inf, f4), "late_sums": np.full((2, late), np.inf, f4),
        }  # fmt: skip
    own = {name: value for name, value in found.items() if name != "recent"}
    return DensityState(**{**state, **own, **kept})


def _longer(array: Array, axis: int, length: int) -> Array:
    """Return an array with zeros behind it along one axis."""
    more = max(length - array.shape[axis], 0)
    widths = [(0, more if i == axis else 0) for i in range(array.ndim)]
    return np.pad(array, widths) if more else array
