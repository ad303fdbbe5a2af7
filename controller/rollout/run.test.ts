import assert from "node:assert/strict";
import { test } from "node:test";
import { refusal } from "#test/fakes/memory-kube.ts";
import { RECORDS, RIG_START, reached, runningRig, WEB } from "#test/fakes/rollout-rig.ts";
import { isSettled } from "#test/fakes/stopped-time.ts";
import { encodeRecord } from "./restart-history.ts";

const REVISION = "switchback.dev/revision";
const KEY = "shop.Deployment.web";
/** Changes that arrive together are reconciled together. */
const SETTLE_MS = 100;
const RETRY_MS = 5_000;
const MOST_SLEEP_MS = 15_000;
/** The time for the debounce of 2 s, one read of pods, and one request to the webhooks. */
const DEBOUNCED_MS = 2_500;

type Rig = ReturnType<typeof runningRig>;
type Status = ReturnType<ReturnType<Rig["start"]>["status"]>;

const patches = ({ writes }: Rig["api"], end = "") =>
  writes.filter(({ method, path }) => method === "PATCH" && path.endsWith(end));
const readsOf = ({ reads }: Rig["api"], part: string) => reads.filter((path) => path.includes(part));
const codes = ({ workloads }: Status) => Object.fromEntries(workloads.map(({ name, code }) => [name, code]));

/** The record of web, in a ConfigMap or a patch of it. */
const recordIn = (body: unknown) => JSON.parse((body as { data: Record<string, string> }).data[KEY] ?? "{}");

/** A rig with a map, and the Deployment web with one stale pod. */
function stale(t: Parameters<typeof runningRig>[0], restart: Record<string, unknown> = {}, more: object = {}) {
  const rig = runningRig(t, restart, more);
  const revision = rig.publish("a.example.com");
  rig.deployment();
  rig.pod("web-a", { annotations: { [REVISION]: "old" } });
  return { ...rig, revision };
}

test("the status reports what is still unknown, in this order: namespaces, pods, map, records", async (t) => {
  const { api, start, pass, publish } = runningRig(t);
  const refused = new Set(["/api/v1/pods", "/api/v1/namespaces", RECORDS]);
  api.onRead = (path) => {
    if (refused.has(path)) throw refusal(path, 500);
  };
  const running = start();
  const unknown = () => [running.status().unknownCode, running.status().unknown, running.counts()];
  const reasons = {
    "namespaces-not-listed": "the namespaces of the cluster are not known yet",
    "pods-not-listed": "the pods of the cluster are not known yet",
  };
  assert.deepEqual(unknown(), ["namespaces-not-listed", reasons["namespaces-not-listed"], undefined]);
  await pass(500);
  for (const [code, path] of [
    ["namespaces-not-listed", "/api/v1/namespaces"],
    ["pods-not-listed", "/api/v1/pods"],
  ] as const) {
    const [now, text, counts] = unknown();
    assert.deepEqual([now, counts], [code, undefined]);
    assert.match(String(text), new RegExp(`^${reasons[code]}: .*refused by the test`));
    refused.delete(path);
    await pass(10_000);
  }
  assert.deepEqual(unknown(), ["no-map", "no map is published yet", undefined]);
  publish("a.example.com");
  await pass(500);
  assert.deepEqual(unknown(), ["no-records", "earlier restarts are not known yet", undefined]);
  refused.delete(RECORDS);
  await pass(RETRY_MS);
  assert.deepEqual(unknown().slice(0, 2), [undefined, undefined]);
  assert.equal(running.counts()?.pods, 0, "none is known now");
});

test("pods, namespaces and workloads that nothing needs are watched only for 5 minutes after a request", async (t) => {
  const { api, start, pass, publish, deployment, pod } = runningRig(t, { namespaces: [] });
  publish("a.example.com");
  deployment();
  pod("web-a", { annotations: { [REVISION]: "old" } });
  const running = start();
  await pass(60_000);
  const watched = () => api.watched.filter((path) => /\/(pods|namespaces|apps\/.*)$/.test(path)).length;
  assert.deepEqual([watched(), readsOf(api, "/pods").length, running.counts()], [0, 0, undefined]);
  assert.deepEqual([running.status().unknownCode, running.inactiveMs < 60_001], ["not-observed", true]);
  running.requestObservation();
  assert.equal(running.status().unknownCode, "namespaces-not-listed");
  await pass(500);
  assert.deepEqual(codes(running.status()), { "web-1": "unknown-owner" });
  assert.deepEqual([watched(), running.counts()?.pods], [4, 1]);
  await pass(300_000);
  assert.deepEqual([running.status().unknownCode, watched(), running.counts()], ["not-observed", 0, undefined]);
  assert.deepEqual(running.status().workloads, []);
});

