"""Would other settings have fired? Rows of a request, learned by new models beside each other.

The model that is asked lends its parameters, and what its columns are; it neither learns nor waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from onkel import judge
from onkel.app.http.encoding import encode
from onkel.app.http.problems import Problem, busy
from onkel.app.replay.compare import WAS, Alert, Outcome, described
from onkel.app.replay.heard import Heard
from onkel.app.replay.since import timestamp
from onkel.app.service import calls, feedback, fleets
from onkel.app.service.bodies import Entry
from onkel.app.service.limits import Limits
from onkel.app.service.replay import time_of
from onkel.app.service.slots import Slot
from onkel.app.service.specs import REFUSALS, field_of, values_of
from onkel.clock import seconds
from onkel.fleet import Fleet
from onkel.judge import forgets_by_clock

Array = NDArray[Any]

SETTINGS = 8
"""Beside the model's own."""
STEP = 1000
"""Rows between two looks at the clock."""
LONGEST_GAP = 10**9


def check_alerts(model: Any) -> None:
    """Refuse a model that has no alerts."""
    if model.task != "novelty":
        words = (
            f"This model is for {model.task}: it has no alerts. A replay compares alerts, and only "
            "detectors have such."
        )
        raise Problem(409, "no_alerts", words)


def check(settings: Sequence[dict[str, Any]], gap: int | str) -> None:
    """Refuse, by its field, what cannot be compared."""
    span = None if isinstance(gap, int) else seconds(gap)
    if span is None and not (isinstance(gap, int) and 0 <= gap <= LONGEST_GAP):
        words = (
            f"gap must be 0 to {LONGEST_GAP} rows, or a time span such as 30min; got {gap!r:.80}."
        )
        raise Problem(422, "bad_field", words, "gap")
    if len(settings) > SETTINGS:
        words = f"Up to {SETTINGS} settings are compared at once; got {len(settings)}."
        raise Problem(422, "bad_field", words, "settings", limit=SETTINGS)


