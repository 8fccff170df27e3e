"""Peers of the front-door study, each as it comes: River's and scikit-learn's online learners.

Those that need it (linear ones, neighbours, Mondrian forests; for numbers all) get rows
standardised beforehand by running moments as River's StandardScaler has them, which costs them
nothing; the others get the rows themselves. Two classes only: one against the rest. Forests,
neighbours and scikit-learn's (called row by row) take the longest, and run on the first 20,000 rows
of a stream at most.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

if __package__:
    from . import drift_texts
    from .front_door_streams import CLASSES, NUMBERS, TEXTS, Stream
else:
    import drift_texts
    from front_door_streams import CLASSES, NUMBERS, TEXTS, Stream

MOST = 20_000
"""Rows that slow peers get."""
SEED = 0


@dataclass
class Said:
    """What a method said of each row before it learned it, and the processor's seconds."""

    answers: np.ndarray
    probabilities: np.ndarray | None
    seconds: float
    weights: list[float] | None = None
    """Of a bank: each member's weight, the mean over the stream."""


@dataclass(frozen=True)
class Peer:
    """A method: who makes it, and what it is given."""

    build: Callable[[int], Any]
    """From the number of classes to a model."""
    scaled: bool = False
    slow: bool = False
    kind: str = "river"


# -- River -----------------------------------------------------------------------------------------


def _modules() -> Any:
    import river
    from river import dummy, forest, linear_model, naive_bayes, neighbors, rules, stats, tree

    assert dummy and forest and linear_model and naive_bayes and neighbors
    assert rules and stats and tree
    return river


def _binary(build: Callable[[Any], Any]) -> Callable[[int], Any]:
    """Return a model of two classes, one against the rest where there are more."""

    def made(classes: int) -> Any:
        from river import multiclass

        model = build(_modules())
        return multiclass.OneVsRestClassifier(model) if classes > 2 else model

    return made


def _any(build: Callable[[Any], Any]) -> Callable[[int], Any]:
    return lambda classes: build(_modules())


def _words(build: Callable[[Any], Any]) -> Callable[[int], Any]:
    """Return a model behind River's bag of words."""
    return lambda classes: drift_texts.words() | build(_modules())


def neighbours(river: Any, kind: str) -> Any:
    """Return nearest neighbours, whose search is seeded."""
    engine = river.neighbors.SWINN(seed=SEED)
    return getattr(river.neighbors, kind)(engine=engine)


def rows_of(stream: Stream, scaled: bool) -> Iterable[Any]:
    """Return texts, or rows as dicts."""
    if stream.task == TEXTS:
        return list(stream.X)
    X = stream.Z if scaled else stream.X
    return [dict(enumerate(row)) for row in X.astype(float).tolist()]


def river(peer: Peer, stream: Stream) -> Said:
    """Run one of River's, row by row."""
    model, rows = peer.build(stream.classes), rows_of(stream, peer.scaled)
    # River's classifiers of two classes take False and True
    labels = [bool(v) for v in stream.y] if stream.classes == 2 else stream.y.tolist()
    if stream.task == NUMBERS:
        return _numbers(model, rows, labels)
    answers, p = np.full(len(labels), -1), np.zeros((len(labels), stream.classes))
    began = time.process_time()
    for t, (x, y) in enumerate(zip(rows, labels, strict=True)):
        found = model.predict_proba_one(x)
        for label, value in found.items():
            p[t, int(label)] = value
        if found:  # as River's predict_one does
            answers[t] = int(max(found, key=found.get))
        model.learn_one(x, y)
    seconds = time.process_time() - began
    blank = ~(p.sum(axis=1) > 0)
    p[blank] = 1 / stream.classes
    return Said(answers, p / p.sum(axis=1, keepdims=True), seconds)


def _numbers(model: Any, rows: Iterable[Any], targets: list[float]) -> Said:
    found = []
    began = time.process_time()
    for x, y in zip(rows, targets, strict=True):
        found.append(model.predict_one(x))
        model.learn_one(x, y)
    seconds = time.process_time() - began
    return Said(np.array([0.0 if v is None else float(v) for v in found]), None, seconds)


# -- scikit-learn, and what needs no learning ------------------------------------------------------


def sklearn(peer: Peer, stream: Stream) -> Said:
    """Run one of scikit-learn's, row by row."""
    model, Z = peer.build(stream.classes), stream.Z
    more = {} if stream.task == NUMBERS else {"classes": np.arange(stream.classes)}
    found = np.full(len(Z), 0.0 if stream.task == NUMBERS else -1.0)
    began = time.process_time()
    for t in range(len(Z)):
        if t:
            found[t] = model.predict(Z[t : t + 1])[0]
        model.partial_fit(Z[t : t + 1], stream.y[t : t + 1], **more)
    return Said(found, None, time.process_time() - began)


