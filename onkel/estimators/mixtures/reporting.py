"""What happened to a mixture, beside what was promised."""

from __future__ import annotations

from typing import Any

from onkel.estimators.mixtures.words import features_of, in_words, short_names
from onkel.learner import Means, Mixture


def report(mixture: Mixture) -> dict[str, Any]:
    """Return what happened to the members and to their mean, and the bounds on its regret."""
    members, best = len(mixture.members), float(mixture.losses.min())
    measured, promised = mixture.regret_bounds()
    return {
        "t": mixture.t,
        "terms": mixture.size,
        "bytes": mixture.nbytes,
        "mistakes": None,
        "members": [repr(m) for m in mixture.names],
        "names": short_names(mixture.names, features_of(mixture)),
        "in_words": in_words(mixture),
        "weights": mixture.influence.tolist(),
        "losses": mixture.losses[:members].tolist(),
        "losses_joint": mixture.losses[members:].tolist(),
        "loss": mixture.loss_total,
        "trials": mixture.judged,
        "regret": mixture.loss_total - best,
        "regret_bound": None if mixture.merged else measured,
        "regret_promise": None if mixture.merged else promised,
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
