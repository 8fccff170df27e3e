"""The scikit-learn face: classifiers, regressors and a detector that learn online."""

from onkel.estimators.classifier import KernelClassifier
from onkel.estimators.density_detector import Detector
from onkel.estimators.detector import NoveltyDetector
from onkel.estimators.linear import LinearClassifier, LinearRegressor
from onkel.estimators.mixtures import Classifier, Regressor
from onkel.estimators.regressor import KernelRegressor

__all__ = [
    "Classifier",
    "Detector",
    "KernelClassifier",
    "KernelRegressor",
    "LinearClassifier",
    "LinearRegressor",
    "NoveltyDetector",
    "Regressor",
]
