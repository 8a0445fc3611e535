// What each client has used, and whether Kafka 4 would refuse it.

import { h, lead, Table, title } from "./parts.js";
import { bytes, number, time } from "./text.js";

const total = (row) => Object.values(row.requests).reduce((sum, versions) => Object.values(versions).reduce((a, b) => a + b, sum), 0);
const apis = (row) => Object.entries(row.requests).map(([name, versions]) => `${name} v${Object.keys(versions).join(", v")}`).join("\n");

export function show(main, stay) {
  const table = new Table([
    ["Client id", (row) => row.client_id, "wide"], ["Software", (row) => `${row.software_name} ${row.software_version}`.trim() || "unknown"],
    ["Host", (row) => row.host], ["Connections", (row) => number(row.connections), "number"],
    ["Requests", (row) => h("details", {}, h("summary", {}, number(total(row))), h("pre", {}, apis(row))), "number"],
    ["In", (row) => bytes(row.bytes_in), "number"], ["Out", (row) => bytes(row.bytes_out), "number"],
    ["Last seen", (row) => time(row.last_seen_ms)],
    ["Refused by Kafka 4", (row) => h("span", { class: "bad-text" }, row.refused_by_kafka_4.join(", ")), "wide"],
  ], { name: "clients", empty: "No client has connected yet." });
  main.append(title("Clients"), lead("Kafka 4 refuses the oldest versions of most requests (KIP-896). This broker serves them."), table.element);
  stay.live(async () => table.set((await stay.get("/v1/clients")).clients.reverse()), 3000);
}
