import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describeManaged } from "#hostmap/managed-aliases.ts";
import { createSelector } from "#hostmap/pod-selection.ts";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { silentLogger } from "#lib/telemetry/log.ts";
import type { RawPod } from "#lib/workloads/pods.ts";
import { uidOf } from "#test/fakes/kubelet-files.ts";
import type { HostsFileUpdate } from "./hosts-file.ts";
import { HostsReconciler } from "./hosts-reconciler.ts";
import { createLivePlans } from "./live-plans.ts";
import { createProjection } from "./node-pod.ts";

// A user who creates pods chooses what the agent would keep of them, and can forge which aliases are managed.

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;
const MIB = 1024 * 1024;

/** Growth of the heap in MiB, after a garbage collection. `work` returns what must be kept. */
function keptBy(work: () => unknown): number {
  collect();
  const before = process.memoryUsage().heapUsed;
  const kept = work();
  collect();
  const grown = process.memoryUsage().heapUsed - before;
  assert.ok(kept !== undefined);
  return grown / MIB;
}

function pod(index: number, { aliases = 0, annotations = 0, owner = 0 } = {}): RawPod {
  const hostAliases = Array.from({ length: aliases }, (_, at) => ({
    ip: `10.${index}.${at >> 8}.${at & 255}`,
    hostnames: [`n${at}-${index}`],
  }));
  const raw: RawPod = {
    metadata: {
      namespace: "shop",
      name: `pod-${index}`,
      uid: uidOf(index),
      annotations: {
        "switchback.dev/owned": describeManaged(hostAliases),
        "switchback.dev/hosts": "*,".repeat(annotations / 4),
        "switchback.dev/on-change": "live".repeat(annotations / 8),
      },
      ownerReferences: [
        { apiVersion: "apps/v1", kind: "ReplicaSet", name: "x".repeat(owner), uid: "u", controller: true },
      ],
    },
    spec: { hostAliases },
  };
  return JSON.parse(JSON.stringify(raw)) as RawPod;
}

const range = (count: number) => Array.from({ length: count }, (_, index) => index);

describe("110 pods of a node", () => {
  for (const [what, sizes] of Object.entries({
    "with 5,000 managed aliases each": { aliases: 5_000 },
    "with 800 managed aliases each": { aliases: 800 },
    "with 256 KiB of annotations each": { annotations: 256 * 1024 },
    "whose owner's name has 1 MB": { owner: 1_000_000 },
  })) {
    it(`${what} are kept in less than 24 MiB`, () => {
      const project = createProjection();
      const mib = keptBy(() => range(110).map((index) => project(pod(index, sizes))));
      assert.ok(mib < 24, `${mib.toFixed(1)} MiB`);
    });
  }
});

it("a pod is refused with a reason only if it has more managed aliases than the webhook adds", () => {
  const project = createProjection(500);
  const names = Array.from({ length: 500 }, (_, index) => `app-${index}.team-${index % 50}.example.com`);
  const twoAddresses = ["198.51.100.9", "2001:db8::9"].flatMap((ip) =>
    range(30).map((line) => ({ ip, hostnames: names.slice(line * 17, line * 17 + 17) })),
  );
  const of = (hostAliases: Array<{ ip: string; hostnames: string[] }>) =>
    project({
      metadata: { annotations: { "switchback.dev/owned": describeManaged(hostAliases) } },
      spec: { hostAliases },
    });
  const ordinary = of(twoAddresses);
  assert.deepEqual([ordinary.managedAliases, ordinary.refusal], [twoAddresses, undefined]);
  const many = of(range(6_097).map(() => ({ ip: "198.51.100.9", hostnames: ["a"] })));
  const large = of(range(2_000).map((index) => ({ ip: "198.51.100.9", hostnames: [`n${index}`] })));
  for (const { managedAliases, refusal } of [many, large])
    assert.deepEqual([managedAliases, refusal?.code], [[], "aliases-too-large"]);
});

it("a refused pod is reported and not written; when it no longer follows, its block is removed", async () => {
  const calls: string[] = [];
  const mode = { is: "live" as "live" | "no" };
  const files = {
    update(_uid: string, change: (before: Buffer) => Buffer): HostsFileUpdate {
      calls.push(change(Buffer.from("# Kubernetes-managed hosts file.\n1 a\t# switchback.dev\n")).toString());
      return { kind: "written", stamp: "1" };
    },
    stamp: () => undefined,
    close() {},
  };
  const watches = { add() {}, remove() {} };
  const deps = { files, watches, decide: () => mode.is, maxNames: 500, log: silentLogger, onRound() {} };
  const reconciler = new HostsReconciler(deps);
  reconciler.setMap(publishedMapOf("r1", new Map([["a.example.com", ["198.51.100.9"]]])));
  reconciler.putPod(createProjection()(pod(1, { aliases: 5_000 })));
  await reconciler.settled();
  assert.deepEqual(calls, []);
  assert.deepEqual(
    reconciler.state.problems.map((problem) => [problem.pod, problem.reason.code]),
    [["shop/pod-1", "aliases-too-large"]],
  );
  mode.is = "no";
  reconciler.noteAll();
  await reconciler.settled();
  reconciler.stop();
  assert.deepEqual(calls, ["# Kubernetes-managed hosts file.\n"]);
});

describe("for one map", () => {
  const names = range(500).map((index) => `${"a".repeat(60)}.${"b".repeat(60)}.n${index}.example.com`);
  const map = publishedMapOf("r1", new Map(names.map((name) => [name, ["198.51.100.9"]])));

  it("plans and parsed aliases take a few MiB, however many files differ", () => {
    const selected = createSelector(map, 500)(undefined);
    const mib = keptBy(() => {
      const plans = createLivePlans();
      for (const index of range(300)) {
        const managed = range(100).map((at) => ({ ip: `10.0.${index}.${at}`, hostnames: ["x".repeat(200)] }));
        const taken = names.filter((_, at) => (at + index) % 7 === 0);
        plans.apply(Buffer.from(`# Kubernetes-managed hosts file.\n1 ${taken.join(" ")}\n`), managed, selected);
      }
      return plans;
    });
    assert.ok(mib < 20, `${mib.toFixed(1)} MiB`);
  });

  it("selections keep at most 64,000 names, however many annotations a pod has had", async () => {
    const files = {
      update: (): HostsFileUpdate => ({ kind: "written", stamp: "1" }),
      stamp: () => undefined,
      close() {},
    };
    const watches = { add() {}, remove() {} };
    const deps = { files, watches, decide: () => "live" as const, maxNames: 500, log: silentLogger, onRound() {} };
    const reconciler = new HostsReconciler(deps);
    reconciler.setMap(map);
    const project = createProjection();
    const raw = pod(1);
    const annotate = async (text: string) => {
      reconciler.putPod({ ...project(raw), hosts: text });
      await reconciler.settled();
    };
    await annotate("*");
    collect();
    const before = process.memoryUsage().heapUsed;
    for (const index of range(1_500)) await annotate(`*.example.com,i${index}.example.com`);
    collect();
    const mib = (process.memoryUsage().heapUsed - before) / MIB;
    reconciler.stop();
    assert.ok(mib < 8, `${mib.toFixed(1)} MiB`);
  });
});
