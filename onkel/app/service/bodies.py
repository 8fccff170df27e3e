"""Requests as data: what a body may hold, read strictly, and the rows in it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from onkel.app.http.problems import Problem
from onkel.app.service import cells
from onkel.app.service.limits import Limits
from onkel.inputs import WHOLE

Array = NDArray[Any]
Row = list[float | None] | dict[str, float | None] | str
Whole = Annotated[int, msgspec.Meta(ge=WHOLE[0], le=WHOLE[1])]
Cell = Whole | float | str | bool | None
AnyRow = list[Cell] | dict[str, Cell] | str
Label = Whole | float | str | bool
Target = Label | list[float]

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
KEY = re.compile(r"[!-~]{1,200}")
LONGEST = 1000
"""Characters of a label or of a feature's name."""


class Create(msgspec.Struct, forbid_unknown_fields=True):  # type: ignore[call-arg, unused-ignore]
    """A new model."""

    name: str
    kind: str | None = None
    task: str | None = None
    """In the place of a kind: the model that tunes itself for it."""
    parameters: dict[str, Any] = {}
    features: list[str] | None = None
    keyed: bool = False
    """Whether there is a model of this kind for each key."""
    share: bool = False
    """With keys: whether new ones start from what is usual among all."""
    pending: Whole | str | None = None
    """How long rows wait for their labels ("30d"), or how many; None: none do."""
    ask: float | None = None
    """With pending: the share of the rows whose labels are asked for."""


class Labels(msgspec.Struct, forbid_unknown_fields=True):  # type: ignore[call-arg, unused-ignore]
    """Labels of rows that were remembered, without the rows."""

    ids: list[Whole | str]
    y: list[Target]
    time: list[float | str] | None = None
    sample_weight: list[float] | None = None
    skip_unknown: bool = False
    """Whether ids that do not wait are left out; else they are a reason to refuse all."""


class Forget(msgspec.Struct, forbid_unknown_fields=True):  # type: ignore[call-arg, unused-ignore]
    """Keys that are to be forgotten."""

    keys: list[Whole | str]


class Said(msgspec.Struct, forbid_unknown_fields=True):  # type: ignore[call-arg, unused-ignore]
    """What an alert was."""

    id: Whole | str
    answer: str
    key: Whole | str | None = None


class Feedback(msgspec.Struct, forbid_unknown_fields=True):  # type: ignore[call-arg, unused-ignore]
    """What an alert was, or what several were."""

    id: Whole | str | None = None
    answer: str | None = None
    key: Whole | str | None = None
    answers: list[Said] | None = None


class Batch(msgspec.Struct, forbid_unknown_fields=True):  # type: ignore[call-arg, unused-ignore]
    """Rows to predict or to learn."""

    X: list[Row]
    y: list[Target] | None = None
    sample_weight: list[float] | None = None
    time: list[float | str] | None = None
    classes: list[Label] | None = None
    output: str | None = None
    keys: list[Whole | str] | None = None
    remember: bool | None = None
    """Of rows to predict: whether they are kept, until their labels come."""
    ids: list[Whole | str] | None = None
    """Under which they are kept; else they are numbered."""


class Line(msgspec.Struct, forbid_unknown_fields=True):  # type: ignore[call-arg, unused-ignore]
    """One row of a batch, as a line."""

    x: Row
    y: Target | None = None
    weight: float | None = None
    time: float | str | None = None
    key: Whole | str | None = None


class Question(msgspec.Struct, forbid_unknown_fields=True):  # type: ignore[call-arg, unused-ignore]
    """One row to explain."""

    x: Row
    top: Whole = 5
    target: Whole = 0
    key: Whole | str | None = None


class Replay(msgspec.Struct, forbid_unknown_fields=True):  # type: ignore[call-arg, unused-ignore]
    """Rows, and settings that are compared over them."""

    X: list[Row]
    settings: list[dict[str, Any]] = []
    """Of each setting, the parameters that are not the model's own."""
    time: list[float | str] | None = None
    keys: list[Whole | str] | None = None
    gap: Whole | str = 20
    """Alerts at most so many rows apart, or so long ("30min"), are one incident."""


class Recall(msgspec.Struct, forbid_unknown_fields=True):  # type: ignore[call-arg, unused-ignore]
    """Settings that are compared over the rows that were kept, from where on, of which keys."""

    settings: list[dict[str, Any]] = []
    since: Whole | str | None = None
    """A time span before the last row ("30d"), a date, or a row's number; None: all of them."""
    keys: list[Whole | str] | None = None
    gap: Whole | str = 20


# Most rows are numbers alone, and are read as such first: quicker, and -0 stays what it is.


