"""Explanations as data, and as one readable sentence."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from onkel.core.precedents import Precedent


@dataclass(frozen=True)
class Feature:
    """What one feature did."""

    name: str
    value: float | str | None
    """In the row that is explained, as it came; None for a text, or where it is missing."""
    effect: float
    """How much it moved the score: score - effect is what the score would be otherwise."""
    part: float | None = None
    """What it adds, where the score is a sum over features (and the base)."""
    usual: tuple[float, float] | None = None
    """From where to where it usually lies, as far as the stored terms know."""
    said: str = ""
    """Of a category, a text or a time: the column, its value and what was usual, in words."""
    relevance: float | None = None
    """How much its column counts, in units of the mean; None where that is not learned."""
    outside: bool | None = None
    """Of a detector: whether it lies outside of what was usual; None where that was not asked."""

    def in_words(self) -> str:
        """The feature, its value and what was usual."""
        if self.said or self.value is None or isinstance(self.value, str):
            return self.said or self.name
        if self.usual is None:
            return f"{self.name} {number(self.value)}"
        value, usual = beside(self.value, self.usual)
        return f"{self.name} {value} where {usual} was usual"


@dataclass(frozen=True)
class Pattern:
    """What is unusual of a row though none of its numbers need be."""

    kind: str
    """"gap", "pair", "step" or "mean"."""
    names: tuple[str, ...]
    """Of the features."""
    value: float
    """Of the first one: its value, its step from the row before, its mean over about ten rows."""
    usual: tuple[float, float]
    """Outside of which the value lies; of a gap: inside of which no row had come."""
    said: str
    """In words."""
    score: float | None = None
    """What the score would be, had the first feature agreed; None where that was not asked."""


@dataclass(frozen=True)
class Term:
    """One stored term that mattered."""

    age: int | None
    """Trials since it was stored; None for a fixed centre."""
    share: float
    """Of the sum of abs(a k) over all terms."""
    part: float
    """a k(x, z): what it adds to the score."""
    likeness: float
    """k(x, z)."""
    values: tuple[float | str | None, ...] | None
    """Its row as it came; None for a text. Of a table: in words where a column has no number."""
    pieces: tuple[str, ...] | None = None
    """Of a text: the substrings that it shares with the one explained."""


@dataclass(frozen=True)
class Voice:
    """What one member of a mixture says of a row."""

    name: str
    """Its settings."""
    weight: float
    """With which it counts now."""
    score: float
    """Its own: a prediction, or by how much it puts the mixture's class before the second."""
    says: Any = None
    """The class that it would choose itself; None in regression."""

    def in_words(self) -> str:
        """Name, weight, and what it says."""
        says = number(self.score) if self.says is None else f"{self.says!r}"
        return f"{self.name} ({100 * self.weight:.2g} %: {says})"


