"""The options of the commands, in sections, and settings from a TOML file."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Callable
from typing import Any

import click

from onkel.app.telling import ending, to_stdout
from onkel.nearest import did_you_mean

Wrap = Callable[[Any], Any]


class Section(click.Option):
    """An option that knows under which heading the help shows it."""

    def __init__(self, *args: Any, section: str = "Other", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.section = section

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Return a value as its type has it; what is no number at all is told so."""
        try:
            return super().type_cast_value(ctx, value)
        except click.BadParameter as error:
            if not error.message.endswith(" range.") or "not a valid" not in error.message:
                raise
            kind = "a whole number" if isinstance(self.type, click.IntRange) else "a number"
            words = f"{kind} is needed, and got {value!r}."
            raise click.BadParameter(words, ctx, self) from None


class Heard(click.Command):
    """A command whose help, too, ends with the documented code where it cannot be written."""

    def make_context(self, *args: Any, **how: Any) -> click.Context:
        """Understand the command line; --help and --version are answered here."""
        with ending(), to_stdout():
            return super().make_context(*args, **how)


class HeardGroup(Heard, click.Group):
    """The same for a group of commands."""


class Teaching(Heard):
    """A command whose help groups options, and ends with examples as they are written."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(param, "section", "Help"), []).append(record)
        for name, records in sections.items():
            with formatter.section(name):
                formatter.write_dl(records)


class Named(click.Path):
    """A path; an empty one, as a variable that is not set gives it, is refused."""

    def convert(self, value: Any, param: Any, ctx: click.Context | None) -> Any:
        """Return the path as click does."""
        if value == "":
            self.fail("a name is needed, and got ''.", param, ctx)
        return super().convert(value, param, ctx)


class Size(click.ParamType):  # type: ignore[type-arg]
    """So many bytes: a number, or a text such as 2GB."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: click.Context | None) -> Any:
        """Return the text as it came, if it is a size."""
        from onkel.fleet.bounded import bytes_of

        try:
            bytes_of(int(value) if str(value).isdecimal() else value)
        except ValueError:
            self.fail(f"a size such as 500MB or 2GB is needed, and got {value!r}.", param, ctx)
        return value


class Rate(click.ParamType):  # type: ignore[type-arg]
    """A number, or the word none."""

    name = "rate"

    def convert(self, value: Any, param: Any, ctx: click.Context | None) -> Any:
        """Return the number, or the word."""
        if value == "none" or isinstance(value, float):
            return value
        try:
            return float(value)
        except (TypeError, ValueError):
            self.fail(f"a number such as 0.01 is needed, or none; got {value!r}.", param, ctx)


NUMBERS = ("auto", "single", "double")


class Promise(click.ParamType):  # type: ignore[type-arg]
    """A share between 0 and 1; the words of --numbers are taken, too, as they once were here."""

    name = "share"

    def convert(self, value: Any, param: Any, ctx: click.Context | None) -> Any:
        """Return the number, or the word."""
        if value in NUMBERS:
            return value
        with contextlib.suppress(TypeError, ValueError):
            if 0 < float(value) < 1:
                return float(value)
        self.fail(
            "the share of answered alerts that are faults is needed, between 0 and 1, such as 0.8; "
            f"got {value!r}.",
            param,
            ctx,
        )


def _option(section: str, *names: str, **kwargs: Any) -> Wrap:
    return click.option(*names, cls=Section, section=section, **kwargs)


