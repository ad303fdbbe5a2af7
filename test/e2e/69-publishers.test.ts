import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setText } from "../cluster/addons/internet.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { COREFILE } from "../cluster/node/coredns.ts";
import { withCluster } from "../cluster/whole.ts";
import { programCommand, programDeployment } from "./programs/run.ts";
import { certificateIsReady, ingress, openShop, orderCertificate, SHOP } from "./shop.ts";
import { frontAddress, installSwitchback, SYSTEM } from "./switchback.ts";
import { where } from "./where.ts";

// The names in the cluster's own DNS: each publisher heals a Certificate by itself, with nobody opted in, and leaves nothing behind.

const BY_COREDNS = "published.example.com";
const BY_IMPORT = "imported.example.com";
const OTHER_TYPES = ["NS", "SOA", "TXT", "MX", "CAA"];
const { className, target } = where();
const COREDNS = "deployment/coredns";
/** As k3s has it, and looked at more often: what takes the time is measured with kubeadm's. */
const IMPORTING = `${COREFILE.replace("    reload\n", "    reload 2s 1s\n")}import custom/*.server\n`;

let cluster: Cluster;
let front: string;

before(async () => {
  cluster = await withCluster();
  await openShop(cluster);
  await installSwitchback(cluster);
  front = await frontAddress(cluster, target);
  await cluster.apply(programDeployment(SHOP, "asker", programCommand("client", "sleep")));
  await cluster.rolledOut(SHOP, "deployment/asker");
});
after(async () => {
  for (const name of [BY_COREDNS, BY_IMPORT]) await cluster.delete(ingress(nameOf(name), name, className));
  await cluster.delete(programDeployment(SHOP, "asker", programCommand("client", "sleep")));
  await setCorefile(COREFILE);
  const volumes = [
    { name: "config", configMap: { name: "coredns" } },
    { name: "custom", $patch: "delete" },
  ];
  const mounts = [{ mountPath: "/etc/coredns/custom", $patch: "delete" }];
  await patchCoreDns({ volumes, containers: [{ name: "coredns", volumeMounts: mounts }] });
  await installSwitchback(cluster);
});

const nameOf = (name: string) => name.slice(0, name.indexOf("."));

/** What a pod that opted in to nothing gets. */
async function asked(...args: string[]): Promise<string> {
  return (await cluster.exec(`${SHOP}/deployment/asker`, ...programCommand("client", ...args))).stdout.trim();
}

const records = (name: string) => asked("records", OTHER_TYPES.join(), name);
const resolved = (name: string) => asked("resolve", name);

async function setCorefile(text: string): Promise<void> {
  const patch = JSON.stringify({ data: { Corefile: text } });
  await cluster.kubectl("-n", "kube-system", "patch", "configmap", "coredns", "--type=merge", "-p", patch);
}

async function patchCoreDns(spec: object): Promise<void> {
  const patch = JSON.stringify({ spec: { template: { spec } } });
  await cluster.kubectl("-n", "kube-system", "patch", COREDNS, "--type=strategic", "-p", patch);
  await cluster.rolledOut("kube-system", COREDNS);
}

/** Everything of the namespace of the cluster's DNS that a publisher could touch, without what the API server counts. */
async function kubeSystem(): Promise<unknown> {
  const { items } = await cluster.get<{ items: Array<{ metadata: Record<string, unknown> }> }>(
    ...["-n", "kube-system", "configmaps,roles,rolebindings"],
  );
  return items.map(({ metadata: { resourceVersion: _, managedFields: _fields, ...metadata }, ...rest }) => ({
    ...rest,
    metadata,
  }));
}

const publishing = (section: string, more: object = {}) => ({
  config: { publishers: { [section]: { enabled: true } } },
  ...more,
});

/** From an Ingress to the cluster's DNS, with the Certificate that needs it. */
async function isHealed(name: string, say: (line: string) => void): Promise<void> {
  await setText(cluster, `_acme-challenge.${name}`, "token");
  const before = [await records(name), await records(`_acme-challenge.${name}`)];
  assert.match(before[1] ?? "", /token/);
  const created = performance.now();
  await cluster.apply(ingress(nameOf(name), name, className, `${nameOf(name)}-tls`));
  await cluster.until("a pod that did not opt in resolves the name to the relay", 150, async () => {
    return (await resolved(name)) === `${name} ${front}` || undefined;
  });
  say(`Ingress created to the cluster's DNS answering: ${((performance.now() - created) / 1000).toFixed(1)} s`);
  await orderCertificate(cluster, name, `${nameOf(name)}-tls`);
  await certificateIsReady(cluster, `${nameOf(name)}-tls`);
  assert.deepEqual([await records(name), await records(`_acme-challenge.${name}`)], before);
}

test("coredns: in kubeadm's Corefile, which imports nothing, a Certificate is healed, and DNS-01 sees what it saw", async (t) => {
  const before = await kubeSystem();
  await installSwitchback(cluster, publishing("coredns"));
  await isHealed(BY_COREDNS, t.diagnostic.bind(t));
  const off = performance.now();
  await installSwitchback(cluster);
  t.diagnostic(`switched off to the cluster's DNS not answering: ${((performance.now() - off) / 1000).toFixed(1)} s`);
  assert.notEqual(await resolved(BY_COREDNS), `${BY_COREDNS} ${front}`);
  assert.deepEqual(await kubeSystem(), before);
  const documents = ["-n", SYSTEM, "get", "configmaps", "-l", "switchback.dev/publisher", "-o", "name"];
  assert.equal((await cluster.kubectl(...documents)).trim(), "");
});

test("coredns-import: in a ConfigMap that the Corefile imports; an uninstall waits until the DNS has forgotten it", async (t) => {
  await setCorefile(IMPORTING);
  const custom = { name: "custom", configMap: { name: "coredns-custom", optional: true } };
  const mounts = [{ name: "custom", mountPath: "/etc/coredns/custom", readOnly: true }];
  await patchCoreDns({ volumes: [custom], containers: [{ name: "coredns", volumeMounts: mounts }] });
  const before = await kubeSystem();
  await installSwitchback(cluster, publishing("corednsImport", { uninstall: { force: true } }));
  await isHealed(BY_IMPORT, t.diagnostic.bind(t));
  await cluster.helm("uninstall", "switchback", "--namespace", SYSTEM);
  assert.notEqual(await resolved(BY_IMPORT), `${BY_IMPORT} ${front}`);
  assert.deepEqual(await kubeSystem(), before);
});
