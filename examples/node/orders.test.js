// node:test and kafkajs: an order is sent although the leader moves; a week later, the retention of its topic has removed it.
//
// Needs pybroker on the PATH.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, afterEach, before, test } from "node:test";
import { Kafka, logLevel } from "kafkajs";

let broker;
let api;
let kafka;

before(async () => {
  broker = spawn("pybroker", [
    "start", "--port", "0", "--exit-with-parent", "--data-dir", mkdtempSync(join(tmpdir(), "pybroker-")),
    "--override", "pybroker.admin.listener=http://127.0.0.1:0",
    "--override", "pybroker.virtual.time=true",
  ], { stdio: ["ignore", "pipe", "ignore"] });
  for await (const line of createInterface({ input: broker.stdout })) {
    const [kind, address] = line.split(" ");
    if (kind === "ADMIN") api = address;
    if (kind === "READY") {
      kafka = new Kafka({ clientId: "shop", brokers: [address], logLevel: logLevel.NOTHING });
      return;
    }
  }
  throw new Error("The broker has ended before it was ready");
});

after(() => broker.kill());

afterEach(() => request("POST", "/v1/reset"));

async function request(method, path, body) {
  const sent = body && { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(api + path, { method, ...sent });
  const content = await response.json();
  assert.ok(response.ok, content.error);
  return content;
}

async function send(topic, value) {
  const producer = kafka.producer();
  await producer.connect();
  await producer.send({ topic, messages: [{ value }] });
  await producer.disconnect();
}

async function recordCount(name) {
  const { topics } = await request("GET", "/v1/topics");
  return topics.find((topic) => topic.name === name).record_count;
}

test("an order is sent although the leader moves", async () => {
  await request("POST", "/v1/faults", {
    name: "moves", api: "Produce", topic: "orders", error: "NOT_LEADER_OR_FOLLOWER", times: 2,
  });
  await send("orders", "order 1");
  assert.equal((await request("GET", "/v1/faults/moves")).count, 2);
  assert.equal((await request("GET", "/v1/requests?api=Produce&client_id=shop")).count, 3);
});

test("a week later, the retention has removed it", async () => {
  const admin = kafka.admin();
  await admin.connect();
  await admin.createTopics({ topics: [{ topic: "events", configEntries: [{ name: "retention.ms", value: "604800000" }] }] });
  await admin.disconnect();
  await send("events", "event 1");
  assert.equal(await recordCount("events"), 1);
  await request("POST", "/v1/clock/advance", { by: "7d" });
  assert.equal(await recordCount("events"), 0);
});
