import assert from "node:assert/strict";
import { test } from "node:test";
import { INJECTED_KEY } from "#hostmap/metadata-keys.ts";
import type { RawPod } from "#lib/workloads/pods.ts";
import { workloadKey } from "#lib/workloads/workload-keys.ts";
import { type AddressHolder, addressHolderOf, byWorkload } from "./address-holders.ts";
import type { Installation } from "./installation.ts";
import { planUninstall } from "./plan.ts";
import { countPods, describePlan, refusal } from "./report.ts";

const OURS = "198.51.100.9";
const INSTALL: Installation = {
  addresses: new Map([[OURS, "switchback-nginx"]]),
  restartNamespaces: new Set(["shop"]),
  lastSteps: [],
  sections: {},
};

interface Parts {
  namespace?: string;
  owner?: [kind: string, name: string];
  hash?: string;
  ips?: string[];
  owned?: string;
  phase?: string;
}

const API_VERSIONS: Readonly<Record<string, string>> = { Job: "batch/v1", Node: "v1", ConfigMap: "v1" };

function ref([kind, name]: readonly [kind: string, name: string], controller?: boolean) {
  const apiVersion = API_VERSIONS[kind] ?? "apps/v1";
  return { apiVersion, kind, name, uid: `uid-${name}`, ...(controller !== undefined && { controller }) };
}

function pod(name: string, { namespace = "shop", owner, hash, ips = [], owned, phase = "Running" }: Parts): RawPod {
  return {
    metadata: {
      name,
      namespace,
      labels: hash === undefined ? {} : { "pod-template-hash": hash },
      annotations: owned === undefined ? {} : { "switchback.dev/owned": owned },
      ownerReferences: owner === undefined ? [] : [ref(owner, true)],
    },
    spec: { hostAliases: ips.map((ip) => ({ ip })) },
    status: { phase },
  };
}

const found = (...pods: RawPod[]): AddressHolder[] =>
  byWorkload(
    pods.map((one) => addressHolderOf(one, new Set(INSTALL.addresses.keys()))).filter((holder) => holder !== undefined),
  );

test("a running pod holds an address of Switchback if its hosts file has it, whoever wrote it", () => {
  const [holder, ...more] = found(pod("p", { ips: ["192.0.2.1", OURS, OURS] }));
  assert.deepEqual([holder?.addresses, more.length], [[OURS], 0]);
});

test("the webhook's label does not count: it may be missing, and anybody may set it", () => {
  const holding = pod("p", { ips: [OURS] });
  const labelled = (raw: RawPod) => ({ ...raw, metadata: { ...raw.metadata, labels: { [INJECTED_KEY]: "true" } } });
  assert.deepEqual(found(labelled(holding)), found(holding));
  assert.deepEqual(found(labelled(pod("p", {}))), []);
});

test("a pod injected with another's address is listed, but holds no address of Switchback", () => {
  assert.deepEqual(found(pod("p", { ips: ["192.0.2.1"], owned: "192.0.2.1 x1 (0123456789ab)" }))[0]?.addresses, []);
});

test("a pod without a trace of Switchback, with nothing added, or ended is not a holder", () => {
  assert.deepEqual(found(pod("a", { ips: ["192.0.2.1"] }), pod("b", { owned: "none" }), pod("c", {})), []);
  assert.deepEqual(
    found(pod("d", { ips: [OURS], phase: "Succeeded" }), pod("e", { ips: [OURS], phase: "Failed" })),
    [],
  );
});

test("pods are grouped by owner: a Deployment by its ReplicaSet's name and the pod template's hash", () => {
  const web = { owner: ["ReplicaSet", "web-5d4f6"] as [string, string], hash: "5d4f6", ips: [OURS] };
  const keys = found(
    pod("web-2", web),
    pod("web-1", web),
    pod("lone", { owner: ["ReplicaSet", "lone"], ips: [OURS] }),
    pod("odd", { owner: ["ReplicaSet", "odd-5d4f6"], hash: "77777", ips: [OURS] }),
    pod("db-0", { owner: ["StatefulSet", "db"], ips: [OURS] }),
    pod("bare", { ips: [OURS] }),
  ).map(({ kind, name, pods }) => `${kind}/${name}: ${pods.join(" ")}`);
  assert.deepEqual(keys, [
    "Deployment/web: web-1 web-2",
    "Pod/bare: bare",
    "ReplicaSet/lone: lone",
    "ReplicaSet/odd-5d4f6: odd",
    "StatefulSet/db: db-0",
  ]);
});

