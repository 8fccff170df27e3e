"""What a run would do: columns, types, scale, kernel; nothing is learned."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import numpy as np

from onkel.app.run.precision import needs_double
from onkel.app.run.series import in_words, lags_of, names_of
from onkel.app.run.settings import RunSettings
from onkel.estimators import inside
from onkel.streams.sources import Source


def describe(settings: RunSettings, source: Source, as_json: bool = False) -> str:
    """Return what was inferred from the first rows, in words or as JSON."""
    found = inferred(settings, source)
    source.close()
    return json.dumps(found) if as_json else _in_words(found)


def inferred(settings: RunSettings, source: Source) -> dict[str, Any]:
    """Return columns with kind, role and scale, and the model."""
    X = source.sample()
    places = {name: j for j, name in enumerate(source.schema.features)}
    columns = []
    for column in source.schema.columns:
        entry: dict[str, Any] = {"name": column.name, "kind": column.kind, "role": column.role}
        if column.why:
            entry["why"] = column.why
        if column.name in places and len(X):
            entry |= _scale(X[:, places[column.name]])
        columns.append(entry)
    model, seen = settings.estimator(), names_of(settings, source.schema.features)
    return {
        "format": source.format, "rows_looked_at": len(X), "columns": columns,
        "model": repr(model), **_inner(settings, model, len(seen)),
        **_series(settings, source),
        **_precision(settings, X, source.schema.features),
    }  # fmt: skip


def _inner(settings: RunSettings, model: Any, features: int) -> dict[str, Any]:
    """Return what a model compares by: its settings; of a detector, when it begins to alert."""
    if settings.tells_p:
        return {"warmup": model.warmup_of(features), "promised": settings.promised}
    if settings.tunes_itself:
        return {"settings": inside.member_names(model, features)}
    if settings.kind == "linear":
        return {}
    gamma = settings.gamma or 1.0 / max(features, 1)
    return {"kernel": repr(model.part("kernel")), "gamma": gamma}


def _series(settings: RunSettings, source: Source) -> dict[str, Any]:
    """Return what is made of each row, where it is made wider."""
    names = source.schema.features
    lags = lags_of(settings, len(names))
    if lags is None:
        return {}
    timed, asked = source.schema.at("time") is not None, settings.lags or settings.season
    words = in_words(lags, timed)
    why = "" if asked or settings.differences else _why(timed)
    return {"series": words + why, "seen": names_of(settings, names)}


def _why(timed: bool) -> str:
    more = "" if timed else "; --time COL: with its place in the day"
    return f"; as there is one column (--lags 0: not so{more})"


def _precision(settings: RunSettings, X: Any, names: list[str]) -> dict[str, Any]:
    if settings.precision != "auto":
        return {"precision": settings.precision}
    blurred = needs_double(X, names)
    return {"precision": "double" if blurred else "single", "needs_double": blurred}


def _scale(values: Any) -> dict[str, Any]:
    held = values[~np.isnan(values)]
    if not len(held):
        return {"missing": len(values)}
    spread = float(held.std())
    return {"mean": float(held.mean()), "spread": spread, "missing": int(len(values) - len(held))}


def _in_words(found: dict[str, Any]) -> str:
    rows = [("column", "kind", "role", "mean", "spread", "missing")]
    for c in found["columns"]:
        role = c["role"] + (f" ({c['why']})" if "why" in c else "")
        numbers = [f"{c[n]:.4g}" if n in c else "" for n in ("mean", "spread", "missing")]
        rows.append((c["name"], c["kind"], role, *numbers))
    widths = [max(len(str(row[i])) for row in rows) for i in range(6)]
    table = ["  ".join(f"{v:<{w}}" for v, w in zip(r, widths, strict=True)).rstrip() for r in rows]
    first = f"{found['format']}, {found['rows_looked_at']} rows looked at, nothing learned"
    digits = f"numbers: {found['precision']} precision"
    if found.get("needs_double"):
        digits += f", for the digits of {', '.join(found['needs_double'])}"
    series = [f"series: {found['series']}"] if "series" in found else []
    lines = [
        first,
        "",
        *table,
        "",
        *series,
        f"model:  {found['model']}",
        *_inner_words(found),
        digits,
    ]
    return "\n".join(lines)


def _inner_words(found: dict[str, Any]) -> list[str]:
    if "warmup" in found:
        return [f"alerts: on about {100 * found['promised']:.3g} % of usual rows, after "
                f"{found['warmup']} rows of warm-up"]  # fmt: skip
    if "settings" in found:
        names = "; ".join(found["settings"]).replace("; ", ";\0").replace(" ", "\xa0")
        text = f"tunes:  {len(found['settings'])} settings side by side: " + names
        lines = textwrap.wrap(text.replace("\0", " "), 100, subsequent_indent=8 * " ")
        return [line.replace("\xa0", " ") for line in lines]
    if "kernel" not in found:
        return []
    gamma = f", gamma {found['gamma']:.4g}" if "gamma" in found["kernel"] else ""
    return [f"kernel: {found['kernel']}{gamma}"]
