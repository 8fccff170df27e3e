"""The settings of a run: what is learned and how, and the estimator that follows from them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from onkel.app.errors import UsageProblem
from onkel.clock import is_duration
from onkel.clock import seconds as duration

TASKS = ("detect", "classify", "regress")
_CLASSES = {
    "detect": {"auto": "Detector", "kernel": "NoveltyDetector"},
    "classify": {
        "auto": "Classifier", "kernel": "KernelClassifier", "linear": "LinearClassifier",
    },
    "regress": {"auto": "Regressor", "kernel": "KernelRegressor", "linear": "LinearRegressor"},
}  # fmt: skip
MODELS = {task: tuple(classes) for task, classes in _CLASSES.items()}
"""What --model offers: what tunes itself, or one model of one paper."""
_ONE = {
    "detect": ("kernel", "gamma", "rate", "rule", "support"),
    "classify": ("kernel", "gamma", "window", "rate", "loss", "rule", "nu"),
    "regress": ("kernel", "gamma", "window", "rate", "loss", "rule"),
}
"""Options that only a model of one setting has."""
_OWN = {
    "Detector": (
        "nu", "memory", "terms", "warmup", "recent", "memory_of_feedback", "alerts_kept",
    ),
    "Classifier": ("memory",),
    "Regressor": ("nu", "memory"),
    "NoveltyDetector": ("nu", "support", "kernel", "rule", "learn_alerts", "warmup", "recent"),
    "KernelClassifier": ("kernel", "loss", "rule"),
    "KernelRegressor": ("kernel", "loss", "rule"),
    "LinearClassifier": ("loss", "rule"),
    "LinearRegressor": ("loss", "rule"),
}  # fmt: skip
"""What each class takes as it is given here."""
_CALLED = {"terms": "--window", "learning_rate": "--rate"}
"""Options whose parameters have other names."""
NO_RATE = "none"
"""--nu: no promised rate of alerts, a promised precision alone."""
_FEEDBACK = {
    "promise": "--precision", "memory_of_feedback": "--memory-of-feedback",
    "alerts_kept": "--alerts-kept",
}  # fmt: skip
"""What only a detector has whose alerts can be answered."""
_NO_KERNEL = ("kernel", "gamma", "window")
"""What a linear model lacks."""


@dataclass(frozen=True)
class RunSettings:
    """What decides the results of a run: a restart must have the same.

    Examples
    --------
    >>> RunSettings("detect", nu=0.02, window=500).estimator()
    Detector(nu=0.02, terms=500, missing='mean')
    >>> RunSettings("classify", memory=500.0).estimator()
    Classifier(memory=500.0, missing='mean')
    >>> RunSettings("classify", kernel="gaussian").estimator()
    KernelClassifier(missing='mean')
    """

    task: str
    model: str = "auto"
    """Which: "auto" tunes itself; "kernel" and "linear" are one model, one paper."""
    nu: float | str | None = None
    promise: float | None = None
    """Of a detector: the promised share of answered alerts that are faults."""
    memory_of_feedback: float | None = None
    alerts_kept: int | None = None
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
    pending: str | None = None
    """How long rows wait for their targets, or how many; None: those without one go."""
    ask: float | None = None
    """With `pending`: the share of the rows whose targets are asked for."""
    share: bool = False
    """With keys: whether new ones start from what is usual among all."""
    cool_down: int = 0
    """After an alert that is shown, so many rows show none."""
    incident_gap: str = "20"
    """From one alert of an incident to the next, at most: rows, or a time span."""
    everything: bool = False
    """Whether all rows go to the output, not alerts alone."""
    output_format: str = "jsonl"

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON knows it, but what has no say in the results."""
        return {k: v for k, v in asdict(self).items() if k != "threads"}

    @property
    def gap(self) -> int | str:
        """The gap of incidents; raise UsageProblem if it is none."""
        from onkel.alerting.grouping import gap_of

        text = str(self.incident_gap).strip()
        gap = int(text) if text.isascii() and text.isdecimal() and len(text) < 18 else text
        try:
            gap_of(gap)
        except ValueError:
            raise UsageProblem(
                f"--incident-gap is a number of rows, or a time span such as 30min; got {text!r}."
            ) from None
        return gap

    @property
    def by_clock(self) -> bool:
        """Whether forgetting goes by the clock."""
        return is_duration(self.memory)

    @property
    def promised(self) -> float | None:
        """The promised rate of alerts, or of targets outside their intervals."""
        if self.task == "classify" or self.nu == NO_RATE:
            return None
        if self.nu is not None:
            return float(self.nu)
        if self.task == "detect":
            return 0.01 if self.tunes_itself else 0.05
        return 0.1 if self.tunes_itself or self.rule == "rls" else None

    @property
    def single(self) -> list[str]:
        """The options given that only a model of one setting has."""
        found = [f"--{name}" for name in _ONE[self.task] if getattr(self, name) is not None]
        off = {"--no-scale": self.scale, "--no-learn-alerts": self.learn_alerts}
        found += [name for name, usual in off.items() if not usual]
        if self.task == "detect" and self.by_clock:
            found.append(f"--memory {self.memory}")
        return found

    @property
    def kind(self) -> str:
        """Which of the models runs: "auto" becomes "kernel" for options that only that one has."""
        return "kernel" if self.model == "auto" and self.single else self.model

    @property
    def tunes_itself(self) -> bool:
        """Whether the model tunes itself: no option was given that only one setting has."""
        return self.kind == "auto"

    @property
    def tells_p(self) -> bool:
        """Whether scores are log p: how rare a row is."""
        return self.task == "detect" and self.tunes_itself

    @property
    def hears_answers(self) -> bool:
        """Whether the model's alerts can be answered."""
        return self.tells_p

    def notes(self) -> list[str]:
        """Return what a user may not have meant, in words."""
        if self.model != "auto" or self.tunes_itself:
            return []
        classes, it = _CLASSES[self.task], "them" if len(self.single) > 1 else "it"
        return [
            f"{', '.join(self.single)}: only a model of one setting has {it}, so that "
            f"{classes['kernel']} runs (--model kernel). Without {it}, {classes['auto']} would "
            "tune itself."
        ]

    def settled(self, precision: str) -> RunSettings:
        """Return the same settings, with the precision decided."""
        return replace(self, precision=precision)

    def estimator(self) -> Any:
        """Return a new model; raise UsageProblem where settings do not fit together."""
        from onkel import estimators

        self._check_kind()
        name = _CLASSES[self.task][self.kind]
        own = {n: getattr(self, "window" if n == "terms" else n) for n in _OWN[name]}
        given = {n: value for n, value in own.items() if value is not None}
        if self.hears_answers:
            given |= {"nu": None} if self.nu == NO_RATE else {}
            given |= {} if self.promise is None else {"precision": self.promise}
        try:
            model = getattr(estimators, name)(**given, missing=self._missing())
            if self.task != "detect" or not self.tunes_itself:
                model.set_params(n_jobs=self.threads)
            if not self.tunes_itself:
                model.set_params(scale=self.scale)
                self._set_inner(model)
                self._set_loss(model)
            model.check_params()
        except ValueError as error:
            raise UsageProblem(_by_option(str(error))) from None
        return model

    def _check_kind(self) -> None:
        """Refuse a model that the task lacks, and options that the model lacks."""
        if self.model not in MODELS[self.task]:
            raise UsageProblem(
                f"--model is one of {', '.join(MODELS[self.task])} here; got {self.model!r}."
            )
        self._check_feedback()
        lacking = [f"--{n}" for n in _NO_KERNEL if getattr(self, n) is not None]
        if self.kind == "linear" and lacking:
            raise UsageProblem(
                f"{', '.join(lacking)}: not with --model linear, which has no kernel and stores "
                "no rows. Leave it out, or use --model kernel."
            )

    def _check_feedback(self) -> None:
        """Refuse what goes with answers to alerts where none can be given."""
        given = [word for name, word in _FEEDBACK.items() if getattr(self, name) is not None]
        given += ["--nu none"] if self.nu == NO_RATE else []
        if given and not self.hears_answers:
            because = f" ({', '.join(self.single)})" if self.single else ""
            raise UsageProblem(
                f"{', '.join(given)}: only alerts of the detector that tunes itself can be "
                f"answered (onkel detect --model auto), and {_CLASSES[self.task][self.kind]} "
                f"runs{because}. Leave it out."
            )
        if self.nu == NO_RATE and self.promise is None:
            raise UsageProblem(
                "--nu none leaves the alerts to a promised precision: give --precision 0.8, or "
                "--nu 0.01."
            )

    def _missing(self) -> str:
        return "mean" if self.missing == "mean" else "error"

    def _set_inner(self, model: Any) -> None:
        """Set what belongs to kernel, rule and expansion, where they have it."""
        wanted = {
            "--gamma": ("kernel__gamma", self.gamma), "--memory": ("rule__memory", self.memory),
            "--rate": ("rule__learning_rate", self.rate),
            "--window": ("expansion__terms", self.window),
        }  # fmt: skip
        if self.kind == "kernel" and model.part("kernel").domain == "strings":
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
        """Let the loss's threshold follow nu: margins of a classifier, intervals of a regressor.

        Least squares has intervals of its own, whatever the loss.
        """
        if self.task == "detect" or self.nu is None:
            return
        if self.task == "regress" and model.part("rule").second_order:
            model.set_params(rule__nu=self.nu)
            return
        kind = type(model.part("loss"))
        try:
            model.loss = kind(nu=self.nu)
        except TypeError:
            raise UsageProblem(f"--nu: the loss {kind.__name__} has none.") from None


def _by_option(words: str) -> str:
    """Return the words of a refusal, with an option where a parameter is called otherwise.

    Examples
    --------
    >>> _by_option("Window: terms must be a whole number; got 0.")
    '--window must be a whole number; got 0.'
    """
    name, must, rest = words.partition(" must be ")
    option = _CALLED.get(name.rpartition(": ")[2])
    return words if option is None else f"{option}{must}{rest}"


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
