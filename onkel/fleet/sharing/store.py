"""A store of models whose young keys are judged with the whole fleet's knowledge."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import files, inputs
from onkel.core.density_table import LARGEST
from onkel.estimators import inside
from onkel.fleet.calls import Call
from onkel.fleet.outputs import Verdicts
from onkel.fleet.sharing.bands import Bands
from onkel.fleet.sharing.hearing import Ear
from onkel.fleet.sharing.usual import Usual
from onkel.saved import Saved

Array = NDArray[Any]

OWN = 100.0
"""Rows after which a key's own detector counts as much as the fleet's."""


def check_shared(estimator: Any) -> None:
    """Refuse models that cannot share."""
    if not getattr(estimator, "tells_p", False):
        raise ValueError(
            "Fleet: share=True adds log p of the fleet's detector to that of the key's own, so "
            f"that it needs Detector; got {type(estimator).__name__}."
        )
    if estimator.nu is None:
        raise ValueError(
            "Fleet: share=True promises an alert rate to keys that are new, so that it needs nu; "
            "give nu=0.01 beside precision."
        )
    if estimator.columns is not None:
        raise ValueError("Fleet: share=True takes rows of numbers; columns= must be left out.")


class Shared:
    """Models by number, and one detector of all keys' rows.

    Parameters
    ----------
    inner : store
        Holds the models.
    estimator : Detector
        What each key begins as, and the fleet's detector, too.
    features : int
        In a row.
    """

    def __init__(self, inner: Any, estimator: Any, features: int) -> None:
        self.inner, self.estimator, self.features = inner, estimator, features
        self.usual = Usual(features, float(estimator.memory))
        self.young = int(estimator.warmup_of(features))
        """Keys of fewer rows are."""
        self.bands = Bands(float(estimator.nu), self.young)
        self.promised = inside.promised_by(estimator, features)
        """Of a promised precision: what there is before any answer."""
        self.common = copy.copy(estimator).set_params(missing="error", device="cpu")
        self.grown = np.zeros(2, np.int64)
        """Rows of grown keys that were judged, and alerts among them."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    # -- rows ------------------------------------------------------------------------------------

    def learn(self, call: Call) -> Any:
        """Judge and learn rows; return what was asked for. Learned whole, or not at all."""
        X = self._matrix(call)
        weight = inputs.weights_of(call.how.get("sample_weight"), len(call))
        asked, call.output = call.output, "verdict"
        call.tells_usual |= bool(np.isnan(X).any())
        own = _verdicts(self.inner.learn(call))
        Z, known = self.usual.followed(call.numbers, X, weight > 0)
        fleet, ready = self._said(Z, weight, known)
        filled = X if call.usual is None else np.where(np.isnan(X), _means(call.usual, X), X)
        young = own.age < self.young
        ears = self._ears(call.numbers, filled, own.age, young & ready)
        self._followed(own, fleet, weight > 0, ready, ears)
        call.precedents |= {i: e.precedent for i, e in ears.items() if e.precedent is not None}
        self._ask(call.numbers, filled, own, np.flatnonzero(young & own.alert & (weight > 0)))
        return own.answer(asked, tells_p=True)

    def _ears(self, numbers: Array, X: Array, age: Array, which: Array) -> dict[int, Ear]:
        """Return who hears answers for some of the rows: of keys that have any, or a promise."""
        rows = np.flatnonzero(which)
        told = self._held.answered_of(numbers[rows])
        found = {}
        if self.promised is not None:
            found = {i: Ear(self.promised, X[i], int(age[i])) for i in rows.tolist()}
        for number in told:
            learner: Any = inside.learner_of(self._held.model(number))
            for i in rows[numbers[rows] == number].tolist():
                found[i] = Ear(learner.answers, learner.filled(X[i]), int(age[i]))
        return found

    def _ask(self, numbers: Array, X: Array, own: Verdicts, rows: Array) -> None:
        """Let the alerts of young keys be answered: their own detectors did not raise them."""
        for number in dict.fromkeys(numbers[rows].tolist()):
            at = rows[numbers[rows] == number]
            model = self._held.model(number)
            x = np.clip(X[at], -LARGEST, LARGEST)
            inside.ask_about(model, own.age[at].astype(np.int64), x, own.score[at])
            self._held.put({number: model})

    @property
    def _held(self) -> Any:
        """The models of the last call, which are in memory: nothing can fail any more."""
        return getattr(self.inner, "inner", self.inner)

    def answer(self, number: int, id: Any, answer: str) -> None:
        """Answer an alert; of a young key in spreads from what the fleet expects of it."""
        self.usual.make_room(number + 1)
        frame = None
        if self.usual.count[number] < self.young:
            mean, spread = self.usual.expected(np.array([number]))
            frame = np.zeros((2, 3, self.features))
            spread = np.maximum(spread, np.maximum(1e-8 * np.abs(mean), 1e-300))
            frame[:, 0] = mean[0], np.where(np.isfinite(spread[0]), spread[0], 0.0)
        self.inner.answer(number, id, answer, frame)

    def _said(self, Z: Array, weight: Array, known: Array) -> tuple[Array, Array]:
        """Return log p of rows by the fleet's detector, and if it knows any by then.

        It learns the rows that came when something was `known` of keys.
        """
        said, live = np.zeros(len(Z)), (weight > 0) & known
        ready = getattr(self.common, "t_", 0) + np.cumsum(live) - live >= self.young
        if known.any():
            how = {"output": "score", "sample_weight": weight[known]}
            said[known] = self.common.predict_then_learn(Z[known], **how)
        return said, ready

    def _followed(
        self, own: Verdicts, fleet: Array, live: Array, ready: Array, ears: dict[int, Ear]
    ) -> None:
        """Let young rows be ranked among those of their age.

        Their `rank` stays that of their own score among the key's: others' are no scores of its.
        """
        bands, surprise = self.bands.of(own.age), -_joined(own, fleet)
        for i in np.flatnonzero((own.age < self.young) & ready).tolist():
            band, g = self.bands.each[bands[i]], float(surprise[i])
            if live[i]:
                own.score[i], own.limit[i], own.alert[i] = band.follow(g, ears.get(i))
            else:
                _look(own, i, band, g, ears.get(i))
        early = (own.age < self.young) & ~ready
        own.score[early], own.alert[early] = 0.0, False
        old = (own.age >= self.young) & live
        self.grown += [np.count_nonzero(old), np.count_nonzero(old & own.alert)]

    def look(self, call: Call) -> Any:
        """Return what is said of rows; nothing changes. A key that is not known is a young one."""
        X, asked, call.output = self._matrix(call), call.output, "verdict"
        own = _verdicts(self.inner.look(call))
        known = np.where(call.numbers >= 0, call.numbers, self._nobody())
        if not len(X) or getattr(self.common, "t_", 0) < self.young:
            return own.answer(asked, tells_p=True)
        fleet = self.common.score_samples(self.usual.seen(known, X))
        surprise, bands = -_joined(own, fleet), self.bands.of(own.age)
        young = own.age < self.young
        ears = self._ears(known, X, own.age, young)
        for i in np.flatnonzero(young).tolist():
            _look(own, i, self.bands.each[bands[i]], float(surprise[i]), ears.get(i))
        call.precedents |= {i: e.precedent for i, e in ears.items() if e.precedent is not None}
        own.rank[np.isnan(own.rank)] = 1.0  # of a key that is not known there are no scores
        return own.answer(asked, tells_p=True)

    def judges_young(self, age: int) -> bool:
        """Whether the fleet has a say in rows of a key that has learned so many."""
        return age < self.young and getattr(self.common, "t_", 0) >= self.young

    def _nobody(self) -> int:
        """Return a number of which nothing is known: the last one that there is room for."""
        count = self.usual.count
        if not len(count) or count[-1]:
            self.usual.make_room(len(count) + 1)
        return len(self.usual.count) - 1

    def _matrix(self, call: Call) -> Array:
        return call.matrix(self.estimator, np.float64, self.features)

    def learn_one(self, number: int, row: Any, y: Any, time: Any) -> bool:
        """Leave it to :meth:`learn`."""
        return False

    def look_one(self, number: int, row: Any) -> int:
        """Return -1 for an alert, else 1."""
        found = self.look(Call([number], np.array([number]), [row], "prediction"))
        return int(found[0])

    # -- models ----------------------------------------------------------------------------------

    def put(self, models: dict[int, Any]) -> None:
        """Let models be what these are."""
        self.inner.put(models)
        for number, model in models.items():
            if model.__sklearn_is_fitted__():
                found = model.moments_
                self.usual.put(number, model.t_, found.mean, found.variance)
            else:
                self.usual.forget(np.array([number]))

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget models."""
        gone = np.array([*numbers], np.int64)
        self.inner.forget(gone)
        self.usual.forget(gone)

    def records(self, numbers: Iterable[int]) -> list[bytes]:
        """Return models as bytes, with what is usual for their keys."""
        asked = [*numbers]
        found = zip(asked, self.inner.records(asked), strict=True)
        return [record + self.usual.record(n) if record else b"" for n, record in found]

    def restore(self, numbers: Iterable[int], records: Iterable[bytes]) -> None:
        """Let models be what records hold; a ValueError, and nothing changed, if one is none."""
        asked, held, width = [*numbers], [*records], self.usual.width
        told = [self.usual.read(r[-width:]) if r else None for r in held]
        self.inner.restore(asked, [r[:-width] for r in held])
        for number, found in zip(asked, told, strict=True):
            if found is None:
                self.usual.forget(np.array([number]))
            else:
                self.usual.put(number, *found)

    def sizes(self, numbers: Array) -> Array:
        """Return the bytes of records."""
        found: Array = self.inner.sizes(numbers)
        return found + self.usual.width * (found > 0)

    def joined(self, numbers: Array) -> bytes:
        """Return the records of models, one behind another."""
        return b"".join(self.records(numbers.tolist()))

    def restore_joined(self, numbers: Array, lengths: Array, data: Array) -> None:
        """Let models be what records hold, which lie one behind another."""
        ends = np.cumsum(lengths).tolist()
        parts = [data[e - n : e].tobytes() for e, n in zip(ends, lengths.tolist(), strict=True)]
        self.restore(numbers.tolist(), parts)

    # -- the fleet's own knowledge ---------------------------------------------------------------

    def dump(self) -> dict[str, Array]:
        """Return what a file must hold beside the keys."""
        parts = {"usual.": self.usual.dump(), "bands.": self.bands.dump()}
        found = {at + name: array for at, part in parts.items() for name, array in part.items()}
        common = np.frombuffer(files.dumps(self.common), np.uint8)
        return {**found, "common": common, "grown": self.grown.copy()}

    def restore_shared(self, saved: Saved) -> None:
        """Be what a file holds; a ValueError if it holds no such thing."""
        common = files.loads(saved.array("common", (None,), np.uint8).tobytes())
        if type(common) is not type(self.common) or repr(common) != repr(self.common):
            raise saved.refuse("common", f"must be the file of {self.common!r}")
        if common.__sklearn_is_fitted__() and common.n_features_in_ != self.features:
            raise saved.refuse("common", f"must take {self.features} features")
        grown = saved.array("grown", (2,), np.int64, low=0)
        self.usual.restore(saved.part("usual."))
        self.bands.restore(saved.part("bands."))
        self.common, self.grown = common, grown.copy()

    def rates(self) -> tuple[float, float, dict[str, Any]]:
        """Return alerts that were shown, rows that were judged, and the same of young keys."""
        each = self.bands.report()
        alerts = sum(band["alerts"] for band in each) + int(self.grown[1])
        judged = sum(band["judged"] for band in each) + int(self.grown[0])
        return alerts, judged, {"young": each}


def _verdicts(found: Array) -> Verdicts:
    score, limit, alert, rank, age = found.T.copy()
    return Verdicts(score, limit, alert > 0, rank, age)


def _joined(own: Verdicts, fleet: Array) -> Array:
    """Return log p of the fleet's detector and of the keys' own, by how much each key knows."""
    weight = own.age / (own.age + OWN)
    return (1.0 - weight) * fleet + weight * np.nan_to_num(own.score, nan=0.0)


def _look(own: Verdicts, i: int, band: Any, g: float, ear: Ear | None) -> None:
    heard = band.look(g, ear)
    own.score[i], own.limit[i], own.alert[i] = heard.score, heard.level, heard.alert


def _means(usual: Array, X: Array) -> Array:
    """Return the means that gaps were taken for: of a key's first row they are 0."""
    return np.nan_to_num(usual[:, 0]) if len(usual) else np.zeros_like(X)