def _load(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Take defaults from a TOML file; what is given on the command line goes first."""
    if value is None:
        return None
    try:
        with open(value, "rb") as file:
            data = tomllib.load(file)
    except OSError as error:
        raise click.BadParameter(f"{value}: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{value} is no TOML: {error}.") from None
    options = [p for p in ctx.command.params if isinstance(p, click.Option)]
    known = {p.name: p for p in options if p.name != "config"}
    unknown = sorted(name for name in data if _spelled(name) not in known)
    if unknown:
        meant = did_you_mean(unknown[0], known)
        raise click.BadParameter(
            f"{value}: there is no setting {', '.join(unknown)}.{meant} See onkel "
            f"{ctx.command.name} --help."
        )
    given = {
        _spelled(n): _fitting(value, n, entry, known[_spelled(n)]) for n, entry in data.items()
    }
    ctx.default_map = {**(ctx.default_map or {}), **given}
    return value


_EITHER = (
    "memory", "dashboard", "metrics", "lags", "season", "pending", "nu", "precision",
)  # fmt: skip
"""Settings that are numbers or texts."""


def _fitting(file: str, name: str, entry: Any, option: click.Option) -> Any:
    """Return a setting as its option takes it, or refuse it."""
    number = isinstance(entry, (int, float)) and not isinstance(entry, bool)
    kind: Any = option.type
    if option.multiple:
        listed = [entry] if isinstance(entry, str) else entry
        fits, wanted = isinstance(listed, list) and all(isinstance(e, str) for e in listed), "names"
        entry = listed
    elif option.is_flag or isinstance(kind, click.types.BoolParamType):
        fits, wanted = isinstance(entry, bool), "true or false"
    elif isinstance(kind, click.types.IntParamType):
        fits, wanted = number and isinstance(entry, int), "a whole number"
    elif isinstance(kind, click.types.FloatParamType):
        fits, wanted = number, "a number"
    elif name in _EITHER:
        fits, wanted, entry = number or isinstance(entry, str), "a number or a text", str(entry)
    else:
        fits, wanted = isinstance(entry, str), "a text"
    if not fits:
        raise click.BadParameter(f"{file}: {name} must be {wanted}; got {entry!r}.")
    return entry


def _spelled(name: str) -> str:
    found = name.replace("-", "_")
    return {"all": "everything", "json": "as_json", "format": "format_"}.get(found, found)


def _listed(ctx: click.Context, param: click.Parameter, value: Any) -> tuple[str, ...]:
    """Take names one by one, or with commas between them."""
    return tuple(n.strip() for part in value for n in str(part).split(",") if n.strip())


SOURCE = "Source"
MODEL = "Model"
OUTPUT = "Output"
STATE = "State"
NOTIFY = "Notify"
_FORMATS = ("csv", "tsv", "jsonl", "parquet", "arrow", "libsvm")

source_options: list[Wrap] = [
    _option(SOURCE, "--format", "format_", type=click.Choice(_FORMATS),
            help="Format; else the name's ending tells, or the first byte of a pipe."),
    _option(SOURCE, "--delimiter", metavar="CHAR", help="Between the cells of a CSV file."),
    _option(SOURCE, "--header/--no-header", default=None,
            help="Whether the first line of a CSV file has the names; else its cells tell."),
    _option(SOURCE, "--columns", multiple=True, callback=_listed, metavar="NAMES",
            help="Learn from these columns only."),
    _option(SOURCE, "--ignore", multiple=True, callback=_listed, metavar="NAMES",
            help="Leave these columns out."),
    _option(SOURCE, "--types", multiple=True, metavar="NAME=TYPE,…",
            help="What columns are, where the first rows do not tell: number, category, boolean, "
            "time, text, ignore."),
    _option(SOURCE, "--decimal", type=click.Choice([".", ","]),
            help="What stands before decimals; else the first rows tell."),
    _option(SOURCE, "--time", metavar="COL",
            help="Column with the time: for --memory 12h, and shown."),
    _option(SOURCE, "--time-format", metavar="FORMAT",
            help="How times are written: iso, s, ms, us, ns, dmy, mdy, ymd, or a pattern such as "
            "'%d.%m.%Y %H:%M'; else the first rows tell."),
    _option(SOURCE, "--key", metavar="COL", help="One model for each value of this column."),
    _option(SOURCE, "--missing", type=click.Choice(["mean", "skip"]), default="mean",
            show_default=True,
            help="A number that is missing: take the column's mean, or count the row as broken."),
    _option(SOURCE, "--features", type=click.IntRange(1), metavar="N",
            help="Number of features of a LIBSVM file; else its first rows tell."),
    _option(SOURCE, "--follow", is_flag=True,
            help="Wait for more when the file ends, as tail -F does; rotation included."),
    _option(SOURCE, "--stop-after", type=click.FloatRange(0), metavar="SECONDS",
            help="End when --follow or a pipe has brought nothing for so long."),
    _option(SOURCE, "--replay", is_flag=True,
            help="The pipe begins anew: skip what --state knows already."),
    _option(SOURCE, "--longest", type=click.IntRange(64), default=2**20, show_default=True,
            metavar="BYTES", help="A longer line is a broken row."),
    _option(SOURCE, "--strict", is_flag=True, help="Stop at the first broken row."),
    _option(SOURCE, "--broken-at-most", type=click.FloatRange(0, 1), default=0.05,
            show_default=True, metavar="SHARE",
            help="More broken rows than this share end the run with exit code 6; 1: never."),
    _option(SOURCE, "--dead-letters", type=Named(dir_okay=False), metavar="FILE",
            help="Where broken rows go, with line and reason; else into --state."),
]  # fmt: skip

model_options: list[Wrap] = [
    _option(MODEL, "--memory", metavar="N|DURATION",
            help="Forgetting horizon: examples (100000; detect: 10000), or a time span (12h) by "
            "--time (detect: of --model kernel)."),
    _option(MODEL, "--kernel", metavar="NAME",
            help="Of one setting: gaussian, laplacian, matern, linear, …"),
    _option(MODEL, "--gamma", type=float, metavar="NUMBER",
            help="Of one setting: width of the kernel, 1/features by default."),
    _option(MODEL, "--window", type=int, metavar="TERMS",
            help="Of one setting: terms that are stored, 10000; time per row follows it. detect: "
            "of any model, 1000."),
    _option(MODEL, "--rate", type=float, metavar="NUMBER",
            help="Of one setting: learning rate."),
    _option(MODEL, "--scale/--no-scale", default=True, show_default=True,
            help="Standardise columns by running moments."),
    _option(MODEL, "--numbers", type=click.Choice(NUMBERS), default="auto", show_default=True,
            help="How numbers are held: single is twice as fast, and taken unless the first rows "
            "show numbers that need more digits (double)."),
    _option(MODEL, "--threads", type=int, metavar="N", default=-1, show_default=True,
            help="Threads; -1 for all cores. Results are the same for any number."),
]  # fmt: skip

series_options: list[Wrap] = [
    _option(MODEL, "--lags", metavar="auto|N",
            help="See each value with the N before it: as they are, as a shape at any level, their "
            "roughness, what a forecast from them had not foreseen. auto: the last two of these "
            "(8 steps, 24 values); detect does so for a single column. 0: none."),
    _option(MODEL, "--differences", is_flag=True, help="... with its difference from the last."),
    _option(MODEL, "--season", metavar="auto|day,week|N",
            help="... with its place in the day or week by --time, or in N rows. auto: one that is "
            "found. none: no season. --lags auto comes with the day, if there is --time."),
]  # fmt: skip

detect_options: list[Wrap] = [
    _option(MODEL, "--model", type=click.Choice(["auto", "kernel"]), default="auto",
            show_default=True,
            help="auto: the detector that tunes itself (Detector). kernel: one model of one paper "
            "(NoveltyDetector); so do the options that only it has, such as --kernel."),
    _option(MODEL, "--nu", type=Rate(), metavar="SHARE|none",
            help="Promised alert rate: 0.01 by default (--model kernel: 0.05). none: whatever "
            "--precision allows."),
    _option(MODEL, "--precision", type=Promise(), metavar="SHARE",
            help="Promised share of answered alerts that are faults, such as 0.8: the level of an "
            "alert follows the answers (onkel feedback, or the live page)."),
    _option(MODEL, "--memory-of-feedback", type=click.FloatRange(1), metavar="ROWS",
            help="Rows after which an answer has faded to about a third: 100000 by default."),
    _option(MODEL, "--alerts-kept", type=click.IntRange(0, 10_000_000), metavar="N",
            help="So many alerts, the last ones, can be answered: 1000 by default (of each key)."),
    _option(MODEL, "--support", type=float, metavar="SHARE",
            help="--model kernel: share of the rows that is learned from; that of the alerts by "
            "default."),
    _option(MODEL, "--share", is_flag=True,
            help="With --key: a key that is new starts from what is usual among all keys, so that "
            "its first rows may be alerts, too."),
    _option(MODEL, "--learn-alerts/--no-learn-alerts", default=True, show_default=True,
            help="--model kernel: whether alerts are learned, and so become usual."),
    _option(MODEL, "--warmup", type=click.IntRange(0), metavar="ROWS",
            help="So many rows are learned before the first alert: 200 and 10 for each column by "
            "default, 5/nu at least where columns are no numbers (--model kernel: 0)."),
    _option(MODEL, "--recent", type=click.IntRange(1), default=1000, show_default=True,
            metavar="ROWS", help="Ranks are taken among so many scores."),
    _option(OUTPUT, "--incidents", type=Named(dir_okay=False), metavar="FILE",
            help="Where incidents go, alerts that belong together, as JSON lines: one when an "
            "incident opens, one with all of it when it is over."),
    _option(OUTPUT, "--incident-gap", metavar="ROWS|DURATION", default="20", show_default=True,
            help="Alerts so near to each other are one incident: rows (with --key, of that key), "
            "or a time span (30min) by --time."),
    _option(OUTPUT, "--cool-down", type=click.IntRange(0), metavar="ROWS", default=0,
            show_default=True,
            help="After an alert so many rows (of its key) show none; what is held back is "
            "counted, and part of the incident."),
    _option(OUTPUT, "--all", "everything", is_flag=True, help="Write all rows, not alerts alone."),
    _option(OUTPUT, "--explain", type=click.Choice(["auto", "all", "none"]), default="auto",
            show_default=True,
            help="Which alerts are explained by the model: the first 200 (3 of each key), then "
            "every 500th (of the others a few words say what is far from its mean); all; none."),
]  # fmt: skip

learn_options: list[Wrap] = [
    _option(SOURCE, "--target", required=True, metavar="COL",
            help="Column to predict; rows without it are predicted, not learned."),
    _option(SOURCE, "--missing-label", multiple=True, metavar="WORD",
            help="A word that stands for no target, such as NA; an empty cell does so anyway."),
    _option(SOURCE, "--pending", metavar="DURATION|N",
            help="Rows without a target wait so long (30d), or so many of them (100000): a later "
            "line with the same --id brings it, its other cells may be empty."),
    _option(SOURCE, "--id", metavar="COL", help="Column of the ids that rows wait under."),
    _option(OUTPUT, "--ask", type=float, metavar="SHARE",
            help="With --pending: mark this share of the rows (0.02), those whose target would "
            "teach most, in a column ask."),
    _option(MODEL, "--model", type=click.Choice(["auto", "kernel", "linear"]), default="auto",
            show_default=True,
            help="auto: several settings side by side, the better ones counting for more "
            "(Classifier, Regressor). kernel, linear: one setting, one paper (KernelClassifier, "
            "…); so do the options that only it has, such as --kernel."),
    _option(MODEL, "--nu", type=float, metavar="SHARE",
            help="regress: share of the targets outside their intervals, 0.1 (--model kernel and "
            "linear: no intervals without it). classify, of one setting: share of margin errors."),
    _option(MODEL, "--precision", type=click.Choice(NUMBERS), hidden=True,
            help="What --numbers was called."),
    _option(MODEL, "--loss", metavar="NAME",
            help="Of one setting. classify: soft_margin, logistic; regress: huber, squared, "
            "absolute, epsilon_insensitive."),
    _option(MODEL, "--rule", metavar="NAME",
            help="Of one setting: norma, perceptron, alma, projection, romma."),
]  # fmt: skip

run_options: list[Wrap] = [
    _option(OUTPUT, "--output", "-o", type=Named(dir_okay=False, allow_dash=True),
            default="-", metavar="FILE", help="Where results go: a file, or - for stdout."),
    _option(OUTPUT, "--output-format", type=click.Choice(["jsonl", "csv"]),
            help="JSON lines or CSV; else the file's ending tells."),
    _option(OUTPUT, "--report", type=Named(dir_okay=False), metavar="FILE.html",
            help="A page about the run, written at its end."),
    _option(OUTPUT, "--dashboard", metavar="[HOST:]PORT",
            help="Show the run on a live page, such as http://127.0.0.1:8080; 0 takes a free port. "
            "This machine only."),
    _option(OUTPUT, "--metrics", metavar="[HOST:]PORT",
            help="Counters for Prometheus at http://127.0.0.1:PORT/metrics; 0 takes a free port. "
            "This machine only. A --dashboard has them at /metrics as well."),
    _option(OUTPUT, "--json", "as_json", is_flag=True, help="The summary as JSON."),
    _option(OUTPUT, "--quiet", "-q", is_flag=True, help="No progress, no summary, no warnings."),
    _option(OUTPUT, "--dry-run", is_flag=True,
            help="Show what was inferred; learn nothing, write nothing."),
    _option(STATE, "--state", type=Named(file_okay=False), metavar="DIR",
            help="Keep everything here, so that a run can die and go on."),
    _option(STATE, "--output-lost", is_flag=True,
            help="Go on although an output is gone: it begins anew, without the results so far."),
    _option(STATE, "--every", type=click.FloatRange(0), default=1.0, show_default=True,
            metavar="SECONDS", help="Time between checkpoints."),
    _option(STATE, "--models-in-memory", type=click.IntRange(1), default=1000, show_default=True,
            metavar="N", help="With --key, of models that are no fleet: more wait on disk."),
    _option(STATE, "--key-memory", type=Size(), default="2GB", show_default=True, metavar="SIZE",
            help="With --key: so much of the models of all keys is held in memory, the others wait "
            "on disk."),
    _option(STATE, "--block", type=click.IntRange(64), metavar="ROWS",
            help="Rows that are handled at once: 16384 of up to 8 columns, fewer of more; 1024 by "
            "classify and regress with --model auto."),
    _option(STATE, "--config", type=Named(dir_okay=False), metavar="FILE.toml",
            is_eager=True, callback=_load,
            help="Take settings from a TOML file: names as here, without the dashes."),
]  # fmt: skip

notify_options: list[Wrap] = [
    _option(NOTIFY, "--notify", metavar="URL",
            help="Send each alert there as JSON (POST), again and again until it is taken. With "
            "--state nothing is lost when the run or the receiver dies. Unless this or "
            "--notify-command is given, nothing is sent."),
    _option(NOTIFY, "--notify-command", metavar="CMD",
            help="Run a program for each alert, JSON on its standard input and ONKEL_… in its "
            "environment; no shell reads the line. Another exit code than 0: again."),
    _option(NOTIFY, "--notify-what", type=click.Choice(["alerts", "incidents", "both"]),
            help="What is sent: each alert (unless told); incidents, alerts that belong together, "
            "when one opens and when it is over; or both."),
    _option(NOTIFY, "--notify-format", type=click.Choice(["json", "alertmanager"]),
            help="Of what is sent: json (unless told), or what Alertmanager takes at "
            "/api/v2/alerts."),
    _option(NOTIFY, "--notify-secret-file", type=Named(exists=True, dir_okay=False),
            metavar="FILE", help="Holds a secret that signs what goes to the URL, as Standard "
            "Webhooks has it: whsec_ and base64, or any text of at least 16 bytes."),
    _option(NOTIFY, "--notify-give-up", metavar="DURATION",
            help="An alert that could not be delivered for so long is lost, and told of: 1d."),
    _option(NOTIFY, "--notify-timeout", type=click.FloatRange(0, min_open=True), default=10.0,
            show_default=True, metavar="SECONDS",
            help="For one attempt; a command is killed then."),
    _option(NOTIFY, "--notify-wait", type=click.FloatRange(0), default=5.0, show_default=True,
            metavar="SECONDS", help="At the end, wait for deliveries until none came for so long; "
            "a command that still runs is killed then."),
]  # fmt: skip

_LIMITS: dict[str, tuple[type, str]] = {
    "body-bytes": (int, "Bytes of one request: 16 MiB."),
    "file-bytes": (int, "Bytes of a model file that is brought in: 64 MiB."),
    "rows": (int, "Examples in one request: 10000."),
    "features": (int, "Numbers in one row: 10000."),
    "classes": (int, "Labels that one classifier may know: 1000."),
    "seconds": (
        float,
        "For a request to arrive, for its answer, and for that to be taken: 30 each.",
    ),
    "replay-seconds": (float, "For a replay of the rows that were kept (--archive): 300."),
    "models": (int, "Models in all: 256."),
    "model-bytes": (int, "Bytes of a model and its names; beyond, it learns no more: 256 MiB."),
    "keys": (int, "Keys of one model that has such: 1000000."),
    "key-bytes": (int, "Bytes of its models held in memory, the others wait on disk: 2 GiB."),
    "pending": (int, "Rows of one model that wait for their labels: 100000."),
    "requests-per-second": (float, "Of one client address: 5000."),
    "connections": (int, "At once, a quarter of them before a token was shown: 512."),
    "waiting": (int, "Requests that wait for the log or for a model: 1000."),
}
serve_options: list[Wrap] = [
    _option(STATE, "--state", required=True, type=Named(file_okay=False), metavar="DIR",
            help="Where everything is kept; made if it is not there. One process at a time."),
    _option(STATE, "--snapshot-bytes", type=click.IntRange(1), default=64 * 2**20, metavar="N",
            help="Models are saved when the log has grown so large (64 MiB),"),
    _option(STATE, "--snapshot-seconds", type=click.FloatRange(0.1), default=300.0, metavar="S",
            help="or so old (300): a restart has that much to do again."),
    _option(STATE, "--archive", metavar="DURATION|BYTES",
            help="Keep what detectors learn for so long (30d), up to so many bytes (2GB), or both "
            "(30d,2GB): /models/NAME/replay then runs other settings over it."),
    _option("Address", "--host", default="127.0.0.1", show_default=True,
            help="An address that other machines can reach needs a token."),
    _option("Address", "--port", type=click.IntRange(0, 65535), default=8421, show_default=True,
            help="0 takes a free one."),
    _option("Address", "--token-file", type=Named(exists=True, dir_okay=False),
            metavar="FILE", help="Holds what clients must send: Authorization: Bearer TOKEN."),
    *notify_options,
    *(_option("Limits", f"--{name}", type=kind, metavar="N", help=text)
      for name, (kind, text) in _LIMITS.items()),
]  # fmt: skip

replay_options: list[Wrap] = [
    _option(MODEL, "--nu", type=Rate(), multiple=True, metavar="SHARE|none",
            help="Another promised alert rate; several times: a column for each. none: whatever "
            "--precision allows."),
    _option(MODEL, "--precision", multiple=True, metavar="SHARE",
            help="Another promised share of answered alerts that are faults: the level follows the "
            "answers that the run has heard."),
    _option(MODEL, "--memory", multiple=True, metavar="N|DURATION",
            help="Another forgetting horizon."),
    _option(MODEL, "--window", type=int, multiple=True, metavar="TERMS",
            help="Another number of rows, or terms, that are stored."),
    _option(MODEL, "--warmup", type=click.IntRange(0), multiple=True, metavar="ROWS",
            help="Another number of rows before the first alert."),
    _option(MODEL, "--model", type=click.Choice(["auto", "kernel"]), multiple=True,
            help="Another detector."),
    _option(MODEL, "--set", "settings", multiple=True, metavar="NAME=VALUE,…",
            help="A column of its own, with these settings: names as detect has them, without the "
            "dashes. \"default\" takes one back."),
    _option("Comparison", "--since", metavar="SPAN|DATE|ROW",
            help="Compare what came since: 30d or 12h before the last row (by --time), a date, or "
            "a row's number. Everything is learned from the start all the same."),
    _option("Comparison", "--key", multiple=True, metavar="KEY",
            help="Compare the alerts of this key; several times: of these. Others are not learned "
            "(but with --share)."),
    _option("Comparison", "--gap", metavar="ROWS|DURATION",
            help="Alerts so near to each other are one incident, as with --incident-gap of onkel "
            "detect; as in the run, unless told."),
    _option(OUTPUT, "--json", "as_json", is_flag=True, help="Everything, as JSON."),
    _option(OUTPUT, "--report", type=Named(dir_okay=False), metavar="FILE.html",
            help="A page with the alerts of all settings on one axis."),
    _option(OUTPUT, "--quiet", "-q", is_flag=True, help="No progress, no notes."),
]  # fmt: skip


def with_options(*lists: list[Wrap]) -> Wrap:
    """Return a decorator that adds options, in order."""

    def wrap(function: Any) -> Any:
        for option in reversed([o for options in lists for o in options]):
            function = option(function)
        return function

    return wrap