class AnyBatch(Batch, forbid_unknown_fields=True):  # type: ignore[call-arg, unused-ignore]
    """Rows of any cells."""

    X: list[AnyRow]  # type: ignore[assignment]


class AnyLine(Line, forbid_unknown_fields=True):  # type: ignore[call-arg, unused-ignore]
    """One row of any cells."""

    x: AnyRow  # type: ignore[assignment]


class AnyQuestion(Question, forbid_unknown_fields=True):  # type: ignore[call-arg, unused-ignore]
    """One row of any cells to explain."""

    x: AnyRow  # type: ignore[assignment]


class AnyReplay(Replay, forbid_unknown_fields=True):  # type: ignore[call-arg, unused-ignore]
    """Rows of any cells, and settings."""

    X: list[AnyRow]  # type: ignore[assignment]


ANY: dict[type, type] = {
    Batch: AnyBatch, Line: AnyLine, Question: AnyQuestion, Replay: AnyReplay,
}  # fmt: skip


class Entry(msgspec.Struct, omit_defaults=True):  # type: ignore[call-arg, unused-ignore]
    """What the log holds of one request: enough to make the same call again."""

    op: str
    """create, import, delete, learn, predict-then-learn, forget or feedback; note: what `refused`
    says, alone."""
    model: int
    key: str = ""
    digest: bytes = b""
    name: str = ""
    kind: str = ""
    parameters: bytes = b""
    """JSON."""
    features: list[str] | None = None
    file: bytes = b""
    width: int = -1
    """Features of a row; -1 for texts."""
    numbers: bytes = b""
    texts: list[str] | None = None
    cells: list[list[Cell]] | None = None
    """Column by column, where there is more than numbers: as they came, which any restart encodes
    to the same bits."""
    names: list[str] | None = None
    """Of these columns; None where rows are lists, and the model knows, or counts them."""
    plan: bytes = b""
    """JSON: what the columns are, should this be the first request that the model learns."""
    y: list[Target] | None = None
    sample_weight: list[float] | None = None
    time: list[float | str] | None = None
    classes: list[Label] | None = None
    output: str | None = None
    lines: bool = False
    """Whether the answer is one line per row; of answers: whether they came as a list."""
    decided: int = 0
    """All records of this model up to this position had been applied or refused by then."""
    refused: list[int] | None = None
    """Those that were refused, as far as no record before says so."""
    replaces: int = 0
    """The model, set aside, in whose place an imported one comes."""
    keyed: bool = False
    """Of a new model: whether it has keys."""
    keys: list[Whole | str] | None = None
    """Of the rows, of the answers, or those that are to be forgotten."""
    share: bool = False
    """Of a new model with keys: whether they share."""
    alerts: list[str] | None = None
    """Alerts that are answered, ..."""
    answers: list[str] | None = None
    """... and what each was."""
    keep: int = 0
    """Of a new model: so many rows wait for their labels at most; 0: none do."""
    within: str = ""
    """Of a new model: how long."""
    ask: float | None = None
    """Of a new model: the share of them that is asked for."""
    ids: list[Whole | str] | None = None
    """Of rows that are kept, or whose labels came."""
    skip: bool = False
    """Whether ids that do not wait are left out."""
    stamp: float = 0.0
    """When the request came, where that counts and it does not say so itself."""

    @property
    def count(self) -> int:
        """How many rows there are."""
        return len(self.rows() if self.cells is None else self.cells[0])

    def rows(self) -> Any:
        """Return X, where it is texts or numbers alone, as the estimators take it."""
        if self.width < 0:
            return self.texts or []
        return np.frombuffer(self.numbers).reshape(-1, self.width)


T = TypeVar("T")
_ERRORS = (msgspec.MsgspecError, RecursionError, UnicodeDecodeError)
_DECODERS: dict[Any, msgspec.json.Decoder[Any]] = {
    kind: msgspec.json.Decoder(kind)
    for kind in (Create, Forget, Feedback, Labels, Recall, *ANY, *ANY.values())
}
_AT = re.compile(r" - at `(.*)`$")
_NAMED = re.compile(r"Object (?:missing required|contains unknown) field `(.*)`$", re.DOTALL)
_BYTE = re.compile(r"\(byte (\d+)\)")


def read(kind: type[T], body: bytes) -> T:
    """Return the object that a JSON body holds; raise a Problem that names the field.

    Examples
    --------
    >>> read(Batch, b'{"X": [[1, 2.5]]}').X
    [[1.0, 2.5]]
    """
    try:
        found = _DECODERS[kind].decode(body)
        if not isinstance(found, Batch) or _may_repeat(body, [found], found.X):
            _check_once(body)
    except _ERRORS as error:
        raise _unreadable(error, body) from error
    return found


