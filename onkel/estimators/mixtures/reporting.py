"""What happened to a mixture, beside what was promised."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from onkel import bounds
from onkel.learner import Means, Mixture, Settings

_USUAL = ("SoftMargin", "Huber")
"""Losses that go without saying."""


def report(mixture: Mixture) -> dict[str, Any]:
    """Return what happened to the members and to their mean, and the bounds on its regret."""
    best = float(mixture.losses.min())
    return {
        "t": mixture.t,
        "terms": mixture.size,
        "bytes": mixture.nbytes,
        "mistakes": None,
        "members": [repr(m) for m in mixture.names],
        "names": short_names(mixture.names, _features(mixture)),
        "in_words": in_words(mixture),
        "weights": mixture.weights.tolist(),
        "losses": mixture.losses.tolist(),
        "loss": mixture.loss_total,
        "trials": mixture.judged,
        "regret": mixture.loss_total - best,
        "regret_bound": None if mixture.merged else _regret_bound(mixture, None),
        "regret_promise": None if mixture.merged else _regret_bound(mixture, best),
        "rate": mixture.rate,
        "share": mixture.share,
    }


def coverage(mixture: Means) -> dict[str, Any]:
    """Return the promised share of targets outside the intervals, the realised one, and why.

    ``realised = promised + error term`` exactly: the term is how far the widths have gone.
    """
    widths, rows = mixture.widths, mixture.widths.rows
    names = ("rate_promised", "rate_realised", "rate_error_term", "rate_in_words")
    if not rows:
        return {**dict.fromkeys(names), "rate_promised": widths.nu}
    realised, error = (_plain(v / rows) for v in (widths.of("missed"), widths.owed()))
    found = " and ".join(f"{100 * v:.3g} %" for v in (widths.of("missed") / rows).tolist())
    words = (
        f"Promised {100 * widths.nu:.3g} % of targets outside the intervals, realised {found} of "
        f"{rows} rows."
    )
    return dict(zip(names, (widths.nu, realised, error, words), strict=True))


def _plain(values: Any) -> Any:
    """Return a number, or one for each of several targets."""
    return float(values[0]) if len(values) == 1 else values.tolist()


def _regret_bound(mixture: Mixture, best: float | None) -> float:
    """Return the bound against the best fixed member: as measured, or (`best`) as promised."""
    count, trials = len(mixture.members), mixture.judged
    if count < 2 or not trials:
        return 0.0
    measured = mixture.gap_total if best is None else None
    return bounds.fixed_share(
        members=count, trials=trials, rate=mixture.rate, share=mixture.share, best_loss=best,
        mix_gap=None if measured is None else max(measured, 0.0),
    ).bound  # fmt: skip


# -- in words --------------------------------------------------------------------------------------


def in_words(mixture: Mixture) -> str:
    """Return which setting leads now, with what weight, and which come next."""
    if not mixture.judged:
        return "Nothing has been judged yet: all settings weigh the same."
    d, weights = _features(mixture), mixture.weights
    order = sorted(range(len(weights)), key=lambda i: (-weights[i], i))
    told = [order[0], *(i for i in order[1:4] if weights[i] >= 0.05)]
    # as they were given: the settings that learn hold computed numbers
    words = [f"{_words(mixture.names[i].settings(), d)} (weight {weights[i]:.2f})" for i in told]
    text = "; then ".join([f"Leads now: {words[0]}", *words[1:]])
    return f"{text}. d is the number of features, {d}." if "/d" in text else f"{text}."


def short_names(members: Sequence[Any], d: int) -> list[str]:
    """Return a few words for each member, each of them different."""
    found: list[str] = []
    for member in members:
        name = re.sub(r" kernel, width| kernel|(?<=, )by | loss", "", _words(member.settings(), d))
        same = sum(name == other.partition(" (")[0] for other in found)
        found.append(f"{name} ({same + 1})" if same else name)
    return found


def _features(mixture: Mixture) -> int:
    return max(len(mixture.moments.mean), 1)


def _words(settings: Settings, d: int) -> str:
    """Return a setting in words: the kernel with its width, and what is not usual of the rest."""
    words = ["linear"] if settings.expansion.primal else [_kernel(settings.kernel.resolve(d), d)]
    if type(settings.loss).__name__ not in _USUAL:
        words.append(f"{_spaced(settings.loss)} loss")
    if type(settings.rule).__name__ != "Norma":
        words.append(f"by {_spaced(settings.rule)}")
    elif (rate := getattr(settings.rule, "learning_rate", None)) is not None:
        words.append(f"rate {_number(rate)}")
    return ", ".join(words)


def _kernel(kernel: Any, d: int) -> str:
    gamma = getattr(kernel, "gamma", None)
    name = f"{type(kernel).__name__} kernel"
    return name if not isinstance(gamma, float) else f"{name}, width {_width(gamma, d)}"


def _width(gamma: float, d: int) -> str:
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
    return f"{value:.3g}" if isinstance(value, (int, float)) else str(value)


def _spaced(part: Any) -> str:
    """Return the name of a part in small letters: EpsilonInsensitive is epsilon insensitive."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(part).__name__).lower()
