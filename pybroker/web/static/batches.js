// The batches of a partition, as they lie in the log.

import { query } from "./api.js";
import { field, form, h, Table } from "./parts.js";
import { bytes, number, time } from "./text.js";

export function showBatches(content, stay, path) {
  const table = new Table([
    ["Offsets", (row) => `${number(row.base_offset)} to ${number(row.last_offset)}`, "number"],
    ["Records", (row) => number(row.record_count), "number"], ["Bytes", (row) => bytes(row.size_bytes), "number"],
    ["Codec", (row) => row.codec], ["Latest time", (row) => `${time(row.max_timestamp_ms)} ${row.timestamp_type === "LOG_APPEND_TIME" ? "(log append time)" : ""}`],
    ["Leader epoch", (row) => String(row.leader_epoch), "number"],
    ["Producer", (row) => (row.producer_id < 0 ? "" : `${row.producer_id}, epoch ${row.producer_epoch}, sequence ${row.base_sequence}`)],
    ["Kind", (row) => [row.is_control && "marker", row.is_transactional && "transaction"].filter(Boolean).join(", ")],
    ["Magic", (row) => String(row.magic), "number"],
    ["CRC", (row) => h("span", { class: row.is_valid ? "" : "bad-text" }, `${row.crc.toString(16).padStart(8, "0")}${row.is_valid ? "" : " is wrong"}`), "mono"],
  ], { name: "batches", filter: false, empty: "There is no batch from this offset on." });
  const load = async ({ partition, offset }) => {
    table.set((await stay.get(`${path}/batches${query({ partition, offset })}`)).batches);
  };
  content.append(form(load, "Show", h("div", { class: "bar" },
    field("Partition", h("input", { name: "partition", type: "number", min: 0, value: 0, required: true })),
    field("From offset", h("input", { name: "offset", type: "number", min: 0, value: 0, required: true })))), table.element);
  stay.once(() => load({ partition: 0, offset: 0 }));
}
