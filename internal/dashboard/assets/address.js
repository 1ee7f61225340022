// The page's address: the choices stand behind its #, so that a link leads to the same view.
const names = ["learner", "find", "range", "at"];
const listeners = [];
let chosen = read();

function read() {
  const hash = location.hash.slice(1);
  if (!hash.includes("=")) return hash ? {at: hash} : {};
  const all = new URLSearchParams(hash), now = {};
  for (const name of names) if (all.get(name)) now[name] = all.get(name);
  return now;
}

export const get = name => chosen[name] || "";

// link gives the address of a view with these changes; an empty value removes a choice.
export function link(changes) {
  const all = new URLSearchParams();
  for (const name of names) {
    const value = name in changes ? changes[name] : chosen[name];
    if (value) all.set(name, value);
  }
  const text = all.toString();
  return text ? "#" + text : location.pathname + location.search;
}

// choose changes the view. The browser's Back undoes it.
export function choose(changes) {
  const to = link(changes), same = location.pathname + location.search;
  if (to !== (location.hash || same)) history.pushState(null, "", to);
  chosen = {...chosen, ...changes};
  for (const f of listeners) f(changes);
}

export const onChange = f => listeners.push(f);

function moved() {
  const before = chosen;
  chosen = read();
  const changes = {};
  for (const name of names) if ((before[name] || "") !== get(name)) changes[name] = get(name);
  for (const f of listeners) f(changes);
}

addEventListener("popstate", moved);
addEventListener("hashchange", moved);
