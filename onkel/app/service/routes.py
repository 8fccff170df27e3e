"""The API over HTTP: each route reads strictly, asks the engine, and answers JSON."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from starlette.datastructures import QueryParams
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from onkel import __version__
from onkel.app.http.answers import Large
from onkel.app.http.counts import Requests
from onkel.app.http.encoding import encode
from onkel.app.http.problems import Problem, busy
from onkel.app.live.page import Page, key_of, whole
from onkel.app.service import (
    bodies,
    calls,
    codec,
    comparing,
    feedback,
    fleets,
    incidents,
    kept,
    lookback,
    metrics,
    pending,
    tables,
)
from onkel.app.service.bodies import (
    AnyBatch,
    Batch,
    Create,
    Entry,
    Labels,
    Question,
    Recall,
    Replay,
)
from onkel.app.service.engine import Engine
from onkel.app.service.keys import Remembered
from onkel.app.service.openapi import document
from onkel.app.service.slots import Slot, inner
from onkel.app.service.specs import build, kind_of
from onkel.fleet import Fleet
from onkel.late import Late

LARGE = 2**17
"""A body of so many bytes is read in a thread, so that the loop stays free."""
NDJSON = "application/x-ndjson"
T = TypeVar("T")
Handler = Callable[[Request], Awaitable[Response]]


class Api:
    """The handlers, over one engine."""

    def __init__(self, engine: Engine, requests: Requests, page: Page | None = None) -> None:
        self.engine = engine
        self.page = page or Page(engine.board, service=True)
        self.requests = requests
        self.limits = engine.limits
        self._large = asyncio.Semaphore(4)  # bodies in the reading at once, for memory's sake
        self._files = asyncio.Semaphore(4)  # and files in the sending
        self._replaying = asyncio.Lock()  # one replay at a time: it learns for nobody's sake

    def routes(self) -> list[Route]:
        """Return path, handler and method of everything."""
        model = "/models/{name}"
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/health", self.health),
            ("GET", "/metrics", self.metrics),
            ("GET", "/openapi.json", self.openapi),
            ("GET", "/models", self.list),
            ("POST", "/models", self.create),
            ("GET", model, self.show),
            ("DELETE", model, self.delete),
            ("POST", f"{model}/learn", self.learn),
            ("POST", f"{model}/predict", self.predict),
            ("POST", f"{model}/predict-then-learn", self.learn),
            ("POST", f"{model}/explain", self.explain),
            ("POST", f"{model}/replay", self.replay),
            ("GET", f"{model}/keys", self.keys),
            ("GET", f"{model}/key", self.key),
            ("POST", f"{model}/forget", self.forget),
            ("POST", f"{model}/feedback", self.feedback),
            ("GET", f"{model}/alerts", self.alerts),
            ("GET", f"{model}/incidents", self.incidents),
            ("GET", f"{model}/file", self.export),
            ("PUT", f"{model}/file", self.take),
        ]
        return [Route(path, noted(path, call), methods=[how]) for how, path, call in table]

    # -- about the service ---------------------------------------------------------------------

    async def health(self, request: Request) -> Response:
        """Whether all is well."""
        engine = self.engine
        trouble, aside = engine.troubles(), engine.models.out_of_use()
        found = {
            "status": "degraded" if trouble else "ok", "version": __version__,
            "models": len(engine.slots()), "waiting": engine.waiting,
            "aside": [one.spec.name for one in aside], "trouble": trouble,
            "archive": engine.state.archive.about(),
        }  # fmt: skip
        return _json(found)

    async def metrics(self, request: Request) -> Response:
        """Counters for Prometheus."""
        text = metrics.text(self.requests, self.engine)
        return Response(text, media_type=metrics.CONTENT_TYPE)

    async def openapi(self, request: Request) -> Response:
        """The description of this API."""
        return _json(document(self.limits))

    # -- models --------------------------------------------------------------------------------

    async def list(self, request: Request) -> Response:
        """All models that are in use."""
        aside = [one.spec.name for one in self.engine.models.out_of_use()]
        return _json({"models": [_about(slot) for slot in self.engine.slots()], "aside": aside})

    async def create(self, request: Request) -> Response:
        """Make a model."""
        body = await self._body(request)
        _need_json(request)
        wanted = bodies.read(Create, body)
        bodies.check_name(wanted.name)
        bodies.check_features(wanted.features, self.limits)
        kind = kind_of(wanted.kind, wanted.task)
        made = build(kind, wanted.parameters)
        if wanted.keyed or wanted.share:
            made = fleets.made(made, wanted.keyed, wanted.share)
        entry = pending.wanted(wanted.pending, wanted.ask, wanted.keyed, self.limits)
        entry.name, entry.kind, entry.features = wanted.name, kind, wanted.features
        made = pending.made(made, entry)
        entry.keyed, entry.share = wanted.keyed, wanted.share
        entry.parameters = encode(wanted.parameters)
        return await self._change(request, body, entry, made)

    async def show(self, request: Request) -> Response:
        """One model, with what its columns are, and its diagnostics."""
        slot = self._slot(request)
        found = await self._wait(self.engine.ask(slot, _diagnostics))
        columns = tables.shown(slot.estimator.plan_)
        about = {**_about(slot), "columns": columns, "diagnostics": found}
        return _json({**about, "pending": await self._wait(self.engine.ask(slot, _waiting(slot)))})

    async def delete(self, request: Request) -> Response:
        """Delete a model, also one that is set aside."""
        if (again := await self._again(request, b"")) is not None:
            return again
        spec = self.engine.models.spec(request.path_params["name"])
        return await self._change(request, b"", Entry("delete", spec.id))

    async def export(self, request: Request) -> Response:
        """A model's file."""
        slot = self._slot(request)
        named = {"Content-Disposition": f'attachment; filename="{slot.spec.name}.model"'}

        def dumps() -> Awaitable[bytes]:
            return self._wait(self.engine.ask(slot, lambda est: codec.dumps(slot.model)))

        return Large(dumps, self._files, self.limits.seconds, named)

    async def take(self, request: Request) -> Response:
        """Make a model from a file."""
        name = bodies.check_name(request.path_params["name"])
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/octet-stream":
            words = f"Content-Type must be application/octet-stream; got {kind[:80]!r}."
            raise Problem(415, "bad_content_type", words, "Content-Type")
        body = await self._body(request, self.limits.file_bytes)
        made = await self._apart(lambda: codec.received(body))
        pending.check_file(made, self.limits)
        inside = inner(made)
        names = getattr(inside, "feature_names_in_", None)
        features = None if names is None else [str(n) for n in names]
        texts = tables.texts_of(inside)
        bodies.check_texts([*(features or ()), *getattr(inside, "classes_", ()), *texts])
        bodies.check_features(features, self.limits)
        if made.plan_ is not None:
            tables.check_plan(made.plan_, self.limits)
        entry = Entry("import", 0, name=name, features=features, file=body)
        entry.keyed = isinstance(made, Fleet)
        return await self._change(request, body, entry, made)

    # -- examples ------------------------------------------------------------------------------

    async def learn(self, request: Request) -> Response:
        """Learn rows; predict each one before, if asked."""
        body = await self._body(request)
        if (again := await self._again(request, body)) is not None:
            return again
        slot = self._slot(request)
        op = request.url.path.rpartition("/")[2]
        if op == "learn" and isinstance(slot.model, Late) and bodies.lacks_rows(body):
            _need_json(request)
            labels = bodies.read(Labels, body)
            return await self._change(
                request, body, pending.answering(slot.model, labels, slot.spec.id, self.limits)
            )
        entry = await self._batch(request, slot, body, op)
        calls.output_of(slot.estimator.task, entry)
        return await self._change(request, body, entry)

    async def predict(self, request: Request) -> Response:
        """Predict rows; nothing changes."""
        body = await self._body(request)
        if (again := await self._again(request, body)) is not None:
            return again
        slot = self._slot(request)
        entry = await self._batch(request, slot, body, "predict")
        if entry.op == pending.REMEMBER:
            pending.check_output(entry)
            return await self._change(request, body, entry)
        found = await self._wait(self.engine.ask(slot, lambda est: _predicted(est, entry, slot)))
        return Response(found, media_type=NDJSON if entry.lines else "application/json")

    async def explain(self, request: Request) -> Response:
        """Say why one row gets its score."""
        slot = self._slot(request)
        body = await self._body(request)
        _need_json(request)
        asked = bodies.read_rows(Question, body, tables.is_mixed(slot.estimator))
        kind: type[Any] = Batch if type(asked) is Question else AnyBatch
        batch = kind([asked.x], keys=None if asked.key is None else [asked.key])
        entry = self._checked(batch, "explain", slot)

        def call(est: Any) -> Any:
            return calls.explain(est, entry, asked.top, asked.target, asked.key)

        return _json(await self._wait(self.engine.ask(slot, call)))

    async def replay(self, request: Request) -> Response:
        """Compare settings over rows, with models that are new: this one does not change."""
        slot = self._slot(request)
        body = await self._body(request)
        _need_json(request)
        comparing.check_alerts(slot.estimator)  # first: whatever else is amiss, it has none
        if self._replaying.locked():
            raise busy("busy", "Another replay is being made; one is, at a time.")
        async with self._replaying:
            if bodies.lacks_rows(body):
                return _json(await self._recalled(request, slot, bodies.read(Recall, body)))
            return _json(await self._apart(lambda: self._compared(slot, body)))

    async def _recalled(self, request: Request, slot: Slot, asked: Recall) -> dict[str, Any]:
        """Return what settings make of the rows that were kept, as long as somebody waits."""
        archive, gone = self.engine.state.archive, threading.Event()
        if archive.keep is None:
            words = (
                "This service keeps no rows. Start it with --archive 30d, so that it keeps what "
                "its detectors learn from then on; or send the rows themselves, as X."
            )
            raise Problem(409, "no_archive", words, "X")
        ready = lookback.Lookback(slot, asked, self.limits, archive)
        now = await self._wait(self.engine.ask(slot, lambda est: kept.standing(slot)))
        work = asyncio.ensure_future(self._apart(lambda: ready.run(now, gone.is_set)))
        try:
            while not (await asyncio.wait([work], timeout=0.5))[0]:
                if self.engine.closing.is_set() or await request.is_disconnected():
                    gone.set()
            return work.result()
        finally:  # also where the server ends, and nobody asks any more
            gone.set()

    def _compared(self, slot: Slot, body: bytes) -> dict[str, Any]:
        """Return what settings make of rows; called where it holds up nobody."""
        asked = bodies.read_rows(Replay, body, tables.is_mixed(slot.estimator))
        kind: type[Any] = Batch if type(asked) is Replay else AnyBatch
        entry = self._checked(kind(asked.X, time=asked.time, keys=asked.keys), "replay", slot)
        ready = comparing.Trial.of(slot, entry, asked.settings, asked.gap, self.limits)
        return ready.run()

    # -- keys ----------------------------------------------------------------------------------

    def _keyed(self, request: Request) -> Slot:
        slot = self._slot(request)
        if not isinstance(slot.estimator, Fleet):
            raise Problem(404, "no_keys", f"The model {slot.spec.name!r} has no keys.", "name")
        return slot

    async def keys(self, request: Request) -> Response:
        """The keys of a model, those first that are highest."""
        return await self.page.keys(self._page(request))

    async def key(self, request: Request) -> Response:
        """One key of a model, in detail."""
        return await self.page.key(self._page(request))

    def _page(self, request: Request) -> Request:
        """Return a request for keys, of a model that has some."""
        self._keyed(request)
        return request

    async def forget(self, request: Request) -> Response:
        """Forget keys."""
        body = await self._body(request)
        if (again := await self._again(request, body)) is not None:
            return again
        slot = self._keyed(request)
        _need_json(request)
        wanted = bodies.read(bodies.Forget, body)
        if not 1 <= len(wanted.keys) <= self.limits.rows:
            words = f"keys must be 1 to {self.limits.rows} of them; got {len(wanted.keys)}."
            raise Problem(422, "bad_field", words, "keys")
        entry = Entry("forget", slot.spec.id, keys=wanted.keys)
        return await self._change(request, body, entry)

    # -- answers -------------------------------------------------------------------------------

    async def feedback(self, request: Request) -> Response:
        """Say what alerts were: usual, or faults."""
        body = await self._body(request)
        if (again := await self._again(request, body)) is not None:
            return again
        slot = self._slot(request)
        _need_json(request)
        entry = feedback.entry_of(bodies.read(bodies.Feedback, body), slot.spec.id)
        feedback.check_hears(slot.estimator)
        feedback.check_keys(slot.estimator, entry)
        return await self._change(request, body, entry)

    async def alerts(self, request: Request) -> Response:
        """The alerts of a model that are kept, newest first, with their answers."""
        slot, asked = self._slot(request), request.query_params
        start, count = whole(asked, "start", 0, 10**9), whole(asked, "count", 50, 1000)
        waiting = _truth(asked, "waiting")
        if "kind" in asked and "key" not in asked:
            raise Problem(422, "bad_field", "kind says what key is: give key, too.", "key")
        key = key_of(asked) if "key" in asked else None

        def call(estimator: Any) -> Any:
            return feedback.listed(estimator, key, start, count, waiting)

        return _json(await self._wait(self.engine.ask(slot, call)))

    async def incidents(self, request: Request) -> Response:
        """The incidents of a detector: those that are open, then the latest that are over."""
        slot, asked = self._slot(request), request.query_params
        start, count = whole(asked, "start", 0, 10**9), whole(asked, "count", 50, 1000)
        known, only = incidents.check(slot.incidents, slot.spec.name), _truth(asked, "open")

        def call(estimator: Any) -> Any:
            return known.listed(start, count, only)

        return _json(await self._wait(self.engine.ask(slot, call)))

    def _checked(self, batch: Batch, op: str, slot: Slot) -> Entry:
        """Return a batch as the log holds it."""
        names, model = slot.spec.features, slot.model
        entry = bodies.entry_of(batch, op, slot.spec.id, names, self.limits)
        if batch.remember is not None or batch.ids is not None:
            op = self._remembered(batch, entry, op, slot)
        fleets.check(model, entry, self.limits)
        if op not in ("predict", "explain") or model.__sklearn_is_fitted__():
            tables.check(model, entry, names, self.limits)
        return entry

    def _remembered(self, batch: Batch, entry: Entry, op: str, slot: Slot) -> str:
        """Let rows that are to be predicted be kept; refuse others that ask for it."""
        if op != "predict":
            words = 'Rows are remembered by predict; learn takes them by "ids" and "y", without X.'
            raise Problem(422, "bad_field", words, "remember" if batch.ids is None else "ids")
        if batch.remember or batch.ids is not None:
            pending.remembering(slot.model, batch, entry)
        return entry.op

    async def _batch(self, request: Request, slot: Slot, body: bytes, op: str) -> Entry:
        kind = request.headers.get("content-type", "")

        def parse() -> Entry:
            mixed = tables.is_mixed(slot.model)
            batch = bodies.by_type(
                kind, lambda: bodies.read_rows(Batch, body, mixed),
                lambda: bodies.read_lines(body, self.limits, mixed),
            )  # fmt: skip
            return self._checked(batch, op, slot)

        if len(body) < LARGE:
            entry = parse()
        else:
            async with self._large:
                entry = await self._apart(parse)
        entry.lines = "json" in kind and not kind.strip().lower().startswith("application/json")
        if "output" in request.query_params:
            entry.output = request.query_params["output"]
        return entry

    # -- what they share -----------------------------------------------------------------------

    def _slot(self, request: Request) -> Slot:
        return self.engine.slot(request.path_params["name"])

    async def _body(self, request: Request, most: int | None = None) -> bytes:
        """Return the body; refuse one that is too large or too slow."""
        most = self.limits.body_bytes if most is None else most
        told = request.headers.get("content-length", "0")
        if not told.isdigit() or int(told) > most:
            raise _too_large(most)
        chunks, size = [], 0
        try:
            async with asyncio.timeout(self.limits.seconds):
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > most:
                        raise _too_large(most)
                    chunks.append(chunk)
        except TimeoutError:
            words = f"The body did not arrive within {self.limits.seconds:g} seconds."
            problem = Problem(408, "slow_body", words)
            problem.headers["Connection"] = "close"
            raise problem from None
        except ClientDisconnect:
            raise Problem(400, "gone", "The client went away.") from None
        return b"".join(chunks)

    async def _change(
        self, request: Request, body: bytes, entry: Entry, made: Any = None
    ) -> Response:
        """Hand a change to the engine; answer when it is durable and done."""
        key = _key(request)
        if key is not None:
            entry.key, entry.digest = key, _digest(request, body)
        return _answer(request, await self._wait(self.engine.change(entry, made)))

    async def _again(self, request: Request, body: bytes) -> Response | None:
        """Answer a request that has come before, even if its model is gone by now."""
        key = _key(request)
        known = self.engine.known(key, _digest(request, body)) if key is not None else None
        return None if known is None else _answer(request, await self._wait(known))

    async def _wait(self, future: Future[T]) -> T:
        try:
            shielded = asyncio.shield(asyncio.wrap_future(future))
            return await asyncio.wait_for(shielded, self.limits.seconds)
        except TimeoutError:
            words = (
                f"No answer within {self.limits.seconds:g} seconds. A change may still be made: "
                "ask again with the same Idempotency-Key."
            )
            raise busy("timeout", words) from None

    async def _apart(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.engine.pool, call)


