import assert from "node:assert/strict";
import { describe, type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { observedReader } from "#test/fakes/restart-rig.ts";
import { settled } from "#test/fakes/stopped-time.ts";
import { Random } from "#test/fuzz/random.ts";
import { mapObjects, publishedIn } from "#test/published.ts";
import { StalePods } from "./stale-pods.ts";
import type { Workload } from "./workload.ts";

const MAPS = "/api/v1/namespaces/switchback-system/configmaps";
const INJECT = "switchback.dev/inject";
const INJECTED = "switchback.dev/injected";
const REVISION = "switchback.dev/revision";
const ON_CHANGE = "switchback.dev/on-change";

/** Observes the pods of an API server in memory, with `shop` as the listed namespace. */
function rig(t: TestContext, kube = new MemoryKube(), isCurrent?: () => boolean) {
  const log = new LineLog();
  const clock = { now: 0 };
  const agents = isCurrent && {
    isCurrent,
    mapReaders: 1,
    inactiveMs: 0,
    stop: async () => {},
  };
  const reader = observedReader({ client: kube.client, namespace: "switchback-system", log });
  const pods = new StalePods({
    client: kube.client,
    config: parseConfig({ restart: { namespaces: ["shop"] } }),
    maps: reader.maps,
    observeAgents: agents && (() => agents),
    log,
    now: () => clock.now,
  });
  t.after(() => pods.stop());
  const publish = (...names: string[]) => {
    const objects = mapObjects(Object.fromEntries(names.map((name) => [name, ["198.51.100.9"]])));
    for (const object of objects) kube.put(`${MAPS}/${object.metadata.name}`, object);
  };
  /** Evaluates what the API server has now. */
  const refreshed = async () => {
    await settled();
    const { revision } = publishedIn(kube.paths(MAPS).map((path) => kube.at(path) ?? {}));
    while (reader.revision() !== revision) await new Promise((resolve) => setTimeout(resolve, 1));
    await pods.refresh();
  };
  return { kube, log, pods, publish, refreshed, clock };
}

interface Parts {
  readonly labels?: object;
  readonly annotations?: object;
  readonly of?: string;
  readonly metadata?: object;
}

function putPod(
  kube: MemoryKube,
  namespace: string,
  name: string,
  { labels, annotations, of = "web", metadata }: Parts,
) {
  const owner = { apiVersion: "apps/v1", kind: "ReplicaSet", name: `${of}-1`, uid: "rs", controller: true };
  kube.put(`/api/v1/namespaces/${namespace}/pods/${name}`, {
    metadata: { labels: { "pod-template-hash": "1", ...labels }, annotations, ownerReferences: [owner], ...metadata },
    spec: { nodeName: "node-1" },
  });
}

const putNamespace = (kube: MemoryKube, name: string, inject: string | undefined, annotations = {}) =>
  kube.put(`/api/v1/namespaces/${name}`, { metadata: { labels: inject ? { [INJECT]: inject } : {}, annotations } });

const brief = ({ owner, pods, stale, decision }: Workload) =>
  [owner.key, pods.length, stale.length, decision.code] as const;
const briefs = (pods: StalePods) => [...pods.workloads.values()].map(brief).sort();

describe("watched are", () => {
  test("pods with a label of Switchback, and all pods of the listed namespaces", async (t) => {
    const { kube, pods, publish, refreshed } = rig(t);
    for (const name of ["shop", "far"]) putNamespace(kube, name, "enabled");
    putNamespace(kube, "other", undefined);
    publish("a.example.com");
    for (const namespace of ["shop", "far", "other"]) {
      putPod(kube, namespace, "bare", { of: "bare" });
      putPod(kube, namespace, "own", { of: "own", labels: { [INJECT]: "enabled" } });
      putPod(kube, namespace, "seen", { of: "seen", labels: { [INJECTED]: "true" } });
    }
    await refreshed();
    assert.deepEqual(
      briefs(pods).map(([key]) => key),
      [
        "far/Deployment/own",
        "far/Deployment/seen",
        "other/Deployment/own",
        "shop/Deployment/bare",
        "shop/Deployment/own",
        "shop/Deployment/seen",
      ],
    );
    assert.equal(kube.watched.filter((path) => path.endsWith("/pods")).length, 3);
    assert.ok(!kube.whole.has("/api/v1/pods"), "only metadata");
  });

  test("no pods that end, mirror a static pod or opted out", async (t) => {
    const { kube, pods, publish, refreshed } = rig(t);
    putNamespace(kube, "shop", "enabled");
    publish("a.example.com");
    putPod(kube, "shop", "ends", { metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } });
    putPod(kube, "shop", "mirror", { annotations: { "kubernetes.io/config.mirror": "x" } });
    putPod(kube, "shop", "out", { labels: { [INJECT]: "disabled" } });
    await refreshed();
    assert.deepEqual(briefs(pods), []);
    putNamespace(kube, "shop", "disabled");
    putPod(kube, "shop", "in", { labels: { [INJECT]: "enabled" } });
    await refreshed();
    assert.deepEqual(briefs(pods), [["shop/Deployment/web", 1, 1, "delayed"]]);
  });

  test("1,024 characters of a selection: a longer one is kept as a hash, with the reason", async (t) => {
    const { kube, pods, publish, refreshed } = rig(t);
    putNamespace(kube, "shop", "enabled");
    publish("a.example.com");
    const pod = (hosts: string, annotations = {}) =>
      putPod(kube, "shop", "web-1", { annotations: { "switchback.dev/hosts": hosts, ...annotations } });
    pod("a".repeat(16_384), { [REVISION]: "old" });
    await refreshed();
    assert.deepEqual(briefs(pods), [["shop/Deployment/web", 1, 0, "not-restartable"]]);
    const [kept] = [...(pods.workloads.get("shop/Deployment/web")?.pods.values() ?? [])];
    assert.equal(kept?.hosts?.length, 12);
    pod("a".repeat(1_024), { [REVISION]: "old" });
    await refreshed();
    assert.equal(briefs(pods)[0]?.[3], "delayed");
    pod("a".repeat(16_384));
    await refreshed();
    assert.deepEqual(briefs(pods), [["shop/Deployment/web", 1, 1, "delayed"]], "not injected: certainly stale");
  });
});

