// All topics: sizes, rates, the groups that read them and their lag.

import { call } from "./api.js";
import { check, field, form, h, hash, link, notice, Table, title } from "./parts.js";
import { bytes, number, rate } from "./text.js";

export function show(main, stay) {
  const internal = check("Internal topics", { onchange: () => draw() });
  const table = new Table([
    ["Topic", (row) => link(hash("topics", row.name), row.name), "wide"],
    ["Partitions", (row) => number(row.partitions.length), "number"],
    ["Replicas", (row) => replicas(row), "number"],
    ["Records", (row) => number(row.record_count), "number"],
    ["Size", (row) => bytes(row.size_bytes), "number"],
    ["Written", (row) => rate(row.rate), "number"],
    ["Groups and lag", (row) => lags(row.lags), "wide"],
  ], { name: "topics", empty: "There is no topic yet." });
  let found = [];
  let before;
  const draw = () => table.set(found.filter((row) => internal.firstChild.checked || !row.is_internal), (row) => row.name);
  main.append(title("Topics"), creation(), h("div", { class: "bar" }, internal), table.element);
  stay.live(async () => {
    const [{ topics }, { groups }] = await Promise.all([stay.get("/v1/topics"), stay.get("/v1/groups?short=true")]);
    const now = performance.now();
    const ends = new Map(topics.map((one) => [one.topic_id, one.partitions.reduce((sum, part) => sum + part.end, 0)]));
    const byTopic = lagsOf(groups);
    found = topics.map((one) => ({ ...one, lags: byTopic.get(one.name) ?? [], rate: speed(one.topic_id, ends, before, now) }));
    before = { ends, now };
    draw();
  });
}

function speed(id, ends, before, now) {
  if (!before?.ends.has(id)) return undefined;
  return Math.max(0, ends.get(id) - before.ends.get(id)) / ((now - before.now) / 1000);
}

function replicas(row) {
  const short = row.partitions.filter((one) => one.isr.length < one.replicas.length).length;
  const count = Math.max(...row.partitions.map((one) => one.replicas.length));
  return short ? h("span", { class: "bad-text" }, `${count}, ${short} not in sync`) : String(count);
}

function lagsOf(groups) {
  const byTopic = new Map();
  for (const group of groups) {
    for (const { topic, lag } of group.topics) {
      if (!byTopic.has(topic)) byTopic.set(topic, []);
      byTopic.get(topic).push({ group: group.group_id, lag });
    }
  }
  return byTopic;
}

function lags(list) {
  const shown = list.sort((a, b) => b.lag - a.lag).slice(0, 5);
  const all = shown.flatMap(({ group, lag }, at) => [at ? ", " : "", link(hash("groups", group), group), ` ${number(lag)}`]);
  return h("span", {}, ...all, list.length > shown.length ? ` and ${list.length - shown.length} more` : "");
}

function creation() {
  const fields = h("div", { class: "grid" },
    field("Name", h("input", { name: "name", required: true, maxlength: 249 })),
    field("Partitions", h("input", { name: "partitions", type: "number", min: 1, placeholder: "the broker's setting" })),
    field("Replicas", h("input", { name: "replication_factor", type: "number", min: 1, placeholder: "the broker's setting" })),
    field("Settings, one NAME=VALUE in a line", h("textarea", { name: "settings" })));
  const made = form(async (given, element) => {
    const body = { name: given.name, settings: settingsOf(given.settings) };
    for (const key of ["partitions", "replication_factor"]) if (given[key]) body[key] = Number(given[key]);
    await call("POST", "/v1/topics", body);
    notice(`The topic ${given.name} is there`);
    element.reset();
    location.hash = hash("topics", given.name);
  }, "Create", fields);
  return h("details", {}, h("summary", {}, "New topic"), h("fieldset", {}, h("legend", {}, "New topic"), made));
}

function settingsOf(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
  return Object.fromEntries(lines.map((line) => {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`${line}: it must be NAME=VALUE`);
    return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  }));
}
