"""Cool-down, episodes, incidents and ranks, one row after another, by their definitions."""

import hashlib
import math


def cool_down(alerts, rows):
    """An alert is shown if no shown one lies within the `rows` rows before it."""
    shown = []
    for i, alert in enumerate(alerts):
        shown.append(bool(alert) and not any(shown[max(0, i - rows) : i]))
    return shown


def episodes(alerts, values, gap):
    """Alerts at most `gap` apart as (start, end, peak, peak_at, count)."""
    groups = []
    for i in [i for i, alert in enumerate(alerts) if alert]:
        if groups and i - groups[-1][-1] <= gap:
            groups[-1].append(i)
        else:
            groups.append([i])
    found = []
    for rows in groups:
        peak = min(values[i] for i in rows)
        at = next(i for i in rows if values[i] == peak)
        found.append((rows[0], rows[-1], peak, at, len(rows)))
    return found


def ranks(scores, size):
    """(1 + how many of the `size` scores before are at most as high) / (1 + how many there are)."""
    found = []
    for i, score in enumerate(scores):
        before = scores[max(0, i - size) : i]
        found.append((1 + sum(s <= score for s in before)) / (1 + len(before)))
    return found


def known_keys(keys):
    """How many keys there are by linear counting in 65 536 places."""
    places = 65536
    taken = {hashlib.blake2b(str(key).encode(), digest_size=2).digest() for key in keys}
    return round(places * math.log(places / (places - len(taken))))


def is_crowd(count, rows, rate):
    """So many of so many rows: less likely than 1e-4 at twice the rate, by Chernoff's bound."""
    mean = 2 * rate * rows
    return count >= 3 and count > mean and math.exp(count - mean) * (mean / count) ** count <= 1e-4


def incidents(alerts, values, gap=None, span=None, times=None, keys=None, rate=None, most=None):
    """Incidents as dicts: rows of alerts, number, key, wide, into; row by row, by the definition.

    `gap` in rows (of the key), or `span` in seconds. Of single keys `most` may be open. Every row
    looks at everything again.
    """
    found, horizon = [], -1
    keys = keys if keys is not None else [None] * len(alerts)

    def clock(i):
        return max(times[: i + 1])

    def latest(one, i):
        """The latest time of its key since its first alert."""
        return max(times[j] for j in range(one["rows"][0], i + 1) if keys[j] == one["key"])

    def is_over(one, i):
        """Whether an alert of its key at row i comes too late for it."""
        if one["closed"] or one["into"]:
            return True
        if span is not None:
            late = clock(i) - clock(one["last"])
            return max(late, 0 if one["wide"] else latest(one, i) - latest(one, one["last"])) > span
        if one["wide"]:
            return i > one["last"] + max(gap, 2 * one["known"])
        return sum(key == one["key"] for key in keys[one["last"] + 1 : i + 1]) > gap

    def is_on(one, i):
        """Whether an incident of another key may still go on at row i."""
        if one["wide"] or one["into"] or one["closed"] or one["key"] == keys[i]:
            return False
        if span is not None:
            return not is_over(one, i)
        return sum(key == one["key"] for key in keys[one["last"] + 1 : i + 1]) < gap

    for i, alert in enumerate(alerts):
        known = known_keys(set(keys[: i + 1])) if keys[i] is not None else 1
        horizon = max(horizon, i - max(known, 20))
        for one in found:
            one["closed"] = one["closed"] or (one["wide"] and is_over(one, i))
        if not alert:
            continue
        late = [j for j in range(horizon + 1, i) if span is None or clock(i) - clock(j) <= span]
        own = [one for one in found if one["key"] == keys[i] and not one["wide"]]
        mine = own[-1] if own and not is_over(own[-1], i) else None
        if mine and mine["last"] > horizon:
            mine["rows"].append(i)
            mine["last"] = i
            continue
        wide = [one for one in found if one["wide"] and not one["closed"]]
        if not wide and rate is not None and keys[i] is not None:
            begun = [one for one in found if one["place"] in late and is_on(one, i)]
            if is_crowd(len(begun) + 1, i - horizon, rate):
                number = 1 + len(found)
                new = [one for one in begun if one["place"] == one["rows"][0]]
                rows = [row for one in new for row in one["rows"]]
                for one in new:
                    one["into"] = number
                wide = [_incident(number, None, rows, True)]
                wide[0]["places"] = [one["place"] for one in begun]
                found += wide
        if wide:
            one = wide[0]
            new = one["last"] is None
            if mine:
                mine["closed"] = True
            one["rows"].append(i)
            one["places"].append(i)
            of_late = {keys[j] for j in one["places"] if j in late or j == i}
            if new or is_crowd(len(of_late), i - horizon, rate):
                one["last"], one["known"] = i, max(known, 1)
            continue
        if mine is None:
            still = [one for one in found if is_on(one, i)]
            if most is not None and keys[i] is not None and len(still) >= most:
                min(still, key=lambda one: one["last"])["closed"] = True
            mine = _incident(1 + len(found), keys[i], [], False)
            found.append(mine)
        mine["rows"].append(i)
        mine["last"] = mine["place"] = i
    for one in found:
        one["peak"] = min(values[j] for j in one["rows"])
        one["peak_at"] = next(j for j in sorted(one["rows"]) if values[j] == one["peak"])
    return found


def _incident(number, key, rows, wide):
    return {
        "number": number, "key": key, "rows": rows, "wide": wide, "into": None, "last": None,
        "closed": False, "known": 1, "place": None,
    }  # fmt: skip
