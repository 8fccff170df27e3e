/* Alerts and incidents: the newest first, more of them when asked for. */
"use strict";

const Alerts = (() => {
  const $ = (id) => document.getElementById(id);
  const FIRST = 10, MORE = 50, PERIOD = 2000;
  let model = "", wanted = FIRST, many = 5, told = -1, asked = 0, timer = 0;

  function choose(name) {
    model = name;
    wanted = FIRST;
    many = 5;
    told = -1;
    $("incidents-card").hidden = true;
  }

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
    const parts = [`Example ${a.t.toLocaleString("en")}`];
    if (a.time !== undefined) parts.push(String(a.time));
    if (a.key !== undefined) parts.push(`key ${a.key}`);
    if (a.incident !== undefined) parts.push(`incident ${a.incident}`);
    return `${parts.join(", ")}.`;
  }

  /* `list` is the newest first; `kept` how many could be shown, of `all` that there were. */
  function draw(list, kept, all) {
    const shown = list.slice(0, wanted);
    $("alerts-none").hidden = shown.length > 0;
    $("alerts").replaceChildren(...shown.map((a) => {
      const line = item(place(a), Page.reason(a));
      Answers.add(line, a);
      return line;
    }));
    $("alerts-more").hidden = shown.length >= kept;
    const of = all > kept && shown.length >= kept ? `; earlier ones are in the output only` : "";
    $("alerts-words").textContent = shown.length ? `The newest ${count(shown.length, "alert")} of ${Page.number(Math.max(all, kept))}${of}.` : "";
  }

  function incidents(found) {
    const list = found.incidents || [], numbers = found.numbers, card = $("incidents-card");
    card.hidden = found.task !== "novelty" || !list.length;
    if (card.hidden) return;
    const total = numbers.incidents ?? list.length, open = list.filter((one) => one.state === "open").length;
    $("incidents-words").textContent = `${count(Math.max(total, list.length), "incident")}${open ? `, ${Page.number(numbers.incidents_open ?? open)} open` : ""}. `
      + "Alerts that belong together are one.";
    $("incidents").replaceChildren(...list.slice(0, many).map((one) => {
      const began = one.start ?? `row ${one.start_row.toLocaleString("en")}`;
      return item(`Incident ${one.incident}${one.state === "open" ? " (open)" : ""}, since ${began}.`, one.words, one.state === "open" ? "open" : "");
    }));
    $("incidents-more").hidden = list.length <= many;
  }

  async function ask(found) {
    asked = Date.now();
    const headers = Page.headers(), name = model;
    try {
      const answer = await fetch(`/live/${encodeURIComponent(name)}/alerts?count=${wanted}`, {headers});
      if (!answer.ok || name !== model) return;
      const told = await answer.json();
      draw(told.alerts, told.kept, found.marks);
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
      draw([...found.alerts].reverse(), found.kept, found.marks);
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