def _sgd(name: str) -> Callable[[int], Any]:
    def build(classes: int) -> Any:
        import sklearn.linear_model

        return getattr(sklearn.linear_model, name)(random_state=SEED)

    return build


def no_change(peer: Peer, stream: Stream) -> Said:
    """Say what came last."""
    first = 0.0 if stream.task == NUMBERS else -1.0
    return Said(np.concatenate([[first], stream.y[:-1]]), None, 0.0)


def usual(peer: Peer, stream: Stream) -> Said:
    """Say the class seen most often, or the mean so far."""
    n = np.arange(len(stream.y))
    if stream.task == NUMBERS:
        return Said(np.concatenate([[0.0], (np.cumsum(stream.y) / (n + 1))[:-1]]), None, 0.0)
    seen = np.cumsum(np.eye(stream.classes)[stream.y], axis=0)
    return Said(np.concatenate([[-1], seen[:-1].argmax(axis=1)]), None, 0.0)


RUN = {"river": river, "sklearn": sklearn, "no change": no_change, "usual": usual}


# -- all of them -----------------------------------------------------------------------------------

PLAIN = {
    "no change": Peer(lambda k: None, kind="no change"),
    "majority or mean": Peer(lambda k: None, kind="usual"),
}
PEERS: dict[str, dict[str, Peer]] = {
    CLASSES: {
        **PLAIN,
        "River: logistic regression": Peer(
            _binary(lambda r: r.linear_model.LogisticRegression()), scaled=True
        ),
        "River: passive-aggressive": Peer(
            _binary(lambda r: r.linear_model.PAClassifier()), scaled=True
        ),
        "River: Gaussian naive Bayes": Peer(_any(lambda r: r.naive_bayes.GaussianNB())),
        "River: adaptive Hoeffding tree": Peer(
            _any(lambda r: r.tree.HoeffdingAdaptiveTreeClassifier(seed=SEED))
        ),
        "scikit-learn: SGDClassifier": Peer(_sgd("SGDClassifier"), kind="sklearn", slow=True),
        "River: nearest neighbours": Peer(
            _any(lambda r: neighbours(r, "KNNClassifier")), scaled=True, slow=True
        ),
        "River: Mondrian forest": Peer(
            _any(lambda r: r.forest.AMFClassifier(seed=SEED)), scaled=True, slow=True
        ),
        "River: adaptive random forest": Peer(
            _any(lambda r: r.forest.ARFClassifier(seed=SEED)), slow=True
        ),
    },
    NUMBERS: {
        **PLAIN,
        "River: linear regression": Peer(
            _any(lambda r: r.linear_model.LinearRegression()), scaled=True
        ),
        "River: passive-aggressive": Peer(
            _any(lambda r: r.linear_model.PARegressor()), scaled=True
        ),
        "River: adaptive model rules": Peer(_any(lambda r: r.rules.AMRules()), scaled=True),
        "River: adaptive Hoeffding tree": Peer(
            _any(lambda r: r.tree.HoeffdingAdaptiveTreeRegressor(seed=SEED)), scaled=True
        ),
        "scikit-learn: SGDRegressor": Peer(_sgd("SGDRegressor"), kind="sklearn", slow=True),
        "River: nearest neighbours": Peer(
            _any(lambda r: neighbours(r, "KNNRegressor")), scaled=True, slow=True
        ),
        "River: Mondrian forest": Peer(
            _any(lambda r: r.forest.AMFRegressor(seed=SEED)), scaled=True, slow=True
        ),
        "River: adaptive random forest": Peer(
            _any(lambda r: r.forest.ARFRegressor(seed=SEED)), scaled=True, slow=True
        ),
    },
    TEXTS: {
        **PLAIN,
        "River: logistic regression": Peer(_words(lambda r: r.linear_model.LogisticRegression())),
        "River: passive-aggressive": Peer(_words(lambda r: r.linear_model.PAClassifier())),
        "River: Bernoulli naive Bayes": Peer(_words(lambda r: r.naive_bayes.BernoulliNB())),
        "River: Bernoulli naive Bayes, alpha 0.01": Peer(
            _words(lambda r: r.naive_bayes.BernoulliNB(alpha=0.01))
        ),
        "River: multinomial naive Bayes": Peer(_words(lambda r: r.naive_bayes.MultinomialNB())),
    },
}


def run(name: str, stream: Stream) -> Said:
    """Run a peer on a stream, or on as much of it as it is given."""
    peer = PEERS[stream.task][name]
    if peer.slow and len(stream.y) > MOST:
        stream = stream.head(MOST)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # of other packages
        return RUN[peer.kind](peer, stream)
