"""Every classifier of the comparison, behind one face.

``make(feed)`` returns a function ``step(start, stop)`` that predicts these rows and learns them,
each row predicted before it is learned, and returns the predictions. Parameters are each library's
own defaults, except: gamma = 1/d for kernels and for scikit-learn's random features, 100 of those
(as many points for Nystroem, from the first 200 rows), and the sliding window.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
from feeds import Feed

from onkel import Classifier, KernelClassifier, LinearClassifier, kernels

Step = Callable[[int, int], np.ndarray]

WINDOW, EVERY, FIRST = 1000, 100, 200
"""Batch methods are refitted on the last WINDOW rows every EVERY rows; Nystroem waits for FIRST."""
COMPONENTS = 100


@dataclass(frozen=True)
class Method:
    """A line of the comparison."""

    name: str
    family: str
    make: Callable[[Feed], Step]
    needs: str = ""
    """The module that must be there."""
    binary: bool = False
    """Whether it knows two classes only."""
    chunk: int = EVERY
    """Rows per step; between steps one looks at the time."""

    @property
    def installed(self) -> bool:
        """Whether it can run here."""
        return not self.needs or find_spec(self.needs) is not None


# -- onkel, and two lines to hold on to --------------------------------------------------------


def blocks(model: Callable[[], Any], feed: Feed) -> Step:
    """Return onkel in blocks: the predictions are those of single rows, to rounding."""
    this = model()
    return lambda a, b: this.predict_then_learn(feed.X[a:b], feed.y[a:b])


def single(model: Callable[[], Any], feed: Feed) -> Step:
    """Return onkel row by row."""
    this = model()
    return one_by_one(this.predict_one, this.learn_one, list(feed.X), feed.labels)


def one_by_one(predict: Any, learn: Any, rows: list[Any], labels: list[int]) -> Step:
    """Return a step for a pair of functions of one row."""

    def step(a: int, b: int) -> np.ndarray:
        found = []
        for x, y in zip(rows[a:b], labels[a:b], strict=True):
            found.append(predict(x))
            learn(x, y)
        return np.array([-1 if p is None else int(p) for p in found])

    return step


def last_label(feed: Feed) -> Step:
    """Return a step that repeats the last label."""
    return lambda a, b: np.concatenate([[-1], feed.y])[a:b]


def numpy_norma(feed: Feed) -> Step:
    """Return NORMA in plain NumPy: soft margin, ring of WINDOW terms, one output per class."""
    d, k = feed.d, feed.classes
    targets = 2.0 * np.eye(k)[feed.y] - 1
    Z, norms, coef = np.zeros((WINDOW, d)), np.zeros(WINDOW), np.zeros((WINDOW, k))
    offset, at, eta = np.zeros(k), 0, 0.4

    def step(a: int, b: int) -> np.ndarray:
        nonlocal at
        found = np.empty(b - a, int)
        for t in range(a, b):
            x, y = feed.Z[t], targets[t]
            xx = x @ x
            score = np.exp(-(norms - 2 * (Z @ x) + xx) / d) @ coef + offset
            found[t - a] = np.argmax(score)
            change = eta * y * (y * score <= 1)
            coef[:] *= 1 - 1e-5
            offset[:] += change
            if change.any():
                Z[at], norms[at], coef[at], at = x, xx, change, (at + 1) % WINDOW
        return found

    return step


# -- River -------------------------------------------------------------------------------------


def river(build: Callable[[Any], Any], feed: Feed) -> Step:
    """Return one of River's models; those of two classes are run one against the rest."""
    import river as library
    from river import feature_extraction, forest, linear_model, multiclass, neighbors, tree

    assert library and feature_extraction and forest and linear_model and neighbors and tree
    model, binary = build(library)
    if binary and feed.classes > 2:
        model = multiclass.OneVsRestClassifier(model)
    return one_by_one(model.predict_one, model.learn_one, feed.dicts, feed.labels)


RIVER: dict[str, Callable[[Any], tuple[Any, bool]]] = {
    "passive-aggressive": lambda r: (r.linear_model.PAClassifier(), True),
    "logistic regression": lambda r: (r.linear_model.LogisticRegression(), True),
    "RBFSampler | logistic": lambda r: (
        r.feature_extraction.RBFSampler(n_components=COMPONENTS, seed=0)
        | r.linear_model.LogisticRegression(),
        True,
    ),
    "nearest neighbours": lambda r: (r.neighbors.KNNClassifier(), False),
    "adaptive Hoeffding tree": lambda r: (r.tree.HoeffdingAdaptiveTreeClassifier(seed=0), False),
    "adaptive random forest": lambda r: (r.forest.ARFClassifier(seed=0), False),
}


# -- scikit-learn ------------------------------------------------------------------------------


