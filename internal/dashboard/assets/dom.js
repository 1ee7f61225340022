// Elements that are made once and kept. All text is set as text, never as HTML.
export const byId = id => document.getElementById(id);

// narrow screens begin with parts folded.
export const narrow = matchMedia("(max-width: 40rem)");

export function make(tag, className, text) {
  const e = document.createElement(tag);
  if (className) e.className = className;
  if (text != null) e.textContent = text;
  return e;
}

export function say(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

export function style(e, name, value) {
  if (e.style.getPropertyValue(name) !== value) e.style.setProperty(name, value);
}

export function attribute(e, name, value) {
  if (e.getAttribute(name) !== value) e.setAttribute(name, value);
}

// note shows a text, or hides its element without one.
export function note(e, text) {
  e.hidden = !text;
  say(e, text || "");
}

// keep sets a parent's children, by key, and reuses existing ones.
export function keep(parent, items, keyOf, create, update) {
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

// withRole keeps a table's meaning where a narrow screen shows its rows as cards.
function withRole(e, role) {
  e.setAttribute("role", role);
  return e;
}

// table makes a table within a box that scrolls by itself. Columns have a title, a class, and fill(cell, row) or text(row). Of
// distinguishes it from other tables of that title.
export function table(title, columns, of) {
  const box = make("div", "scroll"), t = withRole(make("table"), "table"), head = withRole(make("thead"), "rowgroup");
  const tr = withRole(make("tr"), "row"), body = withRole(make("tbody"), "rowgroup");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", of ? title + ": " + of : title);
  t.append(make("caption", "", title));
  for (const c of columns) {
    const th = withRole(make("th", c.kind || "", c.title), "columnheader");
    th.scope = "col";
    tr.append(th);
  }
  head.append(tr);
  t.append(head, body);
  box.append(t);
  const createRow = () => {
    const row = withRole(make("tr"), "row");
    columns.forEach((c, at) => {
      const cell = withRole(make(at === 0 ? "th" : "td", c.kind || ""), at === 0 ? "rowheader" : "cell");
      if (at === 0) cell.scope = "row";
      cell.dataset.title = c.title;
      row.append(cell);
    });
    return row;
  };
  box.show = (rows, keyOf) => keep(body, rows, keyOf || ((_, at) => at), createRow, (row, data, at) => {
    if (data.rowClass != null && row.className !== data.rowClass) row.className = data.rowClass;
    columns.forEach((c, k) => {
      const cell = row.children[k];
      if (c.fill) c.fill(cell, data, at); else say(cell, c.text(data, at));
    });
  });
  box.none = text => {
    if (!box.empty) box.append(box.empty = make("p", "note", text));
    const any = body.children.length > 0;
    box.empty.hidden = any;
    t.hidden = !any;
  };
  return box;
}

// child gives a cell's only child, made once.
export function child(cell, create) {
  if (!cell.firstChild) cell.append(create());
  return cell.firstChild;
}

// tiles are the figures of a list of terms.
export function tiles(list, figures) {
  keep(list, figures, f => f.name, f => {
    const div = make("div", f.kind || "");
    div.append(make("dt", "", f.name), make("dd", "value"), make("dd", "about"));
    return div;
  }, (div, f) => {
    const [, value, about] = div.children;
    say(value, f.value);
    value.classList.toggle("bad", Boolean(f.alarm));
    value.classList.toggle("words", !/\d/.test(f.value));
    say(about, f.note || "");
  });
}

// range draws an interval, with a mark, on a scale.
export function range() {
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
