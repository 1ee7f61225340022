// One tab for each learner; only the chosen one's panel is made and kept up to date.
import {attribute, byId, keep, make, say} from "./dom.js";
import {choose, get} from "./address.js";
import {policyOf} from "./learner.js";
import {gainOf} from "./sentence.js";
import {percent} from "./words.js";

// chosenLearner gives the learner of the address, or the first.
export const chosenLearner = page => page.learners.find(l => l.name === get("learner")) || page.learners[0];

const list = byId("tabs");

function createTab(l) {
  const tab = make("button", "tab");
  tab.type = "button";
  tab.name = l.name;
  tab.setAttribute("role", "tab");
  tab.setAttribute("aria-controls", "panel");
  tab.style.setProperty("--policy", `var(--${policyOf(l)})`);
  tab.gain = make("span", "gain");
  tab.append(make("span", "swatch"), make("bdi", "", l.name), tab.gain);
  tab.addEventListener("click", () => choose({learner: l.name}));
  return tab;
}

// gainWords are the few letters of a tab.
function gainWords(l) {
  const g = gainOf(l);
  if (l.early) return "too early";
  return g && g.certain && g.relative != null ? (g.gain < 0 ? "−" : "+") + percent(Math.abs(g.relative)) : "";
}

export function showTabs(page) {
  const chosen = chosenLearner(page);
  list.hidden = page.learners.length < 2;
  keep(list, page.learners, l => l.name, createTab, (tab, l, at) => {
    const is = l === chosen;
    tab.id = "tab-" + at;
    attribute(tab, "aria-selected", String(is));
    tab.tabIndex = is ? 0 : -1;
    if (is) attribute(byId("panel"), "aria-labelledby", tab.id);
    say(tab.gain, gainWords(l));
  });
}

// Arrows, Home and End go to another tab, as in any list of tabs.
list.addEventListener("keydown", e => {
  const tabs = [...list.children], at = tabs.indexOf(document.activeElement);
  const to = {ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: tabs.length - 1}[e.key];
  if (to == null || at < 0) return;
  e.preventDefault();
  const tab = tabs[(to + tabs.length) % tabs.length];
  choose({learner: tab.name});
  tab.focus();
});
