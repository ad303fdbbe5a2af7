import assert from "node:assert/strict";
import { test } from "node:test";
import { LineLog } from "#test/fakes/clock.ts";
import { MemoryKube, refusal } from "#test/fakes/memory-kube.ts";
import { endlessTerm } from "#test/fakes/term.ts";
import { outdateEarlierPatches } from "./earlier-restarts.ts";
import type { Restart } from "./restart-history.ts";
import { RestartRecords } from "./restart-records.ts";

const SHOP = "/apis/apps/v1/namespaces/shop";
const never = new AbortController().signal;

/** Creates a Deployment and a record for each of these restarts. A restart has no outcome unless `restarts` sets it. */
async function rig(restarts: Readonly<Record<string, Partial<Restart>>>) {
  const kube = new MemoryKube();
  const clocks = { now: () => 0, wallClock: () => 0, limitsMs: 0 };
  const fence = endlessTerm(kube.client);
  const deps = { client: kube.client, namespace: "ours", fence, ...clocks };
  const records = await RestartRecords.open(deps, never);
  for (const [name, more] of Object.entries(restarts)) {
    const path = `${SHOP}/deployments/${name}`;
    kube.put(path, { spec: {} });
    const restart = { at: 1, from: [], to: "new", uid: path, generation: 1, ...more };
    await records.put(`shop/Deployment/${name}`, [restart], never);
  }
  kube.touched.length = 0;
  const log = new LineLog();
  const outdate = (namespaces = ["shop"], signal = never) =>
    outdateEarlierPatches(records, { client: kube.client, fence, log, namespaces }, signal);
  const versions = () =>
    Object.keys(restarts).map((name) => kube.at(`${SHOP}/deployments/${name}`)?.metadata.resourceVersion);
  return { kube, log, outdate, versions };
}

test("a workload whose restart has no outcome gets a new version, but no other change", async () => {
  const { kube, log, outdate, versions } = await rig({ web: {}, ended: { outcome: "done" } });
  const [web, ended] = versions();
  const spec = kube.at(`${SHOP}/deployments/web`)?.spec;
  await outdate();
  assert.notEqual(versions()[0], web);
  assert.equal(versions()[1], ended);
  assert.deepEqual([kube.touched, kube.at(`${SHOP}/deployments/web`)?.spec], [[`${SHOP}/deployments/web`], spec]);
  assert.deepEqual(log.lines, []);
});

test("nothing is written where restarts are no longer permitted, or after the term has ended", async () => {
  const { kube, outdate } = await rig({ web: {} });
  await outdate(["bank"]);
  await assert.rejects(outdate(["shop"], AbortSignal.abort(new Error("over"))), /over/);
  assert.deepEqual(kube.touched, []);
});

test("a missing or replaced workload is ignored; a failed write is reported", async () => {
  const { kube, log, outdate } = await rig({ gone: {}, other: { uid: "another" }, denied: {}, web: {} });
  kube.remove(`${SHOP}/deployments/gone`);
  const { apply } = kube.client;
  kube.client.apply = async (path, ...rest) => {
    if (path.endsWith("denied")) throw refusal(path, 403);
    return await apply(path, ...rest);
  };
  await outdate();
  assert.deepEqual(kube.touched, [`${SHOP}/deployments/web`]);
  assert.deepEqual(
    log.lines.map(({ fields }) => fields),
    [{ code: "restart-not-outdated", workload: "shop/Deployment/denied" }],
  );
});

test("if the API server does not answer, the error is thrown, so that everything is retried", async () => {
  const { kube, outdate } = await rig({ web: {} });
  for (const error of [refusal("web", 503), refusal("web", 429), new Error("no answer")]) {
    kube.onRead = () => {
      throw error;
    };
    await assert.rejects(outdate(), error);
  }
  kube.onRead = () => {};
  await outdate();
  assert.deepEqual(kube.touched, [`${SHOP}/deployments/web`]);
});
