"""A mixture some of whose members live on a GPU: while those learn, earlier rows are mixed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from threading import Condition
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from onkel.learner.base import Learner
from onkel.learner.transaction import Transaction

if TYPE_CHECKING:
    from onkel.learner.mixture import Mixture

Array = NDArray[Any]
Job = Callable[[slice], None]

AHEAD = 16_384
"""Rows that members on a device learn while earlier ones are mixed."""
FAILED = -1
"""Instead of the number of pieces that a thread is through with."""


def learn_beside_device(
    mixture: Mixture, X: Any, Y: Array, weight: Array, first: int, times: Array | None
) -> tuple[Array, Array]:
    """Learn rows in order, all or none; return the mixture's answers and widths before each."""
    scores = np.empty((len(Y), len(mixture.members), mixture.columns))
    answers, widths = np.empty((2, len(Y), mixture.columns))
    host, mixer = mixture.rows_on_host(X), mixture.copy_of_mixing()

    def learn(part: Learner, held: list[int], call: Transaction, piece: slice) -> None:
        rows = (X if on_device(part) else host)[piece]
        when = times[piece] if times is not None and np.isfinite(part.rule.duration) else None
        at = first + piece.start
        told, _ = part.learn_within(call, rows, Y[piece], weight[piece], None, at, when)
        scores[piece, held] = mixture.by_member(told, held)

    def mix(piece: slice) -> None:
        answers[piece], widths[piece] = mixer.mixed(scores[piece], Y[piece])

    with ExitStack() as calls:
        enter, n = calls.enter_context, len(Y)
        jobs = [partial(learn, part, held, enter(Transaction(part, n, with_others=True)))
                for part, held in mixture.parts]  # fmt: skip
        pieces = [slice(a, min(a + AHEAD, n)) for a in range(0, n, AHEAD)]
        side_by_side(jobs, [on_device(part) for part, _ in mixture.parts], pieces, mix)
    mixture.take_mixing(mixer)
    return answers, widths


def on_device(part: Learner) -> bool:
    """Whether a part lives on a GPU."""
    return part.settings.device != "cpu"


def _through(through: list[int], piece: int) -> bool:
    """Whether all are through with a piece, or one has failed."""
    return min(through) > piece or min(through) < 0


def side_by_side(
    jobs: Sequence[Job], away: Sequence[bool], pieces: Sequence[slice], done: Job
) -> None:
    """Run every job on the pieces in their order, and `done` on each that all are through with.

    Jobs that wait for a device share a thread, the others another one (more would stand in each
    other's way); `done` runs beside them. All have ended when this returns, or raises what one of
    them raised.
    """
    groups = [[job for job, far in zip(jobs, away, strict=True) if far == where]
              for where in (True, False)]  # fmt: skip
    groups = [group for group in groups if group]
    through, ready = [0] * len(groups), Condition()

    def run(i: int) -> None:
        try:
            for piece in pieces:
                for job in groups[i]:
                    job(piece)
                with ready:
                    through[i] += 1
                    ready.notify_all()
        except BaseException:
            with ready:
                through[i] = FAILED
                ready.notify_all()
            raise

    with ThreadPoolExecutor(len(groups)) as pool:
        started = [pool.submit(run, i) for i in range(len(groups))]
        for k, piece in enumerate(pieces):
            with ready:
                ready.wait_for(partial(_through, through, k))
                if min(through) < 0:
                    break
            done(piece)
    for one in started:
        one.result()
