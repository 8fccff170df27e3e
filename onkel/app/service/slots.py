"""One model in the service: its estimator, and the calls that wait for it.

One thread at a time works at a model. Between two calls that learn, all questions that wait are
answered, so that predictions go on while examples pour in.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any

import msgspec

from onkel.late import Late

if TYPE_CHECKING:
    from onkel.app.service.incidents import ModelIncidents

Call = tuple[Callable[[], Any], "Future[Any]"]
TURN = 0.02
"""Seconds after which a busy model lets others have the thread."""


class Spec(msgspec.Struct):
    """What a model is, as it was made."""

    id: int
    name: str
    kind: str
    parameters: dict[str, Any]
    features: list[str] | None = None
    created: int = 0
    """The position in the log."""
    keyed: bool = False
    """Whether it is a fleet, with a model for each key."""


class Slot:
    """A named model and its queue.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> pool = ThreadPoolExecutor(1)
    >>> slot = Slot(Spec(1, "a", "NoveltyDetector", {}), object(), pool)
    >>> slot.ask(lambda: 2 + 2).result()
    4
    >>> pool.shutdown()
    """

    def __init__(
        self, spec: Spec, model: Any, pool: Executor, incidents: ModelIncidents | None = None
    ) -> None:
        self.spec = spec
        self.incidents = incidents
        """Of a detector: which of its alerts belong together."""
        self.model = model
        """The estimator, a fleet, or one with the rows that wait for their labels."""
        self.position = spec.created
        """Of the last record that was applied or refused."""
        self.refused: set[int] = set()
        """Positions of records that were refused, and of which the log does not say so yet."""
        self.saved = -1
        """Position of the last snapshot; -1: there is none."""
        self.bytes = 0
        self.kept = model.nbytes if isinstance(model, Late) else 0
        """Bytes of rows that wait for their labels."""
        self.labels: set[Any] | None = None
        """Of a classifier with keys, all that it knows; None until somebody asks."""
        self.begin()
        self.promised: float | None = None
        """Rate of alerts, or of targets outside; `realised` is what came of it, of late."""
        self.realised: float | None = None
        self.weights: dict[str, float] = {}
        """Of a self-tuning model's members, by their names; of late."""
        self.logged = 0
        """Bytes of the log since the model's file was written."""
        self.failed = ""
        """Why this model is out of use."""
        self.gone = False
        self.pool = pool
        self._asks: deque[Call] = deque()
        self._does: deque[Call] = deque()
        self._guard = threading.Lock()
        self._busy = False

    def begin(self) -> None:
        """Count from now on."""
        self.examples = 0
        """Learned since the service started; so are `alerts`."""
        self.alerts = 0
        self.heard = time.monotonic()
        """When the last row came."""

    @property
    def estimator(self) -> Any:
        """What learns."""
        return inner(self.model)

    def ask(self, call: Callable[[], Any]) -> Future[Any]:
        """Run a call that changes nothing, before calls of :meth:`do` that wait."""
        return self._add(self._asks, call)

    def do(self, call: Callable[[], Any]) -> Future[Any]:
        """Run a call that may change the model, in the order in which they come."""
        return self._add(self._does, call)

    @property
    def waiting(self) -> int:
        """Number of calls that wait."""
        return len(self._asks) + len(self._does)

    def _add(self, queue: deque[Call], call: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        with self._guard:
            queue.append((call, future))
            if not self._busy:
                self._begin(queue)
        return future

    def _begin(self, queue: deque[Call]) -> None:
        """Let a thread work; without one, what was put last into the queue is taken out again."""
        self._busy = True
        try:
            self.pool.submit(self._work)
        except BaseException:
            queue.pop()
            self._busy = False
            raise

    def _work(self) -> None:
        """Answer all questions, then learn once, and so on; hand the thread back after a while."""
        stop = time.monotonic() + TURN
        while time.monotonic() < stop:
            for _ in range(len(self._asks)):
                _run(*self._asks.popleft())
            if self._does:
                _run(*self._does.popleft())
            with self._guard:
                if not self._asks and not self._does:
                    self._busy = False
                    return
        self.pool.submit(self._work)


def inner(model: Any) -> Any:
    """Return the estimator of a model whose labels come late; another model as it is."""
    return model.estimator if isinstance(model, Late) else model


def _run(call: Callable[[], Any], future: Future[Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(result)