test("unreadable records are retried every five seconds, each time with a log line, until the term ends", async (t) => {
  const { api, log, term, start, pass } = runningRig(t);
  api.onRead = (path) => {
    if (path === RECORDS) throw refusal(path, 500);
  };
  const running = start();
  const asked = () => readsOf(api, RECORDS).length;
  await pass(RETRY_MS - 50);
  assert.equal(asked(), 1);
  await pass(50);
  assert.equal(asked(), 2);
  const lines = log.lines.filter(({ fields }) => "code" in fields && fields.code === "restarts-not-read");
  assert.deepEqual([lines.length, lines[0]?.level], [2, "warn"]);
  term.abort();
  await running.done;
  const [before] = [log.lines.length, readsOf(api, RECORDS).length];
  await pass(60_000);
  assert.equal(log.lines.length, before);
});

test("a stale workload is restarted after the debounce: a record, then a patch of the observed version", async (t) => {
  const { api, events, counted, config, start, pass, revision, replica } = stale(t);
  const loaded = await replica();
  loaded.revision = revision;
  const version = api.at(WEB)?.metadata?.resourceVersion;
  const running = start();
  await pass(1_950);
  assert.equal(codes(running.status()).web, "debouncing");
  await pass(DEBOUNCED_MS - 1_950);
  await reached("the restart", () => patches(api, "/web").length > 0);
  const [remembered, patched] = patches(api);
  const { at } = recordIn(remembered?.body).restarts[0];
  assert.deepEqual([remembered?.path, patched?.path], [RECORDS, WEB]);
  assert.deepEqual(patched?.body, {
    metadata: { uid: WEB, resourceVersion: version },
    spec: { template: { metadata: { annotations: { "switchback.dev/restartedAt": new Date(at).toISOString() } } } },
  });
  await pass(50);
  assert.deepEqual(counted, ["restarted"]);
  assert.deepEqual([events[0]?.reason, events[0]?.regarding.uid], ["Restarted", WEB]);
  const status = running.status();
  assert.deepEqual([status.underWay, status.restartsToday, status.restartsLastHour], ["shop/Deployment/web", 1, 1]);
  assert.equal(status.workloads[0]?.lastRestart, new Date(at).toISOString());
  assert.equal(config.inject.maxNames, loaded.maxNames);
});

test("webhooks with another map, or another maxNames, hold back restarts", async (t) => {
  const { api, start, pass, revision, replica } = stale(t);
  const loaded = await replica();
  const running = start();
  await pass(DEBOUNCED_MS);
  await reached("the first question", () => loaded.asked > 0);
  await pass(50);
  assert.equal(codes(running.status()).web, "webhook-behind");
  Object.assign(loaded, { revision, maxNames: 499 });
  const before = loaded.asked;
  await pass(600);
  await reached("the next question", () => loaded.asked > before);
  await pass(50);
  assert.equal(codes(running.status()).web, "webhook-behind");
  assert.deepEqual(patches(api), []);
});

test("with dryRun nothing is written, and the status says so", async (t) => {
  const { api, start, pass } = stale(t, { dryRun: true });
  const running = start();
  await pass(DEBOUNCED_MS);
  const status = running.status();
  assert.deepEqual([status.dryRun, codes(status), patches(api)], [true, { web: "dry-run" }, []]);
});

test("a new pod is observed after a tenth of a second", async (t) => {
  const { start, pass, pod, deployment, publish } = runningRig(t);
  publish("a.example.com");
  deployment();
  const running = start();
  await pass(5_000);
  pod("new");
  await pass(SETTLE_MS - 50);
  assert.deepEqual(codes(running.status()), {});
  await pass(50);
  assert.deepEqual(codes(running.status()), { web: "debouncing" });
});

