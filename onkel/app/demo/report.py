"""The report: one HTML page that holds everything it needs, figures and scripts included."""

from __future__ import annotations

from html import escape
from typing import Any

from bokeh.embed import components
from bokeh.resources import Resources
from numpy.typing import NDArray

import onkel
from onkel.app.demo import figures
from onkel.app.demo.page import TEMPLATE
from onkel.app.demo.trial import (
    CHANCE,
    DETECTOR_TERMS,
    FITTED,
    NU,
    TERMS,
    Demonstration,
    Verdict,
    share,
)
from onkel.app.report.figures import legend_list
from onkel.app.report.style import STYLE
from onkel.explain import one_in
from onkel.streams.plant import DAY

Array = NDArray[Any]


def page(trial: Demonstration, seed: int) -> str:
    """Return the report as HTML; it loads nothing from anywhere."""
    drawings = figures.drawings(trial)
    script, plots = components({name: drawing.plot for name, drawing in drawings.items()})
    sections = [
        _section(name, title, text, legend_list(drawings[name].legend), plots[name])
        for name, (title, text) in _texts(trial).items()
        if name in drawings
    ]
    return TEMPLATE.substitute(
        style=STYLE,
        # The base bundle alone is enough: no widgets, no tables, no formulas.
        library=Resources(mode="inline", components=["bokeh"]).render_js(),
        lead=_lead(trial),
        tiles=_tiles(trial),
        table=_table(trial),
        sections="\n".join(sections),
        chance=f"{CHANCE:.0%}",
        faults=_faults(trial),
        footer=_footer(len(trial.plant.X), seed),
        script=script,
    )


def _footer(n: int, seed: int) -> str:
    again = f"python -m onkel.app.demo --examples {n} --seed {seed}"
    return f"onkel {onkel.__version__}. To see this again: <code>{again}</code>"


def _lead(trial: Demonstration) -> str:
    days = len(trial.plant.X) / DAY
    return (
        f"Six sensors of a simulated plant, one reading a minute for {days:.3g} days. The plant "
        "follows the time of day, wears slowly, changes supplier and product, and has "
        f"{len(trial.plant.faults)} faults. Two onkel models see each reading once, judge it "
        "<em>before</em> they learn from it, and are never told about the faults: a detector, "
        "which says how rare each reading is and has promised how often a usual one will raise an "
        "alert, and a classifier, which "
        f"predicts whether the product is within tolerance. {FITTED}"
    )


def _tiles(trial: Demonstration) -> str:
    verdicts = trial.verdicts
    wrong, same = trial.mistakes.mean(), trial.baseline.mean()
    tiles = [
        (f"{sum(v.found for v in verdicts)} of {len(verdicts)}", "faults found"),
        (f"{share(trial.alerts[trial.plant.faulty]):.0%}", "of faulty readings raised an alert"),
        (f"{share(trial.alerts[trial.usual]):.2%}", f"of usual ones; promised: about {NU:.0%}"),
        (f"{wrong:.1%}", f"mistakes, baseline {same:.1%}"),
        (f"{trial.speed:,.0f}", "examples per second"),
    ]
    return "\n".join(f"<div><b>{big}</b><span>{small}</span></div>" for big, small in tiles)


def _table(trial: Demonstration) -> str:
    rows = [
        f'<tr{_indent(name)}><th scope="row">{escape(name.strip())}</th>'
        f"<td>{escape(value)}</td><td>{escape(remark)}</td></tr>"
        for name, value, remark in trial.table()
    ]
    return "\n".join(rows)


def _indent(name: str) -> str:
    return ' class="sub"' if name.startswith(" ") else ""


def _faults(trial: Demonstration) -> str:
    return "\n".join(_fault_row(trial, verdict) for verdict in trial.verdicts)


def _fault_row(trial: Demonstration, verdict: Verdict) -> str:
    fault = verdict.fault
    cells = [
        f"{fault.start / DAY:.1f}",
        fault.kind,
        ", ".join(fault.columns),
        str(fault.stop - fault.start),
        str(verdict.alerts),
        one_in(float(trial.score[fault.start : fault.stop].min())),
        _share(verdict.chance),
        "found" if verdict.found else "missed",
    ]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"


def _share(chance: float) -> str:
    return "none" if chance == 0 else "under 0.01%" if chance < 1e-4 else f"{chance:.2%}"


def _section(name: str, title: str, text: str, legend: str, plot: str) -> str:
    return (
        f'<section id="{name}"><h2>{title}</h2><p>{text}</p>{legend}'
        f'<div class="plot">{plot}</div></section>'
    )


