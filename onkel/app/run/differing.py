"""Where a run's settings differ from those of its state: in words, by the names of the options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_OPTIONS = {
    "promise": "--precision", "precision": "--numbers", "everything": "--all",
    "scale": "--no-scale", "learn_alerts": "--no-learn-alerts",
}  # fmt: skip
"""Options that are not called as their settings are."""
_FOLLOWS = {"timed": "time", "output_format": "output"}
"""Settings that follow from others: where those differ, they say nothing more."""


def differences(known: Mapping[str, Any], given: Mapping[str, Any]) -> str:
    """Return which settings differ, as the command line names them; "" if none does.

    Examples
    --------
    >>> differences({"nu": 0.01, "promise": None}, {"nu": 0.02, "promise": 0.8})
    '--nu was 0.01, is 0.02; --precision was not given, is 0.8'
    >>> differences({"scale": True, "columns": ["a", "b"]}, {"scale": False, "columns": []})
    '--columns was a,b, is not given; --no-scale was not given, is given'
    """
    names = {name for name in {**known, **given} if known.get(name) != given.get(name)}
    names -= {name for name, source in _FOLLOWS.items() if source in names}
    found = [(option_of(n), _said(n, known.get(n)), _said(n, given.get(n))) for n in names]
    return "; ".join(f"{option} was {was}, is {now}" for option, was, now in sorted(found))


def option_of(name: str) -> str:
    """Return the option that a setting comes from.

    Examples
    --------
    >>> option_of("memory_of_feedback"), option_of("precision")
    ('--memory-of-feedback', '--numbers')
    """
    return _OPTIONS.get(name) or f"--{name.replace('_', '-')}"


def _said(name: str, value: Any) -> str:
    """Return a value as it is written behind its option."""
    if isinstance(value, bool):
        return "given" if value != option_of(name).startswith("--no-") else "not given"
    if value is None or value in ([], {}):
        return "not given"
    if isinstance(value, dict):
        value = [f"{column}={kind}" for column, kind in value.items()]
    return ",".join(value) if isinstance(value, list) else str(value).removesuffix(".0")