test("continuous changes do not delay a run", async (t) => {
  const { start, pass, pod, publish } = runningRig(t);
  publish("a.example.com");
  const running = start();
  await pass(5_000);
  pod("new-0");
  await pass(50);
  pod("new-1");
  await pass(50);
  assert.equal(running.status().workloads[0]?.pods, 2);
});

test("without changes there is a run every fifteen seconds", async (t) => {
  const { start, pass, clock, publish } = runningRig(t);
  publish("a.example.com");
  start();
  await pass(5_000);
  // Wait for one run, to measure from it to the next.
  const first = clock.reads;
  let waited = 0;
  for (; clock.reads === first && waited < 2 * MOST_SLEEP_MS; waited += 50) await pass(50);
  const second = clock.reads;
  await pass(MOST_SLEEP_MS - 50);
  assert.equal(clock.reads, second);
  await pass(50);
  assert.ok(clock.reads > second);
});

test("a map with a new revision triggers a run, and one with the same revision does not", async (t) => {
  const { start, pass, pod, deployment, publish } = runningRig(t);
  const revision = publish("a.example.com");
  deployment();
  pod("web-a");
  const running = start();
  await pass(1_000);
  pod("web-a", { annotations: { [REVISION]: "of the pod" } });
  await pass(50);
  assert.equal(running.status().workloads[0]?.notInjected, 1);
  await pass(200);
  assert.equal(running.status().workloads[0]?.notInjected, 0);
  assert.equal(publish("a.example.com"), revision);
  await pass(1_000);
  assert.notEqual(publish("b.example.com"), revision);
  await pass(250);
  assert.equal(codes(running.status()).web, "debouncing");
});

test("pods with all names are in step even with another revision, and stale again after the next map", async (t) => {
  const { start, pass, pod, deployment, publish } = runningRig(t);
  publish("a.example.com");
  deployment();
  pod("web-a", { annotations: { [REVISION]: "old" }, names: ["a.example.com"] });
  const running = start();
  await pass(DEBOUNCED_MS);
  assert.deepEqual(codes(running.status()), { web: "same-names" });
  publish("a.example.com", "b.example.com");
  await pass(DEBOUNCED_MS + 200);
  assert.notEqual(codes(running.status()).web, "same-names");
});

test("one stale pod per revision and selection is read, at most five", async (t) => {
  const { api, start, pass, pod } = stale(t);
  for (const index of [0, 1, 2, 3, 4, 5, 6]) pod(`web-${index}`, { annotations: { [REVISION]: `old-${index % 3}` } });
  start();
  const read = () => readsOf(api, "/pods/").length;
  await pass(DEBOUNCED_MS);
  assert.equal(read(), 4);
  for (const index of [0, 1, 2, 3, 4, 5, 6]) pod(`web-${index}`, { annotations: { [REVISION]: `old-${index}` } });
  await pass(DEBOUNCED_MS);
  assert.equal(read(), 9);
});

test("a workload's diff is that of the stale pod with the most missing names", async (t) => {
  const { start, pass, pod } = stale(t, { dryRun: true });
  pod("web-b", { annotations: { [REVISION]: "other" }, names: ["a.example.com"] });
  const running = start();
  await pass(DEBOUNCED_MS);
  assert.equal(codes(running.status()).web, "dry-run");
  pod("web-a", { annotations: { [REVISION]: "old" }, names: ["a.example.com"] });
  pod("web-b", { annotations: { [REVISION]: "third" }, names: ["a.example.com", "gone.example.com"] });
  await pass(DEBOUNCED_MS);
  assert.equal(codes(running.status()).web, "vanished-waiting");
});

test("changes during a run are reconciled right after it, even if it fails", async (t) => {
  const { api, log, start, pass, pod, deployment, revision, replica } = stale(t);
  Object.assign(await replica(), { revision });
  const held = Promise.withResolvers<void>();
  api.onWrite = async ({ method, path }) => {
    if (method === "PATCH" && path === RECORDS) await held.promise;
  };
  const running = start();
  await pass(DEBOUNCED_MS);
  await reached("the record", () => patches(api, RECORDS).length > 0);
  deployment("other");
  pod("other-a", { of: "other" });
  await pass(1_000);
  assert.ok(!("other" in codes(running.status())), "one turn at a time");
  assert.equal(patches(api).length, 1);
  held.reject(refusal(RECORDS, 500));
  await pass(2 * SETTLE_MS);
  assert.ok("other" in codes(running.status()));
  assert.deepEqual(log.lines.find(({ level }) => level === "warn")?.fields, { code: "restart-turn-failed" });
});

