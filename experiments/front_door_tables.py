"""What the front-door study shows, made of what is kept: tables, a figure, checks."""

from __future__ import annotations

from typing import Any

if __package__:
    from . import writing
    from .front_door_peers import MOST, PEERS
    from .front_door_streams import CHOSEN_ON, CLASSES, NUMBERS, TEXTS
    from .harness import Check
    from .study import Row
else:
    import writing
    from front_door_peers import MOST, PEERS
    from front_door_streams import CHOSEN_ON, CLASSES, NUMBERS, TEXTS
    from harness import Check
    from study import Row

Kept = list[dict[str, Any]]
Table = tuple[str, list[Row]]
SELF = {CLASSES: "Classifier", TEXTS: "Classifier", NUMBERS: "Regressor"}
"""The front door."""
SHORT = {
    "KernelClassifier": "Kernel", "LinearClassifier": "Linear", "Classifier": "Classifier",
    "KernelRegressor": "Kernel", "LinearRegressor": "Linear", "Regressor": "Regressor",
    "River: adaptive random forest": "forest", "River: Mondrian forest": "Mondrian",
    "River: adaptive Hoeffding tree": "tree", "River: adaptive model rules": "rules",
    "River: nearest neighbours": "neighbours", "River: logistic regression": "logistic",
    "River: linear regression": "linear", "River: passive-aggressive": "PA",
    "scikit-learn: SGDClassifier": "SGD", "scikit-learn: SGDRegressor": "SGD",
    "River: Gaussian naive Bayes": "naive Bayes", "River: Bernoulli naive Bayes": "naive Bayes",
    "River: Bernoulli naive Bayes, alpha 0.01": "naive Bayes, alpha 0.01",
    "River: multinomial naive Bayes": "naive Bayes, multinomial",
    "no change": "no change", "majority or mean": "usual",
}  # fmt: skip
"""Methods in a word or two, in the order of columns."""
CALIBRATED = ("elec2", "a9a", "cod_rna", "terrain")
GOAL = 0.02
"""The most that probabilities may be off on these, over 15 bins of the second half."""
EVEN = 0.05
"""Two errors of which the lesser is within so much of the greater are called even."""
PUBLISHED = {
    "River: Bananas": ("accuracy", 0.8894), "River: Phishing": ("accuracy", 0.9135),
    "River: ChickWeights": ("MAE", 23.11),
}  # fmt: skip
"""The best figures in the tables that River publishes of its own models."""


