import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { WorkloadStatus } from "#controller/rollout/report.ts";
import { MemoryServer, refusal } from "#test/fakes/memory-server.ts";
import { type SkippedWaits, skipWaits } from "#test/fakes/skipped-waits.ts";
import { restartOne } from "./restart-one.ts";

const DEPLOYMENTS = "/apis/apps/v1/namespaces/shop/deployments";
const WEB = `${DEPLOYMENTS}/web`;
const STAMP = "switchback.dev/restartedAt";
const ROLLED_OUT = { observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1 };
const UNAVAILABLE = { ...ROLLED_OUT, availableReplicas: 0 };
const STUCK = { ...UNAVAILABLE, conditions: [{ type: "Progressing", status: "False" }] };

interface Parts {
  readonly status?: object;
  readonly spec?: object;
  readonly restartedAt?: string;
  readonly metadata?: object;
}

function put(api: MemoryServer, { status = ROLLED_OUT, spec = {}, restartedAt, metadata = {} }: Parts = {}): void {
  const annotations = restartedAt === undefined ? {} : { [STAMP]: restartedAt };
  api.add(DEPLOYMENTS, "web", {
    metadata: { uid: "u", resourceVersion: "7", generation: 1, ...metadata },
    spec: { ...spec, template: { metadata: { annotations } } },
    status,
  });
}

function withWeb(parts?: Parts): MemoryServer {
  const api = new MemoryServer();
  put(api, parts);
  return api;
}

function status(parts: Partial<WorkloadStatus> = {}): WorkloadStatus {
  const known = { namespace: "shop", kind: "Deployment", name: "web", pods: 1, stale: 1, code: "budget-spent" };
  return { ...known, ...parts } as WorkloadStatus;
}

interface Run {
  readonly timeoutMs?: number;
  readonly of?: Partial<WorkloadStatus>;
  readonly onWait?: (elapsed: number) => void;
}

function run(t: TestContext, api: MemoryServer, { timeoutMs = 2_000, of, onWait }: Run = {}) {
  const time: SkippedWaits = skipWaits(t, onWait);
  return { done: restartOne(api.client, status(of), timeoutMs, () => {}), time };
}

/** The time `ms` milliseconds before the test begins. */
const before = (ms: number) => new Date(1_700_000_000_000 - ms).toISOString();

test("patches exactly the object that it has read, and waits for the rollout", async (t) => {
  const api = withWeb();
  api.onCall = ({ method }) => {
    if (method === "PATCH") put(api, { status: UNAVAILABLE });
    return undefined;
  };
  const { done, time } = run(t, api, { onWait: (elapsed) => elapsed === 1_000 && put(api) });
  assert.deepEqual(await done, { came: "restarted", text: "is restarted" });
  assert.deepEqual(time.waits, [500, 500]);
  const [patch, ...more] = api.callsOf("PATCH", WEB);
  assert.equal(more.length, 0);
  assert.equal(patch?.query.get("fieldManager"), "switchback-cli");
  assert.deepEqual(patch?.body, {
    metadata: { uid: "u", resourceVersion: "7" },
    spec: { template: { metadata: { annotations: { [STAMP]: before(0) } } } },
  });
});

for (const kind of ["StatefulSet", "DaemonSet"]) {
  test(`a ${kind} is read from the path of its kind`, async (t) => {
    const api = new MemoryServer();
    const rolledOut = { replicas: 1, readyReplicas: 1, availableReplicas: 1 };
    api.add(`/apis/apps/v1/namespaces/shop/${kind.toLowerCase()}s`, "web", { status: rolledOut });
    assert.equal((await run(t, api, { of: { kind } }).done).came, "restarted");
    assert.equal(api.writes.length, 1);
  });
}

test("a rollout that takes too long has failed, and the text says what is missing", async (t) => {
  const { done, time } = run(t, withWeb({ status: UNAVAILABLE }));
  const text = "was restarted, but the rollout did not finish: 0 of 1 available";
  assert.deepEqual(await done, { came: "failed", text });
  assert.deepEqual(time.waits, [500, 500, 500, 500]);
});

test("a rollout that its controller has given up has failed at once", async (t) => {
  const { done, time } = run(t, withWeb({ status: STUCK }));
  assert.equal((await done).came, "failed");
  assert.deepEqual(time.waits, []);
});

test("a workload that the leader reports as restarting is only waited for", async (t) => {
  const api = withWeb({ status: UNAVAILABLE });
  const { done, time } = run(t, api, { of: { code: "restarting" }, onWait: () => put(api) });
  assert.deepEqual(await done, { came: "already", text: "was being restarted already" });
  assert.deepEqual([api.writes, time.waits], [[], [500]]);
});

