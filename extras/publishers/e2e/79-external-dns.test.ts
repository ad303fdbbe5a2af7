import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { dnsEndpointDefinition } from "#test/cluster/addons/definitions.ts";
import { setText } from "#test/cluster/addons/internet.ts";
import { namespace, serviceAccount } from "#test/cluster/addons/objects.ts";
import type { Cluster, KubeObject } from "#test/cluster/cluster.ts";
import { kubeconfigText } from "#test/cluster/kubeconfig.ts";
import { COREFILE } from "#test/cluster/node/coredns.ts";
import { ADDRESSES, API_URL, statePath } from "#test/cluster/node/layout.ts";
import { inNamespace } from "#test/cluster/node/run.ts";
import { withCluster } from "#test/cluster/whole.ts";
import { clusterTarget } from "#test/e2e/cluster-target.ts";
import { othersObjects } from "#test/e2e/objects.ts";
import { programCommand, programDeployment } from "#test/e2e/programs/run.ts";
import {
  certificateIsReady,
  closeShop,
  createIssuer,
  ingress,
  isCertificateReady,
  nameOf,
  openShop,
  orderCertificate,
  SHOP,
} from "#test/e2e/shop.ts";
import { frontAddress, installSwitchback, restoreCertManager, SYSTEM } from "#test/e2e/switchback.ts";
import { ExternalDns } from "./external-dns.ts";

// Names through a real external-dns: it writes records from our DNSEndpoints into an etcd that the cluster's CoreDNS
// serves. A Certificate becomes Ready although no pod has opted in, DNS-01 is unchanged, and nothing is left behind.

export const needs = ["node", "ipv4", "long", "external-dns"];

const ZONE = "example.com";
const PENDING = `pending.${ZONE}`;
/** A name that no other file uses: it must not be mapped before. */
const LATER = `recorded.${ZONE}`;
const OTHER_TYPES = ["NS", "SOA", "TXT", "MX", "CAA"];
const ACCOUNT = "external-dns";
const { className, target } = clusterTarget();
/** Longer than external-dns takes to notice that its objects are gone. */
const REMOVE_WAIT_SECONDS = 20;

let cluster: Cluster;
let front: string;
let folder: string;
let externalDns: ExternalDns;
let others: Record<string, string>;

before(async () => {
  cluster = await withCluster();
  await restoreCertManager(cluster);
  await openShop(cluster);
  await createIssuer(cluster);
  await installSwitchback(cluster);
  front = await frontAddress(cluster, target);
  await cluster.apply(programDeployment(SHOP, "asker", programCommand("client", "sleep")));
  await cluster.rolledOut(SHOP, "deployment/asker");
  await definition("apply", "--server-side");
  await cluster.kubectl("wait", "--for=condition=Established", "--timeout=30s", `crd/${CRD}`);
  await cluster.apply(...RIGHTS);
  folder = await mkdtemp(join(tmpdir(), "switchback-external-dns-"));
  externalDns = await ExternalDns.start({
    address: ADDRESSES.node,
    kubeconfig: await kubeconfig(),
    namespace: SYSTEM,
    zone: ZONE,
    within: (command, args) => inNamespace("node", command, args),
  });
});
after(async () => {
  await externalDns?.stop();
  if (folder !== undefined) await rm(folder, { recursive: true, force: true });
  for (const name of [PENDING, LATER]) await closeShop(cluster, name, className);
  await cluster.delete(programDeployment(SHOP, "asker", programCommand("client", "sleep")), ...RIGHTS);
  await setCorefile(COREFILE);
  await installSwitchback(cluster);
  await definition("delete", "--ignore-not-found");
});

const CRD = "dnsendpoints.externaldns.k8s.io";

async function definition(...command: string[]): Promise<void> {
  const { code, stderr } = await cluster.tool("kubectl", [...command, "-f", "-"], await dnsEndpointDefinition());
  assert.equal(code, 0, stderr);
}

/**
 * A kubeconfig with a token of external-dns' account. Here external-dns does not run in a pod, which would have one.
 */
async function kubeconfig(): Promise<string> {
  const token = (await cluster.kubectl("-n", ACCOUNT, "create", "token", ACCOUNT)).trim();
  const path = join(folder, "kubeconfig");
  await writeFile(path, kubeconfigText(API_URL, await readFile(statePath("ca.crt"), "utf8"), { token }), {
    mode: 0o600,
  });
  return path;
}

/** The output of a command in a pod that has not opted in. */
async function asked(...args: string[]): Promise<string> {
  return (await cluster.exec(`${SHOP}/deployment/asker`, ...programCommand("client", ...args))).stdout.trim();
}

const records = (name: string) => asked("records", OTHER_TYPES.join(), name);
const isPublished = async (name: string) => (await asked("resolve", name)) === `${name} ${front}`;

