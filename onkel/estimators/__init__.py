"""The scikit-learn face: classifiers, regressors and a detector that learn online."""

from onkel.estimators.classifier import KernelClassifier
from onkel.estimators.detector import NoveltyDetector
from onkel.estimators.hedged import Hedged
from onkel.estimators.linear import LinearClassifier, LinearRegressor
from onkel.estimators.regressor import KernelRegressor

__all__ = [
    "Hedged",
    "KernelClassifier",
    "KernelRegressor",
    "LinearClassifier",
    "LinearRegressor",
    "NoveltyDetector",
]
