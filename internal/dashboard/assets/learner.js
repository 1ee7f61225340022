// A learner's panel: its figures, its payoff over time, its items, and some of its rankings.
import {attribute, child, make, note, range, say, style, table, tiles} from "./dom.js";
import {chart} from "./charts.js";
import {link} from "./address.js";
import {createCard, showCards} from "./rankings.js";
import {earlyWords, firstFigure, gainOf} from "./sentence.js";
import {count, decimal, percent, plural, signed, time} from "./words.js";

// policyOf returns the name of a learner's colour, which page.css has of each policy of this worker.
export const policyOf = l => getComputedStyle(document.documentElement).getPropertyValue("--" + l.policy) ? l.policy : "moss";

const howWords = {
  means: "Ranking by clicks is ranking by utility, estimated from the favourites' payoffs per selection. The estimate is right if an item's mean payoff is the same in all impressions.",
  propensities: "Ranking by clicks is ranking by utility, estimated from the favourites' payoffs, weighted by inverse propensities. The estimate is right if users look at as many results as assumed.",
  shares: "Ranking by clicks is ranking by utility, estimated from the favourites' payoffs per selection, times the share of selections with them on top. The estimate is right if both are the same in all impressions.",
  rankings: "All of these rankings are by utility, the clicks that users are expected to make.",
  rules: "Pins and caps change too many rankings: the payoff of ranking by clicks under the same rules is not known.",
  "": "The payoff of ranking by clicks, which is by utility, is not known yet.",
};

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

const name = (cell, text) => say(child(cell, () => make("bdi")), text);

// found fills a cell with a link that finds an item.
function found(cell, text) {
  const a = child(cell, () => {
    const a = make("a");
    a.append(make("bdi"));
    return a;
  });
  say(a.firstChild, text);
  attribute(a, "href", link({find: text}));
}

function windowsOf(e, l) {
  e.windows = table("How many of the first results users look at", [
    {title: "results", kind: "text", text: r => r.name}, {title: "share of users", text: r => percent(r.share)},
    {title: "of all", kind: "text wide", fill: (cell, r) => style(child(cell, () => make("span", "bar")), "width", (100 * r.share).toFixed(1) + "%")}], l.name);
  e.windowsNote = make("p", "note");
  e.windowsBox = make("div", "windows");
  e.windowsBox.append(e.windows, e.windowsNote);
  return e.windowsBox;
}

function dependsOf(e, l) {
  e.deviations = table("Sources of differences between payoffs", [{title: "by", kind: "text", text: r => levelWords[r.level] || r.level},
    {title: "standard deviation", text: r => decimal(r.sd)}], l.name);
  e.effects = table("Effects of features", [
    {title: "feature", kind: "name", fill: (cell, r) => name(cell, r.feature)},
    {title: "from the middle of its range to its end", text: r => signed(r.effect)}, {title: "± one standard deviation", text: r => decimal(r.sd)}], l.name);
  e.dependsBox = make("div", "depends");
  e.groups = make("p", "note");
  e.dependsBox.append(e.deviations, e.groups, e.effects, make("p", "note", "In payoff ranges: standard deviations by chance and by each cause, and the expected change with each feature, largest first."));
  return e.dependsBox;
}

function itemsOf(e, l) {
  e.items = table("Recent first items and favourites", [
    {title: "item", kind: "name", fill: (cell, r) => found(cell, r.name)},
    {title: "shown first", text: r => percent(r.first)},
    {title: "highest utility", text: r => percent(r.favourite)},
    {title: "payoffs known", text: r => count(Math.round(r.worth))},
    {title: "mean payoff", text: r => r.mean == null && r.worth > 0 ? "too early" : decimal(r.mean)},
    {title: "95 % interval", text: r => r.worth > 0 ? decimal(r.low) + " – " + decimal(r.high) : "–"},
    {title: "on a scale", kind: "text wide", fill: (cell, r) => child(cell, range).show(r.from, r.to, r.mean, r.low, r.high)}], l.name);
  e.scale = make("p", "note");
  return e.items;
}

export function createLearner(l) {
  const e = make("article", "learner"), policy = policyOf(l);
  e.style.setProperty("--policy", `var(--${policy})`);
  e.setAttribute("aria-label", "learner " + l.name);
  const header = make("h3");
  header.append(make("span", "swatch"), make("bdi", "", l.name), make("span", "quiet", "policy " + l.policy + ", delay " + l.delay +
    (l.per_impression ? ", maximises payoff per impression" : "")));
  e.figures = make("dl", "tiles");
  e.more = make("dl", "tiles");
  e.moreBox = make("details", "more");
  e.moreBox.append(make("summary", "", "More figures"), e.more);
  const beside = make("div", "beside"), left = make("div"), right = make("div"), box = make("div", "chart");
  e.how = make("p", "note");
  e.rule = make("p", "note");
  e.model = make("details", "model");
  e.model.append(make("summary", "", "How users look, and sources of differences"), windowsOf(e, l), dependsOf(e, l));
  e.curve = box;
  box.hidden = true; // until there is a value
  left.append(box, e.how, e.rule, e.model);
  right.append(itemsOf(e, l), e.scale, make("p", "note", "Shares of recent impressions. If an item often has the highest utility but is seldom shown first, another one pays better."));
  beside.append(left, right);
  e.rankings = createCard("learner " + l.name);
  e.append(header, e.figures, e.moreBox, beside, e.rankings);
  e.chart = chart(box, {title: "Payoff per impression", unit: "per impression", format: decimal, lines: [{title: "ranked by this learner", color: policy},
    {title: "ranked by clicks, estimated", color: "utility", dash: true}]});
  return e;
}

