import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { after, before, test } from "node:test";
import { CERT_MANAGER } from "#test/cluster/addons/cert-manager.ts";
import { setText } from "#test/cluster/addons/internet.ts";
import type { Cluster } from "#test/cluster/cluster.ts";
import { COREFILE } from "#test/cluster/node/coredns.ts";
import { NODE_HOSTS, statePath } from "#test/cluster/node/layout.ts";
import { withCluster } from "#test/cluster/whole.ts";
import { clusterTarget } from "#test/e2e/cluster-target.ts";
import { othersObjects } from "#test/e2e/objects.ts";
import { programCommand, programDeployment } from "#test/e2e/programs/run.ts";
import {
  certificateIsReady,
  closeShop,
  createIssuer,
  ingress,
  nameOf,
  openShop,
  orderCertificate,
  SHOP,
} from "#test/e2e/shop.ts";
import { frontAddress, installSwitchback, restoreCertManager, SYSTEM, withAgent } from "#test/e2e/switchback.ts";

// Names in the cluster's own DNS, and in the hosts file of its node. Each of the three ways makes a Certificate Ready
// although no pod has opted in, and leaves all other objects of the cluster unchanged.

export const needs = ["node", "ipv4"];

const BY_COREDNS = "published.example.com";
const BY_IMPORT = "imported.example.com";
const BY_NODE = "node.example.com";
const OTHER_TYPES = ["NS", "SOA", "TXT", "MX", "CAA"];
const { className, target } = clusterTarget();
const COREDNS = "deployment/coredns";
/** cert-manager's controller, which makes the self-checks. */
const ISSUING = "deployment/cert-manager";
const CONTROLLER = ["-l", "app.kubernetes.io/component=controller"];
/** Makes an uninstall continue although pods may hold our addresses. */
const FORCED = { uninstall: { force: true } };
const OF_NODE = "127.0.0.1\tlocalhost\n192.0.2.1\tnode\n";
/** As in k3s, but with more frequent reloads: the test with kubeadm's Corefile measures the time. */
const IMPORTING = `${COREFILE.replace("    reload\n", "    reload 2s 1s\n")}import custom/*.server\n`;

let cluster: Cluster;
let front: string;

before(async () => {
  cluster = await withCluster();
  await restoreCertManager(cluster);
  await openShop(cluster);
  await createIssuer(cluster);
  await installSwitchback(cluster);
  front = await frontAddress(cluster, target);
  await cluster.apply(programDeployment(SHOP, "asker", programCommand("client", "sleep")));
  await cluster.rolledOut(SHOP, "deployment/asker");
});
after(async () => {
  for (const name of [BY_COREDNS, BY_IMPORT, BY_NODE]) await closeShop(cluster, name, className);
  await cluster.delete(programDeployment(SHOP, "asker", programCommand("client", "sleep")));
  await setCorefile(COREFILE);
  const volumes = [
    { name: "config", configMap: { name: "coredns" } },
    { name: "custom", $patch: "delete" },
  ];
  const mounts = [{ mountPath: "/etc/coredns/custom", $patch: "delete" }];
  await patchPods("kube-system", COREDNS, { volumes, containers: [{ name: "coredns", volumeMounts: mounts }] });
  await patchPods(CERT_MANAGER, ISSUING, { hostNetwork: null, dnsPolicy: null });
  await installSwitchback(cluster);
});

/** The output of a command in a pod that has not opted in. */
async function asked(...args: string[]): Promise<string> {
  return (await cluster.exec(`${SHOP}/deployment/asker`, ...programCommand("client", ...args))).stdout.trim();
}

const records = (name: string) => asked("records", OTHER_TYPES.join(), name);
const resolved = (name: string) => asked("resolve", name);

async function setCorefile(text: string): Promise<void> {
  const patch = JSON.stringify({ data: { Corefile: text } });
  await cluster.kubectl("-n", "kube-system", "patch", "configmap", "coredns", "--type=merge", "-p", patch);
}

/** Changes the pods of a Deployment. */
async function patchPods(namespace: string, deployment: string, spec: object): Promise<void> {
  const patch = JSON.stringify({ spec: { template: { spec } } });
  await cluster.kubectl("-n", namespace, "patch", deployment, "--type=strategic", "-p", patch);
  await cluster.rolledOut(namespace, deployment);
}

const publishing = (section: string, more: object = {}) => ({
  config: { publishers: { [section]: { enabled: true } } },
  ...more,
});

/**
 * From an Ingress to a Certificate, which is ordered once `isPublished` is true. DNS-01 gets the same records before
 * and after. The Ingress stays, so that the name stays mapped.
 */
