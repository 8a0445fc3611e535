// All transactional ids.

import { call, url } from "./api.js";
import { button, confirmed, h, notice, Table, title } from "./parts.js";
import { number, partitions } from "./text.js";

export function show(main, stay) {
  const table = new Table([
    ["Transactional id", (row) => row.transactional_id, "wide"],
    ["State", (row) => h("span", { class: row.is_open ? "warn-text" : "" }, row.state)],
    ["Producer", (row) => `${row.producer_id}, epoch ${row.producer_epoch}`], ["Time-out", (row) => `${number(row.timeout_ms)} ms`, "number"],
    ["Partitions", (row) => partitions(row.partitions), "wide"],
    ["", (row) => row.is_open && button("Abort", () => abort(row.transactional_id), "danger")],
  ], { name: "transactions", empty: "There is no transactional id yet." });
  const load = async () => table.set((await stay.get("/v1/transactions")).transactions);
  async function abort(name) {
    if (!(await confirmed(`Abort the transaction of ${name}, and fence its producer?`, "Abort"))) return;
    await call("POST", url("/v1/transactions/", name, "/abort"));
    notice(`The transaction of ${name} is aborted`);
    await load();
  }
  main.append(title("Transactions"), table.element);
  stay.live(load);
}
