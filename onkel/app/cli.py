"""The command line: ``onkel detect SOURCE`` and its sisters."""

from __future__ import annotations

import json
from typing import Any

import click

from onkel import __version__
from onkel.app.errors import CODES, StateProblem, UsageProblem
from onkel.app.options import (
    Heard,
    HeardGroup,
    Named,
    Teaching,
    detect_options,
    learn_options,
    model_options,
    notify_options,
    replay_options,
    run_options,
    series_options,
    serve_options,
    source_options,
    with_options,
)
from onkel.app.telling import ending, say, tell, to_stdout

_SHOWN = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
_EXIT = "\n".join(f"  {code:>3}  {meaning}" for code, meaning in CODES.items())


@click.group(
    cls=HeardGroup,
    context_settings=_SHOWN,
    epilog=f"\b\nExit codes:\n{_EXIT}",
)
@click.version_option(__version__, "--version", prog_name="onkel")
def main() -> None:
    """Learn from a stream, one row at a time: alerts, labels, numbers.

    \b
    onkel detect readings.csv                     how rare is each row? alerts on the rarest
    tail -f log.jsonl | onkel detect - --nu 0.001
    onkel classify mail.csv --target spam -o predictions.csv
    onkel regress load.csv --target watts --state run/

    Each row is judged before it is learned. With --state a run may die at any moment: the same
    command goes on, and its output is what it would have been.
    """  # noqa: D301


def _run(task: str, source: str, options: dict[str, Any]) -> None:
    from onkel.app import conduct

    try:
        with ending():
            code = conduct.run(task, source, options)
    except KeyboardInterrupt:  # before the first row, or for the second time
        raise SystemExit(conduct.INTERRUPTED) from None
    raise SystemExit(code)


@main.command(cls=Teaching, context_settings=_SHOWN)
@click.argument("source")
@with_options(
    source_options, detect_options, series_options, model_options, run_options, notify_options
)
def detect(source: str, **options: Any) -> None:
    """Raise alerts on rows that are new, at a rate that you choose.

    SOURCE is a file (CSV, TSV, JSON lines, Parquet, LIBSVM; compressed or not), - for stdin, or
    kafka://host:port/topic. Columns of any kind are learned from, by name: numbers, categories,
    dates, texts.

    \b
    onkel detect readings.csv                        alerts on 1 % of usual rows, and on faults
    onkel detect readings.csv --nu 0.001 -o alerts.csv --report run.html
    onkel detect readings.csv --dry-run              what would be learned from?
    onkel detect /var/log/app.jsonl --follow --state run/ -o alerts.jsonl
    onkel detect trips.parquet --key vehicle --time at --memory 12h --state run/
    onkel detect app.jsonl --follow --state run/ --notify https://example.org/hook

    Each line of the output has the row's number (from 0), p (a usual row as unusual comes once in
    1/p), score (log p), threshold, rank (the share of recent scores that were as low) and a
    sentence that says why. Options that only the papers' detector has give that one, without p.
    """  # noqa: D301
    _run("detect", source, options)


@main.command(cls=Teaching, context_settings=_SHOWN)
@click.argument("source")
@with_options(
    source_options[:3],
    learn_options,
    source_options[3:],
    series_options,
    model_options,
    run_options,
)
def classify(source: str, **options: Any) -> None:
    """Predict a label for each row, then learn from it.

    SOURCE is a file (CSV, TSV, JSON lines, Parquet, LIBSVM; compressed or not) or - for stdin.
    Labels are texts or whole numbers, any number of them, and may appear late.

    \b
    onkel classify mail.csv --target spam                  nothing to tune: it tunes itself
    onkel classify mail.csv --target spam -o predictions.csv --state run/
    onkel classify a9a.libsvm --target label --kernel gaussian --gamma 0.01    one setting

    Each line of the output has the row's number (from 0), the prediction, its probability, and
    the target. Rows whose target is empty are predicted, not learned: put new rows at the end of
    a file, or send them through the pipe.
    """  # noqa: D301
    _run("classify", source, options)


