import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import request from "supertest";
import { issueAuthority, issueLeaf } from "#certs/issue.ts";
import type { PemPair } from "#certs/pem.ts";
import type { ServingSource } from "#certs/serving.ts";
import type { PublishedMap, Reason } from "#hostmap/types.ts";
import { parseConfig } from "#lib/config/parse.ts";
import type { MapReader } from "#lib/documents/map-reader.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { type Logger, silentLogger } from "#lib/telemetry/log.ts";
import { isSettled } from "#test/fakes/stopped-time.ts";
import { runWebhook } from "./run.ts";

const HOST = "switchback-webhook.switchback-system.svc";
const LOCAL = "127.0.0.1";
let authority: PemPair;
let pair: PemPair;

before(async () => {
  authority = await issueAuthority({ now: Date.now(), days: 1 });
  pair = await issueLeaf(authority, [HOST], { now: Date.now(), days: 1 });
});

const running: (() => Promise<void>)[] = [];
after(() => Promise.all(running.map((stop) => stop())));

/** Sources whose offers the test controls. */
async function start(log: Logger = silentLogger, pause?: (ms: number) => Promise<void>) {
  let offerMap: (offer: PublishedMap | Reason) => void = () => {};
  let offerPair: (offer: PemPair | Reason) => void = () => {};
  const stopped: string[] = [];
  const inactive = { ms: 0 };
  const ends = { maps: Promise.withResolvers<void>(), certificates: Promise.withResolvers<void>() };
  const stop = (part: keyof typeof ends) => async () => {
    stopped.push(part);
    await ends[part].promise;
  };
  const maps: MapReader = {
    start(found) {
      offerMap = found;
      return { stop: stop("maps"), inactiveMs: () => inactive.ms };
    },
  };
  const certificates: ServingSource = {
    start(found) {
      offerPair = found;
      return { stop: stop("certificates") };
    },
  };
  const config = parseConfig({ address: LOCAL, webhook: { port: 0, healthPort: 0 } });
  const webhook = await runWebhook(config, {
    maps,
    certificates,
    log,
    now: Date.now,
    pause: pause ?? (async () => {}),
  });
  running.push(async () => {
    for (const end of Object.values(ends)) end.resolve();
    await webhook.stop();
  });
  const health = (path: string) => fetch(`http://${LOCAL}:${webhook.healthPort}${path}`);
  return { webhook, health, offerMap, offerPair, stopped, ends, inactive };
}

function mapOf(revision: string, ...names: string[]): PublishedMap {
  return publishedMapOf(revision, new Map(names.map((name) => [name, ["198.51.100.9"]])));
}

const REVIEW = {
  apiVersion: "admission.k8s.io/v1",
  kind: "AdmissionReview",
  request: { uid: "u", kind: { group: "", kind: "Pod" }, operation: "CREATE", object: { metadata: {}, spec: {} } },
};

/** Resolves with the patch that a pod gets. */
async function admit(port: number): Promise<string> {
  const post = request(`https://${HOST}:${port}`)
    .post("/mutate/namespace")
    .connect({ [HOST]: LOCAL });
  const { body } = await post.ca(authority.cert).send(REVIEW);
  assert.equal(body.response.allowed, true);
  return Buffer.from(body.response.patch, "base64").toString();
}

test("a problem with the newest map or certificate is reported, and the last good one stays in use", async () => {
  const lines: string[] = [];
  const log: Logger = { ...silentLogger, warn: (_fields, message) => lines.push(message) };
  const { webhook, health, offerMap, offerPair } = await start(log);
  offerMap(mapOf("r1", "a.example.com"));
  offerPair(pair);
  for (let times = 0; times < 3; times += 1) offerMap({ code: "shard-missing", text: "the shard x is not there" });
  offerPair({ code: "pair-missing", text: "there is no Secret" });
  const response = await health("/readyz");
  assert.equal(response.status, 200);
  const text = await response.text();
  assert.match(text, /map: revision r1, 1 names \(shard-missing: the shard x is not there\)/);
  assert.match(text, /certificate: expires .* \(pair-missing/);
  assert.match(await admit(webhook.port), /a\.example\.com/);
  assert.equal(lines.filter((line) => line === "map: the newest version is rejected").length, 1);
  offerMap(mapOf("r2", "b.example.com"));
  assert.doesNotMatch(await (await health("/readyz")).text(), /shard-missing/);
  assert.deepEqual(await (await health("/loaded")).json(), { revision: "r2", names: 1, maxNames: 500 });
  assert.match(await admit(webhook.port), /b\.example\.com/);
  assert.match(await (await health("/metrics")).text(), /^switchback_webhook_map_names 1$/m);
});

test("once stopped, it is unready at once, serves until callers have gone, and ends after every part", async () => {
  const gone = Promise.withResolvers<void>();
  const paused: number[] = [];
  const { webhook, health, offerMap, offerPair, stopped, ends } = await start(silentLogger, (ms) => {
    paused.push(ms);
    return gone.promise;
  });
  offerMap(mapOf("r1", "a.example.com"));
  offerPair(pair);
  const ended = webhook.stop();
  const unready = await health("/readyz");
  assert.equal(unready.status, 503);
  assert.match(await unready.text(), /\[-\] stopping/);
  await admit(webhook.port);
  assert.deepEqual([paused, stopped], [[1_000], []]);
  gone.resolve();
  for (const part of ["maps", "certificates"] as const) {
    assert.equal(await isSettled(ended), false);
    assert.equal((await health("/readyz")).status, 503, "probes are answered until the end");
    ends[part].resolve();
  }
  await ended;
  assert.deepEqual(stopped.sort(), ["certificates", "maps"]);
  await assert.rejects(admit(webhook.port));
  await assert.rejects(health("/healthz"));
});

test("liveness follows the watch of the map", async () => {
  const { health, inactive } = await start();
  inactive.ms = 180_000;
  assert.equal((await health("/healthz")).status, 200);
  inactive.ms = 180_001;
  assert.equal((await health("/healthz")).status, 503);
});
