"""What a run would do: columns, types, scale, kernel; nothing is learned."""

from __future__ import annotations

import json
import textwrap
from typing import Any

from onkel.app.run import lost, tables, target
from onkel.app.run.counters import Counters
from onkel.app.run.hints import hints
from onkel.app.run.precision import needs_double
from onkel.app.run.series import in_words, lags_of, names_of, of_table
from onkel.app.run.settings import RunSettings
from onkel.estimators import inside
from onkel.streams.sources import Block, Column, Schema, Source


def describe(
    settings: RunSettings, source: Source, first: Block, as_json: bool, most: float
) -> str:
    """Return what was inferred from the first rows, in words or as JSON."""
    found = inferred(settings, source, first)
    if as_json:
        return json.dumps(found)
    counters = _counted(first)
    lines = [_in_words(found), *(f"note:   {words}" for words in found["warnings"])]
    if counters.broken:
        lines.append(f"broken: {lost.first_ones(counters, most, source.schema.roles.target)}")
    return "\n".join(lines)


def _counted(first: Block) -> Counters:
    """Return what a run over the first rows alone would count as broken."""
    counters = Counters(first.count, len(first.bad))
    counters.note_broken([f"line {b.line}: {b.reason}" for b in first.bad])
    return counters


def inferred(settings: RunSettings, source: Source, first: Block) -> dict[str, Any]:
    """Return columns with kind, role and scale, the target, the model, and what to be told of."""
    schema, settings = source.schema, of_table(settings, source.schema)
    model, plan = settings.estimator(), tables.plan_of(settings, schema)
    seen = len(names_of(settings, schema.features))
    features = seen if plan is None else inside.features_of(model, plan)
    return {
        "format": source.format, "rows_looked_at": first.count,
        "columns": [_column(c, settings, schema, first) for c in schema.columns],
        "decimal": source.schema.decimal,
        "broken": len(first.bad), "first_broken": _counted(first).first_broken,
        "warnings": [*hints(source, first), *source.warnings()],
        **target.described(source.schema, first), "features": features,
        "model": repr(model), **_inner(settings, model, features, bool(source.schema.others)),
        **_series(settings, source),
        **_precision(settings, first.X, source.schema.features),
    }  # fmt: skip


def _column(column: Column, settings: RunSettings, schema: Schema, first: Block) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": column.name, "kind": column.kind, "role": column.role}
    if column.role == "feature":
        entry["learned_as"] = tables.learned_as(column, settings)
    if column.why:
        entry["why"] = column.why
    if column.dates is not None:
        entry["written"] = column.dates.words
    entry["examples"] = list(column.examples)
    return {**entry, **tables.described(column, schema, first)}


def _inner(settings: RunSettings, model: Any, features: float, table: bool) -> dict[str, Any]:
    """Return what a model compares by: its settings; of a detector, when it begins to alert."""
    if settings.tells_p:
        found = {"warmup": model.warmup_of(int(features), table), "promised": settings.promised}
        return found | (
            {} if settings.promise is None else {"precision_promised": settings.promise}
        )
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


def _table(columns: list[dict[str, Any]]) -> list[str]:
    """Return a line for each column; what all of them lack is left out."""
    rows = [("column", "kind", "role", "learned as", "mean", "spread", "missing", "examples")]
    for c in columns:
        role = c["role"] + (f" ({c['why']})" if "why" in c else "")
        numbers = [f"{c[n]:.4g}" if n in c else "" for n in ("mean", "spread", "missing")]
        rows.append(
            (c["name"], c["kind"], role, c.get("learned_as", ""), *numbers, tables.shown(c))
        )
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return ["  ".join(f"{v:<{w}}" for v, w in zip(r, widths, strict=True)).rstrip() for r in rows]


def _in_words(found: dict[str, Any]) -> str:
    first = f"{found['format']}, {found['rows_looked_at']} rows looked at, nothing learned"
    digits = f"numbers: {found['precision']} precision"
    if found["decimal"] != ".":
        digits += ", a comma before decimals"
    if found.get("needs_double"):
        digits += f", for the digits of {', '.join(found['needs_double'])}"
    series = [f"series: {found['series']}"] if "series" in found else []
    wanted = [f"target: {target.in_words(found['target'])}"] if "target" in found else []
    wanted += [f"time:   {c['name']}, {c['written']}" for c in found["columns"] if "written" in c]
    lines = [
        first,
        "",
        *_table(found["columns"]),
        "",
        *wanted,
        *series,
        f"row:    {found['features']:g} features{_gaps(found)}",
        f"model:  {found['model']}",
        *_inner_words(found),
        digits,
    ]
    return "\n".join(lines)


def _gaps(found: dict[str, Any]) -> str:
    kinds = {c["kind"] for c in found["columns"] if c["role"] == "feature"}
    table = not kinds <= {"number", "whole"}
    return ", with which of the numbers are missing as one" if table else ""


def _inner_words(found: dict[str, Any]) -> list[str]:
    if "warmup" in found:
        rate = "as many as --precision allows"
        if found["promised"] is not None:
            rate = f"on about {100 * found['promised']:.3g} % of usual rows"
        more = ""
        if "precision_promised" in found:
            share = 100 * found["precision_promised"]
            more = f"; promised that {share:.3g} % of those answered are faults"
        return [f"alerts: {rate}, after {found['warmup']} rows of warm-up{more}"]
    if "settings" in found:
        names = "; ".join(found["settings"]).replace("; ", ";\0").replace(" ", "\xa0")
        text = f"tunes:  {len(found['settings'])} settings side by side: " + names
        lines = textwrap.wrap(text.replace("\0", " "), 100, subsequent_indent=8 * " ")
        return [line.replace("\xa0", " ") for line in lines]
    if "kernel" not in found:
        return []
    gamma = f", gamma {found['gamma']:.4g}" if "gamma" in found["kernel"] else ""
    return [f"kernel: {found['kernel']}{gamma}"]