def by_stream(kept: Kept, numbers: bool) -> dict[str, dict[str, dict[str, Any]]]:
    """Return what is kept as streams, and methods of each; of numbers, or of classes and texts."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for one in kept:
        if (one["task"] == NUMBERS) == numbers:
            found.setdefault(one["stream"], {})[one["method"]] = one
    return found


# -- beside the best peer --------------------------------------------------------------------------


def ahead(ours: float, theirs: float) -> str:
    """Return who has the lesser error.

    >>> ahead(1.0, 2.0), ahead(2.0, 1.0), ahead(1.0, 1.01)
    ('onkel', 'the peer', 'even')
    """
    if abs(ours - theirs) <= EVEN * max(ours, theirs):
        return "even"
    return "onkel" if ours < theirs else "the peer"


def beside(kept: Kept, numbers: bool, first: bool = False) -> list[Row]:
    """Return each stream's line: onkel's errors, and the peer with the least.

    `first`: of the first rows of long streams, which slow peers stop after; else of all rows, for
    which only peers that had them count.
    """
    key, rows = "error, first" if first else "error", []
    for stream, methods in by_stream(kept, numbers).items():
        some = next(iter(methods.values()))
        if first and some["of"] <= MOST:
            continue
        theirs = {
            name: one[key] for name, one in methods.items()
            if name in PEERS[one["task"]] and (first or one["rows"] == one["of"])
        }  # fmt: skip
        row: Row = {"stream": stream, "rows": min(some["of"], MOST) if first else some["of"]}
        if not first:
            row |= {"features": some["d"], "chosen on": CHOSEN_ON.get(stream, "no")}
            row |= {} if numbers else {"classes": some["classes"]}
        row |= {SHORT[n]: methods[n][key] for n in SHORT if n in methods and n not in theirs
                and n not in PEERS[some["task"]]}  # fmt: skip
        own = methods.get(SELF[some["task"]])
        if own and theirs:
            best = min(theirs, key=lambda name: theirs[name])
            row |= {"best peer": theirs[best], "which": SHORT[best]}
            row["ahead"] = ahead(own[key], theirs[best])
        rows.append(row)
    return rows


def parts(kept: Kept) -> dict[str, list[Row]]:
    """Return the lines beside the best peer: classes, the first rows of long streams, numbers."""
    return {
        "classes": beside(kept, False),
        f"classes, first {MOST:,} rows of longer streams": beside(kept, False, True),
        "numbers": beside(kept, True),
    }


def glance(kept: Kept) -> list[Row]:
    """Return on how many streams the front door is ahead of every peer, even with the best, behind.

    Apart for streams that had a part in choosing defaults, and those that had none.
    """
    rows = []
    for part, lines in parts(kept).items():
        for chosen, word in ((False, "no part in choosing"), (True, "defaults chosen by them")):
            of = [r for r in lines if (r["stream"] in CHOSEN_ON) == chosen and "ahead" in r]
            count = {
                who: sum(r["ahead"] == who for r in of) for who in ("onkel", "even", "the peer")
            }
            if of:
                row = {"streams": part, "which": word, "how many": len(of)}
                rows.append(row | {"onkel ahead": count["onkel"], "even": count["even"],
                                   "a peer ahead": count["the peer"]})  # fmt: skip
    return rows


def behind(kept: Kept) -> list[Row]:
    """Return the streams on which a peer is ahead."""
    rows = []
    for part, lines in parts(kept).items():
        for line in lines:
            if line.get("ahead") == "the peer":
                own = line.get("Classifier", line.get("Regressor"))
                rows.append({"streams": part, "stream": line["stream"], "onkel": own,
                             "best peer": line["best peer"], "which": line["which"]})  # fmt: skip
    return rows


# -- every method ----------------------------------------------------------------------------------


def matrix(kept: Kept, task: str, key: str) -> list[Row]:
    """Return a line for each stream, a column for each method."""
    rows, of = [], [one for one in kept if one["task"] == task]
    there = {one["method"] for one in of}
    for stream, methods in by_stream(of, task == NUMBERS).items():
        found = {SHORT[n]: methods.get(n, {}).get(key) for n in SHORT if n in there}
        if any(value is not None for value in found.values()):
            rows.append({"stream": stream, **found})
    return rows


def timed(kept: Kept) -> Kept:
    """Return what is kept with the processor's seconds for a thousand rows."""
    return [one | {"s/1000": 1000 * one["seconds"] / one["rows"]} for one in kept
            if one["seconds"] > 0]  # fmt: skip


def costs(kept: Kept, task: str) -> list[Row]:
    """Return seconds for a thousand rows, and how many times the single model's the bank's are."""
    rows = matrix(timed(kept), task, "s/1000")
    for row in rows:
        own = row.get("Classifier", row.get("Regressor"))
        row["bank / Kernel"] = own / row["Kernel"] if own and row.get("Kernel") else None
    return rows


def texts(kept: Kept) -> list[Row]:
    """Return a line for each method on texts."""
    of = {one["method"]: one for one in kept if one["task"] == TEXTS}
    rows = []
    for name in [n for n in SHORT if n in of]:
        one = of[name]
        row: Row = {"method": name, "mistakes %": one["error"]}
        row |= {key: one.get(key) for key in ("log loss", "ECE")}
        rows.append(row | {"seconds for 1000": 1000 * one["seconds"] / one["rows"] or None})
    return sorted(rows, key=lambda row: float(row["mistakes %"]))


def river_tables(kept: Kept) -> list[Row]:
    """Return River's published best beside onkel's, and the best of those run here.

    As River counts: before a class is known there is no answer, and no mistake.
    """
    rows = []
    for stream, (measure, figure) in PUBLISHED.items():
        methods = by_stream(kept, measure == "MAE").get(stream, {})
        key = "error" if measure == "MAE" else "error, after one"
        found = {n: one[key] for n, one in methods.items() if key in one}
        theirs = {n: value for n, value in found.items() if n in PEERS[methods[n]["task"]]}
        if not theirs:
            continue
        best = min(theirs, key=lambda name: theirs[name])
        shown = {SHORT[n]: found[n] for n in SHORT if n in found and n not in theirs}
        shown["best peer here"] = theirs[best]
        if measure == "accuracy":
            shown = {n: 1 - value / 100 for n, value in shown.items()}
        row = {"set": stream, "measure": measure, "published best": figure}
        rows.append(row | shown | {"which": SHORT[best]})
    return rows


