"""What the study of mixed rows shows, made of what is kept: tables and checks."""

from __future__ import annotations

from typing import Any

if __package__:
    from .front_door_streams import CLASSES, NUMBERS
    from .harness import Check
    from .rows_peers import ADAPTIVE, BATCH, FEW, FOREST, LINEAR, TREE
    from .study import Row
else:
    from front_door_streams import CLASSES, NUMBERS
    from harness import Check
    from rows_peers import ADAPTIVE, BATCH, FEW, FOREST, LINEAR, TREE
    from study import Row

Kept = list[dict[str, Any]]
SHORT = {
    "Classifier": "Classifier", "KernelClassifier": "Kernel", "LinearClassifier": "Linear",
    "Regressor": "Regressor", "KernelRegressor": "Kernel", "LinearRegressor": "Linear",
    LINEAR: "River, one-hot", TREE: "tree", ADAPTIVE: "adaptive tree", FOREST: "forest",
    BATCH: "boosted", "majority or mean": "usual",
}  # fmt: skip
"""The columns of the wide tables."""
OURS = tuple(SHORT)[:6]
TEXT, FIRST = "sms_spam", f"error, first {FEW}"


def by_table(kept: Kept) -> dict[str, dict[str, dict[str, Any]]]:
    """Return what is kept by table and method."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for one in kept:
        found.setdefault(one["table"], {})[one["method"]] = one
    return found


def wide(kept: Kept, task: str, measure: str) -> list[Row]:
    """Return a row for each table, a column for each method that has the measure."""
    rows = []
    for table, methods in by_table(kept).items():
        first = next(iter(methods.values()))
        if first["task"] != task or table == TEXT or (measure == FIRST and FOREST not in methods):
            continue
        row: Row = {"table": table, "rows": first["of"], "chosen on": first["chosen"]}
        if measure == FIRST:
            row["rows"] = min(FEW, first["of"])
        for name, short in SHORT.items():
            if measure == FIRST and name not in (*OURS, FOREST):
                continue
            if name in methods and (value := figure(methods[name], measure)) is not None:
                row[short] = value
        if measure.startswith("error"):
            row["who knows the truth"] = first["best"]
        rows.append(row)
    return rows


def figure(one: dict[str, Any], measure: str) -> float | None:
    """Return a measure, None where the method did not see all rows that it speaks of."""
    whole = one["rows"] == one["of"] or measure == FIRST
    value: float | None = one.get(measure) if whole else None
    return value


def speeds(kept: Kept) -> list[Row]:
    """Return rows in a second, what encodes the rows included."""
    rows = []
    for table, methods in by_table(kept).items():
        row: Row = {"table": table}
        for name in SHORT:
            one = methods.get(name, {"seconds": 0})
            if one["seconds"] and name != BATCH:
                row[SHORT[name].replace("Regressor", "Classifier")] = round(
                    one["rows"] / one["seconds"]
                )
        rows.append(row)
    return rows


def texts(kept: Kept) -> list[Row]:
    """Return every method on texts."""
    methods = by_table(kept).get(TEXT, {})
    return [
        {"method": name, "mistakes": one["error"], "second half": one["error, second half"],
         "log loss": one.get("log loss"),
         "rows/s": round(one["rows"] / one["seconds"]) if one["seconds"] else None}
        for name, one in methods.items()
    ]  # fmt: skip


def what(kept: Kept) -> list[Row]:
    """Return what each table is."""
    firsts = [next(iter(methods.values())) for methods in by_table(kept).values()]
    return [
        {"table": f["table"], "rows": f["of"], "columns": f["columns"], "chosen on": f["chosen"],
         "what it is": " ".join(f["about"].removeprefix("Return ").rstrip(".").split())}
        for f in firsts
    ]  # fmt: skip


def every(kept: Kept, oddities: Kept) -> list[tuple[str, list[Row]]]:
    """Return all tables that have rows."""
    made = [
        ("The tables", what(kept)),
        ("Classes: mistakes in per cent, all rows", wide(kept, CLASSES, "error")),
        ("Classes: mistakes in per cent, second half", wide(kept, CLASSES, "error, second half")),
        (f"Classes: mistakes in per cent, the first {FEW} rows", wide(kept, CLASSES, FIRST)),
        (f"Numbers: mean absolute error, the first {FEW} rows", wide(kept, NUMBERS, FIRST)),
        ("Log loss, second half", wide(kept, CLASSES, "log loss")),
        ("Numbers: mean absolute error, all rows", wide(kept, NUMBERS, "error")),
        ("Numbers: mean absolute error, second half", wide(kept, NUMBERS, "error, second half")),
        ("Texts", texts(kept)),
        ("Oddities found, in per cent of each kind", oddities),
        ("Rows a second", speeds(kept)),
    ]  # fmt: skip
    return [(caption, rows) for caption, rows in made if rows]


PROMISES = (
    ("adult", "adult, as a9a", "Classifier", 1.03),
    ("adult", "adult, its numbers alone", "Classifier", 1.0),
    ("airlines", "airlines, codes as numbers", "Classifier", 1.0),
    ("bike_hour", "bike_hour, as numbers", "Regressor", 1.0),
)
"""A table as it is has at most so many times the error of another form of it."""


def checks(kept: Kept) -> list[Check]:
    """Return what rows as they are should not lose."""
    found, made = by_table(kept), []
    for table, other, method, most in PROMISES:
        pair = [found.get(name, {}).get(method) for name in (table, other)]
        if pair[0] and pair[1]:
            ratio = pair[0]["error"] / pair[1]["error"]
            made.append(Check(f"{table} / {other}, {method}", ratio, high=most))
    return made
