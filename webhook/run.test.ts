import assert from "node:assert/strict";
import { Agent, request } from "node:https";
import { after, before, test } from "node:test";
import { issueAuthority, issueLeaf } from "#certs/issue.ts";
import type { PemPair } from "#certs/pem.ts";
import type { ServingSource } from "#certs/serving.ts";
import type { PublishedMap, Reason } from "#hostmap/types.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { MapReader } from "#lib/documents/map-reader.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { type Logger, silentLogger } from "#lib/telemetry/log.ts";
import { hashValue } from "#lib/telemetry/metrics.ts";
import { isSettled } from "#test/fakes/stopped-time.ts";
import { type RunningWebhook, runWebhook } from "./run.ts";

const HOST = "switchback-webhook.switchback-system.svc";
const LOCAL = "127.0.0.1";
let authority: PemPair;
let pair: PemPair;

before(async () => {
  authority = await issueAuthority({ now: Date.now(), days: 1 });
  pair = await issueLeaf(authority, [HOST], { now: Date.now(), days: 1 });
});

const running: RunningWebhook[] = [];
after(() => Promise.all(running.map((webhook) => webhook.stop())));

/** Sources whose offers the test controls. */
async function start(log: Logger = silentLogger, pause: () => Promise<void> = async () => {}) {
  let offerMap: (offer: PublishedMap | Reason) => void = () => {};
  let offerPair: (offer: PemPair | Reason) => void = () => {};
  const stopped: string[] = [];
  const maps: MapReader = {
    start(found) {
      offerMap = found;
      return { stop: async () => void stopped.push("maps") };
    },
  };
  const certificates: ServingSource = {
    start(found) {
      offerPair = found;
      return { stop: async () => void stopped.push("certificates") };
    },
  };
  const config = parseConfig({ webhook: { address: LOCAL, port: 0, healthPort: 0 } });
  const webhook = await runWebhook(config, { maps, certificates, log, now: Date.now, pause });
  running.push(webhook);
  const health = (path: string) => fetch(`http://${LOCAL}:${webhook.healthPort}${path}`);
  return { webhook, health, offerMap, offerPair, stopped };
}

function mapOf(revision: string, ...names: string[]): PublishedMap {
  return publishedMapOf(revision, new Map(names.map((name) => [name, ["198.51.100.9"]])));
}

function admit(port: number): Promise<{ allowed: boolean; patch?: string; warnings?: string[] }> {
  const body = JSON.stringify({
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: { uid: "u", kind: { group: "", kind: "Pod" }, operation: "CREATE", object: { metadata: {}, spec: {} } },
  });
  return new Promise((resolve, reject) => {
    const options = { host: LOCAL, port, servername: HOST, ca: authority.cert, agent: new Agent() };
    const call = request(
      { ...options, method: "POST", path: "/mutate/namespace", headers: { "content-type": "application/json" } },
      (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (chunk: string) => {
          text += chunk;
        });
        response.on("end", () => resolve(JSON.parse(text).response));
      },
    );
    call.on("error", reject);
    call.end(body);
  });
}

function patchOf(patch: string | undefined): string {
  return Buffer.from(patch ?? "", "base64").toString();
}

test("ready needs both a certificate and a map; the body lists what is missing", async () => {
  const { health, offerMap, offerPair } = await start();
  const missing = await health("/readyz");
  assert.equal(missing.status, 503);
  assert.match(await missing.text(), /^\[-\] certificate: not loaded.*\n\[-\] map: not loaded\n\[\+\] not stopping\n$/);
  offerMap(mapOf("r1", "a.example.com"));
  assert.equal((await health("/readyz")).status, 503);
  offerPair(pair);
  const ready = await health("/readyz");
  assert.equal(ready.status, 200);
  assert.match(await ready.text(), /\[\+\] certificate: expires 2\d{3}-.*\n\[\+\] map: revision r1, 1 names\n/);
  assert.equal((await health("/healthz")).status, 200);
});

test("/loaded reports the revision in use, for the controller", async () => {
  const { health, offerMap } = await start();
  assert.deepEqual(await (await health("/loaded")).json(), { revision: null, names: 0, maxNames: 0 });
  offerMap(mapOf("r1", "a.example.com"));
  assert.deepEqual(await (await health("/loaded")).json(), { revision: "r1", names: 1, maxNames: 500 });
  offerMap(mapOf("r2", "a.example.com", "b.example.com"));
  assert.deepEqual(await (await health("/loaded")).json(), { revision: "r2", names: 2, maxNames: 500 });
});