class _Peek(msgspec.Struct):
    """Whether there are rows; the rest is passed over."""

    X: msgspec.Raw = msgspec.Raw(b"")


_PEEK = msgspec.json.Decoder(_Peek)


def lacks_rows(body: bytes) -> bool:
    """Whether a body is an object without X.

    Examples
    --------
    >>> lacks_rows(b'{"ids": ["7"], "y": ["X"]}'), lacks_rows(b'{"X": [[1]], "y": [2]}')
    (True, False)
    """
    try:
        return not bytes(_PEEK.decode(body).X)
    except _ERRORS:
        return False


def read_rows(kind: type[T], body: bytes, mixed: bool) -> T:
    """Return rows: numbers alone if they are that, and cells of any kinds are not `mixed` in."""
    return _either(lambda one: read(one, body), kind, mixed)


def _either(read: Callable[[Any], Any], kind: type, mixed: bool) -> Any:
    if not mixed:
        try:
            return read(kind)
        except Problem as problem:
            if problem.code != "bad_field":
                raise
    return read(ANY[kind])


def read_lines(body: bytes, limits: Limits, mixed: bool = False) -> Batch:
    """Return the batch that lines of JSON hold, one row each; empty lines are left out."""
    lines = [(i, line) for i, line in enumerate(body.split(b"\n"), 1) if line.strip()]
    _check_count(len(lines), limits)
    found = _either(lambda kind: [_line(kind, *line) for line in lines], Line, mixed)
    if _may_repeat(body, found, [line.x for line in found]):
        for _, line in lines:
            _check_once(line)
    columns = [_column(found, name) for name in ("y", "weight", "time")]
    kind = Batch if type(found[0]) is Line else AnyBatch
    y, weight, time = columns
    return kind([line.x for line in found], y, weight, time, keys=_column(found, "key"))


def _line(kind: type, number: int, line: bytes) -> Any:
    try:
        return _DECODERS[kind].decode(line)
    except _ERRORS as error:
        raise _unreadable(error, line, f"line {number}") from error


def _may_repeat(body: bytes, found: Sequence[Any], rows: Sequence[Row]) -> bool:
    """Whether a body seems to have more keys than the objects that were found in it."""
    keys = sum(v is not None for one in found for v in msgspec.structs.astuple(one))
    if rows and isinstance(rows[0], dict):
        keys += sum(map(len, rows))
    return body.count(b":") > keys and body.count(b'":') + body.count(b'" :') > keys


def _check_once(text: bytes) -> None:
    """Refuse an object in which a key is there twice: one of the two would be lost."""
    json.loads(text, object_pairs_hook=_pairs, parse_int=len, parse_float=len)


