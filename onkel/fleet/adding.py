"""Fleets that learned apart become one: keys of several are merged, others taken over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onkel.fleet.groups import Key
from onkel.merging import merge


def check(fleets: Sequence[Any], weights: Any, start: Any) -> None:
    """Refuse what cannot be made one fleet."""
    if weights is not None:
        raise ValueError(
            "merge: fleets are merged without weights: each key's models count alike. Merge "
            "single models, fleet[key], by weights."
        )
    if any(getattr(fleet, "share", False) for fleet in fleets):
        raise ValueError(
            "merge: fleets with share=True have learned one thing from all of their keys, which "
            "cannot be merged. Merge single models, fleet[key]."
        )
    for j, fleet in enumerate([*fleets, *([] if start is None else [start])]):
        if type(fleet) is not type(fleets[0]):
            raise TypeError(f"merge: model 0 is a Fleet, model {j} a {type(fleet).__name__}.")
        if repr(fleet.estimator_) != repr(fleets[0].estimator_):
            raise ValueError(
                f"merge: all fleets must have one setting, {fleets[0].estimator_!r}; fleet {j} has "
                f"{fleet.estimator_!r}."
            )


def added(fleets: Sequence[Any], refit: bool, start: Any, into: Any) -> Any:
    """Let `into`, an empty fleet, be all of these together."""
    begun = [fleet for fleet in fleets if fleet.form() is not None]
    if not begun:
        return into
    owners: dict[Key, list[Any]] = {}
    for fleet in begun:
        for key in fleet:
            owners.setdefault(key, []).append(fleet)
    for key, holders in owners.items():
        into[key] = _model(key, holders, refit, start)
    return into


def _model(key: Key, holders: list[Any], refit: bool, start: Any) -> Any:
    models = [fleet[key] for fleet in holders]
    models = [m for m in models if m.__sklearn_is_fitted__()] or models[:1]
    if len(models) == 1:
        return models[0]
    first = start[key] if start is not None and key in start else None
    whole = merge(models, refit=refit, start=first)
    whole.__dict__.pop("merge_report_", None)  # a fleet holds what a model has learned
    return whole
