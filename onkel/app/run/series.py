"""Shapes and seasons as the command line tells them: what is made of each row, and in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from onkel.app.errors import UsageProblem
from onkel.app.run.settings import RunSettings
from onkel.streams.sources import Schema

NONE = "none"


def lags_of(settings: RunSettings, columns: int) -> Any | None:
    """Return what makes rows of so many columns wider, new; None if they stay as they are.

    Examples
    --------
    >>> lags_of(RunSettings("detect"), 1), lags_of(RunSettings("detect"), 2)
    (Lags(missing='last'), None)
    >>> lags_of(RunSettings("detect", timed=True), 1)
    Lags(season='day', missing='last')
    >>> lags_of(RunSettings("detect", lags="2", missing="skip"), 2)
    Lags(lags=2, shape=3, roughness=2, forecast=2)
    """
    lags, season = settings.lags, settings.season
    if lags is None and settings.task == "detect" and columns == 1:
        lags = "auto"
    if season is None:
        season = "day" if lags == "auto" and settings.timed else NONE
    count = counted(lags or "0")
    if count == 0 and season == NONE and not settings.differences:
        return None
    return _made(settings, count, None if season == NONE else season)


def is_asked(settings: RunSettings) -> bool:
    """Whether someone wants the rows as a series.

    Examples
    --------
    >>> is_asked(RunSettings("detect")), is_asked(RunSettings("detect", season="day"))
    (False, True)
    """
    wide = counted(settings.lags or "0") != 0 or settings.season not in (None, NONE)
    return wide or settings.differences


def of_table(settings: RunSettings, schema: Schema) -> RunSettings:
    """Return settings for a source's rows; those with more than numbers are taken as they are.

    Examples
    --------
    >>> from onkel.streams.sources import Column
    >>> schema = Schema((Column("minutes"), Column("carrier", "category")))
    >>> lags_of(of_table(RunSettings("detect"), schema), 1) is None
    True
    """
    return replace(settings, lags="0") if schema.others else settings


def _made(settings: RunSettings, count: int | None, season: str | None) -> Any:
    from onkel.series import Lags

    looks: dict[str, Any] = {}
    if count is not None:
        shape = count + 1 if count else 0
        looks = {"lags": count, "shape": shape, "roughness": count, "forecast": count}
    missing = "last" if settings.missing == "mean" else "error"
    made = Lags(differences=settings.differences, season=season, missing=missing, **looks)
    try:
        made.check_params()
    except ValueError as error:
        raise UsageProblem(f"--season {settings.season}, --lags {settings.lags}: {error}") from None
    return made


def counted(lags: str) -> int | None:
    """Return a number of lags; None for "auto".

    Examples
    --------
    >>> counted("auto"), counted("12")
    (None, 12)
    """
    if lags == "auto":
        return None
    if not lags.isascii() or not lags.isdigit():
        raise UsageProblem(f"--lags is auto, or a number of earlier values; got {lags!r}.")
    return int(lags)


def model_of(settings: RunSettings, columns: int) -> Any:
    """Return a new model for rows of so many columns: an estimator, or a series with one."""
    lags = lags_of(settings, columns)
    if lags is None:
        return settings.estimator()
    from onkel.series import Series

    return Series(settings.estimator(), lags)


def parted(model: Any) -> tuple[Any, Any | None]:
    """Return a model's estimator, and the lags before it where it is a series."""
    lags = getattr(model, "lags", None)
    return (model, None) if lags is None else (model.estimator, lags)


def names_of(settings: RunSettings, names: list[str]) -> list[str]:
    """Return the names of the columns that the estimator sees."""
    lags = lags_of(settings, len(names))
    return names if lags is None else [str(n) for n in lags.get_feature_names_out(names)]


def in_words(lags: Any, timed: bool) -> str:
    """Return what is made of each row, as a sentence.

    Examples
    --------
    >>> from onkel.series import Lags
    >>> in_words(Lags(lags=2, season="day", roughness=0, forecast=0), True)
    'each value beside the 2 before it and its place in the day'
    """
    parts = []
    if lags.lags:
        parts.append(f"the {lags.lags} before it")
    if lags.shape:
        parts.append(f"the shape of the last {lags.shape} at any level")
    if lags.differences:
        parts.append("its difference from the one before")
    if lags.roughness:
        parts.append(f"how rough the last {lags.roughness} steps were")
    if lags.forecast:
        parts.append(f"what a forecast from the last {lags.forecast} had not foreseen")
    parts += _season_words(lags.season, timed)
    *first, last = parts
    return "each value beside " + (", ".join(first) + " and " if first else "") + last


def _season_words(season: Any, timed: bool) -> list[str]:
    if season is None:
        return []
    if season == "auto":
        kinds = "the day by --time, or else a number of rows" if timed else "a number of rows"
        return [f"its place in a season, once one is found ({kinds})"]
    places = [s if s in ("day", "week", "auto") else f"{s} rows" for s in str(season).split(",")]
    return [f"its place in the {place}" for place in places]