def sgd_sampled(feed: Feed) -> Step:
    """Return SGDClassifier on RBFSampler, row by row."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDClassifier

    features = RBFSampler(gamma=1 / feed.d, n_components=COMPONENTS, random_state=0)
    return _sgd(SGDClassifier(random_state=0), features.fit(feed.Z[:1]), feed, 0)


def sgd_nystroem(feed: Feed) -> Step:
    """Return SGDClassifier on Nystroem, whose points come from the first rows."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import SGDClassifier

    features = Nystroem(gamma=1 / feed.d, n_components=COMPONENTS, random_state=0)
    return _sgd(SGDClassifier(random_state=0), features, feed, FIRST)


def _sgd(model: Any, features: Any, feed: Feed, first: int) -> Step:
    known = np.arange(feed.classes)

    def step(a: int, b: int) -> np.ndarray:
        if first and a == first:
            features.fit(feed.Z[:first])
            model.partial_fit(features.transform(feed.Z[:first]), feed.y[:first], classes=known)
        found = np.full(b - a, -1)
        for t in range(max(a, first), b):
            x = features.transform(feed.Z[t : t + 1])
            if t:
                found[t - a] = model.predict(x)[0]
            model.partial_fit(x, feed.y[t : t + 1], classes=known)
        return found

    return step


def refitted(
    fit: Callable[[Any, Any], Any], predict: Callable[[Any, Any], Any], feed: Feed
) -> Step:
    """Return a batch method on a sliding window; between fits all rows are predicted at once."""
    model: Any = None

    def step(a: int, b: int) -> np.ndarray:
        nonlocal model
        found = np.full(b - a, -1) if model is None else np.asarray(predict(model, feed.Z[a:b]))
        low = max(0, b - WINDOW)
        if len(np.unique(feed.y[low:b])) > 1:
            model = fit(feed.Z[low:b], feed.y[low:b])
        return found

    return step


def svc(feed: Feed) -> Step:
    """Return scikit-learn's SVC on a sliding window."""
    from sklearn.svm import SVC

    return refitted(
        lambda X, y: SVC(gamma=1 / feed.d).fit(X, y), lambda m, X: m.predict(X), feed
    )  # fmt: skip


def libsvm(feed: Feed) -> Step:
    """Return LIBSVM by its own interface, on a sliding window."""
    from libsvm.svmutil import svm_predict, svm_train

    options = f"-s 0 -t 2 -g {1 / feed.d} -q"

    def predict(model: Any, X: np.ndarray) -> np.ndarray:
        return np.array(svm_predict([], X, model, "-q")[0], int)

    return refitted(lambda X, y: svm_train(y.astype(float), X, options), predict, feed)


# -- Vowpal Wabbit -----------------------------------------------------------------------------


def wabbit(feed: Feed) -> Step:
    """Return Vowpal Wabbit's online kernel SVM."""
    from vowpalwabbit import Workspace

    model = Workspace(f"--ksvm --kernel rbf --bandwidth {1 / feed.d} --quiet")

    def learn(text: str, label: int) -> None:
        model.learn(f"{2 * label - 1} | {text}")

    return one_by_one(lambda text: model.predict(f"| {text}") > 0, learn, feed.texts, feed.labels)


# -- all of them -------------------------------------------------------------------------------

TREE = partial(KernelClassifier, kernels.Additive(kernels.Exponential()), expansion="tree")
ONKEL: dict[str, Callable[[], Any]] = {
    "KernelClassifier()": KernelClassifier,
    'KernelClassifier(rule="projection")': partial(KernelClassifier, rule="projection"),
    'KernelClassifier(rule="alma")': partial(KernelClassifier, rule="alma"),
    "LinearClassifier()": LinearClassifier,
    "KernelClassifier, additive, tree": TREE,
    "Classifier()": Classifier,
}
DEFAULT = "KernelClassifier()"

METHODS: list[Method] = [
    *(Method(n, "onkel", partial(blocks, make), chunk=1000) for n, make in ONKEL.items()),
    Method("KernelClassifier(), row by row", "onkel", partial(single, KernelClassifier)),
    Method("last label", "plain", last_label, chunk=1000),
    Method("NORMA as a NumPy loop", "plain", numpy_norma),
    *(Method(name, "River", partial(river, build), "river") for name, build in RIVER.items()),
    Method("SGDClassifier on RBFSampler", "scikit-learn", sgd_sampled, "sklearn"),
    Method("SGDClassifier on Nystroem", "scikit-learn", sgd_nystroem, "sklearn"),
    Method("SVC, sliding window", "scikit-learn", svc, "sklearn"),
    Method("C-SVC, sliding window", "LIBSVM", libsvm, "libsvm"),
    Method("kernel SVM (ksvm)", "Vowpal Wabbit", wabbit, "vowpalwabbit", binary=True),
]
