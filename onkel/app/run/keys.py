"""What is shown of the keys of a run: of each task what it is judged by, worst first."""

from __future__ import annotations

from onkel.app.run.fleets import Keyed
from onkel.app.run.session import Session
from onkel.app.run.settings import RunSettings
from onkel.fleet.view import SHOWN, FleetView, View


def shown_of(settings: RunSettings) -> tuple[str, ...]:
    """Return what is told of each key that has a model of its own.

    Examples
    --------
    >>> shown_of(RunSettings("regress")), shown_of(RunSettings("regress", model="kernel"))
    (('error', 'share', 'rows'), ('error', 'rows'))
    """
    if settings.task == "classify":
        return SHOWN["classification"]
    if settings.task == "detect":  # drift is followed in fleets
        return (*(("unusual",) if settings.tells_p else ()), "alerts", "rows")
    return ("error", *(("share",) if settings.promised is not None else ()), "rows")


def view_of(session: Session) -> View | None:
    """Return what is shown of a run's keys; None where there are none."""
    if session.source.schema.at("key") is None:
        return None
    names, view = list(session.source.schema.features), None
    if isinstance(session.models, Keyed):
        view = FleetView(session.models.fleet, session.ranking, names)
    found = view or View(session.ranking, shown_of(session.settings), names)
    found.lasting = len(session.ranking) >= len(session.models)
    return found
