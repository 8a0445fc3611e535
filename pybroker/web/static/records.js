// The records of a topic: found, followed, written, exported and imported.

import { call, query, tooLong } from "./api.js";
import { button, check, field, form, h, notice, place, placed, save, Table } from "./parts.js";
import { bytes, content as shown, number, pretty, time } from "./text.js";

const PAGE = 100;
const KEPT = 1000;
const SHOWN = 300;
const EXPORT_PAGE = 1000;
const IMPORT_BYTES = 500_000;
const WAIT_MS = 10_000;
const PAUSE_MS = 500;

export function showRecords(content, stay, name, path) {
  let records = [];
  let next;
  let following = 0;
  const table = new Table([
    ["Time", (row) => time(row.timestamp_ms), "mono"], ["Partition", (row) => String(row.partition), "number"],
    ["Offset", (row) => number(row.offset), "number"],
    ["Key", (row) => h("pre", { class: row.key === null ? "value quiet" : "value" }, shown(row.key)), "bytes"],
    ["Value", (row) => h("pre", { class: row.value === null ? "value quiet" : "value" }, short(row.value)), "bytes wide"],
    ["Headers", (row) => h("pre", { class: "value" }, row.headers.map((one) => `${one.name}: ${short(one.value)}`).join("\n")), "bytes"],
    ["Size", (row) => bytes(row.size_bytes), "number"],
    ["", (row) => button("Open", () => open(row))],
  ], { name: "records", empty: "There are no such records." });
  const more = button("Show more", () => load({ next }));
  const left = h("span", { class: "quiet" });
  const draw = () => table.set(records, (row) => `${shown(row.key)} ${shown(row.value)} ${JSON.stringify(row.headers)}`);

  async function load(asked) {
    const found = await stay.get(`${path}/records${query({ limit: PAGE, ...chosen(), ...asked })}`);
    records = asked.next ? records.concat(found.records).slice(-KEPT) : found.records;
    next = found.next;
    more.hidden = !found.left;
    left.textContent = found.left ? `${number(found.left)} offsets are left` : "";
    draw();
    return found;
  }

  // The whole record: the table has only the beginning of long ones.
  async function open(row) {
    const { records: [whole] } = await stay.get(`${path}/records${query({ partition: row.partition, offset: row.offset, limit: 1, bytes: 16 << 20 })}`);
    if (whole?.offset !== row.offset) throw new Error("The record is not there any more");
    const again = button("Send again", () => { box.close(); writer.fill(whole); });
    const lines = whole.headers.map((one) => `${one.name}: ${shown(one.value)}`).join("\n");
    const box = h("dialog", { class: "record", "aria-labelledby": "record" },
      h("h2", { id: "record" }, `Partition ${whole.partition}, offset ${number(whole.offset)}`),
      h("p", { class: "quiet" }, `${time(whole.timestamp_ms)}, ${bytes(whole.size_bytes)}`),
      h("h3", {}, "Key"), h("pre", {}, pretty(whole.key)), h("h3", {}, "Value"), h("pre", {}, pretty(whole.value)),
      lines && h("h3", {}, "Headers"), lines && h("pre", {}, lines), h("div", { class: "bar" }, again, button("Close", () => box.close())));
    box.addEventListener("close", () => box.remove());
    document.body.append(box);
    box.showModal();
  }

  const partition = h("input", { name: "partition", type: "number", min: 0, placeholder: "all" });
  const committed = check("Only committed transactions", { name: "committed", value: "true" });
  const chosen = () => ({ partition: partition.value, committed: committed.firstChild.checked ? "true" : "" });

  const live = check("Follow new records", { onchange: () => (live.firstChild.checked ? follow() : (following += 1)) });

  async function follow() {
    const mine = (following += 1);
    try {
      let found = await load({ from: "end" });
      while (mine === following && !stay.signal.aborted) {
        found = await stay.get(`${path}/records${query({ limit: PAGE, ...chosen(), next: found.next, wait_ms: WAIT_MS })}`);
        if (mine !== following) return;
        if (found.records.length) {
          records = found.records.reverse().concat(records).slice(0, KEPT);
          draw();
        } else await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
    } catch (error) {
      live.firstChild.checked = false;
      if (error.name !== "AbortError") notice(error.message, "bad");
    }
  }

  const search = form(async (given) => {
    following += 1;
    live.firstChild.checked = false;
    const at = placed("from", given);
    if ("offset" in at && given.partition === "") throw new Error("An offset is one of a partition: name the partition, too");
    await load(at);
  }, "Show", h("div", { class: "bar" }, ...place("from", "Show", [["last", "the last ones"], ["start", "the first ones"]]),
    field("Partition", partition), committed));

  const writer = writing(path, () => live.firstChild.checked || load({ from: "last" }));
  content.append(search, h("div", { class: "bar" }, live), writer.element, moving(stay, name, path, partition), table.element,
    h("div", { class: "bar" }, more, left));
  stay.once(() => load({ from: "last" }));
}

function short(value) {
  const text = shown(value);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}...` : text;
}

function writing(path, done) {
  const area = (name) => h("textarea", { name });
  const key = h("input", { name: "key" });
  const value = area("value");
  const headers = area("headers");
  const isNull = check("Without a value (a tombstone)", { name: "tombstone" });
  const partition = h("input", { name: "partition", type: "number", min: 0, placeholder: "by the key" });
  let kept = {};
  const made = form(async (given) => {
    const record = {
      key: "key" in kept ? kept.key : given.key === "" ? null : given.key,
      value: "value" in kept ? kept.value : given.value,
      headers: kept.headers ?? headersOf(given.headers),
    };
    if (given.tombstone) record.value = null;
    if (given.partition !== "") record.partition = Number(given.partition);
    const { records: [at] } = await call("POST", `${path}/records`, { records: [record] });
    notice(`Written to partition ${at.partition} at offset ${at.offset}`);
    await done();
  }, "Write", h("div", { class: "grid" }, field("Key", key), field("Partition", partition)), field("Value", value),
    field("Headers, one NAME: VALUE in a line", headers), isNull);
  const inputs = [key, value, headers];
  const excess = h("p", { class: "bad-text", role: "status" });
  const weigh = () => { excess.textContent = tooLong(JSON.stringify(inputs.map((one) => kept[one.name] ?? one.value))); };
  made.lastChild.before(excess);
  for (const one of inputs) one.addEventListener("input", () => { delete kept[one.name]; weigh(); });
  const element = h("details", {}, h("summary", {}, "Write a record"), h("fieldset", {}, h("legend", {}, "New record"), made));
  // All stays as it is, unless it is edited.
  function fill(row) {
    element.open = true;
    kept = {};
    for (const [name, input] of [["key", key], ["value", value]]) {
      kept[name] = row[name];
      input.value = row[name] === null ? "" : shown(row[name]);
    }
    kept.headers = row.headers;
    headers.value = row.headers.map((one) => `${one.name}: ${shown(one.value)}`).join("\n");
    isNull.firstChild.checked = row.value === null;
    partition.value = row.partition;
    weigh();
    value.focus();
    element.scrollIntoView({ block: "center" });
  }
  return { element, fill };
}

// A record of a line, in the form of the API or in that of `pybroker export` and `pybroker consume --json`.
function recordOf(given) {
  if (given === null || typeof given !== "object" || Array.isArray(given) || !("value" in given || "value_base64" in given)) return null;
  const bytes = (one, name) => (one[`${name}_base64`] === undefined ? one[name] ?? null : { base64: one[`${name}_base64`] });
  const { timestamp_ms, partition } = given;
  const headers = (given.headers ?? []).map((one) => ({ name: one.name ?? one.key, value: bytes(one, "value") }));
  return { key: bytes(given, "key"), value: bytes(given, "value"), headers, timestamp_ms, partition };
}

// A record as a line of `pybroker export` and `pybroker consume --json`: bytes have a name of their own there.
function lineOf(topic, { partition, offset, timestamp_ms, key, value, headers }) {
  const named = (name, of) => (of !== null && typeof of === "object" ? { [`${name}_base64`]: of.base64 } : { [name]: of });
  const made = { topic, partition, offset, timestamp_ms, ...named("key", key), ...named("value", value) };
  if (headers.length) made.headers = headers.map((one) => ({ name: one.name, ...named("value", one.value) }));
  return `${JSON.stringify(made)}\n`;
}

function headersOf(text) {
  return text.split("\n").filter((line) => line.trim()).map((line) => {
    const at = line.indexOf(":");
    if (at < 1) throw new Error(`${line}: it must be NAME: VALUE`);
    return { name: line.slice(0, at).trim(), value: line.slice(at + 1).trim() };
  });
}

function moving(stay, name, path, partition) {
  const progress = h("progress", { hidden: true, "aria-label": "Progress", max: 1, value: 0 });
  const step = (value) => { progress.hidden = value >= 1; progress.value = value; };
  const uncommitted = check("Records of open and aborted transactions, too", {});
  const file = h("input", { type: "file", accept: ".jsonl,.json,.ndjson", "aria-label": "File to import" });

  async function exportAll() {
    const lines = [];
    const asked = { partition: partition.value, committed: String(!uncommitted.firstChild.checked), limit: EXPORT_PAGE, bytes: 16 << 20 };
    let found = await stay.get(`${path}/records${query({ ...asked, from: "start" })}`);
    const all = found.left + found.records.length || 1;
    for (;;) {
      for (const one of found.records) lines.push(lineOf(name, one));
      if (!found.left) break;
      step(1 - found.left / all);
      found = await stay.get(`${path}/records${query({ ...asked, next: found.next })}`);
    }
    step(1);
    save(`${name}.jsonl`, lines, "application/x-ndjson");
    notice(`${number(lines.length)} records are exported`);
  }

  async function importAll() {
    if (!file.files[0]) throw new Error("Choose a file first, with one record of JSON in each line");
    const lines = (await file.files[0].text()).split("\n");
    let some = [];
    let size = 0;
    let count = 0;
    const send = async () => {
      if (some.length) await call("POST", `${path}/records`, { records: some });
      count += some.length;
      some = [];
      size = 0;
    };
    for (const [at, line] of lines.entries()) {
      if (!line.trim()) continue;
      let given;
      try {
        given = JSON.parse(line);
      } catch {
        throw new Error(`Line ${at + 1} is not JSON; ${count} records before it are written`);
      }
      if (tooLong(line)) throw new Error(`Line ${at + 1}: ${tooLong(line)} ${count} records before it are written`);
      const record = recordOf(given);
      if (!record) throw new Error(`Line ${at + 1} is no record; ${count} records before it are written`);
      if (size + line.length > IMPORT_BYTES) await send();
      some.push(record);
      size += line.length;
      step(at / lines.length);
    }
    await send();
    step(1);
    notice(`${number(count)} records are imported`);
  }

  return h("details", {}, h("summary", {}, "Export and import"), h("fieldset", {}, h("legend", {}, "Records as JSON, one in each line"),
    h("div", { class: "bar" }, button("Export", exportAll), uncommitted), h("div", { class: "bar" }, file, button("Import", importAll)), progress));
}
