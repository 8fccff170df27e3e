"""The report: one HTML page that holds everything it needs, figures and scripts included."""

from __future__ import annotations

from html import escape

from bokeh.embed import components
from bokeh.resources import Resources

import onkel
from onkel.app.demo import figures
from onkel.app.demo.page import TEMPLATE
from onkel.app.demo.trial import CHANCE, FITTED, NU, TERMS, Demonstration, Verdict
from onkel.app.report.figures import legend_list
from onkel.app.report.style import STYLE
from onkel.streams.plant import DAY


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
        "<em>before</em> they learn from it, and are never told about the faults: a novelty "
        "detector, which has promised how often it will raise an alert, and a classifier, which "
        f"predicts whether the product is within tolerance. {FITTED}"
    )


def _tiles(trial: Demonstration) -> str:
    verdicts = trial.verdicts
    wrong, same = trial.mistakes.mean(), trial.baseline.mean()
    tiles = [
        (f"{sum(v.found for v in verdicts)} of {len(verdicts)}", "faults found"),
        (f"{trial.alerts.mean():.2%}", f"alert rate, {NU:.2%} promised"),
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
    return "\n".join(_fault_row(verdict) for verdict in trial.verdicts)


def _fault_row(verdict: Verdict) -> str:
    fault = verdict.fault
    cells = [
        f"{fault.start / DAY:.1f}",
        fault.kind,
        ", ".join(fault.columns),
        str(fault.stop - fault.start),
        str(verdict.alerts),
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
        "scores": ("Score and threshold", _about_scores(trial)),
        "closeup": ("One fault, close up", _about_closeup(trial)),
        "rate": ("The promised alert rate", _about_rate(trial)),
        "mistakes": ("Mistakes", _about_mistakes(trial)),
        "terms": ("Terms stored", _about_terms()),
    }


def _about_scores(trial: Demonstration) -> str:
    return (
        "Each reading gets a score: high if it resembles what the detector has seen, low if it "
        "is new. A reading below the threshold is an alert (red). Triangles and shading mark the "
        "injected faults: a filled triangle was found, a hollow one missed. Dotted lines mark the "
        "changes of supplier and of product; after the second one the plant looks new for a "
        "while, then becomes usual."
    )


def _about_closeup(trial: Demonstration) -> str:
    verdict = figures.showpiece(trial.verdicts)
    if verdict is None:
        return ""
    fault, spent = verdict.fault, verdict.alerts
    return (
        f"Every reading around one fault: {fault.kind}, {' and '.join(fault.columns)}. Each alert "
        "lowers the threshold by one step, each reading without an alert raises it by a little: "
        f"so the detector keeps its promise. These {spent} alerts are as many as it may raise in "
        f"{spent / NU:,.0f} readings; until the threshold is back up, only what is very new is "
        "reported."
    )


def _about_rate(trial: Demonstration) -> str:
    return (
        f"The detector promised alerts on {NU:.0%} of all readings. The rate since the start goes "
        "to that number whatever the plant does; the rate over the last 24 hours shows where the "
        f"alerts went: {trial.alerts[trial.plant.faulty].sum()} of {trial.alerts.sum()} fell into "
        f"the faults, which are {trial.plant.faulty.mean():.1%} of the readings."
    )


def _about_mistakes(trial: Demonstration) -> str:
    own, base = int(trial.mistakes.sum()), int(trial.baseline.sum())
    return (
        "The product stays within or out of tolerance for several minutes at a time, so repeating "
        "the last label (the no-change baseline) is a strong opponent. It made "
        f"{base:,} mistakes, the classifier {own:,}: {_versus(own, base)}. One label in a hundred "
        "is wrong on purpose, which costs the classifier one mistake and the baseline two."
    )


def _versus(own: int, base: int) -> str:
    if not base or own == base:
        return "no difference"
    return f"{abs(1 - own / base):.0%} {'fewer' if own < base else 'more'}"


def _about_terms() -> str:
    return (
        "A model is a sum of terms, each a reading worth remembering. Memory and time per reading "
        f"stay bounded, because at most {TERMS:,} terms are kept and the oldest goes first. Older "
        "terms also weigh less and less, so that the models forget what no longer holds."
    )
