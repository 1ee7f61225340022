// The live page: reads this worker's figures once a second while it is visible. All text is set as text, never as HTML.
"use strict";
(() => {
const byId = id => document.getElementById(id);
const dark = matchMedia("(prefers-color-scheme: dark)");

// --- Words and numbers ---

const whole = new Intl.NumberFormat("en", {maximumFractionDigits: 0});
const count = n => n == null ? "–" : whole.format(n);
const plural = (n, one) => count(n) + " " + one + (n === 1 ? "" : "s");
const percent = x => x == null ? "–" : (100 * x).toLocaleString("en", {maximumFractionDigits: Math.abs(x) < 0.0995 ? 1 : 0}) + " %";
const decimal = x => x == null ? "–" : x.toLocaleString("en", Math.abs(x) >= 100 ? {maximumFractionDigits: 0} :
  {minimumFractionDigits: Math.abs(x) >= 10 ? 1 : 3, maximumFractionDigits: Math.abs(x) >= 10 ? 1 : 3});
const rate = x => x >= 100 || x === 0 ? count(x) : x.toLocaleString("en", {maximumFractionDigits: 1});

function time(seconds) {
  if (seconds == null) return "–";
  const digits = x => x.toLocaleString("en", {maximumFractionDigits: x < 10 ? 1 : 0});
  if (seconds < 1) return digits(1000 * seconds) + " ms";
  if (seconds < 90) return digits(seconds) + " s";
  if (seconds < 90 * 60) return digits(seconds / 60) + " min";
  if (seconds < 36 * 3600) return digits(seconds / 3600) + " h";
  return digits(seconds / 86400) + " days";
}

function bytes(n) {
  if (n < 1024) return count(n) + " B";
  if (n < 1024 * 1024) return count(n / 1024) + " KiB";
  return (n / 1024 / 1024).toLocaleString("en", {maximumFractionDigits: 1}) + " MiB";
}

const latency = s => s >= 300 ? "over 5 min" : time(s); // the last bucket ends here
const nth = n => n + (["th", "st", "nd", "rd"][n % 100 > 10 && n % 100 < 14 ? 0 : n % 10] || "th");
const clock = ms => new Date(ms).toLocaleTimeString("en-GB");
const short = id => id.slice(0, 6);

// --- Elements that are made once and kept ---

function make(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text != null) e.textContent = text;
  return e;
}

function say(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

function style(e, name, value) {
  if (e.style.getPropertyValue(name) !== value) e.style.setProperty(name, value);
}

// keep sets a parent's children, by key, and reuses existing ones.
function keep(parent, items, keyOf, create, update) {
  const kept = parent.kept || (parent.kept = new Map());
  const seen = new Set();
  items.forEach((item, at) => {
    const key = String(keyOf(item, at));
    seen.add(key);
    let e = kept.get(key);
    if (!e) kept.set(key, e = create(item));
    if (parent.children[at] !== e) parent.insertBefore(e, parent.children[at] || null);
    update(e, item, at);
  });
  for (const [key, e] of kept) if (!seen.has(key)) { e.remove(); kept.delete(key); }
}

// table makes a table within a box that scrolls by itself. Columns have a title, a class, and fill(cell, row) or text(row). Of what it
// is tells it from other tables of that title.
function table(title, columns, of) {
  const box = make("div", "scroll"), t = make("table"), head = make("thead"), tr = make("tr"), body = make("tbody");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", of ? title + ": " + of : title);
  t.append(make("caption", "", title));
  for (const c of columns) {
    const th = make("th", c.kind || "", c.title);
    th.scope = "col";
    tr.append(th);
  }
  box.heads = tr.children;
  head.append(tr);
  t.append(head, body);
  box.append(t);
  box.show = (rows, keyOf) => keep(body, rows, keyOf || ((_, at) => at), () => {
    const row = make("tr");
    columns.forEach((c, at) => {
      const cell = make(at === 0 ? "th" : "td", c.kind || "");
      if (at === 0) cell.scope = "row";
      row.append(cell);
    });
    return row;
  }, (row, data, at) => columns.forEach((c, k) => {
    const cell = row.children[k];
    if (c.fill) c.fill(cell, data, at); else say(cell, c.text(data, at));
  }));
  box.none = text => {
    if (!box.empty) box.append(box.empty = make("p", "note", text));
    const any = body.children.length > 0;
    box.empty.hidden = any;
    t.hidden = !any;
  };
  return box;
}

// tiles are the figures of a list of terms.
function tiles(list, figures) {
  keep(list, figures, f => f.name, f => {
    const div = make("div", f.kind || "");
    div.append(make("dt", "", f.name), make("dd"));
    div.lastChild.append(make("span"), make("small"));
    return div;
  }, (div, f) => {
    const [value, small] = div.lastChild.children;
    say(value, f.value);
    value.className = f.alarm ? "bad" : "";
    say(small, f.note || "");
  });
}

// --- Charts ---

const charts = [];
const color = name => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

// chart draws lines over time with uPlot, with a table of the same values. The axis reaches at least least, so that zeros have marks too.
function chart(box, title, unit, lines, format, least) {
  const figure = make("figure"), caption = make("figcaption"), plot = make("div", "plot");
  caption.append(make("b", "", title));
  for (const l of lines) {
    const key = make("span", "key" + (l.dash ? " dashed" : ""), l.title);
    key.style.setProperty("--c", `var(--${l.color})`);
    caption.append(key);
  }
  plot.setAttribute("role", "img");
  const details = make("details"), summary = make("summary", "", "As a table");
  const figures = table(title + " (" + unit + ")", [{title: "time", kind: "text", text: r => clock(r.at)},
    ...lines.map((l, k) => ({title: l.title, text: r => format(r.values[k])}))]);
  details.append(summary, figures);
  figure.append(caption, plot, details);
  box.append(figure);
  const c = {data: [[], ...lines.map(() => [])], u: null};
  c.draw = () => {
    if (c.u) c.u.destroy();
    c.u = null;
    if (plot.clientWidth === 0) return;
    const axis = {stroke: color("quiet"), grid: {stroke: color("grid"), width: 1}, ticks: {show: false}, font: "11px system-ui, sans-serif"};
    c.u = new uPlot({
      width: plot.clientWidth, height: 168, padding: [10, 12, 0, 0], legend: {show: false},
      cursor: {y: false, points: {show: false}},
      scales: {y: {range: (_, low, high) => high == null || high <= 0 && low >= 0 ? [0, least || 1] : [Math.min(0, low), Math.max(high * 1.08, low + 1e-9, least || 0)]}},
      axes: [
        {...axis, space: 76, size: 26, values: (_, ticks, __, ___, step) => ticks.map(t =>
          new Date(1000 * t).toLocaleTimeString("en-GB", step < 60 ? {} : {hour: "2-digit", minute: "2-digit"}))},
        {...axis, size: 58, space: 32, values: (_, ticks) => ticks.map(format)},
      ],
      series: [{}, ...lines.map(l => ({stroke: color(l.color), width: 2, dash: l.dash ? [5, 4] : undefined, points: {show: c.data[0].length < 3}, spanGaps: true}))],
    }, c.data, plot);
  };
  c.show = (times, values) => {
    const was = c.data[0].length;
    c.data = [times.map(t => t / 1000), ...values];
    if (c.u && (was < 3) === (times.length < 3)) c.u.setData(c.data); else c.draw();
    const last = values.map((v, k) => lines[k].title + " " + format(v.findLast(x => x != null)) + " " + unit);
    plot.setAttribute("aria-label", title + ", lately: " + last.join("; ") + ". The table below has the figures.");
    if (details.open) c.list(times, values);
  };
  c.list = (times, values) => {
    const every = Math.max(1, Math.ceil(times.length / 24)), rows = [];
    for (let at = times.length - 1; at >= 0; at -= every) rows.push({at: times[at], values: values.map(v => v[at])});
    figures.show(rows);
  };
  details.addEventListener("toggle", () => details.open && c.list(c.data[0].map(t => 1000 * t), c.data.slice(1)));
  new ResizeObserver(() => {
    if (!c.u) c.draw(); else if (c.u.width !== plot.clientWidth) c.u.setSize({width: plot.clientWidth, height: 168});
  }).observe(plot);
  charts.push(c);
  return c;
}

dark.addEventListener("change", () => charts.forEach(c => c.draw()));

// --- Now ---

const chartRankings = chart(byId("chart-rankings"), "Rankings per second", "per second", [{title: "rankings", color: "moss"}], rate);
const chartLatency = chart(byId("chart-latency"), "From impression to ranking", "", [{title: "p50", color: "moss"},
  {title: "p99", color: "ftrl", dash: true}], latency);
const chartLag = chart(byId("chart-lag"), "Records not yet read", "records", [{title: "all topics", color: "moss"}], count, 4);

function showNow(page) {
  byId("chart-latency").hidden = Boolean(page.simulated);
  const running = page.partitions.filter(p => p.phase === "running").length;
  const waiting = page.partitions.filter(p => p.waits).length;
  const lag = page.lag[0] + page.lag[1] + page.lag[2];
  const all = page.partitions.length + page.more_partitions;
  tiles(byId("tiles"), [
    {name: "Rankings", value: rate(page.rates.rankings) + " per s", note: rate(page.rates.impressions) + " impressions read per s"},
    {name: "Impression to ranking", value: latency(page.p50),
      note: page.simulated ? "time is simulated here" : "p50 · p99 " + latency(page.p99)},
    {name: "Selections and payoffs", value: rate(page.rates.selections + page.rates.payoffs) + " per s",
      note: rate(page.rates.selections) + " and " + rate(page.rates.payoffs)},
    {name: "Not yet read", value: plural(lag, "record"), note: page.lag.map((n, k) => [n, plural(n, ["impression", "selection", "payoff"][k])]).filter(x => x[0] > 0).map(x => x[1]).join(", ") || "all topics read to the end"},
    {name: "Pending impressions", value: count(page.account.impressions.pending), note: "wait for a selection or payoff"},
    {name: "Partitions at work", value: running + " of " + all, alarm: running < page.partitions.length,
      note: plural(page.workers.length, "worker") + (waiting ? "; waiting: " + plural(waiting, "partition") : "")},
  ]);
  const alone = byId("alone");
  alone.hidden = !page.alone;
  say(alone, page.alone ? "Other workers are not shown: " + page.alone + "." : "");
}

// --- Learners ---

const policies = ["moss", "thompson", "optimistic", "klucb", "greedy", "elimination", "egreedy", "ftrl", "osmd", "robust", "utility"];
const howWords = {
  means: "Ranking by utility is estimated from the favourites' payoffs per selection. The estimate is right if an item's mean payoff is the same in all impressions.",
  propensities: "Ranking by utility is estimated from the favourites' payoffs, weighted by inverse propensities. The estimate is right if users look at as many results as assumed.",
  shares: "Ranking by utility is estimated from the favourites' payoffs per selection, times the share of selections with them on top. The estimate is right if both are the same in all impressions.",
  rankings: "All of these rankings are by utility.",
  "": "The payoff of ranking by utility is not known yet.",
};

function range() {
  const span = make("span", "range"), box = make("i"), mark = make("b");
  span.setAttribute("aria-hidden", "true");
  span.append(box, mark);
  span.show = (low, high, mean, from, to) => {
    const at = x => Math.min(100, Math.max(0, 100 * (x - low) / (high - low || 1)));
    style(box, "left", at(from).toFixed(2) + "%");
    style(box, "width", (at(to) - at(from)).toFixed(2) + "%");
    style(mark, "left", at(mean ?? from).toFixed(2) + "%");
    mark.hidden = mean == null;
  };
  return span;
}

// levelWords name the causes of differences between payoffs.
const levelWords = {payoff: "chance", features: "features", category: "categories of items", item: "items", cell: "items for users of one segment"};

// groupWords describe the groups of hours, days and ages that a learner uses, and since when payoffs count.
function groupWords(depends) {
  const words = {hour: n => n > 1 ? n + " parts of the day" : "all hours equal", age: n => plural(n, "step") + " of item age",
    weekday: n => n === 7 ? "each day of the week" : n === 2 ? "weekdays and weekends" : "all days equal"};
  const groups = (depends.groups || []).map(g => words[g.of] ? words[g.of](g.groups) : g.of + " " + g.groups).join(", ");
  const since = depends.since > 0 && depends.since < 8e15 ? "Uses payoffs of selections since " + new Date(depends.since).toISOString().replace("T", " ").slice(0, 16) + " UTC." : "";
  return (groups ? "Groups: " + groups + ". " : "") + since;
}

function createLearner(l) {
  const e = make("article", "learner"), header = make("header"), h3 = make("h3");
  const policy = policies.includes(l.policy) ? l.policy : "moss";
  e.style.setProperty("--policy", `var(--${policy})`);
  e.setAttribute("aria-label", "learner " + l.name);
  const swatch = make("span", "swatch");
  h3.append(swatch, make("bdi", "", l.name));
  header.append(h3, make("span", "quiet", "policy " + l.policy + ", delay " + l.delay + (l.per_impression ? ", maximises payoff per impression" : "")));
  e.figures = make("dl", "tiles");
  const beside = make("div", "beside"), left = make("div"), right = make("div");
  const box = make("div", "chart");
  left.append(box);
  e.how = make("p", "note");
  e.rule = make("p", "note");
  left.append(e.how, e.rule);
  e.windows = table("How many of the first results users look at", [
    {title: "results", kind: "text", text: r => r.name}, {title: "share of users", text: r => percent(r.share)},
    {title: "of all", kind: "text wide", fill: (cell, r) => {
      if (!cell.firstChild) cell.append(make("span", "bar"));
      style(cell.firstChild, "width", (100 * r.share).toFixed(1) + "%");
    }}], l.name);
  e.windowsNote = make("p", "note");
  e.windowsBox = make("div", "windows");
  e.windowsBox.append(e.windows, e.windowsNote);
  left.append(e.windowsBox);
  e.deviations = table("Sources of differences between payoffs", [{title: "by", kind: "text", text: r => levelWords[r.level] || r.level},
    {title: "standard deviation", text: r => decimal(r.sd)}], l.name);
  e.effects = table("Effects of features", [
    {title: "feature", kind: "text", fill: (cell, r) => {
      if (!cell.firstChild) cell.append(make("bdi"));
      say(cell.firstChild, r.feature);
    }},
    {title: "from the middle of its range to its end", text: r => signed(r.effect)}, {title: "± one standard deviation", text: r => decimal(r.sd)}], l.name);
  e.dependsBox = make("div", "depends");
  e.groups = make("p", "note");
  e.dependsBox.append(e.deviations, e.groups, e.effects, make("p", "note", "In payoff ranges: standard deviations by chance and by each cause, and the expected change with each feature, largest first."));
  left.append(e.dependsBox);
  e.items = table("Recent first items and favourites", [
    {title: "item", kind: "text", fill: (cell, r) => {
      if (!cell.firstChild) cell.append(make("bdi"));
      say(cell.firstChild, r.name);
    }},
    {title: "shown first", text: r => percent(r.first)},
    {title: "highest utility", text: r => percent(r.favourite)},
    {title: "payoffs known", text: r => count(Math.round(r.worth))},
    {title: "mean payoff", text: r => decimal(r.mean)},
    {title: "95 % interval", text: r => r.worth > 0 ? decimal(r.low) + " – " + decimal(r.high) : "–"},
    {title: "scale", kind: "text wide", fill: (cell, r) => {
      if (!cell.firstChild) cell.append(range());
      cell.firstChild.show(r.from, r.to, r.mean, r.low, r.high);
    }}], l.name);
  right.append(e.items, make("p", "note", "Shares of recent impressions. If an item often has the highest utility but is seldom shown first, another one pays better. About 95 % of such intervals contain the true mean."));
  beside.append(left, right);
  e.append(header, e.figures, beside);
  e.chart = chart(box, "Payoff per impression", "per impression", [{title: "ranked by this learner", color: policy},
    {title: "ranked by utility, estimated", color: "utility", dash: true}], decimal);
  return e;
}

// error writes half the length of a 95 % interval.
function error(half, text) { return half > 0 ? "± " + text(half) + " (95 %), " : ""; }

// earlyWords say why it is too early for a learner's payoff, and when it is known at the latest.
function earlyWords(l) {
  return l.early === "selections" ? "more than a third of the impressions wait for a selection, each " + time(l.timeout) + " at most"
    : "many payoffs are still to come, each within " + time(l.horizon);
}

function updateLearner(e, l, page) {
  const over = "in the last " + time(page.seconds);
  const gain = l.payoff != null && l.by_utility != null ? l.payoff - l.by_utility : null;
  const relative = gain != null && l.by_utility > 0;
  const inGain = x => relative ? percent(Math.abs(x) / l.by_utility) : decimal(Math.abs(x));
  const figures = [
    {name: "Payoff per impression", kind: "of-policy", value: l.early ? "too early" : decimal(l.payoff),
      note: l.early ? earlyWords(l) : error(l.payoff_error, decimal) + (l.selecting == null ? "of " + plural(l.ended, "impression") + " that ended " + over : "share with a selection × payoff per selection")},
    {name: "Ranked by utility", kind: "of-utility", value: decimal(l.by_utility), note: "estimated, for the same impressions"},
    {name: "Difference", value: gain == null ? "–" : (gain >= 0 ? "+" : "−") + inGain(gain),
      note: error(l.gain_error, inGain) + "from ranking by utility"},
    ...l.selecting == null ? [] : [
      {name: "Impressions with a selection", value: percent(l.selecting), note: "of " + plural(l.selecting_of, "impression") + " " + over + "; the others pay nothing"},
      {name: "Payoff per selection", value: decimal(l.per_selection), note: "of " + plural(l.paid_for, "selection") + " " + over + "; unpaid ones count by their age"}],
    {name: "Favourite is not the best payer", value: percent(l.outpaid), note: "of impressions, by known means"},
    {name: "Favourite shown first", value: percent(l.first_share), note: "of impressions"},
    {name: "Payoffs learned from", value: count(l.fed), note: count(l.awaited) + " more awaited"},
  ];
  if (l.silence && l.silence.known) {
    figures.push({name: "Payoff delay", value: time(l.silence.median), note: "p50 · p90 " + time(l.silence.p90)});
    if (l.silence.share > 0) figures.push({name: "Selections that are paid", value: percent(l.silence.share), note: "estimate"});
  }
  if (l.delay === "qpmd") {
    figures.push({name: "Payoffs in queues", value: count(l.queued), note: "wait until the policy requests them"});
    figures.push({name: "On hold", value: l.on_hold ? plural(l.on_hold, "partition") : "no", note: l.on_hold ? "for a payoff of " + l.hold_item : "no partition waits for a payoff"});
  }
  if (l.undecided_pairs > 0) figures.push({name: "Order of utilities", value: plural(l.undecided_pairs, "pair"), note: "undecided"});
  tiles(e.figures, figures);
  say(e.how, howWords[l.how] || howWords[""]);
  say(e.rule, l.rule ? "Rule: " + l.rule + "." : "");
  const rows = l.item_rows || [];
  const from = Math.min(...rows.map(r => r.low)), to = Math.max(...rows.map(r => r.high));
  if (rows.length > 0) say(e.items.heads[6], "on a scale from " + decimal(from) + " to " + decimal(to));
  e.items.show(rows.map(r => ({...r, from, to})), r => r.name);
  e.items.none("No impression was ranked since this worker took over its partitions.");
  const depends = l.depends || {};
  e.dependsBox.hidden = !l.depends;
  e.deviations.show(depends.deviations || [], r => r.level);
  say(e.groups, groupWords(depends));
  e.effects.show(depends.features || [], r => r.feature);
  e.effects.hidden = !(depends.features || []).length;
  const windows = l.windows || [];
  e.windowsBox.hidden = windows.length === 0;
  e.windows.show(windows.slice(0, 10).map((share, k) => ({name: k === windows.length - 1 ? "more than " + k : k === 0 ? "the first" : "the first " + (k + 1), share}))
    .filter(r => r.share >= 0.0005));
  say(e.windowsNote, l.window_selections > 0 ? "Learned from " + plural(l.window_selections, "selection") + "." : "As configured, or not learned yet.");
}

function showLearners(page) {
  keep(byId("learner-list"), page.learners, l => l.name, createLearner, (e, l) => updateLearner(e, l, page));
  const more = byId("more-learners");
  more.hidden = !page.more_learners;
  say(more, page.more_learners ? "More learners are in /metrics." : "");
}

// --- Account ---

const flows = [
  {name: "impressions", parts: [
    ["paid", "o1", "its payoff came"], ["defaulted", "o2", "never paid; its learner was fed the default"], ["expired", "o5", "selected, never paid"],
    ["unselected", "o3", "no selection in time"], ["pending", "o7", "waits for a selection or payoff"],
    ["duplicate", "o4", "its id was known; not ranked again"], ["rejected", "o6", "faulty: a dead letter"]]},
  {name: "selections", parts: [
    ["joined", "o1", "joined to its impression"], ["parked", "o7", "waits for its impression"], ["late", "o5", "after its impression's deadline"],
    ["orphan", "o3", "its impression never came"], ["duplicate", "o4", "another one came before"], ["rejected", "o6", "faulty: a dead letter"]]},
  {name: "payoffs", parts: [
    ["applied", "o1", "fed to the learner, once"], ["parked", "o7", "waits for its impression or selection"], ["late", "o5", "after its impression's deadline"],
    ["orphan", "o3", "impression or selection never came"], ["duplicate", "o4", "another one came before"], ["rejected", "o6", "faulty: a dead letter"]]},
];

function showAccount(page) {
  keep(byId("flows"), flows, f => f.name, f => {
    const e = make("div", "flow"), stack = make("div", "stack");
    stack.setAttribute("aria-hidden", "true");
    e.total = make("h3");
    e.stack = stack;
    e.table = table(f.name + ", by how they ended", [
      {title: "ended as", kind: "text", fill: (cell, r) => {
        if (!cell.firstChild) { cell.append(make("span", "dot"), make("span", "", r.name)); cell.firstChild.style.setProperty("--c", `var(--${r.color})`); }
      }},
      {title: "count", text: r => count(r.n)}, {title: "share", text: r => percent(r.share)}, {title: "meaning", kind: "long", text: r => r.about}]);
    e.append(e.total, stack, e.table);
    return e;
  }, (e, f) => {
    const account = page.account[f.name];
    say(e.total, count(account.read) + " " + f.name + " read");
    const rows = f.parts.map(([name, color, about]) => ({name, color, about, n: account[name], share: account.read ? account[name] / account.read : null}));
    keep(e.stack, rows, r => r.name, r => {
      const i = make("i");
      i.style.setProperty("--c", `var(--${r.color})`);
      return i;
    }, (i, r) => { style(i, "flex-grow", String(r.n)); i.hidden = r.n === 0; });
    e.table.show(rows, r => r.name);
  });
}

// --- Rankings ---

function why(r, at, shown) {
  if (r.rank < 0) return "the order of utilities is not known yet";
  if (r.leader === at) return at === 0 ? "leads" : "leads: its utility exceeds all before it";
  return "hidden by " + shown[r.leader].name + ": users prefer it and would select that one";
}

function showRankings(page) {
  const list = byId("ranking-list");
  keep(list, page.rankings, r => r.learner + " " + r.partition, r => {
    const e = make("div", "card");
    e.head = make("h3");
    e.id = "";
    e.about = make("p", "quiet");
    e.table = table("Candidates in the order shown", [
      {title: "place", text: r => String(r.place)},
      {title: "item", kind: "text", fill: (cell, r) => { if (!cell.firstChild) cell.append(make("bdi")); say(cell.firstChild, r.name); }},
      {title: "liked", text: r => r.rank < 0 ? "–" : r.rank === r.of - 1 ? "best" : nth(r.of - r.rank) + " of " + r.of},
      {title: "mean payoff", text: r => r.worth > 0 ? decimal(r.mean) : "–"},
      {title: "payoffs known", text: r => count(Math.round(r.worth))},
      {title: "chance of selection", text: r => r.propensity ? percent(r.propensity) : "–"},
      {title: "why here", kind: "long", text: r => r.why}], "learner " + r.learner + ", partition " + r.partition);
    e.append(e.head, e.about, e.table);
    return e;
  }, (e, r) => {
    say(e.head, "Impression " + r.id);
    say(e.about, "learner " + r.learner + ", partition " + r.partition + ", offset " + count(r.offset) + ", event time " +
      new Date(r.time).toISOString().replace("T", " ").slice(0, 19) + " UTC" + (r.explored ? "; ranked to explore" : ""));
    e.table.show(r.shown.map((s, at) => ({...s, place: at + 1, of: r.candidates, why: why(s, at, r.shown)})));
  });
  if (!list.none) list.after(list.none = make("p", "note", "No impression was ranked since this worker took over its partitions."));
  list.none.hidden = page.rankings.length > 0;
}

// --- Partitions, workers, dead letters ---

const partitions = table("Partitions", [
  {title: "partition", kind: "text", text: p => String(p.number)}, {title: "worker", kind: "text", text: p => short(p.worker)},
  {title: "doing", kind: "text", text: p => p.phase},
  {title: "waits for", kind: "long", fill: (cell, p) => { say(cell, p.waits || "nothing"); cell.className = "long" + (p.waits ? " bad" : " quiet"); }},
  {title: "impressions not read", text: p => count(p.lag[0])}, {title: "selections", text: p => count(p.lag[1])}, {title: "payoffs", text: p => count(p.lag[2])},
  {title: "event time behind", text: p => time(p.event_time_lag)}, {title: "pending", text: p => count(p.pending)},
  {title: "parked", text: p => count(p.parked)}, {title: "not yet saved", text: p => bytes(p.unsaved)}]);
byId("partition-table").append(partitions);

const workers = table("Workers", [
  {title: "worker", kind: "text", fill: (cell, w) => say(cell, short(w.id) + (w.self ? " (this page)" : ""))}, {title: "version", kind: "text", text: w => w.version || "–"},
  {title: "partitions", text: w => count(w.partitions)}, {title: "rankings per s", text: w => rate(w.rankings)},
  {title: "runs for", text: w => time(w.up)}, {title: "age of figures", text: w => time(w.age)},
  {title: "outside", kind: "long", fill: (cell, w) => { say(cell, w.outside || "no"); cell.className = "long" + (w.outside ? " bad" : " quiet"); }}]);
byId("worker-table").append(workers);

const letters = table("Dead letters, the latest first", [
  {title: "seen at", kind: "text", text: l => clock(l.at)}, {title: "topic", kind: "text", text: l => l.topic},
  {title: "partition", text: l => String(l.partition)}, {title: "offset", text: l => count(l.offset)},
  {title: "reason", kind: "text", text: l => l.reason}, {title: "detail", kind: "long", text: l => l.detail}]);
byId("letter-table").append(letters);

const signed = x => (x < 0 ? "−" : "+") + Math.abs(x).toFixed(4);
const arms = table("Arms of experiments", [
  {title: "experiment", kind: "text", text: a => a.experiment + ", run " + a.run}, {title: "arm", kind: "text", text: a => a.arm},
  {title: "units", text: a => count(a.units)}, {title: "payoff", text: a => a.payoff.toFixed(4)},
  {title: "lift", text: a => a.control ? "" : signed(a.lift)},
  {title: "at any look", text: a => a.control ? "" : signed(a.lower) + " to " + signed(a.upper)},
  {title: "verdict", kind: "text", text: a => a.control ? "control" : a.verdict}]);
byId("arm-table").append(arms);

function showRest(page) {
  byId("experiments").hidden = !page.arms.length;
  arms.show(page.arms, a => a.experiment + " " + a.arm);
  partitions.show(page.partitions, p => p.number + " " + p.worker);
  partitions.none("No partition is assigned.");
  const more = byId("more-partitions");
  more.hidden = !page.more_partitions;
  say(more, page.more_partitions ? plural(page.more_partitions, "more partition") + "." : "");
  workers.show(page.workers.map(w => ({...w, self: w.id === page.worker})), w => w.id);
  letters.show(page.dead_letters);
  letters.none("None since the workers began.");
}

// --- Time ---

let paused = false, answered = 0, historyAt = 0, timer = 0;

function state(kind, text) {
  const e = byId("state");
  if (e.className !== kind) e.className = kind;
  say(e, text);
}

async function ask(path) {
  const response = await fetch(path, {cache: "no-store", signal: AbortSignal.timeout(8000)});
  if (!response.ok) throw new Error(response.statusText);
  return response.json();
}

async function refresh() {
  clearTimeout(timer);
  if (paused || document.hidden) return;
  const began = Date.now();
  try {
    const page = await ask("page/live.json");
    if (paused) return;
    say(byId("group"), "group " + page.group);
    document.title = page.group + " – ranker-worker";
    say(byId("asof"), "as of " + clock(page.now));
    showNow(page);
    showLearners(page);
    showAccount(page);
    showRankings(page);
    showRest(page);
    if (began >= historyAt) {
      const past = await ask("page/history.json");
      const n = past.times.length;
      historyAt = began + (n > 1 && past.times[n - 1] - past.times[n - 2] > 5000 ? 9500 : 1500);
      chartRankings.show(past.times, [past.rankings]);
      chartLatency.show(past.times, [past.p50, past.p99]);
      chartLag.show(past.times, [past.lag]);
      for (const [name, e] of byId("learner-list").kept || []) {
        const s = past.learners[name];
        if (s) e.chart.show(past.times, [s.payoff, s.by_utility]);
      }
    }
    answered = Date.now();
    state("live", "live");
  } catch (e) {
    state("gone", answered ? "the worker does not answer; figures are as of " + clock(answered) : "the worker does not answer");
  }
  timer = setTimeout(refresh, Math.max(100, 1000 - (Date.now() - began)));
}

byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  state("", paused ? "paused" : "live");
  refresh();
});
document.addEventListener("visibilitychange", refresh);
refresh();
})();
