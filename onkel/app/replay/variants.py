"""Settings side by side: those of a run, and others that are asked for."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from onkel.app.errors import UsageProblem
from onkel.app.replay.compare import WAS
from onkel.app.run.fleets import check_shared, is_fleet
from onkel.app.run.series import lags_of, of_table
from onkel.app.run.settings import MODELS, NO_RATE, RunSettings, memory_of
from onkel.app.run.tables import plan_of
from onkel.nearest import did_you_mean
from onkel.streams.sources import Schema

MOST = 16
"""Settings beside the run's own."""
DEFAULT = "default"
"""A value that takes a setting back."""
_TRUTH = {"yes": True, "true": True, "on": True, "no": False, "false": False, "off": False}
NUMBERS = ("auto", "single", "double")
"""Words that --precision of onkel detect takes, too, as it once meant something else."""
_SERIES = ("lags", "season", "differences")


def _truth(text: str) -> bool:
    return _TRUTH[text.lower()]


def _model(text: str) -> str:
    if text not in MODELS["detect"]:
        raise ValueError(text)
    return text


def rate_of(text: str) -> float | str:
    """Return a promised alert rate as given: a number, or the word none."""
    return text if text == NO_RATE else float(text)


def promise_of(text: str) -> float:
    """Return a promised precision as given, or raise UsageProblem.

    Examples
    --------
    >>> promise_of("0.8")
    0.8
    """
    if text in NUMBERS:
        raise UsageProblem(
            "precision is the promised share of answered alerts that are faults, such as 0.8, and "
            f"got {text!r}. In which numbers rows are held (--numbers of onkel detect) is as it "
            "was in the run."
        )
    with contextlib.suppress(ValueError):
        if 0 < float(text) < 1:
            return float(text)
    raise UsageProblem(
        "precision is the promised share of answered alerts that are faults, between 0 and 1, such "
        f"as 0.8; got {text!r}."
    )


_ANY: dict[str, tuple[Callable[[str], Any], str]] = {
    "nu": (rate_of, "a number, or none"), "precision": (promise_of, "a share"),
    "memory": (memory_of, "a number of rows, or a time span"),
    "window": (int, "a whole number"), "warmup": (int, "a whole number"),
    "model": (_model, " or ".join(MODELS["detect"])), "recent": (int, "a whole number"),
    "kernel": (str, "a name"), "gamma": (float, "a number"), "rate": (float, "a number"),
    "support": (float, "a number"), "learn_alerts": (_truth, "yes or no"),
    "scale": (_truth, "yes or no"), "share": (_truth, "yes or no"),
    "lags": (str, "auto or a number"), "season": (str, "auto, day, week, none or a number"),
    "differences": (_truth, "yes or no"),
    "memory_of_feedback": (float, "a number of rows"), "alerts_kept": (int, "a whole number"),
}  # fmt: skip
"""What can be set: how a text is read, and what it may be. Names are those of the options."""
_FIELDS = {"precision": "promise"}
"""Where RunSettings has another name."""
_ANSWERED = ("precision", "memory_of_feedback", "alerts_kept")
"""What goes with answers to alerts."""


@dataclass(frozen=True)
class Variant:
    """A setting, and how it differs from the run's own."""

    name: str
    settings: RunSettings
    changed: dict[str, Any]


def spelled(name: str) -> str:
    """Return a setting as its option is spelled, without the dashes before it."""
    return name.replace("_", "-")


def set_of(text: str) -> dict[str, Any]:
    """Return what ``--set NAME=VALUE,NAME=VALUE`` says.

    Examples
    --------
    >>> set_of("nu=0.001,memory=20000,learn-alerts=no")
    {'nu': 0.001, 'memory': 20000.0, 'learn_alerts': False}
    """
    found: dict[str, Any] = {}
    for part in (p.strip() for p in text.split(",")):
        name, mark, value = (p.strip() for p in part.partition("="))
        if not (name and mark and value):
            raise UsageProblem(f"--set is written nu=0.001,memory=20000; got {text!r}.")
        plain = _known(name, found)
        found[plain] = _value(plain, value)
    return found


