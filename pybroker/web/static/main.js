// Which view the address names, and how it is kept up to date.

import { ApiError, get, hasLogin, setLogin } from "./api.js";
import { field, form, h, title } from "./parts.js";

const VIEWS = [
  ["", "Overview"], ["topics", "Topics"], ["groups", "Groups"], ["transactions", "Transactions"],
  ["clients", "Clients"], ["requests", "Requests"], ["faults", "Faults"], ["clock", "Clock"],
];
const REFRESH_MS = 2000;
const main = document.getElementById("main");
const state = document.getElementById("state");
let leave = () => {};

// What a view gets: `live` calls a function now and every two seconds until the view is left.
class Stay {
  constructor(parts) {
    this.parts = parts;
    this.tries = 0;
    this.control = new AbortController();
    this.signal = this.control.signal;
  }

  async live(act, everyMs = REFRESH_MS) {
    while (!this.signal.aborted) {
      const began = performance.now();
      if (!document.hidden) {
        try {
          await act();
          seen();
        } catch (error) {
          if (this.signal.aborted || error.name === "AbortError") return;
          if (error.status === 401) return askLogin();
          seen(error);
          if (error instanceof ApiError && error.status >= 400 && error.status < 500) this.failed?.(error);
        }
      }
      await new Promise((resolve) => setTimeout(resolve, Math.max(everyMs, 5 * (performance.now() - began))));
    }
  }

  get = (path) => get(path, this.signal);
}

function seen(error) {
  state.textContent = error ? error.message : "";
  state.classList.toggle("bad", Boolean(error));
}

function askLogin() {
  leave();
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
  const parts = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decodeURIComponent);
  const name = VIEWS.some(([view]) => view === (parts[0] ?? "")) ? parts[0] ?? "" : "";
  document.getElementById("views").replaceChildren(...VIEWS.map(([view, text]) =>
    h("a", { href: `#/${view}`, "aria-current": view === name ? "page" : undefined }, text)));
  const file = name === "" ? "overview" : name === "topics" && parts[1] ? "topic" : name === "groups" && parts[1] ? "group" : name;
  const stay = new Stay(parts.slice(1));
  leave = () => stay.control.abort();
  main.replaceChildren();
  let view;
  while (!view && !stay.signal.aborted) {
    try {
      view = await import(`./${file}.js${stay.tries ? `?${stay.tries}` : ""}`);
    } catch {
      stay.tries += 1;  // a browser remembers the failure of an address
      seen(new ApiError(0, "The broker does not respond"));
      await new Promise((resolve) => setTimeout(resolve, REFRESH_MS));
    }
  }
  if (stay.signal.aborted) return;
  seen();
  document.title = [...parts.slice(0, 2).reverse(), "pybroker"].join(" - ");
  view.show(main, stay);
}

addEventListener("hashchange", () => { show(); main.focus({ preventScroll: true }); scrollTo(0, 0); });
show();
