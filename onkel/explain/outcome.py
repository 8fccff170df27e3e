"""Explanations as data, and as one readable sentence."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


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

    def in_words(self) -> str:
        """The feature, its value and what was usual."""
        if self.said or self.value is None or isinstance(self.value, str):
            return self.said or self.name
        if self.usual is None:
            return f"{self.name} {number(self.value)}"
        digits = _decimals(self.usual[1] - self.usual[0])
        value, low, high = (number(v, digits) for v in (self.value, *self.usual))
        if low == high:
            return f"{self.name} {value} where {low} was usual"
        dash = "–" if self.usual[0] >= 0 else " to "
        return f"{self.name} {value} where {low}{dash}{high} was usual"


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
    kind: ClassVar[str]

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain lists, dicts, numbers and strings (ready for JSON)."""
        found = {"kind": self.kind, **asdict(self), "sentence": self.sentence}
        if not self.members:
            del found["members"]
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
    kind: ClassVar[str] = "novelty"

    def outcome(self) -> str:
        """The outcome in words."""
        word = "Alert" if self.alert else "No alert (warming up)" if self.warming else "No alert"
        side = "below" if self.score < self.threshold else "not below"
        percent = f"{100 * self.rank:.{3 if self.rank >= 0.1 else 2}g}"
        place = f" ({percent} % of the last {self.recent} were as low)"
        return (
            f"{word}: score {number(self.score)} {side} the threshold {number(self.threshold)}"
            + (place if self.recent else "")
        )

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
        word = "Alert" if self.alert else "No alert (warming up)" if self.warming else "No alert"
        return f"{word}: {one_in(self.score)} is as unusual (alerts from {one_in(self.threshold)})"

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


def _decimals(width: float) -> int | None:
    """Return after how many decimals a range of this width shows two digits; None: no range."""
    if not (width > 0 and math.isfinite(width)):
        return None
    return max(1 - math.floor(math.log10(width)), 0)


def number(value: float, decimals: int | None = None) -> str:
    """Return a number as people write it.

    Examples
    --------
    >>> number(0.00214), number(227252.2), number(1.23456, 2), number(2.0e-12)
    ('0.00214', '227252', '1.23', '2e-12')
    """
    if decimals is not None and decimals <= 8 and abs(value) < 1e12:
        return f"{value:.{decimals}f}"
    if 1e4 <= abs(value) < 1e12:
        return f"{value:.0f}"
    return f"{value:.4g}"


def _plain(value: Any) -> Any:
    """Return a value made of what JSON knows."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
