"""Cool-down, episodes and ranks, one row after another, by their definitions."""


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
