/* The charts: one Bokeh source for all of them, which gains a few points ten times a second. */
"use strict";

const Charts = (() => {
  const BLUE = "#0072b2", SKY = "#56b4e9", GREEN = "#009e73", AMBER = "#e69f00", RED = "#d55e00", INK = "#1f2933";
  const KEPT = 600;
  const COLUMNS = ["t", "low", "high", "mean", "limit", "peak", "promised", "realised", "recent", "terms", "drift", "speed"];
  /* Scores that are log p are drawn as powers of ten, and named; rarer than the last is drawn there. */
  const RARITIES = [[0, "1 in 1"], [-2, "1 in 100"], [-4, "1 in 10 000"], [-6, "1 in a million"], [-9, "1 in a billion"],
    [-12, "1 in a trillion"]];
  const SCORES = ["low", "high", "mean", "limit", "peak"];
  const power = (v) => v === null || v === undefined ? v : Math.max(v / Math.LN10, -12);
  const there = () => Boolean(window.Bokeh && Bokeh.Plotting);
  let source = null, last = -1, recent = [], rarity = false;

  function figure(id, label, format) {
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
    if (format) y.formatter = new Bokeh.NumeralTickFormatter({format});
    const inside = document.createElement("div");
    inside.className = "inside";
    inside.inert = true; // a picture: nothing in it takes the keyboard
    box.replaceChildren(inside);
    Bokeh.Plotting.show(plot, inside);
    return plot;
  }
  const f = (field) => ({field});

  function nameRarities(plot) {
    const [y] = plot.yaxis;
    y.ticker = plot.ygrid.ticker = new Bokeh.FixedTicker({ticks: RARITIES.map(([at]) => at)});
    y.major_label_overrides = new Map(RARITIES);
  }

  function start(task, rare) {
    rarity = rare;
    last = -1;
    recent = [];
    if (!there()) {
      for (const box of document.querySelectorAll(".chart")) {
        box.classList.add("none");
        box.textContent = "No charts: install onkel[serve] with Bokeh. The numbers are above.";
      }
      return;
    }
    source = new Bokeh.ColumnDataSource({data: Object.fromEntries(COLUMNS.map((c) => [c, []]))});
    const label = {novelty: "score", classification: "share of mistakes", regression: "size of the error"}[task];
    const score = figure("score", rarity ? "a usual row in so many" : label);
    if (rarity) nameRarities(score);
    if (task !== "classification") score.varea({x: f("t"), y1: f("low"), y2: f("high"), source, fill_color: BLUE, fill_alpha: 0.25});
    score.line({x: f("t"), y: f("mean"), source, line_color: BLUE, line_width: 1.5});
    score.step({x: f("t"), y: f("limit"), source, line_color: INK, line_width: 2, mode: "before"});
    if (task !== "classification") score.scatter({x: f("t"), y: f("peak"), source, size: 6, fill_color: RED, line_color: "white"});
    const rate = figure("rate", null, "0.[00]%");
    rate.line({x: f("t"), y: f("recent"), source, line_color: SKY, line_width: 1.5});
    rate.line({x: f("t"), y: f("realised"), source, line_color: BLUE, line_width: 2.5});
    rate.line({x: f("t"), y: f("promised"), source, line_color: INK, line_width: 2, line_dash: [6, 4]});
    figure("speed", null, "0.[0]a").line({x: f("t"), y: f("speed"), source, line_color: GREEN, line_width: 2});
    figure("terms", null, "0,0").line({x: f("t"), y: f("terms"), source, line_color: BLUE, line_width: 2});
    figure("drift", "spreads", "0.[00]").line({x: f("t"), y: f("drift"), source, line_color: AMBER, line_width: 2});
  }

  /* The share of marks over the last five seconds or so. */
  function late(bucket) {
    recent.push(bucket);
    if (recent.length > 50) recent.shift();
    const rows = recent.reduce((sum, b) => sum + b.rows, 0);
    return rows ? recent.reduce((sum, b) => sum + b.marks, 0) / rows : NaN;
  }

  function add(buckets, flip) {
    const fresh = buckets.filter((b) => b.number > last && b.rows > 0);
    if (!fresh.length) return;
    last = fresh[fresh.length - 1].number;
    const rate = (v) => v === null || v === undefined ? NaN : flip ? 1 - v : v;
    const data = Object.fromEntries(COLUMNS.map((c) => [c, []]));
    for (const b of fresh) {
      const scores = rarity ? Object.fromEntries(SCORES.map((c) => [c, power(b[c])])) : {};
      const point = {...b, ...scores, recent: rate(late(b)), promised: rate(b.promised), realised: rate(b.realised)};
      for (const c of COLUMNS) data[c].push(point[c] ?? NaN);
    }
    if (source) source.stream(data, KEPT);
  }
  return {start, add, there};
})();
