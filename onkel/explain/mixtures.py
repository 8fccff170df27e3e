"""A mixture explained: what each member says, and what features did to all of them together.

Had a feature been otherwise, every member would have said something else, and the mixture would
have blended that. So the effect of a feature is the mixture's score, less what it makes of the
members' scores without that feature, each by what suits its kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onkel.explain.effects import Effects, effects_each, joined
from onkel.explain.outcome import Feature, Term, Voice
from onkel.explain.replaced import asks_f, method_for, replaced
from onkel.explain.shown import (
    Details,
    Held,
    Made,
    features_of,
    largest,
    order_of,
    owners_of,
    usual_values,
)
from onkel.explain.texts import of_text
from onkel.kernels import Kernel

Array = NDArray[Any]


def of_mixture(
    mixture: Any, row: Any, mix: Array, names: Any, top: int, lowest_first: bool,
    made: Made | None = None,
) -> Details:  # fmt: skip
    """Explain ``mix @ scores`` of one row."""
    told = _Told(mixture, row, mix)
    if mixture.on_strings:
        return _of_texts(told, top, lowest_first)
    parts = [_Part(part, held, told, made) for part, held in mixture.parts]
    lost = np.empty((len(row), *told.scores.shape))
    for part in parts:
        lost[:, part.held] = part.effects.T.reshape(len(row), len(part.held), -1)
    found = Effects(_method(mixture), np.zeros(0), told.effects(lost))
    order = order_of(found.effect, lowest_first, made)
    shown = _usual(parts, told, order[:top])
    features, terms = features_of(row, found, order, names, shown), _terms(parts, top)
    base = told.score() - sum(float(part.amount.sum()) for part in parts)
    return Details(base, found.method, features, terms, mixture.size, told.voices())


class _Told:
    """A row, what each member says of it, and what the mixture makes of such scores."""

    def __init__(self, mixture: Any, row: Any, mix: Array) -> None:
        self.mixture, self.row, self.mix = mixture, row, mix
        rows = [row] if mixture.on_strings else np.asarray(row)[None]
        self.scores: Array = mixture.answers(rows)[0]
        """[members][outputs]."""

    def effects(self, lost: Array) -> Array:
        """Return what was lost of the score, were so much lost of the members' [..][...]."""
        blended = self.mixture.blended
        score = blended(self.scores[None])[0] @ self.mix
        found: Array = score - blended(self.scores - lost) @ self.mix
        return found

    def score(self) -> float:
        """Return what the mixture says."""
        return float(self.mixture.blended(self.scores[None])[0] @ self.mix)

    def voices(self) -> tuple[Voice, ...]:
        """Return what each member says."""
        each = zip(self.mixture.names, self.mixture.influence, self.scores @ self.mix, strict=True)
        return tuple(Voice(repr(name), float(w), float(score)) for name, w, score in each)


def _method(mixture: Any) -> str:
    """Return how effects were found, where all members agree in it."""
    linear = {"split" for part, _ in mixture.parts if part.form == "weights"}
    found = linear | {
        method_for(part, k)
        for part, _ in mixture.parts
        if part.form == "terms"
        for k in part.kernels
    }
    return found.pop() if len(found) == 1 else "several"


class _Part:
    """What one learner of the mixture, with one member or several, adds to an explanation."""

    def __init__(self, learner: Any, held: list[int], told: _Told, made: Made | None) -> None:
        self.learner, self.held, owners = learner, held, owners_of(made)
        self.weights = told.mixture.influence[held]
        if learner.form == "weights":
            self.amount, self.likeness = np.zeros(0), np.zeros(0)
            effect = learner.effects(np.asarray(told.row, np.float64), made)[1]
            self.effects = joined(effect, owners)
            return
        self.stored, (A, _) = learner.stored(), learner.coefficients()
        self.x = learner.frame.z(learner.frame.store(np.asarray(told.row, np.float64)))
        self.effects, alike = np.empty((A.shape[1], len(self.x))), np.empty(A.shape)
        for kernel, columns in _by_kernel(learner):
            likeness, self.effects[columns] = effects_each(
                kernel, self.x, self.stored.z, A[:, columns], learner.frame.apart, owners
            )
            alike[:, columns] = likeness[:, None]
        row = np.asarray(told.row, np.float64)
        self.effects += joined(learner.beside_terms(row), owners)
        many = (len(A), len(held), len(told.mix))
        of_members = A.reshape(many) @ told.mix
        """What multiplies k, of each point for each member."""
        near = alike.reshape(many)[:, :, :1].sum(axis=2)  # no output yet: none is near
        self.amount = (of_members * near) @ self.weights
        """What each point adds to the weighted mean of the members' scores."""
        self.likeness = near @ self.weights / max(float(self.weights.sum()), 1e-300)
        self.own = of_members
        if asks_f(learner):  # whose terms cancel: none of them says anything beside others
            self.effects, self.amount = replaced(learner, row, owners), np.zeros(0)


