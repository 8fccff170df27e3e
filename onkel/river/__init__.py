"""The River face: the estimators of onkel as River's own, on dicts, texts and data frames.

They take the place of River's classifiers, regressors and anomaly detectors in its pipelines,
wrappers and evaluation. Needs the extra ``river``.
"""

try:
    import river.base  # noqa: F401
except ImportError as error:
    raise ImportError(
        "onkel.river needs River, which is not installed here: pip install 'onkel[river]'."
    ) from error

from onkel.river.classifiers import KernelClassifier, LinearClassifier
from onkel.river.detector import Detector, NoveltyDetector
from onkel.river.lags import Lags
from onkel.river.mixtures import Classifier, Regressor
from onkel.river.regressors import KernelRegressor, LinearRegressor

__all__ = [
    "Classifier",
    "Detector",
    "KernelClassifier",
    "KernelRegressor",
    "Lags",
    "LinearClassifier",
    "LinearRegressor",
    "NoveltyDetector",
    "Regressor",
]
