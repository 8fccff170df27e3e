/* The charts: each has a Bokeh source of its own, all of which gain a few points ten times a second. */
"use strict";

const Charts = (() => {
  const BLUE = "#0072b2", SKY = "#56b4e9", GREEN = "#009e73", AMBER = "#e69f00", RED = "#d55e00", INK = "#1f2933";
  /* One for each setting of a self-tuning model; there may be more of them than colours. */
  const SHADES = [BLUE, AMBER, GREEN, RED, SKY, "#cc79a7", "#f0e442", "#8c6bb1", "#6b7680", "#a6761d", "#1f2933", "#b2df8a"];
  const KEPT = 800;
  /* Scores that are log p are drawn as powers of ten, and named; rarer than the last is drawn there. */
  const RARITIES = [[0, "1 in 1"], [-2, "1 in 100"], [-4, "1 in 10 000"], [-6, "1 in a million"], [-9, "1 in a billion"],
    [-12, "1 in a trillion"]];
  const SCORES = ["low", "high", "mean", "limit", "peak"];
  const power = (v) => v === null || v === undefined ? v : Math.max(v / Math.LN10, -12);
  const there = () => Boolean(window.Bokeh && Bokeh.Plotting);
  let strips = null;
  let sources = [], axes = [], hidden = [], last = -1, recent = [], rarity = false, settings = 0;
  const shade = (i) => SHADES[i % SHADES.length];
  const SUMS = (count) => Array.from({length: count + 1}, (_, i) => `sum${i}`);

  function figure(id, label, format, ofStream = true) {
    const box = document.getElementById(id);
    const plot = Bokeh.Plotting.figure({
      sizing_mode: "stretch_both", tools: [], toolbar_location: null, y_axis_label: label,
      min_border_right: 14, output_backend: "canvas",
    });
    plot.outline_line_color = null;
    plot.xgrid.grid_line_color = null;
    plot.ygrid.grid_line_color = "#e6e9ec";
    const [x] = plot.xaxis, [y] = plot.yaxis;
    for (const axis of [x, y]) {
      axis.axis_line_color = axis.major_tick_line_color = "#b8c0c7";
      axis.minor_tick_line_color = null;
      axis.axis_label_text_color = axis.major_label_text_color = "#52606d";
      axis.axis_label_text_font_style = "normal";
      axis.axis_label_text_font_size = axis.major_label_text_font_size = "12px";
    }
    x.formatter = new Bokeh.NumeralTickFormatter({format: "0.[0]a"});
    x.ticker.desired_num_ticks = 5;
    y.ticker.desired_num_ticks = 5;
    if (id === "score") x.axis_label = "example";
    if (ofStream) axes.push(x);
    if (format) y.formatter = new Bokeh.NumeralTickFormatter({format});
    if (format === "0,0") y.ticker.min_interval = 1; // else one whole number stands twice
    const inside = document.createElement("div");
    inside.className = "inside";
    inside.inert = true; // a picture: nothing in it takes the keyboard
    box.replaceChildren(inside);
    if (ofStream) hidden.push({plot, inside, source: null}); // until there is something to draw
    else Bokeh.Plotting.show(plot, inside);
    return plot;
  }
  const f = (field) => ({field});

  function nameRarities(plot) {
    const [y] = plot.yaxis;
    y.ticker = plot.ygrid.ticker = new Bokeh.FixedTicker({ticks: RARITIES.map(([at]) => at)});
    y.major_label_overrides = new Map(RARITIES);
  }

  /* A source for the newest chart: Bokeh lets no two documents share one. */
  function fresh(names) {
    const source = new Bokeh.ColumnDataSource({data: Object.fromEntries(names.map((c) => [c, []]))});
    sources.push(source);
    hidden[hidden.length - 1].source = source;
    return source;
  }

  /* Show the charts that have something to draw by now. */
  function unhide() {
    const drawable = (source) => Object.entries(source.data).some(([name, column]) => name !== "t" && column.some(Number.isFinite));
    hidden = hidden.filter(({plot, inside, source}) => {
      if (!drawable(source)) return true;
      Bokeh.Plotting.show(plot, inside);
      return false;
    });
  }
  const line = (plot, source, y, line_color, line_width) => plot.line({x: f("t"), y: f(y), source, line_color, line_width});

  /* The weights of all settings, one on top of the other: together they are 1. */
  function drawWeights() {
    const plot = figure("members", null, "0%"), source = fresh(["t", ...SUMS(settings)]);
    plot.y_range = new Bokeh.Range1d({start: 0, end: 1});
    for (let i = 0; i < settings; i++) {
      plot.varea({x: f("t"), y1: f(`sum${i}`), y2: f(`sum${i + 1}`), source, fill_color: shade(i), fill_alpha: 0.85});
    }
  }

  function sums(weights) {
    const found = {};
    if (!settings || !weights) return found;
    let sum = found.sum0 = 0;
    const total = weights.reduce((a, w) => a + w, 0) || 1;
    weights.forEach((w, i) => { found[`sum${i + 1}`] = sum += w / total; });
    return found;
  }

  function start(task, rare, members, whole) {
    rarity = rare;
    settings = members;
    last = -1;
    recent = [];
    timed = [];
    dates = "null";
    if (!there()) {
      for (const box of document.querySelectorAll(".chart")) {
        box.classList.add("none");
        box.textContent = "No charts: install onkel[serve] with Bokeh. The numbers are above.";
      }
      return;
    }
    sources = [];
    axes = [];
    hidden = [];
    const label = {novelty: "score", classification: "share of mistakes", regression: "size of the error"}[task];
    const format = task === "classification" ? "0.[00]%" : null;
    drawScores(figure("score", rarity ? "a usual row in so many" : label, format), task);
    if (settings) drawWeights();
    const rate = figure("rate", null, "0.[0000]%"), source = fresh(["t", "recent", "realised", "promised"]);
    line(rate, source, "recent", SKY, 1.5);
    line(rate, source, "realised", BLUE, 2.5);
    rate.line({x: f("t"), y: f("promised"), source, line_color: INK, line_width: 2, line_dash: [6, 4]});
    if (whole) return;
    line(figure("speed", null, "0.[0]a"), fresh(["t", "speed"]), "speed", GREEN, 2);
    line(figure("terms", null, "0,0"), fresh(["t", "terms"]), "terms", BLUE, 2);
    line(figure("drift", "spreads", "0.[00]"), fresh(["t", "drift"]), "drift", AMBER, 2);
  }

  function drawScores(plot, task) {
    const source = fresh(["t", ...SCORES]), banded = task !== "classification";
    if (rarity) nameRarities(plot);
    strips = null;
    if (task === "novelty") {
      strips = new Bokeh.ColumnDataSource({data: {x0: [], x1: [], alpha: []}});
      plot.vstrip({x0: f("x0"), x1: f("x1"), source: strips, fill_color: AMBER, fill_alpha: f("alpha"), line_color: AMBER, line_alpha: 0.6});
    }
    if (banded) plot.varea({x: f("t"), y1: f("low"), y2: f("high"), source, fill_color: BLUE, fill_alpha: 0.25});
    line(plot, source, "mean", BLUE, 1.5);
    plot.step({x: f("t"), y: f("limit"), source, line_color: INK, line_width: 2, mode: "before"});
    if (banded) plot.scatter({x: f("t"), y: f("peak"), source, size: 6, fill_color: RED, line_color: "white"});
  }

  /* The share of marks over the last five seconds or so. */
  function late(bucket) {
    recent.push(bucket);
    if (recent.length > 50) recent.shift();
    const rows = recent.reduce((sum, b) => sum + b.rows, 0);
    return rows ? recent.reduce((sum, b) => sum + b.marks, 0) / rows : NaN;
  }

  function add(buckets, flip) {
    const added = buckets.filter((b) => b.number > last && b.rows > 0);
    if (!added.length) return;
    last = added[added.length - 1].number;
    const rate = (v) => v === null || v === undefined ? NaN : flip ? 1 - v : v;
    const points = added.map((b) => {
      const scores = rarity ? Object.fromEntries(SCORES.map((c) => [c, power(b[c])])) : {};
      return {...b, ...scores, ...sums(b.weights), recent: rate(late(b)), promised: rate(b.promised), realised: rate(b.realised)};
    });
    for (const source of sources) {
      const names = Object.keys(source.data);
      source.stream(Object.fromEntries(names.map((c) => [c, points.map((p) => p[c] ?? NaN)])), KEPT);
    }
    timed = [...timed, ...added.map((b) => [b.t - b.rows + 1, b.time])].slice(-KEPT);
    nameTimes();
    unhide();
  }

  /* Where rows have times that run forward, the axes tell these, not the numbers of examples. */
  let timed = [], dates = "";
  function nameTimes() {
    const known = timed.filter(([, time]) => time !== null && time !== undefined);
    const ticks = known.length === timed.length ? Times.ticks(known) : null, now = JSON.stringify(ticks);
    if (now === dates) return;
    dates = now;
    for (const x of axes) {
      x.ticker = ticks ? new Bokeh.FixedTicker({ticks: ticks.map(([at]) => at)}) : new Bokeh.BasicTicker({desired_num_ticks: 5});
      x.major_label_overrides = new Map(ticks || []);
      if (x.axis_label) x.axis_label = !ticks ? "example" : Times.dated(known[0][1]) ? "time, UTC" : "time";
    }
  }

  /* Incidents that are looked at, by number: they are marked, too. */
  let marked = [], known = [];
  function mark(numbers) {
    marked = numbers;
    incidents(known);
  }

  /* Incidents as strips behind the scores: [number, first row, last row, whether it is drawn unasked]. */
  function incidents(list) {
    known = list;
    if (!strips) return;
    const first = sources.length && sources[0].data.t.length ? sources[0].data.t[0] : 0;
    const shown = list.filter(([number, , end, several]) => (several || marked.includes(number)) && end + 1 >= first);
    strips.data = {x0: shown.map(([, start]) => Math.max(start + 1, first)), x1: shown.map(([, , end]) => end + 2),
      alpha: shown.map(([number]) => marked.includes(number) ? 0.85 : 0.3)};
    const named = document.querySelector("#score-legend .strip");
    if (named) named.parentElement.hidden = !shown.length;
  }

  /* The latest scores of one key, and the level of an alert. */
  function single(id, rare) {
    const plot = figure(id, rare ? "a usual row in so many" : "score", null, false);
    const source = new Bokeh.ColumnDataSource({data: {t: [], score: [], limit: [], mark: []}});
    if (rare) nameRarities(plot);
    plot.line({x: f("t"), y: f("score"), source, line_color: BLUE, line_width: 1.5});
    plot.line({x: f("t"), y: f("limit"), source, line_color: INK, line_width: 2});
    plot.scatter({x: f("t"), y: f("mark"), source, size: 6, fill_color: RED, line_color: "white"});
    const [x] = plot.xaxis;
    x.axis_label = "row, from the newest back";
    return source;
  }

  function fill(source, scores, limit, rare, warm) {
    const shown = (v) => v === null ? NaN : rare ? power(v) : v;
    const t = scores.map((_, i) => i - scores.length + 1);
    source.data = {t, score: scores.map(shown), limit: t.map(() => shown(limit)), mark: scores.map((v, i) => v < limit && i >= warm ? shown(v) : NaN)};
  }
  return {start, add, incidents, mark, there, shade, single, fill};
})();
