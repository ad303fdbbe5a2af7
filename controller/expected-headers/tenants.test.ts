import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout } from "node:timers/promises";
import type { HeaderAnswer, ReportedAnswer } from "#lib/documents/header-questions.ts";
import { answeringProxy, putProxy } from "#test/fakes/answering-proxy.ts";
import { configMaps, controllerRig, lines } from "#test/fakes/controller-rig.ts";
import { MemoryKube } from "#test/fakes/memory-kube.ts";
import { questionsIn } from "#test/published.ts";

// A tenant chooses what is behind its own Service: a program that pretends to demand a header, other Services, nodes,
// or nothing.

const SHOP = "shop.example.com";
const OWN_NAME = "tenant.example.net";

/** A Service of type LoadBalancer, and an Ingress with its address. */
function putBalancer(kube: MemoryKube, namespace: string, index: number, hosts: readonly string[]): void {
  const metadata = { creationTimestamp: `2026-01-0${index}T00:00:00Z` };
  const ingress = [{ ip: `192.0.2.${index}` }];
  kube.put(`/api/v1/namespaces/${namespace}/services/lb`, {
    metadata,
    spec: { type: "LoadBalancer", clusterIPs: [`198.51.100.${index}`], ports: [{ port: 443, protocol: "TCP" }] },
    status: { loadBalancer: { ingress } },
  });
  kube.put(`/apis/networking.k8s.io/v1/namespaces/${namespace}/ingresses/web`, {
    metadata,
    spec: { ingressClassName: namespace, rules: hosts.map((host) => ({ host })) },
    status: { loadBalancer: { ingress } },
  });
}

test("the answer of a tenant's Service affects only the tenant's own names", async (t) => {
  const kube = new MemoryKube();
  let tenants: HeaderAnswer = "unknown";
  let ticks = Date.parse("2026-11-26T05:00:00Z");
  const questions = () => questionsIn(configMaps(kube));
  const answers = (): ReportedAnswer[] =>
    questions().map(({ target, port, namespace }) => {
      const answer = namespace === "tenant" ? tenants : "demands-v1";
      return { target, port, answer, at: new Date(ticks).toISOString() };
    });
  const healthPort = await answeringProxy(t, { answers, listening: () => questions().map(({ target }) => target) });
  const rig = await controllerRig(t, {
    kube,
    config: { discovery: { detect: true }, proxy: { healthPort }, map: { vanishSeconds: 0 } },
    upstream: false,
    prepare: () => {
      putProxy(kube);
      putBalancer(kube, "edge", 1, [SHOP]);
      putBalancer(kube, "tenant", 2, [OWN_NAME, SHOP]);
    },
  });
  /** Whether the name is mapped, and the reason code of the tenant's claim. */
  const of = async (name: string) => {
    const { names } = await rig.status();
    const claim = names.find((each) => each.name === name && each.from.namespace === "tenant");
    const mapped = lines(rig)
      .split("\n")
      .some((line) => line.split(/\s/).includes(name));
    return { mapped, code: claim?.reason?.code };
  };
  for (const [answer, mapped, code] of [
    ["unknown", false, "header-unknown"],
    ["demands-v2", true, undefined],
    ["refuses-header", false, "header-not-expected"],
    ["optional", true, undefined],
  ] as const) {
    tenants = answer;
    ticks += 60_000;
    let own = await of(OWN_NAME);
    for (let tries = 0; tries < 500; tries += 1) {
      if (own.mapped === mapped && own.code === code && lines(rig).includes(SHOP)) break;
      await setTimeout(20);
      own = await of(OWN_NAME);
    }
    assert.deepEqual([own.mapped, own.code], [mapped, code], answer);
    const { names, targets } = await rig.status();
    const shop = names.find(({ name, target }) => name === SHOP && target !== undefined);
    const protocol = targets.find(({ name }) => name === shop?.target)?.ports[0]?.protocol;
    assert.deepEqual([shop?.from.namespace, protocol], ["edge", "v1"], answer);
  }
});
