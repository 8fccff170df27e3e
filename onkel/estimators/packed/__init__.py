"""Estimators as the bytes of cells, in which a fleet keeps them: which can be, to and from."""

from __future__ import annotations

from typing import Any

import numpy as np

from onkel import inputs
from onkel.columns import Encoded
from onkel.core.cells import has_cells
from onkel.estimators.classifier import KernelClassifier
from onkel.estimators.density_detector import Detector
from onkel.estimators.detector import NoveltyDetector
from onkel.estimators.labels import check_labels
from onkel.estimators.packed.densities import PackedDensities
from onkel.estimators.packed.terms import PackedTerms, not_held
from onkel.estimators.regressor import KernelRegressor
from onkel.saved import Saved

__all__ = ["Packed", "PackedDensities", "PackedTerms", "packed_by", "packed_of"]

Packed = PackedDensities | PackedTerms
_KINDS = (KernelClassifier, KernelRegressor, NoveltyDetector)


def packed_of(estimator: Any, X: Any) -> Packed | str:
    """Return how models like this one are packed, if X are their first rows; or why they are not.

    Examples
    --------
    >>> import numpy as np
    >>> from onkel import Classifier
    >>> packed_of(Classifier(), np.zeros((1, 2)))
    'cells hold Detector, KernelClassifier, KernelRegressor and NoveltyDetector, not Classifier'
    """
    if type(estimator) is not Detector and type(estimator) not in _KINDS:
        kinds = "Detector, KernelClassifier, KernelRegressor and NoveltyDetector"
        return f"cells hold {kinds}, not {type(estimator).__name__}"
    if not has_cells():
        return "the compiled core is not here"
    if getattr(estimator, "device", "cpu") != "cpu":
        return f"device={estimator.device!r} is for single models"
    if estimator._on_strings(fresh=True):
        return "the rows are texts"
    if inputs.is_sparse(X):
        return "the rows are sparse"
    if isinstance(estimator._encoded(X, True), Encoded):
        return "the rows are a table, whose values each key counts for itself"
    names, dtype = inputs.feature_names(X), inputs.choose_dtype(X)
    rows = inputs.numeric_rows(
        inputs.on_host(X), type(estimator).__name__, dtype, None, gaps=estimator.missing == "mean"
    )
    if type(estimator) is Detector:
        return PackedDensities(estimator, rows.shape[1], dtype, names)
    reason = not_held(estimator, rows.shape[1])
    return reason or PackedTerms(estimator, rows.shape[1], dtype, names)


def packed_by(estimator: Any, form: dict[str, Any]) -> Packed:
    """Return how models are packed whose form a file holds; a ValueError if that cannot be."""
    saved = Saved(form, "fleet.form.")
    features, dtype = saved.whole("features", low=1, high=2**31), saved.word("dtype", FLOATS)
    names = None if saved.value("names") is None else saved_names(form["names"], features, saved)
    if type(estimator) is Detector:
        saved.finish()
        return PackedDensities(estimator, features, dtype, names)
    reason = "it is no kernel model" if type(estimator) not in _KINDS else None
    reason = reason or not_held(estimator, features)
    if reason is not None:
        raise saved.refuse("kept", f"cannot be cells: {reason}")
    packed = PackedTerms(estimator, features, dtype, names)
    packed.flat = saved.flag("flat")
    labels = saved.items("labels")
    check_labels(labels)
    packed.places_of(labels)
    if len(packed.labels) != len(labels):
        raise saved.refuse("labels", "must be distinct")
    saved.finish()
    return packed


def saved_names(names: Any, features: int, saved: Saved) -> Any:
    """Return the names of features that a file holds."""
    if type(names) is not list or len(names) != features or {*map(type, names)} != {str}:
        raise saved.refuse("names", "must be one text per feature")
    return np.array(names, dtype=object)


FLOATS = ("float32", "float64")
