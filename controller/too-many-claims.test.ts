import assert from "node:assert/strict";
import { test } from "node:test";
import { controllerRig, lines, putIngress, untilPublished } from "#test/fakes/controller-rig.ts";
import type { MemoryKube } from "#test/fakes/memory-kube.ts";

// The budget of claims, in a whole controller.

const QUOTA = 20;
const config = { policy: { maxNamesPerNamespace: QUOTA } };
const hosts = (count: number) => Array.from({ length: count }, (_, index) => `${index}.shop.example.com`);

test("an Ingress has more hosts than are kept: its owner reads it in the status, a metric counts them", async (t) => {
  const rig = await controllerRig(t, { config, prepare: (kube) => putIngress(kube, hosts(100)) });
  await untilPublished(rig, "0.shop.example.com");
  const { names } = await rig.status();
  const codes = Map.groupBy(names, ({ reason }) => reason?.code ?? "mapped");
  const counts = Object.fromEntries([...codes].map(([code, { length }]) => [code, length]));
  assert.deepEqual(counts, { mapped: QUOTA, "namespace-quota": 3 * QUOTA, "too-many-claims": 1 });
  const { text } = await rig.page("/metrics");
  assert.match(text, /^switchback_controller_claims_left_out_total [1-9]/m);
});

test("a controller that starts among more claims than fit keeps the published names of younger objects", async (t) => {
  const young = "young.example.com";
  const first = await controllerRig(t, { config, prepare: (kube) => putIngress(kube, [young]) });
  await untilPublished(first, young);
  await first.stop();
  putOlder(first.kube);
  const second = await controllerRig(t, { config, kube: first.kube, prepare: () => {} });
  await untilPublished(second, "0.shop.example.com");
  const isMapped = async () =>
    (await second.status()).names.some(({ name, target }) => name === young && target !== undefined);
  // The namespace is listed again once the published names are known.
  while (!(await isMapped()));
  assert.ok(lines(second).includes(young));
});

/** An older Ingress that alone has more hosts than are kept. */
function putOlder(kube: MemoryKube): void {
  kube.put("/apis/networking.k8s.io/v1/namespaces/shop/ingresses/older", {
    metadata: { creationTimestamp: "2025-01-01T00:00:00Z" },
    spec: { ingressClassName: "nginx", rules: hosts(100).map((host) => ({ host })) },
    status: { loadBalancer: { ingress: [{ ip: "192.0.2.80", ipMode: "VIP" }] } },
  });
}