/** Restarts CoreDNS: a new pod reads the Corefile at once, while the kubelet and `reload` take a minute. */
async function setCorefile(text: string): Promise<void> {
  const patch = JSON.stringify({ data: { Corefile: text } });
  await cluster.kubectl("-n", "kube-system", "patch", "configmap", "coredns", "--type=merge", "-p", patch);
  await cluster.kubectl("-n", "kube-system", "rollout", "restart", "deployment/coredns");
  await cluster.rolledOut("kube-system", "deployment/coredns");
}

/**
 * The plugin `etcd` has a SOA for every name of its zone, which misleads DNS-01. So it only gets questions for
 * addresses.
 */
const corefile = (endpoint: string) => `${ZONE}:53 {
    view addresses {
       expr type() in ['A', 'AAAA']
    }
    errors
    etcd {
       path /skydns
       endpoint ${endpoint}
       fallthrough
    }
    forward . /etc/resolv.conf
}
${COREFILE}`;

const dnsEndpoints = async () => (await cluster.kubectl("get", "dnsendpoints", "-A", "-o", "name")).trim();

const publisher = (enabled: boolean) =>
  installSwitchback(cluster, {
    config: { publishers: { externalDns: { enabled, removeWaitSeconds: REMOVE_WAIT_SECONDS } } },
  });

const seconds = (since: number) => `${((performance.now() - since) / 1000).toFixed(1)} s`;

test("a waiting Certificate becomes Ready although no pod has opted in, and DNS-01 is unchanged", async (t) => {
  const names = [PENDING, `_acme-challenge.${PENDING}`];
  await setText(cluster, `_acme-challenge.${PENDING}`, "token");
  const answers = () => Promise.all(names.map(records));
  const before = await answers();
  assert.match(before[1] ?? "", /token/);
  await setCorefile(corefile(externalDns.endpoint));
  assert.deepEqual(await answers(), before);
  others = await othersObjects(cluster);
  await cluster.apply(ingress(nameOf(PENDING), PENDING, className, "pending-tls"));
  await orderCertificate(cluster, PENDING, "pending-tls");
  await cluster.until("a Challenge with a failed self-check", 60, async () => {
    const reasons = ["-n", SHOP, "get", "challenges", "-o", "jsonpath={.items[*].status.reason}"];
    return /self check.*pending\.example\.com/.test(await cluster.kubectl(...reasons)) || undefined;
  });
  assert.equal(await isCertificateReady(cluster, "pending-tls"), false);
  assert.equal(await isPublished(PENDING), false);
  const on = performance.now();
  await publisher(true);
  await certificateIsReady(cluster, "pending-tls");
  t.diagnostic(`switched on to the Certificate being Ready: ${seconds(on)}`);
  assert.equal(await isPublished(PENDING), true);
  assert.deepEqual(await answers(), before);
});

test("a name that is added later is soon there", async (t) => {
  const created = performance.now();
  await cluster.apply(ingress(nameOf(LATER), LATER, className));
  await cluster.until("a pod that did not opt in resolves it to the relay", 60, async () => {
    return (await isPublished(LATER)) || undefined;
  });
  t.diagnostic(`Ingress created to the cluster's DNS answering: ${seconds(created)}`);
});

test("after switching off, the objects and their records are gone, and all else is as it was", async (t) => {
  assert.notEqual(await dnsEndpoints(), "");
  assert.notDeepEqual(await externalDns.keys(), []);
  const off = performance.now();
  await publisher(false);
  t.diagnostic(`switched off: ${seconds(off)}`);
  assert.equal(await dnsEndpoints(), "");
  assert.deepEqual(await externalDns.keys(), []);
  for (const name of [PENDING, LATER]) assert.equal(await isPublished(name), false, name);
  for (const name of [PENDING, LATER]) await closeShop(cluster, name, className);
  assert.deepEqual(await othersObjects(cluster), others);
});

const metadata = { namespace: SYSTEM, name: ACCOUNT };
/** The rights that external-dns' own chart gives for this source. */
const RIGHTS: readonly KubeObject[] = [
  namespace(ACCOUNT),
  serviceAccount(ACCOUNT, ACCOUNT),
  {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "Role",
    metadata,
    rules: [
      { apiGroups: ["externaldns.k8s.io"], resources: ["dnsendpoints"], verbs: ["get", "list", "watch"] },
      { apiGroups: ["externaldns.k8s.io"], resources: ["dnsendpoints/status"], verbs: ["update"] },
    ],
  },
  {
    apiVersion: "rbac.authorization.k8s.io/v1",
    kind: "RoleBinding",
    metadata,
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name: ACCOUNT },
    subjects: [{ kind: "ServiceAccount", namespace: ACCOUNT, name: ACCOUNT }],
  },
];
