"""The report of the reproductions: one HTML page that loads nothing and fits a phone."""

from __future__ import annotations

import base64
import io
import os
import platform
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any

if __package__:
    from .study import Row, Study
else:
    from study import Row, Study

import numpy as np

from onkel import __version__, core

STYLE = """
:root {
  --ink: #1f2933; --soft: #52606d; --line: #dfe3e8; --paper: #fff; --tint: #f5f7f9;
  --accent: #2a6f97; --alarm: #d1495b; color-scheme: light;
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--tint); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main { max-width: 78rem; margin: 0 auto; padding: clamp(1rem, 4vw, 2.5rem); }
h1 { font-size: clamp(1.5rem, 4.5vw, 2.1rem); line-height: 1.15; margin: 0 0 .8rem; }
h2 { font-size: 1.2rem; margin: 0 0 .35rem; }
p, section > ul { margin: 0 0 .8rem; max-width: 46rem; }
.kicker { color: var(--accent); font-weight: 600; margin: 0 0 .4rem; }
.tiles {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr)); gap: .75rem;
  margin: 1.2rem 0;
}
.tiles div, section {
  background: var(--paper); border: 1px solid var(--line); border-radius: 10px;
}
.tiles div { padding: .8rem 1rem; }
.tiles b { display: block; font-size: 1.5rem; line-height: 1.2; }
.tiles span, .time, figcaption, caption, footer { color: var(--soft); font-size: .88rem; }
.tiles span { display: block; }
section { padding: clamp(.9rem, 3vw, 1.5rem); margin: 0 0 1.1rem; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1rem; margin: 0 0 1.2rem; font-size: .95rem; }
a { color: var(--accent); }
figure { margin: 1rem 0 .4rem; }
figure img { display: block; width: 100%; max-width: 44rem; height: auto; }
figure img.wide { max-width: 72rem; }
.scroll { overflow-x: auto; }
table {
  border-collapse: collapse; min-width: 100%; width: max-content; font-size: .9rem;
  font-variant-numeric: tabular-nums;
}
caption { padding: .8rem 0 .3rem; font-weight: 600; text-align: left; }
th, td {
  text-align: left; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top;
}
thead th { color: var(--soft); font-size: .82rem; font-weight: 500; vertical-align: bottom; }
th.n, td.n { text-align: right; }
td.w { min-width: 10rem; max-width: 17rem; }
.checks { list-style: none; padding: 0; font-size: .9rem; margin: 1rem 0 0; }
.ok::before { content: "✓ "; color: #1b7f4d; font-weight: 700; }
.missed::before { content: "✗ "; color: var(--alarm); font-weight: 700; }
.failed { border-left: 4px solid var(--alarm); }
footer, li, code { overflow-wrap: anywhere; }
code { font: .92em ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
"""

# The policy has the browser itself see to it that nothing is fetched.
TEMPLATE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:;
style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>onkel: the papers' figures and the field's numbers, rerun</title>
<link rel="icon" href="data:,">
<style>$style</style>
</head>
<body>
<main>
<p class="kicker">onkel: online learning with kernels</p>
<h1>The papers' figures and the field's numbers, rerun</h1>
<p>$lead</p>
<div class="tiles">$tiles</div>
<nav>$links</nav>
$sections
<footer>$footer</footer>
</main>
</body>
</html>
""")


@dataclass(frozen=True)
class Outcome:
    """A study that has run, or why it has not."""

    name: str
    study: Study
    seconds: float
    """By the clock."""
    processor: float
    """Seconds of the processor, which others at work on the machine do not change."""
    failed: bool = False

    @property
    def ok(self) -> bool:
        """Whether every number lies where it is expected."""
        return all(check.ok for check in getattr(self.study, "checks", []))


def page(found: list[Outcome], quick: bool) -> str:
    """Return the page as HTML; it loads nothing from anywhere."""
    links = [f'<a href="#{f.name}">{escape(f.study.title)}</a>' for f in found]
    return TEMPLATE.substitute(
        style=STYLE,
        lead=_lead(quick),
        tiles=_tiles(found),
        links="".join(links),
        sections="\n".join(section(f) for f in found),
        footer=_footer(quick),
    )


def _lead(quick: bool) -> str:
    kind = "A quick run, with fewer seeds, rows and settings. " if quick else ""
    return (
        f"{kind}Every figure on this page, and every number of ours, was just computed; printed "
        "and published numbers are copied from their sources. Where ours differs from print, the "
        "text beside it says why, or that we do not know. What could not be run says what it lacks."
    )


def _tiles(found: list[Outcome]) -> str:
    checks = [check for f in found for check in getattr(f.study, "checks", [])]
    ran = [f for f in found if f.study.tables]
    tiles = [
        (f"{len(ran)} of {len(found)}", "studies run"),
        (f"{sum(c.ok for c in checks)} of {len(checks)}", "checks hold"),
        (f"{sum(f.processor for f in found):.0f} s", "of the processor, one core"),
    ]
    return "".join(f"<div><b>{big}</b><span>{small}</span></div>" for big, small in tiles)


def _footer(quick: bool) -> str:
    return (
        f"onkel {__version__}, core {escape(core.BACKEND)}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, {escape(processor())}, {os.cpu_count()} cores. Again: "
        f"<code>python experiments/reproduce.py{' --quick' if quick else ''}</code>"
    )


def processor() -> str:
    """Return the processor's name."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