test("a failed run is retried after five seconds", async (t) => {
  const { api, log, start, pass, revision, replica } = stale(t);
  Object.assign(await replica(), { revision });
  api.onWrite = ({ method, path }) => {
    if (method === "PATCH" && path === RECORDS) throw refusal(path, 500);
  };
  start();
  const failed = () => log.lines.filter(({ level }) => level === "warn").length;
  while (failed() === 0) await pass(50);
  await pass(RETRY_MS - 100);
  assert.equal(failed(), 1);
  await pass(150);
  await reached("the second", () => failed() === 2);
  assert.equal(patches(api, "/web").length, 0);
});

test("after the term nothing is patched, and no watch or timer is left", async (t) => {
  const { api, log, clock, term, start, pass, pod, revision, replica } = stale(t);
  Object.assign(await replica(), { revision });
  const held = Promise.withResolvers<void>();
  api.onWrite = async ({ method, path }) => {
    if (method === "PATCH" && path === RECORDS) await held.promise;
  };
  const running = start();
  await pass(DEBOUNCED_MS);
  await reached("the record", () => patches(api, RECORDS).length > 0);
  assert.deepEqual(api.watched.map((path) => path.split("/").at(-1)).sort(), [
    "configmaps",
    "deployments",
    "endpointslices",
    "namespaces",
    "pods",
    "pods",
    "pods",
    "replicasets",
  ]);
  pod("other-a", { of: "other" });
  term.abort();
  assert.equal(await isSettled(running.done), false, "it waits for the turn");
  assert.deepEqual(api.watched, []);
  held.resolve();
  await running.done;
  await pass(200);
  const [turns, reads] = [clock.reads, api.reads.length];
  await pass(60_000);
  assert.deepEqual([clock.reads, api.reads.length], [turns, reads]);
  assert.equal(patches(api, "/web").length, 0);
  assert.deepEqual(log.messages, []);
});

test("a term that ends before it begins opens no watch", async (t) => {
  const { api, term, start, pass } = stale(t);
  term.abort();
  await start().done;
  await pass(60_000);
  assert.deepEqual([api.watched, api.reads], [[], []]);
});

test("an outcome of an earlier leader's restart is reported and recorded, even without pods", async (t) => {
  const { api, counted, start, pass, publish } = runningRig(t);
  publish("a.example.com");
  const restart = { at: RIG_START - 60_000, from: ["old"], to: "new", uid: "uid-web", generation: 1 };
  const ended = { ...restart, at: RIG_START - 2 * 3_600_000, outcome: "failed" as const };
  api.put(RECORDS, {
    data: {
      [KEY]: encodeRecord("shop/Deployment/web", [restart]),
      "shop.Deployment.other": encodeRecord("shop/Deployment/other", [ended]),
    },
  });
  const running = start();
  await pass(500);
  assert.deepEqual(recordIn(api.at(RECORDS)).restarts, [{ ...restart, outcome: "done" }]);
  assert.deepEqual(counted, ["done"]);
  const { restartsLastHour, restartsToday, workloads } = running.status();
  assert.deepEqual([restartsLastHour, restartsToday, workloads], [1, 2, []]);
});

test("inactiveMs is the longest inactive time of any watch", async (t) => {
  let steady = performance.now();
  t.mock.method(performance, "now", () => steady);
  const rig = stale(t);
  const running = rig.start();
  await rig.pass(1_000);
  const all = new Set(rig.api.watched);
  assert.equal(all.size, 7);
  for (const silent of all) {
    for (const path of all) rig.api.bookmark(path);
    assert.equal(running.inactiveMs, 0);
    steady += 60_000;
    for (const path of all) if (path !== silent) rig.api.bookmark(path);
    assert.equal(running.inactiveMs, 60_000, silent);
  }
});
