"""Fleet: many models of one setting, by key."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from onkel import files
from onkel.core.cells import has_cells
from onkel.estimators.configured import N_JOBS, threads_of
from onkel.estimators.locks import Locked, locked
from onkel.estimators.packed import packed_by, packed_of
from onkel.files import container
from onkel.fleet import adding, filed, loose, outputs, report, young
from onkel.fleet.bounded import Bounded, bytes_of
from onkel.fleet.calls import Call
from onkel.fleet.cells import cells_of
from onkel.fleet.groups import Key, as_table, check_lengths, key_of, keys_of, rows_in, width_of
from onkel.fleet.keys import Keys
from onkel.fleet.outputs import Verdicts
from onkel.fleet.sharing import Shared, check_shared
from onkel.inputs import RefusedRow
from onkel.saved import Saved

Array = NDArray[Any]


class Fleet(Locked):
    """Many models of one setting, by key: each learns from the rows of its key alone.

    A call brings rows of any keys, in the order in which they came; a key that is new begins with
    a fresh model. The answers are those of a dict of single estimators that are given the same
    rows in the same calls, bit for bit. A call that is refused changes no model.

    Models that the compiled core can hold as cells (``Detector``, and the kernel estimators with a
    window of terms) are learned there, a call for all keys at once, in some microseconds a row.
    Others are estimators in a dict, at a call for each key; `stored_` says which, and why.

    Parameters
    ----------
    estimator : estimator
        What each key's model is, such as ``Detector(nu=0.01)``. It must not have learned anything.
    share : bool
        Whether a key that is new starts from what is usual in the fleet, and departs from it as
        it learns (``Detector`` only): its first rows may be alerts, too, at the promised rate,
        where a detector of its own is silent during its warm-up. When that is over, a key is judged
        by its own detector alone.
    memory : str or int, optional
        Such as "2GB": no more of the models is held in memory between calls. Those of the keys
        that were used longest ago go to a file, and come back as they were when they are needed.
    folder : str, optional
        Where that file is made; None: where temporary files are. Nobody else can see it, and it
        goes with the process.
    n_jobs : int, optional
        Threads that share the keys of a call; -1 for all cores. The answers are the same.

    Examples
    --------
    >>> import numpy as np
    >>> from onkel import Detector
    >>> rng = np.random.default_rng(0)
    >>> keys, X = np.arange(3000) % 3, rng.normal(size=(3000, 2))
    >>> fleet = Fleet(Detector(nu=0.01)).partial_fit(keys, X + 10 * keys[:, None])
    >>> len(fleet), fleet[2].t_
    (3, 1000)
    >>> fleet.predict([0, 2], [[20.0, 20.0], [20.0, 20.0]])
    array([-1,  1])
    """

    def __init__(
        self, estimator: Any, *, share: bool = False, memory: Any = None,
        folder: str | None = None, n_jobs: int | None = None,
    ) -> None:  # fmt: skip
        self.estimator, self.share = estimator, share
        self.memory, self.folder, self.n_jobs = memory, folder, n_jobs
        self._check()
        self._limit = None if memory is None else bytes_of(memory)
        self._keys = Keys()
        self._store: Any = None
        self._touched = np.zeros(0, bool)
        self._total: int | None = 0
        """Rows learned by all keys; None where that must be counted anew."""

    def _check(self) -> None:
        model = self.estimator
        N_JOBS.check("Fleet", "n_jobs", self.n_jobs)
        own = hasattr(model, "predict_then_learn") and not isinstance(model, Fleet)
        if isinstance(model, type) or not own:
            raise TypeError(
                "Fleet: estimator must be one of onkel's, such as Detector(nu=0.01); got "
                f"{model!r:.80}."
            )
        if loose.begun(model):
            raise ValueError(
                "Fleet: each key begins with the estimator as it is, and this one has learned "
                f"{model.t_} rows. Give one that has learned nothing, and fleet[key] = model."
            )
        if not isinstance(self.share, (bool, np.bool_)):
            raise ValueError(f"Fleet: share must be True or False; got {self.share!r}.")
        if self.share:
            check_shared(model)

    plan_ = tally_ = columns = None
    """Rows are numbers, as those who ask an estimator for its table are told."""

    def __sklearn_is_fitted__(self) -> bool:
        """Whether any key has begun to learn."""
        return len(self) > 0

    @property
    def task(self) -> str:
        """What its models do: "novelty", "classification" or "regression"."""
        return str(self.estimator.task)

    @property
    def estimator_(self) -> Any:
        """What a new key begins as: the estimator as it was when the first rows came.

        What ``set_params`` makes of `estimator` later is not that of this fleet.
        """
        return self.estimator if self._store is None else self._store.estimator

    @property
    def stored_(self) -> str | None:
        """How the models are kept: "cells", or "dict" and why; None before the first row."""
        if self._store is None:
            return None
        why = getattr(self._store, "why", None)
        return "cells" if why is None else f"dict, since {why}"

    # -- keys --------------------------------------------------------------------------------------

    def keys(self) -> list[Key]:
        """Return all keys, in the order in which they first came (in the place of one dropped)."""
        return self._keys.all()

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: Any) -> bool:
        return self._keys.number(key) >= 0

    def __iter__(self) -> Iterator[Key]:
        return iter(self.keys())

    @locked
    def __getitem__(self, key: Any) -> Any:
        """Return a copy of a key's model, an ordinary estimator."""
        number = self._known(key)
        return self._store.model(number)

    @locked
    def __setitem__(self, key: Any, model: Any) -> None:
        """Give a key a copy of a model, which must have the fleet's settings."""
        asked, given, name = self.estimator_, model, key_of(key)
        if type(given) is not type(asked) or repr(given) != repr(asked):
            raise ValueError(
                f"Fleet: a key's model must have the fleet's settings, {asked!r}; got {given!r}."
            )
        with self._opened(report.example_of(model)), self._entering([name]) as numbers:
            try:
                self._store.put({int(numbers[0]): model})
            except ValueError as error:
                raise ValueError(f"Fleet: {error}") from None
        self._touch(numbers)
        self._total = None

    def __delitem__(self, key: Any) -> None:
        self.drop(key)

    @locked
    def drop(self, key: Any) -> None:
        """Forget a key and its model."""
        number = self._known(key)
        self._store.forget([number])
        self._keys.remove(number)
        self._total = None
        if number < len(self._touched):
            self._touched[number] = False

    def _entering(self, keys: Any) -> AbstractContextManager[Array]:
        """Give keys numbers; if what follows fails, the new ones and their models are forgotten."""
        return self._keys.entering(keys, self._store.forget)

    def _known(self, key: Any) -> int:
        """Return a key's number; raise a KeyError where there is none."""
        number = self._keys.number(key)
        if number < 0:
            raise KeyError(f"Fleet: no key {key!r}; it has {len(self)} of them.")
        return number

    def _touch(self, numbers: Array) -> None:
        """Note which models have changed."""
        room = self._keys.room
        if len(self._touched) < room:
            self._touched = np.pad(self._touched, (0, 2 * room - len(self._touched)))
        self._touched[numbers] = True

    # -- the store ---------------------------------------------------------------------------------

    def _open(self, X: Any) -> None:
        """Choose how models are kept, by the first rows."""
        if self._store is not None:
            return
        model = copy.copy(self.estimator)
        found = packed_of(model, X)
        if isinstance(found, str):
            self._keep_in(loose.Loose(model, found), width_of(X) if self.share else 0)
        else:
            self._keep_in(cells_of(found, threads_of(self.n_jobs)), found.features)

    @contextmanager
    def _opened(self, X: Any, call: Call | None = None) -> Iterator[None]:
        """Let there be a store; if no key has come by the end, its first rows are still to come."""
        before = self._store
        try:
            self._open(X)
        except RefusedRow as error:
            raise error if call is None else call.refused(error) from None
        try:
            yield
        finally:
            if before is None and not len(self._keys):
                self._store = None

    @locked
    def open_for(self, X: Any) -> None:
        """Choose how models are kept as these rows would, without learning them."""
        self._open(X)

    def _keep_in(self, store: Any, features: int) -> None:
        limit = self._limit
        held = store if limit is None else Bounded(store, limit, self.folder)
        self._store = Shared(held, store.estimator, features) if self.share else held

    @locked
    def hold(self, memory: Any, folder: str | None = None) -> None:
        """Let no more of the models be held in memory from now on; see `memory` and `folder`."""
        self._limit = bytes_of(memory)
        self.memory, self.folder = memory, folder
        shared = self._store if isinstance(self._store, Shared) else None
        held = self._store if shared is None else shared.inner
        if isinstance(held, Bounded):
            held.limit = self._limit
        elif held is not None:
            held = Bounded(held, self._limit, folder)
            held.adopt(np.array(self._keys.taken(), np.int64))
            if shared is None:
                self._store = held
            else:
                shared.inner = held

    # -- learning ----------------------------------------------------------------------------------

    @locked
    def predict_then_learn(
        self, keys: Any, X: Any, y: Any = None, time: Any = None, *, output: str = "prediction",
        sample_weight: Any = None,
    ) -> Any:  # fmt: skip
        """Judge each row before it is learned, by the model of its key.

        Parameters
        ----------
        keys : list or array
            The key of each row: strings, or whole numbers.
        X, y, time, sample_weight
            As the estimator's ``predict_then_learn`` takes them.
        output : str
            As the estimator's. Probabilities have a column for each of ``classes_``; ``"verdict"``
            of detectors has five: score, threshold, 1 for an alert, the rank of the score among
            the key's recent ones, and how many rows the key had learned before.

        Returns
        -------
        array, or tuple of arrays
            In the order of the rows.
        """
        given = {"time": time, "sample_weight": sample_weight}
        return self._learned(self._call(keys, X, output, y, given))

    @locked
    def verdicts(
        self, keys: Any, X: Any, time: Any = None, *, sample_weight: Any = None
    ) -> tuple[Verdicts, Array | None]:
        """Judge each row before it is learned (detectors): all that is known of it at once.

        Returns
        -------
        verdicts : Verdicts
            Arrays with one value per row: ``score``, ``limit`` (the threshold), ``alert``,
            ``rank``, ``age`` (rows that the key had learned before).
        usual : array, [rows][2][features]
            The key's running means and variances before each row; None where none are kept.
        """
        if self.task != "novelty":
            raise ValueError(f"Fleet: verdicts are for detectors; its models do {self.task}.")
        given = {"time": time, "sample_weight": sample_weight}
        call = self._call(keys, X, "verdict", None, given)
        call.tells_usual = True
        score, limit, alert, rank, age = self._learned(call).T
        ages = age.astype(np.int64)
        return Verdicts(score, limit, alert > 0, rank, ages, call.precedents), call.usual

    def _learned(self, call: Call) -> Any:
        try:
            with self._opened(call.X, call), self._entering(call.keys) as numbers:
                call.numbers = numbers
                found = self._store.learn(call)
        except Exception:
            raise
        except BaseException:  # an interrupt is no refusal: models may have learned by then
            known = self._keys.find(call.keys)
            self._touch(known[known >= 0])
            self._total = None
            raise
        self._touch(numbers)
        self._count(call)
        return found

    def _count(self, call: Call) -> None:
        weight = call.how.get("sample_weight")
        if self._total is not None:
            live = len(call) if weight is None else int(np.count_nonzero(np.asarray(weight)))
            self._total += live

    def _call(
        self, keys: Any, X: Any, output: str, y: Any = None, given: dict[str, Any] | None = None
    ) -> Call:
        """Return a checked call, numbers apart."""
        names = keys_of(keys)
        X, y = as_table(X), as_table(y)
        how = {name: as_table(v) for name, v in (given or {}).items() if v is not None}
        check_lengths(rows_in(X), keys=names, y=y, **how)
        outputs.check_output(self.task, output)
        return Call(names, np.zeros(0, np.int64), X, output, y, how)

    def partial_fit(
        self, keys: Any, X: Any, y: Any = None, time: Any = None, *, sample_weight: Any = None
    ) -> Self:
        """Learn rows, each by the model of its key."""
        self.predict_then_learn(keys, X, y, time, sample_weight=sample_weight)
        return self

    @locked
    def learn_one(self, key: Any, row: Any, y: Any = None, time: Any = None) -> Self:
        """Learn one row by the model of its key."""
        number = self._keys.number(key)
        if number < 0 or not self._store.learn_one(number, row, y, time):
            return self._learn_lone(key, row, y, time)
        if number >= len(self._touched):  # the first since it was loaded or copied
            self._touch(np.array([number]))
        self._touched[number] = True
        if self._total is not None:
            self._total += 1
        return self

    def _learn_lone(self, key: Any, row: Any, y: Any, time: Any) -> Self:
        """Learn one row of a key that may be new, or that the core has left."""
        name = key_of(key)
        if self._store is not None and hasattr(self._store, "why") and not self.share:
            with self._entering([name]) as numbers:
                self._store.learn_one(int(numbers[0]), row, y, time)
            self._touch(numbers)
            self._total = None
            return self
        targets = None if y is None else [y]
        return self.partial_fit([name], [row], targets, None if time is None else [time])

    # -- feedback ----------------------------------------------------------------------------------

    @locked
    def feedback(self, key: Any, id: Any, answer: str) -> Self:
        """Say what an alert of a key was, "usual" or "fault": see ``Detector.feedback``.

        Those that a key has raised while it was young (`share`) can be answered, too.
        """
        number = self._known(key)
        if not hasattr(self.estimator, "feedback"):
            raise ValueError(
                f"Fleet: alerts of {type(self.estimator).__name__} cannot be answered; those of "
                "Detector can."
            )
        with loose.told(key, np.zeros(1, np.int64)):
            self._store.answer(number, id, answer)
        self._touch(np.array([number]))
        return self

    # -- predicting --------------------------------------------------------------------------------

    @locked
    def predict(self, keys: Any, X: Any, output: str = "prediction") -> Any:
        """Return what each key's model says of its rows; nothing changes.

        Of a key that is not known nothing is: no alert, NaN for numbers, None for labels.
        """
        call = self._call(keys, X, output)
        with self._opened(call.X, call):
            call.numbers = self._keys.find(call.keys)
            return self._store.look(call)

    def predict_proba(self, keys: Any, X: Any) -> Array:
        """Return probabilities, a column for each of ``classes_``; 0 of a key that is not known."""
        found: Array = self.predict(keys, X, output="probability")
        return found

    @locked
    def predict_one(self, key: Any, row: Any) -> Any:
        """Return what a key's model says of one row."""
        number = self._keys.number(key)
        if self._store is None or (number < 0 and not self.share):
            return copy.copy(self.estimator_).predict_one(row)
        return self._store.look_one(number, row)

    @locked
    def explain(self, key: Any, row: Any, top: int = 5, **how: Any) -> Any:
        """Say why a key's model judges one row as it does; `how` as its own ``explain`` takes it.

        Rows of keys that are young (`share`) are judged beside those of other keys, which is told
        as :class:`~onkel.explain.YoungExplanation`.
        """
        model = self[key]
        found = young.explained(self._store, key, self._known(key), model, row, top)
        return model.explain(row, top, **how) if found is None else found

    # -- reporting ---------------------------------------------------------------------------------

    @property
    @locked
    def classes_(self) -> Array:
        """All classes of all keys, in order."""
        found: Array = np.zeros(0) if self._store is None else self._store.classes()
        return found

    @property
    @locked
    def t_(self) -> int:
        """Number of rows learned by all keys."""
        if self._total is None and self._store is not None:
            self._total = int(self._store.counts(self._keys.taken())["t"].sum())
        return self._total or 0

    @locked
    def rows_by_key(self) -> dict[Key, int]:
        """Return how many rows each key has learned.

        Examples
        --------
        >>> from onkel import Detector
        >>> Fleet(Detector()).partial_fit(["a", "b", "a"], [[1.0], [2.0], [3.0]]).rows_by_key()
        {'a': 2, 'b': 1}
        """
        if self._store is None:
            return {}
        rows = self._store.counts(self._keys.taken())["t"]
        return dict(zip(self.keys(), map(int, rows.tolist()), strict=True))

    @property
    @locked
    def n_terms_(self) -> int:
        """Number of terms stored by all keys."""
        if self._store is None:
            return 0
        return int(self._store.counts(self._keys.taken())["terms"].sum())

    @property
    @locked
    def diagnostics_(self) -> dict[str, Any]:
        """What was promised and what happened, over all keys; of one: fleet[key].diagnostics_."""
        return report.summed(self.estimator_, self._store, self._keys.taken())

    def __repr__(self) -> str:
        names = ("share", "memory", "folder", "n_jobs")
        given = {name: getattr(self, name) for name in names}
        more = "".join(f", {name}={v!r}" for name, v in given.items() if v not in (None, False))
        return f"Fleet({self.estimator!r}{more})"

    @locked
    def usual(self, keys: Any) -> tuple[Array, Array]:
        """Return the running means and spreads of the features of some keys, a row for each."""
        moments = [self[key].moments_ for key in keys_of(keys)]
        return np.array([m.mean for m in moments]), np.array([m.spread() for m in moments])

    # -- files -------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all keys and their models to one file; ``onkel.load`` gives them back.

        Parameters
        ----------
        path : str or path
            A file that is there already is replaced, in one instant.
        """
        files.save(self, path)

    @locked
    def dump(self) -> tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any]]:
        """Return what a file must hold beside the estimator: parameters, form and tensors."""
        numbers, given = np.array(self._keys.taken(), np.int64), {}
        if self.share:
            given["share"] = True
        if self._store is None:
            return given, None, filed.dumped([], numbers, loose.Loose(self.estimator, ""))
        tensors = filed.dumped(self._keys.all(), numbers, self._store)
        return given, self.form(), {**tensors, **self._shared("fleet.shared.")}

    def _shared(self, start: str = "") -> dict[str, Array]:
        """Return what is known of all keys together, by names that begin so."""
        if not isinstance(self._store, Shared):
            return {}
        return {start + name: array for name, array in self._store.dump().items()}

    @classmethod
    def restored(
        cls, estimator: Any, parameters: dict[str, Any], form: dict[str, Any] | None, saved: Saved,
        own: dict[str, Any],
    ) -> Self:  # fmt: skip
        """Return the fleet that a file holds."""
        fleet = cls(estimator, **parameters)
        names = filed.keys_in(saved)
        if form is None and names:
            raise saved.refuse("fleet.form", "is missing")
        if form is not None:
            fleet.open_as(form, own)
        with fleet._keys.entering(names) as numbers:
            if len(fleet._keys) != len(names):
                raise saved.refuse("fleet.texts", "and the other keys must be distinct")
            store = loose.Loose(estimator, "") if fleet._store is None else fleet._store
            filed.restore(saved, numbers, store)
        if isinstance(fleet._store, Shared):
            fleet._store.restore_shared(saved.part("fleet.shared."))
        saved.finish()
        fleet._total = None
        return fleet

    def merged_with(
        self, others: Sequence[Fleet], weights: Any = None, *, refit: bool = True,
        start: Fleet | None = None,
    ) -> Fleet:  # fmt: skip
        """Return a new fleet of this one and others; :func:`onkel.merge` asks for it."""
        fleets = [self, *others]
        adding.check(fleets, weights, start)
        return adding.added(fleets, refit, start, self._like())

    def _like(self) -> Fleet:
        """Return an empty fleet of the same parameters."""
        given = {"share": self.share, "memory": self.memory, "folder": self.folder}
        return Fleet(self.estimator_, n_jobs=self.n_jobs, **given)

    def __getstate__(self) -> dict[str, Any]:
        """Return all of it as a copy: models as records, or as estimators where they are those."""
        with self.still():
            names = ("estimator", "share", "memory", "folder", "n_jobs")
            state: dict[str, Any] = {name: getattr(self, name) for name in names}
            state["estimator"] = self.estimator_
            if self._store is None:
                return state
            keys, numbers = self._keys.all(), self._keys.taken()
            loosely = self.form() == {"kept": "dict", "why": getattr(self._store, "why", None)}
            loosely = loosely and not self.share
            models = [self._store.model(n) for n in numbers] if loosely else None
            records = None if loosely else self._store.records(numbers)
            return {**state, "keys": keys, "form": self.form(), "models": models,
                    "records": records, "shared": self._shared()}  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Become what was copied."""
        keys, form = state.pop("keys", []), state.pop("form", None)
        models, records = state.pop("models", None), state.pop("records", None)
        shared = state.pop("shared", None)
        self.__init__(**state)  # type: ignore[misc]
        if form is None:
            return
        self.open_as(form)
        with self._keys.entering(keys) as numbers:
            if models is not None:
                self._store.put(dict(zip(numbers.tolist(), models, strict=True)))
            else:
                self._store.restore(numbers.tolist(), records)
        if shared:
            self._store.restore_shared(Saved(shared))
        self._total = None

    # -- states, for those who keep them elsewhere -------------------------------------------------

    def form(self) -> dict[str, Any] | None:
        """Return what :meth:`open_as` needs to take this fleet's records; None before any row."""
        if self._store is None:
            return None
        found: dict[str, Any] = self._store.form()
        return {**found, "features": self._store.features} if self.share else found

    @locked
    def open_as(self, form: dict[str, Any], own: dict[str, Any] | None = None) -> None:
        """Let the models be kept as those of another fleet are, whose records are to come."""
        if self._store is not None:
            raise ValueError("Fleet: it has begun already, and its models are kept as they are.")
        held, model = dict(form), copy.copy(self.estimator)
        kept = held.pop("kept", None)
        wide = int(held["features"]) if self.share else 0
        if kept == "dict":
            self._keep_in(loose.Loose(model, str(held.get("why")), own), wide)
        elif kept == "cells":
            packed = packed_by(model, held)
            here = has_cells()
            why = "the compiled core is not here"
            self._keep_in(
                cells_of(packed, threads_of(self.n_jobs)) if here
                else loose.Loose(model, why, own, packed), packed.features
            )  # fmt: skip
        else:
            raise ValueError(f"Fleet: models are kept as 'cells' or 'dict'; got {kept!r}.")

    @locked
    def shared(self) -> bytes:
        """Return what was learned from all keys together, for :meth:`restore_shared`."""
        if not isinstance(self._store, Shared):
            return b""
        return b"".join(container.pack({"kind": "shared"}, self._store.dump()))

    @locked
    def restore_shared(self, data: bytes) -> None:
        """Take over what another fleet with share=True has learned from its keys together."""
        if not isinstance(self._store, Shared):
            raise ValueError("Fleet: there is nothing shared here; see share=True and open_as.")
        _, _, tensors = container.unpack(data)
        self._store.restore_shared(Saved(tensors))

    @locked
    def changed(self) -> list[Key]:
        """Return the keys whose models have changed since this was last asked."""
        found = np.flatnonzero(self._touched)
        self._touched[:] = False
        return [self._keys.key(number) for number in found.tolist()]

    @locked
    def records(self, keys: Any) -> list[bytes]:
        """Return the whole state of some keys' models, as bytes that :meth:`restore` takes."""
        numbers = [self._known(key) for key in keys_of(keys)]
        return list(self._store.records(numbers)) if numbers else []

    @locked
    def restore(self, keys: Any, records: list[bytes]) -> None:
        """Give keys the models that these records hold; refused whole, or taken whole."""
        names = keys_of(keys)
        check_lengths(len(names), records=records)
        if self._store is None:
            raise ValueError(
                "Fleet: how its models are kept is decided by its first rows, or by open_as(form) "
                "with the form of the fleet that the records come from."
            )
        with self._entering(names) as numbers:
            self._store.restore(numbers.tolist(), records)
        self._total = None