test("a pod holds its addresses until it has ended, even if pending, unknown or terminating", () => {
  const phases = ["Pending", "Running", "Unknown", ""].map((phase) => pod(`p-${phase}`, { ips: [OURS], phase }));
  const { status: _, ...without } = pod("no-status", { ips: [OURS] });
  const leaving = pod("terminating", { ips: [OURS] });
  Object.assign(leaving.metadata ?? {}, { deletionTimestamp: "2026-01-01T00:00:00Z" });
  const names = found(...phases, without, leaving).map(({ name }) => name);
  assert.deepEqual(names, ["no-status", "p-", "p-Pending", "p-Running", "p-Unknown", "terminating"]);
});

test("accepts a pod without a spec, labels or annotations", () => {
  const metadata = { name: "p", namespace: "shop" };
  assert.deepEqual(found({ metadata }, { metadata, spec: {} }), []);
  const owned = { "switchback.dev/owned": "x" };
  const named = { namespace: "shop", kind: "Pod", name: "p", restartable: false };
  const traced: AddressHolder = { ...named, pods: ["p"], addresses: [] };
  assert.deepEqual(found({ metadata: { ...metadata, annotations: owned } }), [traced]);
});

test("only the controlling owner counts as the workload of a pod", () => {
  const owned = pod("p", { ips: [OURS] });
  const ownerReferences = [ref(["Node", "n"], false), ref(["ConfigMap", "c"])];
  const metadata = { ...owned.metadata, ownerReferences };
  assert.deepEqual(found({ ...owned, metadata }).map(workloadKey), ["shop/Pod/p"]);
  const controlled = {
    ...metadata,
    ownerReferences: [...ownerReferences, ref(["Job", "j"], true)],
  };
  assert.deepEqual(found({ ...owned, metadata: controlled }).map(workloadKey), ["shop/Job/j"]);
});

test("a workload's pods and addresses are merged, sorted and listed once", () => {
  const db = { owner: ["StatefulSet", "db"] as [string, string] };
  const ours = new Set(["198.51.100.9", "198.51.100.10", "2001:db8::9"]);
  const pods = [
    pod("db-1", { ...db, ips: ["2001:db8::9", "198.51.100.9"] }),
    pod("db-0", { ...db, ips: ["198.51.100.9", "198.51.100.10"] }),
    pod("db-2", { ...db, owned: "x" }),
    pod("db-0", { ...db, namespace: "other", ips: ["198.51.100.9"] }),
  ];
  const holders = pods.map((one) => addressHolderOf(one, ours)).filter((holder) => holder !== undefined);
  assert.deepEqual(holders[0]?.addresses, ["198.51.100.9", "2001:db8::9"]);
  const common = { kind: "StatefulSet", name: "db", restartable: true };
  const addresses = ["198.51.100.10", "198.51.100.9", "2001:db8::9"];
  assert.deepEqual(byWorkload(holders), [
    { ...common, namespace: "other", pods: ["db-0"], addresses: ["198.51.100.9"] },
    { ...common, namespace: "shop", pods: ["db-0", "db-1", "db-2"], addresses },
  ]);
});

test("a node's own pod is not restarted", () => {
  const mirror = found(pod("etcd-n", { owner: ["Node", "n"], ips: [OURS] }));
  const { stuck, ...rest } = planUninstall(mirror, INSTALL);
  assert.deepEqual(
    [stuck.map(({ reason }) => reason), rest],
    [[{ code: "not-restartable", text: "a Node is not restarted: delete its pods" }], { restart: [], harmless: [] }],
  );
});

test("a kind of another API group with the name of a workload kind is not restarted", () => {
  const ofKruise = pod("db-0", { owner: ["StatefulSet", "db"], ips: [OURS] });
  const [owner] = ofKruise.metadata?.ownerReferences ?? [];
  const ownerReferences = owner === undefined ? [] : [{ ...owner, apiVersion: "apps.kruise.io/v1" }];
  const { stuck, restart } = planUninstall(
    found({ ...ofKruise, metadata: { ...ofKruise.metadata, ownerReferences } }),
    INSTALL,
  );
  assert.deepEqual([stuck.map(({ reason }) => reason.code), restart], [["not-restartable"], []]);
});

test("a pod that nothing recreates is not restarted", () => {
  const [stuck] = planUninstall(found(pod("p", { ips: [OURS] })), INSTALL).stuck;
  assert.deepEqual(stuck?.reason, { code: "not-restartable", text: "nothing recreates it: delete it" });
});

test("restarts all permitted holders, with or without addresses; others without an address stay as they are", () => {
  const plan = planUninstall(
    found(
      pod("web-1", { owner: ["StatefulSet", "web"], owned: "x" }),
      pod("plain", { owned: "x" }),
      pod("api-1", { namespace: "other", owner: ["Deployment", "api"], ips: [OURS] }),
    ),
    INSTALL,
  );
  assert.deepEqual(
    [
      plan.restart.map(workloadKey),
      plan.harmless.map(workloadKey),
      plan.stuck.map(({ holder, reason }) => [workloadKey(holder), reason.code]),
    ],
    [["shop/StatefulSet/web"], ["shop/Pod/plain"], [["other/Deployment/api", "restart-not-permitted"]]],
  );
});