def models_of(
    model: Any, settings: Sequence[dict[str, Any]], limits: Limits
) -> list[tuple[str, dict[str, Any], Any]]:
    """Return name, changed parameters and a new model of each setting; the model's own first."""
    memory = max(limits.key_bytes // (len(settings) + 1), 1)
    own = (WAS, dict[str, Any](), anew(model, {}, "settings", memory))
    return [own] + [
        (named(changed), changed, anew(model, changed, f"settings[{i}]", memory))
        for i, changed in enumerate(settings)
    ]


class Judged(NamedTuple):
    """What a new model said of rows before it learned them; an array each."""

    score: Array
    limit: Array
    alert: Array
    warming: Array
    """Whether it was in its warm-up."""
    age: Array
    """Rows that it had learned before: those of the key, where there are keys."""
    tells_p: bool


def by_clock(model: Any) -> bool:
    """Whether a model must be told the times."""
    return forgets_by_clock(model.estimator if isinstance(model, Fleet) else model)


def judged(
    model: Any, rows: Any, names: list[str] | None, keys: Sequence[Any] | None, times: Any = None,
    weight: Array | None = None,
) -> Judged:  # fmt: skip
    """Let a model judge rows and learn them."""
    if isinstance(model, Fleet):
        return _by_key(model, keys or [], rows, names, times, weight)
    before = time_of(model)
    X = judge.named(model, rows, names)
    how: dict[str, Any] = {"sample_weight": weight, "time": times}
    score, limit, alert = model.predict_then_learn(X, output="judgement", **how).T
    live = np.ones(len(score), int) if weight is None else (weight > 0).astype(int)
    age = before + np.cumsum(live) - live
    return Judged(score, limit, alert > 0, age < model.warmup_, age, bool(model.tells_p))


def _by_key(
    fleet: Fleet, keys: Sequence[Any], rows: Any, names: list[str] | None, times: Any, weight: Any
) -> Judged:
    found = fleet.predict_then_learn(
        keys, fleets.named(rows, names), None, times, output="verdict", sample_weight=weight
    ).T  # fmt: skip
    own = fleet.estimator
    warmup = own.warmup_of(rows.shape[1]) if hasattr(own, "warmup_of") else int(own.warmup)
    warming = np.zeros(found.shape[1], bool) if fleet.share else found[4] < warmup
    age = found[4].astype(int)
    return Judged(found[0], found[1], found[2] > 0, warming, age, bool(own.tells_p))


@dataclass(frozen=True)
class Trial:
    """New models of several settings, and the rows that they will learn."""

    models: list[tuple[str, dict[str, Any], Any]]
    """Name, changed parameters, model; the model's own first."""
    rows: Any
    entry: Entry
    names: list[str] | None
    gap: int | str
    seconds: float
    when: Array | None = None
    """The rows' times in seconds, where a gap is a time span."""

    @classmethod
    def of(
        cls, slot: Slot, entry: Entry, settings: Sequence[dict[str, Any]], gap: int | str,
        limits: Limits,
    ) -> Trial:  # fmt: skip
        """Return what is to be run, or refuse it by its field."""
        model, names = slot.estimator, slot.spec.features
        check(settings, gap)
        if isinstance(gap, str) and entry.time is None:
            words = f"gap is a time span ({gap[:80]}), so that rows need time; or give rows."
            raise Problem(422, "bad_field", words, "gap")
        every, X = models_of(model, settings, limits), calls.rows_of(model, entry, names)
        when = _seconds(entry.time or ()) if isinstance(gap, str) else None
        return cls(every, X, entry, names, gap, limits.seconds, when)

    def run(self) -> dict[str, Any]:
        """Return what each setting makes of the rows."""
        until = monotonic() + self.seconds
        found = [self._outcome(*one, until) for one in self.models]
        return {
            "rows": self.entry.count, "gap": self.gap, "settings": described(found, self.gap)
        }  # fmt: skip

    def _outcome(self, name: str, changed: dict[str, Any], model: Any, until: float) -> Outcome:
        alerts, warming = list[Alert](), 0
        try:
            for part in _parts(self.entry.count):
                found = self._learned(model, part, until)
                warming += int(np.count_nonzero(found.warming))
                alerts += self._alerts(found, part.start)
        except REFUSALS as error:
            raise calls.refused(error, field_of(error, "X")) from error
        own = model.estimator if isinstance(model, Fleet) else model
        heard = Heard({}, feedback.promised(own))
        return Outcome(name, changed, own.nu, self.entry.count, warming, alerts, heard=heard)

    def _learned(self, model: Any, part: slice, until: float) -> Judged:
        """Let a model judge some rows."""
        if monotonic() > until:
            words = f"This takes more than {self.seconds:g} seconds here: send fewer rows at once."
            raise busy("timeout", words)
        entry = self.entry
        timed = by_clock(model) and entry.time is not None
        when = entry.time[part] if timed and entry.time is not None else None
        keys = None if entry.keys is None else entry.keys[part]
        return judged(model, self.rows[part], self.names, keys, when)

    def _alerts(self, found: Judged, first: int) -> list[Alert]:
        keys, times = self.entry.keys, self.entry.time
        return [
            Alert(
                first + i, int(found.age[i]), float(found.score[i]), float(found.limit[i]),
                float(np.exp(found.score[i])) if found.tells_p else None,
                None if times is None else times[first + i],
                None if self.when is None else float(self.when[first + i]),
                key=None if keys is None else str(keys[first + i]),
            )
            for i in np.flatnonzero(found.alert).tolist()
        ]  # fmt: skip


def _seconds(times: Sequence[float | str]) -> Array:
    """Return times in seconds, dates without a zone in UTC."""
    try:
        return np.array([t if isinstance(t, (int, float)) else timestamp(t) for t in times], float)
    except ValueError as error:
        words = (
            f"With a gap that is a time span, time is in seconds or as 2026-10-01T12:30; {error}"
        )
        raise Problem(422, "bad_field", words[:2000], "time") from error


def _parts(count: int) -> list[slice]:
    return [slice(start, min(start + STEP, count)) for start in range(0, count, STEP)]


def anew(model: Any, changed: Mapping[str, Any], path: str, memory: int) -> Any:
    """Return a model with the parameters of another, some of them changed; it knows nothing."""
    single = model.estimator if fleets.is_fleet(model) else model
    kind = type(single)
    given = values_of(kind.__name__, changed, path)
    if given.get("columns", single.columns) != single.columns:
        words = (
            "What columns are is the same for all settings: the model's rows are read as it reads "
            "them. Leave columns out; a setting takes all other parameters. To compare other "
            "columns, make a model with them, and let it learn the rows."
        )
        raise Problem(422, "bad_parameters", words, f"{path}.columns")
    try:
        made = kind(**{**single.get_params(deep=False), **given})
        made.check_params()
        return Fleet(made, share=model.share, memory=memory) if single is not model else made
    except REFUSALS as error:
        raise Problem(422, "bad_parameters", str(error)[:2000], path) from error


def named(changed: Mapping[str, Any]) -> str:
    """Return what a setting is called: what it changes.

    Examples
    --------
    >>> named({"nu": 0.001, "kernel": {"name": "laplacian"}})
    'nu 0.001, kernel {"name":"laplacian"}'
    """
    words = [f"{n} {v if isinstance(v, str) else encode(v).decode()}" for n, v in changed.items()]
    return ", ".join(words)[:200] or WAS
