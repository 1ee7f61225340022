// The live page: reads this worker's figures once a second while it is visible.
import {attribute, byId, keep, narrow, note, say} from "./dom.js";
import {showLast} from "./charts.js";
import {choose, get, onChange} from "./address.js";
import {chosenLearner, showTabs} from "./tabs.js";
import {createLearner, updateLearner} from "./learner.js";
import {idleWords, lastImpression, sentence, trouble} from "./sentence.js";
import {showAccount, showRest, showTiles, showWork} from "./group.js";
import {showExperiments, showLifts} from "./experiments.js";
import {refreshFound, suggest, syncInput} from "./search.js";
import {clock, dated} from "./words.js";

let page = null, past = null, paused = false, answered = 0, historyAt = 0, foundAt = 0, timer = 0;

// --- Folds and places ---

for (const fold of document.querySelectorAll("details.fold")) fold.open = !narrow.matches;

// go leads to a section, and unfolds it.
function go(id) {
  const section = byId(id);
  if (!section) return;
  const fold = section.querySelector("details.fold");
  if (fold) fold.open = true;
  section.tabIndex = -1;
  section.focus({preventScroll: true});
  section.scrollIntoView();
}

for (const a of document.querySelectorAll('a[href^="#"]')) a.addEventListener("click", e => {
  e.preventDefault();
  choose({at: a.getAttribute("href").slice(1)});
});

// --- Content ---

const visited = new Set();

function showLearner() {
  const chosen = chosenLearner(page), says = sentence(chosen, page), line = byId("sentence");
  say(line, says.text);
  attribute(line, "class", "sentence " + says.kind);
  note(byId("idle"), idleWords(chosen, page));
  showTabs(page);
  if (chosen) visited.add(chosen.name);
  keep(byId("panel"), page.learners.filter(l => visited.has(l.name)), l => l.name, createLearner, (e, l) => {
    e.hidden = l !== chosen;
    if (l === chosen) updateLearner(e, l, page);
  });
  note(byId("more-learners"), page.more_learners ? "More learners are in /metrics." : "");
}

function showPage() {
  say(byId("group"), "group " + page.group);
  document.title = page.group + " – ranker-worker";
  const last = lastImpression(page);
  say(byId("asof"), last ? "no impression since " + dated(last, page.now) : "as of " + clock(page.now));
  note(byId("trouble"), trouble(page));
  showLearner();
  showTiles(page);
  showExperiments(page);
  showAccount(page);
  showRest(page);
  suggest(page);
}

function showPast() {
  showWork(past);
  for (const [name, e] of byId("panel").kept || []) {
    const s = past.learners[name];
    if (!s || e.hidden) continue;
    e.curve.hidden = s.payoff.every(x => x == null);
    e.chart.show(past.times, [s.payoff, s.by_utility]);
  }
  showLifts(past);
}

// --- Choices ---

function showRange() {
  const range = byId("range"), known = [...range.options].some(o => o.value === get("range"));
  range.value = known ? get("range") : "";
  showLast(Number(range.value));
}

byId("range").addEventListener("change", () => choose({range: byId("range").value}));
onChange(changes => {
  if ("range" in changes) showRange();
  if ("learner" in changes && page) {
    showLearner();
    if (past) showPast();
  }
  if ("find" in changes) {
    foundAt = 0;
    refresh();
  }
  if (changes.at) go(changes.at);
});

// --- Time ---

function state(kind, text) {
  const e = byId("state");
  if (e.className !== kind) e.className = kind;
  say(e, text);
}

const loginEnded = new Error("the login has ended: load this page again");

// ask reads from the worker. Only a proxy before it leads elsewhere or refuses.
async function ask(path) {
  const response = await fetch(path, {cache: "no-store", redirect: "manual", signal: AbortSignal.timeout(8000)});
  if (response.type === "opaqueredirect" || response.status === 401 || response.status === 403) throw loginEnded;
  if (!response.ok) throw new Error(response.statusText);
  return response.json();
}

async function read(began) {
  const now = await ask("page/live.json");
  if (paused) return;
  const first = !page;
  page = now;
  showPage();
  if (began >= historyAt) {
    past = await ask("page/history.json");
    const n = past.times.length;
    historyAt = began + (n > 1 && past.times[n - 1] - past.times[n - 2] > 5000 ? 9500 : 1500);
    showPast();
  }
  if (first && get("at")) go(get("at"));
}

// find also works while the page pauses.
async function find(began) {
  if (began < foundAt) return;
  foundAt = began + 4500;
  await refreshFound(ask);
}

async function refresh() {
  clearTimeout(timer);
  if (document.hidden) return;
  const began = Date.now();
  try {
    await find(began);
    if (paused) return;
    await read(began);
    answered = Date.now();
    if (lastImpression(page)) state("", "no traffic"); else state("live", "live");
  } catch (e) {
    state("gone", (e === loginEnded ? e.message : "the worker does not answer") + (answered ? "; figures are as of " + clock(answered) : ""));
  }
  clearTimeout(timer);
  timer = setTimeout(refresh, Math.max(100, 1000 - (Date.now() - began)));
}

byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  state("", paused ? "paused" : "live");
  refresh();
});
document.addEventListener("visibilitychange", refresh);
syncInput();
showRange();
refresh();
