"""Rows of any cells on their way to a model: what their columns are, and rows as it takes them.

The log holds the cells as they came, and with the first ones what their columns are: a restart
encodes them to the same bits, however kinds are found by then.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from onkel.app.http.encoding import encode
from onkel.app.http.problems import Problem
from onkel.app.service import cells
from onkel.app.service.bodies import LONGEST, Entry, names_bytes
from onkel.app.service.limits import Limits
from onkel.columns import Encoded, Plan, Raw, Tally

TEXT = 10_000
"""Characters of a cell with a text; others have as many as a label."""
ENTRY = 200
"""Bytes that the count of a value takes, beside its name."""


def is_mixed(estimator: Any) -> bool:
    """Whether a model's rows have columns of several kinds, by what it was told or has seen."""
    return estimator.columns is not None or estimator.plan_ is not None


def check(estimator: Any, entry: Entry, features: list[str] | None, limits: Limits) -> None:
    """Refuse cells that no model takes, or not this one; say what the columns are of the first.

    A replay does not ask: the limits may have changed.
    """
    if entry.cells is None:
        return
    begun = estimator.__sklearn_is_fitted__()  # asked first: the model may learn meanwhile
    plan = estimator.plan_
    if plan is None:
        if begun:
            raise _takes_no_table(estimator, entry, features)
        plan = planned(estimator, entry, features)
        check_plan(plan, limits)
        entry.plan = encode(plan.to_dict())
    cells.check_room(entry.count, len(plan.outputs), limits)
    kinds = {column.name: column.kind for column in plan.columns}
    for name, column in zip(_names(entry, plan.names), entry.cells, strict=True):
        _check_lengths(name, column, TEXT if kinds.get(name) in ("text", "ignore") else LONGEST)


def check_plan(plan: Plan, limits: Limits) -> None:
    """Refuse columns of which too many features are made."""
    if (width := len(plan.outputs)) > limits.features:
        words = (
            f"These {len(plan.columns)} columns make {width} features, {plan.places} of each text; "
            f"there may be {limits.features}."
        )
        raise Problem(422, "bad_field", words, "X", limit=limits.features)


def _check_lengths(name: str, column: list[Any], most: int) -> None:
    for i, cell in enumerate(column):
        if cell.__class__ is str and len(cell) > most:
            words = f"Row {i}, column {name!r}: a cell has up to {most} characters there."
            raise Problem(422, "bad_field", words, f"X[{i}]", limit=most)


def _takes_no_table(estimator: Any, entry: Entry, features: list[str] | None) -> Problem:
    """Return why a model that knows its rows as numbers alone, or as texts, refuses a table."""
    if not getattr(estimator, "n_features_in_", 1):
        words = "This model has learned texts: a row is one text, and has no columns."
        return Problem(422, "bad_field", words, "X[0]")
    names = features or [f"x{j}" for j in range(len(entry.cells or ()))]
    for name, column in zip(entry.names or names, entry.cells or (), strict=False):
        for i, cell in enumerate(column):
            if cell.__class__ in (str, bool):
                words = (
                    f"Row {i}, column {name!r}: {cell!r:.60} is not a number, and this model has "
                    "learned numbers alone. A new one finds from its first rows what columns are."
                )
                place = f"[{names.index(name)}]" if name in names else ""
                return Problem(422, "bad_field", words, f"X[{i}]{place}")
    words = "Rows by name need a model that was made with features=[...], or has learned such."
    return Problem(422, "bad_field", words, "X[0]")


def planned(estimator: Any, entry: Entry, features: list[str] | None) -> Plan:
    """Return what the columns of the first rows are, as far as they or the model's maker tell."""
    raw = _raw(entry, features or entry.names)
    try:
        plan: Plan = estimator.plan_of(raw)
    except ValueError as error:
        raise Problem(422, "refused", str(error)[:2000], "X") from error
    for column in plan.of("time"):
        if column.format is None:
            words = (
                f"Column {column.name!r} is for times, and these rows hold none there, by which "
                "to see how they are written. Begin with rows that do."
            )
            raise Problem(422, "bad_field", words, "X")
    return plan


