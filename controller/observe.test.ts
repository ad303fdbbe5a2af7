import assert from "node:assert/strict";
import { test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { controllerRig, NAME, untilPublished } from "#test/fakes/controller-rig.ts";
import type { MemoryKube } from "#test/fakes/memory-kube.ts";
import { observe } from "./observe.ts";

/** Two targets, with an Ingress of each of two namespaces for one name. */
function put(kube: MemoryKube, namespace: string, ip: string, created: string): void {
  const metadata = { creationTimestamp: created };
  const loadBalancer = { ingress: [{ ip, ipMode: "VIP" }] };
  kube.put(`/apis/networking.k8s.io/v1/namespaces/${namespace}/ingresses/web`, {
    metadata,
    spec: { ingressClassName: namespace, rules: [{ host: NAME }] },
    status: { loadBalancer },
  });
  kube.put(`/api/v1/namespaces/${namespace}/services/edge`, {
    metadata,
    spec: { type: "LoadBalancer", clusterIPs: [`198.51.100.${namespace.length}`], ports: [{ port: 443 }] },
    status: { loadBalancer },
  });
}

test("an observer that never leads gives a published name to its holder, and not to an older object", async (t) => {
  const prepare = (kube: MemoryKube) => put(kube, "shop", "192.0.2.80", "2026-01-01T00:00:00Z");
  const rig = await controllerRig(t, { prepare, upstream: false });
  await untilPublished(rig);
  await rig.stop();
  put(rig.kube, "tenant", "192.0.2.90", "2020-01-01T00:00:00Z");
  const writes = rig.kube.writes.length;
  const config = parseConfig({ policy: { verifyDns: "off" }, discovery: { detect: false } });
  const { names } = await observe(config, {
    client: rig.kube.client,
    clusterDomain: "cluster.local",
    identity: "observer",
    withinMs: 10_000,
    stuckMs: 1_000,
  });
  const codes = names.map(({ from, reason }) => [from.namespace, reason?.code]);
  assert.deepEqual(Object.fromEntries(codes), { shop: undefined, tenant: "conflict" });
  assert.equal(rig.kube.writes.length, writes);
});