@main.command(cls=Teaching, context_settings=_SHOWN)
@click.argument("source")
@with_options(
    source_options[:3],
    learn_options,
    source_options[3:],
    series_options,
    model_options,
    run_options,
)
def regress(source: str, **options: Any) -> None:
    """Predict a number for each row, then learn from it.

    SOURCE is a file (CSV, TSV, JSON lines, Parquet, LIBSVM; compressed or not) or - for stdin.

    \b
    onkel regress load.csv --target watts            with intervals that hold 90 % of the targets
    onkel regress load.csv --target watts --nu 0.02  ... that hold 98 %
    onkel regress load.csv.gz --target watts --time at --memory 7d -o predictions.csv

    Each line of the output has the row's number (from 0), the prediction, low and high of its
    interval, and the target. With --model kernel or linear there are intervals if --nu is given.
    """  # noqa: D301
    _run("regress", source, options)


@main.command(cls=Teaching, context_settings=_SHOWN)
@with_options(serve_options)
def serve(**options: Any) -> None:
    """Keep many models by name, and let them learn over HTTP; the live page is at the address.

    \b
    onkel serve --state models/
    onkel serve --state models/ --host 0.0.0.0 --token-file token.txt
    curl --json '{"name": "pump", "task": "novelty"}' http://127.0.0.1:8421/models
    curl --json '{"X": [[1.0, 2.0]]}' http://127.0.0.1:8421/models/pump/predict-then-learn

    An example that was acknowledged is on the disk: the machine may die at any moment. What can be
    asked is told at /openapi.json.
    """  # noqa: D301
    try:
        from onkel.app.service import serve as server
    except ImportError as error:
        tell(f"onkel: serve needs {error.name}: pip install 'onkel[serve]'.")
        raise SystemExit(2) from None
    with ending():
        raise SystemExit(server.run(options))


