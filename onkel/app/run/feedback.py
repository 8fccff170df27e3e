"""``onkel feedback``: answers from the command line to a state, whether a run goes on or not."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from onkel.app.disk import InUse, lock_folder
from onkel.app.errors import SourceProblem, StateProblem, UsageProblem
from onkel.app.run import answering
from onkel.app.run.checkpoint import State
from onkel.app.run.counters import LATEST, Counters
from onkel.app.run.inbox import Inbox, Said
from onkel.app.run.ledger import Kept
from onkel.app.run.outputs import unmarked
from onkel.app.run.series import parted
from onkel.app.run.settings import RunSettings
from onkel.nearest import nearest

Pair = tuple[str, str]
T = TypeVar("T")
MOST_KEYS = 1000
"""With more keys the alerts of those are listed that had one of late."""
TOLD = 5
"""So many refused answers are told one by one."""


@dataclass
class Looked:
    """A state as of its last checkpoint, to be looked at."""

    state: State
    settings: RunSettings
    keyed: bool
    kept: Kept | None

    def __post_init__(self) -> None:
        self._models: dict[str, Any] = {}

    @property
    def counters(self) -> Counters:
        """What the run had seen."""
        found = self.kept.checkpoint.counters if self.kept is not None else None
        return Counters.from_dict(found) if found else Counters()

    @property
    def keys(self) -> list[str]:
        """Those that have a model; of a run without keys: one that has no name."""
        return [] if self.kept is None else [*self.kept.models()]

    def model(self, key: str) -> Any | None:
        """Return a key's estimator; None if there was none."""
        place = self.kept.models().get(key) if self.kept is not None else None
        if place is None:
            return None
        if key not in self._models:
            self._models[key] = parted(self.state.model_at(place))[0]
        found = self._models[key]
        return found if found.__sklearn_is_fitted__() else None


def _looking(folder: str, call: Callable[[Looked], T]) -> T:
    """Ask a state; once more, should a run have removed meanwhile what was looked at."""
    with contextlib.suppress(StateProblem), _looked(folder) as looked:
        return call(looked)
    with _looked(folder) as looked:
        return call(looked)


@contextlib.contextmanager
def _looked(folder: str) -> Iterator[Looked]:
    state = State(folder, writable=False)
    try:
        noted = state.meta("settings")
        if not noted:
            raise StateProblem(f"{folder} holds no state of a run.")
        names = {f.name for f in fields(RunSettings)}
        settings = RunSettings(**{n: v for n, v in noted.items() if n in names})
        if not settings.hears_answers:
            raise UsageProblem(f"{folder} is the state of onkel {_no_answers(settings)}")
        yield Looked(state, settings, noted.get("key") is not None, state.newest_whole()[0])
    finally:
        state.close()


def _no_answers(settings: RunSettings) -> str:
    """Return why there is nothing to answer, after the name of the command.

    Examples
    --------
    >>> _no_answers(RunSettings("classify"))
    'classify, which has no alerts that could be answered: only onkel detect has.'
    """
    if settings.task != "detect":
        return (
            f"{settings.task}, which has no alerts that could be answered: only onkel detect has."
        )
    return (
        "detect with another model than Detector: only alerts of onkel detect --model auto can be "
        "answered."
    )


def is_running(folder: str) -> bool:
    """Whether a run works on a state at this moment."""
    try:
        os.close(lock_folder(Path(folder)))
    except InUse:
        return True
    return False


# -- giving ------------------------------------------------------------------------------------


def give(folder: str, answers: list[Pair]) -> dict[str, Any]:
    """Put answers where the run finds them; refuse all of them if one is known to be wrong.

    Returns what was put in, whether a run goes on, and what has to wait for its row.
    """
    running = is_running(folder)

    def check(looked: Looked) -> tuple[list[str], list[str], int]:
        found = [_checked(looked, running, *pair) for pair in answers]
        wrong = [_named(id, why) for (id, _), (why, _) in zip(answers, found, strict=True) if why]
        waits = [id for (id, _), (_, late) in zip(answers, found, strict=True) if late]
        return wrong, waits, answering.last_heard(looked.counters)

    wrong, waits, heard = _looking(folder, check)
    if wrong:
        raise UsageProblem(_refusal(wrong, len(answers)))
    with contextlib.closing(Inbox(Path(folder))) as inbox:
        inbox.put(answers, heard)
    put = [{"id": id, "answer": answer} for id, answer in answers]
    return {"put": put, "running": running, "waits_for_its_row": waits}


