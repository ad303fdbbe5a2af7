import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { LineLog } from "#test/fakes/clock.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { settled } from "#test/fakes/stopped-time.ts";
import { hasEnded, hostAliasesOf, NOT_ENDED, podFacts, watchPods } from "./pods.ts";

test("a pod has ended if it succeeded or failed, and a field selector excludes ended pods", () => {
  const ended = ["Succeeded", "Failed", "Running", "Pending", "Unknown", ""].map((phase) =>
    hasEnded({ status: { phase } }),
  );
  assert.deepEqual(ended, [true, true, false, false, false, false]);
  assert.deepEqual([hasEnded({}), hasEnded({ status: {} })], [false, false]);
  assert.equal(NOT_ENDED, "status.phase!=Succeeded,status.phase!=Failed");
});

test("hostAliases are read in every form that the API server sends: none, null, or an entry without hostnames", () => {
  assert.deepEqual(
    [hostAliasesOf({}), hostAliasesOf({ spec: {} }), hostAliasesOf({ spec: { hostAliases: null } })],
    [[], [], []],
  );
  const hostAliases = [
    { ip: "192.0.2.1", hostnames: ["a", "b"] },
    { ip: "192.0.2.2" },
    { ip: "192.0.2.3", hostnames: null },
  ];
  assert.deepEqual(hostAliasesOf({ spec: { hostAliases } }), [
    { ip: "192.0.2.1", hostnames: ["a", "b"] },
    { ip: "192.0.2.2", hostnames: [] },
    { ip: "192.0.2.3", hostnames: [] },
  ]);
});

test("the facts of a pod: its controller, and the labels and annotations that count", () => {
  const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web-1", uid: "u" };
  const metadata = {
    namespace: "shop",
    name: "web-1-a",
    uid: "uid",
    creationTimestamp: "2026-01-01T00:00:00Z",
    deletionTimestamp: "2026-01-01T00:00:00Z",
    ownerReferences: [
      { ...owner, name: "other", controller: false },
      { ...owner, controller: true },
    ],
    labels: { "pod-template-hash": "1", "switchback.dev/inject": "enabled", app: "web" },
    annotations: {
      "kubernetes.io/config.mirror": "",
      "switchback.dev/hosts": "a",
      "switchback.dev/revision": "r",
      "switchback.dev/on-change": "live",
      "switchback.dev/restartedAt": "t",
    },
  };
  assert.deepEqual(podFacts({ metadata }), {
    namespace: "shop",
    name: "web-1-a",
    uid: "uid",
    node: undefined,
    owner: { apiVersion: "apps/v1", kind: "ReplicaSet", name: "web-1" },
    templateHash: "1",
    inject: "enabled",
    mirror: true,
    hosts: "a",
    revision: "r",
    onChange: "live",
    restartedAt: "t",
    created: Date.parse("2026-01-01T00:00:00Z"),
    terminating: true,
  });
  const { owner: none, mirror, terminating, namespace, name, uid } = podFacts({});
  assert.deepEqual([none, mirror, terminating], [undefined, false, false]);
  assert.deepEqual([namespace, name, uid], ["", "", ""]);
});

test("the node of a bound pod, and undefined for an unbound one", () => {
  const nodes = [{ nodeName: "node-1" }, { nodeName: "" }, {}].map((spec) => podFacts({ spec }).node);
  assert.deepEqual(nodes, ["node-1", undefined, undefined]);
});

describe("the watch of pods", () => {
  const POD = "/api/v1/namespaces/shop/pods/web";
  function open(t: TestContext, kube: MemoryKube, options: Partial<Parameters<typeof watchPods>[0]> = {}) {
    const heard: { changes: string[]; synced: number } = { changes: [], synced: 0 };
    const informer = watchPods({
      client: kube.client,
      log: new LineLog(),
      labelSelector: "!other",
      withNodes: false,
      keep: (facts) => facts,
      ...options,
      onChange: ({ key, before, after }) => void heard.changes.push(`${key} ${before?.inject}>${after?.inject}`),
      onSynced: () => void heard.synced++,
    });
    t.after(() => informer.stop());
    return { heard, informer };
  }

  test("has the facts of every pod, and reports once that they are listed", async (t) => {
    const kube = new MemoryKube();
    kube.put(POD, { metadata: { labels: { "switchback.dev/inject": "enabled" } } });
    const { heard, informer } = open(t, kube);
    await settled();
    assert.deepEqual(kube.reads, ["/api/v1/pods"]);
    assert.equal(informer.objects().get("shop/web")?.inject, "enabled");
    kube.put(POD, { metadata: { labels: { "switchback.dev/inject": "disabled" } } });
    await settled();
    assert.deepEqual(heard, { changes: ["shop/web undefined>enabled", "shop/web enabled>disabled"], synced: 1 });
  });

  test("reports a list without pods", async (t) => {
    const { heard } = open(t, new MemoryKube());
    await settled();
    assert.deepEqual(heard, { changes: [], synced: 1 });
  });

  test("does not report a change of no fact, such as a status, but reports a deletion", async (t) => {
    const kube = new MemoryKube();
    kube.put(POD, { status: { phase: "Pending" } });
    const { heard } = open(t, kube);
    await settled();
    kube.put(POD, { status: { phase: "Running" } });
    await settled();
    assert.equal(heard.changes.length, 1);
    kube.remove(POD);
    await settled();
    assert.equal(heard.changes.length, 2);
  });

  test("has the nodes of pods if they matter, also after a later binding", async (t) => {
    const kube = new MemoryKube();
    const put = (nodeName: string | undefined) => kube.put(POD, { metadata: {}, spec: { nodeName } });
    put(undefined);
    const [without, informer] = [false, true].map((withNodes) => open(t, kube, { withNodes }).informer);
    const nodes = () => [without, informer].map((each) => each?.objects().get("shop/web")?.node);
    await settled();
    assert.deepEqual(nodes(), [undefined, undefined]);
    put("node-1");
    await settled();
    assert.deepEqual(nodes(), [undefined, "node-1"]);
  });

  test("has only the pods of the selection, or of one namespace", async (t) => {
    const kube = new MemoryKube();
    for (const [namespace, labels] of Object.entries({ shop: {}, bank: {}, left: { other: "yes" } }))
      kube.put(`/api/v1/namespaces/${namespace}/pods/web`, { metadata: { labels } });
    kube.put("/api/v1/namespaces/shop/pods/job", { metadata: {}, status: { phase: "Succeeded" } });
    const keys = (options: Parameters<typeof open>[2]) => open(t, kube, options).informer.objects();
    const all = [keys({}), keys({ namespace: "shop" })];
    await settled();
    assert.deepEqual(
      all.map((pods) => [...pods.keys()]),
      [["shop/web", "bank/web"], ["shop/web"]],
    );
  });
});
