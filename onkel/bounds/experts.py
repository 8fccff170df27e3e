"""How much worse than the best of several members a mixture may be (fixed share)."""

from __future__ import annotations

import math

from onkel.bounds.guarantee import Guarantee, check, theorem

__all__ = ["fixed_share", "log_loss"]


@theorem
def fixed_share(
    *, members: int, trials: int, switches: int = 0, rate: float | None = None,
    share: float | None = None, best_loss: float | None = None, mix_gap: float | None = None,
) -> Guarantee:  # fmt: skip
    """Bound on the loss of exponential weights with fixed share, beyond any sequence of members.

    ``sum of w_t . l_t  <=  sum of l_{t, i_t}  +  C / eta  +  eta T / 8``,
    ``C = ln N + s ln(N / alpha) + (T - s - 1) ln(1 / (1 - alpha + alpha / N))``

    for all losses from 0 to 1, however they come about, and every sequence i_1 ... i_T of members
    that changes s times; s = 0 is the best fixed member. The weights start even and go
    ``w <- (1 - alpha) v + alpha / N``, v the exponential weights. The mixture's loss is the
    weighted mean of the members'; a prediction that is the weighted mean of theirs has at most that
    loss where the loss is convex in it.

    With `best_loss` L, that of the sequence, ``(eta L + C) / (1 - exp(-eta)) - L`` holds too, which
    is less where L is small; with `mix_gap`, what the mixture's loss was measured to exceed its
    mixed loss by, ``C / eta + mix_gap`` (``mix_gap <= eta T / 8`` always). The least of those that
    can be had is returned.

    Parameters
    ----------
    members : int
        N, at least 2.
    trials : int
        T.
    switches : int
        s, below T.
    rate : float, optional
        eta; the one that makes ``C / eta + eta T / 8`` least, if None.
    share : float, optional
        alpha; the one that makes C least, if None.
    best_loss : float, optional
        L, the cumulative loss of the sequence that is compared with, at most T.
    mix_gap : float, optional
        Measured in the run: the sum of ``w_t . l_t + ln(w_t . exp(-eta l_t)) / eta``.

    References
    ----------
    M. Herbster and M. Warmuth, "Tracking the best expert", Machine Learning 32 (1998): the mixed
    loss ``-ln(w_t . exp(-eta l_t)) / eta`` sums up to that of a Bayes mixture over all sequences,
    in which one with s switches has the prior weight exp(-C); so it is at most ``C / eta`` above
    that sequence's loss. Their share goes to the others only; here it may come back, as in
    N. Cesa-Bianchi and G. Lugosi, "Prediction, Learning, and Games" (2006), section 5.2, who bound
    C by ``(s + 1) ln N + s ln(1 / alpha) + (T - s - 1) ln(1 / (1 - alpha))``. That the mean loss
    exceeds the mixed one by at most eta/8 is Hoeffding's inequality; s = alpha = 0 is their Theorem
    2.2, with `best_loss` their Theorem 2.4.

    Examples
    --------
    >>> fixed_share(members=9, trials=10_000, switches=0, share=0.0)
    Guarantee(loss beyond the sequence's <= 104.81..., tuning={rate: 0.0419..., share: 0})
    >>> fixed_share(members=9, trials=10_000, rate=0.25, share=0.001, best_loss=700.0).bound
    141.27...
    """
    owner = "fixed_share"
    check(
        owner, members=members, trials=trials, switches=switches, rate=rate, share=share,
        best_loss=best_loss, mix_gap=mix_gap,
    )  # fmt: skip
    alpha = _alpha(owner, members, trials, switches, share)
    c = _complexity(members, trials, switches, alpha)
    eta = math.sqrt(8 * c / trials) if rate is None else float(rate)
    found = [c / eta + eta * trials / 8]
    if best_loss is not None:
        found.append((eta * best_loss + c) / -math.expm1(-eta) - best_loss)
    if mix_gap is not None:
        found.append(c / eta + mix_gap)
    return Guarantee(
        "loss beyond the sequence's", min(found), {"rate": eta, "share": alpha},
        details={"C": c},
    )  # fmt: skip


@theorem
def log_loss(
    *, members: int, trials: int, switches: int = 0, share: float | None = None
) -> Guarantee:
    """Bound on the log loss of mixed probabilities, beyond any sequence of members.

    ``sum of -ln p_t(y_t)  <=  sum of -ln p_{t, i_t}(y_t)  +  C``,
    ``C = ln N + s ln(N / alpha) + (T - s - 1) ln(1 / (1 - alpha + alpha / N))``

    for all labels and all probabilities, however they come about, and every sequence i_1 ... i_T of
    members that changes s times; s = 0 is the best fixed member, and with ``alpha = 0`` the bound
    is ln N. p_t is the mean of the members' probabilities by weights that start even and go
    ``w <- (1 - alpha) v + alpha / N``, ``v_i = w_i p_i(y) / (sum of the same)``. No rate is to be
    chosen, and no trial costs anything: log loss is mixable.

    Parameters
    ----------
    members : int
        N, at least 2.
    trials : int
        T.
    switches : int
        s, below T.
    share : float, optional
        alpha; the one that makes C least, if None.

    References
    ----------
    M. Herbster and M. Warmuth, "Tracking the best expert", Machine Learning 32 (1998): the mixed
    probability of all labels is that of a Bayes mixture over all sequences, in which one with s
    switches has the prior weight exp(-C).

    Examples
    --------
    >>> log_loss(members=9, trials=10_000, share=0.0)
    Guarantee(log loss beyond the sequence's <= 2.197..., tuning={share: 0})
    >>> log_loss(members=11, trials=10_000, share=0.001).bound
    11.49...
    """
    owner = "log_loss"
    check(owner, members=members, trials=trials, switches=switches, share=share)
    alpha = _alpha(owner, members, trials, switches, share)
    c = _complexity(members, trials, switches, alpha)
    return Guarantee("log loss beyond the sequence's", c, {"share": alpha}, details={"C": c})


def _alpha(owner: str, members: int, trials: int, switches: int, share: float | None) -> float:
    """Return the share, or the least one; refuse what no sequence of members can have."""
    if switches >= trials:
        raise ValueError(
            f"{owner}: switches must be below trials; got switches={switches!r}, trials={trials!r}."
        )
    alpha = _least_share(members, trials, switches) if share is None else float(share)
    if switches and not alpha:
        raise ValueError(
            f"{owner}: a sequence that switches needs share above 0; got share={share!r} with "
            f"switches={switches!r}. Leave share out for the best one."
        )
    return alpha


def _least_share(members: int, trials: int, switches: int) -> float:
    """Return the share that makes C least: members change in s of T - 1 places."""
    if not switches:
        return 0.0
    return min(switches / (trials - 1) * members / (members - 1), 1.0)


def _complexity(members: int, trials: int, switches: int, alpha: float) -> float:
    """Return C = -ln of the prior weight of one sequence with so many switches."""
    stay = math.log1p(-alpha * (members - 1) / members)
    change = switches * math.log(members / alpha) if switches else 0.0
    return math.log(members) + change - (trials - switches - 1) * stay
