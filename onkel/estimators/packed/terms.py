"""Kernel detectors, classifiers and regressors as the bytes of a cell."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import core, expansions
from onkel.core import cells, compiled
from onkel.core.chances import Chances
from onkel.core.frame import Frame
from onkel.core.layout import LANES, RuleCode
from onkel.estimators.classes import UNKNOWN, Classes, side_of
from onkel.estimators.packed.densities import form_of, recent_head, recent_of
from onkel.learner import TermLearner

Array = NDArray[Any]

TASKS = ("novelty", "classification", "regression")


def not_held(estimator: Any, features: int) -> str | None:
    """Return why cells cannot hold such a model, for rows of so many features; None if they can."""
    settings = estimator.settings()
    kernel, window = settings.kernel, settings.expansion
    if type(window) is not expansions.Window or not window.policy.one_by_one:
        return f"cells hold windows of the newest terms, not {window!r}"
    lacking = [p for p in (kernel, settings.loss) if _is_foreign(p, features)]
    if lacking:
        return f"the compiled core does not know {lacking[0]!r}"
    if settings.average:
        return "average=True keeps a second hypothesis"
    if getattr(estimator, "class_weight", None) is not None:
        return "class_weight is for single models"
    if not (settings.scale or kernel.translation_invariant):
        return f"{kernel!r} without scale=True is for single models"
    return _rule_not_held(settings)


def _is_foreign(part: Any, features: int) -> bool:
    """Whether the compiled core has no code for a kernel or a loss."""
    if hasattr(part, "resolve"):
        return part.resolve(features).program() is None
    return part.native() is None


def _rule_not_held(settings: Any) -> str | None:
    rule, loss = settings.rule, settings.loss
    bound = rule.bind(loss)
    native = bound.native()
    if native is None or native.code != RuleCode.NORMA or bound.needs_norm or bound.divides:
        return f"cells follow rules.Norma without the norm of f, not {rule!r}"
    return None


class PackedTerms:
    """Kernel models of one setting, for rows of so many features.

    Parameters
    ----------
    estimator : KernelClassifier, KernelRegressor or NoveltyDetector
        Which has learned nothing.
    features : int
    dtype : dtype
        Of the rows.
    names : array, optional
        Of the features.
    """

    def __init__(self, estimator: Any, features: int, dtype: Any, names: Array | None) -> None:
        self.estimator, self.features, self.dtype = estimator, features, np.dtype(dtype)
        self.names = names
        self.settings = estimator.settings()
        self.task: str = estimator.task
        self.blank = TermLearner(self.settings, features, 0, dtype)
        self.link = self.task == "classification" and estimator._needs_link(self.blank)
        learner = self.blank
        self.layout = cells.TermLayout(
            features, self.dtype, self.settings.scale, self.settings.missing == "mean",
            learner.kernel.translation_invariant, learner.targets.active, self.link,
        )  # fmt: skip
        self.flat = True
        """Whether targets of regression come as one number per row, not as rows of them."""
        self.labels: list[Any] = []
        """Of all keys, in the order in which they came; a cell has their places."""
        self.places: dict[Any, int] = {}

    # -- what the core must know -----------------------------------------------------------------

    def cells(self) -> Any:
        """Return the compiled core's cells for such models."""
        learner, layout = self.blank, self.layout
        window, rule = learner.window, learner.rule
        stepper = core.Stepper(learner.loss, rule, self.settings.intercept).native()
        program = learner.kernel.program()
        assert program is not None
        plan: dict[str, Any] = {
            "d": self.features, "cap": window.cap, "limit": min(window.cap, window.age),
            "adaptive": learner.loss.adaptive, "invariant": layout.invariant,
            "scale": layout.scale, "gaps": layout.gaps, "targets": layout.targets,
            "link": layout.link, "steady": learner.moments.steady,
            "start": float(rule.start(learner.loss)), "memory": float(rule.memory),
            "horizon": float(learner.moments.horizon), "duration": float(rule.duration),
            "eps": learner.moments.eps, "clip": learner.frame.clip,
            "recent": int(getattr(self.estimator, "recent", 1)),
            "warmup": int(getattr(self.estimator, "warmup", 0)),
        }  # fmt: skip
        made = compiled.TermCellsF if self.dtype == np.float32 else compiled.TermCellsD
        made_plan = compiled.TermPlan(**plan)
        return made(TASKS.index(self.task), core.program_of(program), stepper, made_plan)

    def form(self) -> dict[str, Any]:
        """Return what a file must say of such cells."""
        return {**form_of(self), "flat": self.flat, "labels": list(self.labels)}

    def places_of(self, labels: list[Any]) -> Array:
        """Return the places of labels among those of all keys; new ones are taken in."""
        for label in labels:
            if label not in self.places:
                self.places[label] = len(self.labels)
                self.labels.append(label)
        return np.array([self.places[label] for label in labels], np.int32)

    def forget_labels(self, count: int) -> None:
        """Forget all labels but the first `count`: the call that brought them was refused."""
        for label in self.labels[count:]:
            del self.places[label]
        del self.labels[count:]

    def sides(self) -> Array:
        """Return of each label 0 or 1, where two of them share an output; else -1."""
        found = [side_of(label) for label in self.labels]
        return np.array([-1 if side is None else side for side in found], np.int32)

    def classes(self, kind: list[int]) -> Classes:
        """Return the classes behind outputs: places of labels, then whether two share one."""
        *places, binary = kind
        return Classes([UNKNOWN if p < 0 else self.labels[p] for p in places], bool(binary))

    # -- to an estimator -------------------------------------------------------------------------

    def model(self, record: bytes) -> Any:
        """Return the estimator that a record holds."""
        head, found = cells.read(self.layout, record)
        model = copy.copy(self.estimator)
        model._learner = self._learner(head, found)
        if self.names is not None:
            model.feature_names_in_ = self.names.copy()
        if self.task == "novelty":
            model.recent_ = recent_of(int(self.estimator.recent), head, found)
            model.warm_ = found["warm"] if len(found["warm"]) else None
        elif self.task == "regression":
            model.n_outputs_ = int(head["columns"])
            model._flat = bool(head["flags"] & cells.ONE_TARGET)
        else:
            self._give_classes(model, head, found)
        return model

    def _learner(self, head: Any, found: dict[str, Any]) -> TermLearner:
        learner = self.blank.copy()
        columns, layout = int(head["columns"]), self.layout
        learner.t, learner.mistakes = int(head["t"]), int(head["mistakes"])
        learner.state = found["state"]
        if head["flags"] & cells.MERGED:
            learner.merged = True
        if np.isfinite(head["clock"]):
            learner.clock, learner.refreshed = float(head["clock"]), float(head["refreshed"])
        if layout.scale or layout.gaps:
            learner.moments.seen = np.broadcast_to(found["seen"], self.features).copy()
            learner.moments.mean, learner.moments.variance = found["mean"], found["variance"]
        learner.known = found["known"].astype(bool)
        frame = self._frame(found)
        learner.means = found["means"] if layout.gaps else frame.mean.copy()
        if not (layout.gaps or layout.scale):
            learner.means = np.zeros(self.features)
        self._give_targets(learner, columns, found)
        self._give_terms(learner, frame, head, found)
        return learner

    def _frame(self, found: dict[str, Any]) -> Frame:
        shift = found["shift"] if len(found["shift"]) else np.zeros(self.features)
        return Frame(
            self.dtype, self.layout.invariant, found["center"],
            np.ldexp(1.0, found["power"].astype(int)), found["width"], shift, found["frame_mean"],
        )  # fmt: skip

    def _give_targets(self, learner: TermLearner, columns: int, found: dict[str, Any]) -> None:
        targets = type(learner.targets)(columns, learner.rule.memory, self.layout.targets)
        if self.layout.targets:
            targets.center, targets.spread = found["target_center"], found["target_spread"]
            targets.known = found["units"].astype(bool)
            moments = targets.moments
            moments.seen, moments.mean = found["target_seen"], found["target_mean"]
            moments.variance = found["target_variance"]
        learner.targets = targets

    def _give_terms(
        self, learner: TermLearner, frame: Frame, head: Any, found: dict[str, Any]
    ) -> None:
        terms, n = learner.no_terms(frame), int(head["count"])
        terms.allocate(int(head["panels"]), int(head["columns"]))
        terms.head, terms.count = int(head["head"]), n
        panel, lane = terms.slots(0, n)
        births = found["wide_births"] if head["flags"] & cells.WIDE else found["births"]
        p, place = (panel, lane) if head["panels"] > 1 else (0, lane % max(int(head["room"]), 1))
        lanes = found["rows"].shape[2]
        terms.panels[panel, :, lane] = found["rows"][p, :, place]
        terms.coef[panel, :, lane] = found["coef"][p, :, place]
        terms.norms[panel, lane] = found["norms"][p * lanes + place]
        terms.births[panel * LANES + lane] = births[p * lanes + place]
        learner.terms = terms

    def _give_classes(self, model: Any, head: Any, found: dict[str, Any]) -> None:
        labels, binary = found["labels"].tolist(), bool(head["flags"] & cells.BINARY)
        model._classes = self.classes([*labels, binary])
        model._classes.named = int(head["named"])
        counted = [self.labels[p] for p in found["counted"].tolist()]
        model.class_count_ = dict(zip(counted, found["counts"].tolist(), strict=True))
        model._lone_classes = model._link = None
        if self.link:
            model._link = _link(int(head["columns"]), found)

    # -- from an estimator -----------------------------------------------------------------------

    def record(self, model: Any) -> bytes:
        """Return the bytes of a model that has learned something."""
        learner = model._learner
        self._check(learner)
        terms, n = learner.terms, learner.terms.count
        panels = len(terms.panels)
        wide = learner.t >= cells.NARROW or panels > 1
        flags = cells.WIDE * wide + cells.MERGED * learner.merged
        head: dict[str, Any] = {
            "t": learner.t, "mistakes": learner.mistakes, "columns": learner.columns,
            "clock": np.nan if learner.clock is None else learner.clock,
            "refreshed": np.nan if learner.refreshed is None else learner.refreshed,
            "head": terms.head, "count": n, "panels": panels, "room": _room(panels, n),
        }  # fmt: skip
        found = {**self._units(learner), **_terms(terms, head["room"], wide)}
        if self.task == "novelty":
            head |= recent_head(model.recent_)
            found["recent"] = model.recent_.values
            if model.warm_ is not None:
                flags |= cells.WARM
                found["warm"] = model.warm_
        elif self.task == "regression":
            flags |= cells.ONE_TARGET * model._flat
        else:
            flags |= cells.BINARY * model._classes.binary
            head, found = self._classes_of(model, head, found)
        return cells.write(self.layout, {**head, "flags": flags}, found)

    def _check(self, learner: TermLearner) -> None:
        came = len(learner.moments.mean), learner.dtype
        if came != (self.features, self.dtype):
            raise ValueError(
                f"a model of this fleet takes {self.features} features in {self.dtype}; this one "
                f"takes {came[0]} in {came[1]}."
            )

    def _units(self, learner: TermLearner) -> dict[str, Any]:
        frame, moments, targets = learner.frame, learner.moments, learner.targets
        found = {
            "state": learner.state, "known": learner.known, "center": frame.center,
            "width": frame.width, "frame_mean": frame.mean,
            "power": np.frexp(frame.unit)[1] - 1,
        }  # fmt: skip
        if self.layout.scale or self.layout.gaps:
            found |= {"mean": moments.mean, "variance": moments.variance}
            found["seen"] = moments.seen if self.layout.gaps else moments.seen[:1]
        if self.layout.gaps:
            found["means"] = learner.means
        if not self.layout.invariant:
            found["shift"] = frame.shift
        if self.layout.targets:
            of = targets.moments
            found |= {
                "units": targets.known, "target_center": targets.center,
                "target_spread": targets.spread, "target_seen": of.seen, "target_mean": of.mean,
                "target_variance": of.variance,
            }  # fmt: skip
        return found

    def _classes_of(
        self, model: Any, head: dict[str, Any], found: dict[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        classes, counts = model._classes, model.class_count_
        known = [v for v in classes.labels if v is not UNKNOWN]
        self.places_of([*known, *counts])
        labels = [-1 if v is UNKNOWN else self.places[v] for v in classes.labels]
        head = {**head, "labels": len(labels), "counted": len(counts), "named": classes.named}
        found = {
            **found, "labels": labels, "counted": self.places_of([*counts]),
            "counts": [*counts.values()],
        }  # fmt: skip
        if self.link:
            link = model._link
            lone = [link.joint, link.bow, link.said, link.weights, link.losses]
            parts = [link.link, link.offset, link.bend, *lone]
            found |= {"link": np.concatenate([a.ravel() for a in parts]), "linked": link.count}
        return head, found


def _room(panels: int, count: int) -> int:
    """Return places for terms: all slots of a long ring, a power of two of a short one."""
    if panels != 1:
        return panels * LANES
    return max(4, 1 << max(count - 1, 0).bit_length())


def _terms(terms: Any, room: int, wide: bool) -> dict[str, Any]:
    n, d, long = terms.count, terms.panels.shape[1], len(terms.panels) > 1
    panels, lanes = (len(terms.panels), LANES) if long else (1, room)
    coef, rows = np.zeros((panels, terms.columns, lanes)), np.zeros((panels, d, lanes))
    norms, births = np.zeros(room), np.zeros(room, np.int64)
    panel, lane = terms.slots(0, n)
    p, place = (panel, lane) if long else (np.zeros_like(panel), lane % max(room, 1))
    coef[p, :, place], rows[p, :, place] = terms.coefs(0, n), terms.rows(0, n)
    norms[p * lanes + place] = terms.norms[panel, lane]
    births[p * lanes + place] = terms.births_from(0, n)
    return {
        "coef": coef, "rows": rows, "norms": norms, ("wide_births" if wide else "births"): births,
    }  # fmt: skip


def _link(columns: int, found: dict[str, Any]) -> Chances:
    """Return a link with the numbers that a cell holds of it."""
    link, values, c = Chances.empty(1, columns), found["link"], max(columns, 2)
    lone = values[3 + 2 * c :]
    link.link, link.offset, link.bend = (
        values[:3].reshape(1, 3).copy(), values[3 : 3 + c].reshape(1, c).copy(),
        values[3 + c : 3 + 2 * c].reshape(1, c).copy(),
    )  # fmt: skip
    link.joint, link.bow = lone[:2].reshape(2, 1).copy(), lone[2:3].reshape(1, 1).copy()
    link.said, link.weights, link.losses = lone[3:4].copy(), lone[4:5].copy(), lone[5:7].copy()
    link.count = found["linked"]
    return link
