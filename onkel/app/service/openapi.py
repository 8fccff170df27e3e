"""The description of the API. Bodies are described by the very types that read them."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from onkel import __version__
from onkel.app.live.page import SORTED_BY
from onkel.app.service.bodies import ANY, KEY, NAME, Create, Feedback, Forget, Labels, Recall
from onkel.app.service.limits import Limits
from onkel.app.service.specs import KINDS, TASKS
from onkel.core.answers import KINDS as ANSWERS
from onkel.judge import OUTPUTS

Doc = dict[str, Any]

ERROR: Doc = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message", "field"],
            "properties": {
                "code": {"type": "string"},
                "message": {"type": "string"},
                "field": {"type": ["string", "null"]},
            },
        }
    },
}
PREDICTED: Doc = {
    "type": "object",
    "required": ["t", "output", "values"],
    "properties": {
        "position": {"type": "integer"},
        "t": {"type": "integer", "description": "Examples learned"},
        "output": {"type": "string"},
        "values": {"type": "array", "description": "One per row"},
        "probability": {
            "type": "array", "items": {"type": ["number", "null"]},
            "description": "Of predicted labels",
        },
        "alert_id": {
            "type": "array", "items": {"type": ["string", "null"]},
            "description": "Of a detector's alerts, of rows that were learned: to answer them",
        },
        "interval": {
            "type": "array", "items": {"type": "array"},
            "description": "Beside predicted numbers, low and high, where the model has them",
        },
        "ids": {
            "type": "array", "items": {"type": "string"},
            "description": "Of rows that are remembered: under these their labels are learned",
        },
        "ask": {
            "type": "array", "items": {"type": "boolean"},
            "description": "Of rows that are remembered: whose labels would teach most",
        },
    },
}  # fmt: skip
"""An answer; one line per row has the same words, without the s."""
REPLAYED: Doc = {
    "type": "object",
    "required": ["rows", "gap", "settings"],
    "properties": {
        "rows": {"type": "integer"},
        "gap": {"type": ["integer", "string"]},
        "from_row": {
            "type": "integer",
            "description": "Of rows that were kept: how many the model had learned before them",
        },
        "from_time": {"type": ["string", "null"], "description": "When the first of them came"},
        "since": {"type": ["string", "null"]},
        "keys": {"type": ["array", "null"]},
        "notes": {
            "type": "array",
            "items": {"type": "string"},
            "description": "What there is to be known of these rows",
        },
        "settings": {
            "type": "array",
            "description": "The model's own parameters first, then each setting beside them",
            "items": {
                "type": "object",
                "required": ["name", "changed", "rows", "warmup", "alerts", "incidents"],
                "properties": {
                    "name": {"type": "string"},
                    "changed": {"type": "object"},
                    **{
                        name: {"type": "integer"}
                        for name in (
                            "rows",
                            "warmup",
                            "alerts",
                            "incidents",
                            "still",
                            "gone",
                            "new",
                        )
                    },
                    "rate_promised": {"type": ["number", "null"]},
                    "rate_realised": {"type": ["number", "null"]},
                    "first_gone": {"type": "array", "items": {"type": "object"}},
                    "first_new": {"type": "array", "items": {"type": "object"}},
                    "answers_heard": {
                        "type": "integer",
                        "description": "That it took in, where it has the alert",
                    },
                    "precision_promised": {"type": ["number", "null"]},
                    "precision_realised": {
                        "type": ["number", "null"],
                        "description": "The share of faults among them",
                    },
                    "answered": {
                        "type": "object",
                        "description": "By answer: how many alerts had it, and how many of these "
                        "the setting shows",
                    },
                },
            },
        },
    },
}
INCIDENTS: Doc = {
    "type": "object",
    "required": ["found", "start", "so_far", "open", "incidents"],
    "properties": {
        "found": {"type": "integer", "description": "That can be asked for"},
        "start": {"type": "integer"},
        "so_far": {"type": "integer", "description": "All since the model was made"},
        "open": {"type": "integer"},
        "incidents": {
            "type": "array",
            "description": "Those that are open first, each part newest first",
            "items": {
                "type": "object",
                "required": ["incident", "state", "start_row", "end_row", "alerts", "words"],
                "properties": {
                    "incident": {"type": "integer", "description": "Its number"},
                    "state": {"type": "string", "enum": ["open", "closed"]},
                    **{
                        name: {"type": "integer"}
                        for name in ("start_row", "end_row", "rows", "alerts", "peak_row", "keys")
                    },
                    "peak_p": {"type": "number"},
                    "peak": {"type": "number", "description": "Of models without p"},
                    "key": {"type": ["string", "integer"]},
                    "key_names": {"type": "array", "items": {"type": ["string", "integer"]}},
                    "features": {"type": "array", "items": {"type": "object"}},
                    "alert_ids": {"type": "array", "items": {"type": "string"}},
                    "words": {"type": "string"},
                },
            },
        },
    },
}
_NAME: Doc = {
    "name": "name", "in": "path", "required": True,
    "schema": {"type": "string", "pattern": f"^{NAME.pattern}$"},
}  # fmt: skip
_KEY: Doc = {
    "name": "Idempotency-Key", "in": "header", "required": False,
    "description": "The same request with the same key is applied once.",
    "schema": {"type": "string", "pattern": f"^{KEY.pattern}$"},
}  # fmt: skip
_OUTPUT: Doc = {
    "name": "output", "in": "query", "required": False,
    "schema": {"type": "string", "enum": sorted({o for some in OUTPUTS.values() for o in some})},
}  # fmt: skip


_BY: Doc = {
    "name": "by", "in": "query", "required": False,
    "description": "What comes first; else what is worst: unusual, of labels and numbers share",
    "schema": {"type": "string", "enum": [*SORTED_BY]},
}  # fmt: skip
_SEARCH: Doc = {
    "name": "search", "in": "query", "required": False,
    "description": "Only keys that contain this text", "schema": {"type": "string"},
}  # fmt: skip
_START, _COUNT = (
    {"name": name, "in": "query", "required": False,
     "schema": {"type": "integer", "minimum": 0, "maximum": most, "default": default}}
    for name, default, most in (("start", 0, 10**9), ("count", 50, 500))
)  # fmt: skip
_COUNT_ALERTS: Doc = {
    "name": "count", "in": "query", "required": False,
    "schema": {"type": "integer", "minimum": 0, "maximum": 1000, "default": 50},
}  # fmt: skip
_WAITING: Doc = {
    "name": "waiting", "in": "query", "required": False,
    "description": "true: only those that wait for an answer",
    "schema": {"type": "string", "enum": ["true", "false"], "default": "false"},
}  # fmt: skip
_OPEN: Doc = {
    "name": "open", "in": "query", "required": False,
    "description": "true: only those that are open",
    "schema": {"type": "string", "enum": ["true", "false"], "default": "false"},
}  # fmt: skip
_ONE: Doc = {"name": "key", "in": "query", "required": True, "schema": {"type": "string"}}
_ONE_KIND: Doc = {
    "name": "kind", "in": "query", "required": False,
    "description": "number: the key is a whole number",
    "schema": {"type": "string", "enum": ["text", "number"], "default": "text"},
}  # fmt: skip


def document(limits: Limits) -> Doc:
    """Return the OpenAPI document.

    Examples
    --------
    >>> len(document(Limits())["paths"])
    17
    """
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "onkel",
            "version": __version__,
            "description": (
                "Models that learn online. An acknowledged example is durable. Limits: "
                f"{limits.body_bytes} bytes and {limits.rows} rows in a request, {limits.models} "
                "models."
            ),
        },
        "paths": _paths(),
        "components": {
            "schemas": {
                **_schemas(),
                "Error": ERROR,
                "Predicted": PREDICTED,
                "Replayed": REPLAYED,
                "Incidents": INCIDENTS,
            },
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"token": []}],
    }


@cache
def _schemas() -> Doc:
    _, found = msgspec.json.schema_components(
        [Create, Forget, Feedback, Labels, Recall, *ANY.values()],
        ref_template="#/components/schemas/{name}",
    )
    for plain, kind in ANY.items():
        found[plain.__name__] = found.pop(kind.__name__)
        found[plain.__name__]["title"] = plain.__name__
    properties = found["Create"]["properties"]
    properties["kind"] = {"type": ["string", "null"], "enum": [*KINDS, None], "default": None}
    properties["task"] = {
        "type": ["string", "null"], "enum": [*TASKS, None], "default": None,
        "description": "In the place of a kind: the model that tunes itself for it.",
    }  # fmt: skip
    found["Create"]["properties"]["name"] = _NAME["schema"]
    found["Said"]["properties"]["answer"] = {"type": "string", "enum": [*ANSWERS]}
    found["Feedback"]["properties"]["answer"] = {
        "type": ["string", "null"], "enum": [*ANSWERS, None], "default": None,
    }  # fmt: skip
    return found


def _paths() -> Doc:
    batch = [_KEY, _OUTPUT]
    return {
        "/health": {"get": _operation("Whether all is well")},
        "/metrics": {"get": _operation("Counters for Prometheus", answer="text/plain")},
        "/openapi.json": {"get": _operation("This document")},
        "/models": {
            "get": _operation("All models"),
            "post": _operation(
                "Make a model, of a kind, or for a task", ["Create"], [_KEY], status="201"
            ),
        },
        "/models/{name}": {
            "parameters": [_NAME],
            "get": _operation("One model, with its diagnostics"),
            "delete": _operation("Delete a model", extra=[_KEY]),
        },
        "/models/{name}/learn": _post(
            "Learn rows, or remembered ones by id", ["Learn", "Line"], batch
        ),
        "/models/{name}/predict": _post("Predict rows", ["Batch", "Line"], [_OUTPUT], "Predicted"),
        "/models/{name}/predict-then-learn": _post(
            "Predict each row, then learn it", ["Batch", "Line"], batch, "Predicted"
        ),
        "/models/{name}/explain": _post("Say why one row gets its score", ["Question"]),
        "/models/{name}/replay": _post(
            "Compare settings over rows, or over those that were kept, with new models: which "
            "alerts would have come?",
            ["Compare"],
            found="Replayed",
        ),
        "/models/{name}/keys": {
            "parameters": [_NAME],
            "get": _operation(
                "The keys of a model that has such, those first that are highest",
                extra=[_BY, _SEARCH, _START, _COUNT],
            ),
        },
        "/models/{name}/key": {
            "parameters": [_NAME],
            "get": _operation("One key of a model, in detail", extra=[_ONE, _ONE_KIND]),
        },
        "/models/{name}/forget": _post("Forget keys", ["Forget"], [_KEY]),
        "/models/{name}/feedback": _post("Say what alerts were", ["Feedback"], [_KEY]),
        "/models/{name}/alerts": {
            "parameters": [_NAME],
            "get": _operation(
                "The alerts that can be answered, newest first, with their answers",
                extra=[_WAITING, _START, _COUNT_ALERTS, {**_ONE, "required": False}, _ONE_KIND],
            ),
        },
        "/models/{name}/incidents": {
            "parameters": [_NAME],
            "get": _found(
                _operation(
                    "A detector's incidents: those that are open, then the latest that are over",
                    extra=[_OPEN, _START, _COUNT_ALERTS],
                ),
                "Incidents",
            ),
        },
        "/models/{name}/file": {
            "parameters": [_NAME],
            "get": _operation("The model's file", answer="application/octet-stream"),
            "put": _operation("Make a model from a file", ["file"], [_KEY], status="201"),
        },
    }


def _post(
    words: str, bodies: list[str], extra: list[Doc] | None = None, found: str | None = None
) -> Doc:
    operation = _operation(words, bodies, extra)
    if found is not None:
        operation = _found(operation, found)
    return {"parameters": [_NAME], "post": operation}


def _found(operation: Doc, name: str) -> Doc:
    """Let an operation be answered with what a schema describes."""
    answer = {"schema": {"$ref": f"#/components/schemas/{name}"}}
    operation["responses"]["200"]["content"] = {"application/json": answer}
    return operation


_EITHER = {"Learn": ("Batch", "Labels"), "Compare": ("Replay", "Recall")}
"""Bodies of one request that are told apart by whether they bring rows."""
_TYPES = {"Line": "application/x-ndjson", "file": "application/octet-stream"}


def _operation(
    words: str, bodies: list[str] | None = None, extra: list[Doc] | None = None,
    status: str = "200", answer: str = "application/json",
) -> Doc:  # fmt: skip
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    found: Doc = {
        "summary": words,
        "responses": {
            status: {"description": "Done", "content": {answer: {}}},
            "4XX": {"description": "Refused; nothing was changed", "content": error},
            "503": {"description": "Not now", "content": error},
        },
    }
    if extra:
        found["parameters"] = extra
    if bodies:
        content = {_TYPES.get(name, "application/json"): _content(name) for name in bodies}
        found["requestBody"] = {"required": True, "content": content}
    return found


def _content(name: str) -> Doc:
    if name == "file":
        return {}
    if name in _EITHER:
        parts = [{"$ref": f"#/components/schemas/{part}"} for part in _EITHER[name]]
        return {"schema": {"anyOf": parts}}
    return {"schema": {"$ref": f"#/components/schemas/{name}"}}