def _pairs(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        words = f"{twice[:80]!r} is there twice in one object."
        raise Problem(422, "bad_field", words, twice[:80])


def _column(lines: Sequence[Line], name: str) -> Any:
    """Return one field of all lines; None if no line has it."""
    values = [getattr(line, name) for line in lines]
    if all(v is None for v in values):
        return None
    for i, value in enumerate(values):
        if value is None:
            words = f"Some lines have {name!r}, but row {i} has none."
            raise Problem(422, "bad_field", words, name, row=i)
    return values


def _unreadable(error: Exception, body: bytes, where: str = "") -> Problem:
    text = str(error) or type(error).__name__
    at = _AT.search(text)
    field = at[1].removeprefix("$").lstrip(".") if at else ""
    text = _AT.sub("", text).removesuffix(".")
    if named := _NAMED.match(text):
        field = f"{field}.{named[1][:80]}".lstrip(".")
    text = f"{where}: {text}" if where else text
    if isinstance(error, RecursionError):
        return Problem(400, "bad_json", f"{where or 'The body'}: nested too deeply.")
    if isinstance(error, msgspec.ValidationError):
        return Problem(422, "bad_field", f"{text}.", field or None)
    words = f"{text}. NaN and Infinity are not JSON; null is a gap."
    return Problem(400, "bad_json", words, _field_before(body, text))


def _field_before(body: bytes, text: str) -> str | None:
    """Return the last key before the byte at which a body stops to be JSON."""
    byte = _BYTE.search(text)
    end = body.rfind(b'":', 0, int(byte[1]) if byte else 0)
    start = body.rfind(b'"', 0, max(end, 0))
    return body[start + 1 : end][:80].decode("utf-8", "replace") if start >= 0 else None


# -- rows --------------------------------------------------------------------------------------


def check_name(name: str) -> str:
    """Return a model's name if it is one."""
    if not NAME.fullmatch(name):
        words = (
            "A model's name has up to 64 letters, digits, '.', '_' and '-', the first a letter or "
            f"digit; got {name[:80]!r}."
        )
        raise Problem(422, "bad_name", words, "name")
    return name


def check_features(
    features: list[str] | None, limits: Limits, field: str = "features"
) -> None:  # fmt: skip
    """Refuse names of features that are too many, too long, or there twice."""
    if features is None:
        return
    if not 1 <= len(features) <= limits.features or len(set(features)) < len(features):
        words = f"features must be 1 to {limits.features} different names; got {len(features)}."
        raise Problem(422, "bad_field", words, field)
    if any(not 1 <= len(f) <= LONGEST for f in features):
        raise Problem(422, "bad_field", f"A feature's name has 1 to {LONGEST} characters.", field)
    if names_bytes(features) > limits.model_bytes:
        words = f"A model may have {limits.model_bytes} bytes here; its names alone take more."
        raise Problem(409, "model_too_large", words, field, limit=limits.model_bytes)


def check_texts(texts: Iterable[Any]) -> None:
    """Refuse names and labels of a file that no answer could hold: halves of a surrogate pair."""
    for text in texts:
        try:
            str(text).encode()
        except UnicodeEncodeError:
            words = f"The file has a name or a label that is no Unicode text: {text!r:.80}."
            raise Problem(422, "bad_file", words) from None


def names_bytes(names: Iterable[str] | None) -> int:
    """Return how much memory names take.

    Examples
    --------
    >>> names_bytes(["pressure", "flow"]) > 12, names_bytes(None)
    (True, 0)
    """
    return sum(map(sys.getsizeof, names or ()))


def _check_count(rows: int, limits: Limits) -> None:
    if rows > limits.rows:
        words = f"A request may bring {limits.rows} rows; got {rows}. Send them in parts."
        raise Problem(413, "too_many_rows", words, "X", limit=limits.rows)
    if not rows:
        raise Problem(422, "bad_field", "X holds no row.", "X")


def entry_of(batch: Batch, op: str, model: int, names: list[str] | None, limits: Limits) -> Entry:
    """Return a batch as the log holds it, checked as far as that goes without the model."""
    _check_count(len(batch.X), limits)
    entry = Entry(op, model, y=batch.y, sample_weight=batch.sample_weight, time=batch.time)
    entry.classes, entry.output, entry.keys = batch.classes, batch.output, batch.keys
    for name in ("y", "sample_weight", "time", "keys", "ids"):
        values = getattr(batch, name)
        if values is not None and len(values) != len(batch.X):
            words = f"{name} has {len(values)} values for {len(batch.X)} rows."
            raise Problem(422, "bad_field", words, name)
    check_targets([*(batch.y or ()), *(batch.classes or ())], limits)
    if isinstance(batch.X[0], str):
        entry.texts = cells.same(batch.X, str)
    elif isinstance(batch, AnyBatch) or (names is None and isinstance(batch.X[0], dict)):
        entry.names, entry.cells = _table(batch.X, names, limits)
    else:
        matrix = cells.matrix(batch.X, names, limits)
        entry.width, entry.numbers = matrix.shape[1], matrix.tobytes()
    return entry


def check_targets(values: list[Any], limits: Limits) -> None:
    """Refuse labels that are too long, and too many targets of a row."""
    for value in values:
        if isinstance(value, str) and len(value) > LONGEST:
            raise Problem(422, "bad_field", f"A label has up to {LONGEST} characters.", "y")
        if isinstance(value, list) and len(value) > limits.classes:
            raise Problem(422, "bad_field", f"Up to {limits.classes} targets per row.", "y")


def _table(
    rows: list[Any], names: list[str] | None, limits: Limits
) -> tuple[list[str] | None, list[list[Cell]]]:
    """Return rows of any cells column by column, and what the columns are called."""
    if isinstance(rows[0], list):
        cells.check_width(cells.same(rows, list), limits, "cells")
        return None, [*map(list, zip(*rows, strict=True))]
    found = [*dict.fromkeys(name for row in cells.same(rows, dict) for name in row)]
    check_features(found, limits, "X")
    cells.check_room(len(rows), len(found), limits)
    if names is not None:
        cells.check_known(rows, set(names))
    return found, [[row.get(name) for row in rows] for name in found]


def by_type(content_type: str, op: Callable[[], Batch], lines: Callable[[], Batch]) -> Batch:
    """Read a batch as its content type says."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "application/json":
        return op()
    if kind in ("application/x-ndjson", "application/jsonl", "application/jsonlines"):
        return lines()
    words = (
        "Content-Type must be application/json (curl --json) or application/x-ndjson; got "
        f"{kind[:80]!r}."
    )
    raise Problem(415, "bad_content_type", words, "Content-Type")
