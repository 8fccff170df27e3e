"""What the study of detectors shows: a table for each set and half, summaries, a figure."""

from __future__ import annotations

from typing import Any

import numpy as np

if __package__:
    from . import nab_score, writing
    from .detection_measures import likelihood
    from .detection_sets import CHOOSE, SHOWN
    from .nab_published import MORE_PUBLISHED, PUBLISHED
    from .study import Row
else:
    import nab_score
    import writing
    from detection_measures import likelihood
    from detection_sets import CHOOSE, SHOWN
    from nab_published import MORE_PUBLISHED, PUBLISHED
    from study import Row

RANKED = ("AUC", "AP", "VUS-PR")
SHARES = ("rows", "episodes", "outside")
HALVES = {SHOWN: "the half « shown »", CHOOSE: "the half « choose »", "": "all streams"}
"""What summaries are of; "": both."""
OURS = {
    "onkel: NoveltyDetector": {"color": writing.AMBER},
    "onkel: Detector": {"color": writing.ACCENT},
    "onkel detect": {"color": writing.ACCENT, "fillstyle": "none"},
}
"""How the figure marks them."""
Runs = list[Any]
"""detection.Run"""
Table = tuple[str, list[Row]]


def of(runs: Runs, half: str) -> Runs:
    """Return the runs of a half; "": of both."""
    return [run for run in runs if half in ("", run.stream.half)]


def by_group(runs: Runs, key: str) -> dict[str, dict[str, float]]:
    """Return for each contender the mean of a measure over each group of streams."""
    found: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        if key in run.measured and not np.isnan(run.measured[key]):
            groups = found.setdefault(run.contender, {})
            groups.setdefault(run.stream.group, []).append(run.measured[key])
    return {
        name: {group: float(np.mean(values)) for group, values in groups.items()}
        for name, groups in found.items()
    }


def means(runs: Runs, key: str) -> dict[str, float]:
    """Return each contender's mean over the groups."""
    return {name: float(np.mean(list(g.values()))) for name, g in by_group(runs, key).items()}


def wins(runs: Runs) -> dict[str, int]:
    """Return on how many groups no contender has a higher AUC."""
    found = by_group(runs, "AUC")
    best: dict[str, float] = {}
    for groups in found.values():
        for group, value in groups.items():
            best[group] = max(value, best.get(group, 0.0))
    return {
        name: sum(v >= best[g] - 1e-9 for g, v in groups.items()) for name, groups in found.items()
    }


def board(runs: Runs) -> list[Row]:
    """Return a line for each contender, the highest AUC first."""
    columns = {key: means(runs, key) for key in (*RANKED, *SHARES, "µs/row")}
    won, rows = wins(runs), []
    for name in columns["µs/row"]:
        row: Row = {"contender": name}
        row |= {key: _short(columns[key].get(name)) for key in RANKED} | {"wins": won.get(name)}
        row |= {f"{key} %": _percent(columns[key].get(name)) for key in SHARES}
        rows.append(row | {"µs/row": _whole(columns["µs/row"][name])})
    return sorted(rows, key=lambda row: -float(row["AUC"] or 0))


def _short(value: float | None) -> str | None:
    return None if value is None else f"{value:.3f}"


def _percent(value: float | None) -> str | None:
    return None if value is None else f"{100 * value:.2f}"