def _checked(looked: Looked, running: bool, id: str, answer: str) -> tuple[str, bool]:
    """Return why an answer is refused, and whether its row is not learned yet."""
    wrong = answering.wrong_with(id, answer, looked.keyed)
    if wrong:
        return wrong, False
    key, number = answering.split(id, looked.keyed)
    model = looked.model(key)
    learned = 0 if model is None else model.t_
    if model is None and looked.keyed and not running:
        meant = nearest(key, looked.keys)
        asked = "" if meant is None else f" (did you mean {meant!r}?)"
        return f"no row of a key {key!r} was learned as of the last checkpoint{asked}", False
    if int(number) >= learned:
        whose = f"key {key!r} has" if looked.keyed else "the model has"
        late = (
            f"{whose} learned {learned} rows as of the last checkpoint, and no run is going on; if "
            "one was killed, start it again first"
        )
        return ("", True) if running else (late, False)
    assert model is not None
    if any(alert["id"] == str(int(number)) for alert in model.alerts_):
        return "", False
    return answering.refusal_of(model, number, answer), False


def _named(id: str, why: str) -> str:
    """Return a reason that says which answer it is of."""
    return why if repr(id) in why or f"no alert {id}:" in why else f"{id}: {why}"


def _refusal(wrong: list[str], count: int) -> str:
    more = f" (and {len(wrong) - TOLD} more)" if len(wrong) > TOLD else ""
    none = "" if count == 1 else f" None of the {count} answers was taken."
    return "; ".join(w.removesuffix(".") for w in wrong[:TOLD]) + f"{more}.{none}"


def given_in_words(found: dict[str, Any]) -> str:
    """Return what became of answers, for people."""
    lines = [f"{one['id']} {one['answer']}" for one in found["put"][:20]]
    if len(found["put"]) > 20:
        lines.append(f"and {len(found['put']) - 20} more")
    what = "one answer" if len(found["put"]) == 1 else f"{len(found['put'])} answers"
    who = "the run that is going on takes" if found["running"] else "the next run takes"
    it = "it" if len(found["put"]) == 1 else "them"
    text = f"{what} put in: {', '.join(lines)}; {who} {it} in."
    if found["waits_for_its_row"]:
        text += f" Not before its row is learned: {', '.join(found['waits_for_its_row'][:20])}."
    return text


