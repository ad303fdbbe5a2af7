import assert from "node:assert/strict";
import { test } from "node:test";
import { MemoryKube, refusal } from "#test/fakes/memory-kube.ts";
import { skipWaits } from "#test/fakes/skipped-waits.ts";
import { restartWorkload, waitForRestart } from "./restart.ts";
import { type RawWorkload, workloadState } from "./workload-state.ts";

const PATH = "/apis/apps/v1/namespaces/shop/deployments/web";
const STAMP = "2026-01-01T00:00:00.000Z";
const WEB = { namespace: "shop", kind: "Deployment", name: "web" };
const OPTIONS = { stamp: STAMP, fieldManager: "somebody" };

function withWeb(spec: object = {}): MemoryKube {
  const kube = new MemoryKube();
  kube.put(PATH, { metadata: { generation: 1 }, spec });
  return kube;
}

async function seen(kube: MemoryKube) {
  return workloadState("Deployment", await kube.client.get<RawWorkload>(PATH));
}

test("a restart sets one annotation on the template, with uid and resourceVersion as preconditions", async () => {
  const kube = withWeb({ replicas: 2 });
  const outcome = await restartWorkload(kube.client, WEB, await seen(kube), OPTIONS);
  const body = {
    metadata: { uid: PATH, resourceVersion: "2" },
    spec: { template: { metadata: { annotations: { "switchback.dev/restartedAt": STAMP } } } },
  };
  assert.deepEqual(kube.writes, [{ method: "PATCH", path: PATH, fieldManager: "somebody", body }]);
  assert.ok(outcome.result === "restarted");
  assert.deepEqual(outcome.workload, kube.at(PATH));
});

test("a restart with a record sets an annotation of the workload in the same patch", async () => {
  const kube = withWeb();
  await restartWorkload(kube.client, WEB, await seen(kube), { ...OPTIONS, record: "[]" });
  assert.equal(kube.writes.length, 1);
  assert.deepEqual(kube.at(PATH)?.metadata.annotations, { "switchback.dev/restarts": "[]" });
});

test("a newer version and another object of the same name are conflicts", async () => {
  for (const change of [{ spec: { replicas: 3 } }, { metadata: { uid: "another", resourceVersion: "1" } }]) {
    const kube = withWeb();
    const state = await seen(kube);
    kube.put(PATH, change);
    assert.equal((await restartWorkload(kube.client, WEB, state, OPTIONS)).result, "conflict");
  }
});

test("a workload that allows no restart gets no patch", async () => {
  const kube = withWeb();
  kube.put(PATH, { spec: { paused: true } });
  const outcome = await restartWorkload(kube.client, WEB, await seen(kube), OPTIONS);
  assert.equal(outcome.result === "refused" && outcome.reason.code, "not-restartable");
  assert.deepEqual(kube.writes, []);
});

for (const [status, result] of [
  [403, "forbidden"],
  [404, "gone"],
  [409, "conflict"],
  [422, "forbidden"],
] as const) {
  test(`an answer of ${status} is ${result}, with the error`, async () => {
    const kube = withWeb();
    const error = refusal(PATH, status);
    kube.onWrite = () => {
      throw error;
    };
    assert.deepEqual(await restartWorkload(kube.client, WEB, await seen(kube), OPTIONS), { result, error });
  });
}

test("any other failure leaves the outcome uncertain, and is thrown", async () => {
  const kube = withWeb();
  const state = await seen(kube);
  for (const error of [refusal(PATH, 500), refusal(PATH, 429), new Error("no answer")]) {
    kube.onWrite = () => {
      throw error;
    };
    await assert.rejects(restartWorkload(kube.client, WEB, state, OPTIONS), error);
  }
  kube.onWrite = () => {};
  const signal = AbortSignal.abort(new Error("the term is over"));
  await assert.rejects(restartWorkload(kube.client, WEB, state, { ...OPTIONS, signal }), /the term is over/);
});

test("a wait ends when nothing is missing, when the restart has failed, or at its timeout", async (t) => {
  skipWaits(t);
  const wait = async (...looks: ReadonlyArray<{ missing: string | undefined; hasFailed?: boolean }>) => {
    const reported: string[] = [];
    let count = 0;
    const look = async () => looks[Math.min(count++, looks.length - 1)] ?? { missing: undefined };
    const report = (missing: string) => void reported.push(missing);
    return [await waitForRestart(look, { timeoutMs: 5_000, report }), reported];
  };
  assert.deepEqual(await wait({ missing: "1 of 2" }, { missing: undefined }), [undefined, ["1 of 2"]]);
  assert.deepEqual(await wait({ missing: "1 of 2", hasFailed: true }), ["1 of 2", []]);
  const looks = [{ missing: "1 of 2" }, { missing: "1 of 2" }, { missing: "2 of 2" }];
  assert.deepEqual(await wait(...looks), ["2 of 2", ["1 of 2", "2 of 2"]]);
});
