"""Self-tuning estimators: a bank of settings side by side, one class for each task."""

from onkel.estimators.mixtures.base import Mixed
from onkel.estimators.mixtures.classifier import Classifier
from onkel.estimators.mixtures.detector import Detector
from onkel.estimators.mixtures.regressor import Regressor

__all__ = ["Classifier", "Detector", "Mixed", "Regressor"]
