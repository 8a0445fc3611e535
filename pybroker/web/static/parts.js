// The parts that views are made of.

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

export function notice(text, kind = "") {
  const made = h("div", { class: `notice ${kind}` }, text);
  document.getElementById("notices").append(made);
  setTimeout(() => made.remove(), kind ? 12000 : 5000);
}

export function confirmed(text, verb) {
  return new Promise((resolve) => {
    const box = h("dialog", { "aria-labelledby": "question" },
      h("p", { id: "question" }, text),
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

// A table whose rows are given anew at each refresh; it shows the first ones that have the text of the filter.
//   columns: [title, row => content, class]
export class Table {
  constructor(columns, { filter = true, empty = "Nothing yet.", name }) {
    this.columns = columns;
    this.empty = empty;
    this.rows = [];
    this.most = ROWS;
    this.body = h("tbody");
    this.count = h("caption", {});
    this.input = h("input", { type: "search", placeholder: "Filter", "aria-label": `Filter ${name}`, oninput: () => this.draw() });
    const heads = columns.map(([text, , kind]) => (text ? h("th", { scope: "col", class: kind }, text) : h("td")));
    this.table = h("table", { "aria-label": name }, this.count, h("thead", {}, h("tr", {}, ...heads)), this.body);
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
      h("tr", {}, ...this.columns.map(([, of, kind]) => h("td", { class: kind }, of(row))))));
    if (focused >= 0) this.body.querySelectorAll("a, button")[focused]?.focus();
    this.count.replaceChildren(fit.length ? `${Math.min(fit.length, this.most)} of ${this.rows.length} ` : this.empty);
    if (fit.length > this.most) this.count.append(button("Show all", () => { this.most = Infinity; this.draw(); }, "link"));
  }
}
