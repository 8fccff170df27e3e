/* Where on an axis of examples round times lie: the axis of a stream whose rows have times. */
"use strict";

const Times = (() => {
  const MINUTE = 60, HOUR = 3600, DAY = 86400;
  const STEPS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, MINUTE, 2 * MINUTE, 5 * MINUTE,
    10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 5 * DAY, 10 * DAY];
  const MONTHS = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200];
  const NAMES = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
  /* Earlier times are no dates, only numbers: as the report has it. */
  const DATED = 1e8, MOST = 5;
  const two = (v) => String(v).padStart(2, "0");
  const month = (at, count) => Date.UTC(1970, count * Math.floor(at / count), 1) / 1000;

  /* Round times from one to another. */
  function rounds(from, to) {
    const fits = (step) => (to - from) / step <= MOST;
    if (from < DATED) {
      const unit = 10 ** Math.floor(Math.log10((to - from) / MOST));
      return multiples([1, 2, 5, 10].map((f) => f * unit).find(fits), from, to);
    }
    const step = STEPS.find(fits);
    if (step) return multiples(step, from, to);
    const count = MONTHS.find((m) => fits(m * 30.44 * DAY)) || MONTHS[MONTHS.length - 1];
    const first = new Date(from * 1000), found = [];
    for (let at = 12 * (first.getUTCFullYear() - 1970) + first.getUTCMonth(); found.length < 99; at += count) {
      const time = month(at, count);
      if (time > to) break;
      if (time >= from) found.push(time);
    }
    return {found, step: count * 30 * DAY};
  }

  function multiples(step, from, to) {
    const found = [];
    for (let i = Math.ceil(from / step); i * step <= to && found.length < 99; i++) found.push(i * step);
    return {found, step};
  }

  /* A time in words; the date below the clock where it is another one than before. */
  function told(time, step, before) {
    if (time < DATED) return String(Number(time.toPrecision(6)));
    const at = new Date(Math.round(time * 1000)), day = `${two(at.getUTCDate())} ${NAMES[at.getUTCMonth()]}`;
    if (step >= 30 * DAY) return step < 360 * DAY ? `${NAMES[at.getUTCMonth()]} ${at.getUTCFullYear()}` : String(at.getUTCFullYear());
    if (step >= DAY) return day;
    let clock = `${two(at.getUTCHours())}:${two(at.getUTCMinutes())}`;
    if (step < MINUTE) clock += `:${two(at.getUTCSeconds())}`;
    if (step < 1) clock += `.${String(at.getUTCMilliseconds()).padStart(3, "0")}`;
    const same = before !== null && Math.floor(before / DAY) === Math.floor(time / DAY);
    return same ? clock : `${clock}\n${day}`;
  }

  /* The place and name of each round time, by the times of some examples [example, time]; null where
     times do not run forward, or all are one. */
  function ticks(known) {
    if (known.length < 2) return null;
    for (let i = 1; i < known.length; i++) if (!(known[i][1] >= known[i - 1][1])) return null;
    const from = known[0][1], to = known[known.length - 1][1];
    if (!(to > from)) return null;
    const {found, step} = rounds(from, to);
    let i = 1, before = null;
    return found.map((time) => {
      while (i < known.length - 1 && known[i][1] < time) i++;
      const [x0, t0] = known[i - 1], [x1, t1] = known[i];
      const name = told(time, step, before);
      before = time;
      return [t1 > t0 ? x0 + (x1 - x0) * (time - t0) / (t1 - t0) : x1, name];
    });
  }
  return {ticks, dated: (time) => time >= DATED};
})();
