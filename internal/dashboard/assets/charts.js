// Lines over time, drawn by uPlot, each with a table of the same values.
import {make, table} from "./dom.js";
import {clock} from "./words.js";

const charts = new Set();
const dark = matchMedia("(prefers-color-scheme: dark)");
const color = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
let seconds = 0; // the time shown, up to the last value; 0: all

// showLast sets the time range of all charts.
export function showLast(range) {
  if (range === seconds) return;
  seconds = range;
  for (const c of charts) if (c.times.length) c.show(c.times, c.values);
}

// upTo gives the range of an axis that begins at 0, or below, and reaches at least least, so that zeros have marks too.
const upTo = least => (low, high) => high == null || high <= 0 && low >= 0 ? [0, least || 1] :
  [Math.min(0, low), Math.max(high * 1.08, low + 1e-9, least || 0)];

const height = 168;

// chart adds a chart to a box. Lines have a title and a color; dash draws them dashed, and a line with quiet has no key. Bands are pairs of
// lines, the upper one first, with the area between them filled. range gives the axis' ends.
export function chart(box, {title, unit, lines, format, least, bands, range}) {
  const figure = make("figure"), caption = make("figcaption"), plot = make("div", "plot");
  caption.append(make("b", "", title));
  for (const l of lines.filter(l => !l.quiet)) {
    const key = make("span", "key" + (l.dash ? " dashed" : ""), l.title);
    key.style.setProperty("--c", `var(--${l.color})`);
    caption.append(key);
  }
  plot.setAttribute("role", "img");
  const details = make("details"), figures = table(unit ? title + " (" + unit + ")" : title, [{title: "time", kind: "text", text: r => clock(r.at)},
    ...lines.map((l, k) => ({title: l.title, text: r => format(r.values[k])}))]);
  details.append(make("summary", "", "As a table"), figures);
  figure.append(caption, plot, details);
  box.append(figure);
  const c = {times: [], values: lines.map(() => []), data: [[], ...lines.map(() => [])], u: null};
  c.draw = () => {
    if (c.u) c.u.destroy();
    c.u = null;
    if (plot.clientWidth === 0) return;
    const axis = {stroke: color("quiet"), grid: {stroke: color("grid"), width: 1}, ticks: {show: false}, font: "11px system-ui, sans-serif"};
    c.u = new uPlot({
      width: plot.clientWidth, height, padding: [10, 12, 0, 0], legend: {show: false},
      cursor: {y: false, points: {show: false}},
      scales: {y: {range: (_, low, high) => (range || upTo(least))(low, high, c.values)}},
      axes: [
        {...axis, space: 76, size: 26, values: (_, ticks, __, ___, step) => ticks.map(t =>
          new Date(1000 * t).toLocaleTimeString("en-GB", step < 60 ? {} : {hour: "2-digit", minute: "2-digit"}))},
        {...axis, size: 58, space: 32, values: (_, ticks) => ticks.map(format)},
      ],
      bands: (bands || []).map(series => ({series: series.map(k => k + 1), fill: color(lines[series[0]].color) + "22"})),
      series: [{}, ...lines.map(l => ({stroke: color(l.color), width: l.thin ? 1 : 2, dash: l.dash ? [5, 4] : undefined,
        points: {show: c.data[0].length < 3}, spanGaps: true}))],
    }, c.data, plot);
  };
  c.show = (times, values) => {
    c.times = times;
    c.values = values;
    const was = c.data[0].length;
    const from = seconds && times.length ? times.findIndex(t => t >= times[times.length - 1] - 1000 * seconds) : 0;
    c.data = [times.slice(from).map(t => t / 1000), ...values.map(v => v.slice(from))];
    if (c.u && (was < 3) === (c.data[0].length < 3)) c.u.setData(c.data); else c.draw();
    const last = values.map((v, k) => lines[k].title + " " + format(v.findLast(x => x != null)) + (unit ? " " + unit : ""));
    plot.setAttribute("aria-label", title + ", lately: " + last.join("; ") + ". The table below has the figures.");
    if (details.open) c.list();
  };
  c.list = () => {
    const [times, ...all] = c.data, every = Math.max(1, Math.ceil(times.length / 24)), rows = [];
    for (let at = times.length - 1; at >= 0; at -= every) rows.push({at: 1000 * times[at], values: all.map(v => v[at])});
    figures.show(rows);
    figures.none("There are no values yet.");
  };
  c.end = () => {
    charts.delete(c);
    observer.disconnect();
    if (c.u) c.u.destroy();
    figure.remove();
  };
  details.addEventListener("toggle", () => details.open && c.list());
  const observer = new ResizeObserver(() => {
    if (!c.u) c.draw(); else if (plot.clientWidth > 0 && c.u.width !== plot.clientWidth) c.u.setSize({width: plot.clientWidth, height});
  });
  observer.observe(plot);
  charts.add(c);
  return c;
}

dark.addEventListener("change", () => charts.forEach(c => c.draw()));