test("a restart under way that does not end has also failed", async (t) => {
  const { done } = run(t, withWeb({ status: UNAVAILABLE }), { of: { code: "restarting" } });
  assert.equal((await done).came, "failed");
});

for (const [what, parts, isUnderWay] of [
  ["of a moment ago, not rolled out", { status: UNAVAILABLE, restartedAt: before(1_999) }, true],
  ["of as long ago as a rollout may take", { status: UNAVAILABLE, restartedAt: before(2_000) }, false],
  ["that has rolled out", { restartedAt: before(1) }, false],
  ["that was given up", { status: STUCK, restartedAt: before(1) }, false],
  ["that is no time", { status: UNAVAILABLE, restartedAt: "yesterday" }, false],
] as const) {
  test(`a stamp ${what}: ${isUnderWay ? "that restart is waited for" : "it is restarted"}`, async (t) => {
    const api = withWeb(parts);
    await run(t, api, { onWait: () => put(api) }).done;
    assert.equal(api.writes.length, isUnderWay ? 0 : 1);
  });
}

for (const [what, parts, text] of [
  ["paused", { spec: { paused: true } }, "spec.paused: its rollout is paused"],
  ["being deleted", { metadata: { deletionTimestamp: before(0) } }, "it is being deleted"],
  [
    "OnDelete",
    { spec: { updateStrategy: { type: "OnDelete" } } },
    "its update strategy is OnDelete: its pods are recreated only when they are deleted",
  ],
] as const) {
  test(`a workload that is ${what} is not restarted, which does not affect others`, async (t) => {
    const api = withWeb(parts);
    assert.deepEqual(await run(t, api).done, { came: "against", text: `was not restarted: ${text}` });
    assert.deepEqual(api.writes, []);
  });
}

for (const method of ["GET", "PATCH"]) {
  for (const code of [403, 404, 409, 422]) {
    test(`a ${code} on its ${method} affects only this workload`, async (t) => {
      const api = withWeb();
      api.onCall = (call) => (call.method === method ? refusal(code, "Refused") : undefined);
      const { came, text } = await run(t, api).done;
      assert.equal(came, "against");
      const right = "you need permission to get and patch Deployments in shop: ";
      const why = `${code === 403 ? right : ""}${method} ${WEB}: ${code} `;
      assert.ok(text.startsWith(`was not restarted: ${why}`), text);
      assert.equal(api.calls.filter((call) => call.method === "PATCH").length, patchesOf(method, code));
    });
  }

  test(`a 500 on its ${method} is an error, not a result for this workload`, async (t) => {
    const api = withWeb();
    api.onCall = (call) => (call.method === method ? refusal(500, "InternalError") : undefined);
    await assert.rejects(run(t, api).done, { code: "kube-status", status: 500 });
  });
}

/** After a conflict, the workload is read again and the patch retried, with at most ten patches in all. */
function patchesOf(method: string, code: number): number {
  if (method === "GET") return 0;
  return code === 409 ? 10 : 1;
}

test("after a conflict, the newest version of the workload is read and patched", async (t) => {
  const api = withWeb();
  let conflicts = 9;
  api.onCall = ({ method }) => {
    if (method !== "PATCH" || conflicts-- === 0) return undefined;
    put(api, { metadata: { resourceVersion: String(100 - conflicts) } });
    return refusal(409, "Conflict");
  };
  assert.equal((await run(t, api).done).came, "restarted");
  const versions = api
    .callsOf("PATCH", WEB)
    .map(({ body }) => (body as { metadata: { resourceVersion: string } }).metadata.resourceVersion);
  assert.deepEqual(versions, ["7", "92", "93", "94", "95", "96", "97", "98", "99", "100"]);
});

test("a workload that somebody else restarts between two tries is not restarted again", async (t) => {
  const api = withWeb();
  api.onCall = ({ method }) => {
    if (method !== "PATCH") return undefined;
    put(api, { status: UNAVAILABLE, restartedAt: before(0) });
    return refusal(409, "Conflict");
  };
  const { done } = run(t, api, { onWait: () => put(api) });
  assert.equal((await done).came, "already");
  assert.equal(api.writes.length, 1);
});

test("a workload that is deleted during its rollout is reported", async (t) => {
  const api = withWeb({ status: UNAVAILABLE });
  const { done } = run(t, api, { onWait: () => api.objects.delete(WEB) });
  const { came, text } = await done;
  assert.equal(came, "against");
  assert.match(text, /^was not restarted: GET .*404/);
});