# -- one study -------------------------------------------------------------------------------------


def section(found: Outcome) -> str:
    """Return a study: words, figures, tables, checks."""
    study = found.study
    kind = ' class="failed"' if found.failed else ""
    parts = [f'<section id="{found.name}"{kind}><h2>{escape(study.title)}</h2>']
    first, rest = split(study.text)
    parts.append(words(first))
    parts += [_figure(caption, figure) for caption, figure in study.figures]
    parts += [table(caption, rows) for caption, rows in study.tables]
    parts.append(words(rest))
    checks = "".join(
        f'<li class="{"ok" if c.ok else "missed"}">{escape(str(c).split(None, 1)[1])}</li>'
        for c in getattr(study, "checks", [])
    )
    parts.append(f'<ul class="checks">{checks}</ul>' if checks else "")
    parts.append(f'<p class="time">{_times(found)}</p></section>')
    return "\n".join(parts)


def split(text: str, most: int = 4) -> tuple[str, str]:
    """Return what stands before figures and tables and what after: long texts mostly after.

    >>> split("a"), split("a\\n\\nb", most=1)
    (('a', ''), ('a', 'b'))
    """
    first, _, rest = text.partition("\n\n")
    return (first, rest) if text.count("\n\n") >= most else (text, "")


def _times(found: Outcome) -> str:
    return f"{found.seconds:.0f} s by the clock, {found.processor:.0f} s of the processor"


def words(text: str) -> str:
    """Return paragraphs, lists, `code`, *stress* and **headings** of plain text as HTML.

    >>> words("*So* it is: `a < b`.")
    '<p><em>So</em> it is: <code>a &lt; b</code>.</p>'
    """
    parts = []
    for block in re.split(r"\n\s*\n", text.strip()) if text else []:
        if block.startswith("- "):
            items = re.split(r"\n(?=- )", block)
            parts.append(f"<ul>{''.join(f'<li>{_inline(i[2:])}</li>' for i in items)}</ul>")
        else:
            parts.append(f"<p>{_inline(block)}</p>")
    return "\n".join(parts)


def _inline(text: str) -> str:
    text = escape(" ".join(text.split()), quote=False)
    text = re.sub(r"``(.+?)``|`(.+?)`", lambda m: f"<code>{m[1] or m[2]}</code>", text)
    text = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", text)
    return re.sub(r"(?<!\*)\*(?! )([^*]+?)\*(?!\*)", r"<em>\1</em>", text)


def _figure(caption: str, figure: Any) -> str:
    png = io.BytesIO()
    figure.savefig(png, format="png")
    wide = ' class="wide"' if figure.get_figwidth() > 8 else ""
    data = base64.b64encode(png.getvalue()).decode()
    alt = escape(caption)
    return (
        f'<figure><img{wide} alt="{alt}" src="data:image/png;base64,{data}">'
        f"<figcaption>{alt}</figcaption></figure>"
    )


def table(caption: str, rows: list[Row]) -> str:
    """Return rows as a table that scrolls sideways where it must."""
    keys = list(dict.fromkeys(key for row in rows for key in row))
    kinds = {key: _kind([row.get(key) for row in rows]) for key in keys}
    head = "".join(f"<th{kinds[key]}>{escape(key)}</th>" for key in keys)
    body = "\n".join(
        "<tr>" + "".join(f"<td{kinds[k]}>{escape(cell(row.get(k)))}</td>" for k in keys) + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><caption>{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _kind(values: list[Any]) -> str:
    if not any(isinstance(v, str) for v in values):
        return ' class="n"'
    return ' class="w"' if any(len(str(v)) > 24 for v in values) else ""


def cell(value: Any) -> str:
    """Return a number in few digits, nothing for None.

    >>> cell(12345), cell(0.000012345), cell(84.571), cell(None)
    ('12,345', '1.2e-05', '84.57', '')
    """
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, str | bool):
        return str(value)
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    value = float(value)
    if value != 0 and abs(value) < 1e-3:
        return f"{value:.2g}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
