"""What the columns of a table did, as people say it: categories, texts and times by their names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.columns import Encoded, Tally, weeks, words
from onkel.columns.plan import GAPS, Plan
from onkel.explain.outcome import Feature, Term
from onkel.explain.shown import Made

Array = NDArray[Any]

SHOWN = 3
"""So many usual values are named, and so many new words."""
USUAL = 0.01
"""What comes in this share of the rows is usual."""
RARE = 0.05
"""A value in fewer of the rows than this may be named as the reason of an alert."""
FREQUENT = 200
"""So many values of a column tell what is typical of it."""


def made_of(tally: Tally, width: int) -> Made | None:
    """Return what a learner's features were made of; None where each is of its own column."""
    plan = tally.plan
    if width != len(plan.outputs):
        return None
    numbers = {name: i for i, name in enumerate(dict.fromkeys(plan.owners))}
    owners = np.array([numbers[name] for name in plan.owners])
    return Made(owners, *_frequent(tally))


def _frequent(tally: Tally) -> tuple[Array, Array]:
    """Return the most frequent codes of each column of codes, and their shares of the rows."""
    plan = tally.plan
    columns = [tally.counts[name] for name in plan.counted]
    for counts in tally.weeks.values():
        columns.append(dict(enumerate(counts.reshape(7, 24).sum(axis=0).tolist(), 1)))
    for name in plan.texts:
        columns += _by_place(tally, name)
    codes, shares = np.zeros((2, FREQUENT, len(columns)))
    for j, counted in enumerate(columns):
        first = sorted(counted.items(), key=lambda pair: (-pair[1], pair[0]))[:FREQUENT]
        if first:
            codes[: len(first), j], shares[: len(first), j] = np.array(first).T
    return codes, shares / max(tally.rows, 1.0)


def _by_place(tally: Tally, name: str) -> list[dict[int, float]]:
    """Return how often each word came, by the place where it stands."""
    places = tally.plan.places
    found: list[dict[int, float]] = [{} for _ in range(places)]
    for code, word in tally.names[name].items():
        if code:
            found[words.place_of(word, places)[0]][code] = tally.counts[name][code]
    return found


def told(features: Sequence[Feature], row: Encoded, tally: Tally) -> tuple[Feature, ...]:
    """Return what the columns did in words."""
    return tuple(map(_Words(row, tally), features))


def terms_told(terms: Sequence[Term], tally: Tally) -> tuple[Term, ...]:
    """Return stored rows by the table's columns, where they hold what was made of those."""
    plan = tally.plan
    whole = [len(term.values or ()) == len(plan.outputs) for term in terms]
    return tuple(
        replace(term, values=_row_of(np.array(term.values, float), tally)) if fits else term
        for term, fits in zip(terms, whole, strict=True)
    )


def _row_of(x: Any, tally: Tally) -> tuple[Any, ...]:
    """Return a stored row as it came; of a text there are the words whose names are known."""
    plan = tally.plan
    found: list[Any] = []
    for column in plan.columns:
        name = column.name
        if name in plan.counted:
            code = int(x[plan.counted.index(name)])
            found.append(tally.names[name].get(code, "?") or None)
        elif name in plan.texts:
            at = plan.owners.index(name)
            codes = [int(c) for c in x[at : at + plan.places] if c]
            found.append(" ".join(tally.names[name].get(c, "?") for c in codes))
        elif name in plan.weekdays:
            at = plan.weekdays[name]
            found.append(weeks.said(float(weeks.hours_of(x[at], x[at + 1]))))
        elif column.kind == "number":
            found.append(float(x[plan.outputs.index(name)]))
    return tuple(found)


