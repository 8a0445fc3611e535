// The parts that views are made of.

import { ZONE } from "./text.js";

const ROWS = 200;

export function h(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export const title = (text, ...more) => h("h1", {}, text, ...more);
export const lead = (...children) => h("p", { class: "lead" }, ...children);
export const link = (href, ...children) => h("a", { href }, ...children);
export const hash = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

export function button(text, act, kind = "") {
  const made = h("button", { type: "button", class: kind }, text);
  made.addEventListener("click", () => during(made, act));
  return made;
}

// Runs what a person asked for: once at a time, and with its error shown.
export async function during(element, act) {
  element.disabled = true;
  try {
    await act();
  } catch (error) {
    if (error.name !== "AbortError") notice(error.message, "bad");
  } finally {
    element.disabled = false;
  }
}

export function form(act, text, ...children) {
  const send = h("button", { class: "main" }, text);
  const made = h("form", {}, ...children, h("div", { class: "bar" }, send));
  made.addEventListener("submit", (event) => {
    event.preventDefault();
    during(send, () => act(Object.fromEntries(new FormData(made)), made));
  });
  return made;
}

let fields = 0;

export function field(text, input) {
  input.id = `field-${(fields += 1)}`;
  return h("div", { class: "field" }, h("label", { for: input.id }, text), input);
}

export const check = (text, attributes) => h("label", { class: "check" }, h("input", { type: "checkbox", ...attributes }), text);
export const choice = (attributes, options) =>
  h("select", attributes, ...options.map(([value, text]) => h("option", { value }, text)));

// A place in a partition: one of some words, an offset, or a time. `placed` returns what was given, as the API has it.
export function place(name, text, words) {
  const chosen = choice({ name }, [...words, ["offset", "an offset"], ["time", "a time"]]);
  const offset = field("Offset", h("input", { name: "offset", type: "number", min: 0, value: 0 }));
  const moment = field(`Time in ${ZONE}`, h("input", { name: "time", type: "datetime-local", step: "0.001" }));
  const adapt = () => { offset.hidden = chosen.value !== "offset"; moment.hidden = chosen.value !== "time"; };
  chosen.addEventListener("change", adapt);
  adapt();
  return [field(text, chosen), offset, moment];
}

export function placed(name, given) {
  if (given[name] === "offset") return { offset: Number(given.offset) };
  if (given[name] !== "time") return { [name]: given[name] };
  if (!given.time) throw new Error("Choose a time");
  return { timestamp_ms: new Date(given.time).getTime() };
}

// Gives a file to the person.
export function save(name, pieces, type) {
  const at = URL.createObjectURL(new Blob(pieces, { type }));
  h("a", { href: at, download: name }).click();
  URL.revokeObjectURL(at);
}

export function notice(text, kind = "") {
  const made = h("div", { class: `notice ${kind}` }, text);
  document.getElementById("notices").append(made);
  setTimeout(() => made.remove(), kind ? 12000 : 5000);
}

export function confirmed(text, verb, more = "") {
  return new Promise((resolve) => {
    const box = h("dialog", { "aria-labelledby": "question" },
      h("p", { id: "question" }, text), more && h("pre", {}, more),
      h("div", { class: "bar" }, button(verb, () => box.close("yes"), "danger"), button("Cancel", () => box.close("no"))));
    box.addEventListener("close", () => {
      box.remove();
      resolve(box.returnValue === "yes");
    });
    document.body.append(box);
    box.showModal();
  });
}

export function cards(list) {
  return h("dl", { class: "cards" }, ...list.map(([name, value, kind]) =>
    h("div", { class: `card ${kind ?? ""}` }, h("dt", {}, name), h("dd", {}, value))));
}

// A table whose rows are given anew at each refresh; it shows the first ones that have the text of the filter. On a phone, a row is
// a list of its cells with their titles; it remains a table for screen readers by the roles.
//   columns: [title, row => content, class]
export class Table {
  constructor(columns, { filter = true, empty = "Nothing yet.", name }) {
    this.columns = columns;
    this.empty = empty;
    this.rows = [];
    this.most = ROWS;
    this.body = h("tbody", { role: "rowgroup" });
    this.count = h("caption", {});
    this.input = h("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${name}`, oninput: () => this.draw() });
    const heads = columns.map(([text, , kind]) => (text ? h("th", { scope: "col", role: "columnheader", class: kind }, text) : h("td", { role: "cell" })));
    this.table = h("table", { role: "table", "aria-label": name }, this.count,
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, ...heads)), this.body);
    this.element = h("div", {}, filter && h("div", { class: "bar" }, this.input),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name }, this.table));
  }

  set(rows, key = (row) => JSON.stringify(row)) {
    this.rows = rows.map((row) => [row, key(row).toLowerCase()]);
    this.draw();
  }

  draw() {
    const wanted = this.input.value.trim().toLowerCase();
    const fit = wanted ? this.rows.filter(([, text]) => text.includes(wanted)) : this.rows;
    if (this.body.contains(document.activeElement) && document.activeElement.matches("input, select")) return;
    const focused = [...this.body.querySelectorAll("a, button")].indexOf(document.activeElement);
    this.body.replaceChildren(...fit.slice(0, this.most).map(([row]) =>
      h("tr", { role: "row" }, ...this.columns.map(([text, of, kind]) => h("td", { role: "cell", class: kind, "data-title": text }, of(row))))));
    if (focused >= 0) this.body.querySelectorAll("a, button")[focused]?.focus();
    this.count.replaceChildren(fit.length ? `${Math.min(fit.length, this.most)} of ${this.rows.length} ` : this.empty);
    if (fit.length > this.most) this.count.append(button("Show all", () => { this.most = Infinity; this.draw(); }, "link"));
  }
}
