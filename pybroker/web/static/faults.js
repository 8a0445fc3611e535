// Rules by which requests go wrong, for tests of clients.

import { call, url } from "./api.js";
import { button, confirmed, field, form, h, lead, notice, Table, title } from "./parts.js";

export function show(main, stay) {
  const table = new Table([
    ["Rule", (row) => row.name, "wide"], ["What", (row) => h("pre", {}, said(row)), "bytes wide"],
    ["Matching requests", (row) => String(row.seen), "number"], ["Of these, gone wrong", (row) => String(row.count), "number"],
    ["", (row) => button("Remove", async () => { await call("DELETE", url("/v1/faults/", row.name)); await load(); })],
  ], { name: "rules", filter: false, empty: "There is no rule." });
  const load = async () => table.set((await stay.get("/v1/faults")).faults);
  const area = h("textarea", { name: "rule", spellcheck: "false", required: true });
  area.value = '{"api": "Produce", "topic": "orders", "error": "NOT_LEADER_OR_FOLLOWER", "times": 2}';
  main.append(title("Faults"), lead("A rule names requests, and what becomes of them: an error, a delay, a lost connection. docs/testing.md has all fields."),
    table.element, h("h2", {}, "New rule"), form(async ({ rule }) => {
      let body;
      try {
        body = JSON.parse(rule);
      } catch (error) {
        throw new Error(`The rule is not JSON: ${error.message}`);
      }
      const { name } = await call("POST", "/v1/faults", body);
      notice(`The rule ${name} is in force`);
      await load();
    }, "Add", field("The rule as JSON", area)),
    h("h2", {}, "Reset"), lead("Removes everything from this broker: rules, topics, groups, transactions and changed settings."),
    h("div", { class: "bar" }, button("Reset the broker", async () => {
      if (!(await confirmed("Remove all topics with their records, all groups, transactions, rules and changed settings?", "Reset"))) return;
      await call("POST", "/v1/reset");
      notice("The broker is empty");
      await load();
    }, "danger")));
  stay.live(load);
}

function said({ name, seen, count, ...rest }) {
  return JSON.stringify(rest);
}
