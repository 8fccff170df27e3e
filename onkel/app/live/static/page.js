/* The live page: one stream of events for the model that is chosen. */
"use strict";

(() => {
  const $ = (id) => document.getElementById(id);
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const WORDS = {
    novelty: {marks: "alerts", rate: "Alert rate", score: "Score and threshold",
      keys: [["band", "scores, lowest to highest"], ["", "mean score"], ["limit", "threshold"], ["mark", "alert"], ["strip", "incident"]]},
    rarity: {marks: "alerts", rate: "Alert rate", score: "How rare rows are",
      keys: [["band", "rows, rarest to most usual"], ["", "mean"], ["limit", "level of an alert"], ["mark", "alert"], ["strip", "incident"]]},
    classification: {marks: "mistakes", rate: "Mistakes", score: "Mistakes of late",
      keys: [["", "share of mistakes in each stretch of rows"]]},
    regression: {marks: "outside", rate: "Coverage", score: "Size of the error",
      keys: [["band", "errors, smallest to largest"], ["", "mean error"], ["limit", "half-width of the interval"], ["mark", "outside"]]},
  };
  /* What keys.js needs of this page. */
  window.Page = {headers: () => headers(), number: (...v) => number(...v), oneIn: (v) => oneIn(v), reason: (a) => reason(a),
    latest: () => latest, paused: () => paused, service: () => service};
  let token = sessionStorage.getItem("onkel-token") || "";
  let model = new URLSearchParams(location.search).get("model") || "";
  let task = "", rarity = false, members = [], paused = false, ending = null, waiting = [], latest = null, drawn = 0, seen = -1, spoken = 0, service = false;

  const headers = () => token ? {Authorization: `Bearer ${token}`} : {};
  const number = (v, digits = 3) => v === null || v === undefined || !isFinite(v) ? "–"
    : Math.abs(v) >= 1e4 ? Math.round(v).toLocaleString("en") : Number.isInteger(v) ? v.toLocaleString("en") : String(Number(v.toPrecision(digits)));
  const percent = (v) => v === null || v === undefined || !isFinite(v) ? "–" : `${Number((100 * v).toPrecision(3))} %`;

  /* How rare a score that is log p is: as explain.one_in says it. */
  function oneIn(log) {
    const rows = Math.exp(-Math.min(log, 0)), unit = 10 ** Math.max(Math.floor(Math.log10(rows)) - 1, 0);
    if (log < -27.6) return "1 in more than a trillion";
    if (rows < 9.5) return `1 in ${Number(rows.toPrecision(2))}`;
    return `1 in ${(Math.round(rows / unit) * unit).toLocaleString("en").replaceAll(",", " ")}`;
  }
  const shown = (v) => rarity && v !== null && v !== undefined ? oneIn(v) : number(v);

  function say(words, kind) {
    if ($("state").textContent !== words) $("state").textContent = words;
    $("dot").className = `dot ${kind}`;
  }

  /* -- drawing ------------------------------------------------------------------------------ */

  function legend(id, keys) {
    $(id).replaceChildren(...keys.map(([kind, words]) => {
      const item = document.createElement("li"), key = document.createElement("span");
      key.className = `key ${kind}`;
      key.setAttribute("aria-hidden", "true");
      item.append(key, words);
      return item;
    }));
  }

  /* The settings of a self-tuning model, each with its colour; of other models nothing. */
  function settings(names) {
    members = names;
    $("members-card").hidden = !names.length;
    legend("members-legend", names.map((name) => ["band", name]));
    [...$("members-legend").children].forEach((item, i) => { item.firstChild.style.background = Charts.shade(i); });
  }

  function begin(found) {
    task = found.task;
    rarity = Boolean(found.numbers.rarity);
    settings(found.numbers.members || []);
    const words = WORDS[rarity ? "rarity" : task];
    $("title").replaceChildren(found.model, " ");
    const small = document.createElement("small");
    small.textContent = task;
    $("title").append(small);
    document.title = `${found.model} · onkel`;
    $("score-title").textContent = words.score;
    $("rate-title").textContent = words.rate;
    $("alerts-card").hidden = task !== "novelty";
    const whole = found.epoch > 0; // a run from its first row on: of speed, drift and single errors nothing is known
    legend("score-legend", whole && task === "regression" ? [["", "mean error of each stretch of rows"]] : words.keys);
    for (const key of $("score-legend").querySelectorAll(".strip")) key.parentElement.hidden = true; // until one is drawn
    const so = [["sky", "of late"], ["", "since the start"]];
    legend("rate-legend", task === "classification" ? so : [["dash", "promised"], ...so]);
    legend("speed-legend", [["green", "examples per second"]]);
    legend("terms-legend", [["", "terms"]]);
    legend("drift-legend", [["amber", "largest drift of a mean, in spreads"]]);
    for (const id of ["speed", "terms", "drift"]) $(id).parentElement.hidden = whole;
    $("rate").parentElement.classList.toggle("wide", whole);
    $("moments-card").hidden = whole;
    Charts.start(task, rarity, members.length, whole);
    seen = -1;
  }

  function tiles(found) {
    const n = found.numbers, flip = task === "regression";
    const rate = (v) => v === null || v === undefined ? v : flip ? 1 - v : v;
    const list = [["examples", number(found.t)]];
    if (!found.epoch) list.push(["examples per second", number(found.speed)]);
    $("terms-card").hidden = found.keyed || found.epoch > 0;
    $("drift-card").classList.toggle("wide", found.keyed);
    if (n.keys !== undefined) list.push(["keys", number(n.keys)]);
    else if (n.terms !== undefined || !found.epoch) list.push(["terms stored", number(n.terms)]);
    if (task === "classification") list.push(["mistakes", number(n.mistakes), "mark"], ["share of mistakes", percent(n.realised)]);
    else if (n.promised !== null && n.promised !== undefined) {
      const what = flip ? "coverage" : "rate";
      const names = rarity ? ["promised, usual rows", "realised, all rows"] : [`${what} promised`, `${what} realised`];
      list.push([names[0], percent(rate(n.promised))], [names[1], percent(rate(n.realised))]);
    }
    if (n.error !== null && n.error !== undefined) list.push(["mean error", number(n.error)]);
    if (task === "novelty") list.push(["alerts, this run", number(found.marks), found.marks ? "mark" : ""]);
    list.push(...Answers.tiles(n, percent));
    if (n.incidents !== undefined) list.push(["incidents", number(n.incidents)]);
    if (n.held_back) list.push(["alerts held back", number(n.held_back)]);
    if (n.bytes) list.push(["memory", `${number(n.bytes / 1e6)} MB`]);
    const box = $("tiles");
    if (box.children.length !== list.length) {
      box.replaceChildren(...list.map(() => {
        const tile = document.createElement("div");
        tile.append(document.createElement("dt"), document.createElement("dd"));
        return tile;
      }));
    }
    list.forEach(([name, value, kind], i) => {
      const tile = box.children[i];
      tile.className = kind || "";
      tile.firstChild.textContent = name;
      tile.lastChild.textContent = value;
    });
    const warm = n.warmup ? `No alert is shown in the first ${number(n.warmup)} rows of a model. ` : "";
    $("words").textContent = warm + (n.words || "");
  }

  function moments(rows) {
    $("moments-card").hidden = Boolean(latest && latest.epoch && !rows.length);
    $("moments").replaceChildren(...rows.map((r) => {
      const line = document.createElement("tr");
      const sign = r.drift > 0 ? "+" : r.drift < 0 ? "−" : "";
      const cells = [r.feature, `${sign}${number(Math.abs(r.drift), 2)}`,
        `${number(r.late_mean)} ± ${number(r.late_spread, 2)}`, `${number(r.mean)} ± ${number(r.spread, 2)}`];
      cells.forEach((text, i) => {
        const cell = document.createElement(i ? "td" : "th");
        if (!i) cell.scope = "row";
        if (i === 1 && Math.abs(r.drift) > 0.5) cell.className = "far";
        cell.textContent = text;
        line.append(cell);
      });
      return line;
    }));
  }

  function reason(a) {
    if (!rarity) return a.sentence || `Score ${number(a.score)} below the threshold ${number(a.threshold)}.`;
    if (a.sentence && a.sentence.startsWith("Alert")) return a.sentence;
    return `${oneIn(a.score)} is as unusual (alerts from ${oneIn(a.threshold)}). ${a.sentence || ""}`;
  }

  /* A screen reader hears of new alerts every ten seconds at most. */
  function announce(list) {
    const now = Date.now();
    if (!list.length || now - spoken < 10000) return;
    spoken = now;
    const a = list[list.length - 1];
    $("news").textContent = `Alert at row ${a.t - 1}. ${reason(a)}`;
  }

  function describe(found) {
    const b = found.buckets.length ? found.buckets[found.buckets.length - 1] : null;
    if (!b) return;
    $("score-words").textContent = `Now ${shown(b.mean)}${b.limit === null ? "" : `, limit ${shown(b.limit)}`}.`;
    $("rate-words").textContent = `Promised ${percent(b.promised)}, realised ${percent(b.realised)}.`;
  }

  function draw() {
    const found = latest;
    if (!found || paused || document.hidden) return;
    const other = (found.numbers.members || []).join() !== members.join();
    if (found.task !== task || found.model !== model || Boolean(found.numbers.rarity) !== rarity || other) {
      model = found.model;
      begin(found);
    }
    Charts.add(waiting, task === "regression");
    waiting = [];
    tiles(found);
    Keys.show(found);
    if (calm.matches || performance.now() - drawn > 900) {
      drawn = performance.now();
      moments(found.drift);
      describe(found);
      if ($("leads").textContent !== (found.numbers.leads || "")) $("leads").textContent = found.numbers.leads || "";
    }
    if (found.alerts && found.told !== seen) {
      seen = found.told;
      Alerts.show(found);
      Charts.incidents(found.strips || []);
      announce(found.alerts);
    }
  }

  /* -- the stream --------------------------------------------------------------------------- */

  function take(found) {
    if (latest && !found.alerts) for (const name of ["alerts", "kept", "incidents", "strips"]) found[name] = latest[name];
    if (latest && latest.epoch !== found.epoch) { task = ""; waiting = []; } // all buckets are others
    latest = found;
    waiting = [...waiting, ...found.buckets].slice(-800);
    if (found.finished) say("not running", "");
    else say(found.speed > 0 ? "live" : "waiting for examples", found.speed > 0 ? "live" : "");
  }

  async function follow(name) {
    if (ending) ending.abort();
    ending = new AbortController();
    const own = ending;
    while (!own.signal.aborted) {
      try {
        const answer = await fetch(`/live/${encodeURIComponent(name)}`, {headers: headers(), signal: own.signal});
        if (answer.status === 404) return choose();
        if (!answer.ok) throw new Error(String(answer.status));
        await read(answer.body.getReader(), own);
      } catch (error) {
        if (own.signal.aborted) return;
        say("not connected, trying again", "off");
      }
      await new Promise((done) => setTimeout(done, 1000));
    }
  }

  async function read(reader, own) {
    const decoder = new TextDecoder();
    for (let text = ""; ;) {
      const {done, value} = await reader.read();
      if (done || own.signal.aborted) return;
      text += decoder.decode(value, {stream: true});
      const events = text.split("\n\n");
      text = events.pop();
      for (const event of events) if (event.startsWith("data: ")) take(JSON.parse(event.slice(6)));
    }
  }

  /* -- which model -------------------------------------------------------------------------- */

  async function models() {
    const answer = await fetch("/live", {headers: headers()});
    if (answer.status === 401) {
      $("ask").hidden = false;
      $("main").hidden = true;
      $("ask-error").textContent = token ? "That is not the token." : "";
      if (document.activeElement !== $("token")) $("token").focus();
      throw new Error("token");
    }
    $("ask").hidden = true;
    $("main").hidden = false;
    const found = await answer.json();
    service = found.service;
    $("links").hidden = !service;
    return found.models;
  }

  function fill(list) {
    const box = $("model"), names = list.map((m) => m.name);
    const old = [...box.options].map((o) => o.value);
    box.disabled = !names.length;
    if (names.length && names.join("\n") !== old.join("\n")) {
      box.replaceChildren(...list.map((m) => new Option(`${m.name} (${m.task})`, m.name)));
    }
    if (model) box.value = model;
  }

  async function choose() {
    for (;;) {
      try {
        const list = await models();
        fill(list);
        if (list.length) {
          const wanted = list.find((m) => m.name === model) || [...list].sort((a, b) => b.t - a.t)[0];
          show(wanted.name);
          return;
        }
        say("no model yet", "");
      } catch (error) {
        if (error.message === "token") return;
        say("not connected, trying again", "off");
      }
      await new Promise((done) => setTimeout(done, 1000));
    }
  }

  function show(name) {
    model = name;
    task = "";
    waiting = [];
    latest = null;
    $("model").value = name;
    const asked = new URLSearchParams(location.search);
    const key = asked.get("model") === name ? asked.get("key") : null;
    history.replaceState(null, "", `?model=${encodeURIComponent(name)}${key === null ? "" : `&${keyed(asked)}`}`);
    Keys.choose(name, asked);
    Alerts.choose(name);
    follow(name);
  }

  const keyed = (asked) => new URLSearchParams([...asked].filter(([n]) => n === "key" || n === "kind")).toString();

  $("model").addEventListener("change", (event) => show(event.target.value));
  $("pause").addEventListener("click", () => {
    paused = !paused;
    $("pause").setAttribute("aria-pressed", String(paused));
    $("pause").textContent = paused ? "Resume" : "Pause";
  });
  $("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    token = $("token").value.trim();
    sessionStorage.setItem("onkel-token", token);
    choose();
  });
  setInterval(draw, calm.matches ? 1000 : 100);
  setInterval(() => { if ($("ask").hidden) models().then(fill).catch(() => {}); }, 5000);
  choose();
})();
