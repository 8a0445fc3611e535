// The broker and its cluster at a glance.

import { hasLogin, text } from "./api.js";
import { cards, during, h, lead, link, save, Table, title } from "./parts.js";
import { bytes, number } from "./text.js";

const kind = (count) => (count ? "bad" : "");

// A link cannot send a login, so its file is fetched with one and saved.
function file(path, words) {
  const made = link(path, words);
  made.addEventListener("click", (event) => {
    if (!hasLogin()) return;
    event.preventDefault();
    during(made, async () => save(path.split("/").pop(), [await text(path)], "text/plain"));
  });
  return made;
}

export function show(main, stay) {
  const about = lead();
  const numbers = h("div");
  const memory = h("div");
  const listeners = new Table([
    ["Listener", (row) => row.name], ["Protocol", (row) => row.security_protocol], ["Listens at", (row) => row.address, "mono"],
    ["Clients get", (row) => row.advertised ?? "the address that they connect to", "mono"],
  ], { filter: false, name: "listeners" });
  const brokers = new Table([
    ["Broker", (row) => row.name], ["Address", (row) => `${row.host}:${row.port}`, "mono"], ["Rack", (row) => row.rack ?? ""],
  ], { filter: false, name: "brokers" });
  main.append(title("Overview"), about, numbers, h("h2", {}, "Memory for requests"), memory,
    h("h2", {}, "Listeners of this broker"), listeners.element, h("h2", {}, "Brokers"), brokers.element,
    h("p", {}, file("/metrics", "Metrics"), " · ", file("/v1/openapi.json", "JSON API")));
  stay.live(async () => {
    const found = await stay.get("/v1/cluster");
    const { broker } = found;
    about.textContent = `pybroker ${found.version}, broker ${found.node_id} of cluster ${found.cluster_id}`;
    numbers.replaceChildren(cards([
      ["Topics", number(found.topic_count)], ["Partitions", number(found.partition_count)],
      ["Under-replicated", number(found.under_replicated_count), kind(found.under_replicated_count)],
      ["Without a leader", number(found.offline_count), kind(found.offline_count)],
      ["Connections", number(broker.connections)], ["Waiting for memory", number(broker.muted_connections), kind(broker.muted_connections)],
    ]));
    const most = broker.request_bytes_max;
    memory.replaceChildren(most === null
      ? h("p", {}, `${bytes(broker.request_bytes)} in use, without a bound (queued.max.request.bytes)`)
      : h("div", {}, h("meter", { min: 0, max: most, value: broker.request_bytes, "aria-label": "Memory for requests in use" }),
        h("p", { class: "quiet" }, `${bytes(broker.request_bytes)} of ${bytes(most)} (queued.max.request.bytes); `
          + `${number(broker.queued_requests)} requests wait for their turn`)));
    listeners.set(broker.listeners);
    brokers.set(found.brokers.map((row) => ({ ...row, name: `${row.node_id}${row.node_id === found.controller_id ? ", controller" : ""}` })));
  });
}
