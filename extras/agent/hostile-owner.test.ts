import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { publishedMapOf } from "#lib/documents/published-map.ts";
import { SwitchbackError } from "#lib/errors/errors.ts";
import { resourcePath } from "#lib/kube/paths.ts";
import type { ObjectMeta } from "#lib/kube/types.ts";
import { LineLog } from "#test/fakes/clock.ts";
import { kubeletFiles, OWNER, uidOf } from "#test/fakes/kubelet-files.ts";
import { openHostsFiles } from "./hosts-files.ts";
import { HostsReconciler, type LiveMode } from "./hosts-reconciler.ts";
import { createProjection, type NodePod } from "./node-pod.ts";
import { createOwnerAnnotations } from "./owner-annotations.ts";

// The API server checks little of an ownerReference: any user who creates pods chooses its texts.

const NAMES = [
  "..",
  ".",
  "/",
  "web/scale",
  "web/../../secrets",
  "web?watch=true",
  "%2e%2e",
  "Web",
  "",
  " ",
  "\u001b[2J",
  "a".repeat(254),
];

function projected(owner: { kind: string; name: string; apiVersion?: string }, index = 1): NodePod {
  const ownerReferences = [{ apiVersion: "apps/v1", uid: "u", controller: true, ...owner }];
  const metadata: ObjectMeta = { namespace: "shop", name: `pod-${index}`, uid: uidOf(index), ownerReferences };
  return createProjection()({ metadata });
}

function start(found: ObjectMeta | undefined = undefined) {
  const log = new LineLog();
  const asked: string[] = [];
  const client = {
    async get<T>(path: string): Promise<T> {
      asked.push(path);
      if (found === undefined) throw new SwitchbackError("kube-status", "not found", { status: 404 });
      return { metadata: found } as T;
    },
  };
  const owners = createOwnerAnnotations({
    client,
    log,
    now: () => 0,
    random: () => 0.5,
    spreadMs: () => 0,
    onLearned() {},
  });
  return { owners, log, asked };
}

for (const kind of ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"]) {
  test(`a ${kind} that cannot exist has no annotation, is not requested, and is reported once`, async () => {
    for (const name of NAMES) {
      const { owners, log, asked } = start();
      const pod = projected({ kind, name });
      for (let round = 0; round < 3; round += 1) {
        assert.deepEqual(owners.onChangeOf(pod), { known: true, onChange: undefined }, name);
        await turn();
      }
      assert.deepEqual(asked, []);
      const reason = { code: "owner-name-invalid", text: `the name of its owner is not a valid name of a ${kind}` };
      const fields = { pod: "shop/pod-1", ...reason };
      assert.deepEqual(log.lines, [{ level: "warn", fields, message: "workload: not read" }]);
    }
  });
}

test("a ReplicaSet's owner that cannot exist is not requested either", async () => {
  const ownerReferences = [{ apiVersion: "apps/v1", kind: "Deployment", name: "..", uid: "u", controller: true }];
  const { owners, asked } = start({ ownerReferences });
  const pod = projected({ kind: "ReplicaSet", name: "web-1" });
  owners.onChangeOf(pod);
  for (let turns = 0; turns < 5; turns += 1) await turn();
  assert.deepEqual(owners.onChangeOf(pod), { known: true, onChange: undefined });
  assert.equal(asked.length, 1);
});

test("texts of an owner are cut to a valid length", () => {
  const long = "x".repeat(500_000);
  const { owner } = projected({ apiVersion: `apps/${long}`, kind: long, name: long });
  assert.ok(JSON.stringify(owner).length < 2_000);
});

function reconcilerOf(t: TestContext, decide: (pod: NodePod) => LiveMode) {
  const kubelet = kubeletFiles(t);
  const files = openHostsFiles(kubelet.pods, OWNER);
  const log = new LineLog();
  const reconciler = new HostsReconciler({
    files,
    watches: { add() {}, remove() {} },
    decide,
    maxNames: 500,
    log,
    onRound() {},
  });
  t.after(() => {
    reconciler.stop();
    files.close();
  });
  return { kubelet, reconciler, log };
}

test("an exception of the agent's own code for a pod affects only that pod, and the pod is retried", async (t) => {
  const odd = { is: true };
  const decide = ({ name }: NodePod): LiveMode => {
    if (name === "pod-1" && odd.is) resourcePath({ version: "v1", resource: "pods", name: ".." });
    return "live";
  };
  const { kubelet, reconciler, log } = reconcilerOf(t, decide);
  for (const index of [1, 2]) kubelet.write(uidOf(index));
  reconciler.setMap(publishedMapOf("r1", new Map([["a.example.com", ["198.51.100.9"]]])));
  for (const index of [1, 2]) reconciler.putPod(projected({ kind: "Deployment", name: "web" }, index));
  await reconciler.settled();
  const hosts = (index: number) => readFileSync(kubelet.path(uidOf(index)), "latin1");
  assert.match(hosts(2), /a\.example\.com/);
  const [problem, ...others] = reconciler.state.problems;
  assert.deepEqual([problem?.pod, problem?.reason.code, others.length], ["shop/pod-1", "internal-error", 0]);
  assert.match(problem?.reason.text ?? "", /cannot be a part of an API path/);
  assert.deepEqual([reconciler.state.applied, log.lines.length], [undefined, 1]);
  odd.is = false;
  reconciler.sweep();
  await reconciler.settled();
  assert.match(hosts(1), /a\.example\.com/);
  assert.deepEqual([reconciler.state.problems, reconciler.state.applied], [[], "r1"]);
});

test("pods that took less CPU time come first, even before pods that were queued earlier", async (t) => {
  const order: string[] = [];
  let cpu = 0;
  const decide = ({ name }: NodePod): LiveMode => {
    order.push(name);
    cpu += { "pod-1": 9, "pod-2": 3 }[name] ?? 0.5;
    return "no";
  };
  const kubelet = kubeletFiles(t);
  const files = openHostsFiles(kubelet.pods, OWNER);
  const watches = { add() {}, remove() {} };
  const deps = { files, watches, decide, maxNames: 500, log: new LineLog(), onRound() {}, cpu: () => cpu };
  const reconciler = new HostsReconciler(deps);
  t.after(() => {
    reconciler.stop();
    files.close();
  });
  for (const index of [1, 2, 3]) reconciler.putPod(projected({ kind: "Job", name: "x" }, index));
  await reconciler.settled();
  for (const index of [1, 2, 3]) reconciler.putPod(projected({ kind: "Job", name: "x" }, index));
  await reconciler.settled();
  assert.deepEqual(order, ["pod-1", "pod-2", "pod-3", "pod-3", "pod-2", "pod-1"]);
});