def _known(name: str, before: Mapping[str, Any]) -> str:
    plain = name.replace("-", "_")
    names = [*map(spelled, _ANY)]
    if plain not in _ANY:
        meant = did_you_mean(spelled(plain), names, "setting")
        raise UsageProblem(
            f"--set: {name!r} is none of {', '.join(names)}.{meant}"
        )  # fmt: skip
    if plain in before:
        raise UsageProblem(f"--set: {name} is there twice; give --set once for each setting.")
    return plain


def _value(name: str, text: str) -> Any:
    if text == DEFAULT:
        return next(f.default for f in fields(RunSettings) if f.name == _FIELDS.get(name, name))
    read, words = _ANY[name]
    try:
        return read(text)
    except (ValueError, KeyError):
        raise UsageProblem(f"--set: {spelled(name)} is {words}; got {text!r}.") from None


def asked(options: Mapping[str, Sequence[Any]], sets: Sequence[str]) -> list[dict[str, Any]]:
    """Return the settings that are asked for, one for each column of the comparison.

    Options hold together: of one that is given several times, each value is combined with those
    of the others. A ``--set`` is a column of its own.

    Examples
    --------
    >>> asked({"nu": [0.001, 0.005], "memory": [2000.0]}, ["window=300"])
    [{'nu': 0.001, 'memory': 2000.0}, {'nu': 0.005, 'memory': 2000.0}, {'window': 300}]
    """
    given = {name: values for name, values in options.items() if values}
    combined = [
        dict(zip(given, values, strict=True)) for values in itertools.product(*given.values())
    ]
    found = [one for one in combined if one] + [set_of(text) for text in sets]
    different = [one for i, one in enumerate(found) if one not in found[:i]]
    if len(different) > MOST:
        raise UsageProblem(
            f"These are {len(different)} settings; up to {MOST} are compared at once."
        )
    return different


def variants(own: RunSettings, changes: Sequence[dict[str, Any]], schema: Schema) -> list[Variant]:
    """Return the run's own settings first, then the others; raise where one makes no sense."""
    found = [Variant(WAS, own, {})]
    for changed in changes:
        name = ", ".join(f"{spelled(n)} {_shown(v)}" for n, v in changed.items())
        given = {_FIELDS.get(n, n): value for n, value in changed.items()}
        settings = of_table(replace(own, **given), schema)
        try:
            _check(settings, changed, schema)
        except UsageProblem as problem:
            raise UsageProblem(f"{name}: {problem}") from None
        found.append(Variant(name, settings, changed))
    return found


def _check(settings: RunSettings, changed: Mapping[str, Any], schema: Schema) -> None:
    """Refuse what a run of its own would refuse, over the same rows."""
    _check_answered(settings, changed)
    settings.estimator()
    lags = lags_of(settings, len(schema.features))
    if settings.by_clock and not settings.timed:
        raise UsageProblem(f"memory {settings.memory} goes by the clock: the run had no --time.")
    seasons = {s.strip() for s in str(lags and lags.season).split(",")}
    if seasons & {"day", "week"} and not settings.timed:
        raise UsageProblem(f"season {settings.season} goes by the clock: the run had no --time.")
    if schema.others and any(name in changed for name in _SERIES):
        raise UsageProblem(
            "a series is made of numbers alone, and the run's rows have other columns; start a run "
            "of its own with these options."
        )
    if settings.share:
        check_shared(settings, schema, is_fleet(settings, schema, lags, plan_of(settings, schema)))


def _check_answered(settings: RunSettings, changed: Mapping[str, Any]) -> None:
    """Refuse a model without answers where the run's own settings go with answers."""
    has = [n for n in _ANSWERED if getattr(settings, _FIELDS.get(n, n)) is not None]
    has += ["nu"] if settings.nu == NO_RATE else []
    left = [spelled(name) for name in has if name not in changed]
    if left and not settings.hears_answers:
        back = ",".join(f"{name}={DEFAULT}" for name in left)
        raise UsageProblem(
            f"alerts of this model cannot be answered, and the run had {', '.join(left)}: take "
            f"back what goes with answers, in the same --set: {back}."
        )


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return DEFAULT if value is None else f"{value:.12g}" if isinstance(value, float) else str(value)
