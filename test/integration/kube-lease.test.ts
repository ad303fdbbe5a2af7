import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, describe, it } from "node:test";
import { type ConnectedClient, connect } from "#lib/kube/connect.ts";
import type { Lease } from "#lib/kube/lease.ts";
import { corePath, resourcePath } from "#lib/kube/paths.ts";
import { type ControlPlane, startControlPlane } from "../cluster/controlplane.ts";
import { until } from "../fakes/kube-api.ts";

let cluster: ControlPlane;
let admin: ConnectedClient;
let kubeconfig: string;
const NAMESPACE = "election";
const electors: Elector[] = [];

before(async () => {
  cluster = await startControlPlane();
  admin = await connect({ kubeconfig: cluster.adminKubeconfig });
  await admin.create(corePath("namespaces"), { metadata: { name: NAMESPACE } });
  kubeconfig = await leastRights();
});
after(async () => {
  for (const { child } of electors) child.kill("SIGKILL");
  admin.close();
  await cluster.stop();
});

/** A kubeconfig of an account that has only the rights on the tests' Leases that an election needs. */
async function leastRights(): Promise<string> {
  await admin.create(corePath("serviceaccounts", NAMESPACE), { metadata: { name: "elector" } });
  const rbac = (resource: string) =>
    resourcePath({ group: "rbac.authorization.k8s.io", version: "v1", namespace: NAMESPACE, resource });
  const rule = {
    apiGroups: ["coordination.k8s.io"],
    resources: ["leases"],
    resourceNames: ["kill", "stop", "pause"],
    verbs: ["get", "create", "patch", "update"],
  };
  await admin.create(rbac("roles"), { metadata: { name: "elector" }, rules: [rule] });
  await admin.create(rbac("rolebindings"), {
    metadata: { name: "elector" },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: "elector" },
    subjects: [{ kind: "ServiceAccount", namespace: NAMESPACE, name: "elector" }],
  });
  return cluster.kubeconfigFor({ token: await cluster.tokenFor(`${NAMESPACE}/elector`) });
}

interface Elector {
  identity: string;
  child: ChildProcess;
  /** The lines that the process printed, as `[epoch ms, what]`. */
  said: [number, string][];
  times(what: string): number[];
}

/** Starts an elector as a separate process, which a test can kill and suspend. */
function elector(name: string, identity: string): Elector {
  const program = join(import.meta.dirname, "..", "fakes", "elector.ts");
  const child = spawn(process.execPath, [program, kubeconfig, NAMESPACE, name, identity], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const said: Elector["said"] = [];
  createInterface({ input: child.stdout! }).on("line", (line) => {
    const [time = "", what = ""] = line.split(" ");
    said.push([Number(time), what]);
  });
  const times = (what: string) => said.filter(([, each]) => each === what).map(([time]) => time);
  const one = { identity, child, said, times };
  electors.push(one);
  return one;
}

/** Starts two electors. The first one leads. */
async function pair(name: string): Promise<[Elector, Elector]> {
  const first = elector(name, "first");
  await until(() => first.times("tick").length > 0, "the first to lead", 60_000);
  const second = elector(name, "second");
  // Until the second one has seen a few renewals.
  await new Promise((next) => setTimeout(next, 2_000));
  assert.deepEqual(second.said, []);
  return [first, second];
}

async function leaseOf(name: string): Promise<Lease> {
  const of = { group: "coordination.k8s.io", version: "v1", namespace: NAMESPACE, resource: "leases", name };
  return admin.get<Lease>(resourcePath(of));
}

/** Asserts that both never believed at the same time that they led. */
function assertApart(first: Elector, second: Elector): void {
  const [begin] = second.times("started");
  const overlap = first.times("tick").filter((time) => time >= begin!);
  assert.deepEqual(overlap, [], `the second led from ${begin}`);
}

describe("two electors as real processes with the least rights", () => {
  it("one leads; when it is killed, the other takes over after the Lease has expired", async () => {
    const [first, second] = await pair("kill");
    first.child.kill("SIGKILL");
    const killed = Date.now();
    await until(() => second.times("tick").length > 0, "the second to lead", 60_000);
    assert.ok(second.times("started")[0]! - killed >= 3_000, "not before");
    const { spec } = await leaseOf("kill");
    assert.deepEqual([spec?.holderIdentity, spec?.leaseTransitions], ["second", 2]);
    assertApart(first, second);
  });

  it("one that stops gracefully gives the Lease back", async () => {
    const [first, second] = await pair("stop");
    first.child.stdin!.end();
    await once(first.child, "exit");
    assert.deepEqual(
      first.said.map(([, what]) => what).filter((what) => what !== "tick"),
      ["started", "aborted", "stopped"],
    );
    const stopped = Date.now();
    await until(() => second.times("started").length > 0, "the second to lead", 60_000);
    assert.ok(second.times("started")[0]! - stopped < 4_000, "without waiting for the Lease to run out");
    assertApart(first, second);
  });

  it("one that was suspended detects that it no longer leads before it does anything", async () => {
    const [first, second] = await pair("pause");
    first.child.kill("SIGSTOP");
    await until(() => second.times("tick").length > 0, "the second to lead", 60_000);
    first.child.kill("SIGCONT");
    await until(() => first.times("aborted").length > 0, "the first to notice", 60_000);
    assertApart(first, second);
    assert.equal((await leaseOf("pause")).spec?.holderIdentity, "second");
  });
});
