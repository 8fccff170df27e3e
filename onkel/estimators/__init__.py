"""The scikit-learn face: three estimators."""

from onkel.estimators.classifier import KernelClassifier
from onkel.estimators.detector import NoveltyDetector
from onkel.estimators.regressor import KernelRegressor

__all__ = ["KernelClassifier", "KernelRegressor", "NoveltyDetector"]
