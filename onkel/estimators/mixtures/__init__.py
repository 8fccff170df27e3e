"""Self-tuning estimators: a bank of settings side by side, a class for each task with targets."""

from onkel.estimators.mixtures.base import Mixed
from onkel.estimators.mixtures.classifier import Classifier
from onkel.estimators.mixtures.regressor import Regressor

__all__ = ["Classifier", "Mixed", "Regressor"]