// error writes half the length of a 95 % interval.
const error = (half, text) => half > 0 ? "± " + text(half) + " (95 %)" : "";

// mainFigures are the four that stand first.
function mainFigures(l, page) {
  const g = gainOf(l), inGain = x => g.relative != null ? percent(Math.abs(x) / l.by_utility) : decimal(Math.abs(x));
  const basis = l.ended ? "of " + plural(l.ended, "impression") + " that ended in the last " + time(page.seconds) : "no impression has ended yet";
  const own = l.early ? [earlyWords(l), firstFigure(l, page.now)].filter(x => x).join("; ") : [error(l.payoff_error, decimal), basis].filter(x => x).join(", ");
  return [
    {name: "Payoff per impression", kind: "of-policy", value: l.early ? "too early" : decimal(l.payoff), note: own},
    {name: "Ranked by clicks", kind: "of-utility", value: decimal(l.by_utility), note: l.how === "rankings" ? "as it does" : l.how === "rules" ? "not known under pins and caps" : "estimated, for the same impressions"},
    {name: "Difference", value: g ? (g.gain >= 0 ? "+" : "−") + inGain(g.gain) : "–",
      note: g && !g.certain ? "no difference yet: " + error(l.gain_error, inGain) : g ? error(l.gain_error, inGain) : ""},
    {name: "Payoffs learned from", value: count(l.fed), note: (l.warmed ? count(l.warmed) + " by a warm start; " : "") + count(l.awaited) + " more awaited"},
  ];
}

function moreFigures(l, page) {
  const over = "in the last " + time(page.seconds);
  const figures = l.selecting == null ? [] : [
    {name: "Impressions with a selection", value: percent(l.selecting), note: "of " + plural(l.selecting_of, "impression") + " " + over + "; the others pay nothing"},
    {name: "Payoff per selection", value: decimal(l.per_selection), note: "of " + plural(l.paid_for, "selection") + " " + over + "; unpaid ones count by their age"}];
  figures.push({name: "Favourite is not the best payer", value: percent(l.outpaid), note: "of impressions, by known means"},
    {name: "Favourite shown first", value: percent(l.first_share), note: "of impressions"});
  if (l.silence && l.silence.seen) {
    figures.push({name: "Payoff delay", value: time(l.silence.median), note: "p50 · p90 " + time(l.silence.p90)});
    if (l.silence.share > 0) figures.push({name: "Selections that are paid", value: percent(l.silence.share), note: "estimate"});
  }
  if (l.delay === "qpmd") {
    figures.push({name: "Payoffs in queues", value: count(l.queued), note: "wait until the policy requests them"});
    figures.push({name: "On hold", value: l.on_hold ? plural(l.on_hold, "partition") : "no", note: l.on_hold ? "for a payoff" + (l.hold_item ? " of " + l.hold_item : "") : "no partition waits for a payoff"});
  }
  if (l.undecided_pairs > 0) figures.push({name: "Order of utilities", value: plural(l.undecided_pairs, "pair"), note: "undecided"});
  return figures;
}

export function updateLearner(e, l, page) {
  tiles(e.figures, mainFigures(l, page));
  tiles(e.more, moreFigures(l, page));
  say(e.how, howWords[l.how] || howWords[""]);
  note(e.rule, l.rule ? "Rule: " + l.rule + (l.rule.endsWith("…") ? "" : ".") : "");
  const rows = l.item_rows || [];
  const from = Math.min(...rows.map(r => r.low)), to = Math.max(...rows.map(r => r.high));
  note(e.scale, rows.length ? "The scale goes from " + decimal(from) + " to " + decimal(to) + ". About 95 % of such intervals contain the true mean." : "");
  e.items.show(rows.map(r => ({...r, from, to})), r => r.name);
  e.items.none("No impression was ranked since this worker took over its partitions.");
  const depends = l.depends || {};
  e.dependsBox.hidden = !l.depends;
  e.deviations.show(depends.deviations || [], r => r.level);
  note(e.groups, groupWords(depends));
  e.effects.show(depends.features || [], r => r.feature);
  e.effects.hidden = !(depends.features || []).length;
  const windows = l.windows || [];
  e.windowsBox.hidden = windows.length === 0;
  e.windows.show(windows.slice(0, 10).map((share, k) => ({name: k === windows.length - 1 ? "more than " + k : k === 0 ? "the first" : "the first " + (k + 1), share}))
    .filter(r => r.share >= 0.0005));
  e.model.hidden = e.windowsBox.hidden && e.dependsBox.hidden;
  say(e.windowsNote, l.window_selections > 0 ? "Learned from " + plural(l.window_selections, "selection") + "." : "As configured, or not learned yet.");
  showCards(e.rankings, page.rankings.filter(r => r.learner === l.name));
}
