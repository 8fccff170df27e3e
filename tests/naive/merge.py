"""Merging by the definition: f = sum_j w_j f_j; the trials of the same age stand side by side."""

import copy
import math

import numpy as np


def interleaved(clocks):
    """{(model, trial): trial of the whole}: by age, oldest first; then by model."""
    trials = [(t - i, j, i) for j, t in enumerate(clocks) for i in range(1, t + 1)]
    trials.sort(key=lambda trial: (-trial[0], trial[1]))
    return {(j, i): at for at, (_, j, i) in enumerate(trials, start=1)}


def pooled(moments):
    """Mean and variance of all rows that count: min(t, memory) of each."""
    whole = copy.deepcopy(moments[0])
    seen = [m for m in moments if m.t]
    whole.t = sum(m.t for m in seen)
    if seen:
        n = [min(m.t, m.memory) for m in seen]
        whole.mean = sum(k * m.mean for k, m in zip(n, seen, strict=True)) / sum(n)
        second = sum(k * (m.var + m.mean**2) for k, m in zip(n, seen, strict=True)) / sum(n)
        whole.var = np.maximum(second - whole.mean**2, 0.0)
    return whole


def merged(twins, weights):
    """A twin that goes on from sum_j w_j f_j; what the window does not hold is dropped."""
    whole, clocks = copy.deepcopy(twins[0]), [twin.t for twin in twins]
    whole.t = sum(clocks)
    _add_frames(whole, twins, weights)
    gains = [
        [w * a / b for a, b in zip(twin.target_spread, whole.target_spread, strict=True)]
        for twin, w in zip(twins, weights, strict=True)
    ]
    means = [[g * whole.t / t for g in gain] for gain, t in zip(gains, clocks, strict=True)]
    _add_scalars(whole, twins, weights, gains, means)
    if hasattr(whole, "theta"):
        _add_histories(whole, twins, gains, means)
    else:
        _add_terms(whole, twins, gains, means, interleaved(clocks))
        whole._truncate()
    whole._into_ball()
    return whole


def _add_frames(whole, twins, weights):
    whole.row_moments = pooled([twin.row_moments for twin in twins])
    whole.target_moments = pooled([twin.target_moments for twin in twins])
    if whole.scale:
        whole.center, whole.spread = whole.row_moments.mean, whole.row_moments.spread()
        whole.known = np.any([twin.known for twin in twins], axis=0) | (whole.row_moments.var > 0)
    if whole.targets_scaled:
        whole.target_known = [
            any(twin.target_known[o] for twin in twins) or whole.target_moments.var[o] > 0
            for o in range(whole.outputs)
        ]
        spread = whole.target_moments.spread()
        whole.target_spread = np.where(whole.target_known, spread, twins[0].target_spread)
        centers = [w * twin.target_center for w, twin in zip(weights, twins, strict=True)]
        whole.target_center = np.sum(centers, axis=0)


def _add_scalars(whole, twins, weights, gains, means):
    """b adds as f; rho too; eps and sigma are averaged; counts add."""
    for o in range(whole.outputs):
        whole.b[o] = sum(g[o] * twin.b[o] for g, twin in zip(gains, twins, strict=True))
        whole.sum_b[o] = sum(m[o] * twin.sum_b[o] for m, twin in zip(means, twins, strict=True))
        whole.updates[o] = sum(twin.updates[o] for twin in twins)
        if whole.nu is not None:
            rho = sum(g[o] * twin.threshold[o] for g, twin in zip(gains, twins, strict=True))
            regression = whole.loss not in ("soft_margin", "novelty")
            whole.threshold[o] = rho / sum(weights) if regression else rho
        if whole.loss == "novelty":
            whole.alert[o] = sum(g[o] * t.alert[o] for g, t in zip(gains, twins, strict=True))
    for name in ("sum_outside", "sum_alerts", "cumulative_loss", "cumulative_risk"):
        setattr(whole, name, sum(getattr(twin, name) for twin in twins))


def _add_terms(whole, twins, gains, means, births):
    whole.terms, whole.dropped, whole.sum_terms, whole.pairs = [], [], {}, {}
    for j, twin in enumerate(twins):
        for name in ("terms", "dropped"):
            for i, x, coef in getattr(twin, name):
                scaled = [g * a for g, a in zip(gains[j], coef, strict=True)]
                getattr(whole, name).append((births[j, i], x, scaled))
        for i, x, coef in twin.sum_terms.values():
            scaled = [m * a for m, a in zip(means[j], coef, strict=True)]
            whole.sum_terms[births[j, i]] = (births[j, i], x, scaled)
    whole.terms.sort(key=lambda term: term[0])


def _add_histories(whole, twins, gains, means):
    """theta = sum of w_j theta_j over all past examples; past w add as they are (p = 2: linear)."""
    whole.history, past = [], []
    for j, twin in enumerate(twins):
        for i, (x, coefs) in enumerate(twin.history):
            whole.history.append((x, [g * a for g, a in zip(gains[j], coefs, strict=True)]))
            total = [
                sum(s[i][o] for s in twin.snapshots if i < len(s)) for o in range(twin.outputs)
            ]
            past.append([m * a for m, a in zip(means[j], total, strict=True)])
    sums = [[[m[o] * e for e in twin.sum_w[o]] for o in range(whole.outputs)]
            for m, twin in zip(means, twins, strict=True)]  # fmt: skip
    whole.snapshots = [past] if whole.average and whole.p == 2 else []
    whole._reframed()
    if whole.p != 2:
        whole.sum_w = np.sum(sums, axis=0).tolist()


def total_bound(dropped, kernel):
    """sum of |a| sqrt(k(x, x)) over dropped terms, for each output."""
    sizes = [math.sqrt(max(0.0, kernel(x, x))) for _, x, _ in dropped]
    return [
        sum(abs(coef[o]) * size for (_, _, coef), size in zip(dropped, sizes, strict=True))
        for o in range(len(dropped[0][2]) if dropped else 0)
    ]