async function isHealed(name: string, isPublished: () => Promise<boolean>, say: (line: string) => void): Promise<void> {
  await setText(cluster, `_acme-challenge.${name}`, "token");
  const before = [await records(name), await records(`_acme-challenge.${name}`)];
  assert.match(before[1] ?? "", /token/);
  const created = performance.now();
  await cluster.apply(ingress(nameOf(name), name, className, `${nameOf(name)}-tls`));
  await cluster.until(`${name} is published`, 150, async () => (await isPublished()) || undefined);
  say(`Ingress created to ${name} published: ${((performance.now() - created) / 1000).toFixed(1)} s`);
  await orderCertificate(cluster, name, `${nameOf(name)}-tls`);
  await certificateIsReady(cluster, `${nameOf(name)}-tls`);
  assert.deepEqual([await records(name), await records(`_acme-challenge.${name}`)], before);
}

/** The publishers' documents. */
const documents = async () =>
  (await cluster.kubectl("-n", SYSTEM, "get", "configmaps", "-l", "switchback.dev/publisher", "-o", "name")).trim();

/** Whether a pod that has not opted in resolves the name to the relay. */
const isAnswered = async (name: string) => (await resolved(name)) === `${name} ${front}`;

test("coredns: in kubeadm's Corefile, without an import: a Certificate is Ready, DNS-01 is unchanged", async (t) => {
  const before = await othersObjects(cluster);
  await installSwitchback(cluster, publishing("coredns"));
  await isHealed(BY_COREDNS, () => isAnswered(BY_COREDNS), t.diagnostic.bind(t));
  const off = performance.now();
  await installSwitchback(cluster);
  t.diagnostic(`switched off to the cluster's DNS not answering: ${((performance.now() - off) / 1000).toFixed(1)} s`);
  assert.equal(await isAnswered(BY_COREDNS), false);
  await closeShop(cluster, BY_COREDNS, className);
  assert.deepEqual(await othersObjects(cluster), before);
  assert.equal(await documents(), "");
});

test("coredns-import: in a ConfigMap that the Corefile imports; an uninstall waits until DNS forgot it", async (t) => {
  await setCorefile(IMPORTING);
  const custom = { name: "custom", configMap: { name: "coredns-custom", optional: true } };
  const mounts = [{ name: "custom", mountPath: "/etc/coredns/custom", readOnly: true }];
  await patchPods("kube-system", COREDNS, {
    volumes: [custom],
    containers: [{ name: "coredns", volumeMounts: mounts }],
  });
  const before = await othersObjects(cluster);
  await installSwitchback(cluster, publishing("corednsImport", FORCED));
  await isHealed(BY_IMPORT, () => isAnswered(BY_IMPORT), t.diagnostic.bind(t));
  await cluster.helm("uninstall", "switchback", "--namespace", SYSTEM);
  assert.equal(await isAnswered(BY_IMPORT), false);
  assert.equal(await documents(), "");
  await closeShop(cluster, BY_IMPORT, className);
  assert.deepEqual(await othersObjects(cluster), before);
});

test("node-hosts: in the node's hosts file, which pods on its network inherit; an uninstall clears both", async (t) => {
  await writeFile(NODE_HOSTS, OF_NODE);
  await patchPods(CERT_MANAGER, ISSUING, { hostNetwork: true, dnsPolicy: "ClusterFirstWithHostNet" });
  const before = await othersObjects(cluster, { podsToo: false });
  const untouched = await podHosts();
  assert.ok(untouched.includes(OF_NODE), untouched);
  await installSwitchback(cluster, {
    ...withAgent({ nodeHosts: { names: [BY_NODE], hostPath: NODE_HOSTS } }),
    ...FORCED,
  });
  front = await frontAddress(cluster, target);
  const isPublished = async () => {
    if (!(await readFile(NODE_HOSTS, "utf8")).includes(`${front}\t${BY_NODE}\t`)) return false;
    // The kubelet copies the file when a pod starts.
    await cluster.kubectl("-n", CERT_MANAGER, "delete", "pods", ...CONTROLLER);
    await cluster.rolledOut(CERT_MANAGER, ISSUING);
    return (await podHosts()).includes(BY_NODE);
  };
  await isHealed(BY_NODE, isPublished, t.diagnostic.bind(t));
  await cluster.helm("uninstall", "switchback", "--namespace", SYSTEM);
  assert.equal(await readFile(NODE_HOSTS, "utf8"), OF_NODE);
  assert.equal(await podHosts(), untouched);
  await closeShop(cluster, BY_NODE, className);
  assert.deepEqual(await othersObjects(cluster, { podsToo: false }), before);
});

/** The hosts file of cert-manager's controller. */
async function podHosts(): Promise<string> {
  const { items } = await cluster.get<{ items: Array<{ metadata: { uid: string; deletionTimestamp?: string } }> }>(
    ...["-n", CERT_MANAGER, "pods", ...CONTROLLER],
  );
  const running = items.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  assert.equal(running.length, 1);
  return await readFile(statePath("kubelet", "pods", running[0]?.metadata.uid ?? "", "etc-hosts"), "utf8");
}
