"""KernelClassifier: any labels, classes that may appear late."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from onkel import inputs, losses
from onkel.core.chances import Chances
from onkel.estimators import late
from onkel.estimators.base import Estimator
from onkel.estimators.chances import Outputs, Piece, led, linked, of_logits, of_odds, spread
from onkel.estimators.classes import (
    Classes,
    LoneClasses,
    aligned,
    class_weights,
    first_rows,
    joined,
    label_array,
    label_counts,
    sorted_labels,
)
from onkel.estimators.device import OnDevice
from onkel.estimators.labels import check_labels, checked
from onkel.estimators.locks import locked
from onkel.learner import Learner, Settings
from onkel.saved import Saved

if TYPE_CHECKING:
    from onkel.explain import ClassExplanation

Array = NDArray[Any]


class BaseClassifier(Estimator):
    """What classifiers share: labels of any kind, classes that may appear late."""

    task: ClassVar[str] = "classification"
    outputs: ClassVar[tuple[str, ...]] = ("prediction", "decision", "probability")
    class_weight: Any
    _classes: Classes
    _link: Chances | None = None
    """Makes odds of scores; None where they are odds already."""
    _tells_odds: ClassVar[bool] = False
    """Whether the learner's scores are odds, of all classes together."""
    _lone_classes: LoneClasses | None = None
    """The classes as single rows need them, while no new one comes."""

    # -- parameters ----------------------------------------------------------------------------

    def _settings(self) -> Settings:
        """Check every parameter; a class weight is for a label that there can be."""
        settings, nothing = super()._settings(), np.zeros(0)
        class_weights(type(self).__name__, self.class_weight, {}, 0, nothing)
        check_labels([*self.class_weight] if isinstance(self.class_weight, dict) else [])
        return settings

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, **params: Any) -> Self:
        """Forget everything, then pass over the rows once (or `passes` times), in order.

        ``sample_weight=`` is accepted. It scales a row's step; since order matters online, it
        does not equal repeating rows, and is therefore not a named parameter here.
        """
        return self._fit(X, y, params)

    def _pass(self, X: Any, y: Any, weight: Array, time: Any) -> None:
        first = not hasattr(self, "_learner")
        labels = self._labels(y, warn=False)
        inputs.same_length(weight, labels)
        known = sorted_labels(labels[weight > 0].tolist()) if first else None
        self.partial_fit(X, y, classes=known, sample_weight=weight, time=time)

    @locked
    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, time: Any = None
    ) -> Self:
        """Learn rows, in order; classes may be named beforehand or appear on the way."""
        lone = self._lone(X, y) if classes is None and sample_weight is None else None
        if lone is None or time is not None or not self._learn_lone(*lone):
            self._learn(X, y, classes, sample_weight, time)
        return self

    @locked
    def predict_then_learn(
        self, X: Any, y: Any, output: str = "prediction", classes: Any = None,
        sample_weight: Any = None, time: Any = None,
    ) -> Array:  # fmt: skip
        """Predict each row *before* it is learned: the online protocol.

        ``output="decision"`` gives scores, ``"probability"`` probabilities, with one column per
        class known at the end of the call (0 while a class was yet unknown).
        """
        self._check_output(output)
        pieces, known = self._learn(X, y, classes, sample_weight, time)
        if output == "prediction":
            return joined([(p.classes, p.scores) for p in pieces], self._labels(y, warn=False))
        if output == "probability":
            chances = [spread(p.classes, self._chances(*p), known) for p in pieces]
            return np.concatenate([np.zeros((0, len(known.known))), *chances])
        wide = [aligned(p.classes, p.scores, known) for p in pieces]
        scores = np.concatenate(wide) if wide else np.zeros((0, max(known.outputs, 1)))
        return known.decisions(scores)

    @locked
    def learn_one(self, row: Any, y: Any, time: Any = None) -> Self:
        """Learn one row."""
        if self._learn_lone(row, y, time):
            return self
        return self.partial_fit([row], [y], time=None if time is None else [time])

    def _learn_lone(self, row: Any, y: Any, time: Any = None) -> bool:
        """Learn one row the cheap way; False if that is not possible, and nothing changed."""
        lone = self._by_ones() if self.class_weight is None else None
        y = y.item() if isinstance(y, np.generic) else y
        target = None if lone is None else lone.target(y)
        one = None if target is None else self._quick(row, target, time)
        if one is None or lone is None:
            return False
        if self._link is not None:
            self._link.learn_one(one.scores, lone.rows[y])
        self._learner.mistakes += lone.mistake(y, one.scores)
        self.class_count_[y] = self.class_count_.get(y, 0) + 1
        return True

    def _by_ones(self) -> LoneClasses | None:
        """Return the classes as single rows need them; None before the first example."""
        if self._lone_classes is None and hasattr(self, "_learner"):
            self._lone_classes = LoneClasses(self._classes)
        return self._lone_classes

    @locked
    def predict_one(self, row: Any) -> Any:
        """Predict one row; None before any class is known."""
        lone = self._by_ones()
        if lone is None:
            return None
        scores = self._look(row) if lone.targets else None
        return self.predict([row])[0] if scores is None else lone.prediction(scores)

    def _labels(self, y: Any, warn: bool = True) -> Array:
        return checked(inputs.as_vector(y, type(self).__name__, warn))

    def _learn(
        self, X: Any, y: Any, classes: Any, sample_weight: Any, time: Any = None
    ) -> tuple[list[Piece], Classes]:
        """Learn rows; return scores piece by piece, with the classes known at the time."""
        fresh = not hasattr(self, "_learner")
        settings = self._settings() if fresh else None
        X = self._encoded(X, fresh)
        rows = self._rows(X, settings)
        y = self._labels(y)
        inputs.same_length(rows, y)
        weight = inputs.weights_of(sample_weight, len(rows))
        state = Classes([], False) if fresh else self._classes.copy()
        if classes is not None:
            state = self._named(state, classes, fresh, y[weight > 0])
        with np.errstate(over="ignore"):  # what becomes infinite is refused
            weight = weight * self._class_weights(state, y)
        live = np.flatnonzero(weight > 0)  # a row of weight 0 brings no class either
        firsts = {int(live[i]): label for i, label in first_rows(y[live], state).items()}
        if fresh:
            assert settings is not None
            learner = self._begin(X, settings, rows, state.outputs)
        else:
            learner = self._safe(weight, force=bool(firsts))
        link = self._linked(learner, state)
        times = self._times(time, len(rows), learner)
        pieces = self._learn_pieces(learner, link, state, rows, y, weight, firsts, times)
        before = getattr(self, "class_count_", {})
        new = [firsts[i] for i in sorted(firsts) if firsts[i] not in before]
        counts = label_counts(before, new, y[live])
        self._keep(learner, X, weight)
        self._classes, self.class_count_, self._lone_classes = state, counts, None
        self._link = link
        return pieces, state

    def _learn_pieces(
        self, learner: Learner, link: Chances | None, state: Classes, rows: Any, y: Array,
        weight: Array, firsts: dict[int, Any], times: Array | None,
    ) -> list[Piece]:  # fmt: skip
        """Cut the rows where a new label appears: that row is predicted without it."""
        pieces: list[Piece] = []
        edges = sorted({0, *firsts, len(y)})
        for start, stop in pairwise(edges):
            new = int(start in firsts)  # that row is predicted without its own class
            coming = {i - start: label for i, label in firsts.items() if i >= start}
            if new and late.worthwhile(learner, state, len(coming), weight[start:]):
                came = late.Came(rows, y, weight, times, 0).part(start, len(y))
                return [*pieces, *late.pieces(learner, link, state, came, coming)]
            if new:
                pieces.append(self._before(learner, link, state, rows[start : start + 1]))
                state.admit(firsts[start], Outputs(learner, link))
            part = slice(start, stop)
            targets = state.targets(y[part])
            when = None if times is None else times[part]
            scores, _ = self._learn_rows(learner, rows[part], targets, weight[part], start, when)
            counted = weight[part] > 0
            told = linked(link, scores, targets, counted)
            pieces.append(Piece(state.copy(), scores[new:], told[new:]))
            known = counted & (np.arange(start, stop) >= start + new)
            learner.mistakes += state.mistakes(scores[known], y[part][known])
            learner.mistakes += int(np.count_nonzero(counted & ~known))
        return pieces

    def _before(self, learner: Learner, link: Chances | None, state: Classes, row: Any) -> Piece:
        """Return what is said of a row whose class is not known yet."""
        scores = learner.scores(row)
        return Piece(state.copy(), scores, scores if link is None else link.look(scores[:, None]))

    def _named(self, state: Classes, classes: Any, fresh: bool, y: Array) -> Classes:
        """Check the user's `classes` against the labels."""
        classes = self._classes_named(classes)
        if fresh:
            state = Classes.given(classes)
        elif set(sorted_labels(classes)) != set(state.known):
            raise ValueError(
                f"`classes={classes!r}` is not the same as on last call to partial_fit, "
                f"was: {state.known!r}."
            )
        stray = [v for v in sorted_labels(y.tolist()) if v not in state.labels]
        if stray:
            raise ValueError(
                f"y holds labels that are not in classes: {stray[:5]!r}. Name them in classes=, or "
                "leave classes out and let classes appear on the way."
            )
        return state

    def _classes_named(self, classes: Any) -> list[Any]:
        """Return the user's `classes`, checked as labels are."""
        listed = classes if isinstance(classes, np.ndarray) else list(classes)
        labels = inputs.as_vector(listed, type(self).__name__, warn=False)
        found: list[Any] = checked(labels, what="classes, place").tolist()
        return found

    def _class_weights(self, state: Classes, y: Array) -> Array:
        counts = getattr(self, "class_count_", {})
        return class_weights(type(self).__name__, self.class_weight, counts, state.named, y)

    def _counts_of_all(self, models: list[Any], start: list[Any]) -> dict[str, Any]:
        """Return how often each class came to the models; what the start had seen counts once."""
        counts: dict[Any, int] = {}
        for label, count in (pair for m in models for pair in m.class_count_.items()):
            counts[label] = counts.get(label, 0) + count
        for label, count in (pair for m in start for pair in m.class_count_.items()):
            counts[label] -= (len(models) - 1) * count
        return {"class_count_": counts}

    # -- files ---------------------------------------------------------------------------------

    def _dump(self) -> dict[str, Any]:
        counts = self.class_count_
        held = {"classes": self._classes.dump(), "counted": [*counts], "counts": [*counts.values()]}
        link = {} if self._link is None else {"link": self._link.dump()}
        return {**super()._dump(), **held, **link}

    def _resume(self, settings: dict[str, Any], saved: Saved) -> None:
        super()._resume(settings, saved)
        self._classes = Classes.restored(saved.inside("classes"))
        if self._classes.outputs != self._learner.columns:
            raise saved.refuse("classes", f"do not fit {self._learner.columns} outputs")
        self._link = None
        if self._needs_link(self._learner):
            self._link = Chances.restored(saved.inside("link"), 1, self._learner.columns)
            if self._link.count[0] > self._learner.t:
                raise saved.refuse("link.count", f"must be {self._learner.t} at most")
        counted, counts = saved.items("counted"), saved.items("counts", int)
        check_labels(counted)
        if len({*counted}) != len(counts) or any(not 1 <= n <= self._learner.t for n in counts):
            raise saved.refuse("counts", "must be at least 1, one for each label counted")
        self.class_count_ = dict(zip(counted, counts, strict=True))

    # -- predicting ----------------------------------------------------------------------------

    @property
    @locked
    def classes_(self) -> Array:
        """The known labels, sorted."""
        self._fitted()
        return label_array(self._classes.known)

    @locked
    def decision_function(self, X: Any) -> Array:
        """Return scores: one number per row for two classes, else one column per class."""
        learner = self._fitted()
        return self._classes.decisions(learner.scores(self._rows(X)))

    @locked
    def predict(self, X: Any) -> Array:
        """Return the label of each row."""
        learner = self._fitted()
        return self._classes.predictions(learner.scores(self._rows(X)))

    @locked
    def explain(self, x: Any, top: int = 5) -> ClassExplanation:
        """Say why one row gets its class: see :class:`~onkel.explain.ClassExplanation`.

        What is explained is the margin: abs(decision) of two classes, else the winner's score
        less the second's. `top` is the number of terms, and of features with their usual
        values, that are shown.
        """
        from onkel.explain import ClassExplanation

        row, scores = self._one_row(x, top)
        label, second, mix = self._classes.contest(scores)
        found = self._details(x, row, mix, top, lowest_first=False)
        return ClassExplanation(score=float(mix @ scores), label=label, second=second, **found)

    def _needs_link(self, learner: Learner) -> bool:
        """Whether scores must be made into odds: those of a logistic loss are."""
        return not isinstance(learner.loss, losses.Logistic)

    def _linked(self, learner: Learner, state: Classes) -> Chances | None:
        """Return a link for a call to change: it becomes the model's when all is learned."""
        if hasattr(self, "_learner"):
            return None if self._link is None else self._link.copy()
        return Chances.empty(1, state.outputs) if self._needs_link(learner) else None

    @locked
    def predict_proba(self, X: Any) -> Array:
        """Return probabilities, one column per class.

        Under a logistic loss those of the scores; otherwise a link makes them of the scores, which
        is fitted by a step per row while the model learns.
        """
        scores = self._fitted().scores(self._rows(X))
        return self._chances(self._classes, scores, self._told(scores))

    def _told(self, scores: Array) -> Array:
        """Return scores as odds, as things are."""
        return scores if self._link is None else self._link.look(scores[:, None])

    def _chances(self, classes: Classes, scores: Array, told: Array) -> Array:
        """Return probabilities of scores and of what they are as odds."""
        odds = self._tells_odds or self._link is not None
        chances = (of_odds if odds else of_logits)(classes, told)
        return led(chances, classes.winners(scores)) if classes.known else chances

    @locked
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy."""
        right = self.predict(X) == self._labels(y)
        return float(np.average(right, weights=sample_weight))

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags

        tags = super().__sklearn_tags__()
        tags.estimator_type = "classifier"
        tags.classifier_tags = ClassifierTags()
        return tags


class KernelClassifier(OnDevice, BaseClassifier):
    """Online kernel classification, binary or with many classes that may appear late.

    ``f <- (1 - eta lam) f + eta sigma y k(x, .)``, sigma = [y (f(x) + b) <= margin]

    Parameters
    ----------
    kernel : str, object or function
        From :mod:`onkel.kernels`, or a function of two matrices.
    loss : str or object
        ``"soft_margin"`` or ``"logistic"``, or an object from :mod:`onkel.losses`.
    rule, expansion : str or object
        From :mod:`onkel.rules` and :mod:`onkel.expansions`.
    scale : bool
        Standardise inputs by running moments.
    fit_intercept : bool or "auto"
        The offset b.
    passes : int
        Passes of :meth:`fit` over its rows.
    average : bool
        Predict with the average of all hypotheses so far (N04 Corollary 5).
    class_weight : dict, "balanced" or None
        Weight of each class's steps; "balanced" follows the class counts seen so far.
    missing : {"error", "mean"}
        What NaN in X means: an error, or the feature's running mean (as of the last refresh).
    columns : dict or Columns, optional
        What columns are that are no numbers ("category", "time", "text", ...), where the types of
        the first rows do not tell; see the guide's page on rows as they are.
    n_jobs : int, optional
        Threads; -1 for all cores.
    device : {"cpu", "auto", "cuda", "cuda:N"}
        Where f lives: a GPU needs the extra ``gpu``; "auto" takes it where it can be used.
    precision : {"tf32x3", "float32", "tf32"}
        Of products on a GPU; see the guide.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 2))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> clf = KernelClassifier()
    >>> early = clf.predict_then_learn(X[:250], y[:250])
    >>> late = clf.predict_then_learn(X[250:], y[250:])
    >>> bool(np.mean(late == y[250:]) > 0.85)
    True
    """

    def __init__(
        self,
        kernel: Any = "gaussian",
        loss: Any = "soft_margin",
        rule: Any = "norma",
        expansion: Any = "window",
        *,
        scale: bool = True,
        fit_intercept: bool | str = "auto",
        passes: int = 1,
        average: bool = False,
        class_weight: Any = None,
        missing: str = "error",
        columns: Any = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        precision: str = "tf32x3",
    ) -> None:
        self.kernel = kernel
        self.loss = loss
        self.rule = rule
        self.expansion = expansion
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.passes = passes
        self.average = average
        self.class_weight = class_weight
        self.missing = missing
        self.columns = columns
        self.n_jobs = n_jobs
        self.device = device
        self.precision = precision
