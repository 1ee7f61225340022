// The group as a whole: its work, the account of all records, partitions, workers and dead letters.
import {byId, keep, make, note, say, style, table, tiles} from "./dom.js";
import {chart} from "./charts.js";
import {bytes, clock, count, latency, percent, plural, rate, short, time} from "./words.js";

const chartRankings = chart(byId("chart-rankings"), {title: "Rankings per second", unit: "per second", format: rate, lines: [{title: "rankings", color: "moss"}]});
const chartLatency = chart(byId("chart-latency"), {title: "From impression to ranking", unit: "", format: latency, lines: [{title: "p50", color: "moss"},
  {title: "p99", color: "ftrl", dash: true}]});
const chartLag = chart(byId("chart-lag"), {title: "Records not yet read", unit: "records", format: count, least: 4, lines: [{title: "all topics", color: "moss"}]});

export function showWork(past) {
  chartRankings.show(past.times, [past.rankings]);
  chartLatency.show(past.times, [past.p50, past.p99]);
  chartLag.show(past.times, [past.lag]);
}

export function showTiles(page) {
  byId("chart-latency").hidden = Boolean(page.simulated);
  const running = page.running, all = page.partitions.length + page.more_partitions;
  const lag = page.lag[0] + page.lag[1] + page.lag[2];
  tiles(byId("tiles"), [
    {name: "Rankings", value: rate(page.rates.rankings) + " per s", note: rate(page.rates.selections) + " selections and " + rate(page.rates.payoffs) + " payoffs per s"},
    {name: "Impression to ranking", value: latency(page.p50), note: page.simulated ? "time is simulated here" : "p50 · p99 " + latency(page.p99)},
    {name: "Records not yet read", value: count(lag), note: page.lag.map((n, k) => [n, plural(n, ["impression", "selection", "payoff"][k])])
      .filter(x => x[0] > 0).map(x => x[1]).join(", ") || "all topics read to the end"},
    {name: "Partitions at work", value: running + " of " + all, alarm: running < all, note: plural(page.workers.length, "worker")},
  ]);
  note(byId("alone"), page.alone ? "Other workers are not shown: " + page.alone + "." : "");
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

function createFlow(f) {
  const e = make("div", "flow");
  e.stack = make("div", "stack");
  e.stack.setAttribute("aria-hidden", "true");
  e.total = make("h3");
  e.table = table(f.name + ", by how they ended", [
    {title: "ended as", kind: "text", fill: (cell, r) => {
      if (!cell.firstChild) { cell.append(make("span", "dot"), make("span", "", r.name)); cell.firstChild.style.setProperty("--c", `var(--${r.color})`); }
    }},
    {title: "count", text: r => count(r.n)}, {title: "share", text: r => percent(r.share)}, {title: "meaning", kind: "long", text: r => r.about}]);
  e.append(e.total, e.stack, e.table);
  return e;
}

function createPart(r) {
  const i = make("i");
  i.style.setProperty("--c", `var(--${r.color})`);
  return i;
}

export function showAccount(page) {
  keep(byId("flows"), flows, f => f.name, createFlow, (e, f) => {
    const of = name => page.account[f.name + "." + name], read = of("read");
    say(e.total, count(read) + " " + f.name + " read");
    const rows = f.parts.map(([name, color, about]) => ({name, color, about, n: of(name), share: read ? of(name) / read : null}));
    keep(e.stack, rows, r => r.name, createPart, (i, r) => { style(i, "flex-grow", String(r.n)); i.hidden = r.n === 0; });
    e.table.show(rows, r => r.name);
  });
}

// --- Partitions, workers, dead letters ---

const reason = (cell, text, none) => {
  say(cell, text || none);
  cell.className = "long" + (text ? " bad" : " quiet");
};

const partitions = table("Partitions", [
  {title: "partition", kind: "text", text: p => String(p.number)}, {title: "worker", kind: "text", text: p => short(p.worker)},
  {title: "doing", kind: "text", text: p => p.phase},
  {title: "waits for", kind: "long", fill: (cell, p) => reason(cell, p.waits, "nothing")},
  {title: "impressions not read", text: p => count(p.lag[0])}, {title: "selections", text: p => count(p.lag[1])}, {title: "payoffs", text: p => count(p.lag[2])},
  {title: "event time behind", text: p => time(p.event_time_lag)}, {title: "pending", text: p => count(p.pending)},
  {title: "parked", text: p => count(p.parked)}, {title: "not yet saved", text: p => bytes(p.unsaved)}]);
byId("partition-table").append(partitions);

const workers = table("Workers", [
  {title: "worker", kind: "text", fill: (cell, w) => say(cell, short(w.id) + (w.self ? " (this page)" : ""))}, {title: "version", kind: "text", text: w => w.version || "–"},
  {title: "partitions", text: w => count(w.partitions)}, {title: "rankings per s", text: w => rate(w.rankings)},
  {title: "runs for", text: w => time(w.up)}, {title: "age of figures", text: w => time(w.age)},
  {title: "outside", kind: "long", fill: (cell, w) => reason(cell, w.outside, "no")}]);
byId("worker-table").append(workers);

const letters = table("Dead letters, the latest first", [
  {title: "seen at", kind: "text", text: l => clock(l.at)}, {title: "topic", kind: "text", text: l => l.topic},
  {title: "partition", text: l => String(l.partition)}, {title: "offset", text: l => count(l.offset)},
  {title: "reason", kind: "text", text: l => l.reason}, {title: "detail", kind: "long", text: l => l.detail}]);
byId("letter-table").append(letters);

export function showRest(page) {
  partitions.show(page.partitions, p => p.number + " " + p.worker);
  partitions.none("No partition is assigned.");
  note(byId("more-partitions"), page.more_partitions ? plural(page.more_partitions, "more partition") + "." : "");
  workers.show(page.workers.map(w => ({...w, self: w.id === page.worker})), w => w.id);
  letters.show(page.dead_letters);
  letters.none("None since the workers began.");
}
