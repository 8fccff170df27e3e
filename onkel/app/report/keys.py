"""The keys of a run in its report: a table that can be searched and sorted, each key in detail."""

from __future__ import annotations

import json
from typing import Any

from onkel.fleet.ranking import GROWN
from onkel.fleet.view import View, columns_of

MOST = 10_000
"""Keys in the table."""
DETAILED = 200
"""Keys whose latest scores and inputs are there, too: the most unusual, and those with alerts."""
HEADS = {
    "detect": {"unusual": "latest rows", "alerts": "alerts", "drift": "drift, spreads"},
    "classify": {"share": "mistakes, share", "alerts": "mistakes"},
    "regress": {"error": "mean error", "share": "inside"},
}
"""What the columns are called, by task."""


def section(view: View, task: str, known: int) -> str:
    """Return the section; nothing where no keys were heard. `known` are those of earlier, too."""
    found = columns_of(view, MOST)
    if not found["keys"]:
        return ""
    heads = {name: {**HEADS[task], "rows": "rows"}[name] for name in view.shown}
    details = _details(view) if view.opens else {}
    data = {**found, "details": details, "heads": heads, "opens": view.opens, "grown": GROWN}
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    words = _words(found, known, task, view.shown)
    head = "\n".join(
        f'<th scope="col"><button type="button" data-by="{name}">{words}</button></th>'
        for name, words in heads.items()
    )
    return SECTION.replace("$words", words).replace("$head", head).replace("$data", text)


def _words(found: dict[str, Any], known: int, task: str, shown: tuple[str, ...]) -> str:
    whole = found["keys"] >= known
    began = (
        f"{found['keys']:,} key{'s' * (found['keys'] != 1)}, each with a model of its own" if whole
        else f"{found['keys']:,} of {known:,} keys were heard since this run went on"
    )  # fmt: skip
    more = f" The table has the first {MOST:,} of them." if found["keys"] > MOST else ""
    if task != "detect":
        return f"{began}. {_MISSES[task]}{_YOUNG}{more}"
    alerts, unusual, drift = (found[f"keys_{n}"] for n in ("with_alerts", "unusual", "drifting"))
    told = [f"{alerts:,} had alerts"]
    if "unusual" in shown:
        told.append(f"{unusual:,} {'was' if unusual == 1 else 'were'} unusual at the end")
        more = _LATEST + more
    if "drift" in shown:
        told.append(f"{drift:,} drifted")
        more += " A click on a key shows its latest scores."
    return f"{began}; {', '.join(told)}.{more}"


_LATEST = (
    " “Latest rows” is how rare the latest ten rows of a key were, on the mean, by its own past."
)
_YOUNG = f" Keys with fewer than {GROWN} rows come after the others."
_MISSES = {
    "classify": "First are those with the largest share of rows whose label was predicted wrongly.",
    "regress": (
        "First are those with the largest mean error, in the target's units: keys whose numbers "
        "are larger have larger errors. “Inside” is the share of targets inside their intervals."
    ),
}


