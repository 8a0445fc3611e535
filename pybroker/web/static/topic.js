// One topic: its records, its partitions, its batches and its settings.

import { call, url } from "./api.js";
import { button, cards, confirmed, field, form, h, hash, link, notice, Table, title } from "./parts.js";
import { showBatches } from "./batches.js";
import { showRecords } from "./records.js";
import { bytes, number } from "./text.js";

const TABS = [["records", "Records"], ["partitions", "Partitions"], ["batches", "Batches"], ["settings", "Settings"]];

export function show(main, stay) {
  const [name, given] = stay.parts;
  const tab = given ?? "records";
  const about = h("div");
  const content = h("div");
  const tabs = TABS.map(([key, text]) => link(hash("topics", name, key), text));
  tabs.forEach((one, at) => { if (TABS[at][0] === tab) one.setAttribute("aria-current", "page"); });
  main.append(title(name), h("nav", { class: "tabs", "aria-label": "Of this topic" }, ...tabs), content);
  if (!TABS.some(([key]) => key === tab)) return stay.failed(new Error(`There is no view ${tab} of a topic`));
  const path = url("/v1/topics/", name);
  if (tab === "records") return showRecords(content, stay, name, path);
  if (tab === "batches") return showBatches(content, stay, path);
  if (tab === "settings") return showSettings(content, stay, path);
  content.append(about);
  showPartitions(content, about, stay, name, path);
}

function showPartitions(content, about, stay, name, path) {
  const table = new Table([
    ["Partition", (row) => String(row.index), "number"], ["Leader", (row) => leader(row), "number"],
    ["Replicas", (row) => row.replicas.join(", ")], ["In sync", (row) => row.isr.join(", ")],
    ["First offset", (row) => number(row.start), "number"], ["End", (row) => number(row.end), "number"],
    ["Stable until", (row) => number(row.stable), "number"], ["Size", (row) => bytes(row.size_bytes), "number"],
    ["", (row) => button("Empty", () => empty(name, path, row.index))],
  ], { name: "partitions", filter: false });
  const more = form(async ({ partitions }) => {
    await call("PATCH", path, { partitions: Number(partitions) });
    notice(`The topic has ${partitions} partitions`);
  }, "Add partitions", h("div", { class: "bar" },
    field("Partitions in all", h("input", { name: "partitions", type: "number", min: 1, required: true }))));
  content.append(table.element, h("h2", {}, "More partitions"),
    h("p", { class: "lead" }, "Keys go to other partitions than before, and no partition can be taken away again."), more,
    h("h2", {}, "Remove"), h("div", { class: "bar" },
      button("Empty all partitions", () => empty(name, path), "danger"), button("Delete the topic", () => remove(name, path), "danger")));
  stay.live(async () => {
    const found = await stay.get(path);
    about.replaceChildren(cards([
      ["Partitions", number(found.partitions.length)], ["Records", number(found.record_count)], ["Size", bytes(found.size_bytes)],
      ["Topic id", found.topic_id],
    ]));
    table.set(found.partitions);
  });
}

const leader = (row) => (row.leader < 0 ? h("span", { class: "bad-text" }, "none") : String(row.leader));

async function empty(name, path, partition) {
  const what = partition === undefined ? `all records of ${name}` : `all records of partition ${partition} of ${name}`;
  if (!(await confirmed(`Delete ${what}? This cannot be undone.`, "Delete the records"))) return;
  await call("POST", `${path}/delete-records`, partition === undefined ? {} : { partition });
  notice(`${what} are deleted`);
}

async function remove(name, path) {
  if (!(await confirmed(`Delete the topic ${name} with all its records? This cannot be undone.`, "Delete the topic"))) return;
  await call("DELETE", path);
  notice(`The topic ${name} is deleted`);
  location.hash = "#/topics";
}

function showSettings(content, stay, path) {
  const table = new Table([
    ["Setting", (row) => h("span", { title: row.text }, row.name), "mono"], ["Value", (row) => row.value ?? "", "wide bytes"],
    ["From", (row) => (row.source === "default" ? "default" : row.source), ""],
    ["", (row) => button("Change", () => edit(row))],
    ["", (row) => row.source === "topic" && button("Reset", () => change({ [row.name]: null }))],
  ], { name: "settings" });
  const editor = h("div");
  const load = async () => table.set((await stay.get(path)).settings, (row) => row.name);
  async function change(settings) {
    await call("PATCH", path, { settings });
    notice("The settings are changed");
    await load();
  }
  function edit(row) {
    const input = h("input", { name: "value", value: row.value ?? "" });
    editor.replaceChildren(h("fieldset", {}, h("legend", {}, row.name), h("p", { class: "quiet" }, row.text),
      form(async ({ value }) => { await change({ [row.name]: value }); editor.replaceChildren(); }, "Save", field("Value", input))));
    input.focus();
  }
  content.append(editor, table.element);
  stay.live(load, 10000);
}
