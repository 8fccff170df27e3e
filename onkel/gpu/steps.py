"""The kernel of the scalar steps."""

# mypy: ignore-errors

import triton
import triton.language as tl

from onkel.gpu.codes import (
    ALMA,
    AT_ALERT,
    AT_ALERT_SUM,
    AT_ALERTS,
    AT_DROPPED,
    AT_LOSS,
    AT_MARGIN_ERRORS,
    AT_NORM2,
    AT_OFFSET,
    AT_OFFSET_SUM,
    AT_OUTSIDE,
    AT_RISK,
    AT_SCALE,
    AT_SCALE_SUM,
    AT_THRESHOLD,
    AT_TRIALS,
    AT_UPDATES,
    AT_WEIGHT,
    FIELDS,
    NORMA,
    NOVELTY,
    PROJECTION,
)
from onkel.gpu.kernels import in_reach
from onkel.gpu.recurrence import bring_up, carry, judge, lanes_sum, pick, wrapped


@triton.jit(do_not_specialize=["row0", "n", "old"])
def steps(
    base, old_k, own_k, square_k, old_base, coef, weights, births, t_diag, ring, state,
    feed, oldest, y, diag, numbers, results, slot_of, fresh, told, who, kernel_of, row0, n, N,
    slots, old, lot, plane, diag_stride,
    C: tl.constexpr, CP: tl.constexpr, RULE: tl.constexpr, LOSS: tl.constexpr, NU: tl.constexpr,
    POWER1: tl.constexpr, LEARN_ALERTS: tl.constexpr, INTERCEPT: tl.constexpr, NORM: tl.constexpr,
    BALL: tl.constexpr, POWER2: tl.constexpr, TUNING: tl.constexpr, KXX: tl.constexpr,
    STEADY: tl.constexpr, AGED: tl.constexpr, B: tl.constexpr,
    DROPS: tl.constexpr, WIDE: tl.constexpr, BANK: tl.constexpr,
):  # fmt: skip
    """Run the block's steps, one row after another (``core/numpy_core.steps``).

    `feed` is [6][N]: eta * weight, shrink, 1 / shrink, weight, eta * lam, lam of each row; STEADY:
    the first three are the same for all rows of the block. AGED: terms go by age too. A block that
    cannot go on ends early and says why in ``ring[4]`` (bits: f far below its scale, wiped out,
    norm stale, out of range, too few terms at hand); blocks after it do nothing.

    BANK: each program is a member of a bank, on rows that begin where the ring says. It reads the
    planes of its own kernel function, changes `fresh` beside the state, and says in `told` how many
    rows it has done and why no more; what comes of it all is decided afterwards (``gather``). Of
    `results` there are `lot` outputs.
    """
    if BANK:
        member = tl.load(who + tl.program_id(0))
        kernel = tl.load(kernel_of + member)
        base += member * C * B
        own_k += kernel * plane
        diag += kernel * diag_stride
        state += member * CP * FIELDS
        fresh += member * CP * FIELDS
        feed += member * 6 * N
        numbers += member * 8
        results += member * C * N
        n = in_reach(ring, n)
        row0 = tl.minimum(tl.load(ring + 3), N - 1).to(tl.int32)
    score = results
    limit = results + lot * N
    added = results + 2 * lot * N
    nu = tl.load(numbers)
    extra = tl.load(numbers + 1)
    threshold_rate = tl.load(numbers + 2)
    support_rate = tl.load(numbers + 3)
    radius2 = tl.load(numbers + 4) * tl.load(numbers + 4)
    tuning = tl.load(numbers + 5)
    power = tl.load(numbers + 6)
    cap = tl.load(numbers + 7).to(tl.int64)
    head = tl.load(ring + 0).to(tl.int32)
    count = tl.load(ring + 1).to(tl.int32)
    if not BANK:
        here = tl.maximum(tl.load(ring + 2) - row0, 0)
        n = tl.where(tl.load(ring + 4) == 0, tl.minimum(n, here), 0).to(tl.int32)
    have = tl.minimum(count, old)
    room = tl.minimum(cap - count, B + 1).to(tl.int32)
    """Terms that may still come before the oldest must go."""
    tail = wrapped(head + count, slots)
    lane = tl.arange(0, 32)[None, :]
    below = tl.arange(0, 32)[:, None]
    output = tl.arange(0, CP)[:, None]
    if CP == 1:
        of = 0
    else:
        of = output
    place = state + of * FIELDS
    scale = tl.load(place + AT_SCALE)
    offset = tl.load(place + AT_OFFSET)
    threshold = tl.load(place + AT_THRESHOLD)
    alert = tl.load(place + AT_ALERT)
    norm2 = tl.load(place + AT_NORM2)
    scale_sum = tl.load(place + AT_SCALE_SUM)
    offset_sum = tl.load(place + AT_OFFSET_SUM)
    updates = tl.load(place + AT_UPDATES)
    rscale = 1.0 / scale
    stale = (scale * 0.0).to(tl.int32)
    none = tl.zeros([CP, 32], tl.float64)
    outside_sum = none
    alerts_sum = none
    alert_sum = none
    errors_sum = none
    loss_sum = none
    risk_sum = none
    weight_sum = none
    moves_sum = none
    wrong = tl.zeros([CP, 32], tl.int32)
    t0 = n * 0
    front = n * 0
    stored = n * 0
    stop = n * 0
    last = stop - 1
    step = tl.load(feed + row0)
    shrink = tl.load(feed + N + row0)
    rshrink = tl.load(feed + 2 * N + row0)
    while (t0 < n) & (stop == 0):
        rows = t0 + lane
        there = rows < n
        # Read now, so that they are near when the steps want them, one row after another.
        near = tl.load(own_k + (t0 + below) * B + rows)
        near_old = near
        if DROPS > 0:
            near_old = tl.load(old_k + (front + below) * B + rows)
        tl.debug_barrier()
        s = tl.load(base + output * B + rows, mask=there & (output < C), other=0.0).to(tl.float64)
        w0 = front
        window = w0 + lane
        u = none.to(tl.float32)
        if NORM:
            u = tl.load(old_base + output * B + window, mask=output < C, other=0.0)
            u = bring_up(u, old_k, added, N, row0, N, t0, 1.0, window, B, C, CP, 32, True)
            u = bring_up(
                u, square_k, coef, slots, head, slots, front, -1.0, window, B, C, CP, 32, False
            )
        # What goes with these rows, and with the next terms to go: a lane each.
        at = row0 + rows
        slot = wrapped(head + window, slots)
        y_lane = tl.load(y + output * N + at, mask=there, other=0.0)
        weight_lane = tl.load(feed + 3 * N + at, mask=there, other=0.0)
        c_lane = tl.load(coef + output * slots + slot, mask=window < have, other=0.0)
        if not STEADY:
            step_lane = tl.load(feed + at, mask=there, other=0.0)
            shrink_lane = tl.load(feed + N + at, mask=there, other=1.0)
            rshrink_lane = tl.load(feed + 2 * N + at, mask=there, other=1.0)
        if AGED:
            # How far the terms that are too old at each row reach: births only grow.
            last_lane = tl.load(oldest + at, mask=there, other=0)
            born_at = tl.load(
                births + wrapped(head + w0 + below, slots), mask=w0 + below < have, other=2**62
            )
            aged_lane = w0 + tl.sum(tl.where(born_at < last_lane, 1, 0), axis=0)[None, :]
        if KXX:
            kxx_lane = tl.load(diag + at, mask=there, other=1.0).to(tl.float64)
        if NORM:
            diag_lane = tl.load(t_diag + slot, mask=window < have, other=0.0).to(tl.float64)
            pull_lane = tl.load(feed + 4 * N + at, mask=there, other=0.0)
        m = tl.minimum(n - t0, 32)
        z_of = none
        threshold_of = none + threshold
        alert_of = none + alert
        norm_of = none
        added_of = none
        born_of = tl.zeros([1, 32], tl.int32)
        kx = tl.load(own_k + t0 * B + rows)
        if DROPS > 0:
            k_front = tl.load(old_k + front * B + rows)
        r = t0 * 0
        while (r < m) & (stop == 0) & ((front - w0) <= 32 - DROPS):
            f = pick(s, r, CP) * scale
            wide_kx = kx.to(tl.float64)
            # For the next row and the next term that may go, long before they are used.
            kx_next = tl.load(own_k + (t0 + r + 1) * B + rows)
            if DROPS > 0:
                k_next = tl.load(old_k + (front + 1) * B + rows)
            target = pick(y_lane, r, CP)
            weight = 0.0
            if RULE == PROJECTION or TUNING:
                weight = pick(weight_lane, r, 1)
            if not STEADY:
                step = pick(step_lane, r, 1)
                shrink = pick(shrink_lane, r, 1)
                rshrink = pick(rshrink_lane, r, 1)
            kxx = 1.0
            if KXX:
                kxx = pick(kxx_lane, r, 1)
            if AGED:
                aged = pick(aged_lane, r, 1)
            hot = lane == r

            z = f + offset
            seen = z
            if TUNING:
                seen = tl.where(kxx > 0, z / tl.sqrt(tl.where(kxx > 0, kxx, 1.0)), 0.0)
            slope, outside, value, direction = judge(
                seen, target, threshold, nu, extra, LOSS, POWER1
            )
            z_of = tl.where(hot, z, z_of)
            if NU or TUNING:
                threshold_of = tl.where(hot, threshold, threshold_of)
            if LOSS == NOVELTY:
                alert_of = tl.where(hot, alert, alert_of)
            scale_sum += scale
            if TUNING:
                far = tl.sqrt(2.0 / ((updates + 1.0) * tl.where(kxx > 0, kxx, 1.0)))
                move = tl.where(kxx > 0, weight * slope * far, 0.0)
            elif RULE == PROJECTION:
                gone = value > 1e-12 * (tl.abs(f) + tl.abs(target))
                far = tl.where(kxx > 0, weight / tl.where(kxx > 0, kxx, 1.0), 0.0)
                move = tl.where(gone, slope * value * far, 0.0)
            elif RULE == NORMA or RULE == ALMA:  # noqa: SIM109 (a tuple is none of Triton's)
                move = step * slope
            else:
                tl.static_assert(False, "this rule has no steps on the device")
            if LOSS == NOVELTY and not LEARN_ALERTS:
                slope = tl.where(z < alert, 0.0, slope)
                move = tl.where(z < alert, 0.0, move)
            if INTERCEPT:
                offset_sum += offset
                offset += move
            if TUNING:
                updates += tl.where(move != 0, 1.0, scale * 0.0)
                threshold = (1.0 - tuning) * 2.8284271247461903 / tuning / tl.sqrt(updates + 1.0)
            if NU:
                if LOSS == NOVELTY:
                    threshold += support_rate * step * direction
                    alert += threshold_rate * step * (nu - tl.where(z < alert, 1.0, scale * 0.0))
                else:
                    threshold += threshold_rate * step * direction
            less = scale * 0.0 + shrink
            if NORM:
                norm_of = tl.where(hot, norm2, norm_of)
                if not POWER2:
                    safe = tl.where(norm2 > 0, norm2, 1.0)
                    pull = tl.where(norm2 > 0, tl.exp((power / 2 - 1.0) * tl.log(safe)), 0.0)
                    less = tl.maximum(1.0 - pick(pull_lane, r, 1) * pull, 0.0)
                past = less * less * norm2
                own = move * move * kxx
                square = past + 2.0 * less * move * f + own
                stale = stale | tl.where(square < 1e-5 * (past + own), 1, 0)
                norm2 = tl.maximum(square, 0.0)
                if BALL:
                    long = square > radius2
                    inward = tl.where(long, tl.sqrt(radius2 / tl.where(long, square, 1.0)), 1.0)
                    norm2 = tl.where(long, radius2, norm2)
                    less = less * inward
                    move = move * inward
            scale = scale * less
            if NORM and (BALL or not POWER2):
                rscale = 1.0 / tl.where(scale != 0, scale, 1.0)
            else:
                rscale = tl.where(scale != 0, rscale * rshrink, 1.0)
            if NORM or TUNING or RULE == PROJECTION:
                a = move * rscale
                moved = move != 0
            else:  # the same, with as little as can be that waits for the score
                gain = step * rscale
                a = slope * gain
                moved = (slope != 0) & (gain != 0)
            s += a * wide_kx
            added_of = tl.where(hot, a, added_of)
            # One reduction for both: is a term born, must the block end?
            if CP > 1:
                code = tl.where(moved, 1, 0) + tl.where(scale < 1e-12, 65536, 0)
                code = tl.sum(tl.sum(code, axis=1), axis=0)
                born = (code & 65535) > 0
                code = code & -65536
            else:
                born = moved
                code = tl.where(scale < 1e-12, 65536, 0)
            if NORM:
                reach = tl.load(old_k + window * B + t0 + r)
                u += a.to(tl.float32) * reach
            gap = stored - front - room
            one = tl.where(born, 1, 0)
            born_of = tl.where(hot, one, born_of)
            stored += one
            for drop in tl.static_range(DROPS):
                wants = gap > drop - one
                if AGED:
                    wants = wants | (front < aged)
                wants = wants & (front < count)
                due = wants & (front < have)
                code = code | tl.where(wants & (front >= have), 65536, 0)
                off = pick(c_lane, front - w0, CP)
                s = tl.where(due, s - off * k_front.to(tl.float64), s)
                if NORM:
                    off = tl.where(due, off, 0.0)
                    f_old = scale * pick(u, front - w0, CP).to(tl.float64)
                    a_old = scale * off
                    size = pick(diag_lane, front - w0, 1)
                    left = norm2 - 2.0 * a_old * f_old + a_old * a_old * size
                    stale = stale | tl.where(due, tl.where(left < 1e-5 * norm2, 1, 0), 0)
                    norm2 = tl.where(due, tl.maximum(left, 0.0), norm2)
                    u -= off.to(tl.float32) * tl.load(square_k + front * B + window)
                front += tl.where(due, 1, 0)
                k_front = tl.where(due, k_next, k_front)
                if drop + 1 < DROPS:
                    k_next = tl.load(old_k + (front + 1) * B + rows)
            if NORM:
                if BALL:  # to drop a term can make f longer
                    long = norm2 > radius2
                    inward = tl.where(long, tl.sqrt(radius2 / tl.where(long, norm2, 1.0)), 1.0)
                    norm2 = tl.where(long, radius2, norm2)
                    scale = scale * inward
                    rscale = rscale / inward
                worse = tl.where((stale > 0) | (norm2 > 1e37), 65536, 0)
                if CP > 1:
                    worse = tl.max(tl.max(worse, axis=1), axis=0)
                code = code | worse
            stop = code >> 16
            kx = kx_next
            r += 1

        # The 32 are done: write, and count what happened.
        now = lane < r
        both = now & (output < C)
        limit_of = threshold_of
        if LOSS == NOVELTY:
            limit_of = alert_of
        tl.store(score + output * N + at, z_of, mask=both)
        tl.store(limit + output * N + at, limit_of, mask=both)
        tl.store(added + output * N + at, added_of, mask=both)
        alive = born_of
        before = stored - tl.sum(tl.sum(alive, axis=1), axis=0)
        slot = wrapped(tail + before + tl.cumsum(alive, axis=1) - alive, slots)
        if not BANK:
            tl.store(slot_of + at, tl.where(alive > 0, slot, -1), mask=now)
        last = tl.max(
            tl.max(tl.where(lane == r - 1, tl.where(alive > 0, slot, -1), -1), axis=1), axis=0
        )
        seen = z_of
        if TUNING:
            seen = tl.where(
                kxx_lane > 0, z_of / tl.sqrt(tl.where(kxx_lane > 0, kxx_lane, 1.0)), 0.0
            )
        slope, outside, value, direction = judge(
            seen, y_lane, threshold_of, nu, extra, LOSS, POWER1
        )
        fine = (tl.abs(z_of) < 1e37) & (tl.abs(added_of) < 1e37)
        if KXX:
            fine = fine & (kxx_lane < 1e37)
        far_off = tl.max(tl.maximum(tl.abs(near), tl.abs(near_old)), axis=0)[None, :] > 3e38
        wrong = wrong | tl.where(both, tl.where(fine & (far_off == 0), 0, 1), 0)
        if (tl.max(tl.max(wrong, axis=1), axis=0) > 0) & (stop == 0):
            stop += 1
        outside_sum += tl.where(now, weight_lane * outside, 0.0)
        errors_sum += tl.where(now, outside, 0.0)
        loss_sum += tl.where(now, weight_lane * value, 0.0)
        weight_sum += tl.where(now, weight_lane, none)
        moves_sum += tl.where(both & (added_of != 0), 1.0, 0.0)
        alert_sum += tl.where(now, alert_of, 0.0)
        if LOSS == NOVELTY:
            alerts_sum += tl.where(now & (z_of < alert_of), weight_lane, 0.0)
        if NORM:
            lam = tl.load(feed + 5 * N + at, mask=now, other=0.0)
            grown = norm_of
            if not POWER2:
                safe = tl.where(norm_of > 0, norm_of, 1.0)
                grown = tl.where(norm_of > 0, tl.exp(power / 2 * tl.log(safe)), 0.0)
            risk_sum += tl.where(now, weight_lane * value + lam * grown / power, 0.0)
        carry(
            base, own_k, old_k, added_of.to(tl.float32), c_lane.to(tl.float32), t0, r, w0,
            front - w0, n, B, C, CP, WIDE, DROPS,
        )  # fmt: skip
        t0 += r
        tl.debug_barrier()

    # Terms that went: their weights are 0 from now on, their size is part of the bound.
    gone_sum = tl.zeros([CP, 32], tl.float64)
    for start in range(0, front, 32):
        i = start + lane
        slot = wrapped(head + i, slots)
        mask = (i < front) & (output < C)
        a = tl.load(coef + output * slots + slot, mask=mask, other=0.0)
        size = tl.load(t_diag + slot, mask=i < front, other=0.0).to(tl.float64)
        gone_sum += tl.abs(a) * tl.sqrt(tl.maximum(size, 0.0))
        tl.store(weights + output * slots + slot, tl.zeros([CP, 32], tl.float32), mask=mask)
    began = tl.load(place + AT_SCALE)
    dropped = tl.load(place + AT_DROPPED)
    moved = tl.where(began != 0, dropped / began, 0.0)
    dropped_total = (moved + lanes_sum(gone_sum, CP)) * scale
    trials_total = tl.load(place + AT_TRIALS) + t0
    weights_total = tl.load(place + AT_WEIGHT) + lanes_sum(weight_sum, CP)
    outside_total = tl.load(place + AT_OUTSIDE) + lanes_sum(outside_sum, CP)
    alerts_total = tl.load(place + AT_ALERTS) + lanes_sum(alerts_sum, CP)
    alert_total = tl.load(place + AT_ALERT_SUM) + lanes_sum(alert_sum, CP)
    loss_total = tl.load(place + AT_LOSS) + lanes_sum(loss_sum, CP)
    risk_total = tl.load(place + AT_RISK) + lanes_sum(risk_sum, CP)
    errors_total = tl.load(place + AT_MARGIN_ERRORS) + lanes_sum(errors_sum, CP)
    updates_total = tl.load(place + AT_UPDATES) + lanes_sum(moves_sum, CP)
    tl.debug_barrier()
    made = fresh + of * FIELDS
    tl.store(made + AT_SCALE, scale)
    tl.store(made + AT_OFFSET, offset)
    tl.store(made + AT_THRESHOLD, threshold)
    tl.store(made + AT_ALERT, alert)
    tl.store(made + AT_NORM2, norm2)
    tl.store(made + AT_SCALE_SUM, scale_sum)
    tl.store(made + AT_OFFSET_SUM, offset_sum)
    tl.store(made + AT_DROPPED, dropped_total)
    tl.store(made + AT_TRIALS, trials_total)
    tl.store(made + AT_WEIGHT, weights_total)
    tl.store(made + AT_OUTSIDE, outside_total)
    tl.store(made + AT_ALERTS, alerts_total)
    tl.store(made + AT_ALERT_SUM, alert_total)
    tl.store(made + AT_LOSS, loss_total)
    tl.store(made + AT_RISK, risk_total)
    tl.store(made + AT_MARGIN_ERRORS, errors_total)
    tl.store(made + AT_UPDATES, updates_total)
    flags = tl.where(scale == 0, 2, tl.where(scale < 1e-12, 1, 0))
    if CP > 1:
        far = tl.max(tl.max(flags & 1, axis=1), axis=0)
        wiped = tl.max(tl.max(flags & 2, axis=1), axis=0)
        flags = far + wiped
        stale = tl.max(tl.max(stale, axis=1), axis=0)
    reason = flags + 4 * stale + 8 * tl.max(tl.max(wrong, axis=1), axis=0)
    reason = tl.where((stop > 0) & (reason == 0), 16, reason)
    if BANK:
        tl.store(told + 2 * member, t0)
        tl.store(told + 2 * member + 1, reason)
    else:
        tl.store(ring + 0, wrapped(head + front, slots).to(tl.int64))
        tl.store(ring + 1, (count - front + stored).to(tl.int64))
        tl.store(ring + 3, tl.load(ring + 3) + t0)
        tl.store(ring + 4, tl.load(ring + 4) | reason)
        if n > 0:
            tl.store(ring + 5, last.to(tl.int64))
