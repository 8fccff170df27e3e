"""Late: an estimator whose labels come late."""

from __future__ import annotations

import copy
import math
import os
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onkel import clock, files, inputs
from onkel.columns import Encoded, Plan, Raw
from onkel.estimators import inside
from onkel.estimators.base import Estimator
from onkel.estimators.locks import Locked, locked
from onkel.judge import named, tells_interval
from onkel.late import filed
from onkel.late.asking import SHARE, Asking
from onkel.late.looking import Answered, Looked, Said, look, nothing_known, said_blindly
from onkel.late.scores import Scores
from onkel.late.shelf import Shelf
from onkel.late.waiting import Row, ids_of, no_such
from onkel.params import Accept
from onkel.saved import Saved

Array = NDArray[Any]

KEEP = Accept(low=1, high=2**31, whole=True, hint="It is a number of rows, for example 100_000.")
WITHIN = Accept(low=1, high=0, none=True, duration=True)
UNKNOWN = ("error", "skip")


class Late(Locked):
    """An estimator whose labels come late: rows wait under ids until they are answered.

    ``predict`` says what the estimator thinks of rows now, keeps them, and returns their ids.
    ``learn`` takes ids and labels, in any order, weeks later: the rows are learned as they were,
    in the order of the call, and each label is scored against what had been said at the time.
    A call that is refused changes nothing.

    Parameters
    ----------
    estimator : estimator
        A classifier or a regressor of onkel's; one that has learned already goes on.
    keep : int
        So many rows wait at most; when one more comes, the oldest expires.
    within : str or timedelta, optional
        A row expires when it has waited longer than this, such as "30d"; then both methods must be
        told the ``time``.
    ask : float, optional
        The share of the rows whose labels are asked for, such as 0.02: those whose answer would
        teach most. Of a classifier these are rows whose two likeliest classes are close; of a
        ``Regressor`` those whose members disagree most, measured by the interval; of other
        regressors those with the widest intervals. See :class:`~onkel.late.Asking`.

    Examples
    --------
    >>> import numpy as np
    >>> from onkel import Regressor
    >>> X = np.random.default_rng(0).uniform(size=(400, 1))
    >>> late = Late(Regressor())
    >>> for start in range(0, 400, 100):
    ...     said = late.predict(X[start : start + 100])
    ...     answered = late.learn(said.ids, 3 * X[start : start + 100, 0])
    >>> late.diagnostics_["mean_absolute_error"] < 0.6, late.diagnostics_["delay_rows_most"]
    (True, 99)
    """

    def __init__(
        self, estimator: Any, keep: int = 100_000, within: Any = None, ask: float | None = None
    ) -> None:
        self.estimator, self.keep, self.within, self.ask = estimator, keep, within, ask
        self._check()
        self._limit = math.inf if within is None else clock.seconds(within) or math.inf
        self._by_clock = bool(estimator.forgets_by_clock())  # asked once: mixtures take their time
        self._waiting: OrderedDict[str, Row] = OrderedDict()
        """By id, in the order in which they came; of a dict the first one takes long to find."""
        self._shelf = Shelf()
        self._scores = Scores()
        self._asking = None if ask is None else Asking(ask)
        self._count = self._expired = self._skipped = 0
        self._oldest = 0
        """All rows before this number are answered or expired, for messages."""
        self._now: float | None = None
        self._own: bool | None = None
        """Whether ids are the user's; decided by the first call."""
        self._names: list[str] | None = None
        self._flat = True

    def _check(self) -> None:
        model = self.estimator
        fits = isinstance(model, Estimator) and model.task in ("classification", "regression")
        if not fits:
            raise TypeError(
                "Late: estimator must be a classifier or a regressor of onkel's, such as "
                f"Classifier(); got {model!r:.80}."
            )
        self.keep = KEEP.check("Late", "keep", self.keep)
        WITHIN.check("Late", "within", self.within)
        SHARE.check("Late", "ask", self.ask)
        if self.ask is not None and model.task == "regression" and not tells_interval(model):
            raise ValueError(
                "Late: ask takes the rows with the widest intervals, and this "
                f"{type(model).__name__} has none. Use Regressor(), or a loss with nu=, such as "
                "losses.Huber(nu=0.1)."
            )

    # -- what it is ----------------------------------------------------------------------------

    def __repr__(self) -> str:
        given = {"keep": self.keep, "within": self.within, "ask": self.ask}
        more = "".join(f", {name}={v!r}" for name, v in given.items() if v is not None)
        return f"Late({self.estimator!r}{more})"

    def __len__(self) -> int:
        """How many rows wait."""
        return len(self._waiting)

    def __bool__(self) -> bool:
        """It is there, however few rows wait."""
        return True

    def __contains__(self, id: Any) -> bool:
        """Whether a row waits under this id."""
        return str(id) in self._waiting

    def waiting(self) -> list[str]:
        """Return the ids of the rows that wait, oldest first."""
        return [*self._waiting]

    def waits(self, id: Any, time: float | None = None) -> bool:
        """Whether a row will still wait under this id at a time, in seconds."""
        row = self._waiting.get(str(id))
        return row is not None and (time is None or not time - row.time > self._limit)

    def counts(self) -> dict[str, int]:
        """Return how many labels came, and how many rows wait, expired and were asked for."""
        asked = 0 if self._asking is None else self._asking.asked
        found = (self._scores.answered, len(self), self._expired, asked)
        return dict(zip(("answered", "waiting", "expired", "asked"), found, strict=True))

    def __sklearn_is_fitted__(self) -> bool:
        """Whether the estimator has begun to learn."""
        return bool(self.estimator.__sklearn_is_fitted__())

    @property
    def task(self) -> str:
        """What the estimator is for: "classification" or "regression"."""
        return str(self.estimator.task)

    @property
    def t_(self) -> int:
        """Number of examples learned."""
        return int(self.estimator.t_) if self.__sklearn_is_fitted__() else 0

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that wait, about."""
        return self._shelf.nbytes + ROW_BYTES * len(self)

    @property
    def columns(self) -> Any:
        """What the estimator was told of its columns."""
        return self.estimator.columns

    @property
    def plan_(self) -> Plan | None:
        """What each column is, by what was learned or is kept; None where all are numbers."""
        found: Plan | None = self.estimator.plan_
        return self._shelf.plan if found is None else found

    def plan_of(self, raw: Raw, late: bool = False) -> Plan:
        """Return what the columns would be if these were the first rows."""
        found: Plan = self.estimator.plan_of(raw, late)
        return found

    @property
    def clock(self) -> float | None:
        """The latest time that was told, in seconds; None before any."""
        return self._now

    # -- predicting ----------------------------------------------------------------------------

    @locked
    def predict(self, X: Any, time: Any = None, ids: Any = None) -> Said:
        """Say what the estimator thinks of rows, and keep them until their labels come.

        Parameters
        ----------
        X : rows
            As the estimator takes them. Before anything is learned, the first call tells what
            the columns are.
        time : number, date or array, optional
            When they came: one for all, or one per row; needed with ``within=``.
        ids : list, optional
            The rows' own ids, texts or whole numbers, none of which waits already. Else they are
            numbered from 0. The first call decides which of the two it is.
        """
        rows = self._rows(X)
        count = len(rows)
        times = self._times(time, count, "predict")
        names = self._ids(ids, count)
        looked = self._look(rows)
        asking = None if self._asking is None else self._asking.copy()
        asked = np.zeros(count, bool)
        if asking is not None:
            asked = asking.update(looked.doubt, looked.known)
        self._keep_rows(names, rows, times, looked, asked)
        if self.task == "regression" and looked.told is not None:
            self._flat = looked.prediction.ndim == 1
        self._asking, self._own = asking, ids is not None if count else self._own
        if self._names is None and not isinstance(rows, (list, Encoded)):
            found = inputs.feature_names(X)
            self._names = None if found is None else [*found]
        return Said(names, looked.prediction, looked.probability, looked.interval, asked)

    def _rows(self, X: Any) -> Any:
        """Return rows as they will be learned, checked."""
        names, known = inputs.feature_names(X), self._names
        found = None if names is None or self.__sklearn_is_fitted__() else [*names]
        if found is not None and known is not None and found != known:
            raise ValueError(
                "Late: the feature names should be those of the first rows. Those had "
                f"{known}, got {found}."
            )
        rows = inside.rows_to_learn(self.estimator, inputs.on_host(X), self._shelf.plan)
        return self._shelf.fitting(rows, "Late")

    def check_first(self, rows: Any) -> None:
        """Refuse rows that the estimator is to learn first, where those kept have other columns."""
        if not self.__sklearn_is_fitted__():
            self._shelf.check_width(rows, "Late")

    def _ids(self, ids: Any, count: int) -> list[str]:
        own = ids is not None
        if count and self._own is not None and own != self._own:
            words = "were given" if self._own else "were numbers"
            raise ValueError(
                f"Late: the ids of the first rows {words}, and so must those of these rows be. "
                "Give ids= in all calls, or in none."
            )
        if not own:
            return [str(self._count + i) for i in range(count)]
        return ids_of(ids, count)

    def _times(self, time: Any, count: int, call: str) -> Array:
        """Return times in seconds, checked; NaN where none were told."""
        if time is None:
            if self.within is not None:
                raise ValueError(
                    f"Late: within={self.within!r} goes by the clock: give {call} time=, one for "
                    "all rows or one per row."
                )
            return np.full(count, np.nan)
        single = isinstance(time, (str, bytes)) or np.ndim(time) == 0
        times = clock.times_of([time] * count if single else time, count)
        clock.check_order(times, self._now)
        return times

    def _look(self, rows: Any) -> Looked:
        """Return what is said of rows, and how much their labels would teach."""
        if not len(rows) or not self.__sklearn_is_fitted__():
            return nothing_known(self.estimator, len(rows))
        return look(self.estimator, self._seen(rows), self._asking is not None)

    def _seen(self, rows: Any) -> Any:
        """Return rows as the estimator takes them: with names in its first call."""
        return rows if isinstance(rows, list) else named(self.estimator, rows, self._names)

    # -- keeping -------------------------------------------------------------------------------

    def _keep_rows(
        self, ids: list[str], rows: Any, times: Array, looked: Looked, ask: Array
    ) -> None:
        """Keep rows, one after another; the oldest expire on the way. All of it, or nothing."""
        gone: list[Row] = []
        shelf = self._shelf
        begun, spoken = shelf.rows is not None, shelf.told is not None
        at_once = max(len(ids) - self.keep, 0)  # these expire within the call: they need no room
        places = [NOWHERE] * at_once + self._laid_down(rows, looked.told, at_once)
        each = zip(ids, times.tolist(), ask.tolist(), looked.labels, places, strict=True)
        try:
            for i, (id, time, asked, label, place) in enumerate(each):
                gone += self._too_old(time)
                if id in self._waiting:
                    raise ValueError(
                        f"Late: a row waits under the id {id!r} already (row {i} of this call). "
                        "Give each row an id of its own, or answer the earlier one first."
                    )
                self._waiting[id] = Row(id, self._count + i, time, asked, label, place)
                if len(self._waiting) > self.keep:
                    gone.append(self._waiting.popitem(last=False)[1])
        except ValueError:
            old = [row for row in self._waiting.values() if row.number < self._count]
            old = [*(row for row in gone if row.number < self._count), *old]
            self._waiting = OrderedDict((row.id, row) for row in old)
            shelf.drop(places[at_once:])
            shelf.told = shelf.told if spoken else None
            self._shelf = shelf if begun else Shelf()
            raise
        self._count += len(ids)
        self._let_go(gone)
        self._move(times)

    def _laid_down(self, rows: Any, told: Array | None, start: int) -> list[int]:
        """Lay rows down from one of them on; return their places."""
        if not len(rows):
            return []
        return self._shelf.put(rows[start:], None if told is None else told[start:])

    @locked
    def expire(self, time: Any) -> int:
        """Let rows go that have waited too long by a time; return how many.

        Every call that tells the time does so; this is for who has nothing else to tell.
        """
        times = self._times(time, 1, "expire")
        gone = [*self._too_old(float(times[0]))]
        self._let_go(gone)
        self._move(times)
        return len(gone)

    def _too_old(self, time: float) -> Iterator[Row]:
        """Take out the rows that have waited too long by then."""
        while self._waiting:
            row = next(iter(self._waiting.values()))
            if not time - row.time > self._limit:
                return
            yield self._waiting.pop(row.id)

    def _let_go(self, gone: list[Row]) -> None:
        """Count rows as expired, and free their places."""
        self._expired += len(gone)
        self._shelf.drop([row.place for row in gone if row.place != NOWHERE])
        self._oldest = max([self._oldest, *(row.number + 1 for row in gone)])

    def _move(self, times: Array) -> None:
        """Move the clock on."""
        if len(times) and not np.isnan(times[-1]):
            self._now = float(times[-1])

    # -- learning ------------------------------------------------------------------------------

    @locked
    def learn(
        self, ids: Any, y: Any, time: Any = None, *, sample_weight: Any = None,
        unknown: str = "error",
    ) -> Answered:  # fmt: skip
        """Learn rows that wait, now that their labels came, in the order given.

        Parameters
        ----------
        ids : list
            Of rows that wait, in any order.
        y : array
            Their labels or targets, one per id.
        time : number, date or array, optional
            When the labels came; needed with ``within=``, and where the estimator forgets by the
            clock: to it, rows come now.
        sample_weight : array, optional
            One per id.
        unknown : {"error", "skip"}
            What happens to the call if an id does not wait: it is refused whole, or those ids are
            left out and counted.

        Returns
        -------
        Answered
            What had been said of the rows that were learned.
        """
        if unknown not in UNKNOWN:
            raise ValueError(f"Late: unknown must be one of {list(UNKNOWN)}; got {unknown!r}.")
        names = ids_of(ids, None)
        times = self._times(time, len(names), "learn")
        at = self._found(names, times, unknown == "skip")
        y = self._targets(y, len(names))
        weight = inputs.weights_of(sample_weight, len(names))[at]
        found = [self._waiting[names[i]] for i in at]
        if found:
            how: dict[str, Any] = {} if sample_weight is None else {"sample_weight": weight}
            if self._by_clock:
                how["time"] = times[at] if time is not None else None
            X = self._seen(self._shelf.rows_at([row.place for row in found]))
            self.estimator.partial_fit(X, y[at], **how)
        answered = self._answered(found, times[at])
        if found:
            self._score(found, answered, y[at])
        self._finish(found, times, len(names) - len(at))
        return answered

    def _targets(self, y: Any, count: int) -> Array:
        """Return checked targets."""
        if self.task == "classification":
            found = inside.labels_of(self.estimator, y)
        else:
            found, flat = inside.targets_of(self.estimator, y)
            found = found[:, 0] if flat else found
        if len(found) != count:
            raise ValueError(f"Late: y must have one value per id; got {len(found)} for {count}.")
        return found

    def _found(self, names: list[str], times: Array, skip: bool) -> list[int]:
        """Return the places of the ids that wait; raise for the first that does not."""
        found, seen = [], set[str]()
        for i, (name, time) in enumerate(zip(names, times.tolist(), strict=True)):
            if self.waits(name, time) and name not in seen:
                seen.add(name)
                found.append(i)
            elif not skip:
                raise no_such(name, i, name in seen, self._why_gone(name, time))
        return found

    def _why_gone(self, name: str, time: float) -> str:
        """Return why no row waits under an id, as far as that is known."""
        row = self._waiting.get(name)
        if row is not None:
            return f"it has waited {time - row.time:g} s, longer than within={self.within!r}"
        number = int(name) if not self._own and name.isascii() and name.isdecimal() else None
        if number is None:
            return "it was never given to predict, is answered already, or has expired"
        if number >= self._count:
            return f"it was never given: {self._count} rows have come"
        if number >= self._oldest:
            return "it is answered already"
        return "it is answered already, or has expired"

    def _answered(self, found: list[Row], times: Array) -> Answered:
        wide = 1
        if self.task == "regression":
            outputs = self.estimator.n_outputs_ if self.__sklearn_is_fitted__() else 1
            wide = outputs * (3 if tells_interval(self.estimator) else 1)
        told = self._shelf.told_at([row.place for row in found], wide)
        rows = np.array([self._count - 1 - row.number for row in found], np.int64)
        seconds = times - np.array([row.time for row in found], float)
        ids = [row.id for row in found]
        if self.task == "classification":
            labels = np.empty(len(found), object)
            labels[:] = [row.label for row in found]
            return Answered(ids, labels, told[:, 0], None, rows, seconds)
        values: Array = told
        interval: Array | None = None
        if tells_interval(self.estimator):
            values, low, high = np.split(told, 3, axis=1)
            interval = np.stack([self._shaped(low), self._shaped(high)], axis=-1)
        return Answered(ids, self._shaped(values), None, interval, rows, seconds)

    def _shaped(self, values: Array) -> Array:
        return values[:, 0] if self._flat and values.shape[1] == 1 else values

    def _score(self, found: list[Row], answered: Answered, y: Array) -> None:
        """Count labels against what had been said."""
        blind = said_blindly(answered)
        scores = replace(self._scores)
        each = zip(found, answered.rows.tolist(), answered.seconds.tolist(), blind, strict=True)
        for row, rows, seconds, unseen in each:
            scores.wait(rows, seconds, row.asked, unseen)
        if self.task == "classification":
            for row, label in zip(found, y.tolist(), strict=True):
                scores.label(row.label, label)
        else:
            self._score_numbers(scores, answered, y.reshape(len(y), -1), blind)
        self._scores = scores

    def _score_numbers(
        self, scores: Scores, answered: Answered, y: Array, blind: list[bool]
    ) -> None:
        values = answered.prediction.reshape(len(y), -1).tolist()
        for said, target in zip(values, y.tolist(), strict=True):
            scores.number(said, target)
        if answered.interval is None:
            return
        ends = answered.interval.reshape(len(y), -1, 2).tolist()
        for pairs, target, unseen in zip(ends, y.tolist(), blind, strict=True):
            if not unseen:
                scores.interval([p[0] for p in pairs], [p[1] for p in pairs], target)

    def _finish(self, found: list[Row], times: Array, skipped: int) -> None:
        """Take out rows that were learned, and those that have waited too long by now."""
        for row in found:
            del self._waiting[row.id]
        self._shelf.drop([row.place for row in found])
        self._skipped += skipped
        if len(times) and not np.isnan(times[-1]):
            self._let_go([*self._too_old(float(times[-1]))])
        self._move(times)

    # -- reporting -----------------------------------------------------------------------------

    @property
    @locked
    def diagnostics_(self) -> dict[str, Any]:
        """What waits, what came of predictions, what was promised; `model` is the estimator's."""
        fitted = self.__sklearn_is_fitted__()
        return {**self.report(), "model": self.estimator.diagnostics_ if fitted else None}

    @locked
    def report(self) -> dict[str, Any]:
        """Return `diagnostics_` without the estimator's own."""
        found: dict[str, Any] = {
            "predicted": self._count, "waiting": len(self), "keep": self.keep,
            "within": self.within if self.within is None else clock.seconds(self.within),
            "expired": self._expired, "skipped": self._skipped,
            "bytes": self.nbytes,
            **self._scores.report(self.task),
        }  # fmt: skip
        if self._asking is not None:
            found |= {**self._asking.report(), "asked_answered": self._scores.asked}
        return found

    # -- copies and files ----------------------------------------------------------------------

    def __getstate__(self) -> dict[str, Any]:
        """Return a copy of all that calls change."""
        with self.still():
            state = self.__dict__.copy()
            state["estimator"] = copy.copy(self.estimator)
            state["_waiting"] = self._waiting.copy()
            state["_shelf"] = self._shelf.copy()
            state["_scores"] = replace(self._scores)
            state["_asking"] = None if self._asking is None else self._asking.copy()
        return state

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write estimator and rows to a file; ``onkel.load(path)`` gives them back."""
        files.save(self, path)

    @locked
    def dump(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return what a file must hold beside the estimator: parameters and state."""
        parameters = {"keep": self.keep, "within": self.within, "ask": self.ask}
        rows = [*self._waiting.values()]
        state: dict[str, Any] = {
            "count": self._count, "expired": self._expired, "skipped": self._skipped,
            "oldest": self._oldest, "now": self._now, "own": self._own, "names": self._names,
            "flat": self._flat, "scores": self._scores.dump(), "waiting": filed.dumped(rows),
            "shelf": self._shelf.dump([row.place for row in rows]),
        }  # fmt: skip
        if self._asking is not None:
            state["asking"] = self._asking.dump()
        return parameters, state

    @classmethod
    def restored(cls, estimator: Any, parameters: dict[str, Any], saved: Saved) -> Self:
        """Return what a file holds."""
        late = cls(estimator, **parameters)
        late.restore(saved)
        return late

    def restore(self, saved: Saved) -> None:
        """Become what a file holds."""
        self._count = saved.whole("count")
        self._expired, self._skipped = saved.whole("expired"), saved.whole("skipped")
        self._oldest, self._now = saved.whole("oldest"), saved.maybe("now")
        self._own, self._flat = filed.flag_or_none(saved, "own"), saved.flag("flat")
        self._names = filed.names_in(saved)
        self._scores = Scores.restored(saved.inside("scores"))
        rows = filed.rows_in(saved.inside("waiting"), self._count, self.keep)
        self._waiting = OrderedDict((row.id, row) for row in rows)
        if len(self._waiting) < len(rows):
            raise saved.refuse("waiting.letters", "must be distinct ids")
        self._shelf = Shelf.restored(saved.inside("shelf"), len(rows), self._wide(self.estimator))
        if self._asking is not None:
            self._asking = Asking.restored(self._asking.share, saved.inside("asking"))
        saved.finish()
        if rows:
            self._check_rows(saved)

    @staticmethod
    def _wide(estimator: Any) -> int | None:
        """Return how many numbers were said of a row; None where nothing was."""
        if estimator.task == "classification":
            return 1
        if not estimator.__sklearn_is_fitted__():
            return None
        return int(estimator.n_outputs_) * (3 if tells_interval(estimator) else 1)

    def _check_rows(self, saved: Saved) -> None:
        """Refuse rows that the estimator could not learn."""
        rows = self._shelf.rows_at([row.place for row in self._waiting.values()])
        texts = inside.takes_texts(self.estimator)
        if isinstance(rows, list) != texts:
            raise saved.refuse("shelf", "must hold rows as the estimator takes them")
        inside.rows_to_learn(self.estimator, rows, self._shelf.plan)


NOWHERE = -1
"""The place of a row that is not laid down."""
ROW_BYTES = 400
"""What a row that waits takes beside its numbers, about: its id, and what was said."""
