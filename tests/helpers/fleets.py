"""A fleet beside a dict of single estimators that are given the same rows in the same calls."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from onkel import Fleet, files


@dataclass
class Both:
    """The fleet, and the dict."""

    estimator: Any
    fleet: Fleet = field(init=False)
    single: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.fleet = Fleet(self.estimator)

    def learn(self, keys, X, y=None, output="prediction", **how) -> None:
        """Learn rows in both; every answer is the same to the bit."""
        found = self.fleet.predict_then_learn(keys, X, y, output=output, **how)
        for key in dict.fromkeys(np.asarray(keys).tolist()):
            at = np.flatnonzero(np.asarray(keys) == key)
            given = {name: np.asarray(v)[at] for name, v in how.items()}
            rest = () if y is None else (np.asarray(y)[at],)
            model = self.single.setdefault(key, copy.copy(self.estimator))
            expected = model.predict_then_learn(X[at], *rest, output=output, **given)
            self.same(found, at, expected, model)

    def learn_one(self, key, row, y=None, **how) -> None:
        """Learn one row in both."""
        self.fleet.learn_one(key, row, y, **how)
        self.single.setdefault(key, copy.copy(self.estimator)).learn_one(row, y, **how)

    def same(self, found, at, expected, model) -> None:
        """Compare what the fleet answered for some rows."""
        if isinstance(expected, tuple):
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_array_equal(a[at], b)
        elif model.task == "classification" and np.ndim(expected) == 2:
            columns = [self.fleet.classes_.tolist().index(c) for c in model.classes_.tolist()]
            np.testing.assert_array_equal(found[at][:, columns], expected)
        else:
            np.testing.assert_array_equal(found[at], expected)

    def check(self, X, outputs) -> None:
        """All models are the same, in their files and in what they say of rows."""
        assert self.fleet.keys() == [*self.single]
        for key, model in self.single.items():
            own = self.fleet[key]
            assert files.dumps(own) == files.dumps(model), key
            for row in X[:3]:
                np.testing.assert_array_equal(
                    self.fleet.predict_one(key, row), model.predict_one(row)
                )
        for output, method in outputs.items():
            keys = [key for key in self.single for _ in range(len(X))]
            found = self.fleet.predict(keys, np.concatenate([X] * len(self.single)), output)
            for i, model in enumerate(self.single.values()):
                at = np.arange(i * len(X), (i + 1) * len(X))
                self.same(found, at, getattr(model, method)(X), model)
