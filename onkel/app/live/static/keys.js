/* The keys of a model: a table that can be searched and sorted, and one of them in detail. */
"use strict";

const Keys = (() => {
  const $ = (id) => document.getElementById(id);
  const COUNT = 20, PERIOD = 2000;
  /* What is told of a key, by task: a column's head, and how keys are sorted by it. */
  const COLUMNS = {
    novelty: {unusual: ["latest rows", "most unusual now"], alerts: ["alerts", "most alerts"], drift: ["drift, spreads", "most drift"]},
    classification: {share: ["mistakes, share", "largest share of mistakes"], alerts: ["mistakes", "most mistakes"]},
    regression: {error: ["mean error", "largest mean error"], share: ["inside", "most outside"]},
  };
  const ALL = {rows: ["rows", "most rows"], latest: ["", "heard last"]};
  let model = "", keyed = false, columns = "", start = 0, one = null, busy = false, again = false, source = null, rare = false;

  const show = (id, on) => { $(id).hidden = !on; };
  const address = () => {
    const asked = new URLSearchParams({model});
    if (one !== null) { asked.set("key", one.text); if (one.whole) asked.set("kind", "number"); }
    history.replaceState(null, "", `?${asked}`);
  };

  /* A model was chosen; the address may name one of its keys. */
  function choose(name, asked) {
    model = name;
    keyed = false;
    columns = "";
    start = 0;
    const key = asked.get("model") === name ? asked.get("key") : null;
    one = key === null ? null : {text: key, whole: asked.get("kind") === "number"};
    show("keys-card", false);
    show("key-card", false);
  }

  function update(found) {
    if (found.keyed === keyed) return;
    keyed = found.keyed;
    refresh();
  }

  async function get(path, asked) {
    try {
      const answer = await fetch(`/live/${encodeURIComponent(model)}/${path}?${new URLSearchParams(asked)}`, {headers: Page.headers()});
      return answer.ok ? answer.json() : null;
    } catch (error) {
      return null; // the stream says that there is no connection
    }
  }

  async function refresh() {
    again = busy;
    if (!keyed || busy || document.hidden) return;
    busy = true;
    try {
      if (one === null) await table(); else await detail();
    } finally {
      busy = false;
    }
    if (again) refresh(); // something else was asked for meanwhile
  }

  /* -- the table ------------------------------------------------------------------------------ */

  const usual = (p) => Page.oneIn(Math.log(Math.max(p, 1e-300)));

  const words = (task, name) => COLUMNS[task][name] || ALL[name];

  /* The heads of the table, and what it may be sorted by. */
  function begin(task, shown) {
    if (columns === `${task} ${shown}`) return;
    columns = `${task} ${shown}`;
    $("keys-head").replaceChildren(...["key", ...shown].map((name) => {
      const head = document.createElement("th");
      head.scope = "col";
      head.textContent = name === "key" ? name : words(task, name)[0];
      return head;
    }));
    const asked = $("keys-by").value, sorts = [...shown, "latest"];
    $("keys-by").replaceChildren(...sorts.map((name) => new Option(words(task, name)[1], name)));
    $("keys-by").value = sorts.includes(asked) ? asked : sorts[0];
  }

  function named(row, opens) {
    const name = document.createElement("th"), text = row.text === "" ? "(empty)" : row.text;
    name.scope = "row";
    name.textContent = opens ? "" : text;
    if (!opens) return name;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.addEventListener("click", () => open(row));
    name.append(button);
    return name;
  }

  const percent = (v) => v === null || v === undefined ? "–" : `${Number((100 * v).toPrecision(3))} %`;

  function cell(row, name, task) {
    const made = document.createElement("td"), value = row[name];
    if (name === "unusual") {
      const bar = document.createElement("span");
      bar.className = "bar";
      bar.style.width = `${Math.min(-Math.log10(Math.max(value, 1e-12)) / 6, 1) * 6}rem`;
      bar.setAttribute("aria-hidden", "true");
      made.append(bar, usual(value));
    } else if (name === "share") made.textContent = percent(task === "regression" && value !== null ? 1 - value : value);
    else made.textContent = Page.number(value, name === "drift" ? 2 : 3);
    if ((name === "alerts" && task === "novelty" && value > 0) || (name === "drift" && value > 1.5)) made.className = "far";
    return made;
  }

  function line(row, found, task) {
    const tr = document.createElement("tr");
    tr.append(named(row, found.opens), ...found.shown.map((name) => cell(row, name, task)));
    return tr;
  }

  /* What the table shows, in a few sentences. */
  function about(found, task) {
    const shows = (name) => found.shown.includes(name), heard = found.lasting ? "" : " were heard since this page began";
    const keys = `${Page.number(found.keys)} ${found.keys === 1 ? "key" : "keys"}${heard}`;
    if (task !== "novelty") {
      return `${keys}. ${task === "regression" ? "“Inside” is the share of targets inside their intervals. " : ""}`
        + "By shares and mean errors, keys with fewer than 50 rows come last.";
    }
    const told = [`${Page.number(found.keys_with_alerts)} had alerts`];
    if (shows("unusual")) told.push(`${Page.number(found.keys_unusual)} ${found.keys_unusual === 1 ? "is" : "are"} unusual now`);
    if (shows("drift")) told.push(`${Page.number(found.keys_drifting)} ${found.keys_drifting === 1 ? "drifts" : "drift"}`);
    return `${keys}; ${told.join(", ")}. `
      + (shows("unusual") ? "“Latest rows” is how rare the latest ten rows of a key are, on the mean, by its own past." : "");
  }

  async function table() {
    const asked = {search: $("keys-search").value, start, count: COUNT}, task = Page.latest().task;
    if (columns) asked.by = $("keys-by").value;
    const found = await get("keys", asked);
    if (!found || one !== null) return;
    begin(task, found.shown);
    show("keys-card", true);
    show("key-card", false);
    $("keys-words").textContent = about(found, task);
    if (!$("keys").contains(document.activeElement)) $("keys").replaceChildren(...found.rows_told.map((row) => line(row, found, task)));
    const last = Math.min(start + COUNT, found.found);
    $("keys-place").textContent = found.found ? `${Page.number(start + 1)} to ${Page.number(last)} of ${Page.number(found.found)}` : found.keys ? "no such key" : "none yet";
    $("keys-before").disabled = start === 0;
    $("keys-after").disabled = last >= found.found;
  }

  /* -- one key -------------------------------------------------------------------------------- */

  function open(row) {
    one = {text: row.text, whole: row.whole}; // a whole number may have more bits than a browser's
    source = null;
    address();
    refresh();
    $("key-back").focus();
  }

  function back() {
    one = null;
    address();
    refresh();
  }

  function tiles(found) {
    const list = [["rows learned", Page.number(found.t)], ["alerts, this run", Page.number(found.alerts ?? 0)],
      ["latest rows", found.unusual === undefined ? "–" : usual(found.unusual)],
      ["drift, in spreads", Page.number(found.drift, 2)], ["rate promised", percent(found.rate_promised)],
      ["rate realised", percent(found.rate_realised)], ["terms stored", Page.number(found.terms)]];
    $("key-tiles").replaceChildren(...list.map(([name, value]) => {
      const tile = document.createElement("div"), dt = document.createElement("dt"), dd = document.createElement("dd");
      dt.textContent = name;
      dd.textContent = value;
      tile.append(dt, dd);
      return tile;
    }));
  }

  function young(found) {
    if (found.t >= (found.warmup ?? 0)) return "";
    const rows = `${Page.number(found.warmup)} rows of a key`;
    return found.shares ? `Before ${rows} its alerts are found with what is usual among all keys; the scores below are its own model's, which alerts from then on. `
      : `No alert is shown before ${rows}. `;
  }

  async function detail() {
    const asked = {key: one.text};
    if (one.whole) asked.kind = "number";
    const found = await get("key", asked);
    if (one === null) return;
    show("keys-card", false);
    show("key-card", true);
    $("key-title").textContent = `Key ${one.text === "" ? "(empty)" : one.text}`;
    if (!found) {
      $("key-words").textContent = "This key is not known.";
      return;
    }
    $("key-words").textContent = young(found) + (found.rate_in_words || "") + " Below: its latest scores, the newest on the right, and the level of an alert.";
    tiles(found);
    draw(found);
    $("key-inputs").replaceChildren(...(found.inputs || []).map((r) => {
      const line = document.createElement("tr"), name = document.createElement("th"), cell = document.createElement("td");
      name.scope = "row";
      name.textContent = r.feature;
      cell.textContent = `${Page.number(r.mean)} ± ${Page.number(r.spread, 2)}`;
      line.append(name, cell);
      return line;
    }));
    const own = ((Page.latest() || {}).alerts || []).filter((a) => a.key === one.text && Boolean(a.whole) === one.whole).reverse();
    show("key-alerts-none", !own.length);
    $("key-alerts").replaceChildren(...own.map((a) => {
      const item = document.createElement("li"), place = document.createElement("b"), why = document.createElement("span");
      place.textContent = `Row ${(a.t - 1).toLocaleString("en")}. `;
      why.textContent = Page.reason(a);
      item.append(place, why);
      Answers.add(item, a, "key");
      return item;
    }));
  }

  function draw(found) {
    if (!Charts.there() || !found.scores) return;
    if (source === null || rare !== found.rarity) {
      rare = found.rarity;
      source = Charts.single("key-score", rare);
    }
    const warm = (found.warmup ?? 0) - found.t + found.scores.length; // before it no alert was shown
    Charts.fill(source, found.scores, found.threshold, rare, warm);
  }

  let typing = 0;
  $("keys-search").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => { start = 0; refresh(); }, 200);
  });
  $("keys-find").addEventListener("submit", (event) => { event.preventDefault(); start = 0; refresh(); });
  $("keys-by").addEventListener("change", () => { start = 0; refresh(); });
  $("keys-before").addEventListener("click", () => { start = Math.max(start - COUNT, 0); refresh(); });
  $("keys-after").addEventListener("click", () => { start += COUNT; refresh(); });
  $("key-back").addEventListener("click", back);
  setInterval(() => { if (!Page.paused()) refresh(); }, PERIOD);
  return {show: update, choose};
})();