def rows_of(estimator: Any, entry: Entry, features: list[str] | None) -> Any:
    """Return rows as the estimators take them."""
    plan = estimator.plan_
    if entry.cells is None:
        return entry.rows() if plan is None or entry.texts else plan.encode(_late(entry, plan))
    if plan is None:
        if estimator.__sklearn_is_fitted__():
            raise _takes_no_table(estimator, entry, features)
        known = entry.plan and Plan.from_dict(msgspec.json.decode(entry.plan))
        plan = known or planned(estimator, entry, features)
    _names(entry, plan.names)
    return plan.encode(_raw(entry, entry.names or plan.names))


def row_of(estimator: Any, entry: Entry, at: int = 0) -> Any:
    """Return one row as it came, as an estimator explains it."""
    plan = estimator.plan_
    if plan is None and entry.cells is not None:
        raise _takes_no_table(estimator, entry, None)
    if plan is None or entry.texts:
        return entry.rows()[at]
    if entry.cells is None:
        names, columns = plan.names, _late(entry, plan).columns
    else:
        names, columns = _names(entry, plan.names), entry.cells
    return dict(zip(names, [column[at] for column in columns], strict=True))


def _late(entry: Entry, plan: Plan) -> Raw:
    """Return numbers as a table: they were read before the model had begun with other rows."""
    columns = [[None if x != x else x for x in column] for column in entry.rows().T.tolist()]
    _check_count(columns, plan.names)
    return Raw(plan.names, columns, entry.count)


def _raw(entry: Entry, names: list[str] | None) -> Raw:
    """Return the table of a record; `names` are all columns, those of a list in their order."""
    columns = entry.cells or []
    rows = entry.count
    if entry.names is not None:
        held = dict(zip(entry.names, columns, strict=True))
        names = names or entry.names
        return Raw(names, [held.get(n) or [None] * rows for n in names], rows, loose=True)
    names = names or [f"x{j}" for j in range(len(columns))]
    _check_count(columns, names)
    return Raw(names, columns, rows)


def _names(entry: Entry, names: list[str]) -> list[str]:
    """Return the names of a record's columns, which must be among the model's."""
    if entry.names is None:
        _check_count(entry.cells or [], names)
        return names
    known = set(names)
    strange = [name for name in entry.names if name not in known]
    if strange:
        words = (
            f"This model has no column {_listed(strange)}. It has {_listed(names)}; null, or "
            "leaving a column out, is a gap."
        )
        raise Problem(422, "bad_field", words, "X")
    return entry.names


def _check_count(columns: list[Any], names: list[str]) -> None:
    if len(columns) != len(names):
        words = f"A row has {len(columns)} cells; this model has {len(names)}: {_listed(names)}."
        raise Problem(422, "bad_field", words, "X")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(f"{name[:80]!r}" for name in names[:10]) + more


# -- what is shown and counted ---------------------------------------------------------------------


def shown(plan: Plan | None) -> dict[str, Any] | None:
    """Return what each column is, and why one is ignored; None where all are numbers."""
    if plan is None:
        return None
    return {
        c.name: {"kind": c.kind, "why": c.why} if c.why else {"kind": c.kind} for c in plan.columns
    }


def drawn(rows: Any, features: list[str] | None) -> tuple[Any, list[str] | None]:
    """Return the numbers whose drift is watched, and their names; None for texts."""
    if not isinstance(rows, Encoded):
        return None if isinstance(rows, list) else rows, features
    names = [c.name for c in rows.plan.of("number")]
    return (rows.X[:, rows.plan.plain] if names else None), names


def tally_bytes(tally: Tally | None) -> int:
    """Return about how much memory the counts of values take, with the names of those."""
    if tally is None:
        return 0
    names = sum(names_bytes(texts.values()) for texts in tally.names.values())
    return names + ENTRY * sum(map(len, tally.counts.values())) + names_bytes(tally.plan.names)


def texts_of(estimator: Any) -> Iterable[str]:
    """Return every text that a model keeps of its columns."""
    tally = estimator.tally_
    return [] if tally is None else [t for some in tally.names.values() for t in some.values()]
