"""How many alerts a level that remembers its debt can raise, and how many are dismissed."""

from __future__ import annotations

import math

from onkel.bounds.guarantee import Guarantee, check, theorem

__all__ = ["alert_budget", "precision_budget"]


@theorem
def alert_budget(
    *, trials: int, nu: float, level_rate: float, low: float, high: float, forgiven: float = 0.0,
    unspent: float = 0.0, start: float | None = None, end: float | None = None,
) -> Guarantee:  # fmt: skip
    """Bound on the alerts of a level that moves against its debt, for any stream whatsoever.

    ``log a <- log a + rate (nu - alert)``, held within [log low, log high]; an alert is p < a.

    Summed up over T rows this is an identity, whatever the rows and their p:

    ``alerts = nu T + (log a_0 - log a_T + forgiven - unspent) / rate``,

    where `forgiven` is what the lower limit cut off (the level would have gone below it) and
    `unspent` what the upper limit did. As a_T lies within the limits,

    ``alerts <= nu T + (log(a_0 / low) + forgiven - unspent) / rate``  and
    ``alerts >= nu T - (log(high / a_0) + unspent - forgiven) / rate``.

    Nothing is forgiven before the level has come down to its floor, by ``log(a_0 / low) / rate``
    alerts on top of those promised and unspent. Then each alert adds at most (1 - nu) rate to
    `forgiven`: such a row has p below the floor, or a step above it. So a fault is told to its
    end, and however long it was, ``log(a_0 / low) / rate`` alerts are owed after it, no more.

    Parameters
    ----------
    trials : int
        T, the rows that could raise an alert: those after the warm-up.
    nu : float
        The promised rate.
    level_rate : float
        By how much log a falls with an alert.
    low, high : float
        Within which the level stays.
    forgiven, unspent : float
        What the limits have cut off so far, in units of log a: counted by the run.
    start : float, optional
        a_0; nu, if None.
    end : float, optional
        a_T. With it the bound is the number of alerts itself.

    Returns
    -------
    Guarantee
        Its details have ``promised`` (nu T), ``least`` (the lower bound), ``debt``
        (``log(a_0 / low) / rate``), ``forgiven`` and ``unspent`` (in alerts).

    Examples
    --------
    >>> told = alert_budget(trials=100_000, nu=0.01, level_rate=0.01, low=0.002, high=0.03)
    >>> told
    Guarantee(alerts <= 1160.94...)
    >>> told.details["least"]
    890.13...
    """
    owner = "alert_budget"
    check(
        owner, trials=trials, nu=nu, level_rate=level_rate, low=low, high=high, forgiven=forgiven,
        unspent=unspent, start=start, end=end,
    )  # fmt: skip
    start = nu if start is None else start
    for name, level in (("start", start), ("end", low if end is None else end)):
        if not low <= level <= high:
            raise ValueError(
                f"{owner}: {name} must lie within [low, high], as the level does; got "
                f"{name}={level!r}, low={low!r}, high={high!r}."
            )
    moved = (forgiven - unspent) / level_rate
    debt, credit = math.log(start / low) / level_rate, math.log(high / start) / level_rate
    spent = debt if end is None else math.log(start / end) / level_rate
    details = {
        "promised": nu * trials, "least": max(nu * trials - credit + moved, 0.0), "debt": debt,
        "forgiven": forgiven / level_rate, "unspent": unspent / level_rate,
    }  # fmt: skip
    return Guarantee("alerts", nu * trials + spent + moved, details=details)


@theorem
def precision_budget(
    *, answered: int, precision: float, level_rate: float, start: float, lowest: float,
    waiting: int = 0, unspent: float = 0.0, end: float | None = None,
) -> Guarantee:  # fmt: skip
    """Bound on the alerts that are dismissed, of a level that follows the answers.

    ``log a <- log a + rate (1 - precision - dismissed)``, at most log high; an alert is p < a.

    Summed up over T answers this is an identity, whatever the rows and whoever answers:

    ``dismissed = (1 - precision) T + (log a_0 - log a_T - unspent) / rate``,

    where `unspent` is what the upper limit cut off. A row whose p is below `lowest` does not come,
    so that a level there raises no alert, and only those that wait can still be dismissed:

    ``dismissed <= (1 - precision) T + log(a_0 / lowest) / rate + precision (waiting + 1)``.

    An answer that is changed from a fault to usual lowers the level by `rate`, and needs no alert
    to come for that: each such change may add 1.

    Parameters
    ----------
    answered : int
        T, the answers; one that was changed counts once, as it is now.
    precision : float
        The promised share of faults.
    level_rate : float
        By how much log a follows an answer.
    start : float
        a_0.
    lowest : float
        The least p of any row.
    waiting : int
        Alerts that may wait for an answer at once.
    unspent : float
        What the upper limit has cut off so far, in units of log a: counted by the run.
    end : float, optional
        a_T. With it the bound is the number of dismissed alerts itself.

    Returns
    -------
    Guarantee
        Its details have ``promised``, (1 - precision) T, and ``most``, the share that the bound
        leaves.

    Examples
    --------
    >>> told = precision_budget(answered=1000, precision=0.8, level_rate=0.25, start=0.01,
    ...                         lowest=1e-12)
    >>> told
    Guarantee(dismissed <= 292.90...)
    >>> told.details["promised"]
    199.99...
    """
    owner = "precision_budget"
    check(
        owner, answered=answered, precision=precision, level_rate=level_rate, start=start,
        lowest=lowest, waiting=waiting, unspent=unspent, end=end,
    )  # fmt: skip
    if start is None or not lowest <= start:
        raise ValueError(f"{owner}: start must be a level of at least lowest; got {start!r}.")
    promised = (1.0 - precision) * answered
    spent = math.log(start / lowest) / level_rate + precision * (waiting + 1)
    if end is not None:
        spent = math.log(start / end) / level_rate
    bound = promised + spent - unspent / level_rate
    return Guarantee(
        "dismissed", bound, details={"promised": promised, "most": min(bound / answered, 1.0)}
    )
