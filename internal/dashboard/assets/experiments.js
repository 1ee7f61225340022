// Experiments: a sentence for each arm, its lift over time, and the check that units fall to arms by their shares.
import {byId, keep, make, note, say, style, table} from "./dom.js";
import {chart} from "./charts.js";
import {policyOf} from "./learner.js";
import {count, decimal, moment, percent, plural, signed} from "./words.js";

const units = arms => arms.reduce((sum, a) => sum + a.units, 0);
const relative = (x, control) => control.payoff > 0 ? x / control.payoff : null;
const signedPercent = x => x == null ? "–" : (x < 0 ? "−" : "+") + percent(Math.abs(x));

// armSentence says how an arm compares with the control.
function armSentence(a, control, now) {
  if (a.verdict === "out of service") return a.arm + " is out of service: its guard has tripped, since it was worse than " + control.arm + ".";
  if (!a.units || !control.units) return a.first ? "Too early: first figure by " + moment(Math.max(a.first, now), now) + "." : "Too early: no unit has passed its payoff deadline.";
  if (a.verdict === "refused") return a.arm + " has no bounds: " + a.why + ".";
  const lift = relative(a.lift, control), much = lift == null ? decimal(Math.abs(a.lift)) : percent(Math.abs(lift));
  const basis = ": " + signed(a.lift) + " a unit, between " + signed(a.lower) + " and " + signed(a.upper) + " at any look, " + plural(a.units + control.units, "unit") + ".";
  if (a.verdict === "open") return "No difference yet between " + a.arm + " and " + control.arm + basis;
  return a.arm + " earns " + much + (a.verdict === "better" ? " more" : " less") + " than " + control.arm + basis;
}

// anyAgeSentence says how an arm compares by impressions of any age, under three names.
function anyAgeSentence(a, control, now) {
  const x = a.any_age;
  if (!x) return "";
  const soFar = x.so_far_is ? x.so_far_is + " (" + signed(x.so_far) + " an impression)" : "not known, since " + x.so_far_why;
  const known = x.known ? " Whether it is worse is known from " + moment(Math.max(x.known, now), now) + " on." : "";
  const end = x.end_is === "refused" ? "not known: " + x.end_why + "." : x.end_is + ", at least " + signed(x.at_least) +
    (x.at_most == null ? "" : ", at most " + signed(x.at_most)) + ", about " + signed(x.end) + ".";
  const timing = x.timing ? " Timing: " + (x.timing === "as control" ? "pays as the control, as far as is seen." : "pays " + x.timing + " than " + control.arm + " (certain)" +
    (x.so_far_is === "ahead" && x.timing === "sooner" ? ", so being ahead is no lift." : ".")) : "";
  const level = x.break_even ? " To draw level, its later payoffs would have to be at least " + decimal(x.break_even) + " times the control's." : "";
  const explained = x.explained > 0.01 ? " Predictions or utilities explain " + percent(x.explained) + " of the variance." : "";
  const forecast = x.forecast ? " Forecast (no proof): better with " + percent(x.forecast.better) + ", worse with " + percent(x.forecast.worse) + "." : "";
  return a.arm + ", " + plural(x.units, "impression") + " of any age. So far: " + soFar + ". In the end: " + end + timing + known + level + explained + forecast;
}

// sharesSentence says whether units fall to arms by their shares (sample ratio).
function sharesSentence(arms) {
  const off = arms.filter(a => a.off_shares).map(a => a.arm);
  if (off.length) return "The shares do not fit (sample-ratio mismatch): impressions of " + off.join(", ") + " or of the control are lost or repeated. Do not trust the lift.";
  return units(arms) ? "The shares fit: the numbers of units are as configured, within chance." : "";
}

// within gives an axis with the last bounds in it, and as much again on both sides, since early bounds are wide.
function within(_, __, values) {
  const last = values.map(v => v.findLast(x => x != null)).filter(x => x != null);
  const low = Math.min(0, ...last), high = Math.max(0, ...last), room = Math.max(high - low, 1e-6) / 2;
  return [low - room, high + room];
}

