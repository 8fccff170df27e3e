"""How many labels are asked for by a level that remembers its debt (:func:`ask_budget`)."""

from __future__ import annotations

from onkel.bounds.guarantee import Guarantee, check, theorem

__all__ = ["ask_budget"]

NOISE = 1e-9
"""Of a level that was added up in floating point."""


@theorem
def ask_budget(
    *, trials: int, ask: float, ask_rate: float, ask_start: float | None = None,
    ask_end: float | None = None,
) -> Guarantee:  # fmt: skip
    """Bound on the rows that are asked for, for any stream whatsoever.

    A row has a rank u in [0, 1] and is asked for if u reaches the level:
    ``level <- level + rate (asked - ask)``. Summed up over T rows this is an identity,

    ``asked = ask T + (level_T - level_0) / rate``.

    Above 1 no row reaches the level, at 0 and below every row does. So a level that starts within
    [0, 1] stays within ``[-rate ask, 1 + rate (1 - ask)]``, and

    ``asked <= ask T + (1 - level_0) / rate + 1 - ask``  and
    ``asked >= ask T - level_0 / rate - ask``.

    Parameters
    ----------
    trials : int
        T, the rows that came.
    ask : float
        The promised share of them.
    ask_rate : float
        The level rises by this times 1 - ask with a row that is asked for.
    ask_start : float, optional
        level_0, within [0, 1]; ``1 - ask``, if None.
    ask_end : float, optional
        level_T. With it the bound is the number of rows asked for itself.

    Returns
    -------
    Guarantee
        Its details have ``promised`` (ask T), ``least`` (the lower bound), and ``surplus``: by
        how many rows more may be asked for than promised, at any time.

    Examples
    --------
    >>> told = ask_budget(trials=100_000, ask=0.02, ask_rate=0.01)
    >>> told
    Guarantee(asked <= 2002.98)
    >>> round(told.details["least"], 6)
    1901.98
    """
    owner = "ask_budget"
    check(owner, trials=trials, ask=ask, ask_rate=ask_rate, ask_start=ask_start, ask_end=ask_end)
    start = 1.0 - ask if ask_start is None else ask_start
    low, high = -ask_rate * ask, 1.0 + ask_rate * (1.0 - ask)
    if ask_end is not None and not low - NOISE <= ask_end <= high + NOISE:
        raise ValueError(
            f"{owner}: ask_end must lie within [{low:.6g}, {high:.6g}], as the level does; got "
            f"{ask_end!r}."
        )
    surplus = (1.0 - start) / ask_rate + 1.0 - ask
    least = max(ask * trials - start / ask_rate - ask, 0.0)
    moved = surplus if ask_end is None else (ask_end - start) / ask_rate
    details = {"promised": ask * trials, "least": least, "surplus": surplus}
    return Guarantee("asked", ask * trials + moved, details=details)
