"""Peers of the study of mixed rows, each as it comes: River's pipelines, and a batch learner.

River's get dicts; for its linear models words become columns of 0 and 1 (`OneHotEncoder`), and
numbers are standardised (`StandardScaler`). It has no kind for times: hour, weekday and month are
made by hand, as words. Its trees take dicts as they are, for numbers as the linear models
get them (their leaves hold linear models, which take no words). The forest is slow and runs on the
first 5000 rows alone. scikit-learn's boosted trees learn the first half at once and are asked
about the second: what is lost by learning row by row.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

if __package__:
    from .front_door_peers import SEED, Said
    from .front_door_streams import CLASSES, NUMBERS
    from .rows_tables import Table
else:
    from front_door_peers import SEED, Said
    from front_door_streams import CLASSES, NUMBERS
    from rows_tables import Table


def _coded(package: str, model: str, **given: Any) -> Callable[[], Any]:
    """Return a model of River behind columns of 0 and 1 and standardised numbers."""

    def build() -> Any:
        from river import compose, preprocessing

        words = compose.SelectType(str) | preprocessing.OneHotEncoder(drop_zeros=True)
        numbers = compose.SelectType(float) | preprocessing.StandardScaler()
        return (words + numbers) | _plain(package, model, **given)()

    return build


def _plain(package: str, name: str, **given: Any) -> Callable[[], Any]:
    def build() -> Any:
        from importlib import import_module

        return getattr(import_module(f"river.{package}"), name)(**given)

    return build


def _bag(weighted: bool, package: str, name: str, **given: Any) -> Callable[[], Any]:
    def build() -> Any:
        from river import feature_extraction as f

        kind = f.TFIDF if weighted else f.BagOfWords
        return kind(on="message", lowercase=True) | _plain(package, name, **given)()

    return build


@dataclass(frozen=True)
class Peer:
    """A method, and whether it gets the first rows alone."""

    run: Callable[[Any, Table], Said]
    build: Callable[[], Any] = lambda: None
    slow: bool = False


def classes(build: Callable[[], Any], table: Table) -> Said:
    """Run one of River's, row by row."""
    model, rows = build(), table.dicts
    labels = [bool(v) for v in table.y] if table.classes == 2 else table.y.tolist()
    p = np.zeros((len(labels), table.classes))
    began = time.process_time()
    for t, (x, y) in enumerate(zip(rows, labels, strict=True)):
        for label, value in model.predict_proba_one(x).items():
            p[t, int(label)] = value
        model.learn_one(x, y)
    seconds = time.process_time() - began
    p[~(p.sum(axis=1) > 0)] = 1 / table.classes
    return Said(p.argmax(axis=1), p / p.sum(axis=1, keepdims=True), seconds)


def numbers(build: Callable[[], Any], table: Table) -> Said:
    """Run one of River's for numbers, row by row."""
    model, found = build(), []
    began = time.process_time()
    for x, y in zip(table.dicts, table.y.tolist(), strict=True):
        found.append(model.predict_one(x) or 0.0)
        model.learn_one(x, y)
    return Said(np.array(found, float), None, time.process_time() - began)


def batch(build: Callable[[], Any], table: Table) -> Said:
    """Learn the first half at once, say of the second; of the first nothing is said."""
    half = len(table.y) // 2
    X = _ordinal(table)
    model = build()
    began = time.process_time()
    model.fit(X[:half], table.y[:half])
    said = np.concatenate([np.full(half, np.nan), model.predict(X[half:])])
    p = None
    if table.task == CLASSES:
        known = model.predict_proba(X[half:])
        p = np.concatenate([np.full((half, table.classes), 1 / table.classes), known])
    return Said(said, p, time.process_time() - began)


def _ordinal(table: Table) -> Any:
    """Return a frame as boosted trees take it: categories by their type, times by hand."""
    import pandas

    columns: dict[str, Any] = {}
    for name in dict.fromkeys(n for row in table.dicts for n in row):
        cells = [row.get(name) for row in table.dicts]
        if any(isinstance(v, str) for v in cells):
            frequent = pandas.Series(cells).value_counts().index[:200]  # at most 255 are taken
            columns[name] = pandas.Categorical(cells, categories=frequent)
        else:
            columns[name] = np.array([np.nan if v is None else v for v in cells])
    return pandas.DataFrame(columns)


def _boosted(name: str) -> Callable[[], Any]:
    def build() -> Any:
        import sklearn.ensemble

        model = getattr(sklearn.ensemble, name)
        return model(categorical_features="from_dtype", random_state=SEED)

    return build


def usual(build: Any, table: Table) -> Said:
    """Say the class seen most often, or the mean so far."""
    n = np.arange(len(table.y))
    if table.task == NUMBERS:
        return Said(np.concatenate([[0.0], (np.cumsum(table.y) / (n + 1))[:-1]]), None, 0.0)
    seen = np.cumsum(np.eye(table.classes)[table.y], axis=0)
    return Said(np.concatenate([[-1], seen[:-1].argmax(axis=1)]), None, 0.0)


FEW = 5000
"""Rows that the forest gets: with many values in a column it takes ever longer."""
BATCH = "boosted trees, first half learned"
LINEAR, TREE = "River: one-hot, linear", "River: Hoeffding tree"
ADAPTIVE, FOREST = "River: adaptive Hoeffding tree", "River: adaptive random forest"
TEXTS: dict[str, Peer] = {
    "majority or mean": Peer(usual),
    "River: words, naive Bayes": Peer(classes, _bag(False, "naive_bayes", "MultinomialNB")),
    "River: words, Bernoulli, alpha 0.01": Peer(
        classes, _bag(False, "naive_bayes", "BernoulliNB", alpha=0.01)
    ),
    "River: TFIDF, logistic": Peer(classes, _bag(True, "linear_model", "LogisticRegression")),
}
PEERS: dict[str, dict[str, Peer]] = {
    CLASSES: {
        "majority or mean": Peer(usual),
        LINEAR: Peer(classes, _coded("linear_model", "LogisticRegression")),
        TREE: Peer(classes, _plain("tree", "HoeffdingTreeClassifier")),
        ADAPTIVE: Peer(classes, _plain("tree", "HoeffdingAdaptiveTreeClassifier", seed=SEED)),
        FOREST: Peer(classes, _plain("forest", "ARFClassifier", seed=SEED), slow=True),
        BATCH: Peer(batch, _boosted("HistGradientBoostingClassifier")),
    },
    NUMBERS: {
        "majority or mean": Peer(usual),
        LINEAR: Peer(numbers, _coded("linear_model", "LinearRegression")),
        TREE: Peer(numbers, _coded("tree", "HoeffdingTreeRegressor")),
        ADAPTIVE: Peer(numbers, _coded("tree", "HoeffdingAdaptiveTreeRegressor", seed=SEED)),
        FOREST: Peer(numbers, _coded("forest", "ARFRegressor", seed=SEED), slow=True),
        BATCH: Peer(batch, _boosted("HistGradientBoostingRegressor")),
    },
}


def peers_of(table: Table) -> dict[str, Peer]:
    """Return who is asked about a table; of another form of one that is there, two alone."""
    if table.texts:
        return TEXTS
    every = PEERS[table.task]
    return {name: every[name] for name in (LINEAR, ADAPTIVE)} if "," in table.name else every


def run(name: str, table: Table) -> Said:
    """Run a peer on a table, or on as much of it as it is given."""
    peer = peers_of(table)[name]
    if peer.slow and len(table.y) > FEW:
        table = table.head(FEW)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of other packages
        return peer.run(peer.build, table)