function createExperiment(x) {
  const e = make("article", "experiment"), name = x.arms[0].experiment + ", run " + x.arms[0].run;
  e.head = make("h3");
  e.head.append(make("bdi", "", name), make("span", "quiet", "against " + x.control.arm));
  e.sentences = make("div");
  e.anyAge = make("div");
  e.shares = make("p", "note");
  const box = e.curve = make("div", "chart");
  e.table = table("Arms", [
    {title: "arm", kind: "text", fill: (cell, a) => {
      if (!cell.firstChild) cell.append(make("span", "swatch"), make("bdi"));
      style(cell.firstChild, "--policy", `var(--${policyOf(a)})`);
      say(cell.lastChild, a.arm);
    }},
    {title: "share", text: a => percent(a.share)},
    {title: "of units", text: a => x.all ? percent(a.units / a.all) : "–"},
    {title: "units", text: a => count(a.units)},
    {title: "payoff", text: a => a.units ? decimal(a.payoff) : "–"},
    {title: "lift", text: a => a.hasLift ? signed(a.lift) : "–"},
    {title: "relative", text: a => a.hasLift ? signedPercent(relative(a.lift, a.of)) : "–"},
    {title: "at any look", text: a => a.bounded ? signed(a.lower) + " to " + signed(a.upper) : "–"},
    {title: "verdict", kind: "text", text: a => a.control ? "control" : a.units || a.verdict === "out of service" ? a.verdict : "too early"}], name);
  const rivals = x.arms.filter(a => !a.control);
  const lines = rivals.flatMap(a => [{title: a.arm, color: policyOf(a)}, {title: a.arm + ", lower", color: policyOf(a), thin: true, dash: true, quiet: true},
    {title: a.arm + ", upper", color: policyOf(a), thin: true, dash: true, quiet: true}]);
  box.hidden = true; // until there is a lift
  e.append(e.head, e.sentences, e.anyAge, e.shares, box, e.table);
  e.chart = chart(box, {title: "Lift over " + x.control.arm + ", with bounds that hold at any look", unit: "a unit", format: signed, lines, range: within,
    bands: rivals.map((_, k) => [3 * k + 2, 3 * k + 1])});
  e.rivals = rivals.map(a => a.arm);
  return e;
}

function updateExperiment(e, x, now) {
  keep(e.sentences, x.arms.filter(a => !a.control), a => a.arm, () => make("p", "says"), (p, a) => say(p, armSentence(a, x.control, now)));
  keep(e.anyAge, x.arms.filter(a => a.any_age), a => a.arm, () => make("p", "note"), (p, a) => say(p, anyAgeSentence(a, x.control, now)));
  note(e.shares, sharesSentence(x.arms));
  e.shares.classList.toggle("bad", x.arms.some(a => a.off_shares));
  e.table.show(x.arms.map(a => ({...a, all: x.all, of: x.control, hasLift: !a.control && a.units > 0 && x.control.units > 0,
    bounded: !a.control && a.units > 0 && a.verdict !== "refused"})), a => a.arm);
}

// experimentsOf groups arms by experiment, run and names.
function experimentsOf(page) {
  const all = new Map();
  for (const a of page.arms) {
    const key = a.experiment + " " + a.run;
    if (!all.has(key)) all.set(key, {arms: [], key});
    all.get(key).arms.push(a);
  }
  return [...all.values()].map(x => ({...x, all: units(x.arms), control: x.arms.find(a => a.control) || x.arms[0]}))
    .map(x => ({...x, key: x.key + " " + x.arms.map(a => a.arm).join(" ")}));
}

export function showExperiments(page) {
  byId("experiments").hidden = !page.arms.length;
  const list = byId("experiment-list"), all = experimentsOf(page);
  for (const [key, e] of list.kept || []) if (!all.some(x => x.key === key)) e.chart.end();
  keep(list, all, x => x.key, createExperiment, (e, x) => {
    e.of = x.arms[0];
    updateExperiment(e, x, page.now);
  });
}

// showLifts draws the lifts of a history.
export function showLifts(past) {
  for (const e of (byId("experiment-list").kept || new Map()).values()) {
    e.curve.hidden = !past.lifts.arms.some(s => s.experiment === e.of.experiment && s.run === e.of.run);
    const none = past.lifts.times.map(() => null);
    e.chart.show(past.lifts.times, e.rivals.flatMap(arm => {
      const s = past.lifts.arms.find(s => s.arm === arm && s.experiment === e.of.experiment && s.run === e.of.run);
      return s ? [s.lift, s.lower, s.upper] : [none, none, none];
    }));
  }
}
