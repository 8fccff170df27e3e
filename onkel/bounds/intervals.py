"""How many targets lie outside of intervals whose width follows the misses."""

from __future__ import annotations

import math

from onkel.bounds.guarantee import Guarantee, check, theorem

__all__ = ["interval_misses"]


@theorem
def interval_misses(
    *, trials: int, nu: float, width_rate: float, narrowest: float, widest: float,
    forgiven: float = 0.0, unspent: float = 0.0, first: float | None = None,
    last: float | None = None,
) -> Guarantee:  # fmt: skip
    """Bound on the targets outside of intervals that grow with each miss, for any stream.

    ``log q <- log q + rate (miss - nu)``, held within [log narrowest, log widest]; a miss is
    ``abs(y - p) > q u``, u > 0 any unit that is known before y.

    Summed up over T rows this is an identity, whatever the rows, the predictions and the units:

    ``misses = nu T + (log q_T - log q_0 + forgiven - unspent) / rate``,

    where `forgiven` is what the upper limit cut off and `unspent` what the lower limit did. As q_T
    lies within the limits,

    ``misses <= nu T + (log(widest / q_0) + forgiven - unspent) / rate``  and
    ``misses >= nu T - (log(q_0 / narrowest) + unspent - forgiven) / rate``.

    Something is forgiven only for an error beyond ``widest u``, and unspent only while errors are
    within ``narrowest u``. Without either, the realised share is within ``log(widest / narrowest) /
    (rate T)`` of nu on every stream; and if no error is beyond ``r u``, the most that it can be
    above nu is ``(log(r / q_0) + rate) / (rate T)``.

    Parameters
    ----------
    trials : int
        T.
    nu : float
        The promised share.
    width_rate : float
        By how much log q rises with a miss.
    narrowest, widest : float
        Within which q stays.
    forgiven, unspent : float
        What the limits have cut off so far, in units of log q: counted by the run.
    first : float, optional
        q_0; ``-log(nu)``, if None: right for errors that fall off exponentially.
    last : float, optional
        q_T. With it the bound is the number of misses itself.

    Returns
    -------
    Guarantee
        Its details have ``promised`` (nu T), ``least`` (the lower bound), ``forgiven`` and
        ``unspent`` (in misses).

    References
    ----------
    I. Gibbs and E. Candes, "Adaptive conformal inference under distribution shift", NeurIPS (2021),
    Proposition 4.1: the same sum, for a level. With the level in place of log q intervals may be
    infinite; here they are not, and what the limits cut off is counted.

    Examples
    --------
    >>> told = interval_misses(
    ...     trials=100_000, nu=0.1, width_rate=0.03, narrowest=0.001, widest=1e4
    ... )
    >>> told
    Guarantee(misses <= 10279.2)
    >>> told.details["least"]
    9741.94...
    """
    owner = "interval_misses"
    check(
        owner, trials=trials, nu=nu, width_rate=width_rate, narrowest=narrowest, widest=widest,
        forgiven=forgiven, unspent=unspent, first=first, last=last,
    )  # fmt: skip
    start = min(max(-math.log(nu), narrowest), widest) if first is None else first
    for name, width in (("first", start), ("last", narrowest if last is None else last)):
        if not narrowest <= width <= widest:
            raise ValueError(
                f"{owner}: {name} must lie within [narrowest, widest], as q does; got "
                f"{name}={width!r}, narrowest={narrowest!r}, widest={widest!r}."
            )
    moved = (forgiven - unspent) / width_rate
    up, down = math.log(widest / start) / width_rate, math.log(start / narrowest) / width_rate
    travel = up if last is None else math.log(last / start) / width_rate
    details = {
        "promised": nu * trials, "least": max(nu * trials - down + moved, 0.0),
        "forgiven": forgiven / width_rate, "unspent": unspent / width_rate,
    }  # fmt: skip
    return Guarantee("misses", nu * trials + travel + moved, details=details)
