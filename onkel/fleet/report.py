"""What a fleet promised, beside what happened: the numbers of all keys, added up."""

from __future__ import annotations

from typing import Any

import numpy as np


def summed(estimator: Any, store: Any, numbers: list[int]) -> dict[str, Any]:
    """Return what can be added up over keys, and rates of all rows together."""
    counts = {} if store is None else store.counts(numbers)
    sums = {name: float(values.sum()) for name, values in counts.items()}
    total = {
        "keys": len(numbers), "t": int(sums.get("t", 0)), "terms": int(sums.get("terms", 0)),
        "bytes": 0 if store is None else store.nbytes,
    }  # fmt: skip
    if estimator.task == "classification":
        return {**total, "mistakes": int(sums.get("mistakes", 0))}
    total["mistakes"] = None
    if estimator.task == "regression":
        return total
    alerts, judged, more = sums.get("alerts", 0.0), sums.get("judged", 0.0), {}
    if hasattr(store, "rates"):
        alerts, judged, more = store.rates()
    which = "were judged" if more else "came after their keys' warm-up"
    return {**total, **_rates(estimator.nu, alerts, judged, which), **more}


def _rates(nu: float | None, alerts: float, judged: float, which: str) -> dict[str, Any]:
    """Promise and outcome over all rows that could be alerts; `which` those are, in words."""
    if not judged:
        return {"rate_promised": nu, **dict.fromkeys(("rate_realised", "alerts", "rate_in_words"))}
    realised = alerts / judged
    if nu is None:  # what is promised is a share of the answers
        return {"rate_promised": None, "rate_realised": realised, "alerts": alerts,
                "rate_in_words": None}  # fmt: skip
    words = (
        f"Promised {100 * nu:.3g} % alerts, realised {100 * realised:.3g} % of {judged:.10g} rows "
        f"that {which}."
    )
    found = (nu, realised, alerts, words)
    names = ("rate_promised", "rate_realised", "alerts", "rate_in_words")
    return dict(zip(names, found, strict=True))


def example_of(model: Any) -> Any:
    """Return rows like those that a model has learned, by which cells are made."""
    if not model.__sklearn_is_fitted__():
        return np.zeros((1, 1))
    from onkel.estimators import inside

    return inside.example_rows(model)
