import assert from "node:assert/strict";
import { test } from "node:test";
import type { WorkloadKind } from "./workload-kinds.ts";
import { type RawWorkload, workloadState } from "./workload-state.ts";

const metadata = { uid: "u", resourceVersion: "7", generation: 3 };
const SETTLED: Readonly<Record<WorkloadKind, RawWorkload>> = {
  Deployment: {
    metadata,
    spec: { replicas: 2 },
    status: { observedGeneration: 3, replicas: 2, updatedReplicas: 2, availableReplicas: 2 },
  },
  StatefulSet: {
    metadata,
    spec: { replicas: 2 },
    status: {
      observedGeneration: 3,
      readyReplicas: 2,
      availableReplicas: 2,
      currentRevision: "a",
      updateRevision: "a",
    },
  },
  DaemonSet: {
    metadata,
    status: { observedGeneration: 3, desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 2 },
  },
};

const MISSING: ReadonlyArray<readonly [WorkloadKind, RawWorkload["status"], string]> = [
  ["Deployment", { observedGeneration: 2 }, "its controller has not yet seen the last change"],
  ["Deployment", { updatedReplicas: 1 }, "1 of 2 replicas updated"],
  ["Deployment", { replicas: 3 }, "1 old replicas still there"],
  ["Deployment", { availableReplicas: 1 }, "1 of 2 available"],
  ["StatefulSet", { updateRevision: "b" }, "not every replica is updated"],
  ["StatefulSet", { availableReplicas: 1 }, "1 of 2 available"],
  ["DaemonSet", { updatedNumberScheduled: 1 }, "1 of 2 pods updated"],
  ["DaemonSet", { numberAvailable: 0 }, "0 of 2 available"],
];

for (const kind of Object.keys(SETTLED) as WorkloadKind[]) {
  test(`a ${kind} that is rolled out and available is settled`, () => {
    assert.equal(workloadState(kind, SETTLED[kind]).unsettled, undefined);
  });
}

for (const [kind, status, text] of MISSING) {
  test(`a ${kind} with ${JSON.stringify(status)}: ${text}`, () => {
    const raw = { ...SETTLED[kind], status: { ...SETTLED[kind].status, ...status } };
    assert.equal(workloadState(kind, raw).unsettled, text);
  });
}

test("a restart that the workload's own settings exclude is refused", () => {
  const textOf = (raw: Partial<RawWorkload>) =>
    workloadState("Deployment", { ...SETTLED.Deployment, ...raw }).refusal?.text ?? "";
  assert.equal(textOf({}), "");
  assert.match(textOf({ spec: { paused: true } }), /paused/);
  assert.match(textOf({ spec: { updateStrategy: { type: "OnDelete" } } }), /OnDelete/);
  assert.match(textOf({ spec: { updateStrategy: { rollingUpdate: { partition: 1 } } } }), /partition/);
  assert.match(textOf({ metadata: { ...metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } }), /being deleted/);
});

test("a rollout has failed when its controller has given up", () => {
  const conditions = [{ type: "Progressing", status: "False" }];
  const raw = { ...SETTLED.Deployment, status: { ...SETTLED.Deployment.status, conditions } };
  assert.equal(workloadState("Deployment", raw).failed, true);
  assert.equal(workloadState("Deployment", SETTLED.Deployment).failed, false);
  // The failure belongs to the rollout before the last change.
  const earlier = { ...raw, metadata: { ...metadata, generation: 4 } };
  assert.equal(workloadState("Deployment", earlier).failed, false);
});

test("a workload without a status and a generation is at generation 0", () => {
  const state = workloadState("DaemonSet", { metadata: {} } as RawWorkload);
  assert.deepEqual(state, {
    uid: "",
    resourceVersion: "",
    generation: 0,
    restartedAt: undefined,
    restarts: undefined,
    onChange: undefined,
    refusal: undefined,
    unsettled: undefined,
    failed: false,
  });
});

test("a Deployment or StatefulSet without replicas in its spec has one, and missing counts are 0", () => {
  const bare = { metadata: {}, status: {} } as RawWorkload;
  assert.equal(workloadState("Deployment", bare).unsettled, "0 of 1 replicas updated");
  assert.equal(workloadState("StatefulSet", bare).unsettled, "0 of 1 available");
  const status = { updatedReplicas: 1 };
  assert.equal(workloadState("Deployment", { ...bare, status }).unsettled, "0 of 1 available");
});

test("the partition 0 counts as no partition", () => {
  const spec = { updateStrategy: { rollingUpdate: { partition: 0 } } };
  assert.equal(workloadState("StatefulSet", { ...SETTLED.StatefulSet, spec }).refusal, undefined);
});

test("a StatefulSet's pods must also be ready to be available", () => {
  const unsettled = (status: object) =>
    workloadState("StatefulSet", { ...SETTLED.StatefulSet, status: { ...SETTLED.StatefulSet.status, ...status } })
      .unsettled;
  assert.equal(unsettled({ readyReplicas: 1 }), "1 of 2 available");
  assert.equal(unsettled({ readyReplicas: undefined }), "0 of 2 available");
  assert.equal(unsettled({ availableReplicas: undefined }), "0 of 2 available");
});

test("only the condition Progressing with the status False is a failure", () => {
  const failed = (...conditions: { type: string; status: string }[]) =>
    workloadState("Deployment", { ...SETTLED.Deployment, status: { ...SETTLED.Deployment.status, conditions } }).failed;
  const [progressing, available] = ["Progressing", "Available"].map((type) => ({ type, status: "False" }));
  assert.ok(progressing && available);
  assert.deepEqual([failed(available), failed({ ...progressing, status: "True" })], [false, false]);
  assert.equal(failed(available, progressing), true);
});

test("the stamp is read from the template, the mode and the record from the workload itself", () => {
  const annotations = { "switchback.dev/on-change": "live", "switchback.dev/restarts": "record" };
  const template = {
    metadata: { annotations: { "switchback.dev/on-change": "t", "switchback.dev/restartedAt": "then" } },
  };
  const raw = { ...SETTLED.Deployment, metadata: { ...metadata, annotations }, spec: { replicas: 2, template } };
  assert.deepEqual(workloadState("Deployment", raw), {
    uid: "u",
    resourceVersion: "7",
    generation: 3,
    restartedAt: "then",
    restarts: "record",
    onChange: "live",
    refusal: undefined,
    unsettled: undefined,
    failed: false,
  });
});
