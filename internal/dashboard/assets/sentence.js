// The sentence on top: the earnings of a learner, for people who have one minute.
import {count, dated, decimal, duration, moment, percent, plural, time, withError} from "./words.js";

const idleAfter = 60000; // as in value.go

// idleFor gives the seconds for which a learner has ranked no impression; 0 within a minute of one, and before the first.
export const idleFor = (l, page) => l.ranked && page.now - l.last_at > idleAfter ? (page.now - l.last_at) / 1000 : 0;

// lastImpression gives the time of the group's last impression, if that is more than a minute ago, or of the worker's beginning; else 0.
export function lastImpression(page) {
  const last = Math.max(0, ...page.learners.filter(l => l.ranked).map(l => l.last_at));
  return last && !page.rates.rankings && page.now - last > idleAfter ? last : 0;
}

// idleWords say that a learner has no traffic, and how its figures change without.
export function idleWords(l, page) {
  if (!l || !idleFor(l, page)) return "";
  const unpaid = l.silence && l.silence.known && l.awaited > 0 ? " Its unpaid selections (" + count(l.awaited) + ") count by their age at the newest payoff, until their deadlines." : "";
  return l.name + " has ranked no impression since " + dated(l.last_at, page.now) + ", for " + duration(idleFor(l, page)) +
    ". Its figures change only as payoffs come and deadlines pass." + unpaid;
}

// earlyWords give the reason why it is too early for a learner's payoff.
export function earlyWords(l) {
  return l.early === "selections" ? "more than a third of the impressions wait for a selection, each " + time(l.timeout) + " at most"
    : "many payoffs are still to come, each within " + time(l.horizon);
}

// mayComeSooner: silent selections count by their age, so that a figure does not wait for the horizon.
const mayComeSooner = l => l.silence && l.early === "payoffs";

// firstFigure says by when a payoff is known.
export function firstFigure(l, now) {
  const at = Math.max(l.first_at, now + 60000);
  if (!l.first_at) return "";
  return "first figure by " + moment(at, now) + (mayComeSooner(l) ? " at the latest" : "");
}

// gainOf gives a learner's payoff minus that of ranking by utility, and whether its 95 % interval leaves 0 out.
export function gainOf(l) {
  if (l.payoff == null || l.by_utility == null || l.how === "rankings") return null;
  const gain = l.payoff - l.by_utility;
  return {gain, half: l.gain_error, certain: l.gain_error != null && Math.abs(gain) > l.gain_error, relative: l.by_utility > 0 ? gain / l.by_utility : null};
}

function tooEarly(l, now) {
  const first = firstFigure(l, now), sooner = first && mayComeSooner(l) ? ", sooner if payoffs come soon" : "";
  return "Too early to say how much " + l.name + " earns: " + earlyWords(l) + "." + (first ? " The " + first.replace("first figure", "first figure comes") + sooner + "." : "");
}

// sentence gives the sentence of a learner, and its kind: good, bad, none (no difference yet), early, or "".
export function sentence(l, page) {
  if (!l) return {kind: "", text: "This group has no learner."};
  if (!l.ranked && !l.ended) return {kind: "early", text: l.name + " has ranked no impression yet."};
  if (l.early) return {kind: "early", text: tooEarly(l, page.now)};
  if (l.payoff == null && !l.ended && l.resolved + l.left > 0) return {kind: "early", text: "No impression of " + l.name + " has ended in the last " + duration(page.seconds) + "."};
  if (l.payoff == null) return {kind: "early", text: "Too early to say how much " + l.name + " earns: no outcome of its impressions is known yet."};
  const idle = idleFor(l, page), earns = idle ? " earned " : " earns ";
  const basis = plural(l.ended, "impression") + ", " + (idle && idle < page.seconds ? "until " + dated(l.last_at, page.now) : duration(page.seconds)) + ".";
  const own = withError(l.payoff, l.payoff_error) + " per impression";
  if (l.how === "rankings") return {kind: "", text: l.name + (idle ? " ranked" : " ranks") + " by clicks, and" + earns + own + ": " + basis};
  const g = gainOf(l);
  if (!g) return {kind: "", text: l.name + earns + own + "; the worth of ranking by clicks is not known yet: " + basis};
  const difference = withError(g.gain, g.half, true) + " per impression, " + basis;
  if (!g.certain) return {kind: "none", text: "No difference yet between " + l.name + " and ranking by clicks: " + difference};
  const much = g.relative == null ? decimal(Math.abs(g.gain)) : percent(Math.abs(g.relative));
  return {kind: g.gain > 0 ? "good" : "bad", text: l.name + earns + much + (g.gain > 0 ? " more" : " less") + " than ranking by clicks: " + difference};
}

// trouble gives a sentence about partitions that do not work, and workers outside of their group.
export function trouble(page) {
  const waiting = page.partitions.filter(p => p.waits), stopped = waiting.filter(p => p.phase === "stopped");
  const some = stopped.length ? stopped : waiting, outside = page.workers.filter(w => w.outside);
  if (some.length) {
    const numbers = some.slice(0, 5).map(p => p.number).join(", ") + (some.length > 5 ? " and more" : "");
    return (some.length === 1 ? "Partition " : "Partitions ") + numbers + (stopped.length ? (some.length === 1 ? " has" : " have") + " stopped: "
      : (some.length === 1 ? " waits: " : " wait: ")) + some[0].waits;
  }
  return outside.length ? plural(outside.length, "worker") + (outside.length === 1 ? " stays" : " stay") + " outside of the group: " + outside[0].outside : "";
}
