// Rankings with the estimates of their moment. Leaders are marked; the others stand behind one that users prefer.
import {attribute, child, keep, make, narrow, say, table} from "./dom.js";
import {link} from "./address.js";
import {count, decimal, nth, percent, utc} from "./words.js";

function why(r, at, shown) {
  if (r.rank < 0) return "the order of utilities is not known yet";
  if (r.leader === at) return at === 0 ? "leads" : "leads: its utility exceeds all before it";
  return "hidden by " + shown[r.leader].name + ": users prefer it and would select that one";
}

const itemCell = (cell, r) => {
  const e = child(cell, () => {
    const e = make("span");
    e.append(make("b", "mark"), make("bdi"));
    return e;
  });
  say(e.firstChild, r.leads ? "▲ " : "");
  say(e.lastChild, r.name);
};

function createRanking(r) {
  const e = make("div", "card");
  e.head = make(r.heading);
  e.link = make("a");
  e.head.append("Impression ", e.link);
  e.link.append(make("bdi"));
  e.about = make("p", "quiet");
  e.table = table("Candidates in the order shown", [
    {title: "place", text: r => String(r.place)},
    {title: "item", kind: "name", fill: itemCell},
    {title: "liked", text: r => r.rank < 0 ? "–" : r.rank === r.of - 1 ? "best" : nth(r.of - r.rank) + " of " + r.of},
    {title: "mean payoff", text: r => r.worth > 0 ? decimal(r.mean) : "–"},
    {title: "payoffs known", text: r => count(Math.round(r.worth))},
    {title: "chance of selection", text: r => r.propensity ? percent(r.propensity) : "–"},
    {title: "why here", kind: "long", text: r => r.why}], r.of);
  e.append(e.head, e.about, e.table);
  return e;
}

function updateRanking(e, r) {
  say(e.link.firstChild, r.id);
  attribute(e.link, "href", link({find: r.id}));
  say(e.about, "learner " + r.learner + ", partition " + r.partition + ", offset " + count(r.offset) + ", event time " + utc(r.time) +
    (r.explored ? "; ranked to explore" : ""));
  e.table.show(r.shown.map((s, at) => {
    const leads = s.rank >= 0 && s.leader === at;
    return {...s, place: at + 1, of: r.candidates, leads, rowClass: s.rank < 0 ? "" : leads ? "leads" : "follows", why: why(s, at, r.shown)};
  }));
}

// createCard makes a list of rankings, with its explanation. Of is a name that no other list has.
export function createCard(of) {
  const box = make("details", "fold rankings"), head = make("summary");
  head.append(make("h3", "", "Recent rankings, explained"));
  box.open = !narrow.matches;
  box.list = make("div", "cards");
  box.list.of = of;
  box.list.heading = "h4";
  box.none = make("p", "note", "No impression was ranked since this worker took over its partitions.");
  box.append(head, make("p", "help", "Some recent decisions, with the estimates at the time. Users select the item with the highest utility among the first results. So an item either leads (▲), or stands below one with a higher utility, where hardly anybody selects it."),
    box.list, box.none);
  return box;
}

// showRankings fills a list with rankings; its of is a name that no other list has, its heading the element of headings.
export function showRankings(list, rankings) {
  keep(list, rankings.map((r, at) => ({...r, heading: list.heading, of: list.of + ", number " + (at + 1)})), r => r.of, createRanking, updateRanking);
}

export function showCards(box, rankings) {
  showRankings(box.list, rankings);
  box.none.hidden = rankings.length > 0;
}
