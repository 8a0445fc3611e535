// Which view the address names, and how it is kept up to date.

import { ApiError, get, hasLogin, setLogin } from "./api.js";
import { button, field, form, h, link, title } from "./parts.js";

const VIEWS = [
  ["", "Overview"], ["topics", "Topics"], ["groups", "Groups"], ["transactions", "Transactions"],
  ["clients", "Clients"], ["requests", "Requests"], ["faults", "Faults"], ["clock", "Clock"],
];
const PARTS = { topics: 3, groups: 2 };  // of an address, where there may be more than the view
const REFRESH_MS = 2000;
const main = document.getElementById("main");
const state = document.getElementById("state");
let leave = () => {};

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// What a view gets: `live` calls a function now and every two seconds until the view is left, `once` until it has succeeded.
class Stay {
  constructor(parts, name) {
    this.parts = parts;
    this.name = name;
    this.tries = 0;
    this.control = new AbortController();
    this.signal = this.control.signal;
  }

  async live(act, everyMs = REFRESH_MS) {
    while (!this.signal.aborted) {
      const began = performance.now();
      if (!document.hidden) await this.attempt(act);
      await pause(Math.max(everyMs, 5 * (performance.now() - began)));
    }
  }

  async once(act) {
    while (!this.signal.aborted && !(await this.attempt(act))) await pause(REFRESH_MS);
  }

  // Returns whether there was no error.
  async attempt(act) {
    try {
      await act();
      seen();
      return true;
    } catch (error) {
      if (this.signal.aborted || error.name === "AbortError") return false;
      seen(error);
      if (error.status === 401) askLogin();
      else if (error instanceof ApiError && error.status >= 400 && error.status < 500) this.failed(error);
      return false;
    }
  }

  // Shows why there is nothing to show, and ways on.
  failed(error) {
    this.control.abort();
    seen();
    const [view, text] = VIEWS.find(([one]) => one === this.name);
    main.replaceChildren(title(this.parts[0] ?? text), h("p", { class: "bad-text" }, error.message),
      h("div", { class: "bar" }, button("Try again", show), this.parts.length > 0 && link(`#/${view}`, `All ${view}`)));
  }

  get = (path) => get(path, this.signal);
}

function seen(error) {
  state.textContent = error ? error.message : "";
  state.classList.toggle("bad", Boolean(error));
}

function askLogin() {
  leave();
  seen();
  const text = hasLogin() ? "The broker does not know this login." : "The page needs a user of the broker, or the token in pybroker.admin.token.";
  const user = h("input", { name: "user", autocomplete: "username" });
  const secret = h("input", { name: "secret", type: "password", autocomplete: "current-password", required: true });
  main.replaceChildren(title("Who are you?"), h("p", { class: "lead" }, text),
    form((given) => { setLogin(given.user, given.secret); return show(); }, "Go on", h("div", { class: "bar" },
      field("User; leave it empty for the token", user), field("Password, or the token", secret))));
  user.focus();
}

async function show() {
  leave();
  const parts = partsOf(location.hash);
  const name = parts[0] ?? "";
  document.getElementById("views").replaceChildren(...VIEWS.map(([view, text]) =>
    h("a", { href: `#/${view}`, "aria-current": view === name ? "page" : undefined }, text)));
  const file = name === "" ? "overview" : name === "topics" && parts[1] ? "topic" : name === "groups" && parts[1] ? "group" : name;
  const stay = new Stay(parts.slice(1), name);
  leave = () => stay.control.abort();
  if (!VIEWS.some(([view]) => view === name) || parts.length > (PARTS[name] ?? 1)) {
    document.title = "pybroker";
    return unknown();
  }
  main.replaceChildren();
  let view;
  while (!view && !stay.signal.aborted) {
    try {
      view = await import(`./${file}.js${stay.tries ? `?${stay.tries}` : ""}`);
    } catch {
      stay.tries += 1;  // a browser remembers the failure of an address
      seen(new ApiError(0, "The broker does not respond"));
      await pause(REFRESH_MS);
    }
  }
  if (stay.signal.aborted) return;
  seen();
  document.title = [...parts.slice(0, 2).reverse(), "pybroker"].join(" - ");
  view.show(main, stay);
}

function partsOf(address) {
  try {
    return address.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    return [address];
  }
}

function unknown() {
  seen();
  main.replaceChildren(title("There is no such view"), h("p", { class: "bad-text" }, `The address ${location.hash} names no view of this page.`),
    h("p", {}, link("#/", "Overview")));
}

addEventListener("hashchange", () => { show(); main.focus({ preventScroll: true }); scrollTo(0, 0); });
show();