def _texts(trial: Demonstration) -> dict[str, tuple[str, str]]:
    """Return title and explanation of each figure, in the order of the page."""
    return {
        "scores": ("How rare each reading is", _about_scores(trial)),
        "closeup": ("One fault, close up", _about_closeup(trial)),
        "rate": ("The promised alert rate", _about_rate(trial)),
        "mistakes": ("Mistakes", _about_mistakes(trial)),
        "settings": ("Which settings counted", _about_settings(trial)),
        "terms": ("Terms stored", _about_terms()),
    }


def _about_scores(trial: Demonstration) -> str:
    return (
        "Each reading gets a number p: a usual reading as unusual as this one comes once in 1/p. "
        "Downwards is rarer, by powers of ten. A reading below the level is an alert (red). "
        "Triangles and shading mark the injected faults: a filled triangle was found, a hollow one "
        "missed. Dotted lines mark the changes of supplier and of product. The first one moves "
        "what is within tolerance, not the readings; the second moves the readings themselves: "
        f"they look new until so many have come that they are usual, {_accepted(trial)}."
    )


def _accepted(trial: Demonstration) -> str:
    """Return what the last change brought, in words."""
    if not trial.plant.changes:
        return "which takes some hundred"
    row, n = trial.plant.changes[-1], trial.settling
    part = slice(row, row + n)
    alerts = int((trial.alerts & ~trial.plant.faulty)[part].sum())
    return f"here after {alerts:,} alerts in the {n / 60:.3g} hours after it"


def _about_closeup(trial: Demonstration) -> str:
    verdict = figures.showpiece(trial.verdicts)
    if verdict is None:
        return ""
    fault = verdict.fault
    rarest = one_in(float(trial.score[fault.start : fault.stop].min()))
    return (
        f"Every reading around one fault: {fault.kind}, {' and '.join(fault.columns)}. "
        f"{verdict.alerts} of its {fault.stop - fault.start} readings raised an alert, the rarest "
        f"of them {rarest}. Each alert lowers the level by one per cent, and it sinks no lower "
        f"than to half of {NU:.0%}: a fault does not make the detector blind. What raised an alert "
        "is learned 500 readings later, so that a fault does not become usual while it lasts."
    )


def _about_rate(trial: Demonstration) -> str:
    alerts, usual = trial.alerts, trial.usual
    inside, fresh = int(alerts[trial.plant.faulty].sum()), int((alerts & ~usual).sum())
    return (
        f"The detector promised alerts on about {NU:.0%} of usual readings, and raised them on "
        f"{share(alerts[usual]):.2%}{_first_day(alerts & usual)}. Faults and changes of the plant "
        f"come on top: of {alerts.sum():,} alerts {inside:,} fell into the faults, which are "
        f"{trial.plant.faulty.mean():.1%} of the readings, and {trial.fresh(fresh - inside)}. "
        "Where they are many, the level stays at its lowest for a while, and usual "
        "readings then raise fewer alerts than promised."
    )


def _first_day(alerts: Array) -> str:
    found = int(alerts[:DAY].sum())
    return f", {found:,} of them on the first day, when each hour was new" if found else ""


def _about_mistakes(trial: Demonstration) -> str:
    own, base = int(trial.mistakes.sum()), int(trial.baseline.sum())
    return (
        "The product stays within or out of tolerance for several minutes at a time, so repeating "
        "the last label (the no-change baseline) is a strong opponent. It made "
        f"{base:,} mistakes, the classifier {own:,}: {_versus(own, base)}. One label in a hundred "
        "is wrong on purpose, which costs the classifier one mistake and the baseline two."
    )


def _about_settings(trial: Demonstration) -> str:
    return (
        "The classifier runs several settings side by side, and those that predicted better count "
        f"for more. {escape(trial.tracking.report['in_words'])}"
    )


def _versus(own: int, base: int) -> str:
    if not base or own == base:
        return "no difference"
    return f"{abs(1 - own / base):.0%} {'fewer' if own < base else 'more'}"


def _about_terms() -> str:
    return (
        "A model keeps a bounded number of readings, its terms, so memory and time per reading "
        "stay bounded. The detector's are a sample of the past that fades, running means included, "
        f"at most {DETECTOR_TERMS:,} of them. The classifier's are readings that taught it "
        f"something, and the last thousand; at most {TERMS:,} are kept, the oldest goes first, "
        "and older ones weigh less and less."
    )
