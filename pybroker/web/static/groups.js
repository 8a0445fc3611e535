// All groups of consumers.

import { hash, link, Table, title } from "./parts.js";
import { number } from "./text.js";

export function show(main, stay) {
  const table = new Table([
    ["Group", (row) => link(hash("groups", row.group_id), row.group_id), "wide"], ["State", (row) => row.state], ["Type", (row) => row.kind],
    ["Members", (row) => number(row.member_count), "number"],
    ["Topics", (row) => row.topics.map((one) => one.topic).join(", "), "wide"],
    ["Lag", (row) => number(row.lag), "number"],
  ], { name: "groups", empty: "There is no group yet." });
  main.append(title("Groups"), table.element);
  stay.live(async () => table.set((await stay.get("/v1/groups?short=true")).groups));
}
