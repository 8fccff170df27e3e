"""A mixture in words: which setting leads, and what each is called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from onkel.core.frame import effective
from onkel.expansions import Centers, Weights, Window
from onkel.learner import Mixture, Settings
from onkel.rules import RecursiveLeastSquares

_USUAL = ("SoftMargin", "Huber")
"""Losses that go without saying."""


def in_words(mixture: Mixture) -> str:
    """Return which setting leads now, with what weight, and which come next."""
    if not mixture.judged:
        return "Nothing has been judged yet: all settings weigh the same."
    d, weights = features_of(mixture), mixture.influence
    order = sorted(range(len(weights)), key=lambda i: (-weights[i], i))
    told = [order[0], *(i for i in order[1:4] if weights[i] >= 0.05)]
    # as they were given: the settings that learn hold computed numbers
    words = [f"{_words(mixture.names[i].settings(), d)} (weight {weights[i]:.2f})" for i in told]
    text = "; then ".join([f"Leads now: {words[0]}", *words[1:]])
    return f"{text}. d is the number of features, {d:g}." if "/d" in text else f"{text}."


def short_names(members: Sequence[Any], d: float) -> list[str]:
    """Return a few words for each member, each of them different."""
    found: list[str] = []
    for member in members:
        name = re.sub(r" kernel, width| kernel|(?<=, )by | loss", "", _words(member.settings(), d))
        same = sum(name == other.partition(" (")[0] for other in found)
        found.append(f"{name} ({same + 1})" if same else name)
    return found


def features_of(mixture: Mixture) -> float:
    """Return how many features rows count as, at least 1."""
    return max(effective(len(mixture.moments.mean), mixture.apart), 1)


def _words(settings: Settings, d: float) -> str:
    """Return a setting in words: the kernel with its width, and what is not usual of the rest."""
    if settings.rule.second_order:
        return ", ".join(_least_squares(settings, d))
    words = [_of_what(settings, d)]
    if isinstance(settings.expansion, Centers):
        words.append(f"{settings.expansion.count} centres")
    if type(settings.loss).__name__ not in _USUAL:
        words.append(f"{_spaced(settings.loss)} loss")
    if type(settings.rule).__name__ != "Norma":
        words.append(f"by {_spaced(settings.rule)}")
    elif (rate := getattr(settings.rule, "learning_rate", None)) is not None:
        words.append(f"rate {_number(rate)}")
    if (memory := getattr(settings.rule, "memory", None)) is not None:
        words.append(f"memory {_number(memory)}")
    if (terms := getattr(settings.expansion, "terms", None)) not in (None, Window().terms):
        words.append(f"last {terms}")
    if (budget := getattr(settings.expansion, "budget", "oldest")) != "oldest":
        words.append(f"budget {budget}")
    return ", ".join(words)


def _least_squares(settings: Settings, d: float) -> list[str]:
    """Return a setting of second order in words, which has no loss or rate to speak of."""
    centres = getattr(settings.expansion, "count", None)
    over = "rls" if centres is None else f"rls, {centres} centres"
    memory = getattr(settings.rule, "memory", None)
    usual = memory == RecursiveLeastSquares().memory
    said = [] if usual else [f"memory {_number(memory)}" if memory else "forgets nothing"]
    return [over, _of_what(settings, d), *said]


def _of_what(settings: Settings, d: float) -> str:
    """Return what f is made of: the kernel, or nothing but weights."""
    if isinstance(settings.expansion, Weights):
        return "linear"
    return _kernel(settings.kernel.resolve(d), d)


def _kernel(kernel: Any, d: float) -> str:
    gamma = getattr(kernel, "gamma", None)
    name = f"{type(kernel).__name__} kernel"
    return name if not isinstance(gamma, float) else f"{name}, width {_width(gamma, d)}"


def _width(gamma: float, d: float) -> str:
    """Return a width in units of 1/d, where it is a simple number of them.

    Examples
    --------
    >>> _width(0.5, 8), _width(0.3, 7)
    ('4/d', '0.3')
    """
    eighths = 8.0 * gamma * d
    simple = abs(eighths - round(eighths)) < 1e-9 * eighths and eighths >= 0.5
    return f"{eighths / 8:.4g}/d" if simple else f"{gamma:.3g}"


def _number(value: Any) -> str:
    """Return a number in few digits, never as a power of ten where it is large.

    Examples
    --------
    >>> _number(0.25), _number(1000), _number("12h")
    ('0.25', '1000', '12h')
    """
    if not isinstance(value, (int, float)):
        return str(value)
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _spaced(part: Any) -> str:
    """Return the name of a part in small letters: EpsilonInsensitive is epsilon insensitive."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(part).__name__).lower()