def read_file(path: str) -> list[Pair]:
    """Return the answers of a file: JSON lines, or CSV with a header, with id and answer."""
    try:
        text = Path(path).read_text("utf-8-sig")
    except OSError as error:
        raise SourceProblem(f"--file {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise SourceProblem(f"--file {path}: is no UTF-8 text.") from None
    as_csv = path.lower().endswith(".csv")
    rows = list(_csv(text)) if as_csv else list(_json_lines(text, path))
    found = []
    for line, row in rows:
        told = row if isinstance(row, dict) else {}
        own = "alert_id" in told  # a line of the run's own output, whose id is that of --id
        id, answer = told.get("alert_id" if own else "id"), told.get("answer")
        if isinstance(id, int) and not isinstance(id, bool):
            id = str(id)
        if not isinstance(id, str) or not isinstance(answer, str):
            raise SourceProblem(
                f'--file {path}, line {line}: needs id and answer, such as {{"id": "1234", '
                '"answer": "usual"}.'
            )
        found.append((id.strip(), answer.strip()))
    if not found:
        raise SourceProblem(f"--file {path} holds no answer.")
    return found


def _csv(text: str) -> Iterator[tuple[int, Any]]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    for row in reader:
        yield reader.line_num, {n: unmarked(v) if isinstance(v, str) else v for n, v in row.items()}


def _json_lines(text: str, path: str) -> Iterator[tuple[int, Any]]:
    for number, line in enumerate(io.StringIO(text, newline="\n"), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError as error:
                raise SourceProblem(f"--file {path}, line {number}: is no JSON: {error}.") from None


# -- listing -----------------------------------------------------------------------------------


def listed(folder: str) -> dict[str, Any]:
    """Return the alerts that wait for an answer, newest first, and the answers on their way."""
    return {**_looking(folder, _waiting), "running": is_running(folder)}


def _waiting(looked: Looked) -> dict[str, Any]:
    counters = looked.counters
    latest = {a["alert_id"]: a for a in counters.latest if "alert_id" in a}
    with contextlib.closing(Inbox(looked.state.folder)) as inbox:
        said = answering.undecided(inbox, counters)
    coming = {one.id: one.answer for one in said}
    keys, all_keys = _keys(looked, latest)
    remembered = _Remembered(latest, looked.keyed, counters.rows)
    all_there = looked.settings.cool_down and len(counters.latest) < LATEST
    each = []
    for key in keys:
        for id, alert in _of_key(looked, key):
            number, known = answering.split(id, looked.keyed)[1], _known(latest.get(id))
            held = all_there or (looked.settings.cool_down and remembered.follows(key, number))
            known = known or ({"held_back": True} if held else {})
            told = {**known, "id": id, **alert, "answer_to_take_in": coming.get(id)}
            learned = int(number) + alert["rows_since"] + 1
            each.append((remembered.place(key, number, learned, held or "row" in known), told))
    each.sort(key=lambda pair: pair[0], reverse=True)
    return {
        "alerts": [told for _, told in each], "all_keys": all_keys,
        "answers_to_take_in": [_one(one) for one in said],
        **answering.told(counters, looked.settings.promise),
    }  # fmt: skip


class _Remembered:
    """Where the alerts lay that a run remembers; by these, about where others of their keys did.

    Of an alert that a cool-down held back, or that is too old, only its key's rows since are
    known, which do not say what came first of two keys.

    Examples
    --------
    >>> some = _Remembered({"a:7": {"row": 30}, "a:9": {"row": 50}, "b:1": {"row": 40}}, True, 60)
    >>> some.row("a", "9", 12), some.row("a", "8", 12), some.row("a", "10", 12)
    (50.0, 40.0, 53.33...)
    >>> some.follows("a", "8"), some.follows("b", "0")
    (True, False)
    >>> some.place("c", "5", 6, of_late=True), some.place("c", "5", 6, of_late=False)
    ((51.2..., 51.2...), (30, 51.2...))
    """

    def __init__(self, latest: Mapping[str, dict[str, Any]], keyed: bool, rows: int) -> None:
        self._rows, self._places = rows, dict[str, list[tuple[int, int]]]()
        self._oldest = min((alert["row"] for alert in latest.values()), default=rows)
        for id, alert in latest.items():
            key, number = answering.split(id, keyed)
            self._places.setdefault(key, []).append((int(number), alert["row"]))

    def row(self, key: str, number: str, learned: int) -> float:
        """Return about where a row lay, of a key that has learned so many."""
        known = sorted([(-1, -1), *self._places.get(key, []), (learned, self._rows)])
        numbers, rows = zip(*known, strict=True)
        return float(np.interp(int(number), numbers, rows))

    def place(self, key: str, number: str, learned: int, of_late: bool) -> tuple[float, float]:
        """Return what puts an alert in its place; what is not of late came before all of them."""
        row = self.row(key, number, learned)
        return (row if of_late else min(row, self._oldest)), row

    def follows(self, key: str, number: str) -> bool:
        """Whether an alert of the same key is remembered that came before."""
        return any(before < int(number) for before, _ in self._places.get(key, []))


def _keys(looked: Looked, latest: dict[Any, Any]) -> tuple[list[str], bool]:
    """Return the keys whose alerts are listed, and whether those are all."""
    known = looked.keys
    if len(known) <= MOST_KEYS:
        return known, True
    return [*dict.fromkeys(a["key"] for a in latest.values() if a.get("key") in known)], False


def _of_key(looked: Looked, key: str) -> Iterator[tuple[str, dict[str, Any]]]:
    model = looked.model(key)
    for alert in [] if model is None else model.alerts_:
        if alert["answer"] is None:
            id = f"{key}:{alert['id']}" if looked.keyed else alert["id"]
            own = {"key": key} if looked.keyed else {}
            yield id, {**own, "p": alert["p"], "rows_since": alert["rows_since"]}


def _known(alert: dict[str, Any] | None) -> dict[str, Any]:
    return {n: v for n, v in (alert or {}).items() if n in ("row", "time", "why")}


def _one(said: Said) -> dict[str, Any]:
    return {"id": said.id, "answer": said.answer, "came": said.came}


def list_in_words(found: dict[str, Any]) -> str:
    """Return alerts that wait, a line each."""
    lines = [_line(alert) for alert in found["alerts"]] or ["No alert waits for an answer."]
    if not found["all_keys"]:
        lines.append("With so many keys, only those are listed that had an alert of late.")
    coming = len(found["answers_to_take_in"])
    if coming:
        who = "the run that is going on" if found["running"] else "the next run"
        lines.append(f"{coming} given, to be taken in by {who}.")
    told = answering.in_words(found)
    return "\n".join([*lines, *([" · ".join(told)] if told else [])])


def _line(alert: dict[str, Any]) -> str:
    words = [alert["id"], str(alert.get("time") or ""), f"p {alert['p']:.2g}"]
    rows = f"{alert['rows_since']:,} row{'s' * (alert['rows_since'] != 1)}"
    words += [f"{rows}{' of its key' * ('key' in alert)} ago", alert.get("why") or ""]
    if "row" not in alert:
        held = alert.get("held_back")
        words.append("held back by the cool-down" if held else "time and reason are not kept")
    if alert["answer_to_take_in"]:
        words.append(f"(said {alert['answer_to_take_in']}, to be taken in)")
    return "  ".join(word for word in words if word)