@main.command(cls=Heard, context_settings=_SHOWN)
@click.argument("state", type=click.Path(exists=True, file_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
def inspect(state: str, as_json: bool) -> None:
    """Tell what a STATE folder holds: examples, position, generation, settings, the model.

    \b
    onkel inspect run/
    onkel inspect run/ --json | jq .examples

    It may be asked while a run is going on. If a run could not go on from it, the code is 4.
    """  # noqa: D301
    from onkel.app.run import inspect as inspection

    with ending():
        found = inspection.inspect(state)
        say(inspection.as_json(found) if as_json else inspection.as_text(found))
        if "problem" in found:
            raise StateProblem(found["problem"])


@main.command(cls=Teaching, context_settings=_SHOWN)
@click.argument("state", type=click.Path(exists=True, file_okay=False))
@click.argument("source", required=False)
@with_options(replay_options)
def replay(state: str, source: str | None, **options: Any) -> None:
    """Would it have fired? Run other settings over the rows that a run has read.

    STATE is the folder of an onkel detect --state. Its run's input is read again from the start, as
    far as the run has come, and each setting learns it anew beside the run's own ("as it was"). The
    state does not change, and a run that goes on is not disturbed. SOURCE is needed where the
    input cannot be read again, as a pipe, or lies elsewhere now: a file, or - for stdin, with the
    same rows.

    \b
    onkel replay run/ --nu 0.001                      with fewer alerts: which would be gone?
    onkel replay run/ --nu 0.001 --nu 0.005 --since 30d --report compared.html
    onkel replay run/ --nu 0.001 --memory 50000       both at once, in one column
    onkel replay run/ --set nu=0.001,memory=50000 --set window=2000    a column each
    onkel replay run/ --nu none --precision 0.8       a promised precision, from the answers so far
    onkel replay run/ --key pump-3 --nu 0.002 --json | jq '.settings[1].gone'

    If the input is not what the run has read, the code is 3.
    """  # noqa: D301
    try:
        from onkel.app.replay import command

        with ending():
            raise SystemExit(command.run(state, source, options))
    except KeyboardInterrupt:
        raise SystemExit(130) from None


@main.command(cls=Heard, context_settings=_SHOWN)
@click.argument("state", type=click.Path(exists=True, file_okay=False))
@click.argument("ids", nargs=-1, metavar="[ID]... [usual|fault]")
@click.option(
    "--file",
    "file",
    type=Named(dir_okay=False),
    metavar="FILE",
    help="Many answers: JSON lines, or CSV with a header, with id and answer.",
)
@click.option("--list", "listing", is_flag=True, help="Show the alerts that wait, newest first.")
@click.option("--json", "as_json", is_flag=True, help="Everything, as JSON.")
def feedback(
    state: str, ids: tuple[str, ...], file: str | None, listing: bool, as_json: bool
) -> None:  # fmt: skip
    """Say what alerts were: usual, so that their like come no more, or a fault.

    STATE is the folder of onkel detect --state; it may be running. The ID of an alert is
    alert_id in its output, and on the live page.

    \b
    onkel feedback run/ 2000 usual              rows like this one are no alert any more
    onkel feedback run/ 2311 2312 fault         rows like these always are, and are not learned
    onkel feedback run/ pump-7:2000 usual       with --key
    onkel feedback run/ --file answers.csv      columns id and answer
    onkel feedback run/ --list

    A run that is going on takes an answer in within a moment, else the next one does, once. One
    that is known to be wrong is refused (code 2), and all that were given with it.
    """  # noqa: D301
    from onkel.app.run import feedback as giving

    with ending():
        if listing == bool(ids or file):
            raise UsageProblem("Give the IDs of alerts and usual or fault, or --file, or --list.")
        if listing:
            found = giving.listed(state)
            say(json.dumps(found) if as_json else giving.list_in_words(found))
            return
        if len(ids) == 1 or (ids and ids[-1] not in ("usual", "fault")):
            raise UsageProblem(
                "An answer is usual or fault, after the IDs of the alerts: onkel feedback STATE ID "
                f"usual; got {' '.join(ids)!r:.80}."
            )
        answers = [(id, ids[-1]) for id in ids[:-1]] + (giving.read_file(file) if file else [])
        found = giving.give(state, answers)
        say(json.dumps(found) if as_json else giving.given_in_words(found))


@main.command(cls=Heard, context_settings=_SHOWN)
@click.argument("state", type=click.Path(exists=True, file_okay=False))
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="0 takes a free one.")
def watch(state: str, port: int) -> None:
    """Show a STATE folder on the live page: a run that is over, or one that goes on.

    \b
    onkel watch run/
    onkel watch run/ --port 8080

    The state is only looked at; a run in it is not disturbed. Buttons at alerts do what onkel
    feedback does. This machine only; others can look through a tunnel (ssh -L). Ctrl-C ends it.
    """  # noqa: D301
    try:
        from onkel.app.live import states
    except ImportError as error:
        tell(f"onkel: watch needs {error.name}: pip install 'onkel[serve]'.")
        raise SystemExit(2) from None
    with ending():
        states.watch(state, "127.0.0.1", port)


@main.command(cls=Heard, context_settings=_SHOWN)
@click.option("--examples", type=click.IntRange(1), help="Readings of the simulated plant.")
@click.option("--seed", type=int, help="Of the simulation.")
@click.option("--output", type=Named(dir_okay=False), help="The report's file.")
def demo(**options: Any) -> None:
    """Watch six sensors of a simulated plant, and write a report to open in a browser."""
    from onkel.app.demo import __main__ as demonstration

    words = [[f"--{name}", str(value)] for name, value in options.items() if value is not None]
    with ending(), to_stdout():
        code = demonstration.main([word for pair in words for word in pair])
    raise SystemExit(code)


@main.command(cls=Heard, context_settings=_SHOWN)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what makes a SHELL complete onkel's commands and options.

    \b
    onkel completion bash > ~/.local/share/bash-completion/completions/onkel
    onkel completion zsh  > ~/.zfunc/_onkel
    onkel completion fish > ~/.config/fish/completions/onkel.fish
    """  # noqa: D301
    from click.shell_completion import get_completion_class

    found = get_completion_class(shell)
    assert found is not None
    with ending():
        say(found(main, {}, "onkel", "_ONKEL_COMPLETE").source())
