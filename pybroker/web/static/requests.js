// The last requests of clients.

import { query } from "./api.js";
import { field, form, h, lead, Table, title } from "./parts.js";
import { time } from "./text.js";

const NAMES = [["api", "API"], ["client_id", "Client id"], ["topic", "Topic"], ["group", "Group"], ["transactional_id", "Transactional id"]];

export function show(main, stay) {
  const columns = ["api", "version", "client_id", "topics", "groups", "transactional_ids"];
  let wanted = {};
  const count = h("p", { class: "quiet" });
  let table;
  const body = h("div");
  const load = async () => {
    const found = await stay.get(`/v1/requests${query({ ...wanted, limit: 200 })}`);
    const rows = found.requests.reverse();
    count.textContent = `${found.count} of the requests that are kept fit.`;
    if (!table && rows.length) {
      const names = Object.keys(rows[0]);
      table = new Table(names.map((name) => [name.replaceAll("_", " "), (row) => cell(name, row[name]), columns.includes(name) ? "" : "wide"]), { name: "requests" });
      body.append(table.element);
    }
    table?.set(rows);
  };
  main.append(title("Requests"), lead("The last requests of clients, the newest first. Names may have the wildcards * and ?."),
    form(async (given) => { wanted = given; await load(); }, "Show", h("div", { class: "bar" },
      ...NAMES.map(([name, text]) => field(text, h("input", { name }))))), count, body);
  stay.failed = (error) => { count.textContent = error.message; };
  stay.live(load);
}

function cell(name, value) {
  if (name.endsWith("_ms") && typeof value === "number") return time(value);
  if (Array.isArray(value)) return value.map((one) => (typeof one === "object" ? `${one.topic} ${one.partition}` : String(one))).join(", ");
  return value === null ? "" : String(value);
}