def weights(kept: Kept, task: str) -> list[Row]:
    """Return the mean weight of each member on each stream, then the greatest of each."""
    rows: list[Row] = [
        {"stream": one["stream"], **{str(i): w for i, w in enumerate(one["weights"], 1)}}
        for one in kept if one["task"] == task and one.get("weights")
    ]  # fmt: skip
    keys = [key for key in (rows[0] if rows else {}) if key != "stream"]
    most = {key: max(row.get(key, 0.0) for row in rows) for key in keys}
    return [*rows, {"stream": "the greatest", **most}] if rows else []


# -- calibration -----------------------------------------------------------------------------------


def calibrated(kept: Kept) -> dict[str, dict[str, Any]]:
    """Return the front door's probabilities on the four streams, where there are any."""
    return {
        one["stream"]: one for one in kept
        if one["method"] == "Classifier" and one["stream"] in CALIBRATED and "ECE" in one
    }  # fmt: skip


def reliability(kept: Kept) -> list[Row]:
    """Return what was said and what came, bin by bin."""
    return [
        {"stream": stream, "rows": bin_["rows"], "said": bin_["said"], "came": bin_["came"]}
        for stream, one in calibrated(kept).items()
        for bin_ in one["reliability"]
    ]


def figures(kept: Kept) -> list[tuple[str, Any]]:
    """Draw the reliability of the four streams."""
    found = calibrated(kept)
    if not found:
        return []
    fig, grid = writing.canvas(2, 2, 2.6)
    for axis, (stream, one) in zip(grid.flat, found.items(), strict=False):
        bins = one["reliability"]
        said, came = [b["said"] for b in bins], [b["came"] for b in bins]
        rows = [b["rows"] for b in bins]
        axis.plot([0, 1], [0, 1], color=writing.SOFT, lw=1)
        axis.plot(said, came, color=writing.ACCENT, lw=1.2)
        sizes = [6 + 60 * r / max(rows) for r in rows]
        axis.scatter(said, came, s=sizes, color=writing.ACCENT, zorder=3)
        least = min([*said, *came]) - 0.05
        axis.set(title=f"{stream}, ECE {one['ECE']:.3f}", xlim=(least, 1.02), ylim=(least, 1.02))
    for axis in grid.flat[len(found) :]:
        axis.set_axis_off()
    for axis in grid[-1]:
        axis.set_xlabel("probability said")
    for axis in grid[:, 0]:
        axis.set_ylabel("share right")
    caption = "Classifier's probabilities: said, and right; dots by their rows. Second halves."
    return [(caption, fig)]


def checks(kept: Kept) -> list[Any]:
    """Return the calibration beside its goal."""
    return [
        Check(f"{stream}, ECE", one["ECE"], high=GOAL) for stream, one in calibrated(kept).items()
    ]


# -- all -------------------------------------------------------------------------------------------


def every(kept: Kept) -> list[Table]:
    """Return all tables that have rows."""
    classes, first, numbers = parts(kept).values()
    made = [
        ("At a glance", glance(kept)),
        ("Where a peer is ahead", behind(kept)),
        ("Classes: mistakes in per cent, all rows", classes),
        (f"Classes: the first {MOST:,} rows of longer streams", first),
        ("Numbers: mean absolute error, all rows", numbers),
        ("River's sets and its published best", river_tables(kept)),
        ("Classes: mistakes in per cent, every method", matrix(kept, CLASSES, "error")),
        ("Numbers: mean absolute error, every method", matrix(kept, NUMBERS, "error")),
        ("Texts: every method", texts(kept)),
        ("Log loss, second half", matrix(kept, CLASSES, "log loss")),
        ("ECE, 15 bins, second half", matrix(kept, CLASSES, "ECE")),
        ("ECE of each class, their mean, second half", matrix(kept, CLASSES, "ECE, each class")),
        ("Mean weight of each of Classifier's members", weights(kept, CLASSES)),
        ("Mean weight of each of Regressor's members", weights(kept, NUMBERS)),
        ("Reliability of Classifier, second half", reliability(kept)),
        ("Classes: seconds for 1000 rows", costs(kept, CLASSES)),
        ("Numbers: seconds for 1000 rows", costs(kept, NUMBERS)),
    ]
    return [(caption, rows) for caption, rows in made if rows]