@dataclass(frozen=True)
class Explanation:
    """Why a row got its score: see :meth:`to_dict` and :attr:`sentence`.

    ``score = base + sum of all terms' parts``; where numbers stand beside the terms
    (``Centers(linear=True)``) and what each of them adds beyond its mean
    """

    score: float
    base: float
    """The part of no term: the offset, and the mean of standardised targets."""
    method: str
    """How the features' effects were found: "leave one out", "split", "gradient", "replaced"."""
    features: tuple[Feature, ...]
    """All features, those that did most first; the first ones know what was usual."""
    terms: tuple[Term, ...]
    """The terms that mattered most, by share."""
    terms_stored: int
    """Number of all stored terms."""
    members: tuple[Voice, ...] = ()
    """Of a mixture: what each member says, in the order of its weights; of others none."""
    pattern: Pattern | None = None
    """Of a detector: what is unusual where no single number is; None where one is, or nothing."""
    agreed: float | None = None
    """Of a detector: the score, had all numbers agreed that lie outside of their ranges."""
    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, dicts, numbers and strings (ready for JSON)."""
        found = {"kind": self.kind, **asdict(self), "sentence": self.sentence}
        for name in ("members", "pattern", "agreed", "precedent"):
            if name in found and found[name] in (None, ()):  # what is 0 is told
                del found[name]
        return _plain(found)

    @property
    def sentence(self) -> str:
        """The outcome, and what did most, in words."""
        return f"{self.outcome()}{self.reason()}{self._carried()}."

    def __str__(self) -> str:
        return self.sentence

    def outcome(self) -> str:
        """The outcome in words."""
        raise NotImplementedError

    def otherwise(self, score: float) -> str:
        """What another score would have meant, in words."""
        return number(score)

    def reason(self) -> str:
        """What did most, in words."""
        first = self.features[0] if self.features else None
        if first is None or first.effect == 0 or not self.terms_stored:
            return ""
        if first.value is None and not first.said:
            return self._pieces()
        if_ = "had it agreed" if self.method == "leave one out" else "had it been typical"
        about = "about " if self.method == "gradient" else ""
        then = self.otherwise(self.score - first.effect)
        words = f", mostly through {first.in_words()} ({if_}: {about}{then})"
        others = [f for f in self.features[1:3] if abs(f.effect) > 0.5 * abs(first.effect)]
        return words + "".join(f", and {f.in_words()}" for f in others)

    def _carried(self) -> str:
        """Of a mixture: the members that carry it, up to three or four fifths of the weight."""
        first, told = sorted(self.members, key=lambda voice: -voice.weight), 0
        while told < min(3, len(first)) and sum(v.weight for v in first[:told]) < 0.8:
            told += 1
        words = ", ".join(voice.in_words() for voice in first[:told])
        return f"; carried by {words}" if words else ""

    def _pieces(self) -> str:
        """Of a text: what was never seen, or did most."""
        new = [repr(f.name) for f in self.features if f.part == 0]
        if new:
            shown = ", ".join(new[:3]) + (", …" if len(new) > 3 else "")
            return f"; {len(new)} of {len(self.features)} pieces were never seen: {shown}"
        return f", mostly through {self.features[0].name!r}"


@dataclass(frozen=True)
class AlertExplanation(Explanation):
    """Why a row was, or was not, an alert."""

    threshold: float = 0.0
    alert: bool = False
    rank: float = 1.0
    """Of the score among the recent ones: near 0 is unusual."""
    recent: int = 0
    """How many recent scores there were."""
    warming: bool = False
    """Whether the detector is still warming up, and shows no alerts."""
    precedent: Precedent | None = None
    """The answered alert that made the row an alert, or kept it from being one; of other alerts
    the one of whose kind they are, if it was answered as a fault."""
    kind: ClassVar[str] = "novelty"

    @property
    def named(self) -> tuple[Feature, ...]:
        """The features that may be named: outside of their ranges, and the score was lowered.

        By each alone or, where it is known what would be had all of them agreed, by all together.
        """
        lowered = self.agreed is None
        return tuple(f for f in self.features if f.outside and (f.effect < 0 or not lowered))

    @property
    def cause(self) -> str:
        """What the row is unusual by.

        "answered" (an alert for no other reason than that one like it was answered as a fault),
        "single" (one feature that would take it half the way to no alert, had it agreed), "several"
        (those outside of their ranges together), "gap", "pair", "step", "mean", or "whole": the row
        as a whole.
        """
        if self.precedent is not None and self.precedent.decided:
            return "answered"
        named = self.named
        if named and self._helps(self.score - named[0].effect) and not self._outdone(named[0]):
            return "single"
        if len(named) > 1 and self.agreed is not None and self._helps(self.agreed):
            return "several"
        if self.pattern is not None:
            return self.pattern.kind
        return "several" if len(named) > 1 and self.agreed is None else "whole"

    def _outdone(self, first: Feature) -> bool:
        """Whether a pattern did more than twice as much as a feature."""
        score = None if self.pattern is None else self.pattern.score
        return score is not None and score - self.score > -2 * first.effect

    def _helps(self, score: float) -> bool:
        """Whether another score would be no alert, or half the way to it."""
        return score - self.score >= 0.5 * max(self.threshold - self.score, 0.0) and (
            score > self.score
        )

    def reason(self) -> str:
        """What the row is unusual by, in words; nothing is named that is not."""
        if self.precedent is not None and self.precedent.decided:
            return self._answered(self.precedent)
        like = "" if self.precedent is None else f"; {self.precedent.in_words()}"
        return self._of_itself() + like

    def _answered(self, found: Precedent) -> str:
        """Of a row that is an alert, or none, for an answer alone: which, and what is outside."""
        then = self.otherwise(found.score) + ("" if self.alert else ", an alert")
        words = f", {found.in_words()} (had nothing been answered: {then})"
        named = ", and ".join(f.in_words() for f in self.named[:3])
        return words + (f", with {named}" if named else "")

    def _of_itself(self) -> str:
        """What the row is unusual by, whatever was answered."""
        first = self.features[0] if self.features else None
        if first is None or not self.terms_stored:
            return "; nothing is stored yet to compare it with" if self.alert else ""
        if first.value is None and not first.said:
            return self._pieces()
        if not self.alert and not self.named:
            return ""
        cause = self.cause if self.alert else "single"
        if cause == "single":
            return self._mostly(self.named)
        if cause == "several":
            return self._together(self.named)
        if cause == "whole":
            return self._as_a_whole()
        assert self.pattern is not None
        return f", {self.pattern.said}{self._then(self.pattern.score, 'it')}"

    def _as_a_whole(self) -> str:
        """That it is no single number; that none is out of its range, only where that is so."""
        named = self.named
        if named:
            one = self.score - named[0].effect if len(named) == 1 else self.agreed
            words = ", and ".join(f.in_words() for f in named[:3])
            return _WITH + words + self._then(one, "it" if len(named) == 1 else "they")
        beyond = any(f.outside or is_beyond(f) for f in self.features)
        return _NONE_ALONE if beyond else _AS_A_WHOLE

    def _mostly(self, named: tuple[Feature, ...]) -> str:
        first = named[0]
        words = f", mostly through {first.in_words()}"
        words += self._then(self.score - first.effect, "it")
        others = [f for f in named[1:3] if f.effect < 0.5 * first.effect < 0]
        return words + "".join(f", and {f.in_words()}" for f in others)

    def _together(self, named: tuple[Feature, ...]) -> str:
        shown, left = [f.in_words() for f in named[:3]], len(named) - 3
        words = ", through " + ", and ".join(shown)
        if left > 0:
            words += f", and {left} more outside of {'its' if left == 1 else 'their'} usual range"
            words += "" if left == 1 else "s"
        return words + self._then(self.agreed, "they" if len(named) > 1 else "it")

    def _then(self, score: float | None, who: str) -> str:
        """What would have been, had a feature or several agreed, in brackets."""
        if score is None:
            return ""
        if_ = f"had {who} agreed" if self.method in _AGREE else f"had {who} been typical"
        about = "about " if self.method == "gradient" else ""
        return f" ({if_}: {about}{self.otherwise(score)})"

    @property
    def sentence(self) -> str:
        """The outcome, and what did most, in words.

        Of a row that is an alert, or none, for an answer alone, how unusual it is by itself is
        said, and not what the answer has made of that.
        """
        if self.precedent is None or not self.precedent.decided:
            return super().sentence
        return f"{self.word()}{self.reason()}."

    def word(self) -> str:
        """Whether it is an alert, in words."""
        return "Alert" if self.alert else "No alert (warming up)" if self.warming else "No alert"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, dicts, numbers and strings: what is named, too."""
        own = {"cause": self.cause if self.alert else None, "named": [f.name for f in self.named]}
        return {**super().to_dict(), **own}

    def outcome(self) -> str:
        """The outcome in words."""
        side = "below" if self.score < self.threshold else "not below"
        percent = f"{100 * self.rank:.{3 if self.rank >= 0.1 else 2}g}"
        place = f" ({percent} % of the last {self.recent} were as low)"
        score, threshold = number(self.score), number(self.threshold)
        words = f"{self.word()}: score {score} {side} the threshold {threshold}"
        return words + (place if self.recent else "")

    def otherwise(self, score: float) -> str:
        """What another score would have meant, in words."""
        calm = "" if score < self.threshold or not self.alert else ", no alert"
        return f"{number(score)}{calm}"


