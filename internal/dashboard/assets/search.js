// Search: an impression's id gives its ranking with reasons, an item's name its row and history. The page knows the rankings that it has
// sampled and the items that it has shown; for others it gives the command that finds them.
import {byId, keep, make, note, say, tiles} from "./dom.js";
import {chart} from "./charts.js";
import {choose, get, onChange} from "./address.js";
import {showRankings} from "./rankings.js";
import {count, decimal, percent, plural} from "./words.js";

const box = byId("found"), input = byId("find"), rankings = byId("found-rankings");
rankings.of = "found";
rankings.heading = "h3";
let shown = null; // the last answer

// quoted writes a word for a shell.
const quoted = word => /^[\w.\-\/@%+:]+$/.test(word) && !word.startsWith("-") ? word : "'" + word.replaceAll("'", "'\\''") + "'";

// commands gives the command lines for names that the page does not know.
function commands(f) {
  const name = quoted(get("find")), tool = "ranker-worker ", config = " --config worker.yaml";
  const explain = {about: "Its ranking with all reasons, from the topics", line: tool + "explain" + (get("find").startsWith("-") ? config + " -- " + name : " " + name + config)};
  const inspect = learner => ({about: "The item's stored statistics" + (learner ? " of learner " + learner : ""),
    line: tool + "state inspect" + config + (learner ? " --learner=" + quoted(learner) : "") + " --candidates=" + quoted(get("find") + ":0")});
  const cut = /^.{40}…[0-9a-f]{6}$/su.test(get("find")); // as the page cuts long names, which then name nothing
  if (cut || /\p{Cc}/u.test(get("find"))) return []; // a copied line with control characters could do more than it shows
  if (f.rankings.length) return [explain];
  if (get("find").includes(",")) return f.items.length ? [] : [explain]; // a comma parts candidates
  return f.items.length ? f.items.map(i => inspect(i.learner)) : [explain, inspect("")];
}

async function copy(code, button) {
  try {
    await navigator.clipboard.writeText(code.textContent);
  } catch { // not over plain HTTP from another machine
    getSelection().selectAllChildren(code);
    document.execCommand("copy");
  }
  say(button, "Copied");
  setTimeout(() => say(button, "Copy"), 1500);
}

function createCommand() {
  const e = make("div", "command"), code = make("code"), button = make("button", "", "Copy");
  button.type = "button";
  button.addEventListener("click", () => copy(code, button));
  e.append(make("p", "note"), code, button);
  return e;
}

function createItem(i) {
  const e = make("article"), plots = make("div", "charts");
  e.head = make("h3");
  e.head.append(make("bdi", "", i.row.name), make("span", "quiet", "item of learner " + i.learner));
  e.figures = make("dl", "tiles");
  const left = make("div", "chart"), right = make("div", "chart");
  plots.append(left, right);
  e.append(e.head, e.figures, plots);
  e.mean = chart(left, {title: "Mean payoff", unit: "", format: decimal, bands: [[2, 1]], lines: [{title: "mean", color: "moss"},
    {title: "95 % interval", color: "moss", thin: true, dash: true}, {title: "upper end", color: "moss", thin: true, dash: true, quiet: true}]});
  e.first = chart(right, {title: "Shown first", unit: "", format: percent, least: 0.01, lines: [{title: "share of recent impressions", color: "moss"}]});
  return e;
}

function updateItem(e, i) {
  const r = i.row;
  tiles(e.figures, [
    {name: "Mean payoff", value: r.mean == null ? "too early" : decimal(r.mean), note: r.worth > 0 ? "95 % interval " + decimal(r.low) + " – " + decimal(r.high) : "no payoff yet"},
    {name: "Payoffs known", value: count(Math.round(r.worth)), note: "with the weight of unpaid selections"},
    {name: "Shown first", value: percent(r.first), note: "of recent impressions"},
    {name: "Highest utility", value: percent(r.favourite), note: "of recent impressions"}]);
  e.mean.show(i.times, [i.mean, i.low, i.high]);
  e.first.show(i.times, [i.first]);
}

function summary(f) {
  const all = [f.rankings.length ? plural(f.rankings.length, "sampled ranking") + " of this impression" : "",
    f.items.length ? "Item of " + plural(f.items.length, "learner") : ""].filter(x => x);
  return all.length ? all.join(". ") + "." : "This page does not know it: it samples a few rankings a second, and follows the items shown most often. The commands answer for all.";
}

function show(f) {
  shown = f;
  say(byId("found-name"), f.name);
  say(byId("found-summary"), summary(f));
  showRankings(rankings, f.rankings);
  const items = byId("found-items");
  for (const [key, e] of items.kept || []) if (!f.items.some(i => i.learner + " " + f.name === key)) { e.mean.end(); e.first.end(); }
  const ofChosen = i => i.learner === get("learner") ? 0 : 1;
  keep(items, [...f.items].sort((a, b) => ofChosen(a) - ofChosen(b)), i => i.learner + " " + f.name, createItem, updateItem);
  keep(byId("found-commands"), commands(f), c => c.line, createCommand, (e, c) => {
    say(e.children[0], c.about + ":");
    say(e.children[1], c.line);
  });
}

// refreshFound asks for the name of the address, if there is one.
export async function refreshFound(ask) {
  const name = get("find");
  box.hidden = !name;
  if (!name) return;
  const f = await ask("page/find.json?name=" + encodeURIComponent(name));
  if (get("find") === name) show(f);
}

// suggest offers the names that the page knows.
export function suggest(page) {
  const names = new Set(page.learners.flatMap(l => (l.item_rows || []).map(r => r.name)));
  keep(byId("names"), [...names].slice(0, 64), n => n, n => {
    const o = make("option");
    o.value = n;
    return o;
  }, () => {});
}

byId("search").addEventListener("submit", e => {
  e.preventDefault();
  choose({find: input.value.trim()});
  if (get("find")) byId("found-title").focus();
});
byId("found-close").addEventListener("click", () => {
  choose({find: ""});
  input.focus();
});
export function syncInput() {
  input.value = get("find");
  if (!get("find")) box.hidden = true;
  else if (!shown || shown.name !== get("find")) note(byId("found-summary"), "Searching.");
}
onChange(changes => { if ("find" in changes) syncInput(); });
