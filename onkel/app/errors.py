"""What can go wrong with a run, each with its exit code."""

from __future__ import annotations

CODES = {
    0: "all rows were read",
    1: "an unexpected error",
    2: "the command line, or the configuration, was not understood",
    3: "the source cannot be read, or not as asked; or --strict met a broken row",
    4: "the state is in use, damaged, or belongs to other settings",
    5: "the output cannot be written: a full disk, a closed pipe",
    6: "all rows were read, but more than --broken-at-most of them were broken",
    7: "all rows were read, but alerts were not delivered (--notify)",
    130: "interrupted (Ctrl-C, or a polite kill); with --state nothing is lost",
}
"""Exit codes, and what they mean."""


class RunError(Exception):
    """Something that ends a run, with a message for people."""

    code = 1


class UsageProblem(RunError):
    """The settings make no sense."""

    code = 2


class SourceProblem(RunError):
    """The source cannot be read, or holds a broken row where none is allowed."""

    code = 3


class StateProblem(RunError):
    """The state cannot be used."""

    code = 4


class OutputProblem(RunError):
    """The output cannot be written."""

    code = 5


class TooManyBroken(RunError):
    """All rows were read, but too many of them were broken; what came of the others is written."""

    code = 6


class NotDelivered(RunError):
    """All rows were read, but alerts are lost, or wait to be delivered by the next run."""

    code = 7


class Unheard(OutputProblem):
    """Whoever read the output has closed it, as ``| head`` does: nobody wants a message."""