test("a plan names each front and up to five pods of a workload", () => {
  const addresses = new Map([
    [OURS, "switchback-nginx"],
    ["198.51.100.10", "switchback-traefik"],
  ]);
  const five = ["a", "b", "c", "d", "e"].map((name) => pod(name, { owner: ["DaemonSet", "log"], ips: [OURS] }));
  const plan = planUninstall(found(...five), INSTALL);
  const lines = describePlan(plan, { ...INSTALL, addresses }, "ours");
  assert.equal(
    lines[0],
    `Addresses that the uninstall frees: ${OURS} (switchback-nginx), 198.51.100.10 (switchback-traefik)`,
  );
  assert.equal(lines[3], "     shop/DaemonSet/log (a, b, c, d, e)");
  assert.equal(describePlan(plan, { ...INSTALL, addresses: new Map() }, "ours")[0]?.endsWith(": none"), true);
});

test("without holders nothing is refused", () => {
  assert.deepEqual(refusal([], new Map()), []);
});

const EXAMPLE = found(
  pod("web-1", { owner: ["ReplicaSet", "web-5d4f6"], hash: "5d4f6", ips: [OURS] }),
  pod("api-1", { namespace: "other", owner: ["StatefulSet", "api"], ips: [OURS] }),
  pod("plain-1", { namespace: "other", owner: ["DaemonSet", "plain"], owned: "192.0.2.1 x1 (0123456789ab)" }),
  pod("job-1", { owner: ["Job", "job"], ips: [OURS] }),
  pod("bare", { ips: [OURS] }),
);

test("restarts the permitted holders, and tells what to do about the others", () => {
  assert.deepEqual(describePlan(planUninstall(EXAMPLE, INSTALL), INSTALL, "ours"), [
    `Addresses that the uninstall frees: ${OURS} (switchback-nginx)`,
    "1. The webhook configuration switchback-webhook is deleted: new pods are no longer injected.",
    "2. These are restarted:",
    "     shop/Deployment/web (web-1)",
    "   These hold addresses of Switchback, and you have to recreate them:",
    "     other/StatefulSet/api (api-1): other is not in restart.namespaces or optIn.namespaces: restart it",
    "     shop/Job/job (job-1): a Job is not restarted: delete its pods",
    "     shop/Pod/bare: nothing recreates it: delete it",
    "   These keep names that have addresses of an ingress controller itself:",
    "     other/DaemonSet/plain (plain-1)",
    "3. Controller, webhook and proxy, the front Services, the map, the certificates and the Lease are deleted.",
    "Left: the namespace ours.",
  ]);
});

test("without holders the plan is short", () => {
  const lines = describePlan(planUninstall([], INSTALL), INSTALL, "ours");
  assert.deepEqual([lines.length, lines[2]], [5, "2. These are restarted: none"]);
});

test("a refusal names the workloads that still hold an address, and why", () => {
  const names = Array.from({ length: 7 }, (_, index) => `web-${index}`);
  const many = found(...names.map((name) => pod(name, { owner: ["StatefulSet", "web"], ips: [OURS] })));
  assert.deepEqual(refusal(many, new Map([["shop/StatefulSet/web", { code: "paused", text: "resume it" }]])), [
    "still held:",
    "  shop/StatefulSet/web (web-0, web-1, web-2, web-3, web-4, and 2 more): resume it",
  ]);
  assert.match(refusal(many, new Map())[1] ?? "", /its old pods are still there$/);
  assert.deepEqual(
    [countPods(many), countPods(many.map((holder) => ({ ...holder, pods: ["p"] })))],
    ["7 pods hold addresses", "1 pod holds addresses"],
  );
});

test("a pod holds its nameservers if they are Switchback's or come from pod DNS: without them it has no DNS", () => {
  const resolving = (name: string, nameservers: string[], recorded?: string, dnsPolicy = "None"): RawPod => {
    const raw = pod(name, {});
    const annotations = recorded === undefined ? {} : { "switchback.dev/resolvers": recorded };
    return { ...raw, metadata: { ...raw.metadata, annotations }, spec: { dnsPolicy, dnsConfig: { nameservers } } };
  };
  const holders = found(
    resolving("a", ["192.0.2.1", OURS]),
    resolving("b", ["192.0.2.7", "192.0.2.8"], "192.0.2.7 192.0.2.8"),
    resolving("c", ["192.0.2.7"]),
    resolving("d", ["192.0.2.7"], "192.0.2.9"),
    resolving("e", ["192.0.2.7"], "192.0.2.7", "ClusterFirst"),
  );
  assert.deepEqual(
    holders.map(({ name, addresses }) => [name, addresses]),
    [
      ["a", [OURS]],
      ["b", ["192.0.2.7", "192.0.2.8"]],
    ],
  );
});
