/* Answers to alerts: two buttons at each, what was said, and what was promised of answers. */
"use strict";

window.Answers = (() => {
  const given = new Map();  /* what this page has sent, until the server shows it itself */
  const boxes = new Map();  /* the rows as they were drawn last, by the same names */
  const name = (a) => `${Page.latest() ? Page.latest().model : ""}\n${a.key === undefined ? "" : a.key}\n${a.id}`;
  const words = {usual: "usual", fault: "a fault"};

  function written(a, answer) {
    const key = Page.service() && a.key !== undefined ? `, "key": ${a.whole ? a.key : JSON.stringify(a.key)}` : "";
    return `{"id": ${JSON.stringify(a.id)}, "answer": "${answer}"${key}}`;  /* whole keys have up to 64 bits */
  }

  /* Several are taken all or none. */
  async function send(some, answer) {
    const model = encodeURIComponent(Page.latest().model);
    const body = some.length === 1 ? written(some[0], answer) : `{"answers": [${some.map((a) => written(a, answer)).join(", ")}]}`;
    const path = Page.service() ? `/models/${model}/feedback` : `/live/${model}/feedback`;
    const reply = await fetch(path, {method: "POST", body,
      headers: {...Page.headers(), "Content-Type": "application/json"}});
    if (!reply.ok) throw new Error((await reply.json()).error.message);
  }

  const waits = (a) => a.waits ? `; ${a.waits}` : "";

  function button(a, answer, text, box, item) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.dataset.answer = `${name(a)}\n${answer}\n${box.dataset.where}`;
    made.setAttribute("aria-label", `${text}: the alert at row ${a.t - 1}${a.key === undefined ? "" : `, key ${a.key}`}`);
    made.addEventListener("click", async () => {
      const before = given.get(name(a));
      given.set(name(a), {answer, state: "sending"});
      fill(box, a, item, true);
      try {
        await send([a], answer);
        given.set(name(a), {answer, state: "sent"});
      } catch (error) {
        given.set(name(a), {...(before || {}), state: "failed", why: error.message});
      }
      redraw(box, a, item);
    });
    keep(made);
    return made;
  }

  /* The list is drawn anew when an alert comes: who was at a button is at it again. */
  function keep(made) {
    const at = document.activeElement;
    if (at && at.dataset.answer === made.dataset.answer) queueMicrotask(() => made.focus());
  }

  /* The list may have been drawn anew while the answer was on its way: then the new row is filled. */
  function redraw(box, a, item) {
    const now = (Page.latest().alerts || []).find((b) => name(b) === name(a)) || a;
    const there = boxes.get(`${box.dataset.where}\n${name(a)}`) || {box, item};
    fill(there.box, now, there.item, there.box.contains(document.activeElement));
  }

  function fill(box, a, item, mine) {
    const own = given.get(name(a));
    if (own && own.state === "sent" && a.answer === own.answer) given.delete(name(a));
    const answer = own && own.answer ? own.answer : a.answer;
    const told = document.createElement("i");
    if (own && own.state === "failed") told.textContent = `That could not be said: ${own.why} `;
    else if (a.refused) told.textContent = `That could not be taken in: ${a.refused} `;
    else if (own && own.state === "sending") told.textContent = `Saying: ${words[answer]} … `;
    else if (answer) told.textContent = `Said: ${words[answer]}${a.answer === answer || Page.service() ? waits(a) : ", on its way"}. `;
    const other = answer === "usual" ? "fault" : "usual";
    const made = answer ? [button(a, other, other === "usual" ? "No, usual" : "No, a fault", box, item)]
      : [button(a, "usual", "Usual", box, item), button(a, "fault", "Fault", box, item)];
    box.replaceChildren(...(told.textContent ? [told] : []), ...made);
    item.classList.toggle("dismissed", answer === "usual");
    if (mine) made[0].focus();
  }

  return {
    /* Give the row of an alert its buttons, if it can be answered. */
    add(item, a, where = "all") {  /* in which of the lists */
      if (a.id === undefined || a.id === null) return;
      const box = document.createElement("span");
      box.className = "answer";
      box.dataset.where = where;
      boxes.set(`${where}\n${name(a)}`, {box, item});
      fill(box, a, item, false);
      item.append(box);
    },
    /* Buttons that answer all of some alerts at once; `shown` are those of them that the page has. */
    all(some, shown, said, done) {
      const box = document.createElement("p"), told = document.createElement("i");
      box.className = "answer";
      const times = (answer) => shown.filter((a) => a.answer === answer).length;
      const counts = [["usual", "usual"], ["fault", "a fault"]].filter(([answer]) => times(answer)).map(([answer, text]) => `${times(answer)} ${text}`);
      told.textContent = said || (counts.length ? `Said so far: ${counts.join(", ")}, of ${some.length}. ` : "");
      const made = [["usual", "All usual"], ["fault", "All faults"]].map(([answer, text]) => {
        const one = document.createElement("button");
        one.type = "button";
        one.textContent = text;
        one.dataset.answer = `all\n${some[0].id}\n${answer}`;
        one.setAttribute("aria-label", `${text}: ${some.length} alerts`);
        keep(one);
        one.addEventListener("click", async () => {
          told.textContent = `Saying: ${some.length} alerts, ${words[answer]} … `;
          try {
            await send(some, answer);
            done(`Said: ${some.length} alerts, ${words[answer]}. `);
          } catch (error) {
            done(`That could not be said: ${error.message} `);
          }
        });
        return one;
      });
      box.append(told, ...made);
      return box;
    },
    /* Tiles: what was promised of answered alerts, and what came of it. */
    tiles(n, percent) {
      if (n.precision_promised === null || n.precision_promised === undefined) return [];
      return [["faults among answered, promised", percent(n.precision_promised)],
        ["faults among answered, realised", percent(n.precision_realised)]];
    },
  };
})();