def _by_kernel(learner: Any) -> Iterator[tuple[Kernel, list[int]]]:
    """Yield each kernel of a learner once, with the outputs that are sums of it."""
    outputs, kernels = learner.columns // learner.sharing, learner.kernels
    for kernel in dict.fromkeys(kernels):
        mine = [i for i, other in enumerate(kernels) if other == kernel]
        yield kernel, [i * outputs + o for i in mine for o in range(outputs)]


# -- terms and usual values --------------------------------------------------------------------


def _terms(parts: Sequence[_Part], top: int) -> tuple[Term, ...]:
    """Return the points that mattered most, of all rings together."""
    sizes = [np.abs(part.amount) for part in parts]
    total = float(sum(size.sum() for size in sizes))
    if not total > 0:
        return ()
    whose = np.repeat(np.arange(len(parts)), [len(size) for size in sizes])
    which = np.concatenate([np.arange(len(size)) for size in sizes])
    first = largest(np.concatenate(sizes), top).tolist()
    return tuple(_term(parts[whose[i]], int(which[i]), total) for i in first)


def _term(part: _Part, i: int, total: float) -> Term:
    ages = part.stored.ages
    return Term(
        age=None if ages is None else int(ages[i]),
        share=float(abs(part.amount[i]) / total),
        part=float(part.amount[i]),
        likeness=float(part.likeness[i]),
        values=tuple(part.stored.raw(i, slice(None)).tolist()),
    )


def _usual(parts: Sequence[_Part], told: _Told, which: Array) -> dict[int, tuple[float, float]]:
    """Return what was usual of some features, as the heaviest member with points knows it."""
    with_points = [part for part in parts if part.learner.form == "terms"]
    if not with_points:
        return {}
    part = max(with_points, key=lambda p: p.weights.max())
    member = int(part.weights.argmax())
    stored = part.stored
    own, apart = part.own[:, member], part.learner.frame.apart
    held = Held(stored.z, own, 0.0, stored.raw, stored.ages, apart)
    return usual_values(held, part.learner.kernels[member], part.x, which)


# -- texts -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Text:
    """A member on strings, explained alone."""

    effects: dict[str, Array]
    """Of each piece, on each output."""
    terms: tuple[Term, ...]
    size: int


def _of_text(learner: Any, told: _Told, top: int) -> _Text:
    a, base = learner.coefficients()
    effects: dict[str, Array] = {}
    for c in range(a.shape[1]):
        features = of_text(learner, told.row, a[:, c], 0.0, top, False)[2]
        for feature in features:
            effects.setdefault(feature.name, np.zeros(a.shape[1]))[c] = feature.effect
    found = of_text(learner, told.row, a @ told.mix, float(base @ told.mix), top, False)
    return _Text(effects, found[3], found[4])


def _of_texts(told: _Told, top: int, lowest_first: bool) -> Details:
    """The pieces of all members; terms are those of the heaviest one."""
    mixture = told.mixture
    each = {held[0]: _of_text(part, told, top) for part, held in mixture.parts}
    names = list(dict.fromkeys(name for text in each.values() for name in text.effects))
    lost = np.zeros((len(names), *told.scores.shape))
    for i, text in each.items():
        for name, effect in text.effects.items():
            lost[names.index(name), i] = effect
    effect = told.effects(lost)
    order = order_of(effect, lowest_first).tolist()
    features = tuple(Feature(names[j], None, float(effect[j])) for j in order)
    heaviest = each[int(mixture.influence.argmax())]
    return Details(0.0, "split", features, heaviest.terms, heaviest.size, told.voices())
