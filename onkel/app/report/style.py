"""The look of the reports: how their pages begin, and CSS, with nothing to load."""


def opening(title: str) -> str:
    """Return a page up to its body, with places for ``$style`` and ``$library``."""
    # The policy makes the browser itself see to it that nothing is fetched.
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data: blob:;
font-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>$style</style>
$library
</head>
"""


STYLE = """
:root {
  --ink: #1f2933; --soft: #52606d; --line: #dfe3e8; --paper: #fff; --tint: #f5f7f9;
  --accent: #0072b2; color-scheme: light;
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--tint); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
}
main {
  max-width: 62rem; margin: 0 auto;
  padding: clamp(1.25rem, 4vw, 3rem) clamp(.9rem, 4vw, 2.5rem);
}
h1 {
  font-size: clamp(1.6rem, 4.5vw, 2.1rem); line-height: 1.15; letter-spacing: -.02em;
  margin: 0 0 .8rem; text-wrap: balance;
}
h2 { font-size: 1.2rem; letter-spacing: -.01em; margin: 0 0 .35rem; }
p { margin: 0 0 .8rem; max-width: 46rem; overflow-wrap: anywhere; }
section > p { color: var(--soft); font-size: .95rem; }
.kicker { color: var(--accent); font-weight: 600; margin: 0 0 .4rem; }

.tiles {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(9.5rem, 1fr)); gap: .75rem;
  margin: 1.6rem 0 1.1rem;
}
.tiles div, section {
  background: var(--paper); border: 1px solid var(--line); border-radius: 10px;
}
.tiles div { padding: .9rem 1rem; }
.tiles b {
  display: block; font-size: 1.55rem; line-height: 1.2; letter-spacing: -.02em;
  font-variant-numeric: tabular-nums;
}
.tiles span { display: block; color: var(--soft); font-size: .85rem; line-height: 1.4; }
section { padding: clamp(1rem, 3vw, 1.5rem); margin: 0 0 1.1rem; }

.legend {
  display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; margin: .9rem 0 .3rem; padding: 0;
  list-style: none; font-size: .85rem;
}
.legend li::before {
  content: ""; display: inline-block; width: 1.3rem; margin-right: .45rem;
  vertical-align: .25em; border-top: 2.5px solid var(--c);
}
.legend .dash::before { border-top-style: dashed; }
.legend .dots::before { border-top-style: dotted; }
.legend .band::before {
  height: .8rem; border: 0; vertical-align: -.08em; background: var(--c); opacity: .35;
}
.legend .area::before {
  height: .8rem; border: 0; vertical-align: -.08em; background: var(--c); opacity: .85;
}
.legend .dot::before {
  width: .5rem; height: .5rem; border: 0; border-radius: 50%; background: var(--c);
  vertical-align: .08em;
}
.legend .flag::before {
  width: 0; border: .38rem solid transparent; border-top: .6rem solid var(--c);
  border-bottom: 0; vertical-align: .02em;
}
.plot { margin: 0 -.4rem; }

.scroll { overflow-x: auto; }
table {
  border-collapse: collapse; width: 100%; font-size: .92rem;
  font-variant-numeric: tabular-nums;
}
th, td {
  text-align: left; padding: .42rem .9rem .42rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top;
}
tr:last-child > * { border-bottom: 0; }
th { font-weight: 500; }
thead th { color: var(--soft); font-size: .82rem; vertical-align: bottom; }
.summary td:nth-child(2) { text-align: right; font-weight: 600; white-space: nowrap; }
.summary td:nth-child(3) { color: var(--soft); }
.each :is(th, td):is(:nth-child(1), :nth-child(4), :nth-child(5), :nth-child(6)) {
  text-align: right;
}
.each td, .nowrap { white-space: nowrap; }
.long {
  display: inline-block; min-width: 8rem; max-width: 15rem; white-space: normal;
  overflow-wrap: anywhere;
}
.told td:last-child { min-width: 15rem; }
.matrix :is(th, td):not(:first-child) { text-align: right; }
.matrix :is(th, td):first-child { min-width: 9rem; }
details { margin-top: .8rem; }
.incidents { font-size: .92rem; font-variant-numeric: tabular-nums; }
.incidents .head, .incidents summary {
  display: grid; gap: 0 .8rem; padding: .42rem 0; border-bottom: 1px solid var(--line);
  grid-template-columns: 5.2rem 10rem 6rem 3rem 9rem minmax(0, 1fr);
}
.incidents.keyed .head, .incidents.keyed summary {
  grid-template-columns: 5rem 10rem 5.2rem 3rem 7.5rem 9rem minmax(0, 1fr);
}
.incidents.keyed.undriven .head, .incidents.keyed.undriven summary {
  grid-template-columns: 5rem 10rem 5.2rem 3rem minmax(0, 1fr) 9rem;
}
.incidents .head { color: var(--soft); font-size: .82rem; font-weight: 500; }
.incidents details { margin: 0; }
.incidents summary { color: inherit; list-style: none; overflow-wrap: anywhere; }
.incidents summary:hover { background: var(--tint); }
.incidents summary > :first-child::before { content: "▸ "; color: var(--accent); }
.incidents [open] > summary > :first-child::before { content: "▾ "; }
.incidents .inside { padding: .7rem 0 .9rem 1rem; border-bottom: 1px solid var(--line); }
.incidents ul { margin: 0; padding-left: 1.1rem; }
.span {
  position: relative; height: .7rem; margin: 0 0 .6rem; overflow: hidden;
  background: var(--tint); border: 1px solid var(--line); border-radius: .35rem;
}
.span i { position: absolute; top: 0; bottom: 0; min-width: 3px; background: #e69f00; }
.drivers { width: auto; margin: 0 0 .8rem; }
.drivers :is(th, td):not(:first-child) { text-align: right; padding-left: 1.2rem; }
summary { cursor: pointer; color: var(--accent); }
.sub th { padding-left: 1rem; font-weight: 400; color: var(--soft); }
@media (max-width: 36rem) {
  .summary tr {
    display: grid; grid-template-columns: 1fr auto; padding: .4rem 0;
    border-bottom: 1px solid var(--line);
  }
  .summary tr:last-child { border-bottom: 0; }
  .summary tr > * { border: 0; padding-top: 0; padding-bottom: 0; padding-right: 0; }
  .summary td:nth-child(3) { grid-column: 1 / -1; font-size: .85rem; }
  .summary .sub td:nth-child(3) { padding-left: 1rem; }
  .summary td:nth-child(2) { white-space: normal; overflow-wrap: anywhere; }
}
@media (max-width: 36rem) {
  .incidents .head { display: none; }
  .incidents summary, .incidents.keyed summary { display: flex; flex-wrap: wrap; gap: 0 1rem; }
  .incidents summary span:not(:first-child)::before {
    content: attr(data-is) " "; color: var(--soft);
  }
  .incidents .inside { padding-left: .6rem; }
  .told thead { display: none; }
  .told tr {
    display: flex; flex-wrap: wrap; gap: 0 1rem; padding: .5rem 0;
    border-bottom: 1px solid var(--line);
  }
  .told td { border: 0; padding: 0; }
  .long { display: inline; }
  .told td:not(:last-child)::before { content: attr(data-is) " "; color: var(--soft); }
  .told td:last-child { flex-basis: 100%; }
}
footer { color: var(--soft); font-size: .85rem; margin-top: 1.5rem; overflow-wrap: anywhere; }
code { font: .92em ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
"""
