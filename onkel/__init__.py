"""onkel: online learning with kernels, in bounded memory and time, while the world drifts.

``f <- c * (shrink * f + coef * k(x, .))``: a kernel, a loss, a rule and an expansion.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onkel import (
        alerting,
        bounds,
        evaluate,
        expansions,
        explain,
        files,
        kernels,
        losses,
        rules,
        schedules,
        series,
        streams,
    )
    from onkel.columns import Columns
    from onkel.estimators import (
        Classifier,
        Detector,
        KernelClassifier,
        KernelRegressor,
        LinearClassifier,
        LinearRegressor,
        NoveltyDetector,
        Regressor,
    )
    from onkel.files import load
    from onkel.fleet import Fleet
    from onkel.late import Late
    from onkel.merging import merge

__version__ = "0.1.0"

__all__ = [
    "Classifier",
    "Columns",
    "Detector",
    "Fleet",
    "KernelClassifier",
    "KernelRegressor",
    "Late",
    "LinearClassifier",
    "LinearRegressor",
    "NoveltyDetector",
    "Regressor",
    "alerting",
    "bounds",
    "evaluate",
    "expansions",
    "explain",
    "files",
    "kernels",
    "load",
    "losses",
    "merge",
    "rules",
    "schedules",
    "series",
    "streams",
]
_ELSEWHERE = {
    "Columns": "columns",
    "Fleet": "fleet",
    "Late": "late",
    "load": "files",
    "merge": "merging",
}
"""What lives elsewhere than among the estimators."""


def __getattr__(name: str) -> Any:
    """Load what is asked for when it is asked for: `import onkel` alone costs next to nothing."""
    if name not in (*__all__, "river"):  # the latter needs an extra: not for `import *`
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name[0].islower() and name not in _ELSEWHERE:
        return import_module(f"{__name__}.{name}")
    home = import_module(f"{__name__}.{_ELSEWHERE.get(name, 'estimators')}")
    value = globals()[name] = getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