describe("a pod is stale", () => {
  test("if its revision is not that of its selection in the newest map", async (t) => {
    const { kube, pods, publish, refreshed } = rig(t);
    putNamespace(kube, "shop", "enabled");
    publish("a.example.com");
    await refreshed();
    const selecting = { "switchback.dev/hosts": "a.example.com" };
    putPod(kube, "shop", "all", { of: "all", annotations: { [REVISION]: pods.select?.(undefined).revision } });
    putPod(kube, "shop", "one", {
      of: "one",
      annotations: { ...selecting, [REVISION]: pods.select?.("a.example.com").revision },
    });
    await refreshed();
    const codes = () => briefs(pods).map(([key, , stale, code]) => `${key} ${stale} ${code}`);
    assert.deepEqual(codes(), ["shop/Deployment/all 0 in-step", "shop/Deployment/one 0 in-step"]);
    publish("a.example.com", "b.example.com");
    await refreshed();
    assert.deepEqual(codes(), ["shop/Deployment/all 1 delayed", "shop/Deployment/one 0 in-step"]);
    putPod(kube, "shop", "dns", { of: "one", annotations: { [REVISION]: "dns" } });
    await refreshed();
    assert.deepEqual(codes(), ["shop/Deployment/all 1 delayed", "shop/Deployment/one 0 in-step"]);
  });

  test("in mode live, unless its agent keeps it current", async (t) => {
    const state = { isCurrent: true };
    const { kube, pods, publish, refreshed, clock } = rig(t, new MemoryKube(), () => state.isCurrent);
    putNamespace(kube, "shop", "enabled");
    publish("a.example.com");
    putPod(kube, "shop", "web-1", { annotations: { [REVISION]: "old", [ON_CHANGE]: "live" } });
    for (const isCurrent of [true, false]) {
      state.isCurrent = isCurrent;
      clock.now += 15_000;
      await refreshed();
      assert.deepEqual(briefs(pods)[0]?.slice(2), isCurrent ? [0, "in-step"] : [1, "delayed"]);
    }
  });

  test("and its workload is read first if it is live by its namespace and listed", async (t) => {
    const { kube, pods, publish, refreshed } = rig(t, new MemoryKube(), () => true);
    for (const name of ["shop", "far"]) putNamespace(kube, name, "enabled", { [ON_CHANGE]: "live" });
    publish("a.example.com");
    for (const name of ["shop", "far"])
      putPod(kube, name, "web-1", { labels: { [INJECTED]: "true" }, annotations: { [REVISION]: "old" } });
    // A pod without an owner has no workload that could be read.
    putPod(kube, "shop", "bare", { annotations: { [REVISION]: "old" }, metadata: { ownerReferences: [] } });
    await refreshed();
    assert.deepEqual(
      briefs(pods).map(([key, , , code]) => [key, code]),
      [
        ["far/Deployment/web", "in-step"],
        ["shop/Deployment/web", "delayed"],
        ["shop/Pod/bare", "in-step"],
      ],
    );
    const workload = pods.workloads.get("shop/Deployment/web");
    assert.ok(workload);
    for (const [onChange, code] of [
      [undefined, "in-step"],
      ["restart", "delayed"],
      ["none", "on-change-none"],
      ["restart", "delayed"],
    ] as const) {
      workload.read = { onChange, at: 0 };
      pods.evaluate(workload);
      assert.equal(workload.decision.code, code);
    }
  });
});