@dataclass(frozen=True)
class RarityExplanation(AlertExplanation):
    """Why a row was, or was not, rare enough for an alert; scores are log p."""

    @property
    def p(self) -> float:
        """Usual rows as unusual come once in 1/p."""
        return math.exp(self.score)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, dicts, numbers and strings, p among them."""
        return {**super().to_dict(), "p": self.p}

    def outcome(self) -> str:
        """The outcome in words."""
        level = one_in(self.threshold)
        return f"{self.word()}: {one_in(self.score)} is as unusual (alerts from {level})"

    def otherwise(self, score: float) -> str:
        """What another score would have meant, in words."""
        calm = "" if score < self.threshold or not self.alert else ", no alert"
        return f"{one_in(score)}{calm}"


@dataclass(frozen=True)
class ClassExplanation(Explanation):
    """Why a row got its class; the score explained is the margin to the second class."""

    label: Any = None
    second: Any = None
    """The class that came next; None where only one is known."""
    kind: ClassVar[str] = "classification"

    @property
    def margin(self) -> float:
        """How far the decision is from being the other one."""
        return self.score

    def outcome(self) -> str:
        """The outcome in words."""
        if self.second is None:
            return f"{self.label!r}, the only class known" if self.label is not None else "No class"
        return f"{self.label!r} before {self.second!r} by {number(self.score)}"

    def otherwise(self, score: float) -> str:
        """What another score would have meant, in words."""
        return f"{self.second!r}" if score < 0 else f"by {number(score)}"


@dataclass(frozen=True)
class NumberExplanation(Explanation):
    """Why a row got its number."""

    interval: tuple[float, float] | None = None
    """Where the loss gives one."""
    kind: ClassVar[str] = "regression"

    @property
    def prediction(self) -> float:
        """The prediction: the score."""
        return self.score

    def outcome(self) -> str:
        """The outcome in words."""
        if self.interval is None:
            return f"Predicted {number(self.score)}"
        low, high = map(number, self.interval)
        return f"Predicted {number(self.score)} (from {low} to {high})"


_AGREE = ("leave one out",)
_AS_A_WHOLE = (
    "; no single number lies outside of its usual range and no pair of them explains it: it is "
    "the row as a whole"
)
_WITH = "; no single value explains it and no pair of numbers: it is the row as a whole, with "
_NONE_ALONE = (
    "; no number that is unusual by itself made it one and no pair of them explains it: it is the "
    "row as a whole"
)


def one_in(log_p: float) -> str:
    """Return how rare something is, as people say it: two digits, thousands apart.

    Examples
    --------
    >>> one_in(math.log(0.5)), one_in(math.log(8.3e-05)), one_in(-1000.0)
    ('1 in 2', '1 in 12 000', '1 in more than a trillion')
    """
    log_p = min(log_p, 0.0)
    if log_p < -27.6:
        return "1 in more than a trillion"
    rows = math.exp(-log_p)
    if rows < 9.5:
        return f"1 in {rows:.2g}"
    digits = max(math.floor(math.log10(rows)) - 1, 0)
    return f"1 in {round(rows / 10**digits) * 10**digits:,}".replace(",", " ")


def shortened(features: tuple[Feature, ...], top: int) -> tuple[Feature, ...]:
    """Return a detector's features, with what was usual of the first `top` and all outside it."""
    return tuple(
        f if i < top or f.outside or is_beyond(f) else replace(f, usual=None)
        for i, f in enumerate(features)
    )


