// The last requests of clients.

import { query } from "./api.js";
import { field, form, h, lead, Table, title } from "./parts.js";
import { partitions } from "./text.js";

const NAMES = [["api", "API"], ["client_id", "Client id"], ["topic", "Topic"], ["group", "Group"], ["transactional_id", "Transactional id"]];

export function show(main, stay) {
  let wanted = {};
  const count = h("p", { class: "quiet" });
  const table = new Table([
    ["API", (row) => row.api], ["Version", (row) => String(row.version), "number"], ["Client id", (row) => row.client_id, "wide"],
    ["Connection", (row) => String(row.connection), "number"], ["Topics", (row) => row.topics.join(", "), "wide"],
    ["Partitions", (row) => partitions(row.partitions), "wide"], ["Groups", (row) => row.groups.join(", "), "wide"],
    ["Transactional ids", (row) => row.transactional_ids.join(", "), "wide"],
  ], { name: "requests", empty: "There is no such request." });
  const load = async () => {
    const found = await stay.get(`/v1/requests${query({ ...wanted, limit: 200 })}`);
    count.textContent = `${found.count} of the requests that are kept fit.`;
    table.set(found.requests.reverse());
  };
  main.append(title("Requests"), lead("The last requests of clients, the newest first. Names may have the wildcards * and ?."),
    form(async (given) => { wanted = given; await load(); }, "Show", h("div", { class: "bar" },
      ...NAMES.map(([name, text]) => field(text, h("input", { name }))))), count, table.element);
  stay.live(load);
}