def _whole(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def summary(found: dict[str, Runs], key: str, half: str) -> list[Row]:
    """Return contenders by sets, and the mean over all sets of those that ran on all."""
    columns = {name: means(of(runs, half), key) for name, runs in found.items()}
    columns = {name: column for name, column in columns.items() if column}
    names = dict.fromkeys(name for column in columns.values() for name in column)
    rows = []
    for name in names:
        values = [column.get(name) for column in columns.values()]
        row: Row = {"contender": name} | dict(zip(columns, map(_short, values), strict=True))
        whole = None not in values
        row["mean"] = (
            _short(float(np.mean([v for v in values if v is not None]))) if whole else None
        )
        rows.append(row)
    return sorted(rows, key=lambda row: -float(row["mean"] or 0))


def beaten(found: dict[str, Runs], half: str) -> list[Row]:
    """Return, for each set, onkel's detector beside the best peer by each measure."""
    rows = []
    for name, runs in found.items():
        for ours, said in (("onkel: Detector", name), ("onkel detect", f"{name}, onkel detect")):
            rows.append({"set": said} | _beside(of(runs, half), ours))
    return [row for row in rows if len(row) > 1]


def _beside(runs: Runs, ours: str) -> Row:
    row: Row = {}
    for key in RANKED:
        column = means(runs, key)
        peers = {n: v for n, v in column.items() if not n.startswith("onkel")}
        if ours in column and peers:
            best = max(peers, key=lambda n: peers[n])
            row |= {key: _short(column[ours]), f"best peer, {key}": f"{peers[best]:.3f} {best}"}
    return row


# -- NAB -------------------------------------------------------------------------------------------


def nab(runs: Runs) -> list[Row]:
    """Return NAB's score of each contender over all series, and of those that NAB holds."""
    names = dict.fromkeys(run.contender for run in runs)
    profile = nab_score.PROFILES["standard"]
    rows, marks = [], []
    for name in names:
        own = [run for run in runs if run.contender == name]
        marks = [nab_score.marks(len(r.score), list(r.stream.windows)) for r in own]
        rows.append({"contender": name})
        for head, read in (("as it comes", np.asarray), ("as likelihood", likelihood)):
            best = nab_score.best_threshold([read(r.score) for r in own], marks, profile)[1]
            rows[-1][head] = _short(nab_score.normalised(best, marks, profile))
    series = {run.stream.name for run in runs}
    for name, more in MORE_PUBLISHED.items():
        held = PUBLISHED[name] | more
        if series <= held.keys():
            raw = sum(held[s] for s in series)
            score = _short(nab_score.normalised(raw, marks, profile))
            rows.append({"contender": f"published: {name}", "as it comes": score})
    return sorted(rows, key=lambda row: -float(row["as it comes"]))


# -- all -------------------------------------------------------------------------------------------


def every(found: dict[str, Runs]) -> list[Table]:
    """Return all tables: sets and halves, NAB's score, summaries."""
    made: list[Table] = []
    for name, runs in found.items():
        for half in (CHOOSE, SHOWN):
            if part := of(runs, half):
                count = len({run.stream.group for run in part})
                made.append((f"{name}, the half « {half} » ({count})", board(part)))
    if "nab" in found:
        made.append(("NAB's score, standard profile, all series", nab(found["nab"])))
    for half, said in HALVES.items():
        for key in RANKED:
            made.append((f"{key}, {said}", summary(found, key, half)))
        made.append((f"onkel's detector and the best peer, {said}", beaten(found, half)))
    made.append(("Alerts, the half « shown »", alerting(found)))
    made.append(("Processor time, µs/row, all streams", times(found)))
    return [(caption, rows) for caption, rows in made if rows]


def alerting(found: dict[str, Runs]) -> list[Row]:
    """Return what onkel's detectors alert on, on each set."""
    rows = []
    for name, runs in found.items():
        columns = {key: means(of(runs, SHOWN), key) for key in SHARES}
        for ours in ("onkel: Detector", "onkel detect"):
            if ours in columns["outside"]:
                shares = {f"{key} %": _percent(columns[key].get(ours)) for key in SHARES}
                rows.append({"set": name, "contender": ours} | shares)
    return rows


def times(found: dict[str, Runs]) -> list[Row]:
    """Return microseconds for a row, contenders by sets, the quickest first."""
    columns = {name: means(runs, "µs/row") for name, runs in found.items()}
    names = dict.fromkeys(name for column in columns.values() for name in column)
    rows: list[Row] = [
        {"contender": name} | {s: _whole(c[name]) for s, c in columns.items() if name in c}
        for name in names
    ]
    return sorted(rows, key=lambda row: float(next(v for s, v in row.items() if s in columns)))


def figures(found: dict[str, Runs]) -> list[tuple[str, Any]]:
    """Return the mean AUC of every contender on every set, a dot each."""
    if not found:
        return []
    columns = {name: means(of(runs, SHOWN) or runs, "AUC") for name, runs in found.items()}
    fig, panels = writing.canvas(1, height=0.55 * len(columns) + 1.4)
    axis = panels[0, 0]
    for at, column in enumerate(columns.values()):
        peers = {n: v for n, v in column.items() if not n.startswith("onkel")}
        axis.plot(list(peers.values()), [-at] * len(peers), "o", color=writing.SOFT, ms=5)
        for name, how in OURS.items():
            if name in column:
                axis.plot([column[name]], [-at], "D", ms=7, zorder=3, **how)
        if peers:
            best = max(peers, key=lambda n: peers[n])
            axis.annotate(best, (peers[best], -at), (4, 6), textcoords="offset points", fontsize=7,
                          ha="right")  # fmt: skip
    axis.axvline(0.5, color=writing.INK, lw=0.8, ls=":")
    axis.set_yticks([-k for k in range(len(columns))], list(columns))
    axis.set(xlabel="mean AUC", ylim=(-len(columns) + 0.4, 0.7))
    caption = (
        "Mean AUC on the half « shown »: onkel's Detector (blue; hollow: the command on a series), "
        "its NoveltyDetector (amber), peers (grey, the best named)."
    )
    return [(caption, fig)]