def _details(view: View) -> dict[str, Any]:
    """Return what is shown of a key when it is chosen, by its place in the table."""
    rows = view.ranking.top(MOST)
    alerting = {row["key"] for row in view.ranking.top(DETAILED // 2, "alerts") if row["alerts"]}
    found: dict[str, Any] = {}
    for at, row in enumerate(rows):
        if at >= DETAILED // 2 and row["key"] not in alerting:
            continue
        told = view.key(row["key"])
        if told is not None:
            names = (
                "t",
                "warmup",
                "shares",
                "scores",
                "threshold",
                "rarity",
                "inputs",
                "rate_in_words",
            )
            found[str(at)] = _short({name: told.get(name) for name in names})
    return found


def _short(value: Any) -> Any:
    """Return numbers with as many digits as a picture needs."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: _short(v) for name, v in value.items()}
    return [_short(v) for v in value] if isinstance(value, list) else value


SECTION = """<section id="keys"><h2>Keys</h2><p>$words</p>
<p class="find"><label>Find <input id="k-find" type="search" autocomplete="off"></label></p>
<div class="scroll"><table class="keys"><thead><tr>
<th scope="col">key</th>
$head
</tr></thead><tbody id="k-rows"></tbody></table></div>
<p class="pages"><button type="button" id="k-before">Before</button> <span id="k-place"></span>
<button type="button" id="k-after">After</button></p>
<noscript><p>The table needs JavaScript.</p></noscript>
<style>
.keys :is(th, td):not(:first-child) { text-align: right; }
.keys td:not(:first-child) { white-space: nowrap; }
.keys :is(th, td) { padding-left: 0; padding-right: .6rem; }
.keys button { font: inherit; color: #005b8f; background: none; border: 0; padding: 0; cursor: pointer;
  text-decoration: underline; text-align: left; overflow-wrap: anywhere; }
.keys tbody button, .keys tbody th { min-width: min(9rem, 22vw); overflow-wrap: anywhere; }
.keys thead button { color: var(--soft); overflow-wrap: normal; }
.keys thead button[aria-pressed=true] { color: var(--ink); font-weight: 600; text-decoration: none; }
.find input { font: inherit; padding: .35rem .6rem; border: 1px solid #7b8794; border-radius: 6px;
  max-width: 100%; }
.pages { display: flex; gap: .8rem; align-items: center; margin: .8rem 0 0; }
.pages button { font: inherit; padding: .3rem .8rem; border: 1px solid #7b8794; border-radius: 6px;
  background: var(--paper); cursor: pointer; }
.pages button:disabled { color: #9aa5b1; border-color: var(--line); cursor: default; }
.keys .far { color: #b84200; font-weight: 600; }
.keys .detail td { text-align: left; background: var(--tint); }
.keys svg { width: 100%; height: 120px; display: block; }
</style>
<script>
"use strict";
(() => {
  const data = $data, columns = data.columns, total = columns.key.length, COUNT = 25;
  const $ = (id) => document.getElementById(id);
  const heads = Object.keys(data.heads);
  let by = heads[0], start = 0, open = null;
  const number = (v) => v === null || v === undefined ? "–" : Number.isInteger(v)
    ? v.toLocaleString("en") : String(Number(v.toPrecision(3)));
  const oneIn = (p) => {
    const rows = 1 / Math.max(p, 1e-12);
    if (rows > 9e11) return "1 in more than a trillion";
    const unit = 10 ** Math.max(Math.floor(Math.log10(rows)) - 1, 0);
    return `1 in ${rows < 9.5 ? Number(rows.toPrecision(2))
      : (Math.round(rows / unit) * unit).toLocaleString("en").replaceAll(",", " ")}`;
  };
  const cell = (text, far, head) => {
    const found = document.createElement(head ? "th" : "td");
    found.append(text);
    if (far) found.className = "far";
    return found;
  };

  /* How far in front a key is; of few rows its share of mistakes, its mean error say little. */
  function height(i) {
    const value = columns[by][i];
    if (by === "unusual") return -value;
    return (by === "share" || by === "error") && columns.rows[i] < data.grown ? -1 / (1 + value) - 1 : value;
  }

  function chosen() {
    const wanted = $("k-find").value.toLowerCase();
    return [...Array(total).keys()].filter((i) => String(columns.key[i]).toLowerCase().includes(wanted))
      .sort((a, b) => height(b) - height(a) || a - b);
  }

  const percent = (v) => `${Number((100 * v).toPrecision(3))} %`;
  const shown = {
    unusual: (v) => cell(oneIn(v)), alerts: (v) => cell(number(v), v > 0 && heads.includes("drift")),
    drift: (v) => cell(number(v), v > 1.5), rows: (v) => cell(number(v)), error: (v) => cell(number(v)),
    share: (v) => cell(v === null ? "–" : percent(data.heads.share === "inside" ? 1 - v : v)),
  };

  function picture(told) {
    const shown = (v) => told.rarity ? Math.max(v / Math.LN10, -12) : v;
    const values = told.scores.filter((v) => v !== null).map(shown), limit = shown(told.threshold);
    const low = Math.min(limit, ...values), high = Math.max(limit, ...values), space = high - low || 1;
    const x = (i) => (8 + 984 * i / Math.max(values.length - 1, 1)).toFixed(1);
    const y = (v) => (112 - 104 * (v - low) / space).toFixed(1);
    const points = values.map((v, i) => `${x(i)},${y(v)}`).join(" ");
    const warm = (told.warmup || 0) - told.t + values.length; // before it no alert was shown
    const marks = values.map((v, i) => v < limit && i >= warm ? `<circle cx="${x(i)}" cy="${y(v)}" r="4" fill="#d55e00"/>` : "").join("");
    return `<svg viewBox="0 0 1000 120" preserveAspectRatio="none" role="img" aria-label="latest scores and the level of an alert">`
      + `<line x1="0" x2="1000" y1="${y(limit)}" y2="${y(limit)}" stroke="#1f2933" stroke-width="1.5"/>`
      + `<polyline points="${points}" fill="none" stroke="#0072b2" stroke-width="1.5"/>${marks}</svg>`;
  }

  function young(told) {
    if (told.t >= (told.warmup || 0)) return "";
    return told.shares ? `Before ${number(told.warmup)} rows of a key its alerts are found with what is usual among all keys; the scores above are its own model's. `
      : `No alert is shown before ${number(told.warmup)} rows of a key. `;
  }

  function detail(i) {
    const line = document.createElement("tr"), box = document.createElement("td"), told = data.details[i];
    line.className = "detail";
    box.colSpan = heads.length + 1;
    line.append(box);
    if (!told || !told.scores) {
      box.textContent = "The scores of this key are not in the report: it holds those of the keys that were most unusual, and that had most alerts.";
      return line;
    }
    box.innerHTML = picture(told);
    const words = document.createElement("p");
    words.textContent = `${young(told)}${told.rate_in_words || ""} Above: its latest ${told.scores.length} scores, and the level of an alert. `
      + `Usual: ${told.inputs.slice(0, 12).map((r) => `${r.feature} ${number(r.mean)} ± ${number(r.spread)}`).join(", ")}.`;
    box.append(words);
    return line;
  }

  function named(i) {
    const name = columns.key[i] === "" ? "(empty)" : columns.key[i];
    if (!data.opens) return name;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = name;
    button.setAttribute("aria-expanded", String(open === i));
    button.addEventListener("click", () => { open = open === i ? null : i; draw(); });
    return button;
  }

  function draw() {
    const found = chosen(), last = Math.min(start + COUNT, found.length);
    $("k-rows").replaceChildren(...found.slice(start, last).flatMap((i) => {
      const line = document.createElement("tr");
      line.append(cell(named(i), false, true), ...heads.map((name) => shown[name](columns[name][i])));
      return open === i ? [line, detail(i)] : [line];
    }));
    $("k-place").textContent = found.length ? `${number(start + 1)} to ${number(last)} of ${number(found.length)}` : "no such key";
    $("k-before").disabled = start === 0;
    $("k-after").disabled = last >= found.length;
    for (const button of document.querySelectorAll("[data-by]")) button.setAttribute("aria-pressed", String(button.dataset.by === by));
  }
  for (const button of document.querySelectorAll("[data-by]")) {
    button.addEventListener("click", () => { by = button.dataset.by; start = 0; draw(); });
  }
  $("k-find").addEventListener("input", () => { start = 0; draw(); });
  $("k-before").addEventListener("click", () => { start = Math.max(start - COUNT, 0); draw(); });
  $("k-after").addEventListener("click", () => { start += COUNT; draw(); });
  draw();
})();
</script></section>"""  # noqa: E501
