/* Alerts and incidents: the newest first, more of them when asked for. */
"use strict";

const Alerts = (() => {
  const $ = (id) => document.getElementById(id);
  const FIRST = 10, MORE = 50, PERIOD = 2000;
  let model = "", wanted = FIRST, many = 5, told = -1, asked = 0, timer = 0;
  const unfolded = new Map();  /* incidents that are looked at, by number: the box, when it was filled, what was said */

  function choose(name) {
    model = name;
    wanted = FIRST;
    many = 5;
    told = -1;
    for (const held of unfolded.values()) clearTimeout(held.timer);
    unfolded.clear();
    $("incidents-card").hidden = true;
  }

  const whole = (n) => n.toLocaleString("en");
  const count = (n, word) => `${Page.number(n)} ${word}${n === 1 ? "" : "s"}`;

  function item(head, text, kind) {
    const line = document.createElement("li"), place = document.createElement("b"), why = document.createElement("span");
    if (kind) line.className = kind;
    place.textContent = `${head} `;
    why.textContent = text;
    line.append(place, why);
    return line;
  }

  function place(a) {
    const parts = [`Row ${(a.t - 1).toLocaleString("en")}`];  /* as incidents and outputs count, from 0 */
    if (a.time !== undefined) parts.push(String(a.time));
    if (a.key !== undefined) parts.push(`key ${a.key}`);
    if (a.incident !== undefined) parts.push(`incident ${a.incident}`);
    return `${parts.join(", ")}.`;
  }

  /* From when on there was none. */
  function since(found) {
    if (found.epoch && !found.marks) return "the first row";
    const time = new Date(1000 * found.since).toISOString().slice(0, 16).replace("T", " ");
    return `${time} UTC, when ${Page.service() ? "the service was started or this model made" : "this page began"}`;
  }

  /* `list` is the newest first; `kept` how many could be shown, of `marks` that there were. */
  function draw(list, kept, found) {
    const quiet = found.numbers.held_back || 0, all = found.marks - quiet;
    const shown = list.slice(0, wanted);
    $("alerts-none").hidden = shown.length > 0;
    $("alerts-none").textContent = `None since ${since(found)}.`;
    $("alerts").replaceChildren(...shown.map((a) => {
      const line = item(place(a), Page.reason(a));
      Answers.add(line, a);
      return line;
    }));
    $("alerts-more").hidden = shown.length >= kept;
    const of = all > kept && shown.length >= kept ? `; earlier ones are in the output only` : "";
    $("alerts-words").textContent = shown.length ? `The newest ${count(shown.length, "alert")} of ${Page.number(Math.max(all, kept))}${of}.` : "";
    if (quiet) $("alerts-words").textContent += ` The cool-down has held back ${whole(quiet)}${shown.length ? " more" : ""}.`;
  }

  /* -- incidents ----------------------------------------------------------------------------- */

  /* One incident: a line that unfolds, with its span, its inputs, its keys and its alerts. */
  function unfolding(one, rows) {
    const line = document.createElement("li"), box = document.createElement("details");
    const head = document.createElement("summary"), place = document.createElement("b"), why = document.createElement("span");
    const open = one.state === "open";
    if (open) line.className = "open";
    place.textContent = `Incident ${one.incident}${open ? " (open)" : ""}, since ${one.start ?? `row ${whole(one.start_row)}`}. `;
    why.textContent = one.words;
    head.append(place, why);
    head.dataset.incident = one.incident;
    const focused = document.activeElement && document.activeElement.dataset.incident === String(one.incident);
    if (focused) queueMicrotask(() => head.focus());  /* the list is drawn anew when an alert comes */
    box.append(head);
    const held = unfolded.get(one.incident);
    box.open = held !== undefined;
    if (held) {
      box.append(held.inside);
      clearTimeout(held.timer);
      held.timer = setTimeout(() => detail(one, rows), Math.max(PERIOD - (Date.now() - held.at), 0));
    }
    box.addEventListener("toggle", () => {
      if (box.open === unfolded.has(one.incident)) return;
      if (box.open) {
        unfolded.set(one.incident, {inside: document.createElement("div"), at: 0, said: ""});
        box.append(unfolded.get(one.incident).inside);
        detail(one, rows);
      } else {
        clearTimeout(unfolded.get(one.incident).timer);
        unfolded.get(one.incident).inside.remove();
        unfolded.delete(one.incident);
      }
      Charts.mark([...unfolded.keys()]);
    });
    line.append(box);
    return line;
  }

  function span(one, rows) {
    const box = document.createElement("div"), bar = document.createElement("span");
    const part = (n) => `${100 * n / Math.max(rows, 1)}%`;
    box.className = "span";
    box.setAttribute("aria-hidden", "true");
    bar.style.left = part(one.start_row);
    bar.style.width = part(one.end_row + 1 - one.start_row);
    box.append(bar);
    return box;
  }

  function facts(one, rows) {
    const words = document.createElement("p"), ends = !one.end ? "" : one.start === one.end ? `${one.start}, ` : `${one.start} to ${one.end}, `;
    words.className = "hint";
    const at = `${ends ? "r" : "R"}${one.start_row === one.end_row ? `ow ${whole(one.start_row)}` : `ows ${whole(one.start_row)} to ${whole(one.end_row)}`}`;
    const more = one.keys > (one.key_names || []).length ? ` and ${Page.number(one.keys - one.key_names.length)} more` : "";
    words.textContent = `${ends}${at} of ${whole(rows)}. ${one.key_names ? `Keys: ${one.key_names.join(", ")}${more}.` : ""}`;
    return words;
  }

  function inputs(one) {
    const box = document.createElement("div"), table = document.createElement("table"), body = document.createElement("tbody");
    const row = (cells, tag) => {
      const line = document.createElement("tr");
      line.append(...cells.map((text, i) => {
        const cell = document.createElement(tag || !i ? "th" : "td");
        cell.scope = tag ? "col" : "row";
        cell.textContent = text;
        return cell;
      }));
      return line;
    };
    if (!one.features || !one.features.length) return box;
    const head = document.createElement("thead");
    head.append(row(["input", "in alerts", "spreads from its mean, at most"], "th"));
    body.append(...one.features.map((f) => row([f.name, Page.number(f.alerts), `${f.spreads > 0 ? "+" : "−"}${Page.number(Math.abs(f.spreads))}`])));
    table.append(head, body);
    box.className = "scroll";
    box.append(table);
    return box;
  }

  async function detail(one, rows) {
    const held = unfolded.get(one.incident);
    if (!held) return;
    held.at = Date.now();
    let found = null;
    try {
      const answer = await fetch(`/live/${encodeURIComponent(model)}/incident?number=${one.incident}`, {headers: Page.headers()});
      found = answer.ok ? await answer.json() : null;
    } catch (error) {
      return; // the stream says that there is no connection
    }
    const more = found && unfolded.has(one.incident) ? members(one, found, held) : [];
    held.inside.replaceChildren(span(one, rows), facts(one, rows), inputs(one), ...more);
  }

  /* The alerts of an incident, and buttons to answer all of them. */
  function members(one, found, held) {
    const list = document.createElement("ol"), words = document.createElement("p"), alerts = found.alerts;
    const can = alerts.filter((a) => a.id !== undefined && a.id !== null);
    const some = Page.service() || !can.length ? can : (found.incident.alert_ids || []).map((id) => ({id}));
    list.className = "alerts";
    list.append(...alerts.slice(0, MORE).map((a) => {
      const line = item(place({...a, incident: undefined}), Page.reason(a));
      Answers.add(line, a, `incident ${one.incident}`);
      return line;
    }));
    words.className = "hint";
    const shown = Math.min(alerts.length, MORE);
    const quiet = one.held_back ? `, ${whole(one.held_back)} held back by the cool-down` : "";
    const few = shown ? `${count(shown, "alert")}, newest first, of ${whole(one.alerts)}${quiet}.`
      : `Its alerts are older than those that are kept here${one.held_back ? ", or were held back by the cool-down" : ""}.`;
    words.textContent = shown < one.alerts ? few : "";
    const answered = some.length > 1 ? [Answers.all(some, alerts, held.said, (said) => {
      held.said = said;
      held.inside.querySelector(".answer i").textContent = said;
    })] : [];
    if (some.length < one.alerts && answered.length) words.textContent += ` The two buttons answer ${count(some.length, "alert")} of ${whole(one.alerts)}.`;
    return [...answered, words, list];
  }

  function incidents(found) {
    const list = found.incidents || [], numbers = found.numbers, card = $("incidents-card");
    card.hidden = found.task !== "novelty" || !list.length;
    if (card.hidden) return;
    const total = numbers.incidents ?? list.length, open = list.filter((one) => one.state === "open").length;
    $("incidents-words").textContent = `${count(Math.max(total, list.length), "incident")}${open ? `, ${Page.number(numbers.incidents_open ?? open)} open` : ""}. `
      + "Alerts that belong together are one." + (total > list.length ? ` The latest ${list.length} are listed.` : "");
    $("incidents").replaceChildren(...list.slice(0, many).map((one) => unfolding(one, found.t)));
    $("incidents-more").hidden = list.length <= many;
  }

  async function ask(found) {
    asked = Date.now();
    const headers = Page.headers(), name = model;
    try {
      const answer = await fetch(`/live/${encodeURIComponent(name)}/alerts?count=${wanted}`, {headers});
      if (!answer.ok || name !== model) return;
      const told = await answer.json();
      draw(told.alerts, told.kept, found);
    } catch (error) {
      // the stream says that there is no connection
    }
  }

  /* What is new; a long list is fetched every two seconds at most. */
  function show(found, again) {
    if (!found.alerts || (found.told === told && !again)) return;
    told = found.told;
    incidents(found);
    if (wanted <= found.alerts.length || found.kept <= found.alerts.length) {
      draw([...found.alerts].reverse(), found.kept, found);
      return;
    }
    clearTimeout(timer);
    timer = setTimeout(() => ask(found), again ? 0 : Math.max(PERIOD - (Date.now() - asked), 0));
  }

  $("alerts-more").addEventListener("click", () => {
    wanted = Math.min(wanted + MORE, 2000);
    if (Page.latest()) show(Page.latest(), true);
  });
  $("incidents-more").addEventListener("click", () => { many += 50; if (Page.latest()) incidents(Page.latest()); });
  return {show, choose};
})();