class _Words:
    """Says of each column of one row what it holds, and what was usual."""

    def __init__(self, row: Encoded, tally: Tally) -> None:
        self.row, self.tally, self.plan = row, tally, row.plan
        self.x = row.X[0]

    def __call__(self, feature: Feature) -> Feature:
        name, plan = feature.name, self.plan
        if name in plan.counted:
            return self._category(feature)
        if name in plan.texts:
            return self._text(feature)
        if name in plan.weekdays:
            return self._time(feature)
        return feature

    def _category(self, feature: Feature) -> Feature:
        name = feature.name
        code = int(self.x[self.plan.counted.index(name)])
        text = self.row.names[name].get(code, "")
        seen = self.tally.counts[name].get(code, 0.0)
        rare = self._outside(name, code, seen < RARE * self.tally.rows)
        if name == GAPS:
            value = f"{text} missing" if text else "no number missing"
            said = f"{value}, {self._seen(name, seen)}"
            return replace(feature, value=text, usual=None, said=said, outside=rare)
        said = f"{name} {text or 'missing'}, {self._seen(name, seen)}"
        first = self.tally.usual(name, SHOWN)
        others = [(t, share) for t, share in first if t != text and share >= USUAL]
        if others and rare:
            usual = ", ".join(f"{t or 'missing'} {_percent(share)}" for t, share in others)
            said += f" ({usual})"
        return replace(feature, value=text or None, usual=None, said=said, outside=rare)

    def _outside(self, name: str, code: int, rare: bool) -> bool:
        """Whether a value may be named as a reason, after what answers have said of it."""
        tally = self.tally
        usual = tally.said.of(tally.rare_columns.index(name), code, tally.came)
        return rare if usual is None else not usual

    def _seen(self, name: str, count: float) -> str:
        """Return how often a value came; of very many values the rarest are not kept."""
        rows = f"{round(self.tally.rows):,} rows".replace(",", " ")
        never = "never" if count == 0 and self.tally.knows_all(name) else "hardly ever"
        return f"{f'seen {_times(count)}' if count >= 0.5 else f'{never} seen'} in {rows}"

    def _text(self, feature: Feature) -> Feature:
        name = feature.name
        seen = self.tally.counts[name]
        texts = self.row.names[name]  # of other rows too, where this one stood in a block
        least = USUAL * self.tally.rows
        each = sorted((seen.get(c, 0.0), texts[c], c) for c in self._words(name))
        rare = [repr(text) for n, text, c in each if self._outside(name, c, n < least)][:SHOWN]
        said = f"{name} with the rare words {', '.join(rare)}" if rare else f"the words of {name}"
        if not each:
            said = f"{name} without a word, {self._seen(name, seen.get(0, 0.0))}"
        few = seen.get(0, 0.0) < RARE * self.tally.rows
        empty = not each and self._outside(name, 0, few)
        return replace(feature, value=None, usual=None, said=said, outside=bool(rare) or empty)

    def _words(self, name: str) -> set[int]:
        """Return the codes of the words that this row has in a text."""
        at = self.plan.owners.index(name)
        return {int(code) for code in self.x[at : at + self.plan.places] if code}

    def _time(self, feature: Feature) -> Feature:
        name, at = feature.name, self.plan.weekdays[feature.name]
        if np.isnan(self.x[at]):
            missing = self.tally.rows - float(self.tally.weeks[name].sum())
            few = missing < RARE * self.tally.rows
            return replace(feature, value=None, usual=None, said=f"{name} missing", outside=few)
        hour, counts = float(weeks.hours_of(self.x[at], self.x[at + 1])), self.tally.weeks[name]
        usual = "" if weeks.is_usual(counts, hour) else weeks.usual(counts)
        said = f"{name} {weeks.said(hour)}" + (f" where {usual} was usual" if usual else "")
        value = weeks.said(hour)
        outside = self._outside(name, int(hour), bool(usual))
        return replace(feature, value=value, usual=None, said=said, outside=outside)


def _times(count: float) -> str:
    n = max(round(count), 1)
    return {1: "once", 2: "twice"}.get(n, f"{n:,} times".replace(",", " "))


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


def plain_of(plan: Plan, width: int) -> list[int]:
    """Return which of a learner's features are numbers of their own."""
    if width == len(plan.outputs):
        return [*plan.plain]
    return [*range(width - len(plan.of("number")), width)]


def rarest(row: Encoded, tally: Tally, least: float) -> str | None:
    """Return the rarest column of one row in words, and what was usual; None if none is rare.

    Its rarity must be more than `least`.
    """
    rarity, columns = tally.rarity(row)[0], tally.rare_columns
    for j in np.argsort(-rarity, kind="stable").tolist():
        feature = _Words(row, tally)(Feature(columns[j], None, 0.0))
        if rarity[j] > least and feature.outside:
            return feature.in_words()
    return None


def names_of(plan: Plan, width: int) -> list[str]:
    """Return the column that each of a learner's features was made of."""
    if width == len(plan.outputs):
        return plan.owners
    return [*plan.counted, *plan.texts, *plan.weekdays, *(c.name for c in plan.of("number"))]