test("whatever changes, the result is that of a start from scratch", async (t) => {
  const random = new Random(7);
  const pick = <T>(...all: readonly T[]) => random.pick(all);
  const { kube, pods, publish, refreshed } = rig(t);
  const names = ["a", "b", "c"].map((name) => `${name}.example.com`);
  publish(...names);
  for (let round = 0; round < 60; round += 1) {
    for (let change = 0; change < 5; change += 1) {
      const namespace = pick("shop", "far", "other");
      const name = `web-${pick(1, 2, 3, 4)}`;
      pick(
        () => putNamespace(kube, namespace, pick(undefined, "enabled", "disabled"), pick({}, { [ON_CHANGE]: "none" })),
        () => publish(...names.slice(0, pick(1, 2, 3))),
        () => kube.remove(`/api/v1/namespaces/${namespace}/pods/${name}`),
        () =>
          putPod(kube, namespace, name, {
            of: pick("web", "db"),
            labels: pick({}, { [INJECT]: pick("enabled", "disabled") }, { [INJECTED]: "true" }),
            annotations: {
              ...pick({}, { "switchback.dev/hosts": pick(...names) }),
              ...pick({}, { [REVISION]: pods.select?.(pick(undefined, ...names)).revision ?? "x" }),
              ...pick({}, { [ON_CHANGE]: pick("none", "restart", "nonsense") }),
            },
            metadata: pick({}, {}, { deletionTimestamp: "2026-01-01T00:00:00Z" }),
          }),
      )();
    }
    await refreshed();
    const fresh = rig(t, kube);
    await fresh.refreshed();
    assert.deepEqual(briefs(pods), briefs(fresh.pods), `round ${round}`);
    const queued = (all: StalePods) =>
      [...all.workloads.values()].flatMap(({ owner, isQueued }) => (isQueued ? [owner.key] : [])).sort();
    assert.deepEqual(queued(pods), queued(fresh.pods));
    await fresh.pods.stop();
  }
});

test("unknown is what was not listed, and an internal error at one pod leaves out that pod alone", async (t) => {
  const { kube, log, pods } = rig(t);
  kube.refuse("/api/v1/namespaces", 403);
  await settled();
  assert.match(pods.unknown ?? "", /^the pods of the cluster are not known yet: .*refused by the test/);
  const whole = rig(t);
  putNamespace(whole.kube, "shop", "enabled");
  whole.publish("a.example.com");
  putPod(whole.kube, "shop", "good", {});
  putPod(whole.kube, "shop", "bad", { of: "bad" });
  await whole.refreshed();
  const bad = whole.pods.workloads.get("shop/Deployment/bad");
  assert.ok(bad);
  // No input is known to cause such an error.
  Object.defineProperty(bad, "stale", { get: () => assert.fail("broken") });
  whole.publish("a.example.com", "b.example.com");
  await whole.refreshed();
  assert.equal(whole.pods.workloads.get("shop/Deployment/web")?.decision.code, "delayed");
  assert.equal(
    whole.log.lines.filter(({ fields }) => (fields as { code?: string }).code === "internal-error").length,
    1,
  );
  assert.deepEqual(
    log.lines.filter(({ level }) => level === "error"),
    [],
  );
});
