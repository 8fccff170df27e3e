"""The settings of a run: what is learned and how, and the estimator that follows from them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from onkel.app.errors import UsageProblem
from onkel.clock import is_duration
from onkel.clock import seconds as duration

TASKS = ("detect", "classify", "regress")


@dataclass(frozen=True)
class RunSettings:
    """What decides the results of a run: a restart must have the same.

    Examples
    --------
    >>> RunSettings("detect", nu=0.02, window=500).estimator()
    Detector(nu=0.02, terms=500, missing='mean')
    >>> RunSettings("detect", nu=0.02, model="kernel").estimator()
    NoveltyDetector(nu=0.02, missing='mean')
    """

    task: str
    model: str = "auto"
    """What detects: "auto" tunes itself; "kernel" is one model, one paper."""
    nu: float | None = None
    memory: float | str | None = None
    kernel: str | None = None
    gamma: float | None = None
    window: int | None = None
    rate: float | None = None
    loss: str | None = None
    rule: str | None = None
    support: float | None = None
    learn_alerts: bool = True
    warmup: int | None = None
    recent: int = 1000
    lags: str | None = None
    """Earlier values that each row is seen with: "auto", or a number."""
    differences: bool = False
    season: str | None = None
    timed: bool = False
    """Whether rows have times."""
    scale: bool = True
    missing: str = "mean"
    precision: str = "auto"
    """In which numbers are held: single, double, or what the first rows need."""
    threads: int | None = None
    block: int | None = None
    explain: str = "auto"
    everything: bool = False
    """Whether all rows go to the output, not alerts alone."""
    output_format: str = "jsonl"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON knows it, but what has no say in the results."""
        return {k: v for k, v in asdict(self).items() if k != "threads"}

    @property
    def by_clock(self) -> bool:
        """Whether forgetting goes by the clock."""
        return is_duration(self.memory)

    @property
    def promised(self) -> float | None:
        """The promised rate of alerts, or of targets outside their intervals."""
        if self.task != "detect" or self.nu is not None:
            return self.nu
        return 0.01 if self.tunes_itself else 0.05

    @property
    def tunes_itself(self) -> bool:
        """Whether a self-tuning detector runs: no option was given that only one model has."""
        one = (self.kernel, self.gamma, self.rate, self.rule, self.support)
        plain = self.learn_alerts and self.scale and not self.by_clock
        return (
            self.task == "detect" and self.model == "auto" and plain
            and all(value is None for value in one)
        )  # fmt: skip

    def settled(self, precision: str) -> RunSettings:
        """Return the same settings, with the precision decided."""
        return replace(self, precision=precision)

    def estimator(self) -> Any:
        """Return a new model; raise UsageProblem where settings do not fit together."""
        from onkel import estimators

        if self.tunes_itself:
            return self._detector(estimators.Detector)
        own = {name: getattr(self, name) for name in _OWN[self.task]}
        given = {name: value for name, value in own.items() if value is not None}
        try:
            model = getattr(estimators, _CLASSES[self.task])(**given)
            model.set_params(scale=self.scale, missing=self._missing(), n_jobs=self.threads)
            self._set_inner(model)
            self._set_loss(model)
            model.check_params()
        except ValueError as error:
            raise UsageProblem(str(error)) from None
        return model

    def _detector(self, kind: Any) -> Any:
        own = {"nu": self.nu, "memory": self.memory, "terms": self.window, "warmup": self.warmup}
        given = {name: value for name, value in own.items() if value is not None}
        model = kind(recent=self.recent, missing=self._missing(), **given)
        try:
            model.check_params()
        except ValueError as error:
            raise UsageProblem(str(error)) from None
        return model

    def _missing(self) -> str:
        return "mean" if self.missing == "mean" else "error"

    def _set_inner(self, model: Any) -> None:
        """Set what belongs to kernel, rule and expansion, where they have it."""
        wanted = {
            "--gamma": ("kernel__gamma", self.gamma), "--memory": ("rule__memory", self.memory),
            "--rate": ("rule__learning_rate", self.rate),
            "--window": ("expansion__terms", self.window),
        }  # fmt: skip
        if model.part("kernel").domain == "strings":
            raise UsageProblem(f"--kernel {self.kernel} is for texts; the columns are numbers.")
        for option, (name, value) in wanted.items():
            if value is None:
                continue
            if name not in model.get_params():
                part = name.partition("__")[0]
                found = type(model.part(part)).__name__
                raise UsageProblem(f"{option} does not go with {found}, which has none.")
            model.set_params(**{name: value})

    def _set_loss(self, model: Any) -> None:
        """Let the loss's threshold follow nu: margins of a classifier, intervals of a regressor."""
        if self.task == "detect" or self.nu is None:
            return
        kind = type(model.part("loss"))
        try:
            model.loss = kind(nu=self.nu)
        except TypeError:
            raise UsageProblem(f"--nu: the loss {kind.__name__} has none.") from None


_OWN = {
    "detect": ("nu", "support", "kernel", "rule", "learn_alerts", "warmup", "recent"),
    "classify": ("kernel", "loss", "rule"),
    "regress": ("kernel", "loss", "rule"),
}
_CLASSES = {
    "detect": "NoveltyDetector", "classify": "KernelClassifier", "regress": "KernelRegressor",
}  # fmt: skip


def memory_of(text: str | float | None) -> float | str | None:
    """Return a memory as given on the command line: a number of examples, or a duration.

    Examples
    --------
    >>> memory_of("20000"), memory_of("12h")
    (20000.0, '12h')
    """
    if text is None or not isinstance(text, str):
        return text
    if duration(text) is not None:
        return text
    try:
        return float(text)
    except ValueError:
        raise UsageProblem(
            f"--memory is a number of examples, or a duration such as 30min or 12h; got {text!r}."
        ) from None
