"""What happened to a mixture, beside what was promised."""

from __future__ import annotations

from typing import Any

from onkel.estimators.mixtures.words import features_of, in_words, short_names
from onkel.learner import Mixture


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