def is_beyond(feature: Feature) -> bool:
    """Whether a number lies outside of the range that is shown beside it."""
    value, usual = feature.value, feature.usual
    if usual is None or value is None or isinstance(value, str):
        return False
    return is_outside(value, usual)


def is_outside(value: float, usual: tuple[float, float]) -> bool:
    """Whether a value lies outside of a range, on the digits that are shown, too.

    Examples
    --------
    >>> is_outside(1.41, (1.0, 1.4)), is_outside(1.4, (1.0, 1.4)), is_outside(0.1, (0.0, 0.0))
    (True, False, True)
    """
    if usual[0] <= value <= usual[1]:
        return False
    value_, low, high = map(float, _digits(value, usual))
    return value_ < low if value < usual[0] else value_ > high


def beside(value: float, usual: tuple[float, float]) -> tuple[str, str]:
    """Return a value and a range in words, with as many digits as tell them apart.

    Examples
    --------
    >>> beside(3.2, (1.0, 1.4)), beside(1.4004, (1.0, 1.4)), beside(2.0, (-1.0, -1.0))
    (('3.20', '1.00–1.40'), ('1.4004', '1.0000–1.4000'), ('2', '-1'))
    """
    shown, low, high = _digits(value, usual)
    if low == high:
        return shown, low
    return shown, f"{low}{'–' if usual[0] >= 0 else ' to '}{high}"


def _digits(value: float, usual: tuple[float, float]) -> list[str]:
    """Return a value and the ends of a range as people write them.

    Two digits of the range's width, and up to four more where the value would be written as the
    end that it lies beyond.
    """
    digits, words = _decimals(usual[1] - usual[0]), []
    for more in range(5):
        at = None if digits is None else digits + more
        words = [number(v, at, 4 + 2 * more) for v in (value, *usual)]
        shown, low, high = map(float, words)
        if usual[0] <= value <= usual[1] or shown < low or shown > high:
            break
    return words


def _decimals(width: float) -> int | None:
    """Return after how many decimals a range of this width shows two digits; None: no range."""
    if not (width > 0 and math.isfinite(width)):
        return None
    return max(1 - math.floor(math.log10(width)), 0)


def number(value: float, decimals: int | None = None, digits: int = 4) -> str:
    """Return a number as people write it.

    Examples
    --------
    >>> number(0.00214), number(227252.2), number(1.23456, 2), number(2.0e-12)
    ('0.00214', '227252', '1.23', '2e-12')
    """
    if decimals is not None and decimals <= 8 and abs(value) < 1e12:
        return f"{value:.{decimals}f}"
    if 1e4 <= abs(value) < 1e12:
        return f"{value:.{max(digits - 4, 0)}f}"
    return f"{value:.{digits}g}"


def _plain(value: Any) -> Any:
    """Return a value made of what JSON knows."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
