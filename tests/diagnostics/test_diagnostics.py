"""Diagnostics: what a model says of itself can be written down."""

from __future__ import annotations

import json

import numpy as np

from onkel import KernelClassifier, LinearClassifier, kernels


def test_diagnostics_are_plain_data(rng):
    X = rng.normal(size=(30, 2)).astype(np.float32)
    for model in (KernelClassifier(rule="romma"), LinearClassifier(), KernelClassifier(
        kernel=kernels.Additive(), expansion="tree")):  # fmt: skip
        found = model.fit(X, X[:, 0] > 0).diagnostics_
        json.dumps(found, allow_nan=False)
