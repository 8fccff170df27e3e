"""Checks that run inside the browser, as functions of JavaScript."""

AUDIT = r"""() => {
  const found = [], all = (q) => [...document.querySelectorAll(q)];
  const words = (i) => document.getElementById(i)?.textContent || "";
  const named = (e) => (e.getAttribute("aria-labelledby") || "").split(" ").filter((i) => i);
  const labels = (e) => e.labels ? [...e.labels].map((l) => l.textContent).join("") : "";
  const name = (e) => (e.getAttribute("aria-label") || "") + labels(e) + e.textContent
    + named(e).map(words).join("");
  if (!document.documentElement.lang) found.push("no language");
  if (!document.title) found.push("no title");
  for (const tag of ["header", "main", "footer", "h1"])
    if (all(tag).length !== 1) found.push(`not one ${tag}`);
  for (const e of all("button, select, input, a[href], [role=img], [role=region], section"))
    if (!name(e).trim()) found.push(`no name: ${e.outerHTML.slice(0, 80)}`);
  for (const e of all("[aria-labelledby]"))
    for (const i of named(e)) if (!document.getElementById(i)) found.push(`no #${i}`);
  const ids = all("[id]").map((e) => e.id);
  if (new Set(ids).size < ids.length) found.push("an id twice");
  for (const e of all("img")) if (!e.hasAttribute("alt")) found.push("img without alt");
  for (const e of all("table")) if (!e.querySelector("th[scope=col]")) found.push("no headings");
  let level = 1;
  for (const e of all("main h1, main h2, main h3")) {
    if (+e.tagName[1] > level + 1) found.push(`heading ${e.textContent}`);
    level = +e.tagName[1];
  }
  const linear = (x) => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255)
    + 0.0722 * linear(b / 255);
  const rgb = (s) => (s.match(/[\d.]+/g) || []).map(Number);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length === 3 || c[3] > 0.9) return c;
    }
    return [255, 255, 255];
  };
  for (const e of all("body *")) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.offsetParent) continue;
    const a = light(rgb(getComputedStyle(e).color)), b = light(ground(e));
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.push(`contrast ${ratio.toFixed(2)}: ${e.textContent.slice(0, 40)}`);
  }
  for (const e of all("button, select, input"))
    if (e.offsetParent && e.getBoundingClientRect().height < 40) found.push("small target");
  return found;
}"""
"""What a checker of accessibility would complain about: names, landmarks, headings, contrast."""

INKED = """() => [...document.querySelectorAll('.chart')].filter((box) => box.offsetParent)
  .map((box) => {
  let canvas = null;
  const seek = (node) => {
    for (const e of node.querySelectorAll('*')) {
      if (e.tagName === 'CANVAS' && !canvas && e.width > 100) canvas = e;
      if (e.shadowRoot) seek(e.shadowRoot);
    }
  };
  seek(box);
  if (!canvas) return 0;
  const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let i = 0; i < data.length; i += 4) {
    const color = [data[i], data[i + 1], data[i + 2]];
    if (data[i + 3] > 100 && Math.max(...color) - Math.min(...color) > 60) count++;
  }
  return count;
})"""
"""Coloured points in each chart."""

FRAMES = """() => new Promise((done) => {
  let longest = 0, last = performance.now();
  const stop = last + 2000;
  const tick = () => {
    const now = performance.now();
    longest = Math.max(longest, now - last);
    last = now;
    now < stop ? requestAnimationFrame(tick) : done(longest);
  };
  requestAnimationFrame(tick);
})"""
"""The longest time between two frames, in milliseconds."""