def noted(path: str, handler: Handler) -> Handler:
    """Let a handler leave its route for the metrics."""

    async def call(request: Request) -> Response:
        request.scope["onkel_route"] = f"{request.method} {path}"
        return await handler(request)

    return call


def _truth(asked: QueryParams, name: str) -> bool:
    """Return a parameter that is true or false; false if it is not there."""
    given = asked.get(name, "false")
    if given not in ("true", "false"):
        words = f"{name} is true or false; got {given[:40]!r}."
        raise Problem(422, "bad_field", words, name)
    return given == "true"


def _key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and not bodies.KEY.fullmatch(key):
        words = "An Idempotency-Key has 1 to 200 visible ASCII characters."
        raise Problem(422, "bad_field", words, "Idempotency-Key")
    return key


def _answer(request: Request, answer: Remembered) -> Response:
    lines = answer.lines and request.url.path.endswith("/predict-then-learn")
    return Response(
        answer.body, answer.status, {"Onkel-Position": str(answer.position)},
        NDJSON if lines else "application/json",
    )  # fmt: skip


def _json(content: Any) -> Response:
    return Response(encode(content), media_type="application/json")


def _need_json(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        words = f"Content-Type must be application/json (curl --json); got {kind[:80]!r}."
        raise Problem(415, "bad_content_type", words, "Content-Type")


def _too_large(most: int) -> Problem:
    problem = Problem(413, "too_large", f"A body may have {most} bytes here.", limit=most)
    problem.headers["Connection"] = "close"
    return problem


def _digest(request: Request, body: bytes) -> bytes:
    head = [request.method, request.url.path, request.url.query,
            request.headers.get("content-type", "")]  # fmt: skip
    return hashlib.blake2b("\0".join(head).encode() + b"\0" + body, digest_size=16).digest()


def _about(slot: Slot) -> dict[str, Any]:
    spec = slot.spec
    return {
        "name": spec.name, "kind": spec.kind, "task": slot.estimator.task, "keyed": spec.keyed,
        "parameters": spec.parameters, "features": spec.features, "position": slot.position,
        "bytes": slot.bytes,
    }  # fmt: skip


def _diagnostics(estimator: Any) -> Any:
    return estimator.diagnostics_ if estimator.__sklearn_is_fitted__() else None


def _waiting(slot: Slot) -> Callable[[Any], Any]:
    """Return what tells of the rows that wait, where there are such."""

    def call(estimator: Any) -> Any:
        return slot.model.report() if isinstance(slot.model, Late) else None

    return call


def _predicted(estimator: Any, entry: Entry, slot: Slot) -> bytes:
    said = calls.predict(estimator, entry, slot.spec.features)
    return calls.answer(entry, said, estimator.t_)
