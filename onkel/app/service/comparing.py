"""Would other settings have fired? Rows of a request, learned by new models beside each other.

The model that is asked lends its parameters, and what its columns are; it neither learns nor waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel import judge
from onkel.app.http.encoding import encode
from onkel.app.http.problems import Problem, busy
from onkel.app.replay.compare import WAS, Alert, Outcome, described
from onkel.app.service import calls, fleets
from onkel.app.service.bodies import Entry
from onkel.app.service.limits import Limits
from onkel.app.service.slots import Slot
from onkel.app.service.specs import REFUSALS, values_of
from onkel.fleet import Fleet
from onkel.judge import NamedRows, forgets_by_clock

Array = NDArray[Any]

SETTINGS = 8
"""Beside the model's own."""
STEP = 1000
"""Rows between two looks at the clock."""
LONGEST_GAP = 10**9


@dataclass(frozen=True)
class Trial:
    """New models of several settings, and the rows that they will learn."""

    models: list[tuple[str, dict[str, Any], Any]]
    """Name, changed parameters, model; the model's own first."""
    rows: Any
    entry: Entry
    names: list[str] | None
    gap: int
    seconds: float

    @classmethod
    def of(
        cls, slot: Slot, entry: Entry, settings: Sequence[dict[str, Any]], gap: int, limits: Limits
    ) -> Trial:
        """Return what is to be run, or refuse it by its field."""
        model = slot.estimator
        if model.task != "novelty":
            words = f"A replay compares alerts; this model is for {model.task}."
            raise Problem(409, "no_alerts", words)
        if not 0 <= gap <= LONGEST_GAP:
            raise Problem(422, "bad_field", f"gap must be 0 to {LONGEST_GAP}; got {gap}.", "gap")
        if len(settings) > SETTINGS:
            words = f"Up to {SETTINGS} settings are compared at once; got {len(settings)}."
            raise Problem(422, "bad_field", words, "settings", limit=SETTINGS)
        memory = max(limits.key_bytes // (len(settings) + 1), 1)
        every: list[tuple[str, dict[str, Any], Any]] = [
            (WAS, {}, anew(model, {}, "settings", memory))
        ] + [
            (named(changed), changed, anew(model, changed, f"settings[{i}]", memory))
            for i, changed in enumerate(settings)
        ]
        names = slot.spec.features
        rows = calls.rows_of(model, entry, names)
        return cls(every, rows, entry, names, gap, limits.seconds)

    def run(self) -> dict[str, Any]:
        """Return what each setting makes of the rows."""
        until = monotonic() + self.seconds
        found = [self._outcome(*one, until) for one in self.models]
        return {
            "rows": self.entry.count, "gap": self.gap, "settings": described(found, self.gap)
        }  # fmt: skip

    def _outcome(self, name: str, changed: dict[str, Any], model: Any, until: float) -> Outcome:
        try:
            parts = [self._learned(model, part, until) for part in _parts(self.entry.count)]
        except REFUSALS as error:
            raise calls.refused(error) from error
        score, limit, alert, warming = np.concatenate(parts, axis=1)
        own = model.estimator if isinstance(model, Fleet) else model
        alerts = self._alerts(score, limit, np.flatnonzero(alert), bool(own.tells_p))
        return Outcome(name, changed, own.nu, len(score), int(warming.sum()), alerts)

    def _learned(self, model: Any, part: slice, until: float) -> Array:
        """Return score, threshold, alert, and whether it was warm-up, of some rows."""
        if monotonic() > until:
            words = f"This takes more than {self.seconds:g} seconds here: send fewer rows at once."
            raise busy("timeout", words)
        rows, entry = self.rows[part], self.entry
        fleet = isinstance(model, Fleet)
        clock = forgets_by_clock(model.estimator if fleet else model)
        when = entry.time[part] if clock and entry.time is not None else None
        if isinstance(model, Fleet):
            return _by_key(model, (entry.keys or [])[part], rows, when, self.names)
        X = judge.named(model, rows, self.names)
        judged = model.predict_then_learn(X, output="judgement", time=when).T
        before = np.arange(part.start, part.start + judged.shape[1])
        return np.vstack([judged, before < model.warmup_])

    def _alerts(self, score: Array, limit: Array, at: Array, tells_p: bool) -> list[Alert]:
        keys, times = self.entry.keys, self.entry.time
        places = [*range(len(score))] if keys is None else _counted(keys)
        return [
            Alert(
                i, places[i], float(score[i]), float(limit[i]),
                float(np.exp(score[i])) if tells_p else None, None if times is None else times[i],
                key=None if keys is None else str(keys[i]),
            )
            for i in at.tolist()
        ]  # fmt: skip


def _parts(count: int) -> list[slice]:
    return [slice(start, min(start + STEP, count)) for start in range(0, count, STEP)]


def _counted(keys: Sequence[Any]) -> list[int]:
    """Return how many rows of the same key came before each."""
    found, seen = [], Counter[Any]()
    for key in keys:
        found.append(seen[key])
        seen[key] += 1
    return found


def _by_key(fleet: Fleet, keys: list[Any], rows: Any, when: Any, names: list[str] | None) -> Array:
    X = rows if names is None or len(fleet) else NamedRows(rows, names)
    found = fleet.predict_then_learn(keys, X, None, when, output="verdict").T
    own = fleet.estimator
    warmup = own.warmup_of(rows.shape[1]) if hasattr(own, "warmup_of") else int(own.warmup)
    warming = np.zeros(found.shape[1]) if fleet.share else found[4] < warmup
    return np.vstack([found[:3], warming])


def anew(model: Any, changed: Mapping[str, Any], path: str, memory: int) -> Any:
    """Return a model with the parameters of another, some of them changed; it knows nothing."""
    if fleets.is_fleet(model):
        inner = anew(model.estimator, changed, path, memory)
        return Fleet(inner, share=model.share, memory=memory)
    kind = type(model)
    given = values_of(kind.__name__, changed, path)
    try:
        made = kind(**{**model.get_params(deep=False), **given})
        made.check_params()
    except REFUSALS as error:
        raise Problem(422, "bad_parameters", str(error)[:2000], path) from error
    return made


def named(changed: Mapping[str, Any]) -> str:
    """Return what a setting is called: what it changes.

    Examples
    --------
    >>> named({"nu": 0.001, "kernel": {"name": "laplacian"}})
    'nu 0.001, kernel {"name":"laplacian"}'
    """
    words = [f"{n} {v if isinstance(v, str) else encode(v).decode()}" for n, v in changed.items()]
    return ", ".join(words)[:200] or WAS