test("a problem with the newest map or certificate is reported, and the last good one stays in use", async () => {
  const lines: string[] = [];
  const log: Logger = { ...silentLogger, warn: (_fields, message) => lines.push(message) };
  const { webhook, health, offerMap, offerPair } = await start(log);
  offerMap(mapOf("r1", "a.example.com"));
  offerPair(pair);
  for (let times = 0; times < 3; times += 1) offerMap({ code: "shard-missing", text: "the shard x is not there" });
  offerPair({ code: "secret-missing", text: "there is no Secret" });
  const response = await health("/readyz");
  assert.equal(response.status, 200);
  const text = await response.text();
  assert.match(text, /map: revision r1, 1 names \(shard-missing: the shard x is not there\)/);
  assert.match(text, /certificate: expires .* \(secret-missing/);
  assert.match(patchOf((await admit(webhook.port)).patch), /a\.example\.com/);
  assert.equal(lines.filter((line) => line === "map: the newest version is rejected").length, 1);
  offerMap(mapOf("r2", "b.example.com"));
  assert.doesNotMatch(await (await health("/readyz")).text(), /shard-missing/);
  assert.match(patchOf((await admit(webhook.port)).patch), /b\.example\.com/);
});

test("metrics report the map, the certificate and their problems", async () => {
  const { health, offerMap, offerPair } = await start();
  offerMap(mapOf("r1", "a.example.com"));
  assert.match(await (await health("/metrics")).text(), new RegExp(`switchback_webhook_map_hash ${hashValue("r1")}\n`));
  offerMap(mapOf("r2", "a.example.com", "b.example.com"));
  offerPair(pair);
  offerMap({ code: "index-missing", text: "gone" });
  const text = await (await health("/metrics")).text();
  assert.match(text, new RegExp(`switchback_webhook_map_hash ${hashValue("r2")}\n`));
  assert.doesNotMatch(text, /revision="r1"/);
  assert.match(text, /switchback_webhook_map_names 2/);
  assert.match(text, /switchback_webhook_map_problem 1/);
  assert.match(text, /switchback_webhook_certificate_problem 0/);
  const expiry = Number(/^\S+certificate_expiry_timestamp_seconds (\S+)$/m.exec(text)?.[1]);
  assert.ok(expiry > Date.now() / 1000 && expiry < Date.now() / 1000 + 86_400);
});

test("once stopped, it is unready at once, keeps serving until callers have gone, then ends everything", async () => {
  const gone = Promise.withResolvers<void>();
  const { webhook, health, offerMap, offerPair, stopped } = await start(silentLogger, () => gone.promise);
  offerMap(mapOf("r1", "a.example.com"));
  offerPair(pair);
  const ended = webhook.stop();
  const unready = await health("/readyz");
  assert.equal(unready.status, 503);
  assert.match(await unready.text(), /\[-\] stopping/);
  assert.equal((await admit(webhook.port)).allowed, true);
  assert.deepEqual(stopped, []);
  gone.resolve();
  await ended;
  await assert.rejects(admit(webhook.port));
  await assert.rejects(health("/healthz"));
  assert.deepEqual(stopped.sort(), ["certificates", "maps"]);
});

test("stop waits for every part, and probes are answered until the end", async () => {
  const ends = { maps: Promise.withResolvers<void>(), certificates: Promise.withResolvers<void>() };
  const paused: number[] = [];
  const begun: string[] = [];
  const part = (name: keyof typeof ends) => ({
    start: () => ({
      stop: () => {
        begun.push(name);
        return ends[name].promise;
      },
    }),
  });
  const config = parseConfig({ webhook: { address: LOCAL, port: 0, healthPort: 0 } });
  const pause = async (ms: number) => void paused.push(ms);
  const deps = { maps: part("maps"), certificates: part("certificates"), log: silentLogger, now: Date.now, pause };
  const webhook = await runWebhook(config, deps);
  const stopped = webhook.stop();
  const status = async () => (await fetch(`http://${LOCAL}:${webhook.healthPort}/readyz`)).status;
  assert.equal(await isSettled(stopped), false);
  assert.deepEqual([paused, begun.sort(), webhook.state.draining], [[1_000], ["certificates", "maps"], true]);
  ends.maps.resolve();
  assert.equal(await isSettled(stopped), false);
  assert.equal(await status(), 503);
  ends.certificates.resolve();
  await stopped;
  await assert.rejects(status());
});

test("liveness follows the watch of the map", async (t) => {
  let inactiveMs: number | undefined = 180_000;
  const maps: MapReader = { start: () => ({ stop: async () => {}, inactiveMs: () => inactiveMs ?? 0 }) };
  const certificates: ServingSource = { start: () => ({ stop: async () => {} }) };
  const config = parseConfig({ webhook: { address: LOCAL, port: 0, healthPort: 0 } });
  const webhook = await runWebhook(config, {
    maps,
    certificates,
    log: silentLogger,
    now: Date.now,
    pause: async () => {},
  });
  t.after(() => webhook.stop());
  const status = async () => (await fetch(`http://${LOCAL}:${webhook.healthPort}/healthz`)).status;
  assert.equal(await status(), 200);
  inactiveMs = 180_001;
  assert.equal(await status(), 503);
});
