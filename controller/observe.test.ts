import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { parseConfig } from "#lib/config/parse.ts";
import { controllerRig, NAME, untilPublished } from "#test/fakes/controller-rig.ts";
import type { MemoryKube } from "#test/fakes/memory-kube.ts";
import { observe } from "./observe.ts";

/** A target of a namespace, and its Ingress for the name. */
function put(kube: MemoryKube, namespace: string, ip: string, created: string): void {
  const metadata = { creationTimestamp: created };
  const loadBalancer = { ingress: [{ ip, ipMode: "VIP" }] };
  putIngress(kube, namespace, { metadata, status: { loadBalancer } });
  kube.put(`/api/v1/namespaces/${namespace}/services/edge`, {
    metadata,
    spec: { type: "LoadBalancer", clusterIPs: [`198.51.100.${namespace.length}`], ports: [{ port: 443 }] },
    status: { loadBalancer },
  });
}

function putIngress(kube: MemoryKube, namespace: string, rest: { metadata: object; status: object }): void {
  const spec = { ingressClassName: namespace, rules: [{ host: NAME }] };
  kube.put(`/apis/networking.k8s.io/v1/namespaces/${namespace}/ingresses/web`, { spec, ...rest });
}

/** The cluster of a controller that has published the name for the namespace `shop`, and runs no more. */
async function published(t: TestContext): Promise<MemoryKube> {
  const prepare = (kube: MemoryKube) => put(kube, "shop", "192.0.2.80", "2026-01-01T00:00:00Z");
  const rig = await controllerRig(t, { prepare, upstream: false });
  await untilPublished(rig);
  await rig.stop();
  return rig.kube;
}

async function namesIn(kube: MemoryKube) {
  const config = parseConfig({ policy: { verifyDns: "off" }, discovery: { detect: false } });
  const within = { withinMs: 10_000, stuckMs: 1_000 };
  const { client } = kube;
  return (await observe(config, { client, clusterDomain: "cluster.local", identity: "observer", ...within })).names;
}

test("an observer that never leads keeps a published name whose object lost its evidence, and warns", async (t) => {
  const kube = await published(t);
  putIngress(kube, "shop", { metadata: { creationTimestamp: "2026-01-01T00:00:00Z" }, status: {} });
  const [name] = await namesIn(kube);
  assert.deepEqual([name?.reason, name?.warning?.code], [undefined, "kept"]);
});
