// One group: members, offsets and lag; its offsets are reset here.

import { call, url } from "./api.js";
import { button, cards, confirmed, field, form, h, hash, lead, link, notice, place, placed, Table, title } from "./parts.js";
import { number, partitions } from "./text.js";

export function show(main, stay) {
  const [name] = stay.parts;
  const path = url("/v1/groups/", name);
  const about = h("div");
  const members = new Table([
    ["Member", (row) => row.member_id, "wide mono"], ["Instance id", (row) => row.instance_id ?? "", "mono"], ["Client id", (row) => row.client_id],
    ["Host", (row) => row.host], ["Reads", (row) => partitions(row.assigned), "wide"],
  ], { name: "members", filter: false, empty: "The group has no members." });
  const offsets = new Table([
    ["Topic", (row) => link(hash("topics", row.topic), row.topic), "wide"], ["Partition", (row) => String(row.partition), "number"],
    ["Committed", (row) => number(row.offset), "number"], ["End", (row) => number(row.end), "number"], ["Lag", (row) => number(row.lag), "number"],
    ["Metadata", (row) => row.metadata],
  ], { name: "offsets", empty: "The group has committed nothing." });
  const topics = h("datalist", { id: "topics" });
  main.append(title(name), about, h("h2", {}, "Offsets"), offsets.element, h("h2", {}, "Members"), members.element,
    h("h2", {}, "Reset the offsets"), lead("The offsets can be reset while the group has no members."), topics, reset(name, path),
    h("h2", {}, "Remove"), h("div", { class: "bar" }, button("Delete the group", async () => {
      if (!(await confirmed(`Delete the group ${name} with its offsets? This cannot be undone.`, "Delete the group"))) return;
      await call("DELETE", path);
      notice(`The group ${name} is deleted`);
      location.hash = "#/groups";
    }, "danger")));
  stay.live(async () => {
    const found = await stay.get(path);
    about.replaceChildren(cards([
      ["State", found.state], ["Type", found.kind], ["Members", number(found.members.length)], ["Lag", number(found.lag)],
    ]));
    members.set(found.members);
    offsets.set(found.offsets);
    topics.replaceChildren(...[...new Set(found.offsets.map((one) => one.topic))].map((value) => h("option", { value })));
  });
}

function reset(name, path) {
  const result = h("pre", { "aria-live": "polite" });
  const bodyOf = (given) => {
    const body = { topic: given.topic, ...placed("to", given) };
    if (given.partition !== "") body.partition = Number(given.partition);
    return body;
  };
  const lines = (found) => Object.entries(found.offsets).map(([index, at]) => `${found.topic} ${index}: ${number(at)}`).join("\n");
  const made = form(async (given) => {
    const body = bodyOf(given);
    const planned = lines(await call("POST", `${path}/offsets`, { ...body, dry_run: true }));
    if (!(await confirmed(`Reset the offsets of the group ${name}? It reads on from these then.`, "Reset", planned))) return;
    const found = await call("POST", `${path}/offsets`, body);
    result.textContent = `Reset to\n${lines(found)}`;
    notice("The offsets are reset");
  }, "Reset", h("div", { class: "bar" },
    field("Topic", h("input", { name: "topic", list: "topics", required: true })),
    field("Partition", h("input", { name: "partition", type: "number", min: 0, placeholder: "all" })),
    ...place("to", "To", [["earliest", "the first record"], ["latest", "the end"]])));
  made.lastChild.append(button("Show the new offsets", async () => {
    const given = Object.fromEntries(new FormData(made));
    if (!given.topic) throw new Error("Name a topic");
    result.textContent = `Would be reset to\n${lines(await call("POST", `${path}/offsets`, { ...bodyOf(given), dry_run: true }))}`;
  }), result);
  return made;
}
